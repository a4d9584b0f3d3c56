/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages in lines through a channel; dev/message.h calls it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_MESSAGE_H
#define ORIEL_DEV_DETAIL_MESSAGE_H

#include <oriel/dev/detail/channel.h>
#include <oriel/dev/ll128.h>

struct ori_dev_message {
	uint32_t peer;
	uint32_t channel;
	uint64_t form; /* enum oriel_dev_form */
	uint64_t length;
	uint64_t most;  /* the longest one, in bytes */
	uint64_t bytes; /* of its lines */
};

ORIEL_DEV struct ori_dev_message ori_dev_message_ll(const struct oriel_dev_window *w, uint32_t peer,
						    uint32_t channel, uint64_t length)
{
	struct ori_dev_message m = {peer,
				    channel,
				    ORIEL_DEV_FORM_LL,
				    length,
				    w->channel_bytes / 4 / ORIEL_LL_LINE * 8,
				    oriel_dev_ll_length(length)};

	return m;
}

ORIEL_DEV struct ori_dev_message ori_dev_message_ll128(const struct oriel_dev_window *w,
						       uint32_t peer, uint32_t channel,
						       uint64_t length)
{
	struct ori_dev_message m = {peer,
				    channel,
				    ORIEL_DEV_FORM_LL128,
				    length,
				    w->channel_bytes / 4 / ORIEL_LL128_HALF * ORIEL_LL128_WORDS * 8,
				    oriel_dev_ll128_length(length)};

	return m;
}

/*
 * May lines of @m go to @rank, which is mapped? Lines of LL128 may if a store of eight threads
 * arrives at once; staging lies on a GPU wherever buffer 0 does.
 */
ORIEL_DEV bool ori_dev_message_suits(const struct oriel_dev_window *w,
				     const struct ori_dev_message *m, uint32_t rank)
{
	return m->form != ORIEL_DEV_FORM_LL128 || oriel_dev_has_ll128(w, rank);
}

/* The beginning of a message. */
struct ori_dev_message_cursor {
	char *staging;
	uint64_t cursor;
	uint64_t credit; /* last read from the receiver, or last written to the sender */
};

/* May @m go through a channel that stands at @cursor, and has carried @form if at all? */
ORIEL_DEV enum oriel_status ori_dev_message_check(const struct oriel_dev_window *w, uint32_t what,
						  const struct ori_dev_message *m, uint64_t cursor,
						  uint64_t form)
{
	struct oriel_dev_aim aim = {NULL, m->most, ORIEL_LE, what, m->peer, m->channel};

	if (m->length > m->most)
		return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_RANGE, aim, m->length);
	aim.operand = m->form;
	if (form != m->form && (form || cursor))
		return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_STATE, aim, form);
	return ORIEL_OK;
}

/* Whole group: wait until there is room for @m, at *@position. */
ORIEL_DEV enum oriel_status ori_dev_message_send_begin(const struct oriel_dev_window *w,
						       struct oriel_dev_group g,
						       const struct ori_dev_message *m,
						       uint64_t timeout_ns,
						       struct ori_dev_message_cursor *position)
{
	const struct oriel_dev_sender *end;
	struct oriel_dev_peer remote;
	enum oriel_status status;

	status = ori_dev_check_other(w, ORIEL_DEV_SEND, m->peer, m->channel, w->channels);
	if (status != ORIEL_OK)
		return status;
	end = &w->senders[(size_t)m->peer * w->channels + m->channel];
	remote = ori_dev_peer_of(w, m->peer);
	position->cursor = oriel_dev_load_relaxed(&end->sent);
	position->credit = oriel_dev_load_relaxed(&end->freed);
	if (ori_dev_usable(remote.path) != ORIEL_PATH_MAPPED ||
	    !ori_dev_message_suits(w, m, m->peer))
		return ORIEL_ERR_NO_PATH;
	status = ori_dev_message_check(w, ORIEL_DEV_SEND, m, position->cursor,
				       oriel_dev_load_relaxed(&end->form));
	if (status != ORIEL_OK)
		return status;
	position->staging = ori_dev_mapped_staging(w, remote.control, w->rank, m->channel);
	return ori_dev_channel_room(w, g, m->peer, m->channel, position->cursor + m->bytes,
				    timeout_ns, &position->credit);
}

/* Whole group: @m is written. */
ORIEL_DEV void ori_dev_message_send_end(const struct oriel_dev_window *w, struct oriel_dev_group g,
					const struct ori_dev_message *m,
					const struct ori_dev_message_cursor *position)
{
	struct oriel_dev_sender *end = &w->senders[(size_t)m->peer * w->channels + m->channel];

	/* All threads have loaded the cursors, and the caller may reuse the source. */
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g)) {
		oriel_dev_store_relaxed(&end->sent, position->cursor + m->bytes);
		oriel_dev_store_relaxed(&end->freed, position->credit);
		oriel_dev_store_relaxed(&end->form, m->form);
	}
	oriel_dev_sync(g);
}

/* Whole group: @m will arrive at *@position. */
ORIEL_DEV enum oriel_status ori_dev_message_recv_begin(const struct oriel_dev_window *w,
						       const struct ori_dev_message *m,
						       struct ori_dev_message_cursor *position)
{
	const struct oriel_dev_receiver *end;
	enum oriel_status status;

	status = ori_dev_check_other(w, ORIEL_DEV_RECV, m->peer, m->channel, w->channels);
	if (status != ORIEL_OK)
		return status;
	end = &w->receivers[(size_t)m->peer * w->channels + m->channel];
	position->cursor = oriel_dev_load_relaxed(&end->received);
	position->credit = oriel_dev_load_relaxed(&end->credited);
	if (oriel_dev_path(w, m->peer) != ORIEL_PATH_MAPPED ||
	    !ori_dev_message_suits(w, m, w->rank))
		return ORIEL_ERR_NO_PATH;
	position->staging = ori_dev_mapped_staging(w, w->control, m->peer, m->channel);
	return ori_dev_message_check(w, ORIEL_DEV_RECV, m, position->cursor,
				     oriel_dev_load_relaxed(&end->form));
}

/* Whole group: @m is taken. */
ORIEL_DEV enum oriel_status ori_dev_message_recv_end(const struct oriel_dev_window *w,
						     struct oriel_dev_group g,
						     const struct ori_dev_message *m,
						     const struct ori_dev_message_cursor *position)
{
	struct oriel_dev_receiver *end = &w->receivers[(size_t)m->peer * w->channels + m->channel];
	uint64_t received = position->cursor + m->bytes, credited = position->credit;
	enum oriel_status status = ORIEL_OK;

	if (oriel_dev_is_leader(g)) {
		if (received - credited >= w->channel_bytes / 4) {
			credited = received;
			status = ori_dev_channel_credit(w, m->peer, m->channel, received);
		}
		oriel_dev_store_relaxed(&end->received, received);
		oriel_dev_store_relaxed(&end->credited, credited);
		oriel_dev_store_relaxed(&end->form, m->form);
	}
	oriel_dev_sync(g);
	return status;
}

ORIEL_DEV struct ori_dev_ll_slot
ori_dev_message_ll_slot(const struct oriel_dev_window *w,
			const struct ori_dev_message_cursor *position)
{
	uint64_t line = position->cursor / ORIEL_LL_LINE;
	struct ori_dev_ll_slot lines = {position->staging, line, w->channel_bytes - 1,
					(uint32_t)line + 1, 1};

	return lines;
}

ORIEL_DEV struct ori_dev_ll128_slot
ori_dev_message_ll128_slot(const struct oriel_dev_window *w,
			   const struct ori_dev_message_cursor *position)
{
	uint64_t half = position->cursor / ORIEL_LL128_HALF;
	struct ori_dev_ll128_slot lines = {position->staging, half, w->channel_bytes - 1, half + 1,
					   1};

	return lines;
}

#endif
