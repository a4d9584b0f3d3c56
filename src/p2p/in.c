/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is received and expected on a channel. The receiver says where each unit
 * may come: by a credit, which names a staging slot, or by an offer of memory.
 */
#include <string.h>

#include "base/error.h"
#include "p2p/p2p.h"

void ori_in_begin(struct oriel_p2p *p, struct oriel_p2p_request *r)
{
	struct p2p_in *in = &p->in[r->channel];

	r->number = in->number++;
	r->place = r->kind == P2P_EXPECT ? P2P_NOTICE : P2P_UNKNOWN;
	r->begun = r->done = r->chunks = 0;
	ori_p2p_append(&in->requests, r);
	if (!in->assign)
		in->assign = r;
	p->active_in |= UINT64_C(1) << r->channel;
}

static void in_plan_staged(const struct oriel_p2p *p, struct oriel_p2p_request *r)
{
	r->place = P2P_STAGED;
	r->step = (uint32_t)ori_p2p_step(p, r->length);
	r->chunks = (uint32_t)((r->length + r->step - 1) / r->step);
}

/* May the peer put straight to the buffer of @r? In auto mode it then is no failure if not. */
static enum oriel_status in_offer(struct oriel_p2p *p, struct oriel_p2p_request *r,
				  struct p2p_offer *offer)
{
	enum oriel_status st;

	if (atomic_load_explicit(&r->memory->status, memory_order_acquire) != ORIEL_OK)
		return p->mode == ORIEL_P2P_AUTO ? ORIEL_AGAIN : oriel_p2p_memory_check(r->memory);
	st = p->backend->show(p, r->memory, r->buffer, r->length, offer);
	if (st != ORIEL_OK)
		return st;
	offer->number = r->number;
	offer->length = r->length;
	return ORIEL_OK;
}

/* Decide how @r comes. ORIEL_AGAIN: not now. */
static enum oriel_status in_plan(struct oriel_p2p *p, struct oriel_p2p_request *r)
{
	struct p2p_offer offer;
	enum oriel_status st;

	r->chunks = 1;
	if (r->kind == P2P_EXPECT)
		return ORIEL_OK;
	if (p2p_is_eager(p, r)) {
		r->place = P2P_EAGER;
		return ORIEL_OK;
	}
	if (p->mode == ORIEL_P2P_COPY_BASED || (p->mode == ORIEL_P2P_AUTO && !r->memory)) {
		in_plan_staged(p, r);
		return ORIEL_OK;
	}
	if (!r->memory) {
		st = ori_mr_ref_take(p->hub, r);
		if (st != ORIEL_OK)
			return st;
	}
	st = in_offer(p, r, &offer);
	if (p->mode == ORIEL_P2P_AUTO && (st == ORIEL_AGAIN || st == ORIEL_ERR_UNSUPPORTED)) {
		in_plan_staged(p, r);
		return ORIEL_OK;
	}
	if (st == ORIEL_OK)
		r->place = P2P_DIRECT;
	return st;
}

static int in_take_slot(struct oriel_p2p *p, const struct oriel_p2p_request *r)
{
	struct p2p_pool *pool = &p->hub->pool;
	bool is_live;

	/* That nobody else takes, and which the caches know. */
	if (p->spare >= 0 && !p->is_spare_used) {
		p->is_spare_used = true;
		return p->spare;
	}
	/*
	 * Slots of transfers that the peer has begun as well come back whatever else it
	 * does. Others may stay away for ever: so they take no more than half of those
	 * that all ends share.
	 */
	is_live = ori_p2p_word(p, P2P_WORD_SENDS + r->channel) > r->number;
	return ori_pool_take(pool, &pool->receives, is_live ? 0 : pool->receive / 2);
}

static void in_give_slot(struct oriel_p2p *p, int slot)
{
	if (slot == p->spare)
		p->is_spare_used = false;
	else if (slot >= 0)
		ori_pool_give(&p->hub->pool, &p->hub->pool.receives, slot);
}

static enum oriel_status in_tell_offer(struct oriel_p2p *p, struct oriel_p2p_request *r,
				       struct p2p_in_slot *s, unsigned index, uint64_t unit)
{
	uint32_t immediate =
		p2p_immediate(P2P_IMM_OFFER, r->channel, p2p_slot(p, unit), p2p_lap(p, unit));
	struct p2p_offer *desk = &p->segment->desk.offers[index], offer = {0};
	uint64_t there = offsetof(struct p2p_remote_control, offers) + index * sizeof(*desk), op;
	struct p2p_local from = p2p_local_control(p, desk);
	struct p2p_remote to = p2p_remote_control(p, there);
	enum oriel_status st;

	if (s->op > p->done)
		return ORIEL_AGAIN;
	st = in_offer(p, r, &offer);
	if (st != ORIEL_OK)
		return st;
	if (p->backend->carries)
		return p->backend->carry(p, &offer, sizeof(offer), immediate, &op);
	*desk = offer;
	st = p->backend->tell(p, &from, &to, sizeof(*desk), immediate, &op);
	if (st == ORIEL_OK)
		s->op = op + 1;
	return st;
}

static enum oriel_status in_mismatch(const struct oriel_p2p_request *r, uint64_t number,
				     uint64_t length)
{
	return ori_fail(ORIEL_ERR_MISMATCH,
			"channel %u: the receive of transfer %llu is of %zu bytes, the send of "
			"transfer %llu of %llu",
			r->channel, (unsigned long long)r->number, r->length,
			(unsigned long long)number, (unsigned long long)length);
}

/* What is short came for the unit of this slot. */
static enum oriel_status in_take_short(struct p2p_in_slot *s, uint32_t number, const char *bytes,
				       size_t length)
{
	const struct oriel_p2p_request *r = s->request;
	int32_t ahead = (int32_t)(number - (uint32_t)r->number);

	if (r->place != P2P_EAGER || ahead || length != r->length)
		return in_mismatch(r, r->number + (uint64_t)ahead, length);
	memcpy(r->buffer, bytes, length);
	s->state = P2P_IN_DONE;
	return ORIEL_OK;
}

static const char *in_aside(const struct oriel_p2p *p, unsigned channel, unsigned slot)
{
	return (const char *)p->segment + p2p_eager_buffer(p, channel, slot);
}

/* The unit of this slot, of @r, is granted: has it come before? */
static enum oriel_status in_take_kept(struct oriel_p2p *p, const struct oriel_p2p_request *r,
				      unsigned slot)
{
	struct p2p_in *in = &p->in[r->channel];
	struct p2p_unexpected *kept = &in->kept[slot];
	uint32_t length = kept->length;

	if (!length)
		return ORIEL_OK;
	kept->length = 0;
	return in_take_short(&in->slots[slot], kept->number,
			     length <= P2P_EAGER_INLINE ? kept->bytes
							: in_aside(p, r->channel, slot),
			     length);
}

/* Let the next unit come. ORIEL_AGAIN: not now. */
static enum oriel_status in_grant(struct oriel_p2p *p, struct p2p_in *in,
				  struct oriel_p2p_request *r)
{
	unsigned slot = p2p_slot(p, in->unit), index = r->channel * p->depth + slot;
	struct p2p_in_slot *s = &in->slots[slot];
	enum oriel_status st = ORIEL_OK;

	s->staging = -1;
	s->copy = 0;
	s->is_told = r->place != P2P_EAGER;
	if (r->place == P2P_DIRECT) {
		st = in_tell_offer(p, r, s, index, in->unit);
	} else if (r->place != P2P_EAGER) {
		if (r->place == P2P_STAGED && (s->staging = in_take_slot(p, r)) < 0)
			return ORIEL_AGAIN;
		st = ori_p2p_set_word(p, P2P_WORD_CREDIT + index,
				      p2p_credit(p2p_lap(p, in->unit), (enum p2p_protocol)r->place,
						 s->staging < 0 ? 0 : (uint32_t)s->staging));
	}
	if (st != ORIEL_OK)
		return st;
	s->state = P2P_IN_GRANTED;
	s->request = r;
	s->chunk = r->begun;
	in->unit++;
	return in_take_kept(p, r, slot);
}

/* Of a peer that has gone what was kept is taken, and nothing else is to come. */
static bool in_may_come(const struct oriel_p2p *p, const struct p2p_in *in)
{
	const struct p2p_unexpected *kept = &in->kept[p2p_slot(p, in->unit)];

	return in->unit < in->oldest + p->depth &&
	       (!p->is_leaving || (kept->length && p2p_is_eager(p, in->assign)));
}

/* Those of them that are done, and how many the peer may be told of. */
static void in_retire(struct oriel_p2p *p, struct p2p_in *in, unsigned channel)
{
	while (in->oldest < in->unit && in->slots[p2p_slot(p, in->oldest)].state == P2P_IN_DONE) {
		struct p2p_in_slot *s = &in->slots[p2p_slot(p, in->oldest++)];
		struct oriel_p2p_request *r = s->request;

		s->state = P2P_IN_NONE;
		if (++r->done == r->chunks)
			ori_p2p_finish_first(p, &in->requests, ORIEL_OK);
	}
	/* Not each one, but before the peer has none left that it may fill. */
	if (p->eager_max && in->oldest - in->told >= (p->depth + 1) / 2)
		p->untold |= UINT64_C(1) << channel;
}

static enum oriel_status in_fill(struct oriel_p2p *p, unsigned channel, bool *has_moved)
{
	struct p2p_in *in = &p->in[channel];

	while (in->assign && in_may_come(p, in)) {
		struct oriel_p2p_request *r = in->assign;
		enum oriel_status st = ORIEL_OK;

		if (r->chunks == 0)
			st = in_plan(p, r);
		if (st == ORIEL_OK)
			st = in_grant(p, in, r);
		if (st != ORIEL_OK) {
			/* Planned anew: what it could have is another thing by then. */
			if (r->begun == 0 && r->place != P2P_DIRECT)
				r->chunks = 0;
			p->is_pending |= st == ORIEL_AGAIN;
			return st == ORIEL_AGAIN ? ORIEL_OK : st;
		}
		if (++r->begun == r->chunks)
			in->assign = r->next;
		in_retire(p, in, channel);
		*has_moved = true;
	}
	return ORIEL_OK;
}

/* The one unit of this slot that may be on its way. */
static uint64_t in_unit(const struct oriel_p2p *p, const struct p2p_in *in, unsigned slot)
{
	return in->oldest + p2p_slot(p, slot + p->depth - p2p_slot(p, in->oldest));
}

static bool in_is_due(const struct oriel_p2p *p, unsigned channel, unsigned slot,
		      uint32_t immediate)
{
	const struct p2p_in *in = &p->in[channel];

	return in->slots[slot].state == P2P_IN_GRANTED &&
	       (p2p_lap(p, in_unit(p, in, slot)) & 0xffff) == (immediate & 0xffff);
}

char *ori_in_address(struct oriel_p2p *p, uint32_t immediate, size_t length)
{
	unsigned channel = immediate >> 24 & 0x3f, slot = immediate >> 16 & 0xff;
	const struct p2p_in_slot *s;

	if (channel >= p->channels || slot >= p->depth)
		return NULL;
	if (immediate >> 30 == P2P_IMM_OFFER && length == sizeof(struct p2p_offer))
		return (char *)&p->segment->board.offers[channel * p->depth + slot];
	if (immediate >> 30 != P2P_IMM_UNIT || !in_is_due(p, channel, slot, immediate))
		return NULL;
	s = &p->in[channel].slots[slot];
	if (s->request->place == P2P_STAGED && p->hub->pool.is_gpu)
		return NULL;
	if (s->request->place == P2P_STAGED)
		return p->hub->pool.area.base + (size_t)s->staging * p->hub->pool.stride;
	return s->request->place == P2P_DIRECT && s->request->length == length &&
			       !s->request->is_gpu
		       ? s->request->buffer
		       : NULL;
}

/* May what came be in memory of a GPU? */
static bool in_is_in_gpu(const struct oriel_p2p *p, const struct oriel_p2p_request *r)
{
	return r->place != P2P_STAGED || p->hub->pool.is_gpu;
}

enum oriel_status ori_in_arrived(struct oriel_p2p *p, uint32_t immediate)
{
	unsigned channel = immediate >> 24 & 0x3f, slot = immediate >> 16 & 0xff;
	struct p2p_in *in;

	if (channel >= p->channels || slot >= p->depth)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer fills slot %u of channel %u", slot,
				channel);
	in = &p->in[channel];
	if (!in_is_due(p, channel, slot, immediate))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"the peer fills slot %u of channel %u in lap %u, which it may not",
				slot, channel, immediate & 0xffff);
	in->slots[slot].state = P2P_IN_ARRIVED;
	p->is_due = true;
	/* Who answers needs the credit that the peer has given before. */
	__builtin_prefetch(&p->segment->board.words[P2P_WORD_CREDIT + channel * p->depth +
						    p2p_slot(p, p->out[channel].unit)]);
	p->is_flush_due |= p->may_flush && in_is_in_gpu(p, in->slots[slot].request);
	return ORIEL_OK;
}

/* May what is short come for @unit, and now? */
static bool in_is_awaited(const struct oriel_p2p *p, const struct p2p_in *in, uint64_t unit,
			  uint32_t immediate)
{
	unsigned slot = p2p_slot(p, unit);

	return (p2p_lap(p, unit) & 0xffff) == (immediate & 0xffff) && !in->kept[slot].length &&
	       (unit >= in->unit || in->slots[slot].state == P2P_IN_GRANTED);
}

/* What is aside stays there. */
static void in_keep(struct p2p_unexpected *kept, uint32_t number, const char *bytes, size_t length)
{
	kept->number = number;
	kept->length = (uint32_t)length;
	if (length <= P2P_EAGER_INLINE)
		memcpy(kept->bytes, bytes, length);
}

/* How many bytes are within what came along, or aside. 0: it may not come so. */
static size_t in_short_length(const struct oriel_p2p *p, uint32_t immediate, const char *what,
			      size_t along)
{
	uint32_t length;

	if (!(immediate & P2P_IMM_BUFFERED))
		return along > P2P_EAGER_HEAD && along <= P2P_IMM_BYTES ? along - P2P_EAGER_HEAD
									: 0;
	if (along != P2P_EAGER_BUFFERED)
		return 0;
	memcpy(&length, what + P2P_EAGER_HEAD, sizeof(length));
	return length > P2P_EAGER_INLINE && length <= p->eager_max ? length : 0;
}

/* The peer may still write to @what: each count is read once. */
enum oriel_status ori_in_eager_arrived(struct oriel_p2p *p, uint32_t immediate, const char *what,
				       size_t along)
{
	unsigned channel = immediate >> 24 & 0x3f, slot = immediate >> 16 & 0x7f;
	size_t length = p->eager_max ? in_short_length(p, immediate, what, along) : 0;
	struct p2p_in *in = &p->in[channel];
	enum oriel_status st;
	uint32_t head[2];
	uint64_t unit;

	if (!length || channel >= p->channels || slot >= p->depth ||
	    !in_is_awaited(p, in, unit = in_unit(p, in, slot), immediate))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"%zu bytes of the peer for slot %u of channel %u in lap %u, which "
				"may not come",
				along, slot, channel, immediate & 0xffff);
	static_assert(P2P_EAGER_HEAD == sizeof(head), "number and taken");
	memcpy(head, what, sizeof(head));
	what = immediate & P2P_IMM_BUFFERED ? in_aside(p, channel, slot) : what + sizeof(head);
	st = ori_out_taken(p, channel, head[1]);
	if (st != ORIEL_OK)
		return st;
	if (unit >= in->unit) {
		in_keep(&in->kept[slot], head[0], what, length);
		return ORIEL_OK;
	}
	st = in_take_short(&in->slots[slot], head[0], what, length);
	if (st != ORIEL_OK)
		return st;
	in_retire(p, in, channel);
	p->is_due |= in->assign != NULL;
	if (!in->requests.first)
		p->active_in &= ~(UINT64_C(1) << channel);
	return ORIEL_OK;
}

bool ori_in_recv_eager(struct oriel_p2p *p, struct oriel_p2p_request *r)
{
	struct p2p_in *in = &p->in[r->channel];
	const struct p2p_unexpected *kept;
	struct p2p_in_slot *s;
	unsigned slot;

	if (r->kind != P2P_RECV || !p2p_is_eager(p, r) || in->assign ||
	    in->unit >= in->oldest + p->depth)
		return false;
	slot = p2p_slot(p, in->unit);
	s = &in->slots[slot];
	kept = &in->kept[slot];
	/* What does not fit is found on the long way. */
	if (kept->length ? kept->length != r->length || kept->number != (uint32_t)in->number
			 : p->is_leaving)
		return false;
	r->number = in->number++;
	r->place = P2P_EAGER;
	r->begun = r->chunks = 1;
	r->done = 0;
	in->unit++;
	*s = (struct p2p_in_slot){.state = P2P_IN_GRANTED,
				  .request = r,
				  .staging = -1,
				  .op = s->op};
	ori_p2p_append(&in->requests, r);
	(void)in_take_kept(p, r, slot);
	in_retire(p, in, r->channel);
	if (in->requests.first)
		p->active_in |= UINT64_C(1) << r->channel;
	return true;
}

bool ori_in_is_left(const struct oriel_p2p *p, unsigned channel, size_t length)
{
	const struct p2p_unexpected *kept;
	const struct p2p_in *in;

	if (p->failure != ORIEL_ERR_PEER || channel >= p->channels)
		return false;
	in = &p->in[channel];
	kept = &in->kept[p2p_slot(p, in->unit)];
	return kept->length && kept->length == length && kept->number == (uint32_t)in->number;
}

uint32_t ori_in_taken(struct oriel_p2p *p, unsigned channel)
{
	struct p2p_in *in = &p->in[channel];

	in->told = in->oldest;
	p->untold &= ~(UINT64_C(1) << channel);
	return (uint32_t)in->told;
}

enum oriel_status ori_in_report(struct oriel_p2p *p, unsigned channel)
{
	(void)ori_in_taken(p, channel);
	return ori_p2p_set_word(p, P2P_WORD_TAKEN + channel, p->in[channel].told);
}

enum oriel_status ori_in_report_granted(struct oriel_p2p *p, unsigned channel)
{
	struct p2p_in *in = &p->in[channel];
	enum oriel_status st = ORIEL_OK;

	for (uint64_t unit = in->oldest; unit < in->unit && st == ORIEL_OK; unit++) {
		struct p2p_in_slot *s = &in->slots[p2p_slot(p, unit)];

		if (s->state != P2P_IN_GRANTED || s->is_told)
			continue;
		s->is_told = true;
		st = ori_p2p_set_word(p, P2P_WORD_CREDIT + channel * p->depth + p2p_slot(p, unit),
				      p2p_credit(p2p_lap(p, unit), P2P_EAGER, 0));
	}
	return st;
}

static enum oriel_status in_check_label(const struct oriel_p2p_request *r, uint32_t chunk,
					size_t length, const struct p2p_label *label)
{
	if (label->number != r->number || label->total != r->length)
		return in_mismatch(r, label->number, label->total);
	if (label->chunk != chunk || label->length != length)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"chunk %u of %u bytes came where chunk %u of %zu bytes is due",
				label->chunk, label->length, chunk, length);
	return ORIEL_OK;
}

/* By the hook, an engine, or the CPU. ORIEL_AGAIN: begun. */
static enum oriel_status in_copy(struct oriel_p2p *p, struct p2p_in_slot *s,
				 const struct oriel_p2p_chunk *chunk)
{
	enum oriel_status st = ORIEL_OK;

	if (p->hooks.unpack) {
		st = p->hooks.unpack(p->context, chunk);
		return st < 0 ? ori_fail(st, "the unpack hook failed: %s", oriel_status_text(st))
			      : st;
	}
	if (!s->request->is_gpu && !p->hub->pool.is_gpu) {
		memcpy(chunk->buffer, chunk->slot, chunk->length);
		return ORIEL_OK;
	}
	if (!s->copy)
		st = ori_copy_stream_copy(p, P2P_COPY_IN, chunk->buffer, chunk->slot, chunk->length,
					  &s->copy);
	return st == ORIEL_OK ? ori_copy_stream_test(p, P2P_COPY_IN, s->copy) : st;
}

/* ORIEL_AGAIN: the copy goes on. @index: of the slot among all of the end. */
static enum oriel_status in_unpack(struct oriel_p2p *p, struct p2p_in_slot *s, unsigned index)
{
	const struct oriel_p2p_request *r = s->request;
	char *at = p->hub->pool.area.base + (size_t)s->staging * p->hub->pool.stride;
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
	enum oriel_status st;

	chunk.slot = at + p2p_slot_begin(chunk.length);
	memcpy(&label, p->hub->pool.is_gpu ? (char *)&p->segment->board.labels[index] : at,
	       P2P_LABEL_HEAD);
	st = in_check_label(r, s->chunk, chunk.length, &label);
	if (st != ORIEL_OK)
		return st;
	st = in_copy(p, s, &chunk);
	return st > 0 ? ORIEL_AGAIN : st;
}

static enum oriel_status in_flush(struct oriel_p2p *p)
{
	enum oriel_status st = p->is_flush_due ? ori_p2p_context_flush(p->hub) : ORIEL_OK;

	p->is_flush_due = false;
	return st;
}

static enum oriel_status in_run_slots(struct oriel_p2p *p, struct p2p_in *in, bool *has_moved)
{
	for (uint64_t unit = in->oldest; unit < in->unit; unit++) {
		unsigned slot = p2p_slot(p, unit);
		struct p2p_in_slot *s = &in->slots[slot];
		enum oriel_status st = ORIEL_OK;

		if (s->state != P2P_IN_ARRIVED)
			continue;
		if (in_is_in_gpu(p, s->request))
			st = in_flush(p);
		if (st == ORIEL_OK && s->request->place == P2P_STAGED)
			st = in_unpack(p, s, s->request->channel * p->depth + slot);
		p->is_pending |= st == ORIEL_AGAIN;
		if (st == ORIEL_AGAIN)
			continue;
		if (st != ORIEL_OK)
			return st;
		in_give_slot(p, s->staging);
		s->staging = -1;
		s->state = P2P_IN_DONE;
		*has_moved = true;
	}
	return ORIEL_OK;
}

enum oriel_status ori_in_run(struct oriel_p2p *p, unsigned channel, bool *has_moved)
{
	struct p2p_in *in = &p->in[channel];
	bool has_more = true;
	enum oriel_status st = ORIEL_OK;

	/* Nothing comes to a slot while this runs: filled once more when some are free again. */
	while (has_more && st == ORIEL_OK) {
		has_more = false;
		st = in_run_slots(p, in, &has_more);
		in_retire(p, in, channel);
		*has_moved |= has_more;
		if (st == ORIEL_OK && in->assign)
			st = in_fill(p, channel, has_moved);
	}
	if (!in->requests.first)
		p->active_in &= ~(UINT64_C(1) << channel);
	return st;
}

bool ori_in_is_busy(const struct oriel_p2p *p, unsigned channel)
{
	const struct p2p_in *in = &p->in[channel];

	for (uint64_t unit = in->oldest; unit < in->unit; unit++)
		if (in->slots[p2p_slot(p, unit)].state == P2P_IN_ARRIVED)
			return true;
	return false;
}

bool ori_in_take_back(struct oriel_p2p *p, struct oriel_p2p_request *r)
{
	struct p2p_in *in = &p->in[r->channel];

	if (r->begun || !ori_p2p_take_out(&in->requests, r))
		return false;
	for (struct oriel_p2p_request *behind = r->next; behind; behind = behind->next)
		behind->number--;
	in->number--;
	if (in->assign == r)
		in->assign = r->next;
	if (!in->requests.first)
		p->active_in &= ~(UINT64_C(1) << r->channel);
	return true;
}

void ori_in_cancel(struct oriel_p2p *p, unsigned channel, enum oriel_status status)
{
	struct p2p_in *in = &p->in[channel];

	for (; in->oldest < in->unit; in->oldest++) {
		struct p2p_in_slot *s = &in->slots[p2p_slot(p, in->oldest)];

		if (s->state == P2P_IN_GRANTED || s->state == P2P_IN_ARRIVED)
			in_give_slot(p, s->staging);
		s->state = P2P_IN_NONE;
	}
	while (in->requests.first)
		ori_p2p_finish_first(p, &in->requests, status);
	in->assign = NULL;
}
