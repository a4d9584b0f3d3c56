/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a GPU that the application allocated by its own means, made ready
 * to be exported.
 */
#ifndef ORI_MEM_ADOPT_H
#define ORI_MEM_ADOPT_H

#include "mem/mapping.h"

struct ori_adopted;

/*
 * The allocation that [@address, @address + @length) lies in, or the mappings
 * side by side that it touches, with one reference for the caller; @offset is
 * where in it. Only ori_mem_export() and ori_mem_unref() take it.
 * ORIEL_ERR_UNSUPPORTED says why other processes could not reach it.
 */
enum oriel_status ori_mem_adopt(const struct ori_gpu *gpu, void *address, size_t length,
				struct ori_mem **mem, uint64_t *offset);

void ori_adopted_export(const struct ori_adopted *adopted, struct ori_mem_blob *blob);
unsigned ori_adopted_fds(const struct ori_adopted *adopted, int fds[ORI_MEM_FDS]);
/* NULL is allowed. */
void ori_adopted_close(struct ori_adopted *adopted);

#endif
