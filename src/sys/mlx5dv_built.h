/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Was libmlx5's header there when the library was built? For code of both builds: the doctor
 * asks.
 */
#ifndef ORI_SYS_MLX5DV_BUILT_H
#define ORI_SYS_MLX5DV_BUILT_H

#include <stdbool.h>

bool ori_mlx5dv_is_built(void);

#endif
