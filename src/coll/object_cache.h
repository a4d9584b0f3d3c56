/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cached objects of oriel/object_cache.h: object_agree.c lets ranks agree on the object of a call,
 * object_cache.c has the table of them. The collectives without an object call begin and end.
 */
#ifndef ORI_COLL_OBJECT_CACHE_H
#define ORI_COLL_OBJECT_CACHE_H

#include <oriel/coll.h>
#include <oriel/object_cache.h>
#include <oriel/progress.h>

#include "coll/gather.h"
#include "coll/reduction.h"

#define ORI_CACHED_SLOTS ORIEL_OBJECT_CACHE_CAPTURED_MOST
#define ORI_CACHED_WORDS (ORI_CACHED_SLOTS / 64)

/* A call, the same on all ranks but for addresses. */
struct ori_cached_call {
	const struct ori_gather_kind *kind;
	struct oriel_comm *comm;
	void *recv;
	size_t length;                    /* of the result at @recv */
	size_t bytes;                     /* of a message; equal on all ranks, as @root is */
	unsigned root;                    /* broadcasts, reductions to a root */
	struct oriel_reduction reduction; /* reductions; @factor is set if there is one */
	uint64_t factor;                  /* its value */
	bool is_without_result;           /* on this rank; @recv is not read */
	bool is_gpu;
	void *stream; /* not NULL if @is_gpu */

	/* Set by begin(). */
	void *object; /* NULL: there is nothing to do */
	struct ori_cached *slot;
	bool is_capturing;
};

/* Writes the length of a result with @parts messages, and checks the root. */
enum oriel_status ori_cached_length(struct ori_cached_call *call, unsigned parts);
/*
 * Checks the addresses of @call: the @sent bytes at @send lie outside of the result, or are @own,
 * the part of it that a call in place sends; NULL: there is none.
 */
enum oriel_status ori_cached_check(const struct ori_cached_call *call, const void *send,
				   size_t sent, const void *own);

/*
 * Collective: finds or creates the object of @call. @status: what this rank found wrong with its
 * arguments; all ranks get the failure of the lowest rank.
 */
enum oriel_status ori_cached_begin(struct ori_cached_call *call, enum oriel_status status);
/*
 * reduction_call.c: the whole of a reduction without an object. @call has all but the length, the
 * reduction and what ori_cached_begin() sets; @name is that of the function of the user.
 */
enum oriel_status ori_reduction_once(struct ori_cached_call *call, const void *send, size_t count,
				     const struct oriel_reduction *reduction, const char *name);
/* The execution was started with @status: copies a result that was staged. Returns the status. */
enum oriel_status ori_cached_end(struct ori_cached_call *call, enum oriel_status status);

/*
 * One cached object. All fields but the addresses, the identity, the factor and the function of a
 * reduction are equal on all ranks.
 */
struct ori_cached {
	const struct ori_gather_kind *kind; /* NULL: no object */
	void *object;
	char *memory;                     /* of the result; of the library if it is staging */
	struct oriel_reduction reduction; /* as in a call; @factor only says whether there is one */
	uint64_t factor;
	uint64_t identity;
	size_t length;
	bool is_gpu;
	bool is_staging;
	bool is_captured;
	uint64_t used;           /* number of the last call */
	struct oriel_mark *mark; /* GPU: behind the last execution in a stream */
};

/* The slots of which each bit is set. */
struct ori_cached_set {
	uint64_t words[ORI_CACHED_WORDS];
};

static inline bool ori_cached_has(const struct ori_cached_set *set, unsigned slot)
{
	return set->words[slot / 64] >> slot % 64 & 1;
}

static inline void ori_cached_add(struct ori_cached_set *set, unsigned slot)
{
	set->words[slot / 64] |= (uint64_t)1 << slot % 64;
}

struct ori_cached_note;

/* The cached objects of a communicator. */
struct ori_object_cache {
	struct oriel_comm *comm;
	struct ori_cached_note *notes; /* [ranks], of the last call */
	bool is_agreed;                /* all ranks have theirs */
	uint64_t calls, hits;
	struct ori_cached slots[ORI_CACHED_SLOTS];
};

/* Does the object have room for a result of @call? */
bool ori_cached_fits(const struct ori_cached *slot, const struct ori_cached_call *call);
/* Local: is the memory at the object's address no longer the one that it was made for? */
bool ori_cached_is_stale(const struct ori_object_cache *cache, const struct ori_cached *slot);
/*
 * Collective, of equal slots: all ranks get the same status, and the new slot, whose memory is
 * that of @call with @identity, or staging. Destroys the oldest object if there are too many.
 */
enum oriel_status ori_cached_create(struct ori_object_cache *cache,
				    const struct ori_cached_call *call, uint64_t identity,
				    bool is_staged, struct ori_cached **slot);
/* Collective, of equal slots. Waits for what this rank has posted to streams. */
void ori_cached_destroy(struct ori_object_cache *cache, struct ori_cached *slot);
void ori_cached_destroy_set(struct ori_object_cache *cache, const struct ori_cached_set *set);
struct oriel_object_cache_info ori_cached_info(const struct ori_object_cache *cache);

#endif
