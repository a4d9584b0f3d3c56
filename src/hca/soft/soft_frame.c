/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames alone: begins them, attaches their payload, checks their headers.
 * Requester, responder and wire call it.
 */
#include "hca/soft/soft_frame.h"

#include <stdlib.h>

#include "base/memory_probe.h"
#include "hca/soft/soft_memory.h"

#define FRAME_READ_PACKETS (1u << 22) /* 2^30 bytes in packets of 256 */

void ori_soft_frame_begin(struct soft_frame *f, const struct soft_qp *qp, enum soft_frame_type type,
			  uint32_t psn)
{
	f->h = (struct soft_header){
		.magic = SOFT_WIRE_MAGIC,
		.type = (uint8_t)type,
		.packets = 1,
		.node = qp->peer_node,
		.qpn = qp->peer_qpn,
		.source_node = qp->node->id,
		.source_qpn = qp->qpn,
		.psn = psn,
	};
	f->payload = NULL;
	f->mr = NULL;
	f->copy = NULL;
	f->is_local = !qp->link;
}

static bool frame_fetch(struct soft_frame *f, const struct soft_mr *mr, const char *at)
{
	f->copy = malloc(f->h.length);
	if (!f->copy)
		return false;
	f->payload = f->copy;
	if (ori_soft_load(mr, f->copy, at, f->h.length))
		return true;
	free(f->copy);
	f->copy = NULL;
	return false;
}

/*
 * A socket reports an unreadable page in the middle; inside one process nothing
 * would. Memory that a key vouches for may have been unmapped, too.
 */
static bool frame_is_readable(const struct soft_frame *f, const char *at, uint32_t length)
{
	if (f->is_local || length <= SOFT_SMALL)
		return ori_probe_may_read(at, length);
	return ori_probe_looks_readable(at, length);
}

/* A short payload is copied now: its words may be in use, and are read whole. */
bool ori_soft_frame_attach(struct soft_frame *f, struct soft_mr *mr, const char *at,
			   uint32_t length)
{
	f->h.length = length;
	if (ori_soft_is_remote(mr, at)) {
		if (length > SOFT_SMALL)
			return frame_fetch(f, mr, at);
		return ori_soft_load(mr, f->small, at, length);
	}
	if (mr && !frame_is_readable(f, at, length))
		return false;
	if (length <= SOFT_SMALL) {
		ori_soft_copy(f->small, at, length);
		return true;
	}
	f->payload = at;
	f->mr = mr;
	return true;
}

static bool frame_has_payload(const struct soft_header *h)
{
	return soft_is_write(h) || h->type == SOFT_DATA;
}

static bool frame_is_masked(const struct soft_header *h)
{
	return h->type == SOFT_MASKED_ADD || h->type == SOFT_MASKED_SWAP;
}

const char *ori_soft_header_flaw(const struct soft_header *h)
{
	if (h->magic != SOFT_WIRE_MAGIC)
		return "no header where one should be";
	if (h->type <= SOFT_HELLO || h->type >= SOFT_FRAME_TYPES)
		return "an unknown type";
	if (h->psn > SOFT_PSN_MASK)
		return "a PSN beyond 24 bits";
	if (h->packets == 0 || h->packets > (h->type == SOFT_READ ? FRAME_READ_PACKETS : SOFT_RUN))
		return "an impossible number of packets";
	if (h->total > SOFT_WQE_MOST)
		return "a message beyond 2^30 bytes";
	if (frame_is_masked(h) ? h->length != sizeof(struct soft_masks)
			       : h->length > (frame_has_payload(h) ? h->packets * SOFT_PAGE : 0))
		return "more payload than its packets hold, or no masks";
	if (soft_is_write(h) && (h->operand > h->total || h->length > h->total - h->operand))
		return "payload beyond the end of its message";
	if ((h->type == SOFT_ADD || h->type == SOFT_SWAP) && h->total != 8)
		return "an atomic that is not 8 bytes";
	if (frame_is_masked(h) && h->total != 4 && h->total != 8)
		return "a masked atomic that is neither 4 nor 8 bytes";
	return NULL;
}

/*
 * Faults hit single packets, and a cluster steps single packets, so a frame is
 * one packet there.
 */
uint32_t ori_soft_run(const struct soft_qp *qp)
{
	const struct soft_scenario *s = &qp->node->scenario;

	return s->drop || s->dup || s->delay || s->black_hole != SOFT_OFF ||
			       qp->node->engine->is_virtual
		       ? 1
		       : SOFT_RUN;
}
