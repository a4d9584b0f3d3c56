/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a gather or a scatter in host memory, over any path: each message is one put with a
 * signal behind it. The rank that receives sends a credit as it starts, which says that its
 * previous result may be overwritten. In GPU memory it is a part of an all-to-all
 * (internode_alltoall.c).
 */
#include "coll/root_run.h"

#include <stdlib.h>

#include "base/error.h"
#include "coll/gather_internode.h"
#include "coll/gather_job.h"

enum root_phase { ROOT_CREDIT, ROOT_PUT, ROOT_TAKE, ROOT_DRAIN };

struct root_run {
	struct ori_gather_job job;
	const struct oriel_dev_window *w;
	const char *send;
	uint64_t bytes;
	uint32_t root;

	/* The position, from which the next step of a job continues. */
	enum root_phase phase;
	uint32_t index; /* of the next peer */
};

/* Does @from send a message to @to in this execution? Ranks do not send to themselves. */
static bool root_sends(const struct root_run *r, uint32_t from, uint32_t to)
{
	return from != to && r->root == (r->job.g->kind->number == ORI_GATHER ? to : from);
}

/* This rank's message for @to, and where it arrives. */
static const char *root_message(const struct root_run *r, uint32_t to)
{
	return r->job.g->kind->number == ORI_GATHER ? r->send : r->send + to * r->bytes;
}

static uint64_t root_offset(const struct root_run *r)
{
	return r->job.g->kind->number == ORI_GATHER ? r->w->rank * r->bytes : 0;
}

/* One step of a phase, with @peer. ORIEL_AGAIN: posted, and the peer is not that far. */
static enum oriel_status root_serve(struct root_run *r, uint32_t peer)
{
	enum oriel_status status;

	switch (r->phase) {
	case ROOT_CREDIT:
		r->job.has_moved = true;
		return root_sends(r, peer, r->w->rank)
			       ? oriel_dev_signal(r->w, oriel_dev_thread(), peer, ORI_GATHER_CREDIT,
						  ORIEL_SIGNAL_ADD, 1, NULL)
			       : ORIEL_OK;
	case ROOT_PUT:
		if (!root_sends(r, r->w->rank, peer))
			return ORIEL_OK;
		status = ori_gather_take(&r->job, peer, ORI_GATHER_CREDIT, 1);
		if (status != ORIEL_OK)
			return status;
		return oriel_dev_put_signal(r->w, oriel_dev_thread(), peer,
					    oriel_at(ORI_GATHER_RESULT, root_offset(r)),
					    root_message(r, peer), r->bytes, ORI_GATHER_DATA, 1,
					    NULL);
	case ROOT_TAKE:
		return root_sends(r, peer, r->w->rank)
			       ? ori_gather_take(&r->job, peer, ORI_GATHER_DATA, 1)
			       : ORIEL_OK;
	case ROOT_DRAIN:
		break;
	}
	return ORIEL_OK;
}

/* The message of the root to itself. */
static void root_copy_own(const struct root_run *r)
{
	const char *from = root_message(r, r->root);
	char *to = r->job.g->result + root_offset(r);

	if (r->root == r->w->rank && from != to)
		ori_dev_mapped_copy(oriel_dev_thread(), to, from, r->bytes);
}

static enum oriel_status root_go_on(struct ori_gather_job *job)
{
	struct root_run *r = (struct root_run *)job;
	enum oriel_status status = ORIEL_OK;

	for (; r->phase != ROOT_DRAIN; r->phase++, r->index = 1) {
		for (; r->index < r->w->ranks && status == ORIEL_OK; r->index += status == ORIEL_OK)
			status = root_serve(r, ori_dev_rank_after(r->w, r->index));
		if (status != ORIEL_OK)
			return status;
		if (r->phase == ROOT_PUT)
			root_copy_own(r);
	}
	return ori_gather_drain(job);
}

static enum oriel_status root_check(const struct ori_gather *g, uint32_t root, const char *send,
				    size_t bytes, const char *call, bool on_stream)
{
	enum oriel_status status = ori_gather_check(g, call, on_stream);
	bool is_gather = g->kind->number == ORI_GATHER;
	size_t all = bytes * g->device.ranks;
	const char *own;
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)g->result;

	if (status == ORIEL_OK)
		status = ori_gather_check_root(g->kind, root, g->device.ranks);
	if (status != ORIEL_OK)
		return status;
	if (bytes > g->bytes_max)
		return ori_fail(ORIEL_ERR_RANGE, "%s of %zu bytes of each rank, at most %zu",
				g->kind->name, bytes, g->bytes_max);
	if (bytes && !send && (is_gather || root == g->device.rank))
		return ori_gather_null_send(g);
	if (root != g->device.rank || !bytes)
		return ORIEL_OK;
	own = is_gather ? g->result + root * bytes : send + root * bytes;
	if (own == (is_gather ? send : g->result))
		return ORIEL_OK;
	if (from < to + (is_gather ? all : bytes) && to < from + (is_gather ? bytes : all))
		return ori_fail(ORIEL_ERR_INVALID,
				"%s: the send buffer overlaps the result, and is not in place",
				g->kind->name);
	return ORIEL_OK;
}

static void root_begin(struct root_run *r, struct ori_gather *g, uint32_t root, const void *send,
		       size_t bytes)
{
	*r = (struct root_run){.job = {.g = g, .go_on = root_go_on},
			       .w = &g->device,
			       .send = send,
			       .bytes = bytes,
			       .root = root,
			       .index = 1};
}

static enum oriel_status root_start(struct ori_gather *g, uint32_t root, const void *send,
				    size_t bytes)
{
	struct root_run *r = malloc(sizeof(*r));
	enum oriel_status status;

	if (!r)
		return ori_fail_nomem(sizeof(*r), "an execution of %s", g->kind->name);
	root_begin(r, g, root, send, bytes);
	r->job.same[0] = (struct ori_same){.what = "bytes", .value = bytes};
	r->job.same[1] = (struct ori_same){.what = "root", .value = root};
	status = ori_gather_post(&r->job);
	if (status != ORIEL_OK)
		free(r);
	return status;
}

static enum oriel_status root_same(struct ori_gather *g, uint32_t root, size_t bytes)
{
	enum oriel_status status = ori_gather_same(g, "bytes", bytes);

	return status == ORIEL_OK ? ori_gather_same(g, "root", root) : status;
}

enum oriel_status ori_root_execute(const struct ori_gather_kind *kind, void *handle, uint32_t root,
				   const void *send, size_t bytes, bool is_start, const char *call)
{
	enum oriel_status status = ori_handle_check(handle, kind->handle, call);
	struct ori_gather *g = handle;
	struct root_run r;

	if (status == ORIEL_OK)
		status = root_check(g, root, send, bytes, call, false);
	if (status != ORIEL_OK)
		return status;
	if (!bytes)
		return is_start ? ori_gather_start_nothing(g) : ORIEL_OK;
	if (is_start)
		return root_start(g, root, send, bytes);
	status = root_same(g, root, bytes);
	if (status != ORIEL_OK)
		return status;
	root_begin(&r, g, root, send, bytes);
	return ori_gather_end(g, root_go_on(&r.job));
}

enum oriel_status ori_root_execute_on_stream(const struct ori_gather_kind *kind, void *handle,
					     uint32_t root, const void *send, size_t bytes,
					     struct CUstream_st *stream, const char *call)
{
	enum oriel_status status = ori_handle_check(handle, kind->handle, call);
	struct ori_gather *g = handle;

	if (status == ORIEL_OK)
		status = root_check(g, root, send, bytes, call, true);
	if (status == ORIEL_OK && bytes)
		status = root_same(g, root, bytes);
	if (status != ORIEL_OK || !bytes)
		return status;
	status = ori_internode_root(g, root, send, bytes, ori_gather_stream(stream));
	return ori_gather_end(g, status);
}

enum oriel_status ori_root_once(struct ori_cached_call *call,
				enum oriel_status (*begin)(struct ori_cached_call *call,
							   const void *send),
				const void *send, const char *name)
{
	enum oriel_status status = ori_handle_check(call->comm, ORI_HANDLE_COMM, name);

	if (status == ORIEL_OK)
		status = begin(call, send);
	if (status != ORIEL_OK || !call->object)
		return status;
	status = call->is_gpu ? ori_root_execute_on_stream(call->kind, call->object, call->root,
							   send, call->bytes, call->stream, name)
			      : ori_root_execute(call->kind, call->object, call->root, send,
						 call->bytes, false, name);
	return ori_cached_end(call, status);
}
