/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources and targets of a broadcast, from positions in the order of gather_tree.h. bcast.c
 * calls it.
 */
#include "coll/gather_tree.h"

/* The rank at @position. */
static uint32_t tree_rank(const struct ori_tree *t, uint32_t position)
{
	const struct ori_shape *s = t->shape;
	uint32_t node = s->node_of[t->root], size = ori_shape_size(s, node);

	while (position >= size) {
		position -= size;
		node = (node + 1) % s->nodes;
		size = ori_shape_size(s, node);
	}
	return s->members[s->first[node] + (s->local_rank_of[t->root] + position) % size];
}

static uint32_t tree_position(const struct ori_tree *t, uint32_t rank)
{
	const struct ori_shape *s = t->shape;
	uint32_t node = s->node_of[t->root], before = 0, size;

	for (; node != s->node_of[rank]; node = (node + 1) % s->nodes)
		before += ori_shape_size(s, node);
	size = ori_shape_size(s, node);
	return before + (s->local_rank_of[rank] + size - s->local_rank_of[t->root] % size) % size;
}

/*
 * BRUCK is a binomial tree: the source of a position is the position without its lowest set bit,
 * so the ranks below one rank are neighbours in the order.
 */
static uint32_t tree_children(const struct ori_tree *t)
{
	uint32_t count = 0, step;

	for (step = 1; !(t->position & step) && t->position + step < t->shape->ranks; step *= 2)
		count++;
	return count;
}

void ori_tree_open(struct ori_tree *t, const struct ori_shape *shape,
		   enum oriel_algorithm algorithm, uint32_t rank, uint32_t root)
{
	uint32_t last = shape->ranks - 1, before = 0;

	*t = (struct ori_tree){.shape = shape, .algorithm = algorithm, .root = root};
	t->position = tree_position(t, rank);
	t->is_root = rank == root;
	if (algorithm == ORIEL_ALGORITHM_DIRECT) {
		t->targets = t->is_root ? last : 0;
	} else if (algorithm == ORIEL_ALGORITHM_RING) {
		t->targets = t->position < last;
		before = t->position - 1;
	} else {
		t->targets = tree_children(t);
		before = t->position & (t->position - 1);
	}
	t->source = t->is_root ? root : tree_rank(t, before);
}

/* The most distant target first: it is on another node, or has the largest subtree. */
uint32_t ori_tree_target(const struct ori_tree *t, uint32_t index)
{
	if (t->algorithm == ORIEL_ALGORITHM_DIRECT)
		return tree_rank(t, t->targets - index);
	if (t->algorithm == ORIEL_ALGORITHM_RING)
		return tree_rank(t, t->position + 1);
	return tree_rank(t, t->position + (1u << (t->targets - 1 - index)));
}
