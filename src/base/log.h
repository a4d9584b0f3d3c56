/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the log that oriel/status.h describes. Any thread. */
#ifndef ORI_BASE_LOG_H
#define ORI_BASE_LOG_H

#include <oriel/status.h>

void ori_log(enum oriel_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
