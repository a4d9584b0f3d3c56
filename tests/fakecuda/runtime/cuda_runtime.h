/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of the CUDA runtime as programs of tests/device and examples use, on the fake driver:
 * the compiler builds their kernels for the CPU, calls.py turns <<<>>> launches into calls, and a
 * block is one thread. The blocks of a launch run one after the other.
 */
#ifndef FAKECUDA_CUDA_RUNTIME_H
#define FAKECUDA_CUDA_RUNTIME_H

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <tuple>

#include <oriel/dev.h>

#define restrict
extern "C" {
#include "fakecuda.h"
}
#undef restrict

#define __global__ static
#define __device__
#define __host__
#define __shared__ static thread_local
#define __launch_bounds__(threads)
#define FAKECUDA_RUNTIME

struct fakecuda_place {
	unsigned x, y, z;
};

inline thread_local fakecuda_place blockIdx, gridDim;
constexpr fakecuda_place threadIdx = {0, 0, 0}, blockDim = {1, 1, 1};

#define oriel_dev_block oriel_dev_thread

inline void __syncthreads()
{
}

template <typename T> T atomicAdd(T *at, T value)
{
	return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

typedef CUresult cudaError_t;
typedef CUstream cudaStream_t;
typedef CUgraph cudaGraph_t;
typedef CUgraphExec cudaGraphExec_t;

constexpr cudaError_t cudaSuccess = CUDA_SUCCESS;
constexpr unsigned cudaStreamNonBlocking = CU_STREAM_NON_BLOCKING;
constexpr unsigned cudaEventDisableTiming = CU_EVENT_DISABLE_TIMING;
enum cudaMemcpyKind { cudaMemcpyDefault };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };

/* Keep the function of a launch for good, since graphs may run it again. */
inline const std::function<void()> *fakecuda_keep(std::function<void()> work)
{
	static std::mutex lock;
	static std::deque<std::function<void()>> all;
	std::lock_guard<std::mutex> guard(lock);

	all.push_back(std::move(work));
	return &all.back();
}

inline void fakecuda_run(struct oriel_dev_window, struct ori_kernel_call call)
{
	(*static_cast<const std::function<void()> *>(call.memory))();
}

inline cudaError_t fakecuda_post(CUstream stream, std::function<void()> work)
{
	struct fake_op op = {};

	op.kind = FAKE_KERNEL;
	op.run = fakecuda_run;
	op.call.memory = const_cast<std::function<void()> *>(fakecuda_keep(std::move(work)));
	return fake_post(stream, &op);
}

/* The stream of launches that name none, made at the first. */
inline CUstream &fakecuda_default()
{
	static thread_local CUstream stream;

	return stream;
}

template <typename... P>
auto fakecuda_launch(void (*kernel)(P...), unsigned grid, unsigned, unsigned = 0,
		     CUstream stream = nullptr)
{
	if (!stream && !fakecuda_default())
		cuStreamCreate(&fakecuda_default(), CU_STREAM_NON_BLOCKING);
	if (!stream)
		stream = fakecuda_default();
	return [=](std::common_type_t<P>... arguments) {
		fakecuda_post(stream, [=] {
			gridDim = {grid, 1, 1};
			for (blockIdx = {0, 0, 0}; blockIdx.x < grid; blockIdx.x++)
				kernel(arguments...);
		});
	};
}

struct fakecuda_event {
	CUevent event;
	std::chrono::steady_clock::time_point at;
};
typedef fakecuda_event *cudaEvent_t;

inline const char *cudaGetErrorString(cudaError_t error)
{
	const char *text = nullptr;

	cuGetErrorString(error, &text);
	return text;
}

inline cudaError_t cudaGetLastError()
{
	return cudaSuccess;
}

inline cudaError_t cudaGetDeviceCount(int *count)
{
	fakecuda_async(true);
	cuInit(0);
	return cuDeviceGetCount(count);
}

/* From here on calls of this thread do not invalidate captures of other threads. */
inline cudaError_t cudaSetDevice(int device)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUcontext context;
	cudaError_t error = cuDevicePrimaryCtxRetain(&context, device);

	cuThreadExchangeStreamCaptureMode(&mode);
	return error == cudaSuccess ? cuCtxSetCurrent(context) : error;
}

/* Other streams are for the program itself to synchronize. */
inline cudaError_t cudaDeviceSynchronize()
{
	return fakecuda_default() ? cuStreamSynchronize(fakecuda_default()) : cudaSuccess;
}

template <typename T> cudaError_t cudaMalloc(T **at, size_t length)
{
	return cuMemAlloc(reinterpret_cast<CUdeviceptr *>(at), length);
}

inline cudaError_t cudaFree(void *at)
{
	return at ? cuMemFree(reinterpret_cast<CUdeviceptr>(at)) : cudaSuccess;
}

template <typename T> cudaError_t cudaMallocHost(T **at, size_t length)
{
	*at = static_cast<T *>(std::calloc(1, length));
	return *at ? cudaSuccess : CUDA_ERROR_OUT_OF_MEMORY;
}

inline cudaError_t cudaFreeHost(void *at)
{
	std::free(at);
	return cudaSuccess;
}

inline cudaError_t cudaMemset(void *at, int value, size_t length)
{
	std::memset(at, value, length);
	return cudaSuccess;
}

inline cudaError_t cudaMemcpy(void *to, const void *from, size_t length, cudaMemcpyKind)
{
	std::memcpy(to, from, length);
	return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void *at, int value, size_t length, CUstream stream)
{
	return cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(at), static_cast<unsigned char>(value),
			       length, stream);
}

inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t length, cudaMemcpyKind,
				   CUstream stream)
{
	return cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
			     length, stream);
}

inline cudaError_t cudaStreamCreateWithFlags(CUstream *stream, unsigned flags)
{
	return cuStreamCreate(stream, flags);
}

inline cudaError_t cudaStreamDestroy(CUstream stream)
{
	return cuStreamDestroy(stream);
}

inline cudaError_t cudaStreamSynchronize(CUstream stream)
{
	return cuStreamSynchronize(stream);
}

inline cudaError_t cudaStreamBeginCapture(CUstream stream, cudaStreamCaptureMode)
{
	return cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

inline cudaError_t cudaStreamEndCapture(CUstream stream, CUgraph *graph)
{
	return cuStreamEndCapture(stream, graph);
}

inline cudaError_t cudaGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	return cuGraphInstantiate(exec, graph, flags);
}

inline cudaError_t cudaGraphUpload(CUgraphExec, CUstream)
{
	return cudaSuccess;
}

inline cudaError_t cudaGraphLaunch(CUgraphExec exec, CUstream stream)
{
	return cuGraphLaunch(exec, stream);
}

inline cudaError_t cudaGraphDestroy(CUgraph graph)
{
	return cuGraphDestroy(graph);
}

inline cudaError_t cudaGraphExecDestroy(CUgraphExec exec)
{
	return cuGraphExecDestroy(exec);
}

inline cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	*event = new fakecuda_event{};
	return cuEventCreate(&(*event)->event, CU_EVENT_DISABLE_TIMING);
}

inline cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	cudaError_t error = cuEventDestroy(event->event);

	delete event;
	return error;
}

inline cudaError_t cudaEventRecord(cudaEvent_t event, CUstream stream)
{
	fakecuda_post(stream, [=] { event->at = std::chrono::steady_clock::now(); });
	return cuEventRecord(event->event, stream);
}

inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
	*ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
	return cudaSuccess;
}

#endif
