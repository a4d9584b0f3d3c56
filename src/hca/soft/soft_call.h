/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that callers post to and poll by calls: rings that the HCA keeps for
 * itself, and writes and reads as a program would.
 */
#ifndef ORI_HCA_SOFT_CALL_H
#define ORI_HCA_SOFT_CALL_H

#include "hca/soft/soft_objects.h"

enum oriel_status ori_soft_call_open_cq(struct soft_cq *cq, uint32_t depth);
/* A CQ with a ring of its user has nothing to close; nor has such a QP. */
void ori_soft_call_close_cq(struct soft_cq *cq);
enum oriel_status ori_soft_call_open_qp(struct soft_qp *qp, uint32_t depth);
void ori_soft_call_close_qp(struct soft_qp *qp);

/* As in hca.h; the caller holds the lock of the engine. */
enum oriel_status ori_soft_call_post(struct soft_qp *qp, const struct ori_hca_wr *wrs,
				     unsigned count, unsigned *posted);
enum oriel_status ori_soft_call_receive(struct soft_qp *qp, unsigned count);
enum oriel_status ori_soft_call_poll(struct soft_cq *cq, struct ori_hca_wc *wcs, unsigned room,
				     unsigned *count);

/* Without the lock: may there be a completion to poll? */
bool ori_soft_call_has(const struct soft_cq *cq);

#endif
