/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs through the CUDA driver. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/cuda.h"
#include "sys/gpu.h"

#define GPU_CAPABILITY 8 /* the oldest that the library's kernels are compiled for */

static_assert(sizeof(CUipcMemHandle) == ORI_GPU_HANDLE, "a handle has its place");
static_assert(sizeof(((CUuuid *)0)->bytes) == ORI_GPU_UUID, "a UUID has its place");

/*
 * Held while ranges are mapped, opened or unmapped: driver 580 crashed inside
 * cuMemUnmap() when four threads, each with a GPU, did so at once
 * (tests/device/gpu_first.cu, "a hundred windows").
 */
static pthread_mutex_t gpu_ranges = PTHREAD_MUTEX_INITIALIZER;

static CUdeviceptr gpu_address(const void *address)
{
	return (CUdeviceptr)(uintptr_t)address;
}

static void *gpu_pointer(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

/* A thread inside a context. While it captures a stream, what follows is no part of that. */
struct gpu_visit {
	enum oriel_status status;
	CUstreamCaptureMode mode;
};

static struct gpu_visit gpu_enter(const struct ori_gpu *gpu)
{
	struct gpu_visit visit = {ORIEL_OK, CU_STREAM_CAPTURE_MODE_RELAXED};
	CUresult result = ori_cuda.cuCtxPushCurrent(gpu->context);

	if (result != CUDA_SUCCESS)
		visit.status =
			ori_cuda_fail(result, "the context of GPU %s cannot be entered", gpu->pci);
	else
		ori_cuda.cuThreadExchangeStreamCaptureMode(&visit.mode);
	return visit;
}

static void gpu_leave(struct gpu_visit *visit)
{
	CUcontext context;

	if (visit->status != ORIEL_OK)
		return;
	ori_cuda.cuThreadExchangeStreamCaptureMode(&visit->mode);
	ori_cuda.cuCtxPopCurrent(&context);
}

static int gpu_attribute(CUdevice device, CUdevice_attribute attribute)
{
	int value = 0;

	ori_cuda.cuDeviceGetAttribute(&value, attribute, device);
	return value;
}

static CUmemAllocationProp gpu_prop(const struct ori_gpu *gpu)
{
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = gpu->device;
	prop.allocFlags.gpuDirectRDMACapable = gpu->flags & ORI_GPU_RDMA ? 1 : 0;
	return prop;
}

static enum oriel_status gpu_open_to(CUdevice device, CUdeviceptr at, size_t length)
{
	CUmemAccessDesc access;
	CUresult result;

	memset(&access, 0, sizeof(access));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = device;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	result = ori_cuda.cuMemSetAccess(at, length, &access, 1);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "GPU %d cannot reach %zu bytes at %p", device, length,
				     gpu_pointer(at));
	return ORIEL_OK;
}

/*
 * @handles side by side in a fresh range of addresses, open to @gpu. The
 * mappings hold the memory from then on: the handles may go.
 */
static enum oriel_status gpu_map_locked(const struct ori_gpu *gpu,
					const CUmemGenericAllocationHandle *handles,
					const uint64_t *lengths, unsigned count, void **address)
{
	uint64_t whole = 0, at = 0;
	enum oriel_status status;
	CUdeviceptr base;
	CUresult result;
	unsigned i;

	for (i = 0; i < count; i++)
		if (__builtin_add_overflow(whole, lengths[i], &whole))
			return ori_fail(ORIEL_ERR_RANGE, "no memory has that many bytes");
	result = ori_cuda.cuMemAddressReserve(&base, whole, 0, 0, 0);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "no range of addresses for %zu bytes", (size_t)whole);
	for (i = 0; i < count; i++) {
		result = ori_cuda.cuMemMap(base + at, lengths[i], 0, handles[i], 0);
		if (result != CUDA_SUCCESS) {
			status = ori_cuda_fail(result, "%zu bytes of GPU memory cannot be mapped",
					       (size_t)lengths[i]);
			goto err_unmap;
		}
		at += lengths[i];
	}
	status = gpu_open_to(gpu->device, base, whole);
	if (status != ORIEL_OK)
		goto err_unmap;
	*address = gpu_pointer(base);
	return ORIEL_OK;

err_unmap:
	if (at)
		ori_cuda.cuMemUnmap(base, at);
	ori_cuda.cuMemAddressFree(base, whole);
	return status;
}

static enum oriel_status gpu_map(const struct ori_gpu *gpu,
				 const CUmemGenericAllocationHandle *handles,
				 const uint64_t *lengths, unsigned count, void **address)
{
	enum oriel_status status;

	pthread_mutex_lock(&gpu_ranges);
	status = gpu_map_locked(gpu, handles, lengths, count, address);
	pthread_mutex_unlock(&gpu_ranges);
	return status;
}

static void gpu_unmap(void *address, size_t length)
{
	pthread_mutex_lock(&gpu_ranges);
	ori_cuda.cuMemUnmap(gpu_address(address), length);
	ori_cuda.cuMemAddressFree(gpu_address(address), length);
	pthread_mutex_unlock(&gpu_ranges);
}

static enum oriel_status gpu_round_up(const struct ori_gpu *gpu, size_t *length)
{
	CUmemAllocationProp prop = gpu_prop(gpu);
	size_t granule = 0, whole;
	CUresult result;

	result = ori_cuda.cuMemGetAllocationGranularity(&granule, &prop,
							CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	if (result != CUDA_SUCCESS || granule == 0)
		return ori_cuda_fail(result, "granule of the memory of GPU %s", gpu->pci);
	if (__builtin_add_overflow(*length, granule - 1, &whole))
		return ori_fail(ORIEL_ERR_RANGE, "no GPU has %zu bytes", *length);
	*length = whole / granule * granule;
	return ORIEL_OK;
}

static enum oriel_status gpu_export(CUmemGenericAllocationHandle handle, int *fd)
{
	CUresult result;
	int file = -1;

	result = ori_cuda.cuMemExportToShareableHandle(&file, handle,
						       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result,
				     "GPU memory cannot be given away by descriptor (was it made "
				     "with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR?)");
	*fd = file;
	return ORIEL_OK;
}

static enum oriel_status gpu_run(const struct ori_gpu *gpu, CUresult result, const char *what,
				 size_t length)
{
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuStreamSynchronize(gpu->stream);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "%s %zu bytes on GPU %s", what, length, gpu->pci);
	return ORIEL_OK;
}

static enum oriel_status gpu_copy(const struct ori_gpu *gpu, void *to, const void *from,
				  size_t length)
{
	struct gpu_visit visit = gpu_enter(gpu);
	enum oriel_status status = visit.status;

	if (status == ORIEL_OK)
		status = gpu_run(gpu,
				 ori_cuda.cuMemcpyAsync(gpu_address(to), gpu_address(from), length,
							gpu->stream),
				 "copying", length);
	gpu_leave(&visit);
	return status;
}

static enum oriel_status gpu_zero(const struct ori_gpu *gpu, void *at, size_t length)
{
	struct gpu_visit visit = gpu_enter(gpu);
	enum oriel_status status = visit.status;

	if (status == ORIEL_OK)
		status = gpu_run(gpu,
				 ori_cuda.cuMemsetD8Async(gpu_address(at), 0, length, gpu->stream),
				 "zeroing", length);
	gpu_leave(&visit);
	return status;
}

static enum oriel_status gpu_alloc(const struct ori_gpu *gpu, size_t *length, void **address,
				   int *fd)
{
	CUmemAllocationProp prop = gpu_prop(gpu);
	CUmemGenericAllocationHandle handle;
	size_t whole = *length;
	enum oriel_status status;
	uint64_t bytes;
	CUresult result;
	void *at = NULL;
	int file = -1;

	if (!(gpu->flags & ORI_GPU_VMM))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"GPU %s (%s) does not give memory away by descriptor", gpu->pci,
				gpu->name);
	status = gpu_round_up(gpu, &whole);
	if (status != ORIEL_OK)
		return status;
	result = ori_cuda.cuMemCreate(&handle, whole, &prop, 0);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "%zu bytes of memory of GPU %s", whole, gpu->pci);
	bytes = whole;
	status = gpu_map(gpu, &handle, &bytes, 1, &at);
	if (status == ORIEL_OK)
		status = gpu_export(handle, &file);
	if (status == ORIEL_OK)
		status = gpu_zero(gpu, at, whole);
	/* The mapping holds the memory. */
	ori_cuda.cuMemRelease(handle);
	if (status != ORIEL_OK) {
		if (file >= 0)
			close(file);
		if (at)
			gpu_unmap(at, whole);
		return status;
	}
	*length = whole;
	*address = at;
	*fd = file;
	return ORIEL_OK;
}

static enum oriel_status gpu_import(const struct ori_gpu *gpu, const int *fds,
				    const uint64_t *lengths, unsigned count, void **address)
{
	CUmemGenericAllocationHandle *handles = calloc(count, sizeof(*handles));
	enum oriel_status status = ORIEL_OK;
	unsigned got = 0;
	CUresult result;

	if (!handles)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for %u handles", count);
	while (got < count && status == ORIEL_OK) {
		result = ori_cuda.cuMemImportFromShareableHandle(
			&handles[got], gpu_pointer((CUdeviceptr)fds[got]),
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		if (result == CUDA_SUCCESS)
			got++;
		else
			status = ori_cuda_fail(result, "a peer's GPU memory cannot be taken");
	}
	if (status == ORIEL_OK)
		status = gpu_map(gpu, handles, lengths, count, address);
	while (got > 0)
		ori_cuda.cuMemRelease(handles[--got]);
	free(handles);
	return status;
}

static bool gpu_pointer_says(CUpointer_attribute attribute, CUdeviceptr at)
{
	/* Attributes are of 1 or 4 bytes. */
	unsigned value = 0;

	return ori_cuda.cuPointerGetAttribute(&value, attribute, at) == CUDA_SUCCESS && value;
}

/* Of memory of a GPU. */
static enum ori_gpu_kind gpu_kind(CUdeviceptr at)
{
	CUmemGenericAllocationHandle handle;

	if (gpu_pointer_says(CU_POINTER_ATTRIBUTE_IS_MANAGED, at))
		return ORI_GPU_OTHER;
	if (gpu_pointer_says(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at))
		return ORI_GPU_LEGACY;
	if (ori_cuda.cuMemRetainAllocationHandle(&handle, gpu_pointer(at)) != CUDA_SUCCESS)
		return ORI_GPU_OTHER;
	ori_cuda.cuMemRelease(handle);
	return ORI_GPU_MAPPED;
}

/*
 * The driver tells the range of what the current context reaches by itself:
 * neither cudaMalloc() memory of another one nor mappings that are closed to it.
 */
static enum oriel_status gpu_find_device(const struct ori_gpu *gpu, CUdeviceptr at,
					 struct ori_gpu_place *place)
{
	struct ori_gpu_place p = {.kind = gpu_kind(at), .device = -1};
	CUdeviceptr base = 0;
	CUresult result;

	result = ori_cuda.cuPointerGetAttribute(&p.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "the GPU of memory at %p", gpu_pointer(at));
	result = ori_cuda.cuMemGetAddressRange(&base, &p.length, at);
	if (result != CUDA_SUCCESS && p.device == gpu->device)
		return ori_cuda_fail(result, "GPU memory at %p", gpu_pointer(at));
	if (result != CUDA_SUCCESS)
		p.length = 0;
	p.base = p.length ? gpu_pointer(base) : gpu_pointer(at);
	*place = p;
	return ORIEL_OK;
}

static enum oriel_status gpu_find(const struct ori_gpu *gpu, const void *address,
				  struct ori_gpu_place *place)
{
	struct ori_gpu_place host = {ORI_GPU_PAGEABLE, NULL, 0, -1};
	struct gpu_visit visit = gpu_enter(gpu);
	enum oriel_status status = visit.status;
	CUdeviceptr at = gpu_address(address);
	CUmemorytype type = 0;
	CUresult result;

	if (status != ORIEL_OK)
		return status;
	result = ori_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
	if (result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE) {
		status = gpu_find_device(gpu, at, place);
	} else if (result == CUDA_SUCCESS) {
		host.kind = gpu_pointer_says(CU_POINTER_ATTRIBUTE_IS_MANAGED, at) ? ORI_GPU_OTHER
										  : ORI_GPU_PINNED;
		*place = host;
	} else if (result == CUDA_ERROR_INVALID_VALUE) {
		*place = host;
	} else {
		status = ori_cuda_fail(result, "memory at %p", address);
	}
	gpu_leave(&visit);
	return status;
}

/* cudaMalloc() memory is open to the contexts that its own has been opened to. */
static enum oriel_status gpu_grant_legacy(const struct ori_gpu *gpu, CUdeviceptr at)
{
	CUcontext owner = NULL;
	CUresult result;

	result = ori_cuda.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, at);
	if (result == CUDA_SUCCESS && owner != gpu->context)
		result = ori_cuda.cuCtxEnablePeerAccess(owner, 0);
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		return ori_cuda_fail(result, "GPU %s cannot reach the memory at %p", gpu->pci,
				     gpu_pointer(at));
	return ORIEL_OK;
}

static enum oriel_status gpu_grant(const struct ori_gpu *gpu, enum ori_gpu_kind kind,
				   const void *address, size_t length)
{
	struct gpu_visit visit = gpu_enter(gpu);
	enum oriel_status status = visit.status;
	CUdeviceptr at = gpu_address(address);
	int device = -1;

	if (status != ORIEL_OK)
		return status;
	pthread_mutex_lock(&gpu_ranges);
	if (ori_cuda.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) !=
		    CUDA_SUCCESS ||
	    device != gpu->device)
		status = kind == ORI_GPU_MAPPED ? gpu_open_to(gpu->device, at, length)
						: gpu_grant_legacy(gpu, at);
	pthread_mutex_unlock(&gpu_ranges);
	gpu_leave(&visit);
	return status;
}

static enum oriel_status gpu_export_fd(const struct ori_gpu *gpu, const struct ori_gpu_place *place,
				       int *fd)
{
	CUmemGenericAllocationHandle handle;
	enum oriel_status status;
	CUresult result;

	(void)gpu;
	result = ori_cuda.cuMemRetainAllocationHandle(&handle, place->base);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "GPU memory at %p", (void *)place->base);
	status = gpu_export(handle, fd);
	ori_cuda.cuMemRelease(handle);
	return status;
}

static enum oriel_status gpu_export_handle(const struct ori_gpu *gpu,
					   const struct ori_gpu_place *place,
					   uint8_t handle[ORI_GPU_HANDLE])
{
	struct gpu_visit visit = gpu_enter(gpu);
	CUipcMemHandle ipc;
	CUresult result;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result = ori_cuda.cuIpcGetMemHandle(&ipc, gpu_address(place->base));
	gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "GPU memory at %p cannot be opened to other processes",
				     (void *)place->base);
	memcpy(handle, &ipc, ORI_GPU_HANDLE);
	return ORIEL_OK;
}

static enum oriel_status gpu_open_handle(const struct ori_gpu *gpu,
					 const uint8_t handle[ORI_GPU_HANDLE], void **address)
{
	struct gpu_visit visit = gpu_enter(gpu);
	CUipcMemHandle ipc;
	CUdeviceptr at;
	CUresult result;

	if (visit.status != ORIEL_OK)
		return visit.status;
	memcpy(&ipc, handle, sizeof(ipc));
	result = ori_cuda.cuIpcOpenMemHandle(&at, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "a peer's GPU memory cannot be opened");
	*address = gpu_pointer(at);
	return ORIEL_OK;
}

static void gpu_close_handle(const struct ori_gpu *gpu, void *address)
{
	struct gpu_visit visit = gpu_enter(gpu);

	if (visit.status == ORIEL_OK)
		ori_cuda.cuIpcCloseMemHandle(gpu_address(address));
	gpu_leave(&visit);
}

static void gpu_unpin(const struct ori_gpu *gpu, void *address)
{
	struct gpu_visit visit = gpu_enter(gpu);

	if (visit.status == ORIEL_OK)
		ori_cuda.cuMemHostUnregister(address);
	gpu_leave(&visit);
}

static enum oriel_status gpu_pin(const struct ori_gpu *gpu, void *address, size_t length)
{
	struct gpu_visit visit = gpu_enter(gpu);
	CUdeviceptr at = 0;
	CUresult result;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result = ori_cuda.cuMemHostRegister(address, length,
					    CU_MEMHOSTREGISTER_PORTABLE |
						    CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result == CUDA_SUCCESS)
		ori_cuda.cuMemHostGetDevicePointer(&at, address, 0);
	gpu_leave(&visit);
	if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		return ORIEL_AGAIN;
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "%zu bytes of host memory at %p cannot be pinned",
				     length, address);
	if (gpu_pointer(at) == address)
		return ORIEL_OK;
	gpu_unpin(gpu, address);
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "GPU %s sees host memory at other addresses",
			gpu->pci);
}

static void gpu_unload(const struct ori_gpu *gpu, struct ori_gpu_program *program)
{
	struct gpu_visit visit;

	if (!program->module)
		return;
	visit = gpu_enter(gpu);
	if (visit.status == ORIEL_OK)
		ori_cuda.cuModuleUnload(program->module);
	gpu_leave(&visit);
	*program = (struct ori_gpu_program){0};
}

/* To ask for a kernel also loads it, where modules are lazy. */
static enum oriel_status gpu_load(const struct ori_gpu *gpu, const void *image,
				  const char *const *names, unsigned count,
				  struct ori_gpu_program *program)
{
	struct gpu_visit visit = gpu_enter(gpu);
	struct ori_gpu_program p = {0};
	CUfunction kernel = NULL;
	CUmodule module = NULL;
	CUresult result;
	unsigned i;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result = ori_cuda.cuModuleLoadData(&module, image);
	p.module = module;
	for (i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = ori_cuda.cuModuleGetFunction(&kernel, module, names[i]);
		p.kernels[i] = kernel;
	}
	gpu_leave(&visit);
	if (result == CUDA_SUCCESS) {
		*program = p;
		return ORIEL_OK;
	}
	gpu_unload(gpu, &p);
	return ori_cuda_fail(result, "the kernels of this library on GPU %s (%s)", gpu->pci,
			     gpu->name);
}

static enum oriel_status gpu_launch(const struct ori_gpu *gpu, void *kernel, unsigned threads,
				    void **arguments, void *stream)
{
	struct gpu_visit visit = gpu_enter(gpu);
	CUresult result;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result =
		ori_cuda.cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
	gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "a kernel of this library in a stream on GPU %s",
				     gpu->pci);
	return ORIEL_OK;
}

static enum oriel_status gpu_copy_in(const struct ori_gpu *gpu, void *stream, void *to,
				     const void *from, size_t length)
{
	struct gpu_visit visit = gpu_enter(gpu);
	CUresult result;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result = ori_cuda.cuMemcpyAsync(gpu_address(to), gpu_address(from), length, stream);
	gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "copying %zu bytes in a stream on GPU %s", length,
				     gpu->pci);
	return ORIEL_OK;
}

static bool gpu_p2p(CUdevice from, CUdevice to, CUdevice_P2PAttribute attribute)
{
	int value = 0;

	return ori_cuda.cuDeviceGetP2PAttribute(&value, attribute, from, to) == CUDA_SUCCESS &&
	       value;
}

static uint32_t gpu_reach_flags(CUdevice from, CUdevice to)
{
	uint32_t flags = 0;

	if (gpu_p2p(from, to, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED))
		flags |= ORI_GPU_ACCESS;
	if (flags && gpu_p2p(from, to, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED))
		flags |= ORI_GPU_ATOMICS;
	return flags;
}

static unsigned gpu_look(const struct ori_gpu *gpu, struct ori_gpu_reach *reach, unsigned room)
{
	int device, devices = 0;
	unsigned count = 0;
	CUuuid uuid;

	if (ori_cuda.cuDeviceGetCount(&devices) != CUDA_SUCCESS)
		return 0;
	for (device = 0; device < devices && count < room; device++) {
		if (device == gpu->device ||
		    ori_cuda.cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS)
			continue;
		memcpy(reach[count].uuid, uuid.bytes, sizeof(reach[count].uuid));
		reach[count++].flags = gpu_reach_flags(gpu->device, device);
	}
	return count;
}

static const struct ori_gpu_ops gpu_cuda_ops = {
	.look = gpu_look,
	.alloc = gpu_alloc,
	.import = gpu_import,
	.unmap = gpu_unmap,
	.find = gpu_find,
	.grant = gpu_grant,
	.export_fd = gpu_export_fd,
	.export_handle = gpu_export_handle,
	.open_handle = gpu_open_handle,
	.close_handle = gpu_close_handle,
	.pin = gpu_pin,
	.unpin = gpu_unpin,
	.copy = gpu_copy,
	.zero = gpu_zero,
	.load = gpu_load,
	.unload = gpu_unload,
	.launch = gpu_launch,
	.copy_in = gpu_copy_in,
};

static unsigned gpu_flags(CUdevice device)
{
	unsigned flags = 0;

	if (gpu_attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
	    gpu_attribute(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		flags |= ORI_GPU_VMM;
	if (gpu_attribute(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED))
		flags |= ORI_GPU_FABRIC;
	if (gpu_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
		flags |= ORI_GPU_RDMA;
	return flags;
}

static enum oriel_status gpu_describe(CUdevice device, struct ori_gpu *gpu)
{
	CUresult result;
	CUuuid uuid;

	gpu->ops = &gpu_cuda_ops;
	gpu->device = device;
	gpu->flags = gpu_flags(device);
	result = ori_cuda.cuDeviceGetUuid(&uuid, device);
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuDeviceGetName(gpu->name, sizeof(gpu->name), device);
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuDeviceGetPCIBusId(gpu->pci, sizeof(gpu->pci), device);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "GPU %d cannot be described", device);
	memcpy(gpu->uuid, uuid.bytes, sizeof(gpu->uuid));
	return ORIEL_OK;
}

/* Can kernels on @gpu do what oriel/dev.h wants? */
static enum oriel_status gpu_check(const struct ori_gpu *gpu)
{
	int major = gpu_attribute(gpu->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	int minor = gpu_attribute(gpu->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

	if (major < GPU_CAPABILITY)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"GPU %s (%s) has compute capability %d.%d, not %d.0 at least",
				gpu->pci, gpu->name, major, minor, GPU_CAPABILITY);
	if (!gpu_attribute(gpu->device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) ||
	    !gpu_attribute(gpu->device,
			   CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"GPU %s (%s) sees host memory at other addresses", gpu->pci,
				gpu->name);
	return ORIEL_OK;
}

static enum oriel_status gpu_open_stream(struct ori_gpu *gpu)
{
	struct gpu_visit visit = gpu_enter(gpu);
	CUstream stream;
	CUresult result;

	if (visit.status != ORIEL_OK)
		return visit.status;
	result = ori_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "no stream on GPU %s", gpu->pci);
	gpu->stream = stream;
	return ORIEL_OK;
}

enum oriel_status ori_gpu_open(struct ori_gpu *gpu)
{
	struct ori_gpu g = {0};
	enum oriel_status status;
	CUcontext context = NULL;
	CUdevice device;
	CUresult result;

	status = ori_cuda_open();
	if (status != ORIEL_OK)
		return status;
	result = ori_cuda.cuCtxGetCurrent(&context);
	if (result == CUDA_SUCCESS && !context)
		return ori_fail(ORIEL_ERR_STATE,
				"no CUDA context is current in this thread: call cudaSetDevice() "
				"or cuCtxSetCurrent() before");
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuCtxGetDevice(&device);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "the current CUDA context");
	g.context = context;
	status = gpu_describe(device, &g);
	if (status == ORIEL_OK)
		status = gpu_check(&g);
	if (status == ORIEL_OK)
		status = gpu_open_stream(&g);
	if (status == ORIEL_OK)
		*gpu = g;
	return status;
}

void ori_gpu_close(struct ori_gpu *gpu)
{
	struct gpu_visit visit;

	if (gpu->ops) {
		visit = gpu_enter(gpu);
		if (visit.status == ORIEL_OK)
			ori_cuda.cuStreamDestroy(gpu->stream);
		gpu_leave(&visit);
	}
	*gpu = (struct ori_gpu){0};
}
