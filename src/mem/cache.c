/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the registration cache (mem/cache.h): a list sorted by base under a read-write lock,
 * with atomic references. rdma/rdma_memory.c and p2p/ use it.
 */
#include "mem/cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/*
 * A lookup finds listed entries; an entry that is not listed is deregistered with its last
 * reference. A thread that drops the last reference has the lock for writing. So an entry with
 * references is never freed, and only the lock protects an entry without.
 */
struct ori_cache_entry {
	struct ori_cache_range range;
	void *registration;
	atomic_uint refs;
	atomic_uint wholes;           /* the references among these that span the whole entry */
	uint64_t used;                /* guarded by the lock: when the last reference was dropped */
	bool is_listed;               /* guarded by the lock */
	struct ori_cache_entry *next; /* in a list of entries to deregister */
};

struct ori_cache {
	struct ori_cache_attr attr;
	pthread_rwlock_t lock;         /* guards all fields below */
	struct ori_cache_entry **list; /* [count], sorted by base */
	unsigned count, room;
	uint64_t longest; /* no entry was ever longer */
	uint64_t clock;
};

enum oriel_status ori_cache_create(const struct ori_cache_attr *attr, struct ori_cache **out)
{
	struct ori_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return ori_fail_nomem(sizeof(*cache), "a cache of registrations");
	cache->attr = *attr;
	pthread_rwlock_init(&cache->lock, NULL);
	*out = cache;
	return ORIEL_OK;
}

/*
 * Deregister @entry and those linked behind it; without the lock, because deregistration is slow.
 */
static void cache_dereg(const struct ori_cache *cache, struct ori_cache_entry *entry)
{
	struct ori_cache_entry *next;

	for (; entry; entry = next) {
		next = entry->next;
		cache->attr.dereg(cache->attr.context, entry->registration);
		free(entry);
	}
}

void ori_cache_destroy(struct ori_cache *cache)
{
	unsigned i;

	if (!cache)
		return;
	for (i = 0; i < cache->count; i++) {
		assert(atomic_load(&cache->list[i]->refs) == 0);
		cache_dereg(cache, cache->list[i]);
	}
	pthread_rwlock_destroy(&cache->lock);
	free(cache->list);
	free(cache);
}

enum oriel_status ori_cache_pages(uint64_t address, uint64_t length, struct ori_cache_range *range)
{
	uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	if (length > UINT64_MAX - mask - address || address > UINT64_MAX - mask)
		return ori_fail(ORIEL_ERR_RANGE, "%llu bytes at 0x%llx end beyond all addresses",
				(unsigned long long)length, (unsigned long long)address);
	*range = (struct ori_cache_range){.base = address & ~mask};
	range->length = ((address + length + mask) & ~mask) - range->base;
	return ORIEL_OK;
}

static bool cache_covers(const struct ori_cache_range *outer, const struct ori_cache_range *inner)
{
	return inner->base >= outer->base && inner->length <= outer->length &&
	       inner->base - outer->base <= outer->length - inner->length;
}

static bool cache_overlap(const struct ori_cache_range *a, const struct ori_cache_range *b)
{
	return a->base < b->base ? b->base - a->base < a->length : a->base - b->base < b->length;
}

/* Returns how many entries begin at @base or before. */
static unsigned cache_upto(const struct ori_cache *cache, uint64_t base)
{
	unsigned low = 0, high = cache->count;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;

		if (cache->list[middle]->range.base <= base)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Add a reference that spans the entry, unless there is none yet. */
static bool cache_join_whole(struct ori_cache_entry *entry)
{
	unsigned wholes = atomic_load(&entry->wholes);

	while (wholes && !atomic_compare_exchange_weak(&entry->wholes, &wholes, wholes + 1))
		;
	return wholes != 0;
}

/*
 * Take a reference to @entry, which covers @range, if it may be shared. The lock is held at least
 * for reading.
 */
static bool cache_join(struct ori_cache_entry *entry, const struct ori_cache_range *range,
		       bool *is_whole)
{
	if (entry->range.id != range->id || range->rights & ~entry->range.rights)
		return false;
	*is_whole = range->id == 0 && entry->range.length == range->length;
	if (*is_whole && !cache_join_whole(entry))
		return false;
	if (range->id == 0 && !*is_whole && atomic_load(&entry->wholes) == 0)
		return false;
	atomic_fetch_add(&entry->refs, 1);
	return true;
}

/* The lock is held at least for reading. */
static bool cache_find(struct ori_cache *cache, const struct ori_cache_range *range,
		       struct ori_mr_ref *ref)
{
	unsigned i;

	for (i = cache_upto(cache, range->base); i > 0; i--) {
		struct ori_cache_entry *entry = cache->list[i - 1];

		if (range->base - entry->range.base >= cache->longest)
			return false;
		if (!cache_covers(&entry->range, range) ||
		    !cache_join(entry, range, &ref->is_whole))
			continue;
		ref->entry = entry;
		ref->registration = entry->registration;
		return true;
	}
	return false;
}

static void cache_unlist(struct ori_cache *cache, unsigned i)
{
	cache->list[i]->is_listed = false;
	memmove(&cache->list[i], &cache->list[i + 1],
		(--cache->count - i) * sizeof(struct ori_cache_entry *));
}

/* Remove entry @i from the list, and put it on @unused if it has no references. */
static void cache_drop(struct ori_cache *cache, unsigned i, struct ori_cache_entry **unused)
{
	struct ori_cache_entry *entry = cache->list[i];

	cache_unlist(cache, i);
	if (atomic_load(&entry->refs))
		return;
	entry->next = *unused;
	*unused = entry;
}

/*
 * Drop the entries of earlier allocations at the addresses of @range; with id 0 all that overlap
 * it.
 */
static struct ori_cache_entry *cache_drop_others(struct ori_cache *cache,
						 const struct ori_cache_range *range)
{
	unsigned i = cache_upto(cache, range->base + range->length - 1);
	struct ori_cache_entry *unused = NULL;

	for (; i > 0; i--) {
		const struct ori_cache_entry *entry = cache->list[i - 1];

		if (range->base > entry->range.base &&
		    range->base - entry->range.base >= cache->longest)
			break;
		if (cache_overlap(&entry->range, range) &&
		    (range->id == 0 || (entry->range.id && entry->range.id != range->id)))
			cache_drop(cache, i - 1, &unused);
	}
	return unused;
}

/* The bytes that are missing for one more entry, or 0. */
static size_t cache_make_room(struct ori_cache *cache)
{
	unsigned room = cache->room ? 2 * cache->room : 16;
	struct ori_cache_entry **more;

	if (cache->count < cache->room)
		return 0;
	more = realloc(cache->list, room * sizeof(*more));
	if (!more)
		return room * sizeof(*more);
	cache->list = more;
	cache->room = room;
	return 0;
}

static void cache_list(struct ori_cache *cache, struct ori_cache_entry *entry)
{
	unsigned i = cache_upto(cache, entry->range.base);

	memmove(&cache->list[i + 1], &cache->list[i],
		(cache->count++ - i) * sizeof(cache->list[0]));
	cache->list[i] = entry;
	entry->is_listed = true;
	if (entry->range.length > cache->longest)
		cache->longest = entry->range.length;
}

/* Find the entry that has been idle longest; false unless more than @most are idle. */
static bool cache_find_idle(const struct ori_cache *cache, unsigned most, unsigned *which)
{
	unsigned idle = 0, i;

	for (i = 0; i < cache->count; i++) {
		if (atomic_load(&cache->list[i]->refs))
			continue;
		if (idle++ == 0 || cache->list[i]->used < cache->list[*which]->used)
			*which = i;
	}
	return idle > most;
}

/* Deregister an idle entry; false if there is none beyond @most. */
static bool cache_evict(struct ori_cache *cache, unsigned most)
{
	struct ori_cache_entry *entry = NULL;
	unsigned which = 0;

	pthread_rwlock_wrlock(&cache->lock);
	if (cache_find_idle(cache, most, &which)) {
		entry = cache->list[which];
		cache_unlist(cache, which);
	}
	pthread_rwlock_unlock(&cache->lock);
	if (entry)
		cache_dereg(cache, entry);
	return entry != NULL;
}

/* Deregister idle entries one by one while the NIC lacks room for the new registration. */
static enum oriel_status cache_reg(struct ori_cache *cache, const struct ori_cache_range *range,
				   void **registration)
{
	enum oriel_status status;

	do
		status = cache->attr.reg(cache->attr.context, range, registration);
	while (status == ORIEL_ERR_NOMEM && cache_evict(cache, 0));
	return status;
}

/*
 * List @entry, which is referenced, for other threads. Another thread may have registered the
 * range first: an allocation has one entry, host memory may have several.
 */
static enum oriel_status cache_publish(struct ori_cache *cache, struct ori_cache_entry *entry,
				       struct ori_mr_ref *ref)
{
	struct ori_cache_entry *unused = NULL;
	bool is_found = false, has_room;
	size_t missing;

	pthread_rwlock_wrlock(&cache->lock);
	missing = cache_make_room(cache);
	has_room = missing == 0;
	if (has_room && entry->range.id) {
		is_found = cache_find(cache, &entry->range, ref);
		if (!is_found)
			unused = cache_drop_others(cache, &entry->range);
	}
	if (has_room && !is_found)
		cache_list(cache, entry);
	pthread_rwlock_unlock(&cache->lock);
	cache_dereg(cache, unused);
	if (has_room && !is_found)
		*ref = (struct ori_mr_ref){entry->registration, entry, entry->range.id == 0};
	else
		cache_dereg(cache, entry);
	return has_room ? ORIEL_OK : ori_fail_nomem(missing, "the list of registrations");
}

static enum oriel_status cache_make(struct ori_cache *cache, const struct ori_cache_range *range,
				    struct ori_mr_ref *ref)
{
	struct ori_cache_entry *entry = calloc(1, sizeof(*entry));
	enum oriel_status status;

	if (!entry)
		return ori_fail_nomem(sizeof(*entry), "a registration");
	entry->range = *range;
	atomic_init(&entry->refs, 1);
	atomic_init(&entry->wholes, range->id == 0);
	status = cache_reg(cache, range, &entry->registration);
	if (status != ORIEL_OK) {
		free(entry);
		return status;
	}
	return cache_publish(cache, entry, ref);
}

bool ori_cache_find(struct ori_cache *cache, const struct ori_cache_range *range,
		    struct ori_mr_ref *ref)
{
	bool is_found;

	pthread_rwlock_rdlock(&cache->lock);
	is_found = cache_find(cache, range, ref);
	pthread_rwlock_unlock(&cache->lock);
	return is_found;
}

enum oriel_status ori_cache_ref(struct ori_cache *cache, const struct ori_cache_range *range,
				struct ori_mr_ref *ref)
{
	return ori_cache_find(cache, range, ref) ? ORIEL_OK : cache_make(cache, range, ref);
}

/* Drop a reference unless it is the last one; false if it is. */
static bool cache_unref_shared(struct ori_cache_entry *entry)
{
	unsigned refs = atomic_load(&entry->refs);

	while (refs > 1 && !atomic_compare_exchange_weak(&entry->refs, &refs, refs - 1))
		;
	return refs > 1;
}

/*
 * Drop what may be the last reference. Returns the entry if it is to be deregistered: without
 * references, an entry stays only if it is listed and of GPU memory.
 */
static struct ori_cache_entry *cache_unref_last(struct ori_cache *cache,
						struct ori_cache_entry *entry)
{
	unsigned i;

	if (atomic_fetch_sub(&entry->refs, 1) != 1)
		return NULL;
	if (!entry->is_listed)
		return entry;
	entry->used = ++cache->clock;
	if (entry->range.id)
		return NULL;
	for (i = cache_upto(cache, entry->range.base) - 1; cache->list[i] != entry; i--)
		;
	cache_unlist(cache, i);
	return entry;
}

void ori_cache_unshare(struct ori_mr_ref *ref)
{
	if (ref->is_whole)
		atomic_fetch_sub(&ref->entry->wholes, 1);
	ref->is_whole = false;
}

void ori_cache_unref(struct ori_cache *cache, const struct ori_mr_ref *ref)
{
	struct ori_cache_entry *entry = ref->entry, *unused;

	if (ref->is_whole)
		atomic_fetch_sub(&entry->wholes, 1);
	if (cache_unref_shared(entry))
		return;
	pthread_rwlock_wrlock(&cache->lock);
	unused = cache_unref_last(cache, entry);
	pthread_rwlock_unlock(&cache->lock);
	if (unused)
		cache_dereg(cache, unused);
	else
		while (cache_evict(cache, cache->attr.idle))
			;
}

void ori_cache_invalidate(struct ori_cache *cache, uint64_t address, uint64_t length)
{
	struct ori_cache_range range = {address, length, 0, 0};
	struct ori_cache_entry *unused;

	if (!length)
		return;
	pthread_rwlock_wrlock(&cache->lock);
	unused = cache_drop_others(cache, &range);
	pthread_rwlock_unlock(&cache->lock);
	cache_dereg(cache, unused);
}

unsigned ori_cache_count(struct ori_cache *cache)
{
	unsigned count;

	pthread_rwlock_rdlock(&cache->lock);
	count = cache->count;
	pthread_rwlock_unlock(&cache->lock);
	return count;
}
