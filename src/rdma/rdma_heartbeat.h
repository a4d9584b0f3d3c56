/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heartbeat queue of a link: shallow, for the host alone, which posts by calls, as
 * every NIC allows. The watcher of src/comm calls it; one thread at a time.
 */
#ifndef ORI_RDMA_RDMA_HEARTBEAT_H
#define ORI_RDMA_RDMA_HEARTBEAT_H

#include "rdma/rdma.h"

#define ORI_RDMA_HEARTBEAT_DEPTH 16u

/* done <= posted <= done + ORI_RDMA_HEARTBEAT_DEPTH. Zeroed storage is closed. */
struct ori_rdma_heartbeat {
	unsigned rail; /* of its link, and the number of the peer */
	unsigned peer;
	const struct ori_hca_ops *ops;
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_qp_address address;
	uint64_t posted; /* requests */
	uint64_t done;
	uint64_t err; /* oriel_queue_err(); 0 while well; the first cause stays */
};

/* Makes the queue of the link to @peer on @rail. On failure the caller closes it. */
enum oriel_status ori_rdma_heartbeat_open(const struct ori_hca_ops *ops, struct ori_hca *hca,
					  unsigned rail, unsigned peer,
					  struct ori_rdma_heartbeat *heartbeat);
enum oriel_status ori_rdma_heartbeat_connect(const struct ori_rdma_heartbeat *heartbeat,
					     const struct ori_hca_qp_address *peer);
void ori_rdma_heartbeat_close(struct ori_rdma_heartbeat *heartbeat);

/* Takes the completions that have arrived; never waits. */
void ori_rdma_heartbeat_progress(struct ori_rdma_heartbeat *heartbeat);

/*
 * The operation that a health record names for a failure with @status. Writes of the host
 * itself are no operation of a user.
 */
uint32_t ori_rdma_heartbeat_what(enum oriel_status status);

#endif
