/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock, medians, processes and the end at an error. bootstrap/meet.c and p2p/connect.c
 * include it.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <oriel/status.h>

/* In microseconds. */
static inline double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static inline void check(enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "%s\n", oriel_last_error());
	_exit(1);
}

/* Waits for all processes that this one has started; exits if one of them failed. */
static inline void join_all(void)
{
	int status, failed = 0;

	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		exit(1);
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts @values. */
static inline double median(double *values, size_t count)
{
	qsort(values, count, sizeof(double), by_value);
	return values[count / 2];
}

#endif
