/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in LL form: whole, in order, and never what a place held before. */
#include "harness.h"

CASE_DATA const size_t lengths[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 64, 100, 1000, 4001, 4096};

#include "lines.h"

CASE int64_t line_put(struct rank *r, struct oriel_dev_group g, const char *out, uint64_t round,
		      size_t length)
{
	return oriel_dev_put_ll(&r->dev, g, rank_next(r), place_of(r->rank, round), out, length,
				(uint32_t)round + 1);
}

CASE enum oriel_status line_wait(struct rank *r, struct oriel_dev_group g, char *in, uint64_t round,
				 size_t length)
{
	return oriel_dev_wait_ll(&r->dev, g, place_of(rank_prev(r), round), in, length,
				 (uint32_t)round + 1, LONG_NS);
}

/* A fast sender writes while the receiver looks: half a message is none. */
CASE void the_flag_comes_with_the_data(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, sent, 3);
	RANK_ARRAY(r, uint64_t, got, 3);
	uint64_t round;

	for (round = 0; round < 2000; round++) {
		sent[0] = sent[1] = sent[2] = round * 0x100000001u;
		CHECK_POSTED(r, oriel_dev_put_ll(&r->dev, r->group, rank_next(r),
						 place_of(r->rank, round), sent, 24,
						 (uint32_t)round + 1));
		if (!CHECK_OK(r, oriel_dev_wait_ll(&r->dev, r->group, place_of(rank_prev(r), round),
						   got, 24, (uint32_t)round + 1, LONG_NS)))
			return;
		if (got[0] != sent[0] || got[1] != sent[0] || got[2] != sent[0])
			CHECK_EQ(r, got[0], sent[0]);
		CHECK_OK(r, oriel_dev_barrier_flat(&r->dev, r->group, 1, LONG_NS));
	}
}

CASE void an_old_message_is_not_the_next(struct rank *r)
{
	RANK_ARRAY(r, char, out, 100);
	RANK_ARRAY(r, char, in, 100);

	group_fill(r->group, out, 100, 1);
	CHECK_POSTED(r, oriel_dev_put_ll(&r->dev, r->group, r->rank, 0, out, 100, 1));
	CHECK_OK(r, oriel_dev_wait_ll(&r->dev, r->group, 0, in, 100, 1, LONG_NS));
	CHECK_STATUS(r, oriel_dev_wait_ll(&r->dev, r->group, 0, in, 100, 2, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	CHECK_POSTED(r, oriel_dev_put_ll(&r->dev, r->group, r->rank, 0, out, 99, 2));
	/* The last line has come, with one byte less: the message has the length of its sender. */
	CHECK_OK(r, oriel_dev_wait_ll(&r->dev, r->group, 0, in, 99, 2, LONG_NS));
	CHECK_POSTED(r, oriel_dev_put_ll(&r->dev, r->group, r->rank, 0, out, 50, 3));
	CHECK_STATUS(r, oriel_dev_wait_ll(&r->dev, r->group, 0, in, 100, 3, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
}

CASE void bad_places_are_refused(struct rank *r)
{
	struct oriel_dev_fault fault;
	RANK_ARRAY(r, char, block, 64);

	CHECK_STATUS(r,
		     (enum oriel_status)oriel_dev_put_ll(&r->dev, r->group, r->rank, 8, block, 8,
							 1),
		     ORIEL_ERR_INVALID);
	CHECK_STATUS(r,
		     (enum oriel_status)oriel_dev_put_ll(&r->dev, r->group, r->rank, r->length - 16,
							 block, 9, 1),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_wait_ll(&r->dev, r->group, r->length, block, 1, 1, MOMENT_NS),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r,
		     oriel_dev_wait_ll(&r->dev, r->group, 0, block, UINT64_MAX - 6, 1, MOMENT_NS),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r,
		     oriel_dev_send_ll(&r->dev, r->group, rank_next(r), 0, block,
				       r->dev.channel_bytes / 8 + 1, MOMENT_NS),
		     ORIEL_ERR_RANGE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_STATUS(r, fault.status, ORIEL_ERR_INVALID);
	CHECK_EQ(r, fault.what, ORIEL_DEV_PUT_LL);
}

/* Many laps of the staging, messages of all sizes. */
CASE void channel_end(struct rank *r, unsigned index, void *context)
{
	size_t most = r->dev.channel_bytes / 8, length;
	char *block = (char *)rank_alloc(r, most);
	uint64_t round;

	(void)context;
	for (round = 0; round < 500; round++) {
		length = round * 37 % (most + 1);
		if (index == 0) {
			group_fill(r->group, block, length,
				   message_seed(r->rank, rank_next(r), round));
			CHECK_OK(r, oriel_dev_send_ll(&r->dev, r->group, rank_next(r), 1, block,
						      length, LONG_NS));
		} else {
			CHECK_OK(r, oriel_dev_recv_ll(&r->dev, r->group, rank_prev(r), 1, block,
						      length, LONG_NS));
			CHECK_EQ(r,
				 wrong(block, length, message_seed(rank_prev(r), r->rank, round)),
				 0);
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
		size_t length = round * 53 % (r->dev.channel_bytes / 8 + 1);

		group_fill(g, both->out, length, message_seed(r->rank, rank_next(r), round));
		CHECK_OK(r, oriel_dev_send_ll(&r->dev, g, rank_next(r), 2, both->out, length,
					      LONG_NS));
		CHECK_OK(r,
			 oriel_dev_recv_ll(&r->dev, g, rank_prev(r), 2, both->in, length, LONG_NS));
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

	both->out = (char *)rank_alloc(r, PLACE);
	both->in = (char *)rank_alloc(r, PLACE);
	rank_team(r, 3, channel_team, both);
	rank_free(r, both->out);
	rank_free(r, both->in);
}

CASE void a_timeout_takes_nothing(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, sent, 1);
	RANK_ARRAY(r, uint64_t, got, 1);

	sent[0] = 7 + r->rank;
	got[0] = 0;
	CHECK_STATUS(r, oriel_dev_recv_ll(&r->dev, r->group, rank_prev(r), 0, got, 8, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	rank_settle(r);
	CHECK_OK(r, oriel_dev_send_ll(&r->dev, r->group, rank_next(r), 0, sent, 8, LONG_NS));
	CHECK_OK(r, oriel_dev_recv_ll(&r->dev, r->group, rank_prev(r), 0, got, 8, LONG_NS));
	CHECK_EQ(r, got[0], 7 + rank_prev(r));
}

/* The staging fills up, and what did not find room has not gone. */
CASE void the_sender_stops_at_a_full_staging(struct rank *r)
{
	enum oriel_status status = ORIEL_OK;
	RANK_ARRAY(r, uint64_t, sent, 1);
	RANK_ARRAY(r, uint64_t, got, 1);
	uint64_t count = 0, i;

	got[0] = 0;
	while (status == ORIEL_OK && count <= r->dev.channel_bytes / 16) {
		sent[0] = count;
		status = oriel_dev_send_ll(&r->dev, r->group, rank_next(r), 0, sent, 8, MOMENT_NS);
		count += status == ORIEL_OK;
	}
	CHECK_STATUS(r, status, ORIEL_ERR_TIMEOUT);
	CHECK_EQ(r, count, r->dev.channel_bytes / 16);
	rank_settle(r);
	for (i = 0; i < count; i++) {
		CHECK_OK(r, oriel_dev_recv_ll(&r->dev, r->group, rank_prev(r), 0, got, 8, LONG_NS));
		CHECK_EQ(r, got[0], i);
	}
}

CASE void streams_and_messages_do_not_mix(struct rank *r)
{
	struct oriel_dev_fault fault;
	RANK_ARRAY(r, char, block, 16);

	group_flood(r->group, block, 16, 0);
	CHECK_OK(r, oriel_dev_send(&r->dev, r->group, rank_next(r), 3, block, 16, LONG_NS));
	CHECK_OK(r, oriel_dev_recv(&r->dev, r->group, rank_prev(r), 3, block, 16, LONG_NS));
	CHECK_STATUS(r, oriel_dev_send_ll(&r->dev, r->group, rank_next(r), 3, block, 8, LONG_NS),
		     ORIEL_ERR_STATE);
	CHECK_STATUS(r, oriel_dev_recv_ll(&r->dev, r->group, rank_prev(r), 3, block, 8, LONG_NS),
		     ORIEL_ERR_STATE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_STATUS(r, fault.status, ORIEL_ERR_STATE);
}

static const struct oriel_window_attr ll_window = {
	.size = sizeof(struct oriel_window_attr),
	.length = 2 * 16 * PLACE,
	.channels = 4,
	.channel_bytes = 4096,
};

#define LL_CASES(ROW)                                                        \
	ROW(messages_arrive_whole, &ll_window, 1, NEEDS_MAPPED)              \
	ROW(teams_share_a_message, &ll_window, 1, NEEDS_MAPPED)              \
	ROW(the_flag_comes_with_the_data, &ll_window, 1, NEEDS_MAPPED)       \
	ROW(an_old_message_is_not_the_next, &ll_window, 1, 0)                \
	ROW(bad_places_are_refused, &ll_window, 2, NEEDS_MAPPED)             \
	ROW(channels_carry_messages, &ll_window, 2, NEEDS_MAPPED)            \
	ROW(teams_carry_messages, &ll_window, 2, NEEDS_MAPPED)               \
	ROW(a_timeout_takes_nothing, &ll_window, 2, NEEDS_MAPPED)            \
	ROW(the_sender_stops_at_a_full_staging, &ll_window, 2, NEEDS_MAPPED) \
	ROW(streams_and_messages_do_not_mix, &ll_window, 2, NEEDS_MAPPED)

#define LL_FORKS(ROW) ROW(channel_end)

DEVICE_SUITE(ll, LL_CASES, LL_FORKS, NULL);
