/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered blocks for short requests. rdma_memory.c copies the bytes of a request to one, and
 * its result from there.
 */
#include "rdma/rdma_blocks.h"

#include <unistd.h>

enum oriel_status ori_blocks_open(struct ori_blocks *b, const struct ori_hca_ops *ops,
				  struct ori_hca *hca)
{
	size_t length = (size_t)ORI_MEMORY_BLOCKS * ORI_MEMORY_BLOCK, whole = length;
	struct ori_hca_keys keys;
	enum oriel_status status;
	unsigned i;

	status = ori_memfd_open(false, &whole, &b->file, &b->map);
	if (status != ORIEL_OK)
		return status;
	b->base = b->map.base;
	status = ops->register_memory(hca, b->base, length, (uintptr_t)b->base, ORI_HCA_LOCAL_WRITE,
				      &b->mr, &keys);
	if (status != ORIEL_OK)
		return status;
	b->lkey = keys.lkey;
	pthread_mutex_init(&b->lock, NULL);
	for (i = ORI_MEMORY_BLOCKS; i > 0; i--) {
		b->blocks[i - 1].data = b->base + (size_t)(i - 1) * ORI_MEMORY_BLOCK;
		b->blocks[i - 1].next = b->free;
		b->free = &b->blocks[i - 1];
	}
	return ORIEL_OK;
}

void ori_blocks_close(struct ori_blocks *b, const struct ori_hca_ops *ops)
{
	if (b->mr)
		ops->unregister_memory(b->mr);
	if (!b->base)
		return;
	ori_memfd_unmap(&b->map);
	close(b->file);
}

struct ori_block *ori_block_take(struct ori_blocks *b)
{
	struct ori_block *block;

	pthread_mutex_lock(&b->lock);
	block = b->free;
	if (block)
		b->free = block->next;
	pthread_mutex_unlock(&b->lock);
	return block;
}

void ori_block_give(struct ori_blocks *b, struct ori_block *block)
{
	pthread_mutex_lock(&b->lock);
	block->next = b->free;
	b->free = block;
	pthread_mutex_unlock(&b->lock);
}

/*
 * The kernel copies, which fails where memory may not be read or written, in one call and
 * in half the time of process_vm_readv(): 0.36 us for 64 bytes, not 0.82.
 */
static bool block_copy_from(const struct ori_blocks *b, const struct ori_block *block,
			    const void *from)
{
	return pwrite(b->file, from, block->length, block->data - b->base) ==
	       (ssize_t)block->length;
}

bool ori_block_copy_result(const struct ori_blocks *b, const struct ori_block *block)
{
	return !block->result || pread(b->file, block->result, block->length,
				       block->data - b->base) == (ssize_t)block->length;
}

/*
 * A result belongs to the request alone until it is done: writing the bytes back that
 * were read shows whether it may be written.
 */
bool ori_block_fill(const struct ori_blocks *b, struct ori_block *block, void *at, size_t length,
		    bool is_target)
{
	block->result = is_target ? at : NULL;
	block->length = length;
	return block_copy_from(b, block, at) && ori_block_copy_result(b, block);
}
