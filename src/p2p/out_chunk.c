/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chunk on its way out. It runs until it waits: packed while the credit is still on
 * its way, posted with what says which unit it is, and given up when the adapter is done.
 */
#include <string.h>

#include "base/error.h"
#include "p2p/out.h"

/* The staging slot of the peer for this chunk. ORIEL_AGAIN: no credit. */
static enum oriel_status chunk_credit(struct oriel_p2p *p, const struct p2p_out_slot *s,
				      struct p2p_remote *far)
{
	uint64_t unit = s->request->unit + s->chunk;
	uint64_t credit =
		ori_p2p_word(p, P2P_WORD_CREDIT + p2p_out_index(p, s->request->channel, unit));
	uint64_t at = p2p_credit_slot(credit) * p->pool_stride;

	if (p2p_credit_lap(credit) != p2p_lap(p, unit))
		return ORIEL_AGAIN;
	if (p2p_credit_protocol(credit) == P2P_NOTICE || p2p_credit_protocol(credit) == P2P_EAGER)
		return ori_out_mismatch(s->request, ori_out_other(p2p_credit_protocol(credit)));
	if (p2p_credit_protocol(credit) != P2P_STAGED || p2p_credit_slot(credit) >= p->pool_slots)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer gives credit 0x%llx",
				(unsigned long long)credit);
	*far = p->pool;
	far->address += at;
	if (far->at)
		far->at += at;
	return ORIEL_OK;
}

/*
 * What hooks have begun goes on by itself, so it is not for slots of a peer, who takes
 * them back when he leaves; copies are counted, and waited for.
 */
static bool chunk_packs_there(const struct oriel_p2p *p)
{
	return p->backend->is_mapped && !p->hooks.pack;
}

/* Few bytes that need no slot here: they go with what tells of them. */
static bool chunk_is_carried(const struct oriel_p2p *p, const struct oriel_p2p_request *r)
{
	return p->backend->carries && r->length <= P2P_FEW && !r->is_gpu && !p->hooks.pack;
}

/* Does @s wait for nothing but a slot, and the link? */
static bool chunk_may_put(struct oriel_p2p *p, const struct p2p_out_slot *s)
{
	struct p2p_remote far;

	if (s->request->place == P2P_STAGED)
		return chunk_credit(p, s, &far) != ORIEL_AGAIN;
	return s->request->place != P2P_UNKNOWN;
}

/* ORIEL_AGAIN: no slot of the pool is free, or the credit is not there. */
static enum oriel_status chunk_place(struct oriel_p2p *p, struct p2p_out_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct p2p_remote far;
	enum oriel_status st;

	if (r->place == P2P_EAGER ||
	    (r->place == P2P_STAGED && !p->pool.is_gpu && chunk_is_carried(p, r)))
		return ORIEL_OK;
	if (r->place == P2P_STAGED && chunk_packs_there(p)) {
		st = chunk_credit(p, s, &far);
		if (st == ORIEL_OK)
			s->label = far.at;
		return st;
	}
	/* A mapped peer's slot is not known before its credit. */
	if (r->place == P2P_UNKNOWN && chunk_packs_there(p))
		return ORIEL_AGAIN;
	if (r->is_straight)
		return ORIEL_OK;
	/*
	 * One slot is left for what may be put now: what is packed ahead waits for the peer,
	 * perhaps for ever, and a slot there may wait for another channel.
	 */
	s->staging = ori_pool_take(&p->hub->pool, &p->hub->pool.sends, !chunk_may_put(p, s));
	if (s->staging < 0)
		return ORIEL_AGAIN;
	s->label = p->hub->pool.area.base + (size_t)s->staging * p->hub->pool.stride;
	return ORIEL_OK;
}

/* Is it packed in memory of a GPU, here or at the peer? */
static bool chunk_is_in_gpu(const struct oriel_p2p *p, const struct p2p_out_slot *s)
{
	return s->staging < 0 ? p->pool.is_gpu : p->hub->pool.is_gpu;
}

/* By the hook, an engine, or the CPU. ORIEL_AGAIN: begun. */
static enum oriel_status chunk_copy(struct oriel_p2p *p, struct p2p_out_slot *s,
				    const struct oriel_p2p_chunk *chunk)
{
	enum oriel_status st = ORIEL_OK;

	if (p->hooks.pack) {
		st = p->hooks.pack(p->context, chunk);
		return st < 0 ? ori_fail(st, "the pack hook failed: %s", oriel_status_text(st))
			      : st;
	}
	if (!s->request->is_gpu && !chunk_is_in_gpu(p, s)) {
		memcpy(chunk->slot, chunk->buffer, chunk->length);
		return ORIEL_OK;
	}
	if (!s->copy)
		st = ori_copy_stream_copy(p, P2P_COPY_OUT, chunk->slot, chunk->buffer,
					  chunk->length, &s->copy);
	return st == ORIEL_OK ? ori_copy_stream_test(p, P2P_COPY_OUT, s->copy) : st;
}

static enum oriel_status chunk_pack(struct oriel_p2p *p, struct p2p_out_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct oriel_p2p_chunk chunk = {
		.slot = s->label + p2p_slot_begin(s->length),
		.buffer = (char *)r->buffer + s->offset,
		.offset = s->offset,
		.length = s->length,
		.channel = r->channel,
		.index = s->chunk,
		.user = r->user,
	};
	struct p2p_label label = {r->number, r->length, s->chunk, s->length, "", 0};
	enum oriel_status st = chunk_copy(p, s, &chunk);

	if (st != ORIEL_OK)
		return st < 0 ? st : ORIEL_AGAIN;
	if (!chunk_is_in_gpu(p, s))
		memcpy(s->label, &label, P2P_LABEL_HEAD);
	return ORIEL_OK;
}

/* From where this chunk is put, without its label. */
static struct p2p_local chunk_source(const struct oriel_p2p *p, const struct p2p_out_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct p2p_local near = {.at = (char *)r->buffer + s->offset,
				 .is_gpu = r->is_gpu && !s->label};

	if (s->label) {
		near.at = s->label + p2p_slot_begin(s->length);
		near.address = (uint64_t)(near.at - p->hub->pool.area.base);
		near.lkey = p->hub->pool.area.keys.lkey;
		near.is_gpu = s->staging >= 0 && p->hub->pool.is_gpu;
	} else if (r->memory) {
		near.address = r->memory->iova + (uint64_t)(near.at - r->memory->address);
		near.lkey = r->memory->keys.lkey;
	}
	return near;
}

static enum oriel_status chunk_carry_staged(struct oriel_p2p *p, struct p2p_out_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct p2p_label label = {r->number, r->length, 0, s->length, "", 0};
	struct p2p_remote to;
	enum oriel_status st = chunk_credit(p, s, &to);

	if (st != ORIEL_OK)
		return st;
	memcpy(label.few, r->buffer, s->length);
	return p->backend->carry(p, &label, P2P_LABEL_HEAD + s->length,
				 p2p_immediate(P2P_IMM_UNIT, r->channel, p2p_slot(p, r->unit),
					       p2p_lap(p, r->unit)),
				 &s->op);
}

/* The bytes, unless they have been packed where they go; then the label, by itself. */
static enum oriel_status chunk_post_split(struct oriel_p2p *p, struct p2p_out_slot *s,
					  const struct p2p_remote *slot)
{
	const struct oriel_p2p_request *r = s->request;
	uint64_t unit = r->unit + s->chunk, begin = p2p_slot_begin(s->length);
	unsigned index = p2p_out_index(p, r->channel, unit);
	struct p2p_label *desk = &p->segment->desk.labels[index];
	struct p2p_local from = chunk_source(p, s);
	struct p2p_remote to = *slot;
	enum oriel_status st = ORIEL_OK;

	if (s->staging >= 0 && !s->is_put) {
		to.address += begin;
		if (to.at)
			to.at += begin;
		st = p->backend->put(p, &from, &to, s->length, &s->op);
		s->is_put = st == ORIEL_OK;
	}
	if (st == ORIEL_OK && p->labels_op[index] > p->done)
		st = ORIEL_AGAIN;
	if (st != ORIEL_OK)
		return st;
	*desk = (struct p2p_label){r->number, r->length, s->chunk, s->length, "", 0};
	from = p2p_local_control(p, desk);
	/* Where the CPU of the peer looks for it. */
	to = p->pool.is_gpu ? p2p_remote_control(p, offsetof(struct p2p_remote_control, labels) +
							    index * sizeof(*desk))
			    : *slot;
	st = p->backend->tell(p, &from, &to, P2P_LABEL_HEAD,
			      p2p_immediate(P2P_IMM_UNIT, r->channel, p2p_slot(p, unit),
					    p2p_lap(p, unit)),
			      &s->op);
	if (st == ORIEL_OK)
		p->labels_op[index] = s->op + 1;
	return st;
}

static enum oriel_status chunk_post_staged(struct oriel_p2p *p, struct p2p_out_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	uint64_t unit = r->unit + s->chunk;
	struct p2p_local from = chunk_source(p, s);
	struct p2p_remote to;
	size_t length = s->staging < 0 ? 0 : p2p_slot_end(s->length);
	enum oriel_status st = chunk_credit(p, s, &to);

	if (st == ORIEL_OK && (p->pool.is_gpu || chunk_is_in_gpu(p, s)))
		return chunk_post_split(p, s, &to);
	if (st != ORIEL_OK)
		return st;
	from.at -= p2p_slot_begin(s->length);
	from.address -= p2p_slot_begin(s->length);
	return p->backend->tell(p, &from, &to, length,
				p2p_immediate(P2P_IMM_UNIT, r->channel, p2p_slot(p, unit),
					      p2p_lap(p, unit)),
				&s->op);
}

static enum oriel_status chunk_post_straight(struct oriel_p2p *p, struct p2p_out_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct p2p_offer offer = {r->address, r->length, r->number, r->key, r->piece};
	struct p2p_local from = chunk_source(p, s);
	struct p2p_remote to;
	enum oriel_status st = p->backend->find(p, &offer, &to);

	if (st != ORIEL_OK)
		return st;
	to.address += s->offset;
	if (to.at)
		to.at += s->offset;
	if (r->place == P2P_DIRECT && chunk_is_carried(p, r) && !to.is_gpu)
		return p->backend->carry(p, r->buffer, s->length,
					 p2p_immediate(P2P_IMM_UNIT, r->channel,
						       p2p_slot(p, r->unit), p2p_lap(p, r->unit)),
					 &s->op);
	if (s->chunk + 1 < r->chunks)
		return p->backend->put(p, &from, &to, s->length, &s->op);
	return p->backend->tell(p, &from, &to, s->length,
				p2p_immediate(P2P_IMM_UNIT, r->channel, p2p_slot(p, r->unit),
					      p2p_lap(p, r->unit)),
				&s->op);
}

enum oriel_status ori_out_step(struct oriel_p2p *p, struct p2p_out_slot *s, bool is_next)
{
	enum oriel_status st = ORIEL_AGAIN;

	switch (s->state) {
	case P2P_OUT_NEW:
		st = chunk_place(p, s);
		if (st == ORIEL_OK)
			s->state = s->label ? P2P_OUT_PACK : P2P_OUT_READY;
		return st;
	case P2P_OUT_PACK:
		st = chunk_pack(p, s);
		if (st == ORIEL_OK)
			s->state = P2P_OUT_READY;
		return st;
	case P2P_OUT_READY:
		if (s->request->place == P2P_EAGER)
			st = ori_out_post_eager(p, s->request, s->request->unit, &s->op);
		else if (s->request->place == P2P_STAGED)
			st = s->label ? chunk_post_staged(p, s) : chunk_carry_staged(p, s);
		else if (s->request->place != P2P_UNKNOWN && is_next)
			st = chunk_post_straight(p, s);
		if (st == ORIEL_OK)
			s->state = P2P_OUT_POSTED;
		return st;
	case P2P_OUT_POSTED:
		if (s->op >= p->done)
			return ORIEL_AGAIN;
		if (s->staging >= 0)
			ori_pool_give(&p->hub->pool, &p->hub->pool.sends, s->staging);
		s->staging = -1;
		s->state = P2P_OUT_DONE;
		return ORIEL_OK;
	case P2P_OUT_DONE:
		break;
	}
	return ORIEL_AGAIN;
}
