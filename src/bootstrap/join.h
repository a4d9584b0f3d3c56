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
	/* Where munge has sealed the key, the call of a member fills them in. */
	struct ori_key *key;
	struct ori_tls_context **tls;
	uint64_t limit_ns; /* of the job, and of the steps behind the answer of rank 0, for texts */
};

/* Rank 0: opens the listener. */
enum oriel_status ori_join_listen(struct ori_join *join);
/* A member: at the address from which it reaches the root by @root; that network has all ranks. */
enum oriel_status ori_join_listen_member(struct ori_listener *listener, int root);
enum oriel_status ori_join_root(struct ori_join *join);
/* @root: where this rank reaches rank 0. */
enum oriel_status ori_join_member(struct ori_join *join, struct ori_address *root);

/* Rank 0, with its context of TLS: those that ask for its key get it sealed by munge. */
enum oriel_status ori_join_seal_key(const struct ori_key *key, struct ori_tls_context *tls);
/* Has a member yet to ask for the key? */
bool ori_join_wants_key(const struct ori_join *join);
/*
 * Ask rank 0 at @root, to which @link is connected. ORIEL_OK: later connections have the key, by
 * TLS; @link is of no more use.
 */
enum oriel_status ori_join_ask_key(struct ori_join *join, const struct ori_address *root,
				   struct ori_net_conn *link);

#endif
