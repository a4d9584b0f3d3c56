/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enters the CUDA context of a GPU and reads its attributes. Every operation of the table in
 * gpu_cuda.c calls this.
 */
#include "sys/gpu_driver.h"

/*
 * Relaxed capture mode: otherwise a capture by any thread of the process would make these calls
 * fail.
 */
struct ori_gpu_guard ori_gpu_enter(const struct ori_gpu *gpu)
{
	struct ori_gpu_guard guard = {ORIEL_OK, CU_STREAM_CAPTURE_MODE_RELAXED, false};
	CUcontext current = NULL;
	CUresult result = ori_cuda.cuCtxGetCurrent(&current);

	if (result == CUDA_SUCCESS && current != gpu->context) {
		result = ori_cuda.cuCtxPushCurrent(gpu->context);
		guard.is_pushed = result == CUDA_SUCCESS;
	}
	if (result != CUDA_SUCCESS)
		guard.status = ori_cuda_fail(result, "entering the context of GPU %s", gpu->pci);
	else
		ori_cuda.cuThreadExchangeStreamCaptureMode(&guard.mode);
	return guard;
}

void ori_gpu_leave(struct ori_gpu_guard *guard)
{
	CUcontext context;

	if (guard->status != ORIEL_OK)
		return;
	ori_cuda.cuThreadExchangeStreamCaptureMode(&guard->mode);
	if (guard->is_pushed)
		ori_cuda.cuCtxPopCurrent(&context);
}

int ori_gpu_attribute(CUdevice device, CUdevice_attribute attribute)
{
	int value = 0;

	ori_cuda.cuDeviceGetAttribute(&value, attribute, device);
	return value;
}
