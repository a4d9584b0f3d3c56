/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the part of an object that is of reductions alone. gather_make.c calls it, and executions
 * ask it for shares.
 */
#include "coll/reduction.h"

#include <stdlib.h>
#include <string.h>

#include <oriel/dev/reduction.h>
#include <oriel/progress.h>

#include "base/error.h"
#include "coll/gather_request.h"

void ori_reduction_free(struct ori_reduction *r)
{
	if (!r)
		return;
	free(r->factors);
	free(r->inputs);
	free(r->outs);
	ori_plan_close(&r->heard);
	free(r);
}

struct ori_reduction *ori_reduction_alloc(const struct oriel_reduction *given, uint32_t ranks)
{
	struct ori_reduction *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->given = *given;
	r->factors = calloc(ranks, sizeof(*r->factors));
	r->inputs = calloc(ranks, sizeof(*r->inputs));
	r->outs = calloc(ranks, sizeof(*r->outs));
	if (r->factors && r->inputs && r->outs)
		return r;
	ori_reduction_free(r);
	return NULL;
}

static size_t reduction_sum_size(const struct oriel_reduction *given)
{
	return oriel_type_size(
		oriel_type_accumulation((enum oriel_type)given->type, (enum oriel_op)given->op));
}

void ori_reduction_join(const struct oriel_reduction *given, struct ori_gather_join *join)
{
	join->type = given->type;
	join->op = given->op;
	join->block = given->block;
	join->reduce_flags = given->flags;
	if (given->factor)
		memcpy(&join->factor, given->factor, reduction_sum_size(given));
}

void ori_reduction_combine(struct ori_gather *g, const struct ori_gather_join *joins)
{
	struct ori_reduction *r = g->reduction;
	size_t size = g->is_gpu ? sizeof(*r->factors) : reduction_sum_size(&r->given);
	uint32_t ranks = oriel_comm_size(g->comm), rank;

	for (rank = 0; rank < ranks; rank++)
		memcpy((char *)r->factors + rank * size, &joins[rank].factor, size);
}

/* The ranks of a domain, if all domains are equally many consecutive ranks; else all ranks. */
static uint32_t reduction_block(const struct ori_shape *shape)
{
	uint32_t block = shape->ranks / shape->nodes, rank;

	for (rank = 0; rank < shape->ranks; rank++)
		if (shape->node_of[rank] != rank / block)
			return shape->ranks;
	return block;
}

void ori_reduction_order(struct ori_gather *g)
{
	struct ori_reduction *r = g->reduction;
	uint32_t block = reduction_block(&g->shape);

	if (!r->given.block)
		r->given.block = block;
	if (r->given.block > g->shape.ranks)
		r->given.block = g->shape.ranks;
	r->is_fast = r->given.flags & ORIEL_REDUCE_FAST && g->kind->number == ORI_ALLREDUCE &&
		     !g->is_gpu && g->shape.nodes > 1 && r->given.op != ORIEL_OP_USER;
	/* A sum goes over the network instead of the elements of a block. */
	r->is_hierarchical = r->given.block == block && block < g->shape.ranks && block > 1 &&
			     reduction_sum_size(&r->given) <=
				     block * oriel_type_size((enum oriel_type)r->given.type);
}

/* The ranks of the own node, and those with the own local rank. */
static enum oriel_status reduction_hear(struct ori_gather *g)
{
	uint32_t ranks = g->shape.ranks, own = oriel_comm_rank(g->comm), rank;
	const struct ori_shape *shape = &g->shape;
	uint32_t *heard = calloc(ranks, sizeof(*heard));

	if (!heard)
		return ori_fail_nomem(ranks * sizeof(*heard), "%s of %u ranks", g->kind->name,
				      ranks);
	for (rank = 0; rank < ranks; rank++)
		heard[rank] = shape->node_of[rank] == shape->node_of[own] ||
			      shape->local_rank_of[rank] == shape->local_rank_of[own];
	g->reduction->heard.expected = heard;
	return ORIEL_OK;
}

enum oriel_status ori_reduction_open(struct ori_gather *g)
{
	struct ori_reduction *r = g->reduction;
	size_t most = g->bytes_max;

	ori_fold_open(&r->fold, &r->given, g->shape.ranks,
		      r->given.factor ? (char *)r->factors : NULL, NULL);
	r->given.factor = NULL;
	r->slot = g->shape.nodes == 1 ? ORI_REDUCE_SLOT : g->chunk;
	if (g->kind->number == ORI_REDUCE_SCATTER)
		most = most > r->slot ? r->slot : most * g->shape.ranks;
	/* So that RECURSIVE has few rounds. */
	if (r->is_fast)
		most = most > r->slot ? r->slot : most * g->shape.ranks;
	most = (most + ORIEL_DEV_LINE) * 2;
	if (most < r->slot)
		r->slot = (most + ORIEL_DEV_LINE - 1) & ~(size_t)(ORIEL_DEV_LINE - 1);
	/* Pieces of a round begin at lines, and each has at least one: else rounds would move
	 * nothing. */
	if (r->slot < (size_t)g->shape.ranks * ORIEL_DEV_LINE)
		r->slot = (size_t)g->shape.ranks * ORIEL_DEV_LINE;
	return r->is_hierarchical ? reduction_hear(g) : ORIEL_OK;
}

/* A line for the word that says how far this rank's results are, and two halves. */
size_t ori_reduction_staging(const struct ori_gather *g)
{
	return ORIEL_DEV_LINE + 2 * (sizeof(struct ori_reduce_head) + g->reduction->slot);
}

static size_t reduction_factors(const struct ori_gather *g)
{
	bool has_some = g->is_gpu && g->reduction->given.op == ORIEL_OP_PREMUL_SUM;

	return has_some ? g->shape.ranks * sizeof(*g->reduction->factors) : 0;
}

size_t ori_reduction_lay_out(struct ori_gather *g, size_t staging)
{
	size_t line = ORIEL_DEV_LINE;

	g->reduction->factors_at = (staging + line - 1) & ~(line - 1);
	return reduction_factors(g) ? g->reduction->factors_at + reduction_factors(g) : staging;
}

static enum oriel_status reduction_await(const struct ori_gather *g, struct oriel_copies *copies)
{
	uint64_t begun = oriel_dev_clock_ns(), waited = 0;
	enum oriel_status status = oriel_copies_test(copies);

	while (status == ORIEL_AGAIN && waited < oriel_comm_timeout(g->comm)) {
		ori_dev_back_off(waited);
		waited = oriel_dev_clock_ns() - begun;
		status = oriel_copies_test(copies);
	}
	if (status == ORIEL_AGAIN)
		return ori_fail(ORIEL_ERR_TIMEOUT,
				"%s: the GPU did not copy the factors within %.1f s: other work of "
				"it may wait for this rank",
				g->kind->name, (double)waited / 1e9);
	return status;
}

enum oriel_status ori_reduction_copy_factors(struct ori_gather *g)
{
	size_t length = reduction_factors(g);
	struct oriel_copies *copies = NULL;
	enum oriel_status status;
	void *staging = NULL;

	if (!length)
		return ORIEL_OK;
	status = oriel_window_buffer(g->window, ORI_GATHER_STAGING, &staging, NULL);
	if (status == ORIEL_OK)
		status = oriel_copies_create(g->comm, &copies);
	if (status != ORIEL_OK)
		return status;
	status = oriel_copies_add(copies, 0, (char *)staging + g->reduction->factors_at,
				  g->reduction->factors, length);
	if (status == ORIEL_OK)
		status = reduction_await(g, copies);
	oriel_copies_destroy(copies);
	return status;
}

struct oriel_dev_reduction ori_reduction_device(const struct ori_gather *g)
{
	const struct ori_fold *f = &g->reduction->fold;
	struct oriel_dev_reduction device = {.type = f->type, .op = f->op, .block = f->block};
	void *staging = NULL;

	/* It was found when the factors were copied. */
	if (reduction_factors(g))
		(void)oriel_window_buffer(g->window, ORI_GATHER_STAGING, &staging, NULL);
	if (staging)
		device.factors = (const uint64_t *)(const void *)((char *)staging +
								  g->reduction->factors_at);
	return device;
}

uint32_t ori_reduction_vectors(const struct ori_gather *g)
{
	const struct oriel_dev_fold fold = {.type = g->reduction->fold.type,
					    .op = g->reduction->fold.op};

	return ori_dev_fold_vectors(&fold);
}

struct ori_reduce_part ori_reduce_share(size_t length, uint32_t ranks, uint32_t rank)
{
	size_t share = ((length + ranks - 1) / ranks + 63) & ~(size_t)63;
	size_t begin = rank * share < length ? rank * share : length;

	return (struct ori_reduce_part){begin, length - begin < share ? length - begin : share};
}

size_t ori_reduction_bytes(const struct ori_gather *g, size_t count)
{
	size_t bytes;

	return __builtin_mul_overflow(count, g->reduction->fold.size, &bytes) ? SIZE_MAX : bytes;
}
