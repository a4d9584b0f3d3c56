/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames between QPs: asks requester and responder for them, hands arrived ones
 * to them, and applies faults of the scenario. Engine and sockets call it.
 */
#include "hca/soft/soft_wire.h"

#include <stdlib.h>
#include <string.h>

#include "hca/soft/soft_link.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_qp.h"

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
	return !soft_is_write(h) || h->packets == soft_packets(h->length, mtu);
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
	struct soft_link *link = is_local ? NULL : soft_link_find(e, cookie);
	struct soft_frame local, *f = is_local ? &local : link ? soft_link_room(link) : NULL;

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
		soft_link_push(link);
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

bool ori_soft_frame_is_awaited(struct soft_engine *e, uint64_t cookie, const struct soft_header *h)
{
	const struct soft_qp *qp = wire_receiver(e, cookie, h);

	return qp && qp->state != SOFT_ERROR;
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

/* Ask the peer question qp->asked, if there is room for it now. */
static void wire_ask(struct soft_qp *qp)
{
	struct soft_engine *e = qp->node->engine;
	struct soft_frame local, *f = qp->link ? soft_link_room(qp->link) : &local;

	if (!f)
		return;
	ori_soft_frame_begin(f, qp, SOFT_ASK, 0);
	f->h.operand = qp->asked;
	if (qp->link)
		soft_link_push(qp->link);
	else
		ori_soft_frame_deliver(e, e->address.cookie, &f->h, NULL);
}

bool ori_soft_timer(struct soft_qp *qp)
{
	if (!ori_soft_requester_timer(qp))
		return false;
	if (qp->state == SOFT_READY && qp->asked)
		wire_ask(qp);
	return true;
}

/* The number of times that a packet arrives: 1, unless a fault says 0 or 2. */
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
	struct soft_frame *frame = soft_link_room(qp->link), *again;
	unsigned copies;

	if (!frame || !wire_fill(qp, frame))
		return frame != NULL;
	copies = wire_copies(qp, &frame->h);
	if (soft_link_is_lost(qp->link)) {
		qp->node->counters.swallowed++;
		copies = 0;
	}
	if (!copies) {
		free(frame->copy);
		return true;
	}
	soft_link_push(qp->link);
	again = copies > 1 ? soft_link_room(qp->link) : NULL;
	if (again && wire_repeat(again, frame))
		soft_link_push(qp->link);
	return true;
}

/* A QP in error sends nothing, nor the packet that was delayed. */
uint64_t ori_soft_egress_due(struct soft_qp *qp)
{
	return qp->is_delayed && wire_has_output(qp) ? qp->delayed_until : SOFT_NEVER;
}

bool ori_soft_egress(struct soft_qp *qp)
{
	if (!wire_has_output(qp) || wire_is_delayed(qp))
		return false;
	qp->is_delayed = false;
	return qp->link ? wire_egress_link(qp) : wire_egress_here(qp);
}
