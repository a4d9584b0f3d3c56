/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-to-alls. What goes to this node is copied by engines. What goes to another one is
 * memory that no adapter knows: engines copy it, part after part, to a slot of the
 * staging, from where it is put, and parts for different ranks take turns. A put needs
 * nobody but the rank that it goes to, which expects it from its start on, so slots become
 * free again whatever the others do.
 *
 * With portions each rank tells each other one by a note of oriel/dev/exchange.h where
 * what comes from it is to stand, and what the two of them mean to send.
 */
#include "base/error.h"
#include "coll/far.h"

static uint64_t exchange_parts(const struct ori_far *far, uint64_t length)
{
	return (length + far->stage->slot - 1) / far->stage->slot;
}

static enum oriel_status exchange_check(const struct ori_far *far)
{
	const struct oriel_dev_portion *portions = far->stage->portions, *p;
	uint32_t ranks = far->device.ranks, own = far->device.rank, i;

	for (i = 0; i < ranks; i++) {
		p = &portions[i];
		if (p->recv_length > far->length || p->recv_at > far->length - p->recv_length)
			return ori_fail(ORIEL_ERR_RANGE,
					"all-to-all: %llu bytes from rank %u are to stand at %llu "
					"of a view of %zu",
					(unsigned long long)p->recv_length, i,
					(unsigned long long)p->recv_at, far->length);
	}
	p = &portions[own];
	if (p->send_length != p->recv_length)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"all-to-all: rank %u sends itself %llu bytes and expects %llu", own,
				(unsigned long long)p->send_length,
				(unsigned long long)p->recv_length);
	return ORIEL_OK;
}

/* That ranks may write to the view: those of other nodes know it by what is expected. */
static enum oriel_status exchange_tell(struct ori_far *far, uint32_t rank)
{
	struct ori_far_stage *stage = far->stage;
	int64_t posted;

	if (far->run.job->portions) {
		posted = oriel_exchange_tell(&far->device, &stage->series, 0, stage->epoch, rank,
					     &stage->portions[rank]);
		return posted < 0 ? (enum oriel_status)posted : ORIEL_OK;
	}
	return far->peers[rank].view ? ori_far_raise(far, rank, ORI_FAR_CREDIT) : ORIEL_OK;
}

/* The portions are here. */
static enum oriel_status exchange_start(struct ori_far *far)
{
	const struct oriel_dev_portion *portions = far->stage->portions;
	const struct oriel_dev_portion *own = &portions[far->device.rank];
	const char *send = far->run.job->send;
	enum oriel_status status = exchange_check(far);
	struct ori_far_peer *peer;
	uint32_t i, rank;

	if (far->run.job->portions)
		far->stage->epoch++;
	for (i = 1; i < far->device.ranks && status == ORIEL_OK; i++) {
		rank = oriel_dev_rank_after(&far->device, i);
		peer = &far->peers[rank];
		if (peer->p2p)
			peer->due = exchange_parts(far, portions[rank].recv_length);
		peer->is_awaited = peer->view && portions[rank].recv_length;
		status = exchange_tell(far, rank);
	}
	if (status == ORIEL_OK && own->send_length)
		status = oriel_copies_add(far->copies, far->run.lane++,
					  far->g->result + own->recv_at, send + own->send_at,
					  own->send_length);
	return status;
}

static enum oriel_status exchange_begin(struct ori_far *far)
{
	const struct ori_far_job *job = far->run.job;
	uint32_t ranks = far->device.ranks, rank;

	if (job->portions) {
		far->run.is_reading = true;
		return oriel_copies_add(far->copies, 0, far->stage->portions, job->portions,
					ranks * sizeof(*job->portions));
	}
	for (rank = 0; rank < ranks; rank++)
		far->stage->portions[rank] =
			(struct oriel_dev_portion){rank * job->bytes, job->bytes, rank * job->bytes,
						   job->bytes};
	return exchange_start(far);
}

/* Both ranks of a pair look, and both come to the same answer. */
static enum oriel_status exchange_compare(const struct ori_far *far, uint32_t rank)
{
	const struct oriel_dev_portion *portion = &far->stage->portions[rank];
	const struct oriel_dev_note *note = &far->stage->notes[rank];
	bool is_sent = note->room != portion->send_length;

	if (oriel_exchange_fits(note, portion))
		return ORIEL_OK;
	return ori_fail(
		ORIEL_ERR_MISMATCH,
		is_sent ? "all-to-all: %llu bytes are for rank %u, which expects %llu"
			: "all-to-all: %llu bytes are expected of rank %u, which sends %llu",
		(unsigned long long)(is_sent ? portion->send_length : portion->recv_length), rank,
		(unsigned long long)(is_sent ? note->room : note->send));
}

/* Its note, if it has come, or what that would say. */
static enum oriel_status exchange_meet(struct ori_far *far, uint32_t rank)
{
	const struct ori_far_job *job = far->run.job;
	struct oriel_dev_note *note = &far->stage->notes[rank];
	struct ori_far_peer *peer = &far->peers[rank];
	enum oriel_status status = ORIEL_OK;

	if (job->portions || peer->view)
		status = ori_far_test_signal(far, rank, ORI_FAR_CREDIT, &peer->credits);
	if (status != ORIEL_OK)
		return status;
	*note = (struct oriel_dev_note){far->device.rank * job->bytes, job->bytes, job->bytes, 0};
	if (job->portions)
		*note = oriel_exchange_note(&far->device, &far->stage->series, 0, far->stage->epoch,
					    rank);
	peer->has_credit = true;
	return exchange_compare(far, rank);
}

/* What goes to a rank of this node. */
static enum oriel_status exchange_copy(struct ori_far *far, uint32_t rank)
{
	const struct oriel_dev_portion *portion = &far->stage->portions[rank];
	struct ori_far_peer *peer = &far->peers[rank];

	if (!peer->view || !portion->send_length)
		return ORIEL_OK;
	peer->is_told = true;
	return oriel_copies_add(far->copies, far->run.lane++,
				peer->view + far->stage->notes[rank].at,
				far->run.job->send + portion->send_at, portion->send_length);
}

/* Those who have come since; ORIEL_AGAIN: not all have. */
static enum oriel_status exchange_meet_all(struct ori_far *far, bool *has_moved)
{
	enum oriel_status status, all = ORIEL_OK;
	uint32_t i, rank;

	for (i = 1; i < far->device.ranks; i++) {
		rank = oriel_dev_rank_after(&far->device, i);
		if (far->peers[rank].has_credit)
			continue;
		status = exchange_meet(far, rank);
		if (status == ORIEL_AGAIN) {
			all = ORIEL_AGAIN;
			continue;
		}
		if (status == ORIEL_OK)
			status = exchange_copy(far, rank);
		if (status != ORIEL_OK)
			return status;
		*has_moved = true;
	}
	return all;
}

static uint64_t exchange_rest(const struct ori_far *far, uint32_t rank)
{
	const struct ori_far_peer *peer = &far->peers[rank];

	return peer->p2p ? far->stage->portions[rank].send_length - peer->sent : 0;
}

/* The rank whose turn it is to have a slot; ORI_PLAN_OWN: nobody needs one. */
static uint32_t exchange_turn(struct ori_far *far)
{
	uint32_t ranks = far->device.ranks, i, rank;
	const struct ori_far_peer *peer;

	for (i = 0; i < ranks; i++) {
		rank = (far->run.next + i) % ranks;
		peer = &far->peers[rank];
		if (!peer->has_credit || peer->slots == ORI_FAR_REQUESTS ||
		    !exchange_rest(far, rank))
			continue;
		far->run.next = rank + 1;
		return rank;
	}
	return ORI_PLAN_OWN;
}

static enum oriel_status slot_fill(struct ori_far *far, struct ori_far_slot *slot, uint32_t rank)
{
	const struct oriel_dev_portion *portion = &far->stage->portions[rank];
	uint64_t rest = exchange_rest(far, rank);
	struct ori_far_peer *peer = &far->peers[rank];
	unsigned number = (unsigned)(slot - far->stage->slots);

	slot->state = ORI_FAR_COPYING;
	slot->peer = rank;
	slot->at = far->stage->notes[rank].at + peer->sent;
	slot->length = rest < far->stage->slot ? rest : far->stage->slot;
	slot->place = far->stage->base + number * far->stage->slot;
	peer->sent += slot->length;
	peer->slots++;
	return oriel_copies_add(far->stage->copies, number, slot->place,
				far->run.job->send + portion->send_at + peer->sent - slot->length,
				slot->length);
}

static enum oriel_status slot_put(struct ori_far *far, struct ori_far_slot *slot)
{
	const struct oriel_p2p_buffer from = {slot->place, slot->length, far->stage->memory};
	const struct ori_far_peer *peer = &far->peers[slot->peer];

	slot->state = ORI_FAR_PUTTING;
	return oriel_p2p_put(peer->p2p, 0, &from, &peer->remote, slot->at, &slot->request);
}

/* One look; what has been copied is put once nothing is being copied any more. */
static enum oriel_status slot_look(struct ori_far *far, struct ori_far_slot *slot, bool is_copied,
				   bool *has_moved)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t rank;

	if (slot->state == ORI_FAR_PUTTING) {
		status = slot->request.status;
		if (status != ORIEL_OK)
			return status == ORIEL_AGAIN ? ORIEL_OK : status;
		slot->state = ORI_FAR_FREE;
		far->peers[slot->peer].slots--;
		*has_moved = true;
	}
	if (slot->state == ORI_FAR_COPYING && is_copied) {
		*has_moved = true;
		return slot_put(far, slot);
	}
	rank = slot->state == ORI_FAR_FREE ? exchange_turn(far) : ORI_PLAN_OWN;
	if (rank == ORI_PLAN_OWN)
		return status;
	*has_moved = true;
	return slot_fill(far, slot, rank);
}

static enum oriel_status exchange_put(struct ori_far *far, bool *has_moved)
{
	enum oriel_status status = oriel_copies_test(far->stage->copies);
	bool is_copied = status == ORIEL_OK;
	unsigned i;

	for (i = 0; i < ORI_FAR_SLOTS && status >= 0; i++)
		status = slot_look(far, &far->stage->slots[i], is_copied, has_moved);
	return status < 0 ? status : ORIEL_OK;
}

static bool exchange_is_put(const struct ori_far *far)
{
	uint32_t rank;

	for (rank = 0; rank < far->device.ranks; rank++)
		if (exchange_rest(far, rank) || far->peers[rank].slots)
			return false;
	return true;
}

static enum oriel_status exchange_move(struct ori_far *far, bool *has_moved)
{
	enum oriel_status status, met;

	if (far->run.is_reading) {
		status = oriel_copies_test(far->copies);
		if (status == ORIEL_OK)
			status = exchange_start(far);
		if (status != ORIEL_OK)
			return status;
		far->run.is_reading = false;
		*has_moved = true;
	}
	met = exchange_meet_all(far, has_moved);
	status = met < 0 ? met : exchange_put(far, has_moved);
	if (status != ORIEL_OK)
		return status;
	return met == ORIEL_OK && exchange_is_put(far) ? ORIEL_OK : ORIEL_AGAIN;
}

/* The first that has not come, or that does not let what is for it be put. */
static uint32_t exchange_blame(const struct ori_far *far)
{
	const struct ori_far_peer *peer;
	uint32_t rank;

	for (rank = 0; rank < far->device.ranks && !far->run.is_reading; rank++) {
		peer = &far->peers[rank];
		if (rank != far->device.rank &&
		    (!peer->has_credit || peer->slots || exchange_rest(far, rank)))
			return rank;
	}
	return ORI_PLAN_OWN;
}

static const struct ori_far_way exchange_way = {exchange_begin, exchange_move, exchange_blame};

enum oriel_status ori_far_exchange(struct oriel_allgather *g, const void *send,
				   const struct oriel_dev_portion *portions, size_t bytes,
				   void *stream)
{
	const struct ori_far_job job = {
		.way = &exchange_way, .g = g, .bytes = bytes, .send = send, .portions = portions};

	return ori_far_post(&job, stream);
}
