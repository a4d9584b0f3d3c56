/* SPDX-License-Identifier: Apache-2.0 */
/* Each atomic is one step, of 8 bytes and of 4, and returns what the word held before. */
#include "harness.h"

enum step_kind { ADD, AND, OR, XOR, SWAP, COMPARE_SWAP, FETCH, SET };

struct step {
	enum step_kind kind;
	uint64_t compare, value, before, after;
};

/* @step on the word of 8 bytes at @at of @peer. */
CASE uint64_t step_64(struct rank *r, unsigned peer, uint64_t at, const struct step *step)
{
	const struct oriel_dev_window *w = &r->dev;
	int64_t status = ORIEL_ERR_INVALID;
	uint64_t v = step->value, old = 0;

	switch (step->kind) {
	case ADD:
		status = ALONE(r, oriel_dev_fetch_add(w, peer, at, v, &old));
		break;
	case AND:
		status = ALONE(r, oriel_dev_fetch_and(w, peer, at, v, &old));
		break;
	case OR:
		status = ALONE(r, oriel_dev_fetch_or(w, peer, at, v, &old));
		break;
	case XOR:
		status = ALONE(r, oriel_dev_fetch_xor(w, peer, at, v, &old));
		break;
	case SWAP:
		status = ALONE(r, oriel_dev_swap(w, peer, at, v, &old));
		break;
	case COMPARE_SWAP:
		status = ALONE(r, oriel_dev_compare_swap(w, peer, at, step->compare, v, &old));
		break;
	case FETCH:
		status = ALONE(r, oriel_dev_fetch(w, peer, at, &old));
		break;
	case SET:
		status = ALONE(r, oriel_dev_set(w, peer, at, v));
		break;
	}
	CHECK_OK(r, status);
	return SHARED(r, old);
}

CASE uint32_t step_32(struct rank *r, unsigned peer, uint64_t at, const struct step *step)
{
	const struct oriel_dev_window *w = &r->dev;
	int64_t status = ORIEL_ERR_INVALID;
	uint32_t v = (uint32_t)step->value, c = (uint32_t)step->compare, old = 0;

	switch (step->kind) {
	case ADD:
		status = ALONE(r, oriel_dev_fetch_add_32(w, peer, at, v, &old));
		break;
	case AND:
		status = ALONE(r, oriel_dev_fetch_and_32(w, peer, at, v, &old));
		break;
	case OR:
		status = ALONE(r, oriel_dev_fetch_or_32(w, peer, at, v, &old));
		break;
	case XOR:
		status = ALONE(r, oriel_dev_fetch_xor_32(w, peer, at, v, &old));
		break;
	case SWAP:
		status = ALONE(r, oriel_dev_swap_32(w, peer, at, v, &old));
		break;
	case COMPARE_SWAP:
		status = ALONE(r, oriel_dev_compare_swap_32(w, peer, at, c, v, &old));
		break;
	case FETCH:
		status = ALONE(r, oriel_dev_fetch_32(w, peer, at, &old));
		break;
	case SET:
		status = ALONE(r, oriel_dev_set_32(w, peer, at, v));
		break;
	}
	CHECK_OK(r, status);
	return (uint32_t)SHARED(r, (uint64_t)old);
}

/* Each word begins as the step before has left it. */
CASE_DATA const struct step steps_64[] = {
	{FETCH, 0, 0, 0, 0},
	{ADD, 0, UINT64_MAX - 1, 0, UINT64_MAX - 1},
	{ADD, 0, 5, UINT64_MAX - 1, 3},
	{OR, 0, UINT64_C(0x8000000100000000), 3, UINT64_C(0x8000000100000003)},
	{AND, 0, UINT64_C(0x80000001fffffffe), UINT64_C(0x8000000100000003),
	 UINT64_C(0x8000000100000002)},
	{XOR, 0, UINT64_C(0xff000001ffffffff), UINT64_C(0x8000000100000002),
	 UINT64_C(0x7f000000fffffffd)},
	{SWAP, 0, UINT64_C(0x1122334455667788), UINT64_C(0x7f000000fffffffd),
	 UINT64_C(0x1122334455667788)},
	{COMPARE_SWAP, UINT64_C(0x1122334455667789), 1, UINT64_C(0x1122334455667788),
	 UINT64_C(0x1122334455667788)},
	{COMPARE_SWAP, UINT64_C(0x1122334455667788), 1, UINT64_C(0x1122334455667788), 1},
	{COMPARE_SWAP, 0, 9, 1, 1},
	{OR, 0, 1, 1, 1},
	{SET, 0, UINT64_MAX, 0, UINT64_MAX},
	{AND, 0, 0, UINT64_MAX, 0},
	{SWAP, 0, 0, 0, 0},
	{COMPARE_SWAP, 0, 7, 0, 7},
	{FETCH, 0, 0, 7, 7},
};

CASE_DATA const struct step steps_32[] = {
	{FETCH, 0, 0, 0, 0},
	{ADD, 0, UINT32_MAX, 0, UINT32_MAX},
	{ADD, 0, 5, UINT32_MAX, 4},
	{OR, 0, 0x80000003, 4, 0x80000007},
	{AND, 0, 0xfffffffe, 0x80000007, 0x80000006},
	{XOR, 0, 0xff00ffff, 0x80000006, 0x7f00fff9},
	{SWAP, 0, 0x11223344, 0x7f00fff9, 0x11223344},
	{COMPARE_SWAP, 0x11223345, 1, 0x11223344, 0x11223344},
	{COMPARE_SWAP, 0x11223344, 1, 0x11223344, 1},
	{COMPARE_SWAP, 0, 9, 1, 1},
	{XOR, 0, UINT32_MAX, 1, 0xfffffffe},
	{SET, 0, UINT32_MAX, 0, UINT32_MAX},
	{AND, 0, 0, UINT32_MAX, 0},
	{SWAP, 0, 0, 0, 0},
	{COMPARE_SWAP, 0, 7, 0, 7},
	{FETCH, 0, 0, 7, 7},
};

#define STEPS (sizeof(steps_64) / sizeof(steps_64[0]))
#define SLOT 32u /* bytes of each rank: a word of 8, and halves of 4 between two words */

/* The initiator alone changes its words, so that it knows each value. */
CASE void each_returns_the_value_before(struct rank *r)
{
	const struct step look = {FETCH, 0, 0, 0, 0};
	uint64_t at = (uint64_t)r->rank * SLOT, old;
	unsigned peer, half;
	size_t i;

	for (peer = 0; peer < r->size; peer++) {
		for (i = 0; i < STEPS; i++) {
			old = step_64(r, peer, at, &steps_64[i]);
			CHECK_EQ(r, old, steps_64[i].before);
			CHECK_EQ(r, step_64(r, peer, at, &look), steps_64[i].after);
		}
		for (half = 0; half < 2; half++) {
			for (i = 0; i < STEPS; i++) {
				old = step_32(r, peer, at + 16 + 4 * half, &steps_32[i]);
				CHECK_EQ(r, old, steps_32[i].before);
				CHECK_EQ(r, step_32(r, peer, at + 16 + 4 * half, &look),
					 steps_32[i].after);
				CHECK_EQ(r, step_32(r, peer, at + 20 - 4 * half, &look),
					 half ? 7 : 0);
			}
		}
	}
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		const uint64_t *mine = (const uint64_t *)(const void *)(r->base + peer * SLOT);

		CHECK_EQ(r, mine[0], 7);
		CHECK_EQ(r, mine[1], 0);
		CHECK_EQ(r, mine[2], UINT64_C(0x700000007));
		CHECK_EQ(r, mine[3], 0);
	}
}

/*
 * The words below have one row for ranks whose processors change them, and one for every rail:
 * atomics of different HCAs and CPUs are not atomic with each other. In a window with one agent
 * all ranks change the same row.
 */
CASE uint64_t row_at(const struct rank *r, unsigned peer, uint64_t bytes)
{
	return (atomics_are_mapped(r, peer) ? 0 : 1 + rank_rail(r, peer)) * bytes;
}

/* The ranks that reach @owner as @r does, this one too; 0: @r does not by row @row. */
CASE unsigned row_users(const struct rank *r, unsigned row)
{
	unsigned peer, count = 0;

	for (peer = 0; peer < r->size; peer++)
		count += row_at(r, peer, 1) == row;
	return count;
}

/*
 * Ranks that change one word at once: enough rounds that those of mapped ranks overlap, which take
 * some ns each, and fewer by a NIC. With 20000 four threads on two cores did not see atomics that
 * were a load and a store.
 */
#define ROUNDS 60u
#if defined(__CUDACC__) || defined(ORIEL_DEV_TSAN)
#define MANY_ROUNDS 2000u
#else
#define MANY_ROUNDS 100000u
#endif
#define SUMS_AT 1024u /* two words of each rank */

CASE unsigned rounds_at(const struct rank *r, unsigned peer)
{
	return atomics_are_mapped(r, peer) ? MANY_ROUNDS : ROUNDS;
}

CASE uint64_t token_of(unsigned rank, unsigned i)
{
	return (UINT64_C(0x9e3779b97f4a7c15) * (rank + 1)) ^ (UINT64_C(0xbf58476d1ce4e5b9) * i);
}

/* Exclusive ors of all ranks, of which none is lost, and halves of one word that keep apart. */
CASE void no_exclusive_or_is_lost(struct rank *r)
{
	struct step step = {XOR, 0, 0, 0, 0};
	unsigned i, peer, row;

	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		for (i = 0; i < rounds_at(r, peer); i++) {
			step.value = token_of(r->rank, i);
			step_64(r, peer, row_at(r, peer, 64), &step);
			step_32(r, peer, row_at(r, peer, 64) + 8 + 4 * (i % 2), &step);
		}
	}
	rank_flush_barrier(r);
	for (row = 0; row <= ORIEL_DEV_RAILS; row++) {
		const uint64_t *words = (const uint64_t *)(const void *)(r->base + row * 64);
		uint32_t half[2] = {0, 0};
		uint64_t word = 0;

		for (peer = 0; peer < r->size; peer++) {
			if (row_at(r, peer, 1) != row)
				continue;
			for (i = 0; i < rounds_at(r, peer); i++) {
				word ^= token_of(peer, i);
				half[i % 2] ^= (uint32_t)token_of(peer, i);
			}
		}
		CHECK_EQ(r, words[0], word);
		CHECK_EQ(r, words[1], (uint64_t)half[1] << 32 | half[0]);
	}
}

/*
 * Each swap leaves a token, and each token comes out once, or is the last: the exclusive or of all
 * that came out, of which each rank puts its part to the owner, and of the last is that of all.
 */
CASE void every_swap_returns_a_token_once(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, sums, 2);
	struct step step = {SWAP, 0, 0, 0, 0};
	unsigned i, peer, row;

	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		uint64_t at = row_at(r, peer, 64), out = 0, short_out = 0;

		for (i = 0; i < rounds_at(r, peer); i++) {
			step.value = token_of(r->rank, i);
			out ^= step_64(r, peer, at, &step);
			short_out ^= step_32(r, peer, at + 12, &step);
		}
		if (oriel_dev_is_leader(r->group)) {
			sums[0] = out;
			sums[1] = short_out;
		}
		oriel_dev_sync(r->group);
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer, SUMS_AT + 16 * r->rank, sums,
					      sizeof(uint64_t) * 2, NULL));
		CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	}
	rank_flush_barrier(r);
	for (row = 0; row <= ORIEL_DEV_RAILS; row++) {
		const uint64_t *words = (const uint64_t *)(const void *)(r->base + row * 64);
		const uint64_t *parts = (const uint64_t *)(const void *)(r->base + SUMS_AT);
		uint64_t word = words[0], half = words[1] >> 32;

		CHECK_EQ(r, (uint32_t)words[1], 0);
		for (peer = 0; peer < r->size; peer++) {
			if (row_at(r, peer, 1) != row)
				continue;
			word ^= parts[2 * peer];
			half ^= parts[2 * peer + 1];
			for (i = 0; i < rounds_at(r, peer); i++) {
				word ^= token_of(peer, i);
				half ^= (uint32_t)token_of(peer, i);
			}
		}
		CHECK_EQ(r, word, 0);
		CHECK_EQ(r, half, 0);
	}
}

/* Ranks count by compare_swap, in both sizes; the values they replace are their own. */
CASE void no_compare_swap_is_lost(struct rank *r)
{
	struct step step = {COMPARE_SWAP, 0, 0, 0, 0};
	uint64_t at, old;
	unsigned i, peer, row;

	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		at = row_at(r, peer, 64);
		for (i = 0, step.compare = 0; i < rounds_at(r, peer); step.compare = old) {
			step.value = step.compare + 1;
			old = step_64(r, peer, at, &step);
			if (old == step.compare)
				i++, old++;
		}
		for (i = 0, step.compare = 0; i < rounds_at(r, peer); step.compare = old) {
			step.value = step.compare + 1;
			old = step_32(r, peer, at + 12, &step);
			if (old == step.compare)
				i++, old++;
		}
	}
	rank_flush_barrier(r);
	for (row = 0; row <= ORIEL_DEV_RAILS; row++) {
		const uint64_t *words = (const uint64_t *)(const void *)(r->base + row * 64);

		uint64_t count = (row ? ROUNDS : MANY_ROUNDS) * row_users(r, row);

		CHECK_EQ(r, words[0], count);
		CHECK_EQ(r, words[1], count << 32);
	}
}

/* Each rank sets and clears a bit of its own, which no other rank changes. */
CASE void bits_belong_to_their_rank(struct rank *r)
{
	struct step set = {OR, 0, 0, 0, 0}, clear = {AND, 0, 0, 0, 0};
	uint64_t at, bit = (uint64_t)1 << (r->rank % 32);
	unsigned i, peer;

	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		for (i = 0; i < rounds_at(r, peer); i++) {
			at = row_at(r, peer, 64);
			set.value = bit << 32 | bit;
			clear.value = ~set.value;
			CHECK_EQ(r, step_64(r, peer, at, &set) & set.value, 0);
			CHECK_EQ(r, step_64(r, peer, at, &clear) & set.value, set.value);
			at += 8 + 4 * (r->rank % 2);
			set.value = bit;
			clear.value = ~bit;
			CHECK_EQ(r, step_32(r, peer, at, &set) & bit, 0);
			CHECK_EQ(r, step_32(r, peer, at, &clear) & bit, bit);
		}
	}
	rank_flush_barrier(r);
	CHECK_EQ(r, not_all(r->base, 64 * (1 + ORIEL_DEV_RAILS), 0), 0);
}

/* A lock of compare_swap and set guards bytes that are put and got. */
CASE void a_lock_guards_what_it_guards(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, count, 1);
	const struct step take = {COMPARE_SWAP, 0, 1, 0, 0}, give = {SET, 0, 0, 0, 0};
	unsigned i, peer, row;
	uint64_t at;

	for (i = 0; i < 8; i++) {
		for (peer = 0; peer < r->size; peer++) {
			at = row_at(r, peer, 64);
			while (step_64(r, peer, at, &take))
				ori_dev_back_off(1000000);
			CHECK_OK(r, oriel_dev_get(&r->dev, r->group, peer, at + 8, count, 8, NULL));
			CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
			if (oriel_dev_is_leader(r->group))
				count[0]++;
			oriel_dev_sync(r->group);
			CHECK_OK(r, oriel_dev_put(&r->dev, r->group, peer, at + 8, count, 8, NULL));
			CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
			step_64(r, peer, at, &give);
		}
	}
	rank_flush_barrier(r);
	for (row = 0; row <= ORIEL_DEV_RAILS; row++) {
		const uint64_t *words = (const uint64_t *)(const void *)(r->base + row * 64);

		CHECK_EQ(r, words[0], 0);
		CHECK_EQ(r, words[1], 8 * row_users(r, row));
	}
}

CASE void expect_rejected(struct rank *r, uint64_t at, bool is_short, enum oriel_status expected)
{
	struct oriel_dev_fault fault;
	uint64_t old = 55;
	uint32_t half = 66;

	if (is_short)
		CHECK_STATUS(r, ALONE(r, oriel_dev_swap_32(&r->dev, rank_next(r), at, 9, &half)),
			     expected);
	else
		CHECK_STATUS(r, ALONE(r, oriel_dev_swap(&r->dev, rank_next(r), at, 9, &old)),
			     expected);
	CHECK_EQ(r, SHARED(r, old), 55);
	CHECK_EQ(r, SHARED(r, (uint64_t)half), 66);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.status, expected);
	CHECK_EQ(r, fault.what, ORIEL_DEV_SWAP);
	CHECK_EQ(r, fault.peer, rank_next(r));
}

/* The window has 4093 bytes: the word of 8 bytes around the last 4 is not all there. */
CASE void words_are_aligned_and_exist(struct rank *r)
{
	expect_rejected(r, 4, false, ORIEL_ERR_INVALID);
	expect_rejected(r, 1, false, ORIEL_ERR_INVALID);
	expect_rejected(r, 2, true, ORIEL_ERR_INVALID);
	expect_rejected(r, 7, true, ORIEL_ERR_INVALID);
	expect_rejected(r, 4088, false, ORIEL_ERR_RANGE);
	expect_rejected(r, 4088, true, ORIEL_ERR_RANGE);
	expect_rejected(r, UINT64_MAX, true, ORIEL_ERR_RANGE);
	rank_flush_barrier(r);
	CHECK_EQ(r, not_all(r->base, r->length, 0), 0);
}

#ifndef __CUDACC__

/* The calls of the host are the same operations. */
static uint64_t host_step_64(struct rank *r, unsigned peer, uint64_t at, const struct step *step)
{
	struct oriel_window *w = r->window;
	uint64_t v = step->value, old = 0;

	switch (step->kind) {
	case ADD:
		CHECK_OK(r, oriel_window_fetch_add(w, peer, at, v, &old));
		break;
	case AND:
		CHECK_OK(r, oriel_window_fetch_and(w, peer, at, v, &old));
		break;
	case OR:
		CHECK_OK(r, oriel_window_fetch_or(w, peer, at, v, &old));
		break;
	case XOR:
		CHECK_OK(r, oriel_window_fetch_xor(w, peer, at, v, &old));
		break;
	case SWAP:
		CHECK_OK(r, oriel_window_swap(w, peer, at, v, &old));
		break;
	case COMPARE_SWAP:
		CHECK_OK(r, oriel_window_compare_swap(w, peer, at, step->compare, v, &old));
		break;
	case FETCH:
		CHECK_OK(r, oriel_window_fetch(w, peer, at, &old));
		break;
	case SET:
		CHECK_OK(r, oriel_window_set(w, peer, at, v));
		break;
	}
	return old;
}

static uint32_t host_step_32(struct rank *r, unsigned peer, uint64_t at, const struct step *step)
{
	struct oriel_window *w = r->window;
	uint32_t v = (uint32_t)step->value, c = (uint32_t)step->compare, old = 0;

	switch (step->kind) {
	case ADD:
		CHECK_OK(r, oriel_window_fetch_add_32(w, peer, at, v, &old));
		break;
	case AND:
		CHECK_OK(r, oriel_window_fetch_and_32(w, peer, at, v, &old));
		break;
	case OR:
		CHECK_OK(r, oriel_window_fetch_or_32(w, peer, at, v, &old));
		break;
	case XOR:
		CHECK_OK(r, oriel_window_fetch_xor_32(w, peer, at, v, &old));
		break;
	case SWAP:
		CHECK_OK(r, oriel_window_swap_32(w, peer, at, v, &old));
		break;
	case COMPARE_SWAP:
		CHECK_OK(r, oriel_window_compare_swap_32(w, peer, at, c, v, &old));
		break;
	case FETCH:
		CHECK_OK(r, oriel_window_fetch_32(w, peer, at, &old));
		break;
	case SET:
		CHECK_OK(r, oriel_window_set_32(w, peer, at, v));
		break;
	}
	return old;
}

static void atomic_host(struct rank *r, unsigned peer, uint64_t at)
{
	struct oriel_window *w = r->window;
	uint64_t old = 0;
	uint32_t half = 0;
	size_t i;

	for (i = 0; i < STEPS; i++) {
		CHECK_EQ(r, host_step_64(r, peer, at, &steps_64[i]), steps_64[i].before);
		CHECK_EQ(r, host_step_32(r, peer, at + 16, &steps_32[i]), steps_32[i].before);
		CHECK_EQ(r, host_step_32(r, peer, at + 20, &steps_32[i]), steps_32[i].before);
	}
	CHECK_STATUS(r, oriel_window_swap(w, peer, at + 4, 1, &old), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "swap: the word at offset");
	CHECK_LAST(r, "is not aligned to 8 bytes");
	CHECK_STATUS(r, oriel_window_fetch_xor_32(w, peer, at + 2, 1, &half), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "is not aligned to 4 bytes");
	CHECK_STATUS(r, oriel_window_compare_swap_32(w, peer, r->length, 0, 1, &half),
		     ORIEL_ERR_RANGE);
	CHECK_LAST(r, "compare_swap: the end");
	CHECK_STATUS(r, oriel_window_fetch_32(w, peer, at, NULL), ORIEL_ERR_INVALID);
	CHECK_LAST(r, "fetch: window");
}

CASE void hosts_do_the_same(struct rank *r)
{
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		host_do(r, atomic_host, peer, (uint64_t)r->rank * SLOT);
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		const uint64_t *mine = (const uint64_t *)(const void *)(r->base + peer * SLOT);

		CHECK_EQ(r, mine[0], 7);
		CHECK_EQ(r, mine[2], UINT64_C(0x700000007));
	}
}

#define ATOMIC_HOST atomic_host
#define HOST_ROWS(ROW) ROW(hosts_do_the_same, NULL, 1, 0)

#else

/* Windows on GPUs have the calls for streams, of gpu_stream.cu. */
#define ATOMIC_HOST NULL
#define HOST_ROWS(ROW)

#endif

static const struct oriel_window_attr odd_window = {.size = sizeof(odd_window), .length = 4093};

#define ATOMIC_CASES(ROW)                                \
	ROW(each_returns_the_value_before, NULL, 1, 0)   \
	HOST_ROWS(ROW)                                   \
	ROW(no_exclusive_or_is_lost, NULL, 1, 0)         \
	ROW(every_swap_returns_a_token_once, NULL, 1, 0) \
	ROW(no_compare_swap_is_lost, NULL, 1, 0)         \
	ROW(bits_belong_to_their_rank, NULL, 1, 0)       \
	ROW(a_lock_guards_what_it_guards, NULL, 1, 0)    \
	ROW(words_are_aligned_and_exist, &odd_window, 1, 0)

DEVICE_SUITE(atomic, ATOMIC_CASES, NO_FORKS, ATOMIC_HOST);
