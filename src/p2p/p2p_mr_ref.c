/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that nobody has registered, for as long as a transfer takes. Transfers from or
 * to the same pages share one registration (mem/cache.h).
 */
#include <stdlib.h>

#include "mem/cache.h"
#include "p2p/p2p.h"

#define HOLD_IDLE 64u /* registrations of GPU allocations that no transfer uses now */

/* All of the allocation, which has a number that no other one gets. */
static enum oriel_status hold_find_gpu(const struct oriel_p2p_context *hub, uint64_t address,
				       uint64_t length, struct ori_cache_range *range)
{
	struct ori_gpu_memory_info place;
	enum oriel_status st;
	uint64_t before;

	st = hub->gpu.ops->query(&hub->gpu, (void *)(uintptr_t)address, &place);
	if (st != ORIEL_OK)
		return st;
	before = address - (uintptr_t)place.base;
	/* Of another GPU, or over several: then as long as the transfer. */
	if (!place.length || before > place.length || length > place.length - before)
		*range = (struct ori_cache_range){address, length, 0};
	else
		*range = (struct ori_cache_range){(uintptr_t)place.base, place.length, place.id};
	return ORIEL_OK;
}

/* Pages, without those behind a piece that another process may be given. */
static enum oriel_status hold_find_host(uint64_t address, uint64_t length,
					struct ori_cache_range *range)
{
	enum oriel_status st = ori_cache_pages(address, length, range);
	struct ori_mem *mem;
	uint64_t offset;

	if (st != ORIEL_OK)
		return st;
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

static enum oriel_status hold_find(void *context, uint64_t address, uint64_t length,
				   struct ori_cache_range *range)
{
	const struct oriel_p2p_context *hub = context;
	bool is_gpu;
	enum oriel_status st = ori_p2p_context_query(hub, (void *)(uintptr_t)address, &is_gpu);

	if (st != ORIEL_OK)
		return st;
	return is_gpu ? hold_find_gpu(hub, address, length, range)
		      : hold_find_host(address, length, range);
}

static enum oriel_status hold_enter(void *context, const struct ori_cache_range *range,
				    void **registration)
{
	struct oriel_p2p_memory *m;
	enum oriel_status st =
		oriel_p2p_register(context, (void *)(uintptr_t)range->base, range->length, 0, &m);

	if (st != ORIEL_OK)
		return st;
	m->is_hold = true;
	*registration = m;
	return ORIEL_OK;
}

static void hold_leave(void *context, void *registration)
{
	(void)context;
	oriel_p2p_unregister(registration);
}

enum oriel_status ori_mr_refs_open(struct oriel_p2p_context *hub)
{
	const struct ori_cache_attr attr = {hub, hold_find, hold_enter, hold_leave, HOLD_IDLE};

	return ori_cache_create(&attr, &hub->holds);
}

void ori_mr_refs_close(struct oriel_p2p_context *hub)
{
	ori_cache_destroy(hub->holds);
	hub->holds = NULL;
}

void ori_mr_refs_drop_idle(struct oriel_p2p_context *hub)
{
	ori_cache_invalidate(hub->holds, 0, UINT64_MAX);
}

enum oriel_status ori_mr_ref_take(struct oriel_p2p_context *hub, struct oriel_p2p_request *r)
{
	struct ori_mr_ref hold;
	enum oriel_status st = ori_cache_ref(hub->holds, (uintptr_t)r->buffer, r->length, &hold);

	if (st != ORIEL_OK)
		return st;
	r->memory = hold.registration;
	r->hold = hold.entry;
	r->has_own_memory = hold.is_whole ? P2P_MR_REF_WHOLE : P2P_MR_REF_PART;
	return ORIEL_OK;
}

void ori_mr_ref_drop(struct oriel_p2p_context *hub, struct oriel_p2p_request *r)
{
	const struct ori_mr_ref hold = {r->memory, r->hold, r->has_own_memory == P2P_MR_REF_WHOLE};

	if (r->has_own_memory == P2P_MR_REF_NONE)
		return;
	ori_cache_unref(hub->holds, &hold);
	r->hold = NULL;
	r->has_own_memory = P2P_MR_REF_NONE;
}
