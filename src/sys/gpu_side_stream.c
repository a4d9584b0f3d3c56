/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A side stream that runs beside one of the caller's, so that one copy overlaps with others.
 * window/window_stream.c forks and joins it.
 */
#include "sys/gpu_driver.h"

static CUresult side_stream_open(struct ori_gpu_side_stream *side)
{
	CUstream stream;
	CUevent event;
	CUresult result;

	result = ori_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	side->fork_event = event;
	result = ori_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	side->join_event = event;
	result = ori_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	if (result == CUDA_SUCCESS)
		side->stream = stream;
	return result;
}

/* Work that is running goes on: the driver frees the stream after it. */
static void side_stream_close(struct ori_gpu_side_stream *side)
{
	if (side->stream)
		ori_cuda.cuStreamDestroy(side->stream);
	if (side->join_event)
		ori_cuda.cuEventDestroy(side->join_event);
	if (side->fork_event)
		ori_cuda.cuEventDestroy(side->fork_event);
	*side = (struct ori_gpu_side_stream){0};
}

enum oriel_status ori_gpu_open_side_stream(const struct ori_gpu *gpu,
					   struct ori_gpu_side_stream *side)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = side_stream_open(side);
	if (result != CUDA_SUCCESS)
		side_stream_close(side);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "creating a side stream on GPU %s", gpu->pci);
	return ORIEL_OK;
}

void ori_gpu_close_side_stream(const struct ori_gpu *gpu, struct ori_gpu_side_stream *side)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);

	/* A destroyed context has destroyed its streams and events. */
	if (guard.status == ORIEL_OK)
		side_stream_close(side);
	ori_gpu_leave(&guard);
}

/* Order: what @first holds now precedes what enters @second from now on. */
static enum oriel_status side_stream_order(const struct ori_gpu *gpu, void *event, void *first,
					   void *second)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuEventRecord(event, first);
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuStreamWaitEvent(second, event, 0);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "ordering a side stream on GPU %s", gpu->pci);
	return ORIEL_OK;
}

enum oriel_status ori_gpu_fork(const struct ori_gpu *gpu, const struct ori_gpu_side_stream *side,
			       void *stream)
{
	return side_stream_order(gpu, side->fork_event, stream, side->stream);
}

enum oriel_status ori_gpu_join(const struct ori_gpu *gpu, const struct ori_gpu_side_stream *side,
			       void *stream)
{
	return side_stream_order(gpu, side->join_event, side->stream, stream);
}
