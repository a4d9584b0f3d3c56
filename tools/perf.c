/* SPDX-License-Identifier: Apache-2.0 */
/* `oriel perf`: the job from its options to its report. */
#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "perf.h"
#include "perf_report.h"
#include "tool.h"

struct perf_rows {
	struct perf_row *row;
	size_t count;
	uint64_t bytes; /* of the largest row */
};

static int rows_add(struct perf_rows *rows, const struct perf_case *plan, uint64_t bytes)
{
	struct perf_row *row;

	if (bytes % plan->unit) {
		fprintf(stderr,
			"oriel perf: %s takes sizes that are multiples of %u, not %" PRIu64 "\n",
			plan->test, plan->unit, bytes);
		return TOOL_USAGE;
	}
	row = realloc(rows->row, (rows->count + 1) * sizeof(*row));
	if (!row) {
		fprintf(stderr, "oriel perf: out of memory\n");
		return TOOL_FAILED;
	}
	rows->row = row;
	row[rows->count++] = (struct perf_row){.plan = plan, .bytes = bytes};
	if (bytes > rows->bytes)
		rows->bytes = bytes;
	return TOOL_OK;
}

/* Add a row for each case of @test and each size. Only cases that move bytes have sizes. */
static int rows_add_test(struct perf_rows *rows, const struct perf_options *options,
			 const struct perf_test *test)
{
	uint64_t sizes[PERF_SIZES_MAX] = {0};
	unsigned i, j, count = 1;
	int code = TOOL_OK;

	if (test->sizes && !perf_sizes_parse(test->sizes, sizes, &count))
		return TOOL_FAILED;
	if (test->sizes && options->size_count)
		count = options->size_count;
	for (i = 0; i < test->count; i++)
		for (j = 0; j < count && code == TOOL_OK; j++)
			code = rows_add(rows, &test->cases[i],
					test->sizes && options->size_count ? options->sizes[j]
									   : sizes[j]);
	return code;
}

/*
 * Rows that show the machine's limits come first, so that the rows after them can be compared with
 * them when they are reported.
 */
static int rows_open(struct perf_rows *rows, const struct perf_options *options)
{
	const struct perf_test **test;
	int code = TOOL_OK, limits;

	*rows = (struct perf_rows){.row = NULL};
	for (limits = 1; limits >= 0; limits--)
		for (test = options->tests; *test && code == TOOL_OK; test++)
			if (perf_is_limit((*test)->name) == limits)
				code = rows_add_test(rows, options, *test);
	return code;
}

static void rows_close(struct perf_rows *rows)
{
	size_t i;

	for (i = 0; i < rows->count; i++)
		perf_series_close(&rows->row[i].series);
	free(rows->row);
}

static bool case_is_allowed(const struct perf_case *plan, const struct perf_job *job)
{
	bool is_link = job->path == ORIEL_PATH_RDMA;

	if (job->stream && !perf_is_collective(plan))
		return false;
	return plan->reach == PERF_ANY_PATH || is_link == (plan->reach == PERF_BY_RDMA);
}

static void job_skip(struct perf_job *job, const char *test, const char *mode)
{
	size_t used = strlen(job->skipped);

	snprintf(job->skipped + used, sizeof(job->skipped) - used, "%s%s%s%s", used ? ", " : "",
		 test, *mode ? " " : "", mode);
}

/*
 * Drop the rows that do not apply to the path between ranks 0 and 1, or to GPU memory; equal on all
 * ranks.
 */
static void rows_choose(struct perf_rows *rows, struct perf_job *job)
{
	const char *last = "", *allowed = "";
	size_t i, count = 0;

	for (i = 0; i < rows->count; i++) {
		const struct perf_case *plan = rows->row[i].plan;

		if (case_is_allowed(plan, job)) {
			rows->row[count++] = rows->row[i];
			allowed = plan->test;
		} else if (strcmp(plan->test, last) != 0) {
			/* The cases of a test follow each other. */
			last = plan->test;
			job_skip(job, last, strcmp(last, allowed) == 0 ? plan->mode : "");
		}
	}
	rows->count = count;
}

/* With a sink, an HCA that discards all data, only posting can be measured. */
static bool rows_stand_sink(const struct perf_rows *rows, const struct perf_job *job)
{
	size_t i;

	if (!job->is_sink)
		return true;
	for (i = 0; i < rows->count; i++)
		if (rows->row[i].plan->reach != PERF_BY_RDMA)
			return false;
	return !job->options->is_checked;
}

/*
 * Collective: what all ranks know after a repetition of @row. Each counts the wrong messages that
 * it received itself, and ^C may reach one rank before another.
 */
static enum oriel_status job_meet(struct perf_job *job, struct perf_row *row, bool *is_interrupted)
{
	uint64_t mine[2] = {perf_watch_is_interrupted(), job->mismatches}, *all;
	enum oriel_status status;
	unsigned rank;

	job->mismatches = 0;
	all = calloc(job->ranks, sizeof(mine));
	status = oriel_comm_agree(job->comm, all ? ORIEL_OK : ORIEL_ERR_NOMEM);
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(job->comm, mine, all, sizeof(mine));
	assert(all || status != ORIEL_OK);
	for (rank = 0; rank < job->ranks && status == ORIEL_OK; rank++) {
		*is_interrupted |= all[2 * rank] != 0;
		row->wrong += all[2 * rank + 1];
	}
	free(all);
	return status;
}

static bool job_report(const struct perf_job *job, const struct perf_row *row,
		       struct perf_report *report)
{
	struct perf_result result;

	perf_watch_clear();
	perf_result_of(&result, job, row, &report->results);
	return perf_report_add(report, &result);
}

/* The @step-th repetition of all is which repetition of which row? */
static void job_order(const struct perf_job *job, const struct perf_rows *rows, size_t step,
		      size_t *row, unsigned *rep)
{
	unsigned reps = job->options->reps;

	*row = job->options->is_interleaved ? step % rows->count : step / reps;
	*rep = (unsigned)(job->options->is_interleaved ? step / rows->count : step % reps);
}

/*
 * Collective: all repetitions of all rows. A row is reported behind its last one; when the run is
 * interrupted, rows that have had fewer are reported at the end.
 */
static enum oriel_status job_measure(struct perf_job *job, struct perf_rows *rows,
				     struct perf_report *report, bool *is_interrupted)
{
	size_t step, i, steps = rows->count * job->options->reps, reported = 0;
	enum oriel_status status = perf_job_reserve(job, rows->bytes);
	bool is_reporter = job->rank == 0;
	unsigned rep;

	for (step = 0; step < steps && status == ORIEL_OK && !*is_interrupted; step++) {
		job_order(job, rows, step, &i, &rep);
		if (is_reporter)
			perf_watch_show(i + 1, rows->count, rep + 1, job->options->reps,
					rows->row[i].plan->test);
		status = perf_row_measure(&rows->row[i], job);
		if (status == ORIEL_OK)
			status = job_meet(job, &rows->row[i], is_interrupted);
		if (status == ORIEL_OK && is_reporter && rep + 1 == job->options->reps) {
			reported = i + 1;
			if (!job_report(job, &rows->row[i], report))
				status = ORIEL_ERR_NOMEM;
		}
	}
	for (i = reported; i < rows->count && is_reporter && *is_interrupted; i++)
		if (rows->row[i].series.reps)
			job_report(job, &rows->row[i], report);
	perf_watch_clear();
	if (status != ORIEL_OK && is_reporter)
		fprintf(stderr, "oriel perf: %s: %s\n", oriel_status_name(status),
			oriel_last_error());
	return status;
}

/* Is there a row to measure? If not, rank 0 prints the reason. */
static bool job_choose(struct perf_job *job, struct perf_rows *rows)
{
	enum oriel_status status;

	rows_choose(rows, job);
	if (rows->count == 0) {
		if (job->rank == 0)
			fprintf(stderr, "oriel perf: %s%s has no %s\n",
				job->stream ? "" : "the path ",
				job->stream ? "GPU memory" : oriel_path_name(job->path),
				job->skipped);
		return false;
	}
	/* Each rank knows only its own HCA. */
	status = rows_stand_sink(rows, job) ? ORIEL_OK : ORIEL_ERR_CONFIG;
	status = oriel_comm_agree(job->comm, status);
	if (status != ORIEL_OK && job->rank == 0)
		fprintf(stderr,
			"oriel perf: the software HCA is a sink, which discards data: it supports "
			"wqe_rate only, without --check\n");
	return status == ORIEL_OK;
}

static int job_run(struct perf_job *job, struct perf_rows *rows, struct perf_report *report)
{
	bool is_interrupted = false, is_reporter = job->rank == 0;
	enum oriel_status status;
	int code = TOOL_OK;

	if (job->ranks < 2) {
		fprintf(stderr, "oriel perf: this job has one rank, two or more are needed\n");
		return TOOL_USAGE;
	}
	if (!job_choose(job, rows))
		return TOOL_FAILED;
	/* Only rank 0 reads and draws files; the others leave with it. */
	if (is_reporter &&
	    !(perf_report_open(report, job->options) && (!job->options->plot || perf_plot_check())))
		code = TOOL_FAILED;
	if (oriel_comm_agree(job->comm, code == TOOL_OK ? ORIEL_OK : ORIEL_ERR_CONFIG) != ORIEL_OK)
		return TOOL_FAILED;
	if (is_reporter)
		perf_report_head(report, job);
	perf_watch_open(is_reporter && job->options->has_progress);
	status = job_measure(job, rows, report, &is_interrupted);
	if (is_reporter && report->results.count)
		code = perf_report_end(report, job);
	if (is_interrupted)
		return TOOL_SIGNALLED + SIGINT;
	return status == ORIEL_OK ? code : TOOL_FAILED;
}

static int perf_run(const struct perf_options *options, int argc, char **argv)
{
	struct perf_report report = {.options = options};
	struct perf_rows rows;
	struct perf_job job;
	int code = rows_open(&rows, options);

	if (code != TOOL_OK)
		goto out;
	if (!tool_is_launched()) {
		code = options->plot && !perf_plot_check() ? TOOL_FAILED
							   : perf_job_launch(options, argc, argv);
		goto out;
	}
	if (perf_job_open(&job, options, argc, argv) != ORIEL_OK) {
		fprintf(stderr, "oriel perf: %s\n", oriel_last_error());
		code = TOOL_FAILED;
		goto out;
	}
	code = job_run(&job, &rows, &report);
	perf_job_close(&job);
	if (code == TOOL_SIGNALLED + SIGINT)
		perf_watch_die();
out:
	perf_report_close(&report);
	rows_close(&rows);
	return code;
}

/* Report rows that were measured before. */
static int perf_show(const struct perf_options *options)
{
	struct perf_report report = {.options = options};
	struct perf_results rows = {.list = NULL};
	bool is_shown;
	int code = TOOL_FAILED;
	size_t i;

	is_shown = perf_results_read(&rows, options->from) && perf_report_open(&report, options) &&
		   (!options->plot || perf_plot_check());
	if (is_shown)
		perf_report_head(&report, NULL);
	for (i = 0; i < rows.count && is_shown; i++)
		is_shown = perf_report_add(&report, &rows.list[i]);
	if (is_shown)
		code = perf_report_end(&report, NULL);
	perf_report_close(&report);
	perf_results_close(&rows);
	return code;
}

int oriel_tool_perf(int argc, char **argv)
{
	struct perf_options options;
	int code = perf_options_read(&options, argc, argv);

	if (code == TOOL_OK && options.from)
		code = perf_show(&options);
	else if (code == TOOL_OK && options.tests)
		code = perf_run(&options, argc, argv);
	perf_options_close(&options);
	return code;
}
