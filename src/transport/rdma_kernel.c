/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/rdma_kernel.h"

#include <stdlib.h>

#include "base/error.h"

#define CELLS_EACH 64u

static enum oriel_status cells_add(struct ori_rdma_cells *cells, const struct ori_gpu *gpu)
{
	size_t room = cells->free_room + CELLS_EACH, i;
	struct ori_rdma_cell **free_cells = realloc(cells->free, room * sizeof(*free_cells));
	struct ori_mem **pieces;
	struct ori_mem *mem;
	enum oriel_status status;

	if (!free_cells)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for links of kernels");
	cells->free = free_cells;
	pieces = realloc(cells->pieces, (cells->piece_count + 1) * sizeof(*pieces));
	if (!pieces)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for links of kernels");
	cells->pieces = pieces;
	status = ori_mem_alloc_gpu(gpu, CELLS_EACH * sizeof(struct ori_rdma_cell), &mem);
	if (status != ORIEL_OK)
		return status;
	pieces[cells->piece_count++] = mem;
	cells->free_room = room;
	for (i = 0; i < CELLS_EACH; i++)
		free_cells[cells->free_count++] = (struct ori_rdma_cell *)(void *)mem->address + i;
	return ORIEL_OK;
}

enum oriel_status ori_rdma_cell_take(struct ori_rdma_cells *cells, const struct ori_gpu *gpu,
				     struct ori_rdma_cell **cell)
{
	enum oriel_status status = cells->free_count ? ORIEL_OK : cells_add(cells, gpu);

	if (status == ORIEL_OK)
		*cell = cells->free[--cells->free_count];
	return status;
}

void ori_rdma_cell_give(struct ori_rdma_cells *cells, struct ori_rdma_cell *cell)
{
	cells->free[cells->free_count++] = cell;
}

void ori_rdma_cells_close(struct ori_rdma_cells *cells)
{
	while (cells->piece_count)
		ori_mem_unref(cells->pieces[--cells->piece_count]);
	free(cells->pieces);
	free(cells->free);
	*cells = (struct ori_rdma_cells){0};
}
