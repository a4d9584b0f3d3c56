/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separation of a forked child from its parent. The child has none of the library's threads, but
 * it has the library's memory, its mappings of peers' memory, and its sockets. Handlers of
 * pthread_atfork() take from the child whatever would harm the parent, so that no hot path calls
 * getpid(). Modules that own such resources call it; any thread, unless said otherwise.
 */
#ifndef ORI_BASE_FORK_H
#define ORI_BASE_FORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * In the child the mapping [@base, @base + @length), which other processes share, becomes
 * private: a copy-on-write view of @fd, from its beginning; or, with @fd -1, zeroed memory. @fd
 * stays open until ori_fork_unshare(). False: no memory.
 */
bool ori_fork_share(void *base, size_t length, int fd);
/* Forget the mapping at @base; the owner calls it before it unmaps the memory. */
void ori_fork_unshare(void *base);

/*
 * In the child the socket @fd is closed, and nothing is sent on it: a socket that stays open
 * there would hide the parent's exit from the peer while the child lives. The owner may close
 * @fd without another call.
 */
void ori_fork_socket(int fd);

/* The order in which hooks are called, which is lock order: outermost locks first. */
enum ori_fork_order {
	ORI_FORK_HELP,
	ORI_FORK_ENV,
	ORI_FORK_LAUNCH,
	ORI_FORK_JOB_ID,
	ORI_FORK_LOCAL,
	ORI_FORK_TCP,
	ORI_FORK_SOFT,
	ORI_FORK_COMM,
	ORI_FORK_WAIT_REPORT,
	ORI_FORK_WINDOW,
	ORI_FORK_COPY_GROUP,
	ORI_FORK_MEMORY,
	ORI_FORK_KEY,
	ORI_FORK_WAITS,
	ORI_FORK_HANDLE,
	ORI_FORK_LOG,
	ORI_FORK_LOG_FILE,
	ORI_FORK_ORDERS
};

/*
 * A module's part in a fork. Its @lock is held across fork(), so that the state that it guards
 * is consistent in the child, and @child runs there under it. A lock of another kind is taken by
 * @prepare and released by @parent and @child. NULL: nothing to do. The child has one thread,
 * and its mappings are private when @child runs. A hook allocates nothing and does not fail.
 */
struct ori_fork_hook {
	pthread_mutex_t *lock;
	void (*prepare)(void);
	void (*parent)(void);
	void (*child)(void);
};

/* Call @hook at every fork from now on. A second call with the same hook changes nothing. */
void ori_fork_add(enum ori_fork_order order, const struct ori_fork_hook *hook);

#endif
