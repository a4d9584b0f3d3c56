/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels: every byte once and in order, however the stream is cut. The
 * stream between two ranks is stream_byte() of its number and the position.
 */
#include "harness.h"

#define STAGING 4096u /* of one channel in these cases */

struct stream {
	uint64_t seed;
	uint64_t at;
};

CASE unsigned char stream_byte(uint64_t seed, uint64_t at)
{
	return (unsigned char)(seed * 29 + at * 7 + (at >> 8) * 13 + (at >> 16) * 5);
}

CASE uint64_t stream_seed(unsigned from, unsigned to, uint32_t channel)
{
	return 1 + from * 64 + to * 8 + channel;
}

CASE void stream_take(struct oriel_dev_group g, struct stream *s, unsigned char *to, size_t length)
{
	size_t i;

	for (i = g.rank; i < length; i += g.size)
		to[i] = stream_byte(s->seed, s->at + i);
	s->at += length;
	oriel_dev_sync(g);
}

CASE size_t stream_wrong(struct stream *s, const unsigned char *from, size_t length)
{
	size_t i, count = 0;

	for (i = 0; i < length; i++)
		count += from[i] != stream_byte(s->seed, s->at++);
	return count;
}

/* Return a length up to @most; the same @state gives the same sequence. */
CASE size_t some_length(uint64_t *state, size_t most)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (size_t)((*state >> 33) % (most + 1));
}

/* How one side cuts its stream of @total bytes. */
struct cut {
	size_t total;
	size_t most; /* bytes at once */
	uint64_t state;
	size_t skew; /* offset in the buffer */
};

CASE void send_stream(struct rank *r, struct oriel_dev_group g, unsigned peer, uint32_t channel,
		      struct cut cut)
{
	struct stream s = {stream_seed(r->rank, peer, channel), 0};
	unsigned char *block = (unsigned char *)rank_alloc(r, cut.most + cut.skew + 1);
	size_t length;

	while (cut.total) {
		length = some_length(&cut.state, cut.most);
		if (length > cut.total)
			length = cut.total;
		stream_take(g, &s, block + cut.skew, length);
		if (!CHECK_OK(r, oriel_dev_send(&r->dev, g, peer, channel, block + cut.skew, length,
						LONG_NS)))
			break;
		/* The source may be reused on return. */
		group_flood(g, block, cut.most + cut.skew + 1, 0xee);
		cut.total -= length;
	}
	rank_free(r, block);
}

CASE void recv_stream(struct rank *r, struct oriel_dev_group g, unsigned peer, uint32_t channel,
		      struct cut cut)
{
	struct stream s = {stream_seed(peer, r->rank, channel), 0};
	unsigned char *block = (unsigned char *)rank_alloc(r, cut.most + cut.skew + 1);
	size_t length;

	while (cut.total) {
		length = some_length(&cut.state, cut.most);
		if (length > cut.total)
			length = cut.total;
		group_flood(g, block + cut.skew + length, 1, 0xee);
		if (!CHECK_OK(r, oriel_dev_recv(&r->dev, g, peer, channel, block + cut.skew, length,
						LONG_NS)))
			break;
		CHECK_EQ(r, stream_wrong(&s, block + cut.skew, length), 0);
		CHECK_EQ(r, block[cut.skew + length], 0xee);
		cut.total -= length;
	}
	rank_free(r, block);
}

/* One thread sends to the next rank while the other receives from the previous one. */
struct ring {
	uint32_t channel;
	struct cut sent, received;
};

CASE void ring_end(struct rank *r, unsigned index, void *context)
{
	const struct ring *ring = (const struct ring *)context;

	if (index == 0)
		send_stream(r, r->group, rank_next(r), ring->channel, ring->sent);
	else
		recv_stream(r, r->group, rank_prev(r), ring->channel, ring->received);
}

CASE void run_ring(struct rank *r, size_t total, size_t sent_most, size_t received_most,
		   size_t skew)
{
	const struct cut sent = {total, sent_most, 1, skew};
	const struct cut received = {total, received_most, 2, skew * 3};
	RANK_ARRAY(r, struct ring, ring, 1);

	ring[0].channel = 0;
	ring[0].sent = sent;
	ring[0].received = received;
	rank_fork(r, 2, ring_end, ring);
}

/*
 * The second of two calls once started at slot 0 again. Messages have all sizes, cut alike or
 * not.
 */
CASE void messages_of_any_size_arrive(struct rank *r)
{
	run_ring(r, 5000, 1, 1, 0); /* more than a lap of the staging */
	rank_flush_barrier(r);
	run_ring(r, 20000, 100, 100, 1);
	rank_flush_barrier(r);
	run_ring(r, 200000, STAGING, STAGING, 0);
}

/* N3: both sides once had to agree on every length. */
CASE void cuts_need_not_agree(struct rank *r)
{
	run_ring(r, 30000, 17, 9000, 3);
	rank_flush_barrier(r);
	run_ring(r, 30001, 9000, 17, 5);
}

CASE void messages_may_exceed_the_staging(struct rank *r)
{
	run_ring(r, 400000, 10 * STAGING + 7, 6 * STAGING + 1, 1);
}

CASE void zero_bytes_are_no_message(struct rank *r)
{
	RANK_ARRAY(r, unsigned char, byte, 1);
	RANK_ARRAY(r, unsigned char, got, 1);

	CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 1, NULL, 0, LONG_NS));
	CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 1, NULL, 0, LONG_NS));
	byte[0] = (unsigned char)(r->rank + 1);
	CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 1, byte, 1, LONG_NS));
	CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 1, NULL, 0, LONG_NS));
	CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 1, got, 1, LONG_NS));
	CHECK_EQ(r, got[0], rank_prev(r) + 1);
}

/* A send of less than three quarters of the staging needs no receiver. */
CASE void small_sends_do_not_wait_for_the_receiver(struct rank *r)
{
	struct cut cut = {STAGING / 4 * 3 - 1, 64, 9, 0};
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		if (peer != r->rank)
			send_stream(r, r->group, peer, 2, cut);
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++)
		if (peer != r->rank)
			recv_stream(r, r->group, peer, 2, cut);
}

CASE void all_channels_end(struct rank *r, unsigned index, void *context)
{
	struct cut cut = {40000, 3000, index + 1, index};
	uint32_t channel = index / 2;

	(void)context;
	if (index % 2)
		send_stream(r, r->group, rank_next(r), channel, cut);
	else
		recv_stream(r, r->group, rank_prev(r), channel, cut);
}

CASE void channels_are_independent(struct rank *r)
{
	rank_fork(r, 2 * r->dev.channels, all_channels_end, NULL);
}

CASE void both_ways_end(struct rank *r, unsigned index, void *context)
{
	struct cut cut = {30000, 2500, index + 5, 1};
	unsigned peer = index / 2;

	(void)context;
	if (peer == r->rank)
		return;
	if (index % 2)
		send_stream(r, r->group, peer, 3, cut);
	else
		recv_stream(r, r->group, peer, 3, cut);
}

/* AllToAll, Bidirectional: every pair sends both ways on one channel number. */
CASE void all_pairs_talk_both_ways(struct rank *r)
{
	rank_fork(r, 2 * r->size, both_ways_end, NULL);
}

/*
 * The sender can fill only the room that the receiver has released. It stops at a full staging,
 * and a message that timed out is not sent, not even in part.
 */
CASE void the_sender_stops_at_a_full_staging(struct rank *r)
{
	struct stream out = {stream_seed(r->rank, rank_next(r), 0), 0};
	struct stream in = {stream_seed(rank_prev(r), r->rank, 0), 0};
	enum oriel_status status = ORIEL_OK;
	RANK_ARRAY(r, unsigned char, block, STAGING + 64);
	size_t sent = 0;

	while (status == ORIEL_OK && sent <= STAGING) {
		stream_take(r->group, &out, block, 64);
		status = oriel_dev_send(&r->dev, r->group, rank_next(r), 0, block, 64, MOMENT_NS);
		sent += status == ORIEL_OK ? 64 : 0;
	}
	CHECK_STATUS(r, status, ORIEL_ERR_TIMEOUT);
	CHECK(r, sent >= STAGING / 4 * 3 && sent <= STAGING);
	rank_flush_barrier(r);
	CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 0, block, sent, LONG_NS));
	CHECK_EQ(r, stream_wrong(&in, block, sent), 0);
	rank_flush_barrier(r);
	group_flood(r->group, block, 1, 'x');
	CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 0, block, 1, LONG_NS));
	CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 0, block + 1, 1, LONG_NS));
	CHECK_EQ(r, block[1], 'x');
}

/* N4: cursors were wrong after a wait had timed out. */
CASE void a_timeout_loses_nothing(struct rank *r)
{
	RANK_ARRAY(r, unsigned char, sent, 3);
	RANK_ARRAY(r, unsigned char, got, 3);
	int round;

	sent[0] = 1;
	sent[1] = 2;
	sent[2] = (unsigned char)r->rank;
	for (round = 0; round < 10; round++) {
		CHECK_STATUS(r,
			     oriel_dev_recv(&r->dev, r->group, rank_prev(r), 0, got, 1, MOMENT_NS),
			     ORIEL_ERR_TIMEOUT);
		rank_flush_barrier(r);
		CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 0, sent, 3, LONG_NS));
		CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 0, got, 3, LONG_NS));
		CHECK_EQ(r, got[0], 1);
		CHECK_EQ(r, got[1], 2);
		CHECK_EQ(r, got[2], rank_prev(r));
		rank_flush_barrier(r);
	}
}

/* W10: one launch sends, and the next one continues with a new handle. */
CASE void cursors_survive_the_launch(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, sent, 1);
	RANK_ARRAY(r, uint64_t, got, 1);
	struct oriel_dev_window w;
	uint64_t i;

	for (i = 0; i < 700; i++) {
		CHECK_OK(r, rank_device(r, &w));
		sent[0] = i;
		got[0] = 0;
		CHECK_OK(r, oriel_dev_send(&w, r->group, rank_next(r), 0, sent, 7, LONG_NS));
		CHECK_OK(r, oriel_dev_recv(&w, r->group, rank_prev(r), 0, got, 7, LONG_NS));
		CHECK_EQ(r, got[0], i);
	}
}

/*
 * A NIC may write the word that holds the length of the stream byte by byte. While the carry is
 * missing, the word is less than its last value, and the receiver must not take that for a
 * message.
 */
CASE void a_cursor_written_in_part_is_no_message(struct rank *r)
{
	struct oriel_dev_channel *here =
		ori_dev_mapped_channel(&r->dev, r->dev.control, rank_prev(r), 1);
	RANK_ARRAY(r, unsigned char, block, 300);
	struct stream out = {stream_seed(r->rank, rank_next(r), 1), 0};
	struct stream in = {stream_seed(rank_prev(r), r->rank, 1), 0};

	stream_take(r->group, &out, block, 300);
	CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 1, block, 300, LONG_NS));
	CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 1, block, 300, LONG_NS));
	CHECK_EQ(r, stream_wrong(&in, block, 300), 0);
	oriel_dev_sync(r->group);
	/* 300 as seen when the low byte has arrived and the next one has not. */
	if (oriel_dev_is_leader(r->group))
		oriel_dev_store_relaxed(&here->ready, 300 & 0xff);
	oriel_dev_sync(r->group);
	CHECK_STATUS(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 1, block, 1, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	oriel_dev_sync(r->group);
	if (oriel_dev_is_leader(r->group))
		oriel_dev_store_relaxed(&here->ready, 300);
	oriel_dev_sync(r->group);
	CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 0, LONG_NS));
	stream_take(r->group, &out, block, 20);
	CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 1, block, 20, LONG_NS));
	CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 1, block, 20, LONG_NS));
	CHECK_EQ(r, stream_wrong(&in, block, 20), 0);
}

#define CHANNEL_CASES(ROW)                                        \
	ROW(messages_of_any_size_arrive, NULL, 2, 0)              \
	ROW(cuts_need_not_agree, NULL, 2, 0)                      \
	ROW(messages_may_exceed_the_staging, NULL, 2, 0)          \
	ROW(zero_bytes_are_no_message, NULL, 2, 0)                \
	ROW(small_sends_do_not_wait_for_the_receiver, NULL, 2, 0) \
	ROW(channels_are_independent, NULL, 2, 0)                 \
	ROW(all_pairs_talk_both_ways, NULL, 2, 0)                 \
	ROW(the_sender_stops_at_a_full_staging, NULL, 2, 0)       \
	ROW(a_timeout_loses_nothing, NULL, 2, 0)                  \
	ROW(a_cursor_written_in_part_is_no_message, NULL, 2, 0)   \
	ROW(cursors_survive_the_launch, NULL, 2, 0)

#define CHANNEL_FORKS(ROW) ROW(ring_end) ROW(all_channels_end) ROW(both_ways_end)

DEVICE_SUITE(channel, CHANNEL_CASES, CHANNEL_FORKS, NULL);
