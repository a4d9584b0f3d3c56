/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes of jobs (ranks by node) and the plans of all-gathers and broadcasts over them.
 * gather_plan.h names the callers.
 */
#include "coll/gather_plan.h"

#include <stdlib.h>

#include "base/error.h"

void ori_shape_close(struct ori_shape *s)
{
	free(s->node_of);
	free(s->local_rank_of);
	free(s->first);
	free(s->members);
	*s = (struct ori_shape){0};
}

enum oriel_status ori_shape_open(struct ori_shape *s, const uint32_t *leader_of, uint32_t ranks)
{
	uint32_t rank, other, at = 0;

	*s = (struct ori_shape){.ranks = ranks,
				.node_of = calloc(ranks, sizeof(*s->node_of)),
				.local_rank_of = calloc(ranks, sizeof(*s->local_rank_of)),
				.first = calloc(ranks + 1u, sizeof(*s->first)),
				.members = calloc(ranks, sizeof(*s->members))};
	if (!s->node_of || !s->local_rank_of || !s->first || !s->members) {
		ori_shape_close(s);
		return ori_fail_nomem((4 * (size_t)ranks + 1) * sizeof(uint32_t),
				      "the nodes of %u ranks", ranks);
	}
	for (rank = 0; rank < ranks; rank++) {
		if (leader_of[rank] != rank)
			continue;
		for (other = rank; other < ranks; other++) {
			if (leader_of[other] != rank)
				continue;
			s->node_of[other] = s->nodes;
			s->local_rank_of[other] = at - s->first[s->nodes];
			s->members[at++] = other;
		}
		s->first[++s->nodes] = at;
	}
	return ORIEL_OK;
}

static uint32_t shape_carrier(const struct ori_shape *s, uint32_t node, uint32_t block)
{
	return s->members[s->first[node] + s->local_rank_of[block] % ori_shape_size(s, node)];
}

void ori_plan_close(struct ori_plan *p)
{
	free(p->moves);
	free(p->targets);
	free(p->expected);
	free(p->sources);
	*p = (struct ori_plan){0};
}

#define PLAN_ALL UINT32_MAX

/* A plan while it is made. Its arrays have room for all blocks, each sent to all ranks. */
struct plan_maker {
	struct ori_plan *plan;
	const struct ori_shape *shape;
	enum oriel_algorithm algorithm;
	uint32_t rank;
	uint32_t node;
	uint32_t block; /* the only block; PLAN_ALL: all blocks */
	uint32_t used;  /* entries of the plan's @targets in use */
};

static void plan_target(struct plan_maker *m, uint32_t rank)
{
	m->plan->targets[m->used++] = rank;
	m->plan->moves[m->plan->count - 1].targets++;
}

static void plan_move(struct plan_maker *m, uint32_t block, uint32_t source)
{
	m->plan->moves[m->plan->count++] = (struct ori_move){block, source, m->used, 0};
}

/* Adds the other ranks of the node. Each rank begins with its successor, which spreads the load. */
static void plan_target_node(struct plan_maker *m)
{
	const struct ori_shape *s = m->shape;
	uint32_t size = ori_shape_size(s, m->node), i;

	for (i = 1; i < size; i++)
		plan_target(m,
			    s->members[s->first[m->node] + (s->local_rank_of[m->rank] + i) % size]);
}

static void plan_expect(struct plan_maker *m, uint32_t block, uint32_t source)
{
	m->plan->expected[source]++;
	m->plan->sources[block] = source;
}

static bool plan_has(const struct plan_maker *m, uint32_t block)
{
	return m->block == PLAN_ALL || m->block == block;
}

static void plan_direct(struct plan_maker *m)
{
	const struct ori_shape *s = m->shape;
	uint32_t i, peer;

	for (i = 1; i < s->ranks; i++) {
		peer = (m->rank + i) % s->ranks;
		if (plan_has(m, peer))
			plan_expect(m, peer, peer);
	}
	if (!plan_has(m, m->rank))
		return;
	plan_move(m, m->rank, ORI_PLAN_OWN);
	for (i = 1; i < s->ranks; i++) {
		peer = (m->rank + i) % s->ranks;
		if (s->node_of[peer] != m->node)
			plan_target(m, peer);
	}
	plan_target_node(m);
}

static uint32_t plan_node_after(const struct plan_maker *m, uint32_t count)
{
	return (m->node + count) % m->shape->nodes;
}

/* The greatest power of two that is not above @value, which is not 0. */
static uint32_t plan_power(uint32_t value)
{
	return 1u << (31 - __builtin_clz(value));
}

/*
 * Blocks reach a node in the order of the distance @away of their home node. A ring passes them
 * from the node before to the node after. By Bruck the node 2^k ahead sends the blocks of its 2^k
 * nearest nodes, or of as many as are still missing.
 */
static uint32_t plan_home(const struct plan_maker *m, uint32_t away)
{
	return m->algorithm == ORIEL_ALGORITHM_RING ? plan_node_after(m, m->shape->nodes - away)
						    : plan_node_after(m, away);
}

static uint32_t plan_source(const struct plan_maker *m, uint32_t away, uint32_t block)
{
	uint32_t node = m->algorithm == ORIEL_ALGORITHM_RING
				? plan_node_after(m, m->shape->nodes - 1)
				: plan_node_after(m, plan_power(away));

	return shape_carrier(m->shape, node, block);
}

static void plan_pass_on(struct plan_maker *m, uint32_t away, uint32_t block)
{
	uint32_t nodes = m->shape->nodes, step;

	if (m->algorithm == ORIEL_ALGORITHM_RING) {
		if (away < nodes - 1)
			plan_target(m, shape_carrier(m->shape, plan_node_after(m, 1), block));
		return;
	}
	for (step = away ? 2 * plan_power(away) : 1; step < nodes; step *= 2)
		if (away < nodes - step)
			plan_target(m, shape_carrier(m->shape, plan_node_after(m, nodes - step),
						     block));
}

static void plan_by_nodes(struct plan_maker *m)
{
	const struct ori_shape *s = m->shape;
	uint32_t away, home, i, block, carrier;

	for (away = 0; away < s->nodes; away++) {
		home = plan_home(m, away);
		for (i = s->first[home]; i < s->first[home + 1]; i++) {
			block = s->members[i];
			if (!plan_has(m, block))
				continue;
			carrier = shape_carrier(s, m->node, block);
			if (carrier != m->rank) {
				plan_expect(m, block, carrier);
				continue;
			}
			plan_move(m, block, away ? plan_source(m, away, block) : ORI_PLAN_OWN);
			if (away)
				plan_expect(m, block, plan_source(m, away, block));
			plan_pass_on(m, away, block);
			plan_target_node(m);
		}
	}
}

static enum oriel_status plan_open(struct ori_plan *p, const struct ori_shape *shape,
				   enum oriel_algorithm algorithm, uint32_t rank, uint32_t block)
{
	struct plan_maker m = {p, shape, algorithm, rank, shape->node_of[rank], block, 0};
	/* A block is sent to the own node, and to fewer than 32 other ranks, or to all ranks. */
	size_t targets = (size_t)shape->ranks * (ori_shape_size(shape, m.node) + 32);
	uint32_t i;

	*p = (struct ori_plan){.moves = calloc(shape->ranks, sizeof(*p->moves)),
			       .targets = calloc(targets, sizeof(*p->targets)),
			       .expected = calloc(shape->ranks, sizeof(*p->expected)),
			       .sources = malloc(shape->ranks * sizeof(*p->sources))};
	if (!p->moves || !p->targets || !p->expected || !p->sources) {
		ori_plan_close(p);
		return ori_fail_nomem(shape->ranks * (sizeof(*p->moves) + sizeof(*p->expected) +
						      sizeof(*p->sources)) +
					      targets * sizeof(*p->targets),
				      "the plan of %u ranks", shape->ranks);
	}
	for (i = 0; i < shape->ranks; i++)
		p->sources[i] = ORI_PLAN_OWN;
	if (algorithm == ORIEL_ALGORITHM_DIRECT)
		plan_direct(&m);
	else
		plan_by_nodes(&m);
	return ORIEL_OK;
}

enum oriel_status ori_plan_open(struct ori_plan *p, const struct ori_shape *shape,
				enum oriel_algorithm algorithm, uint32_t rank)
{
	return plan_open(p, shape, algorithm, rank, PLAN_ALL);
}

enum oriel_status ori_plan_open_block(struct ori_plan *p, const struct ori_shape *shape,
				      enum oriel_algorithm algorithm, uint32_t rank, uint32_t block)
{
	return plan_open(p, shape, algorithm, rank, block);
}
