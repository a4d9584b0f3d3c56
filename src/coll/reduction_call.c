/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the arguments of an execution, with an object and without, and begins it. allreduce.c,
 * reduce_scatter.c and reduce_root.c call it.
 */
#include <string.h>

#include "base/error.h"
#include "coll/gather_job.h"
#include "coll/object_cache.h"
#include "coll/reduction.h"

/* Does @send overlap the result in another way than the kind allows? */
static bool reduction_overlaps(const struct ori_gather *g, uint32_t root, const char *send,
			       size_t bytes)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)g->result;
	size_t sent = bytes;

	if (from == to)
		return false;
	if (g->kind->number == ORI_REDUCE && root != g->device.rank)
		return false;
	if (g->kind->number == ORI_REDUCE_SCATTER) {
		sent *= g->device.ranks;
		if (to == from + g->device.rank * bytes)
			return false;
	}
	return from < to + bytes && to < from + sent;
}

static enum oriel_status reduction_check(struct ori_gather *g, uint32_t root, const char *send,
					 size_t count, const char *call, bool on_stream)
{
	size_t bytes = ori_reduction_bytes(g, count);
	enum oriel_status status = ori_gather_check(g, call, on_stream);

	if (status == ORIEL_OK)
		status = ori_gather_check_root(g->kind, root, g->device.ranks);
	if (status != ORIEL_OK)
		return status;
	if (bytes > g->bytes_max)
		return ori_fail(
			ORIEL_ERR_RANGE,
			"%s of %zu elements of type %s, but the shortest view has %zu bytes",
			g->kind->name, count, oriel_type_name(g->reduction->fold.type),
			g->bytes_max);
	if (bytes && !send)
		return ori_gather_null_send(g);
	if (bytes && reduction_overlaps(g, root, send, bytes))
		return ori_fail(ORIEL_ERR_INVALID,
				"%s: the send buffer overlaps the result, and is not in place",
				g->kind->name);
	return ORIEL_OK;
}

static enum oriel_status reduction_execute(struct ori_gather *g, uint32_t root, const void *send,
					   size_t count, bool is_start, const char *call)
{
	enum oriel_status status = reduction_check(g, root, send, count, call, false);
	enum oriel_algorithm algorithm;

	if (status != ORIEL_OK)
		return status;
	if (!count)
		return is_start ? ori_gather_start_nothing(g) : ORIEL_OK;
	algorithm = ori_gather_choose(g, ori_reduction_bytes(g, count));
	if (is_start)
		return g->shape.nodes == 1
			       ? ori_reduce_start(g, algorithm, root, send, count)
			       : ori_reduce_nodes_start(g, algorithm, root, send, count);
	status = g->shape.nodes == 1 ? ori_reduce_run(g, algorithm, root, send, count)
				     : ori_reduce_nodes_run(g, algorithm, root, send, count);
	/* Its text names both ranks and their values. */
	return status == ORIEL_ERR_MISMATCH ? status : ori_gather_end(g, status);
}

static enum oriel_status reduction_post(struct ori_gather *g, uint32_t root, const void *send,
					size_t count, void *stream, const char *call)
{
	enum oriel_status status = reduction_check(g, root, send, count, call, true);
	size_t bytes = ori_reduction_bytes(g, count);

	/* A rank of 0 bytes waits for no other: only this finds a peer that sends some. */
	if (status == ORIEL_OK)
		status = ori_gather_same(g, "bytes", bytes);
	if (status == ORIEL_OK && g->kind->number == ORI_REDUCE)
		status = ori_gather_same(g, "root", root);
	if (status != ORIEL_OK || !count)
		return status;
	status = g->internode
			 ? ori_reduce_internode(g, ori_gather_choose(g, bytes), root, send, count,
						stream)
			 : ori_reduce_stream(g, ori_gather_choose(g, bytes), send, count, stream);
	return ori_gather_end(g, status);
}

enum oriel_status ori_reduction_execute(const struct ori_gather_kind *kind, void *handle,
					uint32_t root, const void *send, size_t count,
					bool is_start, const char *call)
{
	enum oriel_status status = ori_handle_check(handle, kind->handle, call);

	return status == ORIEL_OK ? reduction_execute(handle, root, send, count, is_start, call)
				  : status;
}

enum oriel_status ori_reduction_execute_on_stream(const struct ori_gather_kind *kind, void *handle,
						  uint32_t root, const void *send, size_t count,
						  struct CUstream_st *stream, const char *call)
{
	enum oriel_status status = ori_handle_check(handle, kind->handle, call);

	return status == ORIEL_OK
		       ? reduction_post(handle, root, send, count, ori_gather_stream(stream), call)
		       : status;
}

enum oriel_status ori_reduction_query(const struct ori_gather_kind *kind, const void *handle,
				      size_t count, struct oriel_coll_info *info, const char *call)
{
	enum oriel_status status = ori_handle_check(handle, kind->handle, call);

	if (status != ORIEL_OK)
		return status;
	return ori_gather_query(kind, handle, ori_reduction_bytes(handle, count), info, call);
}

/* Reads the factor of this rank, so that it is part of what recognises an object. */
static void once_factor(struct ori_cached_call *call)
{
	const struct oriel_reduction *r = &call->reduction;

	if (r->factor)
		memcpy(&call->factor, r->factor,
		       oriel_type_size(oriel_type_accumulation((enum oriel_type)r->type,
							       (enum oriel_op)r->op)));
}

static enum oriel_status once_check(const struct ori_cached_call *call, const void *send)
{
	unsigned rank = oriel_comm_rank(call->comm);
	bool is_scatter = call->kind->number == ORI_REDUCE_SCATTER;
	size_t sent = is_scatter ? call->bytes * oriel_comm_size(call->comm) : call->bytes;

	if (is_scatter && send == call->recv)
		return ori_cached_check(call, send, sent, send);
	if (is_scatter && call->bytes && (const char *)send + rank * call->bytes == call->recv)
		return ORIEL_OK;
	if (call->kind->number == ORI_REDUCE && call->root != rank)
		return ori_cached_check(call, send, sent, send);
	return ori_cached_check(call, send, sent, call->recv);
}

/* Finds or creates the object of @call, after the arguments of the user are checked. */
static enum oriel_status once_begin(struct ori_cached_call *call, const void *send, size_t count,
				    const struct oriel_reduction *reduction)
{
	enum oriel_status status =
		ori_reduction_read(reduction, call->kind->name, &call->reduction);
	unsigned ranks = oriel_comm_size(call->comm);

	if (status == ORIEL_OK &&
	    (__builtin_mul_overflow(count, oriel_type_size((enum oriel_type)call->reduction.type),
				    &call->bytes) ||
	     call->bytes > SIZE_MAX / 4 / ranks))
		status = ori_fail(ORIEL_ERR_INVALID,
				  "%s: %zu elements of type %s exceed the address space",
				  call->kind->name, count,
				  oriel_type_name((enum oriel_type)call->reduction.type));
	if (status == ORIEL_OK)
		status = ori_cached_length(call, 1);
	if (status == ORIEL_OK)
		once_factor(call);
	if (status == ORIEL_OK)
		status = once_check(call, send);
	/* Only the root of a reduction to a root has a result. */
	call->is_without_result =
		call->kind->number == ORI_REDUCE && call->root != oriel_comm_rank(call->comm);
	return ori_cached_begin(call, status);
}

enum oriel_status ori_reduction_once(struct ori_cached_call *call, const void *send, size_t count,
				     const struct oriel_reduction *reduction, const char *name)
{
	enum oriel_status status = ori_handle_check(call->comm, ORI_HANDLE_COMM, name);

	if (status == ORIEL_OK)
		status = once_begin(call, send, count, reduction);
	if (status != ORIEL_OK || !call->object)
		return status;
	status = call->is_gpu
			 ? reduction_post(call->object, call->root, send, count, call->stream, name)
			 : reduction_execute(call->object, call->root, send, count, false, name);
	return ori_cached_end(call, status);
}
