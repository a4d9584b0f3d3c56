/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A QP of the software HCA: doorbell, send queue, requester and responder.
 * Callers hold the lock of the engine.
 */
#ifndef ORI_HCA_SOFT_QP_H
#define ORI_HCA_SOFT_QP_H

#include "hca/soft/soft_frame.h"

static inline const uint8_t *soft_sq_slot(const struct soft_qp *qp, uint64_t index)
{
	return (const uint8_t *)qp->ring + (index & (qp->depth - 1)) * ORIEL_MLX5_BLOCK;
}

/* Poll the doorbell once; true if there is more to do than before. */
bool ori_soft_doorbell_poll(struct soft_qp *qp);

/* Start one WQE, or flush those of a QP in error; false if none may start. */
bool ori_soft_sq_step(struct soft_qp *qp);

/* The time at which the next action without a doorbell is due; SOFT_NEVER if none is. */
uint64_t ori_soft_sq_due(const struct soft_qp *qp);

/*
 * Into error: the first incomplete WQE gets @syndrome, those after it are
 * flushed. An event carries @format.
 */
void ori_soft_qp_fail(struct soft_qp *qp, uint8_t syndrome, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same without an event. */
void ori_soft_qp_flush(struct soft_qp *qp, uint8_t syndrome);

/*
 * WQEs of a QP in error that were posted but not fetched: the first gets
 * @syndrome. False if there are none.
 */
bool ori_soft_qp_flush_rest(struct soft_qp *qp, uint8_t syndrome);

/* Receives of a QP in error. */
void ori_soft_receive_flush(struct soft_qp *qp);

/* Complete finished flights, in order; a failed flight ends the QP when its turn comes. */
void ori_soft_flight_retire(struct soft_qp *qp);

/* Memory that flights use is unregistered. */
void ori_soft_flight_forget(struct soft_qp *qp, const struct soft_mr *mr);

/* The next flight that can send now, or NULL. */
struct soft_flight *ori_soft_requester_next(struct soft_qp *qp);
/* False: there is no frame, for the QP has failed. */
bool ori_soft_requester_fill(struct soft_qp *qp, struct soft_flight *flight,
			     struct soft_frame *frame);
/* As ori_soft_sq_due(). */
uint64_t ori_soft_requester_due(const struct soft_qp *qp);
/*
 * Find what is late, or lost and sent again, if it is time; then @qp->asked is
 * the question that the caller asks the peer, 0 for none.
 */
bool ori_soft_requester_timer(struct soft_qp *qp);
void ori_soft_requester_receive(struct soft_qp *qp, const struct soft_header *h,
				const char *payload);
char *ori_soft_requester_target(struct soft_qp *qp, const struct soft_header *h,
				struct soft_mr **mr);
/* The source of the request that packet @psn is of may not be read. */
void ori_soft_requester_miss(struct soft_qp *qp, uint32_t psn);

bool ori_soft_responder_has_output(const struct soft_qp *qp);
/* False: there is nothing to send after all. */
bool ori_soft_responder_fill(struct soft_qp *qp, struct soft_frame *frame);
/* The atomic of @node that has loaded its word stores and is answered, if there is one. */
void ori_soft_atomic_end(struct soft_node *node);
void ori_soft_responder_receive(struct soft_qp *qp, const struct soft_header *h,
				const char *payload);
char *ori_soft_responder_target(struct soft_qp *qp, const struct soft_header *h,
				struct soft_mr **mr);

/* The bytes that reply @h was to carry to the peer's READ may not be read. */
void ori_soft_responder_miss(struct soft_qp *qp, const struct soft_header *h);

/* Report @text to the caller of poll_event(). */
void ori_soft_event_push(struct soft_node *node, enum oriel_status status, const struct soft_qp *qp,
			 uint8_t syndrome, const char *text);

#endif
