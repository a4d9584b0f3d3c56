/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for secrets. It is in no core dump, and it is overwritten before it is freed. The job key
 * and the keys that are derived from it lie here.
 */
#ifndef ORI_BASE_SECRET_H
#define ORI_BASE_SECRET_H

#include <stddef.h>

/* Zeroed memory of its own pages; NULL: there is none. Any thread. */
void *ori_secret_alloc(size_t length);
/* @length is that of the allocation. NULL is allowed. */
void ori_secret_free(void *secret, size_t length);

/*
 * Overwrites the value of the variable @name in environ, where it becomes "" in place, since
 * unsetenv() would move pointers under other threads' getenv(), and in /proc/self/environ.
 */
void ori_secret_scrub(const char *name);

#endif
