/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a broadcast in host memory: the source and the targets of a rank. Pure; bcast.c
 * computes it at each start. The tree is over an order of the ranks that begins with the root:
 * node after node from the root's node on, and in each node from the local rank of the root on,
 * so that neighbours in the order are of one node where possible.
 */
#ifndef ORI_COLL_GATHER_TREE_H
#define ORI_COLL_GATHER_TREE_H

#include "coll/gather_plan.h"

/* The tree as one rank sees it, for one root. */
struct ori_tree {
	const struct ori_shape *shape; /* borrowed */
	enum oriel_algorithm algorithm;
	uint32_t root;
	uint32_t position; /* of this rank in the order */
	bool is_root;
	uint32_t source; /* unless @is_root */
	uint32_t targets;
};

/* @algorithm: DIRECT, RING or BRUCK. */
void ori_tree_open(struct ori_tree *tree, const struct ori_shape *shape,
		   enum oriel_algorithm algorithm, uint32_t rank, uint32_t root);
/* The target number @index of this rank, @index below targets. Ranks send in this order. */
uint32_t ori_tree_target(const struct ori_tree *tree, uint32_t index);

#endif
