/* SPDX-License-Identifier: Apache-2.0 */
/* Litmus tests: the order in which writes become visible, and the one documented hole. */
#include "harness.h"

#define ROUNDS 1000u
#define MESSAGE 1032u

/*
 * MP: the receiver of the signal sees all of the put. The answer keeps the writer at most one
 * round ahead.
 */
CASE void signal_publishes_the_put(struct rank *r)
{
	RANK_ARRAY(r, char, message, MESSAGE);
	struct oriel_dev_ticket ticket = {0, 0, 0};
	uint64_t i;

	for (i = 1; i <= ROUNDS; i++) {
		group_fill(r->group, message, MESSAGE, i + r->rank);
		CHECK_OK(r, oriel_dev_put_signal(&r->dev, r->group, rank_next(r), i % 8, message,
						 MESSAGE, 0, 1, &ticket));
		CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, r->group, rank_prev(r), 0, 1,
						       LONG_NS));
		CHECK_EQ(r, wrong(r->base + i % 8, MESSAGE, i + rank_prev(r)), 0);
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_prev(r), 1,
						 ORIEL_SIGNAL_ADD, 1, NULL));
		CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, r->group, rank_next(r), 1, 1,
						       LONG_NS));
		CHECK_OK(r, oriel_dev_wait_local(&r->dev, r->group, ticket, LONG_NS));
	}
}

/* MP with two puts and a separate signal; W6: the sum wait must acquire as well. */
CASE void signal_publishes_all_earlier_puts(struct rank *r)
{
	uint64_t i, *words = (uint64_t *)(void *)r->base;
	RANK_ARRAY(r, uint64_t, source, 1);

	for (i = 1; i <= ROUNDS; i++) {
		source[0] = i;
		CHECK_POSTED(r, ALONE(r, oriel_dev_put_value(&r->dev, rank_next(r), 0, i, NULL)));
		CHECK_POSTED(r,
			     oriel_dev_put(&r->dev, r->group, rank_next(r), 4096, source, 8, NULL));
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, rank_next(r), 2,
						 ORIEL_SIGNAL_SET, i, NULL));
		CHECK_OK(r, oriel_dev_wait_signal(&r->dev, r->group, 2, ORIEL_GE, i, LONG_NS));
		CHECK_EQ(r, oriel_dev_load_relaxed(&words[0]), i);
		CHECK_EQ(r, words[512], i);
		CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 0, LONG_NS));
		CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	}
}

#define SMALL 96u

/* MP through a barrier, every pair at once; no rank puts twice to one offset without a barrier. */
CASE void barrier_publishes_the_puts_of_all(struct rank *r)
{
	RANK_ARRAY(r, char, message, SMALL);
	uint64_t i;
	unsigned peer;

	for (i = 1; i <= ROUNDS; i++) {
		size_t half = i % 2 * 4096;

		group_fill(r->group, message, SMALL, i + r->rank);
		for (peer = 0; peer < r->size; peer++)
			CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer,
						      half + r->rank * (size_t)SMALL, message,
						      SMALL, NULL));
		CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 1, LONG_NS));
		for (peer = 0; peer < r->size; peer++)
			CHECK_EQ(r, wrong(r->base + half + peer * (size_t)SMALL, SMALL, i + peer),
				 0);
		/*
		 * The drain comes after the barrier, which must announce puts that are in
		 * flight.
		 */
		CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	}
}

/*
 * ISA2: rank 0 puts to rank 2, flushes, and signals rank 1; rank 1 signals rank 2; rank 2 reads.
 * Without the flush nothing is promised.
 */
CASE void flush_makes_puts_visible_to_third_ranks(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	RANK_ARRAY(r, uint64_t, source, 1);
	uint64_t i;

	for (i = 1; i <= ROUNDS; i++) {
		if (r->rank == 0) {
			source[0] = i;
			CHECK_POSTED(r, oriel_dev_put(w, r->group, 2, 0, source, 8, NULL));
			CHECK_OK(r, oriel_dev_flush(w, r->group, LONG_NS));
			CHECK_POSTED(r, oriel_dev_signal(w, r->group, 1, 0, ORIEL_SIGNAL_ADD, 1,
							 NULL));
		} else if (r->rank == 1) {
			CHECK_OK(r, oriel_dev_wait_signal_next(w, r->group, 0, 0, 1, LONG_NS));
			CHECK_POSTED(r, oriel_dev_signal(w, r->group, 2, 0, ORIEL_SIGNAL_ADD, 1,
							 NULL));
		} else if (r->rank == 2) {
			CHECK_OK(r, oriel_dev_wait_signal_next(w, r->group, 1, 0, 1, LONG_NS));
			CHECK_EQ(r, *(uint64_t *)(void *)r->base, i);
		}
		CHECK_OK(r, oriel_dev_barrier(w, r->group, 2, LONG_NS));
	}
}

#define STORES 8000u

/*
 * SB: each rank of a pair puts its flag to the other, flushes, and reads whether the other's
 * flag has arrived. At least one must see it. Each round has a word of its own, so no word is
 * reset. Each rank begins a round when the other's flag of the last one arrives, a moment
 * earlier or later each time, so that on two cores the stores meet.
 */
CASE void store_and_look(struct rank *r, unsigned partner, unsigned char *seen, uint64_t rounds)
{
	uint64_t *words = (uint64_t *)(void *)r->base;
	uint64_t i, k;

	for (i = 0; i < rounds; i++) {
		struct oriel_dev_aim aim = {&words[i ? i - 1 : 0], 1,       ORIEL_EQ,
					    ORIEL_DEV_PUT_VALUE,   partner, 0};

		if (i)
			CHECK_OK(r, ori_dev_wait_led(&r->dev, r->group, &aim, LONG_NS));
		for (k = 0; k < (r->rank & 1 ? i : i / 8) % 8; k++)
			oriel_dev_relax();
		CHECK_POSTED(r, ALONE(r, oriel_dev_put_value(&r->dev, partner, 8 * i, 1, NULL)));
		CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
		seen[i] = (unsigned char)SHARED(r, oriel_dev_load_relaxed(&words[i]));
	}
	CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, partner, 8 * STORES, seen, rounds, NULL));
}

CASE void flush_forbids_store_buffering(struct rank *r)
{
	const unsigned char *theirs = (unsigned char *)r->base + 8 * STORES;
	unsigned char *mine = (unsigned char *)rank_alloc(r, STORES);
	unsigned partner = r->rank ^ 1;
	uint64_t rounds = 0, i;

	group_flood(r->group, mine, STORES, 0);
	/* Through a NIC each round is a round trip; the others wait for all of them. */
	if (partner < r->size)
		rounds = rank_is_mapped(r, r->rank, partner) ? STORES : STORES / 20;
	if (rounds)
		store_and_look(r, partner, mine, rounds);
	rank_flush_barrier(r);
	for (i = 0; i < rounds; i++)
		CHECK(r, mine[i] || theirs[i]);
	rank_free(r, mine);
}

enum scheme {
	FULL,
	FLAT,
};

#define SLOT 6u
#define DATA 0u    /* offset at rank 0 where rank 2 puts */
#define ROUND_2 1u /* signal: rank 1 has arrived for the second time */
#define RELEASE 2u /* signal: rank 2 may go on */

CASE enum oriel_status arrive(struct rank *r, enum scheme scheme)
{
	return scheme == FULL ? oriel_dev_barrier_arrive(&r->dev, r->group, SLOT)
			      : oriel_dev_barrier_flat_arrive(&r->dev, r->group, SLOT);
}

CASE enum oriel_status await(struct rank *r, enum scheme scheme, uint64_t timeout_ns)
{
	return scheme == FULL ? oriel_dev_barrier_wait(&r->dev, r->group, SLOT, timeout_ns)
			      : oriel_dev_barrier_flat_wait(&r->dev, r->group, SLOT, timeout_ns);
}

/* Do what oriel_dev_barrier_flat_arrive() does for one peer. */
CASE void deliver_flat(struct rank *r, unsigned peer)
{
	const struct oriel_dev_window *w = &r->dev;

	if (rank_is_mapped(r, r->rank, peer)) {
		if (oriel_dev_is_leader(r->group))
			oriel_dev_add_release(ori_dev_mapped_flat(w, w->peers[peer].control, SLOT),
					      1);
	} else {
		CHECK_POSTED(r, ori_dev_link_signal(w->peers[peer].link, r->group,
						    ori_dev_rdma_flat(w, peer, SLOT), 1));
	}
}

CASE void deliver(struct rank *r, enum scheme scheme, unsigned peer, uint64_t epoch)
{
	const struct oriel_dev_window *w = &r->dev;
	uint64_t before = epoch - 1;

	if (scheme == FULL)
		CHECK_OK(r, ALONE(r, ori_dev_arrive_at(w, peer, w->arrivals_at, SLOT, &before)));
	else
		deliver_flat(r, peer);
}

/*
 * Rank 2 arrives at every rank but rank 0: its put and its arrival there are still in flight,
 * until rank 0 signals.
 */
CASE void delay_puts_to_rank_0(struct rank *r, enum scheme scheme)
{
	const struct oriel_dev_window *w = &r->dev;
	RANK_ARRAY(r, uint64_t, one, 1);
	unsigned peer;

	one[0] = 1;
	if (oriel_dev_is_leader(r->group)) {
		w->slots[SLOT].epoch += scheme == FULL;
		w->slots[SLOT].flat += scheme == FLAT;
	}
	for (peer = 1; peer < r->size; peer++)
		if (peer != r->rank)
			deliver(r, scheme, peer, 1);
	CHECK_OK(r, oriel_dev_wait_signal_from(w, r->group, 0, RELEASE, ORIEL_EQ, 1, LONG_NS));
	CHECK_POSTED(r, oriel_dev_put(w, r->group, 0, DATA, one, 8, NULL));
	deliver(r, scheme, 0, 1);
	CHECK_OK(r, await(r, scheme, LONG_NS));
	CHECK_OK(r, oriel_dev_drain(w, r->group, LONG_NS));
	CHECK_OK(r, arrive(r, scheme));
}

/* Rank 1 passes round 1 and arrives for round 2, which overtakes rank 2's first arrival. */
CASE void run_ahead(struct rank *r, enum scheme scheme)
{
	CHECK_OK(r, arrive(r, scheme));
	CHECK_OK(r, await(r, scheme, LONG_NS));
	CHECK_OK(r, arrive(r, scheme));
	if (r->rank == 1)
		CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, 0, ROUND_2, ORIEL_SIGNAL_ADD, 1,
						 NULL));
}

CASE void run_delayed_third(struct rank *r, enum scheme scheme)
{
	const struct oriel_dev_window *w = &r->dev;
	const uint64_t *data = (const uint64_t *)(void *)r->base + DATA;

	if (r->rank == 2) {
		delay_puts_to_rank_0(r, scheme);
	} else if (r->rank != 0) {
		run_ahead(r, scheme);
	} else {
		CHECK_OK(r, arrive(r, scheme));
		CHECK_OK(r,
			 oriel_dev_wait_signal_from(w, r->group, 1, ROUND_2, ORIEL_EQ, 1, LONG_NS));
		/* This is the hole: flat passes here although rank 2 has not arrived. */
		CHECK_STATUS(r, await(r, scheme, scheme == FULL ? MOMENT_NS : LONG_NS),
			     scheme == FULL ? ORIEL_ERR_TIMEOUT : ORIEL_OK);
		CHECK_EQ(r, oriel_dev_load_relaxed(data), 0);
		CHECK_POSTED(r,
			     oriel_dev_signal(w, r->group, 2, RELEASE, ORIEL_SIGNAL_ADD, 1, NULL));
		if (scheme == FULL) {
			CHECK_OK(r, await(r, scheme, LONG_NS));
			CHECK_EQ(r, *data, 1);
		}
		CHECK_OK(r, arrive(r, scheme));
	}
	CHECK_OK(r, await(r, scheme, LONG_NS));
	rank_flush_barrier(r);
	CHECK_EQ(r, *data, r->rank == 0);
}

/* The default barrier does not pass on the schedule on which the flat one does. */
CASE void barrier_waits_for_a_delayed_third(struct rank *r)
{
	run_delayed_third(r, FULL);
}

CASE void flat_lets_a_fast_rank_stand_in(struct rank *r)
{
	run_delayed_third(r, FLAT);
}

static const struct oriel_window_attr store_window = {.size = sizeof(store_window),
						      .length = 9 * STORES};

#define ORDER_CASES(ROW)                                         \
	ROW(signal_publishes_the_put, NULL, 1, 0)                \
	ROW(signal_publishes_all_earlier_puts, NULL, 1, 0)       \
	ROW(barrier_publishes_the_puts_of_all, NULL, 1, 0)       \
	ROW(flush_makes_puts_visible_to_third_ranks, NULL, 3, 0) \
	ROW(flush_forbids_store_buffering, &store_window, 2, 0)  \
	ROW(barrier_waits_for_a_delayed_third, NULL, 3, 0)       \
	ROW(flat_lets_a_fast_rank_stand_in, NULL, 3, 0)

DEVICE_SUITE(order, ORDER_CASES, NO_FORKS, NULL);
