/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choice between the mlx5 and the verbs table for the HCAs of this machine.
 * Callers of open() ask it first.
 */
#include <stdio.h>

#include "base/error.h"
#include "hca/mlx5/mlx5.h"

static void choose_explain(const struct ori_mlx5_report *report, char *why, size_t length)
{
	size_t used = 0;
	unsigned t;

	why[0] = '\0';
	for (t = 0; t < report->tier && used < length; t++)
		used += (size_t)snprintf(why + used, length - used, "%snot T%u: %s", t ? "; " : "",
					 t, report->why[t]);
}

/* HCAs of one machine are alike: the first one stands for those of all rails. */
static bool choose_has_rings(const char *config, const struct ori_gpu *gpu, char *why,
			     size_t length)
{
	struct ori_mlx5_report report;

	if (!ori_hca_mlx5() || ori_mlx5_probe(config, 0, gpu, &report) != ORIEL_OK) {
		snprintf(why, length, "%s",
			 ori_hca_mlx5() ? oriel_last_error()
					: "the library was built without infiniband/mlx5dv.h");
		return false;
	}
	choose_explain(&report, why, length);
	return report.tier < ORI_MLX5_T3;
}

const struct ori_hca_ops *ori_hca_choose(const char *config, const struct ori_gpu *gpu, char *why,
					 size_t length)
{
	const struct ori_hca_ops *ops;
	struct ori_error before;

	ori_error_save(&before);
	ops = choose_has_rings(config, gpu, why, length) ? ori_hca_mlx5() : ori_hca_verbs();
	ori_error_restore(&before);
	return ops;
}
