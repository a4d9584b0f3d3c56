/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of the RDMA NICs by libibverbs and libmlx5, and the operations that they allow this
 * process; for `oriel doctor`. An unknown value is -1. Any thread.
 */
#ifndef ORI_SYS_NICS_H
#define ORI_SYS_NICS_H

#include <stdbool.h>

#define ORI_NICS_MOST 32

struct ori_nics_item {
	char name[64];
	int mtu;      /* of the first port, in bytes */
	int opens;    /* 0 or 1, as all that follow */
	int pins;     /* registers a page of memory */
	int atomics;  /* has 64-bit atomics */
	int dmabuf;   /* registers dma-bufs */
	int devx;     /* executes DEVX commands */
	int doorbell; /* a GPU can map its doorbell page */
	int umem;     /* takes queues in GPU memory */
};

struct ori_nics {
	bool has_verbs, has_mlx5;
	unsigned count;
	struct ori_nics_item item[ORI_NICS_MOST];
};

void ori_nics_query(struct ori_nics *nics);

#endif
