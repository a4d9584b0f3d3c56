/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-to-alls over several nodes of GPUs, to views or to the rows of a reduction, and the parts of
 * one that gathers and scatters are, called by alltoall.c, reduce_internode.c, root_run.c and by
 * the job of gather_internode.c. Copy engines copy messages for ranks of this node straight to
 * their views. Messages for other nodes lie in memory that is not registered with the NICs: copy
 * engines copy them part by part to slots of the staging, from where they are put, and the target
 * ranks take turns. A put depends on its target alone, which expects it from its start on, so slots
 * become free again whatever other ranks do.
 *
 * With lengths and displacements each rank sends each peer a note (oriel/dev/exchange.h) that
 * says where the message of that peer goes and which lengths it assumes.
 */
#include "base/error.h"
#include "coll/internode.h"

static uint64_t alltoall_parts(const struct ori_internode *internode, uint64_t length)
{
	return (length + internode->stage->slot - 1) / internode->stage->slot;
}

/* A layout of the caller. */
static enum oriel_status alltoall_check_layout(const struct ori_internode *internode)
{
	const struct oriel_dev_alltoallv *layout = internode->stage->layout, *p;
	uint32_t ranks = internode->device.ranks, own = internode->device.rank, i;

	for (i = 0; i < ranks; i++) {
		p = &layout[i];
		if (p->recv_length > internode->length ||
		    p->recv_displacement > internode->length - p->recv_length)
			return ori_fail(ORIEL_ERR_RANGE,
					"all-to-all: %llu bytes from rank %u at displacement %llu "
					"exceed the view of %zu bytes",
					(unsigned long long)p->recv_length, i,
					(unsigned long long)p->recv_displacement,
					internode->length);
	}
	p = &layout[own];
	if (p->send_length != p->recv_length)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"all-to-all: rank %u sends itself %llu bytes and expects %llu", own,
				(unsigned long long)p->send_length,
				(unsigned long long)p->recv_length);
	return ORIEL_OK;
}

/*
 * Grants @rank the credit: it may write to the view of this rank. With equal lengths a rank of
 * another node needs none, since its put waits until it is expected, and neither does one that
 * sends nothing.
 */
static enum oriel_status alltoall_announce(struct ori_internode *internode, uint32_t rank)
{
	struct ori_internode_stage *stage = internode->stage;

	if (internode->run.job->layout)
		return ori_dev_exchange_send_note(&internode->device, &stage->series, 0,
						  stage->epoch, rank, &stage->layout[rank]);
	return internode->peers[rank].awaits_data
		       ? ori_internode_send_signal(internode, rank, ORI_INTERNODE_CREDIT)
		       : ORIEL_OK;
}

/* Without a layout of the caller: which message does @from send to @to? */
static uint32_t alltoall_index(const struct ori_internode_job *job, uint32_t from, uint32_t to)
{
	const struct ori_shape *shape = &job->g->shape;

	switch (job->route) {
	case ORI_INTERNODE_TO_ROOT:
		return from;
	case ORI_INTERNODE_IN_NODE: /* the first of several */
		return shape->local_rank_of[to];
	case ORI_INTERNODE_IN_RAIL:
		return shape->node_of[to];
	default:
		return to;
	}
}

static bool alltoall_sends(const struct ori_internode_job *job, uint32_t from, uint32_t to)
{
	const struct ori_shape *shape = &job->g->shape;

	switch (job->route) {
	case ORI_INTERNODE_TO_ROOT:
		return to == job->root;
	case ORI_INTERNODE_FROM_ROOT:
		return from == job->root;
	case ORI_INTERNODE_IN_NODE:
		return shape->node_of[from] == shape->node_of[to];
	case ORI_INTERNODE_IN_RAIL:
		return shape->local_rank_of[from] == shape->local_rank_of[to];
	default:
		return true;
	}
}

/* The bytes of the message of @from for @to; of several, those of the first, which has most. */
static size_t alltoall_length(const struct ori_internode_job *job, uint32_t from, uint32_t to)
{
	return alltoall_sends(job, from, to)
		       ? ori_internode_length(job, alltoall_index(job, from, to))
		       : 0;
}

/* Where the message of @from lies at its target. */
static size_t alltoall_place(const struct ori_internode_job *job, uint32_t from)
{
	const struct ori_shape *shape = &job->g->shape;
	size_t place = from;

	if (job->route == ORI_INTERNODE_IN_NODE)
		place = (size_t)shape->local_rank_of[from] * shape->nodes;
	if (job->route == ORI_INTERNODE_IN_RAIL)
		place = shape->node_of[from];
	return job->at + place * job->row;
}

/*
 * Copies the message for @rank of this node to @to. In a node it is followed there by those for the
 * other nodes, of which the last ones may be shorter and then have no bytes.
 */
static enum oriel_status alltoall_copy_to(struct ori_internode *internode, uint32_t rank, char *to)
{
	const struct oriel_dev_alltoallv *entry = &internode->stage->layout[rank];
	const struct ori_internode_job *job = internode->run.job;
	const struct ori_shape *shape = &job->g->shape;
	uint32_t nodes = job->route == ORI_INTERNODE_IN_NODE ? shape->nodes : 1, node, index;
	enum oriel_status status =
		oriel_copies_add(internode->copies, internode->run.lane++, to,
				 job->send + entry->send_displacement, entry->send_length);

	for (node = 1; node < nodes && status == ORIEL_OK; node++) {
		index = shape->first[node] + shape->local_rank_of[rank];
		if (ori_internode_length(job, index))
			status = oriel_copies_add(internode->copies, internode->run.lane++,
						  to + node * job->row,
						  job->send + index * job->stride,
						  ori_internode_length(job, index));
	}
	return status;
}

/* A gather or a scatter in place has its own message where it belongs. */
static enum oriel_status alltoall_copy_own(struct ori_internode *internode)
{
	const struct oriel_dev_alltoallv *own = &internode->stage->layout[internode->device.rank];
	const struct ori_internode_job *job = internode->run.job;
	const char *from;
	char *to;

	if (!own->send_length)
		return ORIEL_OK;
	from = job->send + own->send_displacement;
	to = (job->is_to_rows ? internode->stage->rows : internode->g->result) +
	     own->recv_displacement;
	return from == to ? ORIEL_OK : alltoall_copy_to(internode, internode->device.rank, to);
}

/* The layout is in host memory. */
static enum oriel_status alltoall_start(struct ori_internode *internode)
{
	const struct oriel_dev_alltoallv *layout = internode->stage->layout;
	enum oriel_status status = ORIEL_OK;
	struct ori_internode_peer *peer;
	uint32_t i, rank;

	if (internode->run.job->layout) {
		status = alltoall_check_layout(internode);
		internode->stage->epoch++;
	}
	for (i = 1; i < internode->device.ranks && status == ORIEL_OK; i++) {
		rank = ori_dev_rank_after(&internode->device, i);
		peer = &internode->peers[rank];
		if (peer->p2p)
			peer->due = alltoall_parts(internode, layout[rank].recv_length);
		peer->awaits_data = peer->view && layout[rank].recv_length;
		status = alltoall_announce(internode, rank);
	}
	return status == ORIEL_OK ? alltoall_copy_own(internode) : status;
}

static enum oriel_status alltoall_begin(struct ori_internode *internode)
{
	const struct ori_internode_job *job = internode->run.job;
	uint32_t ranks = internode->device.ranks, own = internode->device.rank, rank;

	if (job->layout) {
		internode->run.is_reading = true;
		return oriel_copies_add(internode->copies, 0, internode->stage->layout, job->layout,
					ranks * sizeof(*job->layout));
	}
	for (rank = 0; rank < ranks; rank++)
		internode->stage->layout[rank] =
			(struct oriel_dev_alltoallv){alltoall_index(job, own, rank) * job->stride,
						     alltoall_length(job, own, rank),
						     alltoall_place(job, rank),
						     alltoall_length(job, rank, own)};
	return alltoall_start(internode);
}

/* Both ranks of a pair compare the same four lengths, so both get the same answer. */
static enum oriel_status alltoall_compare(const struct ori_internode *internode, uint32_t rank)
{
	const struct oriel_dev_alltoallv *entry = &internode->stage->layout[rank];
	const struct oriel_dev_note *note = &internode->stage->notes[rank];
	bool is_sent = note->recv_length != entry->send_length;

	if (ori_dev_exchange_lengths_match(note, entry))
		return ORIEL_OK;
	return ori_fail(
		ORIEL_ERR_MISMATCH,
		is_sent ? "all-to-all: this rank sends %llu bytes to rank %u, which expects %llu"
			: "all-to-all: this rank expects %llu bytes from rank %u, which sends %llu",
		(unsigned long long)(is_sent ? entry->send_length : entry->recv_length), rank,
		(unsigned long long)(is_sent ? note->recv_length : note->send_length));
}

/* Takes the note of @rank, or writes the note that equal lengths imply. ORIEL_AGAIN: not yet. */
static enum oriel_status alltoall_match(struct ori_internode *internode, uint32_t rank)
{
	const struct oriel_dev_alltoallv *entry = &internode->stage->layout[rank];
	const struct ori_internode_job *job = internode->run.job;
	struct oriel_dev_note *note = &internode->stage->notes[rank];
	struct ori_internode_peer *peer = &internode->peers[rank];
	enum oriel_status status = ORIEL_OK;

	if (job->layout || (peer->view && entry->send_length))
		status = ori_internode_test_signal(internode, rank, ORI_INTERNODE_CREDIT,
						   &peer->credits);
	if (status != ORIEL_OK)
		return status;
	*note = (struct oriel_dev_note){alltoall_place(job, internode->device.rank),
					entry->send_length, entry->recv_length, 0};
	if (job->layout)
		*note = ori_dev_exchange_note(&internode->device, &internode->stage->series, 0,
					      internode->stage->epoch, rank);
	peer->has_credit = true;
	return alltoall_compare(internode, rank);
}

/* Starts the copy of the message to @rank, if that is a rank of this node. */
static enum oriel_status alltoall_copy(struct ori_internode *internode, uint32_t rank)
{
	const struct oriel_dev_alltoallv *entry = &internode->stage->layout[rank];
	struct ori_internode_peer *peer = &internode->peers[rank];
	char *to = internode->run.job->is_to_rows ? peer->rows : peer->view;

	if (!peer->view || !entry->send_length)
		return ORIEL_OK;
	peer->is_notified = true;
	return alltoall_copy_to(internode, rank, to + internode->stage->notes[rank].offset);
}

/* Serves the peers whose credit has arrived since the last call. ORIEL_AGAIN: some are missing. */
static enum oriel_status alltoall_match_all(struct ori_internode *internode, bool *has_moved)
{
	enum oriel_status status, all = ORIEL_OK;
	uint32_t i, rank;

	for (i = 1; i < internode->device.ranks; i++) {
		rank = ori_dev_rank_after(&internode->device, i);
		if (internode->peers[rank].has_credit)
			continue;
		status = alltoall_match(internode, rank);
		if (status == ORIEL_AGAIN) {
			all = ORIEL_AGAIN;
			continue;
		}
		if (status == ORIEL_OK)
			status = alltoall_copy(internode, rank);
		if (status != ORIEL_OK)
			return status;
		*has_moved = true;
	}
	return all;
}

static uint64_t alltoall_rest(const struct ori_internode *internode, uint32_t rank)
{
	const struct ori_internode_peer *peer = &internode->peers[rank];

	return peer->p2p ? internode->stage->layout[rank].send_length - peer->sent : 0;
}

/* The rank that gets the next free slot; ORI_PLAN_OWN: no rank needs one now. */
static uint32_t alltoall_next_rank(struct ori_internode *internode)
{
	uint32_t ranks = internode->device.ranks, i, rank;
	const struct ori_internode_peer *peer;

	for (i = 0; i < ranks; i++) {
		rank = (internode->run.next + i) % ranks;
		peer = &internode->peers[rank];
		if (!peer->has_credit || peer->slots == ORI_INTERNODE_REQUESTS ||
		    !alltoall_rest(internode, rank))
			continue;
		internode->run.next = rank + 1;
		return rank;
	}
	return ORI_PLAN_OWN;
}

static enum oriel_status slot_fill(struct ori_internode *internode, struct ori_internode_slot *slot,
				   uint32_t rank)
{
	const struct oriel_dev_alltoallv *entry = &internode->stage->layout[rank];
	uint64_t rest = alltoall_rest(internode, rank);
	struct ori_internode_peer *peer = &internode->peers[rank];
	unsigned number = (unsigned)(slot - internode->stage->slots);

	slot->state = ORI_INTERNODE_COPYING;
	slot->peer = rank;
	slot->offset = internode->stage->notes[rank].offset + peer->sent;
	slot->length = rest < internode->stage->slot ? rest : internode->stage->slot;
	slot->address = internode->stage->base + number * internode->stage->slot;
	peer->sent += slot->length;
	peer->slots++;
	return oriel_copies_add(internode->stage->copies, number, slot->address,
				internode->run.job->send + entry->send_displacement + peer->sent -
					slot->length,
				slot->length);
}

static enum oriel_status slot_put(struct ori_internode *internode, struct ori_internode_slot *slot)
{
	const struct oriel_p2p_buffer from = {slot->address, slot->length,
					      internode->stage->memory};
	const struct ori_internode_peer *peer = &internode->peers[slot->peer];

	slot->state = ORI_INTERNODE_PUTTING;
	return oriel_p2p_put(peer->p2p, 0, &from,
			     internode->run.job->is_to_rows ? &peer->remote_rows : &peer->remote,
			     slot->offset, &slot->request);
}

/*
 * One poll of a slot. @is_copied: no copy to any slot is in progress. Copies are tested together
 * and not one by one, so the slots that were filled are put then.
 */
static enum oriel_status slot_progress(struct ori_internode *internode,
				       struct ori_internode_slot *slot, bool is_copied,
				       bool *has_moved)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t rank;

	if (slot->state == ORI_INTERNODE_PUTTING) {
		status = slot->request.status;
		if (status != ORIEL_OK)
			return status == ORIEL_AGAIN ? ORIEL_OK : status;
		slot->state = ORI_INTERNODE_FREE;
		internode->peers[slot->peer].slots--;
		*has_moved = true;
	}
	if (slot->state == ORI_INTERNODE_COPYING && is_copied) {
		*has_moved = true;
		return slot_put(internode, slot);
	}
	rank = slot->state == ORI_INTERNODE_FREE ? alltoall_next_rank(internode) : ORI_PLAN_OWN;
	if (rank == ORI_PLAN_OWN)
		return status;
	*has_moved = true;
	return slot_fill(internode, slot, rank);
}

static enum oriel_status alltoall_put(struct ori_internode *internode, bool *has_moved)
{
	enum oriel_status status = oriel_copies_test(internode->stage->copies);
	bool is_copied = status == ORIEL_OK;
	unsigned i;

	for (i = 0; i < ORI_INTERNODE_SLOTS && status >= 0; i++)
		status =
			slot_progress(internode, &internode->stage->slots[i], is_copied, has_moved);
	return status < 0 ? status : ORIEL_OK;
}

static bool alltoall_is_put(const struct ori_internode *internode)
{
	uint32_t rank;

	for (rank = 0; rank < internode->device.ranks; rank++)
		if (alltoall_rest(internode, rank) || internode->peers[rank].slots)
			return false;
	return true;
}

static enum oriel_status alltoall_move(struct ori_internode *internode, bool *has_moved)
{
	enum oriel_status status, met;

	if (internode->run.is_reading) {
		status = oriel_copies_test(internode->copies);
		if (status == ORIEL_OK)
			status = alltoall_start(internode);
		if (status != ORIEL_OK)
			return status;
		internode->run.is_reading = false;
		*has_moved = true;
	}
	met = alltoall_match_all(internode, has_moved);
	status = met < 0 ? met : alltoall_put(internode, has_moved);
	if (status != ORIEL_OK)
		return status;
	return met == ORIEL_OK && alltoall_is_put(internode) ? ORIEL_OK : ORIEL_AGAIN;
}

/* The first rank whose credit is missing, or whose message is not put completely. */
static uint32_t alltoall_awaited(const struct ori_internode *internode)
{
	const struct ori_internode_peer *peer;
	uint32_t rank;

	for (rank = 0; rank < internode->device.ranks && !internode->run.is_reading; rank++) {
		peer = &internode->peers[rank];
		if (rank != internode->device.rank &&
		    (!peer->has_credit || peer->slots || alltoall_rest(internode, rank)))
			return rank;
	}
	return ORI_PLAN_OWN;
}

static const struct ori_internode_ops alltoall_ops = {alltoall_begin, alltoall_move,
						      alltoall_awaited};

enum oriel_status ori_internode_alltoall(struct ori_gather *g, const void *send,
					 const struct oriel_dev_alltoallv *layout, size_t bytes,
					 void *stream)
{
	const struct ori_internode_job job = {.ops = &alltoall_ops,
					      .g = g,
					      .bytes = bytes,
					      .stride = bytes,
					      .end = g->device.ranks * bytes,
					      .send = send,
					      .layout = layout,
					      .row = bytes};

	return ori_internode_post(&job, stream);
}

enum oriel_status ori_internode_send(struct ori_gather *g,
				     const struct ori_internode_messages *messages, void *stream)
{
	const struct ori_internode_job job = {.ops = &alltoall_ops,
					      .g = g,
					      .bytes = messages->bytes,
					      .stride = messages->stride,
					      .end = messages->end,
					      .send = messages->send,
					      .route = messages->route,
					      .root = messages->root,
					      .is_to_rows = messages->is_to_rows,
					      .at = messages->at,
					      .row = messages->row};

	return ori_internode_post(&job, stream);
}

enum oriel_status ori_internode_root(struct ori_gather *g, uint32_t root, const void *send,
				     size_t bytes, void *stream)
{
	bool is_gather = g->kind->number == ORI_GATHER;
	const struct ori_internode_messages messages = {
		.send = send,
		.stride = is_gather ? 0 : bytes,
		.bytes = bytes,
		.end = is_gather ? bytes : g->device.ranks * bytes,
		.route = is_gather ? ORI_INTERNODE_TO_ROOT : ORI_INTERNODE_FROM_ROOT,
		.root = root,
		.row = is_gather ? bytes : 0};

	return ori_internode_send(g, &messages, stream);
}
