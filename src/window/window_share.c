/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers that join a window after its creation, and leave it. Programs call it, and comm_device.c
 * for its regions.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "window/window.h"

static void window_fill_row(struct oriel_window *w, uint32_t number, const struct ori_mapping *maps,
			    const struct ori_remote *remotes)
{
	struct oriel_dev_buffer *row = &w->table[(size_t)number * w->comm->size];
	unsigned peer;

	for (peer = 0; peer < w->comm->size; peer++) {
		row[peer].length = maps[peer].length;
		row[peer].rkeys = remotes[peer].rkeys;
		row[peer].address = remotes[peer].address;
		row[peer].base = maps[peer].address;
		/*
		 * Empty, or not mapped: the address is not that of the buffer and never used.
		 */
		if (!maps[peer].address)
			row[peer].base = w->device.control;
	}
	w->own[number].address = remotes[w->comm->rank].address;
	w->own[number].rkeys = remotes[w->comm->rank].rkeys;
}

/* All ranks have shared the same number, so all get the same answer. */
static enum oriel_status window_check_room(const struct oriel_window *w, const char *call)
{
	if (w->shared < w->device.buffers)
		return ORIEL_OK;
	return ori_fail(
		ORIEL_ERR_RANGE,
		"%s: all %u buffers of the window are shared; create it with more (buffers)", call,
		w->device.buffers);
}

/* Row @number is filled. Collective: on GPUs one more call can fail. */
static enum oriel_status window_publish(struct oriel_window *w, uint32_t number)
{
	if (!w->gpu)
		return ORIEL_OK;
	return ori_comm_agree(w->comm, ORI_CALL_WINDOW_SHARE, ori_window_gpu_publish(w, number, 1));
}

void ori_window_clear(struct oriel_window *w, uint32_t number)
{
	unsigned size = w->comm->size;

	memset(&w->table[(size_t)number * size], 0, size * sizeof(*w->table));
	/* Fails only if the GPU has failed; then nothing more runs there. */
	(void)ori_window_gpu_publish(w, number, 1);
	ori_share_close(w->buffers[number], size);
	free(w->buffers[number]);
	w->buffers[number] = NULL;
	ori_share_unregister(w->comm, w->buffer_mrs[number]);
	w->buffer_mrs[number] = NULL;
}

enum oriel_status ori_window_fill(struct oriel_window *w, uint32_t number, enum oriel_status status,
				  void *address, size_t length)
{
	struct ori_piece piece = {.address = address,
				  .length = length,
				  .use = w->gpu ? ORI_USE_GPU : ORI_USE_CPU,
				  .is_unmapped = w->is_rdma};
	unsigned size = w->comm->size;
	struct ori_mapping *maps = calloc(size, sizeof(*maps));
	struct ori_remote *remotes = calloc(size, sizeof(*remotes));
	struct ori_rdma_mr *mr = NULL;

	if (status == ORIEL_OK && (!maps || !remotes))
		status = ori_fail_nomem(size * (sizeof(*maps) + sizeof(*remotes)),
					"the buffers of %u ranks", size);
	/* A rank without memory takes part all the same, with its failure. */
	status = ori_share_one(w->comm, ORI_CALL_WINDOW_SHARE, status, &piece, maps, remotes, &mr);
	if (status != ORIEL_OK) {
		free(remotes);
		free(maps);
		return status;
	}
	assert(maps && remotes);
	window_fill_row(w, number, maps, remotes);
	ori_window_fill_own(&w->table[(size_t)number * size + w->comm->rank], mr, 0);
	free(remotes);
	w->buffers[number] = maps;
	w->buffer_mrs[number] = mr;
	status = window_publish(w, number);
	if (status != ORIEL_OK)
		ori_window_clear(w, number);
	return status;
}

enum oriel_status oriel_window_share(struct oriel_window *w, void *address, size_t length,
				     uint32_t *buffer)
{
	enum oriel_status status = ori_handle_check(w, ORI_HANDLE_WINDOW, __func__);

	/* Alone: the other ranks wait as if this one had not called. */
	if (status == ORIEL_OK && !buffer)
		status = ori_fail_null(__func__, "buffer");
	if (status == ORIEL_OK)
		status = window_check_room(w, __func__);
	if (status == ORIEL_OK)
		status = ori_window_fill(w, w->shared, ORIEL_OK, address, length);
	if (status == ORIEL_OK)
		*buffer = w->shared++;
	return status;
}

/* For memory on a GPU the check covers what this rank can see: its own memory. */
static enum oriel_status window_check_table(const struct oriel_window *w,
					    const struct oriel_dev_buffer *table)
{
	unsigned own = w->comm->rank, peer;
	enum oriel_status status = ORIEL_OK;
	bool is_seen = true;

	if (!table)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_window_share_table: table is NULL");
	for (peer = 0; peer < w->comm->size; peer++)
		if (!table[peer].base)
			return ori_fail(ORIEL_ERR_INVALID,
					"oriel_window_share_table: the table has nothing of rank "
					"%u (base is NULL)",
					peer);
	for (peer = 0; peer < w->comm->size && ori_window_has_nic_atomics(w); peer++)
		if (peer != own && table[peer].length && !table[peer].rkeys.rail[0])
			return ori_fail(
				ORIEL_ERR_INVALID,
				"oriel_window_share_table: the table has no key of rank %u, "
				"whose NIC executes the atomics on it (ORIEL_ATOMICS_HCA): "
				"oriel_region_table() fills in those of all ranks",
				peer);
	if (w->gpu)
		status = w->gpu->ops->can_access(w->gpu, table[own].base, &is_seen);
	if (status == ORIEL_OK && !is_seen)
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_window_share_table: %p, of rank %u itself, is no memory of "
				"its GPU, nor pinned",
				(void *)table[own].base, own);
	return status;
}

/* The table has this rank's keys for posts of its own, and none for atomics of its own NIC. */
static enum oriel_status window_register_own(struct oriel_window *w,
					     const struct oriel_dev_buffer *table)
{
	const struct oriel_dev_buffer *own = &table[w->comm->rank];
	struct ori_rdma_mr **mr = &w->buffer_mrs[w->shared];
	struct oriel_dev_keys lkeys;
	enum oriel_status status;

	if (!ori_window_has_nic_atomics(w) || !own->length)
		return ORIEL_OK;
	status = ori_share_register(w->comm, own->base, own->length, mr, &w->own[w->shared].rkeys);
	if (status == ORIEL_OK)
		ori_share_local(*mr, &w->own[w->shared].address, &lkeys);
	return status;
}

enum oriel_status oriel_window_share_table(struct oriel_window *w,
					   const struct oriel_dev_buffer *table, uint32_t *buffer)
{
	enum oriel_status status = ori_handle_check(w, ORI_HANDLE_WINDOW, __func__);
	unsigned size;

	if (status == ORIEL_OK && !buffer)
		status = ori_fail_null(__func__, "buffer");
	if (status == ORIEL_OK)
		status = window_check_room(w, __func__);
	if (status != ORIEL_OK)
		return status;
	status = window_check_table(w, table);
	if (status == ORIEL_OK)
		status = window_register_own(w, table);
	status = ori_comm_agree(w->comm, ORI_CALL_WINDOW_SHARE, status);
	if (status == ORIEL_OK) {
		size = w->comm->size;
		memcpy(&w->table[(size_t)w->shared * size], table, size * sizeof(*table));
		status = window_publish(w, w->shared);
	}
	if (status == ORIEL_OK) {
		*buffer = w->shared++;
		return ORIEL_OK;
	}
	ori_share_unregister(w->comm, w->buffer_mrs[w->shared]);
	w->buffer_mrs[w->shared] = NULL;
	return status;
}
