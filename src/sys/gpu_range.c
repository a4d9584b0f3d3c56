/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address ranges, and the physical allocations that are mapped into them (CUDA VMM): alloc,
 * import, export, unmap. The table of sys/gpu.h has them for mem.
 */
#include "sys/gpu_driver.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static_assert(sizeof(CUmemFabricHandle) == ORI_GPU_HANDLE, "a handle fits");

/*
 * Locked while ranges are mapped, given access or unmapped: driver 580 crashed inside cuMemUnmap()
 * when four threads, each with a GPU, did so at once (tests/device/gpu_first.cu, "a hundred
 * windows").
 */
static pthread_mutex_t gpu_ranges = PTHREAD_MUTEX_INITIALIZER;

/* A handle type or RDMA capability that the GPU lacks would make cuMemCreate() fail. */
static CUmemAllocationProp gpu_prop(const struct ori_gpu *gpu)
{
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (gpu->flags & ORI_GPU_FABRIC)
		prop.requestedHandleTypes |= CU_MEM_HANDLE_TYPE_FABRIC;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = gpu->device;
	prop.allocFlags.gpuDirectRDMACapable = gpu->flags & ORI_GPU_RDMA ? 1 : 0;
	return prop;
}

/* Access is set per GPU: other GPUs of the process need ori_gpu_enable_access(). */
static enum oriel_status gpu_set_access(CUdevice device, CUdeviceptr at, size_t length)
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
				     ori_gpu_pointer(at));
	return ORIEL_OK;
}

/*
 * Map @handles side by side in a new address range, with access for @gpu. The mappings then keep
 * the memory alive: the caller may release the handles.
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
			return ori_fail(ORIEL_ERR_RANGE,
					"the lengths of the memory exceed the address space");
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
	status = gpu_set_access(gpu->device, base, whole);
	if (status != ORIEL_OK)
		goto err_unmap;
	*address = ori_gpu_pointer(base);
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

void ori_gpu_unmap(void *address, size_t length)
{
	pthread_mutex_lock(&gpu_ranges);
	ori_cuda.cuMemUnmap(ori_gpu_address(address), length);
	ori_cuda.cuMemAddressFree(ori_gpu_address(address), length);
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
		return ori_cuda_fail(result, "querying the allocation granularity of GPU %s",
				     gpu->pci);
	if (__builtin_add_overflow(*length, granule - 1, &whole))
		return ori_fail(ORIEL_ERR_RANGE, "%zu bytes exceed the address space", *length);
	*length = whole / granule * granule;
	return ORIEL_OK;
}

/* Export @handle as each of @types, which are among those it was allocated with. */
static enum oriel_status gpu_export(CUmemGenericAllocationHandle handle, unsigned types,
				    struct ori_gpu_handles *handles)
{
	struct ori_gpu_handles h = {.fd = -1};
	CUmemFabricHandle fabric;
	CUresult result;

	if (types & CU_MEM_HANDLE_TYPE_FABRIC) {
		result = ori_cuda.cuMemExportToShareableHandle(&fabric, handle,
							       CU_MEM_HANDLE_TYPE_FABRIC, 0);
		if (result != CUDA_SUCCESS)
			return ori_cuda_fail(result, "exporting GPU memory as a fabric handle");
		memcpy(h.fabric, &fabric, sizeof(h.fabric));
		h.has_fabric = true;
	}
	if (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		result = ori_cuda.cuMemExportToShareableHandle(
			&h.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		if (result != CUDA_SUCCESS)
			return ori_cuda_fail(result, "exporting GPU memory as a descriptor");
	}
	*handles = h;
	return ORIEL_OK;
}

/* cuMemCreate() does not promise zeroed memory. */
enum oriel_status ori_gpu_alloc(const struct ori_gpu *gpu, size_t *length, void **address,
				struct ori_gpu_handles *handles)
{
	struct ori_gpu_handles exported = {.fd = -1};
	CUmemAllocationProp prop = gpu_prop(gpu);
	CUmemGenericAllocationHandle handle;
	size_t whole = *length;
	enum oriel_status status;
	uint64_t bytes;
	CUresult result;
	void *at = NULL;

	if (!(gpu->flags & ORI_GPU_VMM))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"GPU %s (%s) does not export memory as descriptors", gpu->pci,
				gpu->name);
	status = gpu_round_up(gpu, &whole);
	if (status != ORIEL_OK)
		return status;
	result = ori_cuda.cuMemCreate(&handle, whole, &prop, 0);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "allocating %zu bytes on GPU %s", whole, gpu->pci);
	bytes = whole;
	status = gpu_map(gpu, &handle, &bytes, 1, &at);
	if (status == ORIEL_OK)
		status = gpu_export(handle, prop.requestedHandleTypes, &exported);
	if (status == ORIEL_OK)
		status = ori_gpu_zero(gpu, at, whole);
	/* The mapping keeps the memory alive. */
	ori_cuda.cuMemRelease(handle);
	if (status != ORIEL_OK) {
		if (exported.fd >= 0)
			close(exported.fd);
		if (at)
			ori_gpu_unmap(at, whole);
		return status;
	}
	*length = whole;
	*address = at;
	*handles = exported;
	return ORIEL_OK;
}

enum oriel_status ori_gpu_import(const struct ori_gpu *gpu, const int *fds, const uint64_t *lengths,
				 unsigned count, void **address)
{
	CUmemGenericAllocationHandle *handles = calloc(count, sizeof(*handles));
	enum oriel_status status = ORIEL_OK;
	unsigned got = 0;
	CUresult result;

	if (!handles)
		return ori_fail_nomem(count * sizeof(*handles), "%u handles", count);
	while (got < count && status == ORIEL_OK) {
		result = ori_cuda.cuMemImportFromShareableHandle(
			&handles[got], ori_gpu_pointer((CUdeviceptr)fds[got]),
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		if (result == CUDA_SUCCESS)
			got++;
		else
			status = ori_cuda_fail(result, "importing a peer's GPU memory");
	}
	if (status == ORIEL_OK)
		status = gpu_map(gpu, handles, lengths, count, address);
	while (got > 0)
		ori_cuda.cuMemRelease(handles[--got]);
	free(handles);
	return status;
}

/* cudaMalloc() memory is accessible to the contexts that have peer access to its own context. */
static enum oriel_status gpu_enable_access_legacy(const struct ori_gpu *gpu, CUdeviceptr at)
{
	CUcontext owner = NULL;
	CUresult result;

	result = ori_cuda.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, at);
	if (result == CUDA_SUCCESS && owner != gpu->context)
		result = ori_cuda.cuCtxEnablePeerAccess(owner, 0);
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		return ori_cuda_fail(result, "GPU %s cannot reach the memory at %p", gpu->pci,
				     ori_gpu_pointer(at));
	return ORIEL_OK;
}

/* The GPU's own memory needs no call. */
enum oriel_status ori_gpu_enable_access(const struct ori_gpu *gpu, enum ori_gpu_kind kind,
					const void *address, size_t length)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	enum oriel_status status = guard.status;
	CUdeviceptr at = ori_gpu_address(address);
	int device = -1;

	if (status != ORIEL_OK)
		return status;
	pthread_mutex_lock(&gpu_ranges);
	if (ori_cuda.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) !=
		    CUDA_SUCCESS ||
	    device != gpu->device)
		status = kind == ORI_GPU_MAPPED ? gpu_set_access(gpu->device, at, length)
						: gpu_enable_access_legacy(gpu, at);
	pthread_mutex_unlock(&gpu_ranges);
	ori_gpu_leave(&guard);
	return status;
}

enum oriel_status ori_gpu_import_fabric(const struct ori_gpu *gpu,
					const uint8_t handle[ORI_GPU_HANDLE], uint64_t length,
					void **address)
{
	CUmemGenericAllocationHandle allocation;
	CUmemFabricHandle fabric;
	enum oriel_status status;
	CUresult result;

	memcpy(&fabric, handle, sizeof(fabric));
	result = ori_cuda.cuMemImportFromShareableHandle(&allocation, &fabric,
							 CU_MEM_HANDLE_TYPE_FABRIC);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result,
				     "importing a peer's GPU memory by its fabric "
				     "handle on GPU %s",
				     gpu->pci);
	status = gpu_map(gpu, &allocation, &length, 1, address);
	ori_cuda.cuMemRelease(allocation);
	return status;
}

enum oriel_status ori_gpu_export_mapped(const struct ori_gpu *gpu,
					const struct ori_gpu_memory_info *info,
					struct ori_gpu_handles *handles)
{
	const unsigned both = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
	CUmemGenericAllocationHandle handle;
	enum oriel_status status;
	CUmemAllocationProp prop;
	CUresult result;
	unsigned types;

	result = ori_cuda.cuMemRetainAllocationHandle(&handle, info->base);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "GPU memory at %p", (void *)info->base);
	result = ori_cuda.cuMemGetAllocationPropertiesFromHandle(&prop, handle);
	types = result == CUDA_SUCCESS ? prop.requestedHandleTypes & both : 0;
	/* A GPU outside every fabric has no use for a fabric handle. */
	if (!(gpu->flags & ORI_GPU_FABRIC) && types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (result != CUDA_SUCCESS)
		status = ori_cuda_fail(result, "GPU memory at %p", (void *)info->base);
	else if (!types)
		status = ori_fail(ORIEL_ERR_INVALID,
				  "GPU memory at %p cannot be exported: it was allocated without "
				  "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and "
				  "CU_MEM_HANDLE_TYPE_FABRIC",
				  (void *)info->base);
	else
		status = gpu_export(handle, types, handles);
	ori_cuda.cuMemRelease(handle);
	return status;
}
