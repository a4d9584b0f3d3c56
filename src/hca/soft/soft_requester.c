/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flights: sent in order, sent again from the first unacknowledged packet,
 * completed in order. The wire and the engine drive them.
 */
#include <string.h>

#include "base/memory_probe.h"
#include "hca/soft/soft_cq.h"
#include "hca/soft/soft_link.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_qp.h"

#define REQUESTER_SCRUB 0xdb

static bool requester_is_done(const struct soft_flight *f)
{
	return f->acked == f->packets;
}

static void requester_complete(struct soft_qp *qp, const struct soft_flight *f)
{
	soft_trace(qp->node->engine, 'C', qp->qpn, f->index);
	if (qp->node->scenario.scrub)
		memset(qp->ring + (f->index & (qp->depth - 1)) * ORIEL_MLX5_BLOCK, REQUESTER_SCRUB,
		       ORIEL_MLX5_BLOCK);
	qp->retired++;
	if (f->wqe.is_signaled)
		ori_soft_cq_complete(qp->cq, qp, f->index, &f->wqe, 0);
}

static void requester_fail(struct soft_qp *qp, const struct soft_flight *f)
{
	const struct soft_wqe *wqe = &f->wqe;

	if (f->syndrome == ORIEL_SYNDROME_LOCAL_PROTECTION)
		ori_soft_qp_fail(qp, f->syndrome, "WQE %llu (opcode 0x%02x): %u bytes at 0x%llx %s",
				 (unsigned long long)f->index, wqe->opcode, wqe->length,
				 (unsigned long long)wqe->local,
				 ori_soft_wqe_is_fetching(wqe) ? "may not be written"
							       : "may not be read");
	else
		ori_soft_qp_fail(qp, f->syndrome, "WQE %llu (opcode 0x%02x) failed locally",
				 (unsigned long long)f->index, wqe->opcode);
}

void ori_soft_flight_retire(struct soft_qp *qp)
{
	while (qp->state == SOFT_READY && qp->retired < qp->fetch) {
		const struct soft_flight *f = soft_flight(qp, qp->retired);

		if (f->syndrome) {
			requester_fail(qp, f);
			return;
		}
		if (!requester_is_done(f))
			return;
		requester_complete(qp, f);
	}
}

void ori_soft_flight_forget(struct soft_qp *qp, const struct soft_mr *mr)
{
	for (uint64_t i = qp->retired; i < qp->fetch; i++) {
		struct soft_flight *f = soft_flight(qp, i);

		if (f->mr != mr)
			continue;
		f->mr = NULL;
		f->local = NULL;
		f->syndrome = ORIEL_SYNDROME_LOCAL_PROTECTION;
		qp->is_stopped = true;
	}
	ori_soft_flight_retire(qp);
}

/* The first flight that still lacks an acknowledgement, or NULL. */
static struct soft_flight *requester_oldest(struct soft_qp *qp)
{
	for (uint64_t i = qp->retired; i < qp->fetch; i++)
		if (!requester_is_done(soft_flight(qp, i)))
			return soft_flight(qp, i);
	return NULL;
}

static bool requester_is_in_window(struct soft_qp *qp, const struct soft_flight *f)
{
	const struct soft_flight *oldest = requester_oldest(qp);

	return !oldest ||
	       soft_psn_diff(soft_psn_add(f->psn, f->sent),
			     soft_psn_add(oldest->psn, oldest->acked)) < (int32_t)SOFT_WINDOW;
}

struct soft_flight *ori_soft_requester_next(struct soft_qp *qp)
{
	struct soft_flight *f;

	if (qp->state != SOFT_READY)
		return NULL;
	if (qp->sending < qp->retired)
		qp->sending = qp->retired;
	if (qp->resume_at > qp->node->engine->now)
		return NULL;
	while (qp->sending < qp->fetch) {
		f = soft_flight(qp, qp->sending);
		if (f->syndrome || f->ready_at > qp->node->engine->now)
			return NULL;
		if (f->sent < f->packets)
			return requester_is_in_window(qp, f) ? f : NULL;
		qp->sending++;
	}
	return NULL;
}

static void requester_arm(struct soft_qp *qp)
{
	qp->timer = qp->node->engine->now + qp->node->scenario.ack;
}

/*
 * Local memory has a key, and cannot be copied. Earlier requests complete
 * first: only the request that named this memory fails.
 */
static void requester_miss(struct soft_qp *qp, struct soft_flight *f)
{
	if (f->mr && f->mr->side == SOFT_REMOTE) {
		ori_soft_qp_fail(qp, ORIEL_SYNDROME_LOCAL_OPERATION,
				 "WQE %llu (opcode 0x%02x): %p of the GPU cannot be copied",
				 (unsigned long long)f->index, f->wqe.opcode, (void *)f->local);
		return;
	}
	f->syndrome = ORIEL_SYNDROME_LOCAL_PROTECTION;
	qp->is_stopped = true;
	ori_soft_flight_retire(qp);
}

void ori_soft_requester_miss(struct soft_qp *qp, uint32_t psn)
{
	for (uint64_t i = qp->retired; qp->state == SOFT_READY && i < qp->fetch; i++) {
		struct soft_flight *f = soft_flight(qp, i);

		if ((uint32_t)soft_psn_diff(psn, f->psn) < f->packets && !requester_is_done(f)) {
			requester_miss(qp, f);
			return;
		}
	}
}

/* A request without bytes may have any local address, NULL too. */
static char *requester_local(const struct soft_flight *f, uint64_t at)
{
	return (char *)((uintptr_t)f->local + at);
}

static bool requester_fill_write(struct soft_qp *qp, struct soft_flight *f,
				 struct soft_frame *frame)
{
	uint64_t mtu = qp->node->scenario.mtu, at = (uint64_t)f->sent * mtu;
	uint32_t run = f->packets - f->sent, limit = ori_soft_run(qp);
	uint64_t length;

	if (run > limit)
		run = limit;
	/* Writes that a fence has waited for must be readable. */
	if (f->wqe.fence > 1)
		ori_soft_held_drain(qp->node);
	length = f->wqe.length - at < run * mtu ? f->wqe.length - at : run * mtu;
	frame->h.packets = run;
	if (!ori_soft_frame_attach(frame, f->mr,
				   f->wqe.is_inline ? (char *)f->wqe.data : requester_local(f, at),
				   (uint32_t)length))
		return false;
	f->sent += run;
	return true;
}

/* One request asks for all that is left of a READ. */
static void requester_fill_read(struct soft_qp *qp, struct soft_flight *f, struct soft_frame *frame)
{
	uint64_t at = (uint64_t)f->sent * qp->node->scenario.mtu;

	frame->h.packets = f->packets - f->sent;
	frame->h.address = f->wqe.remote + at;
	frame->h.total = (uint32_t)(f->wqe.length - at);
	f->sent = f->packets;
}

static void requester_fill_atomic(struct soft_flight *f, struct soft_frame *frame)
{
	struct soft_masks masks = {f->wqe.mask, f->wqe.swap_mask};

	if (ori_soft_wqe_is_masked(&f->wqe))
		(void)ori_soft_frame_attach(frame, NULL, (char *)&masks, sizeof(masks));
	frame->h.operand = f->wqe.operand;
	frame->h.compare = f->wqe.compare;
	f->sent = f->packets;
}

static enum soft_frame_type requester_type(const struct soft_wqe *wqe)
{
	switch (wqe->opcode) {
	case ORIEL_MLX5_WRITE_IMM:
		return SOFT_WRITE_IMM;
	case ORIEL_MLX5_READ:
		return SOFT_READ;
	case ORIEL_MLX5_FETCH_ADD:
		return SOFT_ADD;
	case ORIEL_MLX5_COMPARE_SWAP:
		return SOFT_SWAP;
	case ORIEL_MLX5_MASKED_FETCH_ADD:
		return SOFT_MASKED_ADD;
	case ORIEL_MLX5_MASKED_COMPARE_SWAP:
		return SOFT_MASKED_SWAP;
	}
	return SOFT_WRITE;
}

bool ori_soft_requester_fill(struct soft_qp *qp, struct soft_flight *f, struct soft_frame *frame)
{
	enum soft_frame_type type = requester_type(&f->wqe);

	ori_soft_frame_begin(frame, qp, type, soft_psn_add(f->psn, f->sent));
	frame->h.address = f->wqe.remote;
	frame->h.rkey = f->wqe.rkey;
	frame->h.total = f->wqe.length;
	if (ori_soft_wqe_is_writing(&f->wqe)) {
		frame->h.compare = f->wqe.immediate;
		frame->h.operand = (uint64_t)f->sent * qp->node->scenario.mtu;
		if (!requester_fill_write(qp, f, frame)) {
			requester_miss(qp, f);
			return false;
		}
	} else if (type == SOFT_READ) {
		requester_fill_read(qp, f, frame);
	} else {
		requester_fill_atomic(f, frame);
	}
	if (qp->timer == SOFT_NEVER)
		requester_arm(qp);
	return true;
}

uint64_t ori_soft_requester_due(const struct soft_qp *qp)
{
	uint64_t due = qp->state == SOFT_READY ? qp->timer : SOFT_NEVER;
	const struct soft_flight *f;

	if (qp->state != SOFT_READY || qp->sending >= qp->fetch || qp->sending < qp->retired)
		return due;
	f = &qp->flights[qp->sending % SOFT_FLIGHTS];
	if (!f->syndrome && f->ready_at > qp->node->engine->now && f->ready_at < due)
		due = f->ready_at;
	if (qp->resume_at > qp->node->engine->now && qp->resume_at < due)
		due = qp->resume_at;
	return due;
}

static void requester_rewind(struct soft_qp *qp)
{
	for (uint64_t i = qp->retired; i < qp->fetch; i++)
		soft_flight(qp, i)->sent = soft_flight(qp, i)->acked;
	qp->sending = qp->retired;
	qp->asked = 0;
	qp->node->counters.rewound++;
}

/* Unacknowledged packets are certainly lost at this point: see soft_wire.h. */
static void requester_lost(struct soft_qp *qp)
{
	const char *why = qp->link ? soft_link_why(qp->link) : "";
	struct soft_node *node = qp->node;

	node->counters.lost++;
	if (qp->tries++ == node->scenario.retry) {
		ori_soft_qp_fail(qp, ORIEL_SYNDROME_RETRY_EXCEEDED,
				 "no answer from QP 0x%06x in %llu tries of %llu us%s%s",
				 qp->peer_qpn, (unsigned long long)qp->tries,
				 (unsigned long long)(node->scenario.ack / 1000), *why ? ": " : "",
				 why);
		return;
	}
	requester_rewind(qp);
	requester_arm(qp);
}

static bool requester_is_cut_off(const struct soft_qp *qp)
{
	return qp->link && soft_link_is_lost(qp->link);
}

/* Is a sent packet unacknowledged? Packets that wait to be sent are not late. */
static bool requester_is_waiting(struct soft_qp *qp)
{
	const struct soft_flight *f = requester_oldest(qp);

	return f && f->sent > f->acked;
}

bool ori_soft_requester_timer(struct soft_qp *qp)
{
	struct soft_engine *e = qp->node->engine;

	if (qp->state != SOFT_READY || qp->timer > e->now)
		return false;
	if (!requester_is_waiting(qp)) {
		qp->timer = SOFT_NEVER;
		qp->asked = 0;
		return false;
	}
	qp->node->counters.timeouts++;
	soft_trace(e, 'T', qp->qpn, qp->tries);
	if (requester_is_cut_off(qp)) {
		requester_lost(qp);
		return true;
	}
	requester_arm(qp);
	if (!qp->asked)
		qp->asked = ++qp->questions;
	return true;
}

static void requester_progress(struct soft_qp *qp)
{
	qp->tries = 0;
	qp->not_ready = 0;
	qp->asked = 0;
	if (requester_oldest(qp))
		requester_arm(qp);
	else
		qp->timer = SOFT_NEVER;
}

/* @count packets of @f have arrived, and so have all before them. */
static bool requester_advance(struct soft_qp *qp, struct soft_flight *f, uint32_t count)
{
	if (count > f->packets)
		count = f->packets;
	if (count <= f->acked)
		return false;
	f->acked = count;
	if (f->sent < count)
		f->sent = count;
	if (requester_is_done(f) && ori_soft_wqe_is_fetching(&f->wqe))
		qp->reads--;
	return true;
}

/*
 * All packets up to @psn have arrived. For READs and atomics that is no more
 * than a hint: if their data has not arrived it is lost. Returns the flight
 * that packet @psn belongs to, or NULL.
 */
static struct soft_flight *requester_acknowledge(struct soft_qp *qp, uint32_t psn, bool is_data)
{
	struct soft_flight *found = NULL;
	bool is_progress = false;

	for (uint64_t i = qp->retired; i < qp->fetch; i++) {
		struct soft_flight *f = soft_flight(qp, i);
		int32_t count = soft_psn_diff(psn, f->psn) + 1;

		if (requester_is_done(f))
			continue;
		if (count <= 0 || f->syndrome)
			break;
		if (is_data && (uint32_t)count <= f->packets) {
			found = f;
			break;
		}
		if (ori_soft_wqe_is_fetching(&f->wqe)) {
			requester_rewind(qp);
			break;
		}
		is_progress |= requester_advance(qp, f, (uint32_t)count);
	}
	if (is_progress)
		requester_progress(qp);
	return found;
}

static void requester_ack(struct soft_qp *qp, const struct soft_header *h)
{
	requester_acknowledge(qp, h->psn, false);
	ori_soft_flight_retire(qp);
}

/* The peer has no receive for an immediate: send the request again later. */
static void requester_put_off(struct soft_qp *qp)
{
	const struct soft_scenario *s = &qp->node->scenario;

	if (s->rnr_retry != SOFT_FOR_EVER && qp->not_ready++ == s->rnr_retry) {
		ori_soft_qp_fail(qp, ORIEL_SYNDROME_NOT_READY_EXCEEDED,
				 "QP 0x%06x had no receive %llu times", qp->peer_qpn,
				 (unsigned long long)qp->not_ready);
		return;
	}
	requester_rewind(qp);
	qp->resume_at = qp->node->engine->now + s->rnr;
}

/* The peer has executed all packets before the one that the NAK names. */
static void requester_nak(struct soft_qp *qp, const struct soft_header *h)
{
	struct soft_flight *oldest;

	requester_acknowledge(qp, soft_psn_add(h->psn, SOFT_PSN_MASK), false);
	ori_soft_flight_retire(qp);
	oldest = qp->state == SOFT_READY ? requester_oldest(qp) : NULL;
	if (!oldest)
		return;
	if (!h->code)
		requester_rewind(qp);
	else if (h->code == ORIEL_SYNDROME_NOT_READY_EXCEEDED)
		requester_put_off(qp);
	else if ((uint32_t)soft_psn_diff(h->psn, oldest->psn) < oldest->packets)
		ori_soft_qp_fail(qp, h->code, "the peer rejected WQE %llu (opcode 0x%02x)",
				 (unsigned long long)oldest->index, oldest->wqe.opcode);
}

/* The flight whose next data is in @h, or NULL. */
static struct soft_flight *requester_match(struct soft_qp *qp, const struct soft_header *h)
{
	struct soft_flight *f = requester_acknowledge(qp, h->psn, true);
	int32_t ahead;

	if (!f || (f->wqe.opcode == ORIEL_MLX5_READ) != (h->type == SOFT_DATA) ||
	    ori_soft_wqe_is_writing(&f->wqe))
		return NULL;
	ahead = soft_psn_diff(h->psn, soft_psn_add(f->psn, f->acked));
	if (ahead > 0)
		requester_rewind(qp);
	return ahead == 0 ? f : NULL;
}

/* Does @h carry exactly the bytes of its packets? */
static bool requester_fits(const struct soft_flight *f, const struct soft_header *h, uint64_t mtu)
{
	uint64_t left = f->wqe.length - f->acked * mtu;
	uint64_t most = h->packets * mtu;

	return h->packets <= f->packets - f->acked && h->length == (left < most ? left : most);
}

/* Store the data of a READ; false if its target may not be written. */
static bool requester_take(const struct soft_flight *f, char *to, const char *payload,
			   size_t length)
{
	if (to == payload || !length)
		return true;
	if (!f->mr->node->scenario.late_read || !ori_soft_is_held(f->mr, to))
		return ori_soft_store(f->mr, to, payload, length);
	return (ori_soft_is_vouched(f->mr) || ori_probe_may_overwrite(to, length)) &&
	       ori_soft_write(f->mr, to, payload, length);
}

static void requester_data(struct soft_qp *qp, const struct soft_header *h, const char *payload)
{
	struct soft_flight *f = requester_match(qp, h);
	struct soft_node *node = qp->node;
	char *to;

	if (!f || !requester_fits(f, h, node->scenario.mtu))
		return;
	to = h->length ? requester_local(f, f->acked * node->scenario.mtu) : NULL;
	if ((to && !payload) || !requester_take(f, to, payload, h->length)) {
		requester_miss(qp, f);
		return;
	}
	requester_advance(qp, f, f->acked + h->packets);
	requester_progress(qp);
	ori_soft_flight_retire(qp);
}

/* 4-byte results are big-endian on every HCA, 8-byte results on some. */
static bool requester_result(struct soft_qp *qp, const struct soft_flight *f, uint64_t old)
{
	uint32_t swapped = ori_dev_swap_bytes32((uint32_t)old);

	if (f->wqe.length == sizeof(swapped))
		return ori_soft_store(f->mr, f->local, &swapped, sizeof(swapped));
	if (qp->node->scenario.big_endian)
		old = ori_dev_swap_bytes(old);
	return ori_soft_store(f->mr, f->local, &old, sizeof(old));
}

static void requester_old(struct soft_qp *qp, const struct soft_header *h)
{
	struct soft_flight *f = requester_match(qp, h);

	if (!f)
		return;
	if (!requester_result(qp, f, h->operand)) {
		requester_miss(qp, f);
		return;
	}
	requester_advance(qp, f, 1);
	requester_progress(qp);
	ori_soft_flight_retire(qp);
}

void ori_soft_requester_receive(struct soft_qp *qp, const struct soft_header *h,
				const char *payload)
{
	if (qp->state != SOFT_READY)
		return;
	switch (h->type) {
	case SOFT_ACK:
		requester_ack(qp, h);
		break;
	case SOFT_NAK:
		requester_nak(qp, h);
		break;
	case SOFT_DATA:
		requester_data(qp, h, payload);
		break;
	case SOFT_OLD:
		requester_old(qp, h);
		break;
	case SOFT_ANSWER:
		if (qp->asked && h->operand == qp->asked)
			requester_lost(qp);
		break;
	}
}

/* Probe the first and last byte; the socket reports an unmapped page in between. */
static bool requester_may_receive(char *to, size_t length)
{
	const size_t end = sizeof(uint64_t);

	if (length <= SOFT_AHEAD)
		return ori_probe_may_overwrite(to, length);
	return ori_probe_may_overwrite(to, SOFT_AHEAD) &&
	       ori_probe_may_overwrite(to + length - end, end) &&
	       ori_probe_looks_readable(to, length);
}

char *ori_soft_requester_target(struct soft_qp *qp, const struct soft_header *h,
				struct soft_mr **mr)
{
	struct soft_node *node = qp->node;
	struct soft_flight *f;
	char *to;

	if (qp->state != SOFT_READY)
		return NULL;
	f = requester_match(qp, h);
	if (!f || !requester_fits(f, h, node->scenario.mtu))
		return NULL;
	to = requester_local(f, f->acked * node->scenario.mtu);
	if (f->mr->side == SOFT_EITHER || ori_soft_is_remote(f->mr, to) ||
	    (node->scenario.late_read && ori_soft_is_held(f->mr, to)))
		return NULL;
	/*
	 * Otherwise the payload is received into scratch memory, and the copy
	 * finds the fault.
	 */
	if (!ori_soft_is_vouched(f->mr) && !requester_may_receive(to, h->length))
		return NULL;
	*mr = f->mr;
	return to;
}
