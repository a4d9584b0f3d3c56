/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the mlx5 table in a build without infiniband/mlx5dv.h: callers
 * get NULL, and ori_mlx5_probe() fails.
 */
#include "base/error.h"
#include "hca/mlx5/mlx5.h"

const struct ori_hca_ops *ori_hca_mlx5(void)
{
	return NULL;
}

enum oriel_status ori_mlx5_probe(const char *config, unsigned rail, const struct ori_gpu *gpu,
				 struct ori_mlx5_report *report)
{
	(void)config, (void)rail, (void)gpu, (void)report;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "built without infiniband/mlx5dv.h of rdma-core 42");
}
