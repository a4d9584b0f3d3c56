/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a QP into error, and events of it. Send queue, requester,
 * responder and soft.c call it.
 */
#include "hca/soft/soft_qp.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "hca/soft/soft_cq.h"
#include "hca/soft/soft_stray.h"

static enum oriel_status qp_status(uint8_t syndrome)
{
	if (syndrome == ORIEL_SYNDROME_RETRY_EXCEEDED)
		return ORIEL_ERR_PEER;
	if (syndrome == ORIEL_SYNDROME_LOCAL_PROTECTION)
		return ORIEL_ERR_ACCESS;
	return syndrome == ORIEL_SYNDROME_FLUSHED ? ORIEL_ERR_STATE : ORIEL_ERR_PROTOCOL;
}

/*
 * A caller that polls no events must not stop the HCA: events beyond
 * SOFT_EVENTS are logged and counted only.
 */
void ori_soft_event_push(struct soft_node *node, enum oriel_status status, const struct soft_qp *qp,
			 uint8_t syndrome, const char *text)
{
	struct ori_hca_event *event;

	ori_log(ORIEL_LOG_DEBUG, "%s: QP 0x%06x: %s", node->name, qp->qpn, text);
	if (node->event_count == SOFT_EVENTS) {
		node->counters.events_lost++;
		return;
	}
	event = &node->events[(node->event_first + node->event_count++) % SOFT_EVENTS];
	*event = (struct ori_hca_event){
		.status = status,
		.qpn = qp->qpn,
		.syndrome = syndrome,
		.vendor = ori_soft_vendor(syndrome),
	};
	snprintf(event->text, sizeof(event->text), "%s", text);
}

bool ori_soft_qp_flush_rest(struct soft_qp *qp, uint8_t syndrome)
{
	bool is_any = qp->fetch < qp->end;

	while (qp->fetch < qp->end) {
		const uint8_t *first = soft_sq_slot(qp, qp->fetch);
		struct soft_wqe wqe = {.opcode = first[3]};

		ori_soft_cq_complete(qp->cq, qp, qp->fetch, &wqe, syndrome);
		qp->fetch += ori_soft_wqe_blocks(first);
		syndrome = ORIEL_SYNDROME_FLUSHED;
	}
	if (qp->fetch > qp->end)
		qp->fetch = qp->end;
	qp->retired = qp->fetch;
	return is_any;
}

void ori_soft_receive_flush(struct soft_qp *qp)
{
	while (qp->receives_taken < qp->receives_posted)
		ori_soft_cq_receive(qp->receive_cq, qp, qp->receives_taken++, 0, 0,
				    ORIEL_SYNDROME_FLUSHED);
}

/*
 * A WQE of two blocks has two flights and one CQE. The first CQE carries the
 * cause, all others say that they were flushed.
 */
void ori_soft_qp_flush(struct soft_qp *qp, uint8_t syndrome)
{
	soft_trace(qp->node->engine, 'X', qp->qpn, syndrome);
	qp->state = SOFT_ERROR;
	ori_soft_stray_place(qp->node, qp);
	qp->has_wqe = false;
	qp->timer = SOFT_NEVER;
	qp->recover_at = SOFT_NEVER;
	for (; qp->retired < qp->fetch; qp->retired++) {
		const struct soft_flight *f = soft_flight(qp, qp->retired);

		if (f->is_rest)
			continue;
		ori_soft_cq_complete(qp->cq, qp, qp->retired, &f->wqe, syndrome);
		syndrome = ORIEL_SYNDROME_FLUSHED;
	}
	qp->sending = qp->fetch;
	qp->reads = 0;
	ori_soft_qp_flush_rest(qp, syndrome);
	ori_soft_receive_flush(qp);
}

void ori_soft_qp_fail(struct soft_qp *qp, uint8_t syndrome, const char *format, ...)
{
	char text[sizeof(((struct ori_hca_event *)0)->text)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	ori_soft_event_push(qp->node, qp_status(syndrome), qp, syndrome, text);
	/* Nothing is executed or answered after this. */
	if (qp->node->atomic.qp == qp)
		qp->node->atomic.qp = NULL;
	qp->replies_count = 0;
	qp->has_ack = false;
	qp->has_nak = false;
	ori_soft_qp_flush(qp, syndrome);
}
