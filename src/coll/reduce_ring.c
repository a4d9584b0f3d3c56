/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RING: the sum of part p begins at the rank behind p and goes round to p, each rank adding its
 * elements on the right; rank p rounds it, and the result goes round to all views. Parts are sent
 * in chunks, each of them as soon as it is there. So all messages of a round come from one rank,
 * and their order is that of their numbers: number step * chunks + chunk, of 2 * (ranks - 1) steps.
 */
#include "coll/reduce_fast.h"

/* Bytes of sums that one put brings. */
#define RING_CHUNK ((size_t)64 << 10)

enum ring_phase { RING_BEGIN, RING_MOVE, RING_DRAIN };

static uint32_t ring_rank(const struct ori_reduce_rounds *r, uint32_t behind)
{
	return (r->w->rank + behind) % r->w->ranks;
}

static uint64_t ring_place(const struct ori_reduce_rounds *r, uint32_t sum, uint32_t chunk)
{
	return ori_reduce_rounds_sum(r, sum) + chunk * RING_CHUNK;
}

static uint32_t ring_chunks(const struct ori_reduce_rounds *r)
{
	size_t longest = ori_reduce_fast_sums(r, ori_reduce_rounds_part(r, 0).length);

	return (uint32_t)((longest + RING_CHUNK - 1) / RING_CHUNK);
}

/* Chunk @chunk of the part of @owner, which may be empty. */
static struct ori_reduce_part ring_chunk(const struct ori_reduce_rounds *r, uint32_t owner,
					 uint32_t chunk)
{
	const struct ori_fold *fold = ori_reduce_fast_fold(r);
	struct ori_reduce_part part = ori_reduce_rounds_part(r, owner);
	size_t most = RING_CHUNK / fold->sum_size * fold->size;
	size_t begin = chunk * most < part.length ? chunk * most : part.length, rest;

	rest = part.length - begin;
	return (struct ori_reduce_part){part.begin + begin, rest < most ? rest : most};
}

/* In steps below ranks - 1 a sum goes to sum @step of the next rank, then results to its view. */
static enum oriel_status ring_send(struct ori_reduce_rounds *r, uint32_t step, uint32_t chunk)
{
	uint32_t ranks = r->w->ranks, owner = ring_rank(r, 2 * ranks - 1 - step);
	struct ori_reduce_part part = ring_chunk(r, owner, chunk);
	uint32_t from = step ? step - 1 : ranks - 1;

	if (step >= ranks - 1)
		return ori_reduce_fast_put_result(r, ring_rank(r, 1), part);
	return ori_reduce_fast_put(r, ring_rank(r, 1), ring_place(r, step, chunk),
				   ori_reduce_fast_at(r, ring_place(r, from, chunk)), part.length);
}

/* Sends the elements of the part whose sum begins at this rank. */
static enum oriel_status ring_begin(struct ori_reduce_rounds *r)
{
	uint32_t ranks = r->w->ranks, chunks, chunk;
	enum oriel_status status = ORIEL_OK;

	ori_reduce_rounds_next(r);
	chunks = ring_chunks(r);
	for (chunk = 0; chunk < chunks && status == ORIEL_OK; chunk++) {
		ori_reduce_fast_begin(r, ring_chunk(r, ring_rank(r, ranks - 1), chunk),
				      ori_reduce_fast_at(r, ring_place(r, ranks - 1, chunk)));
		status = ring_send(r, 0, chunk);
	}
	return status;
}

/* Takes the next message, and sends what it becomes. */
static enum oriel_status ring_take(struct ori_reduce_rounds *r, uint32_t chunks)
{
	uint32_t ranks = r->w->ranks, step = r->index / chunks, chunk = r->index % chunks;
	struct ori_reduce_part part = ring_chunk(r, ring_rank(r, 2 * ranks - 2 - step), chunk);
	bool is_sum = step < ranks - 1;
	enum oriel_status status =
		ori_reduce_fast_take(r, ring_rank(r, ranks - 1),
				     is_sum ? ORI_REDUCE_ELEMENTS : ORI_REDUCE_RESULTS);
	char *sum = ori_reduce_fast_at(r, ring_place(r, step, chunk));

	if (status != ORIEL_OK)
		return status;
	if (is_sum)
		ori_reduce_fast_add(r, part, sum);
	if (step == ranks - 2)
		ori_reduce_fast_end(r, part, sum);
	r->index++;
	return step + 1 < 2 * (ranks - 1) ? ring_send(r, step + 1, chunk) : ORIEL_OK;
}

static enum oriel_status ring_phase(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t chunks;

	if (r->phase == RING_BEGIN) {
		status = ring_begin(r);
		r->phase = RING_MOVE;
		r->index = 0;
		return status;
	}
	chunks = ring_chunks(r);
	while (r->index < 2 * (r->w->ranks - 1) * chunks && status == ORIEL_OK)
		status = ring_take(r, chunks);
	return ori_reduce_rounds_end(r, RING_DRAIN, status);
}

enum oriel_status ori_reduce_ring_go_on(struct ori_gather_job *job)
{
	return ori_reduce_rounds_go_on(job, ring_phase, RING_DRAIN);
}
