/* SPDX-License-Identifier: Apache-2.0 */
/* A step of the rank that leads: it awaits the others, and proposes. vote.c calls it. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/vote_peer.h"

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
		ori_vote_learn(v, &p->state->last);
	else if (p->state->number < s->number)
		(void)ori_vote_send(&p->in, VOTE_DECIDED, &s->last, sizeof(s->last));
	else if (v->has_proposed)
		(void)ori_vote_send(&p->in, VOTE_PROPOSE, &v->accepted, sizeof(v->accepted));
}

/* The value of the agreement before is there unless this is the first one. */
static bool vote_is_state(const struct ori_vote *v, const struct vote_state *state)
{
	if (!state->number || state->number == UINT32_MAX || state->has_accepted > 1 ||
	    !memchr(state->text, '\0', sizeof(state->text)) ||
	    state->last.number != state->number - 1 ||
	    (state->last.number && !ori_vote_is_value(v, &state->last)))
		return false;
	return !state->has_accepted ||
	       (state->accepted.number == state->number && ori_vote_is_value(v, &state->accepted));
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
	if (frame->type != VOTE_STATE || frame->length != sizeof(*state) ||
	    !vote_is_state(v, state))
		return false;
	if (!p->state)
		p->state = malloc(sizeof(*p->state));
	if (!p->state)
		return false;
	*p->state = *state;
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
		if (status == ORIEL_OK && vote_hear_of(v, peer, &frame, &state)) {
			ori_vote_hear(p);
			continue;
		}
		ori_vote_doubt(v, peer, p->in, status);
		ori_vote_hang_up(&p->in);
	}
}

/* Looks for a rank that has not joined: is it dead, or has it removed this one? */
static enum oriel_status vote_probe(struct ori_vote *v, unsigned peer)
{
	struct vote_peer *p = &v->peers[peer];
	enum oriel_status status = ori_vote_dial(v, peer, VOTE_PROBE);
	struct ori_frame frame;

	if (status == ORIEL_ERR_PEER) {
		ori_vote_lose(v, peer, VOTE_DEAD);
		return ORIEL_OK;
	}
	if (status != ORIEL_OK)
		return status == ORIEL_AGAIN ? ORIEL_OK : status;
	status = ori_net_take(p->out, &frame, NULL, 0);
	if (status == ORIEL_OK && frame.type == VOTE_REMOVED)
		v->is_removed = true;
	else if (status != ORIEL_AGAIN) {
		ori_vote_doubt(v, peer, p->out, status);
		/* An answer shows that it lives, and follows another rank; an end shows nothing. */
		if (status == ORIEL_OK && frame.type == VOTE_WAIT)
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
		if (!ori_vote_is_here(v, peer)) {
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
			(void)ori_vote_send(&v->peers[peer].in, VOTE_PROPOSE, &v->accepted,
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
			(void)ori_vote_send(&p->in, VOTE_DECIDED, last, sizeof(*last));
	}
}

unsigned ori_vote_awaited(const struct ori_vote *v)
{
	unsigned peer;

	for (peer = v->comm->rank + 1; peer < v->comm->size; peer++)
		if (ori_vote_is_here(v, peer) &&
		    (v->has_proposed ? !vote_has_accepted(v, peer) : !vote_has_joined(v, peer)))
			return peer;
	return ORIEL_DEV_NO_RANK;
}

static void vote_begin_to_lead(struct ori_vote *v)
{
	unsigned peer;

	if (v->is_leading)
		return;
	v->is_leading = true;
	for (peer = v->comm->rank + 1; peer < v->comm->size; peer++)
		ori_vote_grant(v, peer);
}

enum oriel_status ori_vote_lead(struct ori_vote *v)
{
	bool all_joined = true, all_accepted = true;
	enum oriel_status status = ORIEL_OK;
	unsigned peer;

	vote_begin_to_lead(v);
	for (peer = v->comm->rank + 1; peer < v->comm->size && status == ORIEL_OK; peer++) {
		struct vote_peer *p = &v->peers[peer];

		if (!ori_vote_is_here(v, peer))
			continue;
		vote_take(v, peer);
		if (v->is_decided || v->is_removed)
			break;
		if (!p->in)
			status = vote_probe(v, peer);
		else
			ori_vote_hang_up(&p->out);
		if (!ori_vote_is_here(v, peer) || vote_has_accepted(v, peer))
			continue;
		all_joined &= vote_has_joined(v, peer);
		all_accepted = false;
		/* A rank that has joined waits for others, as this one does. */
		if (v->has_proposed || !vote_has_joined(v, peer))
			ori_vote_judge(v, peer);
	}
	if (status == ORIEL_OK && !v->is_decided && !v->is_removed) {
		if (!v->has_proposed && all_joined)
			vote_propose(v);
		else if (v->has_proposed && all_accepted)
			ori_vote_decide(v, &v->accepted);
	}
	if (v->is_decided)
		vote_announce(v);
	return status;
}
