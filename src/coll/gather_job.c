/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of the communicator's thread that execute a collective in host memory, and the callers'
 * questions whether they have ended. Called by the executions (gather_job.h) and by the test, wait
 * and destroy functions of all kinds.
 */
#include "coll/gather_job.h"

#include <stdio.h>
#include <stdlib.h>

#include <oriel/progress.h>

#include "base/error.h"

#ifndef NDEBUG
static enum oriel_status job_compare(struct ori_gather_job *job)
{
	enum oriel_status status = ORIEL_OK;

	for (; job->compared < ORI_GATHER_SAMES && status == ORIEL_OK;
	     job->compared += status == ORIEL_OK)
		if (job->same[job->compared].what)
			status = ori_gather_same_go_on(job, &job->same[job->compared]);
	return status;
}
#else
static enum oriel_status job_compare(struct ori_gather_job *job)
{
	(void)job;
	return ORIEL_OK;
}
#endif

/* Leaves the rank that the job waits for in @text, which is empty if it waits for none. */
static const char *job_awaited(const struct ori_gather *g, char *text, size_t length)
{
	uint32_t rank = atomic_load_explicit(&g->awaited, memory_order_relaxed);

	text[0] = '\0';
	if (rank != ORI_PLAN_OWN)
		snprintf(text, length, " (it waits for rank %u)", rank);
	return text;
}

static enum oriel_status job_timed_out(const struct ori_gather *g, uint64_t timeout_ns)
{
	char text[48];

	return ori_fail(ORIEL_ERR_TIMEOUT,
			"%s timed out: no progress for %g s%s; raise ORIEL_TIMEOUT if a rank is "
			"only slow",
			g->kind->name, (double)timeout_ns / 1e9,
			job_awaited(g, text, sizeof(text)));
}

/* Texts of failures belong to a thread, and other threads ask for the status of this one. */
static void job_end(struct ori_gather *g, enum oriel_status status)
{
	struct oriel_dev_fault fault;

	g->started_text[0] = '\0';
	if (status != ORIEL_OK) {
		/* The record of a device function belongs to this failure, not to a later one. */
		(void)oriel_window_fault(g->window, &fault);
		snprintf(g->started_text, sizeof(g->started_text), "%s",
			 oriel_last_error()[0] ? oriel_last_error() : oriel_status_text(status));
	}
	/* Release: a thread that acquires it sees the result, and may start the object again. */
	atomic_store_explicit(&g->started, status, memory_order_release);
}

static enum oriel_status job_step(void *context, bool *has_moved)
{
	struct ori_gather_job *job = context;
	struct ori_gather *g = job->g;
	uint64_t timeout_ns = oriel_comm_timeout(g->comm);
	enum oriel_status status = ori_dev_health(&g->device);

	job->has_moved = false;
	if (status == ORIEL_OK)
		status = job_compare(job);
	if (status == ORIEL_OK)
		status = job->go_on(job);
	*has_moved = job->has_moved;
	if (*has_moved)
		job->moved_ns = oriel_dev_clock_ns();
	else if (status == ORIEL_AGAIN && oriel_dev_clock_ns() - job->moved_ns > timeout_ns)
		status = job_timed_out(g, timeout_ns);
	if (status != ORIEL_AGAIN)
		job_end(g, status);
	/* A job that fails breaks the communicator, which ranks that differ do not. */
	return status == ORIEL_ERR_MISMATCH ? ORIEL_OK : status;
}

enum oriel_status ori_gather_post(struct ori_gather_job *job)
{
	const struct oriel_job call = {sizeof(call), job_step, free, job};
	struct ori_gather *g = job->g;
	enum oriel_status status;

	job->is_posted = true;
	job->moved_ns = oriel_dev_clock_ns();
	atomic_store_explicit(&g->awaited, ORI_PLAN_OWN, memory_order_relaxed);
	atomic_store(&g->started, ORIEL_AGAIN);
	status = oriel_comm_post(g->comm, &call);
	if (status != ORIEL_OK)
		atomic_store(&g->started, ORIEL_OK);
	return status;
}

enum oriel_status ori_gather_start_nothing(struct ori_gather *g)
{
	atomic_store(&g->started, ORIEL_OK);
	return ORIEL_OK;
}

/* The loop ends: the job fails by the timeout of the communicator, or when that is broken. */
void ori_gather_await(const struct ori_gather *g)
{
	uint64_t begun = oriel_dev_clock_ns();

	while (ori_gather_is_running(g))
		ori_dev_back_off(oriel_dev_clock_ns() - begun);
}

static enum oriel_status job_status(const struct ori_gather *g)
{
	enum oriel_status status =
		(enum oriel_status)atomic_load_explicit(&g->started, memory_order_acquire);

	if (status >= 0)
		return status;
	/* The cause that broke the communicator says more than the end of the job. */
	if (ori_dev_health(&g->device) != ORIEL_OK)
		return ori_gather_end(g, status);
	return ori_fail(status, "%s", g->started_text);
}

enum oriel_status ori_gather_test(const struct ori_gather_kind *kind, const void *handle,
				  const char *call)
{
	enum oriel_status status = ori_handle_check(handle, kind->handle, call);

	return status == ORIEL_OK ? job_status(handle) : status;
}

enum oriel_status ori_gather_wait(const struct ori_gather_kind *kind, const void *handle,
				  uint64_t timeout_ns, const char *call)
{
	enum oriel_status status = ori_handle_check(handle, kind->handle, call);
	const struct ori_gather *g = handle;
	uint64_t begun = oriel_dev_clock_ns(), waited = 0;
	bool has_limit = timeout_ns != ORIEL_TIMEOUT_DEFAULT;
	char text[48];

	if (status != ORIEL_OK)
		return status;
	for (; ori_gather_is_running(g); waited = oriel_dev_clock_ns() - begun) {
		if (has_limit && timeout_ns != ORIEL_TIMEOUT_INFINITE && waited >= timeout_ns)
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"%s: the execution that was started has not ended within "
					"%g s%s; it goes on, and %s() may be called again",
					kind->name, (double)timeout_ns / 1e9,
					job_awaited(g, text, sizeof(text)), call);
		ori_dev_back_off(waited);
	}
	return job_status(g);
}
