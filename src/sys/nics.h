/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libibverbs and libmlx5 say of the RDMA adapters, and what they let this
 * process do with them. What is not known is -1. Any thread.
 */
#ifndef ORI_SYS_NICS_H
#define ORI_SYS_NICS_H

#include <stdbool.h>

#define ORI_NICS_MOST 32

struct ori_nics_item {
	char name[64];
	int mtu;      /* of the first port, in bytes */
	int opens;    /* 0, 1 from here on */
	int pins;     /* registers a page */
	int atomics;  /* of 64 bits */
	int dmabuf;   /* registers dma-bufs */
	int devx;     /* takes commands of its maker */
	int doorbell; /* a GPU may write to its registers */
	int umem;     /* takes queues in memory of a GPU */
};

struct ori_nics {
	bool has_verbs, has_mlx5;
	unsigned count;
	struct ori_nics_item item[ORI_NICS_MOST];
};

void ori_nics_query(struct ori_nics *nics);

#endif
