/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages through channels, in lines that show their own arrival: of dev/ll.h or of
 * dev/ll128.h. Kernels and threads of the CPU call it. The staging of a channel is a ring of
 * lines then, and its cursors count the bytes of these; the flag of a line, or of half a line,
 * is its number in the stream, from 1, so that it differs from the flag of one lap before.
 *
 * The flags order only the message itself: puts before it are not ordered.
 *
 * The lines of one message take at most a quarter of the staging, as the pieces of a stream do,
 * so the rules of dev/channel.h for room and for credits hold. A channel that has once carried
 * one form carries no other: ORIEL_ERR_STATE.
 */
#ifndef ORIEL_DEV_MESSAGE_H
#define ORIEL_DEV_MESSAGE_H

#include <oriel/dev/detail/message.h>

/*
 * Whole group: send a message of at most channel_bytes / 8 bytes through
 * @channel, otherwise like oriel_dev_send().
 */
ORIEL_DEV enum oriel_status oriel_dev_send_ll(const struct oriel_dev_window *w,
					      struct oriel_dev_group g, uint32_t peer,
					      uint32_t channel, const void *from, uint64_t length,
					      uint64_t timeout_ns)
{
	struct ori_dev_message m = ori_dev_message_ll(w, peer, channel, length);
	struct ori_dev_message_cursor position;
	struct ori_dev_ll_slot lines;
	enum oriel_status status;

	status = ori_dev_message_send_begin(w, g, &m, timeout_ns, &position);
	if (status != ORIEL_OK)
		return status;
	lines = ori_dev_message_ll_slot(w, &position);
	ori_dev_ll_write(g, &lines, from, length);
	ori_dev_message_send_end(w, g, &m, &position);
	return ORIEL_OK;
}

/*
 * Whole group: take the next message of @channel from @peer, which was sent by
 * oriel_dev_send_ll() with the same length. When a limit of the caller's own has
 * passed none has been taken.
 */
ORIEL_DEV enum oriel_status oriel_dev_recv_ll(const struct oriel_dev_window *w,
					      struct oriel_dev_group g, uint32_t peer,
					      uint32_t channel, void *to, uint64_t length,
					      uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL, 0, ORIEL_EQ, ORIEL_DEV_RECV, peer, channel};
	struct ori_dev_message m = ori_dev_message_ll(w, peer, channel, length);
	struct ori_dev_message_cursor position;
	struct ori_dev_ll_slot lines;
	enum oriel_status status;

	status = ori_dev_message_recv_begin(w, &m, &position);
	if (status != ORIEL_OK)
		return status;
	lines = ori_dev_message_ll_slot(w, &position);
	status = oriel_dev_vote(g, ori_dev_ll_read(w, g, &lines, to, length, &aim, timeout_ns));
	if (status != ORIEL_OK)
		return status;
	return ori_dev_message_recv_end(w, g, &m, &position);
}

/*
 * Whole group: send a message of at most 7/32 of channel_bytes through @channel to
 * a @peer of which oriel_dev_has_ll128() holds, otherwise like oriel_dev_send().
 */
ORIEL_DEV enum oriel_status oriel_dev_send_ll128(const struct oriel_dev_window *w,
						 struct oriel_dev_group g, uint32_t peer,
						 uint32_t channel, const void *from,
						 uint64_t length, uint64_t timeout_ns)
{
	struct ori_dev_message m = ori_dev_message_ll128(w, peer, channel, length);
	struct ori_dev_message_cursor position;
	struct ori_dev_ll128_slot lines;
	enum oriel_status status;

	status = ori_dev_message_send_begin(w, g, &m, timeout_ns, &position);
	if (status != ORIEL_OK)
		return status;
	lines = ori_dev_message_ll128_slot(w, &position);
	ori_dev_ll128_write(g, &lines, from, length);
	ori_dev_message_send_end(w, g, &m, &position);
	return ORIEL_OK;
}

/*
 * Whole group: take the next message of @channel from @peer, which was sent by
 * oriel_dev_send_ll128() with the same length, to this rank, of which
 * oriel_dev_has_ll128() holds then. When a limit of the caller's own has passed none
 * has been taken.
 */
ORIEL_DEV enum oriel_status oriel_dev_recv_ll128(const struct oriel_dev_window *w,
						 struct oriel_dev_group g, uint32_t peer,
						 uint32_t channel, void *to, uint64_t length,
						 uint64_t timeout_ns)
{
	struct oriel_dev_aim aim = {NULL, 0, ORIEL_EQ, ORIEL_DEV_RECV, peer, channel};
	struct ori_dev_message m = ori_dev_message_ll128(w, peer, channel, length);
	struct ori_dev_message_cursor position;
	struct ori_dev_ll128_slot lines;
	enum oriel_status status;

	status = ori_dev_message_recv_begin(w, &m, &position);
	if (status != ORIEL_OK)
		return status;
	lines = ori_dev_message_ll128_slot(w, &position);
	status = oriel_dev_vote(g, ori_dev_ll128_read(w, g, &lines, to, length, &aim, timeout_ns));
	if (status != ORIEL_OK)
		return status;
	return ori_dev_message_recv_end(w, g, &m, &position);
}

#endif
