/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole clusters of software HCAs in one process that a test steps one action
 * at a time, and counters of their events. Unit tests and fuzz programs call it.
 */
#ifndef ORI_HCA_TEST_SUPPORT_SOFT_CLUSTER_H
#define ORI_HCA_TEST_SUPPORT_SOFT_CLUSTER_H

#include "hca/soft/soft_objects.h"

/* Any thread. @hca is of ori_hca_soft_ops or of a cluster. */
void ori_soft_counters(struct ori_hca *hca, struct soft_counters *counters);

/*
 * HCAs that do nothing but what step() makes them do, in virtual time, and
 * always the same for the same @seed. One thread at a time.
 */
struct ori_soft_cluster;

enum oriel_status ori_soft_cluster_create(uint64_t seed, struct ori_soft_cluster **cluster);
/* The caller has closed its HCAs. NULL is allowed. */
void ori_soft_cluster_destroy(struct ori_soft_cluster *cluster);

/* An HCA for the calls of ori_hca_soft_ops other than open(). */
enum oriel_status ori_soft_cluster_open(struct ori_soft_cluster *cluster, const char *config,
					struct ori_hca **hca);

/* One action of one HCA; false if no action is possible and none is due later. */
bool ori_soft_cluster_step(struct ori_soft_cluster *cluster);

/* A hash of all actions so far. */
uint64_t ori_soft_cluster_trace(const struct ori_soft_cluster *cluster);

#endif
