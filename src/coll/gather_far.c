/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution is a job. What comes from other nodes is expected from the start on, and
 * that is the credit of who puts it; ranks of this node wait for a signal. All that a way
 * has to do is what leaves here.
 */
#include <stdlib.h>

#include "base/error.h"
#include "coll/far.h"

#define FAR_SETTLE_NS 2000000000u
#define FAR_NEWS_NS 1000000000u

/* Is all of it done that is first in @q? Those behind are not done before. */
static enum oriel_status queue_test(struct ori_far_queue *q, bool *has_moved)
{
	enum oriel_status status;

	while (q->done < q->begun) {
		status = q->requests[q->done % ORI_FAR_REQUESTS].status;
		if (status == ORIEL_AGAIN)
			break;
		if (status != ORIEL_OK)
			return status;
		q->done++;
		*has_moved = true;
	}
	return ORIEL_OK;
}

struct oriel_p2p_request *ori_far_next(struct ori_far_queue *q)
{
	return q->begun - q->done < ORI_FAR_REQUESTS ? &q->requests[q->begun % ORI_FAR_REQUESTS]
						     : NULL;
}

/* Expect as much as can be, and see what has come. */
static enum oriel_status far_expect(struct ori_far_peer *peer, bool *has_moved)
{
	enum oriel_status status = oriel_p2p_progress(peer->p2p);
	struct oriel_p2p_request *request;

	if (status == ORIEL_OK)
		status = queue_test(&peer->puts, has_moved);
	if (status == ORIEL_OK)
		status = queue_test(&peer->expects, has_moved);
	while (status == ORIEL_OK && peer->expects.begun < peer->due) {
		request = ori_far_next(&peer->expects);
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
			status = far_expect(&far->peers[rank], has_moved);
	return status;
}

enum oriel_status ori_far_test_signal(struct ori_far *far, uint32_t rank, enum ori_far_signal id,
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

enum oriel_status ori_far_raise(struct ori_far *far, uint32_t rank, enum ori_far_signal id)
{
	int64_t posted =
		oriel_dev_signal(&far->device, oriel_dev_thread(), rank, id, ORIEL_SIGNAL_ADD, 1);

	return posted < 0 ? (enum oriel_status)posted : ORIEL_OK;
}

static enum oriel_status far_begin(struct ori_far *far, const struct ori_far_job *job)
{
	struct ori_far_peer *peer;
	uint32_t rank;

	far->run = (struct ori_far_run){.job = job,
					.phase = ORI_FAR_MOVING,
					.moved_ns = oriel_dev_clock_ns()};
	for (rank = 0; rank < far->device.ranks; rank++) {
		peer = &far->peers[rank];
		peer->puts.begun = peer->puts.done = 0;
		peer->expects.begun = peer->expects.done = 0;
		peer->due = peer->taken = peer->sent = 0;
		peer->has_credit = peer->is_told = peer->is_awaited = false;
	}
	return job->way->begin(far);
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
		if (far->peers[rank].is_told)
			status = ori_far_raise(far, rank, ORI_FAR_DATA);
	if (status == ORIEL_OK)
		far->run.phase = ORI_FAR_WAITING;
	return status;
}

/* Has all come? */
static enum oriel_status far_wait(struct ori_far *far)
{
	enum oriel_status status;
	struct ori_far_peer *peer;
	uint32_t rank;

	for (rank = 0; rank < far->device.ranks; rank++) {
		peer = &far->peers[rank];
		if (peer->expects.done < peer->due)
			return ORIEL_AGAIN;
		if (!peer->is_awaited)
			continue;
		status = ori_far_test_signal(far, rank, ORI_FAR_DATA, &peer->data);
		if (status != ORIEL_OK)
			return status;
		peer->is_awaited = false;
	}
	return ORIEL_OK;
}

static enum oriel_status far_go_on(struct ori_far *far, bool *has_moved)
{
	enum oriel_status status = far_progress(far, has_moved);

	if (status == ORIEL_OK && far->run.phase == ORI_FAR_MOVING) {
		status = far->run.job->way->move(far, has_moved);
		if (status == ORIEL_OK)
			far->run.phase = ORI_FAR_ENDING;
	}
	if (status == ORIEL_OK && far->run.phase == ORI_FAR_ENDING)
		status = far_end(far);
	return status == ORIEL_OK ? far_wait(far) : status;
}

/* Who keeps it waiting. */
static uint32_t far_blame(const struct ori_far *far)
{
	const struct ori_far_peer *peer;
	uint32_t rank;

	if (far->run.phase == ORI_FAR_MOVING)
		return far->run.job->way->blame(far);
	for (rank = 0; rank < far->device.ranks; rank++) {
		peer = &far->peers[rank];
		if (peer->puts.done < peer->puts.begun)
			return rank;
		if (far->run.phase == ORI_FAR_WAITING &&
		    (peer->expects.done < peer->due || peer->is_awaited))
			return rank;
	}
	return ORI_PLAN_OWN;
}

static enum oriel_status far_late(const struct ori_far *far, uint64_t timeout_ns)
{
	uint32_t peer = far_blame(far);

	if (peer == ORI_PLAN_OWN)
		return ori_fail(ORIEL_ERR_TIMEOUT, "%s: copies were not done in %g s",
				far->g->kind->name, (double)timeout_ns / 1e9);
	return ori_fail(ORIEL_ERR_TIMEOUT, "%s: waited %g s in vain for rank %u",
			far->g->kind->name, (double)timeout_ns / 1e9, peer);
}

static bool far_copies_are_done(struct ori_far *far)
{
	return oriel_copies_test(far->copies) != ORIEL_AGAIN &&
	       (!far->stage || oriel_copies_test(far->stage->copies) != ORIEL_AGAIN);
}

/* What the stream is to come past, no copy of this rank is to read or write any more. */
static void far_settle(struct ori_far *far)
{
	uint64_t begun = oriel_dev_clock_ns();

	while (!far_copies_are_done(far) && oriel_dev_clock_ns() - begun < FAR_SETTLE_NS)
		oriel_dev_give_way(oriel_dev_clock_ns() - begun);
}

static enum oriel_status far_advance(struct ori_far *far, const struct ori_far_job *job,
				     bool *has_moved)
{
	uint64_t timeout_ns = oriel_comm_timeout(job->g->comm);
	enum oriel_status status = ORIEL_OK;

	if (!far->run.job) {
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
		far->run.job = NULL;
	if (status == ORIEL_AGAIN && !*has_moved &&
	    oriel_dev_clock_ns() - far->run.moved_ns > timeout_ns)
		return far_late(far, timeout_ns);
	return status;
}

/*
 * A rank that knows that the communicator is broken takes its ends away, which those who do
 * not know it yet may hear of first: what broke it is soon heard as well.
 */
static enum oriel_status far_lost(struct ori_far *far)
{
	enum oriel_status health = oriel_dev_health(&far->device);
	uint64_t now = oriel_dev_clock_ns();

	if (!far->run.lost_ns)
		far->run.lost_ns = now;
	if (health == ORIEL_OK && now - far->run.lost_ns < FAR_NEWS_NS)
		return ORIEL_AGAIN;
	return health == ORIEL_OK ? ORIEL_ERR_PEER : health;
}

/* The one after a failure is the last. */
static enum oriel_status far_step(void *context, bool *has_moved)
{
	const struct ori_far_job *job = context;
	struct ori_far *far = job->g->far;
	enum oriel_status status = oriel_dev_health(&far->device);

	if (status == ORIEL_OK)
		status = far_advance(far, job, has_moved);
	if (status == ORIEL_ERR_PEER)
		status = far_lost(far);
	if (status < 0)
		far_settle(far);
	return status;
}

static void far_release(void *context)
{
	struct ori_far_job *job = context;

	ori_plan_close(&job->own);
	free(job);
}

enum oriel_status ori_far_post(const struct ori_far_job *job, void *stream)
{
	struct ori_far_job *kept = malloc(sizeof(*kept));
	const struct oriel_job call = {sizeof(call), far_step, far_release, kept};
	enum oriel_status status;

	if (!kept)
		return ori_fail(ORIEL_ERR_NOMEM, "%s: no memory for an execution",
				job->g->kind->name);
	*kept = *job;
	if (job->plan == &job->own)
		kept->plan = &kept->own;
	status = oriel_comm_post(job->g->comm, &call, stream);
	if (status != ORIEL_OK)
		free(kept);
	return status;
}
