/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the plans of all ranks against each other, for many shapes of nodes. */
#include "coll/gather_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS_MAX 64u
#define ALL UINT32_MAX /* blocks */

static const enum oriel_algorithm algorithms[] = {ORIEL_ALGORITHM_DIRECT, ORIEL_ALGORITHM_RING,
						  ORIEL_ALGORITHM_BRUCK};

/* Blocks in flight from one rank to another, in order. */
struct pipe {
	uint32_t blocks[RANKS_MAX];
	uint32_t sent;
	uint32_t taken;
};

struct world {
	struct ori_shape shape;
	struct ori_plan plans[RANKS_MAX];
	uint32_t done[RANKS_MAX]; /* moves */
	uint32_t copies[RANKS_MAX][RANKS_MAX];
	struct pipe pipes[RANKS_MAX][RANKS_MAX];
};

static void world_send(struct world *w, uint32_t from, const struct ori_move *move)
{
	uint32_t i, to;

	for (i = 0; i < move->targets; i++) {
		to = w->plans[from].targets[move->first + i];
		assert_true(to != from);
		w->pipes[from][to].blocks[w->pipes[from][to].sent++] = move->block;
		w->copies[to][move->block]++;
	}
}

/* Executes one move of @rank, if the block that it waits for has arrived. */
static bool world_step(struct world *w, uint32_t rank)
{
	const struct ori_plan *plan = &w->plans[rank];
	const struct ori_move *move = &plan->moves[w->done[rank]];
	struct pipe *pipe;

	if (w->done[rank] == plan->count)
		return false;
	if (move->source != ORI_PLAN_OWN) {
		assert_int_equal(plan->sources[move->block], move->source);
		pipe = &w->pipes[move->source][rank];
		if (pipe->taken == pipe->sent)
			return false;
		/* The oldest block of the pair is the expected one. */
		assert_int_equal(pipe->blocks[pipe->taken], move->block);
		pipe->taken++;
	}
	world_send(w, rank, move);
	w->done[rank]++;
	return true;
}

static void world_run(struct world *w)
{
	bool has_moved;
	uint32_t rank;

	do {
		has_moved = false;
		for (rank = 0; rank < w->shape.ranks; rank++)
			has_moved |= world_step(w, rank);
	} while (has_moved);
}

static void world_check(const struct world *w, uint32_t block)
{
	uint32_t ranks = w->shape.ranks, rank, other, source;
	uint32_t from[RANKS_MAX];

	for (rank = 0; rank < ranks; rank++) {
		memset(from, 0, sizeof(from));
		for (other = 0; other < ranks; other++) {
			source = w->plans[rank].sources[other];
			assert_int_equal(source == ORI_PLAN_OWN, w->copies[rank][other] == 0);
			if (source != ORI_PLAN_OWN)
				from[source]++;
		}
		assert_memory_equal(from, w->plans[rank].expected, ranks * sizeof(from[0]));
		assert_int_equal(w->done[rank], w->plans[rank].count);
		for (other = 0; other < ranks; other++) {
			assert_int_equal(w->copies[rank][other],
					 rank != other && (block == ALL || other == block));
			assert_int_equal(w->pipes[other][rank].sent,
					 w->plans[rank].expected[other]);
		}
	}
}

/* The number of blocks that cross from one node to another. */
static uint32_t world_crossings(const struct world *w)
{
	uint32_t from, to, sum = 0;

	for (from = 0; from < w->shape.ranks; from++)
		for (to = 0; to < w->shape.ranks; to++)
			if (w->shape.node_of[from] != w->shape.node_of[to])
				sum += w->pipes[from][to].sent;
	return sum;
}

/* All blocks, or @block alone. */
static void run_shape(const uint32_t *leader_of, uint32_t ranks, enum oriel_algorithm algorithm,
		      uint32_t block)
{
	struct world *w = calloc(1, sizeof(*w));
	uint32_t rank;

	assert_non_null(w);
	assert_int_equal(ori_shape_open(&w->shape, leader_of, ranks), ORIEL_OK);
	for (rank = 0; rank < ranks; rank++)
		assert_int_equal(block == ALL ? ori_plan_open(&w->plans[rank], &w->shape, algorithm,
							      rank)
					      : ori_plan_open_block(&w->plans[rank], &w->shape,
								    algorithm, rank, block),
				 ORIEL_OK);
	world_run(w);
	world_check(w, block);
	if (algorithm != ORIEL_ALGORITHM_DIRECT)
		assert_int_equal(world_crossings(w),
				 (block == ALL ? ranks : 1) * (w->shape.nodes - 1));
	for (rank = 0; rank < ranks; rank++)
		ori_plan_close(&w->plans[rank]);
	ori_shape_close(&w->shape);
	free(w);
}

static void run_all(const uint32_t *leader_of, uint32_t ranks, uint32_t block)
{
	size_t i;

	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
		run_shape(leader_of, ranks, algorithms[i], ALL);
		run_shape(leader_of, ranks, algorithms[i], block);
	}
}

static void test_every_block_arrives_once_on_equal_nodes(void **state)
{
	uint32_t leader_of[RANKS_MAX], nodes, each, i;

	(void)state;
	for (nodes = 1; nodes <= 8; nodes++)
		for (each = 1; each <= 8; each++) {
			for (i = 0; i < nodes * each; i++)
				leader_of[i] = i / each * each;
			run_all(leader_of, nodes * each, nodes * 5 % (nodes * each));
			/* Round-robin placement of the ranks. */
			for (i = 0; i < nodes * each; i++)
				leader_of[i] = i % nodes;
			run_all(leader_of, nodes * each, nodes * each - 1);
		}
}

/* All partitions: each of seven ranks joins the node of an earlier rank, or begins one. */
static void test_every_block_arrives_once_on_any_nodes(void **state)
{
	uint32_t leader_of[7], code, rest, i, pick;

	(void)state;
	for (code = 0; code < 5040; code++) {
		for (i = 0, rest = code; i < 7; i++) {
			pick = rest % (i + 1);
			rest /= i + 1;
			leader_of[i] = pick == i ? i : leader_of[pick];
		}
		run_all(leader_of, 7, code % 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_block_arrives_once_on_equal_nodes),
		cmocka_unit_test(test_every_block_arrives_once_on_any_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
