/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a link whose requests a proxy posts: a ring, a queue pair, and the lane
 * between them. rdma_link.c opens it.
 */
#ifndef ORI_RDMA_RDMA_PROXIED_H
#define ORI_RDMA_RDMA_PROXIED_H

#include "mem/mapping.h"
#include "mem/memory.h"
#include "rdma/rdma_proxy_thread.h"

struct ori_proxied_attr {
	const struct ori_hca_ops *ops;
	struct ori_hca *hca;
	const struct ori_gpu *gpu; /* NULL: threads of the CPU post; else kernels there */
	uint32_t depth;            /* a power of two */
	uint32_t sink_lkey;
	struct ori_proxy_memory memory;
	struct ori_host_link *loopback;
	struct ori_dev_rdma_address flush_word; /* see struct ori_proxy_lane_attr */
	struct ori_proxy_thread *thread;
};

/* Zeroed storage is closed. */
struct ori_proxied {
	struct ori_proxied_attr attr;
	/*
	 * For kernels, the state at the beginning of the ring and the host's view:
	 * the GPU holds the words of posters.
	 */
	struct ori_dev_proxy_ring *ring;
	struct ori_mem *pinned; /* NULL, or the memory of @shared */
	void *shared;           /* entries, then words */
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_qp_address address;
	struct ori_proxy_lane *lane;
	bool is_stepped; /* by the thread */
};

/* The caller closes it after a failure, too. */
enum oriel_status ori_proxied_open(struct ori_proxied *p, const struct ori_proxied_attr *attr);
/* No thread posts any more; requests in flight are flushed. Twice is fine. */
void ori_proxied_close(struct ori_proxied *p);

/* Takes all completions that have arrived, for the host; false if it is closed. */
bool ori_proxied_poll(const struct ori_proxied *p);

/* Flushes requests in flight, and takes no more. Does nothing if it is closed. */
void ori_proxied_fail(const struct ori_proxied *p);

#endif
