/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oriel_dev_exchange(): each rank sends its peers a note, receives their notes, puts to the peers
 * that it has a message for (--pairs, a bit for each of the six pairs), reads the notes again to
 * see which messages it receives, waits for these and reads them until it starts the next
 * execution.
 */
#include "ranks.h"

static struct {
	unsigned executions, pairs, halves, has_credit;
} options;

static bool has_data(unsigned from, unsigned to)
{
	return options.pairs >> (from * 2 + (to > from ? to - 1 : to)) & 1;
}

/*
 * The stores from one rank to another in an execution are note and signal, and, for a pair with a
 * message, data and its signal. Have the first @which of @execution landed at @to?
 */
static bool has_landed(const struct state *s, unsigned from, unsigned to, unsigned execution,
		       unsigned which)
{
	return s->ranks[from].landed[to] >=
	       (execution - 1) * (has_data(from, to) ? 4u : 2u) + which;
}

/* The error in the note of @peer that @me reads, or NULL. */
static const char *note_complaint(const struct state *s, unsigned me, unsigned peer)
{
	if (has_landed(s, peer, me, s->ranks[me].begun + options.halves, 1))
		return "a note is overwritten before it is read";
	return NULL;
}

static const char *data_complaint(const struct state *s, unsigned me, unsigned peer)
{
	unsigned execution = s->ranks[me].begun;

	if (!has_data(peer, me))
		return NULL;
	if (!has_landed(s, peer, me, execution, 3))
		return "an execution ends before the result is complete";
	return has_landed(s, peer, me, execution + 1, 3)
		       ? "a result is overwritten while it is read"
		       : NULL;
}

static void exchange_step(struct explore *e, const void *state, unsigned me)
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
		r->begun++;
		ranks_send_all(r, me, 2);
		r->phase = PHASE_SEND;
		break;
	case PHASE_SEND:
		if (options.has_credit && !has_landed(s, peer, me, r->begun, 2))
			return;
		complaint = options.has_credit ? note_complaint(s, me, peer) : NULL;
		if (has_data(me, peer))
			r->sent[peer] = (uint8_t)(r->sent[peer] + 2);
		what = "has read the note and puts: rank";
		ranks_advance(r, PHASE_WAIT);
		break;
	case PHASE_WAIT:
		if (has_data(peer, me) && !has_landed(s, peer, me, r->begun, 4))
			return;
		complaint = note_complaint(s, me, peer);
		what = "has waited: rank";
		ranks_advance(r, PHASE_READ);
		break;
	default:
		complaint = data_complaint(s, me, peer);
		what = "reads: rank";
		ranks_advance(r, PHASE_START);
	}
	explore_to(e, &next, what, me, complaint);
}

static const char *exchange_end(const void *state)
{
	return ranks_end(state, options.executions);
}

int exchange_model(int argc, char **argv)
{
	struct model model = {sizeof(struct state), RANKS, exchange_step, exchange_end};
	struct state start = ranks_start();

	options.executions = model_option(argc, argv, "--executions", 3);
	options.pairs = model_option(argc, argv, "--pairs", 0);
	options.halves = model_option(argc, argv, "--halves", 2);
	options.has_credit = model_option(argc, argv, "--credit", 1);
	return explore_run(&model, &start, "exchange") ? 0 : 1;
}
