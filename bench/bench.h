/* SPDX-License-Identifier: Apache-2.0 */
/* The clock, and the end at an error, of bootstrap/meet.c and p2p/connect.c. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdio.h>
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

#endif
