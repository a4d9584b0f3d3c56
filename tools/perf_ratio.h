/* SPDX-License-Identifier: Apache-2.0 */
/* Is a row slower than it was? For --compare. */
#ifndef ORIEL_PERF_RATIO_H
#define ORIEL_PERF_RATIO_H

#include "perf_result.h"

enum perf_verdict {
	PERF_SAME, /* the interval holds 1, or the difference is below the tolerance */
	PERF_SLOWER,
	PERF_FASTER,
	PERF_TOO_FEW, /* repetitions, for an interval of 95 % */
};

/* New time divided by old time. */
struct perf_ratio {
	double old_us;
	double ratio;
	double low, high; /* of the interval of at least 95 %; 0 with PERF_TOO_FEW */
	enum perf_verdict verdict;
};

/* False if @old has no such row, or one of the two has no times. */
bool perf_ratio_of(struct perf_ratio *ratio, const struct perf_results *old,
		   const struct perf_result *result, double tolerance);
const char *perf_verdict_name(enum perf_verdict verdict);

#endif
