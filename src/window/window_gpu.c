/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows in GPU memory: the memory behind the handle's pointers lies there, and the host keeps
 * a copy. window.c calls it.
 */
#include "window/window.h"

#include "base/config.h"
#include "base/error.h"
#include "comm/comm_gpu.h"

static size_t window_peers_length(const struct oriel_window *w)
{
	return ori_window_entries(w) * sizeof(*w->peers);
}

static size_t window_row_length(const struct oriel_window *w)
{
	return w->comm->size * sizeof(*w->table);
}

enum oriel_status ori_window_gpu_open(struct oriel_window *w)
{
	struct oriel_dev_window *d = &w->device;
	size_t state = ori_window_state_length(d);
	enum oriel_status status;
	uint64_t batch;
	char *at;

	if (!w->comm->gpu)
		return ori_fail(ORIEL_ERR_INVALID,
				"a window in GPU memory needs a communicator with ORIEL_COMM_GPU");
	w->gpu = w->comm->gpu;
	status = ori_setting_unsigned(ORI_SETTING_CE_BATCH, UINT32_MAX, &batch);
	if (status != ORIEL_OK)
		return status;
	if (w->gpu->flags & ORI_GPU_BATCHES)
		w->batch = batch;
	status = ori_mem_alloc_gpu(w->gpu,
				   state + window_peers_length(w) +
					   d->buffers * (window_row_length(w) + sizeof(*w->own)),
				   &w->gpu_state);
	if (status != ORIEL_OK)
		return status;
	status = ori_comm_gpu_note(w->comm, &d->fault);
	if (status != ORIEL_OK)
		return status;
	at = w->gpu_state->address;
	ori_window_place_state(d, at);
	d->peers = (const void *)(at + state);
	d->table = (const void *)(at + state + window_peers_length(w));
	d->blame = &w->comm->control->blame;
	return ORIEL_OK;
}

enum oriel_status ori_window_gpu_publish(struct oriel_window *w, uint32_t buffer, uint32_t count)
{
	size_t first = (size_t)buffer * w->comm->size;
	char *at, *rows;
	enum oriel_status status;

	if (!w->gpu)
		return ORIEL_OK;
	at = w->gpu_state->address + ori_window_state_length(&w->device);
	rows = at + window_peers_length(w) + buffer * window_row_length(w);
	status = w->gpu->ops->copy(w->gpu, at, w->peers, window_peers_length(w));
	if (status != ORIEL_OK)
		return status;
	status = w->gpu->ops->copy(w->gpu, rows, &w->table[first], count * window_row_length(w));
	if (status != ORIEL_OK || !ori_window_has_nic_atomics(w))
		return status;
	return w->gpu->ops->copy(w->gpu,
				 at + window_peers_length(w) +
					 (w->own - w->table) * sizeof(*w->own),
				 w->own, w->device.buffers * sizeof(*w->own));
}

/*
 * Kernels reach memory of GPUs by NVLink or as their own, unless the peer is narrow; they reach
 * memory of the host by PCIe, which splits lines.
 */
void ori_window_gpu_mark(struct oriel_window *w)
{
	struct oriel_dev_window *d = &w->device;
	uint32_t i;

	for (i = 0; i < ORIEL_DEV_INLINE_PEERS; i++) {
		uint32_t rank = d->inline_peers[i].rank;
		const struct ori_mapping *map = &w->buffers[0][rank];

		if (!d->inline_peers[i].mark || w->peers[rank].flags & ORIEL_DEV_PEER_NARROW)
			continue;
		/* A buffer allocated by its window lies behind the control segment. */
		if (!map->address)
			map = &w->control[rank];
		if (w->gpu && map->address && ori_mapping_is_gpu(map))
			d->inline_wide |= 1u << i;
	}
}

void ori_window_gpu_close(struct oriel_window *w)
{
	if (!w->gpu)
		return;
	if (w->device.fault != &w->fault)
		ori_comm_gpu_forget(w->comm, w->device.fault);
	w->gpu->ops->close_side_stream(w->gpu, &w->lane);
	ori_mem_unref(w->gpu_state);
}
