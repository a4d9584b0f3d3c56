/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's half of oriel/dev/proxy.h. A lane takes what is asked for in one ring,
 * posts it to one queue pair without a ring, and tells what is done. Nothing here
 * waits for a peer: a step does what can be done now. One thread at a time for all
 * lanes of one tally, whatever it calls.
 */
#ifndef ORI_RDMA_RDMA_PROXY_H
#define ORI_RDMA_RDMA_PROXY_H

#include <oriel/dev/proxy.h>

#include "hca/hca.h"
#include "rdma/rdma_loopback.h"

/* Memory of this process as an adapter knows it, for one request. */
struct ori_proxy_sge {
	uint64_t address;
	uint32_t key;
	void *ref;        /* NULL, or what release() is told of */
	const void *data; /* NULL, or where a CPU finds the same bytes */
};

/* Where memory is found that has no key yet: local places with ORIEL_PROXY_LOOKUP. */
struct ori_proxy_memory {
	void *context;
	/*
	 * [@address, @address + @length), to which the adapter writes if @is_target.
	 * ORIEL_AGAIN: not now. Any other failure is that of a request whose memory the
	 * adapter does not reach.
	 */
	enum oriel_status (*find)(void *context, uint64_t address, uint64_t length, bool is_target,
				  struct ori_proxy_sge *sge);
	/* The adapter is done with it, well or not; once for each place that has a hold. */
	void (*release)(void *context, const struct ori_proxy_sge *sge, bool is_done);
};

struct ori_proxy_lane;

/* All of it stays until the lane is closed; who opened the QP and the CQ closes them. */
struct ori_proxy_lane_attr {
	const struct ori_hca_ops *ops;
	struct ori_hca_qp *qp; /* that nobody else posts to */
	struct ori_hca_cq *cq; /* of it alone, with room for all its requests */
	uint32_t depth;        /* of both */
	uint32_t length_max;   /* of a request */
	uint32_t sink_lkey;    /* of 8 bytes at address 0, for results nobody reads */
	struct oriel_proxy_entry *entries;
	struct oriel_proxy_words *words;
	uint32_t log_depth; /* of the ring */
	struct ori_proxy_memory memory;
	struct ori_loopback *loopback; /* for counters, and for @flush_word */
	/*
	 * If memory here is late (ORIEL_LINK_UNORDERED_LOCAL): 8 bytes of it. What is brought is
	 * done when they have been read. Key 0: it is not.
	 */
	struct oriel_rdma_address flush_word;
};

/* Begins with entry 0, of a ring that is zero. */
enum oriel_status ori_proxy_lane_open(const struct ori_proxy_lane_attr *attr,
				      struct ori_proxy_lane **lane);
/* It has failed, or nobody has asked for anything that is not done. NULL is allowed. */
void ori_proxy_lane_close(struct ori_proxy_lane *lane);

/* Do what can be done now; true if something was. */
bool ori_proxy_step(struct ori_proxy_lane *lane);

/* Entries that have been taken and are not done, of which an end is to be expected. */
uint64_t ori_proxy_in_flight(const struct ori_proxy_lane *lane);

/* Has somebody asked for what has not been taken? */
bool ori_proxy_has_requests(const struct ori_proxy_lane *lane);

/*
 * Give up what is not done, as flushed. On return the adapter touches no memory for
 * it, and nothing is taken any more. Twice is fine.
 */
void ori_proxy_fail(struct ori_proxy_lane *lane);

#endif
