/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a GPU that links for kernels need. This file and rdma_queue.c decide
 * where the parts of a queue lie: the words that posters share in memory of the GPU,
 * since its atomics are fast only there; rings and doorbell records of the software HCA in
 * pinned memory, which it reads as a CPU does. A ConnectX places its own (ori_hca_rings),
 * in memory of the GPU or of the host.
 */
#ifndef ORI_RDMA_RDMA_KERNEL_H
#define ORI_RDMA_RDMA_KERNEL_H

#include <assert.h>

#include <oriel/dev/detail/link.h>

#include "mem/mapping.h"
#include "mem/memory.h"

/* In memory of the GPU, one for each link. */
struct ori_rdma_cell {
	struct ori_dev_mlx5_queue main;
	struct ori_dev_mlx5_queue companion;
	struct ori_dev_proxy_ring proxy; /* instead of those two */
	struct ori_dev_link_answers answers;
	struct oriel_dev_link link;
	char reserved[ORIEL_DEV_LINE - sizeof(struct oriel_dev_link)];
};

static_assert(sizeof(struct ori_rdma_cell) % ORIEL_DEV_LINE == 0, "words keep their lines");

struct ori_memory;
struct ori_rdma_mr;

struct ori_rdma_cells_piece {
	struct ori_mem *mem;
	struct ori_rdma_mr *mr; /* NULL if NICs need not know it */
};

/*
 * Cells are allocated in pieces, since the smallest allocation of a GPU is some MiB.
 * Zeroed storage is empty.
 */
struct ori_rdma_cells {
	struct ori_memory *memory; /* NULL, or NICs have to know them; they are closed before it */
	struct ori_rdma_cells_piece *pieces;
	size_t piece_count;
	struct ori_rdma_cell **free; /* [free_room], as many as there are cells */
	size_t free_count, free_room;
};

enum oriel_status ori_rdma_cell_take(struct ori_rdma_cells *cells, const struct ori_gpu *gpu,
				     struct ori_rdma_cell **cell);
void ori_rdma_cell_give(struct ori_rdma_cells *cells, struct ori_rdma_cell *cell);
/* The address and key of the answers of @cell for the NIC of @rail, if it needs them. */
void ori_rdma_cell_answers(const struct ori_rdma_cells *cells, const struct ori_rdma_cell *cell,
			   unsigned rail, struct ori_dev_link_answers *answers);
/* All cells have been given back. */
void ori_rdma_cells_close(struct ori_rdma_cells *cells);

struct ori_rdma_link;
struct ori_proxied;

/*
 * Copies the words of a queue for kernels as they are now: of the main one (@which 0) or
 * of the companion (1). ORIEL_ERR_NO_PATH: there is no such queue. After any other
 * failure, of the GPU, @copy is the queue as it began.
 */
enum oriel_status ori_rdma_link_read_kernel(const struct ori_rdma_link *link, unsigned which,
					    struct ori_dev_mlx5_queue *copy);

/* The ends whose requests a proxy posts: 0 of the CPU, 1 of kernels. They may be closed. */
const struct ori_proxied *ori_rdma_link_proxied(const struct ori_rdma_link *link, unsigned which);

/* The words of the ring that kernels fill for a proxy, in the same way. */
enum oriel_status ori_rdma_link_read_proxied(const struct ori_rdma_link *link,
					     struct ori_dev_proxy_ring *copy);

#endif
