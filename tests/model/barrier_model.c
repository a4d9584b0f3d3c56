/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The barriers of oriel/dev/barrier.h: each rank puts to all peers, arrives, waits, and must then
 * find the puts that every rank made before it arrived. Between two ranks stores land in order,
 * between different pairs in any order. With --flat 1 arrivals are added to one word per rank.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define RANKS 3
#define ROUNDS 2

/*
 * The stores from one rank to another are put 1, arrival 1, put 2, arrival 2, so the counts of sent
 * and landed stores are the whole state.
 */
struct rank {
	uint8_t round;
	uint8_t is_waiting;
	uint8_t peer; /* the next to send to or to wait for, counted from the own rank */
	uint8_t sent[RANKS];
	uint8_t landed[RANKS];
};

struct state {
	struct rank ranks[RANKS];
};

static unsigned barrier_is_flat;

static bool barrier_has_arrived(const struct state *s, unsigned me, unsigned peer, unsigned round)
{
	unsigned sum = 0, i;

	if (!barrier_is_flat)
		return s->ranks[peer].landed[me] >= 2 * round;
	for (i = 0; i < RANKS; i++)
		sum += s->ranks[i].landed[me] / 2;
	return sum >= round * (RANKS - 1);
}

/* The puts of all ranks in @round have landed at @me. */
static bool barrier_is_visible(const struct state *s, unsigned me, unsigned round)
{
	unsigned i;

	for (i = 0; i < RANKS; i++)
		if (i != me && s->ranks[i].landed[me] < 2 * round - 1)
			return false;
	return true;
}

static void barrier_land(struct explore *e, const struct state *s, unsigned me)
{
	struct state next;
	unsigned i;

	for (i = 0; i < RANKS; i++) {
		if (s->ranks[me].landed[i] == s->ranks[me].sent[i])
			continue;
		next = *s;
		next.ranks[me].landed[i]++;
		explore_to(e, &next,
			   next.ranks[me].landed[i] % 2 ? "  a put lands at"
							: "  an arrival lands at",
			   i, NULL);
	}
}

static void barrier_step(struct explore *e, const void *state, unsigned me)
{
	const struct state *s = state;
	struct state next = *s;
	struct rank *r = &next.ranks[me];
	unsigned peer = (me + r->peer) % RANKS;
	const char *complaint = NULL;

	barrier_land(e, s, me);
	if (r->round > ROUNDS)
		return;
	if (r->is_waiting && !barrier_has_arrived(s, me, peer, r->round))
		return;
	if (!r->is_waiting)
		r->sent[peer] = (uint8_t)(2 * r->round);
	if (++r->peer == RANKS) {
		if (r->is_waiting && !barrier_is_visible(s, me, r->round))
			complaint = "a barrier ends before all puts are visible";
		r->round = (uint8_t)(r->round + r->is_waiting);
		r->is_waiting = !r->is_waiting;
		r->peer = 1;
	}
	explore_to(e, &next, s->ranks[me].is_waiting ? "goes on: rank" : "puts and arrives: rank",
		   me, complaint);
}

static const char *barrier_end(const void *state)
{
	const struct state *s = state;
	unsigned i;

	for (i = 0; i < RANKS; i++)
		if (s->ranks[i].round <= ROUNDS)
			return "a rank waits for ever";
	return NULL;
}

int barrier_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct state), RANKS, barrier_step, barrier_end};
	struct state start;
	unsigned i;

	barrier_is_flat = model_option(argc, argv, "--flat", 0);
	memset(&start, 0, sizeof(start));
	for (i = 0; i < RANKS; i++)
		start.ranks[i].round = start.ranks[i].peer = 1;
	return explore_run(&model, &start, barrier_is_flat ? "flat barrier" : "barrier") ? 0 : 1;
}
