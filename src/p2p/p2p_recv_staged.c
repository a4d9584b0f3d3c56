/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging slots of receives: they are taken from the pool, and the chunk that arrived in one
 * is checked and unpacked. p2p_recv.c calls it.
 */
#include <string.h>

#include <oriel/dev/detail/mapped.h>

#include "base/error.h"
#include "p2p/p2p_recv.h"

int ori_recv_take_slot(struct oriel_p2p *p2p, const struct oriel_p2p_request *r)
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

void ori_recv_give_slot(struct oriel_p2p *p2p, int slot)
{
	if (slot == p2p->spare)
		p2p->is_spare_used = false;
	else if (slot >= 0)
		ori_pool_give(&p2p->ctx->pool, &p2p->ctx->pool.receives, slot);
}

enum oriel_status ori_recv_mismatch(const struct oriel_p2p_request *r, uint64_t number,
				    uint64_t length)
{
	char place[P2P_PLACE];

	return ori_fail(ORIEL_ERR_MISMATCH,
			"%s: the receive of transfer %llu is of %zu bytes, the send of "
			"transfer %llu of %llu",
			ori_p2p_place(r, place), (unsigned long long)r->number, r->length,
			(unsigned long long)number, (unsigned long long)length);
}

static enum oriel_status staged_check_label(const struct oriel_p2p_request *r, uint32_t chunk,
					    size_t length, const struct p2p_label *label)
{
	/* Both sides number transfers, so a difference means that their calls do not match. */
	if (label->number != r->number || label->total != r->length)
		return ori_recv_mismatch(r, label->number, label->total);
	if (label->chunk != chunk || label->length != length)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"chunk %u of %u bytes arrived where chunk %u of %zu bytes is due",
				label->chunk, label->length, chunk, length);
	return ORIEL_OK;
}

/* By the hook, an engine, or the CPU. ORIEL_AGAIN: begun. */
static enum oriel_status staged_copy(struct oriel_p2p *p2p, struct p2p_recv_slot *s,
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
		if (p2p->backend->is_mapped)
			ori_dev_mapped_own(chunk->slot, chunk->length);
		return ORIEL_OK;
	}
	if (!s->copy)
		status = ori_copy_stream_copy(p2p, P2P_COPY_IN, chunk->buffer, chunk->slot,
					      chunk->length, &s->copy);
	return status == ORIEL_OK ? ori_copy_stream_test(p2p, P2P_COPY_IN, s->copy) : status;
}

enum oriel_status ori_recv_unpack(struct oriel_p2p *p2p, struct p2p_recv_slot *s, unsigned index)
{
	const struct oriel_p2p_request *r = s->request;
	char *at = p2p_recv_staging(p2p, s);
	uint64_t offset = (uint64_t)s->chunk * r->step, rest = r->length - offset;
	struct oriel_p2p_chunk chunk = {
		.buffer = (char *)r->buffer + offset,
		.offset = offset,
		.length = rest < r->step ? (size_t)rest : r->step,
		.channel = r->of_channel,
		.index = p2p_chunk_index(p2p, r, s->chunk),
		.user = r->user,
	};
	struct p2p_label label;
	enum oriel_status status;

	chunk.slot = at + p2p_slot_begin(chunk.length);
	/* A copy: the peer can still write to the label after the check. */
	memcpy(&label,
	       p2p->ctx->pool.is_gpu ? (char *)&p2p->segment->remote_control.labels[index] : at,
	       P2P_LABEL_HEAD);
	status = staged_check_label(r, s->chunk, chunk.length, &label);
	if (status != ORIEL_OK)
		return status;
	status = staged_copy(p2p, s, &chunk);
	return status > 0 ? ORIEL_AGAIN : status;
}
