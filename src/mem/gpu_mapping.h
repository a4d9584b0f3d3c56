/* SPDX-License-Identifier: Apache-2.0 */
/* The half of mapping.c that is about GPUs. */
#ifndef ORI_MEM_GPU_MAPPING_H
#define ORI_MEM_GPU_MAPPING_H

#include "mem/mapping.h"

/* Memory of this process behind @blob: a reference to its piece, if it has one. */
enum oriel_status ori_mapping_open_local(const struct ori_mem_blob *blob,
					 struct ori_mapping *mapping);

/* Undoes what ori_mem_import_gpu() did beyond ori_mem_import(). */
void ori_mapping_close_gpu(struct ori_mapping *mapping);

#endif
