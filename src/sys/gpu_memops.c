/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream memory operations: words by which streams and CPU threads wait for each other. Also
 * references that captured graphs keep. progress/ calls them.
 */
#include "sys/gpu_driver.h"

#include "base/error.h"

bool ori_gpu_has_memops(CUdevice device)
{
	return ori_cuda.cuStreamWriteValue32 && ori_cuda.cuStreamWaitValue32 &&
	       ori_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
}

/* Leaves after @what, which stands ahead of "GPU" in the text of a failure. */
static enum oriel_status memops_finish(const struct ori_gpu *gpu, struct ori_gpu_guard *guard,
				       CUresult result, const char *what)
{
	ori_gpu_leave(guard);
	if (result == CUDA_ERROR_NOT_READY)
		return ORIEL_AGAIN;
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "%s GPU %s", what, gpu->pci);
	return ORIEL_OK;
}

enum oriel_status ori_gpu_stream_write(const struct ori_gpu *gpu, void *stream, uint32_t *word,
				       uint32_t value)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);

	if (guard.status != ORIEL_OK)
		return guard.status;
	return memops_finish(gpu, &guard,
			     ori_cuda.cuStreamWriteValue32(stream, ori_gpu_address(word), value,
							   CU_STREAM_WRITE_VALUE_DEFAULT),
			     "a stream memory operation on");
}

/* FLUSH, because NICs may have written to GPU memory before the word was written. */
enum oriel_status ori_gpu_stream_wait(const struct ori_gpu *gpu, void *stream, uint32_t *word,
				      uint32_t value)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	unsigned flags = CU_STREAM_WAIT_VALUE_EQ;

	if (guard.status != ORIEL_OK)
		return guard.status;
	if (ori_gpu_attribute(gpu->device, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES))
		flags |= CU_STREAM_WAIT_VALUE_FLUSH;
	return memops_finish(gpu, &guard,
			     ori_cuda.cuStreamWaitValue32(stream, ori_gpu_address(word), value,
							  flags),
			     "a stream memory operation on");
}

enum oriel_status ori_gpu_stream_query(const struct ori_gpu *gpu, void *stream)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);

	if (guard.status != ORIEL_OK)
		return guard.status;
	return memops_finish(gpu, &guard, ori_cuda.cuStreamQuery(stream), "querying a stream on");
}

static CUresult memops_graph(CUstream stream, CUgraph *graph)
{
	CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;

#if CUDA_VERSION >= 13000
	return ori_cuda.cuStreamGetCaptureInfo(stream, &capture, NULL, graph, NULL, NULL, NULL);
#else
	return ori_cuda.cuStreamGetCaptureInfo(stream, &capture, NULL, graph, NULL, NULL);
#endif
}

static CUresult memops_retain(CUstream stream, void *object, void (*drop)(void *object))
{
	CUuserObject held = NULL;
	CUgraph graph = NULL;
	CUresult result;

	if (!ori_cuda.cuStreamGetCaptureInfo || !ori_cuda.cuUserObjectCreate ||
	    !ori_cuda.cuGraphRetainUserObject)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = memops_graph(stream, &graph);
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuUserObjectCreate(&held, object, drop, 1,
						     CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	if (result != CUDA_SUCCESS)
		return result;
	/* If the graph does not take the reference, leak it: releasing it would call @drop. */
	return ori_cuda.cuGraphRetainUserObject(graph, held, 1, CU_GRAPH_USER_OBJECT_MOVE);
}

enum oriel_status ori_gpu_graph_retain(const struct ori_gpu *gpu, void *stream, void *object,
				       void (*drop)(void *object), bool *is_captured)
{
	CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuStreamIsCapturing(stream, &capture);
	if (result == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE)
		result = memops_retain(stream, object, drop);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "retaining an object in a captured graph on GPU %s",
				     gpu->pci);
	*is_captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
	return ORIEL_OK;
}

enum oriel_status ori_gpu_stream_is_capturing(const struct ori_gpu *gpu, void *stream,
					      bool *is_capturing)
{
	CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuStreamIsCapturing(stream, &capture);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "asking whether a stream of GPU %s is captured",
				     gpu->pci);
	*is_capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
	return ORIEL_OK;
}

static CUresult memops_mark(CUstream stream, void **mark)
{
	CUevent event = *mark;
	CUresult result = CUDA_SUCCESS;

	if (!event)
		result = ori_cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		return result;
	*mark = event;
	return ori_cuda.cuEventRecord(event, stream);
}

enum oriel_status ori_gpu_mark_set(const struct ori_gpu *gpu, void *stream, void **mark)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);

	if (guard.status != ORIEL_OK)
		return guard.status;
	return memops_finish(gpu, &guard, memops_mark(stream, mark), "marking a stream of");
}

enum oriel_status ori_gpu_mark_query(const struct ori_gpu *gpu, void *mark)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);

	if (guard.status != ORIEL_OK)
		return guard.status;
	return memops_finish(gpu, &guard, ori_cuda.cuEventQuery(mark),
			     "querying a mark in a stream of");
}

void ori_gpu_mark_close(const struct ori_gpu *gpu, void *mark)
{
	struct ori_gpu_guard guard;

	if (!mark)
		return;
	guard = ori_gpu_enter(gpu);
	/* A destroyed context has destroyed its events. */
	if (guard.status == ORIEL_OK)
		ori_cuda.cuEventDestroy(mark);
	ori_gpu_leave(&guard);
}
