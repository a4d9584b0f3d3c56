/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues of the software HCA. Requester, responder and send queue
 * write CQEs; WAITs read them.
 */
#ifndef ORI_HCA_SOFT_CQ_H
#define ORI_HCA_SOFT_CQ_H

#include "hca/soft/soft_objects.h"

/* Mark every CQE invalid. */
void ori_soft_cq_clear(struct soft_cq *cq);

/* Generate the CQE of @wqe of @qp; @syndrome 0 is success. */
void ori_soft_cq_complete(struct soft_cq *cq, const struct soft_qp *qp, uint64_t index,
			  const struct soft_wqe *wqe, uint8_t syndrome);

/* Generate the CQE of receive @index of @qp, which a message of @length consumed. */
void ori_soft_cq_receive(struct soft_cq *cq, const struct soft_qp *qp, uint64_t index,
			 uint32_t length, uint32_t immediate, uint8_t syndrome);

/* Slot of CQE @index. */
char *ori_soft_cq_slot(const struct soft_cq *cq, uint64_t index);

/* Write late CQEs of both CQs of @qp that are due; SOFT_NEVER as @now writes all. */
bool ori_soft_cq_flush_of(const struct soft_qp *qp, uint64_t now);

enum soft_wait {
	SOFT_WAIT_PENDING,
	SOFT_WAIT_OVER,
	SOFT_WAIT_FAILED, /* an error CQE precedes it */
};

/* Has the HCA generated CQE @index, 24 bits? */
enum soft_wait ori_soft_cq_wait(const struct soft_cq *cq, uint32_t index);

uint8_t ori_soft_vendor(uint8_t syndrome);

#endif
