/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered blocks of a rail, through which short requests of unregistered memory
 * go: rdma_memory.c takes one for a request. Any thread, unless said otherwise.
 */
#ifndef ORI_RDMA_RDMA_BLOCKS_H
#define ORI_RDMA_RDMA_BLOCKS_H

#include <pthread.h>

#include "hca/hca.h"
#include "mem/memfd.h"

#define ORI_MEMORY_BLOCK 4096u /* bytes that are short */
#define ORI_MEMORY_BLOCKS 64u  /* of each rail; beyond them memory is registered */

struct ori_block {
	struct ori_block *next; /* of the free ones */
	char *data;
	void *result; /* where the block is copied to; NULL: nowhere */
	size_t length;
};

/* All zero: not open. */
struct ori_blocks {
	char *base; /* [ORI_MEMORY_BLOCKS][ORI_MEMORY_BLOCK] */
	int file;   /* ... of which they are a mapping */
	struct ori_memfd_map map;
	struct ori_hca_mr *mr;
	uint32_t lkey;
	struct ori_block blocks[ORI_MEMORY_BLOCKS];
	pthread_mutex_t lock;
	struct ori_block *free; /* guarded by lock */
};

/* After a failure the caller closes them, too. One thread opens and closes. */
enum oriel_status ori_blocks_open(struct ori_blocks *blocks, const struct ori_hca_ops *ops,
				  struct ori_hca *hca);
void ori_blocks_close(struct ori_blocks *blocks, const struct ori_hca_ops *ops);

/* NULL: none is free. */
struct ori_block *ori_block_take(struct ori_blocks *blocks);
void ori_block_give(struct ori_blocks *blocks, struct ori_block *block);

/*
 * Copies @length bytes from @at, up to ORI_MEMORY_BLOCK, and keeps @at if it is for the result
 * of the request. False: they may not be read, or written.
 */
bool ori_block_fill(const struct ori_blocks *blocks, struct ori_block *block, void *at,
		    size_t length, bool is_target);
/* The request is done. False: its result may no longer be written where it belongs. */
bool ori_block_copy_result(const struct ori_blocks *blocks, const struct ori_block *block);

#endif
