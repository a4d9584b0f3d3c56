/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages through channels, in either form: they arrive whole, in order, and never with bytes
 * of the last lap of the staging. The including file has lines.h and the bytes of a LINE, and
 * defines how a message is sent and received.
 */
#ifndef CONFORMANCE_MESSAGES_H
#define CONFORMANCE_MESSAGES_H

#include "lines.h"

#define STAGING 4096u /* of one channel in these cases */

/* The longest message, in bytes. */
CASE size_t message_most(const struct rank *r);

/* Send to the next rank; receive from the previous one. */
CASE enum oriel_status message_send(struct rank *r, struct oriel_dev_group g, uint32_t channel,
				    const void *from, size_t length, uint64_t timeout_ns);
CASE enum oriel_status message_recv(struct rank *r, struct oriel_dev_group g, uint32_t channel,
				    void *to, size_t length, uint64_t timeout_ns);

/* Many laps of the staging, with messages of all sizes that begin at any line. */
CASE void channel_end(struct rank *r, unsigned index, void *context)
{
	size_t most = message_most(r), length;
	char *block = (char *)rank_alloc(r, most + 9), *at;
	uint64_t round;

	(void)context;
	for (round = 0; round < 500; round++) {
		length = round * 37 % (most + 1);
		at = block + round % (3 + index * 5);
		if (index == 0) {
			group_fill(r->group, at, length,
				   message_seed(r->rank, rank_next(r), round));
			if (!CHECK_OK(r, message_send(r, r->group, 1, at, length, LONG_NS)))
				break;
		} else {
			group_flood(r->group, at + length, 1, GUARD);
			if (!CHECK_OK(r, message_recv(r, r->group, 1, at, length, LONG_NS)))
				break;
			CHECK_EQ(r, wrong(at, length, message_seed(rank_prev(r), r->rank, round)),
				 0);
			CHECK_EQ(r, (unsigned char)at[length], GUARD);
		}
	}
	rank_free(r, block);
}

CASE void channels_carry_messages(struct rank *r)
{
	rank_fork(r, 2, channel_end, NULL);
}

CASE void channel_team(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct both *both = (const struct both *)context;
	uint64_t round;

	for (round = 0; round < 40; round++) {
		size_t length = round * 53 % (message_most(r) + 1);

		group_fill(g, both->out, length, message_seed(r->rank, rank_next(r), round));
		CHECK_OK(r, message_send(r, g, 2, both->out, length, LONG_NS));
		CHECK_OK(r, message_recv(r, g, 2, both->in, length, LONG_NS));
		if (oriel_dev_is_leader(g))
			CHECK_EQ(r,
				 wrong(both->in, length,
				       message_seed(rank_prev(r), r->rank, round)),
				 0);
		oriel_dev_sync(g);
	}
}

CASE void teams_carry_messages(struct rank *r)
{
	RANK_ARRAY(r, struct both, both, 1);

	both->out = (char *)rank_alloc(r, SOURCE_BYTES);
	both->in = (char *)rank_alloc(r, SOURCE_BYTES);
	rank_team(r, 3, channel_team, both);
	rank_free(r, both->out);
	rank_free(r, both->in);
}

/* A receive that timed out takes neither unwritten lines nor those of the last lap. */
CASE void a_timeout_takes_nothing(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, sent, 1);
	RANK_ARRAY(r, uint64_t, got, 1);
	uint64_t round;

	for (round = 0; round <= STAGING / LINE; round++) {
		sent[0] = round * 100 + r->rank;
		got[0] = 0;
		if (round % (STAGING / LINE) == 0) {
			CHECK_STATUS(r, message_recv(r, r->group, 0, got, 8, MOMENT_NS),
				     ORIEL_ERR_TIMEOUT);
			rank_flush_barrier(r);
		}
		CHECK_OK(r, message_send(r, r->group, 0, sent, 8, LONG_NS));
		CHECK_OK(r, message_recv(r, r->group, 0, got, 8, LONG_NS));
		CHECK_EQ(r, got[0], round * 100 + rank_prev(r));
		oriel_dev_sync(r->group);
	}
}

/* The staging fills up, and a message that found no room is not sent. */
CASE void the_sender_stops_at_a_full_staging(struct rank *r)
{
	enum oriel_status status = ORIEL_OK;
	RANK_ARRAY(r, uint64_t, sent, 1);
	RANK_ARRAY(r, uint64_t, got, 1);
	uint64_t count = 0, i;

	got[0] = 0;
	while (status == ORIEL_OK && count <= STAGING / LINE) {
		sent[0] = count;
		status = message_send(r, r->group, 0, sent, 8, MOMENT_NS);
		count += status == ORIEL_OK;
	}
	CHECK_STATUS(r, status, ORIEL_ERR_TIMEOUT);
	CHECK_EQ(r, count, STAGING / LINE);
	rank_flush_barrier(r);
	for (i = 0; i < count; i++) {
		if (!CHECK_OK(r, message_recv(r, r->group, 0, got, 8, LONG_NS)))
			break;
		CHECK_EQ(r, got[0], i);
	}
}

/*
 * A message that crosses the end continues at the beginning, not in the staging of the next
 * channel.
 */
CASE void messages_stay_in_their_staging(struct rank *r)
{
	size_t most = message_most(r);
	char *out = (char *)rank_alloc(r, most), *in = (char *)rank_alloc(r, most);
	uint64_t round;

	group_fill(r->group, out, most, message_seed(r->rank, rank_next(r), 99));
	CHECK_OK(r, message_send(r, r->group, 1, out, most, LONG_NS));
	CHECK_OK(r, message_send(r, r->group, 0, out, 1, LONG_NS));
	CHECK_OK(r, message_recv(r, r->group, 0, in, 1, LONG_NS));
	for (round = 0; round < 9; round++) {
		group_fill(r->group, out, most, message_seed(r->rank, rank_next(r), round));
		CHECK_OK(r, message_send(r, r->group, 0, out, most, LONG_NS));
		if (!CHECK_OK(r, message_recv(r, r->group, 0, in, most, LONG_NS)))
			break;
		CHECK_EQ(r, wrong(in, most, message_seed(rank_prev(r), r->rank, round)), 0);
	}
	oriel_dev_sync(r->group);
	CHECK_OK(r, message_recv(r, r->group, 1, in, most, LONG_NS));
	CHECK_EQ(r, wrong(in, most, message_seed(rank_prev(r), r->rank, 99)), 0);
	rank_free(r, out);
	rank_free(r, in);
}

CASE void the_longest_message_has_a_limit(struct rank *r)
{
	size_t most = message_most(r);
	char *out = (char *)rank_alloc(r, most + 1), *in = (char *)rank_alloc(r, most + 1);
	struct oriel_dev_fault fault;

	group_flood(r->group, out, most + 1, 0);
	CHECK_OK(r, message_send(r, r->group, 3, out, most, LONG_NS));
	CHECK_OK(r, message_recv(r, r->group, 3, in, most, LONG_NS));
	CHECK_STATUS(r, message_recv(r, r->group, 3, in, most + 1, MOMENT_NS), ORIEL_ERR_RANGE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.what, ORIEL_DEV_RECV);
	CHECK_STATUS(r, message_send(r, r->group, 3, out, most + 1, MOMENT_NS), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, message_send(r, r->group, 3, out, SIZE_MAX, MOMENT_NS), ORIEL_ERR_RANGE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_STATUS(r, fault.status, ORIEL_ERR_RANGE);
	CHECK_EQ(r, fault.what, ORIEL_DEV_SEND);
	CHECK_EQ(r, fault.peer, rank_next(r));
	CHECK_EQ(r, fault.id, 3);
	CHECK_EQ(r, fault.expected, most);
	rank_free(r, out);
	rank_free(r, in);
}

CASE void streams_and_messages_do_not_mix(struct rank *r)
{
	struct oriel_dev_fault fault;
	RANK_ARRAY(r, char, block, 16);

	group_flood(r->group, block, 16, 0);
	CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 3, block, 16, LONG_NS));
	CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 3, block, 16, LONG_NS));
	CHECK_STATUS(r, message_send(r, r->group, 3, block, 8, LONG_NS), ORIEL_ERR_STATE);
	CHECK_STATUS(r, message_recv(r, r->group, 3, block, 8, LONG_NS), ORIEL_ERR_STATE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_STATUS(r, fault.status, ORIEL_ERR_STATE);
	/* The other order fails too, even for an empty message. */
	CHECK_OK(r, message_send(r, r->group, 2, block, 0, LONG_NS));
	CHECK_OK(r, message_recv(r, r->group, 2, block, 0, LONG_NS));
	CHECK_STATUS(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 2, block, 8, LONG_NS),
		     ORIEL_ERR_STATE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.what, ORIEL_DEV_SEND);
	CHECK_STATUS(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 2, block, 8, LONG_NS),
		     ORIEL_ERR_STATE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_STATUS(r, fault.status, ORIEL_ERR_STATE);
	CHECK_EQ(r, fault.what, ORIEL_DEV_RECV);
}

static const struct oriel_window_attr message_window = {
	.size = sizeof(struct oriel_window_attr),
	.length = 16,
	.channels = 4,
	.channel_bytes = STAGING,
};

#define MESSAGE_CASES(ROW)                                                        \
	ROW(channels_carry_messages, &message_window, 2, NEEDS_MAPPED)            \
	ROW(teams_carry_messages, &message_window, 2, NEEDS_MAPPED)               \
	ROW(a_timeout_takes_nothing, &message_window, 2, NEEDS_MAPPED)            \
	ROW(the_sender_stops_at_a_full_staging, &message_window, 2, NEEDS_MAPPED) \
	ROW(messages_stay_in_their_staging, &message_window, 2, NEEDS_MAPPED)     \
	ROW(the_longest_message_has_a_limit, &message_window, 2, NEEDS_MAPPED)    \
	ROW(streams_and_messages_do_not_mix, &message_window, 2, NEEDS_MAPPED)

#define MESSAGE_FORKS(ROW) ROW(channel_end)

#endif
