/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link to one peer that the host drives by calls, over some queue pairs of one
 * adapter. What is long is cut, and spread over all of them; what is short, and
 * all that tells, goes over the first. One thread at a time for each link; nothing
 * here waits, and no call after connect() allocates.
 *
 * Operations have numbers from 0 on, and are done in their order:
 *   done <= begun <= done + operations
 * Puts and gets have no order among them. What tells (a signal, an immediate, an
 * atomic, a flush) comes after all that was begun before it. Where some of that is on
 * other queues, it waits until they are done with it: the last piece of what is spread
 * goes by the first queue as well, and hides that. Puts and gets that are begun
 * meanwhile do not wait, so that they may come before it.
 */
#ifndef ORI_RDMA_RDMA_HOST_H
#define ORI_RDMA_RDMA_HOST_H

#include "hca/hca.h"

#define ORI_HOST_QUEUES 8u
#define ORI_HOST_VERSION 1u

struct ori_host_link;

struct ori_host_attr {
	const struct ori_hca_ops *ops;
	struct ori_hca *hca; /* stays until the link is gone */
	unsigned queues;     /* up to ORI_HOST_QUEUES; equal at both ends; 0 = 1 */
	uint32_t depth;      /* requests of each, 2 or more; 0 = 128 */
	uint32_t operations; /* under way at once; 0 = 256 */
	uint32_t immediates; /* of the peer that nobody has taken yet; 0 = 64 */
	uint32_t piece;      /* bytes of a request at most, else it is cut; 0 = 512 KiB */
};

/* Of one end for the other one. Goes over the wire as it is. */
struct ori_host_end {
	uint32_t version; /* ORI_HOST_VERSION */
	uint32_t queues;
	struct {
		uint32_t qpn, psn;
	} of[ORI_HOST_QUEUES];
};

static_assert(sizeof(struct ori_host_end) == 72, "goes over the wire");

/* Memory as an adapter knows it: by an lkey here, by an rkey of the peer there. */
struct ori_host_place {
	uint64_t address;
	uint32_t key;
};

struct ori_host_move {
	struct ori_host_place here, there;
	uint64_t length;
	const void *data; /* of a put; see struct ori_hca_wr */
};

enum oriel_status ori_host_create(const struct ori_host_attr *attr, struct ori_host_link **link,
				  struct ori_host_end *end);

/*
 * Join it to @end, made by the adapter that @hca_address describes. Both ends have done
 * so before anything is begun.
 */
enum oriel_status ori_host_connect(struct ori_host_link *link,
				   const struct ori_hca_qp_address *hca_address,
				   const struct ori_host_end *end);

/* What is not done is given up. NULL is allowed. */
void ori_host_destroy(struct ori_host_link *link);

/*
 * All of these: ORIEL_AGAIN if as many are under way as may be, the failure of
 * the link if it has failed. *@op is the number of the operation; until that is
 * done its memory here belongs to the adapter.
 */
enum oriel_status ori_host_put(struct ori_host_link *link, const struct ori_host_move *move,
			       uint64_t *op);
enum oriel_status ori_host_get(struct ori_host_link *link, const struct ori_host_move *move,
			       uint64_t *op);

/* And then add @add to the 8 bytes at @signal: one chain where that need not wait. */
enum oriel_status ori_host_put_signal(struct ori_host_link *link, const struct ori_host_move *move,
				      const struct ori_host_place *signal, uint64_t add,
				      uint64_t *op);

/* And then tell the peer @immediate, which ori_host_take() gives it. */
enum oriel_status ori_host_put_immediate(struct ori_host_link *link,
					 const struct ori_host_move *move, uint32_t immediate,
					 uint64_t *op);

/* *@old is written when it is done; NULL is allowed. */
enum oriel_status ori_host_fetch_add(struct ori_host_link *link, const struct ori_host_place *there,
				     uint64_t add, uint64_t *old, uint64_t *op);

/*
 * A READ of the 8 bytes at @there: when it is done, what was put before is visible
 * to a GPU that holds @there, too.
 */
enum oriel_status ori_host_flush(struct ori_host_link *link, const struct ori_host_place *there,
				 uint64_t *op);

/* Go on with whatever is under way. The failure of the link, for ever, if it failed. */
enum oriel_status ori_host_progress(struct ori_host_link *link);

/* Is @op done? ORIEL_AGAIN: not yet. What was done before the link failed stays done. */
enum oriel_status ori_host_test(struct ori_host_link *link, uint64_t op);

/* The next immediate of the peer, in its order; ORIEL_AGAIN if there is none yet. */
enum oriel_status ori_host_take(struct ori_host_link *link, uint32_t *immediate);

#endif
