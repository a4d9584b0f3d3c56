/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives in which a rank of killed.c waits for another one. */
#include "killed.h"

#include <stdlib.h>

#define GATHERED 500u /* bytes of each rank */

/*
 * Create an all-gather over the window, whose addresses all know. If it @cannot_put, the victim has
 * a table in which it may put nothing to its peers.
 */
static enum oriel_status prepare_gather(struct rank_state *p, bool cannot_put)
{
	struct oriel_dev_buffer *table = calloc(p->dev.ranks, sizeof(*table));
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_TABLE,
				  .length = 4096,
				  .peers = table};
	enum oriel_status status;
	unsigned rank;

	for (rank = 0; rank < p->dev.ranks; rank++) {
		table[rank] = p->dev.table[rank];
		if (cannot_put && p->dev.rank == p->victim && rank != p->victim)
			table[rank].length = 0;
	}
	view.buffer = table[p->dev.rank].base;
	status = oriel_allgather_create(p->comm, &view, NULL, &p->allgather);
	free(table);
	return status;
}

static enum oriel_status prepare_allgather(struct rank_state *p)
{
	return prepare_gather(p, false);
}

/* The victim has sent its credits, and not its messages. */
static enum oriel_status prepare_allgather_half(struct rank_state *p)
{
	enum oriel_status status = prepare_gather(p, true);
	static const char message[GATHERED];

	if (status != ORIEL_OK || p->dev.rank != p->victim)
		return status;
	status = oriel_allgather_run(p->allgather, message, sizeof(message));
	return status == ORIEL_ERR_RANGE ? ORIEL_OK : ORIEL_ERR_STATE;
}

static enum oriel_status at_allgather(struct rank_state *p)
{
	static const char message[GATHERED];
	enum oriel_status status;

	do
		status = oriel_allgather_run(p->allgather, message, sizeof(message));
	while (status == ORIEL_OK);
	return status;
}

static enum oriel_status at_allgather_create(struct rank_state *p)
{
	return prepare_gather(p, false);
}

static enum oriel_status prepare_exchange(struct rank_state *p)
{
	const struct oriel_reduction sum = {.size = sizeof(sum),
					    .type = ORIEL_TYPE_FP32,
					    .op = ORIEL_OP_SUM};
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_BUFFER,
				  .length = GATHERED * p->dev.ranks};
	enum oriel_status status = oriel_memory_alloc(view.length, 0, &p->memory);

	view.buffer = p->memory;
	if (status == ORIEL_OK)
		status = oriel_alltoall_create(p->comm, &view, NULL, &p->alltoall);
	if (status == ORIEL_OK)
		status = oriel_bcast_create(p->comm, &view, NULL, &p->bcast);
	if (status == ORIEL_OK)
		status = oriel_gather_create(p->comm, &view, NULL, &p->gather);
	if (status == ORIEL_OK)
		status = oriel_scatter_create(p->comm, &view, NULL, &p->scatter);
	if (status == ORIEL_OK)
		status = oriel_reduce_create(p->comm, &view, &sum, NULL, &p->reduce);
	if (status == ORIEL_OK)
		status =
			oriel_reduce_scatter_create(p->comm, &view, &sum, NULL, &p->reduce_scatter);
	if (status == ORIEL_OK)
		status = oriel_allreduce_create(p->comm, &view, &sum, NULL, &p->allreduce);
	return status;
}

/* Every rank sends to each other one as many bytes as that rank is ahead of it. */
static enum oriel_status exchange_layout(struct rank_state *p, const char *message)
{
	struct oriel_dev_alltoallv layout[16] = {{0}};
	uint32_t rank, ranks = p->dev.ranks;

	for (rank = 0; rank < ranks; rank++) {
		layout[rank].send_length = (rank + ranks - p->dev.rank) % ranks;
		layout[rank].recv_displacement = rank * GATHERED;
		layout[rank].recv_length = (p->dev.rank + ranks - rank) % ranks;
	}
	return oriel_alltoall_run_v(p->alltoall, message, layout);
}

enum kind { ALLTOALL, ALLTOALLV, BCAST, GATHER, SCATTER, REDUCE, REDUCE_SCATTER, ALLREDUCE, ALL };

/* Each rank is the root in turn, for a few bytes and for many. */
static enum oriel_status exchange(struct rank_state *p, enum kind kind, unsigned turn)
{
	static const char message[16 * GATHERED];
	unsigned root = turn % p->dev.ranks;
	size_t bytes = turn / p->dev.ranks % 2 ? GATHERED : 8, count = bytes / sizeof(float);

	switch (kind) {
	case ALLTOALL:
		return oriel_alltoall_run(p->alltoall, message, bytes);
	case ALLTOALLV:
		return exchange_layout(p, message);
	case BCAST:
		return oriel_bcast_run(p->bcast, root, message, bytes);
	case GATHER:
		return oriel_gather_run(p->gather, root, message, bytes);
	case SCATTER:
		return oriel_scatter_run(p->scatter, root, message, bytes);
	case REDUCE:
		return oriel_reduce_run(p->reduce, root, message, count);
	case REDUCE_SCATTER:
		return oriel_reduce_scatter_run(p->reduce_scatter, message, count);
	default:
		return oriel_allreduce_run(p->allreduce, message, count);
	}
}

/* Exchanges of a kind, or of all in turn: the victim, the first root, is waited for. */
static enum oriel_status exchange_on(struct rank_state *p, enum kind kind)
{
	enum oriel_status status;
	unsigned turn = p->victim, each = 0;

	do {
		status = exchange(p, kind == ALL ? each : kind, turn);
		each = (each + 1) % ALL;
		turn += kind != ALL || each == 0;
	} while (status == ORIEL_OK);
	return status;
}

static enum oriel_status at_alltoall(struct rank_state *p)
{
	return exchange_on(p, ALLTOALL);
}

static enum oriel_status at_alltoallv(struct rank_state *p)
{
	return exchange_on(p, ALLTOALLV);
}

static enum oriel_status at_bcast(struct rank_state *p)
{
	return exchange_on(p, BCAST);
}

static enum oriel_status at_gather(struct rank_state *p)
{
	return exchange_on(p, GATHER);
}

static enum oriel_status at_scatter(struct rank_state *p)
{
	return exchange_on(p, SCATTER);
}

static enum oriel_status at_reduce(struct rank_state *p)
{
	return exchange_on(p, REDUCE);
}

static enum oriel_status at_reduce_scatter(struct rank_state *p)
{
	return exchange_on(p, REDUCE_SCATTER);
}

static enum oriel_status at_allreduce(struct rank_state *p)
{
	return exchange_on(p, ALLREDUCE);
}

static enum oriel_status at_every_exchange(struct rank_state *p)
{
	return exchange_on(p, ALL);
}

const struct killed_wait killed_collectives[] = {
	{"allgather_create", at_allgather_create, NULL, false},
	{"allgather", at_allgather, prepare_allgather, false},
	{"allgather_half", at_allgather, prepare_allgather_half, false},
	{"allgather_running", at_allgather, prepare_allgather, true},
	{"alltoall", at_alltoall, prepare_exchange, false},
	{"alltoallv", at_alltoallv, prepare_exchange, false},
	{"bcast", at_bcast, prepare_exchange, false},
	{"gather", at_gather, prepare_exchange, false},
	{"scatter", at_scatter, prepare_exchange, false},
	{"reduce", at_reduce, prepare_exchange, false},
	{"reduce_scatter", at_reduce_scatter, prepare_exchange, false},
	{"reduce_scatter_running", at_reduce_scatter, prepare_exchange, true},
	{"allreduce", at_allreduce, prepare_exchange, false},
	{"allreduce_running", at_allreduce, prepare_exchange, true},
	{"exchange_running", at_every_exchange, prepare_exchange, true},
	{NULL, NULL, NULL, false},
};

void killed_collectives_destroy(struct rank_state *p)
{
	oriel_allgather_destroy(p->allgather);
	oriel_alltoall_destroy(p->alltoall);
	oriel_bcast_destroy(p->bcast);
	oriel_gather_destroy(p->gather);
	oriel_scatter_destroy(p->scatter);
	oriel_reduce_destroy(p->reduce);
	oriel_reduce_scatter_destroy(p->reduce_scatter);
	oriel_allreduce_destroy(p->allreduce);
	oriel_memory_free(p->memory);
}
