/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures one repetition of one row: creates a window, then runs rounds to compare (--check), to
 * warm up, and to time. Between the phases all ranks synchronize over the bootstrap, where
 * non-participants sleep.
 */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

#define ROW_SAMPLE_NS 20e3     /* long compared with two reads of the clock */
#define ROW_STREAM_NS 1e6      /* the same with the wait for a stream */
#define ROW_REPETITION_NS 30e6 /* unless --iters is given */
#define ROW_ONCE 10            /* samples of a case that is not a loop */
#define ROW_SAMPLES_MIN 5
#define ROW_SAMPLES_MAX 2000
#define ROW_CHECK_BYTES (16u << 20) /* compared per repetition, within 3 and 200 rounds */
#define ROW_WARM_BYTES (8u << 20)   /* moved before timing, within 2 and 2000 rounds */
#define ROW_PAGE 4096

/* Equal rounds for all threads of a rank, divided into samples. */
struct row_phase {
	struct perf_rep *rep;
	uint64_t begin;
	uint64_t batch;
	uint64_t samples;
	double *ns; /* per round, [samples]; NULL: not recorded */
	enum oriel_status status;
};

struct row_thread {
	struct row_phase *phase;
	uint32_t rank;
	pthread_t id;
};

/* The ranks leave the bootstrap at different times, which must not affect the first sample. */
static enum oriel_status rep_synchronize(struct perf_rep *rep, struct oriel_dev_group g)
{
	switch (rep->plan->participants) {
	case PERF_ORIGIN:
		break;
	case PERF_PAIR:
		return oriel_dev_barrier_peer(&rep->w, g, rep->peer, 0, 0);
	case PERF_ALL:
		return oriel_dev_barrier(&rep->w, g, 0, 0);
	}
	oriel_dev_sync(g);
	return ORIEL_OK;
}

static void phase_rounds(struct row_phase *phase, struct oriel_dev_group g)
{
	struct perf_rep *rep = phase->rep;
	enum oriel_status status = rep_synchronize(rep, g);
	double now, first = tool_now_ns(), start = first;
	uint64_t i, begin = phase->begin;

	for (i = 0; i < phase->samples && status == ORIEL_OK; i++) {
		status = rep->plan->pass(rep, g, begin, begin + phase->batch);
		begin += phase->batch;
		now = tool_now_ns();
		if (oriel_dev_is_leader(g)) {
			if (phase->ns)
				phase->ns[i] = (now - start - rep->idle_ns) / (double)phase->batch;
			rep->idle_ns = 0;
		}
		start = now;
	}
	/* The next phase writes to the source of this one. */
	if (status == ORIEL_OK)
		status = oriel_dev_drain(&rep->w, g, 0);
	if (oriel_dev_is_leader(g)) {
		rep->gross_ns = (start - first) / (double)(phase->batch * phase->samples);
		phase->status = status;
	}
}

static void *phase_thread(void *argument)
{
	struct row_thread *thread = argument;
	struct perf_rep *rep = thread->phase->rep;

	perf_job_pin(rep->job, thread->rank);
	phase_rounds(thread->phase, oriel_dev_team(&rep->team, thread->rank));
	return NULL;
}

/* A team that lacks a thread would wait for it for ever. */
static void phase_team(struct row_phase *phase)
{
	struct perf_job *job = phase->rep->job;
	struct row_thread threads[ORIEL_TEAM_MAX];
	uint32_t i, count = job->options->threads;

	for (i = 1; i < count; i++) {
		threads[i] = (struct row_thread){.phase = phase, .rank = i};
		if (pthread_create(&threads[i].id, NULL, phase_thread, &threads[i]) != 0) {
			oriel_comm_abort(job->comm, "a thread of a team cannot be started");
			exit(1);
		}
	}
	phase_rounds(phase, oriel_dev_team(&phase->rep->team, 0));
	for (i = 1; i < count; i++)
		pthread_join(threads[i].id, NULL);
}

static bool rep_participates(const struct perf_rep *rep)
{
	switch (rep->plan->participants) {
	case PERF_ORIGIN:
		return rep->is_origin || (rep->is_checked && rep->job->rank == 1);
	case PERF_PAIR:
		return rep->job->rank < 2;
	case PERF_ALL:
		return true;
	}
	return false;
}

/* Collective: run @samples times @batch rounds, numbered on from the last phase. */
static enum oriel_status rep_run(struct perf_rep *rep, uint64_t *next, uint64_t batch,
				 uint64_t samples, double *ns)
{
	struct row_phase phase = {rep, *next, batch, samples, ns, ORIEL_OK};

	*next += batch * samples;
	if (rep_participates(rep)) {
		if (rep->job->options->threads > 1)
			phase_team(&phase);
		else
			phase_rounds(&phase, oriel_dev_thread());
	}
	return oriel_comm_agree(rep->job->comm, phase.status);
}

static uint64_t row_rounds(uint64_t volume, uint64_t bytes, uint64_t least, uint64_t most)
{
	uint64_t rounds = bytes ? volume / bytes : most;

	return rounds < least ? least : rounds > most ? most : rounds;
}

/* Divide the repetitions of @row into samples, on rank 0, where a round took @ns. */
static void row_plan(struct perf_row *row, const struct perf_options *options, double ns)
{
	double batch = (options->is_gpu ? ROW_STREAM_NS : ROW_SAMPLE_NS) / (ns > 1 ? ns : 1);
	double samples;

	row->batch = batch < 1 ? 1 : (uint64_t)batch;
	if (options->iters && row->batch > options->iters)
		row->batch = options->iters;
	if (options->iters) {
		row->samples = options->iters / row->batch;
		return;
	}
	samples = ROW_REPETITION_NS / (ns * (double)row->batch);
	row->samples = samples < ROW_SAMPLES_MIN   ? ROW_SAMPLES_MIN
		       : samples > ROW_SAMPLES_MAX ? ROW_SAMPLES_MAX
						   : (uint64_t)samples;
}

/* Collective: all ranks receive the @count words of rank 0. */
static enum oriel_status job_broadcast(struct perf_job *job, uint64_t *words, size_t count)
{
	size_t length = count * sizeof(*words);
	enum oriel_status status;
	uint64_t *all;

	all = malloc(job->ranks * length);
	status = oriel_comm_agree(job->comm, all ? ORIEL_OK : ORIEL_ERR_NOMEM);
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(job->comm, words, all, length);
	assert(all || status != ORIEL_OK);
	if (status == ORIEL_OK)
		memcpy(words, all, length);
	free(all);
	return status;
}

/* Collective: row_plan() on rank 0, for all ranks. */
static enum oriel_status row_calibrate(struct perf_row *row, struct perf_job *job, double ns)
{
	enum oriel_status status;
	uint64_t words[2];

	row_plan(row, job->options, ns);
	words[0] = row->batch;
	words[1] = row->samples;
	status = job_broadcast(job, words, 2);
	row->batch = words[0];
	row->samples = words[1];
	return status;
}

/*
 * Collective: the number of warm-up rounds, to move ROW_WARM_BYTES but to take no longer than a
 * repetition.
 */
static enum oriel_status rep_warm_rounds(struct perf_rep *rep, const struct perf_row *row,
					 uint64_t *rounds)
{
	uint64_t moved =
		row->plan->round == PERF_MANY ? row->bytes * perf_burst(row->bytes) : row->bytes;
	double most = ROW_REPETITION_NS / (rep->gross_ns > 1 ? rep->gross_ns : 1);

	*rounds = row_rounds(ROW_WARM_BYTES, moved, 2, 2000);
	if (most < (double)*rounds)
		*rounds = most < 2 ? 2 : (uint64_t)most;
	return job_broadcast(rep->job, rounds, 1);
}

/* Collective: the last warm-up phase also measures the time of a round. */
static enum oriel_status rep_warm_up(struct perf_rep *rep, struct perf_row *row, uint64_t *next)
{
	uint64_t rounds = rep->job->options->warmup;
	enum oriel_status status;

	status = rep_run(rep, next, rounds ? rounds : 2, 1, NULL);
	if (status == ORIEL_OK && !rounds) {
		status = rep_warm_rounds(rep, row, &rounds);
		if (status == ORIEL_OK)
			status = rep_run(rep, next, rounds, 1, NULL);
	}
	if (status == ORIEL_OK && !row->batch)
		status = row_calibrate(row, rep->job, rep->gross_ns);
	return status;
}

static double round_parts(const struct perf_rep *rep, const struct perf_row *row)
{
	switch (row->plan->round) {
	case PERF_ONE:
		return 1;
	case PERF_ROUND_TRIP:
		return 2;
	case PERF_MANY:
		return (double)perf_burst(row->bytes);
	case PERF_REPORTED:
		return (double)rep->parts;
	}
	return 1;
}

/* Collective: the timed rounds. */
static enum oriel_status rep_time(struct perf_rep *rep, struct perf_row *row, uint64_t *next)
{
	double *ns = calloc(row->samples, sizeof(*ns));
	enum oriel_status status;
	uint64_t i;

	status = oriel_comm_agree(rep->job->comm, ns ? ORIEL_OK : ORIEL_ERR_NOMEM);
	if (status == ORIEL_OK)
		status = rep_run(rep, next, row->batch, row->samples, ns);
	assert(ns || status != ORIEL_OK);
	if (status == ORIEL_OK && rep->is_origin) {
		for (i = 0; i < row->samples; i++)
			ns[i] /= round_parts(rep, row);
		if (!perf_series_add(&row->series, ns, row->samples))
			status = ORIEL_ERR_NOMEM;
	}
	free(ns);
	return oriel_comm_agree(rep->job->comm, status);
}

/* Is the source in the rank's own window, which is registered with the NICs? */
static bool plan_sends_window(const struct perf_case *plan)
{
	return plan->pass == perf_put_poll_lat;
}

/* Copies of the payload that a target has room for. */
static uint64_t plan_copies(const struct perf_case *plan, uint32_t threads)
{
	return plan->pass == perf_put_flush_each ? threads : 1;
}

/* Window offset of the source, behind the payload and the words of the case. */
static uint64_t rep_source_offset(const struct perf_rep *rep)
{
	return (rep->words_offset + ORIEL_DEV_LINE + ROW_PAGE - 1) / ROW_PAGE * ROW_PAGE;
}

static enum oriel_status rep_address(struct perf_rep *rep)
{
	void *target, *remote = NULL;
	enum oriel_status status;
	size_t length;

	status = oriel_window_device(rep->window, &rep->w);
	if (status == ORIEL_OK)
		status = oriel_window_buffer(rep->window, 0, &target, &length);
	if (status != ORIEL_OK)
		return status;
	rep->target = target;
	if (plan_sends_window(rep->plan))
		rep->source = rep->target + rep_source_offset(rep);
	status = oriel_window_peer_address(rep->window, rep->peer, 0, &remote);
	if (status != ORIEL_OK && status != ORIEL_ERR_NO_PATH)
		return status;
	rep->remote = status == ORIEL_OK ? remote : NULL;
	return oriel_team_open(&rep->team, rep->job->options->threads,
			       perf_job_is_oversubscribed(rep->job));
}

/* Collective: each row has a window of its own, so that no state of other rows remains. */
static enum oriel_status rep_open(struct perf_rep *rep, struct perf_job *job,
				  const struct perf_row *row)
{
	uint32_t most = job->ranks > ORIEL_TEAM_MAX ? job->ranks : ORIEL_TEAM_MAX;
	uint64_t words = perf_copy_stride(most * 8ull);
	uint64_t copies = plan_copies(row->plan, job->options->threads);
	uint64_t data = copies * perf_copy_stride(row->bytes);
	struct oriel_window_attr attr = {
		.size = sizeof(attr),
		.signals = PERF_SIGNALS,
		.barriers = 1,
		.counters = PERF_COUNTERS,
		.channels = 1,
	};
	enum oriel_status status;

	*rep = (struct perf_rep){
		.job = job,
		.plan = row->plan,
		.bytes = row->bytes,
		.words_offset = data > words ? data : words,
		.peer = job->rank == 0 ? 1 : 0,
		.is_origin = job->rank == 0,
		.source = job->source,
		.sink = job->sink,
	};
	attr.length = rep_source_offset(rep) + (plan_sends_window(row->plan) ? row->bytes : 0);
	status = oriel_window_create(job->comm, &attr, &rep->window);
	return status == ORIEL_OK ? oriel_comm_agree(job->comm, rep_address(rep)) : status;
}

/* Collective: a case that runs rounds. */
static enum oriel_status row_loop(struct perf_row *row, struct perf_job *job)
{
	struct perf_rep rep = {.window = NULL};
	enum oriel_status status;
	uint64_t next = 0;

	status = rep_open(&rep, job, row);
	if (status == ORIEL_OK && job->options->is_checked) {
		rep.is_checked = true;
		status = rep_run(&rep, &next, row_rounds(ROW_CHECK_BYTES, row->bytes, 3, 200), 1,
				 NULL);
		rep.is_checked = false;
	}
	if (status == ORIEL_OK)
		status = rep_warm_up(&rep, row, &next);
	if (status == ORIEL_OK)
		status = rep_time(&rep, row, &next);
	oriel_window_destroy(rep.window);
	return status;
}

/* Collective: a case that takes single samples. */
static enum oriel_status row_once(struct perf_row *row, struct perf_job *job)
{
	uint64_t i, count = job->options->iters ? job->options->iters : ROW_ONCE;
	double *ns = calloc(count, sizeof(*ns));
	enum oriel_status status;

	status = oriel_comm_agree(job->comm, ns ? ORIEL_OK : ORIEL_ERR_NOMEM);
	for (i = 0; i < count && status == ORIEL_OK; i++) {
		status = oriel_comm_barrier(job->comm);
		if (status == ORIEL_OK)
			status = row->plan->once(job, row->bytes, &ns[i]);
	}
	if (status == ORIEL_OK && !perf_series_add(&row->series, ns, count))
		status = ORIEL_ERR_NOMEM;
	free(ns);
	return oriel_comm_agree(job->comm, status);
}

enum oriel_status perf_row_measure(struct perf_row *row, struct perf_job *job)
{
	return row->plan->once ? row_once(row, job) : row_loop(row, job);
}
