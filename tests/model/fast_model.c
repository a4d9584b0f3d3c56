/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduces by RING and RECURSIVE (src/coll/reduce_fast.c), in place, one after the other in any
 * order (--recursive, a bit for each round). Each rank has a list of steps for each algorithm: it
 * puts a sum or a result from a place of its own to a place of a peer, or takes a message of a peer
 * and adds. Places 0 to ranks - 1 are the sums of a half of the staging, which rounds use in turn;
 * those behind are parts of the view.
 *
 * A put lands later than it is posted, and reads its source only then. Puts between two ranks land
 * in their order, with a signal each. Rounds are executions, which drain at their end and share the
 * view, or (--views 0 --drains 0) the rounds of one execution.
 */
#include <stdint.h>

#include "explore.h"

#define FAST_RANKS_MAX 4
#define FAST_STEPS_MAX 16
#define FAST_NONE 255

enum fast_kind { FAST_BEGIN, FAST_PUT, FAST_TAKE };

struct fast_step {
	enum fast_kind kind;
	uint8_t peer;
	uint8_t to;   /* the place of the target; of a message that is taken */
	uint8_t from; /* the place that a put reads */
	uint8_t adds; /* the part whose own elements the step adds; FAST_NONE: of no part */
};

struct fast_list {
	struct fast_step steps[FAST_STEPS_MAX];
	unsigned count;
};

struct fast_rank {
	uint8_t round; /* that it is in; the first is 1 */
	uint8_t next;  /* step; the number of steps: it is about to end the round */
	uint8_t landed[FAST_RANKS_MAX]; /* its puts of all rounds, at each rank */
};

struct fast_state {
	struct fast_rank ranks[FAST_RANKS_MAX];
};

static struct {
	unsigned ranks, rounds, recursive, halves, awaits, drains, views;
} options;

static struct fast_list lists[2][FAST_RANKS_MAX]; /* RING and RECURSIVE */

static void list_add(struct fast_list *list, enum fast_kind kind, unsigned peer, unsigned to,
		     unsigned from, unsigned adds)
{
	list->steps[list->count++] =
		(struct fast_step){kind, (uint8_t)peer, (uint8_t)to, (uint8_t)from, (uint8_t)adds};
}

/* Returns the place of message @number at @me. */
static unsigned ring_place(unsigned me, unsigned number)
{
	unsigned ranks = options.ranks;

	return number < ranks - 1 ? number : ranks + (me + 2 * ranks - 2 - number) % ranks;
}

static void ring_list(struct fast_list *list, unsigned me)
{
	unsigned ranks = options.ranks, before = (me + ranks - 1) % ranks, number, place;

	list_add(list, FAST_BEGIN, me, ranks - 1, 0, before);
	list_add(list, FAST_PUT, (me + 1) % ranks, 0, ranks - 1, FAST_NONE);
	for (number = 0; number < 2 * (ranks - 1); number++) {
		place = ring_place(me, number);
		list_add(list, FAST_TAKE, before, place, 0,
			 number < ranks - 1 ? (me + 2 * ranks - 2 - number) % ranks : FAST_NONE);
		/* The end result of the own part is in the view. */
		if (number == ranks - 2)
			place = ranks + me;
		if (number + 1 < 2 * (ranks - 1))
			list_add(list, FAST_PUT, (me + 1) % ranks,
				 ring_place((me + 1) % ranks, number + 1), place, FAST_NONE);
	}
}

/* Its elements and its result are one part: 0. */
static void recursive_list(struct fast_list *list, unsigned me)
{
	unsigned ranks = options.ranks, exchanges = 0, paired, own, other, number, sum;

	while (ranks >> (exchanges + 1))
		exchanges++;
	paired = 2 * (ranks - (1u << exchanges));
	list_add(list, FAST_BEGIN, me, ranks - 1, 0, 0);
	if (me < paired && me % 2 == 0) {
		list_add(list, FAST_PUT, me + 1, exchanges, ranks - 1, FAST_NONE);
		list_add(list, FAST_TAKE, me + 1, ranks, 0, FAST_NONE);
		return;
	}
	if (me < paired)
		list_add(list, FAST_TAKE, me - 1, exchanges, 0, FAST_NONE);
	own = me < paired ? me / 2 : me - paired / 2;
	sum = me < paired ? exchanges : ranks - 1;
	for (number = 0; number < exchanges; number++) {
		other = own ^ 1u << number;
		other = other < paired / 2 ? 2 * other + 1 : other + paired / 2;
		list_add(list, FAST_PUT, other, number, sum, FAST_NONE);
		list_add(list, FAST_TAKE, other, number, 0, FAST_NONE);
		sum = number;
	}
	if (me < paired)
		list_add(list, FAST_PUT, me - 1, ranks, ranks, FAST_NONE);
}

static const struct fast_list *list_of(unsigned rank, unsigned round)
{
	return &lists[options.recursive >> (round - 1) & 1][rank];
}

static bool has_done(const struct fast_rank *rank, unsigned round, unsigned step)
{
	return rank->round > round || (rank->round == round && rank->next > step);
}

/* Counts the steps of @kind with @peer in the rounds of @me before @round and its first @steps. */
static unsigned count_of(unsigned me, enum fast_kind kind, unsigned peer, unsigned round,
			 unsigned steps)
{
	const struct fast_list *list;
	unsigned count = 0, i, k;

	for (k = 1; k <= round; k++) {
		list = list_of(me, k);
		for (i = 0; i < (k < round ? list->count : steps); i++)
			count += list->steps[i].kind == kind && list->steps[i].peer == peer;
	}
	return count;
}

static bool has_landed(const struct fast_state *s, unsigned me, unsigned round, unsigned step)
{
	unsigned to = list_of(me, round)->steps[step].peer;

	return s->ranks[me].landed[to] > count_of(me, FAST_PUT, to, round, step);
}

/* Returns the error if sum @place of @rank is overwritten in @round, or NULL. */
static const char *complain_of_sum(const struct fast_state *s, unsigned rank, unsigned round,
				   unsigned place)
{
	const struct fast_list *list;
	unsigned i;

	if (round <= options.halves)
		return NULL;
	round -= options.halves;
	list = list_of(rank, round);
	for (i = 0; i < list->count; i++) {
		if (list->steps[i].kind == FAST_TAKE && list->steps[i].to == place &&
		    !has_done(&s->ranks[rank], round, i))
			return "a sum is overwritten before it is added";
		if (list->steps[i].kind == FAST_PUT && list->steps[i].from == place &&
		    !has_landed(s, rank, round, i))
			return "a sum is overwritten before it is sent";
	}
	return NULL;
}

/* Returns the error if a result from @me lands at @place of @rank in @round, or NULL. */
static const char *complain_of_result(const struct fast_state *s, unsigned me, unsigned rank,
				      unsigned round, unsigned place)
{
	const struct fast_list *list = list_of(rank, round);
	unsigned i;

	if (options.views && has_done(&s->ranks[me], round + 1, 0))
		return "a result is overwritten before it is sent";
	for (i = 0; i < list->count; i++)
		if (list->steps[i].adds == place - options.ranks &&
		    !has_done(&s->ranks[rank], round, i))
			return "a result takes the place of elements that are not added";
	return NULL;
}

/* The next put of @me to @peer lands, if it is posted. */
static void fast_land(struct explore *e, const struct fast_state *s, unsigned me, unsigned peer)
{
	const struct fast_rank *r = &s->ranks[me];
	unsigned round, step, landed = r->landed[peer];
	const struct fast_step *put;
	struct fast_state next = *s;

	if (landed == count_of(me, FAST_PUT, peer, r->round, r->next))
		return;
	for (round = 1; count_of(me, FAST_PUT, peer, round + 1, 0) <= landed; round++)
		;
	for (step = 0; count_of(me, FAST_PUT, peer, round, step + 1) <= landed; step++)
		;
	put = &list_of(me, round)->steps[step];
	next.ranks[me].landed[peer]++;
	explore_to(e, &next, "  a put lands, of rank", me,
		   put->to < options.ranks ? complain_of_sum(s, peer, round, put->to)
					   : complain_of_result(s, me, peer, round, put->to));
}

static bool has_drained(const struct fast_state *s, unsigned me)
{
	const struct fast_rank *r = &s->ranks[me];
	unsigned peer;

	for (peer = 0; peer < options.ranks; peer++)
		if (r->landed[peer] < count_of(me, FAST_PUT, peer, r->round, r->next))
			return false;
	return true;
}

static void fast_process(struct explore *e, const void *state, unsigned me)
{
	struct fast_state next = *(const struct fast_state *)state;
	struct fast_rank *r = &next.ranks[me];
	const struct fast_step *step;
	bool is_there;
	unsigned peer;

	for (peer = 0; peer < options.ranks; peer++)
		fast_land(e, state, me, peer);
	if (r->round > options.rounds)
		return;
	if (r->next == list_of(me, r->round)->count) {
		if (options.drains && !has_drained(&next, me))
			return;
		r->round++;
		r->next = 0;
		explore_to(e, &next, "ends a round: rank", me, NULL);
		return;
	}
	step = &list_of(me, r->round)->steps[r->next];
	is_there = next.ranks[step->peer].landed[me] >
		   count_of(me, FAST_TAKE, step->peer, r->round, r->next);
	r->next++;
	if (step->kind == FAST_BEGIN)
		explore_to(e, &next, "begins a round: rank", me,
			   complain_of_sum(state, me, r->round, step->to));
	else if (step->kind == FAST_PUT)
		explore_to(e, &next, "posts a put: rank", me, NULL);
	else if (is_there || !options.awaits)
		explore_to(e, &next, "takes a message: rank", me,
			   is_there ? NULL : "a message is taken before it is there");
}

static const char *fast_end(const void *state)
{
	const struct fast_state *s = state;
	unsigned rank;

	for (rank = 0; rank < options.ranks; rank++)
		if (s->ranks[rank].round <= options.rounds)
			return "a rank waits for ever";
	return NULL;
}

int fast_model(int argc, char **argv)
{
	struct model model = {sizeof(struct fast_state), 0, fast_process, fast_end};
	struct fast_state start = {{{1, 0, {0}}, {1, 0, {0}}, {1, 0, {0}}, {1, 0, {0}}}};
	unsigned rank;

	options.ranks = model.processes = model_option(argc, argv, "--ranks", 3);
	options.rounds = model_option(argc, argv, "--rounds", 3);
	options.recursive = model_option(argc, argv, "--recursive", 0);
	options.halves = model_option(argc, argv, "--halves", 2);
	options.awaits = model_option(argc, argv, "--awaits", 1);
	options.drains = model_option(argc, argv, "--drains", 1);
	options.views = model_option(argc, argv, "--views", 1);
	if (options.ranks < 2 || options.ranks > FAST_RANKS_MAX)
		return 2;
	for (rank = 0; rank < options.ranks; rank++) {
		ring_list(&lists[0][rank], rank);
		recursive_list(&lists[1][rank], rank);
	}
	return explore_run(&model, &start, "fast reductions") ? 0 : 1;
}
