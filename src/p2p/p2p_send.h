/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and puts: the functions between their transfers (p2p_send.c), their chunks
 * (p2p_send_chunk.c) and eager sends (p2p_send_eager.c).
 */
#ifndef ORI_P2P_P2P_SEND_H
#define ORI_P2P_P2P_SEND_H

#include "p2p/p2p.h"

/* Index of the credit and label of @unit. */
static inline unsigned p2p_send_index(const struct oriel_p2p *p2p, unsigned channel, uint64_t unit)
{
	return channel * p2p->depth + p2p_slot(p2p, unit);
}

/*
 * One step of @s; ORIEL_AGAIN: it waits. @is_next: all chunks before it of its transfer
 * are posted.
 */
enum oriel_status ori_send_step(struct oriel_p2p *p2p, struct p2p_send_slot *s, bool is_next);

/* Is the slot of the next unit free at the peer? ORIEL_AGAIN: not as far as known. */
enum oriel_status ori_send_find_room(const struct oriel_p2p *p2p, struct p2p_send_channel *out,
				     unsigned channel);
/* Post all of @r as @unit. */
enum oriel_status ori_send_post_eager(struct oriel_p2p *p2p, const struct oriel_p2p_request *r,
				      uint64_t unit, uint64_t *op);

/* Fail because @r does not fit @remote, the operation of the peer. */
enum oriel_status ori_send_mismatch(const struct oriel_p2p_request *r, const char *remote);
/* The operation of the peer, a receive or an expect, that @protocol means. */
const char *ori_send_other(enum p2p_protocol protocol);

#endif
