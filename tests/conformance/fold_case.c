/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions by device functions, by groups of each kind and by teams: the bits of the scalar fold
 * below. src/coll/reduce_stream_test.c compares the arithmetic of all types.
 */
#include "harness.h"

#define RESULT_AT 16384u
#define LINES_AT 32768u
#define LINES_SLOT 16384u
#define SLOT 1024u
#define RANKS_MOST 16u
#define LL128_AT (LINES_AT + 2 * RANKS_MOST * LINES_SLOT)
#define SLOTS_AT (LL128_AT + 2 * RANKS_MOST * LINES_SLOT)

static const struct oriel_window_attr fold_window = {
	.size = sizeof(struct oriel_window_attr),
	.length = SLOTS_AT + ORIEL_REDUCE_DEPTH * RANKS_MOST * SLOT,
};

/* The last is longer than the slots: it has several rounds. */
#define COUNTS 8u
#define OUTS 2004u
#define SENDS (2000u + 2 * RANKS_MOST)

CASE unsigned count_of(unsigned k)
{
	const unsigned counts[COUNTS] = {1, 3, 4, 17, 64, 250, 1001, 2000};

	return counts[k % COUNTS];
}

/* Sums of such numbers have other bits in another order. */
CASE float element(unsigned round, unsigned rank, unsigned i)
{
	uint32_t x = i * 2654435761u + rank * 0x9e3779b9u + round * 0x85ebca6bu;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	x ^= x >> 12;
	return (float)(int32_t)x * (float)(1u << (x >> 7) % 16);
}

/* In every third round each rank has a factor. */
CASE bool is_scaled(unsigned round)
{
	return round % 3 == 1;
}

/* Rounded, and so not a part of a fused addition. */
CASE float value_of(unsigned round, unsigned rank, unsigned i)
{
	volatile float value = element(round, rank, i);

	if (is_scaled(round))
		value = value * (1.3f - (float)rank);
	return value;
}

CASE float sum_of(unsigned round, unsigned ranks, unsigned block, unsigned i)
{
	float total = 0, part = 0;
	unsigned rank;

	for (rank = 0; rank < ranks; rank++) {
		part = rank % block ? part + value_of(round, rank, i) : value_of(round, rank, i);
		if ((rank + 1) % block && rank + 1 < ranks)
			continue;
		total = rank < block ? part : total + part;
	}
	return total;
}

CASE struct oriel_dev_reduction sum_in(unsigned round, unsigned block, const uint64_t *factors)
{
	struct oriel_dev_reduction reduction = {ORIEL_TYPE_FP32, ORIEL_OP_SUM, 0, 0, NULL};

	reduction.block = block;
	reduction.factors = factors;
	if (is_scaled(round))
		reduction.op = ORIEL_OP_PREMUL_SUM;
	return reduction;
}

/* The factors lie behind @floats elements at @memory, of alloc_elements(). */
CASE const uint64_t *write_factors(struct rank *r, struct oriel_dev_group g, float *memory,
				   unsigned floats)
{
	uint64_t *factors = (uint64_t *)(void *)(memory + floats);
	unsigned rank;

	for (rank = g.rank; rank < r->size; rank += g.size)
		factors[rank] = UINT64_C(0xdead) << 32 | ori_dev_float_bits(1.3f - (float)rank);
	oriel_dev_sync(g);
	return factors;
}

CASE float *alloc_elements(struct rank *r, unsigned floats)
{
	return (float *)rank_alloc(r, floats * sizeof(float) + RANKS_MOST * sizeof(uint64_t));
}

/* Elements @first and following of the message of this rank. */
CASE void write_elements(struct rank *r, struct oriel_dev_group g, float *to, unsigned round,
			 unsigned count)
{
	unsigned i;

	for (i = g.rank; i < count; i += g.size)
		to[i] = element(round, r->rank, i);
	oriel_dev_sync(g);
}

CASE void check_sums(struct rank *r, struct oriel_dev_group g, const float *at, unsigned round,
		     unsigned block, unsigned first, unsigned count)
{
	unsigned i, wrong_ones = 0;

	oriel_dev_sync(g);
	if (!oriel_dev_is_leader(g))
		return;
	for (i = 0; i < count; i++)
		wrong_ones += at[i] != sum_of(round, r->size, block, first + i);
	CHECK_EQ(r, wrong_ones, 0);
}

CASE void fold_windows(struct rank *r, struct oriel_dev_group g, float *out)
{
	const uint64_t *factors = write_factors(r, g, out, OUTS);
	unsigned k, count, block, share, begin;

	for (k = 0; k < 3 * COUNTS; k++) {
		struct oriel_dev_reduction sum = sum_in(k, k % 2 ? 2 : 0, factors);
		uint64_t at = 4 * (k % 3);

		block = k % 2 ? 2 : r->size;
		count = count_of(k);
		write_elements(r, g, (float *)(void *)(r->base + at), k, count);
		CHECK_OK(r, oriel_dev_barrier(&r->dev, g, 0, LONG_NS));
		CHECK_OK(r, oriel_dev_reduce(&r->dev, g, &sum, at, count, out + k % 4));
		check_sums(r, g, out + k % 4, k, block, 0, count);
		share = (count + r->size - 1) / r->size;
		begin = r->rank * share < count ? r->rank * share : count;
		share = count - begin < share ? count - begin : share;
		CHECK_OK(r, oriel_dev_reduce_all(&r->dev, g, &sum, at + begin * 4, share,
						 RESULT_AT + begin * 4));
		CHECK_OK(r, oriel_dev_barrier(&r->dev, g, 0, LONG_NS));
		check_sums(r, g, (const float *)(const void *)(r->base + RESULT_AT), k, block, 0,
			   count);
		CHECK_OK(r, oriel_dev_barrier(&r->dev, g, 0, LONG_NS));
	}
}

CASE void windows_are_folded_in_the_order(struct rank *r)
{
	float *out = alloc_elements(r, OUTS);

	fold_windows(r, r->group, out);
	rank_free(r, out);
}

CASE void team_folds_windows(struct rank *r, struct oriel_dev_group g, void *context)
{
	fold_windows(r, g, (float *)context);
}

CASE void teams_fold_windows(struct rank *r)
{
	float *out = alloc_elements(r, OUTS);

	rank_team(r, 3, team_folds_windows, out);
	rank_free(r, out);
}

CASE bool has_ll128(const struct rank *r)
{
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		if (!oriel_dev_has_ll128(&r->dev, peer))
			return false;
	return true;
}

/*
 * Messages for all ranks, or one for each, by both kinds of lines, through slots and by owners in
 * turn.
 */
CASE void execute(struct rank *r, struct oriel_dev_group g, float *send)
{
	struct oriel_dev_gather c = {0, NULL, 0, 0, 0, ORIEL_DEV_LINES_LL, 0};
	const uint64_t *factors = write_factors(r, g, send, SENDS);
	const float *result = (const float *)(const void *)(r->base + RESULT_AT);
	unsigned k, way, count, first;

	c.to = RESULT_AT;
	c.result = r->base + RESULT_AT;
	for (k = 0; k < 6 * COUNTS; k++) {
		struct oriel_dev_reduction sum = sum_in(k, 2, factors);

		way = k % 5;
		count = count_of(k / 2);
		/* A scatter of ways 3 and 4. */
		if (way > 2)
			count = count / r->size + 1;
		first = way > 2 ? r->rank * count : 0;
		c.stride = way > 2 ? count * 4 : 0;
		c.id = way % 3 ? 2 : 0;
		c.staging = way % 3 ? SLOTS_AT : LINES_AT;
		c.slot = way % 3 ? SLOT : LINES_SLOT;
		c.lines = ORIEL_DEV_LINES_LL;
		if (way % 3 == 0 && k & 1 && has_ll128(r)) {
			c.lines = ORIEL_DEV_LINES_LL128;
			c.staging = LL128_AT;
			c.id = 4;
		}
		write_elements(r, g, send, k, way > 2 ? count * r->size : count);
		if (way % 3 == 0)
			CHECK_OK(r, oriel_dev_reduce_lines(&r->dev, g, &c, &sum, 0, 1, send, count,
							   LONG_NS));
		else if (way == 2)
			CHECK_OK(r, oriel_dev_reduce_owners(&r->dev, g, &c, &sum, 0, 1, send, count,
							    LONG_NS));
		else
			CHECK_OK(r, oriel_dev_reduce_slots(&r->dev, g, &c, &sum, 0, 1, send, count,
							   LONG_NS));
		check_sums(r, g, result, k, 2, first, count);
		/* The leader has read the result. */
		oriel_dev_sync(g);
	}
}

CASE void executions_share_the_staging(struct rank *r)
{
	float *send = alloc_elements(r, SENDS);

	execute(r, r->group, send);
	rank_free(r, send);
}

CASE void team_executes(struct rank *r, struct oriel_dev_group g, void *context)
{
	execute(r, g, (float *)context);
}

CASE void teams_share_an_execution(struct rank *r)
{
	float *send = alloc_elements(r, SENDS);

	rank_team(r, 3, team_executes, send);
	rank_free(r, send);
}

CASE void what_kernels_lack_is_rejected(struct rank *r)
{
	struct oriel_dev_reduction sum = sum_in(0, 0, NULL);
	struct oriel_dev_fault fault;
	RANK_ARRAY(r, float, out, 8);

	CHECK_STATUS(r, oriel_dev_reduce(&r->dev, r->group, &sum, r->length - 4, 2, out),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_reduce(&r->dev, r->group, &sum, 0, UINT64_MAX / 2, out),
		     ORIEL_ERR_RANGE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.what, ORIEL_DEV_REDUCE);
	sum.op = ORIEL_OP_BXOR;
	CHECK_STATUS(r, oriel_dev_reduce(&r->dev, r->group, &sum, 0, 2, out), ORIEL_ERR_INVALID);
	sum.op = ORIEL_OP_PREMUL_SUM;
	CHECK_STATUS(r, oriel_dev_reduce(&r->dev, r->group, &sum, 0, 2, out), ORIEL_ERR_INVALID);
	sum.type = ORIEL_TYPE_NONE;
	CHECK_STATUS(r, oriel_dev_reduce(&r->dev, r->group, &sum, 0, 2, out), ORIEL_ERR_INVALID);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_STATUS(r, fault.status, ORIEL_ERR_INVALID);
}

#define FOLD_CASES(ROW)                                                     \
	ROW(windows_are_folded_in_the_order, &fold_window, 1, NEEDS_MAPPED) \
	ROW(teams_fold_windows, &fold_window, 1, NEEDS_MAPPED)              \
	ROW(executions_share_the_staging, &fold_window, 1, NEEDS_MAPPED)    \
	ROW(teams_share_an_execution, &fold_window, 1, NEEDS_MAPPED)        \
	ROW(what_kernels_lack_is_rejected, &fold_window, 1, NEEDS_MAPPED)

DEVICE_SUITE(fold, FOLD_CASES, NO_FORKS, NULL);
