/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send queue: doorbell, fetch, and the gates before a WQE may start. The
 * engine steps it.
 */
#include <string.h>

#include "base/log.h"
#include "hca/soft/soft_cq.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_qp.h"

#define SQ_INDEX_HALF 0x8000u

/* A doorbell breaks the rules: all WQEs that may have been posted fail. */
static bool sq_reject_doorbell(struct soft_qp *qp, uint64_t end, const char *why, uint32_t index,
			       uint32_t record)
{
	qp->node->counters.violations++;
	if (end > qp->retired + qp->depth)
		end = qp->retired + qp->depth;
	if (end > qp->end)
		qp->end = end;
	ori_log(ORIEL_LOG_ERROR, "%s: QP 0x%06x: %s: doorbell 0x%04x, record 0x%04x, %llu done",
		qp->node->name, qp->qpn, why, index, record, (unsigned long long)qp->retired);
	ori_soft_qp_fail(qp, ORIEL_SYNDROME_LOCAL_OPERATION, "%s: doorbell 0x%04x, record 0x%04x",
			 why, index, record);
	return true;
}

/* The WQEs up to the one whose index ends in @index are posted. */
static bool sq_extend(struct soft_qp *qp, uint32_t index, uint32_t record)
{
	uint32_t ahead = (index - (uint32_t)qp->end) & 0xffff;

	if (ahead > SQ_INDEX_HALF)
		return sq_reject_doorbell(qp, qp->end, "the producer index went back", index,
					  record);
	if (qp->end + ahead - qp->retired > qp->depth)
		return sq_reject_doorbell(qp, qp->end + ahead, "more WQEs are posted than fit",
					  index, record);
	qp->end += ahead;
	return ahead > 0;
}

/* Acquires the record and with it the WQEs that its poster released. */
static uint32_t sq_record(const struct soft_qp *qp)
{
	return ori_dev_swap_bytes32(ori_dev_load_acquire32(&qp->record[1]));
}

/* The record alone holds the index that a lost doorbell has posted. */
static bool sq_recover(struct soft_qp *qp)
{
	uint32_t record = sq_record(qp);

	qp->recover_at = SOFT_NEVER;
	if (record > 0xffff)
		return sq_reject_doorbell(qp, qp->end, "bits beyond the index in the record", 0,
					  record);
	return sq_extend(qp, record, record);
}

/*
 * The doorbell may be ahead of the record only if the scenario says double_ring. It may be behind
 * by more than the depth: a thread that carries doorbells to registers (hca/mlx5/mlx5_doorbell.c)
 * holds a value while the doorbell before it shows this HCA the record, all WQEs of which complete,
 * and the posters fill the ring again. Each such thread adds a depth; queues have far less than
 * half the range of the index.
 */
static bool sq_ring(struct soft_qp *qp, uint64_t value)
{
	uint32_t first = ori_dev_swap_bytes32((uint32_t)value);
	uint32_t qpn = ori_dev_swap_bytes32((uint32_t)(value >> 32)) >> 8;
	uint32_t index = first >> 8 & 0xffff, record = sq_record(qp);

	if (qpn != qp->qpn)
		return sq_reject_doorbell(qp, qp->end, "doorbell with the number of another QP",
					  index, record);
	if (record > 0xffff)
		return sq_reject_doorbell(qp, qp->end, "bits beyond the index in the record", index,
					  record);
	if (((index - qp->rung) & 0xffff) > SQ_INDEX_HALF)
		return sq_reject_doorbell(qp, qp->end, "the doorbell went back", index, record);
	qp->rung = (uint16_t)index;
	if (((record - index) & 0xffff) <= SQ_INDEX_HALF)
		return sq_extend(qp, record, record);
	if (qp->node->scenario.double_ring)
		return sq_extend(qp, index, record);
	return sq_reject_doorbell(qp, qp->end + ((index - (uint32_t)qp->end) & 0xffff),
				  "doorbell before its record", index, record);
}

/* A ring is a change of the word: memory does not show a second store of the same value. */
bool ori_soft_doorbell_poll(struct soft_qp *qp)
{
	struct soft_node *node = qp->node;
	uint64_t value, now = node->engine->now;

	if (qp->state == SOFT_INIT)
		return false;
	if (qp->recover_at <= now)
		return sq_recover(qp);
	value = oriel_dev_load_acquire(qp->doorbell);
	if (value == qp->seen)
		return false;
	qp->seen = value;
	node->counters.doorbells++;
	if (soft_rand_chance(&node->rand, node->scenario.db_loss)) {
		node->counters.doorbell_lost++;
		qp->rung = (uint16_t)(ori_dev_swap_bytes32((uint32_t)value) >> 8);
		qp->recover_at = now + soft_rand_below(&node->rand, node->scenario.db_delay);
		return false;
	}
	return sq_ring(qp, value);
}

static void sq_report(struct soft_qp *qp, const uint8_t *bytes, const char *flaw)
{
	char dump[256];

	qp->node->counters.violations++;
	ori_soft_wqe_dump(bytes, dump, sizeof(dump));
	ori_log(ORIEL_LOG_ERROR, "%s: QP 0x%06x: WQE %llu has %s: %s", qp->node->name, qp->qpn,
		(unsigned long long)qp->fetch, flaw, dump);
}

/* A flight that fails when its turn to complete comes. */
static struct soft_flight *sq_launch(struct soft_qp *qp, const struct soft_wqe *wqe,
				     uint8_t syndrome)
{
	struct soft_flight *f = soft_flight(qp, qp->fetch);

	*f = (struct soft_flight){
		.index = qp->fetch++,
		.wqe = *wqe,
		.psn = qp->next_psn,
		.syndrome = syndrome,
	};
	qp->has_wqe = false;
	qp->is_stopped = syndrome != 0;
	return f;
}

static bool sq_violate(struct soft_qp *qp, const struct soft_wqe *wqe, const char *flaw)
{
	sq_report(qp, soft_sq_slot(qp, qp->fetch), flaw);
	ori_soft_event_push(qp->node, ORIEL_ERR_PROTOCOL, qp, ORIEL_SYNDROME_LOCAL_OPERATION, flaw);
	sq_launch(qp, wqe, ORIEL_SYNDROME_LOCAL_OPERATION);
	ori_soft_flight_retire(qp);
	return true;
}

/* Copies as many blocks of the WQE at fetch as it has, and are posted. */
static unsigned sq_copy(const struct soft_qp *qp, uint8_t *bytes)
{
	memcpy(bytes, soft_sq_slot(qp, qp->fetch), ORIEL_MLX5_BLOCK);
	if (ori_soft_wqe_blocks(bytes) == 1 || qp->end - qp->fetch < 2)
		return 1;
	memcpy(bytes + ORIEL_MLX5_BLOCK, soft_sq_slot(qp, qp->fetch + 1), ORIEL_MLX5_BLOCK);
	return 2;
}

/* Snapshot the WQE at fetch; false if none was taken. */
static bool sq_fetch(struct soft_qp *qp)
{
	struct soft_node *node = qp->node;
	uint8_t bytes[SOFT_WQE_BLOCKS * ORIEL_MLX5_BLOCK];
	unsigned blocks;
	const char *flaw;

	if (soft_rand_chance(&node->rand, node->scenario.stall ? node->scenario.stall_rate : 0)) {
		node->counters.stalled++;
		qp->stall_until =
			node->engine->now + soft_rand_below(&node->rand, node->scenario.stall);
		return false;
	}
	blocks = sq_copy(qp, bytes);
	node->counters.wqes++;
	flaw = ori_soft_wqe_parse(bytes, blocks, qp->fetch, qp->qpn, &qp->wqe);
	if (!flaw && qp->wqe.opcode == ORIEL_MLX5_WAIT && !qp->is_companion)
		flaw = "a WAIT on a QP that is no companion";
	if (flaw) {
		sq_violate(qp, &qp->wqe, flaw);
		return false;
	}
	qp->has_wqe = true;
	return true;
}

/* Fences and limits that do not depend on other queues. */
static bool sq_is_gated(const struct soft_qp *qp)
{
	const struct soft_wqe *wqe = &qp->wqe;

	if ((wqe->fence == 2 || wqe->fence == 4) && qp->reads > 0)
		return true;
	if (wqe->fence == 3 && qp->retired < qp->fetch)
		return true;
	return ori_soft_wqe_is_fetching(wqe) && qp->reads >= qp->reads_max;
}

/* A WAIT parks the queue; an error CQE in the awaited queue breaks this one. */
static bool sq_wait(struct soft_qp *qp)
{
	const struct soft_wqe *wqe = &qp->wqe;
	uint32_t place = wqe->wait_cqn & (SOFT_TABLE - 1);
	const struct soft_cq *cq = qp->node->cqs[place];

	if (!cq || cq->cqn != wqe->wait_cqn)
		return sq_violate(qp, wqe, "a WAIT on a CQ that does not exist");
	switch (ori_soft_cq_wait(cq, wqe->wait_index)) {
	case SOFT_WAIT_PENDING:
		return false;
	case SOFT_WAIT_FAILED:
		ori_soft_qp_fail(qp, ORIEL_SYNDROME_FLUSHED,
				 "WAIT on CQ 0x%06x, which got an error CQE", wqe->wait_cqn);
		return true;
	case SOFT_WAIT_OVER:
		break;
	}
	sq_launch(qp, wqe, 0);
	return true;
}

/* A wrong key fails this flight in its turn, after the completion of all WQEs before it. */
static uint8_t sq_find_local(struct soft_qp *qp, struct soft_flight *f)
{
	const struct soft_wqe *wqe = &f->wqe;
	unsigned access = ori_soft_wqe_is_fetching(wqe) ? ORI_HCA_LOCAL_WRITE : 0;
	const char *why;

	if (wqe->is_inline || wqe->length == 0)
		return 0;
	f->mr = ori_soft_mr_find(qp->node, wqe->lkey, wqe->local, wqe->length, access, &why);
	if (f->mr) {
		f->local = soft_mr_at(f->mr, wqe->local);
		return 0;
	}
	ori_log(ORIEL_LOG_DEBUG, "%s: QP 0x%06x: WQE %llu: local key 0x%08x: %s", qp->node->name,
		qp->qpn, (unsigned long long)f->index, wqe->lkey, why);
	qp->is_stopped = true;
	return ORIEL_SYNDROME_LOCAL_PROTECTION;
}

/*
 * Local data is read up to gather ns later, which exposes a program that
 * changes its source before the CQE.
 */
static void sq_start(struct soft_qp *qp)
{
	struct soft_node *node = qp->node;
	struct soft_flight *f = sq_launch(qp, &qp->wqe, 0);

	f->syndrome = sq_find_local(qp, f);
	if (f->syndrome)
		return;
	if (f->wqe.opcode == ORIEL_MLX5_DUMP)
		ori_soft_held_drain(node);
	if (!ori_soft_wqe_is_remote(&f->wqe) || node->scenario.sink)
		return;
	f->ready_at = node->engine->now + soft_rand_below(&node->rand, node->scenario.gather);
	f->packets = ori_soft_wqe_is_fetching(&f->wqe) && f->wqe.opcode != ORIEL_MLX5_READ
			     ? 1
			     : soft_packets(f->wqe.length, node->scenario.mtu);
	qp->next_psn = soft_psn_add(qp->next_psn, f->packets);
	if (ori_soft_wqe_is_fetching(&f->wqe))
		qp->reads++;
}

/* The second block of a WQE is one more flight, which ends at once. */
static void sq_start_rest(struct soft_qp *qp)
{
	const struct soft_wqe nop = {.opcode = ORIEL_MLX5_NOP};
	bool is_stopped = qp->is_stopped;

	sq_launch(qp, &nop, 0)->is_rest = true;
	qp->is_stopped = is_stopped;
}

static const struct soft_cq *sq_overrun(const struct soft_qp *qp)
{
	if (qp->cq->is_overrun)
		return qp->cq;
	return qp->receive_cq && qp->receive_cq->is_overrun ? qp->receive_cq : NULL;
}

/* A WQE starts only if two flights are free, since it may take two. */
bool ori_soft_sq_step(struct soft_qp *qp)
{
	const struct soft_scenario *s = &qp->node->scenario;

	if (qp->state == SOFT_READY && sq_overrun(qp)) {
		ori_soft_qp_fail(qp, ORIEL_SYNDROME_LOCAL_OPERATION, "CQ 0x%06x was overrun",
				 sq_overrun(qp)->cqn);
		return true;
	}
	if (qp->state == SOFT_ERROR)
		return ori_soft_qp_flush_rest(qp, ORIEL_SYNDROME_FLUSHED);
	if (qp->state != SOFT_READY || qp->is_stopped || qp->fetch == qp->end ||
	    qp->fetch - qp->retired > SOFT_FLIGHTS - SOFT_WQE_BLOCKS ||
	    qp->node->engine->now < qp->stall_until)
		return false;
	if (qp->fetch - qp->first >= s->fail_wqe && soft_is_meant(qp)) {
		ori_soft_qp_fail(qp, ORIEL_SYNDROME_FLUSHED, "forced into error at WQE %llu",
				 (unsigned long long)qp->fetch);
		return true;
	}
	if (!qp->has_wqe && !sq_fetch(qp))
		return qp->is_stopped;
	if (sq_is_gated(qp))
		return false;
	soft_trace(qp->node->engine, 'S', qp->qpn, qp->fetch);
	if (qp->wqe.opcode == ORIEL_MLX5_WAIT) {
		if (!sq_wait(qp))
			return false;
	} else {
		unsigned blocks = ori_soft_wqe_is_double(&qp->wqe) ? 2 : 1;

		sq_start(qp);
		if (blocks == 2)
			sq_start_rest(qp);
	}
	if (qp->state == SOFT_READY)
		ori_soft_flight_retire(qp);
	return true;
}

uint64_t ori_soft_sq_due(const struct soft_qp *qp)
{
	uint64_t due = qp->recover_at;

	if (qp->state == SOFT_READY && qp->fetch < qp->end &&
	    qp->stall_until > qp->node->engine->now && qp->stall_until < due)
		due = qp->stall_until;
	return due;
}
