/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device functions for a broadcast, and for an all-to-all with messages of any lengths. Series,
 * groups and parts are those of oriel/dev/gather.h; docs/allgather.md says why both are correct.
 * Kernels and host threads call them.
 */
#ifndef ORIEL_DEV_EXCHANGE_H
#define ORIEL_DEV_EXCHANGE_H

#include <oriel/dev/detail/exchange.h>

/* Any thread, and the host: bytes of the staging for the notes of @ranks ranks and @parts parts. */
ORIEL_DEV uint64_t oriel_dev_exchange_staging(uint32_t ranks, uint32_t parts)
{
	return 2 * (uint64_t)ranks * parts * sizeof(struct oriel_dev_note);
}

/*
 * Whole group: one execution in which the message of @root is written to the beginning of the
 * result of every rank. Only the root reads @from. It puts to a peer after that peer's credit, a
 * signal which says that the previous result there is no longer read.
 */
ORIEL_DEV enum oriel_status oriel_dev_broadcast(const struct oriel_dev_window *w,
						struct oriel_dev_group g,
						const struct oriel_dev_gather *c, uint32_t part,
						uint32_t parts, uint32_t root, const void *from,
						uint64_t length, uint64_t timeout_ns)
{
	enum oriel_status status = ori_dev_gather_check(w, c, part, parts);
	uint32_t id = c->id + 2 * part, i;

	if (status == ORIEL_OK)
		status = ori_dev_check_id(w, ORIEL_DEV_SIGNAL, root, id, w->signals);
	if (status != ORIEL_OK || !length)
		return status;
	if (root != w->rank) {
		status = oriel_dev_signal(w, g, root, id, ORIEL_SIGNAL_ADD, 1, NULL);
		if (status != ORIEL_OK)
			return status;
		return oriel_dev_wait_signal_next(w, g, root, id + 1, 1, timeout_ns);
	}
	if (c->result != (const char *)from)
		ori_dev_mapped_copy_turns(g, part, parts, c->result, (const char *)from, length);
	ORIEL_DEV_ROLL
	for (i = 1; i < w->ranks && status == ORIEL_OK; i++) {
		uint32_t peer = ori_dev_rank_after(w, i);

		status = oriel_dev_wait_signal_next(w, g, peer, id, 1, timeout_ns);
		if (status == ORIEL_OK)
			status = ori_dev_gather_send(w, g, c, part, parts, peer, c->to, from,
						     length);
	}
	if (status == ORIEL_OK && w->rails)
		status = oriel_dev_drain(w, g, timeout_ns);
	return status;
}

/*
 * Whole group: one all-to-all of messages of any lengths. @layout has one entry for each rank, and
 * all threads read it. @from does not overlap the result. Each rank sends each peer a note: where
 * the peer's message goes, and the lengths that it assumes. The note is also the credit: the
 * previous result is no longer read. The two halves of the staging alternate: a rank writes the
 * note of execution n + 2 after it has the notes of n + 1, so all ranks have read those of n.
 *
 * ORIEL_ERR_MISMATCH, on both ranks of a pair: their lengths differ. Nothing was sent between these
 * two, all other messages are complete, and the next execution may be started.
 * ORIEL_ERR_RANGE, and ORIEL_ERR_MISMATCH where the message of this rank to itself has two lengths:
 * nothing was done, but the peers wait.
 */
ORIEL_DEV enum oriel_status
oriel_dev_exchange(const struct oriel_dev_window *w, struct oriel_dev_group g,
		   const struct oriel_dev_gather *c, uint32_t part, uint32_t parts,
		   const void *from, const struct oriel_dev_alltoallv *layout, uint64_t timeout_ns)
{
	enum oriel_status status = ori_dev_gather_check(w, c, part, parts), ended, sent = ORIEL_OK;
	const struct oriel_dev_alltoallv *own = &layout[w->rank];
	uint64_t epoch;
	uint32_t i;

	if (status == ORIEL_OK)
		status = oriel_dev_vote(g, oriel_dev_is_leader(g)
						   ? ori_dev_exchange_check(w, c, layout)
						   : ORIEL_OK);
	if (status != ORIEL_OK)
		return status;
	epoch = oriel_dev_load_relaxed(ori_dev_gather_count(w, c, part)) + 1;
	status = ori_dev_exchange_send_notes(w, g, c, part, epoch, layout);
	if (status == ORIEL_OK)
		ori_dev_mapped_copy_turns(g, part, parts, c->result + own->recv_displacement,
					  (const char *)from + own->send_displacement,
					  own->send_length);
	ORIEL_DEV_ROLL
	for (i = 1; i < w->ranks && status == ORIEL_OK; i++) {
		uint32_t peer = ori_dev_rank_after(w, i);

		status = oriel_dev_wait_signal_next(w, g, peer, c->id + 2 * part, 1, timeout_ns);
		if (status == ORIEL_OK)
			status = ori_dev_exchange_send(w, g, c, part, parts, epoch, peer, from,
						       &layout[peer]);
		if (status == ORIEL_ERR_MISMATCH) {
			sent = status;
			status = ORIEL_OK;
		}
	}
	if (status == ORIEL_OK)
		status = ori_dev_exchange_end(w, g, c, part, epoch, layout, timeout_ns);
	ended = status;
	if (status == ORIEL_OK && w->rails)
		ended = oriel_dev_drain(w, g, timeout_ns);
	/* All threads have loaded the count. */
	oriel_dev_sync(g);
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(ori_dev_gather_count(w, c, part), epoch);
	return ended == ORIEL_OK ? sent : ended;
}

#endif
