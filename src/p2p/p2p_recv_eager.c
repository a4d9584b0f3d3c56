/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eager sends that arrive: for a receive that waits, or unexpected. The loop of p2p_run.c
 * delivers them, and asks here first when a receive begins.
 */
#include <string.h>

#include "base/error.h"
#include "p2p/p2p_recv.h"

/*
 * An eager send arrived for the unit of this slot. Numbers are low halves: the difference says by
 * how many transfers the two endpoints disagree.
 */
static enum oriel_status eager_take(struct p2p_recv_slot *s, uint32_t number, const char *bytes,
				    size_t length)
{
	const struct oriel_p2p_request *r = s->request;
	int32_t ahead = (int32_t)(number - (uint32_t)r->number);

	if (r->protocol != P2P_EAGER || ahead || length != r->length)
		return ori_recv_mismatch(r, r->number + (uint64_t)ahead, length);
	memcpy(r->buffer, bytes, length);
	s->state = P2P_RECV_DONE;
	return ORIEL_OK;
}

static const char *eager_buffer(const struct oriel_p2p *p2p, unsigned channel, unsigned slot)
{
	return (const char *)p2p->segment + p2p_eager_buffer(p2p, channel, slot);
}

enum oriel_status ori_recv_take_unexpected(struct oriel_p2p *p2p, const struct oriel_p2p_request *r,
					   unsigned slot)
{
	struct p2p_recv_channel *in = &p2p->in[r->channel];
	struct p2p_unexpected *unexpected = &in->unexpected[slot];
	uint32_t length = unexpected->length;

	if (!length)
		return ORIEL_OK;
	unexpected->length = 0;
	return eager_take(&in->slots[slot], unexpected->number,
			  length <= P2P_EAGER_INLINE ? unexpected->bytes
						     : eager_buffer(p2p, r->channel, slot),
			  length);
}

/* May an eager send arrive for @unit, and now? */
static bool eager_is_awaited(const struct oriel_p2p *p2p, const struct p2p_recv_channel *in,
			     uint64_t unit, uint32_t immediate)
{
	unsigned slot = p2p_slot(p2p, unit);

	return (p2p_lap(p2p, unit) & 0xffff) == (immediate & 0xffff) &&
	       !in->unexpected[slot].length &&
	       (unit >= in->unit || in->slots[slot].state == P2P_RECV_GRANTED);
}

/* Bytes in the eager buffer stay there. */
static void eager_store_unexpected(struct p2p_unexpected *unexpected, uint32_t number,
				   const char *bytes, size_t length)
{
	unexpected->number = number;
	unexpected->length = (uint32_t)length;
	if (length <= P2P_EAGER_INLINE)
		memcpy(unexpected->bytes, bytes, length);
}

/* Bytes of an eager send, in the line or in its buffer. 0: the peer may not send it. */
static size_t eager_length(const struct oriel_p2p *p2p, uint32_t immediate, const char *what,
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
enum oriel_status ori_recv_eager_arrived(struct oriel_p2p *p2p, const struct p2p_arrival *arrival,
					 uint32_t *taken)
{
	uint32_t immediate = arrival->immediate;
	const char *what = arrival->bytes;
	size_t along = arrival->length;
	unsigned channel = p2p_imm_channel(immediate), slot = immediate >> 16 & 0x7f;
	size_t length = p2p->eager_max ? eager_length(p2p, immediate, what, along) : 0;
	struct p2p_recv_channel *in = &p2p->in[channel];
	enum oriel_status status;
	uint32_t head[2];
	uint64_t unit;

	if (!length || channel >= p2p->channels || slot >= p2p->depth ||
	    !eager_is_awaited(p2p, in, unit = p2p_recv_unit(p2p, in, slot), immediate))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"%zu bytes of the peer for slot %u of channel %u in lap %u, which "
				"are not due",
				along, slot, channel, immediate & 0xffff);
	static_assert(P2P_EAGER_HEAD == sizeof(head), "number and taken");
	memcpy(head, what, sizeof(head));
	what = immediate & P2P_IMM_BUFFERED ? eager_buffer(p2p, channel, slot)
					    : what + sizeof(head);
	*taken = head[1];
	if (unit >= in->unit) {
		eager_store_unexpected(&in->unexpected[slot], head[0], what, length);
		return ORIEL_OK;
	}
	status = eager_take(&in->slots[slot], head[0], what, length);
	if (status != ORIEL_OK)
		return status;
	p2p_recv_retire(p2p, in, channel);
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
	/* That cannot fail: number and length have been compared above. */
	(void)ori_recv_take_unexpected(p2p, r, slot);
	p2p_recv_retire(p2p, in, r->channel);
	if (in->requests.first)
		p2p->active_in |= UINT64_C(1) << r->channel;
	return true;
}

bool ori_recv_is_left(const struct oriel_p2p *p2p, unsigned channel, size_t length)
{
	const struct p2p_unexpected *unexpected;
	const struct p2p_recv_channel *in;

	/* After any other failure nothing that the peer wrote is trusted. */
	if (p2p->failure != ORIEL_ERR_PEER || channel >= p2p->channels)
		return false;
	in = &p2p->in[channel];
	unexpected = &in->unexpected[p2p_slot(p2p, in->unit)];
	return unexpected->length && unexpected->length == length &&
	       unexpected->number == (uint32_t)in->number;
}
