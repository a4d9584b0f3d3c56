/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives and expects of a channel. The receiver says where each unit may arrive: by a
 * credit, which names a staging slot, or by an offer of memory. The loop of p2p_run.c runs
 * it.
 */
#include <string.h>

#include "base/error.h"
#include "p2p/p2p_recv.h"

void ori_recv_begin(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	struct p2p_recv_channel *in = &p2p->in[r->channel];

	r->number = in->number++;
	r->protocol = r->kind == P2P_EXPECT ? P2P_NOTICE : P2P_UNKNOWN;
	r->begun = r->done = r->chunks = 0;
	ori_p2p_append(&in->requests, r);
	if (!in->assign)
		in->assign = r;
	p2p->active_in |= UINT64_C(1) << r->channel;
}

static void recv_plan_staged(const struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	r->protocol = P2P_STAGED;
	r->step = (uint32_t)ori_p2p_step(p2p, r);
	r->chunks = (uint32_t)((r->length + r->step - 1) / r->step);
}

/*
 * May the peer put to the buffer of @r without staging? In auto mode it is no failure if
 * it may not.
 */
static enum oriel_status recv_offer(struct oriel_p2p *p2p, struct oriel_p2p_request *r,
				    struct p2p_offer *offer)
{
	enum oriel_status status;

	if (atomic_load_explicit(&r->memory->status, memory_order_acquire) != ORIEL_OK)
		return p2p->mode == ORIEL_P2P_AUTO ? ORIEL_AGAIN
						   : oriel_p2p_memory_check(r->memory);
	status = p2p->backend->export(p2p, r->memory, r->buffer, r->length, offer);
	if (status != ORIEL_OK)
		return status;
	offer->number = r->number;
	offer->length = r->length;
	return ORIEL_OK;
}

/* Choose the protocol of @r. ORIEL_AGAIN: not now. */
static enum oriel_status recv_plan(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	struct p2p_offer offer;
	enum oriel_status status;

	r->chunks = 1;
	if (r->kind == P2P_EXPECT)
		return ORIEL_OK;
	/* The sender decides this by the length as well, and waits for no word from here. */
	if (p2p_is_eager(p2p, r)) {
		r->protocol = P2P_EAGER;
		return ORIEL_OK;
	}
	if (p2p->mode == ORIEL_P2P_COPY_BASED || (p2p->mode == ORIEL_P2P_AUTO && !r->memory)) {
		recv_plan_staged(p2p, r);
		return ORIEL_OK;
	}
	if (!r->memory) {
		status = ori_mr_ref_take(p2p->ctx, r, p2p->backend->needs_keys);
		if (status != ORIEL_OK)
			return status;
	}
	/*
	 * This only shows whether an offer is possible: the grant, which may have to wait, makes
	 * it.
	 */
	status = recv_offer(p2p, r, &offer);
	if (p2p->mode == ORIEL_P2P_AUTO &&
	    (status == ORIEL_AGAIN || status == ORIEL_ERR_UNSUPPORTED)) {
		recv_plan_staged(p2p, r);
		return ORIEL_OK;
	}
	if (status == ORIEL_OK)
		r->protocol = P2P_DIRECT;
	return status;
}

static enum oriel_status recv_post_offer(struct oriel_p2p *p2p, struct oriel_p2p_request *r,
					 struct p2p_recv_slot *s, unsigned index, uint64_t unit)
{
	uint32_t immediate =
		p2p_immediate(P2P_IMM_OFFER, r->channel, p2p_slot(p2p, unit), p2p_lap(p2p, unit));
	struct p2p_offer *source = &p2p->segment->local_control.offers[index], offer = {0};
	uint64_t offset = offsetof(struct p2p_remote_control, offers) + index * sizeof(*source), op;
	struct p2p_local from = p2p_local_control(p2p, source);
	struct p2p_remote to = p2p_remote_control(p2p, offset);
	enum oriel_status status;

	/* The NIC may still be reading the last offer of this slot. */
	if (s->op > p2p->done)
		return ORIEL_AGAIN;
	status = recv_offer(p2p, r, &offer);
	if (status != ORIEL_OK)
		return status;
	if (p2p->backend->has_eager)
		return p2p->backend->send_eager(p2p, &offer, sizeof(offer), immediate, &op);
	*source = offer;
	status = p2p->backend->write_imm(p2p, &from, &to, sizeof(*source), immediate, &op);
	if (status == ORIEL_OK)
		s->op = op + 1;
	return status;
}

/* Let the peer send the next unit. ORIEL_AGAIN: not now. */
static enum oriel_status recv_grant(struct oriel_p2p *p2p, struct p2p_recv_channel *in,
				    struct oriel_p2p_request *r)
{
	unsigned slot = p2p_slot(p2p, in->unit), index = r->channel * p2p->depth + slot;
	struct p2p_recv_slot *s = &in->slots[slot];
	enum oriel_status status = ORIEL_OK;

	s->staging = -1;
	s->copy = 0;
	s->is_reported = r->protocol != P2P_EAGER;
	if (r->protocol == P2P_DIRECT) {
		status = recv_post_offer(p2p, r, s, index, in->unit);
	} else if (r->protocol != P2P_EAGER) {
		if (r->protocol == P2P_STAGED && (s->staging = ori_recv_take_slot(p2p, r)) < 0)
			return ORIEL_AGAIN;
		/*
		 * One word arrives whole, so it needs no immediate: the sender reads it in its
		 * passes.
		 */
		status = ori_p2p_set_word(p2p, P2P_WORD_CREDIT + index,
					  p2p_credit(p2p_lap(p2p, in->unit),
						     (enum p2p_protocol)r->protocol,
						     s->staging < 0 ? 0 : (uint32_t)s->staging));
	}
	if (status != ORIEL_OK)
		return status;
	s->state = P2P_RECV_GRANTED;
	s->request = r;
	s->chunk = r->begun;
	in->unit++;
	return ori_recv_take_unexpected(p2p, r, slot);
}

/* From a peer that has left, only unexpected messages that arrived before are taken. */
static bool recv_may_come(const struct oriel_p2p *p2p, const struct p2p_recv_channel *in)
{
	const struct p2p_unexpected *unexpected = &in->unexpected[p2p_slot(p2p, in->unit)];

	return in->unit < in->oldest + p2p->depth &&
	       (!p2p->is_leaving || (unexpected->length && p2p_is_eager(p2p, in->assign)));
}

static enum oriel_status recv_fill(struct oriel_p2p *p2p, unsigned channel, bool *has_moved)
{
	struct p2p_recv_channel *in = &p2p->in[channel];

	while (in->assign && recv_may_come(p2p, in)) {
		struct oriel_p2p_request *r = in->assign;
		enum oriel_status status = ORIEL_OK;

		if (r->chunks == 0)
			status = recv_plan(p2p, r);
		if (status == ORIEL_OK)
			status = recv_grant(p2p, in, r);
		if (status != ORIEL_OK) {
			/* The next pass plans anew: by then another protocol may be possible. */
			if (r->begun == 0 && r->protocol != P2P_DIRECT)
				r->chunks = 0;
			p2p->is_pending |= status == ORIEL_AGAIN;
			return status == ORIEL_AGAIN ? ORIEL_OK : status;
		}
		if (++r->begun == r->chunks)
			in->assign = r->next;
		p2p_recv_retire(p2p, in, channel);
		*has_moved = true;
	}
	return ORIEL_OK;
}

/*
 * The peer may repeat an immediate, or send one too early: it must not complete a unit twice, nor
 * one that has no slot.
 */
static bool recv_is_due(const struct oriel_p2p *p2p, unsigned channel, unsigned slot,
			uint32_t immediate)
{
	const struct p2p_recv_channel *in = &p2p->in[channel];

	return in->slots[slot].state == P2P_RECV_GRANTED &&
	       (p2p_lap(p2p, p2p_recv_unit(p2p, in, slot)) & 0xffff) == (immediate & 0xffff);
}

/* The address of bytes that come along with the unit of @s. NULL: it may not bring any. */
static char *recv_address(const struct oriel_p2p *p2p, const struct p2p_recv_slot *s, size_t length)
{
	const struct oriel_p2p_request *r = s->request;

	if (r->protocol == P2P_STAGED)
		return p2p->ctx->pool.is_gpu ? NULL : p2p_recv_staging(p2p, s);
	return r->protocol == P2P_DIRECT && r->length == length && !r->is_gpu ? r->buffer : NULL;
}

/* May the data that arrived be in memory of a GPU? */
static bool recv_is_in_gpu(const struct oriel_p2p *p2p, const struct oriel_p2p_request *r)
{
	return r->protocol != P2P_STAGED || p2p->ctx->pool.is_gpu;
}

enum oriel_status ori_recv_arrived(struct oriel_p2p *p2p, const struct p2p_arrival *arrival)
{
	uint32_t immediate = arrival->immediate;
	unsigned channel = p2p_imm_channel(immediate), slot = immediate >> 16 & 0xff;
	struct p2p_recv_channel *in;
	struct p2p_recv_slot *s;
	char *to;

	if (channel >= p2p->channels || slot >= p2p->depth)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"the peer filled slot %u of channel %u, which does not exist", slot,
				channel);
	in = &p2p->in[channel];
	if (!recv_is_due(p2p, channel, slot, immediate))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"the peer filled slot %u of channel %u in lap %u, which is not due",
				slot, channel, immediate & 0xffff);
	s = &in->slots[slot];
	if (arrival->length && arrival->length <= P2P_IMM_BYTES &&
	    (to = recv_address(p2p, s, arrival->length)))
		memcpy(to, arrival->bytes, arrival->length);
	/*
	 * The pass unpacks the unit after it has taken all immediates, so that one flush serves
	 * all units.
	 */
	s->state = P2P_RECV_ARRIVED;
	p2p->is_due = true;
	/* An answer needs the credit that the peer has given before. */
	__builtin_prefetch(
		&p2p->segment->remote_control.words[P2P_WORD_CREDIT + channel * p2p->depth +
						    p2p_slot(p2p, p2p->out[channel].unit)]);
	p2p->is_flush_due |= p2p->may_flush && recv_is_in_gpu(p2p, s->request);
	return ORIEL_OK;
}

uint32_t ori_recv_taken(struct oriel_p2p *p2p, unsigned channel)
{
	struct p2p_recv_channel *in = &p2p->in[channel];

	in->reported = in->oldest;
	p2p->unreported &= ~(UINT64_C(1) << channel);
	return (uint32_t)in->reported;
}

enum oriel_status ori_recv_report(struct oriel_p2p *p2p, unsigned channel)
{
	(void)ori_recv_taken(p2p, channel);
	return ori_p2p_set_word(p2p, P2P_WORD_TAKEN + channel, p2p->in[channel].reported);
}

enum oriel_status ori_recv_report_granted(struct oriel_p2p *p2p, unsigned channel)
{
	struct p2p_recv_channel *in = &p2p->in[channel];
	enum oriel_status status = ORIEL_OK;

	for (uint64_t unit = in->oldest; unit < in->unit && status == ORIEL_OK; unit++) {
		struct p2p_recv_slot *s = &in->slots[p2p_slot(p2p, unit)];

		if (s->state != P2P_RECV_GRANTED || s->is_reported)
			continue;
		s->is_reported = true;
		status = ori_p2p_set_word(p2p,
					  P2P_WORD_CREDIT + channel * p2p->depth +
						  p2p_slot(p2p, unit),
					  p2p_credit(p2p_lap(p2p, unit), P2P_EAGER, 0));
	}
	return status;
}

static enum oriel_status recv_flush(struct oriel_p2p *p2p)
{
	enum oriel_status status = p2p->is_flush_due ? ori_p2p_context_flush(p2p->ctx) : ORIEL_OK;

	p2p->is_flush_due = false;
	return status;
}

static enum oriel_status recv_run_slots(struct oriel_p2p *p2p, struct p2p_recv_channel *in,
					bool *has_moved)
{
	for (uint64_t unit = in->oldest; unit < in->unit; unit++) {
		unsigned slot = p2p_slot(p2p, unit);
		struct p2p_recv_slot *s = &in->slots[slot];
		enum oriel_status status = ORIEL_OK;

		/*
		 * A unit whose hook or copy takes long holds up none behind it; only
		 * p2p_recv_retire() keeps the order of the calls.
		 */
		if (s->state != P2P_RECV_ARRIVED)
			continue;
		if (recv_is_in_gpu(p2p, s->request))
			status = recv_flush(p2p);
		if (status == ORIEL_OK && s->request->protocol == P2P_STAGED)
			status = ori_recv_unpack(p2p, s, s->request->channel * p2p->depth + slot);
		p2p->is_pending |= status == ORIEL_AGAIN;
		if (status == ORIEL_AGAIN)
			continue;
		if (status != ORIEL_OK)
			return status;
		ori_recv_give_slot(p2p, s->staging);
		s->staging = -1;
		s->state = P2P_RECV_DONE;
		*has_moved = true;
	}
	return ORIEL_OK;
}

enum oriel_status ori_recv_run(struct oriel_p2p *p2p, unsigned channel, bool *has_moved)
{
	struct p2p_recv_channel *in = &p2p->in[channel];
	bool has_more = true;
	enum oriel_status status = ORIEL_OK;

	/*
	 * No unit arrives in a slot while this runs: one more fill suffices when slots are
	 * free again.
	 */
	while (has_more && status == ORIEL_OK) {
		has_more = false;
		status = recv_run_slots(p2p, in, &has_more);
		p2p_recv_retire(p2p, in, channel);
		*has_moved |= has_more;
		if (status == ORIEL_OK && in->assign)
			status = recv_fill(p2p, channel, has_moved);
	}
	if (!in->requests.first)
		p2p->active_in &= ~(UINT64_C(1) << channel);
	return status;
}

bool ori_recv_is_busy(const struct oriel_p2p *p2p, unsigned channel)
{
	const struct p2p_recv_channel *in = &p2p->in[channel];

	for (uint64_t unit = in->oldest; unit < in->unit; unit++)
		if (in->slots[p2p_slot(p2p, unit)].state == P2P_RECV_ARRIVED)
			return true;
	return false;
}

bool ori_recv_take_back(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	struct p2p_recv_channel *in = &p2p->in[r->channel];

	if (r->begun || !ori_p2p_take_out(&in->requests, r))
		return false;
	/* The peer numbers its transfers as if this one had never been. */
	for (struct oriel_p2p_request *behind = r->next; behind; behind = behind->next)
		behind->number--;
	in->number--;
	if (in->assign == r)
		in->assign = r->next;
	if (!in->requests.first)
		p2p->active_in &= ~(UINT64_C(1) << r->channel);
	return true;
}

void ori_recv_cancel(struct oriel_p2p *p2p, unsigned channel, enum oriel_status status)
{
	struct p2p_recv_channel *in = &p2p->in[channel];

	for (; in->oldest < in->unit; in->oldest++) {
		struct p2p_recv_slot *s = &in->slots[p2p_slot(p2p, in->oldest)];

		/*
		 * A slot that was granted is given back, too: the peer writes nothing any more
		 * (ori_p2p_end()).
		 */
		if (s->state == P2P_RECV_GRANTED || s->state == P2P_RECV_ARRIVED)
			ori_recv_give_slot(p2p, s->staging);
		s->state = P2P_RECV_NONE;
	}
	while (in->requests.first)
		ori_p2p_finish_first(p2p, &in->requests, status);
	in->assign = NULL;
}
