/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over a tree of TCP links: what the ranks of a subtree give goes
 * up, what all gave comes down. Subtrees are ranges of ranks, so that what a
 * subtree gives is one piece of the result. No rank sends more than one frame to
 * each neighbour per collective.
 *
 * A failure is told to all neighbours, who tell theirs, and is for ever.
 */
#ifndef ORI_BOOTSTRAP_TREE_H
#define ORI_BOOTSTRAP_TREE_H

#include "bootstrap/gate.h"

#define ORI_TREE_ARITY 8
#define ORI_TREE_LINKS (ORI_TREE_ARITY + 1)

/* Where a rank stands: its subtree is [rank, end), children in rank order. */
struct ori_tree_place {
	unsigned parent; /* of rank 0: rank 0 */
	unsigned end;
	unsigned depth, height, total_height; /* of this rank, below it, of the root */
	unsigned children;
	unsigned child[ORI_TREE_ARITY];
	unsigned child_end[ORI_TREE_ARITY];
};

void ori_tree_place(unsigned size, unsigned rank, struct ori_tree_place *place);

struct ori_tree {
	unsigned rank, size;
	struct ori_tree_place place;
	struct ori_listener *listener;         /* served while a call waits */
	struct ori_link links[ORI_TREE_LINKS]; /* children, then the parent; fd -1: none */
	struct ori_failure failure;            /* status ORIEL_OK: none */
};

void ori_tree_init(struct ori_tree *tree, unsigned rank, unsigned size,
		   struct ori_listener *listener);
void ori_tree_close(struct ori_tree *tree);
struct ori_link *ori_tree_parent(struct ori_tree *tree);

/*
 * @all holds size pieces of @up bytes, this rank's own at its place, and gets
 * the others'. With @up 0, @all goes from rank 0 to everyone, @down bytes.
 */
enum oriel_status ori_tree_exchange(struct ori_tree *tree, void *all, size_t up, size_t down,
				    uint64_t timeout_ns);

/* The failure of the job, told again to this thread; ORIEL_OK if there is none. */
enum oriel_status ori_tree_check(struct ori_tree *tree);
/*
 * Fail, here and everywhere, by the fault of @rank (ORIEL_NO_RANK: of none). If the job
 * has failed before, that failure stays.
 */
enum oriel_status ori_tree_break(struct ori_tree *tree, enum oriel_status status, unsigned rank,
				 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Fail because a wait of this rank has, as this thread's last error says. */
enum oriel_status ori_tree_stop(struct ori_tree *tree, enum oriel_status status);
/* The rank at fault for the failure of the job; ORIEL_NO_RANK if there is none. */
unsigned ori_tree_at_fault(const struct ori_tree *tree);
/* Fail because the connection to @rank is closed. */
enum oriel_status ori_tree_lost(struct ori_tree *tree, unsigned rank);
/* Nothing but a failure may come over @link now. */
enum oriel_status ori_tree_expect_failure(struct ori_tree *tree, struct ori_link *link);
/* Has a neighbour told of a failure? Other frames stay, and one that is closed is no failure. */
enum oriel_status ori_tree_poll_failure(struct ori_tree *tree);

#endif
