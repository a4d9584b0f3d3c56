/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ori_dev_atomic_with_ticket() of dev/detail/atomic.h: ranks that reach a word without atomics take
 * tickets, load the word, add and store it. Each store waits in a buffer of its rank, one entry for
 * each word, and lands at any time, in any order: a fence waits for all of them, a release for
 * those before it. --fences: bit 1 is the fence before a rank reads tickets, bit 2 the one before
 * it waits.
 * --draws 0: no rank shows that it is about to draw. --waits 0: no rank waits.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define RANKS_MAX 3u
#define ADDS_MAX 4u

enum at { SHOW, READ, TAKE, WAIT, LOAD, STORE, LEAVE };

struct rank {
	uint8_t at;
	uint8_t left;   /* adds still to make */
	uint8_t number; /* of its ticket; while it reads, the highest seen */
	uint8_t other;  /* the rank whose ticket it reads next */
	uint8_t seen;   /* of the word */
	uint8_t ticket; /* 1 + a ticket that has not landed; 0: none */
	uint8_t word;   /* 1 + the word that has not landed */
};

struct state {
	uint8_t tickets[RANKS_MAX];
	uint8_t word;
	struct rank ranks[RANKS_MAX];
};

static struct {
	unsigned ranks, adds, fences, draws, waits;
} tickets;

static const char *const doing[] = {
	[SHOW] = "shows that it draws: rank",    [READ] = "reads a ticket: rank",
	[TAKE] = "takes its ticket: rank",       [WAIT] = "need not wait for one more: rank",
	[LOAD] = "loads the word: rank",         [STORE] = "stores the word: rank",
	[LEAVE] = "gives its ticket back: rank",
};

/* Its own stores, landed or not, are what a rank reads. */
static uint8_t tickets_read(const struct state *s, unsigned me, unsigned other)
{
	const struct rank *r = &s->ranks[me];

	return me == other && r->ticket ? (uint8_t)(r->ticket - 1) : s->tickets[other];
}

static void tickets_land(struct explore *e, const struct state *s, unsigned me)
{
	struct state next = *s;
	struct rank *r = &next.ranks[me];

	if (r->word) {
		next.word = (uint8_t)(r->word - 1);
		r->word = 0;
		explore_to(e, &next, "  the word lands as", next.word, NULL);
		next = *s;
	}
	/* A ticket that is given back is released: what the rank stored before has landed. */
	if (r->ticket && !(r->ticket == 1 && r->word)) {
		next.tickets[me] = (uint8_t)(r->ticket - 1);
		r->ticket = 0;
		explore_to(e, &next, "  a ticket lands as", next.tickets[me], NULL);
	}
}

static bool tickets_may_pass(const struct state *s, unsigned me, unsigned other)
{
	uint8_t seen = s->tickets[other], number = s->ranks[me].number;

	return !seen || (seen > 1 && (seen > number || (seen == number && other > me)));
}

static void tickets_step(struct explore *e, const void *state, unsigned me)
{
	const struct state *s = state;
	struct state next = *s;
	struct rank *r = &next.ranks[me];
	unsigned at = r->at;
	uint8_t seen;

	tickets_land(e, s, me);
	switch (at) {
	case SHOW:
		/* A second store to one word follows the first. */
		if (!r->left || r->ticket || r->word)
			return;
		r->ticket = tickets.draws ? 1 + 1 : 0;
		r->number = 1;
		r->other = 0;
		r->at = READ;
		break;
	case READ:
		if (tickets.fences & 1 && r->ticket)
			return;
		seen = tickets_read(s, me, r->other);
		r->number = seen > r->number ? seen : r->number;
		r->at = ++r->other == tickets.ranks ? TAKE : READ;
		break;
	case TAKE:
		if (r->ticket)
			return;
		r->ticket = (uint8_t)(++r->number + 1);
		r->other = 0;
		r->at = tickets.waits ? WAIT : LOAD;
		break;
	case WAIT:
		if (tickets.fences & 2 && r->ticket)
			return;
		if (r->other != me && !tickets_may_pass(s, me, r->other))
			return;
		r->at = ++r->other == tickets.ranks ? LOAD : WAIT;
		break;
	case LOAD:
		r->seen = s->word;
		r->at = STORE;
		break;
	case STORE:
		r->word = (uint8_t)(r->seen + 1 + 1);
		r->at = LEAVE;
		break;
	default:
		if (r->ticket)
			return;
		r->ticket = 1;
		r->left--;
		/* All that a rank remembers of its last turn, so that equal states compare equal.
		 */
		r->number = r->other = r->seen = 0;
		r->at = SHOW;
		break;
	}
	explore_to(e, &next, doing[at], me, NULL);
}

static const char *tickets_end(const void *state)
{
	const struct state *s = state;
	unsigned i;

	for (i = 0; i < tickets.ranks; i++)
		if (s->ranks[i].left)
			return "a rank waits for ever";
	return s->word == tickets.ranks * tickets.adds ? NULL : "an add is lost";
}

int tickets_model(int argc, char **argv)
{
	struct model model = {sizeof(struct state), 0, tickets_step, tickets_end};
	struct state start;
	char title[80];
	unsigned i;

	tickets.ranks = model_option(argc, argv, "--ranks", 2);
	tickets.adds = model_option(argc, argv, "--adds", 2);
	tickets.fences = model_option(argc, argv, "--fences", 3);
	tickets.draws = model_option(argc, argv, "--draws", 1);
	tickets.waits = model_option(argc, argv, "--waits", 1);
	if (tickets.ranks > RANKS_MAX || tickets.adds > ADDS_MAX)
		return 2;
	model.processes = tickets.ranks;
	memset(&start, 0, sizeof(start));
	for (i = 0; i < tickets.ranks; i++)
		start.ranks[i].left = (uint8_t)tickets.adds;
	snprintf(title, sizeof(title),
		 "tickets of %u ranks, %u adds, fences %u, draws %u, waits %u", tickets.ranks,
		 tickets.adds, tickets.fences, tickets.draws, tickets.waits);
	return explore_run(&model, &start, title) ? 0 : 1;
}
