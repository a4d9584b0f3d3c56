/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agreement of src/comm/vote.h, by star and rotating leader: ranks join the lowest rank that
 * they do not know to be lost, which proposes, and decides once all have accepted. Up to --crashes
 * ranks die, between any two of their messages, also leaders, also after they decided. Messages
 * that they had sent still arrive, or a part of them, and then their end. All values that are ever
 * decided are one, and all ranks that are left decide.
 */
#include <string.h>

#include "explore.h"

#define RANKS_MOST 4u

static struct {
	unsigned ranks, crashes, adopts, waits;
} options;

enum message {
	NO_MESSAGE,
	JOIN, /* with what the sender has accepted, or decided */
	PROPOSE,
	ACCEPT,
	DECIDED,
};

/* Values are the leader that proposed them first, plus 1; 0: none. */
struct voter {
	unsigned char is_dead, lost, accepted, decided;
	unsigned char announced;            /* the leader that has its state, plus 1 */
	unsigned char has_proposed, joined; /* of a leader, as the next */
	unsigned char brought;              /* the last value that a rank which joined accepted */
	unsigned char acks;
	unsigned char sending, send_to; /* a message to several ranks, one after the other */
};

struct state {
	struct voter voters[RANKS_MOST];
	/* Messages from the first to the second, the oldest first, each << 4 | its value. */
	unsigned char wire[RANKS_MOST][RANKS_MOST][3];
	unsigned char crashed;
};

static unsigned leader_of(const struct voter *v)
{
	unsigned rank = 0;

	while (v->lost >> rank & 1)
		rank++;
	return rank;
}

/* All ranks above @me that it does not know to be lost. */
static unsigned others(const struct voter *v, unsigned me)
{
	return ((1u << options.ranks) - 1) & ~v->lost & ~((2u << me) - 1);
}

static const char *put(struct state *s, unsigned from, unsigned to, enum message message,
		       unsigned value)
{
	unsigned char *wire = s->wire[from][to];
	unsigned i = 0;

	while (i < 3 && wire[i])
		i++;
	if (i == 3)
		return "the model has too short wires";
	wire[i] = (unsigned char)(message << 4 | value);
	return NULL;
}

static unsigned take(struct state *s, unsigned from, unsigned to)
{
	unsigned char *wire = s->wire[from][to];
	unsigned head = wire[0];

	wire[0] = wire[1];
	wire[1] = wire[2];
	wire[2] = 0;
	return head;
}

static const char *decide(struct state *s, unsigned me, unsigned value)
{
	unsigned rank;

	s->voters[me].decided = (unsigned char)value;
	for (rank = 0; rank < options.ranks; rank++)
		if (s->voters[rank].decided && s->voters[rank].decided != value)
			return "two ranks decide differently";
	return NULL;
}

/* @me, which leads, hears of @from. */
static const char *lead_by(struct state *s, unsigned me, unsigned from, unsigned message,
			   unsigned value)
{
	struct voter *v = &s->voters[me];

	if (message == ACCEPT) {
		v->acks = (unsigned char)(v->acks | 1u << from);
		return NULL;
	}
	v->joined = (unsigned char)(v->joined | 1u << from);
	if (value > v->brought)
		v->brought = (unsigned char)value;
	if (v->decided)
		return put(s, me, from, DECIDED, v->decided);
	return v->has_proposed ? put(s, me, from, PROPOSE, v->accepted) : NULL;
}

static void receive(struct explore *e, const struct state *s, unsigned me, unsigned from)
{
	unsigned leader = leader_of(&s->voters[me]), head, value;
	struct state next = *s;
	struct voter *v = &next.voters[me];
	const char *complaint = NULL;

	if (!s->wire[from][me][0])
		return;
	/* The connection of a rank that is lost is closed; what joins wait until this rank leads.
	 */
	if (!(v->lost >> from & 1) && from != leader && leader != me)
		return;
	head = take(&next, from, me);
	value = head & 15;
	if (v->lost >> from & 1) {
		explore_to(e, &next, "drops a message of", from, NULL);
		return;
	}
	if (from < me && head >> 4 == PROPOSE && !v->decided) {
		v->accepted = (unsigned char)value;
		complaint = put(&next, me, from, ACCEPT, value);
	} else if (from < me && head >> 4 == DECIDED && !v->decided) {
		complaint = decide(&next, me, value);
	} else if (from > me && head >> 4 == JOIN && value & 8 && !v->decided) {
		/* It has seen the end of the agreement. */
		complaint = decide(&next, me, value & 7);
		v->sending = DECIDED;
		v->send_to = (unsigned char)v->joined;
	} else if (from > me) {
		complaint = lead_by(&next, me, from, head >> 4, value & 7);
	}
	explore_to(e, &next, "receives from", from, complaint);
}

static void send_next(struct explore *e, const struct state *s, unsigned me)
{
	struct state next = *s;
	struct voter *v = &next.voters[me];
	unsigned to = 0;
	const char *complaint;

	while (!(v->send_to >> to & 1))
		to++;
	v->send_to = (unsigned char)(v->send_to & ~(1u << to));
	complaint = put(&next, me, to, (enum message)v->sending,
			v->sending == DECIDED ? v->decided : v->accepted);
	explore_to(e, &next, "sends to", to, complaint);
}

static void lead(struct explore *e, const struct state *s, unsigned me)
{
	struct state next = *s;
	struct voter *v = &next.voters[me];
	unsigned all = others(v, me), found;

	if (!v->has_proposed && (v->joined & all) == all) {
		found = v->accepted > v->brought ? v->accepted : v->brought;
		v->accepted = (unsigned char)(options.adopts && found ? found : me + 1);
		v->has_proposed = 1;
		v->sending = PROPOSE;
		v->send_to = (unsigned char)all;
		explore_to(e, &next, "proposes: rank", me, NULL);
	} else if (v->has_proposed && (!options.waits || (v->acks & all) == all)) {
		const char *complaint = decide(&next, me, v->accepted);

		v->sending = DECIDED;
		v->send_to = (unsigned char)all;
		explore_to(e, &next, "decides: rank", me, complaint);
	}
}

static void vote_step(struct explore *e, const void *state, unsigned me)
{
	const struct state *s = state;
	const struct voter *v = &s->voters[me];
	struct state next = *s;
	unsigned peer, leader = leader_of(v);

	if (v->is_dead)
		return;
	if (s->crashed < options.crashes) {
		next.voters[me].is_dead = 1;
		next.crashed++;
		explore_to(e, &next, "dies: rank", me, NULL);
	}
	if (v->send_to) {
		send_next(e, s, me);
		return;
	}
	for (peer = 0; peer < options.ranks; peer++) {
		receive(e, s, me, peer);
		/* The end of a stream comes after its bytes, or in their place. */
		if (!s->voters[peer].is_dead || v->lost >> peer & 1)
			continue;
		next = *s;
		memset(next.wire[peer][me], 0, sizeof(next.wire[peer][me]));
		next.voters[me].lost = (unsigned char)(v->lost | 1u << peer);
		explore_to(e, &next, "finds dead", peer, NULL);
	}
	if (leader == me) {
		if (!v->decided)
			lead(e, s, me);
	} else if (v->announced != leader + 1) {
		next = *s;
		next.voters[me].announced = (unsigned char)(leader + 1);
		explore_to(e, &next, "joins", leader,
			   put(&next, me, leader, JOIN,
			       v->decided ? 8u | v->decided : v->accepted));
	}
}

static const char *vote_end(const void *state)
{
	const struct state *s = state;
	unsigned rank;

	for (rank = 0; rank < options.ranks; rank++)
		if (!s->voters[rank].is_dead && !s->voters[rank].decided)
			return "a rank waits for ever";
	return NULL;
}

int vote_model(int argc, char **argv)
{
	struct model model = {sizeof(struct state), 0, vote_step, vote_end};
	struct state start;

	memset(&start, 0, sizeof(start));
	options.ranks = model_option(argc, argv, "--ranks", 3);
	options.crashes = model_option(argc, argv, "--crashes", 2);
	options.adopts = model_option(argc, argv, "--adopts", 1);
	options.waits = model_option(argc, argv, "--waits", 1);
	model.processes = options.ranks;
	return explore_run(&model, &start, "vote") ? 0 : 1;
}
