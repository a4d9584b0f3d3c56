/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From whom a rank gets the one message of a broadcast and to whom it passes that on.
 * Pure. Ranks stand in an order that begins with the root: node after node from the
 * root's on, and in each from the place on that the root has in its own, so that
 * neighbours in the order are of one node where they can be.
 */
#ifndef ORI_COLL_GATHER_TREE_H
#define ORI_COLL_GATHER_TREE_H

#include "coll/gather_plan.h"

/* Of one rank and one root. */
struct ori_tree {
	const struct ori_shape *shape; /* borrowed */
	enum oriel_algorithm algorithm;
	uint32_t root;
	uint32_t position; /* in the order */
	bool is_root;
	uint32_t source; /* of a rank that is not the root */
	uint32_t targets;
};

/* @algorithm: DIRECT, RING or BRUCK. */
void ori_tree_open(struct ori_tree *tree, const struct ori_shape *shape,
		   enum oriel_algorithm algorithm, uint32_t rank, uint32_t root);
/* The rank that is number @index, below targets, to get it from here. */
uint32_t ori_tree_target(const struct ori_tree *tree, uint32_t index);

#endif
