/* SPDX-License-Identifier: Apache-2.0 */
/* Cells: the words of links in memory of a GPU. rdma_link.c takes one for each link. */
#include "rdma/rdma_kernel.h"

#include <stdlib.h>

#include "base/error.h"
#include "rdma/rdma_memory.h"

#define CELLS_EACH 64u

static enum oriel_status cells_open_piece(const struct ori_rdma_cells *cells,
					  const struct ori_gpu *gpu,
					  struct ori_rdma_cells_piece *piece)
{
	const size_t length = CELLS_EACH * sizeof(struct ori_rdma_cell);
	struct oriel_dev_keys unused;
	enum oriel_status status;

	piece->mr = NULL;
	status = ori_mem_alloc_gpu(gpu, length, &piece->mem);
	if (status != ORIEL_OK || !cells->memory)
		return status;
	status = ori_memory_register(cells->memory, piece->mem->address, length, ORI_RDMA_OWN,
				     &piece->mr, &unused);
	if (status != ORIEL_OK)
		ori_mem_unref(piece->mem);
	return status;
}

static enum oriel_status cells_add(struct ori_rdma_cells *cells, const struct ori_gpu *gpu)
{
	size_t room = cells->free_room + CELLS_EACH, i;
	struct ori_rdma_cell **free_cells = realloc(cells->free, room * sizeof(*free_cells));
	struct ori_rdma_cells_piece *pieces;
	enum oriel_status status;
	char *address;

	if (!free_cells)
		return ori_fail_nomem(room * sizeof(*free_cells), "links of kernels");
	cells->free = free_cells;
	pieces = realloc(cells->pieces, (cells->piece_count + 1) * sizeof(*pieces));
	if (!pieces)
		return ori_fail_nomem((cells->piece_count + 1) * sizeof(*pieces),
				      "links of kernels");
	cells->pieces = pieces;
	status = cells_open_piece(cells, gpu, &pieces[cells->piece_count]);
	if (status != ORIEL_OK)
		return status;
	address = pieces[cells->piece_count++].mem->address;
	cells->free_room = room;
	for (i = 0; i < CELLS_EACH; i++)
		free_cells[cells->free_count++] = (struct ori_rdma_cell *)(void *)address + i;
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

void ori_rdma_cell_answers(const struct ori_rdma_cells *cells, const struct ori_rdma_cell *cell,
			   unsigned rail, struct ori_dev_link_answers *answers)
{
	uint64_t words = (uintptr_t)cell->answers.words, offset;
	struct oriel_dev_keys lkeys;
	size_t i;

	for (i = 0; i < cells->piece_count; i++) {
		const struct ori_rdma_cells_piece *piece = &cells->pieces[i];

		offset = words - (uintptr_t)piece->mem->address;
		if (!piece->mr || offset >= CELLS_EACH * sizeof(*cell))
			continue;
		ori_rdma_mr_local(piece->mr, &answers->address, &lkeys);
		answers->address += offset;
		answers->key = lkeys.rail[rail];
	}
}

void ori_rdma_cells_close(struct ori_rdma_cells *cells)
{
	while (cells->piece_count) {
		struct ori_rdma_cells_piece *piece = &cells->pieces[--cells->piece_count];

		if (piece->mr)
			ori_memory_unregister(cells->memory, piece->mr);
		ori_mem_unref(piece->mem);
	}
	free(cells->pieces);
	free(cells->free);
	*cells = (struct ori_rdma_cells){0};
}
