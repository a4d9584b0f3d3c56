/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a window: the path to each, and where its memory is on that path. window.c calls
 * it.
 */
#include "window/window.h"

#include "base/error.h"
#include "comm/comm_gpu.h"
#include "comm/links.h"
#include "comm/paths.h"

const struct ori_paths *ori_window_paths(const struct oriel_window *w)
{
	return w->gpu ? &w->comm->gpu_paths : &w->comm->host_paths;
}

void ori_window_fill_domain(struct oriel_window *w)
{
	const struct ori_paths *paths = ori_window_paths(w);
	struct oriel_dev_window *d = &w->device;

	d->topology = w->gpu ? ori_comm_gpu_topology(w->comm) : paths->of;
	d->domain = w->gpu ? ori_comm_gpu_domain(w->comm) : paths->domain;
	d->domain_size = paths->domain_size;
	d->domain_index = paths->domain_index;
}

size_t ori_window_entries(const struct oriel_window *w)
{
	return (w->comm->rdma ? 2 : 1) * (size_t)w->comm->size;
}

static uint32_t window_path(const struct oriel_window *w, unsigned peer)
{
	if (w->is_rdma && peer != w->comm->rank)
		return ORIEL_PATH_RDMA;
	return ori_window_paths(w)->of[peer].path;
}

enum oriel_status ori_window_check_links(const struct oriel_window *w)
{
	unsigned peer;

	for (peer = 0; peer < w->comm->size; peer++)
		if (window_path(w, peer) == ORIEL_PATH_RDMA && !ori_comm_needs_link(w->comm, peer))
			return ori_fail(ORIEL_ERR_INVALID,
					"a window with ORIEL_WINDOW_RDMA: rank %u is mapped by "
					"rank %u, and there is no link to it: create the "
					"communicator with ORIEL_COMM_BOTH_PATHS",
					peer, w->comm->rank);
	return ORIEL_OK;
}

/* Some peer of this rank that is reached by rdma; the rank itself: none is. */
static unsigned window_find_remote(const struct oriel_window *w)
{
	unsigned peer;

	for (peer = 0; peer < w->comm->size; peer++)
		if (window_path(w, peer) == ORIEL_PATH_RDMA)
			return peer;
	return w->comm->rank;
}

/* The NICs of rail 0 reach all words, those of mapped ranks and the own ones among them. */
static enum oriel_status window_check_nics(const struct oriel_window *w)
{
	unsigned self = w->comm->rank;

	if (!w->comm->rdma)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"ORIEL_ATOMICS_HCA: rank %u has no NIC open, since all ranks are "
				"mapped: set ORIEL_ATOMICS_MAPPED, or create the communicator with "
				"ORIEL_COMM_BOTH_PATHS",
				self);
	return ORIEL_OK;
}

/*
 * A rank decides alone, and alike: if any rank is reached by rdma, then by each rank outside its
 * domain, and all ranks drive as many NICs. Where these are several, links for atomics are twice
 * those of the paths, so that a window has to ask for them.
 */
enum oriel_status ori_window_choose_atomics(struct oriel_window *w, uint32_t wanted, bool may_link)
{
	unsigned self = w->comm->rank, remote = window_find_remote(w);
	enum oriel_status status = ORIEL_OK;

	if (wanted == ORIEL_ATOMICS_OWNER)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"ORIEL_ATOMICS_OWNER: no thread of this version executes atomics: "
				"set ORIEL_ATOMICS_MAPPED or ORIEL_ATOMICS_HCA");
	if (wanted == ORIEL_ATOMICS_MAPPED && remote != self)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"ORIEL_ATOMICS_MAPPED: rank %u reaches rank %u by rdma, and its "
				"processors cannot: set ORIEL_ATOMICS_HCA",
				self, remote);
	if (wanted == ORIEL_ATOMICS_HCA)
		status = window_check_nics(w);
	else if (remote == self)
		wanted = ORIEL_ATOMICS_MAPPED;
	else if (may_link && w->comm->rails == 1)
		wanted = ORIEL_ATOMICS_HCA;
	if (status != ORIEL_OK)
		return status;
	w->atomics = (enum oriel_atomics)wanted;
	if (ori_window_has_nic_atomics(w))
		w->device.inline_wide |= ORIEL_DEV_ATOMICS_BY_NIC;
	return ORIEL_OK;
}

bool ori_window_has_nic_atomics(const struct oriel_window *w)
{
	return w->atomics == ORIEL_ATOMICS_HCA;
}

enum oriel_status oriel_window_atomics(const struct oriel_window *window,
				       enum oriel_atomics *atomics)
{
	enum oriel_status status = ori_handle_check(window, ORI_HANDLE_WINDOW, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!atomics)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_window_atomics: atomics is NULL");
	*atomics = window->atomics;
	return ORIEL_OK;
}

static const struct oriel_dev_link *window_link(const struct oriel_window *w, unsigned peer,
						bool for_atomics)
{
	return w->gpu ? ori_links_kernel(w->comm, peer, for_atomics)
		      : ori_links_device(w->comm, peer, for_atomics);
}

/* The entries of @peer for NICs, which reach it by its path or for atomics alone. */
static void window_fill_remote(struct oriel_window *w, unsigned peer, const struct ori_offer *offer,
			       uint64_t control_length)
{
	struct ori_remote control = ori_share_remote(offer, 0);
	struct ori_remote given = ori_share_remote(offer, 1);
	bool is_remote = w->peers[peer].path == ORIEL_PATH_RDMA;
	struct oriel_dev_buffer *buffer = peer == w->comm->rank ? &w->own[0] : &w->table[peer];

	if (!is_remote && !ori_window_has_nic_atomics(w))
		return;
	if (ori_links_find_own(w->comm))
		w->peers[peer].flags |= ORIEL_DEV_PEER_OWN_KEYS;
	w->peers[peer].link = window_link(w, peer, false);
	w->peers[peer].control_rkeys = control.rkeys;
	w->peers[w->comm->size + peer] = w->peers[peer];
	w->peers[w->comm->size + peer].link = window_link(w, peer, true);
	/*
	 * Device functions take NULL for a buffer that is not shared; no thread reads this
	 * address.
	 */
	if (is_remote)
		buffer->base = w->device.control;
	buffer->rkeys = given.rkeys;
	buffer->address = given.address;
	if (offer->blob[1].length)
		return;
	/* A buffer allocated by its window lies behind the control segment. */
	buffer->rkeys = control.rkeys;
	buffer->address = control_length;
}

void ori_window_fill_own(struct oriel_dev_buffer *own, const struct ori_rdma_mr *mr,
			 uint64_t offset)
{
	if (!mr)
		return;
	ori_share_local(mr, &own->address, &own->rkeys);
	own->address += offset;
}

/* Flags of @peer for what the bus to its GPU does not do; 0 if it is not mapped. */
static uint32_t window_bus_flags(const struct oriel_window *w, unsigned peer)
{
	const struct ori_paths *paths = ori_window_paths(w);
	uint32_t flat = paths->domain_index < ORIEL_DEV_SERIAL_FLATS ? paths->domain_index
								     : ORIEL_DEV_SERIAL_FLATS;

	switch (ori_comm_bus(w->comm, peer)) {
	case ORI_BUS_WHOLE:
		return 0;
	case ORI_BUS_ATOMICS:
		return ORIEL_DEV_PEER_NARROW;
	case ORI_BUS_STORES:
		break;
	}
	return ORIEL_DEV_PEER_NARROW | ORIEL_DEV_PEER_SERIAL | flat << ORIEL_DEV_PEER_FLAT_SHIFT;
}

void ori_window_fill_peer(struct oriel_window *w, unsigned peer, const struct ori_offer *offer,
			  uint64_t length)
{
	uint64_t control_length = ori_window_layout(&w->device);
	bool is_by_bus = w->gpu && !w->is_rdma;

	w->peers[peer].path = window_path(w, peer);
	w->peers[peer].flags = is_by_bus ? window_bus_flags(w, peer) : 0;
	if (is_by_bus && ori_comm_has_slow_bus(w->comm, peer))
		w->peers[peer].flags |= ORIEL_DEV_PEER_TURNS;
	if (w->peers[peer].flags & ORIEL_DEV_PEER_TURNS)
		w->device.inline_wide |= ORIEL_DEV_HAS_SERIAL;
	w->table[peer].length = length;
	ori_window_fill_mapped(w, peer, control_length);
	window_fill_remote(w, peer, offer, control_length);
}
