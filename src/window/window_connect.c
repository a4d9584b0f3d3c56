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

/* Row @rank of @rows has a bit for each rank that it names. */
static bool connect_names(const struct oriel_window *w, const uint8_t *rows, unsigned rank,
			  unsigned peer)
{
	return rows[(size_t)rank * ((w->comm->size + 7) / 8) + peer / 8] >> peer % 8 & 1;
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
					const struct oriel_window_attr *attr, uint8_t *mine,
					uint8_t *rows)
{
	size_t bytes = (w->comm->size + 7) / 8;
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	if (!mine || !rows)
		status = ori_fail_nomem((w->comm->size + 1u) * bytes, "the peers of %u ranks",
					w->comm->size);
	status = ori_comm_agree(w->comm, ORI_CALL_WINDOW_CREATE, status);
	if (status != ORIEL_OK)
		return status;
	for (i = 0; i < attr->peer_count; i++)
		mine[attr->peers[i] / 8] |= (uint8_t)(1u << attr->peers[i] % 8);
	/* Mapped ranks need no link, and no name. */
	for (i = 0; i < w->comm->size; i++)
		if (!ori_comm_needs_link(w->comm, i))
			mine[i / 8] &= (uint8_t) ~(1u << i % 8);
	status = ori_comm_gather(w->comm, ORI_CALL_WINDOW_CREATE, mine, rows, bytes);
	return status == ORIEL_OK ? connect_compare(w, rows) : status;
}

static enum oriel_status connect_each(struct oriel_window *w, const uint8_t *rows)
{
	unsigned *peers = calloc(w->comm->size, sizeof(*peers)), count = 0, peer;
	enum oriel_status status = ORIEL_OK;

	if (!peers)
		status = ori_fail_nomem(w->comm->size * sizeof(*peers), "the peers of a window");
	status = ori_comm_agree(w->comm, ORI_CALL_WINDOW_CREATE, status);
	for (peer = 0; status == ORIEL_OK && peer < w->comm->size; peer++)
		if (connect_names(w, rows, w->comm->rank, peer))
			peers[count++] = peer;
	if (status == ORIEL_OK)
		status = ori_comm_agree(w->comm, ORI_CALL_WINDOW_CREATE,
					oriel_comm_connect(w->comm, peers, count));
	free(peers);
	return status;
}

enum oriel_status ori_window_connect_peers(struct oriel_window *w,
					   const struct oriel_window_attr *attr)
{
	size_t bytes = (w->comm->size + 7) / 8;
	uint8_t *mine = calloc(bytes, 1), *rows = calloc(w->comm->size, bytes);
	enum oriel_status status = connect_gather(w, attr, mine, rows);

	if (status == ORIEL_OK)
		status = connect_each(w, rows);
	free(rows);
	free(mine);
	return status;
}
