/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raises own words by atomics of an adapter, through a queue pair that loops back to
 * it: for counters whose memory a CPU may not reach, or which no atomic of a CPU may
 * touch beside those of the adapter. One thread at a time.
 */
#ifndef ORI_RDMA_RDMA_LOOPBACK_H
#define ORI_RDMA_RDMA_LOOPBACK_H

#include <oriel/dev/mlx5_ring.h>

#include "hca/hca.h"

struct ori_loopback;

/* What came of one raise; stays where it is until it has ended. Zeroed: not begun. */
struct ori_loopback_mark {
	bool is_begun;
	bool has_ended;
	uint64_t err; /* oriel_queue_err() of nothing in particular; 0 if well */
};

/* @sink_lkey: of 8 bytes at address 0, for results nobody reads. */
enum oriel_status ori_loopback_open(const struct ori_hca_ops *ops, struct ori_hca *hca,
				    uint32_t sink_lkey, struct ori_loopback **loopback);
/* All marks have ended. NULL is allowed. */
void ori_loopback_close(struct ori_loopback *loopback);

/*
 * Add @amount to the 8 bytes that the adapter knows as @word. ORIEL_AGAIN: there is
 * no room before a step.
 */
enum oriel_status ori_loopback_increment(struct ori_loopback *loopback,
					 struct oriel_rdma_address word, uint64_t amount,
					 struct ori_loopback_mark *mark);

/*
 * Read the 8 bytes that the adapter knows as @word, which nobody wants: what it wrote to
 * that memory before has been seen there when this ends. ORIEL_AGAIN: as above.
 */
enum oriel_status ori_loopback_read_flush(struct ori_loopback *loopback,
					  struct oriel_rdma_address word,
					  struct ori_loopback_mark *mark);

/* Look what has ended; true if something has. */
bool ori_loopback_step(struct ori_loopback *loopback);

/* Is something under way? */
bool ori_loopback_is_waiting(const struct ori_loopback *loopback);

/* Wait for what is under way, for a second at most; what is not done then is given up. */
void ori_loopback_drain(struct ori_loopback *loopback);

#endif
