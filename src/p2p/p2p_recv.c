/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives and expects of a channel. The receiver says where each unit may arrive: by a
 * credit, which names a staging slot, or by an offer of memory. The passes of p2p_run.c
 * and the calls of p2p_call.c run it.
 */
#include <string.h>

#include "base/error.h"
#include "p2p/p2p.h"

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
	r->step = (uint32_t)ori_p2p_step(p2p, r->length);
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
	if (p2p_is_eager(p2p, r)) {
		r->protocol = P2P_EAGER;
		return ORIEL_OK;
	}
	if (p2p->mode == ORIEL_P2P_COPY_BASED || (p2p->mode == ORIEL_P2P_AUTO && !r->memory)) {
		recv_plan_staged(p2p, r);
		return ORIEL_OK;
	}
	if (!r->memory) {
		status = ori_mr_ref_take(p2p->ctx, r);
		if (status != ORIEL_OK)
			return status;
	}
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

static int recv_take_slot(struct oriel_p2p *p2p, const struct oriel_p2p_request *r)
{
	struct p2p_pool *pool = &p2p->ctx->pool;
	bool is_live;

	/* No other endpoint takes this slot, and it is warm in the caches. */
	if (p2p->spare >= 0 && !p2p->is_spare_used) {
		p2p->is_spare_used = true;
		return p2p->spare;
	}
	/*
	 * If the peer has begun the transfer as well, its slots return whatever else the
	 * peer does. Other slots may never return: so they take no more than half of the
	 * slots that all endpoints share.
	 */
	is_live = ori_p2p_word(p2p, P2P_WORD_SENDS + r->channel) > r->number;
	return ori_pool_take(pool, &pool->receives, is_live ? 0 : pool->receive / 2);
}

static void recv_give_slot(struct oriel_p2p *p2p, int slot)
{
	if (slot == p2p->spare)
		p2p->is_spare_used = false;
	else if (slot >= 0)
		ori_pool_give(&p2p->ctx->pool, &p2p->ctx->pool.receives, slot);
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

static enum oriel_status recv_mismatch(const struct oriel_p2p_request *r, uint64_t number,
				       uint64_t length)
{
	return ori_fail(ORIEL_ERR_MISMATCH,
			"channel %u: the receive of transfer %llu is of %zu bytes, the send of "
			"transfer %llu of %llu",
			r->channel, (unsigned long long)r->number, r->length,
			(unsigned long long)number, (unsigned long long)length);
}

/* An eager send arrived for the unit of this slot. */
static enum oriel_status recv_take_eager(struct p2p_recv_slot *s, uint32_t number,
					 const char *bytes, size_t length)
{
	const struct oriel_p2p_request *r = s->request;
	int32_t ahead = (int32_t)(number - (uint32_t)r->number);

	if (r->protocol != P2P_EAGER || ahead || length != r->length)
		return recv_mismatch(r, r->number + (uint64_t)ahead, length);
	memcpy(r->buffer, bytes, length);
	s->state = P2P_RECV_DONE;
	return ORIEL_OK;
}

static const char *recv_eager_buffer(const struct oriel_p2p *p2p, unsigned channel, unsigned slot)
{
	return (const char *)p2p->segment + p2p_eager_buffer(p2p, channel, slot);
}

/* The unit of this slot, of @r, is granted: complete it if its eager send arrived before. */
static enum oriel_status recv_take_unexpected(struct oriel_p2p *p2p,
					      const struct oriel_p2p_request *r, unsigned slot)
{
	struct p2p_recv_channel *in = &p2p->in[r->channel];
	struct p2p_unexpected *unexpected = &in->unexpected[slot];
	uint32_t length = unexpected->length;

	if (!length)
		return ORIEL_OK;
	unexpected->length = 0;
	return recv_take_eager(&in->slots[slot], unexpected->number,
			       length <= P2P_EAGER_INLINE
				       ? unexpected->bytes
				       : recv_eager_buffer(p2p, r->channel, slot),
			       length);
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
		if (r->protocol == P2P_STAGED && (s->staging = recv_take_slot(p2p, r)) < 0)
			return ORIEL_AGAIN;
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
	return recv_take_unexpected(p2p, r, slot);
}

/* From a peer that has left, only unexpected messages that arrived before are taken. */
static bool recv_may_come(const struct oriel_p2p *p2p, const struct p2p_recv_channel *in)
{
	const struct p2p_unexpected *unexpected = &in->unexpected[p2p_slot(p2p, in->unit)];

	return in->unit < in->oldest + p2p->depth &&
	       (!p2p->is_leaving || (unexpected->length && p2p_is_eager(p2p, in->assign)));
}

/* Complete the oldest units that are done, and count those that may be reported to the peer. */
static void recv_retire(struct oriel_p2p *p2p, struct p2p_recv_channel *in, unsigned channel)
{
	while (in->oldest < in->unit &&
	       in->slots[p2p_slot(p2p, in->oldest)].state == P2P_RECV_DONE) {
		struct p2p_recv_slot *s = &in->slots[p2p_slot(p2p, in->oldest++)];
		struct oriel_p2p_request *r = s->request;

		s->state = P2P_RECV_NONE;
		if (++r->done == r->chunks)
			ori_p2p_finish_first(p2p, &in->requests, ORIEL_OK);
	}
	/* Not after each unit, but before the peer runs out of slots that it may fill. */
	if (p2p->eager_max && in->oldest - in->reported >= (p2p->depth + 1) / 2)
		p2p->unreported |= UINT64_C(1) << channel;
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
			/* It is planned anew: by then another protocol may be possible. */
			if (r->begun == 0 && r->protocol != P2P_DIRECT)
				r->chunks = 0;
			p2p->is_pending |= status == ORIEL_AGAIN;
			return status == ORIEL_AGAIN ? ORIEL_OK : status;
		}
		if (++r->begun == r->chunks)
			in->assign = r->next;
		recv_retire(p2p, in, channel);
		*has_moved = true;
	}
	return ORIEL_OK;
}

/* The one unit of this slot that may be under way. */
static uint64_t recv_unit(const struct oriel_p2p *p2p, const struct p2p_recv_channel *in,
			  unsigned slot)
{
	return in->oldest + p2p_slot(p2p, slot + p2p->depth - p2p_slot(p2p, in->oldest));
}

static bool recv_is_due(const struct oriel_p2p *p2p, unsigned channel, unsigned slot,
			uint32_t immediate)
{
	const struct p2p_recv_channel *in = &p2p->in[channel];

	return in->slots[slot].state == P2P_RECV_GRANTED &&
	       (p2p_lap(p2p, recv_unit(p2p, in, slot)) & 0xffff) == (immediate & 0xffff);
}

char *ori_recv_address(struct oriel_p2p *p2p, uint32_t immediate, size_t length)
{
	unsigned channel = immediate >> 24 & 0x3f, slot = immediate >> 16 & 0xff;
	const struct p2p_recv_slot *s;

	if (channel >= p2p->channels || slot >= p2p->depth)
		return NULL;
	if (immediate >> 30 == P2P_IMM_OFFER && length == sizeof(struct p2p_offer))
		return (char *)&p2p->segment->remote_control.offers[channel * p2p->depth + slot];
	if (immediate >> 30 != P2P_IMM_UNIT || !recv_is_due(p2p, channel, slot, immediate))
		return NULL;
	s = &p2p->in[channel].slots[slot];
	if (s->request->protocol == P2P_STAGED && p2p->ctx->pool.is_gpu)
		return NULL;
	if (s->request->protocol == P2P_STAGED)
		return p2p->ctx->pool.area.base + (size_t)s->staging * p2p->ctx->pool.stride;
	return s->request->protocol == P2P_DIRECT && s->request->length == length &&
			       !s->request->is_gpu
		       ? s->request->buffer
		       : NULL;
}

/* May the data that arrived be in memory of a GPU? */
static bool recv_is_in_gpu(const struct oriel_p2p *p2p, const struct oriel_p2p_request *r)
{
	return r->protocol != P2P_STAGED || p2p->ctx->pool.is_gpu;
}

enum oriel_status ori_recv_arrived(struct oriel_p2p *p2p, uint32_t immediate)
{
	unsigned channel = immediate >> 24 & 0x3f, slot = immediate >> 16 & 0xff;
	struct p2p_recv_channel *in;

	if (channel >= p2p->channels || slot >= p2p->depth)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"the peer filled slot %u of channel %u, which does not exist", slot,
				channel);
	in = &p2p->in[channel];
	if (!recv_is_due(p2p, channel, slot, immediate))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"the peer filled slot %u of channel %u in lap %u, which is not due",
				slot, channel, immediate & 0xffff);
	in->slots[slot].state = P2P_RECV_ARRIVED;
	p2p->is_due = true;
	/* An answer needs the credit that the peer has given before. */
	__builtin_prefetch(
		&p2p->segment->remote_control.words[P2P_WORD_CREDIT + channel * p2p->depth +
						    p2p_slot(p2p, p2p->out[channel].unit)]);
	p2p->is_flush_due |= p2p->may_flush && recv_is_in_gpu(p2p, in->slots[slot].request);
	return ORIEL_OK;
}

/* May an eager send arrive for @unit, and now? */
static bool recv_is_awaited(const struct oriel_p2p *p2p, const struct p2p_recv_channel *in,
			    uint64_t unit, uint32_t immediate)
{
	unsigned slot = p2p_slot(p2p, unit);

	return (p2p_lap(p2p, unit) & 0xffff) == (immediate & 0xffff) &&
	       !in->unexpected[slot].length &&
	       (unit >= in->unit || in->slots[slot].state == P2P_RECV_GRANTED);
}

/* Bytes in the eager buffer stay there. */
static void recv_store_unexpected(struct p2p_unexpected *unexpected, uint32_t number,
				  const char *bytes, size_t length)
{
	unexpected->number = number;
	unexpected->length = (uint32_t)length;
	if (length <= P2P_EAGER_INLINE)
		memcpy(unexpected->bytes, bytes, length);
}

/* Bytes of an eager send, in the line or in its buffer. 0: the peer may not send it. */
static size_t recv_eager_length(const struct oriel_p2p *p2p, uint32_t immediate, const char *what,
				size_t along)
{
	uint32_t length;

	if (!(immediate & P2P_IMM_BUFFERED))
		return along > P2P_EAGER_HEAD && along <= P2P_IMM_BYTES ? along - P2P_EAGER_HEAD
									: 0;
	if (along != P2P_EAGER_BUFFERED)
		return 0;
	memcpy(&length, what + P2P_EAGER_HEAD, sizeof(length));
	return length > P2P_EAGER_INLINE && length <= p2p->eager_max ? length : 0;
}

/* The peer may still write to @what: each count is read once. */
enum oriel_status ori_recv_eager_arrived(struct oriel_p2p *p2p, uint32_t immediate,
					 const char *what, size_t along)
{
	unsigned channel = immediate >> 24 & 0x3f, slot = immediate >> 16 & 0x7f;
	size_t length = p2p->eager_max ? recv_eager_length(p2p, immediate, what, along) : 0;
	struct p2p_recv_channel *in = &p2p->in[channel];
	enum oriel_status status;
	uint32_t head[2];
	uint64_t unit;

	if (!length || channel >= p2p->channels || slot >= p2p->depth ||
	    !recv_is_awaited(p2p, in, unit = recv_unit(p2p, in, slot), immediate))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"%zu bytes of the peer for slot %u of channel %u in lap %u, which "
				"are not due",
				along, slot, channel, immediate & 0xffff);
	static_assert(P2P_EAGER_HEAD == sizeof(head), "number and taken");
	memcpy(head, what, sizeof(head));
	what = immediate & P2P_IMM_BUFFERED ? recv_eager_buffer(p2p, channel, slot)
					    : what + sizeof(head);
	status = ori_send_taken(p2p, channel, head[1]);
	if (status != ORIEL_OK)
		return status;
	if (unit >= in->unit) {
		recv_store_unexpected(&in->unexpected[slot], head[0], what, length);
		return ORIEL_OK;
	}
	status = recv_take_eager(&in->slots[slot], head[0], what, length);
	if (status != ORIEL_OK)
		return status;
	recv_retire(p2p, in, channel);
	p2p->is_due |= in->assign != NULL;
	if (!in->requests.first)
		p2p->active_in &= ~(UINT64_C(1) << channel);
	return ORIEL_OK;
}

bool ori_recv_eager(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	struct p2p_recv_channel *in = &p2p->in[r->channel];
	const struct p2p_unexpected *unexpected;
	struct p2p_recv_slot *s;
	unsigned slot;

	if (r->kind != P2P_RECV || !p2p_is_eager(p2p, r) || in->assign ||
	    in->unit >= in->oldest + p2p->depth)
		return false;
	slot = p2p_slot(p2p, in->unit);
	s = &in->slots[slot];
	unexpected = &in->unexpected[slot];
	/* A mismatch goes by ori_recv_begin(), which reports it. */
	if (unexpected->length
		    ? unexpected->length != r->length || unexpected->number != (uint32_t)in->number
		    : p2p->is_leaving)
		return false;
	r->number = in->number++;
	r->protocol = P2P_EAGER;
	r->begun = r->chunks = 1;
	r->done = 0;
	in->unit++;
	*s = (struct p2p_recv_slot){.state = P2P_RECV_GRANTED,
				    .request = r,
				    .staging = -1,
				    .op = s->op};
	ori_p2p_append(&in->requests, r);
	(void)recv_take_unexpected(p2p, r, slot);
	recv_retire(p2p, in, r->channel);
	if (in->requests.first)
		p2p->active_in |= UINT64_C(1) << r->channel;
	return true;
}

bool ori_recv_is_left(const struct oriel_p2p *p2p, unsigned channel, size_t length)
{
	const struct p2p_unexpected *unexpected;
	const struct p2p_recv_channel *in;

	if (p2p->failure != ORIEL_ERR_PEER || channel >= p2p->channels)
		return false;
	in = &p2p->in[channel];
	unexpected = &in->unexpected[p2p_slot(p2p, in->unit)];
	return unexpected->length && unexpected->length == length &&
	       unexpected->number == (uint32_t)in->number;
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

static enum oriel_status recv_check_label(const struct oriel_p2p_request *r, uint32_t chunk,
					  size_t length, const struct p2p_label *label)
{
	/* Both sides number transfers, so a difference means that their calls do not match. */
	if (label->number != r->number || label->total != r->length)
		return recv_mismatch(r, label->number, label->total);
	if (label->chunk != chunk || label->length != length)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"chunk %u of %u bytes arrived where chunk %u of %zu bytes is due",
				label->chunk, label->length, chunk, length);
	return ORIEL_OK;
}

/* By the hook, an engine, or the CPU. ORIEL_AGAIN: begun. */
static enum oriel_status recv_copy(struct oriel_p2p *p2p, struct p2p_recv_slot *s,
				   const struct oriel_p2p_chunk *chunk)
{
	enum oriel_status status = ORIEL_OK;

	if (p2p->hooks.unpack) {
		status = p2p->hooks.unpack(p2p->context, chunk);
		return status < 0 ? ori_fail(status, "the unpack hook failed: %s",
					     oriel_status_text(status))
				  : status;
	}
	if (!s->request->is_gpu && !p2p->ctx->pool.is_gpu) {
		memcpy(chunk->buffer, chunk->slot, chunk->length);
		return ORIEL_OK;
	}
	if (!s->copy)
		status = ori_copy_stream_copy(p2p, P2P_COPY_IN, chunk->buffer, chunk->slot,
					      chunk->length, &s->copy);
	return status == ORIEL_OK ? ori_copy_stream_test(p2p, P2P_COPY_IN, s->copy) : status;
}

/* ORIEL_AGAIN: the copy goes on. @index: of the slot among all of the endpoint. */
static enum oriel_status recv_unpack(struct oriel_p2p *p2p, struct p2p_recv_slot *s, unsigned index)
{
	const struct oriel_p2p_request *r = s->request;
	char *at = p2p->ctx->pool.area.base + (size_t)s->staging * p2p->ctx->pool.stride;
	uint64_t offset = (uint64_t)s->chunk * r->step, rest = r->length - offset;
	struct oriel_p2p_chunk chunk = {
		.buffer = (char *)r->buffer + offset,
		.offset = offset,
		.length = rest < r->step ? (size_t)rest : r->step,
		.channel = r->channel,
		.index = s->chunk,
		.user = r->user,
	};
	struct p2p_label label;
	enum oriel_status status;

	chunk.slot = at + p2p_slot_begin(chunk.length);
	/* A copy: the peer can still write to the label after the check. */
	memcpy(&label,
	       p2p->ctx->pool.is_gpu ? (char *)&p2p->segment->remote_control.labels[index] : at,
	       P2P_LABEL_HEAD);
	status = recv_check_label(r, s->chunk, chunk.length, &label);
	if (status != ORIEL_OK)
		return status;
	status = recv_copy(p2p, s, &chunk);
	return status > 0 ? ORIEL_AGAIN : status;
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

		if (s->state != P2P_RECV_ARRIVED)
			continue;
		if (recv_is_in_gpu(p2p, s->request))
			status = recv_flush(p2p);
		if (status == ORIEL_OK && s->request->protocol == P2P_STAGED)
			status = recv_unpack(p2p, s, s->request->channel * p2p->depth + slot);
		p2p->is_pending |= status == ORIEL_AGAIN;
		if (status == ORIEL_AGAIN)
			continue;
		if (status != ORIEL_OK)
			return status;
		recv_give_slot(p2p, s->staging);
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
		recv_retire(p2p, in, channel);
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

		if (s->state == P2P_RECV_GRANTED || s->state == P2P_RECV_ARRIVED)
			recv_give_slot(p2p, s->staging);
		s->state = P2P_RECV_NONE;
	}
	while (in->requests.first)
		ori_p2p_finish_first(p2p, &in->requests, status);
	in->assign = NULL;
}
