/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of reductions, compiled once for each kind of processor: fold_plain.c, fold_avx2.c and
 * fold_avx512.c define FOLD_SET, the set that this text is for, and include it. There is no code
 * for a processor in it: the options of each file let the compiler make its vectors.
 */
#include <oriel/dev/detail/convert.h>

#include "reduce/fold.h"

/* Elements of any alignment, which the caller's program has stored as any type. */
#define FOLD_ANY __attribute__((aligned(1), may_alias))

typedef int8_t fold_s8 FOLD_ANY;
typedef int16_t fold_s16 FOLD_ANY;
typedef int32_t fold_s32 FOLD_ANY;
typedef int64_t fold_s64 FOLD_ANY;
typedef uint8_t fold_u8 FOLD_ANY;
typedef uint16_t fold_u16 FOLD_ANY;
typedef uint32_t fold_u32 FOLD_ANY;
typedef uint64_t fold_u64 FOLD_ANY;
typedef float fold_f32 FOLD_ANY;
typedef double fold_f64 FOLD_ANY;

/* 64 bits, so that 16-bit products do not become products of int, which overflow. */
#define FOLD_ADD(type, a, b) ((type)((a) + (b)))
#define FOLD_MUL(type, a, b) ((type)((a) * (b)))
#define FOLD_MULTIPLY(type, a, b) ((type)(1u * (a) * (b)))
#define FOLD_AND(type, a, b) ((type)((a) & (b)))
#define FOLD_OR(type, a, b) ((type)((a) | (b)))
#define FOLD_XOR(type, a, b) ((type)((a) ^ (b)))
#define FOLD_LEAST(type, a, b) ((a) < (b) ? (a) : (b))
#define FOLD_MOST(type, a, b) ((a) > (b) ? (a) : (b))

/*
 * minimum and maximum of IEEE 754-2019: of equal operands the bits are equal or those of -0 and +0;
 * a NaN on the right is the result of a comparison that does not hold.
 */
#define FOLD_FLOAT_ORDER(name, type, word, compare, zeros)                \
	static inline type name(type a, type b)                           \
	{                                                                 \
		word left, right, both;                                   \
		type equal;                                               \
                                                                          \
		memcpy(&left, &a, sizeof(left));                          \
		memcpy(&right, &b, sizeof(right));                        \
		both = left zeros right;                                  \
		memcpy(&equal, &both, sizeof(equal));                     \
		return a compare b ? a : a == b ? equal : a != a ? a : b; \
	}
FOLD_FLOAT_ORDER(fold_min_f32, float, uint32_t, <, |)
FOLD_FLOAT_ORDER(fold_max_f32, float, uint32_t, >, &)
FOLD_FLOAT_ORDER(fold_min_f64, double, uint64_t, <, |)
FOLD_FLOAT_ORDER(fold_max_f64, double, uint64_t, >, &)
#define FOLD_MIN_F32(type, a, b) fold_min_f32(a, b)
#define FOLD_MAX_F32(type, a, b) fold_max_f32(a, b)
#define FOLD_MIN_F64(type, a, b) fold_min_f64(a, b)
#define FOLD_MAX_F64(type, a, b) fold_max_f64(a, b)

/* pair() and next() of an operation; @type is that of the accumulation. */
#define FOLD_OPERATION(noun, type, any, OP)                                                  \
	static void pair_##noun(void *to, const void *left, const void *right, size_t count) \
	{                                                                                    \
		type *restrict out = to;                                                     \
		const any *a = left, *b = right;                                             \
		size_t i;                                                                    \
                                                                                             \
		for (i = 0; i < count; i++)                                                  \
			out[i] = OP(type, a[i], b[i]);                                       \
	}                                                                                    \
	static void next_##noun(void *to, const void *right, size_t count)                   \
	{                                                                                    \
		type *restrict out = to;                                                     \
		const any *restrict b = right;                                               \
		size_t i;                                                                    \
                                                                                             \
		for (i = 0; i < count; i++)                                                  \
			out[i] = OP(type, out[i], b[i]);                                     \
	}

#define FOLD_SCALE(noun, type, MUL)                                          \
	static void scale_##noun(void *to, const void *factor, size_t count) \
	{                                                                    \
		type *out = to;                                              \
		const type by = *(const type *)factor;                       \
		size_t i;                                                    \
                                                                             \
		for (i = 0; i < count; i++)                                  \
			out[i] = MUL(type, out[i], by);                      \
	}

#define FOLD_INTEGER(width)                                                         \
	FOLD_OPERATION(sum_##width, uint##width##_t, fold_u##width, FOLD_ADD)       \
	FOLD_OPERATION(prod_##width, uint##width##_t, fold_u##width, FOLD_MULTIPLY) \
	FOLD_OPERATION(band_##width, uint##width##_t, fold_u##width, FOLD_AND)      \
	FOLD_OPERATION(bor_##width, uint##width##_t, fold_u##width, FOLD_OR)        \
	FOLD_OPERATION(bxor_##width, uint##width##_t, fold_u##width, FOLD_XOR)      \
	FOLD_OPERATION(min_s##width, int##width##_t, fold_s##width, FOLD_LEAST)     \
	FOLD_OPERATION(max_s##width, int##width##_t, fold_s##width, FOLD_MOST)      \
	FOLD_OPERATION(min_u##width, uint##width##_t, fold_u##width, FOLD_LEAST)    \
	FOLD_OPERATION(max_u##width, uint##width##_t, fold_u##width, FOLD_MOST)     \
	FOLD_SCALE(width, uint##width##_t, FOLD_MULTIPLY)

FOLD_INTEGER(8)
FOLD_INTEGER(16)
FOLD_INTEGER(32)
FOLD_INTEGER(64)

FOLD_OPERATION(sum_f32, float, fold_f32, FOLD_ADD)
FOLD_OPERATION(prod_f32, float, fold_f32, FOLD_MUL)
FOLD_OPERATION(min_f32, float, fold_f32, FOLD_MIN_F32)
FOLD_OPERATION(max_f32, float, fold_f32, FOLD_MAX_F32)
FOLD_OPERATION(sum_f64, double, fold_f64, FOLD_ADD)
FOLD_OPERATION(prod_f64, double, fold_f64, FOLD_MUL)
FOLD_OPERATION(min_f64, double, fold_f64, FOLD_MIN_F64)
FOLD_OPERATION(max_f64, double, fold_f64, FOLD_MAX_F64)
FOLD_SCALE(f32, float, FOLD_MUL)
FOLD_SCALE(f64, double, FOLD_MUL)

#define FOLD_WIDEN(noun, type, any, convert)                               \
	static void widen_##noun(void *to, const void *from, size_t count) \
	{                                                                  \
		type *restrict out = to;                                   \
		const any *restrict in = from;                             \
		size_t i;                                                  \
                                                                           \
		for (i = 0; i < count; i++)                                \
			out[i] = convert(in[i]);                           \
	}

FOLD_WIDEN(fp16, float, fold_u16, ori_dev_from_fp16)
FOLD_WIDEN(bf16, float, fold_u16, ori_dev_from_bf16)
FOLD_WIDEN(e4m3, float, fold_u8, ori_dev_from_e4m3)
FOLD_WIDEN(e5m2, float, fold_u8, ori_dev_from_e5m2)
FOLD_WIDEN(s8, int64_t, fold_s8, (int64_t))
FOLD_WIDEN(s16, int64_t, fold_s16, (int64_t))
FOLD_WIDEN(s32, int64_t, fold_s32, (int64_t))
FOLD_WIDEN(u8, uint64_t, fold_u8, (uint64_t))
FOLD_WIDEN(u16, uint64_t, fold_u16, (uint64_t))
FOLD_WIDEN(u32, uint64_t, fold_u32, (uint64_t))

static inline float fold_one_nan_f32(float x)
{
	return x == x ? x : ori_dev_bits_float(0x7fc00000u);
}

static inline double fold_one_nan_f64(double x)
{
	const uint64_t bits = UINT64_C(0x7ff8000000000000);
	double nan;

	memcpy(&nan, &bits, sizeof(nan));
	return x == x ? x : nan;
}

/* last() of floating-point numbers, and the same of an average. */
#define FOLD_LAST_FLOAT(noun, type, any, convert)                                         \
	static void last_##noun(void *to, const void *from, uint32_t ranks, size_t count) \
	{                                                                                 \
		any *restrict out = to;                                                   \
		const type *restrict in = from;                                           \
		size_t i;                                                                 \
                                                                                          \
		(void)ranks;                                                              \
		for (i = 0; i < count; i++)                                               \
			out[i] = convert(in[i]);                                          \
	}                                                                                 \
	static void avg_##noun(void *to, const void *from, uint32_t ranks, size_t count)  \
	{                                                                                 \
		any *restrict out = to;                                                   \
		const type *restrict in = from;                                           \
		const type by = (type)ranks;                                              \
		size_t i;                                                                 \
                                                                                          \
		for (i = 0; i < count; i++)                                               \
			out[i] = convert(in[i] / by);                                     \
	}

FOLD_LAST_FLOAT(fp16, float, fold_u16, ori_dev_to_fp16)
FOLD_LAST_FLOAT(bf16, float, fold_u16, ori_dev_to_bf16)
FOLD_LAST_FLOAT(e4m3, float, fold_u8, ori_dev_to_e4m3)
FOLD_LAST_FLOAT(e5m2, float, fold_u8, ori_dev_to_e5m2)
FOLD_LAST_FLOAT(f32, float, fold_f32, fold_one_nan_f32)
FOLD_LAST_FLOAT(f64, double, fold_f64, fold_one_nan_f64)

#define FOLD_AVG_INTEGER(noun, type, any, one)                                           \
	static void avg_##noun(void *to, const void *from, uint32_t ranks, size_t count) \
	{                                                                                \
		any *restrict out = to;                                                  \
		const type *restrict in = from;                                          \
		size_t i;                                                                \
                                                                                         \
		for (i = 0; i < count; i++)                                              \
			out[i] = (one)(in[i] / (type)ranks);                             \
	}

FOLD_AVG_INTEGER(s8, int64_t, fold_s8, int8_t)
FOLD_AVG_INTEGER(s16, int64_t, fold_s16, int16_t)
FOLD_AVG_INTEGER(s32, int64_t, fold_s32, int32_t)
FOLD_AVG_INTEGER(s64, int64_t, fold_s64, int64_t)
FOLD_AVG_INTEGER(u8, uint64_t, fold_u8, uint8_t)
FOLD_AVG_INTEGER(u16, uint64_t, fold_u16, uint16_t)
FOLD_AVG_INTEGER(u32, uint64_t, fold_u32, uint32_t)
FOLD_AVG_INTEGER(u64, uint64_t, fold_u64, uint64_t)

#define FOLD_LAST_INTEGER(width)                                                           \
	static void last_##width(void *to, const void *from, uint32_t ranks, size_t count) \
	{                                                                                  \
		(void)ranks;                                                               \
		memcpy(to, from, count *(width / 8));                                      \
	}

FOLD_LAST_INTEGER(8)
FOLD_LAST_INTEGER(16)
FOLD_LAST_INTEGER(32)
FOLD_LAST_INTEGER(64)

#define FOLD_PAIR(noun) pair_##noun, next_##noun

#define FOLD_FLOAT_ROW(type, noun, sum, widen)                                                   \
	[type] = {                                                                               \
		[ORIEL_OP_SUM] = {widen, NULL, FOLD_PAIR(sum_##sum), last_##noun},               \
		[ORIEL_OP_PROD] = {widen, NULL, FOLD_PAIR(prod_##sum), last_##noun},             \
		[ORIEL_OP_MIN] = {widen, NULL, FOLD_PAIR(min_##sum), last_##noun},               \
		[ORIEL_OP_MAX] = {widen, NULL, FOLD_PAIR(max_##sum), last_##noun},               \
		[ORIEL_OP_AVG] = {widen, NULL, FOLD_PAIR(sum_##sum), avg_##noun},                \
		[ORIEL_OP_PREMUL_SUM] = {widen, scale_##sum, FOLD_PAIR(sum_##sum), last_##noun}, \
	}

#define FOLD_INTEGER_ROW(type, sign, width, widen)                                         \
	[type] = {                                                                         \
		[ORIEL_OP_SUM] = {NULL, NULL, FOLD_PAIR(sum_##width), last_##width},       \
		[ORIEL_OP_PROD] = {NULL, NULL, FOLD_PAIR(prod_##width), last_##width},     \
		[ORIEL_OP_MIN] = {NULL, NULL, FOLD_PAIR(min_##sign##width), last_##width}, \
		[ORIEL_OP_MAX] = {NULL, NULL, FOLD_PAIR(max_##sign##width), last_##width}, \
		[ORIEL_OP_AVG] = {widen, NULL, FOLD_PAIR(sum_64), avg_##sign##width},      \
		[ORIEL_OP_BAND] = {NULL, NULL, FOLD_PAIR(band_##width), last_##width},     \
		[ORIEL_OP_BOR] = {NULL, NULL, FOLD_PAIR(bor_##width), last_##width},       \
		[ORIEL_OP_BXOR] = {NULL, NULL, FOLD_PAIR(bxor_##width), last_##width},     \
		[ORIEL_OP_PREMUL_SUM] = {NULL, scale_##width, FOLD_PAIR(sum_##width),      \
					 last_##width},                                    \
	}

static const struct ori_fold_loops loops[ORI_TYPES][ORI_OPS] = {
	FOLD_INTEGER_ROW(ORIEL_TYPE_INT8, s, 8, widen_s8),
	FOLD_INTEGER_ROW(ORIEL_TYPE_INT16, s, 16, widen_s16),
	FOLD_INTEGER_ROW(ORIEL_TYPE_INT32, s, 32, widen_s32),
	FOLD_INTEGER_ROW(ORIEL_TYPE_INT64, s, 64, NULL),
	FOLD_INTEGER_ROW(ORIEL_TYPE_UINT8, u, 8, widen_u8),
	FOLD_INTEGER_ROW(ORIEL_TYPE_UINT16, u, 16, widen_u16),
	FOLD_INTEGER_ROW(ORIEL_TYPE_UINT32, u, 32, widen_u32),
	FOLD_INTEGER_ROW(ORIEL_TYPE_UINT64, u, 64, NULL),
	FOLD_FLOAT_ROW(ORIEL_TYPE_FP16, fp16, f32, widen_fp16),
	FOLD_FLOAT_ROW(ORIEL_TYPE_BF16, bf16, f32, widen_bf16),
	FOLD_FLOAT_ROW(ORIEL_TYPE_FP32, f32, f32, NULL),
	FOLD_FLOAT_ROW(ORIEL_TYPE_FP64, f64, f64, NULL),
	FOLD_FLOAT_ROW(ORIEL_TYPE_FP8_E4M3, e4m3, f32, widen_e4m3),
	FOLD_FLOAT_ROW(ORIEL_TYPE_FP8_E5M2, e5m2, f32, widen_e5m2),
};

static struct ori_fold_loops find(enum oriel_type type, enum oriel_op op)
{
	return loops[type][op];
}

static bool is_supported(void)
{
	return FOLD_SUPPORTED;
}

const struct ori_fold_set FOLD_SET = {FOLD_NAME, is_supported, find};
