/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers: no rank passes early, no rank hangs, slots are independent. */
#include "harness.h"

#define ROUNDS 2000u

/* Notify all peers, by a put and nothing else, that this rank is in @round. */
CASE void put_round(struct rank *r, const struct oriel_dev_window *w, uint64_t round)
{
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		CHECK_POSTED(r, ALONE(r, oriel_dev_put_value(w, peer, 128 * (size_t)r->rank, round,
							     NULL)));
}

/* Check that every rank has put @round, and that none has passed the next barrier. */
CASE void check_rounds(struct rank *r, uint64_t round)
{
	unsigned peer;

	for (peer = 0; peer < r->size; peer++) {
		uint64_t seen =
			oriel_dev_load_relaxed((uint64_t *)(void *)(r->base + 128 * (size_t)peer));

		CHECK(r, seen == round || seen == round + 1);
	}
}

/* The slot in use changes, so that epochs of many slots grow at different rates. */
CASE void no_rank_passes_before_all_arrive(struct rank *r)
{
	uint64_t round;

	for (round = 1; round <= ROUNDS; round++) {
		put_round(r, &r->dev, round);
		CHECK_OK(r,
			 oriel_dev_barrier(&r->dev, r->group,
					   (uint32_t)(round * round % r->dev.barriers), LONG_NS));
		check_rounds(r, round);
	}
}

/* W4: from the second launch on, a barrier must not fall through. */
CASE void epochs_survive_the_launch(struct rank *r)
{
	struct oriel_dev_window w;
	uint64_t round;

	for (round = 1; round <= 50; round++) {
		CHECK_OK(r, rank_device(r, &w));
		put_round(r, &w, round);
		CHECK_OK(r, oriel_dev_barrier(&w, r->group, 3, LONG_NS));
		check_rounds(r, round);
	}
}

/* BarrierMonotonicCounters, BarrierSlotStress. */
CASE void one_slot_serves_every_round(struct rank *r)
{
	uint64_t round;

	for (round = 1; round <= 2 * ROUNDS; round++)
		CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 0, LONG_NS));
	put_round(r, &r->dev, round);
	CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 0, LONG_NS));
	check_rounds(r, round);
}

CASE void arrive_does_not_wait(struct rank *r)
{
	uint32_t slot;

	for (slot = 0; slot < r->dev.barriers; slot++) {
		put_round(r, &r->dev, slot + 1);
		CHECK_OK(r, oriel_dev_barrier_arrive(&r->dev, r->group, slot));
	}
	/* Each arrival announces all puts before it; the last one announces the last put. */
	for (slot = r->dev.barriers; slot-- > 0;)
		CHECK_OK(r, oriel_dev_barrier_wait(&r->dev, r->group, slot, LONG_NS));
	check_rounds(r, r->dev.barriers);
}

/*
 * Rank 0 arrives only after all others have reported that they could not pass. The barrier that
 * timed out for them still completes when rank 0 arrives.
 */
CASE void all_ranks_wait_for_a_late_rank(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;

	if (r->rank == 0) {
		CHECK_OK(r, oriel_dev_wait_signal(w, r->group, 0, ORIEL_EQ, r->size - 1, LONG_NS));
		put_round(r, w, 1);
		CHECK_OK(r, oriel_dev_barrier(w, r->group, 1, LONG_NS));
		return;
	}
	CHECK_OK(r, oriel_dev_barrier_arrive(w, r->group, 1));
	CHECK_STATUS(r, oriel_dev_barrier_wait(w, r->group, 1, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CHECK_EQ(r, oriel_dev_load_relaxed((uint64_t *)(void *)r->base), 0);
	CHECK_POSTED(r, oriel_dev_signal(w, r->group, 0, 0, ORIEL_SIGNAL_ADD, 1, NULL));
	CHECK_OK(r, oriel_dev_barrier_wait(w, r->group, 1, LONG_NS));
	CHECK_EQ(r, oriel_dev_load_relaxed((uint64_t *)(void *)r->base), 1);
}

CASE unsigned partner_of(const struct rank *r)
{
	unsigned partner = r->rank ^ 1;

	return partner < r->size ? partner : r->rank;
}

/* W4: pairwise and full barriers over-counted when they met on one slot. */
CASE void pairwise_and_full_barriers_share_a_slot(struct rank *r)
{
	unsigned partner = partner_of(r);
	uint64_t round, seen;

	for (round = 1; round <= 200; round++) {
		if (partner != r->rank) {
			CHECK_POSTED(r, ALONE(r, oriel_dev_put_value(&r->dev, partner, 4096, round,
								     NULL)));
			CHECK_OK(r, oriel_dev_barrier_peer(&r->dev, r->group, partner, 2, LONG_NS));
			seen = oriel_dev_load_relaxed((uint64_t *)(void *)(r->base + 4096));
			CHECK(r, seen == round || seen == round + 1);
		}
		if (round % 3)
			continue;
		put_round(r, &r->dev, round);
		CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 2, LONG_NS));
		check_rounds(r, round);
		CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 3, LONG_NS));
	}
}

/* Rank 0 meets rank 1 while rank 2 arrives at rank 0 too early. */
CASE void meet_with_one_too_early(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	const uint64_t *early = ori_dev_mapped_arrival(w, w->control, w->pairs_at, 2, 5);
	struct oriel_dev_aim aim = {early, 1, ORIEL_EQ, ORIEL_DEV_BARRIER_PEER, 2, 5};

	if (r->rank == 2) {
		CHECK_OK(r, oriel_dev_barrier_peer(w, r->group, 0, 5, LONG_NS));
	} else if (r->rank == 1) {
		CHECK_OK(r, oriel_dev_wait_signal_from(w, r->group, 0, 0, ORIEL_EQ, 1, LONG_NS));
		CHECK_OK(r, oriel_dev_barrier_peer(w, r->group, 0, 5, LONG_NS));
		CHECK_OK(r, oriel_dev_barrier_peer(w, r->group, 0, 5, LONG_NS));
	} else if (r->rank == 0) {
		CHECK_OK(r, ori_dev_wait_led(w, r->group, &aim, LONG_NS));
		CHECK_STATUS(r, oriel_dev_barrier_peer(w, r->group, 1, 5, MOMENT_NS),
			     ORIEL_ERR_TIMEOUT);
		CHECK_POSTED(r, oriel_dev_signal(w, r->group, 1, 0, ORIEL_SIGNAL_ADD, 1, NULL));
		/* The first of the two calls continues the one that timed out. */
		CHECK_OK(r, oriel_dev_barrier_peer(w, r->group, 1, 5, LONG_NS));
		CHECK_OK(r, oriel_dev_barrier_peer(w, r->group, 1, 5, LONG_NS));
		CHECK_OK(r, oriel_dev_barrier_peer(w, r->group, 2, 5, LONG_NS));
	}
}

/* W4: the arrival of B once completed a meeting with A. */
CASE void pairwise_barriers_ignore_a_third_rank(struct rank *r)
{
	meet_with_one_too_early(r);
	rank_flush_barrier(r);
}

#define SPLIT_SLOT 7u

/*
 * Each rank arrives at all others on one slot, each arrival behind one put, and waits for them in
 * the opposite order. An arrival of another pair completes no wait.
 */
CASE void pairwise_barriers_split(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	uint64_t round, seen;
	unsigned i, peer;

	for (round = 1; round <= 200; round++) {
		for (i = 1; i < r->size; i++) {
			peer = (r->rank + i) % r->size;
			CHECK_POSTED(r, ALONE(r, oriel_dev_put_value(w, peer, 128 * (size_t)r->rank,
								     round, NULL)));
			CHECK_OK(r, oriel_dev_barrier_peer_arrive(w, r->group, peer, SPLIT_SLOT));
		}
		if (round % 7 == 0)
			CHECK_OK(r, oriel_dev_barrier(w, r->group, SPLIT_SLOT, LONG_NS));
		for (i = r->size - 1; i > 0; i--) {
			peer = (r->rank + i) % r->size;
			CHECK_OK(r, oriel_dev_barrier_peer_wait(w, r->group, peer, SPLIT_SLOT,
								LONG_NS));
			seen = oriel_dev_load_relaxed(
				(uint64_t *)(void *)(r->base + 128 * (size_t)peer));
			CHECK(r, seen == round || seen == round + 1);
		}
	}
	rank_flush_barrier(r);
}

CASE void barrier_of_one_slot(struct rank *r, unsigned index, void *context)
{
	struct oriel_dev_group g = r->group;
	uint64_t *rounds = (uint64_t *)(void *)r->base;
	uint64_t round, seen;
	unsigned peer;

	(void)context;
	for (round = 1; round <= 60; round++) {
		for (peer = 0; peer < r->size; peer++)
			CHECK_POSTED(r,
				     ALONE(r, oriel_dev_put_value(&r->dev, peer,
								  8 * (size_t)(r->rank * 8 + index),
								  round, NULL)));
		CHECK_OK(r, oriel_dev_barrier(&r->dev, g, index, LONG_NS));
		for (peer = 0; peer < r->size; peer++) {
			seen = oriel_dev_load_relaxed(&rounds[peer * 8 + index]);
			CHECK(r, seen == round || seen == round + 1);
		}
	}
}

/* W2, BarrierMultiBlockStress: 8 groups with a slot each used to hang all but the first. */
CASE void groups_have_barriers_of_their_own(struct rank *r)
{
	rank_fork(r, 8, barrier_of_one_slot, NULL);
}

/*
 * The promise of the flat barrier: each rank sees as many arrivals as all others make in its
 * rounds, and each of them came after its sender had put its round.
 */
CASE void flat_bounds_the_lead_of_a_rank(struct rank *r)
{
	uint64_t round, others;
	unsigned peer;

	for (round = 1; round <= ROUNDS; round++) {
		put_round(r, &r->dev, round);
		CHECK_OK(r,
			 oriel_dev_barrier_flat(&r->dev, r->group, (uint32_t)(round % 2), LONG_NS));
		others = 0;
		for (peer = 0; peer < r->size; peer++)
			if (peer != r->rank)
				others += oriel_dev_load_relaxed(
					(uint64_t *)(void *)(r->base + 128 * (size_t)peer));
		CHECK(r, others >= round * (r->size - 1));
	}
	CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 0, LONG_NS));
	check_rounds(r, ROUNDS);
}

CASE void flat_splits_into_arrive_and_wait(struct rank *r)
{
	int round;

	for (round = 0; round < 20; round++) {
		CHECK_OK(r, oriel_dev_barrier_flat_arrive(&r->dev, r->group, 4));
		CHECK_OK(r, oriel_dev_barrier_arrive(&r->dev, r->group, 4));
		CHECK_OK(r, oriel_dev_barrier_flat_wait(&r->dev, r->group, 4, LONG_NS));
		CHECK_OK(r, oriel_dev_barrier_wait(&r->dev, r->group, 4, LONG_NS));
	}
}

#define FLAT_SLOT 5u
#define FLAT_ROUNDS 10u

/* A NIC's atomics are not atomic with those of another NIC or of a CPU. */
CASE void flat_words_have_one_adder_each(struct rank *r)
{
	const uint64_t *words = ori_dev_mapped_flat(&r->dev, r->dev.control, FLAT_SLOT);
	uint64_t expected[ORIEL_DEV_LINE / 8] = {0};
	unsigned i, peer;

	for (i = 0; i < FLAT_ROUNDS; i++)
		CHECK_OK(r, oriel_dev_barrier_flat(&r->dev, r->group, FLAT_SLOT, LONG_NS));
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		if (peer == r->rank)
			continue;
		i = rank_is_mapped(r, peer, r->rank) ? 0
						     : ORIEL_MAPPED_FLAT_NIC + rank_rail(r, peer);
		expected[i] += FLAT_ROUNDS;
	}
	for (i = 0; i < ORIEL_DEV_LINE / 8; i++)
		CHECK_EQ(r, words[i], expected[i]);
}

enum form { FULL, FLAT, PAIR };

#define FORM_SLOT 6u
#define FORM_ROUNDS 10u /* after each timeout */
#define FORM_TRIES 30000u

CASE enum oriel_status form_meet(struct rank *r, enum form form, uint64_t timeout_ns)
{
	const struct oriel_dev_window *w = &r->dev;

	if (form == FULL)
		return oriel_dev_barrier(w, r->group, FORM_SLOT, timeout_ns);
	if (form == FLAT)
		return oriel_dev_barrier_flat(w, r->group, FORM_SLOT, timeout_ns);
	return oriel_dev_barrier_peer(w, r->group, partner_of(r), FORM_SLOT, timeout_ns);
}

CASE enum oriel_status form_arrive(struct rank *r, enum form form)
{
	const struct oriel_dev_window *w = &r->dev;

	if (form == FULL)
		return oriel_dev_barrier_arrive(w, r->group, FORM_SLOT);
	if (form == FLAT)
		return oriel_dev_barrier_flat_arrive(w, r->group, FORM_SLOT);
	return oriel_dev_barrier_peer_arrive(w, r->group, partner_of(r), FORM_SLOT);
}

CASE enum oriel_status form_wait(struct rank *r, enum form form, uint64_t timeout_ns)
{
	const struct oriel_dev_window *w = &r->dev;

	if (form == FULL)
		return oriel_dev_barrier_wait(w, r->group, FORM_SLOT, timeout_ns);
	if (form == FLAT)
		return oriel_dev_barrier_flat_wait(w, r->group, FORM_SLOT, timeout_ns);
	return oriel_dev_barrier_peer_wait(w, r->group, partner_of(r), FORM_SLOT, timeout_ns);
}

/* Check the promise of @form for the puts of @round. */
CASE void form_check(struct rank *r, enum form form, uint64_t round)
{
	const uint64_t *rounds = (const uint64_t *)(const void *)r->base;
	uint64_t sum = 0, seen;
	unsigned peer;

	if (form == FULL) {
		check_rounds(r, round);
	} else if (form == FLAT) {
		for (peer = 0; peer < r->size; peer++)
			if (peer != r->rank)
				sum += oriel_dev_load_relaxed(&rounds[16 * (size_t)peer]);
		CHECK(r, sum >= round * (r->size - 1));
	} else {
		seen = oriel_dev_load_relaxed(&rounds[16 * (size_t)partner_of(r)]);
		CHECK(r, seen == round || seen == round + 1);
	}
}

/* Calls of a rank: the first one, and the one that continues after the timeout. */
enum mode {
	FIRST_HALVES = 1, /* arrive and wait; else the whole form */
	THEN_WAIT = 2,    /* wait only; else the whole form */
	MODES = 4,
};

/* A second arrival is rejected where it is plain that the first one is pending. */
CASE void form_arrive_too_early(struct rank *r, enum form form)
{
#ifndef __CUDACC__
	struct oriel_dev_fault fault;

	CHECK_STATUS(r, form_arrive(r, form), ORIEL_ERR_STATE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.id, FORM_SLOT);
	CHECK_LAST(r, "slot 6: the last arrival is still pending");
#else
	(void)r;
	(void)form;
#endif
}

/* The late rank arrives after the timeouts of all others have passed twice. */
CASE bool form_arrive_late(struct rank *r, enum form form, unsigned mode, uint64_t round,
			   uint64_t signals)
{
	CHECK_OK(r, oriel_dev_wait_signal(&r->dev, r->group, 0, ORIEL_GE, signals, LONG_NS));
	put_round(r, &r->dev, round);
	if (!(mode & FIRST_HALVES))
		return CHECK_OK(r, form_meet(r, form, LONG_NS));
	CHECK_OK(r, form_arrive(r, form));
	return CHECK_OK(r, form_wait(r, form, LONG_NS));
}

CASE enum oriel_status form_continue(struct rank *r, enum form form, unsigned mode)
{
	return mode & THEN_WAIT ? form_wait(r, form, MOMENT_NS) : form_meet(r, form, MOMENT_NS);
}

CASE bool form_time_out(struct rank *r, enum form form, unsigned mode, uint64_t round,
			unsigned late)
{
	enum oriel_status status;
	unsigned tries = 0;

	put_round(r, &r->dev, round);
	if (mode & FIRST_HALVES) {
		CHECK_OK(r, form_arrive(r, form));
		CHECK_STATUS(r, form_wait(r, form, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	} else {
		CHECK_STATUS(r, form_meet(r, form, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	}
	form_arrive_too_early(r, form);
	CHECK_STATUS(r, form_continue(r, form, mode), ORIEL_ERR_TIMEOUT);
	CHECK_POSTED(r, oriel_dev_signal(&r->dev, r->group, late, 0, ORIEL_SIGNAL_ADD, 1, NULL));
	do
		status = form_continue(r, form, mode);
	while (status == ORIEL_ERR_TIMEOUT && ++tries < FORM_TRIES);
	return CHECK_OK(r, status);
}

/* After a timeout the next call continues the barrier, and later barriers work. */
CASE void form_continues(struct rank *r, enum form form)
{
	unsigned late = form == PAIR ? r->rank & ~1u : 0, mode, i;
	uint64_t hurried = form == PAIR ? 1 : r->size - 1, round = 0;
	bool is_well = form != PAIR || partner_of(r) != r->rank;

	/* After a failure every later round would fail too, each after its whole timeout. */
	for (mode = 0; mode < MODES && is_well; mode++) {
		round++;
		is_well = r->rank == late
				  ? form_arrive_late(r, form, mode, round, (mode + 1) * hurried)
				  : form_time_out(r, form, mode, round, late);
		form_check(r, form, round);
		for (i = 0; i < FORM_ROUNDS && is_well; i++) {
			put_round(r, &r->dev, ++round);
			is_well = CHECK_OK(r, form_meet(r, form, LONG_NS));
			form_check(r, form, round);
		}
	}
}

CASE void a_call_continues_after_its_timeout(struct rank *r)
{
	form_continues(r, FULL);
}

CASE void a_call_continues_after_its_timeout_flat(struct rank *r)
{
	form_continues(r, FLAT);
}

CASE void a_call_continues_after_its_timeout_pair(struct rank *r)
{
	form_continues(r, PAIR);
	rank_flush_barrier(r);
}

#define BARRIER_CASES(ROW)                                       \
	ROW(no_rank_passes_before_all_arrive, NULL, 1, 0)        \
	ROW(epochs_survive_the_launch, NULL, 1, 0)               \
	ROW(one_slot_serves_every_round, NULL, 1, 0)             \
	ROW(arrive_does_not_wait, NULL, 1, 0)                    \
	ROW(all_ranks_wait_for_a_late_rank, NULL, 2, 0)          \
	ROW(pairwise_and_full_barriers_share_a_slot, NULL, 1, 0) \
	ROW(pairwise_barriers_ignore_a_third_rank, NULL, 3, 0)   \
	ROW(pairwise_barriers_split, NULL, 1, 0)                 \
	ROW(groups_have_barriers_of_their_own, NULL, 1, 0)       \
	ROW(flat_bounds_the_lead_of_a_rank, NULL, 1, 0)          \
	ROW(flat_splits_into_arrive_and_wait, NULL, 1, 0)        \
	ROW(flat_words_have_one_adder_each, NULL, 1, 0)          \
	ROW(a_call_continues_after_its_timeout, NULL, 2, 0)      \
	ROW(a_call_continues_after_its_timeout_flat, NULL, 2, 0) \
	ROW(a_call_continues_after_its_timeout_pair, NULL, 2, 0)

#define BARRIER_FORKS(ROW) ROW(barrier_of_one_slot)

DEVICE_SUITE(barrier, BARRIER_CASES, BARRIER_FORKS, NULL);
