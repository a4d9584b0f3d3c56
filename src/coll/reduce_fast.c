/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the algorithms RING and RECURSIVE share: reduce_ring.c and reduce_recursive.c call
 * it. Partial results are in the accumulation type, and lie in the sums of the staging.
 *
 * A result needs elements of all ranks, so a rank has begun the round when its view is written to,
 * and has added its elements of the part, which may lie there. reduce_rounds.h says why the staging
 * is free; no message of a round has the place of another one.
 */
#include "coll/reduce_fast.h"

const struct ori_fold *ori_reduce_fast_fold(const struct ori_reduce_rounds *r)
{
	return &r->job.g->reduction->fold;
}

size_t ori_reduce_fast_sums(const struct ori_reduce_rounds *r, size_t length)
{
	return length / ori_reduce_fast_fold(r)->size * ori_reduce_fast_fold(r)->sum_size;
}

char *ori_reduce_fast_at(const struct ori_reduce_rounds *r, uint64_t at)
{
	return r->job.g->table[r->w->rank].base + at;
}

/* The number of the execution came before the first signal. */
enum oriel_status ori_reduce_fast_take(struct ori_reduce_rounds *r, uint32_t peer, uint32_t id)
{
	enum oriel_status status = ori_gather_take(&r->job, peer, id, 1);

	return status == ORIEL_OK && !r->at ? ori_gather_compare_rank(r->job.g, peer) : status;
}

enum oriel_status ori_reduce_fast_put(struct ori_reduce_rounds *r, uint32_t peer, uint64_t to,
				      const char *from, size_t length)
{
	return oriel_dev_put_signal(r->w, oriel_dev_thread(), peer,
				    oriel_at(ORI_GATHER_STAGING, to), from,
				    ori_reduce_fast_sums(r, length), ORI_REDUCE_ELEMENTS, 1, NULL);
}

enum oriel_status ori_reduce_fast_put_result(struct ori_reduce_rounds *r, uint32_t peer,
					     struct ori_reduce_part part)
{
	return oriel_dev_put_signal(r->w, oriel_dev_thread(), peer,
				    oriel_at(ORI_GATHER_RESULT, r->at + part.begin),
				    r->job.g->result + r->at + part.begin, part.length,
				    ORI_REDUCE_RESULTS, 1, NULL);
}

void ori_reduce_fast_begin(const struct ori_reduce_rounds *r, struct ori_reduce_part part,
			   char *sum)
{
	const char **inputs = r->job.g->reduction->inputs;
	uint32_t rank = r->w->rank;

	inputs[rank] = r->send + r->at + part.begin;
	ori_fold_block(ori_reduce_fast_fold(r), inputs, rank, rank + 1, sum,
		       part.length / ori_reduce_fast_fold(r)->size);
}

void ori_reduce_fast_add(const struct ori_reduce_rounds *r, struct ori_reduce_part part, char *sum)
{
	ori_fold_add(ori_reduce_fast_fold(r), sum, r->w->rank, r->send + r->at + part.begin,
		     part.length / ori_reduce_fast_fold(r)->size);
}

void ori_reduce_fast_end(const struct ori_reduce_rounds *r, struct ori_reduce_part part,
			 const char *sum)
{
	ori_fold_sums(ori_reduce_fast_fold(r), &sum, 1, r->job.g->result + r->at + part.begin,
		      part.length / ori_reduce_fast_fold(r)->size);
}
