/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References to memory that the user has not registered, for as long as a transfer takes:
 * p2p_recv.c and p2p_send.c take them. Transfers from or to the same pages share one.
 *
 * This cache (mem/cache.h) describes memory: the piece that a peer maps, and the offset in it. It
 * is needed without NICs as well, and ends where the piece ends. The cache of the rdma context
 * has the keys of NICs, for whole pages, and the communicator uses it, too; an entry here
 * refers to one there. One cache for both would map and register in the same entry, which most
 * paths need only half of.
 */
#include <stdlib.h>

#include "mem/cache.h"
#include "p2p/p2p.h"

#define MR_REFS_IDLE 64u /* registrations of GPU allocations that no transfer uses now */
#define MR_REF_TARGET 1u /* peers may write it */

/* The whole allocation, which has a number that no other one gets. */
static enum oriel_status mr_ref_find_gpu(const struct oriel_p2p_context *ctx, uint64_t address,
					 uint64_t length, struct ori_cache_range *range)
{
	struct ori_gpu_memory_info info;
	enum oriel_status status;
	uint64_t before;

	status = ctx->gpu.ops->query(&ctx->gpu, (void *)(uintptr_t)address, &info);
	if (status != ORIEL_OK)
		return status;
	before = address - (uintptr_t)info.base;
	/* Memory of another GPU, or over several, is registered for the transfer alone. */
	if (!info.length || before > info.length || length > info.length - before)
		*range = (struct ori_cache_range){address, length, 0, 0};
	else
		*range = (struct ori_cache_range){(uintptr_t)info.base, info.length, info.id, 0};
	return ORIEL_OK;
}

/* Whole pages, but not beyond a piece that may be mapped by another process. */
static enum oriel_status mr_ref_find_host(uint64_t address, uint64_t length,
					  struct ori_cache_range *range)
{
	enum oriel_status status = ori_cache_pages(address, length, range);
	struct ori_mem *mem;
	uint64_t offset;

	if (status != ORIEL_OK)
		return status;
	mem = ori_mem_try_find((void *)(uintptr_t)address, length, &offset);
	if (!mem)
		return ORIEL_OK;
	if (range->base < (uintptr_t)mem->address) {
		range->length -= (uintptr_t)mem->address - range->base;
		range->base = (uintptr_t)mem->address;
	}
	if (range->base + range->length > (uintptr_t)mem->address + mem->length)
		range->length = (uintptr_t)mem->address + mem->length - range->base;
	ori_mem_unref(mem);
	return ORIEL_OK;
}

static enum oriel_status mr_ref_find(const struct oriel_p2p_context *ctx, uint64_t address,
				     uint64_t length, bool is_rdma, enum ori_rdma_use use,
				     struct ori_cache_range *range)
{
	const void *at = (const void *)(uintptr_t)address;
	bool is_gpu;
	enum oriel_status status = ori_p2p_context_query(ctx, at, &is_gpu);

	/* These bytes are in a window or a region, which need not end at a page. */
	if (status == ORIEL_OK && is_rdma && ori_rdma_serves(ctx->rdma, at, length, use)) {
		*range = (struct ori_cache_range){address, length, 0, 0};
		return ORIEL_OK;
	}
	if (status != ORIEL_OK)
		return status;
	return is_gpu ? mr_ref_find_gpu(ctx, address, length, range)
		      : mr_ref_find_host(address, length, range);
}

/* The transfer needs the keys now, so that this is not left to the thread of the context. */
static enum oriel_status mr_ref_enter(void *context, const struct ori_cache_range *range,
				      void **registration)
{
	enum ori_rdma_use use =
		range->rights & MR_REF_TARGET ? ORI_RDMA_PASSING_TARGET : ORI_RDMA_PASSING_SOURCE;
	struct oriel_p2p_memory *m;
	enum oriel_status status =
		ori_memory_make(context, (void *)(uintptr_t)range->base, range->length, 0, use, &m);

	if (status == ORIEL_OK)
		*registration = m;
	return status;
}

/* The cache calls it when a reference is not used any more: no transfer names the keys. */
static void mr_ref_leave(void *context, void *registration)
{
	(void)context;
	oriel_p2p_unregister(registration);
}

enum oriel_status ori_mr_refs_open(struct oriel_p2p_context *ctx)
{
	const struct ori_cache_attr attr = {ctx, mr_ref_enter, mr_ref_leave, MR_REFS_IDLE};

	return ori_cache_create(&attr, &ctx->mr_refs);
}

void ori_mr_refs_close(struct oriel_p2p_context *ctx)
{
	ori_cache_destroy(ctx->mr_refs);
	ctx->mr_refs = NULL;
}

void ori_mr_refs_drop_idle(struct oriel_p2p_context *ctx)
{
	ori_cache_invalidate(ctx->mr_refs, 0, UINT64_MAX);
}

enum oriel_status ori_mr_ref_take(struct oriel_p2p_context *ctx, struct oriel_p2p_request *r,
				  bool is_rdma)
{
	bool is_target = r->kind == P2P_RECV;
	enum ori_rdma_use use = is_target ? ORI_RDMA_PASSING_TARGET : ORI_RDMA_PASSING_SOURCE;
	struct ori_cache_range range;
	struct ori_mr_ref mr_ref;
	enum oriel_status status =
		mr_ref_find(ctx, (uintptr_t)r->buffer, r->length, is_rdma, use, &range);

	range.rights = is_target ? MR_REF_TARGET : 0;
	if (status == ORIEL_OK)
		status = ori_cache_ref(ctx->mr_refs, &range, &mr_ref);
	if (status != ORIEL_OK)
		return status;
	r->memory = mr_ref.registration;
	r->mr_ref = mr_ref.entry;
	r->has_own_memory = mr_ref.is_whole ? P2P_MR_REF_WHOLE : P2P_MR_REF_PART;
	return ORIEL_OK;
}

void ori_mr_ref_count(struct oriel_p2p_request *r)
{
	if (!r->memory || r->has_own_memory != P2P_MR_REF_NONE)
		return;
	atomic_fetch_add_explicit(&r->memory->users, 1, memory_order_relaxed);
	r->has_own_memory = P2P_MR_REF_CALLER;
}

void ori_mr_ref_drop(struct oriel_p2p_context *ctx, struct oriel_p2p_request *r)
{
	const struct ori_mr_ref mr_ref = {r->memory, r->mr_ref,
					  r->has_own_memory == P2P_MR_REF_WHOLE};

	if (r->has_own_memory == P2P_MR_REF_NONE)
		return;
	if (r->has_own_memory == P2P_MR_REF_CALLER) {
		/* Acquired by oriel_p2p_unregister(): no transfer reads the registration now. */
		atomic_fetch_sub_explicit(&r->memory->users, 1, memory_order_release);
	} else {
		ori_cache_unref(ctx->mr_refs, &mr_ref);
		r->mr_ref = NULL;
	}
	r->has_own_memory = P2P_MR_REF_NONE;
}
