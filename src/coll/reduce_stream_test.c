/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of kernels computes the bits of the host's loops, which src/reduce/fold_test.c compares
 * with the definitions of the formats: all types, operations and blocks, at any address, with every
 * kind of special value.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <oriel/dev/reduction.h>

#include "reduce/fold.h"

#define RANKS 9u
#define COUNT 1031u
#define ROOM (COUNT * 8 + 64)

static _Alignas(16) char inputs[RANKS][ROOM];
static _Alignas(16) char expected[ROOM], got[ROOM];

/* The most vectors of sums that a vector of elements has are four. */
#define SUMS (((size_t)COUNT + 16) * 4 * 4)
static _Alignas(16) char sums[RANKS][SUMS];

/* The factors of all ranks, as kernels and as the host have them. */
static uint64_t words[RANKS], packed[RANKS];

static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Zeros, infinities, NaNs, subnormal numbers and numbers of all sizes; the rest is random. */
static uint64_t draw_element(size_t size)
{
	static const uint64_t odd[] = {0, 1, 3, 0x7f, 0xff, 0x7c, 0x7e};
	unsigned shift = (unsigned)size * 8 - 8;
	uint64_t sign = (draw() & 1) << (size * 8 - 1), x = draw();

	if (x % 4)
		return x >> 8;
	x = odd[x / 4 % 7];
	return sign | (x == 1 || x == 3 || !x ? x : x << shift | (size == 2 && x == 0x7f) << 7);
}

static void fill(size_t size, size_t skew)
{
	uint64_t x;
	unsigned rank;
	size_t i;

	for (rank = 0; rank < RANKS; rank++)
		for (i = 0; i < COUNT; i++) {
			x = draw_element(size);
			memcpy(inputs[rank] + skew + i * size, &x, size);
		}
}

/* They have @size bytes each; the bytes behind them in a word are not read. */
static void fill_factors(size_t size)
{
	unsigned rank;

	for (rank = 0; rank < RANKS; rank++) {
		words[rank] = draw();
		if (rank % 3 == 0)
			words[rank] = draw_element(size);
		memcpy((char *)packed + rank * size, &words[rank], size);
	}
}

/* All ranks' elements lie at @skew of their rows, which are ROOM bytes apart. */
static void check_fold(const struct oriel_dev_fold *f, size_t size, size_t skew, uint32_t threads)
{
	const struct oriel_reduction reduction = {.size = sizeof(reduction),
						  .type = f->type,
						  .op = f->op,
						  .block = f->block};
	const bool has_factors = f->op == ORIEL_OP_PREMUL_SUM;
	const struct oriel_dev_rows rows = {.base = inputs[0] + skew, .stride = ROOM};
	const struct oriel_dev_results results = {.to = got + skew};
	const char *from[RANKS];
	char *out = expected + skew;
	struct oriel_dev_fold known = *f;
	struct ori_fold host;
	uint32_t rank;

	for (rank = 0; rank < RANKS; rank++)
		from[rank] = inputs[rank] + skew;
	memset(expected, 0x5a, sizeof(expected));
	memset(got, 0x5a, sizeof(got));
	ori_fold_open(&host, &reduction, f->ranks, has_factors ? (char *)packed : NULL,
		      &ori_fold_plain);
	ori_fold_all(&host, from, &out, 1, 0, COUNT);
	for (rank = 0; rank < threads; rank++) {
		struct oriel_dev_group g = {.rank = rank, .size = threads};

		ORIEL_FOLD_BY_TYPE(known,
				   ori_dev_reduce_rows(g, known, &rows, &results, COUNT * size))
	}
	assert_memory_equal(got, expected, sizeof(got));
}

/* The sums of each block, and then their end result. check_fold() has left what is @expected. */
static void check_blocks(const struct oriel_dev_fold *f, size_t size, size_t skew, uint32_t threads)
{
	const struct oriel_dev_results results = {.to = got + skew};
	uint32_t blocks = (f->ranks - 1) / f->block + 1, block, rank;
	struct oriel_dev_fold known = *f;

	memset(got, 0x5a, sizeof(got));
	memset(sums, 0x5a, sizeof(sums));
	for (block = 0; block < blocks; block++) {
		const struct oriel_dev_rows rows = {.base = inputs[block * f->block] + skew,
						    .stride = ROOM};
		struct oriel_dev_fold one = *f;

		one.ranks = f->ranks - block * f->block;
		if (one.ranks > f->block)
			one.ranks = f->block;
		one.block = one.ranks;
		if (one.factors)
			one.factors += block * f->block;
		for (rank = 0; rank < threads; rank++) {
			struct oriel_dev_group g = {.rank = rank, .size = threads};

			ORIEL_FOLD_BY_TYPE(one, ori_dev_reduce_block(g, one, &rows, sums[block],
								     COUNT * size))
		}
	}
	for (rank = 0; rank < threads; rank++) {
		struct oriel_dev_group g = {.rank = rank, .size = threads};

		ORIEL_FOLD_BY_TYPE(known, ori_dev_reduce_sums(g, known, sums[0], SUMS, blocks,
							      &results, COUNT * size))
	}
	assert_memory_equal(got, expected, sizeof(got));
}

static void check_type(uint32_t type, uint32_t op)
{
	static const uint32_t blocks[] = {1, 2, 3, 4, 9};
	size_t size = oriel_type_size((enum oriel_type)type), skew;
	size_t sum =
		oriel_type_size(oriel_type_accumulation((enum oriel_type)type, (enum oriel_op)op));
	struct oriel_dev_fold f = {type, op, 0, 0, op == ORIEL_OP_PREMUL_SUM ? words : NULL, false};
	unsigned i;

	for (i = 0; i < 5 * RANKS; i++) {
		f.ranks = 1 + i % RANKS;
		f.block = blocks[i / RANKS];
		skew = i % 3 == 0 ? 0 : i % 17;
		fill(size, skew);
		fill_factors(sum);
		check_fold(&f, size, skew, 1 + i % 5);
		check_blocks(&f, size, skew, 1 + i % 5);
	}
}

static void test_kernels_fold_every_type_as_the_host(void **state)
{
	uint32_t type, op;

	(void)state;
	for (type = ORIEL_TYPE_INT8; type < ORI_TYPES; type++)
		for (op = ORIEL_OP_SUM; op <= ORIEL_OP_PREMUL_SUM; op++)
			if (oriel_type_accumulation((enum oriel_type)type, (enum oriel_op)op))
				check_type(type, op);
}

static void test_sizes_are_those_of_the_host(void **state)
{
	uint32_t type;

	(void)state;
	for (type = ORIEL_TYPE_INT8; type < ORI_TYPES; type++)
		assert_int_equal(ori_dev_type_size(type), oriel_type_size((enum oriel_type)type));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels_fold_every_type_as_the_host),
		cmocka_unit_test(test_sizes_are_those_of_the_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
