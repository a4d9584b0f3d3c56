/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement among survivors: see vote.h. vote_dial.c connects them. */
#include "comm/vote.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/detail/order.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/vote_peer.h"

#define VOTE_TICK_MS 10
#define VOTE_WAIT_NS 200000000u /* between two signs of life of a leader */
#define VOTE_SILENCE_NS 3000000000u
#define VOTE_GRACE 8 /* of the limit one part, and at least: */
#define VOTE_GRACE_NS 1000000000u

enum oriel_status ori_vote_open(struct oriel_comm *comm, struct ori_vote **out)
{
	size_t length = sizeof(struct ori_vote) + comm->size * sizeof(struct vote_peer);
	struct ori_vote *v = calloc(1, length);

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
	*out = v;
	return ORIEL_OK;
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

static bool vote_is_here(const struct ori_vote *v, unsigned peer)
{
	return v->peers[peer].is == VOTE_HERE;
}

unsigned ori_vote_leader(const struct ori_vote *v)
{
	unsigned peer = 0;

	while (peer != v->comm->rank && !vote_is_here(v, peer))
		peer++;
	return peer;
}

/* Only this agreement counts: states and acceptances of others are stale, or of the next one. */
static bool vote_has_joined(const struct ori_vote *v, unsigned peer)
{
	const struct vote_peer *p = &v->peers[peer];

	return p->in && p->state && p->state->number == v->comm->survive->number;
}

static bool vote_has_accepted(const struct ori_vote *v, unsigned peer)
{
	return vote_has_joined(v, peer) && v->peers[peer].accepted == v->comm->survive->number;
}

static void vote_lose(struct ori_vote *v, unsigned peer, enum vote_is is)
{
	ori_log_rank(ORIEL_LOG_WARN, v->comm->rank, "rank %u (process %u on %s) %s", peer,
		     v->comm->hosts[peer].pid, v->comm->hosts[peer].hostname,
		     is == VOTE_DEAD ? "has exited" : "does not answer, and is suspected");
	v->peers[peer].is = is;
	ori_vote_hang_up(&v->peers[peer].in);
	ori_vote_hang_up(&v->peers[peer].out);
}

/* Has @peer, which has a copy of its beats in memory, or has answered before, fallen silent? */
static bool vote_is_silent(struct ori_vote *v, unsigned peer)
{
	const struct ori_control *control = v->comm->peers[peer].address;
	struct vote_peer *p = &v->peers[peer];
	uint64_t beat, now = ori_clock_ns();

	if (!v->silence_ns)
		return false;
	if (control) {
		beat = oriel_dev_load_relaxed(&control->beat);
		if (beat != p->beat || !p->beat_at)
			p->beat_at = now;
		p->beat = beat;
		return now - p->beat_at >= v->silence_ns;
	}
	return p->has_answered && now - p->heard_at >= v->silence_ns;
}

/* Gives up on @peer if its time is over. */
static void vote_judge(struct ori_vote *v, unsigned peer)
{
	uint64_t limit = v->comm->timeout_ns, heard = v->peers[peer].heard_at;

	if (vote_is_silent(v, peer) ||
	    (limit != ORIEL_TIMEOUT_INFINITE && ori_clock_ns() - heard >= limit))
		vote_lose(v, peer, VOTE_SUSPECT);
}

static void vote_hear(struct vote_peer *p)
{
	p->heard_at = ori_clock_ns();
	p->has_answered = true;
}

/* Another rank counts from now on: it has some time left, even if this rank has waited for long. */
static void vote_grant(struct ori_vote *v, unsigned peer)
{
	uint64_t limit = v->comm->timeout_ns, now = ori_clock_ns();
	uint64_t grace = limit / VOTE_GRACE > VOTE_GRACE_NS ? limit / VOTE_GRACE : VOTE_GRACE_NS;
	struct vote_peer *p = &v->peers[peer];

	if (limit > grace && now - p->heard_at > limit - grace)
		p->heard_at = now - (limit - grace);
}

/* The agreement is over for this rank. */
static void vote_decide(struct ori_vote *v, const struct ori_vote_value *value)
{
	struct ori_survive *s = v->comm->survive;

	ori_log_rank(ORIEL_LOG_DEBUG, v->comm->rank, "agreement %u is decided: %s", value->number,
		     oriel_status_name((enum oriel_status)value->status));
	s->last = *value;
	s->number = value->number + 1;
	v->has_accepted = v->has_proposed = false;
	/*
	 * A decision about another group is none of this rank's: it takes part in the next
	 * agreement, unless the others did go on without it.
	 */
	if (!ori_vote_has(value->lost, v->comm->rank))
		v->is_decided = true;
	else if (!ori_status_is_failure(value->status))
		v->is_removed = true;
	else
		v->is_announced = false;
}

/* A decision that this rank has missed, if it is one. */
static void vote_learn(struct ori_vote *v, const struct ori_vote_value *value)
{
	if (value->number >= v->comm->survive->number)
		vote_decide(v, value);
}

static bool vote_send(struct ori_net_conn **conn, enum vote_frame type, const void *body,
		      size_t length)
{
	if (*conn && ori_net_send(*conn, type, body, length) == ORIEL_OK)
		return true;
	ori_vote_hang_up(conn);
	return false;
}

static enum oriel_status vote_announce_state(struct ori_vote *v, struct ori_net_conn **conn)
{
	const struct ori_survive *s = v->comm->survive;
	struct vote_state *state = calloc(1, sizeof(*state));

	if (!state)
		return ori_fail_nomem(sizeof(*state), "an agreement");
	state->number = s->number;
	state->has_accepted = v->has_accepted;
	state->status = v->status;
	memcpy(state->text, v->text, sizeof(state->text));
	if (v->has_accepted)
		state->accepted = v->accepted;
	state->last = s->last;
	v->is_announced = vote_send(conn, VOTE_STATE, state, sizeof(*state));
	free(state);
	return ORIEL_OK;
}

/* A frame of the leader. False: it makes no sense. */
static bool vote_obey(struct ori_vote *v, unsigned leader, const struct ori_frame *frame,
		      const struct ori_vote_value *value)
{
	struct ori_net_conn **conn = &v->peers[leader].out;
	uint32_t number = v->comm->survive->number;

	if (frame->type == VOTE_REMOVED && frame->length == 0)
		v->is_removed = true;
	else if (frame->type == VOTE_WAIT && frame->length == 0)
		return true;
	else if (frame->length != sizeof(*value))
		return false;
	else if (frame->type == VOTE_DECIDED)
		vote_learn(v, value);
	else if (frame->type != VOTE_PROPOSE)
		return false;
	/* The leader is behind: it learns the decision by the state of this rank. */
	else if (value->number == number) {
		ori_log_rank(ORIEL_LOG_DEBUG, v->comm->rank, "accepts agreement %u of rank %u",
			     number, leader);
		v->accepted = *value;
		v->has_accepted = true;
		(void)vote_send(conn, VOTE_ACCEPT, &number, sizeof(number));
	}
	return true;
}

static enum oriel_status vote_follow(struct ori_vote *v, unsigned leader)
{
	struct vote_peer *p = &v->peers[leader];
	enum oriel_status status = ori_vote_dial(v, leader, VOTE_JOIN);
	struct ori_vote_value value;
	struct ori_frame frame;

	if (status == ORIEL_ERR_PEER)
		vote_lose(v, leader, VOTE_DEAD);
	else if (status != ORIEL_OK && status != ORIEL_AGAIN)
		return status;
	else
		vote_judge(v, leader);
	/* Nothing is left to agree on; all have joined, and so know the decision before. */
	if (!vote_is_here(v, leader) && v->is_last && v->has_accepted) {
		vote_decide(v, &v->accepted);
		return ORIEL_OK;
	}
	if (!p->out || status != ORIEL_OK) {
		v->is_announced = false;
		return ORIEL_OK;
	}
	status = v->is_announced ? ORIEL_OK : vote_announce_state(v, &p->out);
	while (status == ORIEL_OK && p->out && !v->is_decided && !v->is_removed &&
	       v->is_announced) {
		status = ori_net_take(p->out, &frame, &value, sizeof(value));
		if (status == ORIEL_AGAIN)
			return ORIEL_OK;
		if (status == ORIEL_OK && vote_obey(v, leader, &frame, &value)) {
			vote_hear(p);
			continue;
		}
		/* It joins again, or finds that no process listens. */
		ori_vote_hang_up(&p->out);
		v->is_announced = false;
		status = ORIEL_OK;
	}
	return status;
}

/* This rank has woken up late: the others are at @state, without a decision of its own. */
static void vote_jump(struct ori_vote *v, const struct vote_state *state)
{
	v->comm->survive->number = state->number;
	v->comm->survive->last = state->last;
	v->has_accepted = false;
	v->has_proposed = false;
}

/* @peer has joined with its state. */
static void vote_admit(struct ori_vote *v, unsigned peer)
{
	const struct ori_survive *s = v->comm->survive;
	struct vote_peer *p = &v->peers[peer];

	if (p->state->number > s->number + 1)
		vote_jump(v, p->state);
	else if (p->state->number == s->number + 1)
		vote_learn(v, &p->state->last);
	else if (p->state->number < s->number)
		(void)vote_send(&p->in, VOTE_DECIDED, &s->last, sizeof(s->last));
	else if (v->has_proposed)
		(void)vote_send(&p->in, VOTE_PROPOSE, &v->accepted, sizeof(v->accepted));
}

/* A frame of a rank that has joined. False: it makes no sense. */
static bool vote_hear_of(struct ori_vote *v, unsigned peer, const struct ori_frame *frame,
			 const struct vote_state *state)
{
	struct vote_peer *p = &v->peers[peer];

	if (frame->type == VOTE_ACCEPT && frame->length == sizeof(p->accepted)) {
		memcpy(&p->accepted, state, sizeof(p->accepted));
		return true;
	}
	if (frame->type != VOTE_STATE || frame->length != sizeof(*state))
		return false;
	if (!p->state)
		p->state = malloc(sizeof(*p->state));
	if (!p->state)
		return false;
	*p->state = *state;
	p->state->text[sizeof(state->text) - 1] = '\0';
	p->state->accepted.text[sizeof(state->text) - 1] = '\0';
	p->state->last.text[sizeof(state->text) - 1] = '\0';
	p->accepted = 0;
	vote_admit(v, peer);
	return true;
}

static void vote_take(struct ori_vote *v, unsigned peer)
{
	struct vote_peer *p = &v->peers[peer];
	struct vote_state state;
	struct ori_frame frame;
	enum oriel_status status;

	while (p->in && !v->is_decided && !v->is_removed) {
		status = ori_net_take(p->in, &frame, &state, sizeof(state));
		if (status == ORIEL_AGAIN)
			return;
		if (status != ORIEL_OK || !vote_hear_of(v, peer, &frame, &state))
			ori_vote_hang_up(&p->in);
		else
			vote_hear(p);
	}
}

/* Looks for a rank that has not joined: is it dead, or has it removed this one? */
static enum oriel_status vote_probe(struct ori_vote *v, unsigned peer)
{
	struct vote_peer *p = &v->peers[peer];
	enum oriel_status status = ori_vote_dial(v, peer, VOTE_PROBE);
	struct ori_frame frame;

	if (status == ORIEL_ERR_PEER) {
		vote_lose(v, peer, VOTE_DEAD);
		return ORIEL_OK;
	}
	if (status != ORIEL_OK)
		return status == ORIEL_AGAIN ? ORIEL_OK : status;
	status = ori_net_take(p->out, &frame, NULL, 0);
	if (status == ORIEL_OK && frame.type == VOTE_REMOVED)
		v->is_removed = true;
	else if (status != ORIEL_AGAIN) {
		/* It serves its listener, and so lives, or exits at this moment. */
		p->heard_at = ori_clock_ns();
		ori_vote_drop(p);
	}
	return ORIEL_OK;
}

/* The first failure counts, but for those that others cause. */
static void vote_weigh(struct ori_vote_value *value, const struct vote_state *state)
{
	bool is_caused = value->status == ORIEL_ERR_PEER || value->status == ORIEL_ERR_TIMEOUT ||
			 value->status == ORIEL_ERR_ABORTED;

	if (state->status == ORIEL_OK ||
	    (value->status != ORIEL_OK && (!is_caused || state->status == ORIEL_ERR_PEER)))
		return;
	value->status = ori_status_is_failure(state->status) ? state->status : ORIEL_ERR_PROTOCOL;
	memcpy(value->text, state->text, sizeof(value->text));
}

/* The value of the leader: what a rank has accepted before, or a new one. */
static void vote_propose(struct ori_vote *v)
{
	const struct ori_vote_value *found = v->has_accepted ? &v->accepted : NULL;
	struct ori_vote_value value = {.number = v->comm->survive->number,
				       .leader = v->comm->rank,
				       .status = v->status};
	const struct vote_state *state;
	unsigned peer;

	memcpy(value.text, v->text, sizeof(value.text));
	for (peer = 0; peer < v->comm->size; peer++) {
		state = v->peers[peer].state;
		if (!vote_is_here(v, peer)) {
			ori_vote_set(value.lost, peer);
			if (v->peers[peer].is == VOTE_SUSPECT)
				ori_vote_set(value.suspect, peer);
		} else if (peer == v->comm->rank) {
			continue;
		} else if (state->has_accepted && state->accepted.number == value.number) {
			/* The last one counts, if ranks that were suspected while alive bring two.
			 */
			if (!found || state->accepted.leader > found->leader)
				found = &state->accepted;
		} else {
			vote_weigh(&value, state);
		}
	}
	if (!found)
		v->choose(v->context, &value);
	ori_log_rank(ORIEL_LOG_DEBUG, v->comm->rank, "proposes agreement %u%s", value.number,
		     found ? ", as another rank did" : "");
	v->accepted = found ? *found : value;
	v->has_accepted = v->has_proposed = true;
	for (peer = v->comm->rank + 1; peer < v->comm->size; peer++) {
		v->peers[peer].heard_at = ori_clock_ns();
		if (vote_has_joined(v, peer))
			(void)vote_send(&v->peers[peer].in, VOTE_PROPOSE, &v->accepted,
					sizeof(v->accepted));
	}
}

/* Notifies the ranks of this agreement, which is over, and those that are behind. */
static void vote_announce(struct ori_vote *v)
{
	const struct ori_vote_value *last = &v->comm->survive->last;
	unsigned peer;

	for (peer = v->comm->rank + 1; peer < v->comm->size; peer++) {
		struct vote_peer *p = &v->peers[peer];

		if (p->in && p->state && p->state->number <= last->number)
			(void)vote_send(&p->in, VOTE_DECIDED, last, sizeof(*last));
	}
}

static enum oriel_status vote_lead(struct ori_vote *v)
{
	bool all_joined = true, all_accepted = true;
	enum oriel_status status = ORIEL_OK;
	unsigned peer;

	for (peer = v->comm->rank + 1; peer < v->comm->size && status == ORIEL_OK; peer++) {
		struct vote_peer *p = &v->peers[peer];

		if (!vote_is_here(v, peer))
			continue;
		vote_take(v, peer);
		if (v->is_decided || v->is_removed)
			break;
		if (!p->in)
			status = vote_probe(v, peer);
		else
			ori_vote_hang_up(&p->out);
		if (!vote_is_here(v, peer) || vote_has_accepted(v, peer))
			continue;
		all_joined &= vote_has_joined(v, peer);
		all_accepted = false;
		/* A rank that has joined waits for others, as this one does. */
		if (v->has_proposed || !vote_has_joined(v, peer))
			vote_judge(v, peer);
	}
	if (status == ORIEL_OK && !v->is_decided && !v->is_removed) {
		if (!v->has_proposed && all_joined)
			vote_propose(v);
		else if (v->has_proposed && all_accepted)
			vote_decide(v, &v->accepted);
	}
	if (v->is_decided)
		vote_announce(v);
	return status;
}

static void vote_begin_to_lead(struct ori_vote *v)
{
	unsigned peer;

	if (v->is_leading)
		return;
	v->is_leading = true;
	for (peer = v->comm->rank + 1; peer < v->comm->size; peer++)
		vote_grant(v, peer);
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
			(void)vote_send(&v->peers[peer].in, VOTE_WAIT, NULL, 0);
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
		vote_grant(v, leader);
	}
	if (leader != v->comm->rank)
		return vote_follow(v, leader);
	vote_begin_to_lead(v);
	return vote_lead(v);
}

/* Polls all that may bring news, but not for long. */
static enum oriel_status vote_sleep(struct ori_vote *v)
{
	const struct ori_survive *s = v->comm->survive;
	const struct ori_net_conn *conn[2];
	unsigned peer, i, count = 0;

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
	if (poll(v->fds, count, VOTE_TICK_MS) < 0 && errno != EINTR)
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
	/* From now on a rank makes a communicator between two agreements, and has no beats. */
	v->silence_ns = 0;
	if (step == ORIEL_OK)
		*value = v->comm->survive->last;
	return step;
}
