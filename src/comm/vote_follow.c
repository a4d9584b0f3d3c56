/* SPDX-License-Identifier: Apache-2.0 */
/* A step of a rank that follows a leader. vote.c calls it. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/vote_peer.h"

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
	v->is_announced = ori_vote_send(conn, VOTE_STATE, state, sizeof(*state));
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
	else if (frame->length != sizeof(*value) || !ori_vote_is_value(v, value) ||
		 (frame->type != VOTE_DECIDED && frame->type != VOTE_PROPOSE))
		return false;
	else if (frame->type == VOTE_DECIDED)
		ori_vote_learn(v, value);
	/* The leader is behind: it learns the decision by the state of this rank. */
	else if (value->number == number) {
		ori_log_rank(ORIEL_LOG_DEBUG, v->comm->rank, "accepts agreement %u of rank %u",
			     number, leader);
		v->accepted = *value;
		v->has_accepted = true;
		(void)ori_vote_send(conn, VOTE_ACCEPT, &number, sizeof(number));
	}
	return true;
}

enum oriel_status ori_vote_follow(struct ori_vote *v, unsigned leader)
{
	struct vote_peer *p = &v->peers[leader];
	enum oriel_status status = ori_vote_dial(v, leader, VOTE_JOIN);
	struct ori_vote_value value;
	struct ori_frame frame;

	if (status == ORIEL_ERR_PEER)
		ori_vote_lose(v, leader, VOTE_DEAD);
	else if (status != ORIEL_OK && status != ORIEL_AGAIN)
		return status;
	else if (!p->out || status == ORIEL_AGAIN || !v->is_announced)
		ori_vote_judge(v, leader);
	/* Nothing is left to agree on; all have joined, and so know the decision before. */
	if (!ori_vote_is_here(v, leader) && v->is_last && v->has_accepted) {
		ori_vote_decide(v, &v->accepted);
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
		if (status == ORIEL_AGAIN) {
			/* Not before: a leader that has ended may have said how it ended. */
			ori_vote_judge(v, leader);
			return ORIEL_OK;
		}
		if (status == ORIEL_OK && vote_obey(v, leader, &frame, &value)) {
			ori_vote_hear(p);
			continue;
		}
		ori_vote_doubt(v, leader, p->out, status);
		/* It joins again, or finds that no process listens. */
		ori_vote_hang_up(&p->out);
		v->is_announced = false;
		status = ORIEL_OK;
	}
	return status;
}
