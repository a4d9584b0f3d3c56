/* SPDX-License-Identifier: Apache-2.0 */
/* The all-gather of oriel/allgather.h: chooses what executes a call. Called by the user. */
#include "base/error.h"
#include "coll/gather_internode.h"
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
	enum oriel_status status = ori_gather_create(&allgather_kind, comm, view, attr,
						     gather ? &made : NULL, __func__);

	if (status == ORIEL_OK)
		*gather = made;
	return status;
}

enum oriel_status oriel_allgather_destroy(struct oriel_allgather *a)
{
	return ori_gather_destroy(&allgather_kind, a, __func__);
}

static enum oriel_status start_check(const struct ori_gather *g, const char *send, size_t bytes,
				     const void *stream)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)g->result;
	enum oriel_status status = ori_gather_check(g, stream);
	size_t all = bytes * g->device.ranks;

	if (status != ORIEL_OK)
		return status;
	if (atomic_load_explicit(&g->begun, memory_order_acquire) == ORIEL_AGAIN)
		return ori_fail(ORIEL_ERR_STATE, "%s: the execution that was begun has not ended",
				g->kind->name);
	if (bytes > g->bytes_max)
		return ori_fail(ORIEL_ERR_RANGE, "%s of %zu bytes of each rank, at most %zu",
				g->kind->name, bytes, g->bytes_max);
	/* In place: the message is this rank's part of the result already. */
	if (from == to + g->device.rank * bytes)
		return ORIEL_OK;
	if (from < to + all && to < from + bytes)
		return ori_fail(ORIEL_ERR_INVALID,
				"all-gather: the send buffer overlaps the result, and is not this "
				"rank's part of it");
	return ORIEL_OK;
}

static enum oriel_status start_any(struct ori_gather *g, enum oriel_algorithm algorithm,
				   const void *send, size_t bytes, void *stream)
{
	if (g->internode)
		return ori_internode_allgather(g, algorithm, send, bytes, stream);
	switch (algorithm) {
	case ORIEL_ALGORITHM_LL:
	case ORIEL_ALGORITHM_STORE:
		return ori_gather_mapped(g, algorithm, send, 0, bytes, stream);
	case ORIEL_ALGORITHM_CE:
		return ori_gather_engines(g, send, 0, bytes, stream);
	case ORIEL_ALGORITHM_DIRECT:
		return ori_gather_run(g, &g->plans[algorithm], send, bytes, bytes);
	default:
		return ori_gather_run(g, &g->plans[algorithm], send, bytes, g->chunk);
	}
}

enum oriel_status oriel_allgather_start(struct oriel_allgather *a, const void *send, size_t bytes,
					struct CUstream_st *stream)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLGATHER, __func__);
	enum oriel_algorithm algorithm;
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = start_check(g, send, bytes, stream);
	/* A rank of 0 bytes waits for no other: only this finds a peer that sends some. */
	if (status == ORIEL_OK && g->is_gpu)
		status = ori_gather_same(g, "bytes", bytes);
	else if (status == ORIEL_OK && bytes)
		status = ori_gather_publish(g, bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	algorithm = ori_gather_choose(g, bytes);
	status = ori_gather_end(g, start_any(g, algorithm, send, bytes, stream));
	if (status != ORIEL_OK || g->is_gpu)
		return status;
	return ori_gather_compare(g, algorithm == ORIEL_ALGORITHM_LL ||
						     algorithm == ORIEL_ALGORITHM_STORE
					     ? NULL
					     : &g->plans[algorithm]);
}

/*
 * LL and STORE wait in one place, which the thread of the communicator must not do, since it has
 * other jobs. The step of a plan returns where it would wait.
 */
enum oriel_status oriel_allgather_begin(struct oriel_allgather *a, const void *send, size_t bytes)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLGATHER, __func__);
	enum oriel_algorithm algorithm;
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	if (g->is_gpu)
		return ori_fail(ORIEL_ERR_INVALID,
				"%s of GPU memory: start it in a stream; begin is for host memory",
				g->kind->name);
	status = start_check(g, send, bytes, NULL);
	if (status == ORIEL_OK && bytes)
		status = ori_gather_publish(g, bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	algorithm = ori_gather_choose(g, bytes);
	if (algorithm != ORIEL_ALGORITHM_RING && algorithm != ORIEL_ALGORITHM_BRUCK)
		algorithm = ORIEL_ALGORITHM_DIRECT;
	return ori_gather_begin(g, &g->plans[algorithm], send, bytes, g->chunk);
}

enum oriel_status oriel_allgather_test(struct oriel_allgather *a)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLGATHER, __func__);

	if (status != ORIEL_OK)
		return status;
	status = (enum oriel_status)atomic_load_explicit(&a->gather.begun, memory_order_acquire);
	return status < 0 ? ori_gather_end(&a->gather, status) : status;
}

enum oriel_status oriel_allgather_wait(struct oriel_allgather *a)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLGATHER, __func__);

	if (status != ORIEL_OK)
		return status;
	ori_gather_await(&a->gather);
	return oriel_allgather_test(a);
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

static enum oriel_status once_create(struct oriel_comm *comm, const struct oriel_view *view,
				     void **object)
{
	struct oriel_allgather *a = NULL;
	enum oriel_status status = oriel_allgather_create(comm, view, NULL, &a);

	*object = a;
	return status;
}

static void once_destroy(void *object)
{
	oriel_allgather_destroy(object);
}

static const struct ori_cached_kind once_kind = {
	.name = "all-gather",
	.number = ORI_ALLGATHER,
	.create = once_create,
	.destroy = once_destroy,
};

static enum oriel_status once_check(const struct oriel_comm *comm, const char *send,
				    const char *recv, size_t bytes, size_t *length)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)recv;

	if (__builtin_mul_overflow(bytes, (size_t)oriel_comm_size(comm), length) ||
	    *length > SIZE_MAX / 4)
		return ori_fail(
			ORIEL_ERR_INVALID,
			"all-gather: %zu bytes of each of %u ranks exceed the address space", bytes,
			oriel_comm_size(comm));
	if (bytes && (!send || !recv))
		return ori_fail(ORIEL_ERR_INVALID, "all-gather: %s is NULL",
				send ? "recv" : "send");
	if (from != to + oriel_comm_rank(comm) * bytes && from < to + *length && to < from + bytes)
		return ori_fail(ORIEL_ERR_INVALID,
				"all-gather: the send buffer overlaps the result, and is not this "
				"rank's part of it");
	return ORIEL_OK;
}

enum oriel_status oriel_allgather_once(struct oriel_comm *comm, const void *send, void *recv,
				       size_t bytes, struct CUstream_st *stream)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_cached_call call = {
		.kind = &once_kind, .comm = comm, .recv = recv, .bytes = bytes, .stream = stream};

	if (status != ORIEL_OK)
		return status;
	status = ori_cached_begin(&call, once_check(comm, send, recv, bytes, &call.length));
	if (status != ORIEL_OK || !call.object)
		return status;
	return ori_cached_end(&call, oriel_allgather_start(call.object, send, bytes, stream));
}
