/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of mapped ranks (src/coll/reduce_run.c). In each execution a rank writes its elements
 * to one half of its staging, publishes the step, waits for the step of all peers and adds their
 * elements where they lie. With owners (--owners 1, or in every other execution with 2) the
 * elements lie in the view instead; each rank then writes its part of the result to the views of
 * all, says that it is done, and waits until all are.
 *
 * A rank reads and writes words of its peers directly, so the state is what each rank has begun,
 * published and done, and the peer that it serves next.
 */
#include "ranks.h"

enum reduce_phase { BEGIN, PUBLISH, ARRIVE, ADD, WRITE, DONE, AWAIT, READ };

static struct {
	unsigned executions, halves, owners, arrives, awaits;
} options;

static bool by_owners(unsigned step)
{
	return options.owners == 1 || (options.owners == 2 && step % 2);
}

/* The error in elements of step @step that are read from @peer, or NULL. */
static const char *add_complaint(const struct rank *peer, unsigned step)
{
	unsigned stays = by_owners(step) ? 1 : options.halves;

	/* One half, or a view, is written again from the step on that many later. */
	if (peer->published < step)
		return "elements are added before they are there";
	/* A step by owners writes no half, and one by the staging no view. */
	if (peer->begun >= step + stays && by_owners(peer->begun) == by_owners(step))
		return "elements are overwritten before they are added";
	return NULL;
}

static void reduce_step(struct explore *e, const void *state, unsigned me)
{
	const struct state *s = state;
	struct state next = *s;
	struct rank *r = &next.ranks[me];
	const struct rank *peer = &s->ranks[(me + r->peer) % RANKS];
	const char *complaint = NULL, *what = "";

	switch ((enum reduce_phase)r->phase) {
	case BEGIN:
		if (r->begun == options.executions)
			return;
		what = "begins to write its elements: rank";
		r->begun++;
		r->phase = PUBLISH;
		break;
	case PUBLISH:
		what = "publishes: rank";
		r->published = r->begun;
		r->phase = ARRIVE;
		break;
	case ARRIVE:
		if (options.arrives && peer->published < r->begun)
			return;
		what = "has waited for a step: rank";
		ranks_advance(r, ADD);
		break;
	case ADD:
		what = "adds: rank";
		complaint = add_complaint(peer, r->begun);
		/* A mutant that does not wait finds its first error where it writes. */
		if (!options.arrives && by_owners(r->begun))
			complaint = NULL;
		ranks_advance(r, by_owners(r->begun) ? WRITE : READ);
		break;
	case WRITE:
		what = "writes a result: rank";
		if (peer->begun < r->begun)
			complaint = "a result is overwritten while it is read";
		ranks_advance(r, DONE);
		break;
	case DONE:
		what = "is done: rank";
		r->done = r->begun;
		r->phase = AWAIT;
		break;
	case AWAIT:
		if (options.awaits && peer->done < r->begun)
			return;
		what = "has waited for results: rank";
		ranks_advance(r, READ);
		break;
	case READ:
		what = "reads its result: rank";
		if (by_owners(r->begun) && peer->done < r->begun)
			complaint = "an execution ends before the result is complete";
		ranks_advance(r, BEGIN);
		break;
	}
	explore_to(e, &next, what, me, complaint);
}

static const char *reduce_end(const void *state)
{
	return ranks_end(state, options.executions);
}

int reduce_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct state), RANKS, reduce_step, reduce_end};
	struct state start = ranks_start();

	options.executions = model_option(argc, argv, "--executions", 4);
	options.halves = model_option(argc, argv, "--halves", 2);
	options.owners = model_option(argc, argv, "--owners", 0);
	options.arrives = model_option(argc, argv, "--arrives", 1);
	options.awaits = model_option(argc, argv, "--awaits", 1);
	return explore_run(&model, &start, "reductions of mapped ranks") ? 0 : 1;
}
