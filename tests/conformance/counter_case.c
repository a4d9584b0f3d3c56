/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters: they mean the same on every path, and each operation changes only its own. W8, W10:
 * no operation incremented them.
 */
#include "harness.h"

CASE void check_counter(struct rank *r, unsigned peer, uint32_t counter, uint64_t expected)
{
	uint64_t value = ~expected;

	CHECK_OK(r, oriel_dev_read_counter(&r->dev, peer, counter, &value));
	CHECK_EQ(r, value, expected);
}

CASE void wait_counter(struct rank *r, unsigned peer, uint32_t counter, uint64_t expected)
{
	CHECK_OK(r, oriel_dev_wait_counter(&r->dev, r->group, peer, counter, ORIEL_GE, expected,
					   LONG_NS));
	check_counter(r, peer, counter, expected);
}

#define BLOCK 777u

/* NvlOffsetPutCounter. */
CASE void put_counter_counts_puts(struct rank *r)
{
	RANK_ARRAY(r, char, block, BLOCK);
	unsigned peer, i;

	for (peer = 0; peer < r->size; peer++) {
		for (i = 0; i < 5; i++) {
			group_fill(r->group, block, BLOCK, 100 * r->rank + i);
			CHECK_POSTED(r, oriel_dev_put_counter(&r->dev, r->group, peer,
							      (r->rank * 5 + i) * BLOCK, block,
							      BLOCK, peer % r->dev.counters, NULL));
			wait_counter(r, peer, peer % r->dev.counters, i + 1);
		}
	}
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++)
		for (i = 0; i < 5; i++)
			CHECK_EQ(r, wrong(r->base + (peer * 5 + i) * BLOCK, BLOCK, 100 * peer + i),
				 0);
}

CASE void counters_are_per_peer_and_id(struct rank *r)
{
	unsigned peer, id, raised = rank_next(r);

	CHECK_POSTED(r, oriel_dev_put_counter(&r->dev, r->group, raised, 0, NULL, 0, 7, NULL));
	wait_counter(r, raised, 7, 1);
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++)
		for (id = 0; id < r->dev.counters; id++)
			check_counter(r, peer, id, peer == raised && id == 7);
}

/* NvlOffsetPutSignalCounter: put, signal and counter take effect, all three. */
CASE void put_signal_counter_does_all_three(struct rank *r)
{
	RANK_ARRAY(r, char, block, 300);
	uint64_t value = 0;

	group_fill(r->group, block, 300, r->rank);
	CHECK_POSTED(r, oriel_dev_put_signal_counter(&r->dev, r->group, rank_next(r), 11, block,
						     300, 5, 40, 3, NULL));
	wait_counter(r, rank_next(r), 3, 1);
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 5, ORIEL_NE, 0,
					       LONG_NS));
	CHECK_EQ(r, wrong(r->base + 11, 300, rank_prev(r)), 0);
	CHECK_OK(r, oriel_dev_read_signal_from(&r->dev, rank_prev(r), 5, &value));
	CHECK_EQ(r, value, 40);
}

CASE void signal_counter_counts_signals(struct rank *r)
{
	uint64_t i;

	for (i = 1; i <= 10; i++) {
		CHECK_POSTED(r, oriel_dev_signal_counter(&r->dev, r->group, rank_next(r), 6, 3, 0,
							 NULL));
		wait_counter(r, rank_next(r), 0, i);
	}
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 6, ORIEL_EQ, 30,
					       LONG_NS));
}

CASE void counters_compare_and_reset(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	unsigned peer = rank_next(r), i;

	for (i = 0; i < 3; i++)
		CHECK_POSTED(r, oriel_dev_put_counter(w, r->group, peer, 0, NULL, 0, 1, NULL));
	wait_counter(r, peer, 1, 3);
	CHECK_OK(r, oriel_dev_wait_counter(w, r->group, peer, 1, ORIEL_EQ, 3, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_counter(w, r->group, peer, 1, ORIEL_LT, 4, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_counter(w, r->group, peer, 1, ORIEL_LE, 3, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_counter(w, r->group, peer, 1, ORIEL_GT, 2, LONG_NS));
	CHECK_STATUS(r, oriel_dev_wait_counter(w, r->group, peer, 1, ORIEL_NE, 3, 1),
		     ORIEL_ERR_TIMEOUT);
	CHECK_STATUS(r, oriel_dev_wait_counter(w, r->group, peer, 2, ORIEL_NE, 0, 1),
		     ORIEL_ERR_TIMEOUT);
	CHECK_OK(r, ALONE(r, oriel_dev_reset_counter(w, peer, 1)));
	check_counter(r, peer, 1, 0);
	CHECK_POSTED(r, oriel_dev_put_counter(w, r->group, peer, 0, NULL, 0, 1, NULL));
	wait_counter(r, peer, 1, 1);
}

/* A rejected put moves nothing, so it counts nothing. */
CASE void tickets_with_counters_are_accepted(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	struct oriel_dev_group g = r->group;
	struct oriel_dev_ticket ticket[3];
	char *own = r->base + 1024;
	unsigned peer, i;

	for (peer = 0; peer < r->size; peer++) {
		CHECK_OK(r, oriel_dev_put_counter(w, g, peer, r->rank * 8, own, 8, 0, &ticket[0]));
		CHECK_OK(r, oriel_dev_put_signal_counter(w, g, peer, r->rank * 8, own, 8, 0, 1, 0,
							 &ticket[1]));
		CHECK_OK(r, oriel_dev_signal_counter(w, g, peer, 0, 1, 0, &ticket[2]));
		for (i = 0; i < 3; i++)
			CHECK_OK(r, oriel_dev_wait_local(w, g, ticket[i], LONG_NS));
	}
	rank_flush_barrier(r);
}

CASE void rejected_puts_do_not_count(struct rank *r)
{
	struct oriel_dev_fault fault;
	char byte = 1;

	CHECK_STATUS(r,
		     oriel_dev_put_counter(&r->dev, r->group, rank_next(r), r->length, &byte, 1, 0,
					   NULL),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r,
		     oriel_dev_put_signal_counter(&r->dev, r->group, rank_next(r), r->length, &byte,
						  1, 0, 1, 0, NULL),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r,
		     oriel_dev_signal_counter(&r->dev, r->group, rank_next(r), r->dev.signals, 1, 0,
					      NULL),
		     ORIEL_ERR_RANGE);
	check_counter(r, rank_next(r), 0, 0);
	CHECK_OK(r, rank_fault(r, &fault));
}

/* Post the operation of @kind that increments a counter. */
#define KINDS 3u

CASE enum oriel_status post_counted(struct rank *r, unsigned kind, unsigned peer, const char *byte)
{
	switch (kind) {
	case 0:
		return oriel_dev_put_counter(&r->dev, r->group, peer, r->rank, byte, 1, 5, NULL);
	case 1:
		return oriel_dev_put_signal_counter(&r->dev, r->group, peer, r->rank, byte, 1, 2, 1,
						    5, NULL);
	}
	return oriel_dev_signal_counter(&r->dev, r->group, peer, 2, 1, 5, NULL);
}

#define EACH 4u           /* posts at once */
#define COUNT_ROUNDS 4u   /* of each kind */
#define STAYS_NS 2000000u /* a late increment would arrive within it */

/*
 * @is_flush: complete the operations by a flush, else by a drain. No thread waits for the
 * counter itself.
 */
CASE void count_and_reset(struct rank *r, bool is_flush)
{
	const struct oriel_dev_window *w = &r->dev;
	RANK_ARRAY(r, char, byte, 1);
	unsigned round, peer, i;

	byte[0] = 1;
	for (round = 0; round < COUNT_ROUNDS * KINDS; round++) {
		for (peer = 0; peer < r->size; peer++)
			for (i = 0; i < EACH; i++)
				CHECK_POSTED(r, post_counted(r, round % KINDS, peer, byte));
		if (is_flush)
			CHECK_OK(r, oriel_dev_flush(w, r->group, LONG_NS));
		else
			CHECK_OK(r, oriel_dev_drain(w, r->group, LONG_NS));
		for (peer = 0; peer < r->size; peer++) {
			check_counter(r, peer, 5, EACH);
			/* Every thread of the group reads the counter, and one resets it. */
			oriel_dev_sync(r->group);
			CHECK_OK(r, ALONE(r, oriel_dev_reset_counter(w, peer, 5)));
		}
		CHECK_STATUS(r,
			     oriel_dev_wait_counter(w, r->group, rank_next(r), 5, ORIEL_NE, 0,
						    STAYS_NS),
			     ORIEL_ERR_TIMEOUT);
		for (peer = 0; peer < r->size; peer++)
			check_counter(r, peer, 5, 0);
	}
}

CASE void drain_covers_counters(struct rank *r)
{
	count_and_reset(r, false);
}

CASE void flush_covers_counters(struct rank *r)
{
	count_and_reset(r, true);
}

CASE void count_often(struct rank *r, unsigned index, void *context)
{
	RANK_ARRAY(r, char, byte, 1);
	unsigned i;

	(void)context;
	byte[0] = 1;
	for (i = 0; i < 200; i++)
		CHECK_POSTED(r, oriel_dev_put_counter(&r->dev, r->group, rank_next(r), index, byte,
						      1, 4, NULL));
	CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
}

CASE void groups_may_share_a_counter(struct rank *r)
{
	rank_fork(r, 4, count_often, NULL);
	wait_counter(r, rank_next(r), 4, 800);
	rank_flush_barrier(r);
}

#define COUNTER_CASES(ROW)                                  \
	ROW(put_counter_counts_puts, NULL, 1, 0)            \
	ROW(counters_are_per_peer_and_id, NULL, 1, 0)       \
	ROW(put_signal_counter_does_all_three, NULL, 1, 0)  \
	ROW(signal_counter_counts_signals, NULL, 1, 0)      \
	ROW(counters_compare_and_reset, NULL, 1, 0)         \
	ROW(tickets_with_counters_are_accepted, NULL, 1, 0) \
	ROW(rejected_puts_do_not_count, NULL, 1, 0)         \
	ROW(drain_covers_counters, NULL, 1, 0)              \
	ROW(flush_covers_counters, NULL, 1, 0)              \
	ROW(groups_may_share_a_counter, NULL, 1, 0)

#define COUNTER_FORKS(ROW) ROW(count_often)

DEVICE_SUITE(counter, COUNTER_CASES, COUNTER_FORKS, NULL);
