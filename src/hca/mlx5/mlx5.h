/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ConnectX HCAs: queues with rings to which threads and kernels post directly.
 * The tier says how much of that a machine allows. The library finds it by
 * trial; each better tier that does not work has a reason in the report, which
 * the tests print.
 */
#ifndef ORI_HCA_MLX5_H
#define ORI_HCA_MLX5_H

#include "hca/hca.h"

enum ori_mlx5_tier {
	ORI_MLX5_T0, /* rings in memory of the GPU, kernels ring the doorbell */
	ORI_MLX5_T1, /* rings in memory of the host, the poster rings the doorbell */
	ORI_MLX5_T2, /* a thread carries doorbells to the HCA */
	ORI_MLX5_T3, /* no rings: requests are posted by calls */
	ORI_MLX5_TIERS,
};

struct ori_mlx5_report {
	char name[80]; /* "mlx5_0:1" */
	enum ori_mlx5_tier tier;
	bool is_devx; /* firmware commands create queues, not verbs */
	bool has_gpu; /* the tier is for kernels, else for threads */
	bool has_wait;
	char doorbells[16]; /* "dedicated", "uncached", "combining", "of verbs" */
	char trial[48];     /* who posted in it: "by a thread", "by a kernel", or why none did */
	char rings[16];     /* "dma-buf", "peermem", "host" */
	/* For field reports: what else the NIC or its driver refused. */
	bool has_no_events, has_no_stamps, has_no_master, has_no_contexts;
	uint32_t refused_events;       /* a bit for each type that it does not report */
	char why[ORI_MLX5_TIERS][320]; /* why each better tier does not work; "" for others */
};

const char *ori_mlx5_tier_text(enum ori_mlx5_tier tier);

/* For an HCA of ori_hca_mlx5(); after use_gpu() the tier of kernels. */
void ori_mlx5_report(const struct ori_hca *hca, struct ori_mlx5_report *report);

/*
 * Open the HCA of @rail that @config selects, as open() would, report its tier
 * with @gpu (or NULL), and close it again. ORIEL_ERR_NO_PATH: there is no
 * ConnectX HCA.
 */
enum oriel_status ori_mlx5_probe(const char *config, unsigned rail, const struct ori_gpu *gpu,
				 struct ori_mlx5_report *report);

#endif
