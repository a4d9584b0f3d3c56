/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues of the software HCA: CQEs in the bytes of the PRM, late or repeated if the
 * scenario says so. soft_cq.h names the callers.
 */
#include "hca/soft/soft_cq.h"

#include <string.h>

#define CQ_GARBAGE 0xdb

/* Vendor syndromes as public logs show them; they have no meaning here but look real. */
uint8_t ori_soft_vendor(uint8_t syndrome)
{
	switch (syndrome) {
	case ORIEL_SYNDROME_LOCAL_OPERATION:
		return 0x68;
	case ORIEL_SYNDROME_LOCAL_PROTECTION:
		return 0x53;
	case ORIEL_SYNDROME_FLUSHED:
		return 0xf9;
	case ORIEL_SYNDROME_REMOTE_REQUEST:
		return 0x8a;
	case ORIEL_SYNDROME_REMOTE_ACCESS:
		return 0x88;
	case ORIEL_SYNDROME_RETRY_EXCEEDED:
		return 0x83;
	}
	return 0;
}

char *ori_soft_cq_slot(const struct soft_cq *cq, uint64_t index)
{
	if (cq->is_collapsed)
		return cq->ring;
	return cq->ring + (index & ((UINT64_C(1) << cq->log_depth) - 1)) * ORIEL_MLX5_BLOCK;
}

void ori_soft_cq_clear(struct soft_cq *cq)
{
	uint64_t slots = cq->is_collapsed ? 1 : UINT64_C(1) << cq->log_depth;

	for (uint64_t i = 0; i < slots; i++)
		ori_dev_mlx5_cqe_clear(ori_soft_cq_slot(cq, i));
}

static bool soft_cq_flush(struct soft_cq *cq, uint64_t now)
{
	uint32_t count = 0;

	while (count < cq->late_count && cq->late[count].due <= now) {
		const struct ori_dev_mlx5_cqe *cqe = &cq->late[count++].cqe;

		ori_dev_mlx5_cqe_write(ori_soft_cq_slot(cq, cqe->index), cqe, cq->log_depth);
	}
	cq->late_count -= count;
	memmove(cq->late, cq->late + count, cq->late_count * sizeof(cq->late[0]));
	return count > 0;
}

bool ori_soft_cq_flush_of(const struct soft_qp *qp, uint64_t now)
{
	bool is_any = soft_cq_flush(qp->cq, now);

	return (qp->receive_cq && soft_cq_flush(qp->receive_cq, now)) || is_any;
}

/*
 * Until a late CQE is due it is garbage except for its last word, which is still
 * that of the lap before: a poller that sees the old word must not read the rest.
 */
static void cq_delay(struct soft_cq *cq, const struct ori_dev_mlx5_cqe *cqe, uint64_t due)
{
	if (cq->late_count == SOFT_LATE)
		soft_cq_flush(cq, SOFT_NEVER);
	memset(ori_soft_cq_slot(cq, cqe->index), CQ_GARBAGE, ORIEL_MLX5_TAIL);
	if (cq->late_count && due < cq->late[cq->late_count - 1].due)
		due = cq->late[cq->late_count - 1].due;
	cq->late[cq->late_count++] = (struct soft_late){.cqe = *cqe, .due = due};
	cq->node->counters.late_cqes++;
}

/* Write the last CQE once more, with the same bytes. */
static void cq_repeat(struct soft_cq *cq)
{
	char *slot = ori_soft_cq_slot(cq, cq->next - 1);
	uint32_t tail = ori_dev_load_relaxed32(ori_dev_mlx5_cqe_word(slot, ORIEL_MLX5_TAIL));

	if (cq->late_count || ori_dev_mlx5_tail_completion(tail) == ORIEL_MLX5_INVALID)
		return;
	for (uint64_t *at = (void *)slot; at < (uint64_t *)(void *)(slot + ORIEL_MLX5_BLOCK); at++)
		oriel_dev_store_relaxed(at, oriel_dev_load_relaxed(at));
	cq->node->counters.dup_cqes++;
}

/* Would the next CQE overwrite one that is not yet polled? */
static bool cq_is_full(const struct soft_cq *cq)
{
	uint32_t taken;

	if (!cq->record)
		return false;
	taken = ori_dev_swap_bytes32(ori_dev_load_acquire32(cq->record));
	return (((uint32_t)cq->next - taken) & ORIEL_MLX5_CQE_INDEX_MASK) >> cq->log_depth != 0;
}

static bool cq_overruns(struct soft_cq *cq)
{
	if (cq->is_overrun || !cq_is_full(cq))
		return cq->is_overrun;
	ori_dev_store_release32(&cq->is_overrun, 1);
	cq->node->counters.overruns++;
	return true;
}

static void cq_generate(struct soft_cq *cq, struct ori_dev_mlx5_cqe *cqe)
{
	struct soft_node *node = cq->node;

	if (cq_overruns(cq))
		return;
	cqe->index = cq->next;
	if (soft_rand_chance(&node->rand, node->scenario.dup_cqe))
		cq_repeat(cq);
	if (cqe->syndrome && cq->error_at == SOFT_NEVER)
		cq->error_at = cq->next;
	cq->next++;
	node->counters.cqes++;
	if (node->scenario.late_cqe)
		cq_delay(cq, cqe,
			 node->engine->now +
				 soft_rand_below(&node->rand, node->scenario.late_cqe + 1));
	else
		ori_dev_mlx5_cqe_write(ori_soft_cq_slot(cq, cqe->index), cqe, cq->log_depth);
}

void ori_soft_cq_complete(struct soft_cq *cq, const struct soft_qp *qp, uint64_t index,
			  const struct soft_wqe *wqe, uint8_t syndrome)
{
	struct ori_dev_mlx5_cqe cqe = {
		.wqe = index,
		.qpn = qp->qpn,
		.length = syndrome || !ori_soft_wqe_is_fetching(wqe) ? 0 : wqe->length,
		.completion = syndrome ? ORIEL_MLX5_FAILED : ORIEL_MLX5_DONE,
		.opcode = wqe->opcode,
		.syndrome = syndrome,
		.vendor = ori_soft_vendor(syndrome),
	};

	cq_generate(cq, &cqe);
}

void ori_soft_cq_receive(struct soft_cq *cq, const struct soft_qp *qp, uint64_t index,
			 uint32_t length, uint32_t immediate, uint8_t syndrome)
{
	struct ori_dev_mlx5_cqe cqe = {
		.wqe = index,
		.qpn = qp->qpn,
		.length = length,
		.completion = syndrome ? ORIEL_MLX5_RECEIVE_FAILED : ORIEL_MLX5_RECEIVED,
		.syndrome = syndrome,
		.vendor = ori_soft_vendor(syndrome),
		.immediate = immediate,
	};

	cq_generate(cq, &cqe);
}

/* The index is one of those within 2^23 of the next CQE. */
enum soft_wait ori_soft_cq_wait(const struct soft_cq *cq, uint32_t index)
{
	int32_t ahead = (int32_t)((index - (uint32_t)cq->next) << 8) >> 8;
	uint64_t awaited = cq->next + (uint64_t)(int64_t)ahead;

	if (!cq->node->scenario.policy_b && cq->error_at != SOFT_NEVER && awaited >= cq->error_at)
		return SOFT_WAIT_FAILED;
	return ahead < 0 ? SOFT_WAIT_OVER : SOFT_WAIT_PENDING;
}
