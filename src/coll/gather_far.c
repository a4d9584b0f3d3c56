/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution is a walk through the moves of a plan. A chunk goes on as soon as it
 * has come: to the carriers of other nodes by puts, to the ranks of this node by copy
 * engines, and nothing of it waits for another chunk. Ranks of other nodes put what
 * this one expects, so that is their credit; those of this node wait for a signal.
 */
#include "coll/gather_far.h"

#include <stdlib.h>

#include <oriel/p2p.h>
#include <oriel/progress.h>

#include "base/error.h"

#define FAR_SETTLE_NS 2000000000u
#define FAR_REQUESTS 16u /* puts and expects of one pair that are under way, each */

/* Of the window of signals. */
enum far_signal { FAR_CREDIT, FAR_DATA, FAR_SIGNALS };

/* Requests in the order in which they were begun; those between @done and @begun are not over. */
struct far_queue {
	struct oriel_p2p_request requests[FAR_REQUESTS];
	uint64_t begun, done;
};

/* One rank. */
struct far_peer {
	/* Of another node, if any plan has it. */
	struct oriel_p2p *p2p;
	struct oriel_p2p_remote remote; /* its view */
	struct far_queue puts, expects;
	uint64_t taken; /* chunks that have come and were dealt with, in this execution */

	/* Of this node. */
	char *view;              /* its, mapped here */
	uint64_t credits, data;  /* signals that executions have used up */
	bool has_credit, is_due; /* in this execution; something was copied there */
};

enum far_phase { FAR_IDLE, FAR_MOVING, FAR_ENDING, FAR_WAITING };

struct far_job {
	struct oriel_allgather *g;
	const struct ori_plan *plan;
	size_t bytes;
	size_t chunk;
};

/* The execution under way. */
struct far_run {
	enum far_phase phase;
	const struct far_job *job;
	uint64_t chunks;   /* of a block */
	uint32_t move;     /* of the plan */
	uint64_t at;       /* of the block */
	uint32_t target;   /* of the move */
	uint32_t lane;     /* of the next copy */
	uint64_t moved_ns; /* when it last got any further */
};

struct ori_far {
	struct oriel_allgather *g;   /* borrowed */
	struct oriel_window *window; /* of signals, in host memory */
	struct oriel_dev_window device;
	struct oriel_copies *copies;
	struct oriel_p2p_memory *memory; /* the view */
	struct far_run run;
	struct far_peer peers[];
};

/* Is all of it done that is first in @q? Those behind are not done before. */
static enum oriel_status queue_test(struct far_queue *q, bool *has_moved)
{
	enum oriel_status status;

	while (q->done < q->begun) {
		status = q->requests[q->done % FAR_REQUESTS].status;
		if (status == ORIEL_AGAIN)
			break;
		if (status != ORIEL_OK)
			return status;
		q->done++;
		*has_moved = true;
	}
	return ORIEL_OK;
}

static struct oriel_p2p_request *queue_next(struct far_queue *q)
{
	return q->begun - q->done < FAR_REQUESTS ? &q->requests[q->begun % FAR_REQUESTS] : NULL;
}

/* Expect as much as can be, and see what has come. */
static enum oriel_status far_expect(struct ori_far *far, uint32_t rank, bool *has_moved)
{
	const struct far_run *run = &far->run;
	struct far_peer *peer = &far->peers[rank];
	uint64_t all = run->job->plan->expected[rank] * run->chunks;
	struct oriel_p2p_request *request;
	enum oriel_status status = oriel_p2p_progress(peer->p2p);

	if (status == ORIEL_OK)
		status = queue_test(&peer->puts, has_moved);
	if (status == ORIEL_OK)
		status = queue_test(&peer->expects, has_moved);
	while (status == ORIEL_OK && peer->expects.begun < all) {
		request = queue_next(&peer->expects);
		if (!request)
			break;
		status = oriel_p2p_expect(peer->p2p, 0, request);
		if (status == ORIEL_OK) {
			peer->expects.begun++;
			*has_moved = true;
		}
	}
	return status;
}

static enum oriel_status far_progress(struct ori_far *far, bool *has_moved)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t rank;

	for (rank = 0; rank < far->device.ranks && status == ORIEL_OK; rank++)
		if (far->peers[rank].p2p)
			status = far_expect(far, rank, has_moved);
	return status;
}

/* Has @rank of this node raised @id once more than executions have used up? */
static enum oriel_status far_test_signal(struct ori_far *far, uint32_t rank, enum far_signal id,
					 uint64_t *used)
{
	uint64_t value = 0;
	enum oriel_status status = oriel_dev_read_signal_from(&far->device, rank, id, &value);

	if (status != ORIEL_OK)
		return status;
	if (value == *used)
		return ORIEL_AGAIN;
	++*used;
	return ORIEL_OK;
}

static enum oriel_status far_raise(struct ori_far *far, uint32_t rank, enum far_signal id)
{
	int64_t posted =
		oriel_dev_signal(&far->device, oriel_dev_thread(), rank, id, ORIEL_SIGNAL_ADD, 1);

	return posted < 0 ? (enum oriel_status)posted : ORIEL_OK;
}

/* From now on the others may write to the view. */
static enum oriel_status far_begin(struct ori_far *far, const struct far_job *job)
{
	enum oriel_status status = ORIEL_OK;
	struct far_peer *peer;
	uint32_t rank;

	far->run = (struct far_run){.phase = FAR_MOVING,
				    .job = job,
				    .chunks = (job->bytes + job->chunk - 1) / job->chunk,
				    .moved_ns = oriel_dev_clock_ns()};
	for (rank = 0; rank < far->device.ranks && status == ORIEL_OK; rank++) {
		peer = &far->peers[rank];
		peer->has_credit = peer->is_due = false;
		peer->puts.begun = peer->puts.done = 0;
		peer->expects.begun = peer->expects.done = 0;
		peer->taken = 0;
		if (peer->view && job->plan->expected[rank])
			status = far_raise(far, rank, FAR_CREDIT);
	}
	return status;
}

static enum oriel_status far_put(struct ori_far *far, struct far_peer *peer, uint64_t at,
				 uint64_t length)
{
	const struct oriel_p2p_buffer from = {far->g->result + at, length, far->memory};
	struct oriel_p2p_request *request = queue_next(&peer->puts);
	enum oriel_status status;

	if (!request)
		return ORIEL_AGAIN;
	status = oriel_p2p_put(peer->p2p, 0, &from, &peer->remote, at, request);
	if (status == ORIEL_OK)
		peer->puts.begun++;
	return status;
}

static enum oriel_status far_copy(struct ori_far *far, uint32_t rank, uint64_t at, uint64_t length)
{
	struct far_peer *peer = &far->peers[rank];
	enum oriel_status status = ORIEL_OK;

	if (!peer->has_credit)
		status = far_test_signal(far, rank, FAR_CREDIT, &peer->credits);
	if (status != ORIEL_OK)
		return status;
	peer->has_credit = peer->is_due = true;
	return oriel_copies_add(far->copies, far->run.lane++, peer->view + at, far->g->result + at,
				length);
}

/* The chunk at which the walk stands, to its next target. ORIEL_AGAIN: not now. */
static enum oriel_status far_send(struct ori_far *far, const struct ori_move *move, uint64_t length)
{
	const struct far_run *run = &far->run;
	uint32_t to = run->job->plan->targets[move->first + run->target];
	uint64_t at = move->block * run->job->bytes + run->at;

	return far->peers[to].p2p ? far_put(far, &far->peers[to], at, length)
				  : far_copy(far, to, at, length);
}

/* Has the chunk at which the walk stands come? */
static bool far_has(struct ori_far *far, const struct ori_move *move)
{
	struct far_peer *source;

	if (move->source == ORI_PLAN_OWN || far->run.target)
		return true;
	source = &far->peers[move->source];
	return source->taken < source->expects.done;
}

/* As far as it goes now. */
static enum oriel_status far_walk(struct ori_far *far, bool *has_moved)
{
	struct far_run *run = &far->run;
	const struct far_job *job = run->job;
	const struct ori_move *move;
	enum oriel_status status;
	uint64_t length;

	while (run->move < job->plan->count) {
		move = &job->plan->moves[run->move];
		length = job->bytes - run->at < job->chunk ? job->bytes - run->at : job->chunk;
		if (!far_has(far, move))
			return ORIEL_AGAIN;
		for (; run->target < move->targets; run->target++) {
			status = far_send(far, move, length);
			if (status != ORIEL_OK)
				return status;
			*has_moved = true;
		}
		if (move->source != ORI_PLAN_OWN)
			far->peers[move->source].taken++;
		run->target = 0;
		run->at += length;
		if (run->at == job->bytes) {
			run->at = 0;
			run->move++;
		}
	}
	run->phase = FAR_ENDING;
	return ORIEL_OK;
}

/* All has left, and what ranks of this node wait for is there: tell them. */
static enum oriel_status far_end(struct ori_far *far)
{
	enum oriel_status status = oriel_copies_test(far->copies);
	uint32_t rank;

	for (rank = 0; rank < far->device.ranks && status == ORIEL_OK; rank++)
		if (far->peers[rank].puts.done < far->peers[rank].puts.begun)
			return ORIEL_AGAIN;
	for (rank = 0; rank < far->device.ranks && status == ORIEL_OK; rank++)
		if (far->peers[rank].is_due)
			status = far_raise(far, rank, FAR_DATA);
	if (status == ORIEL_OK)
		far->run.phase = FAR_WAITING;
	return status;
}

/* Has all come? */
static enum oriel_status far_wait(struct ori_far *far)
{
	const struct far_run *run = &far->run;
	const uint32_t *expected = run->job->plan->expected;
	enum oriel_status status;
	struct far_peer *peer;
	uint32_t rank;

	for (rank = 0; rank < far->device.ranks; rank++) {
		peer = &far->peers[rank];
		if (peer->p2p && peer->expects.done < expected[rank] * run->chunks)
			return ORIEL_AGAIN;
		if (!peer->view || !expected[rank] || peer->taken)
			continue;
		status = far_test_signal(far, rank, FAR_DATA, &peer->data);
		if (status != ORIEL_OK)
			return status;
		peer->taken = 1;
	}
	return ORIEL_OK;
}

static enum oriel_status far_go_on(struct ori_far *far, bool *has_moved)
{
	enum oriel_status status = far_progress(far, has_moved);

	if (status == ORIEL_OK && far->run.phase == FAR_MOVING)
		status = far_walk(far, has_moved);
	if (status == ORIEL_OK && far->run.phase == FAR_ENDING)
		status = far_end(far);
	return status == ORIEL_OK ? far_wait(far) : status;
}

/* Who keeps it waiting: the source of the walk, or a rank that is told to or tells. */
static enum oriel_status far_late(const struct ori_far *far, uint64_t timeout_ns)
{
	const struct far_run *run = &far->run;
	const struct ori_plan *plan = run->job->plan;
	const struct ori_move *move = &plan->moves[run->move];
	uint32_t peer = ORI_PLAN_OWN;

	if (run->phase == FAR_MOVING)
		peer = run->target || move->source == ORI_PLAN_OWN
			       ? plan->targets[move->first + run->target]
			       : move->source;
	if (peer == ORI_PLAN_OWN)
		return ori_fail(ORIEL_ERR_TIMEOUT, "all-gather: the others did not end it in %g s",
				(double)timeout_ns / 1e9);
	return ori_fail(ORIEL_ERR_TIMEOUT, "all-gather: waited %g s in vain for rank %u",
			(double)timeout_ns / 1e9, peer);
}

/* What the stream is to come past, no copy of this rank is to read or write any more. */
static void far_settle(struct ori_far *far)
{
	uint64_t begun = oriel_dev_clock_ns();

	while (oriel_copies_test(far->copies) == ORIEL_AGAIN &&
	       oriel_dev_clock_ns() - begun < FAR_SETTLE_NS)
		oriel_dev_give_way(oriel_dev_clock_ns() - begun);
}

static enum oriel_status far_advance(struct ori_far *far, const struct far_job *job,
				     bool *has_moved)
{
	uint64_t timeout_ns = oriel_comm_timeout(job->g->comm);
	enum oriel_status status = ORIEL_OK;

	if (far->run.phase == FAR_IDLE) {
		status = far_begin(far, job);
		*has_moved = true;
	} else if (far->run.job != job) {
		return ORIEL_AGAIN;
	}
	if (status == ORIEL_OK)
		status = far_go_on(far, has_moved);
	if (*has_moved)
		far->run.moved_ns = oriel_dev_clock_ns();
	if (status == ORIEL_OK)
		far->run.phase = FAR_IDLE;
	if (status == ORIEL_AGAIN && !*has_moved &&
	    oriel_dev_clock_ns() - far->run.moved_ns > timeout_ns)
		return far_late(far, timeout_ns);
	return status;
}

/* The one after a failure is the last. */
static enum oriel_status far_step(void *context, bool *has_moved)
{
	const struct far_job *job = context;
	struct ori_far *far = job->g->far;
	enum oriel_status status = oriel_dev_health(&far->device);

	if (status == ORIEL_OK)
		status = far_advance(far, job, has_moved);
	if (status < 0)
		far_settle(far);
	return status;
}

enum oriel_status ori_far_start(struct oriel_allgather *g, const struct ori_plan *plan,
				size_t bytes, size_t chunk, void *stream)
{
	struct far_job *job = malloc(sizeof(*job));
	const struct oriel_job call = {sizeof(call), far_step, free, job};
	enum oriel_status status;

	if (!job)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for an execution of an all-gather");
	*job = (struct far_job){g, plan, bytes, chunk};
	status = oriel_comm_post(g->comm, &call, stream);
	if (status != ORIEL_OK)
		free(job);
	return status;
}

/* Does any plan of this rank have @rank, of another node? */
static bool far_needs(const struct oriel_allgather *g, uint32_t rank)
{
	uint32_t own = oriel_comm_rank(g->comm), i, t;
	const struct ori_plan *plan;
	const struct ori_move *last;

	if (g->shape.node_of[rank] == g->shape.node_of[own])
		return false;
	for (i = 0; i < ORIEL_ALGORITHMS; i++) {
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

static bool far_is_near(const struct oriel_allgather *g, uint32_t rank)
{
	uint32_t own = oriel_comm_rank(g->comm);

	return rank != own && g->shape.node_of[rank] == g->shape.node_of[own];
}

/* This rank's, before anybody else is asked; addresses of ends go to @addresses. */
static enum oriel_status far_prepare(struct ori_far *far, size_t length, char *addresses)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = ORIEL_P2P_ZERO_COPY,
					    .depth = FAR_REQUESTS,
					    .paths = 1u << ORIEL_PATH_RDMA};
	struct oriel_allgather *g = far->g;
	uint32_t ranks = oriel_comm_size(g->comm), rank;
	struct oriel_p2p_hub *hub = NULL;
	struct far_peer *peer;
	void *view = NULL;
	enum oriel_status status = oriel_comm_prepare(g->comm);

	if (status == ORIEL_OK)
		status = oriel_copies_create(g->comm, &far->copies);

	if (status == ORIEL_OK)
		status = oriel_comm_p2p_hub(g->comm, &hub);
	if (status == ORIEL_OK)
		status = oriel_p2p_register(hub, g->result, length, 0, &far->memory);
	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++) {
		peer = &far->peers[rank];
		if (far_is_near(g, rank)) {
			status = oriel_window_peer_address(g->window, rank,
							   oriel_at(ORI_GATHER_RESULT, 0), &view);
			peer->view = view;
		} else if (far_needs(g, rank)) {
			status = oriel_p2p_create(hub, &attr, &peer->p2p);
			if (status == ORIEL_OK)
				status = oriel_p2p_address(peer->p2p,
							   addresses + rank * ORIEL_P2P_ADDRESS);
		}
	}
	return status;
}

/* Until all ends are joined, which all ranks are at. */
static enum oriel_status far_join(struct ori_far *far)
{
	uint64_t begun = oriel_dev_clock_ns(), timeout_ns = oriel_comm_timeout(far->g->comm);
	uint32_t ranks = oriel_comm_size(far->g->comm), rank, missing = 1;
	enum oriel_status status = ORIEL_OK;

	while (missing && status == ORIEL_OK) {
		missing = 0;
		for (rank = 0; rank < ranks && status == ORIEL_OK; rank++) {
			if (!far->peers[rank].p2p)
				continue;
			status = oriel_p2p_progress(far->peers[rank].p2p);
			if (status == ORIEL_OK)
				status = oriel_p2p_check(far->peers[rank].p2p);
			missing += status == ORIEL_AGAIN;
			if (status == ORIEL_AGAIN)
				status = ORIEL_OK;
		}
		if (missing && oriel_dev_clock_ns() - begun > timeout_ns / 2)
			return ori_fail(ORIEL_ERR_TIMEOUT,
					"all-gather: %u ends of p2p were not joined in %g s",
					missing, (double)timeout_ns / 2e9);
		if (missing)
			oriel_dev_give_way(oriel_dev_clock_ns() - begun);
	}
	return status;
}

/* A row of @each bytes for every rank to every rank; those to this one, in order of the ranks. */
static enum oriel_status far_exchange(const struct ori_far *far, char *mine, size_t each)
{
	uint32_t ranks = oriel_comm_size(far->g->comm), own = oriel_comm_rank(far->g->comm), rank;
	char *all = malloc(ranks * ranks * each);
	enum oriel_status status = ORIEL_OK;

	if (!all)
		status = ori_fail(ORIEL_ERR_NOMEM, "no memory for %u ranks", ranks);
	status = oriel_comm_agree(far->g->comm, status);
	if (status == ORIEL_OK)
		status = oriel_comm_all_gather(far->g->comm, mine, all, ranks * each);
	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++)
		memcpy(mine + rank * each, all + (rank * ranks + own) * each, each);
	free(all);
	return status;
}

static enum oriel_status far_connect(struct ori_far *far, const char *addresses)
{
	uint32_t ranks = oriel_comm_size(far->g->comm), rank;
	enum oriel_status status = ORIEL_OK;

	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++)
		if (far->peers[rank].p2p)
			status = oriel_p2p_connect(far->peers[rank].p2p,
						   addresses + rank * ORIEL_P2P_ADDRESS,
						   ORIEL_P2P_ADDRESS, 0);
	return status == ORIEL_OK ? far_join(far) : status;
}

static enum oriel_status far_export(struct ori_far *far, size_t length, char *exports)
{
	const struct oriel_p2p_buffer view = {far->g->result, length, far->memory};
	uint32_t ranks = oriel_comm_size(far->g->comm), rank;
	enum oriel_status status = ORIEL_OK;

	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++)
		if (far->peers[rank].p2p)
			status = oriel_p2p_export(far->peers[rank].p2p, &view,
						  exports + rank * ORIEL_P2P_EXPORT);
	return status;
}

static enum oriel_status far_import(struct ori_far *far, const char *exports)
{
	uint32_t ranks = oriel_comm_size(far->g->comm), rank;
	enum oriel_status status = ORIEL_OK;

	for (rank = 0; rank < ranks && status == ORIEL_OK; rank++)
		if (far->peers[rank].p2p)
			status = oriel_p2p_import(far->peers[rank].p2p,
						  exports + rank * ORIEL_P2P_EXPORT,
						  ORIEL_P2P_EXPORT, &far->peers[rank].remote);
	return status;
}

/* All ranks come to each of these, whatever became of one before. */
static enum oriel_status far_meet(struct ori_far *far, size_t length, char *words)
{
	struct oriel_comm *comm = far->g->comm;
	enum oriel_status status = oriel_comm_agree(comm, far_prepare(far, length, words));

	if (status == ORIEL_OK)
		status = far_exchange(far, words, ORIEL_P2P_ADDRESS);
	if (status == ORIEL_OK)
		status = oriel_comm_agree(comm, far_connect(far, words));
	if (status == ORIEL_OK)
		status = oriel_comm_agree(comm, far_export(far, length, words));
	if (status == ORIEL_OK)
		status = far_exchange(far, words, ORIEL_P2P_EXPORT);
	return status == ORIEL_OK ? far_import(far, words) : status;
}

enum oriel_status ori_far_open(struct oriel_allgather *g, size_t length)
{
	const struct oriel_window_attr attr = {.size = sizeof(attr),
					       .signals = FAR_SIGNALS,
					       .barriers = ORIEL_NONE,
					       .counters = ORIEL_NONE,
					       .channels = ORIEL_NONE,
					       .buffers = 1};
	uint32_t ranks = oriel_comm_size(g->comm);
	struct ori_far *far = calloc(1, sizeof(*far) + ranks * sizeof(far->peers[0]));
	char *words = calloc(ranks, ORIEL_P2P_ADDRESS);
	enum oriel_status status = ORIEL_OK;

	if (!far || !words)
		status =
			ori_fail(ORIEL_ERR_NOMEM, "no memory for an all-gather of %u ranks", ranks);
	status = oriel_comm_agree(g->comm, status);
	if (status != ORIEL_OK) {
		free(far);
		free(words);
		return status;
	}
	far->g = g;
	g->far = far;
	status = oriel_window_create(g->comm, &attr, &far->window);
	if (status == ORIEL_OK)
		status = oriel_comm_agree(g->comm, oriel_window_device(far->window, &far->device));
	if (status == ORIEL_OK)
		status = far_meet(far, length, words);
	free(words);
	return status;
}

void ori_far_close(struct ori_far *far)
{
	uint32_t rank;

	if (!far)
		return;
	/* All ranks have come to this, so nobody puts any more. */
	oriel_window_destroy(far->window);
	for (rank = 0; rank < oriel_comm_size(far->g->comm); rank++)
		oriel_p2p_destroy(far->peers[rank].p2p);
	oriel_p2p_unregister(far->memory);
	oriel_copies_destroy(far->copies);
	free(far);
}
