/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions in rounds through slots (include/oriel/dev/detail/reduction.h). In a round a rank puts
 * elements to a slot of each peer, with a signal behind them, then waits for those of all peers and
 * adds them. It puts those of a round before it adds those of the one before, and no rank says that
 * a slot is free. With owners (--owners 1) it also stores its results to the views of its peers; at
 * the end of an execution it signals that, and waits for the same of all.
 */
#include <stdint.h>
#include <string.h>

#include "explore.h"

#define RANKS 3

enum phase { NEXT, PUT, SIGNAL, AWAIT, ADD, WRITE, DONE, RESULTS, READ };

struct rank {
	uint8_t put;       /* the last round whose elements it has begun to put */
	uint8_t signalled; /* the last one that peers may add */
	uint8_t added;     /* the last one that it has added */
	uint8_t done;      /* the last one whose results are in all views */
	uint8_t phase;
	uint8_t peer; /* the next one to be served, counted from the own rank */
};

struct state {
	struct rank ranks[RANKS];
};

static struct {
	unsigned executions, rounds, depth, owners, awaits, results;
} options;

/* The next peer, or @phase after the last. */
static void advance(struct rank *r, enum phase phase)
{
	if (++r->peer < RANKS)
		return;
	r->peer = 1;
	r->phase = (uint8_t)phase;
}

/* One round is on its way while the one before is added, but for the last of an execution. */
static enum phase next_phase(const struct rank *r)
{
	unsigned ahead = r->signalled - r->added;

	return ahead == 2 || (ahead == 1 && r->signalled % options.rounds == 0) ? AWAIT : PUT;
}

static enum phase after_round(const struct rank *r)
{
	return options.owners && r->added % options.rounds == 0 ? DONE : NEXT;
}

static void staged_step(struct explore *e, const void *state, unsigned me)
{
	const struct state *s = state;
	struct state next = *s;
	struct rank *r = &next.ranks[me];
	const struct rank *peer = &s->ranks[(me + r->peer) % RANKS];
	const char *complaint = NULL, *what = "";

	switch ((enum phase)r->phase) {
	case NEXT:
		if (r->added == options.executions * options.rounds)
			return;
		what = "goes on: rank";
		r->phase = (uint8_t)next_phase(r);
		r->put += r->phase == PUT;
		break;
	case PUT:
		what = "puts: rank";
		if (r->put > options.depth + peer->added)
			complaint = "a slot is overwritten before its elements are added";
		advance(r, SIGNAL);
		break;
	case SIGNAL:
		what = "signals a round: rank";
		r->signalled = r->put;
		r->phase = NEXT;
		break;
	case AWAIT:
		if (options.awaits && peer->signalled < r->added + 1)
			return;
		what = "has waited for a round: rank";
		advance(r, ADD);
		break;
	case ADD:
		what = "adds: rank";
		if (peer->signalled < r->added + 1)
			complaint = "elements are added before they are there";
		advance(r, WRITE);
		r->added += r->phase == WRITE;
		break;
	case WRITE:
		what = "writes a result: rank";
		if (options.owners && peer->put < r->added)
			complaint = "a result is overwritten while it is read";
		advance(r, NEXT);
		if (r->phase == NEXT)
			r->phase = (uint8_t)after_round(r);
		break;
	case DONE:
		what = "signals its results: rank";
		r->done = r->added;
		r->phase = RESULTS;
		break;
	case RESULTS:
		if (options.results && peer->done < r->added)
			return;
		what = "has waited for results: rank";
		advance(r, READ);
		break;
	case READ:
		what = "reads its result: rank";
		if (peer->done < r->added)
			complaint = "an execution ends before the result is complete";
		advance(r, NEXT);
		break;
	}
	explore_to(e, &next, what, me, complaint);
}

static const char *staged_end(const void *state)
{
	const struct state *s = state;
	unsigned i;

	for (i = 0; i < RANKS; i++)
		if (s->ranks[i].phase != NEXT ||
		    s->ranks[i].added != options.executions * options.rounds)
			return "a rank waits for ever";
	return NULL;
}

int staged_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct state), RANKS, staged_step, staged_end};
	struct state start;
	unsigned i;

	memset(&start, 0, sizeof(start));
	for (i = 0; i < RANKS; i++)
		start.ranks[i].peer = 1;
	options.executions = model_option(argc, argv, "--executions", 3);
	options.rounds = model_option(argc, argv, "--rounds", 3);
	options.depth = model_option(argc, argv, "--depth", 4);
	options.owners = model_option(argc, argv, "--owners", 0);
	options.awaits = model_option(argc, argv, "--awaits", 1);
	options.results = model_option(argc, argv, "--results", 1);
	return explore_run(&model, &start, "reductions through slots") ? 0 : 1;
}
