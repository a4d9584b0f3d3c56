/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU affinity by NUMA node: which CPUs a node has, and a thread that stays on them. The proxy
 * thread of src/rdma calls it.
 */
#ifndef ORI_BASE_AFFINITY_H
#define ORI_BASE_AFFINITY_H

#include <sched.h>
#include <stdbool.h>

/* Parse a CPU list as the kernel prints it, "0-3,8"; false if @list is malformed. */
bool ori_affinity_parse(const char *list, cpu_set_t *cpus);

/*
 * Bind the calling thread to the CPUs of NUMA node @node that it may run on. False, and nothing
 * changes, if it runs only on them already, may run on none of them, or the kernel does not list
 * them.
 */
bool ori_affinity_bind(int node);

#endif
