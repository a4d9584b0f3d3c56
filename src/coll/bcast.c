/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broadcast of oriel/bcast.h, called by the user. In host memory the message follows a tree
 * (gather_tree.h) over an order of the ranks in which the root is first and the ranks of a node
 * are neighbours: from rank to rank (ring), along a binomial tree (bruck), or from the root to
 * all (direct). A rank sends a credit to its source as it starts, and the source sends one
 * signal behind each chunk.
 */
#include <oriel/bcast.h>

#include "base/error.h"
#include "coll/gather_internode.h"

#define BCAST_HOST \
	(1u << ORIEL_ALGORITHM_DIRECT | 1u << ORIEL_ALGORITHM_RING | 1u << ORIEL_ALGORITHM_BRUCK)

static const struct ori_gather_kind bcast_kind = {
	.name = "broadcast",
	.number = ORI_BCAST,
	.handle = ORI_HANDLE_BCAST,
	.host = BCAST_HOST,
	.nodes = BCAST_HOST,
	.gpus = 1u << ORIEL_ALGORITHM_STORE | 1u << ORIEL_ALGORITHM_CE,
	.gpu_nodes = BCAST_HOST,
	.is_whole = true,
};

struct oriel_bcast {
	struct ori_gather gather;
};

enum oriel_status oriel_bcast_create(struct oriel_comm *comm, const struct oriel_view *view,
				     const struct oriel_coll_attr *attr, struct oriel_bcast **bcast)
{
	void *made = NULL;
	enum oriel_status status =
		ori_gather_create(&bcast_kind, comm, view, attr, bcast ? &made : NULL, __func__);

	if (status == ORIEL_OK)
		*bcast = made;
	return status;
}

enum oriel_status oriel_bcast_destroy(struct oriel_bcast *b)
{
	return ori_gather_destroy(&bcast_kind, b, __func__);
}

struct bcast_run {
	struct ori_gather *g;
	struct ori_tree tree;
	const char *from; /* the root: its message; other ranks: their result */
	uint64_t bytes;
	uint64_t chunk;
};

static enum oriel_status bcast_wait(const struct bcast_run *r, uint32_t source, uint32_t id)
{
	return oriel_dev_wait_signal_next(&r->g->device, oriel_dev_thread(), source, id, 1, 0);
}

/* Puts a chunk to all targets of this rank. The first chunk waits for their credits. */
static enum oriel_status bcast_pass_on(const struct bcast_run *r, uint64_t at, uint64_t length)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i, to;

	for (i = 0; i < r->tree.targets && status == ORIEL_OK; i++) {
		to = ori_tree_target(&r->tree, i);
		if (at == 0)
			status = bcast_wait(r, to, ORI_GATHER_CREDIT);
		if (status == ORIEL_OK)
			status = oriel_dev_put_signal(&r->g->device, oriel_dev_thread(), to,
						      oriel_at(ORI_GATHER_RESULT, at), r->from + at,
						      length, ORI_GATHER_DATA, 1, NULL);
	}
	return status;
}

static enum oriel_status bcast_host(const struct bcast_run *r)
{
	const struct oriel_dev_window *w = &r->g->device;
	enum oriel_status status = ORIEL_OK;
	uint64_t at, length;

	if (!r->tree.is_root)
		status = oriel_dev_signal(w, oriel_dev_thread(), r->tree.source, ORI_GATHER_CREDIT,
					  ORIEL_SIGNAL_ADD, 1, NULL);
	for (at = 0; at < r->bytes && status == ORIEL_OK; at += length) {
		length = r->bytes - at < r->chunk ? r->bytes - at : r->chunk;
		if (!r->tree.is_root)
			status = bcast_wait(r, r->tree.source, ORI_GATHER_DATA);
		if (status == ORIEL_OK)
			status = bcast_pass_on(r, at, length);
	}
	/* Last, so that the targets of the root do not wait for this copy. */
	if (status == ORIEL_OK && r->tree.is_root && r->from != r->g->result)
		ori_dev_mapped_copy(oriel_dev_thread(), r->g->result, r->from, r->bytes);
	/* NICs may still read the send buffer. */
	if (status == ORIEL_OK && w->rails)
		status = oriel_dev_drain(w, oriel_dev_thread(), 0);
	return status;
}

/* By copy engines. The first barrier is the credit of all views, the second one ends it. */
static enum oriel_status bcast_engines(struct ori_gather *g, unsigned root, const void *send,
				       size_t bytes, void *stream)
{
	enum oriel_status status = oriel_window_barrier_on_stream(g->window, 0, 0, stream);

	if (status == ORIEL_OK && root == g->device.rank)
		status = oriel_window_put_all_on_stream(g->window, oriel_at(ORI_GATHER_RESULT, 0),
							send, bytes, stream);
	return status == ORIEL_OK ? oriel_window_barrier_on_stream(g->window, 0, 0, stream)
				  : status;
}

static enum oriel_status bcast_check(const struct ori_gather *g, unsigned root, const void *send,
				     size_t bytes, const void *stream)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)g->result;
	enum oriel_status status = ori_gather_check(g, stream);

	if (status != ORIEL_OK)
		return status;
	if (root >= g->device.ranks)
		return ori_fail(ORIEL_ERR_RANGE, "broadcast: root %u, but there are %u ranks", root,
				g->device.ranks);
	if (bytes > g->bytes_max)
		return ori_fail(ORIEL_ERR_RANGE, "broadcast of %zu bytes, at most %zu", bytes,
				g->bytes_max);
	if (root == g->device.rank && from != to && from < to + bytes && to < from + bytes)
		return ori_fail(ORIEL_ERR_INVALID,
				"broadcast: the send buffer overlaps the result, "
				"and is not the beginning of it");
	return ORIEL_OK;
}

static enum oriel_status bcast_any(struct ori_gather *g, unsigned root, const void *send,
				   size_t bytes, void *stream)
{
	enum oriel_algorithm algorithm = ori_gather_choose(g, bytes);
	struct bcast_run run = {.g = g, .bytes = bytes, .chunk = g->chunk};

	if (g->internode)
		return ori_internode_bcast(g, algorithm, root, send, bytes, stream);
	if (algorithm == ORIEL_ALGORITHM_CE)
		return bcast_engines(g, root, send, bytes, stream);
	if (algorithm == ORIEL_ALGORITHM_STORE)
		return oriel_window_broadcast_on_stream(g->window, &g->puts,
							ori_gather_turns(g, bytes), root, send,
							bytes, stream);
	ori_tree_open(&run.tree, &g->shape, algorithm, g->device.rank, root);
	run.from = run.tree.is_root ? send : g->result;
	if (algorithm == ORIEL_ALGORITHM_DIRECT)
		run.chunk = bytes;
	return bcast_host(&run);
}

enum oriel_status oriel_bcast_start(struct oriel_bcast *b, unsigned root, const void *send,
				    size_t bytes, struct CUstream_st *stream)
{
	enum oriel_status status = ori_handle_check(b, ORI_HANDLE_BCAST, __func__);
	struct ori_gather *g;

	if (status != ORIEL_OK)
		return status;
	g = &b->gather;
	status = bcast_check(g, root, send, bytes, stream);
	if (status == ORIEL_OK && bytes)
		status = ori_gather_same(g, "bytes", bytes);
	if (status == ORIEL_OK && bytes)
		status = ori_gather_same(g, "root", root);
	if (status != ORIEL_OK || !bytes)
		return status;
	return ori_gather_end(g, bcast_any(g, root, send, bytes, stream));
}

enum oriel_status oriel_bcast_query(const struct oriel_bcast *b, size_t bytes,
				    struct oriel_coll_info *info)
{
	return ori_gather_query(&bcast_kind, b, bytes, info, __func__);
}
