/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handle table: every public object lies in a slot of the pool of its kind, so that a
 * host call tells a handle that is destroyed, of another kind or no handle at all from a live
 * one before it reads the object. Any thread.
 *
 * The handle is the address of the object. A slot is never used for another kind, and its
 * first word says whether the object lives: the check is one multiplication, which finds the
 * number of the slot and what is none, and one compare of that word.
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
	ORI_HANDLE_STREAM_BARRIER,
	ORI_HANDLE_COPIES,
	ORI_HANDLE_P2P_CONTEXT,  /* struct oriel_p2p_context */
	ORI_HANDLE_P2P_ENDPOINT, /* struct oriel_p2p */
	ORI_HANDLE_P2P_MEMORY,
	ORI_HANDLE_P2P_CREW,
	ORI_HANDLE_P2P_MOCK,
	ORI_HANDLE_MACHINE,
	ORI_HANDLE_LOCAL_JOB,
	ORI_HANDLE_KINDS
};

/* What precedes an object in its slot. */
struct ori_handle {
	_Atomic uint64_t live; /* ori_handle_stamp while the object lives */
	const void *parent;    /* the handle that must outlive it, NULL if none does */
	/* Of all that live, the youngest first; while the slot is free, only next. */
	struct ori_handle *next, *previous;
	enum ori_handle_kind kind;
	uint32_t reserved[7];
};

static_assert(sizeof(struct ori_handle) == 64, "objects begin at a multiple of 64");

/*
 * Slots are stride = 64 * odd bytes long; inverse * odd == 1 modulo 2^64. For an offset that
 * is a multiple of the stride, offset * inverse rotated by 6 bits is the number of the slot;
 * for any other one it is more than any number of a slot (Hacker's Delight, 10-17).
 */
struct ori_handle_pool {
	_Atomic uint64_t slots;  /* that have ever been in use; releases the next two */
	_Atomic uintptr_t first; /* the first object */
	_Atomic uint64_t inverse;
};

#define ORI_HANDLE_SHIFT 6

extern struct ori_handle_pool ori_handle_pools[ORI_HANDLE_KINDS];
/* Changed by nothing but fork(), in the child: handles of the parent do not live there. */
extern uint64_t ori_handle_stamp;

static inline struct ori_handle *ori_handle_of(const void *object)
{
	/* As a number: @object may be NULL, or no address at all. */
	return (struct ori_handle *)((uintptr_t)object - sizeof(struct ori_handle));
}

/* Reads nothing where @handle is not the address of a slot. */
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

/* Why @handle is not live: ORIEL_ERR_INVALID for NULL, else ORIEL_ERR_STATE or _FORKED. */
enum oriel_status ori_handle_reject(const void *handle, enum ori_handle_kind kind, const char *call)
	__attribute__((cold, noinline));

enum oriel_status ori_handle_reject_stamp(const char *noun) __attribute__((cold, noinline));

/* For functions that return no status: the same at level warn, since the caller need not look. */
void ori_handle_misuse(const void *handle, enum ori_handle_kind kind, const char *call)
	__attribute__((cold, noinline));

/* Each public host function, with its __func__, before it looks into an object of the caller's. */
static inline enum oriel_status ori_handle_check(const void *handle, enum ori_handle_kind kind,
						 const char *call)
{
	if (__builtin_expect(ori_handle_is_live(handle, kind), 1))
		return ORIEL_OK;
	return ori_handle_reject(handle, kind, call);
}

/* The same for functions that return no status: false, and the reason is told. */
static inline bool ori_handle_use(const void *handle, enum ori_handle_kind kind, const char *call)
{
	if (__builtin_expect(ori_handle_is_live(handle, kind), 1))
		return true;
	ori_handle_misuse(handle, kind, call);
	return false;
}

/* For what is no handle, made when ori_handle_stamp was @stamp: ORIEL_ERR_FORKED in a child. */
static inline enum oriel_status ori_handle_check_stamp(uint64_t stamp, const char *noun)
{
	return stamp == ori_handle_stamp ? ORIEL_OK : ori_handle_reject_stamp(noun);
}

/*
 * @size zeroed bytes in a slot, aligned to 64, that are no handle yet; @size is the same for
 * all of a kind. NULL if memory, or the range of addresses of the kind, is used up.
 */
void *ori_handle_alloc(enum ori_handle_kind kind, size_t size);

/* @object is complete: from now on it is a live handle. @parent as in struct ori_handle. */
void ori_handle_open(void *object, const void *parent);

/*
 * For a destroy function @call that may still refuse: may it begin? False for NULL, and, with
 * the reason behind oriel_last_error(), for what does not live.
 */
bool ori_handle_may_end(const void *handle, enum ori_handle_kind kind, const char *call);

/*
 * @handle lives no longer, for the destroy function @call; its object stays as it is. False if
 * it does not live, with the reason behind oriel_last_error() unless it is NULL.
 */
bool ori_handle_shut(void *handle, enum ori_handle_kind kind, const char *call);

/* The slot of @object, which does not live, is free. NULL is allowed. */
void ori_handle_free(void *object);

/*
 * In a hook of base/fork.h, in the child: visit each object of @kind that lives in the parent.
 */
void ori_handle_each(enum ori_handle_kind kind, void (*visit)(void *object));

/* What the youngest is called that lives and has @parent, NULL if none does. */
const char *ori_handle_child(const void *parent);

#endif
