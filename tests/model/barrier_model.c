/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The barriers of oriel/dev/barrier.h: each rank puts to all peers, arrives, waits, and must then
 * find the puts that every rank made before it arrived. Between two ranks stores land in order,
 * between different pairs in any order. With --flat 1 arrivals are added to one word per rank.
 * With --limits N each rank may give up a wait N times, by a limit of its own, and calls again:
 * that call waits for the same arrivals. With --repeats 1 it arrives once more.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define RANKS 3
#define ROUNDS 2

/*
 * The stores from one rank to each of its peers are one sequence: a put at the beginning of each
 * round, and arrivals. The counts of sent and landed stores are the whole state.
 */
struct rank {
	uint8_t round;
	uint8_t is_waiting;
	uint8_t peer;   /* the next to send to or to wait for, counted from the own rank */
	uint8_t epoch;  /* arrivals so far */
	uint8_t limits; /* waits that this rank gave up */
	uint8_t length; /* stores in the sequence */
	uint8_t puts;   /* a mask: the stores of the sequence that are puts */
	uint8_t sent[RANKS];
	uint8_t landed[RANKS];
};

struct state {
	struct rank ranks[RANKS];
};

static unsigned barrier_is_flat, barrier_limits, barrier_repeats;

/* Counts the puts, or arrivals, of @from that have landed at @to. */
static unsigned barrier_landed(const struct state *s, unsigned from, unsigned to, bool puts)
{
	const struct rank *r = &s->ranks[from];
	unsigned count = 0, i;

	for (i = 0; i < r->landed[to]; i++)
		count += (r->puts >> i & 1) == puts;
	return count;
}

static bool barrier_has_arrived(const struct state *s, unsigned me, unsigned peer)
{
	unsigned epoch = s->ranks[me].epoch, sum = 0, i;

	if (!barrier_is_flat)
		return barrier_landed(s, peer, me, false) >= epoch;
	for (i = 0; i < RANKS; i++)
		sum += barrier_landed(s, i, me, false);
	return sum >= epoch * (RANKS - 1);
}

/* The puts of all ranks in @round have landed at @me. */
static bool barrier_is_visible(const struct state *s, unsigned me, unsigned round)
{
	unsigned i;

	for (i = 0; i < RANKS; i++)
		if (i != me && barrier_landed(s, i, me, true) < round)
			return false;
	return true;
}

static void barrier_land(struct explore *e, const struct state *s, unsigned me)
{
	const struct rank *r = &s->ranks[me];
	struct state next;
	unsigned i;

	for (i = 0; i < RANKS; i++) {
		if (r->landed[i] == r->sent[i])
			continue;
		next = *s;
		next.ranks[me].landed[i]++;
		explore_to(e, &next,
			   r->puts >> r->landed[i] & 1 ? "  a put lands at"
						       : "  an arrival lands at",
			   i, NULL);
	}
}

/* Extends the sequence that this rank sends to all peers; a new round begins with a put. */
static void barrier_begin(struct rank *r, bool is_new)
{
	if (is_new)
		r->puts = (uint8_t)(r->puts | 1u << r->length++);
	r->length++;
	r->epoch++;
	r->is_waiting = 0;
}

/* The limit of the wait has passed: the rank calls again and waits from the first peer on. */
static void barrier_give_up(struct explore *e, const struct state *s, unsigned me)
{
	struct state next = *s;
	struct rank *r = &next.ranks[me];

	if (r->limits == barrier_limits)
		return;
	r->limits++;
	r->peer = 1;
	if (barrier_repeats)
		barrier_begin(r, false);
	explore_to(e, &next, "calls again: rank", me, NULL);
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
	if (r->is_waiting && !barrier_has_arrived(s, me, peer)) {
		barrier_give_up(e, s, me);
		return;
	}
	if (!r->is_waiting)
		r->sent[peer] = r->length;
	if (++r->peer == RANKS) {
		r->peer = 1;
		if (!r->is_waiting) {
			r->is_waiting = 1;
		} else {
			if (!barrier_is_visible(s, me, r->round))
				complaint = "a barrier ends before all puts are visible";
			if (++r->round <= ROUNDS)
				barrier_begin(r, true);
		}
	}
	explore_to(e, &next, s->ranks[me].is_waiting ? "continues: rank" : "puts and arrives: rank",
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
	barrier_limits = model_option(argc, argv, "--limits", 0);
	barrier_repeats = model_option(argc, argv, "--repeats", 0);
	memset(&start, 0, sizeof(start));
	for (i = 0; i < RANKS; i++) {
		start.ranks[i].round = start.ranks[i].peer = 1;
		barrier_begin(&start.ranks[i], true);
	}
	return explore_run(&model, &start, barrier_is_flat ? "flat barrier" : "barrier") ? 0 : 1;
}
