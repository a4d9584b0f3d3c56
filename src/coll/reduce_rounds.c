/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts, the staging and the signals of reductions of several nodes. reduce_nodes.c,
 * reduce_hierarchy.c, reduce_ring.c and reduce_recursive.c call it.
 */
#include "coll/reduce_rounds.h"

static bool rounds_is_scatter(const struct ori_reduce_rounds *r)
{
	return r->job.g->kind->number == ORI_REDUCE_SCATTER;
}

size_t ori_reduce_rounds_piece(const struct ori_gather *g)
{
	return g->reduction->slot / g->shape.ranks & ~(size_t)63;
}

/* A piece in the accumulation type. */
static size_t rounds_sum(const struct ori_gather *g)
{
	const struct ori_fold *f = &g->reduction->fold;

	return ori_reduce_rounds_piece(g) / f->size * f->sum_size;
}

/* The sums of a half. */
static size_t rounds_sums(const struct ori_gather *g)
{
	size_t sums = g->reduction->is_hierarchical ? 2 * g->shape.nodes : 0;

	return g->reduction->is_fast && g->shape.ranks > sums ? g->shape.ranks : sums;
}

size_t ori_reduce_rounds_staging(const struct ori_gather *g)
{
	return 2 * (g->shape.ranks * ori_reduce_rounds_piece(g) + rounds_sums(g) * rounds_sum(g));
}

uint64_t ori_reduce_rounds_offset(const struct ori_reduce_rounds *r, uint32_t index)
{
	return (r->step % 2 * r->w->ranks + index) * ori_reduce_rounds_piece(r->job.g);
}

uint64_t ori_reduce_rounds_sum(const struct ori_reduce_rounds *r, uint32_t index)
{
	const struct ori_gather *g = r->job.g;

	return 2 * r->w->ranks * ori_reduce_rounds_piece(g) +
	       (r->step % 2 * rounds_sums(g) + index) * rounds_sum(g);
}

struct ori_reduce_part ori_reduce_rounds_part(const struct ori_reduce_rounds *r, uint32_t owner)
{
	if (rounds_is_scatter(r))
		return (struct ori_reduce_part){0, r->length};
	return ori_reduce_share(r->length, r->w->ranks, owner);
}

const char *ori_reduce_rounds_elements(const struct ori_reduce_rounds *r, uint32_t owner)
{
	if (rounds_is_scatter(r))
		return r->send + owner * r->bytes + r->at;
	return r->send + r->at + ori_reduce_rounds_part(r, owner).begin;
}

/* The bytes of the round that begins at r->at. */
static size_t rounds_length(const struct ori_reduce_rounds *r)
{
	size_t rest = r->bytes - r->at;

	return rest < r->most ? rest : r->most;
}

void ori_reduce_rounds_next(struct ori_reduce_rounds *r)
{
	r->length = rounds_length(r);
	r->step = ++r->job.g->reduction->step;
	r->index = 1;
	r->job.has_moved = true;
}

enum oriel_status ori_reduce_rounds_begin(struct ori_reduce_rounds *r, ori_reduce_phase *send)
{
	bool is_sent = r->is_ahead;

	ori_reduce_rounds_next(r);
	r->is_ahead = false;
	return is_sent ? ORIEL_OK : send(r);
}

enum oriel_status ori_reduce_rounds_ahead(struct ori_reduce_rounds *r, ori_reduce_phase *send)
{
	struct ori_reduce_rounds next = *r;

	if (r->job.g->kind->number == ORI_REDUCE || r->at + r->length == r->bytes)
		return ORIEL_OK;
	next.at += r->length;
	next.length = rounds_length(&next);
	next.step++;
	next.index = 1;
	r->is_ahead = true;
	return send(&next);
}

char *ori_reduce_rounds_result(const struct ori_reduce_rounds *r)
{
	const struct ori_gather *g = r->job.g;

	if (g->kind->number == ORI_REDUCE && r->w->rank != r->root)
		return g->table[r->w->rank].base + ori_reduce_rounds_offset(r, r->w->rank);
	return g->result + r->at + ori_reduce_rounds_part(r, r->w->rank).begin;
}

bool ori_reduce_rounds_gets(const struct ori_reduce_rounds *r, uint32_t rank)
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

enum oriel_status ori_reduce_rounds_return(struct ori_reduce_rounds *r, uint32_t peer)
{
	struct ori_reduce_part part = ori_reduce_rounds_part(r, r->w->rank);

	return oriel_dev_put_signal(r->w, oriel_dev_thread(), peer,
				    oriel_at(ORI_GATHER_RESULT, r->at + part.begin),
				    ori_reduce_rounds_result(r), part.length, ORI_REDUCE_RESULTS, 1,
				    NULL);
}

enum oriel_status ori_reduce_rounds_take(struct ori_reduce_rounds *r, uint32_t id)
{
	enum oriel_status status = ORIEL_OK;

	for (; r->index < r->w->ranks && status == ORIEL_OK; r->index += status == ORIEL_OK)
		status = ori_gather_take(&r->job, ori_dev_rank_after(r->w, r->index), id, 1);
	return status;
}

enum oriel_status ori_reduce_rounds_phase(struct ori_reduce_rounds *r, unsigned phase,
					  enum oriel_status status)
{
	if (status != ORIEL_OK)
		return status;
	r->phase = phase;
	r->index = 1;
	return ORIEL_OK;
}

enum oriel_status ori_reduce_rounds_end(struct ori_reduce_rounds *r, unsigned drain,
					enum oriel_status status)
{
	if (status == ORIEL_OK)
		r->at += r->length;
	return ori_reduce_rounds_phase(r, r->at < r->bytes ? 0 : drain, status);
}

enum oriel_status ori_reduce_rounds_go_on(struct ori_gather_job *job, ori_reduce_phase *phase,
					  unsigned drain)
{
	struct ori_reduce_rounds *r = (struct ori_reduce_rounds *)job;
	enum oriel_status status = ORIEL_OK;

	while (r->phase != drain && status == ORIEL_OK)
		status = phase(r);
	return status == ORIEL_OK ? ori_gather_drain(job) : status;
}
