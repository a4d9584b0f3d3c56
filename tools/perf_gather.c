/* SPDX-License-Identifier: Apache-2.0 */
/* The persistent all-gather, made once for all rounds of one size. */
#include "perf.h"
#include "perf_pass.h"

void perf_gather_close(struct perf_job *job)
{
	oriel_allgather_destroy(job->gather);
	oriel_memory_free(job->gathered);
	job->gather = NULL;
	job->gathered = NULL;
}

/* Collective. */
static enum oriel_status gather_open(struct perf_job *job, uint64_t bytes)
{
	struct oriel_view view = {.size = sizeof(view), .length = bytes * job->ranks};
	enum oriel_status status;
	void *memory = NULL;

	if (job->gather && job->gather_bytes == bytes)
		return ORIEL_OK;
	perf_gather_close(job);
	status = oriel_memory_alloc(view.length ? view.length : 1, 0, &memory);
	view.buffer = job->gathered = memory;
	if (status == ORIEL_OK)
		status = oriel_allgather_create(job->comm, &view, NULL, &job->gather);
	job->gather_bytes = bytes;
	return status;
}

static void gather_verify(struct perf_shot *s, uint64_t round)
{
	unsigned rank;

	for (rank = 0; rank < s->job->ranks; rank++)
		perf_compare(s, s->job->gathered + rank * s->bytes, s->bytes, round, rank);
}

/* By the leader: a host call knows no team. */
static enum oriel_status gather_rounds(struct perf_shot *s, uint64_t begin, uint64_t end)
{
	enum oriel_status status = gather_open(s->job, s->bytes);
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_checked)
			perf_fill(s->source, s->bytes, round, s->job->rank);
		status = oriel_allgather_start(s->job->gather, s->source, s->bytes, NULL);
		if (s->is_checked && status == ORIEL_OK)
			gather_verify(s, round);
	}
	return status;
}

enum oriel_status perf_allgather(struct perf_shot *s, struct oriel_dev_group g, uint64_t begin,
				 uint64_t end)
{
	return oriel_dev_vote(g, oriel_dev_is_leader(g) ? gather_rounds(s, begin, end) : ORIEL_OK);
}
