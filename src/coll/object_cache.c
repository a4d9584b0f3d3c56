/* SPDX-License-Identifier: Apache-2.0 */
/* The table of cached objects: creates, recognises and destroys them. Called by object_agree.c. */
#include <string.h>

#include <oriel/dev/detail/order.h>
#include <oriel/dev/detail/wait.h>
#include <oriel/region.h>

#include "base/error.h"
#include "coll/object_cache.h"

#define CACHED_STAGING_MIN 4096u
#define CACHED_BROKEN_NS 1000000000u

static bool cached_has_reduction(const struct ori_cached *slot, const struct ori_cached_call *call)
{
	const struct oriel_reduction *a = &slot->reduction, *b = &call->reduction;

	return a->type == b->type && a->op == b->op && a->block == b->block &&
	       a->flags == b->flags && !a->factor == !b->factor && slot->factor == call->factor &&
	       a->function == b->function && a->context == b->context;
}

bool ori_cached_fits(const struct ori_cached *slot, const struct ori_cached_call *call)
{
	return slot->kind == call->kind && slot->is_gpu == call->is_gpu &&
	       slot->length >= call->length && cached_has_reduction(slot, call);
}

bool ori_cached_is_stale(const struct ori_object_cache *cache, const struct ori_cached *slot)
{
	struct ori_error before;
	uint64_t identity = 0;

	/* The library knows its staging, and only the program knows the memory of its graphs. */
	if (!slot->kind || slot->is_staging || slot->is_captured)
		return false;
	/* A driver that does not answer for the address has no memory there. */
	ori_error_save(&before);
	(void)oriel_memory_identity(cache->comm, slot->memory, slot->length, &identity);
	ori_error_restore(&before);
	return identity != slot->identity;
}

/* May the GPU still come to an execution that was posted @waited_ns ago or earlier? */
static bool cached_may_come(const struct ori_object_cache *cache, uint64_t waited_ns)
{
	struct oriel_health health = {.size = sizeof(health)};

	oriel_comm_health(cache->comm, &health);
	return waited_ns <
	       (health.status == ORIEL_OK ? oriel_comm_timeout(cache->comm) : CACHED_BROKEN_NS);
}

/*
 * A peer may have been through the execution already, and released the object in a later call. When
 * the communicator is broken its own work in streams ends at once.
 */
static void cached_await(const struct ori_object_cache *cache, const struct ori_cached *slot)
{
	uint64_t begun = oriel_dev_clock_ns();

	while (slot->mark && oriel_mark_test(slot->mark) == ORIEL_AGAIN &&
	       cached_may_come(cache, oriel_dev_clock_ns() - begun))
		ori_dev_back_off(oriel_dev_clock_ns() - begun);
}

void ori_cached_destroy(struct ori_object_cache *cache, struct ori_cached *slot)
{
	cached_await(cache, slot);
	ori_gather_destroy(slot->kind, slot->object, __func__);
	oriel_mark_destroy(slot->mark);
	if (slot->is_staging)
		oriel_memory_free(slot->memory);
	*slot = (struct ori_cached){0};
}

void ori_cached_destroy_set(struct ori_object_cache *cache, const struct ori_cached_set *set)
{
	unsigned i;

	for (i = 0; i < ORI_CACHED_SLOTS; i++)
		if (cache->slots[i].kind && ori_cached_has(set, i))
			ori_cached_destroy(cache, &cache->slots[i]);
}

struct oriel_object_cache_info ori_cached_info(const struct ori_object_cache *cache)
{
	struct oriel_object_cache_info info = {.calls = cache->calls, .hits = cache->hits};
	const struct ori_cached *slot;

	for (slot = cache->slots; slot < cache->slots + ORI_CACHED_SLOTS; slot++) {
		info.objects += !!slot->kind;
		info.captured += slot->is_captured;
	}
	return info;
}

/* A free slot, or NULL. Room for captured objects is no room for others, which are replaced. */
static struct ori_cached *cached_take(struct ori_object_cache *cache)
{
	const struct oriel_object_cache_info info = ori_cached_info(cache);
	struct ori_cached *slot, *oldest = NULL, *free = NULL;

	for (slot = cache->slots; slot < cache->slots + ORI_CACHED_SLOTS; slot++) {
		if (!slot->kind)
			free = free ? free : slot;
		else if (!slot->is_captured && (!oldest || slot->used < oldest->used))
			oldest = slot;
	}
	if (oldest && (!free || info.objects - info.captured >= ORIEL_OBJECT_CACHE_MOST)) {
		ori_cached_destroy(cache, oldest);
		free = oldest;
	}
	return free;
}

/* Allocates the part of an object that concerns this rank alone. */
static enum oriel_status cached_fill(struct ori_object_cache *cache, struct ori_cached *slot)
{
	enum oriel_status status = ORIEL_OK;
	void *memory = NULL;

	if (slot->is_staging) {
		status = oriel_memory_alloc(slot->length, 0, &memory);
		slot->memory = memory;
	}
	if (status == ORIEL_OK && slot->is_gpu)
		status = oriel_mark_create(cache->comm, &slot->mark);
	return status;
}

enum oriel_status ori_cached_create(struct ori_object_cache *cache,
				    const struct ori_cached_call *call, uint64_t identity,
				    bool is_staged, struct ori_cached **out)
{
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .flags = call->is_gpu ? ORIEL_VIEW_GPU : 0};
	struct ori_cached *slot = cached_take(cache), new = {.memory = call->recv,
							     .identity = identity,
							     .length = call->length,
							     .reduction = call->reduction,
							     .factor = call->factor,
							     .is_gpu = call->is_gpu,
							     .is_staging = is_staged};
	enum oriel_status status;

	if (!slot)
		return ori_fail(ORIEL_ERR_NOMEM,
				"%s: %u objects of captured calls are kept, the most there may be: "
				"oriel_object_cache_release() destroys those of graphs that no "
				"longer exist",
				call->kind->name, ORI_CACHED_SLOTS);
	/* So that a result that grows a little finds room the next time. */
	if (is_staged)
		for (new.length = CACHED_STAGING_MIN; new.length < call->length;)
			new.length += new.length;
	status = oriel_comm_agree(cache->comm, cached_fill(cache, &new));
	view.buffer = new.memory;
	view.length = new.length;
	if (status == ORIEL_OK)
		status = ori_gather_create(call->kind, cache->comm, &view,
					   call->kind->is_reduction ? &call->reduction : NULL, NULL,
					   &new.object, __func__);
	if (status != ORIEL_OK) {
		oriel_mark_destroy(new.mark);
		if (is_staged)
			oriel_memory_free(new.memory);
		return status;
	}
	new.kind = call->kind;
	*slot = new;
	*out = slot;
	return ORIEL_OK;
}
