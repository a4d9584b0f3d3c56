/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a reduction of several nodes whose ranks are the blocks of the order, in host memory:
 * the algorithm HIERARCHICAL. reduce_nodes.c calls it.
 *
 * The rail of a rank is the ranks with its local rank, one of each node. In a round each rank puts
 * its elements of every part to the rank of its node that is in the rail of the part's owner. That
 * adds those of its node, which are a block of the order, and puts the sum, in the accumulation
 * type, to the owner. The owner adds the sums of all blocks and puts the end result to its rail and
 * its node; in an all-reduce each rank passes the results of its rail on to its node. So the
 * elements of a node cross the network once, and so do the results for it.
 *
 * A rank writes to the view of another one of its node after it has elements of that, and to that
 * of its rail after it has a sum of that: the other one has begun the execution then, and has put
 * or added its elements of the part, which may lie there. reduce_rounds.h says why the staging is
 * free.
 */
#include "coll/reduce_hierarchy.h"

enum hierarchy_phase {
	HIERARCHY_BEGIN,
	HIERARCHY_BLOCK,
	HIERARCHY_SUMS,
	HIERARCHY_RESULTS,
	HIERARCHY_REST,
	HIERARCHY_DRAIN
};

static uint32_t hierarchy_block(const struct ori_reduce_rounds *r)
{
	return r->job.g->reduction->fold.block;
}

static uint32_t hierarchy_nodes(const struct ori_reduce_rounds *r)
{
	return r->w->ranks / hierarchy_block(r);
}

static uint32_t hierarchy_node(const struct ori_reduce_rounds *r)
{
	return r->w->rank / hierarchy_block(r);
}

static uint32_t hierarchy_local(const struct ori_reduce_rounds *r)
{
	return r->w->rank % hierarchy_block(r);
}

/* Number @index of the other ranks of the node, from 1 on: each rank begins with another one. */
static uint32_t hierarchy_neighbour(const struct ori_reduce_rounds *r, uint32_t index)
{
	uint32_t block = hierarchy_block(r);

	return hierarchy_node(r) * block + (hierarchy_local(r) + index) % block;
}

/* Number @index of the other ranks of the rail, from 1 on. */
static uint32_t hierarchy_rail(const struct ori_reduce_rounds *r, uint32_t index)
{
	uint32_t node = (hierarchy_node(r) + index) % hierarchy_nodes(r);

	return node * hierarchy_block(r) + hierarchy_local(r);
}

/* The elements of a part of @node, from local rank @local, in the staging. */
static uint64_t hierarchy_elements(const struct ori_reduce_rounds *r, uint32_t local, uint32_t node)
{
	return ori_reduce_rounds_offset(r, local * hierarchy_nodes(r) + node);
}

static char *hierarchy_staging(const struct ori_reduce_rounds *r)
{
	return r->job.g->table[r->w->rank].base;
}

static enum oriel_status hierarchy_send(struct ori_reduce_rounds *r)
{
	uint32_t block = hierarchy_block(r), nodes = hierarchy_nodes(r), index, node, peer, owner;
	enum oriel_status status = ORIEL_OK;

	for (index = 1; index < block; index++) {
		peer = hierarchy_neighbour(r, index);
		for (node = 0; node < nodes && status == ORIEL_OK; node++) {
			owner = node * block + peer % block;
			status = oriel_dev_put(r->w, oriel_dev_thread(), peer,
					       oriel_at(ORI_GATHER_STAGING,
							hierarchy_elements(r, hierarchy_local(r),
									   node)),
					       ori_reduce_rounds_elements(r, owner),
					       ori_reduce_rounds_part(r, owner).length, NULL);
		}
		if (status == ORIEL_OK)
			status = oriel_dev_signal(r->w, oriel_dev_thread(), peer,
						  ORI_REDUCE_ELEMENTS, ORIEL_SIGNAL_ADD, 1, NULL);
	}
	return status;
}

/* Adds the elements of this node in the part of @owner, which is in the rail, to @sum. */
static void hierarchy_add_block(struct ori_reduce_rounds *r, uint32_t owner, uint64_t sum)
{
	struct ori_reduction *reduction = r->job.g->reduction;
	uint32_t block = hierarchy_block(r), first = hierarchy_node(r) * block, local;
	const char *staging = hierarchy_staging(r);

	for (local = 0; local < block; local++)
		reduction->inputs[first + local] =
			staging + hierarchy_elements(r, local, owner / block);
	reduction->inputs[r->w->rank] = ori_reduce_rounds_elements(r, owner);
	ori_fold_block(&reduction->fold, reduction->inputs, first, first + block,
		       hierarchy_staging(r) + sum,
		       ori_reduce_rounds_part(r, owner).length / reduction->fold.size);
}

/* The first sums are those of all nodes for the part of this rank, the others those of its node. */
static enum oriel_status hierarchy_add_blocks(struct ori_reduce_rounds *r)
{
	const struct ori_fold *f = &r->job.g->reduction->fold;
	uint32_t nodes = hierarchy_nodes(r), node = hierarchy_node(r), index, owner;
	enum oriel_status status = ORIEL_OK;
	uint64_t sum;

	for (index = 1; index < nodes && status == ORIEL_OK; index++) {
		owner = hierarchy_rail(r, index);
		sum = ori_reduce_rounds_sum(r, nodes + index);
		hierarchy_add_block(r, owner, sum);
		status = oriel_dev_put_signal(r->w, oriel_dev_thread(), owner,
					      oriel_at(ORI_GATHER_STAGING,
						       ori_reduce_rounds_sum(r, node)),
					      hierarchy_staging(r) + sum,
					      ori_reduce_rounds_part(r, owner).length / f->size *
						      f->sum_size,
					      ORI_REDUCE_ELEMENTS, 1, NULL);
	}
	hierarchy_add_block(r, r->w->rank, ori_reduce_rounds_sum(r, node));
	return status;
}

static void hierarchy_add_sums(struct ori_reduce_rounds *r)
{
	struct ori_reduction *reduction = r->job.g->reduction;
	uint32_t nodes = hierarchy_nodes(r), node;

	for (node = 0; node < nodes; node++)
		reduction->inputs[node] = hierarchy_staging(r) + ori_reduce_rounds_sum(r, node);
	ori_fold_sums(&reduction->fold, reduction->inputs, nodes, ori_reduce_rounds_result(r),
		      ori_reduce_rounds_part(r, r->w->rank).length / reduction->fold.size);
}

/* Waits for one signal ELEMENTS of each other rank of the node, or of the rail. */
static enum oriel_status hierarchy_take(struct ori_reduce_rounds *r, bool is_rail)
{
	uint32_t end = is_rail ? hierarchy_nodes(r) : hierarchy_block(r), peer;
	enum oriel_status status = ORIEL_OK;

	for (; r->index < end && status == ORIEL_OK; r->index += status == ORIEL_OK) {
		peer = is_rail ? hierarchy_rail(r, r->index) : hierarchy_neighbour(r, r->index);
		status = ori_gather_take(&r->job, peer, ORI_REDUCE_ELEMENTS, 1);
	}
	return status;
}

static enum oriel_status hierarchy_return(struct ori_reduce_rounds *r)
{
	const struct ori_gather *g = r->job.g;
	enum oriel_status status = ORIEL_OK;
	uint32_t index;

	if (g->kind->number == ORI_REDUCE && r->w->rank != r->root)
		return ori_reduce_rounds_return(r, r->root);
	if (g->kind->number != ORI_ALLREDUCE)
		return ORIEL_OK;
	for (index = 1; index < hierarchy_nodes(r) && status == ORIEL_OK; index++)
		status = ori_reduce_rounds_return(r, hierarchy_rail(r, index));
	for (index = 1; index < hierarchy_block(r) && status == ORIEL_OK; index++)
		status = ori_reduce_rounds_return(r, hierarchy_neighbour(r, index));
	return status;
}

/* The result of @owner, which is in the rail, has arrived in the view: the node needs it, too. */
static enum oriel_status hierarchy_pass(struct ori_reduce_rounds *r, uint32_t owner)
{
	struct ori_reduce_part part = ori_reduce_rounds_part(r, owner);
	enum oriel_status status = ORIEL_OK;
	uint32_t index;

	for (index = 1; index < hierarchy_block(r) && status == ORIEL_OK; index++)
		status = oriel_dev_put_signal(r->w, oriel_dev_thread(),
					      hierarchy_neighbour(r, index),
					      oriel_at(ORI_GATHER_RESULT, r->at + part.begin),
					      r->job.g->result + r->at + part.begin, part.length,
					      ORI_REDUCE_RESULTS, 1, NULL);
	return status;
}

/* All-reduce: takes the results of the rail, and passes them on. */
static enum oriel_status hierarchy_pass_all(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t owner;

	if (r->job.g->kind->number != ORI_ALLREDUCE)
		return ORIEL_OK;
	for (; r->index < hierarchy_nodes(r) && status == ORIEL_OK;
	     r->index += status == ORIEL_OK) {
		owner = hierarchy_rail(r, r->index);
		status = ori_gather_take(&r->job, owner, ORI_REDUCE_RESULTS, 1);
		if (status == ORIEL_OK)
			status = hierarchy_pass(r, owner);
	}
	return status;
}

/* Waits for the results that other ranks write to the view of this rank. */
static enum oriel_status hierarchy_rest(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ORIEL_OK;

	if (r->job.g->kind->number == ORI_REDUCE && r->w->rank == r->root)
		return ori_reduce_rounds_take(r, ORI_REDUCE_RESULTS);
	if (r->job.g->kind->number != ORI_ALLREDUCE)
		return ORIEL_OK;
	for (; r->index < hierarchy_block(r) && status == ORIEL_OK; r->index += status == ORIEL_OK)
		status = ori_gather_take(&r->job, hierarchy_neighbour(r, r->index),
					 ORI_REDUCE_RESULTS, hierarchy_nodes(r));
	return status;
}

static enum oriel_status hierarchy_phase(struct ori_reduce_rounds *r)
{
	enum oriel_status status = ORIEL_OK;

	switch ((enum hierarchy_phase)r->phase) {
	case HIERARCHY_BEGIN:
		return ori_reduce_rounds_phase(r, HIERARCHY_BLOCK,
					       ori_reduce_rounds_begin(r, hierarchy_send));
	case HIERARCHY_BLOCK:
		status = hierarchy_take(r, false);
		if (status == ORIEL_OK)
			status = hierarchy_add_blocks(r);
		return ori_reduce_rounds_phase(r, HIERARCHY_SUMS, status);
	case HIERARCHY_SUMS:
		status = hierarchy_take(r, true);
		/* The numbers of the node and of the rail came before. */
		if (status == ORIEL_OK && !r->at)
			status = ori_gather_compare(r->job.g, &r->job.g->reduction->heard);
		if (status != ORIEL_OK)
			return status;
		hierarchy_add_sums(r);
		status = hierarchy_return(r);
		if (status == ORIEL_OK)
			status = ori_reduce_rounds_ahead(r, hierarchy_send);
		return ori_reduce_rounds_phase(r, HIERARCHY_RESULTS, status);
	case HIERARCHY_RESULTS:
		return ori_reduce_rounds_phase(r, HIERARCHY_REST, hierarchy_pass_all(r));
	case HIERARCHY_REST:
		return ori_reduce_rounds_end(r, HIERARCHY_DRAIN, hierarchy_rest(r));
	case HIERARCHY_DRAIN:
		break;
	}
	return ORIEL_OK;
}

enum oriel_status ori_reduce_hierarchy_go_on(struct ori_gather_job *job)
{
	return ori_reduce_rounds_go_on(job, hierarchy_phase, HIERARCHY_DRAIN);
}
