/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and puts of a channel: the peer says where each transfer goes, and the chunks of a
 * transfer take slots in their order. The loop of p2p_run.c runs it.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "p2p/p2p_send.h"

#define SEND_PIECE (1u << 20)      /* bytes of a chunk without staging */
#define SEND_GPU_PIECE (64u << 20) /* ... by an engine: to begin a copy costs as much as 2 MiB */
#define SEND_OFFERED (1u << 16)    /* an offer has arrived; its lap is in the low half */

void ori_send_begin(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	struct p2p_send_channel *out = &p2p->out[r->channel];

	r->number = out->number++;
	r->protocol = P2P_UNKNOWN;
	r->begun = r->done = r->chunks = 0;
	ori_p2p_append(&out->requests, r);
	if (!out->resolve)
		out->resolve = r;
	if (!out->assign)
		out->assign = r;
	p2p->active_out |= UINT64_C(1) << r->channel;
}

/* The @ith slot that is taken, from the oldest on. */
static struct p2p_send_slot *send_slot(const struct oriel_p2p *p2p, struct p2p_send_channel *out,
				       uint32_t i)
{
	uint32_t at = out->first + i;

	return &out->slots[at < p2p->depth ? at : at - p2p->depth];
}

static uint32_t send_count(uint64_t length, uint64_t step)
{
	return (uint32_t)((length + step - 1) / step);
}

enum oriel_status ori_send_offered(struct oriel_p2p *p2p, const struct p2p_arrival *arrival)
{
	uint32_t immediate = arrival->immediate;
	unsigned channel = p2p_imm_channel(immediate), slot = immediate >> 16 & 0xff;
	unsigned index = channel * p2p->depth + slot;

	if (channel >= p2p->channels || slot >= p2p->depth)
		return ori_fail(
			ORIEL_ERR_PROTOCOL,
			"the peer offers memory for slot %u of channel %u, which does not exist",
			slot, channel);
	/*
	 * A NIC wrote the offer there before the immediate; a mapped peer sends it along. It is
	 * checked when a transfer takes it, which may not have begun.
	 */
	if (arrival->length == sizeof(struct p2p_offer))
		memcpy(&p2p->segment->remote_control.offers[index], arrival->bytes,
		       sizeof(struct p2p_offer));
	p2p->offered[index] = SEND_OFFERED | (immediate & 0xffff);
	return ORIEL_OK;
}

static enum oriel_status send_take_credit(struct oriel_p2p *p2p, struct oriel_p2p_request *r,
					  uint64_t credit)
{
	enum p2p_protocol protocol = p2p_credit_protocol(credit);

	if (protocol == P2P_NOTICE)
		return r->kind == P2P_PUT ? (r->protocol = P2P_NOTICE, ORIEL_OK)
					  : ori_send_mismatch(r, ori_send_other(protocol));
	/*
	 * The credit only reports that a receive of few bytes waits; an eager send reads no credit.
	 */
	if (protocol == P2P_EAGER && p2p->eager_max)
		return ori_send_mismatch(r, ori_send_other(protocol));
	if (protocol != P2P_STAGED || p2p->mode == ORIEL_P2P_ZERO_COPY)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer gives credit 0x%llx",
				(unsigned long long)credit);
	if (r->kind == P2P_PUT)
		return ori_send_mismatch(r, "a receive");
	r->protocol = P2P_STAGED;
	return ORIEL_OK;
}

static enum oriel_status send_take_offer(struct oriel_p2p *p2p, struct oriel_p2p_request *r,
					 unsigned index)
{
	/* A copy: the peer can still write to the offer after the checks. */
	struct p2p_offer offer = p2p->segment->remote_control.offers[index];
	struct p2p_remote remote;
	char place[P2P_PLACE];
	enum oriel_status status;

	if (p2p->mode == ORIEL_P2P_COPY_BASED)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer offers memory in mode copy_based");
	if (r->kind == P2P_PUT)
		return ori_send_mismatch(r, "a receive");
	if (offer.number != r->number || offer.length != r->length)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"%s: the send of transfer %llu is of %zu bytes, the "
				"receive of transfer %llu of %llu",
				ori_p2p_place(r, place), (unsigned long long)r->number, r->length,
				(unsigned long long)offer.number, (unsigned long long)offer.length);
	/*
	 * Only to see whether the memory exists and has arrived: each chunk imports it once more.
	 */
	status = p2p->backend->import(p2p, &offer, &remote);
	if (status != ORIEL_OK)
		return status;
	r->address = offer.address;
	memcpy(r->keys, &offer.keys, sizeof(r->keys));
	r->piece = offer.piece;
	r->protocol = P2P_DIRECT;
	p2p->offered[index] = 0;
	return ORIEL_OK;
}

/* An eager send needs neither a credit nor an offer. */
static enum oriel_status send_resolve_eager(struct oriel_p2p *p2p, struct p2p_send_channel *out,
					    struct oriel_p2p_request *r)
{
	enum oriel_status status = ori_send_find_room(p2p, out, r->channel);

	if (status != ORIEL_OK)
		return status;
	r->protocol = P2P_EAGER;
	r->unit = out->unit++;
	out->resolve = r->next;
	return ORIEL_OK;
}

/* ORIEL_AGAIN: the peer has not said where the next transfer goes. */
static enum oriel_status send_resolve_one(struct oriel_p2p *p2p, struct p2p_send_channel *out,
					  struct oriel_p2p_request *r)
{
	unsigned index = p2p_send_index(p2p, r->channel, out->unit);
	uint64_t lap = p2p_lap(p2p, out->unit);
	uint64_t credit = ori_p2p_word(p2p, P2P_WORD_CREDIT + index);
	enum oriel_status status;

	if (p2p_is_eager(p2p, r))
		return send_resolve_eager(p2p, out, r);
	/*
	 * Nothing clears a credit: the lap distinguishes it from that of the last unit in its
	 * slot.
	 */
	if (p2p_credit_lap(credit) == lap)
		status = send_take_credit(p2p, r, credit);
	else if (p2p->offered[index] == (SEND_OFFERED | (lap & 0xffff)))
		status = send_take_offer(p2p, r, index);
	else
		return ORIEL_AGAIN;
	if (status != ORIEL_OK)
		return status;
	/* Both endpoints cut a transfer into the same chunks, and so count the same units. */
	r->unit = out->unit;
	out->unit += r->protocol == P2P_STAGED ? send_count(r->length, ori_p2p_step(p2p, r)) : 1;
	out->resolve = r->next;
	return ORIEL_OK;
}

static enum oriel_status send_resolve(struct oriel_p2p *p2p, struct p2p_send_channel *out,
				      bool *has_moved)
{
	while (out->resolve) {
		enum oriel_status status = send_resolve_one(p2p, out, out->resolve);

		if (status == ORIEL_AGAIN)
			return ORIEL_OK;
		if (status != ORIEL_OK)
			return status;
		*has_moved = true;
	}
	return ORIEL_OK;
}

/*
 * Acquire: with memory_set_status(). Keys that a region gets later, when the NICs are opened, are
 * ordered by the lock of the context, which this endpoint held before its link was opened.
 */
static bool send_has_keys(const struct oriel_p2p_request *r)
{
	return r->memory &&
	       atomic_load_explicit(&r->memory->status, memory_order_acquire) == ORIEL_OK &&
	       r->memory->mr;
}

/*
 * Cut the transfer into chunks. ORIEL_AGAIN: the protocol is not known yet. In mode copy_based a
 * transfer that is not eager can only be staged, so it does not wait for the peer to say so.
 */
static enum oriel_status send_plan(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	bool is_straight = r->protocol == P2P_DIRECT || r->protocol == P2P_NOTICE;
	enum oriel_status status;

	if (r->protocol == P2P_UNKNOWN &&
	    (p2p->mode != ORIEL_P2P_COPY_BASED || p2p_is_eager(p2p, r)))
		return ORIEL_AGAIN;
	r->step = (uint32_t)ori_p2p_step(p2p, r);
	if (is_straight && p2p->backend->needs_keys && p2p->mode == ORIEL_P2P_ZERO_COPY &&
	    !r->memory) {
		status = ori_mr_ref_take(p2p->ctx, r, true);
		if (status != ORIEL_OK)
			return status;
	}
	if (is_straight && p2p->backend->needs_keys && p2p->mode == ORIEL_P2P_ZERO_COPY) {
		status = oriel_p2p_memory_check(r->memory);
		if (status != ORIEL_OK)
			return status;
	}
	/*
	 * A source without keys is packed into a slot of the pool, and put from there to its
	 * target.
	 */
	r->is_straight = is_straight && (!p2p->backend->needs_keys || send_has_keys(r));
	if (r->is_straight)
		r->step = r->is_gpu && !p2p->backend->needs_keys ? SEND_GPU_PIECE : SEND_PIECE;
	r->chunks = send_count(r->length, r->step);
	return ORIEL_OK;
}

static enum oriel_status send_fill(struct oriel_p2p *p2p, struct p2p_send_channel *out,
				   bool *has_moved)
{
	while (out->count < p2p->depth && out->assign) {
		struct oriel_p2p_request *r = out->assign;
		struct p2p_send_slot *s;
		uint64_t rest;

		if (r->begun == 0) {
			enum oriel_status status = send_plan(p2p, r);

			if (status == ORIEL_AGAIN)
				return ORIEL_OK;
			if (status != ORIEL_OK)
				return status;
		}
		s = send_slot(p2p, out, out->count++);
		*s = (struct p2p_send_slot){.request = r, .chunk = r->begun, .staging = -1};
		s->offset = (uint64_t)r->begun * r->step;
		rest = r->length - s->offset;
		s->length = (uint32_t)(rest < r->step ? rest : r->step);
		if (++r->begun == r->chunks)
			out->assign = r->next;
		*has_moved = true;
	}
	return ORIEL_OK;
}

static enum oriel_status send_run_slots(struct oriel_p2p *p2p, struct p2p_send_channel *out,
					bool *has_moved)
{
	const struct oriel_p2p_request *held = NULL; /* has a chunk that is not posted */

	for (uint32_t i = 0; i < out->count; i++) {
		struct p2p_send_slot *s = send_slot(p2p, out, i);
		enum oriel_status status;

		while ((status = ori_send_step(p2p, s, s->request != held)) == ORIEL_OK)
			*has_moved = true;
		if (status != ORIEL_AGAIN)
			return status;
		/*
		 * The immediate of a transfer without staging is on its last chunk, and follows
		 * only what is posted before it: so its chunks are posted in their order.
		 */
		if (s->state < P2P_SEND_POSTED)
			held = s->request;
	}
	return ORIEL_OK;
}

static void send_retire(struct oriel_p2p *p2p, struct p2p_send_channel *out)
{
	while (out->count && out->slots[out->first].state == P2P_SEND_DONE) {
		struct oriel_p2p_request *r = out->slots[out->first].request;

		out->first = out->first + 1 < p2p->depth ? out->first + 1 : 0;
		out->count--;
		if (++r->done == r->chunks)
			ori_p2p_finish_first(p2p, &out->requests, ORIEL_OK);
	}
}

/*
 * A sender that waits for slots reports the number of its transfers: the receiver gives
 * more slots to transfers that have begun. Transfers behind the first that waits are not
 * reported, so that they can be cancelled.
 */
static enum oriel_status send_ask(struct oriel_p2p *p2p, struct p2p_send_channel *out,
				  unsigned channel)
{
	uint64_t waiting = out->resolve ? out->resolve->number + 1 : out->number;

	if (waiting <= out->reported || p2p->mode == ORIEL_P2P_ZERO_COPY)
		return ORIEL_OK;
	out->reported = waiting;
	return ori_p2p_set_word(p2p, P2P_WORD_SENDS + channel, waiting);
}

static bool send_is_waiting(const struct oriel_p2p *p2p, struct p2p_send_channel *out)
{
	if (out->resolve)
		return true;
	for (uint32_t i = 0; i < out->count; i++)
		if (send_slot(p2p, out, i)->state < P2P_SEND_POSTED)
			return true;
	return false;
}

enum oriel_status ori_send_run(struct oriel_p2p *p2p, unsigned channel, bool *has_moved)
{
	struct p2p_send_channel *out = &p2p->out[channel];
	bool has_more = true;
	enum oriel_status status = ORIEL_OK;

	while (has_more && status == ORIEL_OK && out->requests.first) {
		has_more = false;
		status = send_resolve(p2p, out, &has_more);
		if (status == ORIEL_OK)
			status = send_fill(p2p, out, &has_more);
		if (status == ORIEL_OK)
			status = send_run_slots(p2p, out, &has_more);
		send_retire(p2p, out);
		*has_moved |= has_more;
	}
	if (status == ORIEL_OK && send_is_waiting(p2p, out))
		status = send_ask(p2p, out, channel);
	if (!out->requests.first)
		p2p->active_out &= ~(UINT64_C(1) << channel);
	return status;
}

bool ori_send_take_back(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	struct p2p_send_channel *out = &p2p->out[r->channel];

	if (r->number < out->reported || r->protocol != P2P_UNKNOWN || r->begun ||
	    !ori_p2p_take_out(&out->requests, r))
		return false;
	/* The peer numbers its transfers as if this one had never been. */
	for (struct oriel_p2p_request *behind = r->next; behind; behind = behind->next)
		behind->number--;
	out->number--;
	if (out->resolve == r)
		out->resolve = r->next;
	if (out->assign == r)
		out->assign = r->next;
	if (!out->requests.first)
		p2p->active_out &= ~(UINT64_C(1) << r->channel);
	return true;
}

void ori_send_cancel(struct oriel_p2p *p2p, unsigned channel, enum oriel_status status)
{
	struct p2p_send_channel *out = &p2p->out[channel];

	for (uint32_t i = 0; i < out->count; i++) {
		/*
		 * No hook, engine or NIC reads the slot any more (ori_p2p_end()): another
		 * endpoint may fill it at once.
		 */
		int staging = send_slot(p2p, out, i)->staging;

		if (staging >= 0)
			ori_pool_give(&p2p->ctx->pool, &p2p->ctx->pool.sends, staging);
	}
	out->count = 0;
	while (out->requests.first)
		ori_p2p_finish_first(p2p, &out->requests, status);
	out->resolve = out->assign = NULL;
}
