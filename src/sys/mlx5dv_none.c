/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces mlx5dv.c in builds without infiniband/mlx5dv.h. */
#include "sys/mlx5dv_built.h"

bool ori_mlx5dv_is_built(void)
{
	return false;
}
