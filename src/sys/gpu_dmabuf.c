/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory exported as a dma-buf, which rdma/rdma_memory.c registers with NICs. */
#include "sys/gpu_driver.h"

#include "base/error.h"
#include "base/log.h"

/*
 * Copies by the driver into memory that NICs read must be complete when the call returns, because
 * NICs follow no stream. With some drivers, memory of cuMemCreate() lacks this attribute; no call
 * of the driver writes to such memory by itself.
 */
static void dmabuf_sync(const struct ori_gpu *gpu, void *address)
{
	const unsigned yes = 1;
	CUresult set = ori_cuda.cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
						      ori_gpu_address(address));

	if (set != CUDA_SUCCESS)
		ori_log(ORIEL_LOG_DEBUG, "GPU %s: SYNC_MEMOPS of memory at %p: CUDA error %d",
			gpu->pci, address, (int)set);
}

enum oriel_status ori_gpu_export_dmabuf(const struct ori_gpu *gpu, void *address, size_t length,
					int *fd)
{
	struct ori_gpu_guard guard;
	CUresult result;
	int made = -1;

	if (gpu->flags & ORI_GPU_NO_RDMA)
		return ori_fail(ORIEL_ERR_ACCESS,
				"GPUDirect RDMA of GPU %s is switched off (gpudirect=off, "
				"ORIEL_TOPOLOGY)",
				gpu->pci);
	if (!ori_cuda.cuMemGetHandleForAddressRange)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"the CUDA driver has no cuMemGetHandleForAddressRange(): it is "
				"older than 11.7");
	guard = ori_gpu_enter(gpu);
	if (guard.status != ORIEL_OK)
		return guard.status;
	dmabuf_sync(gpu, address);
	result = ori_cuda.cuMemGetHandleForAddressRange(&made, ori_gpu_address(address), length,
							CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	ori_gpu_leave(&guard);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "exporting %zu bytes at %p of GPU %s as a dma-buf",
				     length, address, gpu->pci);
	*fd = made;
	return ORIEL_OK;
}
