/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group operations called by a team: the parts add up to one operation, with one signal and one
 * status for all threads.
 */
#include "harness.h"

CASE_DATA const uint32_t team_sizes[] = {1, 2, 3, 8, 64};

#define TEAM_SIZES (sizeof(team_sizes) / sizeof(team_sizes[0]))
#define BLOCK 9001u /* no multiple of anything, and less than 64 bytes for some of 64 threads */

/* Memory that the threads of one team share. */
struct shared {
	uint64_t round;  /* counts the teams, so that no value is taken for an earlier one */
	char *block;     /* BLOCK bytes to put from */
	char *got;       /* BLOCK bytes to get to */
	uint64_t before; /* written by one thread before a sync, read by all after */
};

/* Run @run with a team of each size, one after the other, all ranks in step. */
CASE_PASSED void with_teams(struct rank *r,
			    void (*run)(struct rank *r, struct oriel_dev_group g, void *context))
{
	RANK_ARRAY(r, struct shared, shared, 1);
	size_t i;

	shared->block = (char *)rank_alloc(r, BLOCK);
	shared->got = (char *)rank_alloc(r, BLOCK);
	for (i = 0; i < TEAM_SIZES; i++) {
		group_fill(r->group, shared->block, BLOCK, 50 * r->rank + i + 1);
		group_flood(r->group, shared->got, BLOCK, 0);
		shared->round = i + 1;
		rank_flush_barrier(r);
		rank_team(r, team_sizes[i], run, shared);
		rank_flush_barrier(r);
	}
	rank_free(r, shared->block);
	rank_free(r, shared->got);
}

/* The whole block has arrived when the first thread of the receiving team passes the wait. */
CASE void team_put_signal(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct shared *s = (const struct shared *)context;

	CHECK_POSTED(r, oriel_dev_put_signal(&r->dev, g, rank_next(r), 5, s->block, BLOCK, 1, 1,
					     NULL));
	CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, g, rank_prev(r), 1, 1, LONG_NS));
	CHECK_EQ(r, wrong(r->base + 5, BLOCK, 50 * rank_prev(r) + s->round), 0);
	/* No rank may put the next round while a thread still reads. */
	CHECK_OK(r, oriel_dev_barrier(&r->dev, g, 0, LONG_NS));
	CHECK_OK(r, oriel_dev_drain(&r->dev, g, LONG_NS));
}

/* W3: the signal must not overtake the parts of the other threads; and it arrives once. */
CASE void put_signal_arrives_once_and_last(struct rank *r)
{
	uint64_t value = 0;

	with_teams(r, team_put_signal);
	CHECK_OK(r, oriel_dev_read_signal_from(&r->dev, rank_prev(r), 1, &value));
	CHECK_EQ(r, value, TEAM_SIZES);
}

CASE void team_put_get(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct shared *s = (const struct shared *)context;
	struct oriel_dev_ticket ticket = {0, 0, 0};

	CHECK_OK(r, oriel_dev_put(&r->dev, g, rank_next(r), 3, s->block, BLOCK, &ticket));
	CHECK_OK(r, oriel_dev_wait_local(&r->dev, g, ticket, LONG_NS));
	CHECK_OK(r, oriel_dev_flush(&r->dev, g, LONG_NS));
	CHECK_POSTED(r, oriel_dev_get(&r->dev, g, rank_next(r), 3, s->got, BLOCK, NULL));
	CHECK_OK(r, oriel_dev_drain(&r->dev, g, LONG_NS));
	CHECK_EQ(r, wrong(s->got, BLOCK, 50 * r->rank + s->round), 0);
}

CASE void put_and_get_are_split_and_whole(struct rank *r)
{
	with_teams(r, team_put_get);
}

/* The barrier of a team announces the puts of each thread. */
CASE void team_barrier(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct shared *s = (const struct shared *)context;
	uint64_t i, *words = (uint64_t *)(void *)r->base;
	unsigned peer, mine = g.rank % 64;

	for (i = 1; i <= 3; i++) {
		uint64_t value = s->round * 100 + i;

		for (peer = 0; peer < r->size; peer++)
			CHECK_POSTED(r, oriel_dev_put_value(&r->dev, peer,
							    8 * (size_t)(r->rank * 64 + mine),
							    value, NULL));
		CHECK_OK(r, i % 2 ? oriel_dev_barrier(&r->dev, g, 2, LONG_NS)
				  : oriel_dev_barrier_arrive(&r->dev, g, 3));
		if (i % 2 == 0)
			CHECK_OK(r, oriel_dev_barrier_wait(&r->dev, g, 3, LONG_NS));
		for (peer = 0; peer < r->size; peer++)
			CHECK(r, oriel_dev_load_relaxed(
					 &words[peer * 64 + (g.rank + 1) % g.size % 64]) >= value);
	}
	CHECK_OK(r, oriel_dev_barrier_flat(&r->dev, g, 4, LONG_NS));
}

/* W4: the threshold once grew with the number of threads. */
CASE void barrier_counts_a_team_once(struct rank *r)
{
	with_teams(r, team_barrier);
}

CASE void team_barrier_peer(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct shared *s = (const struct shared *)context;
	unsigned partner = r->rank ^ 1;

	if (partner >= r->size)
		return;
	CHECK_POSTED(r, oriel_dev_put(&r->dev, g, partner, 0, s->block, BLOCK, NULL));
	CHECK_OK(r, oriel_dev_barrier_peer(&r->dev, g, partner, 1, LONG_NS));
	CHECK_EQ(r, wrong(r->base, BLOCK, 50 * partner + s->round), 0);
	CHECK_OK(r, oriel_dev_drain(&r->dev, g, LONG_NS));
}

CASE void pairs_of_teams_meet(struct rank *r)
{
	with_teams(r, team_barrier_peer);
}

#define LATE_SLOT 5u
#define LATE_SIGNAL 13u
#define LATE_TRIES 30000u

CASE enum oriel_status team_meet(struct rank *r, struct oriel_dev_group g, int form,
				 uint64_t timeout_ns)
{
	if (form == 0)
		return oriel_dev_barrier(&r->dev, g, LATE_SLOT, timeout_ns);
	if (form == 1)
		return oriel_dev_barrier_flat(&r->dev, g, LATE_SLOT, timeout_ns);
	/* Rank 0 meets each of the others. */
	return oriel_dev_barrier_peer(&r->dev, g, r->rank ? 0 : r->size - 1, LATE_SLOT, timeout_ns);
}

/* Rank 0 is late: the timeouts of the others pass, for all threads of a team at once. */
CASE void team_is_late(struct rank *r, struct oriel_dev_group g, int form, uint64_t value)
{
	unsigned peer, tries = 0;
	enum oriel_status status;

	if (r->rank == 0) {
		CHECK_OK(r, oriel_dev_wait_signal_next_all(&r->dev, g, LATE_SIGNAL, 1, LONG_NS));
		for (peer = 1; peer < r->size && oriel_dev_is_leader(g); peer++)
			CHECK_POSTED(r, oriel_dev_put_value(&r->dev, peer, 8 * form, value, NULL));
		CHECK_OK(r, team_meet(r, g, form, LONG_NS));
		return;
	}
	CHECK_STATUS(r, team_meet(r, g, form, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CHECK_STATUS(r, team_meet(r, g, form, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CHECK_POSTED(r, oriel_dev_signal(&r->dev, g, 0, LATE_SIGNAL, ORIEL_SIGNAL_ADD, 1, NULL));
	do
		status = team_meet(r, g, form, MOMENT_NS);
	while (status == ORIEL_ERR_TIMEOUT && ++tries < LATE_TRIES);
	CHECK_OK(r, status);
	CHECK_EQ(r, oriel_dev_load_relaxed((uint64_t *)(void *)r->base + form), value);
}

/* The pairwise form runs only where there is one other rank. */
CASE void team_continues(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct shared *s = (const struct shared *)context;
	int form, forms = r->size == 2 ? 3 : 2;

	for (form = 0; form < forms; form++) {
		team_is_late(r, g, form, s->round);
		CHECK_OK(r, oriel_dev_barrier(&r->dev, g, 0, LONG_NS));
	}
}

CASE void timeouts_apply_to_the_whole_team(struct rank *r)
{
	with_teams(r, team_continues);
}

CASE void team_signals(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct oriel_dev_window *w = &r->dev;
	const struct shared *s = (const struct shared *)context;
	uint64_t others = r->size - 1;

	CHECK_POSTED(r, oriel_dev_signal_all(w, g, 10, ORIEL_SIGNAL_ADD, 1));
	CHECK_OK(r, oriel_dev_wait_signal(w, g, 10, ORIEL_GE, s->round * others, LONG_NS));
	CHECK_POSTED(r, oriel_dev_signal(w, g, rank_next(r), 11, ORIEL_SIGNAL_ADD, 1, NULL));
	CHECK_OK(r,
		 oriel_dev_wait_signal_from(w, g, rank_prev(r), 11, ORIEL_GE, s->round, LONG_NS));
	CHECK_POSTED(r, oriel_dev_signal_counter(w, g, rank_next(r), 12, 1, 0, NULL));
	CHECK_POSTED(r, oriel_dev_put_counter(w, g, rank_next(r), 0, s->block, BLOCK, 0, NULL));
	CHECK_POSTED(r, oriel_dev_put_signal_counter(w, g, rank_next(r), 0, s->block, BLOCK, 12, 1,
						     0, NULL));
	CHECK_OK(r, oriel_dev_wait_counter(w, g, rank_next(r), 0, ORIEL_EQ, 3 * s->round, LONG_NS));
}

CASE void signals_and_counters_count_a_team_once(struct rank *r)
{
	uint64_t value = 0;

	with_teams(r, team_signals);
	CHECK_OK(r, oriel_dev_read_signal(&r->dev, 10, &value));
	CHECK_EQ(r, value, TEAM_SIZES * (r->size - 1));
	CHECK_OK(r, oriel_dev_read_signal_from(&r->dev, rank_prev(r), 11, &value));
	CHECK_EQ(r, value, TEAM_SIZES);
	CHECK_OK(r, oriel_dev_read_signal_from(&r->dev, rank_prev(r), 12, &value));
	CHECK_EQ(r, value, 2 * TEAM_SIZES);
}

/* Even ranks send first, since the block is larger than the staging. */
CASE void team_stream(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct shared *s = (const struct shared *)context;
	unsigned partner = r->rank ^ 1;
	int turn;

	if (partner >= r->size)
		return;
	for (turn = 0; turn < 2; turn++) {
		if (turn == (int)(r->rank & 1)) {
			CHECK_OK(r,
				 oriel_dev_send(&r->dev, g, partner, 1, s->block, BLOCK, LONG_NS));
			continue;
		}
		CHECK_OK(r, oriel_dev_recv(&r->dev, g, partner, 1, s->got, BLOCK, LONG_NS));
		CHECK_EQ(r, wrong(s->got, BLOCK, 50 * partner + s->round), 0);
	}
}

CASE void teams_send_and_receive(struct rank *r)
{
	with_teams(r, team_stream);
}

/* All threads get the status of one, and no thread stays in a sync. */
CASE void team_failures(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct oriel_dev_window *w = &r->dev;
	const struct shared *s = (const struct shared *)context;

	CHECK_STATUS(r, oriel_dev_wait_signal_from(w, g, rank_prev(r), 20, ORIEL_NE, 0, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	CHECK_STATUS(r, oriel_dev_wait_signal(w, g, 20, ORIEL_NE, 0, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CHECK_STATUS(r, oriel_dev_wait_signal_next(w, g, rank_prev(r), 20, 1, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	CHECK_STATUS(r, oriel_dev_wait_counter(w, g, rank_prev(r), 5, ORIEL_NE, 0, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	CHECK_STATUS(r, oriel_dev_put(w, g, r->size, 0, s->block, BLOCK, NULL), ORIEL_ERR_RANGE);
	CHECK_STATUS(r,
		     oriel_dev_put(w, g, rank_next(r), r->length - BLOCK + 1, s->block, BLOCK,
				   NULL),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_barrier(w, g, w->barriers, LONG_NS), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_send(w, g, r->rank, 0, s->block, BLOCK, LONG_NS),
		     ORIEL_ERR_INVALID);
	if (r->size > 1)
		CHECK_STATUS(r, oriel_dev_recv(w, g, rank_prev(r), 2, s->got, BLOCK, MOMENT_NS),
			     ORIEL_ERR_TIMEOUT);
}

CASE void all_threads_get_one_status(struct rank *r)
{
	struct oriel_dev_fault fault;

	with_teams(r, team_failures);
	CHECK_OK(r, rank_fault(r, &fault));
}

CASE void team_primitives(struct rank *r, struct oriel_dev_group g, void *context)
{
	struct shared *s = (struct shared *)context;
	uint64_t i, begin, length;

	for (i = 1; i <= 20; i++) {
		if (g.rank == i % g.size)
			s->before = i;
		oriel_dev_sync(g);
		CHECK_EQ(r, s->before, i);
		CHECK_EQ(r, oriel_dev_share(g, g.rank == 0 ? 1000 + i : g.rank), 1000 + i);
		CHECK_OK(r, oriel_dev_vote(g, ORIEL_OK));
		CHECK_STATUS(r, oriel_dev_vote(g, g.rank == i % g.size ? ORIEL_ERR_PEER : ORIEL_OK),
			     ORIEL_ERR_PEER);
		CHECK_OK(r, oriel_dev_vote(g, ORIEL_OK));
	}
	length = oriel_dev_part(g, BLOCK, &begin);
	CHECK(r, begin + length <= BLOCK);
	for (i = 0; i < length; i++)
		s->got[begin + i] = 1;
	oriel_dev_sync(g);
	CHECK_EQ(r, not_all(s->got, BLOCK, 1), 0);
}

/* Check that there is no team of @size. */
static void team_host(struct rank *r, unsigned size, uint64_t word)
{
	(void)word;
	check_no_team(r, size);
}

CASE void sync_share_vote_and_part_hold(struct rank *r)
{
	with_teams(r, team_primitives);
	host_do(r, team_host, 0, 0);
	host_do(r, team_host, ORIEL_TEAM_MAX + 1, 0);
}

#define TEAM_CASES(ROW)                                         \
	ROW(sync_share_vote_and_part_hold, NULL, 1, 0)          \
	ROW(put_signal_arrives_once_and_last, NULL, 1, 0)       \
	ROW(put_and_get_are_split_and_whole, NULL, 1, 0)        \
	ROW(barrier_counts_a_team_once, NULL, 1, 0)             \
	ROW(pairs_of_teams_meet, NULL, 1, 0)                    \
	ROW(timeouts_apply_to_the_whole_team, NULL, 2, 0)       \
	ROW(signals_and_counters_count_a_team_once, NULL, 1, 0) \
	ROW(teams_send_and_receive, NULL, 2, 0)                 \
	ROW(all_threads_get_one_status, NULL, 1, 0)

DEVICE_SUITE(team, TEAM_CASES, NO_FORKS, team_host);
