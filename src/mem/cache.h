/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of memory registrations (UCX: rcache), created on demand and shared by all callers that
 * need the same range. Registrations of GPU allocations stay cached for a while after their last
 * reference. The caller supplies the functions that register. Any thread may call any function at
 * any time, except create() and destroy().
 *
 * The cache never returns a registration of memory that has since been unmapped and mapped again:
 * - A GPU allocation has an id that no other allocation ever gets. The caller asks for it before
 *   each lookup, and an entry with another id is deregistered instead of used.
 * - Host memory has no id, so its entries are not cached without references. While a reference
 *   that spans a whole entry exists, its owner needs all those pages and may not unmap them; only
 *   then may other callers share the entry. A reference to a part keeps the entry registered, but
 *   does not keep it open for sharing: the rest may have been unmapped.
 * Thus host memory stays registered only while referenced, by the code that knows its lifetime:
 * the owner of a region. An owner of GPU memory may register it like that, too, with id 0.
 */
#ifndef ORI_MEM_CACHE_H
#define ORI_MEM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

struct ori_cache;
struct ori_cache_entry;

/* The memory of one registration. */
struct ori_cache_range {
	uint64_t base;
	uint64_t length;
	uint64_t id; /* of the allocation; 0: memory whose owner keeps it while it is referenced */
	unsigned
		rights; /* bits of the caller's: an entry serves ranges that need no more of them */
};

struct ori_cache_attr {
	void *context;
	/* Register and deregister. Called from any thread, concurrently, without a lock. */
	enum oriel_status (*reg)(void *context, const struct ori_cache_range *range,
				 void **registration);
	void (*dereg)(void *context, void *registration);
	unsigned idle; /* entries kept without references, at most */
};

/* A reference to a registration, which stays valid until ori_cache_unref(). */
struct ori_mr_ref {
	void *registration;
	struct ori_cache_entry *entry;
	bool is_whole;
};

enum oriel_status ori_cache_create(const struct ori_cache_attr *attr, struct ori_cache **cache);
/* All references have been dropped. NULL is allowed. */
void ori_cache_destroy(struct ori_cache *cache);

/*
 * The host pages that hold the bytes, without rights. ORIEL_ERR_RANGE: the range passes the end
 * of the address space.
 */
enum oriel_status ori_cache_pages(uint64_t address, uint64_t length, struct ori_cache_range *range);

/* Reference a registration of @range that is cached; false if there is none. */
bool ori_cache_find(struct ori_cache *cache, const struct ori_cache_range *range,
		    struct ori_mr_ref *ref);
/*
 * The same, or a new registration. If registration fails for lack of memory, idle entries are
 * deregistered and it is tried again.
 */
enum oriel_status ori_cache_ref(struct ori_cache *cache, const struct ori_cache_range *range,
				struct ori_mr_ref *ref);
void ori_cache_unref(struct ori_cache *cache, const struct ori_mr_ref *ref);
/*
 * The owner of the memory may unmap it before @ref is dropped: from now on @ref does not keep
 * the entry open for sharing.
 */
void ori_cache_unshare(struct ori_mr_ref *ref);

/*
 * The memory is about to be unmapped: deregister its idle entries now, the others with their last
 * reference.
 */
void ori_cache_invalidate(struct ori_cache *cache, uint64_t address, uint64_t length);

/* Number of entries, those without references included; the unit tests ask for it. */
unsigned ori_cache_count(struct ori_cache *cache);

#endif
