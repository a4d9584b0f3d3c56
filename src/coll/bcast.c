/* SPDX-License-Identifier: Apache-2.0 */
/* The broadcast of oriel/bcast.h: chooses what executes a call. Called by the user. */
#include <oriel/bcast.h>

#include "base/error.h"
#include "coll/gather_internode.h"
#include "coll/gather_job.h"
#include "coll/object_cache.h"

#define BCAST_HOST \
	(1u << ORIEL_ALGORITHM_DIRECT | 1u << ORIEL_ALGORITHM_RING | 1u << ORIEL_ALGORITHM_BRUCK)

static const struct ori_gather_kind bcast_kind = {
	.name = "broadcast",
	.number = ORI_BCAST,
	.handle = ORI_HANDLE_BCAST,
	.host = BCAST_HOST,
	.nodes = BCAST_HOST,
	.gpus = 1u << ORIEL_ALGORITHM_STORE | 1u << ORIEL_ALGORITHM_CE,
	.gpu_nodes = BCAST_HOST,
	.is_whole = true,
};

struct oriel_bcast {
	struct ori_gather gather;
};

enum oriel_status oriel_bcast_create(struct oriel_comm *comm, const struct oriel_view *view,
				     const struct oriel_coll_attr *attr, struct oriel_bcast **bcast)
{
	void *made = NULL;
	enum oriel_status status = ori_gather_create(&bcast_kind, comm, view, NULL, attr,
						     bcast ? &made : NULL, __func__);

	if (made)
		*bcast = made;
	return status;
}

enum oriel_status oriel_bcast_destroy(struct oriel_bcast *b)
{
	return ori_gather_destroy(&bcast_kind, b, __func__);
}

/* By copy engines. The first barrier is the credit of all views, the second one ends it. */
static enum oriel_status bcast_engines(struct ori_gather *g, unsigned root, const void *send,
				       size_t bytes, void *stream)
{
	enum oriel_status status = oriel_window_barrier_on_stream(g->window, 0, 0, stream);

	if (status == ORIEL_OK && root == g->device.rank)
		status = oriel_window_put_all_on_stream(g->window, oriel_at(ORI_GATHER_RESULT, 0),
							send, bytes, stream);
	return status == ORIEL_OK ? oriel_window_barrier_on_stream(g->window, 0, 0, stream)
				  : status;
}

static enum oriel_status bcast_check(const struct ori_gather *g, unsigned root, const void *send,
				     size_t bytes, const char *call, bool on_stream)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)g->result;
	enum oriel_status status = ori_gather_check(g, call, on_stream);

	if (status == ORIEL_OK)
		status = ori_gather_check_root(g->kind, root, g->device.ranks);
	if (status != ORIEL_OK)
		return status;
	if (bytes > g->bytes_max)
		return ori_fail(ORIEL_ERR_RANGE, "broadcast of %zu bytes, at most %zu", bytes,
				g->bytes_max);
	if (root == g->device.rank && bytes && !send)
		return ori_gather_null_send(g);
	if (root == g->device.rank && from != to && from < to + bytes && to < from + bytes)
		return ori_fail(ORIEL_ERR_INVALID,
				"broadcast: the send buffer overlaps the result, "
				"and is not the beginning of it");
	return ORIEL_OK;
}

static enum oriel_status bcast_same(struct ori_gather *g, unsigned root, size_t bytes)
{
	enum oriel_status status = ori_gather_same(g, "bytes", bytes);

	return status == ORIEL_OK ? ori_gather_same(g, "root", root) : status;
}

enum oriel_status oriel_bcast_run(struct oriel_bcast *b, unsigned root, const void *send,
				  size_t bytes)
{
	enum oriel_status status = ori_handle_check(b, ORI_HANDLE_BCAST, __func__);
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &b->gather;
	status = bcast_check(g, root, send, bytes, __func__, false);
	if (status == ORIEL_OK && bytes)
		status = bcast_same(g, root, bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	return ori_gather_end(g, ori_bcast_run(g, ori_gather_choose(g, bytes), root, send, bytes));
}

enum oriel_status oriel_bcast_run_on_stream(struct oriel_bcast *b, unsigned root, const void *send,
					    size_t bytes, struct CUstream_st *caller)
{
	enum oriel_status status = ori_handle_check(b, ORI_HANDLE_BCAST, __func__);
	void *stream = ori_gather_stream(caller);
	enum oriel_algorithm algorithm;
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &b->gather;
	status = bcast_check(g, root, send, bytes, __func__, true);
	if (status == ORIEL_OK && bytes)
		status = bcast_same(g, root, bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	algorithm = ori_gather_choose(g, bytes);
	if (g->internode)
		status = ori_internode_bcast(g, algorithm, root, send, bytes, stream);
	else if (algorithm == ORIEL_ALGORITHM_CE)
		status = bcast_engines(g, root, send, bytes, stream);
	else
		status = oriel_window_broadcast_on_stream(g->window, &g->puts,
							  ori_gather_turns(g, bytes), root, send,
							  bytes, stream);
	return ori_gather_end(g, status);
}

enum oriel_status oriel_bcast_start(struct oriel_bcast *b, unsigned root, const void *send,
				    size_t bytes)
{
	enum oriel_status status = ori_handle_check(b, ORI_HANDLE_BCAST, __func__);
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &b->gather;
	status = bcast_check(g, root, send, bytes, __func__, false);
	if (status != ORIEL_OK)
		return status;
	if (!bytes)
		return ori_gather_start_nothing(g);
	return ori_bcast_start(g, ori_gather_choose(g, bytes), root, send, bytes);
}

enum oriel_status oriel_bcast_test(struct oriel_bcast *b)
{
	return ori_gather_test(&bcast_kind, b, __func__);
}

enum oriel_status oriel_bcast_wait(struct oriel_bcast *b, uint64_t timeout_ns)
{
	return ori_gather_wait(&bcast_kind, b, timeout_ns, __func__);
}

enum oriel_status oriel_bcast_query(const struct oriel_bcast *b, size_t bytes,
				    struct oriel_coll_info *info)
{
	return ori_gather_query(&bcast_kind, b, bytes, info, __func__);
}

/* @call has all but the length and what ori_cached_begin() sets. */
static enum oriel_status once_begin(struct ori_cached_call *call, const void *send)
{
	bool is_root = call->root == oriel_comm_rank(call->comm);
	enum oriel_status status = ori_cached_length(call, 1);

	if (status == ORIEL_OK)
		status = ori_cached_check(call, send, is_root ? call->bytes : 0, call->recv);
	return ori_cached_begin(call, status);
}

enum oriel_status oriel_bcast_once(struct oriel_comm *comm, unsigned root, const void *send,
				   void *recv, size_t bytes)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_cached_call call = {
		.kind = &bcast_kind, .comm = comm, .recv = recv, .bytes = bytes, .root = root};

	if (status == ORIEL_OK)
		status = once_begin(&call, send);
	if (status != ORIEL_OK || !call.object)
		return status;
	return ori_cached_end(&call, oriel_bcast_run(call.object, root, send, bytes));
}

enum oriel_status oriel_bcast_once_on_stream(struct oriel_comm *comm, unsigned root,
					     const void *send, void *recv, size_t bytes,
					     struct CUstream_st *stream)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_cached_call call = {.kind = &bcast_kind,
				       .comm = comm,
				       .recv = recv,
				       .bytes = bytes,
				       .root = root,
				       .is_gpu = true,
				       .stream = ori_gather_stream(stream)};

	if (status == ORIEL_OK)
		status = once_begin(&call, send);
	if (status != ORIEL_OK || !call.object)
		return status;
	return ori_cached_end(&call,
			      oriel_bcast_run_on_stream(call.object, root, send, bytes, stream));
}
