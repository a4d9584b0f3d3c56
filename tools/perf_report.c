/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report: a table for people, or lines of JSON or CSV for programs. A row is written as soon as
 * it is known, so that a run that is interrupted has reported all before.
 */
#include "perf_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "tool.h"

#define REPORT_UNSTEADY 0.2 /* spread from which a row is marked */
#define REPORT_FIELDS 48

enum field_kind { FIELD_TEXT, FIELD_COUNT, FIELD_NUMBER, FIELD_BOOL, FIELD_NUMBERS };

struct field {
	const char *key;
	enum field_kind kind;
	bool is_absent; /* left out of JSON, empty in CSV */
	const char *text;
	uint64_t count; /* also the number of @numbers, and a truth value */
	double number;
	const double *numbers;
};

struct fields {
	struct field list[REPORT_FIELDS];
	unsigned count;
};

static void add_text(struct fields *f, const char *key, const char *text)
{
	f->list[f->count++] = (struct field){.key = key, .kind = FIELD_TEXT, .text = text};
}

static void add_count(struct fields *f, const char *key, uint64_t count, bool is_present)
{
	f->list[f->count++] = (struct field){.key = key,
					     .kind = FIELD_COUNT,
					     .count = count,
					     .is_absent = !is_present};
}

static void add_number(struct fields *f, const char *key, double number, bool is_present)
{
	f->list[f->count++] = (struct field){.key = key,
					     .kind = FIELD_NUMBER,
					     .number = number,
					     .is_absent = !is_present};
}

static void add_bool(struct fields *f, const char *key, bool value)
{
	f->list[f->count++] = (struct field){.key = key, .kind = FIELD_BOOL, .count = value};
}

static void add_ratio(struct fields *f, const struct perf_ratio *ratio)
{
	static const struct perf_ratio none;
	bool has_interval = ratio && ratio->verdict != PERF_TOO_FEW;

	add_number(f, "old_us", ratio ? ratio->old_us : none.old_us, ratio != NULL);
	add_number(f, "ratio", ratio ? ratio->ratio : none.ratio, ratio != NULL);
	add_number(f, "ratio_low", has_interval ? ratio->low : none.low, has_interval);
	add_number(f, "ratio_high", has_interval ? ratio->high : none.high, has_interval);
	add_text(f, "verdict", ratio ? perf_verdict_name(ratio->verdict) : "");
	f->list[f->count - 1].is_absent = !ratio;
}

/* The first keys are older than the others; programs may rely on all of them. */
static void fields_of(struct fields *f, const struct perf_result *r, const struct perf_ratio *ratio)
{
	bool is_collective = r->is_collective;

	f->count = 0;
	add_text(f, "test", r->test);
	add_text(f, "path", r->path);
	add_count(f, "ranks", r->ranks, true);
	add_count(f, "bytes", r->bytes, true);
	add_text(f, "impl", r->impl);
	add_count(f, "threads", r->threads, true);
	add_count(f, "blocks", r->blocks, true);
	add_text(f, "mode", r->mode);
	add_number(f, "median_us", r->median_us, true);
	add_number(f, "p99_us", r->p99_us, true);
	add_number(f, "spread", r->spread, true);
	add_number(f, "gbps", r->gbps, true);
	add_bool(f, "checked", r->is_checked);
	add_text(f, "commit", r->commit);
	add_text(f, "machine", r->machine);
	add_text(f, "command", r->command);
	add_number(f, "min_us", r->min_us, true);
	add_number(f, "p99_9_us", r->p99_9_us, true);
	add_number(f, "mops", r->mops, r->mops > 0);
	add_bool(f, "pinned", r->is_pinned);
	f->list[f->count++] = (struct field){.key = "medians_us",
					     .kind = FIELD_NUMBERS,
					     .numbers = r->medians_us,
					     .count = r->reps};
	add_count(f, "wrong", r->wrong, r->is_checked);
	add_count(f, "size", r->size, is_collective);
	add_count(f, "count", r->count, is_collective);
	add_number(f, "algbw", r->algbw, is_collective);
	add_number(f, "busbw", r->busbw, is_collective);
	add_text(f, "limit", r->limit);
	f->list[f->count - 1].is_absent = !*r->limit;
	add_number(f, "times_limit", r->times_limit, r->times_limit > 0);
	add_ratio(f, ratio);
}

static void json_field(struct json *json, const struct field *field)
{
	uint64_t i;

	switch (field->kind) {
	case FIELD_TEXT:
		json_text(json, field->key, field->text);
		break;
	case FIELD_COUNT:
		json_unsigned(json, field->key, field->count);
		break;
	case FIELD_NUMBER:
		json_number(json, field->key, field->number);
		break;
	case FIELD_BOOL:
		json_bool(json, field->key, field->count);
		break;
	case FIELD_NUMBERS:
		json_open_array(json, field->key);
		for (i = 0; i < field->count; i++)
			json_number(json, NULL, field->numbers[i]);
		json_close_array(json);
		break;
	}
}

static void report_json(const struct perf_result *result, const struct perf_ratio *ratio)
{
	struct json json = {.to = stdout};
	struct fields fields;
	unsigned i;

	fields_of(&fields, result, ratio);
	json_open_object(&json, NULL);
	for (i = 0; i < fields.count; i++)
		if (!fields.list[i].is_absent)
			json_field(&json, &fields.list[i]);
	json_close_object(&json);
	putchar('\n');
}

/* Quoted, with quotes doubled, where a reader would split it (RFC 4180). */
static void csv_text(const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	putchar('"');
}

static void csv_field(const struct field *field)
{
	uint64_t i;

	switch (field->kind) {
	case FIELD_TEXT:
		csv_text(field->text);
		break;
	case FIELD_COUNT:
		printf("%" PRIu64, field->count);
		break;
	case FIELD_NUMBER:
		printf("%.9g", field->number);
		break;
	case FIELD_BOOL:
		fputs(field->count ? "true" : "false", stdout);
		break;
	case FIELD_NUMBERS:
		for (i = 0; i < field->count; i++)
			printf("%s%.9g", i ? " " : "", field->numbers[i]);
		break;
	}
}

static void report_csv(const struct perf_result *result, const struct perf_ratio *ratio,
		       bool has_head)
{
	struct fields fields;
	unsigned i;

	fields_of(&fields, result, ratio);
	for (i = 0; i < fields.count && !has_head; i++)
		printf("%s%s", i ? "," : "", fields.list[i].key);
	if (!has_head)
		putchar('\n');
	for (i = 0; i < fields.count; i++) {
		if (i)
			putchar(',');
		if (!fields.list[i].is_absent)
			csv_field(&fields.list[i]);
	}
	putchar('\n');
}

/* As nccl-tests: #wrong is N/A where no data is compared. */
static void line_collective(const struct perf_result *r)
{
	char wrong[24] = "N/A";

	if (r->is_checked)
		snprintf(wrong, sizeof(wrong), "%" PRIu64, r->wrong);
	printf(" %10" PRIu64 " %11.4f %8.3f %8.3f %6s", r->count, r->median_us, r->algbw, r->busbw,
	       wrong);
}

static void line_number(int width, int digits, double value)
{
	if (value > 0)
		printf(" %*.*f", width, digits, value);
	else
		printf(" %*s", width, "-");
}

/* As perftest. */
static void line_operation(const struct perf_result *r)
{
	line_number(11, 5, r->min_us);
	line_number(11, 5, r->median_us);
	line_number(11, 4, r->p99_us);
	line_number(11, 4, r->p99_9_us);
	line_number(8, 3, r->gbps);
	line_number(8, 4, r->mops);
}

static void line_head(const struct perf_report *report, const struct perf_result *r)
{
	const char *last = report->options->compare ? "old us, new/old, 95 %" : "times the limit";

	printf("%s%-18s %-12s %-17s", report->columns ? "\n" : "", "test", "mode", "path");
	if (r->is_collective)
		printf(" %8s %10s %11s %8s %8s %6s", "size", "count", "time us", "algbw", "busbw",
		       "#wrong");
	else
		printf(" %8s %11s %11s %11s %11s %8s %8s", "bytes", "t_min us", "median us",
		       "p99 us", "p99.9 us", "BW GB/s", "Mmsg/s");
	printf(" %7s  %s\n", "spread", last);
}

static void line_ratio(const struct perf_ratio *ratio)
{
	if (!ratio)
		printf("  not in the file");
	else if (ratio->verdict == PERF_TOO_FEW)
		printf("  %.5g %.3f too few repetitions", ratio->old_us, ratio->ratio);
	else
		printf("  %.5g %.3f [%.3f, %.3f]%s%s", ratio->old_us, ratio->ratio, ratio->low,
		       ratio->high, ratio->verdict == PERF_SAME ? "" : " ",
		       ratio->verdict == PERF_SAME ? "" : perf_verdict_name(ratio->verdict));
}

static void report_line(struct perf_report *report, const struct perf_result *r,
			const struct perf_ratio *ratio)
{
	char columns = r->is_collective ? 'c' : 'o';

	if (report->columns != columns)
		line_head(report, r);
	report->columns = columns;
	printf("%-18s %-12s %-17s %8" PRIu64, r->test, r->mode, r->path,
	       r->is_collective ? r->size : r->bytes);
	if (r->is_collective)
		line_collective(r);
	else
		line_operation(r);
	printf(" %6.1f%%%s", r->spread * 100, r->spread > REPORT_UNSTEADY ? "!" : "");
	if (report->options->compare)
		line_ratio(ratio);
	else if (r->times_limit > 0)
		printf("  %.2f of %s", r->times_limit, r->limit);
	printf("\n");
}

bool perf_report_open(struct perf_report *report, const struct perf_options *options)
{
	*report = (struct perf_report){.options = options};
	return !options->compare || perf_results_read(&report->old, options->compare);
}

static bool report_is_table(const struct perf_report *report)
{
	return !report->options->is_json && !report->options->is_csv;
}

void perf_report_head(struct perf_report *report, const struct perf_job *job)
{
	struct perf_result any;

	if (!report_is_table(report))
		return;
	if (!job) {
		printf("# rows of %s\n", report->options->from);
		return;
	}
	if (job->is_software)
		printf("# rdma is the software HCA, for development and tests: no NIC is "
		       "used\n");
	if (*job->skipped)
		printf("# skipped, not for this %s: %s\n", job->stream ? "memory" : "path",
		       job->skipped);
	perf_result_begin(&any, job);
	printf("# %s; commit %s; %s\n", any.machine, any.commit, any.command);
	fflush(stdout);
}

bool perf_report_add(struct perf_report *report, const struct perf_result *result)
{
	bool is_first = report->results.count == 0, has_ratio;
	struct perf_ratio ratio;

	if (!perf_results_add(&report->results, result)) {
		fprintf(stderr, "oriel perf: out of memory\n");
		return false;
	}
	has_ratio = perf_ratio_of(&ratio, &report->old, result, report->options->tolerance);
	if (report->options->is_json)
		report_json(result, has_ratio ? &ratio : NULL);
	else if (report->options->is_csv)
		report_csv(result, has_ratio ? &ratio : NULL, !is_first);
	else
		report_line(report, result, has_ratio ? &ratio : NULL);
	fflush(stdout);
	report->unsteady += result->spread > REPORT_UNSTEADY;
	if (has_ratio) {
		report->compared += ratio.verdict != PERF_TOO_FEW;
		report->too_few += ratio.verdict == PERF_TOO_FEW;
		report->slower += ratio.verdict == PERF_SLOWER;
	}
	return true;
}

static void report_warn(const struct perf_report *report, const struct perf_job *job)
{
	const char *advice = "other processes may run on these cores";

	if (!report->unsteady)
		return;
	if (!perf_job_is_pinned(job))
		advice = job->options->pin == PERF_PIN_OFF
				 ? "nothing is pinned: --no-pin"
				 : "nothing is pinned: there is no core for "
				   "each thread";
	fprintf(stderr,
		"oriel perf: warning: %u of %zu rows have a spread above %.0f %%, so that smaller "
		"differences show nothing; %s\n",
		report->unsteady, report->results.count, REPORT_UNSTEADY * 100, advice);
}

/* Another machine may explain a ratio. */
static void report_warn_machines(const struct perf_report *report)
{
	const struct perf_result *new = report->results.list, *old = report->old.list;

	if (strcmp(new->machine, old->machine) != 0)
		fprintf(stderr, "oriel perf: warning: %s is of another machine: %s\n",
			report->options->compare, old->machine);
}

static int report_end_compare(const struct perf_report *report)
{
	const char *file = report->options->compare;

	report_warn_machines(report);
	if (!report->compared) {
		fprintf(stderr, "oriel perf: no row can be compared with %s: %s\n", file,
			report->too_few ? "both need repetitions for an interval of 95 %, four or "
					  "more each"
					: "it has none of them");
		return TOOL_FAILED;
	}
	if (report_is_table(report))
		printf("# %u of %u compared rows are slower than in %s, by more than the interval "
		       "and %g %%\n",
		       report->slower, report->compared, file, report->options->tolerance * 100);
	return report->slower ? TOOL_FAILED : TOOL_OK;
}

int perf_report_end(struct perf_report *report, const struct perf_job *job)
{
	const struct perf_options *options = report->options;
	int code = TOOL_OK;
	uint64_t wrong = 0;
	size_t i;

	if (!report->results.count)
		return TOOL_OK;
	for (i = 0; i < report->results.count; i++)
		wrong += report->results.list[i].wrong;
	if (job && options->is_checked && !wrong && report_is_table(report))
		printf("# data compared on every rank: no difference\n");
	if (job)
		report_warn(report, job);
	if (options->compare)
		code = report_end_compare(report);
	fflush(stdout);
	if (options->plot &&
	    !perf_plot_write(options->plot, &report->results,
			     options->compare ? &report->old : NULL, options->tolerance))
		code = TOOL_FAILED;
	return wrong ? TOOL_FAILED : code;
}

void perf_report_close(struct perf_report *report)
{
	perf_results_close(&report->results);
	perf_results_close(&report->old);
}
