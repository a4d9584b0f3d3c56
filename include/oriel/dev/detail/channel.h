/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a channel, on each path; dev/channel.h and messages call it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_CHANNEL_H
#define ORIEL_DEV_DETAIL_CHANNEL_H

#include <oriel/dev/detail/rdma.h>

/*
 * The sender announces each piece, so that the receiver copies out one while the next is copied
 * in: a quarter of the message, not so small that the announcement costs more than the copy,
 * and not more than a quarter of the staging, which is the credit that the receiver returns at
 * a time. An announcement costs a GPU a fence of 0.7 us, in which a block copies 32 KiB (1 MiB
 * both ways on H200s, 16 blocks of each: 16.0 us with pieces of 16 KiB, 11.9 us with those of
 * 64 KiB).
 */
#ifdef __CUDA_ARCH__
#define ORIEL_DEV_PIECE_MIN 65536u
#else
#define ORIEL_DEV_PIECE_MIN 4096u
#endif

ORIEL_DEV uint64_t ori_dev_channel_piece(const struct oriel_dev_window *w, uint64_t length)
{
	uint64_t piece = ((length >> 2) + 63) & ~(uint64_t)63;

	if (piece < ORIEL_DEV_PIECE_MIN)
		piece = ORIEL_DEV_PIECE_MIN;
	return piece < w->channel_bytes / 4 ? piece : w->channel_bytes / 4;
}

/*
 * The limit for the rest of a message whose first part was sent: the receiver cannot use half a
 * message, so a caller's own limit no longer holds.
 */
ORIEL_DEV uint64_t ori_dev_channel_rest(uint64_t timeout_ns)
{
	return timeout_ns == ORIEL_TIMEOUT_INFINITE ? ORIEL_TIMEOUT_INFINITE : 0;
}

/* Bytes of [cursor, cursor + wanted) up to the end of the staging. */
ORIEL_DEV uint64_t ori_dev_channel_run(const struct oriel_dev_window *w, uint64_t cursor,
				       uint64_t wanted)
{
	uint64_t run = w->channel_bytes - (cursor & (w->channel_bytes - 1));

	return wanted < run ? wanted : run;
}

/*
 * Whole group. Wait until *@word has passed @cursor; *@seen is its value then,
 * the same for all.
 */
ORIEL_DEV enum oriel_status ori_dev_channel_wait(const struct oriel_dev_window *w,
						 struct oriel_dev_group g,
						 const struct oriel_dev_aim *aim,
						 uint64_t timeout_ns, uint64_t *seen)
{
	enum oriel_status status = ORIEL_OK;

	if (ori_dev_is_poller(g))
		status = ori_dev_wait_value(w, g, aim, timeout_ns, seen);
	return ori_dev_share_result(g, status, seen);
}

/*
 * Whole group: wait until the stream to @peer has room up to byte @end. No piece is more than a
 * quarter of the staging, so if one has to wait, more than three quarters are under way, and
 * the receiver will return some of them.
 */
ORIEL_DEV enum oriel_status ori_dev_channel_room(const struct oriel_dev_window *w,
						 struct oriel_dev_group g, uint32_t peer,
						 uint32_t channel, uint64_t end,
						 uint64_t timeout_ns, uint64_t *freed)
{
	const uint64_t *credit = &ori_dev_mapped_channel(w, w->control, peer, channel)->freed;
	struct oriel_dev_aim aim = {
		credit, end - w->channel_bytes, ORIEL_DEV_PASSED, ORIEL_DEV_SEND, peer, channel};

	if (end - *freed <= w->channel_bytes)
		return ORIEL_OK;
	return ori_dev_channel_wait(w, g, &aim, timeout_ns, freed);
}

/* No stream goes through a channel that has carried messages, @form: dev/message.h. */
ORIEL_DEV enum oriel_status ori_dev_channel_check(const struct oriel_dev_window *w, uint32_t what,
						  uint32_t peer, uint32_t channel, uint64_t form)
{
	struct oriel_dev_aim aim = {NULL, ORIEL_DEV_FORM_STREAM, ORIEL_EQ, what, peer, channel};

	if (ORIEL_DEV_OFTEN(form == ORIEL_DEV_FORM_STREAM))
		return ORIEL_OK;
	return ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_STATE, aim, form);
}

/* Whole group. The mapped path of oriel_dev_send(). */
ORIEL_DEV enum oriel_status ori_dev_mapped_send(const struct oriel_dev_window *w,
						struct oriel_dev_group g, uint32_t peer,
						uint32_t channel, const void *source,
						uint64_t length, uint64_t timeout_ns)
{
	struct oriel_dev_sender *end = &w->senders[(size_t)peer * w->channels + channel];
	char *control = ori_dev_peer_of(w, peer).control;
	struct oriel_dev_channel *remote = ori_dev_mapped_channel(w, control, w->rank, channel);
	char *staging = ori_dev_mapped_staging(w, control, w->rank, channel);
	const char *from = (const char *)source;
	uint64_t most = ori_dev_channel_piece(w, length);
	uint64_t sent = end->sent, freed = end->freed;
	enum oriel_status status;

	status = ori_dev_channel_check(w, ORIEL_DEV_SEND, peer, channel, end->form);
	if (status != ORIEL_OK)
		return status;
	ORIEL_DEV_ROLL
	while (length) {
		uint64_t piece = ori_dev_channel_run(w, sent, length < most ? length : most);

		status =
			ori_dev_channel_room(w, g, peer, channel, sent + piece, timeout_ns, &freed);
		if (status != ORIEL_OK)
			return status;
		ori_dev_mapped_copy(g, staging + (sent & (w->channel_bytes - 1)), from, piece);
		oriel_dev_sync(g);
		sent += piece;
		from += piece;
		length -= piece;
		/* Acquired by the receiver's wait in ori_dev_channel_recv(). */
		if (oriel_dev_is_leader(g)) {
			ori_dev_release_begin_at(&remote->ready);
			ori_dev_release_store(&remote->ready, sent);
			end->sent = sent;
			end->freed = freed;
		}
		timeout_ns = ori_dev_channel_rest(timeout_ns);
	}
	oriel_dev_sync(g);
	return ORIEL_OK;
}

/* Offset of the words of @channel that this rank writes at a peer. */
ORIEL_DEV uint64_t ori_dev_channel_at(const struct oriel_dev_window *w, uint32_t channel)
{
	return w->channels_at +
	       ((uint64_t)w->rank * w->channels + channel) * sizeof(struct oriel_dev_channel);
}

/* One thread, the leader: put a piece into the peer's staging and announce it, in one post. */
ORIEL_DEV int64_t ori_dev_rdma_send_piece(const struct oriel_dev_window *w, uint32_t peer,
					  uint32_t channel, const char *from, uint64_t sent,
					  uint64_t piece)
{
	const struct oriel_dev_link *l = w->peers[peer].link;
	struct ori_dev_rdma_address ready =
		ori_dev_rdma_control(w, peer, ori_dev_channel_at(w, channel));
	struct ori_dev_link_queue q = ori_dev_link_take(l);
	/* Before the post begins, since memory may have to be registered. */
	struct ori_dev_rdma_address source = ori_dev_rdma_local(w, peer, from, piece, false);
	struct ori_dev_link_post post =
		ori_dev_link_begin(l, q, ORIEL_DEV_SEND, 2 + ori_dev_link_read_flushes(l));
	uint64_t staging = w->staging_at +
			   ((uint64_t)w->rank * w->channels + channel) * w->channel_bytes +
			   (sent & (w->channel_bytes - 1));
	uint64_t end = sent + piece;

	if (post.status != ORIEL_OK)
		return post.status;
	ori_dev_link_add_write(&post, ori_dev_rdma_control(w, peer, staging), source, piece);
	ori_dev_link_add_value(&post, ready, end, ori_dev_link_add_read_flush(l, &post, ready));
	return ori_dev_link_end(l, ORIEL_DEV_SEND, &post);
}

/* Whole group. The rdma path of oriel_dev_send(): the NIC reads @source. */
ORIEL_DEV enum oriel_status ori_dev_rdma_send(const struct oriel_dev_window *w,
					      struct oriel_dev_group g, uint32_t peer,
					      uint32_t channel, const void *source, uint64_t length,
					      uint64_t timeout_ns)
{
	struct oriel_dev_sender *end = &w->senders[(size_t)peer * w->channels + channel];
	const char *from = (const char *)source;
	uint64_t most = ori_dev_channel_piece(w, length);
	uint64_t sent = end->sent, freed = end->freed;
	enum oriel_status status = ORIEL_OK, ended;
	int64_t ticket = -1, posted = 0;

	if (!length)
		return ori_dev_rdma_reach(w, peer);
	oriel_dev_sync(g);
	while (length) {
		uint64_t piece = ori_dev_channel_run(w, sent, length < most ? length : most);

		status =
			ori_dev_channel_room(w, g, peer, channel, sent + piece, timeout_ns, &freed);
		if (status != ORIEL_OK)
			break;
		if (oriel_dev_is_leader(g))
			posted = ori_dev_rdma_send_piece(w, peer, channel, from, sent, piece);
		posted = ori_dev_link_ticket(g, posted);
		/* A piece that was not posted is no part of the stream. */
		if (posted < 0) {
			status = (enum oriel_status)posted;
			break;
		}
		ticket = posted;
		sent += piece;
		from += piece;
		length -= piece;
		if (oriel_dev_is_leader(g)) {
			end->sent = sent;
			end->freed = freed;
		}
		timeout_ns = ori_dev_channel_rest(timeout_ns);
	}
	if (ticket < 0)
		return status;
	/* The caller may reuse the source, also if the stream ends here. */
	ended = ori_dev_link_wait_local(w->peers[peer].link, g, ticket, 0);
	return status == ORIEL_OK ? ended : status;
}

/* One thread: write to @peer how many bytes of its stream this rank has taken. */
ORIEL_DEV enum oriel_status ori_dev_channel_credit(const struct oriel_dev_window *w, uint32_t peer,
						   uint32_t channel, uint64_t received)
{
	int64_t ticket = 0;

	if (ori_dev_is_rdma(w, peer))
		ticket =
			ori_dev_link_put_value(w->peers[peer].link, oriel_dev_thread(),
					       ori_dev_rdma_control(w, peer,
								    ori_dev_channel_at(w, channel) +
									    ORIEL_DEV_LINE),
					       received);
	else
		/* Acquired by the sender's wait for room. */
		oriel_dev_store_release(&ori_dev_mapped_channel(w, ori_dev_peer_of(w, peer).control,
								w->rank, channel)
						 ->freed,
					received);
	return ticket < 0 ? (enum oriel_status)ticket : ORIEL_OK;
}

/* Whole group: oriel_dev_recv(), whatever the path: the staging is this rank's. */
ORIEL_DEV enum oriel_status ori_dev_channel_recv(const struct oriel_dev_window *w,
						 struct oriel_dev_group g, uint32_t peer,
						 uint32_t channel, void *target, uint64_t length,
						 uint64_t timeout_ns)
{
	struct oriel_dev_receiver *end = &w->receivers[(size_t)peer * w->channels + channel];
	const char *staging = ori_dev_mapped_staging(w, w->control, peer, channel);
	const uint64_t *ready = &ori_dev_mapped_channel(w, w->control, peer, channel)->ready;
	char *to = (char *)target;
	uint64_t received = end->received, credited = end->credited, arrived = received;
	enum oriel_status status;

	status = ori_dev_channel_check(w, ORIEL_DEV_RECV, peer, channel, end->form);
	if (status != ORIEL_OK)
		return status;
	ORIEL_DEV_ROLL
	while (length) {
		const char *from = staging + (received & (w->channel_bytes - 1));
		uint64_t piece;

		if (arrived == received) {
			/*
			 * Not "another one": a write of a word by Soft-RoCE is seen byte by
			 * byte, from the lowest on, as less than the old value if it carries.
			 */
			struct oriel_dev_aim aim = {ready,          received + 1, ORIEL_DEV_PASSED,
						    ORIEL_DEV_RECV, peer,         channel};

			status = ori_dev_channel_wait(w, g, &aim, timeout_ns, &arrived);
			if (status != ORIEL_OK)
				return status;
		}
		piece = length < arrived - received ? length : arrived - received;
		piece = ori_dev_channel_run(w, received, piece);
		ori_dev_mapped_copy(g, to, from, piece);
		oriel_dev_sync(g);
		if (oriel_dev_is_leader(g) && !ori_dev_is_rdma(w, peer))
			ori_dev_mapped_own(from, piece);
		received += piece;
		to += piece;
		length -= piece;
		/*
		 * Credit is returned in quarters: a word for each message would cost the sender
		 * a cache miss for each.
		 */
		if (received - credited >= w->channel_bytes / 4) {
			credited = received;
			status = ORIEL_OK;
			if (oriel_dev_is_leader(g))
				status = ori_dev_channel_credit(w, peer, channel, received);
			status = oriel_dev_vote(g, status);
			if (status != ORIEL_OK)
				return status;
		}
		if (oriel_dev_is_leader(g)) {
			end->received = received;
			end->credited = credited;
		}
		timeout_ns = ori_dev_channel_rest(timeout_ns);
	}
	oriel_dev_sync(g);
	return ORIEL_OK;
}

#endif
