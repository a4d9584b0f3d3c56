/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent and put on a channel: where each transfer goes, as the peer says, and
 * the chunks of it, which take slots in their order.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "p2p/out.h"

#define OUT_PIECE (1u << 20)      /* of what goes straight */
#define OUT_GPU_PIECE (64u << 20) /* ... by an engine: to begin a copy costs as much as 2 MiB */
#define OUT_OFFERED (1u << 16)    /* and the lap below */

void ori_out_begin(struct oriel_p2p *p, struct oriel_p2p_request *r)
{
	struct p2p_out *out = &p->out[r->channel];

	r->number = out->number++;
	r->place = P2P_UNKNOWN;
	r->begun = r->done = r->chunks = 0;
	ori_p2p_append(&out->requests, r);
	if (!out->resolve)
		out->resolve = r;
	if (!out->assign)
		out->assign = r;
	p->active_out |= UINT64_C(1) << r->channel;
}

/* The @ith slot that is taken, from the oldest on. */
static struct p2p_out_slot *out_slot(const struct oriel_p2p *p, struct p2p_out *out, uint32_t i)
{
	uint32_t at = out->first + i;

	return &out->slots[at < p->depth ? at : at - p->depth];
}

static uint32_t out_count(uint64_t length, uint64_t step)
{
	return (uint32_t)((length + step - 1) / step);
}

enum oriel_status ori_out_offered(struct oriel_p2p *p, uint32_t immediate)
{
	unsigned channel = immediate >> 24 & 0x3f, slot = immediate >> 16 & 0xff;

	if (channel >= p->channels || slot >= p->depth)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer offers slot %u of channel %u", slot,
				channel);
	p->offered[channel * p->depth + slot] = OUT_OFFERED | (immediate & 0xffff);
	return ORIEL_OK;
}

enum oriel_status ori_out_mismatch(const struct oriel_p2p_request *r, const char *there)
{
	return ori_fail(ORIEL_ERR_MISMATCH,
			"transfer %llu of channel %u: %s of %zu bytes here meets %s there",
			(unsigned long long)r->number, r->channel,
			r->kind == P2P_PUT ? "a put" : "a send", r->length, there);
}

const char *ori_out_other(enum p2p_protocol place)
{
	return place == P2P_NOTICE ? "an expect" : "a receive of few bytes";
}

static enum oriel_status out_take_credit(struct oriel_p2p *p, struct oriel_p2p_request *r,
					 uint64_t credit)
{
	enum p2p_protocol place = p2p_credit_protocol(credit);

	if (place == P2P_NOTICE)
		return r->kind == P2P_PUT ? (r->place = P2P_NOTICE, ORIEL_OK)
					  : ori_out_mismatch(r, ori_out_other(place));
	if (place == P2P_EAGER && p->eager_max)
		return ori_out_mismatch(r, ori_out_other(place));
	if (place != P2P_STAGED || p->mode == ORIEL_P2P_ZERO_COPY)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer gives credit 0x%llx",
				(unsigned long long)credit);
	if (r->kind == P2P_PUT)
		return ori_out_mismatch(r, "a receive");
	r->place = P2P_STAGED;
	return ORIEL_OK;
}

static enum oriel_status out_take_offer(struct oriel_p2p *p, struct oriel_p2p_request *r,
					unsigned index)
{
	struct p2p_offer offer = p->segment->board.offers[index];
	struct p2p_remote far;
	enum oriel_status st;

	if (p->mode == ORIEL_P2P_COPY_BASED)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer offers memory");
	if (r->kind == P2P_PUT)
		return ori_out_mismatch(r, "a receive");
	if (offer.number != r->number || offer.length != r->length)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"channel %u: the send of transfer %llu is of %zu bytes, the "
				"receive of transfer %llu of %llu",
				r->channel, (unsigned long long)r->number, r->length,
				(unsigned long long)offer.number, (unsigned long long)offer.length);
	st = p->backend->find(p, &offer, &far);
	if (st != ORIEL_OK)
		return st;
	r->address = offer.address;
	r->key = offer.key;
	r->piece = offer.piece;
	r->place = P2P_DIRECT;
	p->offered[index] = 0;
	return ORIEL_OK;
}

static enum oriel_status out_set_taken(struct p2p_out *out, uint64_t taken)
{
	if (taken > out->unit)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer has taken %llu units of %llu",
				(unsigned long long)taken, (unsigned long long)out->unit);
	if (taken > out->taken)
		out->taken = taken;
	return ORIEL_OK;
}

enum oriel_status ori_out_taken(struct oriel_p2p *p, unsigned channel, uint32_t taken)
{
	struct p2p_out *out = &p->out[channel];
	int32_t more = (int32_t)(taken - (uint32_t)out->taken);

	/* What came by the word may be later. */
	return more > 0 ? out_set_taken(out, out->taken + (uint32_t)more) : ORIEL_OK;
}

/* Is the place where the next unit would be kept free? ORIEL_AGAIN: not as far as known. */
static enum oriel_status out_find_room(const struct oriel_p2p *p, struct p2p_out *out,
				       unsigned channel)
{
	enum oriel_status st = ORIEL_OK;

	if (out->unit >= out->taken + p->depth)
		st = out_set_taken(out, ori_p2p_word(p, P2P_WORD_TAKEN + channel));
	return st == ORIEL_OK && out->unit >= out->taken + p->depth ? ORIEL_AGAIN : st;
}

/* Nobody looks there before he is told. */
static enum oriel_status out_put_aside(struct oriel_p2p *p, const struct oriel_p2p_request *r,
				       unsigned slot)
{
	const uint64_t board = offsetof(struct p2p_segment, board);
	struct p2p_local from = {.at = r->buffer};
	struct p2p_remote to = p2p_remote_control(p, p2p_eager_buffer(p, r->channel, slot) - board);
	uint64_t op;

	return p->backend->put(p, &from, &to, r->length, &op);
}

enum oriel_status ori_out_post_eager(struct oriel_p2p *p, const struct oriel_p2p_request *r,
				     uint64_t unit, uint64_t *op)
{
	unsigned slot = p2p_slot(p, unit);
	uint32_t tell = p2p_immediate(P2P_IMM_EAGER, r->channel, slot, p2p_lap(p, unit));
	size_t along = P2P_EAGER_HEAD + r->length;
	enum oriel_status st = ORIEL_OK;
	struct p2p_eager what;

	what.number = (uint32_t)r->number;
	what.taken = ori_in_taken(p, r->channel);
	if (r->length <= P2P_EAGER_INLINE) {
		memcpy(what.bytes, r->buffer, r->length);
	} else {
		st = out_put_aside(p, r, slot);
		what.length = (uint32_t)r->length;
		along = P2P_EAGER_BUFFERED;
		tell |= P2P_IMM_BUFFERED;
	}
	return st == ORIEL_OK ? p->backend->carry(p, &what, along, tell, op) : st;
}

bool ori_out_send_eager(struct oriel_p2p *p, struct oriel_p2p_request *r)
{
	struct p2p_out *out = &p->out[r->channel];
	uint64_t op;

	if (r->kind != P2P_SEND || !p2p_is_eager(p, r) || out->requests.first ||
	    out_find_room(p, out, r->channel) != ORIEL_OK)
		return false;
	r->number = out->number;
	if (ori_out_post_eager(p, r, out->unit, &op) != ORIEL_OK)
		return false;
	out->number++;
	out->unit++;
	r->status = ORIEL_OK;
	return true;
}

/* It needs no word of the peer's. */
static enum oriel_status out_resolve_short(struct oriel_p2p *p, struct p2p_out *out,
					   struct oriel_p2p_request *r)
{
	enum oriel_status st = out_find_room(p, out, r->channel);

	if (st != ORIEL_OK)
		return st;
	r->place = P2P_EAGER;
	r->unit = out->unit++;
	out->resolve = r->next;
	return ORIEL_OK;
}

/* ORIEL_AGAIN: the peer has not said where the next transfer goes. */
static enum oriel_status out_resolve_one(struct oriel_p2p *p, struct p2p_out *out,
					 struct oriel_p2p_request *r)
{
	unsigned index = p2p_out_index(p, r->channel, out->unit);
	uint64_t lap = p2p_lap(p, out->unit);
	uint64_t credit = ori_p2p_word(p, P2P_WORD_CREDIT + index);
	enum oriel_status st;

	if (p2p_is_eager(p, r))
		return out_resolve_short(p, out, r);
	if (p2p_credit_lap(credit) == lap)
		st = out_take_credit(p, r, credit);
	else if (p->offered[index] == (OUT_OFFERED | (lap & 0xffff)))
		st = out_take_offer(p, r, index);
	else
		return ORIEL_AGAIN;
	if (st != ORIEL_OK)
		return st;
	r->unit = out->unit;
	out->unit += r->place == P2P_STAGED ? out_count(r->length, ori_p2p_step(p, r->length)) : 1;
	out->resolve = r->next;
	return ORIEL_OK;
}

static enum oriel_status out_resolve(struct oriel_p2p *p, struct p2p_out *out, bool *has_moved)
{
	while (out->resolve) {
		enum oriel_status st = out_resolve_one(p, out, out->resolve);

		if (st == ORIEL_AGAIN)
			return ORIEL_OK;
		if (st != ORIEL_OK)
			return st;
		*has_moved = true;
	}
	return ORIEL_OK;
}

static bool out_has_keys(const struct oriel_p2p_request *r)
{
	return r->memory &&
	       atomic_load_explicit(&r->memory->status, memory_order_acquire) == ORIEL_OK &&
	       r->memory->has_mr;
}

/* Cut the transfer into chunks. ORIEL_AGAIN: how is not known yet. */
static enum oriel_status out_plan(struct oriel_p2p *p, struct oriel_p2p_request *r)
{
	bool is_straight = r->place == P2P_DIRECT || r->place == P2P_NOTICE;
	enum oriel_status st;

	if (r->place == P2P_UNKNOWN && (p->mode != ORIEL_P2P_COPY_BASED || p2p_is_eager(p, r)))
		return ORIEL_AGAIN;
	r->step = (uint32_t)ori_p2p_step(p, r->length);
	if (is_straight && p->backend->needs_keys && p->mode == ORIEL_P2P_ZERO_COPY && !r->memory) {
		st = ori_mr_ref_take(p->hub, r);
		if (st != ORIEL_OK)
			return st;
	}
	if (is_straight && p->backend->needs_keys && p->mode == ORIEL_P2P_ZERO_COPY) {
		st = oriel_p2p_memory_check(r->memory);
		if (st != ORIEL_OK)
			return st;
	}
	r->is_straight = is_straight && (!p->backend->needs_keys || out_has_keys(r));
	if (r->is_straight)
		r->step = r->is_gpu && !p->backend->needs_keys ? OUT_GPU_PIECE : OUT_PIECE;
	r->chunks = out_count(r->length, r->step);
	return ORIEL_OK;
}

static enum oriel_status out_fill(struct oriel_p2p *p, struct p2p_out *out, bool *has_moved)
{
	while (out->count < p->depth && out->assign) {
		struct oriel_p2p_request *r = out->assign;
		struct p2p_out_slot *s;
		uint64_t rest;

		if (r->begun == 0) {
			enum oriel_status st = out_plan(p, r);

			if (st == ORIEL_AGAIN)
				return ORIEL_OK;
			if (st != ORIEL_OK)
				return st;
		}
		s = out_slot(p, out, out->count++);
		*s = (struct p2p_out_slot){.request = r, .chunk = r->begun, .staging = -1};
		s->offset = (uint64_t)r->begun * r->step;
		rest = r->length - s->offset;
		s->length = (uint32_t)(rest < r->step ? rest : r->step);
		if (++r->begun == r->chunks)
			out->assign = r->next;
		*has_moved = true;
	}
	return ORIEL_OK;
}

static enum oriel_status out_run_slots(struct oriel_p2p *p, struct p2p_out *out, bool *has_moved)
{
	const struct oriel_p2p_request *held = NULL; /* has a chunk that is not posted */

	for (uint32_t i = 0; i < out->count; i++) {
		struct p2p_out_slot *s = out_slot(p, out, i);
		enum oriel_status st;

		while ((st = ori_out_step(p, s, s->request != held)) == ORIEL_OK)
			*has_moved = true;
		if (st != ORIEL_AGAIN)
			return st;
		if (s->state < P2P_OUT_POSTED)
			held = s->request;
	}
	return ORIEL_OK;
}

static void out_retire(struct oriel_p2p *p, struct p2p_out *out)
{
	while (out->count && out->slots[out->first].state == P2P_OUT_DONE) {
		struct oriel_p2p_request *r = out->slots[out->first].request;

		out->first = out->first + 1 < p->depth ? out->first + 1 : 0;
		out->count--;
		if (++r->done == r->chunks)
			ori_p2p_finish_first(p, &out->requests, ORIEL_OK);
	}
}

/*
 * Whoever waits for slots says for how many transfers: more are given to those that are there.
 * Those behind the first that waits are not told of, so that they may be given up.
 */
static enum oriel_status out_ask(struct oriel_p2p *p, struct p2p_out *out, unsigned channel)
{
	uint64_t waiting = out->resolve ? out->resolve->number + 1 : out->number;

	if (waiting <= out->told || p->mode == ORIEL_P2P_ZERO_COPY)
		return ORIEL_OK;
	out->told = waiting;
	return ori_p2p_set_word(p, P2P_WORD_SENDS + channel, waiting);
}

static bool out_is_waiting(const struct oriel_p2p *p, struct p2p_out *out)
{
	if (out->resolve)
		return true;
	for (uint32_t i = 0; i < out->count; i++)
		if (out_slot(p, out, i)->state < P2P_OUT_POSTED)
			return true;
	return false;
}

enum oriel_status ori_out_run(struct oriel_p2p *p, unsigned channel, bool *has_moved)
{
	struct p2p_out *out = &p->out[channel];
	bool has_more = true;
	enum oriel_status st = ORIEL_OK;

	while (has_more && st == ORIEL_OK && out->requests.first) {
		has_more = false;
		st = out_resolve(p, out, &has_more);
		if (st == ORIEL_OK)
			st = out_fill(p, out, &has_more);
		if (st == ORIEL_OK)
			st = out_run_slots(p, out, &has_more);
		out_retire(p, out);
		*has_moved |= has_more;
	}
	if (st == ORIEL_OK && out_is_waiting(p, out))
		st = out_ask(p, out, channel);
	if (!out->requests.first)
		p->active_out &= ~(UINT64_C(1) << channel);
	return st;
}

bool ori_out_take_back(struct oriel_p2p *p, struct oriel_p2p_request *r)
{
	struct p2p_out *out = &p->out[r->channel];

	if (r->number < out->told || r->place != P2P_UNKNOWN || r->begun ||
	    !ori_p2p_take_out(&out->requests, r))
		return false;
	for (struct oriel_p2p_request *behind = r->next; behind; behind = behind->next)
		behind->number--;
	out->number--;
	if (out->resolve == r)
		out->resolve = r->next;
	if (out->assign == r)
		out->assign = r->next;
	if (!out->requests.first)
		p->active_out &= ~(UINT64_C(1) << r->channel);
	return true;
}

void ori_out_cancel(struct oriel_p2p *p, unsigned channel, enum oriel_status status)
{
	struct p2p_out *out = &p->out[channel];

	for (uint32_t i = 0; i < out->count; i++) {
		int staging = out_slot(p, out, i)->staging;

		if (staging >= 0)
			ori_pool_give(&p->hub->pool, &p->hub->pool.sends, staging);
	}
	out->count = 0;
	while (out->requests.first)
		ori_p2p_finish_first(p, &out->requests, status);
	out->resolve = out->assign = NULL;
}
