/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a link that the host drives: rdma_host_link.c makes it, rdma_host_post.c
 * posts its requests, and rdma_host.c has the calls of its users.
 */
#ifndef ORI_RDMA_RDMA_HOST_LINK_H
#define ORI_RDMA_RDMA_HOST_LINK_H

#include "rdma/rdma_host.h"

/*
 * The requests of an operation are its @pieces, then its notification, if has_notify. If
 * the notification is_counted, they are the pieces but the last one, a WRITE_IMM without data
 * by each other queue, and the last piece as a WRITE_IMM by the first queue. @next is the
 * first not posted, @left the count without a completion, @on_others those in flight on
 * other queues than the first.
 */
struct host_operation {
	uint8_t opcode;        /* of the pieces */
	uint8_t notify_opcode; /* of the notification, if has_notify */
	bool has_notify, is_counted;
	uint32_t immediate;
	uint32_t piece; /* bytes of each piece but the last */
	uint64_t pieces, next, left, on_others;
	struct ori_host_move move;
	uint64_t remote; /* of the notification, which goes by the first queue */
	uint32_t rkey;
	uint64_t add;
	uint64_t *old;
};

struct host_queue {
	struct ori_hca_qp *qp;
	unsigned rail;
	uint32_t qpn;
	uint64_t load;  /* pieces without a completion yet */
	uint64_t parts; /* of counted immediates, that have arrived; not of the first queue */
};

/*
 * By the first queue. A WRITE_IMM with data is_counted: it has arrived when each other
 * queue has its part. All queues carry counted immediates in one order, so that counts
 * suffice.
 */
struct host_immediate {
	uint32_t value;
	bool is_counted;
};

/*
 * Operations before @posting are posted, but for the notification of @held, if that
 * waits; operations before @clear have nothing in flight on other queues.
 *   done <= posting <= begun <= done + attr.operations
 *   clear <= held < posting
 */
struct ori_host_link {
	struct ori_host_attr attr;         /* without defaults */
	struct ori_hca_caps caps;          /* of the first rail; length_max of all */
	const struct ori_hca_calls *calls; /* of attr.ops */
	struct ori_hca_cq *cqs[ORIEL_DEV_RAILS];
	struct host_queue queues[ORI_HOST_QUEUES];
	unsigned made;   /* of queues */
	uint64_t *words; /* [operations]: results of atomics and flushes; NULL: a sink takes them */
	struct ori_hca_mr *words_mr;
	uint32_t words_lkey;
	struct ori_host_failure failure;

	uint64_t done, posting, begun;
	uint64_t clear, held;
	bool is_held;
	uint64_t fetched;                  /* behind the last get */
	struct host_operation *operations; /* [slot_mask + 1] */
	uint64_t slot_mask;

	uint64_t arrived, taken, counted;  /* immediates; counted ones that were taken */
	struct host_immediate *immediates; /* [immediates] */
};

static inline uint64_t host_slot(const struct ori_host_link *link, uint64_t op)
{
	return op & link->slot_mask;
}

static inline struct host_operation *host_operation(const struct ori_host_link *link, uint64_t op)
{
	return &link->operations[host_slot(link, op)];
}

/* The id of a request: its operation, the queue that it is on, and whether it is a piece. */
static inline uint64_t host_id(uint64_t op, unsigned queue, bool is_piece)
{
	return (op * ORI_HOST_QUEUES + queue) << 1 | is_piece;
}

static inline uint64_t host_id_operation(uint64_t id)
{
	return id / (2 * ORI_HOST_QUEUES);
}

static inline unsigned host_id_queue(uint64_t id)
{
	return (unsigned)(id >> 1) % ORI_HOST_QUEUES;
}

/*
 * Posts what can be posted, in the order of the operations: one that waits for room holds
 * up those behind it.
 */
enum oriel_status ori_host_post(struct ori_host_link *link);

/* The same after @o, which is the last operation, was begun. */
enum oriel_status ori_host_post_last(struct ori_host_link *link, struct host_operation *o,
				     uint64_t op);

#endif
