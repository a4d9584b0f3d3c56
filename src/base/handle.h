/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle table: every public object lies in a slot of the pool of its kind, so that a
 * host call distinguishes a live handle from one that is destroyed, of another kind or no handle
 * at all before it reads the object. Every public host function calls it; any thread.
 *
 * The handle is the address of the object. A slot is never used for another kind, and its
 * first word says whether the object is live. The check is one multiplication, which yields the
 * slot's number or a number that is too large, and one compare of that word.
 */
#ifndef ORI_BASE_HANDLE_H
#define ORI_BASE_HANDLE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

enum ori_handle_kind {
	ORI_HANDLE_COMM,
	ORI_HANDLE_WINDOW,
	ORI_HANDLE_REGION,
	ORI_HANDLE_ALLGATHER,
	ORI_HANDLE_ALLTOALL,
	ORI_HANDLE_BCAST,
	ORI_HANDLE_ALLREDUCE,
	ORI_HANDLE_REDUCE_SCATTER,
	ORI_HANDLE_REDUCE,
	ORI_HANDLE_GATHER,
	ORI_HANDLE_SCATTER,
	ORI_HANDLE_STREAM_BARRIER,
	ORI_HANDLE_COPIES,
	ORI_HANDLE_MARK,
	ORI_HANDLE_P2P_CONTEXT,  /* struct oriel_p2p_context */
	ORI_HANDLE_P2P_ENDPOINT, /* struct oriel_p2p */
	ORI_HANDLE_P2P_MEMORY,
	ORI_HANDLE_P2P_COPY_GROUP,
	ORI_HANDLE_P2P_MOCK,
	ORI_HANDLE_LOCAL_JOB,
	ORI_HANDLE_KINDS
};

/* The head of a slot; the object follows it. */
struct ori_handle {
	_Atomic uint64_t live; /* ori_handle_stamp while the object is live */
	const void *parent;    /* the handle that must outlive this one; may be NULL */
	const void *lender;    /* another one that must, since this object uses it; may be NULL */
	/* The list of live objects, the youngest first; a free slot uses only next. */
	struct ori_handle *next, *previous;
	enum ori_handle_kind kind;
	uint32_t reserved[5];
};

static_assert(sizeof(struct ori_handle) == 64, "objects begin at a multiple of 64");

/*
 * Slots are stride = 64 * odd bytes long; inverse * odd == 1 modulo 2^64. For an offset that
 * is a multiple of the stride, offset * inverse rotated by 6 bits is the number of the slot;
 * for any other offset it exceeds every number of a slot (Hacker's Delight, 10-17).
 */
struct ori_handle_pool {
	_Atomic uint64_t slots;  /* ever in use; a store to it releases the next two */
	_Atomic uintptr_t first; /* the first object */
	_Atomic uint64_t inverse;
};

#define ORI_HANDLE_SHIFT 6

extern struct ori_handle_pool ori_handle_pools[ORI_HANDLE_KINDS];
/* Only fork() changes it, in the child: handles of the parent are not live there. */
extern uint64_t ori_handle_stamp;

static inline struct ori_handle *ori_handle_of(const void *object)
{
	/* Arithmetic on a number: @object may be NULL, or no address at all. */
	return (struct ori_handle *)((uintptr_t)object - sizeof(struct ori_handle));
}

/* Is @handle a live object of @kind? Reads no memory at @handle unless it is that of a slot. */
static inline bool ori_handle_is_live(const void *handle, enum ori_handle_kind kind)
{
	const struct ori_handle_pool *pool = &ori_handle_pools[kind];
	uint64_t slots = atomic_load_explicit(&pool->slots, memory_order_acquire);
	uint64_t slot =
		(uintptr_t)handle - atomic_load_explicit(&pool->first, memory_order_relaxed);

	slot *= atomic_load_explicit(&pool->inverse, memory_order_relaxed);
	slot = slot >> ORI_HANDLE_SHIFT | slot << (64 - ORI_HANDLE_SHIFT);
	return slot < slots && atomic_load_explicit(&ori_handle_of(handle)->live,
						    memory_order_acquire) == ori_handle_stamp;
}

/* Record why @handle is not live: ORIEL_ERR_INVALID for NULL, else ORIEL_ERR_STATE or _FORKED. */
enum oriel_status ori_handle_reject(const void *handle, enum ori_handle_kind kind, const char *call)
	__attribute__((cold, noinline));

enum oriel_status ori_handle_reject_stamp(const char *noun) __attribute__((cold, noinline));

/* The same at level warn, for functions that return no status. */
void ori_handle_misuse(const void *handle, enum ori_handle_kind kind, const char *call)
	__attribute__((cold, noinline));

/* Each public host function calls it, with its __func__, before it reads the caller's object. */
static inline enum oriel_status ori_handle_check(const void *handle, enum ori_handle_kind kind,
						 const char *call)
{
	if (__builtin_expect(ori_handle_is_live(handle, kind), 1))
		return ORIEL_OK;
	return ori_handle_reject(handle, kind, call);
}

/* The same for functions that return no status: false, and the reason is the last error. */
static inline bool ori_handle_use(const void *handle, enum ori_handle_kind kind, const char *call)
{
	if (__builtin_expect(ori_handle_is_live(handle, kind), 1))
		return true;
	ori_handle_misuse(handle, kind, call);
	return false;
}

/* For an object that is no handle; @stamp is ori_handle_stamp when it was created. */
static inline enum oriel_status ori_handle_check_stamp(uint64_t stamp, const char *noun)
{
	return stamp == ori_handle_stamp ? ORIEL_OK : ori_handle_reject_stamp(noun);
}

/*
 * Allocate @size zeroed bytes in a slot, aligned to 64, which are not yet a live handle. @size
 * is the same for all objects of a kind. NULL if memory, or the address range of the kind, is
 * used up.
 */
void *ori_handle_alloc(enum ori_handle_kind kind, size_t size);

/* @object, which is not open yet, uses @lender, a handle or NULL, for as long as it is live. */
void ori_handle_borrow(void *object, const void *lender);

/* @object is complete: from now on it is a live handle. @parent as in struct ori_handle. */
void ori_handle_open(void *object, const void *parent);

/*
 * For a destroy function @call that may still reject the call: may it begin? False for NULL;
 * false, with the reason as the last error, for a handle that is not live.
 */
bool ori_handle_may_end(const void *handle, enum ori_handle_kind kind, const char *call);

/*
 * For a destroy function @call: @handle is not live from now on; its object stays as it is.
 * False if it was not live, with the reason as the last error unless it is NULL.
 */
bool ori_handle_shut(void *handle, enum ori_handle_kind kind, const char *call);

/* The destroy function returns this after one of the two was false for @handle. */
static inline enum oriel_status ori_handle_refused(const void *handle)
{
	return handle ? oriel_last_status() : ORIEL_OK;
}

/* Free the slot of @object, which is not live. NULL is allowed. */
void ori_handle_free(void *object);

/*
 * Visit each object of @kind that is live in the parent. Only for the child's part of a hook of
 * base/fork.h, before the table's own hook runs.
 */
void ori_handle_each(enum ori_handle_kind kind, void (*visit)(void *object));

/* The noun of the youngest live object of @parent, or that uses it; NULL if there is none. */
const char *ori_handle_child(const void *parent);

#endif
