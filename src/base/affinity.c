/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU lists of the kernel, and a thread that stays on the CPUs of one NUMA node. The proxy
 * thread of src/rdma calls it once, when it starts.
 */
#include "base/affinity.h"

#include <stdio.h>
#include <stdlib.h>

bool ori_affinity_parse(const char *list, cpu_set_t *cpus)
{
	unsigned long first, last;
	char *end;

	CPU_ZERO(cpus);
	for (;;) {
		if (*list < '0' || *list > '9')
			return false;
		first = last = strtoul(list, &end, 10);
		if (*end == '-') {
			list = end + 1;
			if (*list < '0' || *list > '9')
				return false;
			last = strtoul(list, &end, 10);
		}
		if (first > last || last >= CPU_SETSIZE)
			return false;
		for (; first <= last; first++)
			CPU_SET(first, cpus);
		if (*end != ',')
			return *end == '\n' || *end == '\0';
		list = end + 1;
	}
}

static bool affinity_read(int node, cpu_set_t *cpus)
{
	char path[64], list[4096];
	bool is_read;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
	file = fopen(path, "re");
	if (!file)
		return false;
	is_read = fgets(list, sizeof(list), file) && ori_affinity_parse(list, cpus);
	fclose(file);
	return is_read;
}

bool ori_affinity_bind(int node)
{
	cpu_set_t node_cpus, mine, both;

	/* The mask of the launcher wins: the thread only ever gives up CPUs that it has. */
	if (!affinity_read(node, &node_cpus) || sched_getaffinity(0, sizeof(mine), &mine) != 0)
		return false;
	CPU_AND(&both, &node_cpus, &mine);
	return CPU_COUNT(&both) > 0 && !CPU_EQUAL(&both, &mine) &&
	       sched_setaffinity(0, sizeof(both), &both) == 0;
}
