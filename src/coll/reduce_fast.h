/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduces of several nodes in host memory with ORIEL_REDUCE_FAST, which add in orders of their
 * own. Called by reduce_nodes.c; reduce_ring.c and reduce_recursive.c have the algorithms.
 */
#ifndef ORI_COLL_REDUCE_FAST_H
#define ORI_COLL_REDUCE_FAST_H

#include "coll/reduce_rounds.h"

/* go_on() of jobs, which are ori_reduce_rounds. */
enum oriel_status ori_reduce_ring_go_on(struct ori_gather_job *job);
enum oriel_status ori_reduce_recursive_go_on(struct ori_gather_job *job);

/* The most bytes of a round of RECURSIVE. */
size_t ori_reduce_recursive_round(const struct ori_gather *g);

const struct ori_fold *ori_reduce_fast_fold(const struct ori_reduce_rounds *r);
/* Bytes of the sums of @length bytes of elements. */
size_t ori_reduce_fast_sums(const struct ori_reduce_rounds *r, size_t length);
/* The place at offset @at of the own staging. */
char *ori_reduce_fast_at(const struct ori_reduce_rounds *r, uint64_t at);

/* Waits for one signal of @peer. */
enum oriel_status ori_reduce_fast_take(struct ori_reduce_rounds *r, uint32_t peer, uint32_t id);
/*
 * Puts the sums of @length bytes of elements to offset @to of the staging of @peer, or that part of
 * the result to its view, with a signal behind.
 */
enum oriel_status ori_reduce_fast_put(struct ori_reduce_rounds *r, uint32_t peer, uint64_t to,
				      const char *from, size_t length);
enum oriel_status ori_reduce_fast_put_result(struct ori_reduce_rounds *r, uint32_t peer,
					     struct ori_reduce_part part);

/* The elements of this rank in that part of the round, as sums; added to sums, on the right. */
void ori_reduce_fast_begin(const struct ori_reduce_rounds *r, struct ori_reduce_part part,
			   char *sum);
void ori_reduce_fast_add(const struct ori_reduce_rounds *r, struct ori_reduce_part part, char *sum);
/* The end result of that part, to the view. */
void ori_reduce_fast_end(const struct ori_reduce_rounds *r, struct ori_reduce_part part,
			 const char *sum);

#endif
