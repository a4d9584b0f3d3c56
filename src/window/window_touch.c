/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers whose memory of a window this rank maps at the first touch: those in other processes, where
 * the window lies in host memory and more than ORI_LENDING_RANKS ranks are mapped. window.c opens
 * it; what reaches a peer's memory touches the peer before.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/lend.h"
#include "comm/paths.h"
#include "window/window.h"

struct touch_peer {
	atomic_bool is_mapped; /* or never to be mapped; what is below and the tables are before */
	struct ori_mem_blob blobs[ORI_SHARE_PIECES];
};

struct ori_window_late {
	struct oriel_window *window;
	uint64_t control_length;
	struct ori_loan *loan;
	atomic_bool is_whole; /* all peers are mapped */
	pthread_mutex_t lock; /* of the thread that maps */
	struct touch_peer peers[];
};

bool ori_window_is_late(const struct oriel_window *w, unsigned flags)
{
	return !w->gpu && !w->is_rdma && !(flags & ORI_WINDOW_COLLECTIVES) &&
	       ori_comm_is_lending(w->comm);
}

enum oriel_status ori_window_late_open(struct oriel_window *w, const struct ori_offering *offering,
				       uint64_t control_length)
{
	size_t length = sizeof(*w->late) + w->comm->size * sizeof(w->late->peers[0]);
	struct ori_window_late *late = calloc(1, length);

	if (!late)
		return ori_fail_nomem(length, "a window of %u ranks", w->comm->size);
	late->window = w;
	late->control_length = control_length;
	pthread_mutex_init(&late->lock, NULL);
	w->late = late;
	return ori_lend_begin(w->comm, w->device.number, offering, &late->loan);
}

void ori_window_late_set(struct oriel_window *w, unsigned peer, const struct ori_offer *offer)
{
	struct touch_peer *p = &w->late->peers[peer];

	memcpy(p->blobs, offer->blob, sizeof(p->blobs));
	atomic_init(&p->is_mapped, !ori_comm_is_foreign(w->comm, peer));
}

void ori_window_late_close(struct oriel_window *w)
{
	if (!w->late)
		return;
	ori_lend_end(w->comm, w->late->loan);
	pthread_mutex_destroy(&w->late->lock);
	free(w->late);
	w->late = NULL;
}

void ori_window_fill_mapped(struct oriel_window *w, unsigned peer, uint64_t control_length)
{
	char *control = w->control[peer].address;

	w->peers[peer].control = control;
	if (w->buffers[0][peer].address)
		w->table[peer].base = w->buffers[0][peer].address;
	else if (control)
		w->table[peer].base = control + control_length;
}

static enum oriel_status touch_map(struct ori_window_late *late, unsigned peer)
{
	struct oriel_window *w = late->window;
	struct ori_mapping maps[ORI_SHARE_PIECES] = {{0}};
	enum oriel_status status;

	status = ori_lend_borrow(w->comm, peer, w->device.number, late->peers[peer].blobs, maps);
	if (status != ORIEL_OK)
		return status;
	w->control[peer] = maps[0];
	w->buffers[0][peer] = maps[1];
	ori_window_fill_mapped(w, peer, late->control_length);
	atomic_store_explicit(&late->peers[peer].is_mapped, true, memory_order_release);
	return ORIEL_OK;
}

enum oriel_status ori_window_touch_late(const struct oriel_window *w, unsigned peer)
{
	struct ori_window_late *late = w->late;
	enum oriel_status status = ORIEL_OK;
	struct touch_peer *p;

	if (peer >= w->comm->size)
		return ORIEL_OK; /* the caller says so */
	p = &late->peers[peer];
	if (atomic_load_explicit(&p->is_mapped, memory_order_acquire))
		return ORIEL_OK;
	pthread_mutex_lock(&late->lock);
	if (!atomic_load_explicit(&p->is_mapped, memory_order_relaxed))
		status = touch_map(late, peer);
	pthread_mutex_unlock(&late->lock);
	return status;
}

enum oriel_status ori_window_touch_whole(const struct oriel_window *w)
{
	enum oriel_status status = ORIEL_OK;
	unsigned i, size = w->comm->size;

	if (atomic_load_explicit(&w->late->is_whole, memory_order_acquire))
		return ORIEL_OK;
	/* From the successor on, so that no rank is asked by all at once. */
	for (i = 1; i < size && status == ORIEL_OK; i++)
		status = ori_window_touch_late(w, (w->comm->rank + i) % size);
	if (status == ORIEL_OK)
		atomic_store_explicit(&w->late->is_whole, true, memory_order_release);
	return status;
}

enum oriel_status ori_window_touch_late_by(const struct oriel_window *w, enum ori_kernel kernel,
					   unsigned peer)
{
	switch (kernel) {
	case ORI_KERNEL_WAIT_SIGNAL:
	case ORI_KERNEL_WAIT_FROM:
	case ORI_KERNEL_WAIT_NEXT:
	case ORI_KERNEL_WAIT_COUNTER:
	case ORI_KERNEL_READ_SIGNAL:
	case ORI_KERNEL_READ_FROM:
	case ORI_KERNEL_READ_COUNTER:
	case ORI_KERNEL_BARRIER_WAIT:
	case ORI_KERNEL_BARRIER_PEER_WAIT:
	case ORI_KERNEL_DRAIN:
	case ORI_KERNEL_FLUSH:
	case ORI_KERNEL_RESET:
	case ORI_KERNEL_RESET_COUNTER:
		return ORIEL_OK; /* memory of this rank */
	case ORI_KERNEL_BARRIER:
	case ORI_KERNEL_BARRIER_ARRIVE:
	case ORI_KERNEL_SIGNAL_ALL:
		return ori_window_touch_whole(w);
	default:
		return ori_window_touch_late(w, peer);
	}
}
