/* SPDX-License-Identifier: Apache-2.0 */
/* Marks in streams, of oriel/progress.h. The collectives without an object use them. */
#include <oriel/progress.h>

#include "base/error.h"
#include "comm/comm.h"

struct oriel_mark {
	struct oriel_comm *comm; /* borrowed */
	void *place;             /* of the driver; NULL: not set yet */
};

static enum oriel_status mark_check_gpu(const struct oriel_comm *comm, const char *call)
{
	if (!comm->gpu)
		return ori_fail(ORIEL_ERR_INVALID, "%s: the communicator has no GPU", call);
	return ORIEL_OK;
}

enum oriel_status oriel_mark_create(struct oriel_comm *comm, struct oriel_mark **out)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct oriel_mark *mark;

	if (status == ORIEL_OK && !out)
		status = ori_fail_null(__func__, "mark");
	if (status != ORIEL_OK)
		return status;
	mark = ori_handle_alloc(ORI_HANDLE_MARK, sizeof(*mark));
	if (!mark)
		return ori_fail_nomem(sizeof(*mark), "a mark");
	mark->comm = comm;
	ori_handle_open(mark, comm);
	*out = mark;
	return ORIEL_OK;
}

enum oriel_status oriel_mark_destroy(struct oriel_mark *mark)
{
	if (!ori_handle_shut(mark, ORI_HANDLE_MARK, __func__))
		return ori_handle_refused(mark);
	if (mark->place)
		mark->comm->gpu->ops->mark_close(mark->comm->gpu, mark->place);
	ori_handle_free(mark);
	return ORIEL_OK;
}

enum oriel_status oriel_mark_set_on_stream(struct oriel_mark *mark, struct CUstream_st *caller)
{
	enum oriel_status status = ori_handle_check(mark, ORI_HANDLE_MARK, __func__);
	bool is_capturing = false;
	void *stream = ori_gpu_stream(caller);
	const struct ori_gpu *gpu;

	if (status == ORIEL_OK)
		status = mark_check_gpu(mark->comm, __func__);
	if (status != ORIEL_OK)
		return status;
	gpu = mark->comm->gpu;
	status = gpu->ops->stream_is_capturing(gpu, stream, &is_capturing);
	if (status == ORIEL_OK && is_capturing)
		return ori_fail(ORIEL_ERR_STATE, "%s: the stream is being captured", __func__);
	return status == ORIEL_OK ? gpu->ops->mark_set(gpu, stream, &mark->place) : status;
}

enum oriel_status oriel_mark_test(struct oriel_mark *mark)
{
	enum oriel_status status = ori_handle_check(mark, ORI_HANDLE_MARK, __func__);

	if (status != ORIEL_OK || !mark->place)
		return status;
	return mark->comm->gpu->ops->mark_query(mark->comm->gpu, mark->place);
}

enum oriel_status oriel_comm_is_capturing(struct oriel_comm *comm, struct CUstream_st *stream,
					  bool *is_capturing)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	if (status == ORIEL_OK)
		status = mark_check_gpu(comm, __func__);
	if (status == ORIEL_OK && !is_capturing)
		status = ori_fail_null(__func__, "is_capturing");
	if (status != ORIEL_OK)
		return status;
	return comm->gpu->ops->stream_is_capturing(comm->gpu, ori_gpu_stream(stream), is_capturing);
}
