/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses: the allocation that one lies in, IPC handles of cudaMalloc() memory, and host
 * memory that is pinned for GPUs. The table of sys/gpu.h has them for mem, rdma and p2p.
 */
#include "sys/gpu_driver.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"

static_assert(sizeof(CUipcMemHandle) == ORI_GPU_HANDLE, "a handle fits");

/* An attribute that an older driver does not know reads as false. */
static bool gpu_pointer_flag(CUpointer_attribute attribute, CUdeviceptr at)
{
	/* The attributes have 1 or 4 bytes. */
	unsigned value = 0;

	return ori_cuda.cuPointerGetAttribute(&value, attribute, at) == CUDA_SUCCESS && value;
}

/* The kind of GPU memory at @at. */
static enum ori_gpu_kind gpu_kind(CUdeviceptr at)
{
	CUmemGenericAllocationHandle handle;

	if (gpu_pointer_flag(CU_POINTER_ATTRIBUTE_IS_MANAGED, at))
		return ORI_GPU_OTHER;
	if (gpu_pointer_flag(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at))
		return ORI_GPU_LEGACY;
	if (ori_cuda.cuMemRetainAllocationHandle(&handle, ori_gpu_pointer(at)) != CUDA_SUCCESS)
		return ORI_GPU_OTHER;
	ori_cuda.cuMemRelease(handle);
	return ORI_GPU_MAPPED;
}

/*
 * The driver reports the range only of memory that the current context reaches: not of another
 * context's cudaMalloc() memory, and not of mappings that this GPU has no access to.
 */
static enum oriel_status gpu_query_device(const struct ori_gpu *gpu, CUdeviceptr at,
					  struct ori_gpu_memory_info *info)
{
	struct ori_gpu_memory_info p = {.kind = gpu_kind(at), .device = -1};
	unsigned long long id = 0;
	CUdeviceptr base = 0;
	CUresult result;

	result = ori_cuda.cuPointerGetAttribute(&p.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "querying the GPU of memory at %p",
				     ori_gpu_pointer(at));
	result = ori_cuda.cuMemGetAddressRange(&base, &p.length, at);
	if (result != CUDA_SUCCESS && p.device == gpu->device)
		return ori_cuda_fail(result, "GPU memory at %p", ori_gpu_pointer(at));
	if (result != CUDA_SUCCESS)
		p.length = 0;
	p.base = p.length ? ori_gpu_pointer(base) : ori_gpu_pointer(at);
	if (ori_cuda.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at) == CUDA_SUCCESS)
		p.id = id;
	*info = p;
	return ORIEL_OK;
}

/*
 * The driver answers CUDA_ERROR_INVALID_VALUE for memory that it does not know: host memory that
 * is not pinned.
 */
enum oriel_status ori_gpu_query(const struct ori_gpu *gpu, const void *address,
				struct ori_gpu_memory_info *info)
{
	struct ori_gpu_memory_info host = {ORI_GPU_PAGEABLE, NULL, 0, -1, 0};
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	enum oriel_status status = guard.status;
	CUdeviceptr at = ori_gpu_address(address);
	CUmemorytype type = 0;
	CUresult result;

	if (status != ORIEL_OK)
		return status;
	result = ori_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
	if (result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE) {
		status = gpu_query_device(gpu, at, info);
	} else if (result == CUDA_SUCCESS) {
		host.kind = gpu_pointer_flag(CU_POINTER_ATTRIBUTE_IS_MANAGED, at) ? ORI_GPU_OTHER
										  : ORI_GPU_PINNED;
		*info = host;
	} else if (result == CUDA_ERROR_INVALID_VALUE) {
		*info = host;
	} else {
		status = ori_cuda_fail(result, "memory at %p", address);
	}
	ori_gpu_leave(&guard);
	return status;
}

/* Memory that the driver does not know has type 0. */
enum oriel_status ori_gpu_can_access(const struct ori_gpu *gpu, const void *address,
				     bool *is_accessible)
{
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUmemorytype type = 0;
	int device = -1;
	void *values[] = {&type, &device};
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuPointerGetAttributes(2, attributes, values, ori_gpu_address(address));
	ori_gpu_leave(&guard);
	if (result == CUDA_ERROR_INVALID_VALUE)
		type = 0;
	else if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "memory at %p", address);
	*is_accessible = type == CU_MEMORYTYPE_HOST ||
			 (type == CU_MEMORYTYPE_DEVICE && device == gpu->device);
	return ORIEL_OK;
}

enum oriel_status ori_gpu_export_handle(const struct ori_gpu *gpu,
					const struct ori_gpu_memory_info *info,
					uint8_t handle[ORI_GPU_HANDLE])
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUipcMemHandle ipc;
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuIpcGetMemHandle(&ipc, ori_gpu_address(info->base));
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "exporting an IPC handle of GPU memory at %p",
				     (void *)info->base);
	memcpy(handle, &ipc, ORI_GPU_HANDLE);
	return ORIEL_OK;
}

enum oriel_status ori_gpu_open_handle(const struct ori_gpu *gpu,
				      const uint8_t handle[ORI_GPU_HANDLE], void **address)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUipcMemHandle ipc;
	CUdeviceptr at;
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	memcpy(&ipc, handle, sizeof(ipc));
	result = ori_cuda.cuIpcOpenMemHandle(&at, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "opening an IPC handle of a peer's GPU memory");
	*address = ori_gpu_pointer(at);
	return ORIEL_OK;
}

void ori_gpu_close_handle(const struct ori_gpu *gpu, void *address)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);

	if (guard.status == ORIEL_OK)
		ori_cuda.cuIpcCloseMemHandle(ori_gpu_address(address));
	ori_gpu_leave(&guard);
}

void ori_gpu_unpin(const struct ori_gpu *gpu, void *address)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);

	if (guard.status == ORIEL_OK)
		ori_cuda.cuMemHostUnregister(address);
	ori_gpu_leave(&guard);
}

/*
 * Portable, for the contexts of all GPUs. The device address must equal the host's, since kernels
 * and CPU threads share one table of addresses.
 */
enum oriel_status ori_gpu_pin(const struct ori_gpu *gpu, void *address, size_t length)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUdeviceptr at = 0;
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuMemHostRegister(address, length,
					    CU_MEMHOSTREGISTER_PORTABLE |
						    CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result == CUDA_SUCCESS)
		ori_cuda.cuMemHostGetDevicePointer(&at, address, 0);
	ori_gpu_leave(&guard);
	if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		return ORIEL_AGAIN;
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "%zu bytes of host memory at %p cannot be pinned",
				     length, address);
	if (ori_gpu_pointer(at) == address)
		return ORIEL_OK;
	ori_gpu_unpin(gpu, address);
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "GPU %s maps host memory at other addresses",
			gpu->pci);
}

/* IOMEMORY maps registers of another device, for instance the doorbell page of a NIC. */
enum oriel_status ori_gpu_map_io(const struct ori_gpu *gpu, void *address, size_t length, void **at)
{
	struct ori_gpu_guard guard = ori_gpu_enter(gpu);
	CUdeviceptr mapped = 0;
	CUresult result;

	if (guard.status != ORIEL_OK)
		return guard.status;
	result = ori_cuda.cuMemHostRegister(address, length,
					    CU_MEMHOSTREGISTER_PORTABLE |
						    CU_MEMHOSTREGISTER_DEVICEMAP |
						    CU_MEMHOSTREGISTER_IOMEMORY);
	if (result == CUDA_SUCCESS) {
		result = ori_cuda.cuMemHostGetDevicePointer(&mapped, address, 0);
		if (result != CUDA_SUCCESS)
			ori_cuda.cuMemHostUnregister(address);
	}
	ori_gpu_leave(&guard);
	if (result == CUDA_ERROR_NOT_PERMITTED)
		return ori_cuda_fail(
			result,
			"GPU %s may not store to other devices: load the module nvidia "
			"with NVreg_RegistryDwords=\"PeerMappingOverride=1;\"",
			gpu->pci);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "GPU %s cannot map %zu bytes of another device",
				     gpu->pci, length);
	*at = ori_gpu_pointer(mapped);
	return ORIEL_OK;
}
