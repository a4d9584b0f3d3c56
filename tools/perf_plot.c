/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --plot: a script for gnuplot, with the look of bench/plot.py. Time over message size, one colour
 * per test and mode, limits in grey; below it bandwidth, or with --compare the ratio to the old
 * rows with its interval.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf_report.h"

#define PLOT_CURVES 64

/* One curve: rows of these, over bytes. */
struct plot_curve {
	const struct perf_result *like;
	unsigned colour; /* 0: a limit */
	unsigned dash;
	bool is_drawn; /* in the panel that is written */
};

struct plot {
	FILE *to;
	const struct perf_results *results, *old;
	double tolerance;
	struct plot_curve curves[PLOT_CURVES];
	unsigned count;
	uint64_t least, most; /* bytes */
	bool has_impls, has_ranks, has_paths;
};

/* Okabe and Ito's colours, which differ for colour-blind readers too. */
static const char *const plot_colours[] = {"#777777", "#0072B2", "#D55E00", "#009E73", "#CC79A7",
					   "#E69F00", "#56B4E9", "#7A5195", "#8C564B"};

#define PLOT_COLOURS (sizeof(plot_colours) / sizeof(plot_colours[0]))

static const char plot_style[] = "set encoding utf8\n"
				 "set terminal svg size 900,640 dynamic noenhanced font "
				 "'sans-serif,13' background '#ffffff'\n"
				 "set border 3 linecolor '#555555'\n"
				 "set tics nomirror out\n"
				 "set grid xtics ytics linecolor '#e4e4e4' linetype 1 linewidth 1\n"
				 "set logscale x 2\n"
				 "set lmargin at screen 0.10\n"
				 "set rmargin at screen 0.73\n"
				 "unset key\n";

bool perf_plot_check(void)
{
	const char *path = getenv("PATH"), *end;
	char program[4096];

	for (; path && *path; path = *end ? end + 1 : end) {
		end = strchrnul(path, ':');
		snprintf(program, sizeof(program), "%.*s/gnuplot", (int)(end - path), path);
		if (access(program, X_OK) == 0)
			return true;
	}
	fprintf(stderr, "oriel perf: --plot needs gnuplot, which is not installed (Debian: apt "
			"install gnuplot-nox)\n");
	return false;
}

static bool curve_has(const struct plot_curve *curve, const struct perf_result *r)
{
	const struct perf_result *like = curve->like;

	return r->bytes && strcmp(like->test, r->test) == 0 && strcmp(like->mode, r->mode) == 0 &&
	       strcmp(like->path, r->path) == 0 && strcmp(like->impl, r->impl) == 0 &&
	       like->ranks == r->ranks && like->threads == r->threads;
}

/* Find the curves; a row without a size is none. */
static void plot_find(struct plot *plot)
{
	unsigned k, colour = 0, limits = 0;
	const char *path = NULL;
	bool is_limit;
	size_t i;

	for (i = 0; i < plot->results->count; i++) {
		const struct perf_result *r = &plot->results->list[i];

		if (!r->bytes || r->median_us <= 0)
			continue;
		plot->least = !plot->count || r->bytes < plot->least ? r->bytes : plot->least;
		plot->most = r->bytes > plot->most ? r->bytes : plot->most;
		for (k = 0; k < plot->count && !curve_has(&plot->curves[k], r); k++)
			;
		if (k < plot->count || k == PLOT_CURVES)
			continue;
		is_limit = perf_is_limit(r->test);
		plot->curves[plot->count++] =
			(struct plot_curve){.like = r,
					    .colour =
						    is_limit ? 0 : 1 + colour % (PLOT_COLOURS - 1),
					    .dash = is_limit ? 2 + limits % 4
							     : 1 + colour / (PLOT_COLOURS - 1)};
		limits += is_limit;
		colour += !is_limit;
		plot->has_impls |= strcmp(r->impl, plot->curves[0].like->impl) != 0;
		plot->has_paths |= !is_limit && path && strcmp(r->path, path) != 0;
		path = is_limit ? path : r->path;
		plot->has_ranks |= r->ranks != plot->curves[0].like->ranks;
	}
}

/* Inside of single quotes gnuplot knows no escape but the doubled quote. */
static void plot_quote(FILE *to, const char *text)
{
	fputc('\'', to);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', to);
		fputc(*text == '\n' ? ' ' : *text, to);
	}
	fputc('\'', to);
}

static void plot_size(FILE *to, unsigned log)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};

	fprintf(to, "'%u %s' %" PRIu64, 1u << log % 10, units[log / 10], (uint64_t)1 << log);
}

/*
 * The powers of two to label, as bits: those measured, if there are few and they lie apart; else
 * 1 KiB, 32 KiB, 1 MiB and so on.
 */
static uint64_t plot_labels(const struct plot *plot)
{
	unsigned first = 0, last = 0, step, log;
	uint64_t measured = 0, labels = 0;
	bool are_apart = true;
	size_t i;

	while ((uint64_t)1 << first < plot->least)
		first++;
	while ((uint64_t)2 << last <= plot->most)
		last++;
	for (i = 0; i < plot->results->count; i++)
		measured |= plot->results->list[i].bytes;
	for (i = 0; i < plot->results->count; i++)
		are_apart &=
			(plot->results->list[i].bytes & (plot->results->list[i].bytes - 1)) == 0;
	for (log = first, step = 0; log <= last; log++, step++)
		if (measured >> log & 1) {
			are_apart &= log == first || 10 * step >= last - first;
			step = 0;
		}
	if (are_apart && __builtin_popcountll(measured) <= 10)
		return measured;
	step = last < first + 9 ? 1 : last < first + 18 ? 2 : 5;
	for (log = (first + step - 1) / step * step; log <= last; log += step)
		labels |= (uint64_t)1 << log;
	return labels;
}

static void plot_sizes(const struct plot *plot)
{
	uint64_t labels = plot_labels(plot);
	const char *separator = "";
	unsigned log;

	fprintf(plot->to, "set xrange [%.9g:%.9g]\nset xtics (", (double)plot->least * 0.8,
		(double)plot->most * 1.25);
	for (log = 0; log < 64; log++) {
		if (!(labels >> log & 1))
			continue;
		fputs(separator, plot->to);
		plot_size(plot->to, log);
		separator = ", ";
	}
	if (!*separator) /* one size, which is no power of two */
		fprintf(plot->to, "'%" PRIu64 " B' %" PRIu64, plot->least, plot->least);
	fprintf(plot->to, ")\n");
}

/* 1, 2 and 5 of each decade where the axis is short, else the decades. */
static void plot_times(const struct plot *plot)
{
	double least = 0, most = 0, tick;
	size_t i;
	int decade;

	for (i = 0; i < plot->results->count; i++) {
		const struct perf_result *r = &plot->results->list[i];

		if (!r->bytes || r->median_us <= 0)
			continue;
		least = least == 0 || r->median_us < least ? r->median_us : least;
		most = r->median_us > most ? r->median_us : most;
	}
	assert(least > 0); /* each curve has such a row, and there is a curve */
	fprintf(plot->to, "set logscale y 10\nset yrange [%.9g:%.9g]\nset ytics (", least / 1.3,
		most * 1.3);
	for (decade = (int)floor(log10(least)) - 1; decade <= ceil(log10(most)); decade++) {
		tick = pow(10, decade);
		fprintf(plot->to, "%s'%g' %g", decade == (int)floor(log10(least)) - 1 ? "" : ", ",
			tick, tick);
		if (most / least < 300)
			fprintf(plot->to, ", '%g' %g, '%g' %g", 2 * tick, 2 * tick, 5 * tick,
				5 * tick);
	}
	fprintf(plot->to, ")\n");
}

enum plot_value { PLOT_TIME, PLOT_BANDWIDTH, PLOT_RATIO };

/* One point of a curve; false if @r has no such value. */
static bool plot_point(const struct plot *plot, const struct perf_result *r, enum plot_value value)
{
	struct perf_ratio ratio;
	double y = r->median_us;

	if (value == PLOT_BANDWIDTH)
		y = r->is_collective ? r->busbw : r->gbps;
	if (value == PLOT_RATIO) {
		if (!perf_ratio_of(&ratio, plot->old, r, plot->tolerance) ||
		    ratio.verdict == PERF_TOO_FEW)
			return false;
		fprintf(plot->to, "%" PRIu64 " %.9g %.9g %.9g\n", r->bytes, ratio.ratio, ratio.low,
			ratio.high);
		return true;
	}
	if (y <= 0)
		return false;
	fprintf(plot->to, "%" PRIu64 " %.9g\n", r->bytes, y);
	return true;
}

/* Data blocks named by panel and curve. */
static unsigned plot_data(struct plot *plot, enum plot_value value)
{
	unsigned k, drawn = 0;
	size_t i;

	for (k = 0; k < plot->count; k++) {
		struct plot_curve *curve = &plot->curves[k];

		curve->is_drawn = false;
		fprintf(plot->to, "$panel%d_%u << end\n", value, k);
		for (i = 0; i < plot->results->count; i++)
			if (curve_has(curve, &plot->results->list[i]))
				curve->is_drawn |= plot_point(plot, &plot->results->list[i], value);
		fprintf(plot->to, "end\n");
		drawn += curve->is_drawn;
	}
	return drawn;
}

static void plot_title(const struct plot *plot, const struct plot_curve *curve)
{
	const struct perf_result *r = curve->like;
	char text[256], impl[40] = "", ranks[32] = "", path[72] = "";

	if (plot->has_impls)
		snprintf(impl, sizeof(impl), "%s ", r->impl);
	if (plot->has_ranks)
		snprintf(ranks, sizeof(ranks), ", %u ranks", r->ranks);
	if (plot->has_paths && !plot->has_impls && !perf_is_limit(r->test))
		snprintf(path, sizeof(path), ", %s", r->path);
	snprintf(text, sizeof(text), "%s%s %s%s%s", impl, r->test, r->mode, path, ranks);
	plot_quote(plot->to, text);
}

static void plot_look(const struct plot *plot, const struct plot_curve *curve)
{
	fprintf(plot->to, "linewidth 2 dashtype %u pointtype 7 pointsize 0.5 linecolor '%s'",
		curve->dash, plot_colours[curve->colour]);
}

static void plot_panel(const struct plot *plot, enum plot_value value)
{
	const char *separator = "plot ";
	unsigned k;

	for (k = 0; k < plot->count; k++) {
		if (!plot->curves[k].is_drawn)
			continue;
		fprintf(plot->to, "%s$panel%d_%u %s ", separator, value, k,
			value == PLOT_RATIO ? "using 1:2:3:4 with yerrorlines"
					    : "with linespoints");
		plot_look(plot, &plot->curves[k]);
		separator = ", \\\n  ";
	}
	fprintf(plot->to, "\n");
}

/* A panel of its own, because the key of a panel has no more rows than fit beside it. */
static void plot_key(const struct plot *plot)
{
	unsigned k;

	fprintf(plot->to,
		"unset arrow\nunset border\nunset tics\nunset xlabel\nunset ylabel\n"
		"unset grid\nset yrange [0:1]\n"
		"set lmargin at screen 0.74\nset rmargin at screen 0.99\n"
		"set tmargin at screen 0.93\nset bmargin at screen 0.02\n"
		"set key inside left top Left reverse samplen 2 spacing 1.1 font ',11'\n");
	for (k = 0; k < plot->count; k++) {
		fprintf(plot->to, "%sNaN with linespoints ", k ? ", \\\n  " : "plot ");
		plot_look(plot, &plot->curves[k]);
		fprintf(plot->to, " title ");
		plot_title(plot, &plot->curves[k]);
	}
	fprintf(plot->to, "\n");
}

static void plot_script(struct plot *plot, const char *file)
{
	const struct perf_result *r = plot->curves[0].like;
	char title[512];
	unsigned drawn;

	fprintf(plot->to, "%sset output ", plot_style);
	plot_quote(plot->to, file);
	snprintf(title, sizeof(title), "oriel perf, %u ranks, %s%s%s", r->ranks, r->machine,
		 *r->commit ? ", commit " : "", r->commit);
	fprintf(plot->to, "\nset multiplot title ");
	plot_quote(plot->to, title);
	fprintf(plot->to, "\n");
	plot_sizes(plot);
	plot_times(plot);
	plot_data(plot, PLOT_TIME);
	fprintf(plot->to, "set tmargin at screen 0.92\nset bmargin at screen 0.47\n"
			  "set ylabel 'time (µs)' offset 1\n");
	plot_panel(plot, PLOT_TIME);
	drawn = plot_data(plot, plot->old ? PLOT_RATIO : PLOT_BANDWIDTH);
	fprintf(plot->to,
		"unset logscale y\nset ytics autofreq\nset yrange [%s:*]\n"
		"set tmargin at screen 0.39\nset bmargin at screen 0.11\n"
		"set xlabel 'message size' offset 0,0.3\nset ylabel '%s' offset 1\n%s",
		plot->old ? "*" : "0", plot->old ? "new / old time, 95 %" : "bandwidth (GB/s)",
		plot->old ? "set arrow from graph 0,first 1 to graph 1,first 1 nohead dashtype 2 "
			    "linecolor '#777777'\n"
			  : "");
	if (drawn)
		plot_panel(plot, plot->old ? PLOT_RATIO : PLOT_BANDWIDTH);
	plot_key(plot);
	fprintf(plot->to, "unset multiplot\nset output\n");
}

bool perf_plot_write(const char *file, const struct perf_results *results,
		     const struct perf_results *old, double tolerance)
{
	struct plot plot = {.results = results, .old = old, .tolerance = tolerance};
	int code;

	plot_find(&plot);
	if (!plot.count) {
		fprintf(stderr,
			"oriel perf: no row has a message size, so there is no curve for "
			"%s\n",
			file);
		return false;
	}
	signal(SIGPIPE, SIG_IGN); /* a gnuplot that fails is reported below */
	/* A fixed command: NOLINTNEXTLINE(cert-env33-c) */
	plot.to = popen("exec gnuplot", "we");
	if (!plot.to) {
		fprintf(stderr, "oriel perf: cannot start gnuplot: %s\n", strerror(errno));
		return false;
	}
	plot_script(&plot, file);
	code = pclose(plot.to);
	if (code != 0)
		fprintf(stderr, "oriel perf: gnuplot failed, %s is not drawn\n", file);
	return code == 0;
}
