/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's half of oriel/dev/detail/proxy.h. A lane takes the entries of one ring, posts them
 * to one queue pair without a ring, and publishes which ones are done. Nothing here waits
 * for a peer: a step does what can be done now. All lanes of one loopback link are
 * called by one thread at a time.
 */
#ifndef ORI_RDMA_RDMA_PROXY_H
#define ORI_RDMA_RDMA_PROXY_H

#include <oriel/dev/detail/proxy.h>

#include "hca/hca.h"
#include "rdma/rdma_loopback.h"

/* Memory of this process as a NIC knows it, for one request. */
struct ori_proxy_sge {
	uint64_t address;
	uint32_t key;
	void *ref;        /* NULL, or what release() gets */
	const void *data; /* NULL, or where a CPU finds the same bytes */
};

/* Finds the key of memory that has none yet: local memory with ORIEL_PROXY_LOOKUP. */
struct ori_proxy_memory {
	void *context;
	/*
	 * Finds the sge of [@address, @address + @length), to which the NIC writes if
	 * @is_target. ORIEL_AGAIN: not now. Any other failure is that of a request whose
	 * memory the NIC does not reach.
	 */
	enum oriel_status (*find)(void *context, uint64_t address, uint64_t length, bool is_target,
				  struct ori_proxy_sge *sge);
	/* The NIC is done with it, well or not; once for each sge that has a ref. */
	void (*release)(void *context, const struct ori_proxy_sge *sge, bool is_done);
};

struct ori_proxy_lane;

/* All of it stays until the lane is closed; the opener of the QP and the CQ closes them. */
struct ori_proxy_lane_attr {
	const struct ori_hca_ops *ops;
	struct ori_hca_qp *qp; /* the lane alone posts to it */
	struct ori_hca_cq *cq; /* of it alone, with room for all its requests */
	uint32_t depth;        /* of both */
	uint32_t length_max;   /* of a request */
	uint32_t sink_lkey;    /* of 8 bytes at address 0, for results that no thread reads */
	struct ori_dev_proxy_entry *entries;
	struct ori_dev_proxy_words *words;
	uint32_t log_depth; /* of the ring */
	struct ori_proxy_memory memory;
	struct ori_host_link *loopback; /* for counters, and for @flush_word */
	/*
	 * 8 bytes of the memory of this process if it is unordered
	 * (ORIEL_LINK_UNORDERED_LOCAL); key 0: it is not. A result is done when they have
	 * been read after it.
	 */
	struct ori_dev_rdma_address flush_word;
};

/* Begins with entry 0, of a ring that is zero. */
enum oriel_status ori_proxy_lane_open(const struct ori_proxy_lane_attr *attr,
				      struct ori_proxy_lane **lane);
/* The lane has failed, or every entry that a poster published is done. NULL is allowed. */
void ori_proxy_lane_close(struct ori_proxy_lane *lane);

/* Does what can be done now; true if something was. */
bool ori_proxy_step(struct ori_proxy_lane *lane);

/* Entries that were taken and are not done, whose completion is to be expected. */
uint64_t ori_proxy_in_flight(const struct ori_proxy_lane *lane);

/* Has a poster published an entry that was not taken? */
bool ori_proxy_has_requests(const struct ori_proxy_lane *lane);

/*
 * Gives up the entries that are not done, as flushed. On return the NIC touches no memory
 * for them, and the lane takes no more. Twice is fine.
 */
void ori_proxy_fail(struct ori_proxy_lane *lane);

#endif
