/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory that the application allocated itself, prepared for export. comm/share.c and p2p/
 * call it for user buffers.
 */
#ifndef ORI_MEM_EXTERNAL_H
#define ORI_MEM_EXTERNAL_H

#include "mem/mapping.h"

struct ori_external;

/*
 * Reference the allocation that holds [@address, @address + @length), or the adjacent mappings
 * that do; @offset is the offset in it. Only ori_mem_export() and ori_mem_unref() accept the
 * result. The text of ORIEL_ERR_UNSUPPORTED says why other processes cannot open it.
 */
enum oriel_status ori_mem_open_external(const struct ori_gpu *gpu, void *address, size_t length,
					struct ori_mem **mem, uint64_t *offset);

void ori_external_export(const struct ori_external *external, struct ori_mem_blob *blob);
unsigned ori_external_fds(const struct ori_external *external, int fds[ORI_MEM_FDS]);
/* NULL is allowed. */
void ori_external_close(struct ori_external *external);

#endif
