/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions in rounds through slots (include/oriel/dev/detail/reduction.h). In a round a rank puts
 * elements to a slot of each peer, with a signal behind them, then waits for those of all peers and
 * adds them. It puts those of a round before it adds those of the one before, and no rank says that
 * a slot is free. With owners (--owners 1) it also stores its results to the views of its peers; at
 * the end of an execution it signals that, and waits for the same of all.
 */
#include "ranks.h"

enum staged_phase { NEXT, PUT, SIGNAL, AWAIT, ADD, WRITE, DONE, RESULTS, READ };

static struct {
	unsigned executions, rounds, depth, owners, awaits, results;
} options;

/* One round is on its way while the one before is added, but for the last of an execution. */
static enum staged_phase next_phase(const struct rank *r)
{
	unsigned ahead = r->published - r->added;

	return ahead == 2 || (ahead == 1 && r->published % options.rounds == 0) ? AWAIT : PUT;
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
		ranks_advance(r, SIGNAL);
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
	options.depth = model_option(argc, argv, "--depth", 4);
	options.owners = model_option(argc, argv, "--owners", 0);
	options.awaits = model_option(argc, argv, "--awaits", 1);
	options.results = model_option(argc, argv, "--results", 1);
	return explore_run(&model, &start, "reductions through slots") ? 0 : 1;
}
