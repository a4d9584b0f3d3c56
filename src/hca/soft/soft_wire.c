/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames between QPs: begins them, checks arrived ones, hands them to requester
 * or responder, and applies faults of the scenario.
 */
#include "hca/soft/soft_wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory_probe.h"
#include "hca/soft/soft_link.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_qp.h"

#define WIRE_READ_PACKETS (1u << 22) /* 2^30 bytes in packets of 256 */

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

static bool wire_fetch(struct soft_frame *f, const struct soft_mr *mr, const char *at)
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
static bool wire_is_readable(const struct soft_frame *f, const char *at, uint32_t length)
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
			return wire_fetch(f, mr, at);
		return ori_soft_load(mr, f->small, at, length);
	}
	if (mr && !wire_is_readable(f, at, length))
		return false;
	if (length <= SOFT_SMALL) {
		ori_soft_copy(f->small, at, length);
		return true;
	}
	f->payload = at;
	f->mr = mr;
	return true;
}

static bool wire_is_write(const struct soft_header *h)
{
	return h->type == SOFT_WRITE || h->type == SOFT_WRITE_IMM;
}

static bool wire_has_payload(const struct soft_header *h)
{
	return wire_is_write(h) || h->type == SOFT_DATA;
}

static bool wire_is_masked(const struct soft_header *h)
{
	return h->type == SOFT_MASKED_ADD || h->type == SOFT_MASKED_SWAP;
}

const char *ori_soft_header_flaw(const struct soft_header *h)
{
	if (h->magic != SOFT_WIRE_MAGIC)
		return "no header where one should be";
	if (h->type < SOFT_HELLO || h->type >= SOFT_FRAME_TYPES)
		return "an unknown type";
	if (h->psn > SOFT_PSN_MASK)
		return "a PSN beyond 24 bits";
	if (h->packets == 0 || h->packets > (h->type == SOFT_READ ? WIRE_READ_PACKETS : SOFT_RUN))
		return "an impossible number of packets";
	if (h->total > SOFT_WQE_MOST)
		return "a message beyond 2^30 bytes";
	if (wire_is_masked(h) ? h->length != sizeof(struct soft_masks)
			      : h->length > (wire_has_payload(h) ? h->packets * SOFT_PAGE : 0))
		return "more payload than its packets hold, or no masks";
	if (wire_is_write(h) && (h->operand > h->total || h->length > h->total - h->operand))
		return "payload beyond the end of its message";
	if ((h->type == SOFT_ADD || h->type == SOFT_SWAP) && h->total != 8)
		return "an atomic that is not 8 bytes";
	if (wire_is_masked(h) && h->total != 4 && h->total != 8)
		return "a masked atomic that is neither 4 nor 8 bytes";
	return NULL;
}

static bool wire_is_request(const struct soft_header *h)
{
	return h->type >= SOFT_WRITE && h->type <= SOFT_MASKED_SWAP;
}

/* Do the packets of a request hold as many bytes as it says? */
static bool wire_fits(const struct soft_qp *qp, const struct soft_header *h)
{
	uint64_t mtu = qp->node->scenario.mtu;

	if (h->type == SOFT_READ)
		return h->packets == soft_packets(h->total, mtu);
	return !wire_is_write(h) || h->packets == soft_packets(h->length, mtu);
}

static struct soft_qp *wire_find(struct soft_engine *e, const struct soft_header *h)
{
	struct soft_node *node = h->node < SOFT_NODES ? e->nodes[h->node] : NULL;
	struct soft_qp *qp = node ? node->qps[h->qpn & (SOFT_TABLE - 1)] : NULL;

	return qp && qp->qpn == h->qpn ? qp : NULL;
}

/* Is @qp connected to the sender of @h? */
static bool wire_is_peer(const struct soft_qp *qp, uint64_t cookie, const struct soft_header *h)
{
	return qp->state != SOFT_INIT && qp->peer_cookie == cookie &&
	       qp->peer_node == h->source_node && qp->peer_qpn == h->source_qpn;
}

/* The QP that @h is for, NULL if there is none. */
static struct soft_qp *wire_receiver(struct soft_engine *e, uint64_t cookie,
				     const struct soft_header *h)
{
	struct soft_qp *qp = wire_find(e, h);

	return qp && wire_is_peer(qp, cookie, h) && wire_fits(qp, h) ? qp : NULL;
}

/* Answer a question to a destroyed QP. Without a way back, or room, the peer asks again. */
static void wire_answer_for(struct soft_engine *e, uint64_t cookie, const struct soft_header *h)
{
	bool is_local = cookie == e->address.cookie;
	struct soft_link *link = is_local ? NULL : ori_soft_link_find(e, cookie);
	struct soft_frame local, *f = is_local ? &local : link ? ori_soft_link_room(link) : NULL;

	if (!f)
		return;
	*f = (struct soft_frame){.h = {.magic = SOFT_WIRE_MAGIC,
				       .type = SOFT_ANSWER,
				       .packets = 1,
				       .node = h->source_node,
				       .qpn = h->source_qpn,
				       .source_node = h->node,
				       .source_qpn = h->qpn,
				       .operand = h->operand}};
	if (is_local)
		ori_soft_frame_deliver(e, cookie, &f->h, NULL);
	else
		ori_soft_link_push(link);
}

/*
 * The QP answers behind all that it still has to send. If no QP here is, or may
 * become, the peer of the asking one, the engine answers at once: nothing else
 * would.
 */
static void wire_asked(struct soft_engine *e, uint64_t cookie, const struct soft_header *h)
{
	struct soft_qp *qp = wire_find(e, h);

	if (qp && (qp->state == SOFT_INIT || wire_is_peer(qp, cookie, h)))
		qp->answer = h->operand;
	else
		wire_answer_for(e, cookie, h);
}

void ori_soft_frame_deliver(struct soft_engine *e, uint64_t cookie, const struct soft_header *h,
			    const char *payload)
{
	struct soft_qp *qp = wire_receiver(e, cookie, h);

	if (h->type == SOFT_ASK)
		wire_asked(e, cookie, h);
	if (!qp || h->type == SOFT_ASK)
		return;
	qp->node->counters.received++;
	if (wire_is_request(h))
		ori_soft_responder_receive(qp, h, payload);
	else
		ori_soft_requester_receive(qp, h, payload);
}

/*
 * A short payload may be a word that a thread polls: a copy stores it whole, a
 * socket would not.
 */
char *ori_soft_frame_target(struct soft_engine *e, uint64_t cookie, const struct soft_header *h,
			    struct soft_mr **mr)
{
	struct soft_qp *qp = wire_receiver(e, cookie, h);

	if (!qp || h->length <= SOFT_SMALL)
		return NULL;
	return wire_is_request(h) ? ori_soft_responder_target(qp, h, mr)
				  : ori_soft_requester_target(qp, h, mr);
}

void ori_soft_frame_miss(struct soft_engine *e, const struct soft_header *h)
{
	struct soft_node *node = h->source_node < SOFT_NODES ? e->nodes[h->source_node] : NULL;
	struct soft_qp *qp = node ? node->qps[h->source_qpn & (SOFT_TABLE - 1)] : NULL;

	if (!qp || qp->qpn != h->source_qpn)
		return;
	if (wire_is_request(h))
		ori_soft_requester_miss(qp, h->psn);
	else
		ori_soft_responder_miss(qp, h);
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

static bool wire_has_output(struct soft_qp *qp)
{
	return ori_soft_responder_has_output(qp) || ori_soft_requester_next(qp) != NULL;
}

/* Replies leave first: behind a long send queue they would reach the peer after its timer. */
static bool wire_fill(struct soft_qp *qp, struct soft_frame *frame)
{
	struct soft_flight *f;

	if (ori_soft_responder_has_output(qp))
		return ori_soft_responder_fill(qp, frame);
	f = ori_soft_requester_next(qp);
	return ori_soft_requester_fill(qp, f, frame);
}

/* Packets of one QP wait in line, so that only those of different QPs overtake. */
static bool wire_is_delayed(struct soft_qp *qp)
{
	struct soft_node *node = qp->node;

	if (node->scenario.delay && !qp->is_delayed) {
		qp->is_delayed = true;
		qp->delayed_until =
			node->engine->now + soft_rand_below(&node->rand, node->scenario.delay);
		node->counters.delayed++;
	}
	return node->engine->now < qp->delayed_until;
}

void ori_soft_ask(struct soft_qp *qp)
{
	struct soft_engine *e = qp->node->engine;
	struct soft_frame local, *f = qp->link ? ori_soft_link_room(qp->link) : &local;

	if (!f)
		return;
	ori_soft_frame_begin(f, qp, SOFT_ASK, 0);
	f->h.operand = qp->asked;
	if (qp->link)
		ori_soft_link_push(qp->link);
	else
		ori_soft_frame_deliver(e, e->address.cookie, &f->h, NULL);
}

/* How often a packet arrives: 1, unless a fault says 0 or 2. */
static unsigned wire_copies(struct soft_qp *qp, const struct soft_header *h)
{
	struct soft_node *node = qp->node;
	const struct soft_scenario *s = &node->scenario;

	node->counters.packets++;
	if (h->type == SOFT_ANSWER)
		return 1;
	if (++qp->packets > s->black_hole && soft_is_meant(qp)) {
		node->counters.swallowed++;
		return 0;
	}
	if (soft_rand_chance(&node->rand, s->drop)) {
		node->counters.dropped++;
		return 0;
	}
	if (soft_rand_chance(&node->rand, s->dup)) {
		node->counters.duplicated++;
		return 2;
	}
	return 1;
}

static void wire_send_here(struct soft_qp *qp, const struct soft_frame *frame, unsigned copies)
{
	struct soft_engine *e = qp->node->engine;

	soft_trace(e, frame->h.type, frame->h.source_qpn, frame->h.psn);
	while (copies--)
		ori_soft_frame_deliver(e, e->address.cookie, &frame->h, soft_frame_payload(frame));
}

static bool wire_egress_here(struct soft_qp *qp)
{
	struct soft_frame frame;

	if (!wire_fill(qp, &frame))
		return true;
	wire_send_here(qp, &frame, wire_copies(qp, &frame.h));
	free(frame.copy);
	return true;
}

/* Each frame frees the copy that it has read from a GPU. */
static bool wire_repeat(struct soft_frame *again, const struct soft_frame *frame)
{
	*again = *frame;
	if (!frame->copy)
		return true;
	again->payload = again->copy = malloc(frame->h.length);
	if (!again->copy)
		return false;
	memcpy(again->copy, frame->copy, frame->h.length);
	return true;
}

/* A frame is filled in in place; it is sent twice only if there is room. */
static bool wire_egress_link(struct soft_qp *qp)
{
	struct soft_frame *frame = ori_soft_link_room(qp->link), *again;
	unsigned copies;

	if (!frame || !wire_fill(qp, frame))
		return frame != NULL;
	copies = wire_copies(qp, &frame->h);
	if (ori_soft_link_is_lost(qp->link)) {
		qp->node->counters.swallowed++;
		copies = 0;
	}
	if (!copies) {
		free(frame->copy);
		return true;
	}
	ori_soft_link_push(qp->link);
	again = copies > 1 ? ori_soft_link_room(qp->link) : NULL;
	if (again && wire_repeat(again, frame))
		ori_soft_link_push(qp->link);
	return true;
}

bool ori_soft_egress(struct soft_qp *qp)
{
	if (!wire_has_output(qp) || wire_is_delayed(qp))
		return false;
	qp->is_delayed = false;
	return qp->link ? wire_egress_link(qp) : wire_egress_here(qp);
}
