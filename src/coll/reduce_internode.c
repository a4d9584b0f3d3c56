/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a reduction of GPU memory of several nodes, and one to a root of any, by owners, in
 * rounds: an all-to-all brings the elements of each piece to the rows of its owner, a kernel of the
 * owner adds them, and in an all-reduce an all-gather brings the results to all views.
 * reduction_call.c calls it.
 *
 * The parts of a round follow each other in the stream. A peer writes to the rows of this rank once
 * its all-to-all of the next round has begun, which is behind its kernel of this one; and to its
 * view once its all-gather has begun, which is behind the last read of its elements there.
 */
#include <stdio.h>

#include <oriel/dev/reduction.h>

#include "coll/gather_internode.h"
#include "coll/reduction.h"

/* The most bytes of a piece that go along a tree: the limit of all-gathers (gather_choose.c). */
#define INTERNODE_BRUCK 16384u

struct internode_round {
	struct ori_gather *g;
	const char *send;
	size_t at;     /* of the message, or of each part of a reduce-scatter */
	size_t length; /* of this round */
	size_t bytes;  /* of all rounds */
	uint32_t root; /* of a reduction to one */
	void *stream;
	bool is_begun; /* a part of the execution is in the stream */
};

/* The piece of this round that this rank owns, of an all-reduce. */
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

/* Reduces @own of this round to the view; nothing, but with all checks, if it has no bytes. */
static enum oriel_status internode_add(const struct internode_round *r, struct ori_reduce_part own)
{
	struct ori_gather *g = r->g;
	const struct ori_fold *fold = &g->reduction->fold;
	const struct oriel_dev_reduction reduction = ori_reduction_device(g);
	const struct oriel_dev_gather rows = {.stride = ori_internode_row(g),
					      .result = g->result + r->at + own.begin};
	void *staging = NULL;
	enum oriel_status status =
		oriel_window_buffer(g->window, ORI_GATHER_STAGING, &staging, NULL);

	if (status != ORIEL_OK)
		return status;
	return oriel_window_reduce_rows_on_stream(g->window, &rows, &reduction,
						  internode_parts(g, own.length), staging,
						  own.length / fold->size, r->stream);
}

/* Brings the elements of this round to the rows of their owners. */
static enum oriel_status internode_send(struct internode_round *r,
					struct ori_internode_messages messages)
{
	enum oriel_status status;

	messages.send = r->send + r->at;
	status = ori_internode_rows(r->g, &messages, r->stream);
	r->is_begun |= status == ORIEL_OK;
	return status;
}

static enum oriel_status internode_scatter(struct internode_round *r)
{
	size_t end = (r->g->shape.ranks - 1) * r->bytes + r->length;
	enum oriel_status status =
		internode_send(r, (struct ori_internode_messages){.stride = r->bytes,
								  .bytes = r->length,
								  .end = end});

	return status == ORIEL_OK ? internode_add(r, (struct ori_reduce_part){0, r->length})
				  : status;
}

/* The root owns all elements. */
static enum oriel_status internode_to_root(struct internode_round *r)
{
	bool is_root = r->root == r->g->device.rank;
	enum oriel_status status =
		internode_send(r, (struct ori_internode_messages){.bytes = r->length,
								  .end = r->length,
								  .is_to_root = true,
								  .root = r->root});

	return status == ORIEL_OK && is_root
		       ? internode_add(r, (struct ori_reduce_part){0, r->length})
		       : status;
}

static enum oriel_status internode_all(struct internode_round *r)
{
	size_t piece = internode_piece(r, 0).length;
	enum oriel_algorithm algorithm =
		piece > INTERNODE_BRUCK ? ORIEL_ALGORITHM_RING : ORIEL_ALGORITHM_BRUCK;
	enum oriel_status status =
		internode_send(r, (struct ori_internode_messages){.stride = piece,
								  .bytes = piece,
								  .end = r->length});

	if (status == ORIEL_OK)
		status = internode_add(r, internode_piece(r, r->g->device.rank));
	return status == ORIEL_OK
		       ? ori_internode_pieces(r->g, algorithm, r->at, piece, r->length, r->stream)
		       : status;
}

static enum oriel_status internode_round(struct internode_round *r)
{
	switch (r->g->kind->number) {
	case ORI_REDUCE_SCATTER:
		return internode_scatter(r);
	case ORI_REDUCE:
		return internode_to_root(r);
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

enum oriel_status ori_reduce_internode(struct ori_gather *g, uint32_t root, const void *send,
				       size_t count, void *stream)
{
	bool is_all = g->kind->number == ORI_ALLREDUCE;
	size_t most = ori_internode_row(g) * (is_all ? g->shape.ranks : 1);
	struct internode_round r = {.g = g,
				    .send = send,
				    .bytes = ori_reduction_bytes(g, count),
				    .root = root,
				    .stream = stream};
	/* If kernels are rejected, then before anything is in the stream. */
	enum oriel_status status = internode_add(&r, (struct ori_reduce_part){0, 0});

	for (; r.at < r.bytes && status == ORIEL_OK; r.at += r.length) {
		r.length = r.bytes - r.at < most ? r.bytes - r.at : most;
		status = internode_round(&r);
	}
	if (status != ORIEL_OK && r.is_begun)
		internode_abort(g->comm);
	return status;
}
