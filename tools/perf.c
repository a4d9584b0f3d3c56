/* SPDX-License-Identifier: Apache-2.0 */
/* `oriel perf`: the table of tests, and the job from its options to its report. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "perf.h"
#include "perf_p2p.h"
#include "tool.h"

#define PERF_COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const struct perf_case cases_memcpy[] = {
	{"memcpy", "hot", NULL, PERF_ORIGIN, PERF_ONE, 1, 1, perf_memcpy, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_store_flag[] = {
	{"store_flag", "one way", NULL, PERF_PAIR, PERF_ROUND_TRIP, 1, 1, perf_store_flag, NULL,
	 PERF_BY_MAPPED},
};
static const struct perf_case cases_put_lat[] = {
	{"put_lat", "one way", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 8, perf_put_lat, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_put_poll_lat[] = {
	{"put_poll_lat", "one way", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 8,
	 perf_put_poll_lat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_put_flush[] = {
	{"put_flush", "origin", "memcpy", PERF_ORIGIN, PERF_ONE, 1, 1, perf_put_flush, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_put_bw[] = {
	{"put_bw", "64 a flush", "memcpy", PERF_ORIGIN, PERF_MANY, 1, 1, perf_put_bw, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_get_lat[] = {
	{"get_lat", "origin", "memcpy", PERF_ORIGIN, PERF_ONE, 1, 1, perf_get_lat, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_put_signal[] = {
	{"put_signal_lat", "one way", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1,
	 perf_put_signal_lat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_signal[] = {
	{"signal_lat", "add", NULL, PERF_PAIR, PERF_ROUND_TRIP, 0, 1, perf_signal_add, NULL,
	 PERF_ANY_PATH},
	{"signal_lat", "set", NULL, PERF_PAIR, PERF_ROUND_TRIP, 0, 1, perf_signal_set, NULL,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_counter[] = {
	{"put_local", "wait_local", NULL, PERF_ORIGIN, PERF_ONE, 1, 1, perf_put_local, NULL,
	 PERF_ANY_PATH},
	{"put_counter", "wait_counter", "put_local", PERF_ORIGIN, PERF_ONE, 1, 1, perf_put_counter,
	 NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_atomic[] = {
	{"fetch_add", "uncontended", NULL, PERF_ORIGIN, PERF_ONE, 0, 1, perf_fetch_add, NULL,
	 PERF_ANY_PATH},
	/* CPU atomics of rank 0 and atomics of a NIC must not act on the same word. */
	{"fetch_add", "contended", NULL, PERF_PAIR, PERF_ONE, 0, 1, perf_fetch_add_contended, NULL,
	 PERF_BY_MAPPED},
};
static const struct perf_case cases_barrier[] = {
	{"barrier", "all", NULL, PERF_ALL, PERF_ONE, 0, 1, perf_barrier, NULL, PERF_ANY_PATH},
	{"barrier", "flat", NULL, PERF_ALL, PERF_ONE, 0, 1, perf_barrier_flat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_allgather[] = {
	{"allgather", "all", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_allgather, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_alltoall[] = {
	{"alltoall", "all", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_alltoall, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_bcast[] = {
	{"bcast", "all", NULL, PERF_ALL, PERF_ONE, 1, 1, perf_bcast, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_send_recv_lat[] = {
	{"send_recv_lat", "one way", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1,
	 perf_send_recv_lat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_send_recv_bw[] = {
	{"send_recv_bw", "one way", "memcpy", PERF_PAIR, PERF_MANY, 1, 1, perf_send_recv_bw, NULL,
	 PERF_ANY_PATH},
	{"send_recv_bw", "both ways", "memcpy", PERF_PAIR, PERF_MANY, 2, 1, perf_send_recv_both,
	 NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_p2p_lat[] = {
	{"p2p_lat", "zero_copy", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1, perf_p2p_lat_zero,
	 NULL, PERF_ANY_PATH},
	{"p2p_lat", "copy_based", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1, perf_p2p_lat_copy,
	 NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_p2p_put_lat[] = {
	{"p2p_put_lat", "zero_copy", "store_flag", PERF_PAIR, PERF_ROUND_TRIP, 1, 1,
	 perf_p2p_put_lat, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_p2p_bw[] = {
	{"p2p_bw", "zero_copy", "memcpy", PERF_PAIR, PERF_MANY, 1, 1, perf_p2p_bw_zero, NULL,
	 PERF_ANY_PATH},
	{"p2p_bw", "zero_copy, both ways", "memcpy", PERF_PAIR, PERF_MANY, 2, 1, perf_p2p_both_zero,
	 NULL, PERF_ANY_PATH},
	{"p2p_bw", "copy_based", "memcpy", PERF_PAIR, PERF_MANY, 1, 1, perf_p2p_bw_copy, NULL,
	 PERF_ANY_PATH},
	{"p2p_bw", "copy_based, both ways", "memcpy", PERF_PAIR, PERF_MANY, 2, 1,
	 perf_p2p_both_copy, NULL, PERF_ANY_PATH},
};
static const struct perf_case cases_wqe[] = {
	{"wqe_rate", "1 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_1, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "2 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_2, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "4 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_4, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "8 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_8, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "16 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_16, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "32 a post", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_32, NULL,
	 PERF_BY_RDMA},
	{"wqe_rate", "cooperative", NULL, PERF_ORIGIN, PERF_REPORTED, 0, 1, perf_wqe_cooperative,
	 NULL, PERF_BY_RDMA},
};
static const struct perf_case cases_window[] = {
	{"window_create", "and destroy", NULL, PERF_ALL, PERF_ONE, 0, 1, NULL, perf_window_create,
	 PERF_ANY_PATH},
};
static const struct perf_case cases_launch[] = {
	{"launch", "join", NULL, PERF_ALL, PERF_ONE, 0, 1, NULL, perf_launch, PERF_ANY_PATH},
};

const struct perf_test perf_tests[] = {
	{"memcpy", "8,4K,64K,1M,16M", cases_memcpy, PERF_COUNT(cases_memcpy),
	 "limit: a plain copy into the own window"},
	{"store_flag", "8,4K,64K,1M,16M", cases_store_flag, PERF_COUNT(cases_store_flag),
	 "limit: stores and a polled flag, without the library"},
	{"put_lat", "8,4K,64K,1M,16M", cases_put_lat, PERF_COUNT(cases_put_lat),
	 "put until the peer sees its last word"},
	{"put_poll_lat", "8,4K,64K,1M,16M", cases_put_poll_lat, PERF_COUNT(cases_put_poll_lat),
	 "one put from the own window until the peer sees its last word"},
	{"put_flush", "8,4K,64K,1M,16M", cases_put_flush, PERF_COUNT(cases_put_flush),
	 "put and flush at the origin"},
	{"put_bw", "8,4K,64K,1M,16M", cases_put_bw, PERF_COUNT(cases_put_bw),
	 "time per put, with many puts before a flush"},
	{"get_lat", "8,4K,64K,1M,16M", cases_get_lat, PERF_COUNT(cases_get_lat),
	 "get until complete"},
	{"put_signal_lat", "8,4K,64K,1M,16M", cases_put_signal, PERF_COUNT(cases_put_signal),
	 "put_signal until the peer's wait returns"},
	{"signal_lat", NULL, cases_signal, PERF_COUNT(cases_signal),
	 "signal until the peer's wait returns"},
	{"counter", "8,64,512,4K,64K", cases_counter, PERF_COUNT(cases_counter),
	 "put until its source can be reused: wait_local, and a counter"},
	{"atomic_rate", NULL, cases_atomic, PERF_COUNT(cases_atomic),
	 "fetch_add by one rank, and by two on one word"},
	{"barrier", NULL, cases_barrier, PERF_COUNT(cases_barrier), "barrier of all ranks"},
	{"allgather", "8,1K,64K,1M", cases_allgather, PERF_COUNT(cases_allgather),
	 "persistent all-gather of all ranks"},
	{"alltoall", "8,64K,1M", cases_alltoall, PERF_COUNT(cases_alltoall),
	 "persistent all-to-all of all ranks; bytes of each for each"},
	{"bcast", "8,64K,1M", cases_bcast, PERF_COUNT(cases_bcast),
	 "persistent broadcast, from each rank in turn"},
	{"send_recv_lat", "8,4K,64K", cases_send_recv_lat, PERF_COUNT(cases_send_recv_lat),
	 "send until recv returns"},
	{"send_recv_bw", "64K,1M,16M", cases_send_recv_bw, PERF_COUNT(cases_send_recv_bw),
	 "time per message of many, one way and both ways"},
	{"p2p_lat", "8,4K,64K", cases_p2p_lat, PERF_COUNT(cases_p2p_lat),
	 "a transfer between two p2p endpoints, in each mode"},
	{"p2p_put_lat", "8,4K,64K", cases_p2p_put_lat, PERF_COUNT(cases_p2p_put_lat),
	 "a put between two p2p endpoints into exported memory, until the peer sees it"},
	{"p2p_bw", "64K,1M,16M", cases_p2p_bw, PERF_COUNT(cases_p2p_bw),
	 "time per transfer of many, one way and both ways"},
	{"wqe_rate", NULL, cases_wqe, PERF_COUNT(cases_wqe),
	 "time of posting one work request to a link, alone and in batches"},
	{"window_create", "1M,16M", cases_window, PERF_COUNT(cases_window),
	 "create and destroy a window, memory untouched"},
	{"launch", NULL, cases_launch, PERF_COUNT(cases_launch),
	 "join the job and create the communicator"},
	{.name = NULL},
};

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
