/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a link that the host drives: rdma_host_link.c makes it, rdma_host.c drives it. */
#ifndef ORI_RDMA_RDMA_HOST_LINK_H
#define ORI_RDMA_RDMA_HOST_LINK_H

#include "rdma/rdma_host.h"

/*
 * The requests of an operation are its @pieces, then its notification, if has_notify.
 * @next is the first not posted, @left the count without a completion, @on_others those
 * in flight on other queues than the first.
 */
struct host_operation {
	uint8_t opcode;        /* of the pieces */
	uint8_t notify_opcode; /* of the notification, if has_notify */
	bool has_notify;
	uint32_t immediate;
	uint64_t pieces, next, left, on_others;
	struct ori_host_move move;
	struct ori_host_address remote; /* of the notification */
	uint64_t add;
	uint64_t *old;
};

/*
 * Operations before @posting are posted, but for the notification of @held, if that
 * waits; operations before @clear have nothing in flight on other queues.
 *   done <= posting <= begun <= done + attr.operations
 *   clear <= held < posting
 */
struct ori_host_link {
	struct ori_host_attr attr; /* without defaults */
	struct ori_hca_caps caps;
	const struct ori_hca_calls *calls; /* of attr.ops */
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qps[ORI_HOST_QUEUES];
	uint64_t load[ORI_HOST_QUEUES]; /* requests without a completion yet */
	unsigned made;                  /* of qps */
	uint64_t *words;                /* [operations]: results of atomics and flushes */
	struct ori_hca_mr *words_mr;
	uint32_t words_lkey;
	enum oriel_status failure;

	uint64_t done, posting, begun;
	uint64_t clear, held;
	bool is_held;
	uint64_t fetched;                  /* behind the last get */
	struct host_operation *operations; /* [slot_mask + 1] */
	uint64_t slot_mask;

	uint64_t arrived, taken;
	uint32_t *immediates; /* [immediates] */
};

static inline uint64_t host_slot(const struct ori_host_link *link, uint64_t op)
{
	return op & link->slot_mask;
}

static inline struct host_operation *host_operation(const struct ori_host_link *link, uint64_t op)
{
	return &link->operations[host_slot(link, op)];
}

#endif
