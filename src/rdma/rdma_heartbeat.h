/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heartbeat queue of a link: a shallow link that the host drives (rdma_host.h). The
 * watcher of src/comm posts beats and reports by it; rdma_link.c opens and connects it.
 */
#ifndef ORI_RDMA_RDMA_HEARTBEAT_H
#define ORI_RDMA_RDMA_HEARTBEAT_H

#include "rdma/rdma.h"
#include "rdma/rdma_host.h"

#define ORI_RDMA_HEARTBEAT_DEPTH 16u

/* Zeroed storage is closed. */
struct ori_rdma_heartbeat {
	unsigned rail; /* of its link, and the number of the peer */
	unsigned peer;
	struct ori_host_link *link; /* of one rail */
	struct ori_host_qps end;
};

/*
 * Makes the queue of @link; @sink_lkey as in rdma_host.h. On failure the caller closes it.
 */
enum oriel_status ori_rdma_heartbeat_open(const struct ori_hca_ops *ops, struct ori_hca *hca,
					  uint32_t sink_lkey, const struct oriel_dev_link *link,
					  struct ori_rdma_heartbeat *heartbeat);
/* @peer: the address of its queue. */
enum oriel_status ori_rdma_heartbeat_connect(const struct ori_rdma_heartbeat *heartbeat,
					     const struct ori_hca_qp_address *peer);
void ori_rdma_heartbeat_close(struct ori_rdma_heartbeat *heartbeat);

/*
 * The operation that a health record names for a failure with @status. Writes of the host
 * itself are no operation of a user.
 */
uint32_t ori_rdma_heartbeat_what(enum oriel_status status);

#endif
