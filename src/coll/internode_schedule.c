/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gathers and broadcasts over several nodes of GPUs: the moves of a plan in their order,
 * called by allgather.c, bcast.c, reduce_internode.c and by the job of gather_internode.c. A chunk
 * is passed on as soon as it arrives, to the carriers of other nodes by puts, to the ranks of this
 * node by copy engines, and no part of it waits for another chunk.
 *
 * The job copies the message to its offset in the view, not the caller's stream: a copy there
 * would wait for its stream in a queue of the GPU, and hold up copies of other ranks behind it.
 */
#include "base/error.h"
#include "coll/internode.h"

#define SCHEDULE_DIRECT_CHUNK ((size_t)16 << 20) /* a shorter message is put whole by DIRECT */

/* Blocks of no bytes are sent by no rank. */
static void schedule_expect(struct ori_internode *internode)
{
	const struct ori_internode_job *job = internode->run.job;
	struct ori_internode_peer *peer;
	uint32_t block;
	size_t length;

	for (block = 0; block < internode->device.ranks; block++) {
		length = ori_internode_length(job, block);
		if (!length || job->plan->sources[block] == ORI_PLAN_OWN)
			continue;
		peer = &internode->peers[job->plan->sources[block]];
		if (peer->p2p)
			peer->due += (length + job->chunk - 1) / job->chunk;
		else
			peer->awaits_data = true;
	}
}

static enum oriel_status schedule_begin(struct ori_internode *internode)
{
	struct ori_internode_run *run = &internode->run;
	const struct ori_internode_job *job = run->job;
	enum oriel_status status = ORIEL_OK;
	uint32_t rank;

	schedule_expect(internode);
	for (rank = 0; rank < internode->device.ranks && status == ORIEL_OK; rank++)
		if (internode->peers[rank].awaits_data)
			status = ori_internode_send_signal(internode, rank, ORI_INTERNODE_CREDIT);
	run->is_copying_source = job->send != NULL;
	if (status == ORIEL_OK && run->is_copying_source)
		status =
			oriel_copies_add(internode->copies, run->lane++,
					 internode->g->result + job->offset, job->send, job->bytes);
	return status;
}

static enum oriel_status schedule_put(struct ori_internode *internode,
				      struct ori_internode_peer *peer, uint64_t offset,
				      uint64_t length)
{
	const struct oriel_p2p_buffer from = {internode->g->result + offset, length,
					      internode->memory};
	struct oriel_p2p_request *request = ori_internode_free_request(&peer->puts);
	enum oriel_status status;

	if (!request)
		return ORIEL_AGAIN;
	status = oriel_p2p_put(peer->p2p, 0, &from, &peer->remote, offset, request);
	if (status == ORIEL_OK)
		peer->puts.begun++;
	return status;
}

static enum oriel_status schedule_copy(struct ori_internode *internode, uint32_t rank,
				       uint64_t offset, uint64_t length)
{
	struct ori_internode_peer *peer = &internode->peers[rank];
	enum oriel_status status = ORIEL_OK;

	if (!peer->has_credit)
		status = ori_internode_test_signal(internode, rank, ORI_INTERNODE_CREDIT,
						   &peer->credits);
	if (status != ORIEL_OK)
		return status;
	peer->has_credit = peer->is_notified = true;
	return oriel_copies_add(internode->copies, internode->run.lane++, peer->view + offset,
				internode->g->result + offset, length);
}

/* Sends the current chunk to its next target. ORIEL_AGAIN: not now. */
static enum oriel_status schedule_send(struct ori_internode *internode, const struct ori_move *move,
				       uint64_t length)
{
	const struct ori_internode_run *run = &internode->run;
	uint32_t to = run->job->plan->targets[move->first + run->target];
	uint64_t offset = run->job->begin + move->block * run->job->stride + run->offset;

	return internode->peers[to].p2p
		       ? schedule_put(internode, &internode->peers[to], offset, length)
		       : schedule_copy(internode, to, offset, length);
}

/* Has the current chunk arrived? Its arrival is counted once it was sent to all targets. */
static bool schedule_has_chunk(struct ori_internode *internode, const struct ori_move *move)
{
	struct ori_internode_peer *source;

	if (move->source == ORI_PLAN_OWN || internode->run.target)
		return true;
	source = &internode->peers[move->source];
	return source->taken < source->expects.done;
}

/* While the message is copied to the view no other copy is in progress. */
static enum oriel_status walk_place(struct ori_internode *internode, bool *has_moved)
{
	enum oriel_status status;

	if (!internode->run.is_copying_source)
		return ORIEL_OK;
	status = oriel_copies_test(internode->copies);
	if (status != ORIEL_OK)
		return status;
	internode->run.is_copying_source = false;
	*has_moved = true;
	return ORIEL_OK;
}

static enum oriel_status schedule_move(struct ori_internode *internode, bool *has_moved)
{
	struct ori_internode_run *run = &internode->run;
	const struct ori_internode_job *job = run->job;
	enum oriel_status status = walk_place(internode, has_moved);
	const struct ori_move *move;
	uint64_t block, length;

	if (status != ORIEL_OK)
		return status;
	while (run->move < job->plan->count) {
		move = &job->plan->moves[run->move];
		block = ori_internode_length(job, move->block);
		if (!block) {
			run->move++;
			continue;
		}
		length = block - run->offset < job->chunk ? block - run->offset : job->chunk;
		if (!schedule_has_chunk(internode, move))
			return ORIEL_AGAIN;
		for (; run->target < move->targets; run->target++) {
			status = schedule_send(internode, move, length);
			if (status != ORIEL_OK)
				return status;
			*has_moved = true;
		}
		if (move->source != ORI_PLAN_OWN)
			internode->peers[move->source].taken++;
		run->target = 0;
		run->offset += length;
		if (run->offset == block) {
			run->offset = 0;
			run->move++;
		}
	}
	return ORIEL_OK;
}

/* The source of the current chunk, or its next target if it has been sent to some. */
static uint32_t schedule_awaited(const struct ori_internode *internode)
{
	const struct ori_internode_run *run = &internode->run;
	const struct ori_plan *plan = run->job->plan;
	const struct ori_move *move = &plan->moves[run->move];

	if (run->is_copying_source)
		return ORI_PLAN_OWN;
	return run->target || move->source == ORI_PLAN_OWN
		       ? plan->targets[move->first + run->target]
		       : move->source;
}

static const struct ori_internode_ops schedule_ops = {schedule_begin, schedule_move,
						      schedule_awaited};

/* Lets the job copy @send to @offset in the view, unless it is there already. */
static enum oriel_status schedule_set_source(struct ori_internode_job *job, const char *send,
					     size_t offset)
{
	if (!send)
		return ori_fail(ORIEL_ERR_INVALID, "%s: what is sent is NULL", job->g->kind->name);
	job->offset = offset;
	job->send = send == job->g->result + offset ? NULL : send;
	return ORIEL_OK;
}

static struct ori_internode_job schedule_job(struct ori_gather *g, enum oriel_algorithm algorithm,
					     size_t bytes)
{
	const struct ori_internode_job job = {.ops = &schedule_ops,
					      .g = g,
					      .bytes = bytes,
					      .end = bytes,
					      .chunk = algorithm == ORIEL_ALGORITHM_DIRECT &&
								       bytes < SCHEDULE_DIRECT_CHUNK
							       ? bytes
							       : g->chunk};

	return job;
}

enum oriel_status ori_internode_allgather(struct ori_gather *g, enum oriel_algorithm algorithm,
					  const char *send, size_t bytes, void *stream)
{
	struct ori_internode_job job = schedule_job(g, algorithm, bytes);
	enum oriel_status status = schedule_set_source(&job, send, g->device.rank * bytes);

	job.plan = &g->plans[algorithm];
	job.stride = bytes;
	job.end = g->device.ranks * bytes;
	return status == ORIEL_OK ? ori_internode_post(&job, stream) : status;
}

enum oriel_status ori_internode_pieces(struct ori_gather *g, enum oriel_algorithm algorithm,
				       size_t begin, size_t piece, size_t length, void *stream)
{
	struct ori_internode_job job = schedule_job(g, algorithm, piece);

	job.plan = &g->plans[algorithm];
	job.begin = begin;
	job.stride = piece;
	job.end = length;
	return ori_internode_post(&job, stream);
}

enum oriel_status ori_internode_bcast(struct ori_gather *g, enum oriel_algorithm algorithm,
				      uint32_t root, const char *send, size_t bytes, void *stream)
{
	struct ori_internode_job job = schedule_job(g, algorithm, bytes);
	enum oriel_status status = ORIEL_OK;

	if (root == g->device.rank)
		status = schedule_set_source(&job, send, 0);
	if (status == ORIEL_OK)
		status = ori_plan_open_block(&job.own, &g->shape, algorithm, g->device.rank, root);
	if (status != ORIEL_OK)
		return status;
	job.plan = &job.own;
	status = ori_internode_post(&job, stream);
	if (status != ORIEL_OK)
		ori_plan_close(&job.own);
	return status;
}
