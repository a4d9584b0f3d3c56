/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chunk of a send or put; p2p_send.c runs it. It advances until it waits: it is packed
 * while the credit is still under way, posted with an immediate that names its unit, and
 * done when the link has completed it.
 */
#include <string.h>

#include "base/error.h"
#include "p2p/p2p_send.h"

enum oriel_status ori_send_mismatch(const struct oriel_p2p_request *r, const char *remote)
{
	char place[P2P_PLACE];

	return ori_fail(ORIEL_ERR_MISMATCH,
			"transfer %llu of %s: %s of %zu bytes meets %s of the peer",
			(unsigned long long)r->number, ori_p2p_place(r, place),
			r->kind == P2P_PUT ? "a put" : "a send", r->length, remote);
}

const char *ori_send_other(enum p2p_protocol protocol)
{
	return protocol == P2P_NOTICE ? "an expect" : "a receive of few bytes";
}

/* The staging slot of the peer for this chunk. ORIEL_AGAIN: no credit. */
static enum oriel_status chunk_credit(struct oriel_p2p *p2p, const struct p2p_send_slot *s,
				      struct p2p_remote *remote)
{
	uint64_t unit = s->request->unit + s->chunk;
	uint64_t credit =
		ori_p2p_word(p2p, P2P_WORD_CREDIT + p2p_send_index(p2p, s->request->channel, unit));
	uint64_t at = p2p_credit_slot(credit) * p2p->pool_stride;

	if (p2p_credit_lap(credit) != p2p_lap(p2p, unit))
		return ORIEL_AGAIN;
	if (p2p_credit_protocol(credit) == P2P_NOTICE || p2p_credit_protocol(credit) == P2P_EAGER)
		return ori_send_mismatch(s->request, ori_send_other(p2p_credit_protocol(credit)));
	if (p2p_credit_protocol(credit) != P2P_STAGED || p2p_credit_slot(credit) >= p2p->pool_slots)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer gives credit 0x%llx",
				(unsigned long long)credit);
	*remote = p2p->pool;
	remote->address += at;
	if (remote->at)
		remote->at += at;
	return ORIEL_OK;
}

/*
 * A hook that has begun goes on by itself, so it may not pack into slots of the peer,
 * which takes them back when it leaves; copies are counted, and the peer waits for them.
 */
static bool chunk_packs_at_peer(const struct oriel_p2p *p2p)
{
	return p2p->backend->is_mapped && !p2p->hooks.pack;
}

/* Few bytes that need no slot: they travel with the immediate. */
static bool chunk_is_inline(const struct oriel_p2p *p2p, const struct oriel_p2p_request *r)
{
	return p2p->backend->has_eager && r->length <= P2P_FEW && !r->is_gpu && !p2p->hooks.pack;
}

/* Does @s wait for nothing but a slot of the pool, and the link? */
static bool chunk_may_put(struct oriel_p2p *p2p, const struct p2p_send_slot *s)
{
	struct p2p_remote remote;

	if (s->request->protocol == P2P_STAGED)
		return chunk_credit(p2p, s, &remote) != ORIEL_AGAIN;
	return s->request->protocol != P2P_UNKNOWN;
}

/*
 * Find the memory to pack into. ORIEL_AGAIN: no slot of the pool is free, or the credit
 * has not arrived.
 */
static enum oriel_status chunk_take_slot(struct oriel_p2p *p2p, struct p2p_send_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct p2p_remote remote;
	enum oriel_status status;

	if (r->protocol == P2P_EAGER ||
	    (r->protocol == P2P_STAGED && !p2p->pool.is_gpu && chunk_is_inline(p2p, r)))
		return ORIEL_OK;
	if (r->protocol == P2P_STAGED && chunk_packs_at_peer(p2p)) {
		status = chunk_credit(p2p, s, &remote);
		if (status == ORIEL_OK)
			s->label = remote.at;
		return status;
	}
	/* The slot of a mapped peer is not known before its credit. */
	if (r->protocol == P2P_UNKNOWN && chunk_packs_at_peer(p2p))
		return ORIEL_AGAIN;
	if (r->is_straight)
		return ORIEL_OK;
	/*
	 * One slot is left for chunks that can be put now: a chunk that is packed ahead
	 * waits for the peer, perhaps for ever, and a slot there may wait for another
	 * channel.
	 */
	s->staging = ori_pool_take(&p2p->ctx->pool, &p2p->ctx->pool.sends, !chunk_may_put(p2p, s));
	if (s->staging < 0)
		return ORIEL_AGAIN;
	s->label = p2p->ctx->pool.area.base + (size_t)s->staging * p2p->ctx->pool.stride;
	return ORIEL_OK;
}

/* Is it packed in memory of a GPU, local or of the peer? */
static bool chunk_is_in_gpu(const struct oriel_p2p *p2p, const struct p2p_send_slot *s)
{
	return s->staging < 0 ? p2p->pool.is_gpu : p2p->ctx->pool.is_gpu;
}

/* By the hook, an engine, or the CPU. ORIEL_AGAIN: begun. */
static enum oriel_status chunk_copy(struct oriel_p2p *p2p, struct p2p_send_slot *s,
				    const struct oriel_p2p_chunk *chunk)
{
	enum oriel_status status = ORIEL_OK;

	if (p2p->hooks.pack) {
		status = p2p->hooks.pack(p2p->context, chunk);
		return status < 0 ? ori_fail(status, "the pack hook failed: %s",
					     oriel_status_text(status))
				  : status;
	}
	if (!s->request->is_gpu && !chunk_is_in_gpu(p2p, s)) {
		memcpy(chunk->slot, chunk->buffer, chunk->length);
		return ORIEL_OK;
	}
	if (!s->copy)
		status = ori_copy_stream_copy(p2p, P2P_COPY_OUT, chunk->slot, chunk->buffer,
					      chunk->length, &s->copy);
	return status == ORIEL_OK ? ori_copy_stream_test(p2p, P2P_COPY_OUT, s->copy) : status;
}

static enum oriel_status chunk_pack(struct oriel_p2p *p2p, struct p2p_send_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct oriel_p2p_chunk chunk = {
		.slot = s->label + p2p_slot_begin(s->length),
		.buffer = (char *)r->buffer + s->offset,
		.offset = s->offset,
		.length = s->length,
		.channel = r->of_channel,
		.index = p2p_chunk_index(p2p, r, s->chunk),
		.user = r->user,
	};
	struct p2p_label label = {r->number, r->length, s->chunk, s->length, "", 0};
	enum oriel_status status = chunk_copy(p2p, s, &chunk);

	if (status != ORIEL_OK)
		return status < 0 ? status : ORIEL_AGAIN;
	if (!chunk_is_in_gpu(p2p, s))
		memcpy(s->label, &label, P2P_LABEL_HEAD);
	return ORIEL_OK;
}

/* The local memory that this chunk is put from, without its label. */
static struct p2p_local chunk_source(const struct oriel_p2p *p2p, const struct p2p_send_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct p2p_local local = {.at = (char *)r->buffer + s->offset,
				  .is_gpu = r->is_gpu && !s->label};

	if (s->label) {
		local.at = s->label + p2p_slot_begin(s->length);
		local.address = (uint64_t)(local.at - p2p->ctx->pool.area.base);
		local.lkeys = p2p->ctx->pool.area.lkeys;
		local.is_gpu = s->staging >= 0 && p2p->ctx->pool.is_gpu;
	} else if (r->memory && !p2p_has_transport(p2p->ctx)) {
		/* A transport takes sources by where they are, also before they are registered. */
		local.address = r->memory->iova + (uint64_t)(local.at - r->memory->address);
		local.lkeys = r->memory->lkeys;
	}
	return local;
}

static enum oriel_status chunk_post_inline(struct oriel_p2p *p2p, struct p2p_send_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct p2p_label label = {r->number, r->length, 0, s->length, "", 0};
	struct p2p_remote to;
	enum oriel_status status = chunk_credit(p2p, s, &to);

	if (status != ORIEL_OK)
		return status;
	memcpy(label.few, r->buffer, s->length);
	return p2p->backend->send_eager(p2p, &label, P2P_LABEL_HEAD + s->length,
					p2p_immediate(P2P_IMM_UNIT, r->channel,
						      p2p_slot(p2p, r->unit),
						      p2p_lap(p2p, r->unit)),
					&s->op);
}

/* Put the bytes, unless they are packed at the peer already; then the label, by itself. */
static enum oriel_status chunk_post_split(struct oriel_p2p *p2p, struct p2p_send_slot *s,
					  const struct p2p_remote *slot)
{
	const struct oriel_p2p_request *r = s->request;
	uint64_t unit = r->unit + s->chunk, begin = p2p_slot_begin(s->length);
	unsigned index = p2p_send_index(p2p, r->channel, unit);
	struct p2p_label *source = &p2p->segment->local_control.labels[index];
	struct p2p_local from = chunk_source(p2p, s);
	struct p2p_remote to = *slot;
	enum oriel_status status = ORIEL_OK;

	if (s->staging >= 0 && !s->is_put) {
		to.address += begin;
		if (to.at)
			to.at += begin;
		status = p2p->backend->put(p2p, &from, &to, s->length, &s->op);
		s->is_put = status == ORIEL_OK;
	}
	/* The NIC may still be reading the last label from there. */
	if (status == ORIEL_OK && p2p->labels_op[index] > p2p->done)
		status = ORIEL_AGAIN;
	if (status != ORIEL_OK)
		return status;
	*source = (struct p2p_label){r->number, r->length, s->chunk, s->length, "", 0};
	from = p2p_local_control(p2p, source);
	/* The CPU of the peer reads the label there. */
	to = p2p->pool.is_gpu
		     ? p2p_remote_control(p2p, offsetof(struct p2p_remote_control, labels) +
						       index * sizeof(*source))
		     : *slot;
	status = p2p->backend->write_imm(p2p, &from, &to, P2P_LABEL_HEAD,
					 p2p_immediate(P2P_IMM_UNIT, r->channel,
						       p2p_slot(p2p, unit), p2p_lap(p2p, unit)),
					 &s->op);
	if (status == ORIEL_OK)
		p2p->labels_op[index] = s->op + 1;
	return status;
}

static enum oriel_status chunk_post_staged(struct oriel_p2p *p2p, struct p2p_send_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	uint64_t unit = r->unit + s->chunk;
	struct p2p_local from = chunk_source(p2p, s);
	struct p2p_remote to;
	size_t length = s->staging < 0 ? 0 : p2p_slot_end(s->length);
	enum oriel_status status = chunk_credit(p2p, s, &to);

	if (status == ORIEL_OK && (p2p->pool.is_gpu || chunk_is_in_gpu(p2p, s)))
		return chunk_post_split(p2p, s, &to);
	if (status != ORIEL_OK)
		return status;
	from.at -= p2p_slot_begin(s->length);
	from.address -= p2p_slot_begin(s->length);
	return p2p->backend->write_imm(p2p, &from, &to, length,
				       p2p_immediate(P2P_IMM_UNIT, r->channel, p2p_slot(p2p, unit),
						     p2p_lap(p2p, unit)),
				       &s->op);
}

static enum oriel_status chunk_post_straight(struct oriel_p2p *p2p, struct p2p_send_slot *s)
{
	const struct oriel_p2p_request *r = s->request;
	struct p2p_offer offer = {.address = r->address, .length = r->length, .piece = r->piece};
	struct p2p_local from = chunk_source(p2p, s);
	struct p2p_remote to;
	enum oriel_status status;

	memcpy(&offer.keys, r->keys, sizeof(offer.keys));
	status = p2p->backend->import(p2p, &offer, &to);
	if (status != ORIEL_OK)
		return status;
	to.address += s->offset;
	if (to.at)
		to.at += s->offset;
	if (r->protocol == P2P_DIRECT && chunk_is_inline(p2p, r) && !to.is_gpu)
		return p2p->backend->send_eager(p2p, r->buffer, s->length,
						p2p_immediate(P2P_IMM_UNIT, r->channel,
							      p2p_slot(p2p, r->unit),
							      p2p_lap(p2p, r->unit)),
						&s->op);
	if (s->chunk + 1 < r->chunks)
		return p2p->backend->put(p2p, &from, &to, s->length, &s->op);
	return p2p->backend->write_imm(p2p, &from, &to, s->length,
				       p2p_immediate(P2P_IMM_UNIT, r->channel,
						     p2p_slot(p2p, r->unit), p2p_lap(p2p, r->unit)),
				       &s->op);
}

enum oriel_status ori_send_step(struct oriel_p2p *p2p, struct p2p_send_slot *s, bool is_next)
{
	enum oriel_status status = ORIEL_AGAIN;

	switch (s->state) {
	case P2P_SEND_NEW:
		status = chunk_take_slot(p2p, s);
		if (status == ORIEL_OK)
			s->state = s->label ? P2P_SEND_PACK : P2P_SEND_READY;
		return status;
	case P2P_SEND_PACK:
		status = chunk_pack(p2p, s);
		if (status == ORIEL_OK)
			s->state = P2P_SEND_READY;
		return status;
	case P2P_SEND_READY:
		if (s->request->protocol == P2P_EAGER)
			status = ori_send_post_eager(p2p, s->request, s->request->unit, &s->op);
		else if (s->request->protocol == P2P_STAGED)
			status = s->label ? chunk_post_staged(p2p, s) : chunk_post_inline(p2p, s);
		else if (s->request->protocol != P2P_UNKNOWN && is_next)
			status = chunk_post_straight(p2p, s);
		if (status == ORIEL_OK)
			s->state = P2P_SEND_POSTED;
		return status;
	case P2P_SEND_POSTED:
		/* Until then the NIC, or an engine, reads the slot of the pool or the buffer. */
		if (s->op >= p2p->done)
			return ORIEL_AGAIN;
		if (s->staging >= 0)
			ori_pool_give(&p2p->ctx->pool, &p2p->ctx->pool.sends, s->staging);
		s->staging = -1;
		s->state = P2P_SEND_DONE;
		return ORIEL_OK;
	case P2P_SEND_DONE:
		break;
	}
	return ORIEL_AGAIN;
}
