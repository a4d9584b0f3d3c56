/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmlx5, opened at run time: the features of ConnectX HCAs beyond verbs. Compiled only where
 * infiniband/mlx5dv.h was found; other code uses sys/mlx5dv_built.h.
 */
#ifndef ORI_SYS_MLX5DV_H
#define ORI_SYS_MLX5DV_H

#include <infiniband/mlx5dv.h>

#include <oriel/status.h>

#include "sys/mlx5dv_built.h"

/* The name is new in rdma-core 45; older headers lack it. */
#define ORI_MLX5DV_UAR_NC_DEDICATED (1u << 31)

/*
 * X(member, symbol, version). These identify an mlx5 device and expose the objects behind its
 * handles.
 */
#define ORI_MLX5DV_CALLS(X)                              \
	X(is_supported, mlx5dv_is_supported, "MLX5_1.8") \
	X(init_obj, mlx5dv_init_obj, "MLX5_1.2")

/* Queues created by verbs, whose rings init_obj() exposes. */
#define ORI_MLX5DV_OBJECTS(X)                      \
	X(create_cq, mlx5dv_create_cq, "MLX5_1.1") \
	X(create_qp, mlx5dv_create_qp, "MLX5_1.3")

/* Commands to the firmware (DEVX). */
#define ORI_MLX5DV_DEVX(X)                                   \
	X(open_device, mlx5dv_open_device, "MLX5_1.7")       \
	X(obj_create, mlx5dv_devx_obj_create, "MLX5_1.7")    \
	X(obj_modify, mlx5dv_devx_obj_modify, "MLX5_1.7")    \
	X(obj_destroy, mlx5dv_devx_obj_destroy, "MLX5_1.7")  \
	X(general_cmd, mlx5dv_devx_general_cmd, "MLX5_1.7")  \
	X(umem_reg_ex, mlx5dv_devx_umem_reg_ex, "MLX5_1.19") \
	X(umem_dereg, mlx5dv_devx_umem_dereg, "MLX5_1.7")    \
	X(alloc_uar, mlx5dv_devx_alloc_uar, "MLX5_1.7")      \
	X(free_uar, mlx5dv_devx_free_uar, "MLX5_1.7")        \
	X(query_eqn, mlx5dv_devx_query_eqn, "MLX5_1.7")

/* Optional: the context of a DEVX queue, and asynchronous errors. */
#define ORI_MLX5DV_OPTIONAL(X)                                                   \
	X(obj_query, mlx5dv_devx_obj_query, "MLX5_1.7")                          \
	X(create_event_channel, mlx5dv_devx_create_event_channel, "MLX5_1.11")   \
	X(destroy_event_channel, mlx5dv_devx_destroy_event_channel, "MLX5_1.11") \
	X(subscribe_event, mlx5dv_devx_subscribe_devx_event, "MLX5_1.11")        \
	X(get_event, mlx5dv_devx_get_event, "MLX5_1.11")

#define ORI_MLX5DV_MEMBER(member, symbol, version) __typeof__(symbol) *member;
struct ori_mlx5dv {
	ORI_MLX5DV_CALLS(ORI_MLX5DV_MEMBER)
	ORI_MLX5DV_OBJECTS(ORI_MLX5DV_MEMBER)
	ORI_MLX5DV_DEVX(ORI_MLX5DV_MEMBER)
	ORI_MLX5DV_OPTIONAL(ORI_MLX5DV_MEMBER)
};

/*
 * Constant once ori_mlx5dv_open() has returned ORIEL_OK; only members of the first group are never
 * NULL.
 */
extern struct ori_mlx5dv ori_mlx5dv;

/*
 * Open libmlx5, at the first call; any thread. The text of ORIEL_ERR_UNSUPPORTED names what is
 * missing.
 */
enum oriel_status ori_mlx5dv_open(void);

/*
 * The first function that an open library lacks of a group, with the version that introduced it
 * ("mlx5dv_devx_obj_create of MLX5_1.7"); NULL if the group is complete.
 */
const char *ori_mlx5dv_missing_objects(void);
const char *ori_mlx5dv_missing_devx(void);

#endif
