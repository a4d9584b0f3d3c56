/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives without an object: which cached object a call executes. Called by allgather.c,
 * alltoall.c, bcast.c and the user.
 *
 * A rank cannot decide alone: after one rank has freed and allocated its buffer, that one has no
 * object and its peers have. So ranks exchange a note in each call. The tables of all ranks have
 * equal objects in equal slots, since objects are created and destroyed in collective calls alone,
 * by these notes: what the notes say of a slot means the same object everywhere. An object serves
 * the call if it fits on all ranks, and is destroyed if it is stale on one.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/region.h>

#include "base/attr.h"
#include "base/error.h"
#include "base/handle.h"
#include "coll/object_cache.h"

static const char cache_key; /* of oriel_comm_attach() */

enum cached_flags {
	CACHED_GPU = 1,
	CACHED_CAPTURED = 2,
	CACHED_PRIVATE = 4, /* host memory without an identity */
};

/* The note of a rank on a call, for its peers. */
struct ori_cached_note {
	int32_t status;
	uint32_t kind; /* enum ori_collective; ORI_COLLECTIVES: a release */
	uint64_t bytes;
	uint32_t flags; /* enum cached_flags */
	uint32_t root;
	uint32_t type, op, block; /* reductions */
	uint32_t reserved;
	struct ori_cached_set fits;  /* objects that serve the call */
	struct ori_cached_set stale; /* objects to destroy */
};

static void cached_free(struct ori_object_cache *cache)
{
	free(cache->notes);
	free(cache);
}

static void cached_close(struct oriel_comm *comm, void *object)
{
	struct ori_cached_set all;

	(void)comm;
	memset(&all, 0xff, sizeof(all));
	ori_cached_destroy_set(object, &all);
	cached_free(object);
}

static enum oriel_status cached_open(struct oriel_comm *comm, struct ori_object_cache **out)
{
	struct ori_object_cache *cache = calloc(1, sizeof(*cache));
	enum oriel_status status;

	if (cache)
		cache->notes = calloc(oriel_comm_size(comm), sizeof(*cache->notes));
	if (!cache || !cache->notes) {
		free(cache);
		return ori_fail_nomem(sizeof(*cache) +
					      oriel_comm_size(comm) * sizeof(*cache->notes),
				      "the table of cached objects");
	}
	cache->comm = comm;
	status = oriel_comm_attach(comm, &cache_key, cache, cached_close);
	if (status != ORIEL_OK) {
		cached_free(cache);
		return status;
	}
	*out = cache;
	return ORIEL_OK;
}

/* Collective at the first calls, until all ranks have a table. */
static enum oriel_status cached_get(struct oriel_comm *comm, struct ori_object_cache **out)
{
	enum oriel_status status;
	struct ori_object_cache *cache = NULL;
	void *object = NULL;

	status = oriel_comm_attached(comm, &cache_key, &object);
	cache = object;
	if (cache && cache->is_agreed) {
		*out = cache;
		return status;
	}
	if (status == ORIEL_OK && !cache)
		status = cached_open(comm, &cache);
	status = oriel_comm_agree(comm, status);
	if (status != ORIEL_OK)
		return status;
	assert(cache);
	cache->is_agreed = true;
	*out = cache;
	return ORIEL_OK;
}

/* Looks up the memory of @call in the objects of this rank. */
static enum oriel_status cached_look(const struct ori_object_cache *cache,
				     struct ori_cached_call *call, struct ori_cached_note *note,
				     uint64_t *identity)
{
	const struct ori_cached *slot;
	bool has_any = false;
	enum oriel_status status;
	unsigned i;

	if (call->is_gpu && !oriel_comm_gpu_name(cache->comm))
		return ori_fail(ORIEL_ERR_INVALID,
				"%s on a stream: the communicator has no GPU (ORIEL_COMM_GPU)",
				call->kind->name);
	if (!call->bytes)
		return ORIEL_OK;
	if (call->kind->number == ORI_GATHER && !call->is_gpu) {
		/* All ranks share memory of the library, since the root alone has some. */
		note->flags |= CACHED_PRIVATE;
		return ORIEL_OK;
	}
	status = oriel_memory_identity(cache->comm, call->recv, call->length, identity);
	if (status == ORIEL_OK && call->is_gpu)
		status = oriel_comm_is_capturing(cache->comm, call->stream, &call->is_capturing);
	if (status != ORIEL_OK)
		return status;
	if (call->is_gpu && !*identity)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%s: the result at %p is host memory of the program, which a later "
				"call cannot recognise: use memory of the GPU or of "
				"oriel_memory_alloc()",
				call->kind->name, call->recv);
	note->flags |= call->is_capturing ? CACHED_CAPTURED : 0;
	note->flags |= *identity ? 0 : CACHED_PRIVATE;
	for (i = 0; call->kind->is_reduction && i < ORI_CACHED_SLOTS; i++)
		if (cache->slots[i].is_staging && ori_cached_fits(&cache->slots[i], call))
			ori_cached_add(&note->fits, i);
	for (i = 0; *identity && i < ORI_CACHED_SLOTS; i++) {
		slot = &cache->slots[i];
		if (slot->is_staging || slot->memory != call->recv || slot->identity != *identity ||
		    !ori_cached_fits(slot, call))
			continue;
		ori_cached_add(&note->fits, i);
		has_any = true;
	}
	/* Ranks are about to create an object: there is time to look for what is stale. */
	for (i = 0; !has_any && *identity && i < ORI_CACHED_SLOTS; i++)
		if (ori_cached_is_stale(cache, &cache->slots[i]))
			ori_cached_add(&note->stale, i);
	return ORIEL_OK;
}

static enum oriel_status cached_mismatch(const struct ori_cached_call *call, const char *what,
					 uint64_t first, uint64_t other, unsigned rank)
{
	return ori_fail(ORIEL_ERR_MISMATCH,
			"%s: ranks differ in %s: %llu on rank 0, %llu on rank %u",
			call->kind ? call->kind->name : "oriel_object_cache_release", what,
			(unsigned long long)first, (unsigned long long)other, rank);
}

/* The collective that a note is of; a release has the number behind those. */
static const char *cached_kind_name(uint32_t kind)
{
	return kind < ORI_COLLECTIVES ? ori_collective_name((enum ori_collective)kind)
				      : "oriel_object_cache_release";
}

/* Joins the notes of all ranks, with one result on all of them. */
static enum oriel_status cached_join(const struct ori_cached_call *call,
				     const struct ori_cached_note *notes, unsigned ranks,
				     struct ori_cached_note *all)
{
	unsigned rank, i;

	*all = notes[0];
	for (rank = 1; rank < ranks; rank++) {
		const struct ori_cached_note *n = &notes[rank];

		if (n->kind != all->kind)
			return ori_fail(ORIEL_ERR_MISMATCH,
					"ranks call different collectives: %s on rank 0, %s on "
					"rank %u",
					cached_kind_name(all->kind), cached_kind_name(n->kind),
					rank);
		if (n->bytes != all->bytes)
			return cached_mismatch(call, "bytes", all->bytes, n->bytes, rank);
		if (n->type != all->type)
			return cached_mismatch(call, "the type of the elements (enum oriel_type)",
					       all->type, n->type, rank);
		if (n->op != all->op)
			return cached_mismatch(call, "the operation (enum oriel_op)", all->op,
					       n->op, rank);
		if (n->block != all->block)
			return cached_mismatch(call, "the block", all->block, n->block, rank);
		if (n->root != all->root)
			return cached_mismatch(call, "root", all->root, n->root, rank);
		if ((n->flags ^ all->flags) & CACHED_GPU)
			return cached_mismatch(call, "whether there is a stream",
					       all->flags & CACHED_GPU, n->flags & CACHED_GPU,
					       rank);
		all->flags |= n->flags;
		for (i = 0; i < ORI_CACHED_WORDS; i++) {
			all->fits.words[i] &= n->fits.words[i];
			all->stale.words[i] |= n->stale.words[i];
		}
	}
	return ORIEL_OK;
}

/* Collective: exchanges @note, and replaces it by that of all ranks together. */
static enum oriel_status cached_meet(struct ori_object_cache *cache,
				     const struct ori_cached_call *call,
				     struct ori_cached_note *note)
{
	const struct ori_cached_note mine = *note;
	unsigned ranks = oriel_comm_size(cache->comm), rank;
	enum oriel_status status;

	status = oriel_comm_all_gather(cache->comm, &mine, cache->notes, sizeof(mine));
	for (rank = 0; status == ORIEL_OK && rank < ranks; rank++)
		if (cache->notes[rank].status != ORIEL_OK)
			return oriel_comm_agree(cache->comm, (enum oriel_status)mine.status);
	return status == ORIEL_OK ? cached_join(call, cache->notes, ranks, note) : status;
}

/* After the notes: all ranks take the same decisions. */
static struct ori_cached *cached_find(struct ori_object_cache *cache,
				      const struct ori_cached_call *call,
				      const struct ori_cached_note *all)
{
	bool is_staged = all->flags & CACHED_PRIVATE;
	struct ori_cached *slot;
	unsigned i;

	for (i = 0; i < ORI_CACHED_SLOTS; i++) {
		slot = &cache->slots[i];
		if (!is_staged && !slot->is_staging && ori_cached_has(&all->fits, i))
			return slot;
		if (!is_staged || !slot->is_staging || slot->kind != call->kind)
			continue;
		/* Only all ranks together know whether the factors and functions are the same. */
		if (call->kind->is_reduction && ori_cached_has(&all->fits, i))
			return slot;
		if (call->kind->is_reduction)
			continue;
		if (ori_cached_fits(slot, call))
			return slot;
		/* A larger one takes its place. */
		ori_cached_destroy(cache, slot);
	}
	return NULL;
}

enum oriel_status ori_cached_length(struct ori_cached_call *call, unsigned parts)
{
	if (__builtin_mul_overflow(call->bytes, (size_t)parts, &call->length) ||
	    call->length > SIZE_MAX / 4)
		return ori_fail(ORIEL_ERR_INVALID,
				"%s: %u messages of %zu bytes exceed the address space",
				call->kind->name, parts, call->bytes);
	return ori_gather_check_root(call->kind, call->root, oriel_comm_size(call->comm));
}

enum oriel_status ori_cached_check(const struct ori_cached_call *call, const void *send,
				   size_t sent, const void *own)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)call->recv;

	if (!call->bytes)
		return ORIEL_OK;
	if (!call->recv || (sent && !send))
		return ori_fail(ORIEL_ERR_INVALID, "%s: %s is NULL", call->kind->name,
				call->recv ? "send" : "recv");
	if (sent && send != own && from < to + call->length && to < from + sent)
		return ori_fail(ORIEL_ERR_INVALID, "%s: the send buffer overlaps the result%s",
				call->kind->name,
				own ? ", and is not the part of it in place" : "");
	return ORIEL_OK;
}

enum oriel_status ori_cached_begin(struct ori_cached_call *call, enum oriel_status status)
{
	struct ori_cached_note note = {.kind = call->kind->number,
				       .bytes = call->bytes,
				       .flags = call->is_gpu ? CACHED_GPU : 0,
				       .root = call->root,
				       .type = call->reduction.type,
				       .op = call->reduction.op,
				       .block = call->reduction.block};
	struct ori_object_cache *cache = NULL;
	uint64_t identity = 0;
	enum oriel_status known = cached_get(call->comm, &cache);

	if (known != ORIEL_OK)
		return known;
	if (status == ORIEL_OK)
		status = cached_look(cache, call, &note, &identity);
	note.status = status;
	status = cached_meet(cache, call, &note);
	if (status != ORIEL_OK)
		return status;
	ori_cached_destroy_set(cache, &note.stale);
	if (!call->bytes)
		return ORIEL_OK;
	call->slot = cached_find(cache, call, &note);
	cache->calls++;
	cache->hits += !!call->slot;
	if (!call->slot)
		status = ori_cached_create(cache, call, identity, note.flags & CACHED_PRIVATE,
					   &call->slot);
	if (status != ORIEL_OK)
		return status;
	assert(call->slot);
	call->slot->is_captured |= !!(note.flags & CACHED_CAPTURED);
	call->slot->used = cache->calls;
	call->object = call->slot->object;
	return ORIEL_OK;
}

enum oriel_status ori_cached_end(struct ori_cached_call *call, enum oriel_status status)
{
	struct ori_cached *slot = call->slot;

	if (status != ORIEL_OK)
		return status;
	if (slot->is_staging && !call->is_without_result)
		memcpy(call->recv, slot->memory, call->length);
	if (slot->is_gpu && !call->is_capturing)
		return oriel_mark_set_on_stream(slot->mark, call->stream);
	return ORIEL_OK;
}

enum oriel_status oriel_object_cache_release(struct oriel_comm *comm, void *memory, size_t length)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_cached_note note = {.kind = ORI_COLLECTIVES};
	const struct ori_cached_call call = {.comm = comm};
	uintptr_t at = (uintptr_t)memory, begin;
	struct ori_object_cache *cache = NULL;
	unsigned i;

	if (status == ORIEL_OK)
		status = cached_get(comm, &cache);
	if (status != ORIEL_OK)
		return status;
	for (i = 0; i < ORI_CACHED_SLOTS; i++) {
		begin = (uintptr_t)cache->slots[i].memory;
		if (!memory ||
		    (length && begin < at + length && at < begin + cache->slots[i].length))
			ori_cached_add(&note.stale, i);
	}
	status = cached_meet(cache, &call, &note);
	if (status == ORIEL_OK)
		ori_cached_destroy_set(cache, &note.stale);
	return status;
}

enum oriel_status oriel_object_cache_query(struct oriel_comm *comm,
					   struct oriel_object_cache_info *info)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct oriel_object_cache_info found = {0};
	void *cache = NULL;

	if (status == ORIEL_OK)
		status = ori_info_check("oriel_object_cache_info", info);
	if (status == ORIEL_OK)
		status = oriel_comm_attached(comm, &cache_key, &cache);
	if (status != ORIEL_OK)
		return status;
	if (cache)
		found = ori_cached_info(cache);
	ori_info_write(info, &found, sizeof(found));
	return ORIEL_OK;
}
