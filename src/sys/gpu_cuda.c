/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements sys/gpu.h over the CUDA driver: opens the GPU of the current context, lists its
 * peers, and holds the table of operations, whose functions are in the other gpu_*.c.
 */
#include "sys/gpu_driver.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "sys/nvml.h"

#define GPU_CAPABILITY \
	8 /* the oldest compute capability that the library's kernels are compiled for */

static_assert(sizeof(((CUuuid *)0)->bytes) == ORI_GPU_UUID, "a UUID has its place");

/* If NVML does not report the link, native atomics decide: PCIe has none. */
static bool gpu_is_nvlink(CUdevice from, CUdevice to, bool has_atomics)
{
	char a[ORI_GPU_PCI], b[ORI_GPU_PCI];
	bool is_nvlink;

	if (ori_cuda.cuDeviceGetPCIBusId(a, sizeof(a), from) == CUDA_SUCCESS &&
	    ori_cuda.cuDeviceGetPCIBusId(b, sizeof(b), to) == CUDA_SUCCESS &&
	    ori_nvml_is_nvlink(a, b, &is_nvlink))
		return is_nvlink;
	return has_atomics;
}

static bool gpu_p2p(CUdevice from, CUdevice to, CUdevice_P2PAttribute attribute)
{
	int value = 0;

	return ori_cuda.cuDeviceGetP2PAttribute(&value, attribute, from, to) == CUDA_SUCCESS &&
	       value;
}

/* Atomics and NVLink are reported only together with access. */
static uint32_t gpu_reach_flags(CUdevice from, CUdevice to)
{
	uint32_t flags = 0;

	if (gpu_p2p(from, to, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED))
		flags |= ORI_GPU_ACCESS;
	if (flags && gpu_p2p(from, to, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED))
		flags |= ORI_GPU_ATOMICS;
	if (flags && gpu_is_nvlink(from, to, flags & ORI_GPU_ATOMICS))
		flags |= ORI_GPU_NVLINK;
	return flags;
}

static bool gpu_is_listed(const struct ori_gpu *gpu, const struct ori_gpu_reach *reach,
			  unsigned count, const uint8_t uuid[ORI_GPU_UUID])
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (memcmp(reach[i].uuid, uuid, ORI_GPU_UUID) == 0)
			return true;
	return memcmp(gpu->uuid, uuid, ORI_GPU_UUID) == 0;
}

/*
 * GPUs that CUDA_VISIBLE_DEVICES hides from this process, behind the @count in @reach. Other
 * processes use them, and the driver maps their memory here.
 */
static unsigned gpu_list_hidden(const struct ori_gpu *gpu, struct ori_gpu_reach *reach,
				unsigned count, unsigned room)
{
	unsigned index, all = ori_nvml_count();
	struct ori_nvml_reach found;
	uint8_t uuid[ORI_GPU_UUID];

	for (index = 0; index < all && count < room; index++) {
		if (!ori_nvml_uuid(index, uuid) || gpu_is_listed(gpu, reach, count, uuid) ||
		    !ori_nvml_reach(gpu->pci, index, &found))
			continue;
		memcpy(reach[count].uuid, uuid, sizeof(uuid));
		reach[count].flags = 0;
		if (found.has_access && !(gpu->flags & ORI_GPU_NO_PEERS))
			reach[count].flags = ORI_GPU_ACCESS |
					     (found.has_atomics ? ORI_GPU_ATOMICS : 0) |
					     (found.is_nvlink ? ORI_GPU_NVLINK : 0);
		count++;
	}
	return count;
}

static_assert(ORI_NVML_UUID == ORI_GPU_UUID, "both are the UUID of a GPU");

static unsigned gpu_list_peers(const struct ori_gpu *gpu, struct ori_gpu_reach *reach,
			       unsigned room)
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
		reach[count++].flags =
			gpu->flags & ORI_GPU_NO_PEERS ? 0 : gpu_reach_flags(gpu->device, device);
	}
	return gpu_list_hidden(gpu, reach, count, room);
}

static const struct ori_gpu_ops gpu_cuda_ops = {
	.list_peers = gpu_list_peers,
	.alloc = ori_gpu_alloc,
	.import = ori_gpu_import,
	.import_fabric = ori_gpu_import_fabric,
	.unmap = ori_gpu_unmap,
	.query = ori_gpu_query,
	.can_access = ori_gpu_can_access,
	.enable_access = ori_gpu_enable_access,
	.export_mapped = ori_gpu_export_mapped,
	.export_handle = ori_gpu_export_handle,
	.export_dmabuf = ori_gpu_export_dmabuf,
	.open_handle = ori_gpu_open_handle,
	.close_handle = ori_gpu_close_handle,
	.pin = ori_gpu_pin,
	.unpin = ori_gpu_unpin,
	.map_io = ori_gpu_map_io,
	.copy = ori_gpu_copy,
	.zero = ori_gpu_zero,
	.load = ori_gpu_load,
	.unload = ori_gpu_unload,
	.launch = ori_gpu_launch,
	.stream_copy = ori_gpu_stream_copy,
	.stream_copy_batch = ori_gpu_stream_copy_batch,
	.stream_write = ori_gpu_stream_write,
	.stream_wait = ori_gpu_stream_wait,
	.stream_query = ori_gpu_stream_query,
	.graph_retain = ori_gpu_graph_retain,
	.stream_is_capturing = ori_gpu_stream_is_capturing,
	.mark_set = ori_gpu_mark_set,
	.mark_query = ori_gpu_mark_query,
	.mark_close = ori_gpu_mark_close,
	.open_stream = ori_gpu_open_stream,
	.close_stream = ori_gpu_close_stream,
	.stream_copy_and_flag = ori_gpu_stream_copy_and_flag,
	.flush = ori_gpu_flush,
	.open_side_stream = ori_gpu_open_side_stream,
	.close_side_stream = ori_gpu_close_side_stream,
	.fork = ori_gpu_fork,
	.join = ori_gpu_join,
};

/* Optional features, each by the attribute and by the entry point of the driver. */
static unsigned gpu_flags(CUdevice device)
{
	unsigned flags = 0;

	if (ori_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
	    ori_gpu_attribute(device,
			      CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		flags |= ORI_GPU_VMM;
	if (ori_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
		flags |= ORI_GPU_RDMA;
	if (ori_gpu_has_memops(device))
		flags |= ORI_GPU_STREAM_MEMOPS;
	if (ori_cuda.cuStreamWriteValue64 &&
	    ori_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS))
		flags |= ORI_GPU_STREAM_FLAGS;
	if (ori_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
	    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)
		flags |= ORI_GPU_ORDERED;
	if (ori_cuda.cuFlushGPUDirectRDMAWrites &&
	    ori_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
		    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST)
		flags |= ORI_GPU_FLUSHES;
	if (ori_gpu_has_batches())
		flags |= ORI_GPU_BATCHES;
	return flags;
}

/* Attributes that do not change while the process runs. */
static enum oriel_status gpu_describe(CUdevice device, struct ori_gpu *gpu)
{
	CUresult result;
	CUuuid uuid;

	gpu->ops = &gpu_cuda_ops;
	gpu->device = device;
	gpu->flags = gpu_flags(device);
	gpu->processors =
		(unsigned)ori_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	result = ori_cuda.cuDeviceGetUuid(&uuid, device);
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuDeviceGetName(gpu->name, sizeof(gpu->name), device);
	if (result == CUDA_SUCCESS)
		result = ori_cuda.cuDeviceGetPCIBusId(gpu->pci, sizeof(gpu->pci), device);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "querying GPU %d", device);
	memcpy(gpu->uuid, uuid.bytes, sizeof(gpu->uuid));
	return ORIEL_OK;
}

/* Can kernels on @gpu do what oriel/dev.h needs? */
static enum oriel_status gpu_check(const struct ori_gpu *gpu)
{
	int major = ori_gpu_attribute(gpu->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	int minor = ori_gpu_attribute(gpu->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

	if (major < GPU_CAPABILITY)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"GPU %s (%s) has compute capability %d.%d, not %d.0 at least",
				gpu->pci, gpu->name, major, minor, GPU_CAPABILITY);
	if (!ori_gpu_attribute(gpu->device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) ||
	    !ori_gpu_attribute(gpu->device,
			       CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"GPU %s (%s) maps host memory at other addresses", gpu->pci,
				gpu->name);
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
		return ori_cuda_fail(result, "querying the current CUDA context");
	g.context = context;
	status = gpu_describe(device, &g);
	if (status == ORIEL_OK)
		status = gpu_check(&g);
	if (status == ORIEL_OK)
		status = ori_gpu_open_stream(&g, &g.stream);
	if (status != ORIEL_OK)
		return status;
	status = ori_gpu_fabric_open(&g);
	if (status == ORIEL_OK)
		*gpu = g;
	else
		ori_gpu_close(&g);
	return status;
}

/* The context stays the application's; only the stream is new. */
enum oriel_status ori_gpu_open_again(const struct ori_gpu *gpu, struct ori_gpu *again)
{
	struct ori_gpu g = *gpu;
	enum oriel_status status = ori_gpu_open_stream(&g, &g.stream);

	if (status == ORIEL_OK)
		*again = g;
	return status;
}

void ori_gpu_close(struct ori_gpu *gpu)
{
	struct ori_gpu_guard guard;

	if (gpu->ops) {
		guard = ori_gpu_enter(gpu);
		if (guard.status == ORIEL_OK)
			ori_cuda.cuStreamDestroy(gpu->stream);
		ori_gpu_leave(&guard);
	}
	*gpu = (struct ori_gpu){0};
}
