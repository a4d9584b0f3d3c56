/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choice between the mlx5 and the verbs table for the HCAs of this machine.
 * Callers of open() ask it first.
 */
#include "base/error.h"
#include "base/log.h"
#include "hca/mlx5/mlx5.h"

/* HCAs of one machine are alike: the first one stands for those of all rails. */
static bool choose_has_rings(const char *config, const struct ori_gpu *gpu)
{
	struct ori_mlx5_report report;

	if (!ori_hca_mlx5() || ori_mlx5_probe(config, 0, gpu, &report) != ORIEL_OK)
		return false;
	if (report.tier == ORI_MLX5_T3)
		ori_log(ORIEL_LOG_INFO, "%s is posted to by calls", report.name);
	return report.tier < ORI_MLX5_T3;
}

const struct ori_hca_ops *ori_hca_choose(const char *config, const struct ori_gpu *gpu)
{
	const struct ori_hca_ops *ops;
	struct ori_error before;

	ori_error_save(&before);
	ops = choose_has_rings(config, gpu) ? ori_hca_mlx5() : ori_hca_verbs();
	ori_error_restore(&before);
	return ops;
}
