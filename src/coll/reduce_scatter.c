/* SPDX-License-Identifier: Apache-2.0 */
/* The reduce-scatter of oriel/reduce_scatter.h. Called by the user. */
#include <oriel/reduce_scatter.h>

#include "coll/object_cache.h"
#include "coll/reduction.h"

static const struct ori_gather_kind reduce_scatter_kind = {
	.name = "reduce-scatter",
	.number = ORI_REDUCE_SCATTER,
	.handle = ORI_HANDLE_REDUCE_SCATTER,
	.host = 1u << ORIEL_ALGORITHM_OWNER,
	.nodes = 1u << ORIEL_ALGORITHM_OWNER | 1u << ORIEL_ALGORITHM_HIERARCHICAL,
	.gpus = 1u << ORIEL_ALGORITHM_LL | 1u << ORIEL_ALGORITHM_OWNER,
	.gpu_nodes = 1u << ORIEL_ALGORITHM_OWNER | 1u << ORIEL_ALGORITHM_HIERARCHICAL,
	.is_whole = true,
	.is_reduction = true,
};

struct oriel_reduce_scatter {
	struct ori_gather gather;
};

enum oriel_status oriel_reduce_scatter_create(struct oriel_comm *comm,
					      const struct oriel_view *view,
					      const struct oriel_reduction *reduction,
					      const struct oriel_coll_attr *attr,
					      struct oriel_reduce_scatter **out)
{
	void *made = NULL;
	enum oriel_status status = ori_gather_create(&reduce_scatter_kind, comm, view, reduction,
						     attr, out ? &made : NULL, __func__);

	if (made)
		*out = made;
	return status;
}

enum oriel_status oriel_reduce_scatter_destroy(struct oriel_reduce_scatter *r)
{
	return ori_gather_destroy(&reduce_scatter_kind, r, __func__);
}

enum oriel_status oriel_reduce_scatter_run(struct oriel_reduce_scatter *r, const void *send,
					   size_t count)
{
	return ori_reduction_execute(&reduce_scatter_kind, r, 0, send, count, false, __func__);
}

enum oriel_status oriel_reduce_scatter_start(struct oriel_reduce_scatter *r, const void *send,
					     size_t count)
{
	return ori_reduction_execute(&reduce_scatter_kind, r, 0, send, count, true, __func__);
}

enum oriel_status oriel_reduce_scatter_run_on_stream(struct oriel_reduce_scatter *r,
						     const void *send, size_t count,
						     struct CUstream_st *stream)
{
	return ori_reduction_execute_on_stream(&reduce_scatter_kind, r, 0, send, count, stream,
					       __func__);
}

enum oriel_status oriel_reduce_scatter_test(struct oriel_reduce_scatter *r)
{
	return ori_gather_test(&reduce_scatter_kind, r, __func__);
}

enum oriel_status oriel_reduce_scatter_wait(struct oriel_reduce_scatter *r, uint64_t timeout_ns)
{
	return ori_gather_wait(&reduce_scatter_kind, r, timeout_ns, __func__);
}

enum oriel_status oriel_reduce_scatter_query(const struct oriel_reduce_scatter *r, size_t count,
					     struct oriel_coll_info *info)
{
	return ori_reduction_query(&reduce_scatter_kind, r, count, info, __func__);
}

enum oriel_status oriel_reduce_scatter_once(struct oriel_comm *comm, const void *send, void *recv,
					    size_t count, const struct oriel_reduction *reduction)
{
	struct ori_cached_call call = {.kind = &reduce_scatter_kind, .comm = comm, .recv = recv};

	return ori_reduction_once(&call, send, count, reduction, __func__);
}

enum oriel_status oriel_reduce_scatter_once_on_stream(struct oriel_comm *comm, const void *send,
						      void *recv, size_t count,
						      const struct oriel_reduction *reduction,
						      struct CUstream_st *stream)
{
	struct ori_cached_call call = {.kind = &reduce_scatter_kind,
				       .comm = comm,
				       .recv = recv,
				       .is_gpu = true,
				       .stream = ori_gather_stream(stream)};

	return ori_reduction_once(&call, send, count, reduction, __func__);
}
