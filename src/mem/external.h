/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a GPU that the application allocated by its own means, made ready
 * to be exported.
 */
#ifndef ORI_MEM_EXTERNAL_H
#define ORI_MEM_EXTERNAL_H

#include "mem/mapping.h"

struct ori_external;

/*
 * The allocation that [@address, @address + @length) lies in, or the mappings
 * side by side that it touches, with one reference for the caller; @offset is
 * where in it. Only ori_mem_export() and ori_mem_unref() take it.
 * ORIEL_ERR_UNSUPPORTED says why other processes could not reach it.
 */
enum oriel_status ori_mem_open_external(const struct ori_gpu *gpu, void *address, size_t length,
					struct ori_mem **mem, uint64_t *offset);

void ori_external_export(const struct ori_external *external, struct ori_mem_blob *blob);
unsigned ori_external_fds(const struct ori_external *external, int fds[ORI_MEM_FDS]);
/* NULL is allowed. */
void ori_external_close(struct ori_external *external);

#endif
