/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loopback link of a NIC: a host link (rdma_host.h) that is connected to itself. Its
 * atomics increment counters that a CPU may not reach, or that no atomic of a CPU may touch
 * beside those of the NIC; its flushes make DMA writes visible. Lanes of the proxy call it;
 * one thread at a time.
 */
#ifndef ORI_RDMA_RDMA_LOOPBACK_H
#define ORI_RDMA_RDMA_LOOPBACK_H

#include "rdma/rdma_host.h"

/* @sink_lkey: of 8 bytes at address 0, for results that no thread reads. */
enum oriel_status ori_loopback_open(const struct ori_hca_ops *ops, struct ori_hca *hca,
				    uint32_t sink_lkey, struct ori_host_link **loopback);

/* Takes completions; true if operations ended by that. */
bool ori_loopback_step(struct ori_host_link *loopback);

/* Waits for operations in flight, for a second at most, and then gives up the rest. */
void ori_loopback_drain(struct ori_host_link *loopback);

#endif
