/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations of memory, made when they are needed and shared by all who need
 * the same: those of a GPU's allocations stay for a while after the last of them.
 * Who registers is the caller's affair. Any thread may call anything here at any
 * time but create() and destroy().
 *
 * Never is a registration handed out of memory that has been unmapped since, and
 * mapped again:
 * - an allocation of a GPU has a number that no other one ever gets. find() tells it
 *   at each lookup, and an entry of another number is not used but given up.
 * - host memory has none, so nobody keeps entries of it that are not referenced. While
 *   a reference that spans a whole entry is held, its owner needs all those pages, and
 *   may not unmap them; only then may others join it. Who joins for a part of it keeps
 *   the entry, but does not keep it open: the rest may have been unmapped.
 * So host memory that is to stay registered is referenced for as long, by whoever knows
 * when it goes: the owner of a region.
 */
#ifndef ORI_MEM_CACHE_H
#define ORI_MEM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

struct ori_cache;
struct ori_cache_entry;

/* What is registered at once. */
struct ori_cache_range {
	uint64_t base;
	uint64_t length;
	uint64_t id; /* of the allocation; 0: host memory, and whole pages */
};

struct ori_cache_attr {
	void *context;
	/* The allocation that all of the bytes lie in; or ori_cache_pages(). */
	enum oriel_status (*find)(void *context, uint64_t address, uint64_t length,
				  struct ori_cache_range *range);
	/* From any thread, several at once; no lock is held. */
	enum oriel_status (*reg)(void *context, const struct ori_cache_range *range,
				 void **registration);
	void (*dereg)(void *context, void *registration);
	unsigned idle; /* entries that are kept without references, at most */
};

struct ori_mr_ref {
	void *registration;
	struct ori_cache_entry *entry;
	bool is_whole;
};

enum oriel_status ori_cache_create(const struct ori_cache_attr *attr, struct ori_cache **cache);
/* No references are left. NULL is allowed. */
void ori_cache_destroy(struct ori_cache *cache);

/* The pages of the host that the bytes lie in. ORIEL_ERR_RANGE: they end beyond all addresses. */
enum oriel_status ori_cache_pages(uint64_t address, uint64_t length, struct ori_cache_range *range);

/*
 * A registration of the bytes, found or made. If it cannot be made, idle ones are
 * given up for it before that is a failure.
 */
enum oriel_status ori_cache_ref(struct ori_cache *cache, uint64_t address, uint64_t length,
				struct ori_mr_ref *ref);
void ori_cache_unref(struct ori_cache *cache, const struct ori_mr_ref *ref);

/* The memory goes: what is idle of it leaves now, the rest with its last reference. */
void ori_cache_invalidate(struct ori_cache *cache, uint64_t address, uint64_t length);

/* Entries there are, those without references included. */
unsigned ori_cache_count(struct ori_cache *cache);

#endif
