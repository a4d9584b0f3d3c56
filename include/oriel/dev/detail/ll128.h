/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines in the format of dev/ll128.h, which calls it, and so do messages.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_LL128_H
#define ORIEL_DEV_DETAIL_LL128_H

#include <oriel/dev/detail/ll.h>
#include <oriel/dev/domain.h>
#include <oriel/dev/wait.h>

#define ORIEL_LL128_HALF 64u
#define ORIEL_LL128_WORDS 7u   /* of a message in a half; the last word is the flag */
#define ORIEL_LL128_THREADS 4u /* of a half, 16 bytes each */

ORIEL_DEV_ASSERT(ORIEL_LL128_LINE == 2 * ORIEL_LL128_HALF);
ORIEL_DEV_ASSERT(112 == 2 * ORIEL_LL128_WORDS * 8); /* oriel_dev_ll128_length() */

/* oriel_dev_has_ll128(). */
ORIEL_DEV bool ori_dev_ll128_suits(const struct oriel_dev_window *w, uint32_t peer)
{
#ifdef __CUDA_ARCH__
	return ori_dev_is_fast(w, peer) && w->inline_wide >> peer % ORIEL_DEV_INLINE_PEERS & 1;
#else
	uint32_t path = peer < w->ranks ? oriel_dev_path(w, peer) : (uint32_t)ORIEL_PATH_NONE;

	return path == ORIEL_PATH_SELF ||
	       (path == ORIEL_PATH_MAPPED &&
		!(ori_dev_peer_of(w, peer).flags & ORIEL_DEV_PEER_NARROW));
#endif
}

/* As struct ori_dev_ll_slot, with halves of lines. */
struct ori_dev_ll128_slot {
	char *base;
	uint64_t first;
	uint64_t mask;
	uint64_t flag;
	uint64_t stride;
};

ORIEL_DEV uint64_t *ori_dev_ll128_half(const struct ori_dev_ll128_slot *slot, uint32_t half)
{
	return (uint64_t *)(void *)(slot->base +
				    ((slot->first + half) * ORIEL_LL128_HALF & slot->mask));
}

ORIEL_DEV uint64_t ori_dev_ll128_flag(const struct ori_dev_ll128_slot *slot, uint32_t half)
{
	return slot->flag + half * slot->stride;
}

ORIEL_DEV uint32_t ori_dev_ll128_halves(const struct ori_dev_ll_text *text)
{
	return (text->lines + ORIEL_LL128_WORDS - 1) / ORIEL_LL128_WORDS;
}

/* Word @word of @text, 0 beyond its end. */
ORIEL_DEV uint64_t ori_dev_ll128_take(const struct ori_dev_ll_text *text, uint32_t word)
{
	return word < text->lines ? ori_dev_ll_take(text, word) : 0;
}

ORIEL_DEV void ori_dev_ll128_give(const struct ori_dev_ll_text *text, uint32_t word, uint64_t value)
{
	if (word < text->lines)
		ori_dev_ll_give(text, word, value);
}

/* Whole group: write the halves of @text, each thread its own. */
ORIEL_DEV void ori_dev_ll128_write_each(struct oriel_dev_group g,
					const struct ori_dev_ll128_slot *slot,
					const struct ori_dev_ll_text *text)
{
	uint32_t halves = ori_dev_ll128_halves(text), half, i;

	ORIEL_DEV_ROLL
	for (half = g.rank; half < halves; half += g.size) {
		uint64_t *word = ori_dev_ll128_half(slot, half);

		ORIEL_DEV_ROLL
		for (i = 0; i < ORIEL_LL128_WORDS; i++)
			word[i] = ori_dev_ll128_take(text, half * ORIEL_LL128_WORDS + i);
	}
	/* Acquired by ori_dev_ll128_read_each(). */
	ori_dev_release_begin();
	ORIEL_DEV_ROLL
	for (half = g.rank; half < halves; half += g.size)
		ori_dev_release_store(ori_dev_ll128_half(slot, half) + ORIEL_LL128_WORDS,
				      ori_dev_ll128_flag(slot, half));
}

/* The reader of these halves: each thread waits for its own. */
ORIEL_DEV enum oriel_status ori_dev_ll128_read_each(const struct oriel_dev_window *w,
						    struct oriel_dev_group g,
						    const struct ori_dev_ll128_slot *slot,
						    const struct ori_dev_ll_text *text,
						    struct oriel_dev_aim *aim, uint64_t timeout_ns)
{
	uint32_t halves = ori_dev_ll128_halves(text), half, i;
	enum oriel_status status;

	ORIEL_DEV_ROLL
	for (half = g.rank; half < halves; half += g.size) {
		const uint64_t *word = ori_dev_ll128_half(slot, half);

		aim->word = word + ORIEL_LL128_WORDS;
		aim->operand = ori_dev_ll128_flag(slot, half);
		status = oriel_dev_wait_word(w, g, aim, timeout_ns);
		if (status != ORIEL_OK)
			return status;
		ORIEL_DEV_ROLL
		for (i = 0; i < ORIEL_LL128_WORDS; i++)
			ori_dev_ll128_give(text, half * ORIEL_LL128_WORDS + i, word[i]);
	}
	return ORIEL_OK;
}

#ifdef __CUDA_ARCH__
/* Halves that four threads have under way, if there are more halves than threads of four. */
#define ORIEL_LL128_BATCH 4u

/* Do the ranks of @g count the threads of its blocks in fours that are together in a warp? */
static __device__ __forceinline__ bool ori_dev_ll128_is_wide(struct oriel_dev_group g)
{
	if (g.kind == ORIEL_DEV_CLUSTER && blockDim.x % ORIEL_LL128_THREADS)
		return false;
	return g.size >= ORIEL_LL128_THREADS;
}

/* The threads that share this thread's half, in its warp. */
static __device__ __forceinline__ uint32_t ori_dev_ll128_mask(void)
{
	return 0xfu << (threadIdx.x & 28);
}

/*
 * Write the two words of @text that this thread has in @half, for each of @batch halves, @step
 * apart, that exist. @batch is a constant.
 */
static __device__ __forceinline__ void
ori_dev_ll128_write_batch(const struct ori_dev_ll128_slot *slot, const struct ori_dev_ll_text *text,
			  uint32_t half, uint32_t step, uint32_t part, uint32_t batch)
{
	uint32_t halves = ori_dev_ll128_halves(text), k;
	uint64_t first[ORIEL_LL128_BATCH], second[ORIEL_LL128_BATCH];
	bool is_last = part == ORIEL_LL128_THREADS - 1;

	ORIEL_DEV_UNROLL
	for (k = 0; k < batch; k++) {
		uint32_t i = half + k * step, word = i * ORIEL_LL128_WORDS + part * 2;

		first[k] = ori_dev_ll128_take(text, word);
		second[k] =
			is_last ? ori_dev_ll128_flag(slot, i) : ori_dev_ll128_take(text, word + 1);
	}
	/* The four threads converge, so that a half is one access. */
	__syncwarp(ori_dev_ll128_mask());
	ORIEL_DEV_UNROLL
	for (k = 0; k < batch; k++)
		if (half + k * step < halves)
			ori_dev_store_pair_relaxed(ori_dev_ll128_half(slot, half + k * step) +
							   part * 2,
						   first[k], second[k]);
}

static __device__ __forceinline__ void
ori_dev_ll128_write_wide(struct oriel_dev_group g, const struct ori_dev_ll128_slot *slot,
			 const struct ori_dev_ll_text *text)
{
	uint32_t halves = ori_dev_ll128_halves(text), step = g.size / ORIEL_LL128_THREADS;
	uint32_t part = g.rank % ORIEL_LL128_THREADS, half = g.rank / ORIEL_LL128_THREADS;

	if (half >= step)
		return;
	if (halves <= step) {
		if (half < halves)
			ori_dev_ll128_write_batch(slot, text, half, step, part, 1);
		return;
	}
	if (halves <= step * 2) {
		ori_dev_ll128_write_batch(slot, text, half, step, part, 2);
		return;
	}
	ORIEL_DEV_ROLL
	for (; half < halves; half += step * ORIEL_LL128_BATCH)
		ori_dev_ll128_write_batch(slot, text, half, step, part, ORIEL_LL128_BATCH);
}

/* Wait for the same halves as ori_dev_ll128_write_batch() writes. The four get one status. */
static __device__ __forceinline__ enum oriel_status
ori_dev_ll128_read_batch(const struct ori_dev_ll128_slot *slot, const struct ori_dev_ll_text *text,
			 uint32_t half, uint32_t step, uint32_t part,
			 struct oriel_dev_waiter *waiter, struct oriel_dev_aim *aim, uint32_t batch)
{
	uint64_t first[ORIEL_LL128_BATCH], second[ORIEL_LL128_BATCH];
	uint32_t halves = ori_dev_ll128_halves(text), mask = ori_dev_ll128_mask(), k;
	bool is_last = part == ORIEL_LL128_THREADS - 1;
	int status;

	do {
		status = ORIEL_OK;
		__syncwarp(mask);
		ORIEL_DEV_UNROLL
		for (k = 0; k < batch; k++)
			if (half + k * step < halves)
				ori_dev_load_pair_relaxed(ori_dev_ll128_half(slot,
									     half + k * step) +
								  part * 2,
							  &first[k], &second[k]);
		ORIEL_DEV_UNROLL
		for (k = 0; k < batch; k++)
			if (is_last && half + k * step < halves &&
			    second[k] != ori_dev_ll128_flag(slot, half + k * step))
				status = ORIEL_AGAIN;
		if (status != ORIEL_OK) {
			aim->operand = ori_dev_ll128_flag(slot, half);
			status = ori_dev_wait_step(waiter, aim, half);
		}
		status = __shfl_sync(mask, status, ORIEL_LL128_THREADS - 1, ORIEL_LL128_THREADS);
	} while (status == ORIEL_AGAIN);
	if (status != ORIEL_OK)
		return (enum oriel_status)status;
	ORIEL_DEV_UNROLL
	for (k = 0; k < batch; k++) {
		uint32_t word = (half + k * step) * ORIEL_LL128_WORDS + part * 2;

		ori_dev_ll128_give(text, word, first[k]);
		if (!is_last)
			ori_dev_ll128_give(text, word + 1, second[k]);
	}
	return ORIEL_OK;
}

static __device__ __forceinline__ enum oriel_status
ori_dev_ll128_read_wide(const struct oriel_dev_window *w, struct oriel_dev_group g,
			const struct ori_dev_ll128_slot *slot, const struct ori_dev_ll_text *text,
			struct oriel_dev_aim *aim, uint64_t timeout_ns)
{
	struct oriel_dev_waiter waiter = ori_dev_wait_begin(w, g, timeout_ns);
	uint32_t halves = ori_dev_ll128_halves(text), step = g.size / ORIEL_LL128_THREADS;
	uint32_t part = g.rank % ORIEL_LL128_THREADS, half = g.rank / ORIEL_LL128_THREADS;
	enum oriel_status status = ORIEL_OK;

	if (half >= step)
		return ORIEL_OK;
	if (halves <= step) {
		if (half < halves)
			status = ori_dev_ll128_read_batch(slot, text, half, step, part, &waiter,
							  aim, 1);
		return status;
	}
	if (halves <= step * 2)
		return ori_dev_ll128_read_batch(slot, text, half, step, part, &waiter, aim, 2);
	ORIEL_DEV_ROLL
	for (; half < halves && status == ORIEL_OK; half += step * ORIEL_LL128_BATCH)
		status = ori_dev_ll128_read_batch(slot, text, half, step, part, &waiter, aim,
						  ORIEL_LL128_BATCH);
	return status;
}
#endif

/* Whole group: write the lines of @length bytes at @from. */
ORIEL_DEV void ori_dev_ll128_write(struct oriel_dev_group g, const struct ori_dev_ll128_slot *slot,
				   const void *from, uint64_t length)
{
	struct ori_dev_ll_text text = ori_dev_ll_text_of(from, length);

#ifdef __CUDA_ARCH__
	if (ori_dev_ll128_is_wide(g)) {
		/* The text occurs twice, as in ori_dev_ll_write(). */
		if (ORIEL_DEV_OFTEN(text.is_even)) {
			text.is_even = true;
			ori_dev_ll128_write_wide(g, slot, &text);
		} else {
			ori_dev_ll128_write_wide(g, slot, &text);
		}
		return;
	}
#endif
	ori_dev_ll128_write_each(g, slot, &text);
}

/*
 * Whole group, each thread for its own lines: wait for those of @length bytes and
 * unpack them to @to. Not synchronised at the end.
 */
ORIEL_DEV enum oriel_status ori_dev_ll128_read(const struct oriel_dev_window *w,
					       struct oriel_dev_group g,
					       const struct ori_dev_ll128_slot *slot, void *to,
					       uint64_t length, struct oriel_dev_aim *aim,
					       uint64_t timeout_ns)
{
	struct ori_dev_ll_text text = ori_dev_ll_text_of(to, length);

#ifdef __CUDA_ARCH__
	if (ori_dev_ll128_is_wide(g)) {
		if (ORIEL_DEV_OFTEN(text.is_even)) {
			text.is_even = true;
			return ori_dev_ll128_read_wide(w, g, slot, &text, aim, timeout_ns);
		}
		return ori_dev_ll128_read_wide(w, g, slot, &text, aim, timeout_ns);
	}
#endif
	return ori_dev_ll128_read_each(w, g, slot, &text, aim, timeout_ns);
}

/* Does @target have room for @length bytes at @at, which is where a line begins? */
ORIEL_DEV enum oriel_status ori_dev_ll128_check(const struct oriel_dev_window *w, uint32_t what,
						uint32_t peer, uint64_t at, uint64_t length,
						struct oriel_dev_target *target)
{
	struct oriel_dev_aim aim = {NULL,     ORIEL_LL128_LINE,
				    ORIEL_EQ, what,
				    peer,     (uint32_t)(at >> ORIEL_AT_BITS)};
	enum oriel_status status;

	/* Longer than any buffer, and rejected as that. */
	if (length > ORIEL_LL_MAX)
		length = UINT64_MAX / 2;
	status = ori_dev_check_range(w, what, peer, at, oriel_dev_ll128_length(length), target);
	if (status != ORIEL_OK)
		return status;
	if (((uintptr_t)target->base | at) % ORIEL_LL128_LINE)
		return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_INVALID, aim, at);
#ifdef __CUDA_ARCH__
	/* The mark of a rank holds for its buffer 0. */
	if (at >> ORIEL_AT_BITS)
		return ORIEL_ERR_NO_PATH;
#endif
	return ori_dev_ll128_suits(w, peer) ? ORIEL_OK : ORIEL_ERR_NO_PATH;
}

/* As oriel_dev_wait_ll128(), each thread for its own lines. Not synchronised at the end. */
ORIEL_DEV enum oriel_status ori_dev_ll128_await(const struct oriel_dev_window *w,
						struct oriel_dev_group g, uint64_t at, void *to,
						uint64_t length, uint64_t epoch,
						uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL,
				    epoch,
				    ORIEL_EQ,
				    ORIEL_DEV_WAIT_LL,
				    ORIEL_DEV_NO_RANK,
				    (uint32_t)(at >> ORIEL_AT_BITS)};
	struct ori_dev_ll128_slot slot = {NULL, 0, UINT64_MAX, epoch, 0};
	struct oriel_dev_target local;
	enum oriel_status status;

	status = ori_dev_ll128_check(w, ORIEL_DEV_WAIT_LL, w->rank, at, length, &local);
	if (status != ORIEL_OK)
		return status;
	slot.base = local.base;
	return ori_dev_ll128_read(w, g, &slot, to, length, &aim, timeout_ns);
}

#endif
