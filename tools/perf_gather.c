/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of persistent collectives, with one handle for all rounds of a size. In GPU memory the
 * executions of a sample follow each other in a stream, for which the host waits at its end.
 */
#include <stdlib.h>
#include <string.h>

#include "perf.h"
#include "perf_pass.h"

void perf_gather_close(struct perf_job *job)
{
	oriel_allgather_destroy(job->gather.allgather);
	oriel_alltoall_destroy(job->gather.alltoall);
	oriel_bcast_destroy(job->gather.bcast);
	oriel_allreduce_destroy(job->gather.allreduce);
	oriel_reduce_scatter_destroy(job->gather.reduce_scatter);
	oriel_reduce_destroy(job->gather.reduce);
	oriel_gather_destroy(job->gather.gather);
	oriel_scatter_destroy(job->gather.scatter);
	oriel_window_destroy(job->gather.window);
	oriel_memory_free(job->gather.result);
	free(job->gather.source);
	job->gather = (struct perf_gather){.result = NULL};
}

bool perf_is_collective(const struct perf_case *plan)
{
	return plan->pass == perf_allgather || plan->pass == perf_alltoall ||
	       plan->pass == perf_bcast || plan->pass == perf_allreduce ||
	       plan->pass == perf_reduce_scatter || plan->pass == perf_reduce ||
	       plan->pass == perf_gather || plan->pass == perf_scatter;
}

static bool gather_is_reduction(enum perf_collective which)
{
	return which == PERF_ALLREDUCE || which == PERF_REDUCE_SCATTER || which == PERF_REDUCE;
}

/* Does each rank send one message, and not one to each rank? */
static bool gather_is_of_one(enum perf_collective which)
{
	return which == PERF_BCAST || which == PERF_ALLREDUCE || which == PERF_REDUCE;
}

static enum oriel_status gather_create(struct perf_job *job, enum perf_collective which,
				       const struct oriel_view *view)
{
	const struct oriel_reduction sum = {.size = sizeof(sum),
					    .type = ORIEL_TYPE_FP32,
					    .op = ORIEL_OP_SUM};
	struct perf_gather *g = &job->gather;

	switch (which) {
	case PERF_ALLGATHER:
		return oriel_allgather_create(job->comm, view, NULL, &g->allgather);
	case PERF_ALLTOALL:
		return oriel_alltoall_create(job->comm, view, NULL, &g->alltoall);
	case PERF_BCAST:
		return oriel_bcast_create(job->comm, view, NULL, &g->bcast);
	case PERF_ALLREDUCE:
		return oriel_allreduce_create(job->comm, view, &sum, NULL, &g->allreduce);
	case PERF_REDUCE_SCATTER:
		return oriel_reduce_scatter_create(job->comm, view, &sum, NULL, &g->reduce_scatter);
	case PERF_REDUCE:
		return oriel_reduce_create(job->comm, view, &sum, NULL, &g->reduce);
	case PERF_GATHER:
		return oriel_gather_create(job->comm, view, NULL, &g->gather);
	case PERF_SCATTER:
		return oriel_scatter_create(job->comm, view, NULL, &g->scatter);
	}
	return ORIEL_ERR_INVALID;
}

/* Where the result of @g begins in the window on the GPU. */
static uint64_t gather_result_at(const struct perf_gather *g)
{
	return oriel_at(0, perf_copy_stride(g->length));
}

/* Collective: creates the window on the GPU. @view becomes that of the result in it. */
static enum oriel_status gather_open_gpu(struct perf_job *job, struct oriel_view *view)
{
	struct perf_gather *g = &job->gather;
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = 2 * perf_copy_stride(g->length),
					       .flags = ORIEL_WINDOW_DEVICE};
	enum oriel_status status = oriel_window_create(job->comm, &attr, &g->window);
	void *memory = NULL;

	if (status != ORIEL_OK)
		return status;
	view->kind = ORIEL_VIEW_WINDOW;
	view->flags = ORIEL_VIEW_GPU;
	view->window = g->window;
	view->at = gather_result_at(g);
	view->buffer = NULL;
	status = oriel_window_buffer(g->window, 0, &memory, NULL);
	g->send = memory;
	return oriel_comm_agree(job->comm, status);
}

/* Collective. Creates the object for one message from each rank to each, or from one to all. */
static enum oriel_status gather_open(struct perf_job *job, enum perf_collective which,
				     uint64_t bytes)
{
	uint64_t length = gather_is_of_one(which) ? bytes : bytes * job->ranks;
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .length = length};
	struct perf_gather *g = &job->gather;
	enum oriel_status status;
	void *memory = NULL;

	if (g->result && g->which == which && g->bytes == bytes)
		return ORIEL_OK;
	perf_gather_close(job);
	status = oriel_memory_alloc(length ? length : 1, 0, &memory);
	view.buffer = g->result = memory;
	g->send = g->source = malloc(length ? length : 1);
	g->length = length;
	/* Pages that were never written to are one page of zeros, which each cache has room for. */
	if (g->source)
		memset(g->source, 1, length);
	else if (status == ORIEL_OK)
		status = ORIEL_ERR_NOMEM;
	status = oriel_comm_agree(job->comm, status);
	if (status == ORIEL_OK && job->stream)
		status = gather_open_gpu(job, &view);
	if (status == ORIEL_OK)
		status = gather_create(job, which, &view);
	g->which = which;
	g->bytes = bytes;
	return status;
}

/* Small integers, whose sums are exact in any order: that of rank r in round n at i is below 64. */
static float gather_number(uint64_t round, unsigned rank, uint64_t i)
{
	return (float)((round * 7 + rank * 13 + i) % 64);
}

static void gather_fill_numbers(struct perf_rep *s, uint64_t round)
{
	uint64_t parts = gather_is_of_one(s->job->gather.which) ? 1 : s->job->ranks, i;
	float *to = (void *)s->job->gather.source;

	for (i = 0; i < parts * (s->bytes / sizeof(*to)); i++)
		to[i] = gather_number(round, s->job->rank, i);
}

static void gather_verify_numbers(struct perf_rep *s, uint64_t round)
{
	uint64_t count = s->bytes / sizeof(float), i, first = 0;
	const float *result = (const void *)s->job->gather.result;
	unsigned rank;
	float sum;

	if (s->job->gather.which == PERF_REDUCE_SCATTER)
		first = s->job->rank * count;
	for (i = 0; i < count; i++) {
		for (rank = 0, sum = 0; rank < s->job->ranks; rank++)
			sum += gather_number(round, rank, first + i);
		if (result[i] != sum) {
			perf_compare_word(s, "an element", (uint64_t)result[i], (uint64_t)sum,
					  round);
			return;
		}
	}
}

/* The root rotates, so that no rank gets ahead of the others. */
static unsigned gather_root(const struct perf_rep *s, uint64_t round)
{
	return (unsigned)(round % s->job->ranks);
}

/* A message encodes the rank of its sender; in an all-to-all it is equal for all receivers. */
static void gather_fill(struct perf_rep *s, uint64_t round)
{
	struct perf_gather *g = &s->job->gather;
	bool is_many = g->which == PERF_ALLTOALL || g->which == PERF_SCATTER;
	unsigned rank, count = is_many ? s->job->ranks : 1;

	if (gather_is_reduction(g->which)) {
		gather_fill_numbers(s, round);
		return;
	}
	for (rank = 0; rank < count; rank++)
		perf_fill(g->source + rank * s->bytes, s->bytes, round + rank, s->job->rank);
}

static void gather_verify(struct perf_rep *s, uint64_t round)
{
	struct perf_gather *g = &s->job->gather;
	bool is_many = g->which == PERF_ALLTOALL || g->which == PERF_SCATTER;
	bool is_to_root = g->which == PERF_GATHER || g->which == PERF_REDUCE;
	uint64_t shift = is_many ? s->job->rank : 0;
	unsigned rank;

	if (is_to_root && s->job->rank != gather_root(s, round))
		return;
	if (gather_is_reduction(g->which)) {
		gather_verify_numbers(s, round);
		return;
	}
	if (g->which == PERF_BCAST || g->which == PERF_SCATTER) {
		perf_compare(s, g->result, s->bytes, round + shift, gather_root(s, round));
		return;
	}
	for (rank = 0; rank < s->job->ranks; rank++)
		perf_compare(s, g->result + rank * s->bytes, s->bytes, round + shift, rank);
}

static enum oriel_status gather_run(const struct perf_rep *s, uint64_t round)
{
	const struct perf_gather *g = &s->job->gather;
	size_t count = s->bytes / sizeof(float);
	unsigned root = gather_root(s, round);

	switch (g->which) {
	case PERF_ALLGATHER:
		return oriel_allgather_run(g->allgather, g->send, s->bytes);
	case PERF_ALLTOALL:
		return oriel_alltoall_run(g->alltoall, g->send, s->bytes);
	case PERF_BCAST:
		return oriel_bcast_run(g->bcast, root, g->send, s->bytes);
	case PERF_ALLREDUCE:
		return oriel_allreduce_run(g->allreduce, g->send, count);
	case PERF_REDUCE_SCATTER:
		return oriel_reduce_scatter_run(g->reduce_scatter, g->send, count);
	case PERF_REDUCE:
		return oriel_reduce_run(g->reduce, root, g->send, count);
	case PERF_GATHER:
		return oriel_gather_run(g->gather, root, g->send, s->bytes);
	case PERF_SCATTER:
		return oriel_scatter_run(g->scatter, root, g->send, s->bytes);
	}
	return ORIEL_ERR_INVALID;
}

static enum oriel_status gather_run_on_stream(const struct perf_rep *s, uint64_t round,
					      struct CUstream_st *stream)
{
	const struct perf_gather *g = &s->job->gather;
	size_t count = s->bytes / sizeof(float);
	unsigned root = gather_root(s, round);

	switch (g->which) {
	case PERF_ALLGATHER:
		return oriel_allgather_run_on_stream(g->allgather, g->send, s->bytes, stream);
	case PERF_ALLTOALL:
		return oriel_alltoall_run_on_stream(g->alltoall, g->send, s->bytes, stream);
	case PERF_BCAST:
		return oriel_bcast_run_on_stream(g->bcast, root, g->send, s->bytes, stream);
	case PERF_ALLREDUCE:
		return oriel_allreduce_run_on_stream(g->allreduce, g->send, count, stream);
	case PERF_REDUCE_SCATTER:
		return oriel_reduce_scatter_run_on_stream(g->reduce_scatter, g->send, count,
							  stream);
	case PERF_REDUCE:
		return oriel_reduce_run_on_stream(g->reduce, root, g->send, count, stream);
	case PERF_GATHER:
		return oriel_gather_run_on_stream(g->gather, root, g->send, s->bytes, stream);
	case PERF_SCATTER:
		return oriel_scatter_run_on_stream(g->scatter, root, g->send, s->bytes, stream);
	}
	return ORIEL_ERR_INVALID;
}

static enum oriel_status gather_start(const struct perf_rep *s, uint64_t round)
{
	struct CUstream_st *stream = s->job->stream;

	return stream ? gather_run_on_stream(s, round, stream) : gather_run(s, round);
}

/* On a GPU copies of its own window bring the message there and the result back. */
static enum oriel_status gather_checked(struct perf_rep *s, uint64_t round)
{
	struct perf_gather *g = &s->job->gather;
	struct CUstream_st *stream = s->job->stream;
	enum oriel_status status = ORIEL_OK;

	gather_fill(s, round);
	if (stream)
		status = oriel_window_put_on_stream(g->window, s->job->rank, 0, g->source,
						    g->length, stream);
	if (status == ORIEL_OK)
		status = gather_start(s, round);
	if (status == ORIEL_OK && stream)
		status = oriel_window_get_on_stream(g->window, s->job->rank, gather_result_at(g),
						    g->result, g->length, stream);
	if (status == ORIEL_OK && stream)
		status = oriel_tune_gpu_wait(stream);
	if (status == ORIEL_OK)
		gather_verify(s, round);
	return status;
}

static enum oriel_status gather_rounds(struct perf_rep *s, enum perf_collective which,
				       uint64_t begin, uint64_t end)
{
	enum oriel_status status = gather_open(s->job, which, s->bytes);
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++)
		status = s->is_checked ? gather_checked(s, round) : gather_start(s, round);
	return status == ORIEL_OK && s->job->stream ? oriel_tune_gpu_wait(s->job->stream) : status;
}

/* Whole group. The leader starts it, since a host call has no notion of a team. */
static enum oriel_status gather_pass(struct perf_rep *s, struct oriel_dev_group g,
				     enum perf_collective which, uint64_t begin, uint64_t end)
{
	return oriel_dev_vote(g, oriel_dev_is_leader(g) ? gather_rounds(s, which, begin, end)
							: ORIEL_OK);
}

enum oriel_status perf_allgather(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				 uint64_t end)
{
	return gather_pass(s, g, PERF_ALLGATHER, begin, end);
}

enum oriel_status perf_alltoall(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				uint64_t end)
{
	return gather_pass(s, g, PERF_ALLTOALL, begin, end);
}

enum oriel_status perf_bcast(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			     uint64_t end)
{
	return gather_pass(s, g, PERF_BCAST, begin, end);
}

enum oriel_status perf_allreduce(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				 uint64_t end)
{
	return gather_pass(s, g, PERF_ALLREDUCE, begin, end);
}

enum oriel_status perf_reduce_scatter(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				      uint64_t end)
{
	return gather_pass(s, g, PERF_REDUCE_SCATTER, begin, end);
}

enum oriel_status perf_reduce(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			      uint64_t end)
{
	return gather_pass(s, g, PERF_REDUCE, begin, end);
}

enum oriel_status perf_gather(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			      uint64_t end)
{
	return gather_pass(s, g, PERF_GATHER, begin, end);
}

enum oriel_status perf_scatter(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			       uint64_t end)
{
	return gather_pass(s, g, PERF_SCATTER, begin, end);
}
