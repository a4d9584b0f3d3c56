/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of every processor compute the bits that oriel/reduce.h defines. The reference below
 * computes one element at a time, from the definitions of the formats: values are doubles, floats
 * are rounded from exact or innocuously rounded doubles, small types are found by a search among
 * all of their values, and integers are 128 bits wide.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/error.h"
#include "reduce/fold.h"

/* Room for every product of two elements. */
__extension__ typedef __int128 large;
__extension__ typedef unsigned __int128 ularge;

#define RANKS 5u
#define COUNT 2600u /* more than two slices of every type */
#define ROOM (COUNT * 8 + 64)

static char inputs[RANKS][ROOM];
static char output[2][ROOM];
static double factors[RANKS]; /* storage of any accumulation type */

static uint64_t seed;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static bool is_float(enum oriel_type type)
{
	return type >= ORIEL_TYPE_FP16;
}

static bool is_signed(enum oriel_type type)
{
	return type <= ORIEL_TYPE_INT64;
}

/* A format of @bits bits: digits of the mantissa and the bias of the exponent. */
struct format {
	int bits, digits, bias;
	bool has_infinity;
	uint64_t nan;
};

static struct format format_of(enum oriel_type type)
{
	switch (type) {
	case ORIEL_TYPE_FP16:
		return (struct format){16, 10, 15, true, 0x7e00};
	case ORIEL_TYPE_BF16:
		return (struct format){16, 7, 127, true, 0x7fc0};
	case ORIEL_TYPE_FP8_E4M3:
		return (struct format){8, 3, 7, false, 0x7f};
	case ORIEL_TYPE_FP8_E5M2:
		return (struct format){8, 2, 15, true, 0x7f};
	case ORIEL_TYPE_FP32:
		return (struct format){32, 23, 127, true, 0x7fc00000};
	default:
		return (struct format){64, 52, 1023, true, UINT64_C(0x7ff8000000000000)};
	}
}

static double decode(enum oriel_type type, uint64_t code)
{
	struct format f = format_of(type);
	uint64_t mantissa = code & ((UINT64_C(1) << f.digits) - 1);
	uint64_t most = (UINT64_C(1) << (f.bits - 1 - f.digits)) - 1;
	uint64_t exponent = code >> f.digits & most;
	double sign = code >> (f.bits - 1) & 1 ? -1.0 : 1.0;

	if (f.has_infinity && exponent == most)
		return mantissa ? NAN : sign * INFINITY;
	if (!f.has_infinity && exponent == most && mantissa == 7)
		return NAN;
	if (!exponent)
		return sign * ldexp((double)mantissa, 1 - f.bias - f.digits);
	return sign * ldexp((double)(mantissa | UINT64_C(1) << f.digits),
			    (int)exponent - f.bias - f.digits);
}

/* The code of the largest magnitude that is not above @value, which is not a NaN. */
static uint64_t search(enum oriel_type type, double value)
{
	struct format f = format_of(type);
	uint64_t low = 0, high = f.has_infinity ? ((UINT64_C(1) << (f.bits - 1 - f.digits)) - 1)
							  << f.digits
						: 0x7e;

	while (low < high) {
		uint64_t middle = (low + high + 1) / 2;

		if (decode(type, middle) <= value)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static uint64_t encode(enum oriel_type type, double value)
{
	struct format f = format_of(type);
	uint64_t sign = signbit(value) ? UINT64_C(1) << (f.bits - 1) : 0, low;
	double below, above;
	uint64_t code;

	if (isnan(value))
		return f.nan;
	value = fabs(value);
	low = search(type, value);
	below = decode(type, low);
	if (below == value)
		return sign | low;
	if (!f.has_infinity && low == 0x7e)
		return value > 464 ? f.nan : sign | low;
	above = decode(type, low + 1);
	/* Infinity stands for the number that the exponent would have next. */
	if (isinf(above))
		above = below + (below - decode(type, low - 1));
	code = value - below < above - value || (value - below == above - value && !(low & 1))
		       ? low
		       : low + 1;
	return sign | code;
}

static uint64_t load(enum oriel_type type, const char *at)
{
	uint64_t code = 0;

	memcpy(&code, at, oriel_type_size(type)); /* little-endian, as all processors here */
	return code;
}

/* The result of an operation in the accumulation type, which is FP32 or FP64. */
static double rounded(enum oriel_type sum, double value)
{
	return sum == ORIEL_TYPE_FP32 ? (double)(float)value : value;
}

static double ordered(double a, double b, bool is_least)
{
	if (isnan(a) || isnan(b))
		return NAN;
	if (a == 0 && b == 0)
		return (signbit(a) && signbit(b)) || ((signbit(a) || signbit(b)) && is_least) ? -0.0
											      : 0.0;
	return (a < b) == is_least ? a : b;
}

static double float_op(enum oriel_op op, enum oriel_type sum, double a, double b)
{
	switch (op) {
	case ORIEL_OP_PROD:
		return rounded(sum, a * b);
	case ORIEL_OP_MIN:
		return ordered(a, b, true);
	case ORIEL_OP_MAX:
		return ordered(a, b, false);
	default:
		return rounded(sum, a + b);
	}
}

static double float_value(enum oriel_type type, enum oriel_op op, enum oriel_type sum,
			  uint64_t code, unsigned rank)
{
	double value = decode(type, code), by;
	float narrow;

	if (op != ORIEL_OP_PREMUL_SUM)
		return value;
	if (sum == ORIEL_TYPE_FP64)
		return value * factors[rank];
	memcpy(&narrow, (char *)factors + 4 * rank, 4);
	by = (double)narrow;
	return rounded(sum, value * by);
}

static large integer_value(enum oriel_type type, uint64_t code)
{
	unsigned bits = 8 * (unsigned)oriel_type_size(type);

	if (is_signed(type) && code >> (bits - 1) & 1)
		return (large)code - ((large)1 << bits);
	return code;
}

/* Keeps the value that @type has for the low bits of @value. */
static large wrapped(enum oriel_type type, large value)
{
	unsigned bits = 8 * (unsigned)oriel_type_size(type);
	uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

	return integer_value(type, (uint64_t)value & mask);
}

static large integer_op(enum oriel_op op, enum oriel_type sum, large a, large b)
{
	switch (op) {
	case ORIEL_OP_PROD:
		return wrapped(sum, (large)((ularge)a * (ularge)b));
	case ORIEL_OP_MIN:
		return a < b ? a : b;
	case ORIEL_OP_MAX:
		return a < b ? b : a;
	case ORIEL_OP_BAND:
		return a & b;
	case ORIEL_OP_BOR:
		return a | b;
	case ORIEL_OP_BXOR:
		return a ^ b;
	default:
		return wrapped(sum, a + b);
	}
}

static uint64_t reference_integer(const struct ori_fold *f, const uint64_t *codes)
{
	large total = 0, part = 0, value;
	uint32_t rank;

	for (rank = 0; rank < f->ranks; rank++) {
		value = integer_value(f->type, codes[rank]);
		if (f->op == ORIEL_OP_PREMUL_SUM)
			value = integer_op(
				ORIEL_OP_PROD, f->type, value,
				integer_value(f->type,
					      load(f->type, (char *)factors + rank * f->sum_size)));
		part = rank % f->block ? integer_op(f->op, f->sum, part, value) : value;
		if ((rank + 1) % f->block == 0 || rank + 1 == f->ranks)
			total = rank < f->block ? part : integer_op(f->op, f->sum, total, part);
	}
	if (f->op == ORIEL_OP_AVG)
		total = total / (large)f->ranks;
	return (uint64_t)total & (f->size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * f->size) - 1);
}

static uint64_t reference_float(const struct ori_fold *f, const uint64_t *codes)
{
	double total = 0, part = 0, value;
	uint32_t rank;

	for (rank = 0; rank < f->ranks; rank++) {
		value = float_value(f->type, f->op, f->sum, codes[rank], rank);
		part = rank % f->block ? float_op(f->op, f->sum, part, value) : value;
		if ((rank + 1) % f->block == 0 || rank + 1 == f->ranks)
			total = rank < f->block ? part : float_op(f->op, f->sum, total, part);
	}
	if (f->op == ORIEL_OP_AVG)
		total = rounded(f->sum, total / f->ranks);
	return encode(f->type, total);
}

static uint64_t reference(const struct ori_fold *f, const uint64_t *codes)
{
	return is_float(f->type) ? reference_float(f, codes) : reference_integer(f, codes);
}

/* Random bits, small numbers that are added without loss, and what is special about a format. */
static uint64_t draw_code(enum oriel_type type)
{
	static const double special[] = {0.0,       -0.0,     1.0,       -1.0,   NAN,     INFINITY,
					 -INFINITY, 0x1p-149, -0x1p-149, 448.0,  464.0,   465.0,
					 65504.0,   65520.0,  0x1p-24,   0x1p-9, 0x1p-16, 57344.0};
	uint64_t kind = draw() % 4;

	if (!is_float(type) || kind < 2)
		return draw();
	if (kind == 2)
		return encode(type, special[draw() % (sizeof(special) / sizeof(special[0]))]);
	return encode(type, (double)(int64_t)(draw() % 512) / 8 - 32);
}

static void fill(enum oriel_type type, enum oriel_type sum, unsigned shift)
{
	size_t size = oriel_type_size(type), i;
	unsigned rank;
	uint64_t code;

	for (rank = 0; rank < RANKS; rank++) {
		for (i = 0; i < COUNT; i++) {
			code = draw_code(type);
			memcpy(inputs[rank] + shift + i * size, &code, size);
		}
		code = is_float(sum) ? encode(sum, (double)(draw() % 1000) / 7 - 60) : draw();
		memcpy((char *)factors + rank * oriel_type_size(sum), &code, oriel_type_size(sum));
	}
}

/* The sums of the blocks, and the end result of these, to @out. */
static void fold_by_blocks(const struct ori_fold *f, const char *const *from, char *out,
			   size_t count)
{
	static _Alignas(64) char sums[RANKS][ROOM];
	const char *all[RANKS];
	uint32_t block, end, blocks = (f->ranks + f->block - 1) / f->block;

	for (block = 0; block < blocks; block++) {
		end = block + 1 < blocks ? (block + 1) * f->block : f->ranks;
		memset(sums[block], 0x5a, sizeof(sums[block]));
		ori_fold_block(f, from, block * f->block, end, sums[block], count);
		assert_int_equal(sums[block][count * f->sum_size], 0x5a);
		all[block] = sums[block];
	}
	ori_fold_sums(f, all, blocks, out, count);
}

/* The same, one rank after the other, and then one sum. */
static void fold_by_ranks(const struct ori_fold *f, const char *const *from, char *out,
			  size_t count)
{
	static _Alignas(64) char total[ROOM], sum[ROOM];
	const char *all = total;
	uint32_t rank;

	for (rank = 0; rank < f->ranks; rank++) {
		if (rank % f->block)
			ori_fold_add(f, sum, rank, from[rank], count);
		else
			ori_fold_block(f, from, rank, rank + 1, sum, count);
		if ((rank + 1) % f->block && rank + 1 < f->ranks)
			continue;
		if (rank < f->block)
			memcpy(total, sum, sizeof(total));
		else if (rank % 2)
			ori_fold_two(f, total, sum, total, count);
		else
			ori_fold_two(f, total, sum, sum, count);
		if (rank >= f->block && rank % 2 == 0)
			memcpy(total, sum, sizeof(total));
	}
	ori_fold_sums(f, &all, 1, out, count);
}

/* One fold of the first @count elements, at odd addresses if @shift is odd. */
static void check_fold(const struct ori_fold *f, unsigned shift, size_t count)
{
	char *outs[2] = {output[0] + shift, output[1] + 2 * shift};
	const char *from[RANKS];
	uint64_t codes[RANKS];
	uint32_t rank;
	size_t i;

	for (rank = 0; rank < RANKS; rank++)
		from[rank] = inputs[rank] + shift;
	memset(output, 0x5a, sizeof(output));
	ori_fold_all(f, from, outs, 2, 0, count);
	for (i = 0; i < count; i++) {
		for (rank = 0; rank < f->ranks; rank++)
			codes[rank] = load(f->type, from[rank] + i * f->size);
		if (load(f->type, outs[0] + i * f->size) != reference(f, codes))
			fail_msg("%s of %s, %u ranks, block %u, element %zu of %zu, shift %u: "
				 "0x%llx instead of 0x%llx (0x%llx, 0x%llx)",
				 oriel_op_name(f->op), oriel_type_name(f->type), f->ranks, f->block,
				 i, count, shift,
				 (unsigned long long)load(f->type, outs[0] + i * f->size),
				 (unsigned long long)reference(f, codes),
				 (unsigned long long)codes[0], (unsigned long long)codes[1]);
	}
	assert_memory_equal(outs[0], outs[1], count * f->size);
	assert_int_equal(outs[0][count * f->size], 0x5a);
	assert_int_equal(outs[1][count * f->size], 0x5a);
	assert_int_equal(output[0][0], shift || !count ? 0x5a : output[0][0]);
	memset(output[1], 0x5a, sizeof(output[1]));
	fold_by_blocks(f, from, outs[1], count);
	assert_memory_equal(outs[0], outs[1], count * f->size);
	assert_int_equal(outs[1][count * f->size], 0x5a);
	memset(output[1], 0x5a, sizeof(output[1]));
	fold_by_ranks(f, from, outs[1], count);
	assert_memory_equal(outs[0], outs[1], count * f->size);
	assert_int_equal(outs[1][count * f->size], 0x5a);
}

static struct oriel_reduction reduction_of(enum oriel_type type, enum oriel_op op, unsigned block)
{
	struct oriel_reduction r = {.size = sizeof(r), .type = type, .op = op, .block = block};

	r.factor = op == ORIEL_OP_PREMUL_SUM ? factors : NULL;
	return r;
}

static void check_type(const struct ori_fold_set *set, enum oriel_type type, enum oriel_op op)
{
	static const struct {
		unsigned ranks, block;
		size_t count;
	} shapes[] = {{1, 1, 1},  {1, 4, 77}, {2, 2, 1025}, {2, 1, 31}, {3, 3, 63},  {3, 2, 100},
		      {4, 2, 65}, {4, 4, 33}, {5, 2, 2599}, {5, 5, 17}, {5, 3, 129}, {5, 1, 0}};
	enum oriel_type sum = oriel_type_accumulation(type, op);
	struct oriel_reduction r;
	struct ori_fold f;
	unsigned i, shift;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		shift = i * 5 % 17;
		fill(type, sum, shift);
		r = reduction_of(type, op, shapes[i].block);
		ori_fold_open(&f, &r, shapes[i].ranks, r.factor ? (char *)factors : NULL, set);
		check_fold(&f, shift, shapes[i].count);
	}
}

static void test_every_set_folds_every_type_as_the_reference(void **state)
{
	const struct ori_fold_set *const *set;
	unsigned type, op;

	(void)state;
	for (set = ori_fold_sets; *set; set++) {
		if (!(*set)->is_supported()) {
			print_message("this processor has no %s\n", (*set)->name);
			continue;
		}
		for (type = ORIEL_TYPE_INT8; type < ORI_TYPES; type++)
			for (op = ORIEL_OP_SUM; op < ORIEL_OP_USER; op++)
				if (oriel_type_accumulation((enum oriel_type)type,
							    (enum oriel_op)op))
					check_type(*set, (enum oriel_type)type, (enum oriel_op)op);
	}
}

/* All values of the small types, and what their neighbours in fp32 are rounded to. */
static void test_conversions_are_exact(void **state)
{
	static const enum oriel_type types[] = {ORIEL_TYPE_FP16, ORIEL_TYPE_BF16,
						ORIEL_TYPE_FP8_E4M3, ORIEL_TYPE_FP8_E5M2};
	const struct ori_fold_set *const *set;
	uint32_t code, bits, k, t;
	struct ori_fold_loops l;
	uint64_t got;
	double value;
	float wide;

	(void)state;
	for (set = ori_fold_sets; *set; set++)
		for (t = 0; t < 4 && (*set)->is_supported(); t++) {
			l = (*set)->find(types[t], ORIEL_OP_SUM);
			for (code = 0; code < 1u << 8 * oriel_type_size(types[t]); code++) {
				l.widen(&wide, &code, 1);
				value = decode(types[t], code);
				assert_true(isnan(value)
						    ? isnan(wide)
						    : (double)wide == value &&
							      !signbit(wide) == !signbit(value));
				/* Ties lie halfway between values: half of a unit on. */
				for (k = 0; k < 5; k++) {
					memcpy(&bits, &wide, 4);
					bits += (k - 2) + (k == 4   ? 0x80000u
							   : k == 3 ? 0x1000u
								    : 0);
					memcpy(&wide, &bits, 4);
					got = 0;
					l.last(&got, &wide, 1, 1);
					assert_int_equal(got, encode(types[t], (double)wide));
				}
			}
		}
}

static void join_text(void *context, void *left, const void *right, size_t count)
{
	size_t i;

	assert_int_equal((uintptr_t)left % 64, 0);
	assert_int_equal((uintptr_t)right % 64, 0);
	*(unsigned *)context += 1;
	/* Neither commutative nor associative. */
	for (i = 0; i < count; i++)
		((uint32_t *)left)[i] = ((uint32_t *)left)[i] * 10 - ((const uint32_t *)right)[i];
}

static void test_a_user_function_is_applied_in_the_order(void **state)
{
	unsigned calls = 0, i;
	struct oriel_reduction r = {.size = sizeof(r),
				    .type = ORIEL_TYPE_UINT32,
				    .op = ORIEL_OP_USER,
				    .block = 2,
				    .function = join_text,
				    .context = &calls};
	const char *from[4];
	char *out = output[0] + 1;
	struct ori_fold f;
	uint32_t x[4], y;

	(void)state;
	fill(ORIEL_TYPE_UINT32, ORIEL_TYPE_UINT32, 3);
	for (i = 0; i < 4; i++)
		from[i] = inputs[i] + 3;
	ori_fold_open(&f, &r, 4, NULL, NULL);
	ori_fold_all(&f, from, &out, 1, 0, COUNT);
	for (i = 0; i < COUNT; i++) {
		for (y = 0; y < 4; y++)
			memcpy(&x[y], from[y] + 4 * i, 4);
		memcpy(&y, out + 4 * i, 4);
		assert_int_equal(y, (x[0] * 10 - x[1]) * 10 - (x[2] * 10 - x[3]));
	}
	assert_int_equal(calls, 3 * ((COUNT + 1023) / 1024));
	fold_by_blocks(&f, from, output[1] + 1, COUNT);
	assert_memory_equal(output[1] + 1, out, 4 * COUNT);
	assert_int_equal(calls, 6 * ((COUNT + 1023) / 1024));
}

/* A sum of subnormal numbers, with a processor that would make 0 of them. */
static void test_the_mode_of_the_program_changes_nothing(void **state)
{
	struct oriel_reduction r = reduction_of(ORIEL_TYPE_FP32, ORIEL_OP_SUM, 2);
	const uint32_t small = 3, odd = 0x3f800001u, tiny = 0x33800000u; /* half a unit */
	const char *from[2] = {(char[8]){0}, (char[8]){0}};
	struct ori_fold f;
	uint32_t got[2];
	char *out = (char *)got;

	(void)state;
	memcpy((char *)from[0], &small, 4);
	memcpy((char *)from[1], &small, 4);
	memcpy((char *)from[0] + 4, &odd, 4);
	memcpy((char *)from[1] + 4, &tiny, 4);
	ori_fold_open(&f, &r, 2, NULL, NULL);
#if defined(__x86_64__)
	unsigned before = _mm_getcsr();
	/* Flush to zero, denormals are zeros, and towards 0. */
	_mm_setcsr(before | 0x8040u | 0x6000u);
	ori_fold_all(&f, from, &out, 1, 0, 2);
	unsigned after = _mm_getcsr();
	_mm_setcsr(before);
	assert_int_equal(after & 0xe040u, 0xe040u);
#elif defined(__aarch64__)
	/* Arm ARM, FPCR: FZ (bit 24) and towards 0 (RMode 3 in bits 23 and 22). */
	const uint64_t mode = 0x1c00000u;
	uint64_t before, after;
	asm volatile("mrs %0, fpcr" : "=r"(before));
	asm volatile("msr fpcr, %0" : : "r"(mode));
	ori_fold_all(&f, from, &out, 1, 0, 2);
	asm volatile("mrs %0, fpcr" : "=r"(after));
	asm volatile("msr fpcr, %0" : : "r"(before));
	assert_true(after == mode);
#else
	ori_fold_all(&f, from, &out, 1, 0, 2);
#endif
	assert_int_equal(got[0], 6);
	assert_int_equal(got[1], 0x3f800002u); /* the tie goes to the even neighbour */
}

static void check_refused(struct oriel_reduction given, const char *text)
{
	struct oriel_reduction r;

	assert_int_equal(ori_reduction_read(&given, "all-reduce", &r), ORIEL_ERR_INVALID);
	assert_non_null(strstr(oriel_last_error(), text));
}

static void test_bad_reductions_are_refused(void **state)
{
	struct oriel_reduction r = reduction_of(ORIEL_TYPE_FP32, ORIEL_OP_SUM, 0), other;
	unsigned calls = 0;

	(void)state;
	assert_int_equal(ori_reduction_read(&r, "all-reduce", &other), ORIEL_OK);
	assert_int_equal(ori_reduction_read(NULL, "all-reduce", &other), ORIEL_ERR_INVALID);
	check_refused(reduction_of(ORIEL_TYPE_NONE, ORIEL_OP_SUM, 0), "invalid type 0");
	check_refused(reduction_of(ORI_TYPES, ORIEL_OP_SUM, 0), "invalid type 15");
	check_refused(reduction_of(ORIEL_TYPE_FP32, ORI_OPS, 0), "op 11");
	check_refused(reduction_of(ORIEL_TYPE_FP16, ORIEL_OP_BXOR, 0), "bxor is for integers");
	r.factor = factors;
	check_refused(r, "factor is set, and op is sum");
	r.factor = NULL;
	r.op = ORIEL_OP_PREMUL_SUM;
	check_refused(r, "factor is NULL, and op is premul_sum");
	r.op = ORIEL_OP_USER;
	check_refused(r, "function is NULL, context is NULL, and op is user");
	r.op = ORIEL_OP_SUM;
	r.context = &calls;
	check_refused(r, "context is set");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_set_folds_every_type_as_the_reference),
		cmocka_unit_test(test_conversions_are_exact),
		cmocka_unit_test(test_a_user_function_is_applied_in_the_order),
		cmocka_unit_test(test_the_mode_of_the_program_changes_nothing),
		cmocka_unit_test(test_bad_reductions_are_refused),
	};

	seed = UINT64_C(0x9e3779b97f4a7c15);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
