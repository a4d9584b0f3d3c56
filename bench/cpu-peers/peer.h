/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures other libraries ("peers") as `oriel perf` measures Oriel: samples of about 20 us for
 * about 30 ms, and the median on standard output as one JSON object a line. run.py does the
 * repetitions.
 */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEER_BURST 64

/* The ranks of one program and their means to synchronise, which are not timed. */
struct peer_job {
	const char *impl;
	unsigned rank;
	unsigned ranks;
	void (*meet)(void);
	uint64_t (*from_origin)(uint64_t value); /* rank 0's @value on all ranks */
};

enum peer_parts {
	PEER_ONE,
	PEER_ROUND_TRIP,
	PEER_MANY, /* peer_burst(bytes) */
};

struct peer_case {
	const char *test;
	const char *mode;
	bool is_origin_only;
	enum peer_parts parts;
	void (*round)(size_t bytes, uint64_t round);
	bool meets; /* a barrier ends each sample, so that no rank finishes early */
};

/* Collective. Rounds count from 0 in each call. */
void peer_measure(const struct peer_job *job, const struct peer_case *plan, size_t bytes);

/* Prints a row that was timed by other means. */
void peer_print(const struct peer_job *job, const char *test, const char *mode, size_t bytes,
		double us);

double peer_now_us(void);
double peer_median(double *values, size_t count); /* sorts @values */
uint64_t peer_burst(size_t bytes);
char *peer_memory(size_t bytes); /* touched; exits without memory */

#endif
