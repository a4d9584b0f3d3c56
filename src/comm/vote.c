/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement among survivors: see vote.h. vote_lead.c and vote_follow.c have the steps, and
 * vote_dial.c connects the ranks.
 */
#include "comm/vote.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/order.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/wait_page.h"
#include "comm/silence.h"
#include "comm/vote_peer.h"

#define VOTE_TICK_MS 10
#define VOTE_WAIT_NS 200000000u /* between two signs of life of a leader */
#define VOTE_SILENCE_NS 3000000000u

enum oriel_status ori_vote_open(struct oriel_comm *comm, struct ori_vote **out)
{
	size_t length = sizeof(struct ori_vote) + comm->size * sizeof(struct vote_peer);
	struct ori_vote *v = calloc(1, length);
	unsigned peer;

	if (!v)
		return ori_fail_nomem(length, "an agreement of %u ranks", comm->size);
	v->comm = comm;
	v->fds = calloc(2 * comm->size + 2, sizeof(*v->fds));
	if (!v->fds) {
		free(v);
		return ori_fail_nomem((2 * comm->size + 2) * sizeof(*v->fds),
				      "an agreement of %u ranks", comm->size);
	}
	v->silence_ns = ori_setting_heartbeat();
	/* A rank closes its NICs before it comes here, and has no beats meanwhile. */
	if (v->silence_ns && v->silence_ns < VOTE_SILENCE_NS)
		v->silence_ns = VOTE_SILENCE_NS;
	v->limit_ns = comm->timeout_ns;
	v->opened_at = ori_clock_ns();
	for (peer = 0; peer < comm->size; peer++)
		v->peers[peer].was_silent = ori_silence_was_over(comm, peer);
	*out = v;
	return ORIEL_OK;
}

/*
 * From the first agreement on a rank kills suspects or makes a communicator between two of them,
 * and has no beats: ORIEL_HEARTBEAT is a limit instead. It is twice the one of the waits in there,
 * if the timeout is no shorter, so that a rank which waits for one that stands still comes in time.
 */
static void vote_limit_next(struct ori_vote *v)
{
	uint64_t boot = ori_setting_boot_limit(v->comm->timeout_ns);

	v->silence_ns = 0;
	if (boot < v->limit_ns / 2)
		v->limit_ns = 2 * boot;
}

void ori_vote_close(struct ori_vote *v)
{
	unsigned peer;

	if (!v)
		return;
	for (peer = 0; peer < v->comm->size; peer++) {
		ori_vote_hang_up(&v->peers[peer].in);
		ori_vote_hang_up(&v->peers[peer].out);
		free(v->peers[peer].state);
	}
	free(v->fds);
	free(v);
}

/* Ranks that have joined this one see that it lives, also while it still follows another. */
static void vote_reassure(struct ori_vote *v)
{
	unsigned peer;

	if (!ori_deadline_passed(v->wait_at))
		return;
	v->wait_at = ori_deadline(VOTE_WAIT_NS);
	for (peer = v->comm->rank + 1; peer < v->comm->size; peer++)
		if (v->peers[peer].in)
			(void)ori_vote_send(&v->peers[peer].in, VOTE_WAIT, NULL, 0);
}

static enum oriel_status vote_step(struct ori_vote *v)
{
	unsigned leader;

	/* For ranks that are not here yet, which see whether this one runs. */
	oriel_dev_store_relaxed(&v->comm->control->beat, v->comm->control->beat + 1);
	ori_vote_serve(v);
	vote_reassure(v);
	leader = ori_vote_leader(v);
	if (leader != v->leader) {
		v->leader = leader;
		v->is_announced = false;
		ori_vote_grant(v, leader);
	}
	if (leader != v->comm->rank)
		return ori_vote_follow(v, leader);
	return ori_vote_lead(v);
}

/* For `oriel hang`: the leader, or at that one the first rank that it waits for. */
static bool vote_show(const struct ori_vote *v)
{
	struct ori_wait_note note = {.comm = ori_comm_wait_key(v->comm),
				     .rank = v->comm->rank,
				     .what = ORI_WAIT_SHRINK,
				     .peer = v->leader,
				     .compare = ORIEL_GE,
				     .expected = v->comm->survive->number,
				     .begun = v->begun,
				     .limit_ns = v->limit_ns};

	if (ori_clock_ns() - v->begun < ORI_WAIT_RECORD_NS)
		return false;
	if (v->leader == v->comm->rank)
		note.peer = ori_vote_awaited(v);
	ori_wait_begin(&note);
	return true;
}

/* Polls all that may bring news, but not for long. */
static enum oriel_status vote_sleep(struct ori_vote *v)
{
	const struct ori_survive *s = v->comm->survive;
	const struct ori_net_conn *conn[2];
	unsigned peer, i, count = 0;
	bool is_shown;
	int polled;

	v->fds[count++] = (struct pollfd){.fd = s->local.epoll, .events = POLLIN};
	v->fds[count++] = (struct pollfd){.fd = s->tcp.epoll, .events = POLLIN};
	for (peer = 0; peer < v->comm->size; peer++) {
		/* Frames of ranks that have joined wait until this rank leads. */
		conn[0] = v->is_leading ? v->peers[peer].in : NULL;
		conn[1] = v->peers[peer].out;
		for (i = 0; i < 2; i++)
			if (conn[i])
				v->fds[count++] =
					(struct pollfd){.fd = conn[i]->fd,
							.events = ori_net_events(conn[i])};
	}
	is_shown = vote_show(v);
	polled = poll(v->fds, count, VOTE_TICK_MS);
	if (is_shown)
		ori_wait_end();
	if (polled < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	return ORIEL_OK;
}

static void vote_choose_nothing(void *context, struct ori_vote_value *value)
{
	(void)context, (void)value;
}

void ori_vote_part(struct ori_vote *v, enum oriel_status status)
{
	struct ori_vote_value value;
	struct ori_error before;

	ori_error_save(&before);
	v->is_last = true;
	(void)ori_vote_agree(v, status, vote_choose_nothing, NULL, &value);
	ori_error_restore(&before);
}

enum oriel_status ori_vote_agree(struct ori_vote *v, enum oriel_status status,
				 ori_vote_choose *choose, void *context,
				 struct ori_vote_value *value)
{
	enum oriel_status step = ORIEL_OK;
	unsigned peer;

	v->status = status;
	v->begun = ori_clock_ns();
	memset(v->text, 0, sizeof(v->text));
	if (status != ORIEL_OK)
		strncpy(v->text, oriel_last_error(), sizeof(v->text) - 1);
	v->choose = choose;
	v->context = context;
	v->has_accepted = v->has_proposed = v->is_decided = v->is_announced = false;
	v->leader = v->comm->size;
	for (peer = 0; peer < v->comm->size; peer++)
		v->peers[peer].heard_at = ori_clock_ns();
	for (;;) {
		step = vote_step(v);
		if (v->is_removed)
			return ori_fail(ORIEL_ERR_PEER,
					"the other ranks did not hear of rank %u in time, and have "
					"removed it from the communicator",
					v->comm->rank);
		if (step != ORIEL_OK || v->is_decided)
			break;
		step = vote_sleep(v);
		if (step != ORIEL_OK)
			break;
	}
	vote_limit_next(v);
	if (step == ORIEL_OK)
		*value = v->comm->survive->last;
	return step;
}
