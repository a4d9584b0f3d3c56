/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of file sizes. memfd.c and wait_page.c ask it before they extend an anonymous file. */
#ifndef ORI_BASE_FILE_LIMIT_H
#define ORI_BASE_FILE_LIMIT_H

#include <stdint.h>
#include <sys/resource.h>

/* In bytes. Beyond it ftruncate() ends the process by SIGXFSZ: setrlimit(2). */
static inline uint64_t ori_file_limit(void)
{
	struct rlimit most;

	return getrlimit(RLIMIT_FSIZE, &most) == 0 ? most.rlim_cur : RLIM_INFINITY;
}

#endif
