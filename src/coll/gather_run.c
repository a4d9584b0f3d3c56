/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a plan in host memory. Called by allgather.c and alltoall.c. A credit of the target says
 * that it has started the execution, so that its previous result may be overwritten. A signal
 * behind each chunk says that the chunk has arrived. Both count up for ever, and the base that a
 * wait counts from lies in the window: nothing is reset between two executions.
 *
 * The calling thread waits where it has to. The thread of the communicator, which has other jobs,
 * returns instead and continues from the stored position at the next step.
 */
#include <stdlib.h>

#include "base/error.h"
#include "coll/gather_job.h"

enum run_phase { RUN_CREDIT, RUN_MOVES, RUN_REST, RUN_DRAIN };

struct ori_run {
	struct ori_gather_job job;
	const struct oriel_dev_window *w;
	const struct ori_plan *plan;
	const char *send;
	size_t stride; /* between the messages for the ranks; 0: all get the same one */
	uint64_t bytes;
	uint64_t chunk;
	uint64_t chunks; /* of a block */

	/* The position, from which the next step of a job continues. */
	enum run_phase phase;
	uint32_t move;
	uint64_t at; /* offset in the block */
	bool has_come;
	uint32_t target; /* index among the targets of the move */
	uint32_t rest;   /* peers whose chunks have all arrived */
};

static enum oriel_status run_give_credit(struct ori_run *r)
{
	struct ori_gather *g = r->job.g;
	enum oriel_status status;
	uint32_t i, peer;

	r->job.has_moved = true;
	for (i = 1; i < r->w->ranks; i++) {
		peer = ori_dev_rank_after(r->w, i);
		g->has_credit[peer] = false;
		g->taken[peer] = 0;
		if (!r->plan->expected[peer])
			continue;
		status = oriel_dev_signal(r->w, oriel_dev_thread(), peer, ORI_GATHER_CREDIT,
					  ORIEL_SIGNAL_ADD, 1, NULL);
		if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

static enum oriel_status run_send(struct ori_run *r, uint32_t to, uint64_t at, const char *from,
				  uint64_t length)
{
	enum oriel_status status = ORIEL_OK;

	if (!r->job.g->has_credit[to])
		status = ori_gather_take(&r->job, to, ORI_GATHER_CREDIT, 1);
	if (status != ORIEL_OK)
		return status;
	r->job.g->has_credit[to] = true;
	return oriel_dev_put_signal(r->w, oriel_dev_thread(), to, oriel_at(ORI_GATHER_RESULT, at),
				    from, length, ORI_GATHER_DATA, 1, NULL);
}

/* Chunk by chunk, so that one is passed on while the next one arrives. */
static enum oriel_status run_move(struct ori_run *r, const struct ori_move *move)
{
	uint64_t begin = move->block * r->bytes, length;
	bool is_own = move->source == ORI_PLAN_OWN;
	const char *from = is_own ? r->send : r->job.g->result + begin;
	enum oriel_status status;
	uint32_t to;

	for (; r->at < r->bytes; r->at += length) {
		length = r->bytes - r->at < r->chunk ? r->bytes - r->at : r->chunk;
		if (!is_own && !r->has_come) {
			status = ori_gather_take(&r->job, move->source, ORI_GATHER_DATA, 1);
			if (status != ORIEL_OK)
				return status;
			r->has_come = true;
			r->job.g->taken[move->source]++;
		}
		for (; r->target < move->targets; r->target++) {
			to = r->plan->targets[move->first + r->target];
			status = run_send(r, to, begin + r->at, from + to * r->stride + r->at,
					  length);
			if (status != ORIEL_OK)
				return status;
		}
		r->target = 0;
		r->has_come = false;
	}
	r->at = 0;
	return ORIEL_OK;
}

static enum oriel_status run_moves(struct ori_run *r)
{
	enum oriel_status status = ORIEL_OK;

	while (r->move < r->plan->count && status == ORIEL_OK) {
		status = run_move(r, &r->plan->moves[r->move]);
		r->move += status == ORIEL_OK;
	}
	return status;
}

/* Waits for the chunks that no move of this rank passes on. */
static enum oriel_status run_rest(struct ori_run *r)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t missing;
	uint32_t peer;

	for (; r->rest + 1 < r->w->ranks && status == ORIEL_OK; r->rest += status == ORIEL_OK) {
		peer = ori_dev_rank_after(r->w, r->w->ranks - 1 - r->rest);
		missing = r->plan->expected[peer] * r->chunks - r->job.g->taken[peer];
		if (missing)
			status = ori_gather_take(&r->job, peer, ORI_GATHER_DATA, missing);
	}
	return status;
}

static enum oriel_status run_go_on(struct ori_run *r)
{
	char *own = r->job.g->result + r->w->rank * r->bytes;
	const char *message = r->send + r->w->rank * r->stride;
	enum oriel_status status = ORIEL_OK;

	switch (r->phase) {
	case RUN_CREDIT:
		status = run_give_credit(r);
		if (status != ORIEL_OK)
			return status;
		if (own != message)
			ori_dev_mapped_copy(oriel_dev_thread(), own, message, r->bytes);
		r->phase = RUN_MOVES;
		/* fallthrough */
	case RUN_MOVES:
		status = run_moves(r);
		if (status != ORIEL_OK)
			return status;
		r->phase = RUN_REST;
		/* fallthrough */
	case RUN_REST:
		status = run_rest(r);
		if (status != ORIEL_OK)
			return status;
		r->phase = RUN_DRAIN;
		/* fallthrough */
	case RUN_DRAIN:
		return ori_gather_drain(&r->job);
	}
	return status;
}

/* The numbers of bytes of an all-gather came with its messages. */
static enum oriel_status run_step(struct ori_gather_job *job)
{
	struct ori_run *r = (struct ori_run *)job;
	enum oriel_status status = run_go_on(r);

	if (status == ORIEL_OK && job->g->kind->number == ORI_ALLGATHER)
		status = ori_gather_compare(job->g, r->plan);
	return status;
}

static struct ori_run run_begin(struct ori_gather *g, const struct ori_plan *plan, const void *send,
				size_t bytes, size_t chunk)
{
	struct ori_run r = {.job = {.g = g, .go_on = run_step},
			    .w = &g->device,
			    .plan = plan,
			    .send = send,
			    .bytes = bytes,
			    .chunk = chunk,
			    .chunks = (bytes + chunk - 1) / chunk};

	return r;
}

enum oriel_status ori_gather_run(struct ori_gather *g, const struct ori_plan *plan,
				 const void *send, size_t bytes, size_t chunk)
{
	struct ori_run r = run_begin(g, plan, send, bytes, chunk);

	return run_go_on(&r);
}

enum oriel_status ori_gather_start(struct ori_gather *g, const struct ori_plan *plan,
				   const void *send, size_t stride, size_t bytes)
{
	struct ori_run *r = malloc(sizeof(*r));
	enum oriel_status status;

	if (!r)
		return ori_fail_nomem(sizeof(*r), "an execution of %s", g->kind->name);
	*r = run_begin(g, plan, send, bytes, g->chunk);
	r->stride = stride;
	if (g->kind->number == ORI_ALLTOALL)
		r->job.same[0] = (struct ori_same){.what = "bytes", .value = bytes};
	status = ori_gather_post(&r->job);
	if (status != ORIEL_OK)
		free(r);
	return status;
}
