/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Areas of the library's memory, and the pool of staging slots that endpoints of a context
 * share. Contexts open it; sends and receives take slots.
 */
#include <stdlib.h>

#include "base/error.h"
#include "p2p/p2p_context.h"

#define POOL_NONE 0xffffu
#define POOL_LINE 64u

enum oriel_status ori_area_open(struct p2p_area *area, size_t length)
{
	struct p2p_area a = {.length = length};
	enum oriel_status status = ori_mem_alloc(length, 0, &a.mem);

	if (status != ORIEL_OK)
		return status;
	a.base = a.mem->address;
	*area = a;
	return ORIEL_OK;
}

void ori_area_close(struct p2p_area *area)
{
	ori_mem_unref(area->mem);
	*area = (struct p2p_area){0};
}

static uint64_t pool_head(uint64_t before, unsigned count, unsigned first)
{
	return ((before >> 32) + 1) << 32 | (uint64_t)count << 16 | first;
}

static unsigned pool_count(uint64_t head)
{
	return head >> 16 & 0xffff;
}

void ori_pool_give(struct p2p_pool *pool, struct p2p_stack *stack, int slot)
{
	uint64_t head = atomic_load_explicit(&stack->head, memory_order_relaxed);

	do {
		atomic_store_explicit(&pool->next[slot], (uint16_t)(head & 0xffff),
				      memory_order_relaxed);
		/*
		 * Release: the next owner of the slot comes after all writes of the last
		 * one.
		 */
	} while (!atomic_compare_exchange_weak_explicit(
		&stack->head, &head, pool_head(head, pool_count(head) + 1, (unsigned)slot),
		memory_order_release, memory_order_relaxed));
}

int ori_pool_take(struct p2p_pool *pool, struct p2p_stack *stack, unsigned leave)
{
	uint64_t head = atomic_load_explicit(&stack->head, memory_order_acquire);
	unsigned first, next;

	do {
		if (pool_count(head) <= leave)
			return -1;
		first = head & 0xffff;
		/* The slot may be in another list by now: then the tag has changed, too. */
		next = atomic_load_explicit(&pool->next[first], memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&stack->head, &head,
							pool_head(head, pool_count(head) - 1, next),
							memory_order_acquire,
							memory_order_acquire));
	return (int)first;
}

unsigned ori_pool_free(const struct p2p_stack *stack)
{
	return pool_count(atomic_load_explicit(&stack->head, memory_order_relaxed));
}

/* Whole pages, as an HCA needs them of a GPU. */
static enum oriel_status pool_open_gpu(struct p2p_area *area, const struct ori_gpu *gpu,
				       size_t length)
{
	struct p2p_area a = {0};
	enum oriel_status status = ori_mem_alloc_gpu(gpu, length, &a.mem);

	if (status != ORIEL_OK)
		return status;
	a.base = a.mem->address;
	a.length = a.mem->length;
	*area = a;
	return ORIEL_OK;
}

enum oriel_status ori_pool_open(struct p2p_pool *pool, size_t chunk, unsigned receive,
				const struct ori_gpu *gpu)
{
	struct p2p_pool p = {.chunk = chunk,
			     .receive = receive,
			     .slots = receive + receive / 2,
			     .is_gpu = gpu != NULL};
	enum oriel_status status;

	p.stride = (sizeof(struct p2p_label) + chunk + POOL_LINE - 1) / POOL_LINE * POOL_LINE;
	p.next = calloc(p.slots, sizeof(*p.next));
	if (!p.next)
		return ori_fail_nomem(p.slots * sizeof(*p.next), "%u staging slots", p.slots);
	status = gpu ? pool_open_gpu(&p.area, gpu, p.stride * p.slots)
		     : ori_area_open(&p.area, p.stride * p.slots);
	if (status != ORIEL_OK) {
		free((void *)p.next);
		return status;
	}
	atomic_init(&p.receives.head, POOL_NONE);
	atomic_init(&p.sends.head, POOL_NONE);
	*pool = p;
	for (unsigned i = pool->slots; i-- > 0;)
		ori_pool_give(pool, i < receive ? &pool->receives : &pool->sends, (int)i);
	return ORIEL_OK;
}

void ori_pool_close(struct p2p_pool *pool)
{
	ori_area_close(&pool->area);
	free((void *)pool->next);
}
