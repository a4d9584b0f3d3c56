/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that survives the end of a launch: each case is one round, launched many times with one
 * handle, on a GPU as a graph that was captured once. Other cases share state between launches
 * in several streams.
 */
#include "harness.h"

#define SLOT 3u
#define ID 8u
#define SOURCE_BYTES 8192u

static const struct oriel_window_attr replay_window = {.size = sizeof(replay_window),
						       .length = 2 * 16 * SOURCE_BYTES,
						       .channels = 8,
						       .channel_bytes = 4096};

CASE uint64_t seed_of(unsigned source, uint64_t round)
{
	return source * 7 + round;
}

CASE size_t length_of(uint64_t round)
{
	return 1 + round % 300;
}

CASE void put_signal_in_rounds(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	char *block = (char *)rank_alloc(r, 300);

	group_fill(r->group, block, length_of(r->round), seed_of(r->rank, r->round));
	CHECK_POSTED(r, oriel_dev_put_signal(w, r->group, rank_next(r), r->round % 8, block,
					     length_of(r->round), ID, 1, NULL));
	CHECK_OK(r, oriel_dev_wait_signal_next(w, r->group, rank_prev(r), ID, 1, LONG_NS));
	CHECK_EQ(r,
		 wrong(r->base + r->round % 8, length_of(r->round),
		       seed_of(rank_prev(r), r->round)),
		 0);
	CHECK_OK(r, oriel_dev_barrier(w, r->group, SLOT, LONG_NS));
	CHECK_OK(r, oriel_dev_drain(w, r->group, LONG_NS));
	rank_free(r, block);
}

CASE void signals_in_rounds(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	uint64_t others = r->size - 1;

	CHECK_POSTED(r, oriel_dev_signal_all(w, r->group, 1, ORIEL_SIGNAL_ADD, 1));
	CHECK_OK(r, oriel_dev_wait_signal(w, r->group, 1, ORIEL_GE, r->round * others, LONG_NS));
	CHECK_POSTED(r, oriel_dev_signal(w, r->group, rank_next(r), 2, ORIEL_SIGNAL_SET, r->round,
					 NULL));
	CHECK_OK(r, oriel_dev_wait_signal_from(w, r->group, rank_prev(r), 2, ORIEL_GE, r->round,
					       LONG_NS));
	CHECK_POSTED(r, oriel_dev_signal_relaxed(w, r->group, rank_next(r), 3, ORIEL_SIGNAL_ADD, 2,
						 NULL));
	CHECK_OK(r, oriel_dev_wait_signal_relaxed(w, r->group, rank_prev(r), 3, ORIEL_GE,
						  2 * r->round, LONG_NS));
}

/* A base that stood still would let a rank pass on the signals of the round before. */
CASE void signals_of_all_in_rounds(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	uint64_t seen = 0;
	unsigned peer;

	CHECK_POSTED(r, oriel_dev_signal_all(w, r->group, ID, ORIEL_SIGNAL_ADD, 2));
	CHECK_OK(r, oriel_dev_wait_signal_next_all(w, r->group, ID, 2, LONG_NS));
	for (peer = 0; peer < r->size; peer++) {
		CHECK_OK(r, oriel_dev_read_signal_from(w, peer, ID, &seen));
		CHECK(r, peer == r->rank || seen >= 2 * r->round);
	}
}

/* Check that all have put @round, and that none has passed the next barrier. */
CASE void check_rounds(struct rank *r)
{
	unsigned peer;

	for (peer = 0; peer < r->size; peer++) {
		uint64_t seen =
			oriel_dev_load_relaxed((uint64_t *)(void *)(r->base + 128 * (size_t)peer));

		CHECK(r, seen == r->round || seen == r->round + 1);
	}
}

CASE void put_rounds(struct rank *r)
{
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		CHECK_POSTED(r, ALONE(r, oriel_dev_put_value(&r->dev, peer, 128 * (size_t)r->rank,
							     r->round, NULL)));
}

CASE void barriers_in_rounds(struct rank *r)
{
	put_rounds(r);
	CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, SLOT, LONG_NS));
	check_rounds(r);
}

CASE void split_barriers_in_rounds(struct rank *r)
{
	put_rounds(r);
	CHECK_OK(r, oriel_dev_barrier_arrive(&r->dev, r->group, SLOT));
	CHECK_OK(r, oriel_dev_barrier_wait(&r->dev, r->group, SLOT, LONG_NS));
	check_rounds(r);
}

/*
 * Each rank sees as many arrivals as all others make in its rounds, whichever ranks they are
 * from.
 */
CASE void flat_barriers_in_rounds(struct rank *r)
{
	uint64_t others = 0;
	unsigned peer;

	put_rounds(r);
	if (r->round % 2) {
		CHECK_OK(r, oriel_dev_barrier_flat(&r->dev, r->group, SLOT, LONG_NS));
	} else {
		CHECK_OK(r, oriel_dev_barrier_flat_arrive(&r->dev, r->group, SLOT));
		CHECK_OK(r, oriel_dev_barrier_flat_wait(&r->dev, r->group, SLOT, LONG_NS));
	}
	for (peer = 0; peer < r->size; peer++)
		if (peer != r->rank)
			others += oriel_dev_load_relaxed(
				(uint64_t *)(void *)(r->base + 128 * (size_t)peer));
	CHECK(r, others >= r->round * (r->size - 1));
}

CASE void pairs_in_rounds(struct rank *r)
{
	unsigned peer;

	put_rounds(r);
	for (peer = 0; peer < r->size; peer++)
		if (peer != r->rank)
			CHECK_OK(r, oriel_dev_barrier_peer(&r->dev, r->group, peer, SLOT, LONG_NS));
	check_rounds(r);
}

CASE void counters_in_rounds(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	RANK_ARRAY(r, char, block, 300);

	group_fill(r->group, block, 300, r->round);
	CHECK_POSTED(r, oriel_dev_put_counter(w, r->group, rank_next(r), 0, block, 300, 2, NULL));
	CHECK_POSTED(r, oriel_dev_signal_counter(w, r->group, rank_next(r), 9, 1, 2, NULL));
	CHECK_OK(r, oriel_dev_wait_counter(w, r->group, rank_next(r), 2, ORIEL_EQ, 2 * r->round,
					   LONG_NS));
	CHECK_OK(r, oriel_dev_wait_signal_from(w, r->group, rank_prev(r), 9, ORIEL_GE, r->round,
					       LONG_NS));
}

CASE void local_completions_in_rounds(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	RANK_ARRAY(r, char, block, 300);
	RANK_ARRAY(r, char, got, 300);
	struct oriel_dev_ticket ticket = {0, 0, 0};

	group_fill(r->group, block, length_of(r->round), seed_of(r->rank, r->round));
	CHECK_OK(r,
		 oriel_dev_put(w, r->group, rank_next(r), 1, block, length_of(r->round), &ticket));
	CHECK_OK(r, oriel_dev_wait_local(w, r->group, ticket, LONG_NS));
	CHECK_OK(r, oriel_dev_flush(w, r->group, LONG_NS));
	CHECK_POSTED(r,
		     oriel_dev_get(w, r->group, rank_next(r), 1, got, length_of(r->round), NULL));
	CHECK_OK(r, oriel_dev_drain(w, r->group, LONG_NS));
	CHECK_EQ(r, wrong(got, length_of(r->round), seed_of(r->rank, r->round)), 0);
}

CASE void fetch_adds_in_rounds(struct rank *r)
{
	uint64_t old = 0;

	CHECK_OK(r, ALONE(r, oriel_dev_fetch_add(&r->dev, rank_next(r), 4096, 3, &old)));
	CHECK_EQ(r, SHARED(r, old), 3 * (r->round - 1));
}

CASE void streams_in_rounds(struct rank *r)
{
	RANK_ARRAY(r, char, block, 300);
	RANK_ARRAY(r, char, got, 300);

	group_fill(r->group, block, length_of(r->round), seed_of(r->rank, r->round));
	CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 5, block, length_of(r->round),
				   LONG_NS));
	CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 5, got, length_of(r->round),
				   LONG_NS));
	CHECK_EQ(r, wrong(got, length_of(r->round), seed_of(rank_prev(r), r->round)), 0);
}

CASE void messages_in_rounds(struct rank *r)
{
	RANK_ARRAY(r, char, block, 300);
	RANK_ARRAY(r, char, got, 300);

	group_fill(r->group, block, length_of(r->round), seed_of(r->rank, r->round));
	CHECK_OK(r, oriel_dev_send_ll(&r->dev, r->group, rank_next(r), 6, block,
				      length_of(r->round), LONG_NS));
	CHECK_OK(r, oriel_dev_recv_ll(&r->dev, r->group, rank_prev(r), 6, got, length_of(r->round),
				      LONG_NS));
	CHECK_EQ(r, wrong(got, length_of(r->round), seed_of(rank_prev(r), r->round)), 0);
}

CASE void ll128_messages_in_rounds(struct rank *r)
{
	RANK_ARRAY(r, char, block, 300);
	RANK_ARRAY(r, char, got, 300);

	group_fill(r->group, block, length_of(r->round), seed_of(r->rank, r->round));
	CHECK_OK(r, oriel_dev_send_ll128(&r->dev, r->group, rank_next(r), 7, block,
					 length_of(r->round), LONG_NS));
	CHECK_OK(r, oriel_dev_recv_ll128(&r->dev, r->group, rank_prev(r), 7, got,
					 length_of(r->round), LONG_NS));
	CHECK_EQ(r, wrong(got, length_of(r->round), seed_of(rank_prev(r), r->round)), 0);
}

CASE uint64_t offset_of(unsigned source, uint64_t round)
{
	return (source * 2 + round % 2) * (uint64_t)SOURCE_BYTES;
}

CASE void ll_puts_in_rounds(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	RANK_ARRAY(r, char, block, 300);
	RANK_ARRAY(r, char, got, 300);

	group_fill(r->group, block, length_of(r->round), seed_of(r->rank, r->round));
	CHECK_POSTED(r, oriel_dev_put_ll(w, r->group, rank_next(r), offset_of(r->rank, r->round),
					 block, length_of(r->round), (uint32_t)r->round));
	CHECK_OK(r, oriel_dev_wait_ll(w, r->group, offset_of(rank_prev(r), r->round), got,
				      length_of(r->round), (uint32_t)r->round, LONG_NS));
	CHECK_EQ(r, wrong(got, length_of(r->round), seed_of(rank_prev(r), r->round)), 0);
	/* No rank may write the round after the next before all have taken this one. */
	CHECK_OK(r, oriel_dev_barrier(w, r->group, SLOT, LONG_NS));
}

CASE void ll128_puts_in_rounds(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	RANK_ARRAY(r, char, block, 300);
	RANK_ARRAY(r, char, got, 300);

	group_fill(r->group, block, length_of(r->round), seed_of(r->rank, r->round));
	CHECK_POSTED(r, oriel_dev_put_ll128(w, r->group, rank_next(r), offset_of(r->rank, r->round),
					    block, length_of(r->round), r->round));
	CHECK_OK(r, oriel_dev_wait_ll128(w, r->group, offset_of(rank_prev(r), r->round), got,
					 length_of(r->round), r->round, LONG_NS));
	CHECK_EQ(r, wrong(got, length_of(r->round), seed_of(rank_prev(r), r->round)), 0);
	CHECK_OK(r, oriel_dev_barrier(w, r->group, SLOT, LONG_NS));
}

#define TURNS 200u

/* Each stream has a signal, a slot, a channel and a counter of its own. */
CASE void streams_have_ids_of_their_own(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	uint32_t id = r->stream;
	size_t at = id * (size_t)SOURCE_BYTES;
	char *block = (char *)rank_alloc(r, 300);
	RANK_ARRAY(r, char, got, 300);
	uint64_t turn;

	for (turn = 1; turn <= TURNS; turn++) {
		uint64_t seed = turn * 16 + id;

		group_fill(r->group, block, length_of(turn), seed_of(r->rank, seed));
		CHECK_POSTED(r, oriel_dev_put_signal_counter(w, r->group, rank_next(r), at, block,
							     length_of(turn), id, 1, id, NULL));
		CHECK_OK(r, oriel_dev_wait_signal_next(w, r->group, rank_prev(r), id, 1, LONG_NS));
		CHECK_EQ(r, wrong(r->base + at, length_of(turn), seed_of(rank_prev(r), seed)), 0);
		CHECK_OK(r, oriel_dev_barrier(w, r->group, id, LONG_NS));
		CHECK_OK(r, oriel_dev_wait_counter(w, r->group, rank_next(r), id, ORIEL_EQ, turn,
						   LONG_NS));
		CHECK_OK(r, oriel_dev_send(w, r->group, rank_next(r), id, block, length_of(turn),
					   LONG_NS));
		CHECK_OK(r, oriel_dev_recv(w, r->group, rank_prev(r), id, got, length_of(turn),
					   LONG_NS));
		CHECK_EQ(r, wrong(got, length_of(turn), seed_of(rank_prev(r), seed)), 0);
	}
	rank_free(r, block);
}

/* All streams add to one signal and one counter, and each sees all additions. */
CASE void streams_share_ids(struct rank *r)
{
	const struct oriel_dev_window *w = &r->dev;
	RANK_ARRAY(r, char, byte, 1);
	uint64_t turn;

	byte[0] = 1;
	for (turn = 1; turn <= TURNS; turn++) {
		CHECK_POSTED(r, oriel_dev_signal(w, r->group, rank_next(r), 20, ORIEL_SIGNAL_ADD, 1,
						 NULL));
		CHECK_POSTED(r, oriel_dev_put_counter(w, r->group, rank_next(r), r->stream, byte, 1,
						      5, NULL));
		CHECK_OK(r, oriel_dev_wait_signal_from(w, r->group, rank_prev(r), 20, ORIEL_GE,
						       turn, LONG_NS));
	}
	CHECK_OK(r, oriel_dev_wait_signal_from(w, r->group, rank_prev(r), 20, ORIEL_EQ,
					       (uint64_t)TURNS * STREAMS, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_counter(w, r->group, rank_next(r), 5, ORIEL_EQ,
					   (uint64_t)TURNS * STREAMS, LONG_NS));
	CHECK_OK(r, oriel_dev_drain(w, r->group, LONG_NS));
}

#define REPLAY_CASES(ROW)                                                          \
	ROW(put_signal_in_rounds, &replay_window, 1, IN_ROUNDS)                    \
	ROW(signals_in_rounds, &replay_window, 1, IN_ROUNDS)                       \
	ROW(signals_of_all_in_rounds, &replay_window, 2, IN_ROUNDS)                \
	ROW(barriers_in_rounds, &replay_window, 1, IN_ROUNDS)                      \
	ROW(split_barriers_in_rounds, &replay_window, 1, IN_ROUNDS)                \
	ROW(flat_barriers_in_rounds, &replay_window, 1, IN_ROUNDS)                 \
	ROW(pairs_in_rounds, &replay_window, 2, IN_ROUNDS)                         \
	ROW(counters_in_rounds, &replay_window, 1, IN_ROUNDS)                      \
	ROW(local_completions_in_rounds, &replay_window, 1, IN_ROUNDS)             \
	ROW(fetch_adds_in_rounds, &replay_window, 1, IN_ROUNDS)                    \
	ROW(streams_in_rounds, &replay_window, 2, IN_ROUNDS)                       \
	ROW(messages_in_rounds, &replay_window, 2, IN_ROUNDS | NEEDS_MAPPED)       \
	ROW(ll128_messages_in_rounds, &replay_window, 2, IN_ROUNDS | NEEDS_MAPPED) \
	ROW(ll_puts_in_rounds, &replay_window, 1, IN_ROUNDS | NEEDS_MAPPED)        \
	ROW(ll128_puts_in_rounds, &replay_window, 1, IN_ROUNDS | NEEDS_MAPPED)     \
	ROW(streams_have_ids_of_their_own, &replay_window, 2, IN_STREAMS)          \
	ROW(streams_share_ids, &replay_window, 1, IN_STREAMS)

DEVICE_SUITE(replay, REPLAY_CASES, NO_FORKS, NULL);
