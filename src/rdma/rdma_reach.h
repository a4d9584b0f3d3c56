/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a GPU outside windows that rings name as a source or for results, where no
 * key reaches all of it: whole allocations, registered when the host first sees one, in a
 * table that kernels search. Any thread.
 */
#ifndef ORI_RDMA_RDMA_REACH_H
#define ORI_RDMA_RDMA_REACH_H

#include <oriel/dev/detail/link.h>

#include "rdma/rdma_memory.h"

struct ori_reach;

enum oriel_status ori_reach_open(struct ori_memory *memory, const struct ori_gpu *gpu,
				 struct ori_reach **reach);
/* No thread posts any more. NULL is allowed. */
void ori_reach_close(struct ori_reach *reach);

/* In memory of the GPU. */
const struct ori_dev_link_registered *ori_reach_table(const struct ori_reach *reach);

/*
 * Kernels launched from now on may name the allocation that holds @address. Memory of the
 * host needs no entry. When the table is full, an entry of a freed allocation makes room.
 */
enum oriel_status ori_reach_add(struct ori_reach *reach, const void *address);

#endif
