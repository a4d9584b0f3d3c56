/* SPDX-License-Identifier: Apache-2.0 */
/* Rows for people (a table) and for programs (one JSON object a line). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "json.h"
#include "perf.h"

/* The commit that oriel_version() names, "" if none. */
static void report_commit(char *commit, size_t room)
{
	const char *from = strstr(oriel_version(), "commit ");

	commit[0] = '\0';
	if (!from)
		return;
	from += strlen("commit ");
	snprintf(commit, room, "%.*s", (int)strcspn(from, ")"), from);
}

/* "AMD EPYC, 2 cores": the model where the kernel tells it, else the kind. */
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

static const char *row_path(const struct perf_job *job, const struct perf_row *row)
{
	enum oriel_path path;

	if (row->plan->pass == perf_memcpy)
		return oriel_path_name(ORIEL_PATH_SELF);
	if (oriel_comm_path(job->comm, 1, &path) != ORIEL_OK)
		return oriel_path_name(ORIEL_PATH_NONE);
	return oriel_path_name(path);
}

static void report_json(const struct perf_job *job, const struct perf_row *row)
{
	struct json json = {.to = stdout};
	char commit[64], machine[192];

	report_commit(commit, sizeof(commit));
	report_machine(job, machine, sizeof(machine));
	json_open_object(&json, NULL);
	json_text(&json, "test", row->plan->test);
	json_text(&json, "path", row_path(job, row));
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

/* The row that shows the limit of @row, if it was measured too. */
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

	printf("%-14s %-12s %-7s %9" PRIu64 " %11.4f %11.4f %6.1f%%", row->plan->test,
	       row->plan->mode, row_path(job, row), row->bytes, median / 1e3,
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
	printf("# %s; commit %s; %s\n", machine, commit, job->command);
	printf("%-14s %-12s %-7s %9s %11s %11s %7s %8s  %s\n", "test", "mode", "path", "bytes",
	       "median us", "p99 us", "spread", "GB/s", "times the limit");
	for (i = 0; i < count; i++)
		report_line(job, &rows[i], report_limit(&rows[i], rows, count));
	if (job->options->is_checked)
		printf("# data compared on every rank: no difference\n");
}
