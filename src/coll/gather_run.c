/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a plan in host memory. Called by allgather.c. A credit of the target says that it has
 * started the execution, so that its previous result may be overwritten. A signal behind each
 * chunk says that the chunk has arrived. Both count up for ever, and the base that a wait counts
 * from lies in the window: nothing is reset between two executions.
 *
 * The calling thread waits where it has to. The thread of the communicator, which has other jobs,
 * returns instead and continues from the stored position at the next step.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <oriel/progress.h>

#include "base/error.h"
#include "coll/gather.h"

enum run_phase { RUN_CREDIT, RUN_MOVES, RUN_REST, RUN_DRAIN };

struct ori_run {
	struct ori_gather *g;
	const struct oriel_dev_window *w;
	const struct ori_plan *plan;
	const char *send;
	uint64_t bytes;
	uint64_t chunk;
	uint64_t chunks; /* of a block */
	bool is_job;

	/* The position, from which the next step of a job continues. */
	enum run_phase phase;
	uint32_t move;
	uint64_t at; /* offset in the block */
	bool has_come;
	uint32_t target; /* index among the targets of the move */
	uint32_t rest;   /* peers whose chunks have all arrived */
	bool has_moved;  /* since the step began */
	uint64_t moved_ns;
};

/* ORIEL_AGAIN: only in a job, which repeats the call in a later step. */
static enum oriel_status run_wait(struct ori_run *r, uint32_t source, uint32_t id, uint64_t count)
{
	uint64_t value = 0, base = r->w->signal_bases[(size_t)source * r->w->signals + id];
	enum oriel_status status;

	if (r->is_job) {
		status = oriel_dev_read_signal_from(r->w, source, id, &value);
		if (status != ORIEL_OK || value - base < count)
			return status == ORIEL_OK ? ORIEL_AGAIN : status;
		r->has_moved = true;
	}
	return oriel_dev_wait_signal_next(r->w, oriel_dev_thread(), source, id, count, 0);
}

static enum oriel_status run_give_credit(struct ori_run *r)
{
	enum oriel_status status;
	uint32_t i, peer;

	for (i = 1; i < r->w->ranks; i++) {
		peer = ori_dev_rank_after(r->w, i);
		r->g->has_credit[peer] = false;
		r->g->taken[peer] = 0;
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

	if (!r->g->has_credit[to])
		status = run_wait(r, to, ORI_GATHER_CREDIT, 1);
	if (status != ORIEL_OK)
		return status;
	r->g->has_credit[to] = true;
	return oriel_dev_put_signal(r->w, oriel_dev_thread(), to, oriel_at(ORI_GATHER_RESULT, at),
				    from, length, ORI_GATHER_DATA, 1, NULL);
}

/* Chunk by chunk, so that one is passed on while the next one arrives. */
static enum oriel_status run_move(struct ori_run *r, const struct ori_move *move)
{
	uint64_t begin = move->block * r->bytes, length;
	bool is_own = move->source == ORI_PLAN_OWN;
	const char *from = is_own ? r->send : r->g->result + begin;
	enum oriel_status status;

	for (; r->at < r->bytes; r->at += length) {
		length = r->bytes - r->at < r->chunk ? r->bytes - r->at : r->chunk;
		if (!is_own && !r->has_come) {
			status = run_wait(r, move->source, ORI_GATHER_DATA, 1);
			if (status != ORIEL_OK)
				return status;
			r->has_come = true;
			r->g->taken[move->source]++;
		}
		for (; r->target < move->targets; r->target++) {
			status = run_send(r, r->plan->targets[move->first + r->target],
					  begin + r->at, from + r->at, length);
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
		missing = r->plan->expected[peer] * r->chunks - r->g->taken[peer];
		if (missing)
			status = run_wait(r, peer, ORI_GATHER_DATA, missing);
	}
	return status;
}

/*
 * NICs may still read the send buffer. A wait with its own time limit does not break the
 * communicator, so a job polls with one of 1 ns.
 */
static enum oriel_status run_drain(const struct ori_run *r)
{
	enum oriel_status status;

	if (!r->w->rails)
		return ORIEL_OK;
	status = oriel_dev_drain(r->w, oriel_dev_thread(), r->is_job ? 1 : 0);
	return r->is_job && status == ORIEL_ERR_TIMEOUT ? ORIEL_AGAIN : status;
}

static enum oriel_status run_go_on(struct ori_run *r)
{
	char *own = r->g->result + r->w->rank * r->bytes;
	enum oriel_status status = ORIEL_OK;

	switch (r->phase) {
	case RUN_CREDIT:
		status = run_give_credit(r);
		if (status != ORIEL_OK)
			return status;
		if (own != r->send)
			ori_dev_mapped_copy(oriel_dev_thread(), own, r->send, r->bytes);
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
		return run_drain(r);
	}
	return status;
}

static struct ori_run run_begin(struct ori_gather *g, const struct ori_plan *plan, const void *send,
				size_t bytes, size_t chunk)
{
	struct ori_run r = {.g = g,
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

static enum oriel_status run_step(void *context, bool *has_moved)
{
	struct ori_run *r = context;
	enum oriel_status status = ori_dev_health(r->w);
	uint64_t timeout_ns = oriel_comm_timeout(r->g->comm);
	enum run_phase before = r->phase;

	r->has_moved = false;
	if (status == ORIEL_OK)
		status = run_go_on(r);
	*has_moved = r->has_moved || r->phase != before;
	if (*has_moved)
		r->moved_ns = oriel_dev_clock_ns();
	else if (status == ORIEL_AGAIN && oriel_dev_clock_ns() - r->moved_ns > timeout_ns)
		status = ori_fail(ORIEL_ERR_TIMEOUT,
				  "all-gather timed out: no progress for %g s; raise ORIEL_TIMEOUT "
				  "if a rank is only slow",
				  (double)timeout_ns / 1e9);
	if (status == ORIEL_OK)
		status = ori_gather_compare(r->g, r->plan);
	/* Release: a thread that acquires it sees the result, and may start the object again. */
	if (status != ORIEL_AGAIN)
		atomic_store_explicit(&r->g->begun, status, memory_order_release);
	return status;
}

enum oriel_status ori_gather_begin(struct ori_gather *g, const struct ori_plan *plan,
				   const void *send, size_t bytes, size_t chunk)
{
	struct oriel_job job = {sizeof(job), run_step, free, NULL};
	struct ori_run *r = malloc(sizeof(*r));
	enum oriel_status status;

	if (!r)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for an execution of an all-gather");
	*r = run_begin(g, plan, send, bytes, chunk);
	r->is_job = true;
	r->moved_ns = oriel_dev_clock_ns();
	job.context = r;
	atomic_store(&g->begun, ORIEL_AGAIN);
	status = oriel_comm_post(g->comm, &job);
	if (status != ORIEL_OK) {
		free(r);
		atomic_store(&g->begun, ORIEL_OK);
	}
	return status;
}
