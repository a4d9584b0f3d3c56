/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds slices of the inputs in the order of the ranks. A slice is short enough that its partial
 * results stay in the cache of the first level from one input to the next. src/coll calls it.
 */
#include "reduce/fold.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"
#include "base/error.h"

/* Bytes of partial results; there are four such buffers. */
#define FOLD_SLICE 4096u

const struct ori_fold_set *const ori_fold_sets[] = {
#if defined(__x86_64__)
	&ori_fold_avx512,
	&ori_fold_avx2,
#endif
	&ori_fold_plain,
	NULL,
};

enum oriel_status ori_reduction_read(const struct oriel_reduction *given, const char *what,
				     struct oriel_reduction *r)
{
	enum oriel_status status;

	if (!given)
		return ori_fail(ORIEL_ERR_INVALID, "%s: reduction is NULL", what);
	status = ori_attr_read("oriel_reduction", given, r, sizeof(*r));
	if (status != ORIEL_OK)
		return status;
	if (!oriel_type_size((enum oriel_type)r->type))
		return ori_fail(ORIEL_ERR_INVALID, "%s: oriel_reduction: invalid type %u", what,
				r->type);
	if (r->op == ORIEL_OP_NONE || r->op >= ORI_OPS)
		return ori_fail(ORIEL_ERR_INVALID, "%s: oriel_reduction: invalid op %u", what,
				r->op);
	if (r->flags & ~(unsigned)ORIEL_REDUCE_FAST)
		return ori_fail(ORIEL_ERR_INVALID, "%s: oriel_reduction: invalid flags 0x%x", what,
				r->flags);
	if (!oriel_type_accumulation((enum oriel_type)r->type, (enum oriel_op)r->op))
		return ori_fail(ORIEL_ERR_INVALID,
				"%s: oriel_reduction: op %s is for integers, not %s", what,
				oriel_op_name((enum oriel_op)r->op),
				oriel_type_name((enum oriel_type)r->type));
	if (!r->factor != (r->op != ORIEL_OP_PREMUL_SUM))
		return ori_fail(ORIEL_ERR_INVALID,
				"%s: oriel_reduction: factor is %s, and op is %s", what,
				r->factor ? "set" : "NULL", oriel_op_name((enum oriel_op)r->op));
	if (!r->function != (r->op != ORIEL_OP_USER) || (r->context && !r->function))
		return ori_fail(ORIEL_ERR_INVALID,
				"%s: oriel_reduction: function is %s, context is %s, and op is %s",
				what, r->function ? "set" : "NULL", r->context ? "set" : "NULL",
				oriel_op_name((enum oriel_op)r->op));
	return ORIEL_OK;
}

static const struct ori_fold_set *fold_best(void)
{
	const struct ori_fold_set *const *set = ori_fold_sets;

	/* The last one before the NULL is supported everywhere. */
	while (!(*set)->is_supported()) {
		set++;
		assert(*set);
	}
	return *set;
}

void ori_fold_open(struct ori_fold *f, const struct oriel_reduction *reduction, uint32_t ranks,
		   const char *factors, const struct ori_fold_set *set)
{
	*f = (struct ori_fold){.type = (enum oriel_type)reduction->type,
			       .op = (enum oriel_op)reduction->op,
			       .ranks = ranks,
			       .block = reduction->block,
			       .factors = factors,
			       .function = reduction->function,
			       .context = reduction->context};
	assert(f->block);
	f->sum = oriel_type_accumulation(f->type, f->op);
	f->size = oriel_type_size(f->type);
	f->sum_size = oriel_type_size(f->sum);
	if (!f->function)
		f->loops = (set ? set : fold_best())->find(f->type, f->op);
}

/* Partial results of a slice, and two inputs in the accumulation type. */
struct fold_buffers {
	_Alignas(64) char total[FOLD_SLICE];
	_Alignas(64) char block[FOLD_SLICE];
	_Alignas(64) char left[FOLD_SLICE];
	_Alignas(64) char right[FOLD_SLICE];
};

/* The values of @rank in the accumulation type: in @buffer, or where they are. */
static const char *fold_value(const struct ori_fold *f, uint32_t rank, const char *from,
			      size_t count, char *buffer)
{
	if (!f->loops.widen && !f->factors && !f->function)
		return from;
	if (f->loops.widen)
		f->loops.widen(buffer, from, count);
	else
		memcpy(buffer, from, count * f->size);
	if (f->factors)
		f->loops.scale(buffer, f->factors + rank * f->sum_size, count);
	return buffer;
}

static void fold_next(const struct ori_fold *f, char *to, const char *right, size_t count)
{
	if (f->function)
		f->function(f->context, to, right, count);
	else
		f->loops.next(to, right, count);
}

/* The left fold over the ranks from @rank to @end - 1. */
static void fold_block(const struct ori_fold *f, const char *const *inputs, size_t at,
		       uint32_t rank, uint32_t end, size_t count, char *to, struct fold_buffers *b)
{
	const char *left = fold_value(f, rank, inputs[rank] + at, count, b->left), *right;

	rank++;
	if (rank == end || f->function) {
		memcpy(to, left, count * f->sum_size);
	} else {
		right = fold_value(f, rank, inputs[rank] + at, count, b->right);
		f->loops.pair(to, left, right, count);
		rank++;
	}
	for (; rank < end; rank++)
		fold_next(f, to, fold_value(f, rank, inputs[rank] + at, count, b->left), count);
}

/* Leaves the fold over all ranks in @b->total. */
static void fold_slice(const struct ori_fold *f, const char *const *inputs, size_t at, size_t count,
		       struct fold_buffers *b)
{
	uint32_t begin, end;

	for (begin = 0; begin < f->ranks; begin = end) {
		end = f->ranks - begin < f->block ? f->ranks : begin + f->block;
		fold_block(f, inputs, at, begin, end, count, begin ? b->block : b->total, b);
		if (begin)
			fold_next(f, b->total, b->block, count);
	}
}

static void fold_end(const struct ori_fold *f, char *to, const char *from, size_t count)
{
	if (f->function)
		memcpy(to, from, count * f->size);
	else
		f->loops.last(to, from, f->ranks, count);
}

void ori_fold_all(const struct ori_fold *f, const char *const *inputs, char *const *outs,
		  uint32_t copies, size_t at, size_t count)
{
	uint64_t mode = ori_fold_mode_begin();
	size_t most = FOLD_SLICE / f->sum_size, slice;
	struct fold_buffers b;
	uint32_t copy;

	for (; count; count -= slice, at += slice * f->size) {
		slice = count < most ? count : most;
		fold_slice(f, inputs, at, slice, &b);
		for (copy = 0; copy < copies; copy++)
			fold_end(f, outs[copy] + at, b.total, slice);
	}
	ori_fold_mode_end(mode);
}

void ori_fold_block(const struct ori_fold *f, const char *const *inputs, uint32_t rank,
		    uint32_t end, char *to, size_t count)
{
	uint64_t mode = ori_fold_mode_begin();
	size_t most = FOLD_SLICE / f->sum_size, at, slice;
	struct fold_buffers b;

	for (at = 0; at < count; at += slice) {
		slice = count - at < most ? count - at : most;
		fold_block(f, inputs, at * f->size, rank, end, slice, to + at * f->sum_size, &b);
	}
	ori_fold_mode_end(mode);
}

void ori_fold_add(const struct ori_fold *f, char *to, uint32_t rank, const char *from, size_t count)
{
	uint64_t mode = ori_fold_mode_begin();
	size_t most = FOLD_SLICE / f->sum_size, at, slice;
	_Alignas(64) char value[FOLD_SLICE];

	for (at = 0; at < count; at += slice) {
		slice = count - at < most ? count - at : most;
		fold_next(f, to + at * f->sum_size,
			  fold_value(f, rank, from + at * f->size, slice, value), slice);
	}
	ori_fold_mode_end(mode);
}

void ori_fold_two(const struct ori_fold *f, const char *left, const char *right, char *to,
		  size_t count)
{
	uint64_t mode = ori_fold_mode_begin();
	size_t most = FOLD_SLICE / f->sum_size, at, slice;
	_Alignas(64) char total[FOLD_SLICE];

	for (at = 0; at < count; at += slice) {
		slice = count - at < most ? count - at : most;
		memcpy(total, left + at * f->sum_size, slice * f->sum_size);
		fold_next(f, total, right + at * f->sum_size, slice);
		memcpy(to + at * f->sum_size, total, slice * f->sum_size);
	}
	ori_fold_mode_end(mode);
}

void ori_fold_sums(const struct ori_fold *f, const char *const *sums, uint32_t blocks, char *out,
		   size_t count)
{
	uint64_t mode = ori_fold_mode_begin();
	size_t most = FOLD_SLICE / f->sum_size, at, slice;
	_Alignas(64) char total[FOLD_SLICE];
	uint32_t i;

	for (at = 0; at < count; at += slice) {
		slice = count - at < most ? count - at : most;
		memcpy(total, sums[0] + at * f->sum_size, slice * f->sum_size);
		for (i = 1; i < blocks; i++)
			fold_next(f, total, sums[i] + at * f->sum_size, slice);
		fold_end(f, out + at * f->size, total, slice);
	}
	ori_fold_mode_end(mode);
}
