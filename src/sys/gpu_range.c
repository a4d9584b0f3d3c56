/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses, and the physical allocations that are mapped there. */
#include "sys/gpu_driver.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static_assert(sizeof(CUmemFabricHandle) == ORI_GPU_HANDLE, "a handle fits");

/*
 * Held while ranges are mapped, opened or unmapped: driver 580 crashed inside
 * cuMemUnmap() when four threads, each with a GPU, did so at once
 * (tests/device/gpu_first.cu, "a hundred windows").
 */
static pthread_mutex_t gpu_ranges = PTHREAD_MUTEX_INITIALIZER;

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
		return ori_cuda_fail(result, "granule of the memory of GPU %s", gpu->pci);
	if (__builtin_add_overflow(*length, granule - 1, &whole))
		return ori_fail(ORIEL_ERR_RANGE, "no GPU has %zu bytes", *length);
	*length = whole / granule * granule;
	return ORIEL_OK;
}

/* What of @types the memory was made for. */
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
			return ori_cuda_fail(
				result, "GPU memory cannot be given away by handle of a fabric");
		memcpy(h.fabric, &fabric, sizeof(h.fabric));
		h.has_fabric = true;
	}
	if (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		result = ori_cuda.cuMemExportToShareableHandle(
			&h.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		if (result != CUDA_SUCCESS)
			return ori_cuda_fail(result,
					     "GPU memory cannot be given away by descriptor");
	}
	*handles = h;
	return ORIEL_OK;
}

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
		status = gpu_export(handle, prop.requestedHandleTypes, &exported);
	if (status == ORIEL_OK)
		status = ori_gpu_zero(gpu, at, whole);
	/* The mapping holds the memory. */
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
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for %u handles", count);
	while (got < count && status == ORIEL_OK) {
		result = ori_cuda.cuMemImportFromShareableHandle(
			&handles[got], ori_gpu_pointer((CUdeviceptr)fds[got]),
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

/* cudaMalloc() memory is open to the contexts that its own has been opened to. */
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
	CUmemGenericAllocationHandle piece;
	CUmemFabricHandle fabric;
	enum oriel_status status;
	CUresult result;

	memcpy(&fabric, handle, sizeof(fabric));
	result =
		ori_cuda.cuMemImportFromShareableHandle(&piece, &fabric, CU_MEM_HANDLE_TYPE_FABRIC);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result,
				     "a peer's GPU memory cannot be opened by its handle of a "
				     "fabric (GPU %s)",
				     gpu->pci);
	status = gpu_map(gpu, &piece, &length, 1, address);
	ori_cuda.cuMemRelease(piece);
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
	/* A handle of a fabric is of no use to who is in none. */
	if (!(gpu->flags & ORI_GPU_FABRIC) && types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (result != CUDA_SUCCESS)
		status = ori_cuda_fail(result, "GPU memory at %p", (void *)info->base);
	else if (!types)
		status = ori_fail(ORIEL_ERR_INVALID,
				  "GPU memory at %p cannot be given away: it was made without "
				  "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and "
				  "CU_MEM_HANDLE_TYPE_FABRIC",
				  (void *)info->base);
	else
		status = gpu_export(handle, types, handles);
	ori_cuda.cuMemRelease(handle);
	return status;
}
