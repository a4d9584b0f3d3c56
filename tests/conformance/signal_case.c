/* SPDX-License-Identifier: Apache-2.0 */
/* Signals: one word for each source, id and rank; and every operation that waits for them. */
#include "harness.h"

/* Edges: the end of 32 bits, the sign bit, and the wrap of the word. */
CASE_DATA const uint64_t edges[] = {0,
				    1,
				    (1ull << 31) - 1,
				    1ull << 31,
				    (1ull << 32) - 1,
				    1ull << 32,
				    (1ull << 63) - 1,
				    1ull << 63,
				    UINT64_MAX - 1,
				    UINT64_MAX};

#define EDGES (sizeof(edges) / sizeof(edges[0]))

CASE void check_word(struct rank *r, unsigned source, uint32_t id, uint64_t expected)
{
	uint64_t value = ~expected;

	CHECK_OK(r, oriel_dev_read_signal_from(&r->dev, source, id, &value));
	CHECK_EQ(r, value, expected);
}

CASE uint64_t pair_value(unsigned from, unsigned to)
{
	return 1000 * (from + 1) + to;
}

/* NvlSignalWriteRead: the signal changes the right row and slot, and no other word. */
CASE void add_increments_one_word(struct rank *r)
{
	unsigned peer;
	uint32_t id;

	for (peer = 0; peer < r->size; peer++) {
		id = (r->rank + peer) % r->dev.signals;
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, peer, id, ORIEL_SIGNAL_ADD, 1,
						 NULL));
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, peer, id, ORIEL_SIGNAL_ADD,
						 pair_value(r->rank, peer), NULL));
	}
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++)
		for (id = 0; id < r->dev.signals; id++)
			check_word(r, peer, id,
				   id == (r->rank + peer) % r->dev.signals
					   ? 1 + pair_value(peer, r->rank)
					   : 0);
}

/* SignalWithSet, WaitWithCmpEq. */
CASE void set_replaces_earlier_values(struct rank *r)
{
	CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 9, ORIEL_SIGNAL_ADD, 50,
					 NULL));
	CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 9, ORIEL_SIGNAL_SET, 7,
					 NULL));
	CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 9, ORIEL_SIGNAL_ADD, 1,
					 NULL));
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 9, ORIEL_EQ, 8,
					       LONG_NS));
	rank_flush_barrier(r);
	check_word(r, rank_prev(r), 9, 8);
}

CASE bool holds(uint64_t value, int compare, uint64_t operand)
{
	switch (compare) {
	case ORIEL_EQ:
		return value == operand;
	case ORIEL_NE:
		return value != operand;
	case ORIEL_GT:
		return value > operand;
	case ORIEL_GE:
		return value >= operand;
	case ORIEL_LT:
		return value < operand;
	case ORIEL_LE:
		return value <= operand;
	}
	return false;
}

CASE void check_compares(struct rank *r, uint64_t value, uint64_t operand)
{
	int compare;

	for (compare = ORIEL_EQ; compare <= ORIEL_LE; compare++) {
		enum oriel_status expected =
			holds(value, compare, operand) ? ORIEL_OK : ORIEL_ERR_TIMEOUT;

		CHECK_STATUS(r,
			     oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 1,
							(enum oriel_compare)compare, operand, 1),
			     expected);
		CHECK_STATUS(r,
			     oriel_dev_wait_signal(&r->dev, r->group, 1,
						   (enum oriel_compare)compare, operand, 1),
			     expected);
	}
}

/* The word does not change while it is compared, so a timeout of 1 ns decides nothing. */
CASE void six_comparisons_are_unsigned(struct rank *r)
{
	size_t i, k;

	for (i = 0; i < EDGES; i++) {
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 1,
						 ORIEL_SIGNAL_SET, edges[i], NULL));
		rank_flush_barrier(r);
		for (k = 0; k < EDGES; k++)
			check_compares(r, edges[i], edges[k]);
		rank_flush_barrier(r);
	}
}

/* A 32-bit counter once became a huge wait value by sign extension. */
CASE void waits_cross_every_edge(struct rank *r)
{
	size_t i;
	int step;

	for (i = 2; i < EDGES - 2; i++) {
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 2,
						 ORIEL_SIGNAL_SET, edges[i] - 3, NULL));
		rank_flush_barrier(r);
		for (step = -2; step < 3; step++) {
			CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 2,
							 ORIEL_SIGNAL_ADD, 1, NULL));
			CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 2,
							       ORIEL_GE, edges[i] + (uint64_t)step,
							       LONG_NS));
		}
		rank_flush_barrier(r);
	}
}

/* ReadSignal, SignalAllAggregate: the sum is over all rows, the rank's own row included. */
CASE void sum_is_over_all_sources(struct rank *r)
{
	uint64_t expected = (uint64_t)r->size * (r->size + 1) / 2, value = 0;
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, peer, 4, ORIEL_SIGNAL_ADD,
						 r->rank + 1, NULL));
	CHECK_OK(r, oriel_dev_wait_signal(&r->dev, r->group, 4, ORIEL_GE, expected, LONG_NS));
	CHECK_OK(r, oriel_dev_read_signal(&r->dev, 4, &value));
	CHECK_EQ(r, value, expected);
	for (peer = 0; peer < r->size; peer++)
		check_word(r, peer, 4, peer + 1);
}

/*
 * W2: whichever group calls signal_all, every peer gets the signal, and the caller itself does
 * not.
 */
CASE void signal_all_reaches_all_others(struct rank *r)
{
	unsigned peer;

	CHECK_POSTED(r, oriel_dev_signal_all(&r->dev, r->group, 5, ORIEL_SIGNAL_ADD, r->rank + 10));
	CHECK_POSTED(r, oriel_dev_signal_all(&r->dev, r->group, 6, ORIEL_SIGNAL_SET, r->rank + 20));
	for (peer = 0; peer < r->size; peer++) {
		if (peer == r->rank)
			continue;
		CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, peer, 5, ORIEL_EQ,
						       peer + 10, LONG_NS));
		CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, peer, 6, ORIEL_EQ,
						       peer + 20, LONG_NS));
	}
	check_word(r, r->rank, 5, 0);
	check_word(r, r->rank, 6, 0);
}

/* WaitSignalFromMultiPeerIsolation, IbgdaSignalSlotIsolation. */
CASE void waits_do_not_see_other_sources_or_ids(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	unsigned peer;

	if (r->rank == 1)
		CHECK_POSTED(r, oriel_dev_signal_all(w, r->group, 7, ORIEL_SIGNAL_ADD, 5));
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		bool raised = peer == 1 && r->rank != 1;

		CHECK_STATUS(r, oriel_dev_wait_signal_from(w, r->group, peer, 7, ORIEL_NE, 0, 1),
			     raised ? ORIEL_OK : ORIEL_ERR_TIMEOUT);
		CHECK_STATUS(r, oriel_dev_wait_signal_next(w, r->group, peer, 6, 1, 1),
			     ORIEL_ERR_TIMEOUT);
		CHECK_STATUS(r, oriel_dev_wait_signal_from(w, r->group, peer, 8, ORIEL_NE, 0, 1),
			     ORIEL_ERR_TIMEOUT);
	}
	CHECK_STATUS(r, oriel_dev_wait_signal(w, r->group, 8, ORIEL_NE, 0, 1), ORIEL_ERR_TIMEOUT);
}

/* W5: a launch that starts with a new handle must not pass on old values. */
CASE void next_needs_no_reset_between_launches(struct rank *r)
{
	struct oriel_dev_window w;
	unsigned launch;

	for (launch = 1; launch <= 20; launch++) {
		CHECK_OK(r, rank_device(r, &w));
		CHECK_STATUS(r, oriel_dev_wait_signal_next(&w, r->group, rank_prev(r), 1, 1, 1),
			     ORIEL_ERR_TIMEOUT);
		rank_flush_barrier(r);
		CHECK_POSTED(r, oriel_dev_signal(&w, r->group, rank_next(r), 1, ORIEL_SIGNAL_ADD,
						 launch, NULL));
		CHECK_OK(r, oriel_dev_wait_signal_next(&w, r->group, rank_prev(r), 1, launch,
						       LONG_NS));
	}
	check_word(r, rank_prev(r), 1, 20 * 21 / 2);
}

CASE void next_counts_early_signals(struct rank *r)
{
	unsigned i;

	CHECK_STATUS(r, oriel_dev_wait_signal_next(&r->dev, r->group, rank_prev(r), 1, 3, 1),
		     ORIEL_ERR_TIMEOUT);
	rank_flush_barrier(r);
	for (i = 0; i < 10; i++)
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 1,
						 ORIEL_SIGNAL_ADD, 1, NULL));
	CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, r->group, rank_prev(r), 1, 3, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, r->group, rank_prev(r), 1, 7, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, r->group, rank_prev(r), 1, 0, LONG_NS));
	CHECK_STATUS(r, oriel_dev_wait_signal_next(&r->dev, r->group, rank_prev(r), 1, 1, 1),
		     ORIEL_ERR_TIMEOUT);
}

/* Rank 0 signals later than the others: a wait that times out has taken none of their signals. */
CASE void next_of_all_takes_from_all_or_none(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	bool is_first = r->rank == 0;
	unsigned round, peer;

	for (round = 0; round < 20; round++) {
		if (!is_first)
			CHECK_POSTED(r, oriel_dev_signal_all(w, r->group, 3, ORIEL_SIGNAL_ADD, 2));
		rank_flush_barrier(r);
		CHECK_STATUS(r, oriel_dev_wait_signal_next_all(w, r->group, 3, 2, 1),
			     is_first ? ORIEL_OK : ORIEL_ERR_TIMEOUT);
		rank_flush_barrier(r);
		if (is_first)
			CHECK_POSTED(r, oriel_dev_signal_all(w, r->group, 3, ORIEL_SIGNAL_ADD, 2));
		else
			CHECK_OK(r, oriel_dev_wait_signal_next_all(w, r->group, 3, 2, LONG_NS));
	}
	rank_flush_barrier(r);
	CHECK_OK(r, oriel_dev_wait_signal_next_all(w, r->group, 3, 0, 1));
	CHECK_STATUS(r, oriel_dev_wait_signal_next_all(w, r->group, 3, 1, 1), ORIEL_ERR_TIMEOUT);
	for (peer = 0; peer < r->size; peer++)
		CHECK_STATUS(r, oriel_dev_wait_signal_next(w, r->group, peer, 3, 1, 1),
			     ORIEL_ERR_TIMEOUT);
}

CASE void next_survives_wrap_around(struct rank *r)
{
	const uint64_t quarter = 1ull << 62;
	int i;

	for (i = 0; i < 9; i++) {
		CHECK_STATUS(r,
			     oriel_dev_wait_signal_next(&r->dev, r->group, rank_prev(r), 3, quarter,
							1),
			     ORIEL_ERR_TIMEOUT);
		rank_flush_barrier(r);
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 3,
						 ORIEL_SIGNAL_ADD, quarter, NULL));
		CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, r->group, rank_prev(r), 3, quarter,
						       LONG_NS));
	}
}

/* SignalResetBetweenPhases. */
CASE void reset_clears_the_word_and_its_base(struct rank *r)
{
	int phase;

	for (phase = 0; phase < 3; phase++) {
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 1,
						 ORIEL_SIGNAL_ADD, 4, NULL));
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 2,
						 ORIEL_SIGNAL_ADD, 4, NULL));
		CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, r->group, rank_prev(r), 1, 4,
						       LONG_NS));
		CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 2, ORIEL_EQ,
						       4 * ((uint64_t)phase + 1), LONG_NS));
		rank_flush_barrier(r);
		CHECK_OK(r, ALONE(r, oriel_dev_reset_signal(&r->dev, rank_prev(r), 1)));
		check_word(r, rank_prev(r), 1, 0);
		rank_flush_barrier(r);
	}
}

#define RAISERS 4u
#define RAISES 300u

/* Even threads add to one word together, odd ones each to a word of their own. */
CASE void signal_often(struct rank *r, unsigned index, void *context)
{
	struct oriel_dev_group g = r->group;
	unsigned i;

	(void)context;
	for (i = 0; i < RAISES; i++)
		CHECK_POSTED(r,
			     oriel_dev_signal(&r->dev, g, rank_next(r), index % 2 ? 20 + index : 20,
					      ORIEL_SIGNAL_ADD, 1, NULL));
}

/* ConcurrentSignalSlots, ConcurrentSignalStressExtended. */
CASE void groups_may_signal_at_once(struct rank *r)
{
	rank_fork(r, RAISERS, signal_often, NULL);
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 20, ORIEL_EQ,
					       RAISERS / 2 * RAISES, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 21, ORIEL_EQ,
					       RAISES, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 23, ORIEL_EQ,
					       RAISES, LONG_NS));
	rank_flush_barrier(r);
	check_word(r, rank_prev(r), 20, RAISERS / 2 * RAISES);
}

#define MANY 70000u

/* There are more signals than any 16-bit index of a queue or a packet counts. */
CASE void signals_outnumber_16_bits(struct rank *r)
{
	uint32_t i;

	for (i = 0; i < MANY; i++)
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 3,
						 ORIEL_SIGNAL_ADD, i, NULL));
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 3, ORIEL_GE,
					       MANY * (MANY - 1ull) / 2, LONG_NS));
	rank_flush_barrier(r);
	check_word(r, rank_prev(r), 3, MANY * (MANY - 1ull) / 2);
}

CASE void slot_ping_pong(struct rank *r, unsigned index, void *context)
{
	struct oriel_dev_group g = r->group;
	uint64_t i;

	(void)context;
	for (i = 1; i <= 100; i++) {
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, g, rank_next(r), index, ORIEL_SIGNAL_ADD,
						 1, NULL));
		CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, g, rank_prev(r), index, ORIEL_GE, i,
						       LONG_NS));
		CHECK_POSTED(r, oriel_dev_put_signal(&r->dev, g, rank_prev(r), r->length, NULL, 0,
						     8 + index, 1, NULL));
		CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, g, rank_next(r), 8 + index, 1,
						       LONG_NS));
	}
}

/* W3: each group's own signal arrives, not only that of the first group. */
CASE void every_group_plays_ping_pong(struct rank *r)
{
	rank_fork(r, 4, slot_ping_pong, NULL);
}

#define SIGNAL_CASES(ROW)                                      \
	ROW(add_increments_one_word, NULL, 1, 0)               \
	ROW(set_replaces_earlier_values, NULL, 1, 0)           \
	ROW(six_comparisons_are_unsigned, NULL, 1, 0)          \
	ROW(waits_cross_every_edge, NULL, 1, 0)                \
	ROW(sum_is_over_all_sources, NULL, 1, 0)               \
	ROW(signal_all_reaches_all_others, NULL, 1, 0)         \
	ROW(waits_do_not_see_other_sources_or_ids, NULL, 2, 0) \
	ROW(next_needs_no_reset_between_launches, NULL, 1, 0)  \
	ROW(next_counts_early_signals, NULL, 1, 0)             \
	ROW(next_of_all_takes_from_all_or_none, NULL, 2, 0)    \
	ROW(next_survives_wrap_around, NULL, 1, 0)             \
	ROW(reset_clears_the_word_and_its_base, NULL, 1, 0)    \
	ROW(groups_may_signal_at_once, NULL, 1, 0)             \
	ROW(signals_outnumber_16_bits, NULL, 1, 0)             \
	ROW(every_group_plays_ping_pong, NULL, 1, 0)

#define SIGNAL_FORKS(ROW) ROW(signal_often) ROW(slot_ping_pong)

DEVICE_SUITE(signal, SIGNAL_CASES, SIGNAL_FORKS, NULL);
