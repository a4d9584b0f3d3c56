/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of rings. A GPU allocates at least some MiB at once and every registration costs, so
 * queues share chunks. Rings begin at page boundaries of the HCA, which are 64 KiB apart on a
 * GPU and a page apart on the host; the first pages of a chunk hold doorbell records, one per
 * cache line. mlx5_queue.c takes pieces of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "hca/mlx5/mlx5_device.h"

#define ARENA_CHUNK (2u << 20)
#define ARENA_GPU_PAGE 65536u
#define ARENA_BLOCK 64u
#define ARENA_RECORDS 512u
#define ARENA_HEAD (ARENA_RECORDS * ARENA_BLOCK)

static size_t arena_round(size_t length, size_t to)
{
	return (length + to - 1) / to * to;
}

/* Kernels choose no smaller page than that of the host. */
static size_t arena_granule(bool is_gpu)
{
	return is_gpu ? ARENA_GPU_PAGE : mlx5_host_page();
}

/* With a GPU also rings in memory of the host are pinned, so that kernels can reach them. */
static enum oriel_status chunk_alloc(const struct mlx5_device *d, struct mlx5_chunk *c)
{
	enum oriel_status status;

	if (c->is_gpu) {
		status = ori_mem_alloc_gpu(d->gpu, c->length, &c->mem);
	} else if (d->gpu) {
		status = ori_mem_alloc_pinned(d->gpu, c->length, &c->mem);
	} else {
		c->address = aligned_alloc(c->granule, c->length);
		status = c->address ? ORIEL_OK : ORIEL_ERR_NOMEM;
	}
	if (c->mem)
		c->address = c->mem->address;
	if (status == ORIEL_ERR_NOMEM)
		return ori_fail_nomem(c->length, "rings of %s", d->verbs.name);
	return status;
}

static void chunk_free(const struct mlx5_device *d, struct mlx5_chunk *c)
{
	if (c->umem)
		ori_mlx5dv.umem_dereg(c->umem);
	if (c->mem)
		ori_mem_unref_pinned(c->is_gpu ? NULL : d->gpu, c->mem);
	else
		free(c->address);
	free(c->used);
	free(c->records);
	free(c);
}

/*
 * @fd: of a dma-buf, or -1 for an address. Rings lie at multiples of a granule,
 * so that pages of the HCA may be that big: offsets into bigger ones count in
 * 1/64 of a page, and a kernel that is not told expects none (Linux devx.c,
 * devx_umem_reg_cmd_alloc; UCX #11103).
 */
static void chunk_register_by(struct mlx5_device *d, struct mlx5_chunk *c, int fd)
{
	struct mlx5dv_devx_umem_in in = {
		.addr = fd < 0 ? c->address : NULL,
		.size = c->length,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.pgsz_bitmap = (2 * c->granule - 1) & ~(uint64_t)(MLX5_PAGE - 1),
		.comp_mask = fd < 0 ? 0 : MLX5DV_UMEM_MASK_DMABUF,
		.dmabuf_fd = fd,
	};

	c->umem = ori_mlx5dv.umem_reg_ex(d->verbs.context, &in);
}

/* By a dma-buf, else by nvidia_peermem. */
static enum oriel_status chunk_register_gpu(struct mlx5_device *d, struct mlx5_chunk *c)
{
	const char *how = "dma-buf";
	int fd = -1;

	if (d->gpu->ops->export_dmabuf(d->gpu, c->address, c->length, &fd) == ORIEL_OK) {
		chunk_register_by(d, c, fd);
		close(fd);
	}
	if (!c->umem && !(d->gpu->flags & ORI_GPU_NO_RDMA)) {
		how = "peermem";
		chunk_register_by(d, c, -1);
	}
	if (!c->umem)
		return ori_verbs_fail(&d->verbs, errno,
				      "cannot register memory of GPU %s for queues, neither by "
				      "dma-buf nor by nvidia_peermem",
				      d->gpu->pci);
	snprintf(d->report.rings, sizeof(d->report.rings), "%s", how);
	return ORIEL_OK;
}

static enum oriel_status chunk_register(struct mlx5_device *d, struct mlx5_chunk *c)
{
	if (c->is_gpu)
		return chunk_register_gpu(d, c);
	memset(c->address, 0, c->length);
	chunk_register_by(d, c, -1);
	if (c->umem)
		return ORIEL_OK;
	return ori_verbs_fail(&d->verbs, errno,
			      "cannot register %zu bytes of host memory for queues%s", c->length,
			      errno == ENOMEM ? " (is `ulimit -l` too low?)" : "");
}

static enum oriel_status chunk_open(struct mlx5_device *d, size_t length, bool is_gpu,
				    struct mlx5_chunk **out)
{
	struct mlx5_chunk *c = calloc(1, sizeof(*c));
	enum oriel_status status;

	if (!c)
		return ori_fail_nomem(sizeof(*c), "rings of %s", d->verbs.name);
	c->is_gpu = is_gpu;
	c->granule = arena_granule(is_gpu);
	c->length = length + arena_round(ARENA_HEAD, c->granule);
	c->length = arena_round(c->length, ARENA_CHUNK);
	c->granules = (unsigned)(c->length / c->granule);
	c->used = calloc(c->granules, 1);
	c->records = calloc(ARENA_RECORDS, 1);
	if (!c->used || !c->records)
		status = ori_fail_nomem(c->granules + ARENA_RECORDS, "rings of %s", d->verbs.name);
	else
		status = chunk_alloc(d, c);
	if (status == ORIEL_OK)
		status = chunk_register(d, c);
	if (status != ORIEL_OK) {
		chunk_free(d, c);
		return status;
	}
	memset(c->used, 1, arena_round(ARENA_HEAD, c->granule) / c->granule);
	c->next = d->chunks;
	d->chunks = c;
	*out = c;
	return ORIEL_OK;
}

/* First fit; false if there is no room. */
static bool chunk_take(struct mlx5_chunk *c, unsigned count, struct mlx5_piece *piece)
{
	unsigned char *record = memchr(c->records, 0, ARENA_RECORDS);
	unsigned first = 0, i;

	for (i = 0; i < c->granules && i - first < count; i++)
		if (c->used[i])
			first = i + 1;
	if (!record || i - first < count)
		return false;
	memset(c->used + first, 1, count);
	*record = 1;
	*piece = (struct mlx5_piece){c, first, count, (unsigned)(record - c->records)};
	return true;
}

/*
 * A new chunk is long enough for the piece it was opened for, so the second
 * attempt succeeds.
 */
enum oriel_status ori_mlx5_piece_open(struct mlx5_device *d, uint32_t count, bool is_gpu,
				      struct mlx5_piece *piece)
{
	size_t granule = arena_granule(is_gpu);
	size_t length = arena_round((size_t)count * ARENA_BLOCK, granule);
	unsigned granules = (unsigned)(length / granule);
	enum oriel_status status = ORIEL_OK;
	struct mlx5_chunk *c;
	bool is_taken = false;

	pthread_mutex_lock(&d->lock);
	for (c = d->chunks; c && !is_taken; c = c->next)
		is_taken = c->is_gpu == is_gpu && chunk_take(c, granules, piece);
	if (!is_taken)
		status = chunk_open(d, length, is_gpu, &c);
	if (!is_taken && status == ORIEL_OK)
		(void)chunk_take(c, granules, piece);
	pthread_mutex_unlock(&d->lock);
	return status;
}

void ori_mlx5_piece_close(struct mlx5_device *d, struct mlx5_piece *piece)
{
	if (!piece->chunk)
		return;
	pthread_mutex_lock(&d->lock);
	memset(piece->chunk->used + piece->first, 0, piece->count);
	piece->chunk->records[piece->record] = 0;
	pthread_mutex_unlock(&d->lock);
	*piece = (struct mlx5_piece){0};
}

char *ori_mlx5_piece_ring(const struct mlx5_piece *piece)
{
	return piece->chunk->address + piece->first * piece->chunk->granule;
}

uint32_t *ori_mlx5_piece_record(const struct mlx5_piece *piece)
{
	char *at = piece->chunk->address + (size_t)piece->record * ARENA_BLOCK;

	return (uint32_t *)(void *)at;
}

uint64_t ori_mlx5_piece_offset(const struct mlx5_piece *piece, const void *of)
{
	return (uint64_t)((const char *)of - piece->chunk->address);
}

/* The driver can only zero memory; another value takes a copy from the host. */
static enum oriel_status piece_fill_gpu(struct mlx5_device *d, void *at, size_t length, int value)
{
	char *filled = malloc(length);
	enum oriel_status status;

	if (!filled)
		return ori_fail_nomem(length, "rings of %s", d->verbs.name);
	memset(filled, value, length);
	status = d->gpu->ops->copy(d->gpu, at, filled, length);
	free(filled);
	return status;
}

/* Also zeroes the record. */
enum oriel_status ori_mlx5_piece_fill(struct mlx5_device *d, const struct mlx5_piece *piece,
				      uint32_t count, int value)
{
	size_t length = (size_t)count * ARENA_BLOCK;
	enum oriel_status status;

	if (!piece->chunk->is_gpu) {
		memset(ori_mlx5_piece_ring(piece), value, length);
		memset(ori_mlx5_piece_record(piece), 0, ARENA_BLOCK);
		return ORIEL_OK;
	}
	status = piece_fill_gpu(d, ori_mlx5_piece_ring(piece), length, value);
	if (status == ORIEL_OK)
		status = d->gpu->ops->zero(d->gpu, ori_mlx5_piece_record(piece), ARENA_BLOCK);
	return status;
}

void ori_mlx5_arena_close(struct mlx5_device *d)
{
	while (d->chunks) {
		struct mlx5_chunk *c = d->chunks;

		d->chunks = c->next;
		chunk_free(d, c);
	}
}
