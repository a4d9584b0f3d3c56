/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eager sends: few bytes that leave at once, as long as the peer has taken the unit that
 * was in their slot before. p2p_send.c calls it, and first the loop of p2p_run.c when a
 * send begins.
 */
#include <string.h>

#include "base/error.h"
#include "p2p/p2p_send.h"

static enum oriel_status eager_set_taken(struct p2p_send_channel *out, uint64_t taken)
{
	/* The peer writes this count: one above @unit would free slots that are in use. */
	if (taken > out->unit)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer has taken %llu units of %llu",
				(unsigned long long)taken, (unsigned long long)out->unit);
	if (taken > out->taken)
		out->taken = taken;
	return ORIEL_OK;
}

enum oriel_status ori_send_taken(struct oriel_p2p *p2p, unsigned channel, uint32_t taken)
{
	struct p2p_send_channel *out = &p2p->out[channel];
	int32_t more = (int32_t)(taken - (uint32_t)out->taken);

	/* The count in the word may be later. */
	return more > 0 ? eager_set_taken(out, out->taken + (uint32_t)more) : ORIEL_OK;
}

enum oriel_status ori_send_find_room(const struct oriel_p2p *p2p, struct p2p_send_channel *out,
				     unsigned channel)
{
	enum oriel_status status = ORIEL_OK;

	if (out->unit >= out->taken + p2p->depth)
		status = eager_set_taken(out, ori_p2p_word(p2p, P2P_WORD_TAKEN + channel));
	return status == ORIEL_OK && out->unit >= out->taken + p2p->depth ? ORIEL_AGAIN : status;
}

/* The peer reads its eager buffer only after the immediate. */
static enum oriel_status eager_put_buffer(struct oriel_p2p *p2p, const struct oriel_p2p_request *r,
					  unsigned slot)
{
	const uint64_t remote_control = offsetof(struct p2p_segment, remote_control);
	struct p2p_local from = {.at = r->buffer};
	struct p2p_remote to =
		p2p_remote_control(p2p, p2p_eager_buffer(p2p, r->channel, slot) - remote_control);
	uint64_t op;

	return p2p->backend->put(p2p, &from, &to, r->length, &op);
}

enum oriel_status ori_send_post_eager(struct oriel_p2p *p2p, const struct oriel_p2p_request *r,
				      uint64_t unit, uint64_t *op)
{
	unsigned slot = p2p_slot(p2p, unit);
	uint32_t immediate = p2p_immediate(P2P_IMM_EAGER, r->channel, slot, p2p_lap(p2p, unit));
	size_t along = P2P_EAGER_HEAD + r->length;
	enum oriel_status status = ORIEL_OK;
	struct p2p_eager what;

	what.number = (uint32_t)r->number;
	what.taken = ori_recv_taken(p2p, r->channel);
	if (r->length <= P2P_EAGER_INLINE) {
		memcpy(what.bytes, r->buffer, r->length);
	} else {
		status = eager_put_buffer(p2p, r, slot);
		what.length = (uint32_t)r->length;
		along = P2P_EAGER_BUFFERED;
		immediate |= P2P_IMM_BUFFERED;
	}
	return status == ORIEL_OK ? p2p->backend->send_eager(p2p, &what, along, immediate, op)
				  : status;
}

bool ori_send_eager(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	struct p2p_send_channel *out = &p2p->out[r->channel];
	uint64_t op;

	if (r->kind != P2P_SEND || !p2p_is_eager(p2p, r) || out->requests.first ||
	    ori_send_find_room(p2p, out, r->channel) != ORIEL_OK)
		return false;
	r->number = out->number;
	if (ori_send_post_eager(p2p, r, out->unit, &op) != ORIEL_OK)
		return false;
	out->number++;
	out->unit++;
	r->status = ORIEL_OK;
	return true;
}
