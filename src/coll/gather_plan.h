/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who passes which block on to whom. Pure: from the nodes of all ranks every rank
 * comes to plans that fit. Block r is the message of rank r.
 *
 * Of every node one rank carries a block: at home its owner, elsewhere the one whose
 * place in the node is the owner's place there, modulo the size of the node. Carriers
 * send to carriers and to all of their node, so a block crosses to each node once,
 * whatever the sizes of the nodes.
 */
#ifndef ORI_COLL_GATHER_PLAN_H
#define ORI_COLL_GATHER_PLAN_H

#include <oriel/allgather.h>

#define ORI_PLAN_OWN UINT32_MAX

/* Which ranks are one node. */
struct ori_shape {
	uint32_t ranks;
	uint32_t nodes;
	uint32_t *node_of;       /* [ranks] */
	uint32_t *local_rank_of; /* [ranks], in its node */
	uint32_t *first;         /* [nodes + 1], of each node in @members */
	uint32_t *members;       /* [ranks], node by node, in order of the ranks */
};

/* @leader_of: the lowest rank of each rank's node. Nodes are in order of their lowest. */
enum oriel_status ori_shape_open(struct ori_shape *shape, const uint32_t *leader_of,
				 uint32_t ranks);
void ori_shape_close(struct ori_shape *shape); /* zeroed storage is closed */

/* When @block has come from @source, or at once, it goes to some ranks. */
struct ori_move {
	uint32_t block;
	uint32_t source; /* ORI_PLAN_OWN: it is this rank's */
	uint32_t first;  /* of its targets */
	uint32_t targets;
};

/*
 * Of one rank. Between two ranks blocks come in the order in which they were sent,
 * and that is the order of the moves of both.
 */
struct ori_plan {
	struct ori_move *moves;
	uint32_t count;
	uint32_t *targets;  /* of all moves; those of other nodes before those of its own */
	uint32_t *expected; /* [ranks]: blocks that each sends to this one */
};

/* @algorithm: DIRECT, RING or BRUCK. */
enum oriel_status ori_plan_open(struct ori_plan *plan, const struct ori_shape *shape,
				enum oriel_algorithm algorithm, uint32_t rank);
/* The part of that plan that is about @block: a broadcast. */
enum oriel_status ori_plan_open_block(struct ori_plan *plan, const struct ori_shape *shape,
				      enum oriel_algorithm algorithm, uint32_t rank,
				      uint32_t block);
void ori_plan_close(struct ori_plan *plan); /* zeroed storage is closed */

#endif
