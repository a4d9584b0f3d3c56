/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes an all-reduce of several nodes with ORIEL_REDUCE_FAST, in host memory: the algorithms
 * RING and RECURSIVE, which add in orders of their own. Partial results are in the accumulation
 * type, and lie in the sums of the staging. reduce_nodes.c calls it.
 *
 * RING: the sum of part p begins at the rank behind p and goes round to p, each rank adding its
 * elements on the right; rank p rounds it, and the result goes round to all views. Parts are sent
 * in chunks, each of them as soon as it is there. So all messages of a round come from one rank,
 * and their order is that of their numbers: number step * chunks + chunk, of 2 * (ranks - 1) steps.
 *
 * RECURSIVE: the fold of a balanced tree over the ranks. Each pair of ranks exchanges its sums, of
 * 1, 2, 4 ... ranks, and both compute that of the lower ranks + that of the upper ones. If the
 * number of ranks is no power of two, the first ones are added in pairs before, by the odd ranks.
 *
 * A result needs elements of all ranks, so a rank has begun the round when its view is written to,
 * and has added its elements of the part, which may lie there. reduce_rounds.h says why the staging
 * is free; no message of a round has the place of another one.
 */
#include "coll/reduce_fast.h"

/* Bytes of sums that one put brings. */
#define RING_CHUNK ((size_t)64 << 10)

enum fast_phase { FAST_BEGIN, FAST_PAIR, FAST_MOVE, FAST_RESULT, FAST_REST, FAST_DRAIN };

static const struct ori_fold *fast_fold(const struct ori_reduce_rounds *r)
{
	return &r->job.g->reduction->fold;
}

static char *fast_sum(const struct ori_reduce_rounds *r, uint32_t index)
{
	return r->job.g->table[r->w->rank].base + ori_reduce_rounds_sum(r, index);
}

static uint32_t fast_rank(const struct ori_reduce_rounds *r, uint32_t behind)
{
	return (r->w->rank + behind) % r->w->ranks;
}

/* Waits for one signal of @peer. Its number came before the first one. */
static enum oriel_status fast_take(struct ori_reduce_rounds *r, uint32_t peer, uint32_t id)
{
	enum oriel_status status = ori_gather_take(&r->job, peer, id, 1);

	return status == ORIEL_OK && !r->at ? ori_gather_compare_rank(r->job.g, peer) : status;
}

/* Puts @count elements of a sum to the same place of the staging of @peer, with a signal behind. */
static enum oriel_status fast_put(struct ori_reduce_rounds *r, uint32_t peer, uint64_t to,
				  const char *from, size_t count)
{
	return oriel_dev_put_signal(r->w, oriel_dev_thread(), peer,
				    oriel_at(ORI_GATHER_STAGING, to), from,
				    count * fast_fold(r)->sum_size, ORI_REDUCE_ELEMENTS, 1, NULL);
}

static enum oriel_status fast_put_result(struct ori_reduce_rounds *r, uint32_t peer, size_t begin,
					 size_t length)
{
	return oriel_dev_put_signal(r->w, oriel_dev_thread(), peer,
				    oriel_at(ORI_GATHER_RESULT, r->at + begin),
				    r->job.g->result + r->at + begin, length, ORI_REDUCE_RESULTS, 1,
				    NULL);
}

/* The elements of this rank in the @length bytes at @begin of this round, as a sum. */
static void fast_begin(const struct ori_reduce_rounds *r, size_t begin, size_t length, char *sum)
{
	const char **inputs = r->job.g->reduction->inputs;
	uint32_t rank = r->w->rank;

	inputs[rank] = r->send + r->at + begin;
	ori_fold_block(fast_fold(r), inputs, rank, rank + 1, sum, length / fast_fold(r)->size);
}

/* The end result of the @length bytes at @begin of this round. */
static void fast_end(const struct ori_reduce_rounds *r, const char *sum, size_t begin,
		     size_t length)
{
	ori_fold_sums(fast_fold(r), &sum, 1, r->job.g->result + r->at + begin,
		      length / fast_fold(r)->size);
}

static uint32_t ring_chunks(const struct ori_reduce_rounds *r)
{
	const struct ori_fold *f = fast_fold(r);
	size_t longest = ori_reduce_rounds_part(r, 0).length / f->size * f->sum_size;

	return (uint32_t)((longest + RING_CHUNK - 1) / RING_CHUNK);
}

/* Chunk @chunk of the part of @owner, which may be empty. */
static struct ori_reduce_part ring_chunk(const struct ori_reduce_rounds *r, uint32_t owner,
					 uint32_t chunk)
{
	struct ori_reduce_part part = ori_reduce_rounds_part(r, owner);
	size_t most = RING_CHUNK / fast_fold(r)->sum_size * fast_fold(r)->size;
	size_t begin = chunk * most < part.length ? chunk * most : part.length, rest;

	rest = part.length - begin;
	return (struct ori_reduce_part){part.begin + begin, rest < most ? rest : most};
}

/* In steps below ranks - 1 a sum goes to sum @step of the next rank, then results to its view. */
static enum oriel_status ring_send(struct ori_reduce_rounds *r, uint32_t step, uint32_t chunk)
{
	uint32_t ranks = r->w->ranks, owner = fast_rank(r, 2 * ranks - 1 - step);
	struct ori_reduce_part part = ring_chunk(r, owner, chunk);
	uint32_t from = step ? step - 1 : ranks - 1;

	if (step >= ranks - 1)
		return fast_put_result(r, fast_rank(r, 1), part.begin, part.length);
	return fast_put(r, fast_rank(r, 1), ori_reduce_rounds_sum(r, step) + chunk * RING_CHUNK,
			fast_sum(r, from) + chunk * RING_CHUNK, part.length / fast_fold(r)->size);
}

/* Sends the elements of the part whose sum begins at this rank. */
static enum oriel_status ring_begin(struct ori_reduce_rounds *r)
{
	uint32_t ranks = r->w->ranks, chunks, chunk;
	enum oriel_status status = ORIEL_OK;
	struct ori_reduce_part part;

	ori_reduce_rounds_next(r);
	chunks = ring_chunks(r);
	for (chunk = 0; chunk < chunks && status == ORIEL_OK; chunk++) {
		part = ring_chunk(r, fast_rank(r, ranks - 1), chunk);
		fast_begin(r, part.begin, part.length, fast_sum(r, ranks - 1) + chunk * RING_CHUNK);
		status = ring_send(r, 0, chunk);
	}
	return status;
}

/* Takes the next message, and sends what it becomes. */
static enum oriel_status ring_take(struct ori_reduce_rounds *r, uint32_t chunks)
{
	uint32_t ranks = r->w->ranks, step = r->index / chunks, chunk = r->index % chunks;
	struct ori_reduce_part part = ring_chunk(r, fast_rank(r, 2 * ranks - 2 - step), chunk);
	bool is_sum = step < ranks - 1;
	enum oriel_status status = fast_take(r, fast_rank(r, ranks - 1),
					     is_sum ? ORI_REDUCE_ELEMENTS : ORI_REDUCE_RESULTS);
	char *sum = fast_sum(r, step) + chunk * RING_CHUNK;

	if (status != ORIEL_OK)
		return status;
	if (is_sum)
		ori_fold_add(fast_fold(r), sum, r->w->rank, r->send + r->at + part.begin,
			     part.length / fast_fold(r)->size);
	if (step == ranks - 2)
		fast_end(r, sum, part.begin, part.length);
	r->index++;
	return step + 1 < 2 * (ranks - 1) ? ring_send(r, step + 1, chunk) : ORIEL_OK;
}

static enum oriel_status ring_phase(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t chunks;

	if (r->phase == FAST_BEGIN) {
		status = ring_begin(r);
		r->phase = FAST_MOVE;
		r->index = 0;
		return status;
	}
	chunks = ring_chunks(r);
	while (r->index < 2 * (r->w->ranks - 1) * chunks && status == ORIEL_OK)
		status = ring_take(r, chunks);
	return ori_reduce_rounds_end(r, FAST_DRAIN, status);
}

enum oriel_status ori_reduce_ring_go_on(struct ori_gather_job *job)
{
	return ori_reduce_rounds_go_on(job, ring_phase, FAST_DRAIN);
}

/* Exchanges: the largest power of two that is not above the number of ranks is 1 << exchanges. */
static uint32_t recursive_exchanges(const struct ori_reduce_rounds *r)
{
	uint32_t exchanges = 0;

	while (r->w->ranks >> (exchanges + 1))
		exchanges++;
	return exchanges;
}

/* Ranks below this one are in pairs. */
static uint32_t recursive_paired(const struct ori_reduce_rounds *r)
{
	return 2 * (r->w->ranks - (1u << recursive_exchanges(r)));
}

static bool recursive_is_paired(const struct ori_reduce_rounds *r)
{
	return r->w->rank < recursive_paired(r);
}

/* Does another rank add the elements of this one? */
static bool recursive_is_added(const struct ori_reduce_rounds *r)
{
	return recursive_is_paired(r) && r->w->rank % 2 == 0;
}

/* The other rank of exchange @number. Ranks without those that do not exchange have a number. */
static uint32_t recursive_partner(const struct ori_reduce_rounds *r, uint32_t number)
{
	uint32_t paired = recursive_paired(r), rank = r->w->rank;
	uint32_t own = rank < paired ? rank / 2 : rank - paired / 2;
	uint32_t other = own ^ 1u << number;

	return other < paired / 2 ? 2 * other + 1 : other + paired / 2;
}

/* The sums of exchanges come first, then that of a pair; the last one is that of this rank alone.
 */
static uint32_t recursive_pair_sum(const struct ori_reduce_rounds *r)
{
	return recursive_exchanges(r);
}

/* The sum that this rank has before exchange @number. */
static uint32_t recursive_sum(const struct ori_reduce_rounds *r, uint32_t number)
{
	if (number)
		return number - 1;
	return recursive_is_paired(r) ? recursive_pair_sum(r) : r->w->ranks - 1;
}

static size_t recursive_count(const struct ori_reduce_rounds *r)
{
	return r->length / fast_fold(r)->size;
}

static enum oriel_status recursive_begin(struct ori_reduce_rounds *r)
{
	uint32_t own = r->w->ranks - 1;

	ori_reduce_rounds_next(r);
	fast_begin(r, 0, r->length, fast_sum(r, own));
	if (!recursive_is_added(r))
		return ORIEL_OK;
	return fast_put(r, r->w->rank + 1, ori_reduce_rounds_sum(r, recursive_pair_sum(r)),
			fast_sum(r, own), recursive_count(r));
}

/* The rank below has sent its elements. */
static enum oriel_status recursive_pair(struct ori_reduce_rounds *r)
{
	char *sum = fast_sum(r, recursive_pair_sum(r));
	enum oriel_status status = fast_take(r, r->w->rank - 1, ORI_REDUCE_ELEMENTS);

	if (status == ORIEL_OK)
		ori_fold_two(fast_fold(r), sum, fast_sum(r, r->w->ranks - 1), sum,
			     recursive_count(r));
	return status;
}

/* Twice @index, and 1 once the sum is sent, is the position. */
static enum oriel_status recursive_exchange(struct ori_reduce_rounds *r)
{
	uint32_t number = r->index / 2, partner = recursive_partner(r, number);
	char *own = fast_sum(r, recursive_sum(r, number)), *other = fast_sum(r, number);
	enum oriel_status status;

	if (r->index % 2 == 0)
		status = fast_put(r, partner, ori_reduce_rounds_sum(r, number), own,
				  recursive_count(r));
	else
		status = fast_take(r, partner, ORI_REDUCE_ELEMENTS);
	if (status != ORIEL_OK)
		return status;
	if (r->index++ % 2)
		ori_fold_two(fast_fold(r), partner < r->w->rank ? other : own,
			     partner < r->w->rank ? own : other, other, recursive_count(r));
	return ORIEL_OK;
}

static enum oriel_status recursive_result(struct ori_reduce_rounds *r)
{
	fast_end(r, fast_sum(r, recursive_sum(r, recursive_exchanges(r))), 0, r->length);
	return recursive_is_paired(r) ? fast_put_result(r, r->w->rank - 1, 0, r->length) : ORIEL_OK;
}

static enum oriel_status recursive_phase(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ORIEL_OK;

	switch ((enum fast_phase)r->phase) {
	case FAST_BEGIN:
		return ori_reduce_rounds_phase(r, FAST_PAIR, recursive_begin(r));
	case FAST_PAIR:
		if (recursive_is_paired(r) && !recursive_is_added(r))
			status = recursive_pair(r);
		status = ori_reduce_rounds_phase(r, recursive_is_added(r) ? FAST_REST : FAST_MOVE,
						 status);
		r->index = 0;
		return status;
	case FAST_MOVE:
		while (r->index < 2 * recursive_exchanges(r) && status == ORIEL_OK)
			status = recursive_exchange(r);
		return ori_reduce_rounds_phase(r, FAST_RESULT, status);
	case FAST_RESULT:
		return ori_reduce_rounds_phase(r, FAST_REST, recursive_result(r));
	case FAST_REST:
		if (recursive_is_added(r))
			status = fast_take(r, r->w->rank + 1, ORI_REDUCE_RESULTS);
		return ori_reduce_rounds_end(r, FAST_DRAIN, status);
	case FAST_DRAIN:
		break;
	}
	return ORIEL_OK;
}

enum oriel_status ori_reduce_recursive_go_on(struct ori_gather_job *job)
{
	return ori_reduce_rounds_go_on(job, recursive_phase, FAST_DRAIN);
}
