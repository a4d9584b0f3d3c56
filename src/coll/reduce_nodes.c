/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a reduction of several nodes in host memory, in rounds, over any path. In a round each
 * rank puts its elements of each part to the staging of the part's owner, which adds those of all
 * ranks and puts the result to the views that are to have it. reduction.c calls it.
 *
 * The owner writes to the view of a rank after it has elements of that rank, which has begun the
 * execution then. The halves of the staging alternate: a rank that begins round k + 2 has elements
 * of round k + 1 of all ranks, which have added those of round k before.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "coll/gather_job.h"
#include "coll/reduction.h"

/* The signals behind elements and behind results. */
#define NODES_ELEMENTS ORI_GATHER_CREDIT
#define NODES_RESULTS ORI_GATHER_DATA

enum nodes_phase { NODES_BEGIN, NODES_SEND, NODES_ARRIVE, NODES_RETURN, NODES_REST, NODES_DRAIN };

struct nodes_run {
	struct ori_gather_job job;
	const struct oriel_dev_window *w;
	const char *send;
	size_t bytes; /* of all elements, or of a part of a reduce-scatter */
	uint32_t root;

	/* The position, from which the next step of a job continues. */
	enum nodes_phase phase;
	size_t at;
	size_t length; /* of this round */
	uint64_t step;
	uint32_t index; /* of the next peer of a phase */
};

static bool nodes_is_scatter(const struct nodes_run *r)
{
	return r->job.g->kind->number == ORI_REDUCE_SCATTER;
}

/* Bytes for the elements of one rank in a half of the staging. */
static size_t nodes_piece(const struct nodes_run *r)
{
	return r->job.g->reduction->slot / r->w->ranks & ~(size_t)63;
}

static uint64_t nodes_offset(const struct nodes_run *r, uint32_t source)
{
	return (r->step % 2 * r->w->ranks + source) * nodes_piece(r);
}

static struct ori_reduce_part nodes_part(const struct nodes_run *r, uint32_t rank)
{
	if (nodes_is_scatter(r))
		return (struct ori_reduce_part){0, r->length};
	return ori_reduce_share(r->length, r->w->ranks, rank);
}

/* Elements of this rank in the part that @rank owns. */
static const char *nodes_elements(const struct nodes_run *r, uint32_t rank)
{
	if (nodes_is_scatter(r))
		return r->send + rank * r->bytes + r->at;
	return r->send + r->at + nodes_part(r, rank).begin;
}

static void nodes_begin_round(struct nodes_run *r)
{
	size_t most = nodes_is_scatter(r) ? nodes_piece(r) : nodes_piece(r) * r->w->ranks;
	size_t rest = r->bytes - r->at;

	r->length = rest < most ? rest : most;
	r->step = ++r->job.g->reduction->step;
	r->index = 1;
	r->job.has_moved = true;
}

static enum oriel_status nodes_send(struct nodes_run *r)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t peer;

	for (; r->index < r->w->ranks && status == ORIEL_OK; r->index++) {
		peer = ori_dev_rank_after(r->w, r->index);
		status = oriel_dev_put_signal(r->w, oriel_dev_thread(), peer,
					      oriel_at(ORI_GATHER_STAGING,
						       nodes_offset(r, r->w->rank)),
					      nodes_elements(r, peer), nodes_part(r, peer).length,
					      NODES_ELEMENTS, 1, NULL);
	}
	return status;
}

/* Waits for one more signal @id of each peer. */
static enum oriel_status nodes_take(struct nodes_run *r, uint32_t id)
{
	enum oriel_status status = ORIEL_OK;

	for (; r->index < r->w->ranks && status == ORIEL_OK; r->index += status == ORIEL_OK)
		status = ori_gather_take(&r->job, ori_dev_rank_after(r->w, r->index), id, 1);
	return status;
}

/* Where this rank adds: in its view, or where a reduction to another root leaves its view alone. */
static char *nodes_result(const struct nodes_run *r)
{
	const struct ori_gather *g = r->job.g;

	if (g->kind->number == ORI_REDUCE && r->w->rank != r->root)
		return g->table[r->w->rank].base + nodes_offset(r, r->w->rank);
	return g->result + r->at + nodes_part(r, r->w->rank).begin;
}

static void nodes_add(struct nodes_run *r)
{
	struct ori_reduction *reduction = r->job.g->reduction;
	const char *staging = r->job.g->table[r->w->rank].base;
	uint32_t rank;

	for (rank = 0; rank < r->w->ranks; rank++)
		reduction->inputs[rank] = staging + nodes_offset(r, rank);
	reduction->inputs[r->w->rank] = nodes_elements(r, r->w->rank);
	reduction->outs[0] = nodes_result(r);
	ori_fold_all(&reduction->fold, reduction->inputs, reduction->outs, 1, 0,
		     nodes_part(r, r->w->rank).length / reduction->fold.size);
}

static bool nodes_gets_results(const struct nodes_run *r, uint32_t rank)
{
	switch (r->job.g->kind->number) {
	case ORI_ALLREDUCE:
		return true;
	case ORI_REDUCE:
		return rank == r->root;
	default:
		return false;
	}
}

static enum oriel_status nodes_return(struct nodes_run *r)
{
	struct ori_reduce_part part = nodes_part(r, r->w->rank);
	enum oriel_status status = ORIEL_OK;
	uint32_t peer;

	for (; r->index < r->w->ranks && status == ORIEL_OK; r->index++) {
		peer = ori_dev_rank_after(r->w, r->index);
		if (nodes_gets_results(r, peer))
			status = oriel_dev_put_signal(r->w, oriel_dev_thread(), peer,
						      oriel_at(ORI_GATHER_RESULT,
							       r->at + part.begin),
						      nodes_result(r), part.length, NODES_RESULTS,
						      1, NULL);
	}
	return status;
}

/* The phase after this one, if it has ended with @status. */
static enum oriel_status nodes_next(struct nodes_run *r, enum nodes_phase phase,
				    enum oriel_status status)
{
	if (status != ORIEL_OK)
		return status;
	r->phase = phase;
	r->index = 1;
	return ORIEL_OK;
}

static enum oriel_status nodes_phase(struct nodes_run *r)
{
	enum oriel_status status;

	switch (r->phase) {
	case NODES_BEGIN:
		nodes_begin_round(r);
		return nodes_next(r, NODES_SEND, ORIEL_OK);
	case NODES_SEND:
		return nodes_next(r, NODES_ARRIVE, nodes_send(r));
	case NODES_ARRIVE:
		status = nodes_take(r, NODES_ELEMENTS);
		/* The numbers came before the elements. */
		if (status == ORIEL_OK && !r->at)
			status = ori_gather_compare(r->job.g, NULL);
		/* The result takes the place of elements for rank 0, which a NIC may still read. */
		if (status == ORIEL_OK && nodes_is_scatter(r) && r->send == r->job.g->result)
			status = ori_gather_drain(&r->job);
		if (status != ORIEL_OK)
			return status;
		nodes_add(r);
		return nodes_next(r, NODES_RETURN, ORIEL_OK);
	case NODES_RETURN:
		return nodes_next(r, NODES_REST, nodes_return(r));
	case NODES_REST:
		status =
			nodes_gets_results(r, r->w->rank) ? nodes_take(r, NODES_RESULTS) : ORIEL_OK;
		if (status == ORIEL_OK)
			r->at += r->length;
		return nodes_next(r, r->at < r->bytes ? NODES_BEGIN : NODES_DRAIN, status);
	case NODES_DRAIN:
		break;
	}
	return ORIEL_OK;
}

static enum oriel_status nodes_go_on(struct ori_gather_job *job)
{
	struct nodes_run *r = (struct nodes_run *)job;
	enum oriel_status status = ORIEL_OK;

	while (r->phase != NODES_DRAIN && status == ORIEL_OK)
		status = nodes_phase(r);
	return status == ORIEL_OK ? ori_gather_drain(job) : status;
}

/* All ranks have the same one. */
static uint64_t nodes_number(const struct nodes_run *r)
{
	return r->job.g->kind->number == ORI_REDUCE ? (uint64_t)r->bytes << 16 | r->root : r->bytes;
}

static void nodes_begin(struct nodes_run *r, struct ori_gather *g, uint32_t root, const void *send,
			size_t count)
{
	*r = (struct nodes_run){.job = {.g = g, .go_on = nodes_go_on},
				.w = &g->device,
				.send = send,
				.bytes = count * g->reduction->fold.size,
				.root = root};
}

enum oriel_status ori_reduce_nodes_run(struct ori_gather *g, uint32_t root, const void *send,
				       size_t count)
{
	struct nodes_run r;
	enum oriel_status status;

	nodes_begin(&r, g, root, send, count);
	status = ori_gather_publish(g, nodes_number(&r));
	return status == ORIEL_OK ? nodes_go_on(&r.job) : status;
}

enum oriel_status ori_reduce_nodes_start(struct ori_gather *g, uint32_t root, const void *send,
					 size_t count)
{
	struct nodes_run *r = malloc(sizeof(*r));
	enum oriel_status status;

	if (!r)
		return ori_fail_nomem(sizeof(*r), "an execution of %s", g->kind->name);
	nodes_begin(r, g, root, send, count);
	status = ori_gather_publish(g, nodes_number(r));
	if (status == ORIEL_OK)
		status = ori_gather_post(&r->job);
	if (status != ORIEL_OK)
		free(r);
	return status;
}
