/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical reductions (src/coll/reduce_hierarchy.c) of two nodes with two ranks each: a rank
 * has one neighbour, in its node, and one rail, with its local rank in the other node. In each
 * round a rank puts elements to one half of the staging of the neighbour, adds those of its node,
 * puts the sum to one half of the staging of the rail, and adds the sums. In an all-reduce it puts
 * the result to the views of both, sends the elements of the next round ahead, passes the result of
 * the rail on to the neighbour, and waits for those of the neighbour; elements lie in place, in the
 * views. Others (--results 0) end before the results. Reductions to a root send nothing ahead
 * (--ahead 0).
 *
 * A put is one step: signals follow their bytes, and a late one is one that its target sees late.
 * So the state is the round and the phase of each rank.
 */
#include <stdint.h>

#include "explore.h"

#define HIERARCHY_RANKS 4

enum hierarchy_phase {
	SEND, /* nothing, if it was done ahead */
	AWAIT_ELEMENTS,
	ADD_BLOCK,
	PUT_SUM,
	AWAIT_SUM,
	ADD_SUMS,
	RETURN_TO_RAIL,
	RETURN_TO_NEIGHBOUR,
	SEND_AHEAD,
	AWAIT_RAIL,
	PASS,
	AWAIT_NEIGHBOUR,
	READ,
};

struct hierarchy_rank {
	uint8_t round; /* that it is in; the first is 1 */
	uint8_t phase;
};

struct hierarchy_state {
	struct hierarchy_rank ranks[HIERARCHY_RANKS];
};

static struct {
	unsigned rounds, halves, results, ahead, elements, sums, rail, neighbour;
} options;

/* Has @rank ended @phase of @round? */
static bool has(const struct hierarchy_rank *rank, enum hierarchy_phase phase, int round)
{
	if (phase == SEND && options.ahead && round > 1)
		return rank->round >= round ||
		       (rank->round == round - 1 && rank->phase > SEND_AHEAD);
	return rank->round > round || (rank->round == round && rank->phase > phase);
}

/* Does @phase of @round put elements? */
static bool sends(enum hierarchy_phase phase, int round)
{
	if (phase == SEND)
		return !options.ahead || round == 1;
	return options.ahead && round < (int)options.rounds;
}

/* Returns the error of a step in @phase, or NULL. */
static const char *complain(const struct hierarchy_rank *neighbour,
			    const struct hierarchy_rank *rail, enum hierarchy_phase phase,
			    int round)
{
	int before = round - (int)options.halves;

	switch (phase) {
	case SEND:
	case SEND_AHEAD:
		if (!sends(phase, round))
			return NULL;
		if (!has(neighbour, ADD_BLOCK, phase == SEND ? before : before + 1))
			return "elements are overwritten before they are added";
		return NULL;
	case ADD_BLOCK:
		return has(neighbour, SEND, round) ? NULL
						   : "elements are added before they are there";
	case PUT_SUM:
		return has(rail, ADD_SUMS, before) ? NULL
						   : "a sum is overwritten before it is added";
	case ADD_SUMS:
		return has(rail, PUT_SUM, round) ? NULL : "a sum is added before it is there";
	case RETURN_TO_RAIL:
		return has(rail, ADD_BLOCK, round)
			       ? NULL
			       : "a result takes the place of elements that are not added";
	case RETURN_TO_NEIGHBOUR:
		return has(neighbour, SEND, round)
			       ? NULL
			       : "a result takes the place of elements that are not sent";
	case PASS:
		return has(rail, RETURN_TO_RAIL, round)
			       ? NULL
			       : "a result is passed on before it is there";
	case READ:
		if (!options.results ||
		    (has(rail, RETURN_TO_RAIL, round) && has(neighbour, PASS, round)))
			return NULL;
		return "a round ends before the result is complete";
	default:
		return NULL;
	}
}

/* Must the rank wait in @phase? */
static bool waits(const struct hierarchy_rank *neighbour, const struct hierarchy_rank *rail,
		  enum hierarchy_phase phase, int round)
{
	switch (phase) {
	case AWAIT_ELEMENTS:
		return options.elements && !has(neighbour, SEND, round);
	case AWAIT_SUM:
		return options.sums && !has(rail, PUT_SUM, round);
	case AWAIT_RAIL:
		return options.rail && !has(rail, RETURN_TO_RAIL, round);
	case AWAIT_NEIGHBOUR:
		return options.neighbour && !has(neighbour, PASS, round);
	default:
		return false;
	}
}

static void hierarchy_step(struct explore *e, const void *state, unsigned me)
{
	static const char *const texts[] = {
		[SEND] = "puts its elements: rank",
		[AWAIT_ELEMENTS] = "has waited for elements: rank",
		[ADD_BLOCK] = "adds the elements of its node: rank",
		[PUT_SUM] = "puts the sum: rank",
		[AWAIT_SUM] = "has waited for a sum: rank",
		[ADD_SUMS] = "adds the sums: rank",
		[RETURN_TO_RAIL] = "returns the result to its rail: rank",
		[RETURN_TO_NEIGHBOUR] = "returns the result to its neighbour: rank",
		[SEND_AHEAD] = "puts the elements of the next round: rank",
		[AWAIT_RAIL] = "has waited for the result of its rail: rank",
		[PASS] = "passes the result on: rank",
		[AWAIT_NEIGHBOUR] = "has waited for the results of its neighbour: rank",
		[READ] = "ends the round: rank",
	};
	struct hierarchy_state next = *(const struct hierarchy_state *)state;
	const struct hierarchy_rank *neighbour = &next.ranks[me ^ 1], *rail = &next.ranks[me ^ 2];
	struct hierarchy_rank *r = &next.ranks[me];
	enum hierarchy_phase phase = (enum hierarchy_phase)r->phase;
	int round = r->round;

	if (r->round > options.rounds || waits(neighbour, rail, phase, round))
		return;
	if (phase == READ) {
		r->round++;
		r->phase = SEND;
	} else if (options.results) {
		r->phase = phase + 1;
	} else {
		r->phase = phase == ADD_SUMS ? SEND_AHEAD : phase == SEND_AHEAD ? READ : phase + 1;
	}
	explore_to(e, &next, texts[phase], me, complain(neighbour, rail, phase, round));
}

static const char *hierarchy_end(const void *state)
{
	const struct hierarchy_state *s = state;
	unsigned rank;

	for (rank = 0; rank < HIERARCHY_RANKS; rank++)
		if (s->ranks[rank].round <= options.rounds)
			return "a rank waits for ever";
	return NULL;
}

int hierarchy_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct hierarchy_state), HIERARCHY_RANKS, hierarchy_step,
				    hierarchy_end};
	struct hierarchy_state start = {{{1, SEND}, {1, SEND}, {1, SEND}, {1, SEND}}};

	options.rounds = model_option(argc, argv, "--rounds", 4);
	options.halves = model_option(argc, argv, "--halves", 2);
	options.results = model_option(argc, argv, "--results", 1);
	options.ahead = model_option(argc, argv, "--ahead", 1);
	options.elements = model_option(argc, argv, "--elements", 1);
	options.sums = model_option(argc, argv, "--sums", 1);
	options.rail = model_option(argc, argv, "--rail", 1);
	options.neighbour = model_option(argc, argv, "--neighbour", 1);
	return explore_run(&model, &start, "hierarchical reductions") ? 0 : 1;
}
