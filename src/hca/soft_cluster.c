/* SPDX-License-Identifier: Apache-2.0 */
#include "hca/soft_engine.h"
#include "hca/soft_node.h"

/* A cluster is an engine that nobody runs but its owner. */
static struct soft_engine *to_engine(struct ori_soft_cluster *cluster)
{
	return (struct soft_engine *)cluster;
}

enum oriel_status ori_soft_cluster_create(uint64_t seed, struct ori_soft_cluster **cluster)
{
	struct soft_engine *e;
	enum oriel_status st = ori_soft_engine_create_virtual(seed, &e);

	if (st == ORIEL_OK)
		*cluster = (struct ori_soft_cluster *)e;
	return st;
}

void ori_soft_cluster_destroy(struct ori_soft_cluster *cluster)
{
	if (cluster)
		ori_soft_engine_destroy_virtual(to_engine(cluster));
}

enum oriel_status ori_soft_cluster_open(struct ori_soft_cluster *cluster, const char *config,
					struct ori_hca **hca)
{
	struct soft_node *node;
	enum oriel_status st = ori_soft_node_open(to_engine(cluster), config, &node);

	if (st == ORIEL_OK)
		*hca = (struct ori_hca *)node;
	return st;
}

bool ori_soft_cluster_step(struct ori_soft_cluster *cluster)
{
	return ori_soft_engine_step(to_engine(cluster));
}

uint64_t ori_soft_cluster_trace(const struct ori_soft_cluster *cluster)
{
	return ((const struct soft_engine *)cluster)->trace;
}
