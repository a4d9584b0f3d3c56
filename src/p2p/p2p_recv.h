/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives: the functions between their requests (p2p_recv.c), eager sends that arrive
 * (p2p_recv_eager.c) and staging slots (p2p_recv_staged.c).
 */
#ifndef ORI_P2P_P2P_RECV_H
#define ORI_P2P_P2P_RECV_H

#include "p2p/p2p.h"

/* The one unit of this slot that may be under way. */
static inline uint64_t p2p_recv_unit(const struct oriel_p2p *p2p, const struct p2p_recv_channel *in,
				     unsigned slot)
{
	return in->oldest + p2p_slot(p2p, slot + p2p->depth - p2p_slot(p2p, in->oldest));
}

/* Complete the oldest units that are done, and count those that may be reported to the peer. */
static inline void p2p_recv_retire(struct oriel_p2p *p2p, struct p2p_recv_channel *in,
				   unsigned channel)
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

/* The staging slot in which the unit of @s arrives. */
static inline char *p2p_recv_staging(const struct oriel_p2p *p2p, const struct p2p_recv_slot *s)
{
	return p2p->ctx->pool.area.base + (size_t)s->staging * p2p->ctx->pool.stride;
}

/* A slot of the pool to receive @r in; -1: none is free now. */
int ori_recv_take_slot(struct oriel_p2p *p2p, const struct oriel_p2p_request *r);
/* -1 is left alone. */
void ori_recv_give_slot(struct oriel_p2p *p2p, int slot);
/* ORIEL_AGAIN: the copy goes on. @index: of the slot among all of the endpoint. */
enum oriel_status ori_recv_unpack(struct oriel_p2p *p2p, struct p2p_recv_slot *s, unsigned index);

/* Fail because @r is not the receive for transfer @number, of @length bytes, of the peer. */
enum oriel_status ori_recv_mismatch(const struct oriel_p2p_request *r, uint64_t number,
				    uint64_t length);

/* The unit of this slot, of @r, is granted: complete it if its eager send arrived before. */
enum oriel_status ori_recv_take_unexpected(struct oriel_p2p *p2p, const struct oriel_p2p_request *r,
					   unsigned slot);

#endif
