/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a GPU beside windows that rings name as a source or for results, where no
 * key reaches all of it: whole allocations, registered when the host first sees one, in
 * a table that kernels look into. Any thread.
 */
#ifndef ORI_RDMA_RDMA_REACH_H
#define ORI_RDMA_RDMA_REACH_H

#include <oriel/dev/link.h>

#include "rdma/rdma_memory.h"

struct ori_reach;

enum oriel_status ori_reach_open(struct ori_memory *memory, const struct ori_gpu *gpu,
				 struct ori_reach **reach);
/* Nobody posts any more. NULL is allowed. */
void ori_reach_close(struct ori_reach *reach);

/* In memory of the GPU. */
const struct oriel_link_reach *ori_reach_table(const struct ori_reach *reach);

/*
 * Kernels launched from now on may name the allocation that @address is of. Memory of
 * the host needs none of this. What has been freed since goes when there is no room.
 */
enum oriel_status ori_reach_add(struct ori_reach *reach, const void *address);

#endif
