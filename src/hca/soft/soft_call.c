/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts and polls by calls: each encodes WQEs into, or reads CQEs from, a ring
 * that the HCA owns. soft.c calls it with the lock held.
 */
#include "hca/soft/soft_call.h"

#include <oriel/dev/detail/mlx5_ring.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hca/soft/soft_cq.h"
#include "hca/soft/soft_qp.h"

static_assert(ORI_HCA_INLINE_MAX == ORIEL_MLX5_INLINE_MAX, "what fits into one block");

static char *call_ring(uint32_t depth)
{
	return aligned_alloc(ORIEL_MLX5_BLOCK, (size_t)depth * ORIEL_MLX5_BLOCK);
}

/* 0 if the depth is too large. */
static uint32_t call_depth(uint32_t depth)
{
	uint32_t whole = 1;

	if (depth == 0 || depth > ORIEL_MLX5_DEPTH_MAX)
		return 0;
	while (whole < depth)
		whole *= 2;
	return whole;
}

enum oriel_status ori_soft_call_open_cq(struct soft_cq *cq, uint32_t depth)
{
	uint32_t whole = call_depth(depth);

	if (!whole)
		return ori_fail(ORIEL_ERR_RANGE,
				"a CQ of a software HCA has 1 to %u entries, not %u",
				ORIEL_MLX5_DEPTH_MAX, depth);
	cq->ring = call_ring(whole);
	if (!cq->ring)
		return ori_fail_nomem((size_t)whole * ORIEL_MLX5_BLOCK, "a CQ of %u entries",
				      whole);
	cq->log_depth = (uint32_t)__builtin_ctz(whole);
	cq->next = cq->polled = cq->node->scenario.first;
	cq->own_record = ori_dev_swap_bytes32((uint32_t)cq->polled & ORIEL_MLX5_CQE_INDEX_MASK);
	cq->record = &cq->own_record;
	cq->is_called = true;
	return ORIEL_OK;
}

void ori_soft_call_close_cq(struct soft_cq *cq)
{
	if (cq->is_called)
		free(cq->ring);
}

enum oriel_status ori_soft_call_open_qp(struct soft_qp *qp, uint32_t depth)
{
	uint32_t whole = call_depth(depth);

	if (!whole)
		return ori_fail(ORIEL_ERR_RANGE, "a QP of a software HCA has 1 to %u slots, not %u",
				ORIEL_MLX5_DEPTH_MAX, depth);
	qp->ring = call_ring(whole);
	qp->ids = calloc(whole, sizeof(*qp->ids));
	if (!qp->ring || !qp->ids) {
		free(qp->ring);
		free(qp->ids);
		return ori_fail_nomem(whole * (ORIEL_MLX5_BLOCK + sizeof(*qp->ids)),
				      "a QP of %u requests", whole);
	}
	qp->depth = whole;
	qp->record = qp->own_record;
	qp->doorbell = &qp->own_doorbell;
	return ORIEL_OK;
}

void ori_soft_call_close_qp(struct soft_qp *qp)
{
	if (qp->ids)
		free(qp->ring);
	free(qp->ids);
}

static enum oriel_status call_check(const struct soft_qp *qp, const struct ori_hca_wr *wr)
{
	bool is_atomic = wr->opcode == ORI_HCA_FETCH_ADD || wr->opcode == ORI_HCA_CAS;

	if (wr->opcode > ORI_HCA_CAS)
		return ori_fail(ORIEL_ERR_INVALID, "%s: there is no operation %u", qp->node->name,
				wr->opcode);
	if (wr->data && wr->opcode > ORI_HCA_WRITE_IMM)
		return ori_fail(ORIEL_ERR_INVALID, "%s: only WRITEs can have inline data",
				qp->node->name);
	if (wr->length > ORIEL_MLX5_LENGTH_MAX || (is_atomic && wr->length != 8))
		return ori_fail(
			ORIEL_ERR_INVALID,
			"%s: a request of %u bytes is too long, or does not fit its operation",
			qp->node->name, wr->length);
	return ORIEL_OK;
}

static void call_encode(struct soft_qp *qp, void *slot, const struct ori_hca_wr *wr)
{
	const struct ori_dev_rdma_address remote = {wr->remote, wr->rkey},
					  local = {wr->local, wr->lkey};
	struct ori_dev_mlx5_head head = {qp->posted, qp->qpn, ORIEL_MLX5_FENCE_NONE};

	if (wr->flags & ORI_HCA_FENCE)
		head.fence = ORIEL_MLX5_FENCE_READS;
	if (wr->opcode == ORI_HCA_READ)
		ori_dev_mlx5_wqe_read(slot, head, remote, local, wr->length);
	else if (wr->opcode == ORI_HCA_FETCH_ADD)
		ori_dev_mlx5_wqe_fetch_add(slot, head, remote, local, wr->operand);
	else if (wr->opcode == ORI_HCA_CAS)
		ori_dev_mlx5_wqe_compare_swap(slot, head, remote, local, wr->compare, wr->operand);
	else if (wr->data && wr->length <= ORI_HCA_INLINE_MAX)
		ori_dev_mlx5_wqe_write_inline(slot, head, remote, wr->data, wr->length);
	else
		ori_dev_mlx5_wqe_write(slot, head, remote, local, wr->length);
	if (wr->opcode == ORI_HCA_WRITE_IMM)
		ori_dev_mlx5_wqe_immediate(slot, wr->immediate);
	if (!(wr->flags & ORI_HCA_SIGNALED))
		ori_dev_mlx5_wqe_unsignaled(slot);
}

static void call_ring_doorbell(struct soft_qp *qp)
{
	ori_dev_store_release32(&qp->record[1], ori_dev_mlx5_record_value(qp->posted));
	oriel_dev_store_release(qp->doorbell, ori_dev_mlx5_doorbell_value(qp->qpn, qp->posted));
}

enum oriel_status ori_soft_call_post(struct soft_qp *qp, const struct ori_hca_wr *wrs,
				     unsigned count, unsigned *posted)
{
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	*posted = 0;
	if (!qp->ids || qp->state == SOFT_INIT)
		return ori_fail(ORIEL_ERR_STATE, "QP 0x%06x of %s %s", qp->qpn, qp->node->name,
				qp->ids ? "is not connected" : "is posted to by its ring");
	for (i = 0; i < count && status == ORIEL_OK; i++) {
		uint64_t slot = qp->posted & (qp->depth - 1);

		status = call_check(qp, &wrs[i]);
		if (status == ORIEL_OK && qp->posted - qp->polled == qp->depth)
			status = ORIEL_AGAIN;
		if (status != ORIEL_OK)
			break;
		call_encode(qp, qp->ring + slot * ORIEL_MLX5_BLOCK, &wrs[i]);
		qp->ids[slot] = wrs[i].id;
		qp->posted++;
	}
	if (i > 0)
		call_ring_doorbell(qp);
	*posted = i;
	return status;
}

enum oriel_status ori_soft_call_receive(struct soft_qp *qp, unsigned count)
{
	if (count > qp->receive_room - (qp->receives_posted - qp->receives_polled))
		return ori_fail(ORIEL_ERR_RANGE,
				"QP 0x%06x of %s has room for %u receives, not for %u more",
				qp->qpn, qp->node->name, qp->receive_room, count);
	qp->receives_posted += count;
	if (qp->state == SOFT_ERROR)
		ori_soft_receive_flush(qp);
	return ORIEL_OK;
}

static bool call_has(const struct soft_cq *cq)
{
	uint64_t index = oriel_dev_load_relaxed(&cq->polled);
	const char *slot = ori_soft_cq_slot(cq, index);
	uint32_t tail = ori_dev_load_acquire32(ori_dev_mlx5_cqe_word(slot, ORIEL_MLX5_TAIL));

	return ori_dev_mlx5_tail_completion(tail) != ORIEL_MLX5_INVALID &&
	       ori_dev_mlx5_tail_owner(tail) == (index >> cq->log_depth & 1);
}

bool ori_soft_call_has(const struct soft_cq *cq)
{
	return call_has(cq) || ori_dev_load_relaxed32(&cq->is_overrun);
}

static uint8_t call_opcode(uint32_t opcode)
{
	switch (opcode) {
	case ORIEL_MLX5_WRITE_IMM:
		return ORI_HCA_WRITE_IMM;
	case ORIEL_MLX5_READ:
		return ORI_HCA_READ;
	case ORIEL_MLX5_FETCH_ADD:
		return ORI_HCA_FETCH_ADD;
	case ORIEL_MLX5_COMPARE_SWAP:
		return ORI_HCA_CAS;
	}
	return ORI_HCA_WRITE;
}

/* Find the request of the CQE whose index ends in @counter. */
static void call_finish(struct soft_qp *qp, uint32_t counter, struct ori_hca_wc *wc)
{
	uint64_t index = qp->polled + ((counter - qp->polled) & 0xffff);

	wc->id = qp->ids[index & (qp->depth - 1)];
	qp->polled = index + 1;
}

/* False: the CQE is of a destroyed QP. */
static bool call_read(struct soft_node *node, const char *cqe, struct ori_hca_wc *wc)
{
	uint32_t tail = ori_dev_load_acquire32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
	uint32_t completion = ori_dev_mlx5_tail_completion(tail);
	uint32_t error = *ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_ERROR);
	uint32_t origin = ori_dev_mlx5_get32(cqe, ORIEL_MLX5_ORIGIN);
	uint32_t qpn = origin & 0x00ffffff;
	struct soft_qp *qp = node->qps[qpn & (SOFT_TABLE - 1)];

	if (!qp || qp->qpn != qpn)
		return false;
	*wc = (struct ori_hca_wc){.qpn = qpn};
	wc->is_receive =
		completion == ORIEL_MLX5_RECEIVED || completion == ORIEL_MLX5_RECEIVE_FAILED;
	if (completion == ORIEL_MLX5_FAILED || completion == ORIEL_MLX5_RECEIVE_FAILED) {
		wc->syndrome = (uint8_t)ori_dev_mlx5_error_syndrome(error);
		wc->vendor = ori_dev_mlx5_error_vendor(error);
		wc->status = ori_dev_queue_err_status(
			ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, wc->syndrome, wc->vendor, 0));
	}
	if (!wc->is_receive) {
		wc->opcode = call_opcode(origin >> 24);
		call_finish(qp, ori_dev_mlx5_tail_counter(tail), wc);
		return true;
	}
	wc->opcode = ORI_HCA_WRITE_IMM;
	wc->length = ori_dev_mlx5_get32(cqe, ORIEL_MLX5_BYTES);
	wc->immediate = ori_dev_mlx5_get32(cqe, ORIEL_MLX5_IMMEDIATE);
	qp->receives_polled++;
	return true;
}

enum oriel_status ori_soft_call_poll(struct soft_cq *cq, struct ori_hca_wc *wcs, unsigned room,
				     unsigned *count)
{
	unsigned found = 0;

	while (found < room && call_has(cq)) {
		if (call_read(cq->node, ori_soft_cq_slot(cq, cq->polled), &wcs[found]))
			found++;
		oriel_dev_store_relaxed(&cq->polled, cq->polled + 1);
	}
	ori_dev_store_release32(&cq->own_record, ori_dev_swap_bytes32((uint32_t)cq->polled &
								      ORIEL_MLX5_CQE_INDEX_MASK));
	*count = found;
	if (found == 0 && cq->is_overrun)
		return ori_fail(ORIEL_ERR_STATE, "CQ 0x%06x of %s was overrun", cq->cqn,
				cq->node->name);
	return ORIEL_OK;
}
