/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row as it is reported: measured by this job, or read from a line that --json wrote before.
 * The table, --json, --csv, --compare and --plot know only this, so that all of them work on rows
 * from a file as well.
 */
#ifndef ORIEL_PERF_RESULT_H
#define ORIEL_PERF_RESULT_H

#include "perf.h"

struct perf_result {
	char test[48];
	char mode[64];
	char path[64];
	char impl[32];
	unsigned ranks, threads, blocks;
	uint64_t bytes;
	double min_us, median_us, p99_us, p99_9_us; /* 0 in a file without them */
	double spread;
	double gbps;
	double mops; /* million operations per second; 0: the row shows a latency */
	bool is_checked, is_pinned;
	uint64_t wrong;     /* messages with wrong data, on all ranks */
	bool is_collective; /* the next four are set */
	uint64_t size;      /* of the whole array in bytes */
	uint64_t count;     /* elements of one byte that each rank contributes */
	double algbw, busbw;
	char limit[48];                   /* test that shows the machine's limit, "" without one */
	double times_limit;               /* 0: that test was not measured */
	double medians_us[PERF_REPS_MAX]; /* of the repetitions */
	size_t reps;
	char commit[64];
	char machine[192];
	char command[512];
};

struct perf_results {
	struct perf_result *list; /* owned */
	size_t count;
};

/* Set the fields that all rows of @job share, and clear the others. */
void perf_result_begin(struct perf_result *result, const struct perf_job *job);
/* The result of @row, measured on rank 0; @before has the results that may show its limit. */
void perf_result_of(struct perf_result *result, const struct perf_job *job,
		    const struct perf_row *row, const struct perf_results *before);

/* A copy at the end; false without memory. */
bool perf_results_add(struct perf_results *results, const struct perf_result *result);
/* Is it the same measurement: test, mode, path, bytes, ranks, threads? NULL if there is none. */
const struct perf_result *perf_results_find(const struct perf_results *results,
					    const struct perf_result *like);
/* Read a file of --json; lines that do not begin with '{' are skipped. Prints what is wrong. */
bool perf_results_read(struct perf_results *results, const char *file);
void perf_results_close(struct perf_results *results);

/* Is it one of the tests that show limits of the machine? */
bool perf_is_limit(const char *test);

#endif
