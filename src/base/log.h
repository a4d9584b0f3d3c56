/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the log that oriel/status.h describes. Every module calls it; any thread. */
#ifndef ORI_BASE_LOG_H
#define ORI_BASE_LOG_H

#include <oriel/status.h>

void ori_log(enum oriel_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
