/* SPDX-License-Identifier: Apache-2.0 */
/* The scatter of oriel/gather_scatter.h. Called by the user. */
#include <oriel/gather_scatter.h>

#include "coll/root_run.h"

static const struct ori_gather_kind scatter_kind = {
	.name = "scatter",
	.number = ORI_SCATTER,
	.handle = ORI_HANDLE_SCATTER,
	.host = 1u << ORIEL_ALGORITHM_DIRECT,
	.nodes = 1u << ORIEL_ALGORITHM_DIRECT,
	.gpus = 1u << ORIEL_ALGORITHM_DIRECT,
	.gpu_nodes = 1u << ORIEL_ALGORITHM_DIRECT,
	.is_whole = true,
	.has_jobs = true,
};

struct oriel_scatter {
	struct ori_gather gather;
};

enum oriel_status oriel_scatter_create(struct oriel_comm *comm, const struct oriel_view *view,
				       const struct oriel_coll_attr *attr,
				       struct oriel_scatter **out)
{
	void *made = NULL;
	enum oriel_status status = ori_gather_create(&scatter_kind, comm, view, NULL, attr,
						     out ? &made : NULL, __func__);

	if (made)
		*out = made;
	return status;
}

enum oriel_status oriel_scatter_destroy(struct oriel_scatter *r)
{
	return ori_gather_destroy(&scatter_kind, r, __func__);
}

enum oriel_status oriel_scatter_run(struct oriel_scatter *r, unsigned root, const void *send,
				    size_t bytes)
{
	return ori_root_execute(&scatter_kind, r, root, send, bytes, false, __func__);
}

enum oriel_status oriel_scatter_start(struct oriel_scatter *r, unsigned root, const void *send,
				      size_t bytes)
{
	return ori_root_execute(&scatter_kind, r, root, send, bytes, true, __func__);
}

enum oriel_status oriel_scatter_run_on_stream(struct oriel_scatter *r, unsigned root,
					      const void *send, size_t bytes,
					      struct CUstream_st *stream)
{
	return ori_root_execute_on_stream(&scatter_kind, r, root, send, bytes, stream, __func__);
}

enum oriel_status oriel_scatter_test(struct oriel_scatter *r)
{
	return ori_gather_test(&scatter_kind, r, __func__);
}

enum oriel_status oriel_scatter_wait(struct oriel_scatter *r, uint64_t timeout_ns)
{
	return ori_gather_wait(&scatter_kind, r, timeout_ns, __func__);
}

enum oriel_status oriel_scatter_query(const struct oriel_scatter *r, size_t bytes,
				      struct oriel_coll_info *info)
{
	return ori_gather_query(&scatter_kind, r, bytes, info, __func__);
}

/* @call has all but the length and what ori_cached_begin() sets. The root alone has messages. */
static enum oriel_status once_begin(struct ori_cached_call *call, const void *send)
{
	unsigned ranks = oriel_comm_size(call->comm);
	bool is_root = call->root == oriel_comm_rank(call->comm);
	enum oriel_status status = ori_cached_length(call, ranks);

	call->length = call->bytes;
	if (status == ORIEL_OK && is_root && send && call->recv &&
	    (const char *)send + call->root * call->bytes == call->recv)
		return ori_cached_begin(call, status);
	if (status == ORIEL_OK)
		status = ori_cached_check(call, send, is_root ? call->bytes * ranks : 0, NULL);
	return ori_cached_begin(call, status);
}

enum oriel_status oriel_scatter_once(struct oriel_comm *comm, unsigned root, const void *send,
				     void *recv, size_t bytes)
{
	struct ori_cached_call call = {
		.kind = &scatter_kind, .comm = comm, .recv = recv, .bytes = bytes, .root = root};

	return ori_root_once(&call, once_begin, send, __func__);
}

enum oriel_status oriel_scatter_once_on_stream(struct oriel_comm *comm, unsigned root,
					       const void *send, void *recv, size_t bytes,
					       struct CUstream_st *stream)
{
	struct ori_cached_call call = {.kind = &scatter_kind,
				       .comm = comm,
				       .recv = recv,
				       .bytes = bytes,
				       .root = root,
				       .is_gpu = true,
				       .stream = ori_gather_stream(stream)};

	return ori_root_once(&call, once_begin, send, __func__);
}
