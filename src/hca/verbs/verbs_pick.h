/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ports of HCAs that a filter selects, and the distance of an HCA from a GPU. Pure;
 * verbs_device.c calls it.
 */
#ifndef ORI_HCA_VERBS_PICK_H
#define ORI_HCA_VERBS_PICK_H

#include <stdbool.h>

/*
 * "mlx5_1:1,mlx5_2": ports of HCAs whose names begin so, all of their ports if
 * none is named. "^" before the list: all others. "=": names are whole. "^=":
 * both. "" is all. As NCCL_IB_HCA has it.
 */
bool ori_verbs_is_meant(const char *filter, const char *device, unsigned port);

/* NULL, or what is wrong with the text. */
const char *ori_verbs_filter_flaw(const char *filter);

/*
 * Bridges between two devices, from their paths under /sys/devices: 0 is the
 * same device, ORI_VERBS_UNRELATED says that they share no host bridge.
 */
#define ORI_VERBS_UNRELATED 1000u
unsigned ori_verbs_distance(const char *a, const char *b);

#endif
