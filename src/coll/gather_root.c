/* SPDX-License-Identifier: Apache-2.0 */
/* The gather of oriel/gather_scatter.h. Called by the user. */
#include <oriel/gather_scatter.h>

#include "base/error.h"
#include "coll/root_run.h"

static const struct ori_gather_kind gather_kind = {
	.name = "gather",
	.number = ORI_GATHER,
	.handle = ORI_HANDLE_GATHER,
	.host = 1u << ORIEL_ALGORITHM_DIRECT,
	.nodes = 1u << ORIEL_ALGORITHM_DIRECT,
	.gpus = 1u << ORIEL_ALGORITHM_DIRECT,
	.gpu_nodes = 1u << ORIEL_ALGORITHM_DIRECT,
	.has_jobs = true,
};

struct oriel_gather {
	struct ori_gather gather;
};

enum oriel_status oriel_gather_create(struct oriel_comm *comm, const struct oriel_view *view,
				      const struct oriel_coll_attr *attr, struct oriel_gather **out)
{
	void *made = NULL;
	enum oriel_status status = ori_gather_create(&gather_kind, comm, view, NULL, attr,
						     out ? &made : NULL, __func__);

	if (made)
		*out = made;
	return status;
}

enum oriel_status oriel_gather_destroy(struct oriel_gather *r)
{
	return ori_gather_destroy(&gather_kind, r, __func__);
}

enum oriel_status oriel_gather_run(struct oriel_gather *r, unsigned root, const void *send,
				   size_t bytes)
{
	return ori_root_execute(&gather_kind, r, root, send, bytes, false, __func__);
}

enum oriel_status oriel_gather_start(struct oriel_gather *r, unsigned root, const void *send,
				     size_t bytes)
{
	return ori_root_execute(&gather_kind, r, root, send, bytes, true, __func__);
}

enum oriel_status oriel_gather_run_on_stream(struct oriel_gather *r, unsigned root,
					     const void *send, size_t bytes,
					     struct CUstream_st *stream)
{
	return ori_root_execute_on_stream(&gather_kind, r, root, send, bytes, stream, __func__);
}

enum oriel_status oriel_gather_test(struct oriel_gather *r)
{
	return ori_gather_test(&gather_kind, r, __func__);
}

enum oriel_status oriel_gather_wait(struct oriel_gather *r, uint64_t timeout_ns)
{
	return ori_gather_wait(&gather_kind, r, timeout_ns, __func__);
}

enum oriel_status oriel_gather_query(const struct oriel_gather *r, size_t bytes,
				     struct oriel_coll_info *info)
{
	return ori_gather_query(&gather_kind, r, bytes, info, __func__);
}

/*
 * @call has all but the length and what ori_cached_begin() sets. The root alone has a result; the
 * object of a stream has a view on each rank.
 */
static enum oriel_status once_begin(struct ori_cached_call *call, const void *send)
{
	enum oriel_status status = ori_cached_length(call, oriel_comm_size(call->comm));
	const char *own = (char *)call->recv + call->root * call->bytes;

	call->is_without_result = call->root != oriel_comm_rank(call->comm);
	if (status == ORIEL_OK && !call->is_without_result)
		status = ori_cached_check(call, send, call->bytes, own);
	else if (status == ORIEL_OK && call->is_gpu)
		status = ori_cached_check(call, send, call->bytes, send);
	else if (status == ORIEL_OK && call->bytes && !send)
		status = ori_fail(ORIEL_ERR_INVALID, "gather: send is NULL");
	return ori_cached_begin(call, status);
}

enum oriel_status oriel_gather_once(struct oriel_comm *comm, unsigned root, const void *send,
				    void *recv, size_t bytes)
{
	struct ori_cached_call call = {
		.kind = &gather_kind, .comm = comm, .recv = recv, .bytes = bytes, .root = root};

	return ori_root_once(&call, once_begin, send, __func__);
}

enum oriel_status oriel_gather_once_on_stream(struct oriel_comm *comm, unsigned root,
					      const void *send, void *recv, size_t bytes,
					      struct CUstream_st *stream)
{
	struct ori_cached_call call = {.kind = &gather_kind,
				       .comm = comm,
				       .recv = recv,
				       .bytes = bytes,
				       .root = root,
				       .is_gpu = true,
				       .stream = ori_gather_stream(stream)};

	return ori_root_once(&call, once_begin, send, __func__);
}
