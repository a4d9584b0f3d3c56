/* SPDX-License-Identifier: Apache-2.0 */
/* The reduction to a root of oriel/reduce_root.h. Called by the user. */
#include <oriel/reduce_root.h>

#include "coll/object_cache.h"
#include "coll/reduction.h"

static const struct ori_gather_kind reduce_kind = {
	.name = "reduce",
	.number = ORI_REDUCE,
	.handle = ORI_HANDLE_REDUCE,
	.host = 1u << ORIEL_ALGORITHM_ONE_SHOT | 1u << ORIEL_ALGORITHM_OWNER,
	.nodes = 1u << ORIEL_ALGORITHM_OWNER | 1u << ORIEL_ALGORITHM_HIERARCHICAL,
	.gpus = 1u << ORIEL_ALGORITHM_OWNER,
	.gpu_nodes = 1u << ORIEL_ALGORITHM_OWNER | 1u << ORIEL_ALGORITHM_HIERARCHICAL,
	.is_whole = true,
	.has_jobs = true,
	.is_reduction = true,
};

struct oriel_reduce {
	struct ori_gather gather;
};

enum oriel_status oriel_reduce_create(struct oriel_comm *comm, const struct oriel_view *view,
				      const struct oriel_reduction *reduction,
				      const struct oriel_coll_attr *attr, struct oriel_reduce **out)
{
	void *made = NULL;
	enum oriel_status status = ori_gather_create(&reduce_kind, comm, view, reduction, attr,
						     out ? &made : NULL, __func__);

	if (made)
		*out = made;
	return status;
}

enum oriel_status oriel_reduce_destroy(struct oriel_reduce *r)
{
	return ori_gather_destroy(&reduce_kind, r, __func__);
}

enum oriel_status oriel_reduce_run(struct oriel_reduce *r, unsigned root, const void *send,
				   size_t count)
{
	return ori_reduction_execute(&reduce_kind, r, root, send, count, false, __func__);
}

enum oriel_status oriel_reduce_start(struct oriel_reduce *r, unsigned root, const void *send,
				     size_t count)
{
	return ori_reduction_execute(&reduce_kind, r, root, send, count, true, __func__);
}

enum oriel_status oriel_reduce_run_on_stream(struct oriel_reduce *r, unsigned root,
					     const void *send, size_t count,
					     struct CUstream_st *stream)
{
	return ori_reduction_execute_on_stream(&reduce_kind, r, root, send, count, stream,
					       __func__);
}

enum oriel_status oriel_reduce_test(struct oriel_reduce *r)
{
	return ori_gather_test(&reduce_kind, r, __func__);
}

enum oriel_status oriel_reduce_wait(struct oriel_reduce *r, uint64_t timeout_ns)
{
	return ori_gather_wait(&reduce_kind, r, timeout_ns, __func__);
}

enum oriel_status oriel_reduce_query(const struct oriel_reduce *r, size_t count,
				     struct oriel_coll_info *info)
{
	return ori_reduction_query(&reduce_kind, r, count, info, __func__);
}

enum oriel_status oriel_reduce_once(struct oriel_comm *comm, unsigned root, const void *send,
				    void *recv, size_t count,
				    const struct oriel_reduction *reduction)
{
	struct ori_cached_call call = {.kind = &reduce_kind,
				       .comm = comm,
				       .recv = recv,
				       .root = root};

	return ori_reduction_once(&call, send, count, reduction, __func__);
}

enum oriel_status oriel_reduce_once_on_stream(struct oriel_comm *comm, unsigned root,
					      const void *send, void *recv, size_t count,
					      const struct oriel_reduction *reduction,
					      struct CUstream_st *stream)
{
	struct ori_cached_call call = {.kind = &reduce_kind,
				       .comm = comm,
				       .recv = recv,
				       .root = root,
				       .is_gpu = true,
				       .stream = ori_gather_stream(stream)};

	return ori_reduction_once(&call, send, count, reduction, __func__);
}
