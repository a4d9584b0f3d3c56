/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of gpu_window: each rank calls the same one. */
#ifndef FAKECUDA_WINDOW_TESTS_H
#define FAKECUDA_WINDOW_TESTS_H

#include "rank.h"

static inline bool is_remote(const struct rank *r, unsigned peer)
{
	return ori_dev_is_rdma(&r->dev, peer);
}

/* Is @peer mapped over a bus that passes no atomics? */
static inline bool is_serial(const struct rank *r, unsigned peer)
{
	return oriel_dev_is_serial(&r->dev, peer);
}

/* The caller has opened a window of LENGTH bytes; test_buffers() destroys it. The last needs none.
 */
void test_operations(struct rank *r);
void test_mistakes(struct rank *r);
void test_other_gpu(struct rank *r);
void test_failures(struct rank *r);
void test_streams(struct rank *r);
void test_region(struct rank *r);
void test_records(struct rank *r);
void test_buffers(struct rank *r);
void test_published(struct rank *r);

/* These open communicators of their own. */
void test_blame(struct rank *r);
void test_stream_timeout(struct rank *r);
void test_stream_barrier_limit(struct rank *r);
void test_stream_peer_limit(struct rank *r);
void test_cpu_rank(struct rank *r);
void test_cpu_comm(struct rank *r);
void test_no_context(struct rank *r);
/* Some GPUs have PCIe between them. */
void test_pcie(struct rank *r);
/* The ranks are on virtual nodes. */
void test_remote(struct rank *r);

#endif
