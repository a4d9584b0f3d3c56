/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The others as a rank of an agreement sees them, and the end of one. vote.c, vote_lead.c and
 * vote_follow.c call it.
 */
#include <string.h>

#include <oriel/dev/detail/order.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/vote_peer.h"

#define VOTE_GRACE 8 /* of the limit one part, and at least: */
#define VOTE_GRACE_NS 1000000000u
#define VOTE_LOOK_NS 100000000u /* between two looks for the process of a rank */

bool ori_vote_is_here(const struct ori_vote *v, unsigned peer)
{
	return v->peers[peer].is == VOTE_HERE;
}

unsigned ori_vote_leader(const struct ori_vote *v)
{
	unsigned peer = 0;

	while (peer != v->comm->rank && !ori_vote_is_here(v, peer))
		peer++;
	return peer;
}

void ori_vote_lose(struct ori_vote *v, unsigned peer, enum vote_is is)
{
	ori_log_rank(ORIEL_LOG_WARN, v->comm->rank, "rank %u (process %u on %s) %s", peer,
		     v->comm->hosts[peer].pid, v->comm->hosts[peer].hostname,
		     is == VOTE_DEAD ? "has exited" : "does not answer, and is suspected");
	v->peers[peer].is = is;
	ori_vote_hang_up(&v->peers[peer].in);
	ori_vote_hang_up(&v->peers[peer].out);
}

/*
 * Has @peer, which has a copy of its beats in memory, or has answered before, fallen silent? Or had
 * it before, and does not come?
 */
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
	if (p->was_silent && !p->has_answered)
		return now - v->opened_at >= v->silence_ns;
	return p->has_answered && now - p->heard_at >= v->silence_ns;
}

/* A socket that accepts at the address of @peer proves nothing: any process may have it by now. */
static bool vote_has_ended(const struct ori_vote *v, struct vote_peer *p, unsigned peer)
{
	if (!ori_deadline_passed(p->look_at))
		return false;
	p->look_at = ori_deadline(VOTE_LOOK_NS);
	return ori_survive_has_ended(v->comm, peer);
}

/* Gives up on @peer if its process has ended, or its time is over. */
void ori_vote_judge(struct ori_vote *v, unsigned peer)
{
	uint64_t limit = v->limit_ns, heard = v->peers[peer].heard_at;

	if (vote_has_ended(v, &v->peers[peer], peer))
		ori_vote_lose(v, peer, VOTE_DEAD);
	else if (vote_is_silent(v, peer) ||
		 (limit != ORIEL_TIMEOUT_INFINITE && ori_clock_ns() - heard >= limit))
		ori_vote_lose(v, peer, VOTE_SUSPECT);
}

void ori_vote_hear(struct vote_peer *p)
{
	p->heard_at = ori_clock_ns();
	p->has_answered = true;
}

/* Another rank counts from now on: it has some time left, even if this rank has waited for long. */
void ori_vote_grant(struct ori_vote *v, unsigned peer)
{
	uint64_t limit = v->limit_ns, now = ori_clock_ns();
	uint64_t grace = limit / VOTE_GRACE > VOTE_GRACE_NS ? limit / VOTE_GRACE : VOTE_GRACE_NS;
	struct vote_peer *p = &v->peers[peer];

	if (limit > grace && now - p->heard_at > limit - grace)
		p->heard_at = now - (limit - grace);
}

bool ori_vote_is_value(const struct ori_vote *v, const struct ori_vote_value *value)
{
	return value->number && value->number < UINT32_MAX && value->leader < v->comm->size &&
	       (value->status == ORIEL_OK || value->status == ORIEL_AGAIN ||
		ori_status_is_failure(value->status)) &&
	       memchr(value->text, '\0', sizeof(value->text));
}

/* The agreement is over for this rank. */
void ori_vote_decide(struct ori_vote *v, const struct ori_vote_value *value)
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
void ori_vote_learn(struct ori_vote *v, const struct ori_vote_value *value)
{
	if (value->number >= v->comm->survive->number)
		ori_vote_decide(v, value);
}

bool ori_vote_send(struct ori_net_conn **conn, enum vote_frame type, const void *body,
		   size_t length)
{
	if (*conn && ori_net_send(*conn, type, body, length) == ORIEL_OK)
		return true;
	ori_vote_hang_up(conn);
	return false;
}
