/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a forked child must not share with its parent. The child has none of the library's
 * threads, but it has its memory, its mappings of memory of peers, and its sockets: handlers of
 * pthread_atfork() take from it what would harm the parent, so that no hot path asks for the
 * number of the process. Any thread, unless said otherwise.
 */
#ifndef ORI_BASE_FORK_H
#define ORI_BASE_FORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * In the child the mapping [@base, @base + @length), which is shared with others, becomes
 * private: a view of @fd, from its beginning, whose changes nobody else sees; or, with @fd -1,
 * zeroed memory. @fd stays open until ori_fork_unshare(). False: no memory.
 */
bool ori_fork_share(void *base, size_t length, int fd);
/* Before it is unmapped. */
void ori_fork_unshare(void *base);

/*
 * In the child the socket @fd is closed, without a word to the other end: else that would not
 * see the end of the parent while the child lives. Nothing has to be done when it is closed.
 */
void ori_fork_socket(int fd);

/* In which order hooks are called: those that hold their lock for longest first. */
enum ori_fork_order {
	ORI_FORK_HELP,
	ORI_FORK_ENV,
	ORI_FORK_TCP,
	ORI_FORK_SOFT,
	ORI_FORK_COMM,
	ORI_FORK_WINDOW,
	ORI_FORK_CREW,
	ORI_FORK_MEMORY,
	ORI_FORK_HANDLE,
	ORI_FORK_LOG,
	ORI_FORK_ORDERS
};

/*
 * What a module does about it. Its @lock is held across fork(), so that what it guards is whole
 * in the child, and @child is called there under it; a lock of another kind is taken by
 * @prepare and given back by @parent and @child. NULL: nothing. The child has one thread; its
 * mappings are private already. A hook allocates nothing and does not fail.
 */
struct ori_fork_hook {
	pthread_mutex_t *lock;
	void (*prepare)(void);
	void (*parent)(void);
	void (*child)(void);
};

/* From now on; called again it does nothing. */
void ori_fork_add(enum ori_fork_order order, const struct ori_fork_hook *hook);

#endif
