/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The all-to-all of oriel/alltoall.h: an all-gather whose messages differ from rank to rank.
 * Called by the user.
 */
#include <oriel/alltoall.h>

#include "base/error.h"
#include "coll/gather_internode.h"
#include "coll/gather_job.h"
#include "coll/object_cache.h"

#define ALLTOALL_MAPPED (1u << ORIEL_ALGORITHM_LL | 1u << ORIEL_ALGORITHM_STORE)

static const struct ori_gather_kind alltoall_kind = {
	.name = "all-to-all",
	.number = ORI_ALLTOALL,
	.handle = ORI_HANDLE_ALLTOALL,
	.host = ALLTOALL_MAPPED | 1u << ORIEL_ALGORITHM_DIRECT,
	.nodes = 1u << ORIEL_ALGORITHM_DIRECT,
	.gpus = ALLTOALL_MAPPED | 1u << ORIEL_ALGORITHM_CE,
	.gpu_nodes = 1u << ORIEL_ALGORITHM_DIRECT,
	.has_notes = true,
};

struct oriel_alltoall {
	struct ori_gather gather;
};

enum oriel_status oriel_alltoall_create(struct oriel_comm *comm, const struct oriel_view *view,
					const struct oriel_coll_attr *attr,
					struct oriel_alltoall **alltoall)
{
	void *made = NULL;
	enum oriel_status status = ori_gather_create(&alltoall_kind, comm, view, NULL, attr,
						     alltoall ? &made : NULL, __func__);

	if (made)
		*alltoall = made;
	return status;
}

enum oriel_status oriel_alltoall_destroy(struct oriel_alltoall *a)
{
	return ori_gather_destroy(&alltoall_kind, a, __func__);
}

static enum oriel_status alltoall_check(const struct ori_gather *g, const char *send, size_t bytes,
					const char *call, bool on_stream)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)g->result;
	enum oriel_status status = ori_gather_check(g, call, on_stream);
	size_t all = bytes * g->device.ranks;

	if (status != ORIEL_OK)
		return status;
	if (bytes > g->bytes_max)
		return ori_fail(ORIEL_ERR_RANGE,
				"all-to-all of %zu bytes from each rank to each, at most %zu",
				bytes, g->bytes_max);
	if (bytes && !send)
		return ori_gather_null_send(g);
	if (from < to + all && to < from + all)
		return ori_fail(ORIEL_ERR_INVALID,
				"all-to-all: the send buffer overlaps the result");
	return ORIEL_OK;
}

static enum oriel_status alltoall_check_v(const struct ori_gather *g, const char *send,
					  const struct oriel_dev_alltoallv *layout,
					  const char *call, bool on_stream)
{
	enum oriel_status status = ori_gather_check(g, call, on_stream);
	uint32_t rank;

	if (status == ORIEL_OK && !layout)
		return ori_fail(ORIEL_ERR_INVALID, "all-to-all: layout is NULL");
	/* A layout in GPU memory cannot be read here. */
	for (rank = 0; status == ORIEL_OK && !send && !g->is_gpu && rank < g->device.ranks; rank++)
		if (layout[rank].send_length)
			status = ori_gather_null_send(g);
	return status;
}

enum oriel_status oriel_alltoall_run(struct oriel_alltoall *a, const void *send, size_t bytes)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLTOALL, __func__);
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = alltoall_check(g, send, bytes, __func__, false);
	if (status == ORIEL_OK && bytes)
		status = ori_gather_same(g, "bytes", bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	return ori_gather_end(g, ori_gather_mapped(g, ori_gather_choose(g, bytes), send, bytes,
						   bytes, NULL));
}

enum oriel_status oriel_alltoall_run_on_stream(struct oriel_alltoall *a, const void *send,
					       size_t bytes, struct CUstream_st *caller)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLTOALL, __func__);
	void *stream = ori_gather_stream(caller);
	enum oriel_algorithm algorithm;
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = alltoall_check(g, send, bytes, __func__, true);
	if (status == ORIEL_OK && bytes)
		status = ori_gather_same(g, "bytes", bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	algorithm = ori_gather_choose(g, bytes);
	if (g->internode)
		status = ori_internode_alltoall(g, send, NULL, bytes, stream);
	else if (algorithm == ORIEL_ALGORITHM_CE)
		status = ori_gather_engines(g, send, bytes, bytes, stream);
	else
		status = ori_gather_mapped(g, algorithm, send, bytes, bytes, stream);
	return ori_gather_end(g, status);
}

/* The plan DIRECT, whose step returns where lines and stores would wait. */
enum oriel_status oriel_alltoall_start(struct oriel_alltoall *a, const void *send, size_t bytes)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLTOALL, __func__);
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = alltoall_check(g, send, bytes, __func__, false);
	if (status != ORIEL_OK)
		return status;
	if (!bytes)
		return ori_gather_start_nothing(g);
	return ori_gather_start(g, &g->plans[ORIEL_ALGORITHM_DIRECT], send, bytes, bytes);
}

enum oriel_status oriel_alltoall_run_v(struct oriel_alltoall *a, const void *send,
				       const struct oriel_dev_alltoallv *layout)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLTOALL, __func__);
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = alltoall_check_v(g, send, layout, __func__, false);
	if (status != ORIEL_OK)
		return status;
	return ori_gather_end(g, oriel_dev_exchange(&g->device, oriel_dev_thread(), &g->notes, 0, 1,
						    send, layout, 0));
}

enum oriel_status oriel_alltoall_run_v_on_stream(struct oriel_alltoall *a, const void *send,
						 const struct oriel_dev_alltoallv *layout,
						 struct CUstream_st *caller)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLTOALL, __func__);
	void *stream = ori_gather_stream(caller);
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = alltoall_check_v(g, send, layout, __func__, true);
	if (status != ORIEL_OK)
		return status;
	if (g->internode)
		status = ori_internode_alltoall(g, send, layout, 0, stream);
	else
		status = oriel_window_exchange_on_stream(g->window, &g->notes,
							 ori_gather_exchange_parts(g), send, layout,
							 stream);
	return ori_gather_end(g, status);
}

enum oriel_status oriel_alltoall_start_v(struct oriel_alltoall *a, const void *send,
					 const struct oriel_dev_alltoallv *layout)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLTOALL, __func__);

	if (status == ORIEL_OK)
		status = alltoall_check_v(&a->gather, send, layout, __func__, false);
	return status == ORIEL_OK ? ori_exchange_start(&a->gather, send, layout) : status;
}

enum oriel_status oriel_alltoall_test(struct oriel_alltoall *a)
{
	return ori_gather_test(&alltoall_kind, a, __func__);
}

enum oriel_status oriel_alltoall_wait(struct oriel_alltoall *a, uint64_t timeout_ns)
{
	return ori_gather_wait(&alltoall_kind, a, timeout_ns, __func__);
}

enum oriel_status oriel_alltoall_query(const struct oriel_alltoall *a, size_t bytes,
				       struct oriel_coll_info *info)
{
	return ori_gather_query(&alltoall_kind, a, bytes, info, __func__);
}

/* @call has all but the length and what ori_cached_begin() sets. */
static enum oriel_status once_begin(struct ori_cached_call *call, const void *send)
{
	enum oriel_status status = ori_cached_length(call, oriel_comm_size(call->comm));

	if (status == ORIEL_OK)
		status = ori_cached_check(call, send, call->length, NULL);
	return ori_cached_begin(call, status);
}

enum oriel_status oriel_alltoall_once(struct oriel_comm *comm, const void *send, void *recv,
				      size_t bytes)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_cached_call call = {.kind = &alltoall_kind,
				       .comm = comm,
				       .recv = recv,
				       .bytes = bytes};

	if (status == ORIEL_OK)
		status = once_begin(&call, send);
	if (status != ORIEL_OK || !call.object)
		return status;
	return ori_cached_end(&call, oriel_alltoall_run(call.object, send, bytes));
}

enum oriel_status oriel_alltoall_once_on_stream(struct oriel_comm *comm, const void *send,
						void *recv, size_t bytes,
						struct CUstream_st *stream)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_cached_call call = {.kind = &alltoall_kind,
				       .comm = comm,
				       .recv = recv,
				       .bytes = bytes,
				       .is_gpu = true,
				       .stream = ori_gather_stream(stream)};

	if (status == ORIEL_OK)
		status = once_begin(&call, send);
	if (status != ORIEL_OK || !call.object)
		return status;
	return ori_cached_end(&call,
			      oriel_alltoall_run_on_stream(call.object, send, bytes, stream));
}
