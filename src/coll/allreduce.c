/* SPDX-License-Identifier: Apache-2.0 */
/* The all-reduce of oriel/allreduce.h. Called by the user. */
#include <oriel/allreduce.h>

#include "coll/object_cache.h"
#include "coll/reduction.h"

static const struct ori_gather_kind allreduce_kind = {
	.name = "all-reduce",
	.number = ORI_ALLREDUCE,
	.handle = ORI_HANDLE_ALLREDUCE,
	.host = 1u << ORIEL_ALGORITHM_ONE_SHOT | 1u << ORIEL_ALGORITHM_OWNER,
	.nodes = 1u << ORIEL_ALGORITHM_OWNER | 1u << ORIEL_ALGORITHM_HIERARCHICAL |
		 1u << ORIEL_ALGORITHM_RING | 1u << ORIEL_ALGORITHM_RECURSIVE,
	.gpus = 1u << ORIEL_ALGORITHM_LL | 1u << ORIEL_ALGORITHM_ONE_SHOT |
		1u << ORIEL_ALGORITHM_OWNER,
	.gpu_nodes = 1u << ORIEL_ALGORITHM_OWNER | 1u << ORIEL_ALGORITHM_HIERARCHICAL,
	.is_whole = true,
	.is_reduction = true,
};

struct oriel_allreduce {
	struct ori_gather gather;
};

enum oriel_status oriel_allreduce_create(struct oriel_comm *comm, const struct oriel_view *view,
					 const struct oriel_reduction *reduction,
					 const struct oriel_coll_attr *attr,
					 struct oriel_allreduce **out)
{
	void *made = NULL;
	enum oriel_status status = ori_gather_create(&allreduce_kind, comm, view, reduction, attr,
						     out ? &made : NULL, __func__);

	if (made)
		*out = made;
	return status;
}

enum oriel_status oriel_allreduce_destroy(struct oriel_allreduce *r)
{
	return ori_gather_destroy(&allreduce_kind, r, __func__);
}

enum oriel_status oriel_allreduce_run(struct oriel_allreduce *r, const void *send, size_t count)
{
	return ori_reduction_execute(&allreduce_kind, r, 0, send, count, false, __func__);
}

enum oriel_status oriel_allreduce_start(struct oriel_allreduce *r, const void *send, size_t count)
{
	return ori_reduction_execute(&allreduce_kind, r, 0, send, count, true, __func__);
}

enum oriel_status oriel_allreduce_run_on_stream(struct oriel_allreduce *r, const void *send,
						size_t count, struct CUstream_st *stream)
{
	return ori_reduction_execute_on_stream(&allreduce_kind, r, 0, send, count, stream,
					       __func__);
}

enum oriel_status oriel_allreduce_test(struct oriel_allreduce *r)
{
	return ori_gather_test(&allreduce_kind, r, __func__);
}

enum oriel_status oriel_allreduce_wait(struct oriel_allreduce *r, uint64_t timeout_ns)
{
	return ori_gather_wait(&allreduce_kind, r, timeout_ns, __func__);
}

enum oriel_status oriel_allreduce_query(const struct oriel_allreduce *r, size_t count,
					struct oriel_coll_info *info)
{
	return ori_reduction_query(&allreduce_kind, r, count, info, __func__);
}

enum oriel_status oriel_allreduce_once(struct oriel_comm *comm, const void *send, void *recv,
				       size_t count, const struct oriel_reduction *reduction)
{
	struct ori_cached_call call = {.kind = &allreduce_kind, .comm = comm, .recv = recv};

	return ori_reduction_once(&call, send, count, reduction, __func__);
}

enum oriel_status oriel_allreduce_once_on_stream(struct oriel_comm *comm, const void *send,
						 void *recv, size_t count,
						 const struct oriel_reduction *reduction,
						 struct CUstream_st *stream)
{
	struct ori_cached_call call = {.kind = &allreduce_kind,
				       .comm = comm,
				       .recv = recv,
				       .is_gpu = true,
				       .stream = ori_gather_stream(stream)};

	return ori_reduction_once(&call, send, count, reduction, __func__);
}
