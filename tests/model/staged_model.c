/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions in rounds through slots (include/oriel/dev/detail/reduction.h). In a round a rank puts
 * elements to a slot of each peer, adds those of the round before, once it has them of all peers,
 * and signals both by one word. No other word says that a slot is free. With owners (--owners 1) it
 * also stores its results to the views of its peers; at the end of an execution it signals that,
 * and waits for the same of all.
 */
#include "ranks.h"

enum staged_phase { NEXT, PUT, SIGNAL, AWAIT, ADD, WRITE, DONE, RESULTS, READ };

static struct {
	unsigned executions, rounds, depth, early, owners, awaits, results;
} options;

/* A round is signalled after the one before it is added, which has been if it is the first. */
static enum staged_phase next_phase(const struct rank *r)
{
	unsigned ahead = r->published - r->added;

	if (r->begun > r->published && (options.early || r->added + 1 == r->begun))
		return SIGNAL;
	if (r->begun > r->published || ahead == 2)
		return AWAIT;
	return ahead == 1 && r->published % options.rounds == 0 ? AWAIT : PUT;
}

static enum staged_phase after_round(const struct rank *r)
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

	switch ((enum staged_phase)r->phase) {
	case NEXT:
		if (r->added == options.executions * options.rounds)
			return;
		what = "goes on: rank";
		r->phase = (uint8_t)next_phase(r);
		r->begun += r->phase == PUT;
		break;
	case PUT:
		what = "puts: rank";
		if (r->begun > options.depth + peer->added)
			complaint = "a slot is overwritten before its elements are added";
		ranks_advance(r, NEXT);
		break;
	case SIGNAL:
		what = "signals a round: rank";
		r->published = r->begun;
		r->phase = NEXT;
		break;
	case AWAIT:
		if (options.awaits && peer->published < r->added + 1)
			return;
		what = "has waited for a round: rank";
		ranks_advance(r, ADD);
		break;
	case ADD:
		what = "adds: rank";
		if (peer->published < r->added + 1)
			complaint = "elements are added before they are there";
		ranks_advance(r, WRITE);
		r->added += r->phase == WRITE;
		break;
	case WRITE:
		what = "writes a result: rank";
		if (options.owners && peer->begun < r->added)
			complaint = "a result is overwritten while it is read";
		ranks_advance(r, NEXT);
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
		ranks_advance(r, READ);
		break;
	case READ:
		what = "reads its result: rank";
		if (peer->done < r->added)
			complaint = "an execution ends before the result is complete";
		ranks_advance(r, NEXT);
		break;
	}
	explore_to(e, &next, what, me, complaint);
}

static const char *staged_end(const void *state)
{
	return ranks_end(state, options.executions * options.rounds);
}

int staged_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct state), RANKS, staged_step, staged_end};
	struct state start = ranks_start();

	options.executions = model_option(argc, argv, "--executions", 3);
	options.rounds = model_option(argc, argv, "--rounds", 3);
	options.depth = model_option(argc, argv, "--depth", 3);
	options.early = model_option(argc, argv, "--early", 0);
	options.owners = model_option(argc, argv, "--owners", 0);
	options.awaits = model_option(argc, argv, "--awaits", 1);
	options.results = model_option(argc, argv, "--results", 1);
	return explore_run(&model, &start, "reductions through slots") ? 0 : 1;
}
