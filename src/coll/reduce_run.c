/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a reduction of mapped ranks in host memory, in rounds. In a round each rank publishes
 * elements, waits until all ranks have published theirs, and adds those of its part where they lie.
 * reduction.c calls it; docs/reductions.md says why no rank reads what another one overwrites, and
 * tests/model/reduce_model.c explores it.
 *
 * The elements lie in one half of the rank's staging, or, in an all-reduce by owners, in its view:
 * each part of a view is read by its owner alone, which then writes the result there. The number
 * of a round, its step, is published with them. The halves alternate: a rank that begins step s + 2
 * has seen step s + 1 of all ranks, which have added the elements of step s before.
 */
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/mapped.h>
#include <oriel/dev/detail/wait.h>

#include "base/error.h"
#include "coll/gather_job.h"
#include "coll/reduction.h"

enum reduce_phase { REDUCE_PUBLISH, REDUCE_ARRIVE, REDUCE_DONE };

struct reduce_run {
	struct ori_gather_job job;
	const char *send;
	size_t bytes; /* of an element's row: all elements, or of a reduce-scatter one part */
	uint32_t root;
	bool by_owners; /* each rank adds a part; else each rank that gets the result adds all */
	bool by_views;  /* peers read the view */

	/* The position, from which the next step of a job continues. */
	enum reduce_phase phase;
	size_t at;     /* bytes that earlier rounds have done */
	size_t length; /* bytes of this round */
	uint64_t step;
	uint32_t index; /* of the next peer to wait for */
};

static enum ori_collective run_kind(const struct reduce_run *r)
{
	return r->job.g->kind->number;
}

static uint32_t run_rank(const struct reduce_run *r)
{
	return r->job.g->device.rank;
}

static uint32_t run_ranks(const struct reduce_run *r)
{
	return r->job.g->device.ranks;
}

static char *run_staging(const struct reduce_run *r, uint32_t rank)
{
	return r->job.g->device.table[rank].base;
}

/* The last step whose results @rank has written. */
static uint64_t *run_done(const struct reduce_run *r, uint32_t rank)
{
	return (uint64_t *)run_staging(r, rank);
}

static struct ori_reduce_head *run_head(const struct reduce_run *r, uint32_t rank)
{
	size_t half = sizeof(struct ori_reduce_head) + r->job.g->reduction->slot;

	return (struct ori_reduce_head *)(run_staging(r, rank) + ORIEL_DEV_LINE +
					  r->step % 2 * half);
}

/* Elements that @rank has published in its staging. */
static char *run_elements(const struct reduce_run *r, uint32_t rank)
{
	struct ori_reduce_head *head = run_head(r, rank);
	size_t all = r->length;

	if (run_kind(r) == ORI_REDUCE_SCATTER)
		all *= run_ranks(r);
	return all <= sizeof(head->few) ? head->few : (char *)(head + 1);
}

/* The most bytes of a round, whole elements of any type. */
static size_t run_most(const struct reduce_run *r)
{
	size_t slot = r->job.g->reduction->slot;

	if (r->by_views)
		return SIZE_MAX;
	if (run_kind(r) == ORI_REDUCE_SCATTER)
		slot /= run_ranks(r);
	return slot & ~(size_t)7;
}

/* The part of a round that @rank adds. */
static struct ori_reduce_part run_part(const struct reduce_run *r, uint32_t rank)
{
	if (run_kind(r) == ORI_REDUCE_SCATTER)
		return (struct ori_reduce_part){0, r->length};
	if (!r->by_owners && run_kind(r) == ORI_REDUCE)
		return (struct ori_reduce_part){0, rank == r->root ? r->length : 0};
	if (!r->by_owners)
		return (struct ori_reduce_part){0, r->length};
	return ori_reduce_share(r->length, run_ranks(r), rank);
}

/* Copies what peers will read to @to, a copy of the round: all but this rank's part. */
static void run_copy_others(const struct reduce_run *r, char *to)
{
	struct ori_reduce_part own = run_part(r, run_rank(r));
	size_t end = own.begin + own.length;
	const char *from = r->send + r->at;

	if (!r->by_owners && run_kind(r) == ORI_ALLREDUCE)
		own.length = end = own.begin = 0;
	memcpy(to, from, own.begin);
	memcpy(to + end, from + end, r->length - end);
}

static void run_copy_pieces(const struct reduce_run *r, char *to)
{
	uint32_t rank;

	for (rank = 0; rank < run_ranks(r); rank++)
		if (rank != run_rank(r))
			memcpy(to + rank * r->length, r->send + rank * r->bytes + r->at, r->length);
}

static void run_publish(struct reduce_run *r)
{
	struct ori_reduction *reduction = r->job.g->reduction;
	size_t rest = r->bytes - r->at, most = run_most(r);
	struct ori_reduce_head *head;

	r->length = rest < most ? rest : most;
	r->step = ++reduction->step;
	r->index = 1;
	head = run_head(r, run_rank(r));
	if (run_kind(r) == ORI_REDUCE_SCATTER)
		run_copy_pieces(r, run_elements(r, run_rank(r)));
	else if (!r->by_views)
		run_copy_others(r, run_elements(r, run_rank(r)));
	else if (r->send != r->job.g->result)
		run_copy_others(r, r->job.g->result);
	head->bytes = r->bytes;
	head->root = r->root;
	/* Acquired by run_await() of every peer. */
	oriel_dev_store_release(&head->step, r->step);
	r->job.has_moved = true;
}

/* Waits until *@word of @peer is @value or more. ORIEL_AGAIN: posted, and it is not. */
static enum oriel_status run_await(struct reduce_run *r, uint32_t peer, const uint64_t *word,
				   uint64_t value)
{
	struct oriel_dev_aim aim = {.word = word,
				    .operand = value,
				    .compare = ORIEL_GE,
				    .peer = peer};
	uint64_t seen = oriel_dev_load_acquire(word);

	aim.what = ORIEL_DEV_WAIT_SIGNAL_FROM;
	if (seen >= value) {
		r->job.has_moved = true;
		return ORIEL_OK;
	}
	if (!r->job.is_posted)
		return ori_dev_wait_value(&r->job.g->device, oriel_dev_thread(), &aim, 0, &seen);
	atomic_store_explicit(&r->job.g->awaited, peer, memory_order_relaxed);
	return ORIEL_AGAIN;
}

static enum oriel_status run_arrive(struct reduce_run *r)
{
	const struct ori_reduce_head *head;
	enum oriel_status status;
	uint32_t peer;

	for (; r->index < run_ranks(r); r->index++) {
		peer = ori_dev_rank_after(&r->job.g->device, r->index);
		head = run_head(r, peer);
		status = run_await(r, peer, &head->step, r->step);
		if (status != ORIEL_OK)
			return status;
		if (head->bytes != r->bytes)
			return ori_gather_break(r->job.g, "bytes", r->bytes, peer, head->bytes);
		if (head->root != r->root)
			return ori_gather_break(r->job.g, "the root", r->root, peer, head->root);
	}
	return ORIEL_OK;
}

/* Where the elements of the part of this rank lie at @rank. */
static const char *run_input(const struct reduce_run *r, uint32_t rank, size_t begin)
{
	uint32_t ranks = run_ranks(r), me = run_rank(r);

	if (rank == me && run_kind(r) == ORI_REDUCE_SCATTER)
		return r->send + me * r->bytes + r->at;
	if (rank == me)
		return r->send + r->at + begin;
	if (run_kind(r) == ORI_REDUCE_SCATTER)
		return run_elements(r, rank) + me * r->length;
	if (r->by_views)
		return r->job.g->device.table[ranks + rank].base + begin;
	return run_elements(r, rank) + begin;
}

static void run_add(struct reduce_run *r)
{
	const struct ori_gather *g = r->job.g;
	struct ori_reduction *reduction = g->reduction;
	struct ori_reduce_part part = run_part(r, run_rank(r));
	uint32_t rank, outs = 0;

	r->job.has_moved = true;
	if (!part.length)
		return;
	for (rank = 0; rank < run_ranks(r); rank++) {
		reduction->inputs[rank] = run_input(r, rank, part.begin);
		if (rank != run_rank(r) && !r->by_views &&
		    !(run_kind(r) == ORI_REDUCE && rank == r->root))
			continue;
		if (rank == run_rank(r) && run_kind(r) == ORI_REDUCE && rank != r->root)
			continue;
		reduction->outs[outs++] =
			g->device.table[run_ranks(r) + rank].base + r->at + part.begin;
	}
	ori_fold_all(&reduction->fold, reduction->inputs, reduction->outs, outs, 0,
		     part.length / reduction->fold.size);
	/* Else several ranks read the same elements, or the result was written there. */
	if (r->by_views || (!r->by_owners && run_ranks(r) > 2 && run_kind(r) == ORI_ALLREDUCE))
		return;
	for (rank = 0; rank < run_ranks(r); rank++)
		if (rank != run_rank(r))
			ori_dev_mapped_own(reduction->inputs[rank], part.length);
}

/* Waits for the results that peers write to the view of this rank. */
static enum oriel_status run_done_all(struct reduce_run *r)
{
	bool is_waiting = run_kind(r) == ORI_ALLREDUCE || run_rank(r) == r->root;
	enum oriel_status status = ORIEL_OK;
	uint32_t peer;

	if (!r->by_owners || run_kind(r) == ORI_REDUCE_SCATTER)
		return ORIEL_OK;
	/* Acquired by run_await() below, of those that get the results. */
	oriel_dev_store_release(run_done(r, run_rank(r)), r->step);
	for (; is_waiting && r->index < run_ranks(r) && status == ORIEL_OK;
	     r->index += status == ORIEL_OK) {
		peer = ori_dev_rank_after(&r->job.g->device, r->index);
		status = run_await(r, peer, run_done(r, peer), r->step);
	}
	return status;
}

static enum oriel_status run_go_on(struct ori_gather_job *job)
{
	struct reduce_run *r = (struct reduce_run *)job;
	enum oriel_status status;

	while (r->phase != REDUCE_DONE) {
		if (r->phase == REDUCE_PUBLISH) {
			run_publish(r);
			r->phase = REDUCE_ARRIVE;
		}
		if (r->phase == REDUCE_ARRIVE) {
			status = run_arrive(r);
			if (status != ORIEL_OK)
				return status;
		}
		run_add(r);
		r->at += r->length;
		r->index = 1;
		r->phase = r->at < r->bytes ? REDUCE_PUBLISH : REDUCE_DONE;
	}
	return run_done_all(r);
}

static void run_begin(struct reduce_run *r, struct ori_gather *g, enum oriel_algorithm algorithm,
		      uint32_t root, const void *send, size_t count)
{
	*r = (struct reduce_run){.job = {.g = g, .go_on = run_go_on},
				 .send = send,
				 .bytes = count * g->reduction->fold.size,
				 .root = root,
				 .by_owners = algorithm == ORIEL_ALGORITHM_OWNER};
	r->by_views = r->by_owners && g->kind->number == ORI_ALLREDUCE;
}

enum oriel_status ori_reduce_run(struct ori_gather *g, enum oriel_algorithm algorithm,
				 uint32_t root, const void *send, size_t count)
{
	struct reduce_run r;

	run_begin(&r, g, algorithm, root, send, count);
	return run_go_on(&r.job);
}

enum oriel_status ori_reduce_start(struct ori_gather *g, enum oriel_algorithm algorithm,
				   uint32_t root, const void *send, size_t count)
{
	struct reduce_run *r = malloc(sizeof(*r));
	enum oriel_status status;

	if (!r)
		return ori_fail_nomem(sizeof(*r), "an execution of %s", g->kind->name);
	run_begin(r, g, algorithm, root, send, count);
	status = ori_gather_post(&r->job);
	if (status != ORIEL_OK)
		free(r);
	return status;
}
