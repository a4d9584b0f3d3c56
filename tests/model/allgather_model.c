/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both methods of oriel/dev/gather.h. By puts: each rank gives its peers a credit as it starts an
 * execution, puts to each peer whose credit has arrived, sends a signal behind the put, waits for
 * the signals of all peers and then reads their puts. These must be complete, belong to this
 * execution, and stay unchanged until the rank starts the next one. By lines (--lines 1): each
 * rank writes lines to one half of its peers' staging and reads theirs from its own.
 *
 * The stores from one rank to another in an execution are credit, put, put, signal, or two lines.
 */
#include "ranks.h"

enum credit {
	CREDIT_NONE,
	CREDIT_AT_START,
	CREDIT_AT_END, /* of the previous execution, whose result is still to be read */
};

static struct {
	unsigned executions, credit, is_counted, is_summed, is_hasty, lines, halves;
} options;

/* The number of store @which, from 1, of @execution, where each execution has @each stores. */
static unsigned store_of(unsigned execution, unsigned which, unsigned each)
{
	return each * (execution - 1) + which;
}

/* Signals among the first @landed stores; with --hasty they come before the puts. */
static unsigned signals_in(unsigned landed)
{
	return (landed + (options.is_hasty ? 2 : 0)) / 4;
}

static unsigned credits_in(unsigned landed)
{
	return (landed + 3) / 4;
}

static bool puts_may_go(const struct state *s, unsigned me, unsigned peer)
{
	unsigned needed = options.is_counted ? s->ranks[me].begun : 1;

	return options.credit == CREDIT_NONE || credits_in(s->ranks[peer].landed[me]) >= needed;
}

static bool puts_have_arrived(const struct state *s, unsigned me, unsigned peer)
{
	unsigned needed = options.is_counted ? s->ranks[me].begun : 1, sum = 0, i;

	if (!options.is_summed)
		return signals_in(s->ranks[peer].landed[me]) >= needed;
	for (i = 0; i < RANKS; i++)
		sum += signals_in(s->ranks[i].landed[me]);
	return sum >= needed * (RANKS - 1);
}

/* The error in the message of @peer that @me reads, or NULL. */
static const char *puts_complaint(const struct state *s, unsigned me, unsigned peer)
{
	unsigned landed = s->ranks[peer].landed[me], execution = s->ranks[me].begun;
	unsigned last = options.is_hasty ? 4 : 3;

	if (landed < store_of(execution, last, 4))
		return "an execution ends before the result is complete";
	if (landed >= store_of(execution + 1, last - 1, 4))
		return "a result is overwritten while it is read";
	return NULL;
}

static void puts_step(struct explore *e, const void *state, unsigned me)
{
	const struct state *s = state;
	struct state next = *s;
	struct rank *r = &next.ranks[me];
	unsigned peer = (me + r->peer) % RANKS;
	const char *complaint = NULL, *what = "starts: rank";

	ranks_land(e, s, me);
	switch (r->phase) {
	case PHASE_START:
		if (r->begun == options.executions)
			return;
		if (options.credit != CREDIT_AT_END || !r->begun)
			ranks_send_all(r, me, 1);
		r->begun++;
		r->phase = PHASE_SEND;
		break;
	case PHASE_SEND:
		if (!puts_may_go(s, me, peer))
			return;
		r->sent[peer] = (uint8_t)(4 * r->begun);
		what = "puts: rank";
		ranks_advance(r, PHASE_WAIT);
		break;
	case PHASE_WAIT:
		if (!puts_have_arrived(s, me, peer))
			return;
		what = "has waited: rank";
		ranks_advance(r, PHASE_READ);
		if (r->phase == PHASE_READ && options.credit == CREDIT_AT_END)
			ranks_send_all(r, me, 1);
		break;
	default:
		complaint = puts_complaint(s, me, peer);
		what = "reads: rank";
		ranks_advance(r, PHASE_START);
	}
	explore_to(e, &next, what, me, complaint);
}

/* 1: line @line of @execution has arrived; -1: a later line has overwritten it; 0: neither. */
static int lines_poll(unsigned landed, unsigned execution, unsigned line)
{
	if (landed >= store_of(execution + options.halves, line, 2))
		return -1;
	return landed >= store_of(execution, line, 2);
}

static void lines_step(struct explore *e, const void *state, unsigned me)
{
	const struct state *s = state;
	struct state next = *s;
	struct rank *r = &next.ranks[me];
	unsigned peer = (me + r->peer) % RANKS;
	int seen;

	ranks_land(e, s, me);
	if (r->phase == PHASE_START) {
		if (r->begun == options.executions)
			return;
		r->begun++;
		ranks_send_all(r, me, 2);
		r->phase = PHASE_READ;
		explore_to(e, &next, "writes its lines: rank", me, NULL);
		return;
	}
	seen = lines_poll(s->ranks[peer].landed[me], r->begun, r->line + 1u);
	if (!seen)
		return;
	r->line = !r->line;
	if (!r->line)
		ranks_advance(r, PHASE_START);
	explore_to(e, &next, "takes a line: rank", me,
		   seen < 0 ? "a line is overwritten before it is taken" : NULL);
}

static const char *allgather_end(const void *state)
{
	return ranks_end(state, options.executions);
}

int allgather_model(int argc, char **argv)
{
	struct model model = {sizeof(struct state), RANKS, puts_step, allgather_end};
	struct state start = ranks_start();

	options.lines = model_option(argc, argv, "--lines", 0);
	options.executions = model_option(argc, argv, "--executions", options.lines ? 4 : 2);
	options.credit = model_option(argc, argv, "--credit", CREDIT_AT_START);
	options.is_counted = model_option(argc, argv, "--counted", 1);
	options.is_summed = model_option(argc, argv, "--summed", 0);
	options.is_hasty = model_option(argc, argv, "--hasty", 0);
	options.halves = model_option(argc, argv, "--halves", 2);
	if (options.lines)
		model.step = lines_step;
	return explore_run(&model, &start,
			   options.lines ? "all-gather by lines" : "all-gather by puts")
		       ? 0
		       : 1;
}
