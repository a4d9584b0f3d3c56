/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConnectX adapters: queues with rings that threads and kernels post to by
 * themselves. How much of that a machine allows is its tier, which is found out by
 * trying; each better one that is not reached has a reason.
 */
#ifndef ORI_HCA_MLX5_H
#define ORI_HCA_MLX5_H

#include "hca/hca.h"

enum ori_mlx5_tier {
	ORI_MLX5_T0, /* rings in memory of the GPU, kernels ring the doorbell */
	ORI_MLX5_T1, /* rings in memory of the host, who posts rings the doorbell */
	ORI_MLX5_T2, /* a thread carries doorbells to the adapter */
	ORI_MLX5_T3, /* no rings: requests are posted by calls */
	ORI_MLX5_TIERS,
};

struct ori_mlx5_report {
	char name[80]; /* "mlx5_0:1" */
	enum ori_mlx5_tier tier;
	bool is_devx; /* queues are made by commands to the firmware, not by verbs */
	bool has_gpu; /* the tier is that of kernels, else of threads */
	bool has_wait;
	char doorbells[16];            /* "dedicated", "uncached", "combining", "of verbs" */
	char rings[16];                /* "dma-buf", "peermem", "host" */
	char why[ORI_MLX5_TIERS][200]; /* what keeps it from each better tier; "" of others */
};

const char *ori_mlx5_tier_text(enum ori_mlx5_tier tier);

/* Of an adapter of ori_hca_mlx5(); after use_gpu() that of kernels. */
void ori_mlx5_report(const struct ori_hca *hca, struct ori_mlx5_report *report);

/*
 * Open the adapter of @rail that @config means, as open() would, tell how far it
 * reaches with @gpu (or NULL), and close it again.
 * ORIEL_ERR_NO_PATH: there is none of this kind.
 */
enum oriel_status ori_mlx5_look(const char *config, unsigned rail, const struct ori_gpu *gpu,
				struct ori_mlx5_report *report);

#endif
