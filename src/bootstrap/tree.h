/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over a tree of TCP links: the data of a subtree goes up, the data of all ranks
 * comes down. Subtrees are ranges of ranks, so that the data of a subtree is one piece of the
 * result. No rank sends more than one frame to each neighbour in a collective. tcp.c calls it;
 * join and messages report failures through it.
 *
 * A failure is sent to all neighbours, which send it to theirs, and is permanent.
 */
#ifndef ORI_BOOTSTRAP_TREE_H
#define ORI_BOOTSTRAP_TREE_H

#include <pthread.h>

#include "bootstrap/listener.h"

#define ORI_TREE_ARITY 8
#define ORI_TREE_LINKS (ORI_TREE_ARITY + 1)

/* The position of a rank: its subtree is [rank, end), its children are in rank order. */
struct ori_tree_place {
	unsigned parent; /* rank 0 has itself */
	unsigned end;
	unsigned depth, height, total_height; /* levels above the rank, below it, below rank 0 */
	unsigned children;
	unsigned child[ORI_TREE_ARITY];
	unsigned child_end[ORI_TREE_ARITY];
};

void ori_tree_place(unsigned size, unsigned rank, struct ori_tree_place *place);

struct ori_tree {
	unsigned rank, size;
	struct ori_tree_place place;
	struct ori_listener *listener;             /* served while a call waits */
	struct ori_net_conn links[ORI_TREE_LINKS]; /* children, then the parent; fd -1: none */
	struct ori_failure failure;                /* status ORIEL_OK: none */
	/*
	 * With ORIEL_HEARTBEAT a thread sends each neighbour a beat, a frame WAIT, while this rank
	 * computes, too. The lock, which one thread may take again, guards the links and the
	 * failure; none waits with it.
	 */
	pthread_mutex_t lock;
	uint64_t limit_ns; /* ORIEL_HEARTBEAT; 0: no thread beats */
	pthread_t beater;
	int stop_fd; /* eventfd: the thread is to end */
	/* When a beat of the neighbour came last, to the thread that calls; 0: none has come. */
	uint64_t heard_at[ORI_TREE_LINKS];
};

void ori_tree_init(struct ori_tree *tree, unsigned rank, unsigned size,
		   struct ori_listener *listener);
void ori_tree_close(struct ori_tree *tree);
struct ori_net_conn *ori_tree_parent(struct ori_tree *tree);

/*
 * All-gather: @all has size pieces of @up bytes; the caller fills in its own, the call the other
 * ones. With @up 0 it is a broadcast of @down bytes of @all from rank 0.
 */
enum oriel_status ori_tree_exchange(struct ori_tree *tree, void *all, size_t up, size_t down,
				    uint64_t timeout_ns);

/* Make the failure of the job the last error of this thread; ORIEL_OK if there is none. */
enum oriel_status ori_tree_check(struct ori_tree *tree);
/*
 * Fail the job on all ranks; @rank is at fault (ORIEL_NO_RANK: none is). If the job has failed
 * before, that failure stays.
 */
enum oriel_status ori_tree_break(struct ori_tree *tree, enum oriel_status status, unsigned rank,
				 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Fail the job because a wait of this rank failed with @status and this thread's last error. */
enum oriel_status ori_tree_stop(struct ori_tree *tree, enum oriel_status status);
/* The rank that caused the failure of the job; ORIEL_NO_RANK if there is none. */
unsigned ori_tree_at_fault(const struct ori_tree *tree);
/* Fail the job because a read of @link has failed with @status. */
enum oriel_status ori_tree_link_failed(struct ori_tree *tree, const struct ori_net_conn *link,
				       enum oriel_status status);
/* Fail the job because the connection to @rank is closed. */
enum oriel_status ori_tree_lost(struct ori_tree *tree, unsigned rank);
/* Read @link at a time when only a FAILURE may arrive: ORIEL_AGAIN, or the job has failed. */
enum oriel_status ori_tree_expect_failure(struct ori_tree *tree, struct ori_net_conn *link);
/*
 * All links are connected: begins to beat, if ORIEL_HEARTBEAT is set. A neighbour whose beats have
 * come, and stay away for as long, fails the job in the next wait for it.
 */
enum oriel_status ori_tree_beat(struct ori_tree *tree);
/* Before ori_tree_close(), if that may have begun; @is_forked: in a child, without the thread. */
void ori_tree_beat_end(struct ori_tree *tree, bool is_forked);
/* For a wait for other things: polls the links for a failure. Returns how many it has added. */
unsigned ori_tree_poll_fds(struct ori_tree *tree, struct pollfd polled[ORI_TREE_LINKS]);
/* Has a neighbour sent a failure? Other frames stay unread, and a closed link is no failure. */
enum oriel_status ori_tree_poll_failure(struct ori_tree *tree);

#endif
