/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libmlx5 and looks up its functions. The mlx5 HCA (hca/) calls it. */
#include "sys/mlx5dv.h"

#include <pthread.h>
#include <stdio.h>

#include "base/error.h"
#include "sys/library.h"

#define MLX5DV_LIBRARY "libmlx5.so.1"

struct ori_mlx5dv ori_mlx5dv;

/* Empty if the library is usable. Written once, in mlx5dv_load(). */
static char mlx5dv_why_not[256];

/* The library stays open: its contexts may outlive the caller that opened it. */
static void mlx5dv_load(void)
{
	void *library = dlopen(MLX5DV_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		snprintf(mlx5dv_why_not, sizeof(mlx5dv_why_not),
			 "no libmlx5 (ibverbs-providers of rdma-core): %s", dlerror());
		return;
	}
#define MLX5DV_FIND(member, symbol, version) \
	ori_library_find_version(library, #symbol, version, (void *)&ori_mlx5dv.member)
#define MLX5DV_NEED(member, symbol, version)                                                \
	if (!MLX5DV_FIND(member, symbol, version)) {                                        \
		snprintf(mlx5dv_why_not, sizeof(mlx5dv_why_not),                            \
			 MLX5DV_LIBRARY " has no %s of version %s: it is too old", #symbol, \
			 version);                                                          \
		return;                                                                     \
	}
#define MLX5DV_TRY(member, symbol, version) (void)MLX5DV_FIND(member, symbol, version);
	ORI_MLX5DV_CALLS(MLX5DV_NEED)
	ORI_MLX5DV_OBJECTS(MLX5DV_TRY)
	ORI_MLX5DV_DEVX(MLX5DV_TRY)
	ORI_MLX5DV_OPTIONAL(MLX5DV_TRY)
#undef MLX5DV_TRY
#undef MLX5DV_NEED
#undef MLX5DV_FIND
}

bool ori_mlx5dv_is_built(void)
{
	return true;
}

enum oriel_status ori_mlx5dv_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, mlx5dv_load);
	if (!mlx5dv_why_not[0])
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s", mlx5dv_why_not);
}

#define MLX5DV_NAME_MISSING(member, symbol, version) \
	if (!ori_mlx5dv.member)                      \
		return #symbol " of " version;

const char *ori_mlx5dv_missing_objects(void)
{
	ORI_MLX5DV_OBJECTS(MLX5DV_NAME_MISSING)
	return NULL;
}

const char *ori_mlx5dv_missing_devx(void)
{
	ORI_MLX5DV_DEVX(MLX5DV_NAME_MISSING)
	return NULL;
}
