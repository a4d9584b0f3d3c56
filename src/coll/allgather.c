/* SPDX-License-Identifier: Apache-2.0 */
/* The all-gather of oriel/allgather.h: chooses what executes a call. Called by the user. */
#include <oriel/allgather.h>

#include "base/error.h"
#include "coll/gather_internode.h"
#include "coll/gather_job.h"
#include "coll/object_cache.h"

#define ALLGATHER_BIT(name) (1u << ORIEL_ALGORITHM_##name)
#define ALLGATHER_BY_PLAN (ALLGATHER_BIT(DIRECT) | ALLGATHER_BIT(RING) | ALLGATHER_BIT(BRUCK))
#define ALLGATHER_MAPPED (ALLGATHER_BIT(LL) | ALLGATHER_BIT(STORE))

static const struct ori_gather_kind allgather_kind = {
	.name = "all-gather",
	.number = ORI_ALLGATHER,
	.handle = ORI_HANDLE_ALLGATHER,
	.host = ALLGATHER_MAPPED | ALLGATHER_BY_PLAN,
	.nodes = ALLGATHER_BY_PLAN,
	.gpus = ALLGATHER_MAPPED | ALLGATHER_BIT(CE),
	.gpu_nodes = ALLGATHER_BY_PLAN,
};

struct oriel_allgather {
	struct ori_gather gather;
};

enum oriel_status oriel_allgather_create(struct oriel_comm *comm, const struct oriel_view *view,
					 const struct oriel_coll_attr *attr,
					 struct oriel_allgather **gather)
{
	void *made = NULL;
	enum oriel_status status = ori_gather_create(&allgather_kind, comm, view, NULL, attr,
						     gather ? &made : NULL, __func__);

	if (made)
		*gather = made;
	return status;
}

enum oriel_status oriel_allgather_destroy(struct oriel_allgather *a)
{
	return ori_gather_destroy(&allgather_kind, a, __func__);
}

static enum oriel_status allgather_check(const struct ori_gather *g, const char *send, size_t bytes,
					 const char *call, bool on_stream)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)g->result;
	enum oriel_status status = ori_gather_check(g, call, on_stream);
	size_t all = bytes * g->device.ranks;

	if (status != ORIEL_OK)
		return status;
	if (bytes > g->bytes_max)
		return ori_fail(ORIEL_ERR_RANGE, "%s of %zu bytes of each rank, at most %zu",
				g->kind->name, bytes, g->bytes_max);
	if (bytes && !send)
		return ori_gather_null_send(g);
	/* In place: the message is this rank's part of the result already. */
	if (from == to + g->device.rank * bytes)
		return ORIEL_OK;
	if (from < to + all && to < from + bytes)
		return ori_fail(ORIEL_ERR_INVALID,
				"all-gather: the send buffer overlaps the result, and is not this "
				"rank's part of it");
	return ORIEL_OK;
}

static enum oriel_status allgather_host(struct ori_gather *g, enum oriel_algorithm algorithm,
					const void *send, size_t bytes)
{
	switch (algorithm) {
	case ORIEL_ALGORITHM_LL:
	case ORIEL_ALGORITHM_STORE:
		return ori_gather_mapped(g, algorithm, send, 0, bytes, NULL);
	case ORIEL_ALGORITHM_DIRECT:
		return ori_gather_run(g, &g->plans[algorithm], send, bytes, bytes);
	default:
		return ori_gather_run(g, &g->plans[algorithm], send, bytes, g->chunk);
	}
}

enum oriel_status oriel_allgather_run(struct oriel_allgather *a, const void *send, size_t bytes)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLGATHER, __func__);
	enum oriel_algorithm algorithm;
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = allgather_check(g, send, bytes, __func__, false);
	if (status == ORIEL_OK && bytes)
		status = ori_gather_publish(g, bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	algorithm = ori_gather_choose(g, bytes);
	status = ori_gather_end(g, allgather_host(g, algorithm, send, bytes));
	if (status != ORIEL_OK)
		return status;
	return ori_gather_compare(g, algorithm == ORIEL_ALGORITHM_LL ||
						     algorithm == ORIEL_ALGORITHM_STORE
					     ? NULL
					     : &g->plans[algorithm]);
}

enum oriel_status oriel_allgather_run_on_stream(struct oriel_allgather *a, const void *send,
						size_t bytes, struct CUstream_st *caller)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLGATHER, __func__);
	void *stream = ori_gather_stream(caller);
	enum oriel_algorithm algorithm;
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = allgather_check(g, send, bytes, __func__, true);
	/* A rank of 0 bytes waits for no other: only this finds a peer that sends some. */
	if (status == ORIEL_OK)
		status = ori_gather_same(g, "bytes", bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	algorithm = ori_gather_choose(g, bytes);
	if (g->internode)
		status = ori_internode_allgather(g, algorithm, send, bytes, stream);
	else if (algorithm == ORIEL_ALGORITHM_CE)
		status = ori_gather_engines(g, send, 0, bytes, stream);
	else
		status = ori_gather_mapped(g, algorithm, send, 0, bytes, stream);
	return ori_gather_end(g, status);
}

/*
 * LL and STORE wait in one place, which the thread of the communicator must not do, since it has
 * other jobs. The step of a plan returns where it would wait.
 */
enum oriel_status oriel_allgather_start(struct oriel_allgather *a, const void *send, size_t bytes)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLGATHER, __func__);
	enum oriel_algorithm algorithm;
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = allgather_check(g, send, bytes, __func__, false);
	if (status == ORIEL_OK && bytes)
		status = ori_gather_publish(g, bytes);
	if (status != ORIEL_OK)
		return status;
	if (!bytes)
		return ori_gather_start_nothing(g);
	algorithm = ori_gather_choose(g, bytes);
	if (algorithm != ORIEL_ALGORITHM_RING && algorithm != ORIEL_ALGORITHM_BRUCK)
		algorithm = ORIEL_ALGORITHM_DIRECT;
	return ori_gather_start(g, &g->plans[algorithm], send, 0, bytes);
}

enum oriel_status oriel_allgather_test(struct oriel_allgather *a)
{
	return ori_gather_test(&allgather_kind, a, __func__);
}

enum oriel_status oriel_allgather_wait(struct oriel_allgather *a, uint64_t timeout_ns)
{
	return ori_gather_wait(&allgather_kind, a, timeout_ns, __func__);
}

enum oriel_status oriel_allgather_query(const struct oriel_allgather *a, size_t bytes,
					struct oriel_coll_info *info)
{
	return ori_gather_query(&allgather_kind, a, bytes, info, __func__);
}

enum oriel_status oriel_allgather_check(struct oriel_comm *comm, const struct oriel_view *view,
					const struct oriel_coll_attr *attr, size_t bytes,
					struct oriel_coll_info *info)
{
	return ori_gather_try(&allgather_kind, comm, view, attr, bytes, info, __func__);
}

/* @call has all but the length and what ori_cached_begin() sets. */
static enum oriel_status once_begin(struct ori_cached_call *call, const void *send)
{
	unsigned ranks = oriel_comm_size(call->comm);
	enum oriel_status status = ori_cached_length(call, ranks);
	const char *own = (char *)call->recv + oriel_comm_rank(call->comm) * call->bytes;

	if (status == ORIEL_OK)
		status = ori_cached_check(call, send, call->bytes, own);
	return ori_cached_begin(call, status);
}

enum oriel_status oriel_allgather_once(struct oriel_comm *comm, const void *send, void *recv,
				       size_t bytes)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_cached_call call = {.kind = &allgather_kind,
				       .comm = comm,
				       .recv = recv,
				       .bytes = bytes};

	if (status == ORIEL_OK)
		status = once_begin(&call, send);
	if (status != ORIEL_OK || !call.object)
		return status;
	return ori_cached_end(&call, oriel_allgather_run(call.object, send, bytes));
}

enum oriel_status oriel_allgather_once_on_stream(struct oriel_comm *comm, const void *send,
						 void *recv, size_t bytes,
						 struct CUstream_st *stream)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_cached_call call = {.kind = &allgather_kind,
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
			      oriel_allgather_run_on_stream(call.object, send, bytes, stream));
}
