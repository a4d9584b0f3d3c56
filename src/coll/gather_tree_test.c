/* SPDX-License-Identifier: Apache-2.0 */
/* Plays the trees of all ranks and roots for many shapes of nodes. */
#include "coll/gather_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define RANKS_MAX 64u

static const enum oriel_algorithm algorithms[] = {ORIEL_ALGORITHM_DIRECT, ORIEL_ALGORITHM_RING,
						  ORIEL_ALGORITHM_BRUCK};

/*
 * Passes the message on in steps, in each of which every rank with the message sends to all its
 * targets. Each target expects it from that source. Returns the steps until all ranks have it.
 */
static unsigned play(const struct ori_shape *s, enum oriel_algorithm algorithm, uint32_t root,
		     unsigned *crossings)
{
	bool has[RANKS_MAX] = {false}, had[RANKS_MAX];
	struct ori_tree tree, target_tree;
	unsigned steps = 0, count = 1;
	uint32_t rank, i, to;

	*crossings = 0;
	has[root] = true;
	for (; count < s->ranks && steps <= s->ranks; steps++) {
		for (rank = 0; rank < s->ranks; rank++)
			had[rank] = has[rank];
		for (rank = 0; rank < s->ranks; rank++) {
			ori_tree_open(&tree, s, algorithm, rank, root);
			assert_int_equal(tree.is_root, rank == root);
			for (i = 0; had[rank] && i < tree.targets; i++) {
				to = ori_tree_target(&tree, i);
				ori_tree_open(&target_tree, s, algorithm, to, root);
				assert_int_equal(target_tree.source, rank);
				if (has[to])
					continue;
				has[to] = true;
				count++;
				*crossings += s->node_of[to] != s->node_of[rank];
			}
		}
	}
	assert_int_equal(count, s->ranks);
	return steps;
}

/* Every rank but the root is a target of exactly one rank. */
static void check_shape(const struct ori_shape *s, uint32_t root)
{
	unsigned crossings, i, targets;
	struct ori_tree tree;
	uint32_t rank;

	for (i = 0; i < 3; i++) {
		targets = 0;
		for (rank = 0; rank < s->ranks; rank++) {
			ori_tree_open(&tree, s, algorithms[i], rank, root);
			targets += tree.targets;
		}
		assert_int_equal(targets, s->ranks - 1);
		play(s, algorithms[i], root, &crossings);
		if (algorithms[i] == ORIEL_ALGORITHM_RING)
			assert_int_equal(crossings, s->nodes - 1);
	}
}

static void test_every_rank_receives_the_message_once(void **state)
{
	uint32_t leaders[RANKS_MAX], nodes, each, root, i;
	struct ori_shape shape;

	(void)state;
	for (nodes = 1; nodes <= 8; nodes++)
		for (each = 1; each <= 8; each++) {
			/* Odd numbers of nodes: blocks of ranks. Even ones: round-robin placement.
			 */
			for (i = 0; i < nodes * each; i++)
				leaders[i] = nodes % 2 ? i / each * each : i % nodes;
			assert_int_equal(ori_shape_open(&shape, leaders, nodes * each), ORIEL_OK);
			for (root = 0; root < nodes * each; root++)
				check_shape(&shape, root);
			ori_shape_close(&shape);
		}
}

static void test_nodes_may_differ_in_size(void **state)
{
	static const uint32_t leaders[] = {0, 1, 0, 3, 1, 0, 1, 1, 3, 9};
	struct ori_shape shape;
	uint32_t root;

	(void)state;
	assert_int_equal(ori_shape_open(&shape, leaders, 10), ORIEL_OK);
	for (root = 0; root < 10; root++)
		check_shape(&shape, root);
	ori_shape_close(&shape);
}

static void test_bruck_takes_the_fewest_steps(void **state)
{
	uint32_t leaders[RANKS_MAX] = {0}, ranks;
	struct ori_shape shape;
	unsigned crossings;

	(void)state;
	for (ranks = 2; ranks <= RANKS_MAX; ranks++) {
		assert_int_equal(ori_shape_open(&shape, leaders, ranks), ORIEL_OK);
		assert_true(play(&shape, ORIEL_ALGORITHM_BRUCK, ranks / 3, &crossings) <=
			    32u - (unsigned)__builtin_clz(ranks - 1));
		assert_int_equal(play(&shape, ORIEL_ALGORITHM_DIRECT, ranks / 3, &crossings), 1);
		ori_shape_close(&shape);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_rank_receives_the_message_once),
		cmocka_unit_test(test_nodes_may_differ_in_size),
		cmocka_unit_test(test_bruck_takes_the_fewest_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
