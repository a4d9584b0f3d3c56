/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters of software HCAs in virtual time: a test makes one random action
 * after the other, and a seed replays them.
 */
#include "hca/test_support/soft_cluster.h"

#include "base/error.h"
#include "hca/soft/soft_address.h"
#include "hca/soft/soft_cq.h"
#include "hca/soft/soft_engine.h"
#include "hca/soft/soft_memory.h"
#include "hca/soft/soft_node.h"
#include "hca/soft/soft_qp.h"
#include "hca/soft/soft_stray.h"
#include "hca/soft/soft_wire.h"

#define CLUSTER_TICK_NS 1000u /* of virtual time per step */

/* A cluster is an engine that only its owner steps. */
static struct soft_engine *to_engine(struct ori_soft_cluster *cluster)
{
	return (struct soft_engine *)cluster;
}

enum oriel_status ori_soft_cluster_create(uint64_t seed, struct ori_soft_cluster **cluster)
{
	struct soft_engine *e = ori_soft_engine_make();
	enum oriel_status status;

	if (!e)
		return ori_fail_nomem(sizeof(*e), "a cluster of software HCAs");
	e->is_virtual = true;
	e->rand.state = seed;
	e->now = 1;
	status = ori_soft_address_describe(&e->address);
	if (status != ORIEL_OK) {
		ori_soft_engine_free(e);
		return status;
	}
	*cluster = (struct ori_soft_cluster *)e;
	return ORIEL_OK;
}

void ori_soft_cluster_destroy(struct ori_soft_cluster *cluster)
{
	if (cluster)
		ori_soft_engine_free(to_engine(cluster));
}

enum oriel_status ori_soft_cluster_open(struct ori_soft_cluster *cluster, const char *config,
					struct ori_hca **hca)
{
	struct soft_node *node;
	enum oriel_status status = ori_soft_node_open(to_engine(cluster), config, &node);

	if (status == ORIEL_OK)
		*hca = (struct ori_hca *)node;
	return status;
}

enum cluster_action {
	CLUSTER_DOORBELL,
	CLUSTER_WQE,
	CLUSTER_PACKET,
	CLUSTER_TIMER,
	CLUSTER_CQE,
	CLUSTER_LEAK,
	CLUSTER_ACTIONS,
};

static bool cluster_act(struct soft_qp *qp, enum cluster_action action)
{
	struct soft_node *node = qp->node;

	if (ori_soft_engine_is_halted(node))
		return false;
	if (node->atomic.qp && node->atomic.due > node->engine->now)
		return false;
	ori_soft_atomic_end(node);
	switch (action) {
	case CLUSTER_DOORBELL:
		return ori_soft_doorbell_poll(qp);
	case CLUSTER_WQE:
		return ori_soft_sq_step(qp);
	case CLUSTER_PACKET:
		return ori_soft_egress(qp);
	case CLUSTER_TIMER:
		return ori_soft_timer(qp);
	case CLUSTER_CQE:
		return ori_soft_cq_flush_of(qp, node->engine->now);
	default:
		return ori_soft_held_leak(node) || ori_soft_stray_step(node);
	}
}

/* QP number @which of the engine, in the order of nodes and creation. */
static struct soft_qp *cluster_qp(struct soft_engine *e, uint64_t which)
{
	for (unsigned i = 0; i < SOFT_NODES; i++)
		for (struct soft_qp *qp = e->nodes[i] ? e->nodes[i]->qp_list : NULL; qp;
		     qp = qp->next)
			if (which-- == 0)
				return qp;
	return NULL;
}

static uint64_t cluster_qps(const struct soft_engine *e)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < SOFT_NODES; i++)
		for (struct soft_qp *qp = e->nodes[i] ? e->nodes[i]->qp_list : NULL; qp;
		     qp = qp->next)
			count++;
	return count;
}

/* One random action; false if none is left. */
static bool cluster_step(struct soft_engine *e)
{
	uint64_t choices = cluster_qps(e) * CLUSTER_ACTIONS, first, due;

	e->now += CLUSTER_TICK_NS;
	first = soft_rand_below(&e->rand, choices);
	for (uint64_t i = 0; i < choices; i++) {
		uint64_t choice = (first + i) % choices;
		struct soft_qp *qp = cluster_qp(e, choice / CLUSTER_ACTIONS);

		if (cluster_act(qp, (enum cluster_action)(choice % CLUSTER_ACTIONS))) {
			soft_trace(e, 'A', choice, e->now);
			return true;
		}
	}
	due = ori_soft_engine_due(e);
	if (due == SOFT_NEVER)
		return false;
	if (due > e->now)
		e->now = due;
	return true;
}

bool ori_soft_cluster_step(struct ori_soft_cluster *cluster)
{
	return cluster_step(to_engine(cluster));
}

uint64_t ori_soft_cluster_trace(const struct ori_soft_cluster *cluster)
{
	return ((const struct soft_engine *)cluster)->trace;
}

void ori_soft_counters(struct ori_hca *hca, struct soft_counters *counters)
{
	struct soft_node *node = (struct soft_node *)hca;

	ori_soft_engine_lock(node->engine);
	*counters = node->counters;
	ori_soft_engine_unlock(node->engine);
}
