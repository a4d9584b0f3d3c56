/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heartbeat queue of a link: WRITEs of few bytes by calls. src/comm/heartbeat.c posts
 * beats and reports by it; rdma_link.c opens and connects it.
 */
#include "rdma/rdma_heartbeat.h"

#include <string.h>

#define HEARTBEAT_PIECES 4u /* of one post; the queue takes several of those */

static_assert(ORI_RDMA_PIECE <= ORI_HCA_INLINE_MAX, "a piece travels inside its request");
static_assert(2 * HEARTBEAT_PIECES <= ORI_RDMA_HEARTBEAT_DEPTH,
	      "what broke a rank fits behind a beat");

enum oriel_status ori_rdma_heartbeat_open(const struct ori_hca_ops *ops, struct ori_hca *hca,
					  uint32_t sink_lkey, const struct oriel_dev_link *link,
					  struct ori_rdma_heartbeat *p)
{
	struct ori_host_attr attr = {
		.ops = ops,
		.hcas = {hca},
		.depth = ORI_RDMA_HEARTBEAT_DEPTH,
		.operations = ORI_RDMA_HEARTBEAT_DEPTH,
		.immediates = ORI_HOST_NONE,
		.sink_lkey = sink_lkey,
		.is_reordered = link->unordered & ORIEL_LINK_UNORDERED_NETWORK,
	};

	*p = (struct ori_rdma_heartbeat){.rail = link->rail, .peer = link->peer};
	return ori_host_create(&attr, &p->link, &p->end);
}

enum oriel_status ori_rdma_heartbeat_connect(const struct ori_rdma_heartbeat *p,
					     const struct ori_hca_qp_address *peer)
{
	struct ori_host_qps end = p->end;

	end.of[0].qpn = peer->qpn;
	end.of[0].psn = peer->psn;
	return ori_host_connect(p->link, peer, &end);
}

void ori_rdma_heartbeat_close(struct ori_rdma_heartbeat *p)
{
	ori_host_destroy(p->link);
	memset(p, 0, sizeof(*p));
}

enum oriel_status ori_rdma_heartbeat_post(struct ori_rdma_heartbeat *p,
					  const struct oriel_dev_keys *rkeys,
					  const struct ori_rdma_piece *pieces, unsigned count)
{
	enum oriel_status status = ori_host_progress(p->link);
	uint64_t op;

	assert(count > 0 && count <= HEARTBEAT_PIECES);
	/* All or none: a row whose last word is never written would never be read. */
	if (status == ORIEL_OK && ori_host_in_flight(p->link) + count > ORI_RDMA_HEARTBEAT_DEPTH)
		status = ORIEL_AGAIN;
	/* Behind a flag that waits, pieces would be posted after the caller reused its bytes. */
	if (status == ORIEL_OK && p->end.is_reordered && ori_host_in_flight(p->link))
		status = ORIEL_AGAIN;
	for (unsigned i = 0; i < count && status == ORIEL_OK; i++) {
		struct ori_host_move put = {
			.remote = {pieces[i].at, {{rkeys->rail[p->rail]}}},
			.length = pieces[i].length,
			.data = pieces[i].data,
			/* The last of several pieces says that all of them are there. */
			.is_flag = count > 1 && i + 1 == count,
		};

		status = ori_host_put(p->link, &put, &op);
	}
	return status;
}

enum oriel_status ori_rdma_heartbeat_poll(struct ori_rdma_heartbeat *p)
{
	enum oriel_status status = ori_host_progress(p->link);

	return status == ORIEL_OK && ori_host_in_flight(p->link) ? ORIEL_AGAIN : status;
}

uint32_t ori_rdma_heartbeat_what(enum oriel_status status)
{
	return status == ORIEL_ERR_PEER ? ORIEL_DEV_LOST : ORIEL_DEV_LINK;
}

void ori_rdma_heartbeat_fault(const struct ori_rdma_heartbeat *p, struct oriel_dev_fault *record)
{
	const struct ori_host_failure *failure = ori_host_failure(p->link);

	*record = (struct oriel_dev_fault){
		.status = ori_dev_queue_err_status(failure->err),
		.what = ori_rdma_heartbeat_what(ori_dev_queue_err_status(failure->err)),
		.peer = p->peer,
		.id = p->end.of[0].qpn,
		.seen = failure->err,
	};
}
