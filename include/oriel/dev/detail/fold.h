/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of reductions for vectors of 16 bytes, with the bits that oriel/reduce.h defines;
 * dev/reduction.h calls it. A caller that knows the type and the operation at compile time gets the
 * code for those alone.
 *
 * Each operation of floats is an instruction with a rounding of its own, which compilers neither
 * fuse nor flush (PTX ISA 8.8, "add", "mul" and "div": with .rn they are not contracted, and
 * subnormal numbers are supported without .ftz), so that options of the compiler of a user's kernel
 * do not change bits.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_FOLD_H
#define ORIEL_DEV_DETAIL_FOLD_H

#include <oriel/dev/detail/convert.h>
#include <oriel/dev/detail/copy.h>

/* A reduction over @ranks ranks, in blocks of @block; not 0. */
struct oriel_dev_fold {
	uint32_t type; /* enum oriel_type */
	uint32_t op;   /* enum oriel_op */
	uint32_t ranks;
	uint32_t block;
	const uint64_t *factors; /* as in struct oriel_dev_reduction; NULL: another operation */
	/* ori_dev_fold_is_sum(), where the compiler knows the type; else false. */
	bool is_sum;
};

#define ORIEL_FOLD_WORDS 16u

/* Vectors of one thread that are under way at once: those of so many ranks. */
#define ORIEL_FOLD_BATCH 4u

/*
 * The elements of a vector in the accumulation type: one word each, with the sign or zeros ahead of
 * integers of fewer bits, or two, the lower one first, if that is a type of 64 bits.
 */
struct oriel_dev_sums {
	uint32_t word[ORIEL_FOLD_WORDS];
};

/* The partial results of one vector. */
struct oriel_dev_folding {
	struct oriel_dev_sums block; /* of the ranks of the block so far */
	struct oriel_dev_sums total; /* of the blocks so far */
	uint32_t count;              /* ranks in @block */
	bool has_total;
};

ORIEL_DEV uint32_t ori_dev_type_size(uint32_t type)
{
	switch (type) {
	case ORIEL_TYPE_INT8:
	case ORIEL_TYPE_UINT8:
	case ORIEL_TYPE_FP8_E4M3:
	case ORIEL_TYPE_FP8_E5M2:
		return 1;
	case ORIEL_TYPE_INT16:
	case ORIEL_TYPE_UINT16:
	case ORIEL_TYPE_FP16:
	case ORIEL_TYPE_BF16:
		return 2;
	case ORIEL_TYPE_INT32:
	case ORIEL_TYPE_UINT32:
	case ORIEL_TYPE_FP32:
		return 4;
	default:
		return 8;
	}
}

ORIEL_DEV bool ori_dev_type_is_float(uint32_t type)
{
	return type >= ORIEL_TYPE_FP16;
}

ORIEL_DEV bool ori_dev_type_is_signed(uint32_t type)
{
	return type <= ORIEL_TYPE_INT64;
}

/*
 * Is the accumulation type one of 64 bits? Averages of 8 and 16 bits, too, are defined in one, but
 * the sum of 65536 ranks fits in 32 bits.
 */
ORIEL_DEV bool ori_dev_fold_is_wide(const struct oriel_dev_fold *f)
{
	return ori_dev_type_size(f->type) == 8 ||
	       (f->op == ORIEL_OP_AVG &&
		(f->type == ORIEL_TYPE_INT32 || f->type == ORIEL_TYPE_UINT32));
}

/* Elements of a vector. */
ORIEL_DEV uint32_t ori_dev_fold_lanes(const struct oriel_dev_fold *f)
{
	return 16 / ori_dev_type_size(f->type);
}

ORIEL_DEV uint32_t ori_dev_fold_byte(const struct oriel_dev_vector *v, uint32_t i)
{
	return v->word[i / 4] >> i % 4 * 8 & 0xff;
}

ORIEL_DEV uint32_t ori_dev_fold_half(const struct oriel_dev_vector *v, uint32_t i)
{
	return v->word[i / 2] >> i % 2 * 16 & 0xffff;
}

ORIEL_DEV uint64_t ori_dev_fold_get(const struct oriel_dev_sums *s, uint32_t i)
{
	return s->word[2 * i] | (uint64_t)s->word[2 * i + 1] << 32;
}

ORIEL_DEV void ori_dev_fold_set(struct oriel_dev_sums *s, uint32_t i, uint64_t value)
{
	s->word[2 * i] = (uint32_t)value;
	s->word[2 * i + 1] = (uint32_t)(value >> 32);
}

/* A sum or an average of floats that needs no result before that of the last rank? */
ORIEL_DEV bool ori_dev_fold_is_sum(const struct oriel_dev_fold *f)
{
	return (f->op == ORIEL_OP_SUM || f->op == ORIEL_OP_AVG) && f->block >= f->ranks;
}

/* GPUs convert in one instruction. Arguments and results are bits. */
ORIEL_DEV uint32_t ori_dev_fold_from_fp16(uint32_t x)
{
#ifdef __CUDA_ARCH__
	uint32_t value;

	asm("cvt.f32.f16 %0, %1;" : "=r"(value) : "h"((uint16_t)x));
	return value;
#else
	return ori_dev_float_bits(ori_dev_from_fp16((uint16_t)x));
#endif
}

ORIEL_DEV bool ori_dev_is_nan32(uint32_t x)
{
	return (x & 0x7fffffffu) > ORIEL_FLOAT_INFINITY;
}

ORIEL_DEV bool ori_dev_is_nan64(uint64_t x)
{
	return (x & UINT64_C(0x7fffffffffffffff)) > UINT64_C(0x7ff0000000000000);
}

ORIEL_DEV uint32_t ori_dev_fold_to_fp16(uint32_t x)
{
#ifdef __CUDA_ARCH__
	uint16_t value;

	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(value) : "r"(x));
	return ori_dev_is_nan32(x) ? 0x7e00u : value;
#else
	return ori_dev_to_fp16(ori_dev_bits_float(x));
#endif
}

ORIEL_DEV double ori_dev_bits_double(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

ORIEL_DEV uint64_t ori_dev_double_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* The operations on bits of floats. */
#ifdef __CUDA_ARCH__
#define ORIEL_FOLD_FLOAT(noun, operation, instruction)                                 \
	ORIEL_DEV uint32_t ori_dev_##noun##32(uint32_t a, uint32_t b)                  \
	{                                                                              \
		uint32_t value;                                                        \
                                                                                       \
		asm(instruction ".rn.f32 %0, %1, %2;" : "=r"(value) : "r"(a), "r"(b)); \
		return value;                                                          \
	}                                                                              \
	ORIEL_DEV uint64_t ori_dev_##noun##64(uint64_t a, uint64_t b)                  \
	{                                                                              \
		uint64_t value;                                                        \
                                                                                       \
		asm(instruction ".rn.f64 %0, %1, %2;" : "=l"(value) : "l"(a), "l"(b)); \
		return value;                                                          \
	}
#else
#define ORIEL_FOLD_FLOAT(noun, operation, instruction)                                            \
	ORIEL_DEV uint32_t ori_dev_##noun##32(uint32_t a, uint32_t b)                             \
	{                                                                                         \
		return ori_dev_float_bits(ori_dev_bits_float(a) operation ori_dev_bits_float(b)); \
	}                                                                                         \
	ORIEL_DEV uint64_t ori_dev_##noun##64(uint64_t a, uint64_t b)                             \
	{                                                                                         \
		return ori_dev_double_bits(ori_dev_bits_double(a)                                 \
						   operation ori_dev_bits_double(b));             \
	}
#endif
ORIEL_FOLD_FLOAT(add, +, "add")
ORIEL_FOLD_FLOAT(multiply, *, "mul")
ORIEL_FOLD_FLOAT(divide, /, "div")

/*
 * minimum or, if @is_most, maximum of IEEE 754-2019. The order of the floats is that of their bits
 * as integers with a sign, once the other bits of negative ones are inverted.
 */
ORIEL_DEV uint32_t ori_dev_extreme32(uint32_t a, uint32_t b, bool is_most)
{
	int32_t left = (int32_t)(a ^ ((a >> 31 ? ~0u : 0) >> 1));
	int32_t right = (int32_t)(b ^ ((b >> 31 ? ~0u : 0) >> 1));

	if (ori_dev_is_nan32(a) || ori_dev_is_nan32(b))
		return ori_dev_is_nan32(a) ? a : b;
	return (left < right) != is_most ? a : b;
}

ORIEL_DEV uint64_t ori_dev_extreme64(uint64_t a, uint64_t b, bool is_most)
{
	int64_t left = (int64_t)(a ^ ((a >> 63 ? ~UINT64_C(0) : 0) >> 1));
	int64_t right = (int64_t)(b ^ ((b >> 63 ? ~UINT64_C(0) : 0) >> 1));

	if (ori_dev_is_nan64(a) || ori_dev_is_nan64(b))
		return ori_dev_is_nan64(a) ? a : b;
	return (left < right) != is_most ? a : b;
}

/*
 * A loop over @lanes, 16 at most. Its numbers are constants, since registers cannot be indexed.
 */
#define ORIEL_FOLD_EACH(i, lanes)              \
	ORIEL_DEV_UNROLL                       \
	for (i = 0; i < ORIEL_FOLD_WORDS; i++) \
		if (i < (lanes))

/* The same for accumulation types of 64 bits. */
#define ORIEL_FOLD_EACH_WIDE(i, lanes)             \
	ORIEL_DEV_UNROLL                           \
	for (i = 0; i < ORIEL_FOLD_WORDS / 4; i++) \
		if (i < (lanes))

ORIEL_DEV uint32_t ori_dev_fold_widen_byte(uint32_t type, uint32_t x)
{
	switch (type) {
	case ORIEL_TYPE_INT8:
		return (uint32_t)(int8_t)x;
	case ORIEL_TYPE_FP8_E4M3:
		return ori_dev_float_bits(ori_dev_from_e4m3((uint8_t)x));
	case ORIEL_TYPE_FP8_E5M2:
		return ori_dev_fold_from_fp16(x << 8);
	default:
		return x;
	}
}

ORIEL_DEV uint32_t ori_dev_fold_widen_half(uint32_t type, uint32_t x)
{
	switch (type) {
	case ORIEL_TYPE_INT16:
		return (uint32_t)(int16_t)x;
	case ORIEL_TYPE_FP16:
		return ori_dev_fold_from_fp16(x);
	case ORIEL_TYPE_BF16:
		return x << 16;
	default:
		return x;
	}
}

/* The elements of @v in the accumulation type. */
ORIEL_DEV struct oriel_dev_sums ori_dev_fold_widen(const struct oriel_dev_fold *f,
						   const struct oriel_dev_vector *v)
{
	struct oriel_dev_sums s = {{0}};
	uint32_t size = ori_dev_type_size(f->type), i;

	if (size == 1) {
		ORIEL_FOLD_EACH(i, 16u)
		s.word[i] = ori_dev_fold_widen_byte(f->type, ori_dev_fold_byte(v, i));
	} else if (size == 2) {
		ORIEL_FOLD_EACH(i, 8u)
		s.word[i] = ori_dev_fold_widen_half(f->type, ori_dev_fold_half(v, i));
	} else if (size == 4 && ori_dev_fold_is_wide(f)) {
		ORIEL_FOLD_EACH_WIDE(i, 4u)
		ori_dev_fold_set(&s, i,
				 ori_dev_type_is_signed(f->type) ? (uint64_t)(int32_t)v->word[i]
								 : v->word[i]);
	} else {
		ORIEL_FOLD_EACH(i, 4u)
		s.word[i] = v->word[i];
	}
	return s;
}

ORIEL_DEV uint32_t ori_dev_fold_float(uint32_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case ORIEL_OP_PROD:
		return ori_dev_multiply32(a, b);
	case ORIEL_OP_MIN:
	case ORIEL_OP_MAX:
		return ori_dev_extreme32(a, b, op == ORIEL_OP_MAX);
	default:
		return ori_dev_add32(a, b);
	}
}

ORIEL_DEV uint64_t ori_dev_fold_double(uint32_t op, uint64_t a, uint64_t b)
{
	switch (op) {
	case ORIEL_OP_PROD:
		return ori_dev_multiply64(a, b);
	case ORIEL_OP_MIN:
	case ORIEL_OP_MAX:
		return ori_dev_extreme64(a, b, op == ORIEL_OP_MAX);
	default:
		return ori_dev_add64(a, b);
	}
}

/* Integers, modulo 2^32; the bits above those of a shorter type are dropped at the end. */
ORIEL_DEV uint32_t ori_dev_fold_integer(uint32_t op, bool is_signed, uint32_t a, uint32_t b)
{
	bool is_less = is_signed ? (int32_t)a < (int32_t)b : a < b;

	switch (op) {
	case ORIEL_OP_PROD:
		return a * b;
	case ORIEL_OP_MIN:
		return is_less ? a : b;
	case ORIEL_OP_MAX:
		return is_less ? b : a;
	case ORIEL_OP_BAND:
		return a & b;
	case ORIEL_OP_BOR:
		return a | b;
	case ORIEL_OP_BXOR:
		return a ^ b;
	default:
		return a + b;
	}
}

ORIEL_DEV uint64_t ori_dev_fold_long(uint32_t op, bool is_signed, uint64_t a, uint64_t b)
{
	bool is_less = is_signed ? (int64_t)a < (int64_t)b : a < b;

	switch (op) {
	case ORIEL_OP_PROD:
		return a * b;
	case ORIEL_OP_MIN:
		return is_less ? a : b;
	case ORIEL_OP_MAX:
		return is_less ? b : a;
	case ORIEL_OP_BAND:
		return a & b;
	case ORIEL_OP_BOR:
		return a | b;
	case ORIEL_OP_BXOR:
		return a ^ b;
	default:
		return a + b;
	}
}

/* All lanes with an operation that is a constant of the loop. */
ORIEL_DEV void ori_dev_fold_lanes_by(const struct oriel_dev_fold *f, uint32_t op,
				     struct oriel_dev_sums *to, const struct oriel_dev_sums *right)
{
	uint32_t lanes = ori_dev_fold_lanes(f), i;
	bool is_signed = ori_dev_type_is_signed(f->type);

	if (f->type == ORIEL_TYPE_FP64) {
		ORIEL_FOLD_EACH_WIDE(i, 2u)
		ori_dev_fold_set(to, i,
				 ori_dev_fold_double(op, ori_dev_fold_get(to, i),
						     ori_dev_fold_get(right, i)));
	} else if (ori_dev_type_is_float(f->type)) {
		ORIEL_FOLD_EACH(i, lanes)
		to->word[i] = ori_dev_fold_float(op, to->word[i], right->word[i]);
	} else if (ori_dev_fold_is_wide(f)) {
		ORIEL_FOLD_EACH_WIDE(i, lanes)
		ori_dev_fold_set(to, i,
				 ori_dev_fold_long(op, is_signed, ori_dev_fold_get(to, i),
						   ori_dev_fold_get(right, i)));
	} else {
		ORIEL_FOLD_EACH(i, lanes)
		to->word[i] = ori_dev_fold_integer(op, is_signed, to->word[i], right->word[i]);
	}
}

/* @to becomes the left operand's result. */
ORIEL_DEV void ori_dev_fold_combine(const struct oriel_dev_fold *f, struct oriel_dev_sums *to,
				    const struct oriel_dev_sums *right)
{
	switch (f->op) {
	case ORIEL_OP_PROD:
		ori_dev_fold_lanes_by(f, ORIEL_OP_PROD, to, right);
		return;
	case ORIEL_OP_MIN:
		ori_dev_fold_lanes_by(f, ORIEL_OP_MIN, to, right);
		return;
	case ORIEL_OP_MAX:
		ori_dev_fold_lanes_by(f, ORIEL_OP_MAX, to, right);
		return;
	case ORIEL_OP_BAND:
		ori_dev_fold_lanes_by(f, ORIEL_OP_BAND, to, right);
		return;
	case ORIEL_OP_BOR:
		ori_dev_fold_lanes_by(f, ORIEL_OP_BOR, to, right);
		return;
	case ORIEL_OP_BXOR:
		ori_dev_fold_lanes_by(f, ORIEL_OP_BXOR, to, right);
		return;
	default:
		ori_dev_fold_lanes_by(f, ORIEL_OP_SUM, to, right);
	}
}

/*
 * PREMUL_SUM: multiplies @x by the factor of @rank. The lower bits of a product of integers depend
 * on those of its factors alone.
 */
ORIEL_DEV void ori_dev_fold_scale(const struct oriel_dev_fold *f, uint32_t rank,
				  struct oriel_dev_sums *x)
{
	uint64_t factor = f->factors[rank];
	uint32_t lanes = ori_dev_fold_lanes(f), i;

	if (f->type == ORIEL_TYPE_FP64) {
		ORIEL_FOLD_EACH_WIDE(i, 2u)
		ori_dev_fold_set(x, i, ori_dev_multiply64(ori_dev_fold_get(x, i), factor));
	} else if (ori_dev_type_is_float(f->type)) {
		ORIEL_FOLD_EACH(i, lanes)
		x->word[i] = ori_dev_multiply32(x->word[i], (uint32_t)factor);
	} else if (lanes == 2) {
		ORIEL_FOLD_EACH_WIDE(i, 2u)
		ori_dev_fold_set(x, i, ori_dev_fold_get(x, i) * factor);
	} else {
		ORIEL_FOLD_EACH(i, lanes)
		x->word[i] *= (uint32_t)factor;
	}
}

/* The sum of no ranks is -0, to which one adds any float without a change. */
ORIEL_DEV struct oriel_dev_folding ori_dev_fold_begin(void)
{
	struct oriel_dev_folding p = {{{0}}, {{0}}, 0, false};
	uint32_t i;

	ORIEL_FOLD_EACH(i, ORIEL_FOLD_WORDS)
	p.total.word[i] = 0x80000000u;
	return p;
}

/* The elements of @rank, which come in the order of the ranks. */
ORIEL_DEV void ori_dev_fold_next(const struct oriel_dev_fold *f, struct oriel_dev_folding *p,
				 uint32_t rank, const struct oriel_dev_vector *v)
{
	struct oriel_dev_sums x = ori_dev_fold_widen(f, v);

	if (f->factors)
		ori_dev_fold_scale(f, rank, &x);
	if (p->count)
		ori_dev_fold_combine(f, &p->block, &x);
	else
		p->block = x;
	p->count++;
	if (p->count < f->block && rank + 1 < f->ranks)
		return;
	if (p->has_total)
		ori_dev_fold_combine(f, &p->total, &p->block);
	else
		p->total = p->block;
	p->has_total = true;
	p->count = 0;
}

/*
 * The elements of rank @first and of those after it that exist, of which @v has ORIEL_FOLD_BATCH;
 * it is destroyed. A sum is instructions in a row: to branch by the operation took 0.1 us a rank.
 */
ORIEL_DEV void ori_dev_fold_batch(const struct oriel_dev_fold *f, struct oriel_dev_folding *p,
				  uint32_t first, struct oriel_dev_vector v[ORIEL_FOLD_BATCH])
{
	struct oriel_dev_sums x;
	uint32_t k, i;

	if (f->is_sum) {
		ORIEL_DEV_UNROLL
		for (k = 0; k < ORIEL_FOLD_BATCH; k++) {
			x = ori_dev_fold_widen(f, &v[k]);
			if (first + k < f->ranks)
				ori_dev_fold_lanes_by(f, ORIEL_OP_SUM, &p->total, &x);
		}
		return;
	}
	ORIEL_DEV_ROLL
	for (k = 0; k < ORIEL_FOLD_BATCH && first + k < f->ranks; k++) {
		ori_dev_fold_next(f, p, first + k, &v[0]);
		ORIEL_DEV_UNROLL
		for (i = 0; i + 1 < ORIEL_FOLD_BATCH; i++)
			v[i] = v[i + 1];
	}
}

/* The average of integers, towards 0. */
ORIEL_DEV void ori_dev_fold_divide(const struct oriel_dev_fold *f, struct oriel_dev_sums *s)
{
	uint32_t lanes = ori_dev_fold_lanes(f), i;
	bool is_signed = ori_dev_type_is_signed(f->type);
	uint64_t value;

	if (!ori_dev_fold_is_wide(f)) {
		ORIEL_FOLD_EACH(i, lanes)
		s->word[i] = is_signed ? (uint32_t)((int32_t)s->word[i] / (int32_t)f->ranks)
				       : s->word[i] / f->ranks;
		return;
	}
	ORIEL_FOLD_EACH_WIDE(i, lanes)
	{
		value = ori_dev_fold_get(s, i);
		value = is_signed ? (uint64_t)((int64_t)value / (int64_t)f->ranks)
				  : value / f->ranks;
		ori_dev_fold_set(s, i, value);
	}
}

ORIEL_DEV uint32_t ori_dev_fold_narrow_byte(uint32_t type, uint32_t x)
{
	switch (type) {
	case ORIEL_TYPE_FP8_E4M3:
		return ori_dev_to_e4m3(ori_dev_bits_float(x));
	case ORIEL_TYPE_FP8_E5M2:
		return ori_dev_to_e5m2(ori_dev_bits_float(x));
	default:
		return x & 0xff;
	}
}

ORIEL_DEV uint32_t ori_dev_fold_narrow_half(uint32_t type, uint32_t x)
{
	switch (type) {
	case ORIEL_TYPE_FP16:
		return ori_dev_fold_to_fp16(x);
	case ORIEL_TYPE_BF16:
		return ori_dev_to_bf16(ori_dev_bits_float(x));
	default:
		return x & 0xffff;
	}
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
/*
 * Two numbers in one instruction, the first one in the lower half: PTX ISA 8.8, "cvt", which gives
 * 0x7fff for each NaN, and 0xffff for nothing. @nan is that of the type.
 */
ORIEL_DEV uint32_t ori_dev_fold_narrow_pair(uint32_t type, uint32_t low, uint32_t high)
{
	uint32_t nan = type == ORIEL_TYPE_FP16 ? 0x7e00u : 0x7fc0u, pair, is_nan;

	if (type == ORIEL_TYPE_FP16)
		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "r"(high), "r"(low));
	else
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "r"(high), "r"(low));
	is_nan = (pair + 0x00010001u) & ~pair & 0x80008000u;
	return pair ^ (is_nan >> 15) * (0x7fffu ^ nan);
}
#endif

/* Rounds @s to the type of the elements. Each type has one NaN. */
ORIEL_DEV struct oriel_dev_vector ori_dev_fold_narrow(const struct oriel_dev_fold *f,
						      const struct oriel_dev_sums *s)
{
	uint32_t size = ori_dev_type_size(f->type), i;
	struct oriel_dev_vector v = {{0}};

	if (size == 1) {
		ORIEL_FOLD_EACH(i, 16u)
		v.word[i / 4] |= ori_dev_fold_narrow_byte(f->type, s->word[i]) << i % 4 * 8;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	} else if (f->type == ORIEL_TYPE_FP16 || f->type == ORIEL_TYPE_BF16) {
		ORIEL_FOLD_EACH(i, 4u)
		v.word[i] = ori_dev_fold_narrow_pair(f->type, s->word[2 * i], s->word[2 * i + 1]);
#endif
	} else if (size == 2) {
		ORIEL_FOLD_EACH(i, 8u)
		v.word[i / 2] |= ori_dev_fold_narrow_half(f->type, s->word[i]) << i % 2 * 16;
	} else if (size == 4) {
		ORIEL_FOLD_EACH(i, 4u)
		v.word[i] = ori_dev_fold_is_wide(f)        ? s->word[2 * i]
			    : f->type != ORIEL_TYPE_FP32   ? s->word[i]
			    : ori_dev_is_nan32(s->word[i]) ? 0x7fc00000u
							   : s->word[i];
	} else {
		ORIEL_FOLD_EACH(i, 4u)
		v.word[i] = s->word[i];
		ORIEL_FOLD_EACH_WIDE(i, 2u)
		{
			if (f->type != ORIEL_TYPE_FP64 || !ori_dev_is_nan64(ori_dev_fold_get(s, i)))
				continue;
			v.word[2 * i] = 0;
			v.word[2 * i + 1] = 0x7ff80000u;
		}
	}
	return v;
}

/* The end result, once the elements of all ranks have come. */
ORIEL_DEV struct oriel_dev_vector ori_dev_fold_end(const struct oriel_dev_fold *f,
						   struct oriel_dev_folding *p)
{
	uint32_t lanes = ori_dev_fold_lanes(f), i, ranks;
	uint64_t many;

	if (f->op != ORIEL_OP_AVG)
		return ori_dev_fold_narrow(f, &p->total);
	ranks = ori_dev_float_bits((float)f->ranks);
	if (f->type == ORIEL_TYPE_FP64) {
		many = ori_dev_double_bits((double)f->ranks);
		ORIEL_FOLD_EACH_WIDE(i, 2u)
		ori_dev_fold_set(&p->total, i,
				 ori_dev_divide64(ori_dev_fold_get(&p->total, i), many));
	} else if (ori_dev_type_is_float(f->type)) {
		ORIEL_FOLD_EACH(i, lanes)
		p->total.word[i] = ori_dev_divide32(p->total.word[i], ranks);
	} else {
		ori_dev_fold_divide(f, &p->total);
	}
	return ori_dev_fold_narrow(f, &p->total);
}

#endif
