/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers GPU memory with any HCA, by dma-buf or by nvidia-peermem. src/rdma
 * calls it.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "hca/hca.h"
#include "sys/gpu.h"

enum oriel_status ori_hca_register_gpu(const struct ori_hca_ops *ops, struct ori_hca *hca,
				       const struct ori_gpu *gpu, char *address, size_t length,
				       uint64_t iova, unsigned access, struct ori_hca_mr **mr,
				       struct ori_hca_keys *keys)
{
	struct ori_error before;
	enum oriel_status status;
	char why[192];
	int fd;

	if (gpu->flags & ORI_GPU_NO_RDMA)
		return gpu->ops->export_dmabuf(gpu, address, length, &fd);
	ori_error_save(&before);
	status = gpu->ops->export_dmabuf(gpu, address, length, &fd);
	if (status == ORIEL_OK) {
		status = ops->register_dmabuf(hca, fd, 0, length, iova, access, mr, keys);
		close(fd);
	}
	snprintf(why, sizeof(why), "%s", oriel_last_error());
	/* With nvidia-peermem addresses of a GPU register like any others. */
	if (status != ORIEL_OK &&
	    ops->register_memory(hca, address, length, iova, access, mr, keys) == ORIEL_OK)
		status = ORIEL_OK;
	ori_error_restore(&before);
	if (status == ORIEL_OK)
		return ORIEL_OK;
	return ori_fail(status,
			"cannot register %zu bytes of GPU memory at %p by dma-buf (%s), nor by "
			"nvidia-peermem, if that is loaded; `oriel doctor` says what is missing",
			length, (void *)address, why);
}
