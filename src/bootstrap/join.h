/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining a job: each rank sends a hello to rank 0. Rank 0 waits for all ranks, then sends each
 * the address of its parent, or sends all the failure that names the missing ranks. tcp.c calls
 * it. O(size) frames at rank 0.
 */
#ifndef ORI_BOOTSTRAP_JOIN_H
#define ORI_BOOTSTRAP_JOIN_H

#include "bootstrap/tcp.h"
#include "bootstrap/tree.h"

struct ori_join {
	const struct ori_tcp_job *job; /* size is above 1 */
	uint64_t deadline;
	struct ori_listener *listener; /* the call opens it, with its fd if it has one */
	struct ori_tree *tree;         /* gets its links */
	struct ori_address *addresses; /* of all ranks; rank 0 fills them in */
	uint64_t limit_ns; /* of the job, and of the steps behind the answer of rank 0, for texts */
};

/* Rank 0: opens the listener. */
enum oriel_status ori_join_listen(struct ori_join *join);
enum oriel_status ori_join_root(struct ori_join *join);
/* @root: where this rank reaches rank 0. */
enum oriel_status ori_join_member(struct ori_join *join, struct ori_address *root);

#endif
