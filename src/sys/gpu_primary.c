/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The primary context of a GPU and a stream, for the library's tools, which use no CUDA themselves
 * (mem/tune_gpu.c).
 */
#include "base/error.h"
#include "sys/cuda.h"
#include "sys/gpu.h"

enum oriel_status ori_gpu_primary_open(unsigned number, void **stream)
{
	enum oriel_status status = ori_cuda_open();
	CUresult result = CUDA_SUCCESS;
	CUcontext context;
	CUstream opened;
	int count = 0;

	if (status != ORIEL_OK)
		return status;
	if (!ori_cuda.cuDevicePrimaryCtxRetain || !ori_cuda.cuCtxSetCurrent)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "this driver has no primary contexts");
	result = ori_cuda.cuDeviceGetCount(&count);
	if (result == CUDA_SUCCESS && count < 1)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "there is no GPU");
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuDevicePrimaryCtxRetain(&context,
							   (int)(number % (unsigned)count));
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuCtxSetCurrent(context);
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuStreamCreate(&opened, CU_STREAM_NON_BLOCKING);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "opening GPU %u of %d", number % (unsigned)count,
				     count);
	*stream = opened;
	return ORIEL_OK;
}

enum oriel_status ori_gpu_primary_wait(void *stream)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult result;

	/*
	 * Relaxed for this thread, so that a capture by another thread neither fails nor fails
	 * this call.
	 */
	ori_cuda.cuThreadExchangeStreamCaptureMode(&mode);
	result = ori_cuda.cuStreamSynchronize(stream);
	ori_cuda.cuThreadExchangeStreamCaptureMode(&mode);
	return result == CUDA_SUCCESS ? ORIEL_OK : ori_cuda_fail(result, "waiting for a stream");
}

void ori_gpu_primary_close(void *stream)
{
	if (stream)
		ori_cuda.cuStreamDestroy(stream);
}
