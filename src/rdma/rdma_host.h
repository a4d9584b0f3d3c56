/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link to one peer that the host drives by calls, over queue pairs of the NICs of all
 * rails; src/p2p calls it. Long operations are cut into pieces and spread over all queues;
 * short ones, and all notifications, go over the first. One thread at a time for each link;
 * nothing here waits, and no call after connect() allocates.
 *
 * Operations have numbers from 0 on, and are done in their order:
 *   done <= begun <= done + operations
 * Puts and gets have no order among them, but that short puts of a link with one queue
 * arrive in theirs. A notification (a signal, an immediate, an atomic, a flush) follows all
 * operations begun before it. Where requests of those are on other queues, an immediate with
 * data goes by all queues, and the peer counts its parts. Other notifications wait until
 * those requests are done: the last piece of an operation that is spread goes by the first
 * queue as well, and hides that. Puts and gets that are begun meanwhile do not wait, so that
 * they may arrive before it. Where the network keeps no order, all of them wait, and requests
 * of the first queue count as those of others.
 */
#ifndef ORI_RDMA_RDMA_HOST_H
#define ORI_RDMA_RDMA_HOST_H

#include <oriel/dev/types.h>

#include "hca/hca.h"

#define ORI_HOST_QUEUES 8u
#define ORI_HOST_QPS_VERSION 2u
#define ORI_HOST_NONE UINT32_MAX

static_assert(ORI_HOST_QUEUES >= ORIEL_DEV_RAILS, "a link has a queue on each rail");

struct ori_host_link;

/* Rails, first_rail and queues are equal at both ends. */
struct ori_host_attr {
	const struct ori_hca_ops *ops;
	struct ori_hca *hcas[ORIEL_DEV_RAILS]; /* of the rails; they outlive the link */
	unsigned rails;                        /* 0 = 1 */
	unsigned first_rail; /* of the first queue: it balances links over the rails */
	/*
	 * All rails together have so many, up to ORI_HOST_QUEUES; each has at least one.
	 * Queue i is on rail (first_rail + i) % rails.
	 */
	unsigned queues;
	uint32_t depth;      /* requests of each, 2 or more; 0 = 128 */
	uint32_t operations; /* in flight at once; 0 = 256 */
	/* of the peer that the caller has not taken yet; 0 = 64, ORI_HOST_NONE: it sends none */
	uint32_t immediates;
	uint32_t piece;  /* bytes of a request at most, else it is cut; 0 = 512 KiB */
	uint32_t stripe; /* from so many bytes on all rails get a piece; 0 = 64 KiB */
	/*
	 * The key of 8 bytes at address 0, on the first rail, which take the results of
	 * atomics and flushes: fetch_add() returns no old value, and the link registers no
	 * memory. 0: it does.
	 */
	uint32_t sink_lkey;
	bool is_reordered; /* the network keeps no order: at one end suffices */
};

/* The queues of one end, for the other end. Goes over the wire as it is. */
struct ori_host_qps {
	uint32_t version; /* ORI_HOST_QPS_VERSION */
	uint8_t queues;
	uint8_t rails;
	uint8_t first_rail;
	uint8_t is_reordered;
	struct {
		uint32_t qpn, psn;
	} of[ORI_HOST_QUEUES];
};

static_assert(sizeof(struct ori_host_qps) == 72, "goes over the wire");

/* Memory as the NICs know it: local memory by lkeys, the peer's by rkeys. */
struct ori_host_address {
	uint64_t address;
	struct oriel_dev_keys keys;
};

struct ori_host_move {
	struct ori_host_address local, remote;
	uint64_t length;
	const void *data; /* of a put; see struct ori_hca_wr */
	/*
	 * A put of the 8 bytes at @data, which are copied, on a link with one queue: behind all
	 * before it. Where the network keeps no order it waits for them, and those behind it wait
	 * until it is posted.
	 */
	bool is_flag;
};

enum oriel_status ori_host_create(const struct ori_host_attr *attr, struct ori_host_link **link,
				  struct ori_host_qps *end);

/*
 * Connects it to @end, made by the NICs that @hca_addresses describe, one for each rail.
 * Both ends have connected before either begins an operation.
 */
enum oriel_status ori_host_connect(struct ori_host_link *link,
				   const struct ori_hca_qp_address *hca_addresses,
				   const struct ori_host_qps *end);

/* Operations that are not done are given up. NULL is allowed. */
void ori_host_destroy(struct ori_host_link *link);

/*
 * All of these return ORIEL_AGAIN if as many operations are in flight as may be, the
 * failure of the link if it has failed. *@op is the number of the operation; until that
 * is done its local memory belongs to the NIC. Data that goes inside a request is copied at
 * once where a queue is as deep as the link has operations.
 */
enum oriel_status ori_host_put(struct ori_host_link *link, const struct ori_host_move *move,
			       uint64_t *op);
/* No module reads by calls yet: the unit tests call it. */
enum oriel_status ori_host_get(struct ori_host_link *link, const struct ori_host_move *move,
			       uint64_t *op);

/*
 * Then adds @add to the 8 bytes at @signal: one chain where the signal need not wait. The unit
 * tests and bench/verbs call it.
 */
enum oriel_status ori_host_put_signal(struct ori_host_link *link, const struct ori_host_move *move,
				      const struct ori_host_address *signal, uint64_t add,
				      uint64_t *op);

/* Then sends @immediate, which ori_host_take() of the peer returns. */
enum oriel_status ori_host_put_immediate(struct ori_host_link *link,
					 const struct ori_host_move *move, uint32_t immediate,
					 uint64_t *op);

/* *@old is written when it is done; NULL is allowed. */
enum oriel_status ori_host_fetch_add(struct ori_host_link *link,
				     const struct ori_host_address *remote, uint64_t add,
				     uint64_t *old, uint64_t *op);

/*
 * A READ of the 8 bytes at @remote: when it is done, earlier puts are visible to a GPU
 * whose memory @remote is, too.
 */
enum oriel_status ori_host_flush(struct ori_host_link *link, const struct ori_host_address *remote,
				 uint64_t *op);

/*
 * Takes completions and posts waiting requests. Returns the failure of the link, for
 * ever, if it failed.
 */
enum oriel_status ori_host_progress(struct ori_host_link *link);

/*
 * Is @op done? ORIEL_AGAIN: not yet. An operation that was done before the link failed
 * stays done.
 */
enum oriel_status ori_host_test(struct ori_host_link *link, uint64_t op);

/* The failure of a link. */
struct ori_host_failure {
	enum oriel_status status; /* ORIEL_OK: it has not */
	unsigned rail;
	uint32_t qpn; /* of the first queue, if it is of none */
	uint64_t err; /* ori_dev_queue_err(); its index is the number of the operation */
};

const struct ori_host_failure *ori_host_failure(const struct ori_host_link *link);

/*
 * Ends all operations in flight with @why, unless the link has failed before; returns its
 * first failure. On return the NICs touch no memory for it.
 */
enum oriel_status ori_host_fail(struct ori_host_link *link, const struct ori_host_failure *why);

/* Operations before this one are done, as far as their completions have been taken. */
uint64_t ori_host_done(const struct ori_host_link *link);

/* Operations begun and not done; 0 if the link has failed. */
uint32_t ori_host_in_flight(const struct ori_host_link *link);

/* Has all of the next immediate arrived, as far as completions have been taken? */
bool ori_host_has_immediate(const struct ori_host_link *link);
/* The next immediate of the peer, in its order; ORIEL_AGAIN if there is none yet. */
enum oriel_status ori_host_take(struct ori_host_link *link, uint32_t *immediate);

#endif
