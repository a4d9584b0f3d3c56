/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a reduction of GPU memory of several nodes, and one to a root of any, in rounds. By
 * owners an all-to-all brings the elements of each piece to the rows of its owner, and a kernel of
 * the owner adds them. HIERARCHICAL does that twice: within the nodes, and with their sums between
 * them. In an all-reduce an all-gather brings the results to all views. reduction_call.c calls it.
 *
 * The parts of a round follow each other in the stream. A peer writes to the rows of this rank once
 * its all-to-all of the next round has begun, which is behind its kernel of this one; and to its
 * view once its all-gather has begun, which is behind the last read of its elements there. The same
 * is true of the rows of sums, and of this rank's own sums, which its all-to-all has read.
 */
#include <stdio.h>

#include <oriel/dev/reduction.h>

#include "coll/gather_internode.h"
#include "coll/reduction.h"

/* The most bytes of a piece that go along a tree: the limit of all-gathers (gather_choose.c). */
#define INTERNODE_BRUCK 16384u
#define INTERNODE_STEP 64u /* bytes: those of a share are a multiple, and rows have no fewer */

struct internode_round {
	struct ori_gather *g;
	const char *send;
	size_t at;     /* of the message, or of each part of a reduce-scatter */
	size_t length; /* of this round */
	size_t bytes;  /* of all rounds */
	uint32_t root; /* of a reduction to one */
	void *stream;
	bool is_hierarchical;
	bool is_begun; /* a part of the execution is in the stream */
};

/* The piece of this round that @rank owns, if each rank owns one. */
static struct ori_reduce_part internode_piece(const struct internode_round *r, uint32_t rank)
{
	return ori_reduce_share(r->length, r->g->shape.ranks, rank);
}

/* Blocks of the kernel that reduces @bytes: a vector for each thread, while there are blocks. */
static uint32_t internode_parts(const struct ori_gather *g, size_t bytes)
{
	size_t parts = bytes / ORI_REDUCE_STAGED_PART + 1;

	return parts < g->parts ? (uint32_t)parts : g->parts;
}

static enum oriel_status internode_staging(const struct internode_round *r, char **staging)
{
	void *memory = NULL;
	enum oriel_status status =
		oriel_window_buffer(r->g->window, ORI_GATHER_STAGING, &memory, NULL);

	if (status == ORIEL_OK)
		*staging = memory;
	return status;
}

static enum oriel_status internode_send(struct internode_round *r,
					const struct ori_internode_messages *messages)
{
	enum oriel_status status = ori_internode_send(r->g, messages, r->stream);

	r->is_begun |= status == ORIEL_OK;
	return status;
}

/*
 * Reduces the rows of all ranks, of @bytes, to @result; nothing, but with all checks, if there are
 * none.
 */
static enum oriel_status internode_add(const struct internode_round *r, size_t bytes, char *result)
{
	struct ori_gather *g = r->g;
	const struct oriel_dev_reduction reduction = ori_reduction_device(g);
	const struct oriel_dev_gather rows = {.stride = ori_internode_row(g), .result = result};
	char *staging = NULL;
	enum oriel_status status = internode_staging(r, &staging);

	return status == ORIEL_OK
		       ? oriel_window_reduce_rows_on_stream(g->window, &rows, &reduction,
							    internode_parts(g, bytes), staging,
							    bytes / g->reduction->fold.size,
							    r->stream)
		       : status;
}

/* Brings the elements to the rows of their owners, and reduces the @bytes of this rank. */
static enum oriel_status internode_by_owners(struct internode_round *r,
					     struct ori_internode_messages messages, size_t bytes,
					     char *result)
{
	enum oriel_status status;

	messages.is_to_rows = true;
	messages.row = ori_internode_row(r->g);
	status = internode_send(r, &messages);
	return status == ORIEL_OK ? internode_add(r, bytes, result) : status;
}

/* The elements that this rank adds for its node: those for its rail, @step apart. */
static size_t internode_rail(const struct internode_round *r,
			     const struct ori_internode_messages *messages, size_t step)
{
	const struct ori_shape *shape = &r->g->shape;
	uint32_t local = shape->local_rank_of[r->g->device.rank], node;
	size_t begin, rest;

	for (node = shape->nodes; node-- > 0;) {
		begin = shape->members[shape->first[node] + local] * messages->stride;
		if (begin >= messages->end)
			continue;
		rest = messages->end - begin;
		return node * step + (rest < messages->bytes ? rest : messages->bytes);
	}
	return 0;
}

/*
 * HIERARCHICAL: the elements for a rail go to the rank of the node that is in it, which adds those
 * of the node, a block of the order. Its sums for each owner go to that, which adds those of all
 * nodes. Between two owners there are whole vectors, and so between their sums: what lies there
 * behind the elements has no meaning.
 */
static enum oriel_status internode_by_nodes(struct internode_round *r,
					    struct ori_internode_messages messages, size_t bytes,
					    char *result)
{
	struct ori_gather *g = r->g;
	const struct oriel_dev_reduction reduction = ori_reduction_device(g);
	size_t step = (messages.bytes + INTERNODE_STEP - 1) & ~(size_t)(INTERNODE_STEP - 1);
	size_t rail = internode_rail(r, &messages, step), size = g->reduction->fold.size;
	size_t vectors = ori_reduction_vectors(g), at = g->shape.ranks * ori_internode_row(g);
	struct oriel_dev_gather rows = {.stride = g->shape.nodes * step};
	struct ori_internode_messages sums = {.stride = step * vectors,
					      .bytes = step * vectors,
					      .end = ((rail + 15) & ~(size_t)15) * vectors,
					      .route = ORI_INTERNODE_IN_RAIL,
					      .is_to_rows = true,
					      .at = at,
					      .row = step * vectors};
	char *staging = NULL;
	enum oriel_status status = internode_staging(r, &staging);

	if (status != ORIEL_OK)
		return status;
	messages.route = ORI_INTERNODE_IN_NODE;
	messages.is_to_rows = true;
	messages.row = step;
	status = internode_send(r, &messages);
	sums.send = rows.result = staging + at + ori_internode_sums(g);
	if (status == ORIEL_OK)
		status = oriel_window_reduce_block_on_stream(g->window, &rows, &reduction,
							     internode_parts(g, rail),
							     g->shape.node_of[g->device.rank],
							     staging, rail / size, r->stream);
	if (status == ORIEL_OK)
		status = internode_send(r, &sums);
	rows = (struct oriel_dev_gather){.stride = step * vectors, .result = result};
	return status == ORIEL_OK
		       ? oriel_window_reduce_sums_on_stream(g->window, &rows, &reduction,
							    internode_parts(g, bytes), staging + at,
							    bytes / size, r->stream)
		       : status;
}

/* Reduces the @bytes of which this rank is the owner to @result. */
static enum oriel_status internode_reduce(struct internode_round *r,
					  const struct ori_internode_messages *messages,
					  size_t bytes, char *result)
{
	return r->is_hierarchical ? internode_by_nodes(r, *messages, bytes, result)
				  : internode_by_owners(r, *messages, bytes, result);
}

static enum oriel_status internode_scatter(struct internode_round *r)
{
	const struct ori_internode_messages messages = {.send = r->send + r->at,
							.stride = r->bytes,
							.bytes = r->length,
							.end = (r->g->shape.ranks - 1) * r->bytes +
							       r->length};

	return internode_reduce(r, &messages, r->length, r->g->result + r->at);
}

/* Each rank owns a piece of the round. */
static struct ori_internode_messages internode_pieces(const struct internode_round *r)
{
	size_t piece = internode_piece(r, 0).length;

	return (struct ori_internode_messages){.send = r->send + r->at,
					       .stride = piece,
					       .bytes = piece,
					       .end = r->length};
}

/* The root owns all elements. */
static enum oriel_status internode_to_root(struct internode_round *r)
{
	bool is_root = r->root == r->g->device.rank;
	const struct ori_internode_messages messages = {.send = r->send + r->at,
							.bytes = r->length,
							.end = r->length,
							.route = ORI_INTERNODE_TO_ROOT,
							.root = r->root};

	return internode_by_owners(r, messages, is_root ? r->length : 0, r->g->result + r->at);
}

/*
 * HIERARCHICAL: all ranks own pieces, and send the results to the root, from where its result
 * belongs or from the rows, which are free then.
 */
static enum oriel_status internode_nodes_to_root(struct internode_round *r)
{
	struct ori_gather *g = r->g;
	struct ori_internode_messages messages = internode_pieces(r);
	struct ori_reduce_part own = internode_piece(r, g->device.rank);
	char *results = NULL;
	enum oriel_status status = internode_staging(r, &results);

	if (r->root == g->device.rank)
		results = g->result + r->at;
	if (status == ORIEL_OK)
		status = internode_by_nodes(r, messages, own.length, results + own.begin);
	if (status != ORIEL_OK)
		return status;
	messages.send = results;
	messages.route = ORI_INTERNODE_TO_ROOT;
	messages.root = r->root;
	messages.at = r->at;
	messages.row = messages.stride;
	return internode_send(r, &messages);
}

static enum oriel_status internode_all(struct internode_round *r)
{
	const struct ori_internode_messages messages = internode_pieces(r);
	struct ori_reduce_part own = internode_piece(r, r->g->device.rank);
	enum oriel_algorithm algorithm =
		messages.bytes > INTERNODE_BRUCK ? ORIEL_ALGORITHM_RING : ORIEL_ALGORITHM_BRUCK;
	enum oriel_status status =
		internode_reduce(r, &messages, own.length, r->g->result + r->at + own.begin);

	return status == ORIEL_OK ? ori_internode_pieces(r->g, algorithm, r->at, messages.bytes,
							 r->length, r->stream)
				  : status;
}

static enum oriel_status internode_round(struct internode_round *r)
{
	switch (r->g->kind->number) {
	case ORI_REDUCE_SCATTER:
		return internode_scatter(r);
	case ORI_REDUCE:
		return r->is_hierarchical ? internode_nodes_to_root(r) : internode_to_root(r);
	default:
		return internode_all(r);
	}
}

/* Peers would wait for the parts that are missing, or take those of the next execution for them. */
static void internode_abort(struct oriel_comm *comm)
{
	struct oriel_health health = {.size = sizeof(health)};
	char text[256];

	snprintf(text, sizeof(text), "%s", oriel_last_error());
	if (oriel_comm_health(comm, &health) == ORIEL_OK && health.status == ORIEL_OK)
		oriel_comm_abort(comm, text);
}

enum oriel_status ori_reduce_internode(struct ori_gather *g, enum oriel_algorithm algorithm,
				       uint32_t root, const void *send, size_t count, void *stream)
{
	bool is_hierarchical = algorithm == ORIEL_ALGORITHM_HIERARCHICAL;
	bool has_pieces = g->kind->number == ORI_ALLREDUCE ||
			  (g->kind->number == ORI_REDUCE && is_hierarchical);
	size_t most = ori_internode_row(g) * (has_pieces ? g->shape.ranks : 1);
	struct internode_round r = {.g = g,
				    .send = send,
				    .bytes = ori_reduction_bytes(g, count),
				    .root = root,
				    .stream = stream,
				    .is_hierarchical = is_hierarchical};
	/* If kernels are rejected, then before anything is in the stream. */
	enum oriel_status status = internode_add(&r, 0, g->result);

	for (; r.at < r.bytes && status == ORIEL_OK; r.at += r.length) {
		r.length = r.bytes - r.at < most ? r.bytes - r.at : most;
		status = internode_round(&r);
	}
	if (status != ORIEL_OK && r.is_begun)
		internode_abort(g->comm);
	return status;
}
