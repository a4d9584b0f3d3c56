/* SPDX-License-Identifier: Apache-2.0 */
/* Streams beside one of the caller's, for copies that go on beside each other. */
#include "sys/gpu_driver.h"

static CUresult lanes_open(struct ori_gpu_lanes *lanes)
{
	CUresult result;
	CUstream stream;
	CUevent event;
	unsigned i;

	result = ori_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	lanes->begun = event;
	for (i = 0; i < ORI_GPU_LANES; i++) {
		result = ori_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
		if (result != CUDA_SUCCESS)
			return result;
		lanes->streams[i] = stream;
		result = ori_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
		if (result != CUDA_SUCCESS)
			return result;
		lanes->done[i] = event;
	}
	return CUDA_SUCCESS;
}

/* What is running goes on; the driver keeps it until it is done. */
static void lanes_close(struct ori_gpu_lanes *lanes)
{
	unsigned i;

	for (i = 0; i < ORI_GPU_LANES; i++) {
		if (lanes->done[i])
			ori_cuda.cuEventDestroy(lanes->done[i]);
		if (lanes->streams[i])
			ori_cuda.cuStreamDestroy(lanes->streams[i]);
	}
	if (lanes->begun)
		ori_cuda.cuEventDestroy(lanes->begun);
	*lanes = (struct ori_gpu_lanes){0};
}

enum oriel_status ori_gpu_open_lanes(const struct ori_gpu *gpu, struct ori_gpu_lanes *lanes)
{
	struct ori_gpu_visit visit = ori_gpu_enter(gpu);
	CUresult result;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result = lanes_open(lanes);
	if (result != CUDA_SUCCESS)
		lanes_close(lanes);
	ori_gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "streams and events of this library on GPU %s",
				     gpu->pci);
	return ORIEL_OK;
}

void ori_gpu_close_lanes(const struct ori_gpu *gpu, struct ori_gpu_lanes *lanes)
{
	struct ori_gpu_visit visit = ori_gpu_enter(gpu);

	/* Without its context nothing of them is left. */
	if (visit.status == ORIEL_OK)
		lanes_close(lanes);
	ori_gpu_leave(&visit);
}

enum oriel_status ori_gpu_fork(const struct ori_gpu *gpu, const struct ori_gpu_lanes *lanes,
			       void *stream)
{
	struct ori_gpu_visit visit = ori_gpu_enter(gpu);
	CUresult result;
	unsigned i;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result = ori_cuda.cuEventRecord(lanes->begun, stream);
	for (i = 0; i < ORI_GPU_LANES && result == CUDA_SUCCESS; i++)
		result = ori_cuda.cuStreamWaitEvent(lanes->streams[i], lanes->begun, 0);
	ori_gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "streams beside one of GPU %s", gpu->pci);
	return ORIEL_OK;
}

enum oriel_status ori_gpu_join(const struct ori_gpu *gpu, const struct ori_gpu_lanes *lanes,
			       void *stream)
{
	struct ori_gpu_visit visit = ori_gpu_enter(gpu);
	CUresult first = CUDA_SUCCESS, result;
	unsigned i;

	if (visit.status != ORIEL_OK)
		return visit.status;
	/* All of them, for a capture must not end with one that has not come back. */
	for (i = 0; i < ORI_GPU_LANES; i++) {
		result = ori_cuda.cuEventRecord(lanes->done[i], lanes->streams[i]);
		if (result == CUDA_SUCCESS)
			result = ori_cuda.cuStreamWaitEvent(stream, lanes->done[i], 0);
		if (first == CUDA_SUCCESS)
			first = result;
	}
	ori_gpu_leave(&visit);
	if (first != CUDA_SUCCESS)
		return ori_cuda_fail(first, "streams beside one of GPU %s", gpu->pci);
	return ORIEL_OK;
}
