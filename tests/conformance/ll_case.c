/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages in LL form: they arrive whole, in order, and never with bytes that were there before.
 */
#include "harness.h"

CASE_DATA const size_t lengths[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 64, 100, 1000, 4001, 4096};

#include "lines.h"

CASE int64_t line_put(struct rank *r, struct oriel_dev_group g, const char *out, uint64_t round,
		      size_t length)
{
	return oriel_dev_put_ll(&r->dev, g, rank_next(r), offset_of(r->rank, round), out, length,
				(uint32_t)round + 1);
}

CASE enum oriel_status line_wait(struct rank *r, struct oriel_dev_group g, char *in, uint64_t round,
				 size_t length)
{
	return oriel_dev_wait_ll(&r->dev, g, offset_of(rank_prev(r), round), in, length,
				 (uint32_t)round + 1, LONG_NS);
}

#define LINE ORIEL_LL_LINE

#include "messages.h"

CASE size_t message_most(const struct rank *r)
{
	return r->dev.channel_bytes / 8;
}

CASE enum oriel_status message_send(struct rank *r, struct oriel_dev_group g, uint32_t channel,
				    const void *from, size_t length, uint64_t timeout_ns)
{
	return oriel_dev_send_ll(&r->dev, g, rank_next(r), channel, from, length, timeout_ns);
}

CASE enum oriel_status message_recv(struct rank *r, struct oriel_dev_group g, uint32_t channel,
				    void *to, size_t length, uint64_t timeout_ns)
{
	return oriel_dev_recv_ll(&r->dev, g, rank_prev(r), channel, to, length, timeout_ns);
}

/* A fast sender writes while the receiver polls: half a message is no message. */
CASE void the_flag_arrives_with_the_data(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, sent, 3);
	RANK_ARRAY(r, uint64_t, got, 3);
	uint64_t round;

	for (round = 0; round < 2000; round++) {
		sent[0] = sent[1] = sent[2] = round * 0x100000001u;
		CHECK_POSTED(r, oriel_dev_put_ll(&r->dev, r->group, rank_next(r),
						 offset_of(r->rank, round), sent, 24,
						 (uint32_t)round + 1));
		if (!CHECK_OK(r,
			      oriel_dev_wait_ll(&r->dev, r->group, offset_of(rank_prev(r), round),
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
	/*
	 * The last line has arrived, with one byte less: the message has the length of its
	 * sender.
	 */
	CHECK_OK(r, oriel_dev_wait_ll(&r->dev, r->group, 0, in, 99, 2, LONG_NS));
	CHECK_POSTED(r, oriel_dev_put_ll(&r->dev, r->group, r->rank, 0, out, 50, 3));
	CHECK_STATUS(r, oriel_dev_wait_ll(&r->dev, r->group, 0, in, 100, 3, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
}

CASE void invalid_offsets_are_rejected(struct rank *r)
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
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_STATUS(r, fault.status, ORIEL_ERR_INVALID);
	CHECK_EQ(r, fault.what, ORIEL_DEV_PUT_LL);
}

static const struct oriel_window_attr ll_window = {
	.size = sizeof(struct oriel_window_attr),
	.length = 2 * 16 * SOURCE_BYTES,
};

#define LL_CASES(ROW)                                                    \
	ROW(messages_arrive_whole, &ll_window, 1, NEEDS_MAPPED)          \
	ROW(teams_share_a_message, &ll_window, 1, NEEDS_MAPPED)          \
	ROW(the_flag_arrives_with_the_data, &ll_window, 1, NEEDS_MAPPED) \
	ROW(an_old_message_is_not_the_next, &ll_window, 1, 0)            \
	ROW(invalid_offsets_are_rejected, &ll_window, 1, 0)              \
	MESSAGE_CASES(ROW)

DEVICE_SUITE(ll, LL_CASES, MESSAGE_FORKS, NULL);
