/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in LL128 form: they arrive whole, and never with bytes that were there before. */
#include "harness.h"

CASE_DATA const size_t lengths[] = {0,   1,   7,   8,   9,   48,  55,  56,  57,   111,  112,
				    113, 128, 168, 224, 225, 336, 895, 896, 3585, 4001, 7168};

#include "lines.h"

CASE int64_t line_put(struct rank *r, struct oriel_dev_group g, const char *out, uint64_t round,
		      size_t length)
{
	return oriel_dev_put_ll128(&r->dev, g, rank_next(r), offset_of(r->rank, round), out, length,
				   round + 1);
}

CASE enum oriel_status line_wait(struct rank *r, struct oriel_dev_group g, char *in, uint64_t round,
				 size_t length)
{
	return oriel_dev_wait_ll128(&r->dev, g, offset_of(rank_prev(r), round), in, length,
				    round + 1, LONG_NS);
}

#define LINE ORIEL_LL128_LINE

#include "messages.h"

CASE size_t message_most(const struct rank *r)
{
	return r->dev.channel_bytes / 32 * 7;
}

CASE enum oriel_status message_send(struct rank *r, struct oriel_dev_group g, uint32_t channel,
				    const void *from, size_t length, uint64_t timeout_ns)
{
	return oriel_dev_send_ll128(&r->dev, g, rank_next(r), channel, from, length, timeout_ns);
}

CASE enum oriel_status message_recv(struct rank *r, struct oriel_dev_group g, uint32_t channel,
				    void *to, size_t length, uint64_t timeout_ns)
{
	return oriel_dev_recv_ll128(&r->dev, g, rank_prev(r), channel, to, length, timeout_ns);
}

#define WORDS 31u /* two lines and half of one, the last half in part */

/* A fast sender writes while the receiver polls: half a message is no message. */
CASE void the_flag_arrives_with_the_data(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, sent, WORDS);
	RANK_ARRAY(r, uint64_t, got, WORDS);
	uint64_t round;

	for (round = 0; round < 2000; round++) {
		group_fill(r->group, sent, WORDS * 8, round);
		CHECK_POSTED(r, oriel_dev_put_ll128(&r->dev, r->group, rank_next(r),
						    offset_of(r->rank, round), sent, WORDS * 8,
						    round + 1));
		if (!CHECK_OK(r, oriel_dev_wait_ll128(&r->dev, r->group,
						      offset_of(rank_prev(r), round), got,
						      WORDS * 8, round + 1, LONG_NS)))
			return;
		CHECK_EQ(r, wrong(got, WORDS * 8, round), 0);
		CHECK_OK(r, oriel_dev_barrier_flat(&r->dev, r->group, 1, LONG_NS));
	}
}

CASE void an_old_message_is_not_the_next(struct rank *r)
{
	RANK_ARRAY(r, char, out, 300);
	RANK_ARRAY(r, char, in, 300);

	group_fill(r->group, out, 300, 1);
	CHECK_POSTED(r, oriel_dev_put_ll128(&r->dev, r->group, r->rank, 0, out, 300, 1));
	CHECK_OK(r, oriel_dev_wait_ll128(&r->dev, r->group, 0, in, 300, 1, LONG_NS));
	CHECK_STATUS(r, oriel_dev_wait_ll128(&r->dev, r->group, 0, in, 300, 2, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	/* Five halves of six are not the message. */
	CHECK_POSTED(r, oriel_dev_put_ll128(&r->dev, r->group, r->rank, 0, out, 240, 2));
	CHECK_STATUS(r, oriel_dev_wait_ll128(&r->dev, r->group, 0, in, 300, 2, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	CHECK_OK(r, oriel_dev_wait_ll128(&r->dev, r->group, 0, in, 240, 2, LONG_NS));
	CHECK_EQ(r, wrong(in, 240, 1), 0);
}

CASE void invalid_offsets_are_rejected(struct rank *r)
{
	struct oriel_dev_fault fault;
	RANK_ARRAY(r, char, block, 640);

	CHECK_STATUS(r,
		     (enum oriel_status)oriel_dev_put_ll128(&r->dev, r->group, r->rank, 16, block,
							    8, 1),
		     ORIEL_ERR_INVALID);
	CHECK_STATUS(r,
		     (enum oriel_status)oriel_dev_put_ll128(&r->dev, r->group, r->rank,
							    r->length - 640, block, 561, 1),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_wait_ll128(&r->dev, r->group, r->length, block, 1, 1, MOMENT_NS),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r,
		     oriel_dev_wait_ll128(&r->dev, r->group, 0, block, UINT64_MAX - 6, 1,
					  MOMENT_NS),
		     ORIEL_ERR_RANGE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_STATUS(r, fault.status, ORIEL_ERR_INVALID);
	CHECK_EQ(r, fault.what, ORIEL_DEV_PUT_LL);
}

/* oriel_dev_has_ll128() names exactly the ranks that accept such puts. */
CASE void puts_reach_exactly_the_mapped_ranks(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, word, 1);
	enum oriel_status status;
	unsigned peer;

	word[0] = 1;
	for (peer = 0; peer < r->size; peer++) {
		status = oriel_dev_put_ll128(&r->dev, r->group, peer, offset_of(r->rank, 0), word,
					     8, 1);
		CHECK_EQ(r, status == ORIEL_OK, rank_is_mapped(r, r->rank, peer));
		CHECK_EQ(r, status == ORIEL_OK, oriel_dev_has_ll128(&r->dev, peer));
		CHECK(r, status == ORIEL_OK || status == ORIEL_ERR_NO_PATH);
	}
	CHECK(r, !oriel_dev_has_ll128(&r->dev, r->size));
}

/* Mapped ranks send and receive; calls for other ranks are rejected at both ends. */
CASE void messages_reach_exactly_the_mapped_ranks(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, word, 1);
	enum oriel_status status;
	unsigned peer;

	for (peer = 0; peer < r->size; peer++) {
		word[0] = 100 + r->rank;
		status = oriel_dev_send_ll128(&r->dev, r->group, peer, 0, word, 8, LONG_NS);
		CHECK_STATUS(r, status,
			     peer == r->rank                      ? ORIEL_ERR_INVALID
			     : oriel_dev_has_ll128(&r->dev, peer) ? ORIEL_OK
								  : ORIEL_ERR_NO_PATH);
	}
	for (peer = 0; peer < r->size; peer++) {
		if (peer == r->rank)
			continue;
		oriel_dev_sync(r->group);
		status = oriel_dev_recv_ll128(&r->dev, r->group, peer, 0, word, 8, LONG_NS);
		if (oriel_dev_has_ll128(&r->dev, peer)) {
			CHECK_OK(r, status);
			CHECK_EQ(r, word[0], 100 + peer);
		} else {
			CHECK_STATUS(r, status, ORIEL_ERR_NO_PATH);
		}
	}
}

/* A channel that carries lines of one kind rejects the other kind at both ends. */
CASE void forms_do_not_mix(struct rank *r)
{
	struct oriel_dev_fault fault;
	RANK_ARRAY(r, char, block, 16);

	group_flood(r->group, block, 16, 0);
	CHECK_OK(r, message_send(r, r->group, 3, block, 16, LONG_NS));
	CHECK_OK(r, message_recv(r, r->group, 3, block, 16, LONG_NS));
	CHECK_STATUS(r, oriel_dev_send_ll(&r->dev, r->group, rank_next(r), 3, block, 8, LONG_NS),
		     ORIEL_ERR_STATE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.expected, ORIEL_DEV_FORM_LL);
	CHECK_EQ(r, fault.seen, ORIEL_DEV_FORM_LL128);
	CHECK_STATUS(r, oriel_dev_recv_ll(&r->dev, r->group, rank_prev(r), 3, block, 8, LONG_NS),
		     ORIEL_ERR_STATE);
	CHECK_OK(r, oriel_dev_send_ll(&r->dev, r->group, rank_next(r), 2, block, 8, LONG_NS));
	CHECK_OK(r, oriel_dev_recv_ll(&r->dev, r->group, rank_prev(r), 2, block, 8, LONG_NS));
	CHECK_STATUS(r, message_send(r, r->group, 2, block, 8, LONG_NS), ORIEL_ERR_STATE);
	CHECK_STATUS(r, message_recv(r, r->group, 2, block, 8, LONG_NS), ORIEL_ERR_STATE);
	CHECK_OK(r, rank_fault(r, &fault));
}

static const struct oriel_window_attr ll128_window = {
	.size = sizeof(struct oriel_window_attr),
	.length = 2 * 16 * SOURCE_BYTES,
};

#define LL128_CASES(ROW)                                                    \
	ROW(messages_arrive_whole, &ll128_window, 1, NEEDS_MAPPED)          \
	ROW(teams_share_a_message, &ll128_window, 1, NEEDS_MAPPED)          \
	ROW(the_flag_arrives_with_the_data, &ll128_window, 1, NEEDS_MAPPED) \
	ROW(an_old_message_is_not_the_next, &ll128_window, 1, 0)            \
	ROW(invalid_offsets_are_rejected, &ll128_window, 1, 0)              \
	ROW(puts_reach_exactly_the_mapped_ranks, &ll128_window, 1, 0)       \
	ROW(messages_reach_exactly_the_mapped_ranks, &message_window, 1, 0) \
	ROW(forms_do_not_mix, &message_window, 2, NEEDS_MAPPED)             \
	MESSAGE_CASES(ROW)

DEVICE_SUITE(ll128, LL128_CASES, MESSAGE_FORKS, NULL);
