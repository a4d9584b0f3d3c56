/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions by lines: each thread folds the elements of all ranks as the lines that carry them
 * arrive; dev/reduction.h calls it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_REDUCTION_LINES_H
#define ORIEL_DEV_DETAIL_REDUCTION_LINES_H

#include <oriel/dev/detail/reduction.h>

/* The two lines of a vector of @source have arrived when this is 0; *@v is their data then. */
ORIEL_DEV uint32_t ori_dev_reduce_poll(const struct ori_dev_ll_slot *slot, uint32_t lines,
				       uint32_t line, struct oriel_dev_vector *v)
{
	uint64_t low, high;
	uint32_t missing = ori_dev_ll_poll_line(slot, line, &low);

	missing |= ori_dev_ll_poll_line(slot, line + 1 < lines ? line + 1 : line, &high);
	*v = ori_dev_vector_of(low, high);
	return missing;
}

/*
 * The same of unit @unit of LL128 lines: the two words of a quarter of a half, of which the last
 * has the flag instead of its second word.
 */
ORIEL_DEV uint32_t ori_dev_reduce_poll_half(const struct ori_dev_ll128_slot *slot, uint32_t unit,
					    struct oriel_dev_vector *v)
{
	const uint64_t *half = ori_dev_ll128_half(slot, unit / ORIEL_LL128_THREADS);
	const uint64_t *words = half + unit % ORIEL_LL128_THREADS * 2;
	bool has_flag = unit % ORIEL_LL128_THREADS == ORIEL_LL128_THREADS - 1;

	if (oriel_dev_load_acquire(half + ORIEL_LL128_WORDS) != slot->flag)
		return 1;
	*v = ori_dev_vector_of(words[0], has_flag ? 0 : words[1]);
	return 0;
}

/* The lines of all ranks for a part, and this rank's own elements. */
struct oriel_dev_line_rows {
	char *base; /* of rank 0; the lines of rank r lie r * @slot behind */
	uint64_t slot;
	const char *own;
	char *to;
	uint32_t flag;
	uint32_t lines;
	uint32_t rank;
};

/*
 * Where unit @unit of a message begins, which is what one thread takes at once: of LL lines two,
 * which are a vector, and of LL128 lines a quarter of a half.
 */
ORIEL_DEV uint64_t ori_dev_reduce_unit(bool is_ll128, uint32_t unit)
{
	if (!is_ll128)
		return (uint64_t)unit * 16;
	return (uint64_t)(unit / ORIEL_LL128_THREADS) * ORIEL_LL128_WORDS * 8 +
	       unit % ORIEL_LL128_THREADS * 16;
}

/* Bytes of the message in the unit that begins at @at of @length bytes. */
ORIEL_DEV uint32_t ori_dev_reduce_run(bool is_ll128, uint32_t unit, uint64_t at, uint64_t length)
{
	bool has_flag = is_ll128 && unit % ORIEL_LL128_THREADS == ORIEL_LL128_THREADS - 1;
	uint32_t most = has_flag ? 8 : 16;

	if (at >= length)
		return 0;
	return length - at < most ? (uint32_t)(length - at) : most;
}

/* May the warps of @g wait for LL128 lines together? They have all of their threads. */
ORIEL_DEV bool ori_dev_reduce_is_wide(struct oriel_dev_group g, bool is_ll128)
{
#ifdef __CUDA_ARCH__
	uint32_t size = g.kind == ORIEL_DEV_CLUSTER ? blockDim.x : g.size;

	return is_ll128 && size % 32 == 0;
#else
	(void)g;
	(void)is_ll128;
	return false;
#endif
}

/*
 * The outcome of one try of a thread; of the whole warp if it @is_wide, so that its threads stay
 * together: the first of those that lack lines speaks for it.
 */
ORIEL_DEV enum oriel_status ori_dev_reduce_tried(bool is_wide, uint32_t missing,
						 struct oriel_dev_waiter *waiter,
						 struct oriel_dev_aim *aim, uint32_t unit)
{
	enum oriel_status status = missing ? ori_dev_wait_step(waiter, aim, unit) : ORIEL_OK;
#ifdef __CUDA_ARCH__
	uint32_t some;

	if (!is_wide)
		return status;
	some = __ballot_sync(UINT32_MAX, missing);
	if (some)
		status = (enum oriel_status)__shfl_sync(UINT32_MAX, (int)status, __ffs(some) - 1);
#else
	(void)is_wide;
#endif
	return status;
}

/*
 * One thread: unit @i of up to ORIEL_FOLD_BATCH ranks from @first on, but of this one. Lines are
 * missing when this is not 0; @aim has the last rank of them then.
 */
ORIEL_DEV uint32_t ori_dev_reduce_poll_ranks(const struct oriel_dev_line_rows *r, bool is_ll128,
					     uint32_t ranks, uint32_t first, uint32_t i,
					     struct oriel_dev_aim *aim,
					     struct oriel_dev_vector v[ORIEL_FOLD_BATCH])
{
	struct ori_dev_ll_slot slot = {NULL, 0, UINT64_MAX, r->flag, 0};
	struct ori_dev_ll128_slot wide = {NULL, 0, UINT64_MAX, r->flag, 0};
	uint32_t missing = 0, k;

	ORIEL_DEV_UNROLL
	for (k = 0; k < ORIEL_FOLD_BATCH; k++) {
		if (first + k >= ranks || first + k == r->rank)
			continue;
		wide.base = slot.base = r->base + (first + k) * r->slot;
		if (is_ll128 ? ori_dev_reduce_poll_half(&wide, i, &v[k])
			     : ori_dev_reduce_poll(&slot, r->lines, i * 2, &v[k])) {
			missing = 1;
			aim->peer = first + k;
		}
	}
	return missing;
}

/*
 * The same of LL128 lines by the threads of a warp that read halves together: of four only the last
 * one knows whether theirs has arrived.
 */
ORIEL_DEV uint32_t ori_dev_reduce_poll_wide(const struct oriel_dev_line_rows *r, uint32_t ranks,
					    uint32_t first, uint32_t i, struct oriel_dev_aim *aim,
					    struct oriel_dev_vector v[ORIEL_FOLD_BATCH])
{
	struct ori_dev_ll128_slot slot = {NULL, 0, UINT64_MAX, r->flag, 0};
	bool has_flag = i % ORIEL_LL128_THREADS == ORIEL_LL128_THREADS - 1;
	uint64_t low[ORIEL_FOLD_BATCH], high[ORIEL_FOLD_BATCH];
	uint32_t missing = 0, k;

	ORIEL_DEV_UNROLL
	for (k = 0; k < ORIEL_FOLD_BATCH; k++) {
		slot.base = r->base + (first + k) * r->slot;
		low[k] = 0;
		high[k] = r->flag;
		ori_dev_load_pair_if(ori_dev_ll128_half(&slot, i / ORIEL_LL128_THREADS) +
					     i % ORIEL_LL128_THREADS * 2,
				     first + k < ranks && first + k != r->rank, &low[k], &high[k]);
	}
	ORIEL_DEV_UNROLL
	for (k = 0; k < ORIEL_FOLD_BATCH; k++) {
		if (has_flag && high[k] != r->flag) {
			missing = 1;
			aim->peer = first + k;
		}
		v[k] = ori_dev_vector_of(low[k], has_flag ? 0 : high[k]);
	}
	return missing;
}

/*
 * One thread: waits for unit @i of the ranks of ori_dev_reduce_poll_ranks(); for none if it
 * @is_none. Threads of a warp do it together if they are wide.
 */
ORIEL_DEV enum oriel_status
ori_dev_reduce_take(const struct oriel_dev_line_rows *r, bool is_ll128, bool is_wide, bool is_none,
		    uint32_t ranks, uint32_t first, uint32_t i, struct oriel_dev_waiter *waiter,
		    struct oriel_dev_aim *aim, struct oriel_dev_vector v[ORIEL_FOLD_BATCH])
{
	enum oriel_status status;
	uint32_t missing;

	do {
		if (is_none)
			missing = 0;
		else if (is_ll128 && is_wide)
			missing = ori_dev_reduce_poll_wide(r, ranks, first, i, aim, v);
		else
			missing = ori_dev_reduce_poll_ranks(r, is_ll128, ranks, first, i, aim, v);
		status = ori_dev_reduce_tried(is_wide, missing, waiter, aim, i);
	} while (status == ORIEL_AGAIN);
	return status;
}

/*
 * Whole group, each thread for its own units: folds lines as they arrive. Not synchronised.
 * @is_ll128 is a constant.
 */
ORIEL_DEV enum oriel_status
ori_dev_reduce_take_lines(const struct oriel_dev_window *w, struct oriel_dev_group g,
			  struct oriel_dev_fold f, const struct oriel_dev_line_rows *r,
			  uint64_t length, uint64_t timeout_ns, bool is_ll128)
{
	struct oriel_dev_aim aim = {NULL, r->flag, ORIEL_EQ, ORIEL_DEV_WAIT_LL, ORIEL_DEV_NO_RANK,
				    0};
	struct oriel_dev_waiter waiter = ori_dev_wait_begin(w, g, timeout_ns);
	bool is_wide = ori_dev_reduce_is_wide(g, is_ll128);
	/* A warp goes on while one of its threads has a unit. */
	uint32_t together = is_wide ? 32 : 1;
	enum oriel_status status;
	uint32_t i, k, first, run;

	ORIEL_DEV_ROLL
	for (i = g.rank; ori_dev_reduce_unit(is_ll128, i / together * together) < length;
	     i += g.size) {
		struct oriel_dev_vector v[ORIEL_FOLD_BATCH] = {{{0}}, {{0}}, {{0}}, {{0}}}, own;
		struct oriel_dev_folding p = ori_dev_fold_begin();
		uint64_t at = ori_dev_reduce_unit(is_ll128, i);
		/* Any thread may have the flag of a half with some bytes of the message. */
		bool is_none = is_wide && ori_dev_reduce_unit(true, i & ~3u) >= length;

		run = ori_dev_reduce_run(is_ll128, i, at, length);
		own = is_ll128 ? ori_dev_vector_load_words(r->own + at, run)
			       : ori_dev_vector_load_any(r->own + at, run);
		ORIEL_DEV_ROLL
		for (first = 0; first < f.ranks; first += ORIEL_FOLD_BATCH) {
			status = ori_dev_reduce_take(r, is_ll128, is_wide, is_none, f.ranks, first,
						     i, &waiter, &aim, v);
			if (status != ORIEL_OK)
				return status;
			ORIEL_DEV_UNROLL
			for (k = 0; k < ORIEL_FOLD_BATCH; k++)
				if (first + k == r->rank)
					v[k] = own;
			ori_dev_fold_batch(&f, &p, first, v);
		}
		if (is_ll128)
			ori_dev_vector_store_words(r->to + at, ori_dev_fold_end(&f, &p), run);
		else
			ori_dev_vector_store_any(r->to + at, ori_dev_fold_end(&f, &p), run);
	}
	return ORIEL_OK;
}

#endif
