/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notes of an all-to-all with messages of any lengths; dev/exchange.h calls it.
 *
 * Not to be called by users. It is compiled into programs, and so part of the ABI.
 */
#ifndef ORIEL_DEV_DETAIL_EXCHANGE_H
#define ORIEL_DEV_DETAIL_EXCHANGE_H

#include <oriel/dev/detail/gather.h>

/*
 * The note that a rank sends to each peer as it starts an execution: its side of the pair. It is
 * the credit as well: the peer may write to the view once it has the note.
 */
struct oriel_dev_note {
	uint64_t offset;      /* in the view of the note's sender, where the peer's message goes */
	uint64_t recv_length; /* bytes that the note's sender expects from the peer */
	uint64_t send_length; /* bytes that it sends to the peer */
	uint64_t reserved;
};

/* Returns the offset of the note from @source for @part in execution @epoch. */
ORIEL_DEV uint64_t ori_dev_exchange_note_offset(const struct oriel_dev_window *w,
						const struct oriel_dev_gather *c, uint32_t part,
						uint64_t epoch, uint32_t source)
{
	return c->staging + (((uint64_t)part * 2 + (epoch & 1)) * w->ranks + source) *
				    sizeof(struct oriel_dev_note);
}

/* One thread. Sends the note word by word, since there is no memory to put it from. */
ORIEL_DEV enum oriel_status ori_dev_exchange_send_note(const struct oriel_dev_window *w,
						       const struct oriel_dev_gather *c,
						       uint32_t part, uint64_t epoch, uint32_t peer,
						       const struct oriel_dev_alltoallv *entry)
{
	uint64_t to = ori_dev_exchange_note_offset(w, c, part, epoch, w->rank);
	enum oriel_status status;

	status = oriel_dev_put_value(w, peer, to, entry->recv_displacement, NULL);
	if (status == ORIEL_OK)
		status = oriel_dev_put_value(w, peer, to + 8, entry->recv_length, NULL);
	if (status == ORIEL_OK)
		status = oriel_dev_put_value(w, peer, to + 16, entry->send_length, NULL);
	if (status != ORIEL_OK)
		return status;
	return oriel_dev_signal(w, oriel_dev_thread(), peer, c->id + 2 * part, ORIEL_SIGNAL_ADD, 1,
				NULL);
}

/* Whole group: sends the notes to all peers; the threads share the peers. */
ORIEL_DEV enum oriel_status ori_dev_exchange_send_notes(const struct oriel_dev_window *w,
							struct oriel_dev_group g,
							const struct oriel_dev_gather *c,
							uint32_t part, uint64_t epoch,
							const struct oriel_dev_alltoallv *layout)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	oriel_dev_sync(g);
	for (i = 1 + g.rank; i < w->ranks && status == ORIEL_OK; i += g.size) {
		uint32_t peer = ori_dev_rank_after(w, i);

		status = ori_dev_exchange_send_note(w, c, part, epoch, peer, &layout[peer]);
	}
	return oriel_dev_vote(g, status);
}

/* The note of @peer, which has arrived; it is valid until this execution has ended. */
ORIEL_DEV struct oriel_dev_note ori_dev_exchange_note(const struct oriel_dev_window *w,
						      const struct oriel_dev_gather *c,
						      uint32_t part, uint64_t epoch, uint32_t peer)
{
	uint64_t at = ori_dev_exchange_note_offset(w, c, part, epoch, peer);
	const uint64_t *words = (const uint64_t *)(const void *)(w->table[w->rank].base + at);
	struct oriel_dev_note note = {0, 0, 0, 0};

	note.offset = oriel_dev_load_relaxed(words);
	note.recv_length = oriel_dev_load_relaxed(words + 1);
	note.send_length = oriel_dev_load_relaxed(words + 2);
	return note;
}

/* Both ranks of a pair compare the same four lengths, so both get the same answer. */
ORIEL_DEV bool ori_dev_exchange_lengths_match(const struct oriel_dev_note *note,
					      const struct oriel_dev_alltoallv *entry)
{
	return note->recv_length == entry->send_length && note->send_length == entry->recv_length;
}

/* Rejects received messages that exceed the result, and a message to itself of two lengths. */
ORIEL_DEV enum oriel_status ori_dev_exchange_check(const struct oriel_dev_window *w,
						   const struct oriel_dev_gather *c,
						   const struct oriel_dev_alltoallv *layout)
{
	const struct oriel_dev_alltoallv *own = &layout[w->rank];
	enum oriel_status status = ORIEL_OK;
	struct oriel_dev_target remote;
	uint32_t i;

	for (i = 0; i < w->ranks && status == ORIEL_OK; i++)
		status = ori_dev_check_range(w, ORIEL_DEV_ALLTOALLV, w->rank,
					     c->to + layout[i].recv_displacement,
					     layout[i].recv_length, &remote);
	if (status == ORIEL_OK && own->send_length != own->recv_length) {
		struct oriel_dev_aim aim = {NULL,     own->recv_length,
					    ORIEL_EQ, ORIEL_DEV_ALLTOALLV,
					    w->rank,  0};

		status = ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_MISMATCH, aim,
					own->send_length);
	}
	return status;
}

/* Whole group: puts the message to @peer, if the lengths of the pair match. */
ORIEL_DEV enum oriel_status ori_dev_exchange_send(const struct oriel_dev_window *w,
						  struct oriel_dev_group g,
						  const struct oriel_dev_gather *c, uint32_t part,
						  uint32_t parts, uint64_t epoch, uint32_t peer,
						  const void *from,
						  const struct oriel_dev_alltoallv *entry)
{
	struct oriel_dev_note note = ori_dev_exchange_note(w, c, part, epoch, peer);
	bool is_sent = note.recv_length != entry->send_length;
	/* The last field says which length differs: 0 the one sent to @peer, 1 the one received. */
	struct oriel_dev_aim aim = {NULL, note.recv_length, ORIEL_EQ, ORIEL_DEV_ALLTOALLV,
				    peer, !is_sent};

	if (!ori_dev_exchange_lengths_match(&note, entry)) {
		if (!is_sent)
			aim.operand = entry->recv_length;
		if (oriel_dev_is_leader(g))
			ori_dev_reject(ori_dev_reporter_of(w), ORIEL_ERR_MISMATCH, aim,
				       is_sent ? entry->send_length : note.send_length);
		return ORIEL_ERR_MISMATCH;
	}
	if (!entry->send_length)
		return ORIEL_OK;
	return ori_dev_gather_send(w, g, c, part, parts, peer, c->to + note.offset,
				   (const char *)from + entry->send_displacement,
				   entry->send_length);
}

/* Whole group: waits for the messages of all peers. */
ORIEL_DEV enum oriel_status
ori_dev_exchange_end(const struct oriel_dev_window *w, struct oriel_dev_group g,
		     const struct oriel_dev_gather *c, uint32_t part, uint64_t epoch,
		     const struct oriel_dev_alltoallv *layout, uint64_t timeout_ns)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	ORIEL_DEV_ROLL
	for (i = 1; i < w->ranks && status == ORIEL_OK; i++) {
		uint32_t peer = ori_dev_rank_after(w, w->ranks - i);
		struct oriel_dev_note note = ori_dev_exchange_note(w, c, part, epoch, peer);

		if (!note.send_length || !ori_dev_exchange_lengths_match(&note, &layout[peer]))
			continue;
		status =
			oriel_dev_wait_signal_next(w, g, peer, c->id + 2 * part + 1, 1, timeout_ns);
	}
	return status;
}

#endif
