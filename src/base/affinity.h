/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs near a device. */
#ifndef ORI_BASE_AFFINITY_H
#define ORI_BASE_AFFINITY_H

#include <sched.h>
#include <stdbool.h>

/* A list as the kernel prints them, "0-3,8"; false if it is none. */
bool ori_affinity_parse(const char *list, cpu_set_t *cpus);

/*
 * The calling thread stays on CPUs of NUMA node @node from now on; false if it does
 * anyhow, may run on none of them, or nobody knows which they are.
 */
bool ori_near_stay(int node);

#endif
