/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan, by one thread. One credit of each rank that is written to says that it has
 * started the execution, so that its result of before may be overwritten; one signal
 * of each chunk says that it is there. Both are counted up for ever, and the base that
 * is waited from lies in the window: nothing is reset between two executions.
 */
#include "coll/gather.h"

struct run {
	struct oriel_allgather *g;
	const struct oriel_dev_window *w;
	const char *send;
	uint64_t bytes;
	uint64_t chunk;
	uint64_t chunks; /* of a block */
};

static enum oriel_status run_wait(const struct run *r, uint32_t source, uint32_t id, uint64_t count)
{
	return oriel_dev_wait_signal_next(r->w, oriel_dev_thread(), source, id, count, 0);
}

static enum oriel_status run_give_credit(const struct run *r, const struct ori_plan *plan)
{
	uint32_t i, peer;
	int64_t posted;

	for (i = 1; i < r->w->ranks; i++) {
		peer = oriel_dev_rank_after(r->w, i);
		r->g->has_credit[peer] = false;
		r->g->taken[peer] = 0;
		if (!plan->expected[peer])
			continue;
		posted = oriel_dev_signal(r->w, oriel_dev_thread(), peer, ORI_GATHER_CREDIT,
					  ORIEL_SIGNAL_ADD, 1);
		if (posted < 0)
			return (enum oriel_status)posted;
	}
	return ORIEL_OK;
}

static enum oriel_status run_send(const struct run *r, uint32_t to, uint64_t at, const char *from,
				  uint64_t length)
{
	enum oriel_status status = ORIEL_OK;
	int64_t posted;

	if (!r->g->has_credit[to])
		status = run_wait(r, to, ORI_GATHER_CREDIT, 1);
	if (status != ORIEL_OK)
		return status;
	r->g->has_credit[to] = true;
	posted = oriel_dev_put_signal(r->w, oriel_dev_thread(), to, oriel_at(ORI_GATHER_RESULT, at),
				      from, length, ORI_GATHER_DATA, 1);
	return posted < 0 ? (enum oriel_status)posted : ORIEL_OK;
}

/* Chunk after chunk, so that one goes on while the next one comes. */
static enum oriel_status run_move(const struct run *r, const struct ori_plan *plan,
				  const struct ori_move *move)
{
	uint64_t begin = move->block * r->bytes, at, length;
	bool is_own = move->source == ORI_PLAN_OWN;
	const char *from = is_own ? r->send : r->g->result + begin;
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	for (at = 0; at < r->bytes && status == ORIEL_OK; at += length) {
		length = r->bytes - at < r->chunk ? r->bytes - at : r->chunk;
		if (!is_own) {
			status = run_wait(r, move->source, ORI_GATHER_DATA, 1);
			r->g->taken[move->source]++;
		}
		for (i = 0; i < move->targets && status == ORIEL_OK; i++)
			status = run_send(r, plan->targets[move->first + i], begin + at, from + at,
					  length);
	}
	return status;
}

/* What nobody waits for to pass it on. */
static enum oriel_status run_wait_all(const struct run *r, const struct ori_plan *plan)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i, peer;
	uint64_t missing;

	for (i = 1; i < r->w->ranks && status == ORIEL_OK; i++) {
		peer = oriel_dev_rank_after(r->w, r->w->ranks - i);
		missing = plan->expected[peer] * r->chunks - r->g->taken[peer];
		if (missing)
			status = run_wait(r, peer, ORI_GATHER_DATA, missing);
	}
	return status;
}

enum oriel_status ori_gather_run(struct oriel_allgather *g, const struct ori_plan *plan,
				 const void *send, size_t bytes, size_t chunk)
{
	struct run r = {g, &g->device, send, bytes, chunk, (bytes + chunk - 1) / chunk};
	char *own = g->result + r.w->rank * r.bytes;
	enum oriel_status status = run_give_credit(&r, plan);
	uint32_t i;

	if (status == ORIEL_OK && own != r.send)
		oriel_mapped_copy(oriel_dev_thread(), own, send, bytes);
	for (i = 0; i < plan->count && status == ORIEL_OK; i++)
		status = run_move(&r, plan, &plan->moves[i]);
	if (status == ORIEL_OK)
		status = run_wait_all(&r, plan);
	/* Adapters may still read what was sent. */
	if (status == ORIEL_OK && r.w->rails)
		status = oriel_dev_drain(r.w, oriel_dev_thread(), 0);
	return status;
}
