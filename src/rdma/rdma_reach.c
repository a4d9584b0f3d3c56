/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of GPU allocations that kernels may name outside windows. ori_rdma_reach()
 * fills it; kernels search it in oriel/dev/detail/link.h.
 */
#include "rdma/rdma_reach.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "mem/memory.h"

/* The host's part of an entry of the table. */
struct reach_entry {
	struct ori_rdma_mr *mr; /* NULL: a free entry */
	uint64_t id;            /* of the allocation */
};

struct ori_reach {
	struct ori_memory *memory;
	const struct ori_gpu *gpu;
	struct ori_mem *mem; /* of the table */
	pthread_mutex_t lock;
	struct ori_dev_link_registered copy; /* guarded by lock, as is entries */
	struct reach_entry entries[ORIEL_LINK_REACH];
};

enum oriel_status ori_reach_open(struct ori_memory *memory, const struct ori_gpu *gpu,
				 struct ori_reach **out)
{
	struct ori_reach *r = calloc(1, sizeof(*r));
	enum oriel_status status;

	if (!r)
		return ori_fail_nomem(sizeof(*r), "the GPU allocations that kernels name");
	r->memory = memory;
	r->gpu = gpu;
	status = ori_mem_alloc_gpu(gpu, sizeof(r->copy), &r->mem);
	if (status == ORIEL_OK)
		status = gpu->ops->zero(gpu, r->mem->address, sizeof(r->copy));
	if (status != ORIEL_OK) {
		ori_mem_unref(r->mem);
		free(r);
		return status;
	}
	pthread_mutex_init(&r->lock, NULL);
	*out = r;
	return ORIEL_OK;
}

void ori_reach_close(struct ori_reach *r)
{
	unsigned i;

	if (!r)
		return;
	for (i = 0; i < ORIEL_LINK_REACH; i++)
		if (r->entries[i].mr)
			ori_memory_unregister(r->memory, r->entries[i].mr);
	ori_mem_unref(r->mem);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

const struct ori_dev_link_registered *ori_reach_table(const struct ori_reach *r)
{
	return (const struct ori_dev_link_registered *)(const void *)r->mem->address;
}

/*
 * Writes entry @i as kernels see it: a kernel that searches meanwhile finds length 0
 * until the other words are there.
 */
static enum oriel_status reach_publish(const struct ori_reach *r, unsigned i)
{
	struct ori_dev_link_registered *table =
		(struct ori_dev_link_registered *)(void *)r->mem->address;
	const struct oriel_dev_buffer *now = &r->copy.of[i];
	struct oriel_dev_buffer empty = *now;
	enum oriel_status status;

	empty.length = 0;
	status = r->gpu->ops->zero(r->gpu, &table->of[i].length, sizeof(empty.length));
	if (status == ORIEL_OK)
		status = r->gpu->ops->copy(r->gpu, &table->of[i], &empty, sizeof(empty));
	if (status == ORIEL_OK)
		status = r->gpu->ops->copy(r->gpu, &table->of[i].length, &now->length,
					   sizeof(now->length));
	if (status == ORIEL_OK)
		status = r->gpu->ops->copy(r->gpu, &table->count, &r->copy.count,
					   sizeof(table->count));
	return status;
}

static enum oriel_status reach_drop(struct ori_reach *r, unsigned i)
{
	r->copy.of[i].length = 0;
	ori_memory_unregister(r->memory, r->entries[i].mr);
	r->entries[i].mr = NULL;
	return reach_publish(r, i);
}

/* Is the allocation that was registered there still the same one? */
static bool reach_is_alive(const struct ori_reach *r, unsigned i)
{
	struct ori_gpu_memory_info info;

	return r->gpu->ops->query(r->gpu, r->copy.of[i].base, &info) == ORIEL_OK && info.id &&
	       info.id == r->entries[i].id;
}

/* The first entry that is free, or whose allocation was freed. */
static enum oriel_status reach_take(struct ori_reach *r, unsigned *taken)
{
	unsigned i;

	for (i = 0; i < ORIEL_LINK_REACH; i++)
		if (!r->entries[i].mr) {
			*taken = i;
			return ORIEL_OK;
		}
	for (i = 0; i < ORIEL_LINK_REACH; i++)
		if (!reach_is_alive(r, i)) {
			*taken = i;
			return reach_drop(r, i);
		}
	return ori_fail(ORIEL_ERR_NOMEM,
			"%u allocations of a GPU outside windows are registered for kernels: "
			"there is no room for more",
			ORIEL_LINK_REACH);
}

static enum oriel_status reach_enter(struct ori_reach *r, const struct ori_gpu_memory_info *info)
{
	struct oriel_dev_buffer *entry;
	struct oriel_dev_keys unused;
	enum oriel_status status;
	unsigned i = 0;

	status = reach_take(r, &i);
	if (status == ORIEL_OK)
		status = ori_memory_register(r->memory, info->base, info->length, ORI_RDMA_OWN,
					     &r->entries[i].mr, &unused);
	if (status != ORIEL_OK)
		return status;
	entry = &r->copy.of[i];
	r->entries[i].id = info->id;
	entry->base = info->base;
	entry->length = info->length;
	ori_rdma_mr_local(r->entries[i].mr, &entry->address, &entry->rkeys);
	if (r->copy.count <= i)
		r->copy.count = i + 1;
	return reach_publish(r, i);
}

enum oriel_status ori_reach_add(struct ori_reach *r, const void *address)
{
	struct ori_gpu_memory_info info;
	enum oriel_status status;
	bool is_known = false;
	unsigned i;

	status = r->gpu->ops->query(r->gpu, address, &info);
	if (status != ORIEL_OK || info.kind == ORI_GPU_PAGEABLE || info.kind == ORI_GPU_PINNED)
		return status;
	if (!info.length)
		return ori_fail(ORIEL_ERR_ACCESS, "%p is not memory of this GPU", address);
	pthread_mutex_lock(&r->lock);
	for (i = 0; i < r->copy.count && status == ORIEL_OK && !is_known; i++) {
		if (!r->entries[i].mr || r->copy.of[i].base != info.base)
			continue;
		is_known = info.id && r->entries[i].id == info.id;
		/* The allocation was freed, and another allocation has its address. */
		if (!is_known)
			status = reach_drop(r, i);
	}
	if (status == ORIEL_OK && !is_known)
		status = reach_enter(r, &info);
	pthread_mutex_unlock(&r->lock);
	return status;
}
