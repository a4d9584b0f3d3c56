/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context from inside: the NIC of each rail, and queues on it. rdma.c opens it,
 * rdma_links.c what links share; rdma_queue.c makes queues, and rdma_link.c joins them.
 */
#ifndef ORI_RDMA_RDMA_RAIL_H
#define ORI_RDMA_RDMA_RAIL_H

#include <stdatomic.h>

#include "rdma/rdma.h"
#include "rdma/rdma_kernel.h"
#include "rdma/rdma_posted.h"
#include "rdma/rdma_proxied.h"
#include "rdma/rdma_reach.h"

#define RDMA_PAGE 4096u

/* A word of a doorbell page, and the word there that says that the software HCA sleeps. */
struct rdma_doorbell {
	uint64_t *word;
	uint32_t *asleep;
};

/* The NIC of one rail. */
struct rdma_rail {
	const struct ori_hca_ops *ops;
	const struct ori_gpu *gpu; /* of the attributes */
	struct ori_hca *hca;
	struct ori_hca_caps caps;
	bool needs_flush; /* its writes to the GPU may be invisible when it reports them */
	/* The rest is for links. */
	void *sink; /* results of atomics that no thread reads */
	struct ori_hca_mr *sink_mr;
	uint32_t sink_lkey;
	struct ori_hca_mr *whole_mr;
	uint32_t whole_lkey;
	struct ori_host_link *loopback; /* if a proxy posts */
	struct rdma_doorbell *free;     /* doorbells that no queue uses */
	size_t free_count, free_room;
	void **pages; /* [page_count] of doorbells, pinned for the GPU */
	size_t page_count;
};

struct ori_rdma {
	_Atomic unsigned refs;
	enum ori_hca_kind kind;
	char lack[ORI_RDMA_LACK];
	char why[ORI_RDMA_WHY];
	const struct ori_gpu *gpu;
	unsigned count; /* of rails */
	struct rdma_rail rails[ORIEL_DEV_RAILS];
	struct ori_memory *memory;
	/* The rest is for links. */
	struct ori_rdma_links_attr links; /* without defaults */
	struct ori_rdma_cells cells;      /* memory of the GPU for links */
	struct oriel_dev_keys whole_lkeys;
	struct ori_reach *reach;        /* NULL unless ori_rdma_finds_own() */
	struct ori_posted *posted;      /* the same */
	struct ori_proxy_thread *proxy; /* NULL: callers post to rings */
	bool is_unordered;              /* see ori_rdma_is_unordered() */
	bool is_reordered;              /* see ori_rdma_is_reordered() */
	const char *why_reordered;      /* if it is */
	struct ori_mem *flush_mem; /* unordered memory that lanes of the proxy flush; or NULL */
	struct ori_rdma_mr *flush_mr;
	struct oriel_dev_keys flush_rkeys;
};

/* The handle of a link that CPU threads have, and what oriel_cpu_connect() finds beside it. */
struct rdma_handle {
	struct oriel_dev_link dev;
	const struct ori_rdma_links_attr *links;
};

/* One queue pair with its completion queue and rings. */
struct rdma_queue {
	/*
	 * For kernels, the state at the beginning of the queue: the GPU holds the
	 * words that change.
	 */
	struct ori_dev_mlx5_queue *dev;
	struct ori_mem *pinned; /* NULL, or the memory of @rings */
	void *rings;            /* WQEs, then CQEs, then the doorbell record */
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_qp_address address;
};

/* Is there one key for all memory that can be named? */
bool ori_rdma_is_whole(const struct ori_rdma *rdma);

/* Undoes ori_rdma_open_links(), or as much of it as was done. */
void ori_rdma_close_links(struct ori_rdma *rdma);

/* Makes a main queue and, if the NIC has WAIT, a companion that is connected to itself. */
enum oriel_status ori_rdma_queues_open(struct rdma_rail *r, const struct ori_gpu *gpu,
				       uint32_t depth, struct rdma_queue *q,
				       struct rdma_queue *companion);
/* Zeroed storage is closed. */
void ori_rdma_queue_close(struct rdma_rail *r, struct rdma_queue *q);

#endif
