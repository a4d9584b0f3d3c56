/* SPDX-License-Identifier: Apache-2.0 */
/* Imports memory for kernels. comm/ and p2p/ call it; ori_mapping_close() closes it. */
#ifndef ORI_MEM_GPU_MAPPING_H
#define ORI_MEM_GPU_MAPPING_H

#include "mem/mapping.h"

/*
 * Import for kernels on @gpu, which must outlive the mapping. Host memory is pinned, unless it is
 * private, and the CPU reaches it as after ori_mem_import(). @fds has ori_mem_blob_fds() entries;
 * NULL for a thread of this process.
 */
enum oriel_status ori_mem_import_gpu(const struct ori_gpu *gpu, const struct ori_mem_blob *blob,
				     const int *fds, struct ori_mapping *mapping);

/*
 * Import from another node, by the fabric handle alone. ORIEL_ERR_UNSUPPORTED: the memory has no
 * such handle, or is not on a GPU.
 */
enum oriel_status ori_mem_import_fabric(const struct ori_gpu *gpu, const struct ori_mem_blob *blob,
					struct ori_mapping *mapping);

#endif
