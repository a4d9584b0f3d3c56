/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heartbeat queue of a link: WRITEs of few bytes by calls. src/comm/heartbeat.c posts
 * beats and reports by it; rdma_link.c opens and connects it.
 */
#include "rdma/rdma_heartbeat.h"

#include <string.h>

#include "base/error.h"

#define HEARTBEAT_PIECES 4u      /* of one post; the queue takes several of those */
#define HEARTBEAT_COMPLETIONS 8u /* taken at once */

static_assert(ORI_RDMA_PIECE <= ORI_HCA_INLINE_MAX, "a piece travels inside its request");
static_assert(2 * HEARTBEAT_PIECES <= ORI_RDMA_HEARTBEAT_DEPTH,
	      "what broke a rank fits behind a beat");

enum oriel_status ori_rdma_heartbeat_open(const struct ori_hca_ops *ops, struct ori_hca *hca,
					  unsigned rail, unsigned peer,
					  struct ori_rdma_heartbeat *p)
{
	struct ori_hca_cq_attr cq = {.depth = ORI_RDMA_HEARTBEAT_DEPTH};
	struct ori_hca_qp_attr qp = {.depth = ORI_RDMA_HEARTBEAT_DEPTH};
	enum oriel_status status;
	uint32_t cqn;

	*p = (struct ori_rdma_heartbeat){.rail = rail, .peer = peer, .ops = ops};
	status = ops->create_cq(hca, &cq, &p->cq, &cqn);
	if (status != ORIEL_OK)
		return status;
	qp.send_cq = p->cq;
	return ops->create_qp(hca, &qp, &p->qp, &p->address);
}

enum oriel_status ori_rdma_heartbeat_connect(const struct ori_rdma_heartbeat *p,
					     const struct ori_hca_qp_address *peer)
{
	return p->ops->connect_qp(p->qp, peer);
}

void ori_rdma_heartbeat_close(struct ori_rdma_heartbeat *p)
{
	if (p->qp)
		p->ops->destroy_qp(p->qp);
	if (p->cq)
		p->ops->destroy_cq(p->cq);
	memset(p, 0, sizeof(*p));
}

/* The first cause stays: later failures follow from it. */
static void heartbeat_fail(struct ori_rdma_heartbeat *p, uint64_t err)
{
	if (!p->err)
		p->err = err;
}

/* Only the last request of a post is signaled: its completion covers those before it. */
static void heartbeat_handle(struct ori_rdma_heartbeat *p, const struct ori_hca_wc *wc)
{
	if (wc->status != ORIEL_OK)
		heartbeat_fail(p, oriel_queue_err(ORIEL_QUEUE_ERROR_CQE, wc->syndrome,
						  wc->vendor & 0xff, wc->id));
	else if (wc->id < p->done || wc->id >= p->posted)
		heartbeat_fail(p, oriel_queue_err(ORIEL_QUEUE_STRAY_CQE, 0, 0, wc->id));
	else
		p->done = wc->id + 1;
}

void ori_rdma_heartbeat_progress(struct ori_rdma_heartbeat *p)
{
	struct ori_hca_wc wcs[HEARTBEAT_COMPLETIONS];
	unsigned count, i;

	do {
		if (p->ops->calls->poll(p->cq, wcs, HEARTBEAT_COMPLETIONS, &count) != ORIEL_OK) {
			heartbeat_fail(p, oriel_queue_err(ORIEL_QUEUE_STRAY_CQE, 0, 0, p->done));
			return;
		}
		for (i = 0; i < count; i++)
			heartbeat_handle(p, &wcs[i]);
	} while (count == HEARTBEAT_COMPLETIONS);
}

static struct ori_hca_wr heartbeat_request(const struct ori_rdma_heartbeat *p, uint32_t rkey,
					   const struct ori_rdma_piece *piece, unsigned i)
{
	struct ori_hca_wr wr = {
		.id = p->posted + i,
		.data = piece->data,
		.remote = piece->at,
		.rkey = rkey,
		.length = piece->length,
		.opcode = ORI_HCA_WRITE,
	};

	return wr;
}

enum oriel_status ori_rdma_heartbeat_post(struct ori_rdma_heartbeat *p,
					  const struct oriel_dev_keys *rkeys,
					  const struct ori_rdma_piece *pieces, unsigned count)
{
	uint32_t rkey = rkeys->rail[p->rail];
	struct ori_hca_wr wrs[HEARTBEAT_PIECES];
	enum oriel_status status;
	unsigned i, posted;

	assert(count > 0 && count <= HEARTBEAT_PIECES);
	ori_rdma_heartbeat_progress(p);
	if (p->err)
		return oriel_queue_err_status(p->err);
	/* All or none: a row whose last word is never written would never be read. */
	if (p->posted + count > p->done + ORI_RDMA_HEARTBEAT_DEPTH)
		return ORIEL_AGAIN;
	for (i = 0; i < count; i++)
		wrs[i] = heartbeat_request(p, rkey, &pieces[i], i);
	wrs[count - 1].flags |= ORI_HCA_SIGNALED;
	status = p->ops->calls->post(p->qp, wrs, count, &posted);
	p->posted += posted;
	if (posted == count)
		return ORIEL_OK;
	/* There was room: the NIC has failed, or counts otherwise. */
	heartbeat_fail(p, oriel_queue_err(ORIEL_QUEUE_ABANDONED, 0, 0, p->posted));
	return status < 0 ? status : oriel_queue_err_status(p->err);
}

enum oriel_status ori_rdma_heartbeat_poll(struct ori_rdma_heartbeat *p)
{
	ori_rdma_heartbeat_progress(p);
	if (p->err)
		return oriel_queue_err_status(p->err);
	return p->done < p->posted ? ORIEL_AGAIN : ORIEL_OK;
}

uint32_t ori_rdma_heartbeat_what(enum oriel_status status)
{
	return status == ORIEL_ERR_PEER ? ORIEL_DEV_LOST : ORIEL_DEV_LINK;
}

void ori_rdma_heartbeat_fault(const struct ori_rdma_heartbeat *p, struct oriel_dev_fault *record)
{
	enum oriel_status status = oriel_queue_err_status(p->err);

	*record = (struct oriel_dev_fault){
		.status = status,
		.what = ori_rdma_heartbeat_what(status),
		.peer = p->peer,
		.id = p->address.qpn,
		.seen = p->err,
	};
}
