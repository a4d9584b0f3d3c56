/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduces by RING and RECURSIVE (src/coll/reduce_ring.c, reduce_recursive.c), in place, one
 * after the other in any order: --algorithms has a digit for each round, the first one last, 0 for
 * RING, 1 for RECURSIVE of a short round and 2 of a long one, in halves. Each rank has a list of
 * steps for each algorithm: it puts a sum or a result from a place of its own to a place of a peer,
 * or takes a message of a peer and adds. Places are halves of the pieces of the half of the staging
 * that rounds use in turn; those from 2 * ranks on are parts of the view.
 *
 * A put lands later than it is posted, and reads its source only then. Puts between two ranks land
 * in their order, with a signal each. Rounds are executions, which drain at their end and share the
 * view, or (--views 0 --drains 0) the rounds of one execution.
 */
#include <stdint.h>

#include "explore.h"

#define FAST_RANKS_MAX 4
#define FAST_STEPS_MAX 16
#define FAST_ALGORITHMS 3

enum fast_kind { FAST_BEGIN, FAST_PUT, FAST_TAKE };

struct fast_places {
	uint8_t begin, count;
};

struct fast_step {
	enum fast_kind kind;
	uint8_t peer;
	struct fast_places to;   /* of the target; of a message that is taken */
	struct fast_places from; /* what a put reads; own sums that are added to a message */
	struct fast_places adds; /* the parts whose own elements the step adds */
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
	unsigned ranks, rounds, algorithms, halves, awaits, drains, views;
} options;

static struct fast_list lists[FAST_ALGORITHMS][FAST_RANKS_MAX];

static const struct fast_places none;

static struct fast_places places(unsigned begin, unsigned count)
{
	return (struct fast_places){(uint8_t)begin, (uint8_t)count};
}

static struct fast_places piece(unsigned number)
{
	return places(2 * number, 2);
}

static struct fast_places part(unsigned begin, unsigned count)
{
	return places(2 * options.ranks + begin, count);
}

static bool overlap(struct fast_places a, struct fast_places b)
{
	return a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

static void list_add(struct fast_list *list, enum fast_kind kind, unsigned peer,
		     struct fast_places to, struct fast_places from, struct fast_places adds)
{
	list->steps[list->count++] = (struct fast_step){kind, (uint8_t)peer, to, from, adds};
}

/* Returns the place of message @number at @me. */
static struct fast_places ring_place(unsigned me, unsigned number)
{
	unsigned ranks = options.ranks;

	return number < ranks - 1 ? piece(number) : part((me + 2 * ranks - 2 - number) % ranks, 1);
}

static void ring_list(struct fast_list *list, unsigned me)
{
	unsigned ranks = options.ranks, before = (me + ranks - 1) % ranks, number;
	struct fast_places place;

	list_add(list, FAST_BEGIN, me, piece(ranks - 1), none, part(before, 1));
	list_add(list, FAST_PUT, (me + 1) % ranks, piece(0), piece(ranks - 1), none);
	for (number = 0; number < 2 * (ranks - 1); number++) {
		place = ring_place(me, number);
		list_add(list, FAST_TAKE, before, place, none,
			 number < ranks - 1 ? part((me + 2 * ranks - 2 - number) % ranks, 1)
					    : none);
		/* The end result of the own part is in the view. */
		if (number == ranks - 2)
			place = part(me, 1);
		if (number + 1 < 2 * (ranks - 1))
			list_add(list, FAST_PUT, (me + 1) % ranks,
				 ring_place((me + 1) % ranks, number + 1), place, none);
	}
}

/* In halves a round is half of the pieces and has a part for each rank that exchanges. */
struct tree {
	unsigned exchanges, paired, number;
	bool halves;
};

static struct tree tree_of(unsigned me, bool halves)
{
	struct tree t = {0, 0, 0, halves};

	while (options.ranks >> (t.exchanges + 1))
		t.exchanges++;
	t.paired = 2 * (options.ranks - (1u << t.exchanges));
	t.number = me < t.paired ? me / 2 : me - t.paired / 2;
	return t;
}

static unsigned tree_partner(const struct tree *t, unsigned exchange)
{
	unsigned other = t->number ^ 1u << exchange;

	return other < t->paired / 2 ? 2 * other + 1 : other + t->paired / 2;
}

/* The parts whose sums a rank has before @exchange, from 0 on. */
static struct fast_places tree_range(const struct tree *t, unsigned exchange)
{
	unsigned begin = 0, count = t->halves ? 1u << t->exchanges : 1, i;

	for (i = 0; i < exchange && t->halves; i++) {
		count /= 2;
		begin += (t->number >> i & 1) * count;
	}
	return places(begin, count);
}

/* Where the sums of the parts of @range are. */
static struct fast_places tree_place(const struct tree *t, unsigned exchange,
				     struct fast_places range)
{
	unsigned parts = 1u << t->exchanges, at = 0, i;

	if (!t->halves)
		return piece(exchange);
	for (i = 0; i < exchange; i++)
		at += parts >> i;
	return places(at + range.begin - tree_range(t, exchange).begin, range.count);
}

static void tree_exchange(const struct tree *t, struct fast_list *list, unsigned exchange)
{
	struct fast_places have = tree_range(t, exchange), held = tree_range(t, exchange + 1);
	struct fast_places given = held;

	if (t->halves && held.begin == have.begin)
		given.begin += held.count;
	else if (t->halves)
		given.begin = have.begin;
	/* The place is the same at both ranks: that of the first of the parts. */
	list_add(list, FAST_PUT, tree_partner(t, exchange), tree_place(t, exchange + 1, held),
		 tree_place(t, exchange, given), none);
	list_add(list, FAST_TAKE, tree_partner(t, exchange), tree_place(t, exchange + 1, held),
		 tree_place(t, exchange, held), none);
}

static void recursive_list(struct fast_list *list, unsigned me, bool halves)
{
	struct tree t = tree_of(me, halves);
	struct fast_places all = tree_range(&t, 0), own = tree_place(&t, 0, all), range;
	struct fast_places view = part(0, all.count);
	unsigned exchange;

	if (me < t.paired && me % 2 == 0) {
		list_add(list, FAST_BEGIN, me, own, none, view);
		list_add(list, FAST_PUT, me + 1, own, own, none);
		list_add(list, FAST_TAKE, me + 1, view, none, none);
		return;
	}
	if (me < t.paired)
		list_add(list, FAST_TAKE, me - 1, own, none, view);
	else
		list_add(list, FAST_BEGIN, me, own, none, view);
	for (exchange = 0; exchange < t.exchanges; exchange++)
		tree_exchange(&t, list, exchange);
	while (halves && exchange--) {
		range = tree_range(&t, exchange + 1);
		list_add(list, FAST_PUT, tree_partner(&t, exchange), part(range.begin, range.count),
			 part(range.begin, range.count), none);
		range.begin ^= range.count; /* the other half */
		list_add(list, FAST_TAKE, tree_partner(&t, exchange),
			 part(range.begin, range.count), none, none);
	}
	if (me < t.paired)
		list_add(list, FAST_PUT, me - 1, view, view, none);
}

static const struct fast_list *list_of(unsigned rank, unsigned round)
{
	unsigned algorithms = options.algorithms;

	while (--round)
		algorithms /= 10;
	return &lists[algorithms % 10][rank];
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

/* Returns the error if sums at @place of @rank are overwritten in @round, or NULL. */
static const char *complain_of_sum(const struct fast_state *s, unsigned rank, unsigned round,
				   struct fast_places place)
{
	const struct fast_list *list;
	const struct fast_step *step;
	unsigned i;

	if (round <= options.halves)
		return NULL;
	round -= options.halves;
	list = list_of(rank, round);
	for (i = 0; i < list->count; i++) {
		step = &list->steps[i];
		if (step->kind == FAST_TAKE && !has_done(&s->ranks[rank], round, i) &&
		    (overlap(step->to, place) || overlap(step->from, place)))
			return "a sum is overwritten before it is added";
		if (step->kind == FAST_PUT && overlap(step->from, place) &&
		    !has_landed(s, rank, round, i))
			return "a sum is overwritten before it is sent";
	}
	return NULL;
}

/* Returns the error if a result from @me lands at @place of @rank in @round, or NULL. */
static const char *complain_of_result(const struct fast_state *s, unsigned me, unsigned rank,
				      unsigned round, struct fast_places place)
{
	const struct fast_list *list = list_of(rank, round);
	unsigned i;

	if (options.views && s->ranks[me].round > round)
		return "a result is overwritten before it is sent";
	for (i = 0; i < list->count; i++)
		if (overlap(list->steps[i].adds, place) && !has_done(&s->ranks[rank], round, i))
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
		   put->to.begin < 2 * options.ranks
			   ? complain_of_sum(s, peer, round, put->to)
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
	options.algorithms = model_option(argc, argv, "--algorithms", 0);
	options.halves = model_option(argc, argv, "--halves", 2);
	options.awaits = model_option(argc, argv, "--awaits", 1);
	options.drains = model_option(argc, argv, "--drains", 1);
	options.views = model_option(argc, argv, "--views", 1);
	if (options.ranks < 2 || options.ranks > FAST_RANKS_MAX)
		return 2;
	for (rank = 0; rank < options.ranks; rank++) {
		ring_list(&lists[0][rank], rank);
		recursive_list(&lists[1][rank], rank, false);
		recursive_list(&lists[2][rank], rank, true);
	}
	return explore_run(&model, &start, "fast reductions") ? 0 : 1;
}
