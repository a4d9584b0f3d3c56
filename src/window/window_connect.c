/* SPDX-License-Identifier: Apache-2.0 */
/* The links of a window that names its peers. window.c calls it. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/exchange.h"
#include "comm/paths.h"
#include "window/window.h"

enum oriel_status ori_window_check_peers(const struct oriel_window *w,
					 const struct oriel_window_attr *attr)
{
	uint32_t i;

	if (attr->peer_count && !attr->peers)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_window_create: %u peers at NULL",
				attr->peer_count);
	for (i = 0; i < attr->peer_count; i++)
		if (attr->peers[i] >= w->comm->size)
			return ori_fail(ORIEL_ERR_RANGE,
					"oriel_window_create: peer %u is rank %u of %u", i,
					attr->peers[i], w->comm->size);
	return ORIEL_OK;
}

static size_t connect_bytes(const struct oriel_window *w)
{
	return (w->comm->size + 7) / 8;
}

enum oriel_status ori_window_names_open(const struct oriel_window *w,
					struct ori_window_names *names)
{
	size_t size = w->comm->size, bytes = connect_bytes(w);
	size_t length = size * sizeof(*names->peers) + (size + 1) * bytes;

	names->peers = calloc(1, length);
	if (!names->peers)
		return ori_fail_nomem(length, "the peers of %zu ranks", size);
	names->mine = (uint8_t *)(names->peers + size);
	names->rows = names->mine + bytes;
	return ORIEL_OK;
}

/* Row @rank of @rows has a bit for each rank that it names. */
static bool connect_names(const struct oriel_window *w, const uint8_t *rows, unsigned rank,
			  unsigned peer)
{
	return rows[rank * connect_bytes(w) + peer / 8] >> peer % 8 & 1;
}

/* All ranks see the same rows, and get the same answer. */
static enum oriel_status connect_compare(const struct oriel_window *w, const uint8_t *rows)
{
	unsigned rank, peer;

	for (rank = 0; rank < w->comm->size; rank++)
		for (peer = 0; peer < w->comm->size; peer++)
			if (connect_names(w, rows, rank, peer) &&
			    !connect_names(w, rows, peer, rank))
				return ori_fail(ORIEL_ERR_MISMATCH,
						"a window has rank %u among the peers of rank %u, "
						"and not rank %u among those of rank %u",
						peer, rank, rank, peer);
	return ORIEL_OK;
}

static enum oriel_status connect_gather(struct oriel_window *w,
					const struct oriel_window_attr *attr,
					const struct ori_window_names *names)
{
	enum oriel_status status;
	uint32_t i;

	for (i = 0; i < attr->peer_count; i++)
		names->mine[attr->peers[i] / 8] |= (uint8_t)(1u << attr->peers[i] % 8);
	/* Mapped ranks need no link, and no name. */
	for (i = 0; i < w->comm->size; i++)
		if (!ori_comm_needs_link(w->comm, i))
			names->mine[i / 8] &= (uint8_t) ~(1u << i % 8);
	status = ori_comm_gather(w->comm, ORI_CALL_WINDOW_CREATE, names->mine, names->rows,
				 connect_bytes(w));
	return status == ORIEL_OK ? connect_compare(w, names->rows) : status;
}

enum oriel_status ori_window_connect_peers(struct oriel_window *w,
					   const struct oriel_window_attr *attr,
					   const struct ori_window_names *names)
{
	enum oriel_status status = connect_gather(w, attr, names);
	unsigned count = 0, peer;

	if (status != ORIEL_OK)
		return status;
	for (peer = 0; peer < w->comm->size; peer++)
		if (connect_names(w, names->rows, w->comm->rank, peer))
			names->peers[count++] = peer;
	return ori_comm_agree_after(w->comm, ORI_CALL_WINDOW_CREATE,
				    oriel_comm_connect(w->comm, names->peers, count));
}
