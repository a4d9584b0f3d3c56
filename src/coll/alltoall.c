/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The all-to-all of oriel/alltoall.h: an all-gather whose messages differ from rank to rank.
 * Called by the user.
 */
#include <oriel/alltoall.h>

#include "base/error.h"
#include "coll/gather_internode.h"

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
	enum oriel_status status = ori_gather_create(&alltoall_kind, comm, view, attr,
						     alltoall ? &made : NULL, __func__);

	if (status == ORIEL_OK)
		*alltoall = made;
	return status;
}

enum oriel_status oriel_alltoall_destroy(struct oriel_alltoall *a)
{
	return ori_gather_destroy(&alltoall_kind, a, __func__);
}

static enum oriel_status alltoall_check(const struct ori_gather *g, const char *send, size_t bytes,
					const void *stream)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)g->result;
	enum oriel_status status = ori_gather_check(g, stream);
	size_t all = bytes * g->device.ranks;

	if (status != ORIEL_OK)
		return status;
	if (bytes > g->bytes_max)
		return ori_fail(ORIEL_ERR_RANGE,
				"all-to-all of %zu bytes from each rank to each, at most %zu",
				bytes, g->bytes_max);
	if (from < to + all && to < from + all)
		return ori_fail(ORIEL_ERR_INVALID,
				"all-to-all: the send buffer overlaps the result");
	return ORIEL_OK;
}

enum oriel_status oriel_alltoall_start(struct oriel_alltoall *a, const void *send, size_t bytes,
				       struct CUstream_st *stream)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLTOALL, __func__);
	enum oriel_algorithm algorithm;
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = alltoall_check(g, send, bytes, stream);
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

enum oriel_status oriel_alltoall_start_v(struct oriel_alltoall *a, const void *send,
					 const struct oriel_dev_alltoallv *layout,
					 struct CUstream_st *stream)
{
	enum oriel_status status = ori_handle_check(a, ORI_HANDLE_ALLTOALL, __func__);
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &a->gather;
	status = ori_gather_check(g, stream);
	if (status != ORIEL_OK)
		return status;
	if (!layout)
		return ori_fail(ORIEL_ERR_INVALID, "all-to-all: layout is NULL");
	if (g->internode)
		status = ori_internode_alltoall(g, send, layout, 0, stream);
	else if (g->is_gpu)
		status = oriel_window_exchange_on_stream(g->window, &g->notes,
							 ori_gather_exchange_parts(g), send, layout,
							 stream);
	else
		status = oriel_dev_exchange(&g->device, oriel_dev_thread(), &g->notes, 0, 1, send,
					    layout, 0);
	return ori_gather_end(g, status);
}

enum oriel_status oriel_alltoall_query(const struct oriel_alltoall *a, size_t bytes,
				       struct oriel_coll_info *info)
{
	return ori_gather_query(&alltoall_kind, a, bytes, info, __func__);
}
