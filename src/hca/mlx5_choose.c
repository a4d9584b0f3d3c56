/* SPDX-License-Identifier: Apache-2.0 */
/* Which table is for an adapter of this machine. */
#include "base/log.h"
#include "hca/mlx5.h"

/* Adapters of one machine are alike: the first one stands for those of all rails. */
const struct ori_hca_ops *ori_hca_choose(const char *config, const struct ori_gpu *gpu)
{
	struct ori_mlx5_report report;

	if (ori_hca_mlx5() && ori_mlx5_look(config, 0, gpu, &report) == ORIEL_OK) {
		if (report.tier < ORI_MLX5_T3)
			return ori_hca_mlx5();
		ori_log(ORIEL_LOG_INFO, "%s is posted to by calls", report.name);
	}
	return ori_hca_verbs();
}
