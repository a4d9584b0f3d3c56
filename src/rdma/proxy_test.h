/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HCA whose queues do what a test says: it ends requests when the test says so, and
 * takes as many as the test grants.
 */
#ifndef ORI_RDMA_PROXY_TEST_H
#define ORI_RDMA_PROXY_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/mlx5_ring.h>

#include "hca/hca.h"

#define SCRIPT_LOG 4096u

/* retired <= ended <= posted; poll() has returned those before retired. */
struct ori_hca_qp {
	uint32_t depth;
	uint64_t posted, ended, retired;
	struct ori_hca_wr log[SCRIPT_LOG];
	uint64_t values[SCRIPT_LOG]; /* of requests with their data inside */
	struct ori_hca_wc wcs[SCRIPT_LOG];
	uint64_t upto[SCRIPT_LOG];     /* index behind the request of each of them */
	uint64_t wcs_polled, wcs_made; /* of wcs */
	unsigned calls;                /* of post() */
	bool is_failed;
	bool is_eager; /* a request ends as soon as it is posted */
};

struct ori_hca_cq {
	struct ori_hca_qp *qp; /* the only one that ever posts */
};

/* Requests that post() takes before it has no room for more, of any queue. */
static unsigned script_grant = UINT32_MAX;

static inline void script_complete(struct ori_hca_qp *qp, enum oriel_status status,
				   uint8_t syndrome)
{
	const struct ori_hca_wr *wr = &qp->log[qp->ended % SCRIPT_LOG];
	struct ori_hca_wc wc = {.id = wr->id, .status = status, .syndrome = syndrome};

	if (status != ORIEL_OK || (wr->flags & ORI_HCA_SIGNALED)) {
		qp->upto[qp->wcs_made % SCRIPT_LOG] = qp->ended + 1;
		qp->wcs[qp->wcs_made++ % SCRIPT_LOG] = wc;
	}
	qp->ended++;
}

/* The next @count requests end well. */
static inline void script_end(struct ori_hca_qp *qp, unsigned count)
{
	while (count--) {
		assert_true(qp->ended < qp->posted && !qp->is_failed);
		script_complete(qp, ORIEL_OK, 0);
	}
}

static inline void script_flush(struct ori_hca_qp *qp)
{
	qp->is_failed = true;
	while (qp->ended < qp->posted)
		script_complete(qp, ORIEL_ERR_STATE, ORIEL_SYNDROME_FLUSHED);
}

/* The next request fails, and those behind it are flushed. */
static inline void script_fail(struct ori_hca_qp *qp, enum oriel_status status, uint8_t syndrome)
{
	script_complete(qp, status, syndrome);
	script_flush(qp);
}

static inline enum oriel_status script_post(struct ori_hca_qp *qp, const struct ori_hca_wr *wrs,
					    unsigned count, unsigned *posted)
{
	qp->calls++;
	for (*posted = 0; *posted < count; (*posted)++) {
		uint64_t slot = qp->posted % SCRIPT_LOG;

		if (qp->posted - qp->retired == qp->depth || !script_grant)
			return ORIEL_AGAIN;
		script_grant--;
		qp->log[slot] = wrs[*posted];
		if (wrs[*posted].data)
			memcpy(&qp->values[slot], wrs[*posted].data, sizeof(qp->values[slot]));
		qp->posted++;
		if (qp->is_failed)
			script_flush(qp);
		else if (qp->is_eager)
			script_end(qp, 1);
	}
	return ORIEL_OK;
}

static inline enum oriel_status script_poll(struct ori_hca_cq *cq, struct ori_hca_wc *wcs,
					    unsigned room, unsigned *count)
{
	struct ori_hca_qp *qp = cq->qp;

	for (*count = 0; *count < room && qp->wcs_polled < qp->wcs_made; (*count)++) {
		qp->retired = qp->upto[qp->wcs_polled % SCRIPT_LOG];
		wcs[*count] = qp->wcs[qp->wcs_polled++ % SCRIPT_LOG];
	}
	return ORIEL_OK;
}

static inline void script_caps(const struct ori_hca *hca, struct ori_hca_caps *caps)
{
	(void)hca;
	*caps = (struct ori_hca_caps){.name = "script",
				      .depth_max = SCRIPT_LOG,
				      .length_max = 1u << 30};
}

static inline void script_describe(const struct ori_hca *hca, struct ori_hca_qp_address *address)
{
	(void)hca;
	*address = (struct ori_hca_qp_address){0};
}

static inline enum oriel_status script_create_cq(struct ori_hca *hca,
						 const struct ori_hca_cq_attr *attr,
						 struct ori_hca_cq **cq, uint32_t *cqn)
{
	(void)hca, (void)attr;
	*cq = calloc(1, sizeof(**cq));
	assert_non_null(*cq);
	*cqn = 1;
	return ORIEL_OK;
}

static inline void script_destroy_cq(struct ori_hca_cq *cq)
{
	free(cq);
}

static struct ori_hca_qp *script_made; /* the first since it was NULL */

static inline enum oriel_status script_create_qp(struct ori_hca *hca,
						 const struct ori_hca_qp_attr *attr,
						 struct ori_hca_qp **qp,
						 struct ori_hca_qp_address *address)
{
	(void)hca;
	*qp = calloc(1, sizeof(**qp));
	assert_non_null(*qp);
	(*qp)->depth = attr->depth;
	if (!attr->send_cq->qp)
		attr->send_cq->qp = *qp;
	if (!script_made)
		script_made = *qp;
	*address = (struct ori_hca_qp_address){.qpn = 7};
	return ORIEL_OK;
}

static inline enum oriel_status script_connect_qp(struct ori_hca_qp *qp,
						  const struct ori_hca_qp_address *peer)
{
	(void)qp, (void)peer;
	return ORIEL_OK;
}

static inline void script_destroy_qp(struct ori_hca_qp *qp)
{
	free(qp);
}

static const struct ori_hca_calls script_calls = {.post = script_post, .poll = script_poll};

static const struct ori_hca_ops script_ops = {
	.kind = "script",
	.calls = &script_calls,
	.caps = script_caps,
	.describe = script_describe,
	.create_cq = script_create_cq,
	.destroy_cq = script_destroy_cq,
	.create_qp = script_create_qp,
	.connect_qp = script_connect_qp,
	.fail_qp = script_flush,
	.destroy_qp = script_destroy_qp,
};

#endif
