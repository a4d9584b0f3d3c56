/* SPDX-License-Identifier: Apache-2.0 */
/* The NICs that a rank drives: those that ORIEL_HCA requests, or those that it finds. */
#ifndef ORI_RDMA_RDMA_CHOOSE_H
#define ORI_RDMA_RDMA_CHOOSE_H

#include <stddef.h>

#include "rdma/rdma.h"

struct ori_hca_choice {
	enum ori_hca_kind kind;
	const struct ori_hca_ops *ops;
	char config[320];         /* of ops->open() */
	char lack[ORI_RDMA_LACK]; /* see ori_rdma_lack() */
	char why[ORI_RDMA_WHY];   /* see ori_rdma_why() */
};

/*
 * Chooses @rails NICs for a rank with @gpu, or NULL. The caller has checked that
 * ORIEL_HCA is not none.
 */
enum oriel_status ori_choose(const struct ori_gpu *gpu, unsigned rails,
			     struct ori_hca_choice *choice);

/* Can NICs of these @count kinds, @stride bytes apart, by rank, be linked to each other? */
enum oriel_status ori_choices_agree(const void *kinds, size_t stride, unsigned count);

#endif
