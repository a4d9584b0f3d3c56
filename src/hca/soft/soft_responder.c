/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder executes peers' requests, in the order of the packets and once
 * each. A READ takes its bytes when they are sent: they may be newer than the
 * request, as on the wire.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "hca/soft/soft_cq.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_qp.h"
#include "hca/soft/soft_stray.h"

static const char *const responder_names[SOFT_FRAME_TYPES] = {
	[SOFT_WRITE] = "WRITE",
	[SOFT_WRITE_IMM] = "WRITE with immediate data",
	[SOFT_READ] = "READ",
	[SOFT_ADD] = "fetch-and-add",
	[SOFT_SWAP] = "compare-and-swap",
	[SOFT_MASKED_ADD] = "masked fetch-and-add",
	[SOFT_MASKED_SWAP] = "masked compare-and-swap",
};

/* Reject the request at @psn: the peer gets a NAK, this QP goes into error, too. */
static void responder_reject(struct soft_qp *qp, const struct soft_header *h, uint32_t psn,
			     uint8_t syndrome, const char *why)
{
	char text[sizeof(((struct ori_hca_event *)0)->text)];

	qp->node->counters.refused++;
	qp->refusal = syndrome;
	qp->refusal_psn = psn;
	qp->has_nak = true;
	qp->has_ack = false;
	snprintf(text, sizeof(text), "rejected a %s of %u bytes at 0x%llx, key 0x%08x: %s",
		 responder_names[h->type], h->total, (unsigned long long)h->address, h->rkey, why);
	ori_soft_event_push(qp->node, ORIEL_ERR_PROTOCOL, qp, syndrome, text);
	ori_soft_qp_flush(qp, ORIEL_SYNDROME_FLUSHED);
}

/* The registered memory cannot be copied: its GPU refuses, or it is unmapped. */
static void responder_miss(struct soft_qp *qp, const struct soft_header *h, uint32_t psn)
{
	responder_reject(qp, h, psn, ORIEL_SYNDROME_REMOTE_OPERATION,
			 "registered memory cannot be copied");
}

void ori_soft_responder_miss(struct soft_qp *qp, const struct soft_header *h)
{
	const struct soft_header read = {.type = SOFT_READ, .total = h->length};

	if (qp->state != SOFT_READY)
		return;
	ori_soft_atomic_end(qp->node);
	qp->replies_count = 0;
	responder_miss(qp, &read, h->psn);
}

static unsigned responder_access(const struct soft_header *h)
{
	switch (h->type) {
	case SOFT_WRITE:
	case SOFT_WRITE_IMM:
		return ORI_HCA_REMOTE_WRITE;
	case SOFT_READ:
		return ORI_HCA_REMOTE_READ;
	}
	return ORI_HCA_REMOTE_ATOMIC;
}

static struct soft_mr *responder_find(struct soft_qp *qp, const struct soft_header *h,
				      const char **why)
{
	return ori_soft_mr_find(qp->node, h->rkey, h->address, h->total, responder_access(h), why);
}

/* Does @h carry the end of a WRITE with immediate data, which consumes a receive? */
static bool responder_is_taking(const struct soft_header *h)
{
	return h->type == SOFT_WRITE_IMM && h->operand + h->length == h->total;
}

static bool responder_has_receive(const struct soft_qp *qp)
{
	return qp->receives_taken < qp->receives_posted;
}

/* The peer must ask again later; one NAK says so. */
static void responder_put_off(struct soft_qp *qp)
{
	qp->node->counters.not_ready++;
	qp->has_nak = true;
	qp->is_not_ready = true;
	qp->is_gap = true;
}

/* The CQE pushes out earlier writes, but for those that only a READ pushes out. */
static void responder_take(struct soft_qp *qp, const struct soft_header *h)
{
	if (!qp->node->scenario.below_owner)
		ori_soft_held_drain(qp->node);
	ori_soft_cq_receive(qp->receive_cq, qp, qp->receives_taken++, h->total,
			    (uint32_t)h->compare, 0);
}

static void responder_write(struct soft_qp *qp, const struct soft_header *h, uint32_t skip,
			    const char *payload)
{
	uint64_t lead = skip * qp->node->scenario.mtu;
	struct soft_mr *mr;
	const char *why;
	char *to;

	if (responder_is_taking(h) && !responder_has_receive(qp)) {
		responder_put_off(qp);
		return;
	}
	if (h->total) {
		mr = responder_find(qp, h, &why);
		if (!mr) {
			responder_reject(qp, h, qp->expected, ORIEL_SYNDROME_REMOTE_ACCESS, why);
			return;
		}
		to = soft_mr_at(mr, h->address) + h->operand + lead;
		if (payload && h->type == SOFT_WRITE && ori_soft_stray_takes(mr, to))
			ori_soft_stray_keep(qp, mr, to, payload + lead, h->length - lead);
		else if (!payload || !ori_soft_write(mr, to, payload + lead, h->length - lead)) {
			responder_miss(qp, h, qp->expected);
			return;
		}
	}
	qp->expected = soft_psn_add(qp->expected, h->packets - skip);
	qp->has_ack = true;
	if (responder_is_taking(h))
		responder_take(qp, h);
}

static struct soft_reply *responder_reply(struct soft_qp *qp, uint8_t type,
					  const struct soft_header *h)
{
	struct soft_reply *r;

	r = &qp->replies[(qp->replies_head + qp->replies_count++) % SOFT_REPLIES];
	*r = (struct soft_reply){.type = type,
				 .psn = h->psn,
				 .packets = h->packets,
				 .rkey = h->rkey,
				 .total = h->total,
				 .address = h->address};
	return r;
}

/* A READ that is requested again while it is being answered continues at the new address. */
static bool responder_reread(struct soft_qp *qp, const struct soft_header *h)
{
	uint32_t end = soft_psn_add(h->psn, h->packets);

	for (uint32_t i = 0; i < qp->replies_count; i++) {
		struct soft_reply *r = &qp->replies[(qp->replies_head + i) % SOFT_REPLIES];

		if (r->type != SOFT_DATA || soft_psn_add(r->psn, r->packets) != end)
			continue;
		r->psn = h->psn;
		r->packets = h->packets;
		r->sent = 0;
		r->address = h->address;
		r->total = h->total;
		return true;
	}
	return false;
}

static void responder_read(struct soft_qp *qp, const struct soft_header *h, bool is_again)
{
	const char *why;

	if (is_again && responder_reread(qp, h))
		return;
	if (h->total && !responder_find(qp, h, &why)) {
		responder_reject(qp, h, h->psn, ORIEL_SYNDROME_REMOTE_ACCESS, why);
		return;
	}
	ori_soft_held_drain(qp->node);
	responder_reply(qp, SOFT_DATA, h);
	if (!is_again)
		qp->expected = soft_psn_add(qp->expected, h->packets);
}

/* Add bit by bit: a carry stops at each bit of @boundary. */
static uint64_t responder_add(uint64_t a, uint64_t b, uint64_t boundary)
{
	uint64_t sum = 0, carry = 0;

	for (unsigned i = 0; i < 64; i++) {
		uint64_t total = (a >> i & 1) + (b >> i & 1) + carry;

		sum |= (total & 1) << i;
		carry = boundary >> i & 1 ? 0 : total >> 1;
	}
	return sum;
}

/* The new value after @h has found @old. */
static uint64_t responder_result(const struct soft_header *h, const struct soft_masks *masks,
				 uint64_t old)
{
	switch (h->type) {
	case SOFT_ADD:
		return old + h->operand;
	case SOFT_SWAP:
		return old == h->compare ? h->operand : old;
	case SOFT_MASKED_ADD:
		return responder_add(old, h->operand, masks->mask);
	}
	if ((old ^ h->compare) & masks->mask)
		return old;
	return (old & ~masks->swap_mask) | (h->operand & masks->swap_mask);
}

static bool responder_load(const struct soft_mr *mr, const char *at, uint32_t length,
			   uint64_t *value)
{
	uint32_t half = 0;
	bool is_short = length == sizeof(half), is_there;

	is_there = ori_soft_load(mr, is_short ? (void *)&half : value, at, length);
	if (is_short)
		*value = half;
	return is_there;
}

static bool responder_store(const struct soft_mr *mr, char *at, uint32_t length, uint64_t value)
{
	uint32_t half = (uint32_t)value;

	return ori_soft_store(mr, at, length == sizeof(half) ? (const void *)&half : &value,
			      length);
}

void ori_soft_atomic_end(struct soft_node *node)
{
	const struct soft_atomic a = node->atomic;
	struct soft_qp *qp = a.qp;
	struct soft_replay *replay;

	if (!qp)
		return;
	node->atomic.qp = NULL;
	if (!responder_store(a.mr, a.at, a.header.total, a.value)) {
		responder_miss(qp, &a.header, a.header.psn);
		return;
	}
	replay = &qp->replays[qp->replay_next];
	*replay = (struct soft_replay){.psn = a.header.psn, .is_valid = true, .value = a.old};
	qp->replay_next = (qp->replay_next + 1) % SOFT_REPLAYS;
	responder_reply(qp, SOFT_OLD, &a.header)->value = replay->value;
	qp->expected = soft_psn_add(qp->expected, 1);
}

static void responder_atomic(struct soft_qp *qp, const struct soft_header *h, const char *payload)
{
	struct soft_node *node = qp->node;
	struct soft_masks masks = {0};
	uint64_t old;
	const char *why;
	struct soft_mr *mr = responder_find(qp, h, &why);
	char *at = mr ? soft_mr_at(mr, h->address) : NULL;

	if (h->address % h->total || (uintptr_t)at % h->total) {
		responder_reject(qp, h, h->psn, ORIEL_SYNDROME_REMOTE_REQUEST, "not aligned");
		return;
	}
	if (!mr) {
		responder_reject(qp, h, h->psn, ORIEL_SYNDROME_REMOTE_ACCESS, why);
		return;
	}
	ori_soft_held_settle(qp->node, at, h->total);
	if (h->length)
		memcpy(&masks, payload, sizeof(masks));
	if (!responder_load(mr, at, h->total, &old)) {
		responder_miss(qp, h, h->psn);
		return;
	}
	node->atomic = (struct soft_atomic){
		.qp = qp,
		.header = *h,
		.mr = mr,
		.at = at,
		.old = old,
		.value = responder_result(h, &masks, old),
		.due = node->engine->now + soft_rand_below(&node->rand, node->scenario.slow_atomic),
	};
	if (!node->scenario.slow_atomic)
		ori_soft_atomic_end(node);
}

/* An atomic runs once: a repeated request gets the value that the first one returned. */
static void responder_replay(struct soft_qp *qp, const struct soft_header *h)
{
	for (uint32_t i = 0; i < SOFT_REPLAYS; i++)
		if (qp->replays[i].is_valid && qp->replays[i].psn == h->psn) {
			responder_reply(qp, SOFT_OLD, h)->value = qp->replays[i].value;
			return;
		}
}

/* A request, all or part of which has been executed before; @behind packets ago. */
static void responder_again(struct soft_qp *qp, const struct soft_header *h, uint32_t behind,
			    const char *payload)
{
	qp->node->counters.replayed++;
	if (soft_is_write(h)) {
		if (behind < h->packets)
			responder_write(qp, h, behind, payload);
		qp->has_ack = true;
	} else if (behind >= h->packets) {
		if (h->type == SOFT_READ)
			responder_read(qp, h, true);
		else
			responder_replay(qp, h);
	}
}

/*
 * A request that finds no room for its reply is dropped: the peer notices the
 * loss and sends it again.
 */
void ori_soft_responder_receive(struct soft_qp *qp, const struct soft_header *h,
				const char *payload)
{
	int32_t ahead;

	ori_soft_atomic_end(qp->node);
	ahead = soft_psn_diff(h->psn, qp->expected);
	if (qp->state == SOFT_ERROR) {
		qp->has_nak = qp->refusal != 0;
		return;
	}
	/* A packet is missing. One NAK asks for it; later the timer of the peer does. */
	if (ahead > 0) {
		qp->has_nak |= !qp->is_gap;
		qp->is_gap = true;
		return;
	}
	if (!soft_is_write(h) && qp->replies_count == SOFT_REPLIES)
		return;
	soft_trace(qp->node->engine, 'R', qp->qpn, h->psn);
	if (ahead < 0) {
		responder_again(qp, h, (uint32_t)-ahead, payload);
		return;
	}
	qp->is_gap = false;
	if (soft_is_write(h))
		responder_write(qp, h, 0, payload);
	else if (h->type == SOFT_READ)
		responder_read(qp, h, false);
	else
		responder_atomic(qp, h, payload);
}

/* A socket writes to the target at once, so held writes, which are older, land first. */
char *ori_soft_responder_target(struct soft_qp *qp, const struct soft_header *h,
				struct soft_mr **mr)
{
	const char *why;
	char *to;

	ori_soft_atomic_end(qp->node);
	if (qp->state != SOFT_READY || !soft_is_write(h) || h->psn != qp->expected ||
	    (responder_is_taking(h) && !responder_has_receive(qp)))
		return NULL;
	*mr = responder_find(qp, h, &why);
	if (!*mr)
		return NULL;
	to = soft_mr_at(*mr, h->address) + h->operand;
	if (ori_soft_is_remote(*mr, to) || ori_soft_is_held(*mr, to) ||
	    ori_soft_stray_takes(*mr, to))
		return NULL;
	ori_soft_held_drain(qp->node);
	return to;
}

bool ori_soft_responder_has_output(const struct soft_qp *qp)
{
	return qp->state != SOFT_INIT && !qp->strays &&
	       (qp->replies_count > 0 || qp->has_ack || qp->has_nak || qp->answer);
}

/* The end of a reply acknowledges all packets before it. */
static void responder_pop(struct soft_qp *qp)
{
	const struct soft_reply *r = &qp->replies[qp->replies_head];

	if (soft_psn_add(r->psn, r->packets) == qp->expected)
		qp->has_ack = false;
	qp->replies_head = (qp->replies_head + 1) % SOFT_REPLIES;
	qp->replies_count--;
}

/* The next run of a READ; false if its memory is unregistered. */
static bool responder_fill_data(struct soft_qp *qp, struct soft_reply *r, struct soft_frame *frame)
{
	uint64_t mtu = qp->node->scenario.mtu, at = r->sent * mtu;
	uint32_t run = r->packets - r->sent, limit = ori_soft_run(qp);
	struct soft_header h = {.type = SOFT_READ,
				.address = r->address,
				.rkey = r->rkey,
				.total = r->total};
	struct soft_mr *mr = NULL;
	const char *why;
	uint64_t length;

	if (r->total) {
		mr = responder_find(qp, &h, &why);
		if (!mr) {
			qp->replies_count = 0;
			responder_reject(qp, &h, soft_psn_add(r->psn, r->sent),
					 ORIEL_SYNDROME_REMOTE_ACCESS, why);
			return false;
		}
	}
	if (run > limit)
		run = limit;
	length = r->total - at < run * mtu ? r->total - at : run * mtu;
	ori_soft_frame_begin(frame, qp, SOFT_DATA, soft_psn_add(r->psn, r->sent));
	frame->h.packets = run;
	if (!ori_soft_frame_attach(frame, mr, mr ? soft_mr_at(mr, r->address) + at : NULL,
				   (uint32_t)length)) {
		qp->replies_count = 0;
		responder_miss(qp, &h, soft_psn_add(r->psn, r->sent));
		return false;
	}
	r->sent += run;
	if (r->sent == r->packets)
		responder_pop(qp);
	return true;
}

bool ori_soft_responder_fill(struct soft_qp *qp, struct soft_frame *frame)
{
	if (qp->replies_count > 0) {
		struct soft_reply *r = &qp->replies[qp->replies_head];

		if (r->type == SOFT_DATA)
			return responder_fill_data(qp, r, frame);
		ori_soft_frame_begin(frame, qp, SOFT_OLD, r->psn);
		frame->h.operand = r->value;
		responder_pop(qp);
		return true;
	}
	if (qp->has_nak) {
		ori_soft_frame_begin(frame, qp, SOFT_NAK,
				     qp->refusal ? qp->refusal_psn : qp->expected);
		frame->h.code = qp->refusal;
		if (!qp->refusal && qp->is_not_ready)
			frame->h.code = ORIEL_SYNDROME_NOT_READY_EXCEEDED;
		qp->has_nak = qp->is_not_ready = false;
		return true;
	}
	if (qp->has_ack) {
		ori_soft_frame_begin(frame, qp, SOFT_ACK,
				     soft_psn_add(qp->expected, SOFT_PSN_MASK));
		qp->has_ack = false;
		return true;
	}
	ori_soft_frame_begin(frame, qp, SOFT_ANSWER, 0);
	frame->h.operand = qp->answer;
	qp->answer = 0;
	return true;
}
