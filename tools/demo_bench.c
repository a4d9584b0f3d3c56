/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of times for each path: rank 0 and its partner, the first rank that it reaches by that
 * path; the others wait in a barrier. One-sided operations are timed by the initiator until they
 * complete; two-sided ones are timed as round trips, of which half is reported.
 */
#include <stdio.h>
#include <stdlib.h>

#include "demo.h"

enum { BENCH_SAMPLES = 31, BENCH_CELLS = 3 };

static const struct {
	const char *name;
	uint64_t length;
	unsigned batch; /* operations in one sample, so that reading the clock does not count */
} sizes[BENCH_CELLS] = {{"8 B", 8, 64}, {"4 KiB", 4096, 16}, {"1 MiB", DEMO_LARGE, 1}};

/* Rank 0 and @partner; each rank has its own copy. */
struct bench_pair {
	const struct demo *d;
	uint32_t partner;
	uint32_t other; /* the peer of this rank */
};

struct bench_row {
	const char *name;
	unsigned cells; /* number of sizes that apply */
	bool is_round_trip;
	bool is_of_all;
	enum oriel_status (*once)(const struct bench_pair *pair, uint64_t length);
};

static bool pair_is_first(const struct bench_pair *pair)
{
	return pair->d->w.rank == 0;
}

static enum oriel_status bench_put(const struct bench_pair *pair, uint64_t length)
{
	enum oriel_status posted;

	if (!pair_is_first(pair))
		return ORIEL_OK;
	posted = oriel_dev_put(&pair->d->w, oriel_dev_thread(), pair->other, 0, pair->d->local,
			       length, NULL);
	return posted != ORIEL_OK ? posted : oriel_dev_flush(&pair->d->w, oriel_dev_thread(), 0);
}

static enum oriel_status bench_put_value(const struct bench_pair *pair, uint64_t length)
{
	enum oriel_status posted;

	(void)length;
	if (!pair_is_first(pair))
		return ORIEL_OK;
	posted = oriel_dev_put_value(&pair->d->w, pair->other, 0, 1, NULL);
	return posted != ORIEL_OK ? posted : oriel_dev_flush(&pair->d->w, oriel_dev_thread(), 0);
}

static enum oriel_status bench_get(const struct bench_pair *pair, uint64_t length)
{
	struct oriel_dev_ticket arrival;
	enum oriel_status posted;

	if (!pair_is_first(pair))
		return ORIEL_OK;
	posted = oriel_dev_get(&pair->d->w, oriel_dev_thread(), pair->other, 0, pair->d->local,
			       length, &arrival);
	if (posted != ORIEL_OK)
		return posted;
	return oriel_dev_wait_local(&pair->d->w, oriel_dev_thread(), arrival, 0);
}

static enum oriel_status bench_fetch_add(const struct bench_pair *pair, uint64_t length)
{
	uint64_t old;

	(void)length;
	return !pair_is_first(pair) ? ORIEL_OK
				    : oriel_dev_fetch_add(&pair->d->w, pair->other, 0, 1, &old);
}

static enum oriel_status bench_wait(const struct bench_pair *pair)
{
	return oriel_dev_wait_signal_next(&pair->d->w, oriel_dev_thread(), pair->other,
					  DEMO_SIGNAL_BENCH, 1, 0);
}

static enum oriel_status bench_put_signal(const struct bench_pair *pair, uint64_t length)
{
	enum oriel_status status = pair_is_first(pair) ? ORIEL_OK : bench_wait(pair);
	enum oriel_status posted;

	if (status != ORIEL_OK)
		return status;
	posted = oriel_dev_put_signal(&pair->d->w, oriel_dev_thread(), pair->other, 0,
				      pair->d->local, length, DEMO_SIGNAL_BENCH, 1, NULL);
	if (posted != ORIEL_OK)
		return posted;
	return pair_is_first(pair) ? bench_wait(pair) : ORIEL_OK;
}

static enum oriel_status bench_signal(const struct bench_pair *pair, uint64_t length)
{
	enum oriel_status status = pair_is_first(pair) ? ORIEL_OK : bench_wait(pair);
	enum oriel_status posted;

	(void)length;
	if (status != ORIEL_OK)
		return status;
	posted = oriel_dev_signal(&pair->d->w, oriel_dev_thread(), pair->other, DEMO_SIGNAL_BENCH,
				  ORIEL_SIGNAL_ADD, 1, NULL);
	if (posted != ORIEL_OK)
		return posted;
	return pair_is_first(pair) ? bench_wait(pair) : ORIEL_OK;
}

static enum oriel_status bench_send_recv(const struct bench_pair *pair, uint64_t length)
{
	const struct oriel_dev_window *w = &pair->d->w;
	enum oriel_status status;

	if (pair_is_first(pair)) {
		status = oriel_dev_send(w, oriel_dev_thread(), pair->other, 0, pair->d->local,
					length, 0);
		if (status == ORIEL_OK)
			status = oriel_dev_recv(w, oriel_dev_thread(), pair->other, 0,
						pair->d->local, length, 0);
		return status;
	}
	status = oriel_dev_recv(w, oriel_dev_thread(), pair->other, 0, pair->d->local, length, 0);
	if (status == ORIEL_OK)
		status = oriel_dev_send(w, oriel_dev_thread(), pair->other, 0, pair->d->local,
					length, 0);
	return status;
}

static enum oriel_status bench_barrier(const struct bench_pair *pair, uint64_t length)
{
	(void)length;
	return oriel_dev_barrier(&pair->d->w, oriel_dev_thread(), DEMO_SLOT_BENCH, 0);
}

static const struct bench_row rows[] = {
	{"put, flush", 3, false, false, bench_put},
	{"put_value, flush", 1, false, false, bench_put_value},
	{"get", 3, false, false, bench_get},
	{"fetch_add", 1, false, false, bench_fetch_add},
	{"put_signal", 3, true, false, bench_put_signal},
	{"signal", 1, true, false, bench_signal},
	{"send, recv", 3, true, false, bench_send_recv},
	{"barrier of all", 1, false, true, bench_barrier},
};

static int bench_order(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* Returns the median in microseconds; the first samples warm up. */
static enum oriel_status bench_cell(const struct bench_pair *pair, const struct bench_row *row,
				    unsigned cell, double *median)
{
	double samples[BENCH_SAMPLES];
	enum oriel_status status = ORIEL_OK;
	unsigned warm_up = 3, i, k;
	uint64_t start;

	for (i = 0; i < BENCH_SAMPLES + warm_up && status == ORIEL_OK; i++) {
		start = oriel_dev_clock_ns();
		for (k = 0; k < sizes[cell].batch && status == ORIEL_OK; k++)
			status = row->once(pair, sizes[cell].length);
		if (i >= warm_up)
			samples[i - warm_up] = (double)(oriel_dev_clock_ns() - start) / 1e3 /
					       sizes[cell].batch / (row->is_round_trip ? 2 : 1);
	}
	if (status != ORIEL_OK)
		return status;
	qsort(samples, BENCH_SAMPLES, sizeof(samples[0]), bench_order);
	*median = samples[BENCH_SAMPLES / 2];
	return ORIEL_OK;
}

static void bench_print(const struct bench_row *row, const double *medians)
{
	unsigned cell;

	printf("  %-18s", row->name);
	for (cell = 0; cell < row->cells; cell++)
		printf(" %9.3f", medians[cell]);
	if (row->cells == BENCH_CELLS)
		printf(" %9.2f", DEMO_LARGE / medians[BENCH_CELLS - 1] / 1e3);
	printf("\n");
	fflush(stdout);
}

static enum oriel_status bench_row(const struct bench_pair *pair, const struct bench_row *row)
{
	const struct oriel_dev_window *w = &pair->d->w;
	enum oriel_status status = ORIEL_OK;
	double medians[BENCH_CELLS];
	unsigned cell;

	if (w->rank == 0 || w->rank == pair->partner || row->is_of_all)
		for (cell = 0; cell < row->cells && status == ORIEL_OK; cell++)
			status = bench_cell(pair, row, cell, &medians[cell]);
	if (status == ORIEL_OK && w->rank == 0)
		bench_print(row, medians);
	/* The next row may overwrite the source of this one. */
	if (status == ORIEL_OK)
		status = oriel_dev_drain(w, oriel_dev_thread(), 0);
	return status == ORIEL_OK ? oriel_dev_barrier(w, oriel_dev_thread(), DEMO_SLOT_ROUND, 0)
				  : status;
}

static void bench_head(const struct bench_pair *pair, enum oriel_path path)
{
	struct oriel_nic nic = {.size = sizeof(nic)};
	const char *note = "";
	unsigned i;

	if (path == ORIEL_PATH_RDMA && oriel_comm_nic(pair->d->comm, &nic) == ORIEL_OK)
		note = nic.is_software ? " by the software HCA, no NIC" : " by a NIC";
	printf("\nTimes in us between rank 0 and rank %u, path %s%s,\n"
	       "data in caches, medians of %d\n  %-18s",
	       pair->partner, oriel_path_name(path), note, BENCH_SAMPLES, "");
	for (i = 0; i < BENCH_CELLS; i++)
		printf(" %9s", sizes[i].name);
	printf(" %9s\n", "GB/s");
}

/* Print the times of rank 0 and the first rank it reaches by @path, if there is one. */
static enum oriel_status bench_path(struct demo *d, enum oriel_path path)
{
	struct bench_pair pair = {d, 1, 0};
	enum oriel_status status = ORIEL_OK;
	enum oriel_path found = ORIEL_PATH_NONE;
	struct demo_results r;
	unsigned i;

	while (oriel_comm_path_between(d->comm, 0, pair.partner, &found) == ORIEL_OK &&
	       found != path)
		pair.partner++;
	if (pair.partner >= d->w.ranks)
		return ORIEL_OK;
	pair.other = d->w.rank == 0 ? pair.partner : 0;
	if (d->w.rank == 0)
		bench_head(&pair, path);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]) && status == ORIEL_OK; i++) {
		demo_results_open(&r, d, rows[i].name);
		status = bench_row(&pair, &rows[i]);
		if (status != ORIEL_OK)
			demo_abort(&r, status);
	}
	return status;
}

enum oriel_status demo_bench(struct demo *d)
{
	enum oriel_status status = bench_path(d, ORIEL_PATH_MAPPED);

	return status == ORIEL_OK ? bench_path(d, ORIEL_PATH_RDMA) : status;
}
