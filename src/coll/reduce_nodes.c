/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a reduction of several nodes in host memory, over any path: the algorithm OWNER; the
 * files of the others are reduce_hierarchy.c, reduce_ring.c and reduce_recursive.c. In a
 * round each rank puts its elements of each part to the staging of the part's owner, which adds
 * those of all ranks and puts the result to the views that are to have it. reduction_call.c calls
 * it.
 *
 * The owner writes to the view of a rank after it has elements of that rank, which has begun the
 * execution then. reduce_rounds.h says why the staging is free.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "coll/reduce_fast.h"
#include "coll/reduce_hierarchy.h"

enum nodes_phase { NODES_BEGIN, NODES_ARRIVE, NODES_RETURN, NODES_REST, NODES_DRAIN };

static enum oriel_status nodes_send(struct ori_reduce_rounds *r)
{
	uint64_t at = oriel_at(ORI_GATHER_STAGING, ori_reduce_rounds_offset(r, r->w->rank));
	enum oriel_status status = ORIEL_OK;
	uint32_t peer;

	for (; r->index < r->w->ranks && status == ORIEL_OK; r->index++) {
		peer = ori_dev_rank_after(r->w, r->index);
		status = oriel_dev_put_signal(r->w, oriel_dev_thread(), peer, at,
					      ori_reduce_rounds_elements(r, peer),
					      ori_reduce_rounds_part(r, peer).length,
					      ORI_REDUCE_ELEMENTS, 1, NULL);
	}
	return status;
}

static void nodes_add(struct ori_reduce_rounds *r)
{
	struct ori_reduction *reduction = r->job.g->reduction;
	const char *staging = r->job.g->table[r->w->rank].base;
	uint32_t rank;

	for (rank = 0; rank < r->w->ranks; rank++)
		reduction->inputs[rank] = staging + ori_reduce_rounds_offset(r, rank);
	reduction->inputs[r->w->rank] = ori_reduce_rounds_elements(r, r->w->rank);
	reduction->outs[0] = ori_reduce_rounds_result(r);
	ori_fold_all(&reduction->fold, reduction->inputs, reduction->outs, 1, 0,
		     ori_reduce_rounds_part(r, r->w->rank).length / reduction->fold.size);
}

static enum oriel_status nodes_return(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t peer;

	for (; r->index < r->w->ranks && status == ORIEL_OK; r->index++) {
		peer = ori_dev_rank_after(r->w, r->index);
		if (ori_reduce_rounds_gets(r, peer))
			status = ori_reduce_rounds_return(r, peer);
	}
	return status == ORIEL_OK ? ori_reduce_rounds_ahead(r, nodes_send) : status;
}

static enum oriel_status nodes_arrive(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ori_reduce_rounds_take(r, ORI_REDUCE_ELEMENTS);
	bool is_over_send =
		r->job.g->kind->number == ORI_REDUCE_SCATTER && r->send == r->job.g->result;

	/* The numbers came before the elements. */
	if (status == ORIEL_OK && !r->at)
		status = ori_gather_compare(r->job.g, NULL);
	/* The result takes the place of elements for rank 0, which a NIC may still read. */
	if (status == ORIEL_OK && is_over_send)
		status = ori_gather_drain(&r->job);
	if (status == ORIEL_OK)
		nodes_add(r);
	return status;
}

static enum oriel_status nodes_phase(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ORIEL_OK;

	switch ((enum nodes_phase)r->phase) {
	case NODES_BEGIN:
		return ori_reduce_rounds_phase(r, NODES_ARRIVE,
					       ori_reduce_rounds_begin(r, nodes_send));
	case NODES_ARRIVE:
		return ori_reduce_rounds_phase(r, NODES_RETURN, nodes_arrive(r));
	case NODES_RETURN:
		return ori_reduce_rounds_phase(r, NODES_REST, nodes_return(r));
	case NODES_REST:
		if (ori_reduce_rounds_gets(r, r->w->rank))
			status = ori_reduce_rounds_take(r, ORI_REDUCE_RESULTS);
		return ori_reduce_rounds_end(r, NODES_DRAIN, status);
	case NODES_DRAIN:
		break;
	}
	return ORIEL_OK;
}

static enum oriel_status nodes_go_on(struct ori_gather_job *job)
{
	return ori_reduce_rounds_go_on(job, nodes_phase, NODES_DRAIN);
}

/* All ranks have the same one. */
static uint64_t nodes_number(const struct ori_reduce_rounds *r)
{
	return r->job.g->kind->number == ORI_REDUCE ? (uint64_t)r->bytes << 16 | r->root : r->bytes;
}

static enum oriel_status (*nodes_algorithm(enum oriel_algorithm algorithm))(struct ori_gather_job *)
{
	switch (algorithm) {
	case ORIEL_ALGORITHM_HIERARCHICAL:
		return ori_reduce_hierarchy_go_on;
	case ORIEL_ALGORITHM_RING:
		return ori_reduce_ring_go_on;
	case ORIEL_ALGORITHM_RECURSIVE:
		return ori_reduce_recursive_go_on;
	default:
		return nodes_go_on;
	}
}

static size_t nodes_round(const struct ori_gather *g, enum oriel_algorithm algorithm)
{
	if (algorithm == ORIEL_ALGORITHM_RECURSIVE)
		return ori_reduce_recursive_round(g);
	return ori_reduce_rounds_piece(g) *
	       (g->kind->number == ORI_REDUCE_SCATTER ? 1 : g->shape.ranks);
}

static void nodes_begin(struct ori_reduce_rounds *r, struct ori_gather *g,
			enum oriel_algorithm algorithm, uint32_t root, const void *send,
			size_t count)
{
	*r = (struct ori_reduce_rounds){.job = {.g = g, .go_on = nodes_algorithm(algorithm)},
					.w = &g->device,
					.send = send,
					.bytes = count * g->reduction->fold.size,
					.root = root,
					.most = nodes_round(g, algorithm)};
}

enum oriel_status ori_reduce_nodes_run(struct ori_gather *g, enum oriel_algorithm algorithm,
				       uint32_t root, const void *send, size_t count)
{
	struct ori_reduce_rounds r;
	enum oriel_status status;

	nodes_begin(&r, g, algorithm, root, send, count);
	status = ori_gather_publish(g, nodes_number(&r));
	return status == ORIEL_OK ? r.job.go_on(&r.job) : status;
}

enum oriel_status ori_reduce_nodes_start(struct ori_gather *g, enum oriel_algorithm algorithm,
					 uint32_t root, const void *send, size_t count)
{
	struct ori_reduce_rounds *r = malloc(sizeof(*r));
	enum oriel_status status;

	if (!r)
		return ori_fail_nomem(sizeof(*r), "an execution of %s", g->kind->name);
	nodes_begin(r, g, algorithm, root, send, count);
	status = ori_gather_publish(g, nodes_number(r));
	if (status == ORIEL_OK)
		status = ori_gather_post(&r->job);
	if (status != ORIEL_OK)
		free(r);
	return status;
}
