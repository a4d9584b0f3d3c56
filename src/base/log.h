/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the log that oriel/status.h describes. Every module calls it; any thread. */
#ifndef ORI_BASE_LOG_H
#define ORI_BASE_LOG_H

#include <oriel/status.h>

#define ORI_LOG_NO_RANK UINT32_MAX

/*
 * A record of code that knows no rank. At level debug it begins with the rank of the calling
 * thread, or with that of the process where all its threads have been one rank.
 */
void ori_log(enum oriel_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A record about @rank, which it begins with: "rank 2: ". */
void ori_log_rank(enum oriel_log_level level, unsigned rank, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The calling thread works for @rank from now on. */
void ori_log_set_rank(unsigned rank);

/*
 * A job begins: rank 0 writes the version of the library, once in a process. The calling thread
 * works for @rank from now on.
 */
void ori_log_begin(unsigned rank);

/* Are records of @level written? For texts that are costly to make. */
bool ori_log_has(enum oriel_log_level level);

#endif
