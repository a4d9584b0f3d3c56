/* SPDX-License-Identifier: Apache-2.0 */
/* Results of rows: made from what rank 0 measured, and read from a file of --json. */
#include "perf_result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "json_read.h"

/* The commit in oriel_version(), "" without one. */
static void result_set_commit(struct perf_result *result)
{
	const char *from = strstr(oriel_version(), "commit ");

	if (!from)
		return;
	from += strlen("commit ");
	snprintf(result->commit, sizeof(result->commit), "%.*s", (int)strcspn(from, ")"), from);
}

/*
 * "AMD EPYC, 2 cores": the model if the kernel reports it, else the architecture. With --gpu the
 * model of the GPU of rank 0 comes ahead.
 */
static void result_set_machine(struct perf_result *result, const struct perf_job *job)
{
	const char *gpu = oriel_comm_gpu_name(job->comm);
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256], model[128] = "";
	struct utsname system;

	while (file && !*model && fgets(line, sizeof(line), file))
		if (sscanf(line, "model name : %127[^\n]", model) != 1)
			*model = '\0';
	if (file)
		fclose(file);
	if (!*model && uname(&system) == 0)
		snprintf(model, sizeof(model), "%.100s", system.machine);
	snprintf(result->machine, sizeof(result->machine), "%s%s%s, %u cores", gpu ? gpu : "",
		 gpu ? ", " : "", model, job->cores);
}

/* "mapped", "rdma[verbs]", "rdma[soft]"; "rdma[sink]" is a software HCA that discards all data. */
static void path_text(const struct perf_job *job, enum oriel_path path, char *text, size_t room)
{
	struct oriel_nic nic = {.size = sizeof(nic)};

	if (path == ORIEL_PATH_RDMA && oriel_comm_nic(job->comm, &nic) == ORIEL_OK)
		snprintf(text, room, "rdma[%s]", nic.is_sink ? "sink" : nic.kind);
	else
		snprintf(text, room, "%s", oriel_path_name(path));
}

/* All paths from rank 0 to others, or to their GPUs: "mapped+rdma[soft]". */
static void paths_text(const struct perf_job *job, char *text, size_t room)
{
	struct oriel_peer peer = {.size = sizeof(peer)};
	bool has[ORIEL_PATH_RDMA + 1] = {false};
	enum oriel_path path;
	unsigned rank;
	size_t used = 0;

	for (rank = 1; oriel_comm_peer(job->comm, rank, &peer) == ORIEL_OK; rank++)
		has[peer.gpu_path] = true;
	for (path = ORIEL_PATH_MAPPED; path <= ORIEL_PATH_RDMA; path++) {
		if (!has[path] || used + 1 >= room)
			continue;
		if (used)
			text[used++] = '+';
		path_text(job, path, text + used, room - used);
		used += strlen(text + used);
	}
}

/* The path of a row: to all peers, to the peer of a pair, or self. */
static void row_path(const struct perf_job *job, const struct perf_row *row, char *text,
		     size_t room)
{
	if (row->plan->pass == perf_memcpy)
		path_text(job, ORIEL_PATH_SELF, text, room);
	else if (row->plan->participants == PERF_ALL)
		paths_text(job, text, room);
	else
		path_text(job, job->path, text, room);
}

/*
 * Bandwidths as nccl-tests defines them (doc/PERFORMANCE.md): algbw is S/t, and busbw is that times
 * (n-1)/n for all-gather, all-to-all, reduce-scatter, gather and scatter, where S is the array of
 * all n ranks, times 1 for broadcast and reduce, and times 2(n-1)/n for all-reduce, where S is the
 * message.
 */
static void result_set_collective(struct perf_result *result, const struct perf_row *row)
{
	double factor = (result->ranks - 1.0) / result->ranks;

	if (!perf_is_collective(row->plan))
		return;
	result->is_collective = true;
	result->count = result->size = row->bytes;
	if (row->plan->pass == perf_bcast || row->plan->pass == perf_reduce)
		factor = 1;
	else if (row->plan->pass == perf_allreduce)
		factor *= 2;
	else
		result->size *= result->ranks;
	if (result->median_us > 0)
		result->algbw = (double)result->size / result->median_us / 1e3;
	result->busbw = result->algbw * factor;
}

static void result_set_limit(struct perf_result *result, const char *limit,
			     const struct perf_results *before)
{
	size_t i;

	if (!limit)
		return;
	snprintf(result->limit, sizeof(result->limit), "%s", limit);
	for (i = 0; i < before->count; i++)
		if (before->list[i].bytes == result->bytes &&
		    strcmp(before->list[i].test, limit) == 0 && before->list[i].median_us > 0)
			result->times_limit = result->median_us / before->list[i].median_us;
}

void perf_result_begin(struct perf_result *result, const struct perf_job *job)
{
	*result = (struct perf_result){
		.impl = "oriel",
		.ranks = job->ranks,
		.threads = job->options->threads,
		.blocks = 1,
		.is_checked = job->options->is_checked,
		.is_pinned = perf_job_is_pinned(job),
	};
	snprintf(result->command, sizeof(result->command), "%s", job->command);
	result_set_commit(result);
	result_set_machine(result, job);
}

static void result_set_times(struct perf_result *result, const struct perf_row *row)
{
	const struct perf_series *series = &row->series;
	unsigned i;

	result->min_us = perf_series_quantile(series, 0) / 1e3;
	result->median_us = perf_series_median(series) / 1e3;
	result->p99_us = perf_series_quantile(series, 0.99) / 1e3;
	result->p99_9_us = perf_series_quantile(series, 0.999) / 1e3;
	result->spread = perf_series_spread(series);
	result->reps = series->reps;
	for (i = 0; i < series->reps; i++)
		result->medians_us[i] = series->medians[i] / 1e3;
	if (result->median_us <= 0)
		return;
	result->gbps = (double)row->bytes * row->plan->flows / result->median_us / 1e3;
	if (row->plan->round != PERF_ROUND_TRIP && row->plan->pass)
		result->mops = 1 / result->median_us;
}

void perf_result_of(struct perf_result *result, const struct perf_job *job,
		    const struct perf_row *row, const struct perf_results *before)
{
	perf_result_begin(result, job);
	result->bytes = row->bytes;
	result->wrong = row->wrong;
	snprintf(result->test, sizeof(result->test), "%s", row->plan->test);
	snprintf(result->mode, sizeof(result->mode), "%s%s", row->plan->mode,
		 job->stream ? ", gpu" : "");
	row_path(job, row, result->path, sizeof(result->path));
	result_set_times(result, row);
	result_set_collective(result, row);
	result_set_limit(result, row->plan->limit, before);
}

bool perf_results_add(struct perf_results *results, const struct perf_result *result)
{
	struct perf_result *list =
		realloc(results->list, (results->count + 1) * sizeof(*results->list));

	if (!list)
		return false;
	results->list = list;
	list[results->count++] = *result;
	return true;
}

const struct perf_result *perf_results_find(const struct perf_results *results,
					    const struct perf_result *like)
{
	const struct perf_result *r;
	size_t i;

	for (i = 0; i < results->count; i++) {
		r = &results->list[i];
		if (strcmp(r->test, like->test) == 0 && strcmp(r->mode, like->mode) == 0 &&
		    strcmp(r->path, like->path) == 0 && strcmp(r->impl, like->impl) == 0 &&
		    r->bytes == like->bytes && r->ranks == like->ranks &&
		    r->threads == like->threads)
			return r;
	}
	return NULL;
}

static uint64_t line_count(const char *line, const char *key, uint64_t otherwise)
{
	double value;

	if (!json_find_number(line, key, &value) || value < 0 || value > 1e18)
		return otherwise;
	return (uint64_t)value;
}

static bool line_read(struct perf_result *r, const char *line)
{
	*r = (struct perf_result){.impl = "oriel"};
	if (!json_is_object(line) || !json_find_text(line, "test", r->test, sizeof(r->test)) ||
	    !json_find_number(line, "median_us", &r->median_us))
		return false;
	json_find_text(line, "mode", r->mode, sizeof(r->mode));
	json_find_text(line, "path", r->path, sizeof(r->path));
	json_find_text(line, "impl", r->impl, sizeof(r->impl));
	json_find_text(line, "commit", r->commit, sizeof(r->commit));
	json_find_text(line, "machine", r->machine, sizeof(r->machine));
	json_find_text(line, "command", r->command, sizeof(r->command));
	json_find_text(line, "limit", r->limit, sizeof(r->limit));
	json_find_number(line, "times_limit", &r->times_limit);
	json_find_number(line, "min_us", &r->min_us);
	json_find_number(line, "p99_us", &r->p99_us);
	json_find_number(line, "p99_9_us", &r->p99_9_us);
	json_find_number(line, "spread", &r->spread);
	json_find_number(line, "gbps", &r->gbps);
	json_find_number(line, "mops", &r->mops);
	json_find_number(line, "algbw", &r->algbw);
	r->is_collective = json_find_number(line, "busbw", &r->busbw);
	json_find_bool(line, "checked", &r->is_checked);
	json_find_bool(line, "pinned", &r->is_pinned);
	r->bytes = line_count(line, "bytes", 0);
	r->size = line_count(line, "size", 0);
	r->count = line_count(line, "count", 0);
	r->wrong = line_count(line, "wrong", 0);
	r->ranks = (unsigned)line_count(line, "ranks", 0);
	r->threads = (unsigned)line_count(line, "threads", 1);
	r->blocks = (unsigned)line_count(line, "blocks", 1);
	/* Scripts that measure programs in turns write the medians of their laps. */
	if (!json_find_numbers(line, "medians_us", r->medians_us, PERF_REPS_MAX, &r->reps))
		json_find_numbers(line, "laps_us", r->medians_us, PERF_REPS_MAX, &r->reps);
	return true;
}

static bool results_read_lines(struct perf_results *results, FILE *from, const char *file)
{
	struct perf_result result;
	bool is_read = true;
	unsigned number = 0;
	char *line = NULL;
	size_t room = 0;

	while (is_read && getline(&line, &room, from) >= 0) {
		number++;
		if (*line != '{')
			continue;
		if (!line_read(&result, line)) {
			fprintf(stderr, "oriel perf: %s:%u: not a row of --json\n", file, number);
			is_read = false;
		} else if (!perf_results_add(results, &result)) {
			fprintf(stderr, "oriel perf: out of memory\n");
			is_read = false;
		}
	}
	free(line);
	if (is_read && results->count == 0)
		fprintf(stderr, "oriel perf: %s has no row of --json\n", file);
	return is_read && results->count > 0;
}

bool perf_results_read(struct perf_results *results, const char *file)
{
	FILE *from = fopen(file, "re");
	bool is_read;

	*results = (struct perf_results){.list = NULL};
	if (!from) {
		fprintf(stderr, "oriel perf: cannot read %s: %s\n", file, strerror(errno));
		return false;
	}
	is_read = results_read_lines(results, from, file);
	fclose(from);
	return is_read;
}

void perf_results_close(struct perf_results *results)
{
	free(results->list);
	*results = (struct perf_results){.list = NULL};
}

bool perf_is_limit(const char *test)
{
	return strcmp(test, "memcpy") == 0 || strcmp(test, "store_flag") == 0;
}
