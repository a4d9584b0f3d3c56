/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Increments words of this process by atomics of its own NIC, through a queue pair that
 * loops back to it: for counters that a CPU may not reach, or that no atomic of a CPU may
 * touch beside those of the NIC. Lanes of the proxy call it; one thread at a time.
 */
#ifndef ORI_RDMA_RDMA_LOOPBACK_H
#define ORI_RDMA_RDMA_LOOPBACK_H

#include <oriel/dev/mlx5_ring.h>

#include "hca/hca.h"

struct ori_loopback;

/* The state of one request; stays where it is until has_ended. Zeroed: not begun. */
struct ori_loopback_mark {
	bool is_begun;
	bool has_ended;
	uint64_t err; /* oriel_queue_err() with index 0; 0 if well */
};

/* @sink_lkey: of 8 bytes at address 0, for results that no thread reads. */
enum oriel_status ori_loopback_open(const struct ori_hca_ops *ops, struct ori_hca *hca,
				    uint32_t sink_lkey, struct ori_loopback **loopback);
/* All marks have ended. NULL is allowed. */
void ori_loopback_close(struct ori_loopback *loopback);

/*
 * Adds @amount to the 8 bytes that the NIC knows as @word. ORIEL_AGAIN: there is no room
 * before a step.
 */
enum oriel_status ori_loopback_increment(struct ori_loopback *loopback,
					 struct oriel_rdma_address word, uint64_t amount,
					 struct ori_loopback_mark *mark);

/*
 * A read flush: a READ into the sink of the 8 bytes that the NIC knows as @word. When it
 * ends, earlier DMA writes to that memory are visible. ORIEL_AGAIN: as above.
 */
enum oriel_status ori_loopback_read_flush(struct ori_loopback *loopback,
					  struct oriel_rdma_address word,
					  struct ori_loopback_mark *mark);

/* Takes completions; true if there were some. */
bool ori_loopback_step(struct ori_loopback *loopback);

/* Is a request in flight? */
bool ori_loopback_is_waiting(const struct ori_loopback *loopback);

/* Waits for requests in flight, for a second at most, and then gives up the rest. */
void ori_loopback_drain(struct ori_loopback *loopback);

#endif
