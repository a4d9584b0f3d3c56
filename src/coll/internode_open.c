/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes what executions over several nodes use: p2p endpoints to ranks of other nodes,
 * signals in host memory, copies, and the staging of an all-to-all, of a gather or scatter, or of a
 * reduction. Called by gather_make.c, and by reduce_internode.c for the length of a row.
 * Executions allocate nothing, since a call that allocates or pins may wait for the GPU.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "coll/internode.h"
#include "coll/reduction.h"

/* Messages of a rank differ, or may be for any rank: they are sent by the staging. */
static bool internode_has_stage(const struct ori_gather *g)
{
	return g->kind->number != ORI_ALLGATHER && g->kind->number != ORI_BCAST;
}

/* Does any execution of this rank send to @rank of another node, or receive from it? */
static bool internode_needs(const struct ori_gather *g, uint32_t rank)
{
	uint32_t own = oriel_comm_rank(g->comm), i, t;
	const struct ori_plan *plan;
	const struct ori_move *last;

	if (g->shape.node_of[rank] == g->shape.node_of[own])
		return false;
	if (internode_has_stage(g))
		return true;
	for (i = 0; i < ORI_ALGORITHMS; i++) {
		plan = &g->plans[i];
		if (!plan->count)
			continue;
		if (plan->expected[rank])
			return true;
		last = &plan->moves[plan->count - 1];
		for (t = 0; t < last->first + last->targets; t++)
			if (plan->targets[t] == rank)
				return true;
	}
	return false;
}

static bool internode_is_same_node(const struct ori_gather *g, uint32_t rank)
{
	uint32_t own = oriel_comm_rank(g->comm);

	return rank != own && g->shape.node_of[rank] == g->shape.node_of[own];
}

static size_t stage_slot(const struct ori_gather *g)
{
	return g->chunk < ORI_INTERNODE_SLOT ? g->chunk : ORI_INTERNODE_SLOT;
}

static size_t stage_slots(const struct ori_gather *g)
{
	return ORI_INTERNODE_SLOTS * stage_slot(g);
}

/* Whole lines: as many as the longest execution needs, while those of all ranks are not too many.
 */
size_t ori_internode_row(const struct ori_gather *g)
{
	size_t line = ORIEL_DEV_LINE, bytes = g->bytes_max;
	size_t most = ORI_INTERNODE_ROWS * stage_slots(g) / g->shape.ranks & ~(line - 1);

	if (g->kind->number == ORI_ALLREDUCE)
		bytes = ori_reduce_share(bytes, g->shape.ranks, 0).length;
	bytes = (bytes + line - 1) & ~(line - 1);
	if (bytes > most)
		bytes = most;
	return bytes ? bytes : line;
}

/* A row of sums for each node. */
size_t ori_internode_sums(const struct ori_gather *g)
{
	return ori_gather_may_choose(g, ORIEL_ALGORITHM_HIERARCHICAL)
		       ? g->shape.nodes * ori_internode_row(g) * ori_reduction_vectors(g)
		       : 0;
}

static size_t stage_rows(const struct ori_gather *g)
{
	return g->kind->is_reduction
		       ? g->shape.ranks * ori_internode_row(g) + 2 * ori_internode_sums(g)
		       : 0;
}

size_t ori_internode_staging(const struct ori_gather *g)
{
	/* Puts to other nodes alone have slots. */
	return internode_has_stage(g) ? stage_rows(g) + (g->shape.nodes > 1 ? stage_slots(g) : 0)
				      : 0;
}

static enum oriel_status stage_open(struct ori_internode *internode,
				    struct oriel_p2p_context *context)
{
	struct ori_gather *g = internode->g;
	uint32_t ranks = oriel_comm_size(g->comm);
	struct ori_internode_stage *stage = calloc(1, sizeof(*stage));
	void *memory = NULL;
	enum oriel_status status;

	internode->stage = stage;
	if (stage)
		stage->notes = calloc(ranks, sizeof(*stage->notes));
	if (!stage || !stage->notes)
		return ori_fail_nomem(sizeof(*stage) + ranks * sizeof(*stage->notes),
				      "%s of %u ranks", g->kind->name, ranks);
	stage->slot = stage_slot(g);
	stage->series.id = ORI_INTERNODE_CREDIT;
	status = oriel_copies_create(g->comm, &stage->copies);
	if (status == ORIEL_OK)
		status =
			oriel_copies_memory(stage->copies, ranks * sizeof(*stage->layout), &memory);
	stage->layout = memory;
	if (status == ORIEL_OK)
		status = oriel_window_buffer(g->window, ORI_GATHER_STAGING, &memory, NULL);
	if (status != ORIEL_OK)
		return status;
	stage->rows = memory;
	stage->base = stage->rows + stage_rows(g);
	return context ? oriel_p2p_register(context, stage->rows, ori_internode_staging(g), 0,
					    &stage->memory)
		       : ORIEL_OK;
}

/* No put from the staging is in progress. */
static void stage_close(struct ori_internode_stage *stage)
{
	if (!stage)
		return;
	oriel_p2p_unregister(stage->memory);
	oriel_copies_destroy(stage->copies);
	free(stage->notes);
	free(stage);
}

/* The local part. Stores the addresses of the endpoints in @addresses, one for each rank. */
static enum oriel_status internode_prepare(struct ori_internode *internode, char *addresses)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = ORIEL_P2P_ZERO_COPY,
					    .depth = ORI_INTERNODE_REQUESTS,
					    .paths = 1u << ORIEL_PATH_RDMA};
	struct ori_gather *g = internode->g;
	uint32_t ranks = oriel_comm_size(g->comm), rank;
	struct oriel_p2p_context *context = NULL;
	struct ori_internode_peer *peer;
	void *view = NULL, *rows = NULL;
	enum oriel_status status = oriel_comm_prepare(g->comm);

	if (status == ORIEL_OK)
		status = oriel_copies_create(g->comm, &internode->copies);
	/* Within a node there are copies alone. */
	if (status == ORIEL_OK && g->shape.nodes > 1)
		status = oriel_comm_p2p_context(g->comm, &context);
	if (status == ORIEL_OK && context)
		status = oriel_p2p_register(context, g->result, internode->length, 0,
					    &internode->memory);
	if (status == ORIEL_OK && internode_has_stage(g))
		status = stage_open(internode, context);
	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++) {
		peer = &internode->peers[rank];
		if (internode_is_same_node(g, rank)) {
			status = oriel_window_peer_address(g->window, rank,
							   oriel_at(ORI_GATHER_RESULT, 0), &view);
			if (status == ORIEL_OK && g->kind->is_reduction)
				status = oriel_window_peer_address(g->window, rank,
								   oriel_at(ORI_GATHER_STAGING, 0),
								   &rows);
			peer->view = view;
			peer->rows = rows;
		} else if (internode_needs(g, rank)) {
			status = oriel_p2p_create(context, &attr, &peer->p2p);
			if (status == ORIEL_OK)
				status = oriel_p2p_address(peer->p2p,
							   addresses + rank * ORIEL_P2P_ADDRESS);
		}
	}
	return status;
}

/*
 * Waits until all endpoints are connected. All ranks are in this call, so half of the timeout
 * is enough, and the rest is left for the agreement that reports a failure.
 */
static enum oriel_status internode_await_connections(struct ori_internode *internode)
{
	uint64_t begun = oriel_dev_clock_ns(), timeout_ns = oriel_comm_timeout(internode->g->comm);
	uint32_t ranks = oriel_comm_size(internode->g->comm), rank, missing = 1;
	enum oriel_status status = ORIEL_OK;

	while (missing && status == ORIEL_OK) {
		missing = 0;
		for (rank = 0; rank < ranks && status == ORIEL_OK; rank++) {
			if (!internode->peers[rank].p2p)
				continue;
			status = oriel_p2p_progress(internode->peers[rank].p2p);
			if (status == ORIEL_OK)
				status = oriel_p2p_check(internode->peers[rank].p2p);
			missing += status == ORIEL_AGAIN;
			if (status == ORIEL_AGAIN)
				status = ORIEL_OK;
		}
		if (missing && oriel_dev_clock_ns() - begun > timeout_ns / 2)
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"%s: %u p2p endpoints were not connected within %g s",
					internode->g->kind->name, missing,
					(double)timeout_ns / 2e9);
		if (missing)
			ori_dev_back_off(oriel_dev_clock_ns() - begun);
	}
	return status;
}

/*
 * An all-to-all of @each bytes over the bootstrap, in place: @mine holds a part for every rank,
 * and afterwards the part that every rank had for this one.
 */
static enum oriel_status internode_swap(const struct ori_internode *internode, char *mine,
					size_t each)
{
	uint32_t ranks = oriel_comm_size(internode->g->comm),
		 own = oriel_comm_rank(internode->g->comm), rank;
	char *all = malloc(ranks * ranks * each);
	enum oriel_status status = ORIEL_OK;

	if (!all)
		status = ori_fail_nomem(ranks * ranks * each, "the addresses of %u ranks", ranks);
	status = oriel_comm_agree(internode->g->comm, status);
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(internode->g->comm, mine, all, ranks * each);
	assert(all || status != ORIEL_OK);
	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++)
		memcpy(mine + rank * each, all + (rank * ranks + own) * each, each);
	free(all);
	return status;
}

static enum oriel_status internode_connect(struct ori_internode *internode, const char *addresses)
{
	uint32_t ranks = oriel_comm_size(internode->g->comm), rank;
	enum oriel_status status = ORIEL_OK;

	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++)
		if (internode->peers[rank].p2p)
			status = oriel_p2p_connect(internode->peers[rank].p2p,
						   addresses + rank * ORIEL_P2P_ADDRESS,
						   ORIEL_P2P_ADDRESS, 0);
	return status == ORIEL_OK ? internode_await_connections(internode) : status;
}

static enum oriel_status internode_export(struct ori_internode *internode,
					  const struct oriel_p2p_buffer *buffer, char *exports)
{
	uint32_t ranks = oriel_comm_size(internode->g->comm), rank;
	enum oriel_status status = ORIEL_OK;

	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++)
		if (internode->peers[rank].p2p)
			status = oriel_p2p_export(internode->peers[rank].p2p, buffer,
						  exports + rank * ORIEL_P2P_EXPORT);
	return status;
}

static enum oriel_status internode_import(struct ori_internode *internode, bool is_rows,
					  const char *exports)
{
	uint32_t ranks = oriel_comm_size(internode->g->comm), rank;
	enum oriel_status status = ORIEL_OK;
	struct ori_internode_peer *peer;

	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++) {
		peer = &internode->peers[rank];
		if (peer->p2p)
			status = oriel_p2p_import(peer->p2p, exports + rank * ORIEL_P2P_EXPORT,
						  ORIEL_P2P_EXPORT,
						  is_rows ? &peer->remote_rows : &peer->remote);
	}
	return status;
}

/* Collective: lets ranks of other nodes put to the view of this rank, or to its rows. */
static enum oriel_status internode_share(struct ori_internode *internode, bool is_rows, char *words)
{
	struct ori_gather *g = internode->g;
	struct oriel_p2p_buffer buffer = {g->result, internode->length, internode->memory};
	enum oriel_status status;

	if (is_rows)
		buffer = (struct oriel_p2p_buffer){internode->stage->rows, stage_rows(g),
						   internode->stage->memory};
	status = oriel_comm_agree(g->comm, internode_export(internode, &buffer, words));
	if (status == ORIEL_OK)
		status = internode_swap(internode, words, ORIEL_P2P_EXPORT);
	return status == ORIEL_OK ? internode_import(internode, is_rows, words) : status;
}

/* Collective. All ranks take part in each agreement, whatever failed before it. */
static enum oriel_status internode_connect_all(struct ori_internode *internode, char *words)
{
	struct oriel_comm *comm = internode->g->comm;
	enum oriel_status status = oriel_comm_agree(comm, internode_prepare(internode, words));

	if (status == ORIEL_OK)
		status = internode_swap(internode, words, ORIEL_P2P_ADDRESS);
	if (status == ORIEL_OK)
		status = oriel_comm_agree(comm, internode_connect(internode, words));
	if (status != ORIEL_OK)
		return status;
	status = internode_share(internode, false, words);
	if (!internode->g->kind->is_reduction)
		return status;
	status = oriel_comm_agree(comm, status);
	return status == ORIEL_OK ? internode_share(internode, true, words) : status;
}

enum oriel_status ori_internode_open(struct ori_gather *g, size_t length, enum oriel_status mine)
{
	uint32_t ranks = oriel_comm_size(g->comm);
	size_t notes = g->kind->has_notes ? oriel_dev_exchange_staging(ranks, 1) : 0;
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .length = notes,
					       .signals = ORI_INTERNODE_SIGNALS,
					       .barriers = ORIEL_NONE,
					       .counters = ORIEL_NONE,
					       .buffers = 1};
	struct ori_internode *internode =
		calloc(1, sizeof(*internode) + ranks * sizeof(internode->peers[0]));
	char *words = calloc(ranks, ORIEL_P2P_ADDRESS);
	enum oriel_status status = mine;

	if (status == ORIEL_OK && (!internode || !words))
		status = ori_fail_nomem(sizeof(*internode) + ranks * (sizeof(internode->peers[0]) +
								      ORIEL_P2P_ADDRESS),
					"%s of %u ranks", g->kind->name, ranks);
	status = oriel_comm_agree(g->comm, status);
	if (status != ORIEL_OK) {
		free(internode);
		free(words);
		return status;
	}
	assert(internode && words);
	internode->g = g;
	internode->length = length;
	g->internode = internode;
	status = oriel_window_create(g->comm, &attr, &internode->window);
	if (status == ORIEL_OK)
		status = oriel_comm_agree(g->comm, oriel_window_device(internode->window,
								       &internode->device));
	if (status == ORIEL_OK)
		status = internode_connect_all(internode, words);
	free(words);
	return status;
}

void ori_internode_close(struct ori_internode *internode)
{
	uint32_t rank;

	if (!internode)
		return;
	/* Collective: once all ranks are here no rank puts to this one any more. */
	oriel_window_destroy(internode->window);
	for (rank = 0; rank < oriel_comm_size(internode->g->comm); rank++)
		oriel_p2p_destroy(internode->peers[rank].p2p);
	stage_close(internode->stage);
	oriel_p2p_unregister(internode->memory);
	oriel_copies_destroy(internode->copies);
	free(internode);
}
