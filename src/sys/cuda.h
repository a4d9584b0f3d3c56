/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, opened at run time. Compiled only where cuda.h was found; other code uses
 * sys/gpu.h.
 */
#ifndef ORI_SYS_CUDA_H
#define ORI_SYS_CUDA_H

#include <cuda.h>

#include <oriel/status.h>

/* cuda.h maps some of these names to newer versions, and the newer names are then looked up. */
#define ORI_CUDA_CALLS(X)                         \
	X(cuInit)                                 \
	X(cuGetErrorName)                         \
	X(cuGetErrorString)                       \
	X(cuDriverGetVersion)                     \
	X(cuDeviceGet)                            \
	X(cuDeviceGetCount)                       \
	X(cuDeviceGetName)                        \
	X(cuDeviceGetUuid)                        \
	X(cuDeviceGetPCIBusId)                    \
	X(cuDeviceGetAttribute)                   \
	X(cuDeviceGetP2PAttribute)                \
	X(cuCtxGetCurrent)                        \
	X(cuCtxGetDevice)                         \
	X(cuCtxPushCurrent)                       \
	X(cuCtxPopCurrent)                        \
	X(cuCtxEnablePeerAccess)                  \
	X(cuThreadExchangeStreamCaptureMode)      \
	X(cuPointerGetAttribute)                  \
	X(cuPointerGetAttributes)                 \
	X(cuPointerSetAttribute)                  \
	X(cuMemGetAddressRange)                   \
	X(cuMemGetAllocationGranularity)          \
	X(cuMemCreate)                            \
	X(cuMemRelease)                           \
	X(cuMemAddressReserve)                    \
	X(cuMemAddressFree)                       \
	X(cuMemMap)                               \
	X(cuMemUnmap)                             \
	X(cuMemSetAccess)                         \
	X(cuMemRetainAllocationHandle)            \
	X(cuMemGetAllocationPropertiesFromHandle) \
	X(cuMemExportToShareableHandle)           \
	X(cuMemImportFromShareableHandle)         \
	X(cuIpcGetMemHandle)                      \
	X(cuIpcOpenMemHandle)                     \
	X(cuIpcCloseMemHandle)                    \
	X(cuMemHostRegister)                      \
	X(cuMemHostUnregister)                    \
	X(cuMemHostGetDevicePointer)              \
	X(cuStreamCreate)                         \
	X(cuStreamDestroy)                        \
	X(cuStreamSynchronize)                    \
	X(cuStreamQuery)                          \
	X(cuStreamIsCapturing)                    \
	X(cuStreamWaitEvent)                      \
	X(cuEventCreate)                          \
	X(cuEventDestroy)                         \
	X(cuEventRecord)                          \
	X(cuEventQuery)                           \
	X(cuMemcpyAsync)                          \
	X(cuMemsetD8Async)                        \
	X(cuModuleLoadData)                       \
	X(cuModuleUnload)                         \
	X(cuModuleGetFunction)                    \
	X(cuLaunchKernel)

#if CUDA_VERSION >= 12080
#define ORI_CUDA_BATCH(X) X(cuMemcpyBatchAsync)
#else
#define ORI_CUDA_BATCH(X)
#endif

/* NULL if the driver is older. */
#define ORI_CUDA_OPTIONAL(X)             \
	X(cuMemGetHandleForAddressRange) \
	X(cuDevicePrimaryCtxRetain)      \
	X(cuCtxSetCurrent)               \
	X(cuStreamWriteValue32)          \
	X(cuStreamWaitValue32)           \
	X(cuStreamGetCaptureInfo)        \
	X(cuUserObjectCreate)            \
	X(cuGraphRetainUserObject)       \
	X(cuStreamWriteValue64)          \
	X(cuFlushGPUDirectRDMAWrites)    \
	X(cuFuncGetAttribute)            \
	X(cuLaunchKernelEx)              \
	ORI_CUDA_BATCH(X)

#define ORI_CUDA_MEMBER(call) __typeof__(call) *call;
struct ori_cuda {
	ORI_CUDA_CALLS(ORI_CUDA_MEMBER)
	ORI_CUDA_OPTIONAL(ORI_CUDA_MEMBER)
};

/*
 * Constant once ori_cuda_open() has returned ORIEL_OK; only members of the last group can be NULL.
 */
extern struct ori_cuda ori_cuda;

/*
 * Open libcuda and initialise it, at the first call; any thread. The text of ORIEL_ERR_UNSUPPORTED
 * names what is missing.
 */
enum oriel_status ori_cuda_open(void);

/* Fail with "what: CUDA_ERROR_...: its text" and the status that fits @result best. */
enum oriel_status ori_cuda_fail(CUresult result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
