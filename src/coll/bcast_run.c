/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a broadcast in host memory: the message follows a tree (gather_tree.h) over an order of
 * the ranks in which the root is first and the ranks of a node are neighbours, from rank to rank
 * (ring), along a binomial tree (bruck), or from the root to all (direct). A rank sends a credit to
 * its source as it starts, and the source sends one signal behind each chunk. bcast.c calls it.
 */
#include <stdlib.h>

#include "base/error.h"
#include "coll/gather_job.h"

enum bcast_phase { BCAST_CREDIT, BCAST_CHUNKS, BCAST_OWN, BCAST_DRAIN };

struct bcast_run {
	struct ori_gather_job job;
	struct ori_tree tree;
	const char *from; /* the root: its message; other ranks: their result */
	uint64_t bytes;
	uint64_t chunk;

	/* The position, from which the next step of a job continues. */
	enum bcast_phase phase;
	uint64_t at; /* of the chunk */
	bool has_come;
	uint32_t target; /* index among the targets of this rank */
};

static enum oriel_status bcast_give_credit(struct bcast_run *r)
{
	r->job.has_moved = true;
	if (r->tree.is_root)
		return ORIEL_OK;
	return oriel_dev_signal(&r->job.g->device, oriel_dev_thread(), r->tree.source,
				ORI_GATHER_CREDIT, ORIEL_SIGNAL_ADD, 1, NULL);
}

/* Puts a chunk to all targets of this rank. The first chunk waits for their credits. */
static enum oriel_status bcast_pass_on(struct bcast_run *r, uint64_t length)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t to;

	for (; r->target < r->tree.targets; r->target++) {
		to = ori_tree_target(&r->tree, r->target);
		if (r->at == 0)
			status = ori_gather_take(&r->job, to, ORI_GATHER_CREDIT, 1);
		if (status == ORIEL_OK)
			status = oriel_dev_put_signal(&r->job.g->device, oriel_dev_thread(), to,
						      oriel_at(ORI_GATHER_RESULT, r->at),
						      r->from + r->at, length, ORI_GATHER_DATA, 1,
						      NULL);
		if (status != ORIEL_OK)
			return status;
	}
	r->target = 0;
	return ORIEL_OK;
}

static enum oriel_status bcast_chunks(struct bcast_run *r)
{
	enum oriel_status status;
	uint64_t length;

	for (; r->at < r->bytes; r->at += length) {
		length = r->bytes - r->at < r->chunk ? r->bytes - r->at : r->chunk;
		if (!r->tree.is_root && !r->has_come) {
			status = ori_gather_take(&r->job, r->tree.source, ORI_GATHER_DATA, 1);
			if (status != ORIEL_OK)
				return status;
			r->has_come = true;
		}
		status = bcast_pass_on(r, length);
		if (status != ORIEL_OK)
			return status;
		r->has_come = false;
	}
	return ORIEL_OK;
}

/* Behind all puts, so that the targets of the root do not wait for this copy. */
static void bcast_copy_own(const struct bcast_run *r)
{
	if (r->tree.is_root && r->from != r->job.g->result)
		ori_dev_mapped_copy(oriel_dev_thread(), r->job.g->result, r->from, r->bytes);
}

static enum oriel_status bcast_go_on(struct ori_gather_job *job)
{
	struct bcast_run *r = (struct bcast_run *)job;
	enum oriel_status status = ORIEL_OK;

	switch (r->phase) {
	case BCAST_CREDIT:
		status = bcast_give_credit(r);
		if (status != ORIEL_OK)
			return status;
		r->phase = BCAST_CHUNKS;
		/* fallthrough */
	case BCAST_CHUNKS:
		status = bcast_chunks(r);
		if (status != ORIEL_OK)
			return status;
		r->phase = BCAST_OWN;
		/* fallthrough */
	case BCAST_OWN:
		bcast_copy_own(r);
		r->phase = BCAST_DRAIN;
		/* fallthrough */
	case BCAST_DRAIN:
		return ori_gather_drain(job);
	}
	return status;
}

static void bcast_begin(struct bcast_run *r, struct ori_gather *g, enum oriel_algorithm algorithm,
			uint32_t root, const void *send, size_t bytes)
{
	*r = (struct bcast_run){.job = {.g = g, .go_on = bcast_go_on},
				.bytes = bytes,
				.chunk = g->chunk};
	ori_tree_open(&r->tree, &g->shape, algorithm, g->device.rank, root);
	r->from = r->tree.is_root ? send : g->result;
	if (algorithm == ORIEL_ALGORITHM_DIRECT)
		r->chunk = bytes;
}

enum oriel_status ori_bcast_run(struct ori_gather *g, enum oriel_algorithm algorithm, uint32_t root,
				const void *send, size_t bytes)
{
	struct bcast_run r;

	bcast_begin(&r, g, algorithm, root, send, bytes);
	return bcast_go_on(&r.job);
}

enum oriel_status ori_bcast_start(struct ori_gather *g, enum oriel_algorithm algorithm,
				  uint32_t root, const void *send, size_t bytes)
{
	struct bcast_run *r = malloc(sizeof(*r));
	enum oriel_status status;

	if (!r)
		return ori_fail_nomem(sizeof(*r), "an execution of a broadcast");
	bcast_begin(r, g, algorithm, root, send, bytes);
	r->job.same[0] = (struct ori_same){.what = "bytes", .value = bytes};
	r->job.same[1] = (struct ori_same){.what = "root", .value = root};
	status = ori_gather_post(&r->job);
	if (status != ORIEL_OK)
		free(r);
	return status;
}
