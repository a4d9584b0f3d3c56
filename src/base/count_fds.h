/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: counts the open descriptors of this process, to find leaks. */
#ifndef ORI_BASE_COUNT_FDS_H
#define ORI_BASE_COUNT_FDS_H

#include <dirent.h>

static inline unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

#endif
