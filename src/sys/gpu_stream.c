/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and kernels, in the library's stream or in the caller's; loads the library's device
 * code. The table of sys/gpu.h has them for window, coll and p2p.
 */
#include "sys/gpu_driver.h"

#include <stddef.h>

static enum oriel_status gpu_run(const struct ori_gpu *gpu, CUresult result, const char *what,
				 size_t length)
{
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuStreamSynchronize(gpu->stream);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "%s %zu bytes on GPU %s", what, length, gpu->pci);
	return ORIEL_OK;
}

enum oriel_status ori_gpu_copy(const struct ori_gpu *gpu, void *to, const void *from, size_t length)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	enum oriel_status status = guard.status;

	if (status == ORIEL_OK)
		status = gpu_run(gpu,
				 ori_cuda.cuMemcpyAsync(ori_gpu_address(to), ori_gpu_address(from),
							length, gpu->stream),
				 "copying", length);
	ori_gpu_leave(&guard);
	return status;
}

enum oriel_status ori_gpu_zero(const struct ori_gpu *gpu, void *at, size_t length)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	enum oriel_status status = guard.status;

	if (status == ORIEL_OK)
		status = gpu_run(gpu,
				 ori_cuda.cuMemsetD8Async(ori_gpu_address(at), 0, length,
							  gpu->stream),
				 "zeroing", length);
	ori_gpu_leave(&guard);
	return status;
}

void ori_gpu_unload(const struct ori_gpu *gpu, struct ori_gpu_program *program)
{
	struct ori_gpu_guard guard;

	if (!program->module)
		return;
	guard = ori_gpu_enter(gpu);
	if (guard.status == ORIEL_OK)
		ori_cuda.cuModuleUnload(program->module);
	ori_gpu_leave(&guard);
	*program = (struct ori_gpu_program){0};
}

/*
 * Kernels compiled for sm_90 or later begin with griddepcontrol.wait. Those compiled from the PTX
 * of older GPUs do not, on any GPU. Drivers before 12.3 cannot capture a programmatic dependent
 * launch.
 */
static bool gpu_has_pdl(CUfunction kernel)
{
	int driver = 0, ptx = 0;

	if (!kernel || !ori_cuda.cuFuncGetAttribute || !ori_cuda.cuLaunchKernelEx)
		return false;
	return ori_cuda.cuDriverGetVersion(&driver) == CUDA_SUCCESS && driver >= 12030 &&
	       ori_cuda.cuFuncGetAttribute(&ptx, CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel) ==
		       CUDA_SUCCESS &&
	       ptx >= 90;
}

/* Asking for a kernel also loads it, if modules load lazily. */
enum oriel_status ori_gpu_load(const struct ori_gpu *gpu, const void *image,
			       const char *const *names, unsigned count,
			       struct ori_gpu_program *program)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	struct ori_gpu_program p = {0};
	CUfunction kernel = NULL;
	CUmodule module = NULL;
	CUresult result;
	unsigned i;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuModuleLoadData(&module, image);
	p.module = module;
	for (i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = ori_cuda.cuModuleGetFunction(&kernel, module, names[i]);
		p.kernels[i] = kernel;
	}
	p.has_pdl = result == CUDA_SUCCESS && gpu_has_pdl(kernel);
	ori_gpu_leave(&guard);
	if (result == CUDA_SUCCESS) {
		*program = p;
		return ORIEL_OK;
	}
	ori_gpu_unload(gpu, &p);
	return ori_cuda_fail(result, "loading the kernels of this library on GPU %s (%s)", gpu->pci,
			     gpu->name);
}

/*
 * Programmatic dependent launch: the GPU prepares the kernel while the one before it in the stream
 * ends, which saves 0.3 us of a launch in a graph and 1 us of one in a stream
 * (bench/results/h200-gather.md).
 */
static CUresult gpu_launch_pdl(CUfunction kernel, unsigned blocks, unsigned threads,
			       void **arguments, CUstream stream)
{
	CUlaunchAttribute pdl = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
				 .value.programmaticStreamSerializationAllowed = 1};
	CUlaunchConfig config = {.gridDimX = blocks,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = threads,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = stream,
				 .attrs = &pdl,
				 .numAttrs = 1};

	return ori_cuda.cuLaunchKernelEx(&config, kernel, arguments, NULL);
}

/*
 * In the legacy stream the preceding work may be in other streams, for which griddepcontrol.wait
 * does not wait.
 */
enum oriel_status ori_gpu_launch(const struct ori_gpu *gpu, const struct ori_gpu_program *program,
				 unsigned kernel, unsigned blocks, unsigned threads,
				 void **arguments, void *stream)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUfunction function = program->kernels[kernel];
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	if (program->has_pdl && stream != CU_STREAM_LEGACY)
		result = gpu_launch_pdl(function, blocks, threads, arguments, stream);
	else
		result = ori_cuda.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream,
						 arguments, NULL);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "launching a kernel of this library on GPU %s",
				     gpu->pci);
	return ORIEL_OK;
}

enum oriel_status ori_gpu_stream_copy(const struct ori_gpu *gpu, void *stream, void *to,
				      const void *from, size_t length)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuMemcpyAsync(ori_gpu_address(to), ori_gpu_address(from), length, stream);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "copying %zu bytes in a stream on GPU %s", length,
				     gpu->pci);
	return ORIEL_OK;
}

#if CUDA_VERSION >= 12080

bool ori_gpu_has_batches(void)
{
	return ori_cuda.cuMemcpyBatchAsync != NULL;
}

/* No driver captures a batch of copies, or takes one in the legacy stream. */
static CUresult gpu_takes_batch(CUstream stream, bool *is_taken)
{
	CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult result = CUDA_SUCCESS;

	*is_taken = false;
	if (stream == CU_STREAM_LEGACY)
		return result;
	result = ori_cuda.cuStreamIsCapturing(stream, &capture);
	*is_taken = capture == CU_STREAM_CAPTURE_STATUS_NONE;
	return result;
}

static CUresult gpu_batch(CUstream stream, void *const *to, const void *const *from, size_t length,
			  unsigned count)
{
	CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
					 .flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE};
	CUdeviceptr targets[ORI_GPU_BATCH], sources[ORI_GPU_BATCH];
	size_t lengths[ORI_GPU_BATCH], first = 0;
	unsigned i;

	for (i = 0; i < count; i++) {
		targets[i] = ori_gpu_address(to[i]);
		sources[i] = ori_gpu_address(from[i]);
		lengths[i] = length;
	}
#if CUDA_VERSION >= 13000
	return ori_cuda.cuMemcpyBatchAsync(targets, sources, lengths, count, &attributes, &first, 1,
					   stream);
#else
	size_t failed;

	return ori_cuda.cuMemcpyBatchAsync(targets, sources, lengths, count, &attributes, &first, 1,
					   &failed, stream);
#endif
}

#else

bool ori_gpu_has_batches(void)
{
	return false;
}

static CUresult gpu_takes_batch(CUstream stream, bool *is_taken)
{
	(void)stream;
	*is_taken = false;
	return CUDA_SUCCESS;
}

static CUresult gpu_batch(CUstream stream, void *const *to, const void *const *from, size_t length,
			  unsigned count)
{
	(void)stream;
	(void)to;
	(void)from;
	(void)length;
	(void)count;
	return CUDA_ERROR_NOT_SUPPORTED;
}

#endif

enum oriel_status ori_gpu_stream_copy_batch(const struct ori_gpu *gpu, void *stream,
					    void *const *to, const void *const *from, size_t length,
					    unsigned count)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	bool is_taken;
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = gpu_takes_batch(stream, &is_taken);
	if (result == CUDA_SUCCESS && is_taken)
		result = gpu_batch(stream, to, from, length, count);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "%u copies of %zu bytes in a stream on GPU %s", count,
				     length, gpu->pci);
	return is_taken ? ORIEL_OK : ORIEL_AGAIN;
}

enum oriel_status ori_gpu_open_stream(const struct ori_gpu *gpu, void **out)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUstream stream;
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "creating a stream on GPU %s", gpu->pci);
	*out = stream;
	return ORIEL_OK;
}

void ori_gpu_close_stream(const struct ori_gpu *gpu, void *stream)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);

	/* A destroyed context has destroyed its streams. */
	if (guard.status == ORIEL_OK)
		ori_cuda.cuStreamDestroy(stream);
	ori_gpu_leave(&guard);
}

enum oriel_status ori_gpu_stream_copy_and_flag(const struct ori_gpu *gpu, void *stream, void *to,
					       const void *from, size_t length, uint64_t *word,
					       uint64_t value)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuMemcpyAsync(ori_gpu_address(to), ori_gpu_address(from), length, stream);
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuStreamWriteValue64(stream, ori_gpu_address(word), value,
						       CU_STREAM_WRITE_VALUE_DEFAULT);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "copying %zu bytes in a stream on GPU %s", length,
				     gpu->pci);
	return ORIEL_OK;
}

enum oriel_status ori_gpu_flush(const struct ori_gpu *gpu)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuFlushGPUDirectRDMAWrites(
		CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
		CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "flushing RDMA writes to GPU %s", gpu->pci);
	return ORIEL_OK;
}
