/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reductions that reduce_case.c executes, and what they result in: scalar folds in the orders
 * of docs/reductions.md.
 */
#ifndef CONFORMANCE_REDUCTIONS_H
#define CONFORMANCE_REDUCTIONS_H

#include "harness.h"

#include <string.h>

/* Reductions whose results show the order of the ranks, each with one reason to be here. */
enum { SUM_FP32, SUM_BF16, BXOR_UINT8, PREMUL_FP64, USER_INT16, REDUCTIONS };

struct site {
	struct oriel_reduction reduction;
	struct oriel_allreduce *all;
	struct oriel_reduce_scatter *scatter;
	struct oriel_reduce *root;
	struct oriel_view view;
	char *result; /* the view, at an odd address */
	char *send;   /* of all ranks' parts */
	char *expected;
	double factor;
	size_t size; /* of an element */
	size_t chunk;
	unsigned block;
	unsigned algorithm; /* of the execution whose result is expected */
	uint64_t round;
};

static void subtract(void *context, void *left, const void *right, size_t count)
{
	uint16_t *to = left;
	size_t i;

	(void)context;
	for (i = 0; i < count; i++)
		to[i] = (uint16_t)(to[i] * 3u - ((const uint16_t *)right)[i]);
}

static double factor_of(unsigned rank)
{
	return 1.0 + rank / 3.0;
}

static struct oriel_reduction reduction_of(unsigned which, const double *factor, unsigned block)
{
	static const enum oriel_type types[] = {ORIEL_TYPE_FP32, ORIEL_TYPE_BF16, ORIEL_TYPE_UINT8,
						ORIEL_TYPE_FP64, ORIEL_TYPE_INT16};
	static const enum oriel_op ops[] = {ORIEL_OP_SUM, ORIEL_OP_SUM, ORIEL_OP_BXOR,
					    ORIEL_OP_PREMUL_SUM, ORIEL_OP_USER};
	struct oriel_reduction reduction = {.size = sizeof(reduction),
					    .type = types[which],
					    .op = ops[which],
					    .block = block};

	if (which == PREMUL_FP64)
		reduction.factor = factor;
	if (which == USER_INT16)
		reduction.function = subtract;
	return reduction;
}

/* The element of @rank: sums of such numbers have other bits in another order. */
static void element(enum oriel_type type, uint64_t seed, unsigned rank, size_t i, char *to)
{
	uint64_t x = (seed * 1000003 + i) * 2654435761u + rank * UINT64_C(0x9e3779b97f4a7c15);
	float f;
	double d;

	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 32;
	f = (float)(int32_t)x * (float)(1u << (x >> 40) % 20);
	d = (double)(int64_t)x / 3.0;
	if (type == ORIEL_TYPE_FP32)
		memcpy(to, &f, sizeof(f));
	else if (type == ORIEL_TYPE_BF16)
		memcpy(to, (char *)&f + 2, 2);
	else if (type == ORIEL_TYPE_FP64)
		memcpy(to, &d, sizeof(d));
	else
		memcpy(to, &x, oriel_type_size(type));
}

/* One operation on single elements; @left becomes the result. */
static void apply(const struct oriel_reduction *reduction, char *left, const char *right)
{
	volatile double d, e;
	volatile float f, g;
	float f_copy, g_copy;
	double d_copy, e_copy;

	if (reduction->type == ORIEL_TYPE_UINT8) {
		*left = (char)(*left ^ *right);
	} else if (reduction->type == ORIEL_TYPE_INT16) {
		subtract(NULL, left, right, 1);
	} else if (reduction->type == ORIEL_TYPE_FP32 || reduction->type == ORIEL_TYPE_BF16) {
		memcpy(&f_copy, left, sizeof(f_copy));
		memcpy(&g_copy, right, sizeof(g_copy));
		f = f_copy;
		g = g_copy;
		f_copy = f + g;
		memcpy(left, &f_copy, sizeof(f_copy));
	} else {
		memcpy(&d_copy, left, sizeof(d_copy));
		memcpy(&e_copy, right, sizeof(e_copy));
		d = d_copy;
		e = e_copy;
		d_copy = d + e;
		memcpy(left, &d_copy, sizeof(d_copy));
	}
}

/* Converts an element to the accumulation type. */
static void operand(const struct site *s, unsigned rank, size_t i, char *to)
{
	volatile double product;
	double d;

	element((enum oriel_type)s->reduction.type, s->round, rank, i, to);
	if (s->reduction.type == ORIEL_TYPE_BF16) {
		memcpy(to + 2, to, 2);
		memset(to, 0, 2);
	}
	if (s->reduction.op != ORIEL_OP_PREMUL_SUM)
		return;
	memcpy(&d, to, sizeof(d));
	product = d * factor_of(rank);
	d = product;
	memcpy(to, &d, sizeof(d));
}

/* Rounds the float at @value to BF16: to nearest, ties to even. */
static void narrow(char *value)
{
	uint32_t bits;

	memcpy(&bits, value, sizeof(bits));
	bits += 0x7fff + (bits >> 16 & 1);
	bits >>= 16;
	memcpy(value, &bits, 2);
}

/* The order of oriel/reduce.h. */
static void fold_blocks(const struct rank *r, const struct site *s, size_t i, char *total)
{
	_Alignas(8) char part[8], value[8];
	unsigned rank;

	for (rank = 0; rank < r->size; rank++) {
		operand(s, rank, i, value);
		if (rank % s->block)
			apply(&s->reduction, part, value);
		else
			memcpy(part, value, 8);
		if ((rank + 1) % s->block && rank + 1 < r->size)
			continue;
		if (rank < s->block)
			memcpy(total, part, 8);
		else
			apply(&s->reduction, total, part);
	}
}

/* Once round, from the rank behind the one that has element @i of @count in its part. */
static void fold_ring(const struct rank *r, const struct site *s, size_t i, size_t count,
		      char *total)
{
	size_t round = (s->chunk / r->size & ~(size_t)63) * r->size, at = i * s->size % round;
	size_t rest = count * s->size - (i * s->size - at), length = rest < round ? rest : round;
	size_t share = ((length + r->size - 1) / r->size + 63) & ~(size_t)63;
	unsigned first = (unsigned)(at / share) + 1, k;
	_Alignas(8) char value[8];

	operand(s, first % r->size, i, total);
	for (k = 1; k < r->size; k++) {
		operand(s, (first + k) % r->size, i, value);
		apply(&s->reduction, total, value);
	}
}

/* A tree over the ranks, the first of which are added in pairs: then they are a power of two. */
static void fold_tree(const struct rank *r, const struct site *s, size_t i, char *total)
{
	_Alignas(8) char values[64][8], value[8];
	unsigned many = 1, pairs, k;

	while (2 * many <= r->size)
		many *= 2;
	pairs = r->size - many;
	for (k = 0; k < many; k++) {
		operand(s, k < pairs ? 2 * k : k + pairs, i, values[k]);
		if (k >= pairs)
			continue;
		operand(s, 2 * k + 1, i, value);
		apply(&s->reduction, values[k], value);
	}
	for (; many > 1; many /= 2)
		for (k = 0; k < many / 2; k++) {
			apply(&s->reduction, values[2 * k], values[2 * k + 1]);
			memcpy(values[k], values[2 * k], 8);
		}
	memcpy(total, values[0], 8);
}

/* Elements @begin and following of the reduction of all ranks. */
static void expect(const struct rank *r, const struct site *s, size_t begin, size_t count)
{
	_Alignas(8) char total[8];
	size_t i;

	for (i = 0; i < count; i++) {
		if (s->algorithm == ORIEL_ALGORITHM_RING)
			fold_ring(r, s, i, count, total);
		else if (s->algorithm == ORIEL_ALGORITHM_RECURSIVE)
			fold_tree(r, s, i, total);
		else
			fold_blocks(r, s, begin + i, total);
		if (s->reduction.type == ORIEL_TYPE_BF16)
			narrow(total);
		memcpy(s->expected + i * s->size, total, s->size);
	}
}

static void fill_own(const struct rank *r, const struct site *s, char *to, size_t count)
{
	_Alignas(8) char value[8];
	size_t i;

	for (i = 0; i < count; i++) {
		element((enum oriel_type)s->reduction.type, s->round, r->rank, i, value);
		memcpy(to + i * s->size, value, s->size);
	}
}

#endif
