/* SPDX-License-Identifier: Apache-2.0 */
/* The report: a table for people, or one JSON object per line for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "json.h"
#include "perf.h"

#define REPORT_PATH 64

/* The commit in oriel_version(), "" without one. */
static void report_commit(char *commit, size_t room)
{
	const char *from = strstr(oriel_version(), "commit ");

	commit[0] = '\0';
	if (!from)
		return;
	from += strlen("commit ");
	snprintf(commit, room, "%.*s", (int)strcspn(from, ")"), from);
}

/* "AMD EPYC, 2 cores": the model if the kernel reports it, else the architecture. */
static void report_machine(const struct perf_job *job, char *machine, size_t room)
{
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
	snprintf(machine, room, "%s, %u cores", model, job->cores);
}

static double row_gbps(const struct perf_row *row)
{
	double median = perf_series_median(&row->series);

	return median > 0 ? (double)row->bytes * row->plan->flows / median : 0;
}

/* "mapped", "rdma[verbs]", "rdma[soft]"; "rdma[sink]" is a software HCA that discards all data. */
static void path_text(const struct perf_job *job, enum oriel_path path, char *text, size_t room)
{
	struct oriel_nic adapter;

	if (path == ORIEL_PATH_RDMA && oriel_comm_nic(job->comm, &adapter) == ORIEL_OK)
		snprintf(text, room, "rdma[%s]", adapter.is_sink ? "sink" : adapter.kind);
	else
		snprintf(text, room, "%s", oriel_path_name(path));
}

/* All paths from rank 0 to others: "mapped+rdma[soft]". */
static void paths_text(const struct perf_job *job, char *text, size_t room)
{
	bool has[ORIEL_PATH_RDMA + 1] = {false};
	enum oriel_path path;
	unsigned peer;
	size_t used = 0;

	for (peer = 1; oriel_comm_path(job->comm, peer, &path) == ORIEL_OK; peer++)
		has[path] = true;
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
static const char *row_path(const struct perf_job *job, const struct perf_row *row, char *text,
			    size_t room)
{
	if (row->plan->pass == perf_memcpy)
		path_text(job, ORIEL_PATH_SELF, text, room);
	else if (row->plan->participants == PERF_ALL)
		paths_text(job, text, room);
	else
		path_text(job, job->path, text, room);
	return text;
}

static void report_json(const struct perf_job *job, const struct perf_row *row)
{
	struct json json = {.to = stdout};
	char commit[64], machine[192], path[REPORT_PATH];

	report_commit(commit, sizeof(commit));
	report_machine(job, machine, sizeof(machine));
	json_open_object(&json, NULL);
	json_text(&json, "test", row->plan->test);
	json_text(&json, "path", row_path(job, row, path, sizeof(path)));
	json_unsigned(&json, "ranks", job->ranks);
	json_unsigned(&json, "bytes", row->bytes);
	json_text(&json, "impl", "oriel");
	json_unsigned(&json, "threads", job->options->threads);
	json_unsigned(&json, "blocks", 1);
	json_text(&json, "mode", row->plan->mode);
	json_number(&json, "median_us", perf_series_median(&row->series) / 1e3);
	json_number(&json, "p99_us", perf_series_p99(&row->series) / 1e3);
	json_number(&json, "spread", perf_series_spread(&row->series));
	json_number(&json, "gbps", row_gbps(row));
	json_bool(&json, "checked", job->options->is_checked);
	json_text(&json, "commit", commit);
	json_text(&json, "machine", machine);
	json_text(&json, "command", job->command);
	json_close_object(&json);
	putchar('\n');
}

/* The row with the limit of @row, if it was measured. */
static const struct perf_row *report_limit(const struct perf_row *row, const struct perf_row *rows,
					   size_t count)
{
	size_t i;

	for (i = 0; row->plan->limit && i < count; i++)
		if (rows[i].bytes == row->bytes &&
		    strcmp(rows[i].plan->test, row->plan->limit) == 0)
			return &rows[i];
	return NULL;
}

static void report_line(const struct perf_job *job, const struct perf_row *row,
			const struct perf_row *limit)
{
	double median = perf_series_median(&row->series);
	char path[REPORT_PATH];

	printf("%-14s %-12s %-17s %8" PRIu64 " %11.5f %11.4f %6.1f%%", row->plan->test,
	       row->plan->mode, row_path(job, row, path, sizeof(path)), row->bytes, median / 1e3,
	       perf_series_p99(&row->series) / 1e3, perf_series_spread(&row->series) * 100);
	if (row->bytes && row->plan->flows)
		printf(" %8.3f", row_gbps(row));
	else
		printf(" %8s", "-");
	if (limit)
		printf("  %.2f of %s", median / perf_series_median(&limit->series),
		       limit->plan->test);
	printf("\n");
}

void perf_report(const struct perf_job *job, const struct perf_row *rows, size_t count)
{
	char commit[64], machine[192];
	size_t i;

	if (job->options->is_json) {
		for (i = 0; i < count; i++)
			report_json(job, &rows[i]);
		return;
	}
	report_commit(commit, sizeof(commit));
	report_machine(job, machine, sizeof(machine));
	if (job->is_software)
		printf("# rdma is the software HCA, for development and tests: no NIC is "
		       "used\n");
	if (*job->skipped)
		printf("# skipped, not for this path: %s\n", job->skipped);
	printf("# %s; commit %s; %s\n", machine, commit, job->command);
	printf("%-14s %-12s %-17s %8s %11s %11s %7s %8s  %s\n", "test", "mode", "path", "bytes",
	       "median us", "p99 us", "spread", "GB/s", "times the limit");
	for (i = 0; i < count; i++)
		report_line(job, &rows[i], report_limit(&rows[i], rows, count));
	if (job->options->is_checked)
		printf("# data compared on every rank: no difference\n");
}
