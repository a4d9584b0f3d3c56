/* SPDX-License-Identifier: Apache-2.0 */
/* `oriel perf`: the job from its options to its report. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "perf.h"
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

static int rows_open(struct perf_rows *rows, const struct perf_options *options)
{
	const struct perf_test **test;
	int code = TOOL_OK;

	*rows = (struct perf_rows){.row = NULL};
	for (test = options->tests; *test && code == TOOL_OK; test++)
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

	return plan->reach == PERF_ANY_PATH || is_link == (plan->reach == PERF_BY_RDMA);
}

static void job_skip(struct perf_job *job, const char *test, const char *mode)
{
	size_t used = strlen(job->skipped);

	snprintf(job->skipped + used, sizeof(job->skipped) - used, "%s%s%s%s", used ? ", " : "",
		 test, *mode ? " " : "", mode);
}

/* Drop the rows that do not apply to the path between ranks 0 and 1; equal on all ranks. */
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

/* Collective: measure every row once per repetition. */
static enum oriel_status job_measure(struct perf_job *job, struct perf_rows *rows)
{
	enum oriel_status status = perf_job_reserve(job, rows->bytes);
	unsigned rep;
	size_t i;

	for (rep = 0; rep < job->options->reps && status == ORIEL_OK; rep++)
		for (i = 0; i < rows->count && status == ORIEL_OK; i++)
			status = perf_row_measure(&rows->row[i], job);
	if (status != ORIEL_OK && job->rank == 0)
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
			fprintf(stderr, "oriel perf: the path %s has no %s\n",
				oriel_path_name(job->path), job->skipped);
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

static int job_run(struct perf_job *job, struct perf_rows *rows)
{
	enum oriel_status status;

	if (job->ranks < 2) {
		fprintf(stderr, "oriel perf: this job has one rank, two or more are needed\n");
		return TOOL_USAGE;
	}
	if (!job_choose(job, rows))
		return TOOL_FAILED;
	status = job_measure(job, rows);
	if (status != ORIEL_OK)
		return TOOL_FAILED;
	status = oriel_comm_agree(job->comm, job->mismatches ? ORIEL_ERR_PROTOCOL : ORIEL_OK);
	if (status != ORIEL_OK)
		return TOOL_FAILED;
	if (job->rank == 0)
		perf_report(job, rows->row, rows->count);
	return TOOL_OK;
}

static int perf_run(const struct perf_options *options, int argc, char **argv)
{
	struct perf_rows rows;
	struct perf_job job;
	int code = rows_open(&rows, options);

	if (code != TOOL_OK)
		goto out;
	if (!tool_is_launched()) {
		code = perf_job_launch(options, argc, argv);
		goto out;
	}
	if (perf_job_open(&job, options, argc, argv) != ORIEL_OK) {
		fprintf(stderr, "oriel perf: %s\n", oriel_last_error());
		code = TOOL_FAILED;
		goto out;
	}
	code = job_run(&job, &rows);
	perf_job_close(&job);
out:
	rows_close(&rows);
	return code;
}

int oriel_tool_perf(int argc, char **argv)
{
	struct perf_options options;
	int code = perf_options_read(&options, argc, argv);

	if (code == TOOL_OK && options.tests)
		code = perf_run(&options, argc, argv);
	perf_options_close(&options);
	return code;
}
