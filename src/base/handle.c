/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle table: pools of slots, one per kind of public object, and the texts about handles
 * that are not live. Create and destroy functions call it; every public host function checks
 * its handles by the inline part in handle.h.
 */
#include "base/handle.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"

/* clang 14 has a feature in place of gcc's macro. */
#if defined(__SANITIZE_ADDRESS__)
#define HANDLE_HAS_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HANDLE_HAS_ASAN
#endif
#endif

#ifdef HANDLE_HAS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define __lsan_register_root_region(address, size) ((void)(address), (void)(size))
#endif

/* Bytes of addresses for one kind; less if RLIMIT_AS makes them scarce. */
#define HANDLE_RANGE ((size_t)256 << 20)
#define HANDLE_RANGE_SMALL ((size_t)8 << 20)
#define HANDLE_CHUNK ((size_t)64 << 10) /* bytes that become memory at once */

/*
 * Slots that stay unused after their objects are destroyed, in FIFO order: a stale handle is
 * mistaken for a new object only after so many of its kind were created and destroyed. A longer
 * quarantine would retain more memory.
 */
#define HANDLE_QUARANTINE 1024u

/* The letters "oriel", and below them the number of forks between the first process and this. */
#define HANDLE_STAMP (UINT64_C(0x6f7269656c) << 24)

struct handle_kind {
	const char *noun;
	size_t size, stride;
	char *base;
	size_t range, open;              /* bytes reserved; bytes of them that are accessible */
	uint64_t count;                  /* free slots */
	struct ori_handle *first, *last; /* the list of free slots, oldest first */
};

static struct {
	pthread_mutex_t lock; /* guards the whole table */
	struct ori_handle *youngest;
	struct handle_kind kinds[ORI_HANDLE_KINDS];
} table = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.kinds = {[ORI_HANDLE_COMM].noun = "communicator",
		  [ORI_HANDLE_WINDOW].noun = "window",
		  [ORI_HANDLE_REGION].noun = "region",
		  [ORI_HANDLE_ALLGATHER].noun = "all-gather",
		  [ORI_HANDLE_ALLTOALL].noun = "all-to-all",
		  [ORI_HANDLE_BCAST].noun = "broadcast",
		  [ORI_HANDLE_ALLREDUCE].noun = "all-reduce",
		  [ORI_HANDLE_REDUCE_SCATTER].noun = "reduce-scatter",
		  [ORI_HANDLE_REDUCE].noun = "reduce",
		  [ORI_HANDLE_GATHER].noun = "gather",
		  [ORI_HANDLE_SCATTER].noun = "scatter",
		  [ORI_HANDLE_STREAM_BARRIER].noun = "stream barrier",
		  [ORI_HANDLE_COPIES].noun = "copies object",
		  [ORI_HANDLE_MARK].noun = "mark",
		  [ORI_HANDLE_P2P_CONTEXT].noun = "p2p context",
		  [ORI_HANDLE_P2P_ENDPOINT].noun = "p2p endpoint",
		  [ORI_HANDLE_P2P_MEMORY].noun = "p2p memory",
		  [ORI_HANDLE_P2P_COPY_GROUP].noun = "p2p copy group",
		  [ORI_HANDLE_P2P_MOCK].noun = "p2p mock",
		  [ORI_HANDLE_LOCAL_JOB].noun = "local job"},
};

struct ori_handle_pool ori_handle_pools[ORI_HANDLE_KINDS];
uint64_t ori_handle_stamp = HANDLE_STAMP;

static size_t handle_round(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* The inverse modulo 2^64 by Newton's method: 3 bits are right at first, each step doubles them. */
static uint64_t handle_inverse(uint64_t odd)
{
	uint64_t inverse = odd;
	unsigned i;

	for (i = 0; i < 5; i++)
		inverse *= 2 - odd * inverse;
	return inverse;
}

/* The program shares its limit on addresses with this reservation, so take few of them then. */
static size_t handle_range(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		return HANDLE_RANGE_SMALL;
	return HANDLE_RANGE;
}

/* Slots of the parent's objects are neither live nor free in the child, and stay so. */
static void handle_fork_child(void)
{
	ori_handle_stamp++;
	table.youngest = NULL;
}

static const struct ori_fork_hook handle_hook = {.lock = &table.lock, .child = handle_fork_child};

static void *handle_map(size_t range)
{
	return mmap(NULL, range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static bool handle_reserve_locked(struct handle_kind *k, struct ori_handle_pool *pool, size_t size)
{
	size_t range = handle_range();
	char *base = handle_map(range);

	if (base == MAP_FAILED) {
		range = HANDLE_RANGE_SMALL;
		base = handle_map(range);
	}
	if (base == MAP_FAILED)
		return false;
	/* LeakSanitizer does not search these pages by itself; they lead to most heap memory. */
	__lsan_register_root_region(base, range);
	k->size = size;
	k->stride = handle_round(sizeof(struct ori_handle) + size, sizeof(struct ori_handle));
	if (!(k->stride >> ORI_HANDLE_SHIFT & 1))
		k->stride += (size_t)1 << ORI_HANDLE_SHIFT;
	k->base = base;
	k->range = range;
	/* Relaxed: the store to pool->slots in handle_fresh_locked() releases both. */
	atomic_store_explicit(&pool->first, (uintptr_t)base + sizeof(struct ori_handle),
			      memory_order_relaxed);
	atomic_store_explicit(&pool->inverse, handle_inverse(k->stride >> ORI_HANDLE_SHIFT),
			      memory_order_relaxed);
	return true;
}

/* A slot that was never in use; NULL if the range is used up or no memory is left. */
static struct ori_handle *handle_fresh_locked(struct handle_kind *k, struct ori_handle_pool *pool)
{
	uint64_t slots = atomic_load_explicit(&pool->slots, memory_order_relaxed);
	size_t at = slots * k->stride, end = at + k->stride, open = k->open;

	if (end > k->range)
		return NULL;
	if (end > open) {
		open = handle_round(end, HANDLE_CHUNK);
		if (open > k->range)
			open = k->range;
		if (mprotect(k->base + k->open, open - k->open, PROT_READ | PROT_WRITE) != 0)
			return NULL;
		k->open = open;
	}
	/* Acquired by ori_handle_is_live(): the slot is accessible, and first and inverse are set.
	 */
	atomic_store_explicit(&pool->slots, slots + 1, memory_order_release);
	return (struct ori_handle *)(void *)(k->base + at);
}

static struct ori_handle *handle_oldest_locked(struct handle_kind *k)
{
	struct ori_handle *h = k->first;

	if (!h)
		return NULL;
	k->first = h->next;
	if (!k->first)
		k->last = NULL;
	k->count--;
	return h;
}

void *ori_handle_alloc(enum ori_handle_kind kind, size_t size)
{
	struct ori_handle_pool *pool = &ori_handle_pools[kind];
	struct handle_kind *k = &table.kinds[kind];
	struct ori_handle *h = NULL;

	ori_fork_add(ORI_FORK_HANDLE, &handle_hook);
	pthread_mutex_lock(&table.lock);
	if (k->base || handle_reserve_locked(k, pool, size)) {
		if (k->count <= HANDLE_QUARANTINE)
			h = handle_fresh_locked(k, pool);
		if (!h)
			h = handle_oldest_locked(k);
	}
	pthread_mutex_unlock(&table.lock);
	if (!h)
		return NULL;
	ASAN_UNPOISON_MEMORY_REGION(h + 1, k->size);
	h->kind = kind;
	h->lender = NULL;
	return memset(h + 1, 0, k->size);
}

void ori_handle_borrow(void *object, const void *lender)
{
	ori_handle_of(object)->lender = lender;
}

void ori_handle_open(void *object, const void *parent)
{
	struct ori_handle *h = ori_handle_of(object);

	h->parent = parent;
	pthread_mutex_lock(&table.lock);
	h->previous = NULL;
	h->next = table.youngest;
	if (h->next)
		h->next->previous = h;
	table.youngest = h;
	pthread_mutex_unlock(&table.lock);
	/* Acquired by ori_handle_is_live(): it publishes the object. */
	atomic_store_explicit(&h->live, ori_handle_stamp, memory_order_release);
}

static void handle_unlink_locked(struct ori_handle *h)
{
	if (h->previous)
		h->previous->next = h->next;
	else
		table.youngest = h->next;
	if (h->next)
		h->next->previous = h->previous;
}

static bool handle_is_forked(const void *object)
{
	uint64_t live = atomic_load_explicit(&ori_handle_of(object)->live, memory_order_relaxed);

	return live >= HANDLE_STAMP && live < ori_handle_stamp;
}

/* The slot around @at, which may be any address, and its kind; NULL if no slot is there. */
static const struct ori_handle *handle_find(const void *at, enum ori_handle_kind *kind)
{
	unsigned i;

	for (i = 0; i < ORI_HANDLE_KINDS; i++) {
		/* Pairs with handle_fresh_locked(): base and stride were set before and stay. */
		uint64_t slots =
			atomic_load_explicit(&ori_handle_pools[i].slots, memory_order_acquire);
		const struct handle_kind *k = &table.kinds[i];
		uint64_t slot;

		if (!slots)
			continue;
		slot = ((uintptr_t)at - (uintptr_t)k->base) / k->stride;
		if (slot >= slots)
			continue;
		*kind = (enum ori_handle_kind)i;
		return (const struct ori_handle *)(const void *)(k->base + slot * k->stride);
	}
	return NULL;
}

#define HANDLE_TEXT 256
#define HANDLE_FORKED \
	"this process was forked after the %s was created; create one of its own, or use spawn"

/* Write why @handle, which is not live, is rejected; the callers prepend "call: ". */
static enum oriel_status handle_reason(const void *handle, enum ori_handle_kind kind,
				       char text[HANDLE_TEXT])
{
	const char *noun = table.kinds[kind].noun;
	enum ori_handle_kind found = kind;
	const struct ori_handle *h = handle_find(handle, &found);

	if (!handle) {
		snprintf(text, HANDLE_TEXT, "the %s is NULL", noun);
		return ORIEL_ERR_INVALID;
	}
	if (!h)
		snprintf(text, HANDLE_TEXT, "%p is not a live %s: it is no handle of this library",
			 handle, noun);
	else if (handle != h + 1)
		snprintf(text, HANDLE_TEXT, "%p is not a live %s: it lies inside a %s", handle,
			 noun, table.kinds[found].noun);
	else if (found != kind)
		snprintf(text, HANDLE_TEXT, "%p is not a live %s: it is, or was, a %s", handle,
			 noun, table.kinds[found].noun);
	else if (handle_is_forked(handle)) {
		snprintf(text, HANDLE_TEXT, HANDLE_FORKED, noun);
		return ORIEL_ERR_FORKED;
	} else
		snprintf(text, HANDLE_TEXT, "%p is not a live %s: it was destroyed", handle, noun);
	return ORIEL_ERR_STATE;
}

/*
 * Reject @handle for a destroy function. In a child it is no mistake, and no warning: exit
 * handlers, and destructors of other languages, destroy the parent's objects there.
 */
static void handle_reject_destroy(const void *handle, enum ori_handle_kind kind, const char *call)
{
	char text[HANDLE_TEXT];
	enum oriel_status status = handle_reason(handle, kind, text);

	if (status == ORIEL_ERR_FORKED)
		(void)ori_fail(status, "%s: %s", call, text);
	else
		ori_misuse_with(status, "%s: %s", call, text);
}

bool ori_handle_may_end(const void *handle, enum ori_handle_kind kind, const char *call)
{
	if (!handle)
		return false;
	if (ori_handle_is_live(handle, kind))
		return true;
	handle_reject_destroy(handle, kind, call);
	return false;
}

bool ori_handle_shut(void *handle, enum ori_handle_kind kind, const char *call)
{
	struct ori_handle *h = ori_handle_of(handle);
	uint64_t stamp = ori_handle_stamp;

	if (!handle)
		return false;
	/* If two threads destroy it, the exchange lets one pass and rejects the other. */
	if (!ori_handle_is_live(handle, kind) ||
	    !atomic_compare_exchange_strong(&h->live, &stamp, 0)) {
		handle_reject_destroy(handle, kind, call);
		return false;
	}
	pthread_mutex_lock(&table.lock);
	handle_unlink_locked(h);
	pthread_mutex_unlock(&table.lock);
	return true;
}

/* Return the whole pages of a large object to the kernel; the head of its slot stays. */
static void handle_give_back(const struct handle_kind *k, struct ori_handle *h)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = handle_round((uintptr_t)(h + 1), page);
	uintptr_t end = ((uintptr_t)(h + 1) + k->size) / page * page;

	if (begin < end)
		(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void ori_handle_free(void *object)
{
	struct ori_handle *h = ori_handle_of(object);
	struct handle_kind *k;

	if (!object)
		return;
	k = &table.kinds[h->kind];
	handle_give_back(k, h);
	ASAN_POISON_MEMORY_REGION(object, k->size);
	h->next = NULL;
	pthread_mutex_lock(&table.lock);
	if (k->last)
		k->last->next = h;
	else
		k->first = h;
	k->last = h;
	k->count++;
	pthread_mutex_unlock(&table.lock);
}

const char *ori_handle_child(const void *parent)
{
	const struct ori_handle *h;
	const char *noun = NULL;

	pthread_mutex_lock(&table.lock);
	for (h = table.youngest; h && !noun; h = h->next)
		if (h->parent == parent || h->lender == parent)
			noun = table.kinds[h->kind].noun;
	pthread_mutex_unlock(&table.lock);
	return noun;
}

void ori_handle_each(enum ori_handle_kind kind, void (*visit)(void *object))
{
	struct ori_handle *h;

	for (h = table.youngest; h; h = h->next)
		if (h->kind == kind)
			visit(h + 1);
}

enum oriel_status ori_handle_reject_stamp(const char *noun)
{
	return ori_fail(ORIEL_ERR_FORKED, HANDLE_FORKED, noun);
}

enum oriel_status ori_handle_reject(const void *handle, enum ori_handle_kind kind, const char *call)
{
	char text[HANDLE_TEXT];
	enum oriel_status status = handle_reason(handle, kind, text);

	return ori_fail(status, "%s: %s", call, text);
}

void ori_handle_misuse(const void *handle, enum ori_handle_kind kind, const char *call)
{
	char text[HANDLE_TEXT];
	enum oriel_status status = handle_reason(handle, kind, text);

	ori_misuse_with(status, "%s: %s", call, text);
}
