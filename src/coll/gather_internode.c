/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one execution of a collective over several nodes of GPUs as a job of the communicator's
 * thread. Puts of other nodes are expected from the start on, which is the credit of their
 * senders; ranks of this node wait for a CREDIT signal. The operations of the execution
 * (internode.h) only post what this rank sends.
 */
#include <stdlib.h>

#include "base/error.h"
#include "coll/internode.h"

#define INTERNODE_DRAIN_NS 2000000000u
#define INTERNODE_HEALTH_NS 1000000000u

/* Retires requests of @q in their order; a request behind a pending one completes later. */
static enum oriel_status queue_test(struct ori_internode_queue *q, bool *has_moved)
{
	enum oriel_status status;

	while (q->done < q->begun) {
		status = q->requests[q->done % ORI_INTERNODE_REQUESTS].status;
		if (status == ORIEL_AGAIN)
			break;
		if (status != ORIEL_OK)
			return status;
		q->done++;
		*has_moved = true;
	}
	return ORIEL_OK;
}

struct oriel_p2p_request *ori_internode_free_request(struct ori_internode_queue *q)
{
	return q->begun - q->done < ORI_INTERNODE_REQUESTS
		       ? &q->requests[q->begun % ORI_INTERNODE_REQUESTS]
		       : NULL;
}

/* Posts as many expects as there are requests for, and retires those that completed. */
static enum oriel_status internode_expect(struct ori_internode_peer *peer, bool *has_moved)
{
	enum oriel_status status = oriel_p2p_progress(peer->p2p);
	struct oriel_p2p_request *request;

	if (status == ORIEL_OK)
		status = queue_test(&peer->puts, has_moved);
	if (status == ORIEL_OK)
		status = queue_test(&peer->expects, has_moved);
	while (status == ORIEL_OK && peer->expects.begun < peer->due) {
		request = ori_internode_free_request(&peer->expects);
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

static enum oriel_status internode_progress_peers(struct ori_internode *internode, bool *has_moved)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t rank;

	for (rank = 0; rank < internode->device.ranks && status == ORIEL_OK; rank++)
		if (internode->peers[rank].p2p)
			status = internode_expect(&internode->peers[rank], has_moved);
	return status;
}

enum oriel_status ori_internode_test_signal(struct ori_internode *internode, uint32_t rank,
					    enum ori_internode_signal id, uint64_t *used)
{
	uint64_t value = 0;
	enum oriel_status status = oriel_dev_read_signal_from(&internode->device, rank, id, &value);

	if (status != ORIEL_OK)
		return status;
	if (value == *used)
		return ORIEL_AGAIN;
	++*used;
	return ORIEL_OK;
}

enum oriel_status ori_internode_send_signal(struct ori_internode *internode, uint32_t rank,
					    enum ori_internode_signal id)
{
	return oriel_dev_signal(&internode->device, oriel_dev_thread(), rank, id, ORIEL_SIGNAL_ADD,
				1, NULL);
}

static enum oriel_status internode_begin(struct ori_internode *internode,
					 const struct ori_internode_job *job)
{
	struct ori_internode_peer *peer;
	uint32_t rank;

	internode->run = (struct ori_internode_run){.job = job,
						    .phase = ORI_INTERNODE_MOVING,
						    .moved_ns = oriel_dev_clock_ns()};
	for (rank = 0; rank < internode->device.ranks; rank++) {
		peer = &internode->peers[rank];
		peer->puts.begun = peer->puts.done = 0;
		peer->expects.begun = peer->expects.done = 0;
		peer->due = peer->taken = peer->sent = 0;
		peer->has_credit = peer->is_notified = peer->awaits_data = false;
	}
	return job->ops->begin(internode);
}

/*
 * Once all puts and copies of this rank have completed: one DATA signal to each rank of this node
 * that it copied to. Copies are tested all together, so one signal for each rank is enough.
 */
static enum oriel_status internode_complete(struct ori_internode *internode)
{
	enum oriel_status status = oriel_copies_test(internode->copies);
	uint32_t rank;

	for (rank = 0; rank < internode->device.ranks && status == ORIEL_OK; rank++)
		if (internode->peers[rank].puts.done < internode->peers[rank].puts.begun)
			return ORIEL_AGAIN;
	for (rank = 0; rank < internode->device.ranks && status == ORIEL_OK; rank++)
		if (internode->peers[rank].is_notified)
			status = ori_internode_send_signal(internode, rank, ORI_INTERNODE_DATA);
	if (status == ORIEL_OK)
		internode->run.phase = ORI_INTERNODE_WAITING;
	return status;
}

/* Have all chunks and all DATA signals arrived? */
static enum oriel_status internode_wait(struct ori_internode *internode)
{
	enum oriel_status status;
	struct ori_internode_peer *peer;
	uint32_t rank;

	for (rank = 0; rank < internode->device.ranks; rank++) {
		peer = &internode->peers[rank];
		if (peer->expects.done < peer->due)
			return ORIEL_AGAIN;
		if (!peer->awaits_data)
			continue;
		status =
			ori_internode_test_signal(internode, rank, ORI_INTERNODE_DATA, &peer->data);
		if (status != ORIEL_OK)
			return status;
		peer->awaits_data = false;
	}
	return ORIEL_OK;
}

static enum oriel_status internode_progress(struct ori_internode *internode, bool *has_moved)
{
	enum oriel_status status = internode_progress_peers(internode, has_moved);

	if (status == ORIEL_OK && internode->run.phase == ORI_INTERNODE_MOVING) {
		status = internode->run.job->ops->move(internode, has_moved);
		if (status == ORIEL_OK)
			internode->run.phase = ORI_INTERNODE_COMPLETING;
	}
	if (status == ORIEL_OK && internode->run.phase == ORI_INTERNODE_COMPLETING)
		status = internode_complete(internode);
	return status == ORIEL_OK ? internode_wait(internode) : status;
}

/* The rank that the execution waits for, for error texts. */
static uint32_t internode_awaited(const struct ori_internode *internode)
{
	const struct ori_internode_peer *peer;
	uint32_t rank;

	if (internode->run.phase == ORI_INTERNODE_MOVING)
		return internode->run.job->ops->awaited_rank(internode);
	for (rank = 0; rank < internode->device.ranks; rank++) {
		peer = &internode->peers[rank];
		if (peer->puts.done < peer->puts.begun)
			return rank;
		if (internode->run.phase == ORI_INTERNODE_WAITING &&
		    (peer->expects.done < peer->due || peer->awaits_data))
			return rank;
	}
	return ORI_PLAN_OWN;
}

static enum oriel_status internode_timed_out(const struct ori_internode *internode,
					     uint64_t timeout_ns)
{
	uint32_t peer = internode_awaited(internode);

	if (peer == ORI_PLAN_OWN)
		return ori_fail(
			ORIEL_ERR_TIMEOUT,
			"%s timed out after %g s: copies on this rank's GPU have not completed",
			internode->g->kind->name, (double)timeout_ns / 1e9);
	return ori_fail(ORIEL_ERR_TIMEOUT,
			"%s timed out after %g s: no progress from rank %u; raise ORIEL_TIMEOUT if "
			"it is only slow",
			internode->g->kind->name, (double)timeout_ns / 1e9, peer);
}

static bool internode_copies_are_done(struct ori_internode *internode)
{
	return oriel_copies_test(internode->copies) != ORIEL_AGAIN &&
	       (!internode->stage || oriel_copies_test(internode->stage->copies) != ORIEL_AGAIN);
}

/*
 * The stream goes on after a failure, and then the caller may reuse or free the memory. So copies
 * of this rank have to end first.
 */
static void internode_drain_copies(struct ori_internode *internode)
{
	uint64_t begun = oriel_dev_clock_ns();

	while (!internode_copies_are_done(internode) &&
	       oriel_dev_clock_ns() - begun < INTERNODE_DRAIN_NS)
		ori_dev_back_off(oriel_dev_clock_ns() - begun);
}

static enum oriel_status internode_advance(struct ori_internode *internode,
					   const struct ori_internode_job *job, bool *has_moved)
{
	uint64_t timeout_ns = oriel_comm_timeout(job->g->comm);
	enum oriel_status status = ORIEL_OK;

	if (!internode->run.job) {
		status = internode_begin(internode, job);
		*has_moved = true;
	} else if (internode->run.job != job) {
		return ORIEL_AGAIN;
	}
	if (status == ORIEL_OK)
		status = internode_progress(internode, has_moved);
	if (*has_moved)
		internode->run.moved_ns = oriel_dev_clock_ns();
	if (status == ORIEL_OK)
		internode->run.job = NULL;
	if (status == ORIEL_AGAIN && !*has_moved &&
	    oriel_dev_clock_ns() - internode->run.moved_ns > timeout_ns)
		return internode_timed_out(internode, timeout_ns);
	return status;
}

/*
 * A peer that knows that the communicator is broken closes its endpoints, and this rank may see
 * that before it learns what broke the communicator. So it waits up to a second for the cause
 * before it reports a lost peer.
 */
static enum oriel_status internode_peer_lost(struct ori_internode *internode)
{
	enum oriel_status health = ori_dev_health(&internode->device);
	uint64_t now = oriel_dev_clock_ns();

	if (!internode->run.lost_ns)
		internode->run.lost_ns = now;
	if (health == ORIEL_OK && now - internode->run.lost_ns < INTERNODE_HEALTH_NS)
		return ORIEL_AGAIN;
	return health == ORIEL_OK ? ORIEL_ERR_PEER : health;
}

/* The step of the job. A step that returns a failure is the last one. */
static enum oriel_status internode_step(void *context, bool *has_moved)
{
	const struct ori_internode_job *job = context;
	struct ori_internode *internode = job->g->internode;
	enum oriel_status status = ori_dev_health(&internode->device);

	if (status == ORIEL_OK)
		status = internode_advance(internode, job, has_moved);
	if (status == ORIEL_ERR_PEER)
		status = internode_peer_lost(internode);
	if (status < 0)
		internode_drain_copies(internode);
	return status;
}

static void internode_release(void *context)
{
	struct ori_internode_job *job = context;

	ori_plan_close(&job->own);
	free(job);
}

enum oriel_status ori_internode_post(const struct ori_internode_job *job, void *stream)
{
	struct ori_internode_job *posted = malloc(sizeof(*posted));
	const struct oriel_job call = {sizeof(call), internode_step, internode_release, posted};
	enum oriel_status status;

	if (!posted)
		return ori_fail_nomem(sizeof(*posted), "an execution of %s", job->g->kind->name);
	*posted = *job;
	if (job->plan == &job->own)
		posted->plan = &posted->own;
	status = stream ? oriel_comm_post_on_stream(job->g->comm, &call, stream)
			: oriel_comm_post(job->g->comm, &call);
	if (status != ORIEL_OK)
		free(posted);
	return status;
}
