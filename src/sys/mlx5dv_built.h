/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORI_SYS_MLX5DV_BUILT_H
#define ORI_SYS_MLX5DV_BUILT_H

#include <stdbool.h>

/* Was infiniband/mlx5dv.h found when the library was built? For code that runs in both builds. */
bool ori_mlx5dv_is_built(void);

#endif
