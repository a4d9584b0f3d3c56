/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics over the samples of a row. */
#include <stdlib.h>
#include <string.h>

#include "perf.h"

/* The @q quantile of @values, from a sorted copy; 0 if there are none. */
static double stats_quantile(const double *values, size_t count, double q)
{
	double *sorted, value;
	size_t at;

	if (count == 0)
		return 0;
	sorted = malloc(count * sizeof(*sorted));
	if (!sorted)
		return values[0];
	memcpy(sorted, values, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), tool_order);
	at = (size_t)(q * (double)count);
	if (at >= count)
		at = count - 1;
	value = sorted[at];
	if (q == 0.5 && count % 2 == 0)
		value = (sorted[at - 1] + sorted[at]) / 2;
	free(sorted);
	return value;
}

static bool series_grow(struct perf_series *series, size_t count)
{
	size_t room = series->room ? series->room : 1024;
	double *ns;

	while (room < series->count + count)
		room *= 2;
	if (room == series->room)
		return true;
	ns = realloc(series->ns, room * sizeof(*ns));
	if (!ns)
		return false;
	series->ns = ns;
	series->room = room;
	return true;
}

bool perf_series_add(struct perf_series *series, const double *ns, size_t count)
{
	if (series->reps == PERF_REPS_MAX || !series_grow(series, count))
		return false;
	memcpy(series->ns + series->count, ns, count * sizeof(*ns));
	series->count += count;
	series->medians[series->reps++] = stats_quantile(ns, count, 0.5);
	return true;
}

double perf_series_median(const struct perf_series *series)
{
	return stats_quantile(series->medians, series->reps, 0.5);
}

double perf_series_quantile(const struct perf_series *series, double q)
{
	return stats_quantile(series->ns, series->count, q);
}

double perf_series_spread(const struct perf_series *series)
{
	double median = perf_series_median(series);
	double least, most;
	unsigned i;

	if (median <= 0)
		return 0;
	least = most = series->medians[0];
	for (i = 1; i < series->reps; i++) {
		if (series->medians[i] < least)
			least = series->medians[i];
		if (series->medians[i] > most)
			most = series->medians[i];
	}
	return (most - least) / median;
}

void perf_series_close(struct perf_series *series)
{
	free(series->ns);
}
