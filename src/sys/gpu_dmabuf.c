/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a GPU as a dma-buf, which adapters take. */
#include "sys/gpu_driver.h"

#include "base/error.h"

enum oriel_status ori_gpu_export_dmabuf(const struct ori_gpu *gpu, void *address, size_t length,
					int *fd)
{
	struct ori_gpu_visit visit;
	CUresult result;
	int made = -1;

	if (!ori_cuda.cuMemGetHandleForAddressRange)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"the CUDA driver has no cuMemGetHandleForAddressRange(): it is "
				"older than 11.7");
	visit = ori_gpu_enter(gpu);
	if (visit.status != ORIEL_OK)
		return visit.status;
	result = ori_cuda.cuMemGetHandleForAddressRange(&made, ori_gpu_address(address), length,
							CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	ori_gpu_leave(&visit);
	if (result != CUDA_SUCCESS)
		return ori_cuda_fail(result, "no dma-buf of %zu bytes at %p of GPU %s", length,
				     address, gpu->pci);
	*fd = made;
	return ORIEL_OK;
}
