/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loopback queue of a NIC: two queue pairs of one process, of which one posts and the
 * other one answers. Lanes of the proxy (rdma_proxy.c) call it for counters and read
 * flushes.
 */
#include "rdma/rdma_loopback.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

#define LOOPBACK_DEPTH 256u
#define LOOPBACK_COMPLETIONS 16u
#define LOOPBACK_TIMEOUT_NS 1000000000u

/* ended <= posted <= ended + LOOPBACK_DEPTH; the id of a request is its index. */
struct ori_loopback {
	const struct ori_hca_ops *ops;
	const struct ori_hca_calls *calls; /* of @ops */
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;        /* posts */
	struct ori_hca_qp *responder; /* never posts */
	uint32_t sink_lkey;
	uint64_t posted, ended;
	uint64_t err;                                    /* why it is dead; 0 while well */
	struct ori_loopback_mark *marks[LOOPBACK_DEPTH]; /* of the requests between */
};

static enum oriel_status loopback_connect(struct ori_loopback *t, struct ori_hca *hca)
{
	struct ori_hca_cq_attr cq = {.depth = 2 * LOOPBACK_DEPTH};
	struct ori_hca_qp_attr attr = {.depth = LOOPBACK_DEPTH};
	struct ori_hca_qp_address address, responder;
	enum oriel_status status;
	uint32_t cqn;

	status = t->ops->create_cq(hca, &cq, &t->cq, &cqn);
	attr.send_cq = attr.receive_cq = t->cq;
	if (status == ORIEL_OK)
		status = t->ops->create_qp(hca, &attr, &t->qp, &address);
	attr.depth = 1;
	if (status == ORIEL_OK)
		status = t->ops->create_qp(hca, &attr, &t->responder, &responder);
	if (status == ORIEL_OK)
		status = t->ops->connect_qp(t->responder, &address);
	return status == ORIEL_OK ? t->ops->connect_qp(t->qp, &responder) : status;
}

enum oriel_status ori_loopback_open(const struct ori_hca_ops *ops, struct ori_hca *hca,
				    uint32_t sink_lkey, struct ori_loopback **out)
{
	struct ori_loopback *t = calloc(1, sizeof(*t));
	enum oriel_status status;

	if (!t)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for the counters of a NIC");
	t->ops = ops;
	t->calls = ops->calls;
	t->sink_lkey = sink_lkey;
	status = loopback_connect(t, hca);
	if (status != ORIEL_OK) {
		ori_loopback_close(t);
		return status;
	}
	*out = t;
	return ORIEL_OK;
}

void ori_loopback_close(struct ori_loopback *t)
{
	if (!t)
		return;
	assert(t->err || t->posted == t->ended);
	if (t->qp)
		t->ops->destroy_qp(t->qp);
	if (t->responder)
		t->ops->destroy_qp(t->responder);
	if (t->cq)
		t->ops->destroy_cq(t->cq);
	free(t);
}

static void loopback_complete(struct ori_loopback *t, uint64_t err)
{
	struct ori_loopback_mark *mark = t->marks[t->ended++ % LOOPBACK_DEPTH];

	mark->err = err;
	mark->has_ended = true;
}

/* All requests in flight end with @err, as does every later one. */
static void loopback_fail(struct ori_loopback *t, uint64_t err)
{
	if (!t->err)
		t->err = err;
	/*
	 * The responder fails first: a request that was sent to it increments nothing any
	 * more.
	 */
	t->ops->fail_qp(t->responder);
	t->ops->fail_qp(t->qp);
	while (t->ended < t->posted)
		loopback_complete(t, t->err);
}

static enum oriel_status loopback_post(struct ori_loopback *t, uint8_t opcode,
				       struct oriel_rdma_address word, uint64_t amount,
				       struct ori_loopback_mark *mark)
{
	struct ori_hca_wr wr = {
		.id = t->posted,
		.lkey = t->sink_lkey,
		.remote = word.address,
		.rkey = word.key,
		.length = sizeof(uint64_t),
		.operand = amount,
		.opcode = opcode,
		.flags = ORI_HCA_SIGNALED,
	};
	enum oriel_status status;
	unsigned posted;

	/* A full queue returns ORIEL_AGAIN. */
	status = t->err ? ORIEL_OK : t->calls->post(t->qp, &wr, 1, &posted);
	if (status == ORIEL_AGAIN)
		return status;
	assert(t->posted - t->ended < LOOPBACK_DEPTH);
	mark->is_begun = true;
	mark->has_ended = false;
	t->marks[t->posted++ % LOOPBACK_DEPTH] = mark;
	if (t->err || status != ORIEL_OK)
		loopback_fail(t, oriel_queue_err(ORIEL_QUEUE_ERROR_CQE, ORIEL_MLX5_LOCAL_OPERATION,
						 0, 0));
	return ORIEL_OK;
}

enum oriel_status ori_loopback_increment(struct ori_loopback *t, struct oriel_rdma_address word,
					 uint64_t amount, struct ori_loopback_mark *mark)
{
	return loopback_post(t, ORI_HCA_FETCH_ADD, word, amount, mark);
}

enum oriel_status ori_loopback_read_flush(struct ori_loopback *t, struct oriel_rdma_address word,
					  struct ori_loopback_mark *mark)
{
	return loopback_post(t, ORI_HCA_READ, word, 0, mark);
}

static void loopback_handle(struct ori_loopback *t, const struct ori_hca_wc *wc)
{
	if (t->err)
		return;
	if (wc->status != ORIEL_OK)
		loopback_fail(t, oriel_queue_err(ORIEL_QUEUE_ERROR_CQE, wc->syndrome,
						 wc->vendor & 0xff, 0));
	else
		loopback_complete(t, 0);
}

bool ori_loopback_step(struct ori_loopback *t)
{
	struct ori_hca_wc wcs[LOOPBACK_COMPLETIONS];
	bool is_busy = false;
	unsigned count, i;

	while (!t->err && t->ended < t->posted) {
		if (t->calls->poll(t->cq, wcs, LOOPBACK_COMPLETIONS, &count) != ORIEL_OK)
			loopback_fail(t, oriel_queue_err(ORIEL_QUEUE_ERROR_CQE,
							 ORIEL_MLX5_LOCAL_OPERATION, 0, 0));
		else if (count == 0)
			break;
		else
			for (i = 0; i < count; i++)
				loopback_handle(t, &wcs[i]);
		is_busy = true;
	}
	return is_busy;
}

bool ori_loopback_is_waiting(const struct ori_loopback *t)
{
	return t->ended < t->posted;
}

void ori_loopback_drain(struct ori_loopback *t)
{
	uint64_t start = ori_clock_ns(), deadline = ori_deadline(LOOPBACK_TIMEOUT_NS);

	while (ori_loopback_is_waiting(t)) {
		if (ori_loopback_step(t))
			continue;
		if (ori_deadline_passed(deadline))
			loopback_fail(t, oriel_queue_err(ORIEL_QUEUE_ERROR_CQE, ORIEL_MLX5_FLUSHED,
							 0, 0));
		oriel_cpu_back_off(ori_clock_ns() - start);
	}
}
