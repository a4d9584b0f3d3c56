/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A distribution-free confidence interval of the ratio of two times, from the medians of their
 * repetitions: that of Hodges and Lehmann, which inverts the rank test of Mann, Whitney and
 * Wilcoxon (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd edition, section 4.3;
 * here on ratios instead of differences). All ratios new[i] / old[j] are sorted: their median is
 * the estimate, and the k-th from either end bounds the interval. It needs no random numbers, so
 * two files always give one answer.
 */
#include "perf_ratio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define RATIO_TAIL 0.025     /* outside on either side, at most */
#define RATIO_EXACT 20u      /* repetitions up to which ranks are counted */
#define RATIO_NORMAL 1.95996 /* quantile of the normal distribution for RATIO_TAIL */

/*
 * The number of sorted ratios on either side that lie outside. Without a difference, each order of
 * the n + m times is equally likely. U is the number of pairs whose new time is less than the old
 * one; orders[j][u] counts the orders of i new and j old times with U = u. The largest time is a
 * new one, in no pair, or an old one, in i pairs (Mann and Whitney, 1947).
 */
static size_t ratio_outside_exact(size_t n, size_t m)
{
	static double orders[RATIO_EXACT + 1][RATIO_EXACT * RATIO_EXACT + 1];
	double all = 0, tail = 0;
	size_t i, j, u;

	memset(orders, 0, sizeof(orders));
	for (j = 0; j <= m; j++)
		orders[j][0] = 1;
	for (i = 1; i <= n; i++)
		for (j = 1; j <= m; j++)
			for (u = n * m + 1; u-- > 0;)
				/* orders[j][u] has still i - 1 new times, orders[j - 1] has i. */
				orders[j][u] += u >= i ? orders[j - 1][u - i] : 0;
	for (u = 0; u <= n * m; u++)
		all += orders[m][u];
	for (u = 0; u <= n * m; u++) {
		tail += orders[m][u];
		if (tail / all > RATIO_TAIL)
			return u;
	}
	return 0;
}

static size_t ratio_outside(size_t n, size_t m)
{
	double pairs = (double)(n * m), outside;

	if (n <= RATIO_EXACT && m <= RATIO_EXACT)
		return ratio_outside_exact(n, m);
	outside = pairs / 2 - RATIO_NORMAL * sqrt(pairs * (double)(n + m + 1) / 12);
	return outside < 0 ? 0 : (size_t)outside;
}

static enum perf_verdict ratio_verdict(const struct perf_ratio *r, double tolerance)
{
	if (r->low > 1 && r->ratio > 1 + tolerance)
		return PERF_SLOWER;
	if (r->high < 1 && r->ratio < 1 - tolerance)
		return PERF_FASTER;
	return PERF_SAME;
}

static bool ratio_from(struct perf_ratio *r, const struct perf_result *old,
		       const struct perf_result *new, double tolerance)
{
	size_t i, j, pairs = old->reps * new->reps, outside;
	double *ratios = calloc(pairs, sizeof(*ratios));

	if (!ratios)
		return false;
	for (i = 0; i < new->reps; i++)
		for (j = 0; j < old->reps; j++)
			ratios[i * old->reps + j] = new->medians_us[i] / old->medians_us[j];
	qsort(ratios, pairs, sizeof(*ratios), tool_order);
	r->ratio = (ratios[(pairs - 1) / 2] + ratios[pairs / 2]) / 2;
	outside = ratio_outside(new->reps, old->reps);
	if (outside) {
		r->low = ratios[outside - 1];
		r->high = ratios[pairs - outside];
		r->verdict = ratio_verdict(r, tolerance);
	}
	free(ratios);
	return true;
}

static bool result_has_times(const struct perf_result *result)
{
	size_t i;

	for (i = 0; i < result->reps; i++)
		if (result->medians_us[i] <= 0)
			return false;
	return result->median_us > 0;
}

bool perf_ratio_of(struct perf_ratio *ratio, const struct perf_results *old,
		   const struct perf_result *result, double tolerance)
{
	const struct perf_result *before = perf_results_find(old, result);

	if (!before || !result_has_times(before) || !result_has_times(result))
		return false;
	*ratio = (struct perf_ratio){
		.old_us = before->median_us,
		.ratio = result->median_us / before->median_us,
		.verdict = PERF_TOO_FEW,
	};
	if (!before->reps || !result->reps)
		return true;
	return ratio_from(ratio, before, result, tolerance);
}

const char *perf_verdict_name(enum perf_verdict verdict)
{
	static const char *const names[] = {"same", "slower", "faster", "too few repetitions"};

	return names[verdict];
}
