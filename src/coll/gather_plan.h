/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schedule of a collective: which rank passes which block on to which ranks. Pure: every rank
 * computes its plan from the nodes of all ranks, and the plans of all ranks match. Block r is the
 * message of rank r. Called as objects are created, and at each start of an internode broadcast.
 *
 * In every node one rank carries a block: in its own node the owner, elsewhere the rank whose
 * local rank is the owner's modulo the size of the node. Carriers send to carriers and to all
 * ranks of their node, so a block crosses to each node once, whatever the sizes of the nodes.
 */
#ifndef ORI_COLL_GATHER_PLAN_H
#define ORI_COLL_GATHER_PLAN_H

#include <oriel/coll.h>

#define ORI_PLAN_OWN UINT32_MAX

/* The nodes of all ranks. */
struct ori_shape {
	uint32_t ranks;
	uint32_t nodes;
	uint32_t *node_of;       /* [ranks] */
	uint32_t *local_rank_of; /* [ranks]: index in its node */
	uint32_t *first;         /* [nodes + 1]: index of each node's first rank in @members */
	uint32_t *members;       /* [ranks], node by node, in order of the ranks */
};

/* The ranks of @node. */
static inline uint32_t ori_shape_size(const struct ori_shape *shape, uint32_t node)
{
	return shape->first[node + 1] - shape->first[node];
}

/* @leader_of: the lowest rank of each rank's node. Nodes are ordered by their lowest rank. */
enum oriel_status ori_shape_open(struct ori_shape *shape, const uint32_t *leader_of,
				 uint32_t ranks);
void ori_shape_close(struct ori_shape *shape); /* zeroed storage is closed */

/* Once @block has arrived from @source, or at once, it is sent to the targets. */
struct ori_move {
	uint32_t block;
	uint32_t source; /* ORI_PLAN_OWN: the block is this rank's own */
	uint32_t first;  /* index of its first target in the plan's @targets */
	uint32_t targets;
};

/*
 * The plan of one rank. Between two ranks blocks arrive in the order in which they were sent, which
 * is the order of the moves of both.
 */
struct ori_plan {
	struct ori_move *moves;
	uint32_t count;
	uint32_t *targets;  /* of all moves; of each move ranks of other nodes first */
	uint32_t *expected; /* [ranks]: blocks that each rank sends to this one */
	uint32_t *sources;  /* [ranks]: the sender of each block to this rank; ORI_PLAN_OWN: none */
};

/* @algorithm: DIRECT, RING or BRUCK. */
enum oriel_status ori_plan_open(struct ori_plan *plan, const struct ori_shape *shape,
				enum oriel_algorithm algorithm, uint32_t rank);
/* The part of that plan that concerns @block: a broadcast. */
enum oriel_status ori_plan_open_block(struct ori_plan *plan, const struct ori_shape *shape,
				      enum oriel_algorithm algorithm, uint32_t rank,
				      uint32_t block);
void ori_plan_close(struct ori_plan *plan); /* zeroed storage is closed */

#endif
