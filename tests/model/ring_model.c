/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The posting of oriel/dev/detail/mlx5_ring.h: reserve, fill, post, by two or three posters on a
 * ring of four, and an HCA that executes the WQEs below its doorbell. One poster at a time, the
 * ringer, rings the doorbell. Each store goes through its poster's store buffer, first in first
 * out; an atomic passes the buffer, unless it is a release: bit 1 of --releases is the release of a
 * poster whose turn it is, bit 2 that of a ringer that lets go. With --buffers 0 a poster whose
 * buffer is not empty takes no other step, which is sequential consistency. --halves 1: posters
 * publish first, then ring. --forgets 1: a ringer lets go without a check for WQEs that were
 * published meanwhile.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

#define DEPTH 4
#define POSTERS_MAX 3
#define STORES 5
#define EMPTY 15u /* a slot: no WQE that the HCA has yet to read */

enum word { RESV, READY, RINGER, DOORBELL, DONE, SLOT, WORDS = SLOT + DEPTH };

static const char *const landing[] = {
	[DOORBELL] = "  doorbell lands as",
	[SLOT] = "  the slot is filled in for WQE",
};

/* READY and RINGER change together, since they are parts of one word. */
enum ringer { RUNG, RINGING, NOT_RUNG };

enum at { RESERVE, ROOM, TURN, CLAIM, RING_DOORBELL, LET_GO };

/* Posters are interchangeable, and sorted so that equal states compare equal. */
struct poster {
	uint8_t at;
	uint8_t left;  /* posts still to make */
	uint8_t index; /* of its WQE */
	uint8_t ready; /* the doorbell value that it rings with */
	uint8_t stores;
	uint8_t word[STORES];
	uint8_t value[STORES];
};

struct state {
	uint8_t memory[WORDS];
	struct poster posters[POSTERS_MAX];
};

static struct {
	unsigned posters, posts, releases, buffers, room, halves, forgets;
} ring;

static uint8_t ring_load(const struct state *s, const struct poster *p, enum word word)
{
	unsigned i;

	for (i = p->stores; i-- > 0;)
		if (p->word[i] == word)
			return p->value[i];
	return s->memory[word];
}

static void ring_store(struct poster *p, unsigned word, uint8_t value)
{
	p->word[p->stores] = (uint8_t)word;
	p->value[p->stores++] = value;
}

static int poster_order(const void *left, const void *right)
{
	return memcmp(left, right, sizeof(struct poster));
}

static void ring_to(struct explore *e, struct state *next, const char *what, unsigned number,
		    const char *complaint)
{
	qsort(next->posters, ring.posters, sizeof(struct poster), poster_order);
	explore_to(e, next, what, number, complaint);
}

/* The oldest store of a poster reaches memory. */
static void ring_land(struct explore *e, struct state s, unsigned number)
{
	struct poster *p = &s.posters[number];
	unsigned word = p->word[0], value = p->value[0];
	const char *complaint = NULL;

	if (word == DOORBELL && value < s.memory[DOORBELL])
		complaint = "the doorbell decreases";
	if (word >= SLOT && s.memory[word] != EMPTY)
		complaint = "a slot is overwritten before its WQE is done";
	s.memory[word] = (uint8_t)value;
	p->stores--;
	memmove(p->word, p->word + 1, STORES - 1);
	memmove(p->value, p->value + 1, STORES - 1);
	p->word[STORES - 1] = p->value[STORES - 1] = 0;
	ring_to(e, &s, landing[word < SLOT ? word : SLOT], value, complaint);
}

static void poster_leave(struct poster *p)
{
	p->at = RESERVE;
	p->index = p->ready = 0;
	p->left--;
}

/* The poster rings for all WQEs below @ready, or leaves that to the current ringer. */
static void poster_decide(struct poster *p, bool is_ringer, uint8_t ready)
{
	p->ready = ready;
	p->at = RING_DOORBELL;
	if (!is_ringer)
		poster_leave(p);
}

static void poster_publish(struct state *s, struct poster *p)
{
	uint8_t ringer = s->memory[RINGER];

	s->memory[READY]++;
	if (ringer != RINGING)
		s->memory[RINGER] = ring.halves ? NOT_RUNG : RINGING;
	if (ring.halves)
		p->at = CLAIM;
	else
		poster_decide(p, ringer != RINGING, s->memory[READY]);
}

/* The next step of a poster; NULL: it waits. */
static const char *poster_step(struct state *s, struct poster *p)
{
	switch (p->at) {
	case RESERVE:
		p->index = s->memory[RESV]++;
		p->at = ROOM;
		return "reserves WQE";
	case ROOM:
		if (ring.room && p->index + 1 > ring_load(s, p, DONE) + DEPTH)
			return NULL;
		ring_store(p, SLOT + p->index % DEPTH, p->index);
		p->at = TURN;
		return "has room for WQE";
	case TURN:
		if (s->memory[READY] != p->index || ((ring.releases & 1) && p->stores))
			return NULL;
		poster_publish(s, p);
		return "publishes WQE";
	case CLAIM:
		if (s->memory[RINGER] == NOT_RUNG) {
			s->memory[RINGER] = RINGING;
			poster_decide(p, true, s->memory[READY]);
		} else {
			poster_decide(p, false, 0);
		}
		return "looks for a ringer, with WQE";
	case RING_DOORBELL:
		/* Before a record all fences are full ones. */
		if (p->stores)
			return NULL;
		ring_store(p, DOORBELL, p->ready);
		p->at = LET_GO;
		return "rings, with WQE";
	case LET_GO:
		if ((ring.releases & 2) && p->stores)
			return NULL;
		if (s->memory[READY] == p->ready || ring.forgets) {
			s->memory[RINGER] = RUNG;
			poster_leave(p);
			return "lets go, with WQE";
		}
		p->ready = s->memory[READY];
		p->at = RING_DOORBELL;
		return "finds more to ring for, with WQE";
	}
	return NULL;
}

static void hca_step(struct explore *e, struct state s)
{
	uint8_t next = s.memory[DONE], *slot = &s.memory[SLOT + next % DEPTH];
	const char *complaint = NULL;

	if (next >= s.memory[DOORBELL])
		return;
	if (*slot != next)
		complaint = "the HCA is notified of a WQE that is not there";
	*slot = EMPTY;
	s.memory[DONE]++;
	ring_to(e, &s, "the HCA executes WQE", next, complaint);
}

static void ring_step(struct explore *e, const void *state, unsigned process)
{
	struct state s = *(const struct state *)state, next = s;
	struct poster *p;
	const char *what;
	unsigned index;

	if (process == ring.posters) {
		hca_step(e, s);
		return;
	}
	p = &next.posters[process];
	index = p->index;
	if (p->stores)
		ring_land(e, s, process);
	if (!p->left || (!ring.buffers && p->stores) || p->stores + 3 > STORES)
		return;
	if (p->at == RESERVE)
		index = next.memory[RESV];
	what = poster_step(&next, p);
	if (what)
		ring_to(e, &next, what, index, NULL);
}

static const char *ring_end(const void *state)
{
	const struct state *s = state;
	uint8_t total = (uint8_t)(ring.posters * ring.posts);

	if (s->memory[DOORBELL] != s->memory[READY])
		return "a doorbell is lost";
	return s->memory[DONE] == total ? NULL : "a poster waits for ever";
}

int ring_model(int argc, char **argv)
{
	struct state start;
	struct model model = {sizeof(start), 0, ring_step, ring_end};
	char title[80];
	unsigned i;

	ring.posters = model_option(argc, argv, "--posters", 2);
	ring.posts = model_option(argc, argv, "--posts", 3);
	ring.releases = model_option(argc, argv, "--releases", 3);
	ring.buffers = model_option(argc, argv, "--buffers", 1);
	ring.room = model_option(argc, argv, "--room", 1);
	ring.halves = model_option(argc, argv, "--halves", 0);
	ring.forgets = model_option(argc, argv, "--forgets", 0);
	if (!ring.posters || ring.posters > POSTERS_MAX || ring.posters * ring.posts >= EMPTY)
		return 2;
	memset(&start, 0, sizeof(start));
	memset(start.memory + SLOT, EMPTY, DEPTH);
	for (i = 0; i < ring.posters; i++)
		start.posters[i].left = (uint8_t)ring.posts;
	model.processes = ring.posters + 1;
	snprintf(title, sizeof(title), "ring, %u x %u posts, releases %u, buffers %u, halves %u",
		 ring.posters, ring.posts, ring.releases, ring.buffers, ring.halves);
	return explore_run(&model, &start, title) ? 0 : 1;
}
