/* SPDX-License-Identifier: Apache-2.0 */
/* The part of mapping.c that handles GPUs, and what the two files share. */
#ifndef ORI_MEM_GPU_MAPPING_H
#define ORI_MEM_GPU_MAPPING_H

#include "mem/mapping.h"

/* Memory of this process behind @blob: references its allocation, if that is in the table. */
enum oriel_status ori_mapping_open_local(const struct ori_mem_blob *blob,
					 struct ori_mapping *mapping);

/* Undo what ori_mem_import_gpu() does beyond ori_mem_import(). */
void ori_mapping_close_gpu(struct ori_mapping *mapping);

#endif
