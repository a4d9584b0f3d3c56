/* SPDX-License-Identifier: Apache-2.0 */
/* The report of `oriel perf`, row by row: table, --json or --csv; --compare and --plot. */
#ifndef ORIEL_PERF_REPORT_H
#define ORIEL_PERF_REPORT_H

#include "perf_ratio.h"
#include "perf_result.h"

struct perf_report {
	const struct perf_options *options;
	struct perf_results results; /* reported until now */
	struct perf_results old;     /* of --compare */
	unsigned compared, slower, too_few;
	unsigned unsteady; /* rows with a large spread */
	char columns;      /* of the last row of the table; '\0': none yet */
};

/* Reads what is compared with. False: an error was printed. */
bool perf_report_open(struct perf_report *report, const struct perf_options *options);
/* Begin the output: what holds for all rows of @job, NULL: rows from a file. */
void perf_report_head(struct perf_report *report, const struct perf_job *job);
/* Print a row, and keep a copy. */
bool perf_report_add(struct perf_report *report, const struct perf_result *result);
/* Summary, warnings and plot. @job as above. TOOL_OK, or the exit code. */
int perf_report_end(struct perf_report *report, const struct perf_job *job);
void perf_report_close(struct perf_report *report);

/* perf_plot.c: can gnuplot be started? If not, the reason is printed. */
bool perf_plot_check(void);
/* Draw @results; @old: beside these, or NULL. False: an error was printed. */
bool perf_plot_write(const char *file, const struct perf_results *results,
		     const struct perf_results *old, double tolerance);

#endif
