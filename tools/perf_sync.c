/* SPDX-License-Identifier: Apache-2.0 */
/* Collective cases: barriers, creating a window, joining the job. */
#include "perf.h"
#include "perf_pass.h"

/* --check: every rank writes its round to every other rank before the barrier. */
static enum oriel_status barrier_announce(struct perf_rep *s, struct oriel_dev_group g,
					  uint64_t round)
{
	uint32_t peer;
	enum oriel_status posted = ORIEL_OK;

	if (!s->is_checked || !oriel_dev_is_leader(g))
		return ORIEL_OK;
	for (peer = 0; peer < s->w.ranks && posted == ORIEL_OK; peer++)
		posted = oriel_dev_put_value(&s->w, peer, (uint64_t)s->w.rank * 8, round + 1, NULL);
	return posted;
}

/* A fast rank may already have written the next round. */
static void barrier_verify(struct perf_rep *s, struct oriel_dev_group g, uint64_t round)
{
	const uint64_t *words = (const uint64_t *)(const void *)s->target;
	uint64_t seen;
	uint32_t peer;

	if (!s->is_checked || !oriel_dev_is_leader(g))
		return;
	for (peer = 0; peer < s->w.ranks; peer++) {
		seen = oriel_dev_load_relaxed(&words[peer]);
		if (seen != round + 2)
			perf_compare_word(s, "the word a rank put before the barrier", seen,
					  round + 1, round);
	}
}

enum oriel_status perf_barrier(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			       uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		status = oriel_dev_vote(g, barrier_announce(s, g, round));
		if (status == ORIEL_OK)
			status = oriel_dev_barrier(&s->w, g, 0, 0);
		barrier_verify(s, g, round);
	}
	return status;
}

/* The flat barrier guarantees too little for barrier_verify(). */
enum oriel_status perf_barrier_flat(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				    uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++)
		status = oriel_dev_barrier_flat(&s->w, g, 0, 0);
	return status;
}

/* Create and destroy with default counts; the memory is not touched. */
enum oriel_status perf_window_create(struct perf_job *job, uint64_t bytes, double *ns)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = bytes};
	struct oriel_window *window;
	enum oriel_status status;
	double start = tool_now_ns();

	status = oriel_window_create(job->comm, &attr, &window);
	if (status != ORIEL_OK)
		return status;
	oriel_window_destroy(window);
	*ns = tool_now_ns() - start;
	return ORIEL_OK;
}

/* Happens once per process, so every sample has the same value. */
enum oriel_status perf_launch(struct perf_job *job, uint64_t bytes, double *ns)
{
	(void)bytes;
	*ns = job->open_ns;
	return ORIEL_OK;
}
