/* SPDX-License-Identifier: Apache-2.0 */
/* Time, and the order of samples. Subcommands that measure, or that wait, call it. */
#ifndef ORIEL_MEASURE_H
#define ORIEL_MEASURE_H

#include <stdint.h>
#include <time.h>

/* Monotonic. */
static inline double tool_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline uint64_t tool_now_ms(void)
{
	return (uint64_t)(tool_now_ns() / 1e6);
}

/* For qsort() of doubles. */
static inline int tool_order(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

#endif
