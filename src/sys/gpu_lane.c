/* SPDX-License-Identifier: Apache-2.0 */
/* A stream beside one of the caller's, for a copy that goes on beside others. */
#include "sys/gpu_driver.h"

static CUresult lane_open(struct ori_gpu_lane *lane)
{
	CUstream stream;
	CUevent event;
	CUresult result;

	result = ori_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	lane->begun = event;
	result = ori_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	lane->done = event;
	result = ori_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	if (result == CUDA_SUCCESS)
		lane->stream = stream;
	return result;
}

/* What is running goes on; the driver keeps it until it is done. */
static void lane_close(struct ori_gpu_lane *lane)
{
	if (lane->stream)
		ori_cuda.cuStreamDestroy(lane->stream);
	if (lane->done)
		ori_cuda.cuEventDestroy(lane->done);
	if (lane->begun)
		ori_cuda.cuEventDestroy(lane->begun);
	*lane = (struct ori_gpu_lane){0};
}

enum oriel_status ori_gpu_open_lane(const struct ori_gpu *gpu, struct ori_gpu_lane *lane)
{
	struct ori_gpu_visit visit = ori_gpu_enter(gpu);
	CUresult result;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result = lane_open(lane);
	if (result != CUDA_SUCCESS)
		lane_close(lane);
	ori_gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "a stream and events of this library on GPU %s",
				     gpu->pci);
	return ORIEL_OK;
}

void ori_gpu_close_lane(const struct ori_gpu *gpu, struct ori_gpu_lane *lane)
{
	struct ori_gpu_visit visit = ori_gpu_enter(gpu);

	/* Without its context nothing of it is left. */
	if (visit.status == ORIEL_OK)
		lane_close(lane);
	ori_gpu_leave(&visit);
}

/* @first, when it comes, before what is put into @second from now on. */
static enum oriel_status lane_order(const struct ori_gpu *gpu, void *event, void *first,
				    void *second)
{
	struct ori_gpu_visit visit = ori_gpu_enter(gpu);
	CUresult result;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result = ori_cuda.cuEventRecord(event, first);
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuStreamWaitEvent(second, event, 0);
	ori_gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "a stream beside one of GPU %s", gpu->pci);
	return ORIEL_OK;
}

enum oriel_status ori_gpu_fork(const struct ori_gpu *gpu, const struct ori_gpu_lane *lane,
			       void *stream)
{
	return lane_order(gpu, lane->begun, stream, lane->stream);
}

enum oriel_status ori_gpu_join(const struct ori_gpu *gpu, const struct ori_gpu_lane *lane,
			       void *stream)
{
	return lane_order(gpu, lane->done, lane->stream, stream);
}
