/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The posting of oriel/dev/mlx5_ring.h: reserve, fill, publish, ring, by two or
 * three posters on a ring of four, and an adapter that executes what it is told
 * of. Each store goes through its poster's buffer, first in first out; an
 * atomic goes past the buffer, but for stores to its own word; a full fence
 * waits until the buffer is empty. With --buffers 0 a poster whose buffer is
 * not empty does nothing else, which is sequential consistency.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

#define DEPTH 4
#define POSTERS_MAX 3
#define STORES 5
#define EMPTY 15u /* of a slot: nothing that the adapter has yet to read */

enum word { RESV, READY, POSTED, LOCK, DOORBELL, DONE, SLOT, WORDS = SLOT + DEPTH };

static const char *const landing[] = {
	[READY] = "  ready lands as",
	[POSTED] = "  posted lands as",
	[LOCK] = "  lock lands as",
	[DOORBELL] = "  doorbell lands as",
	[SLOT] = "  the slot is filled in for WQE",
};

enum at { RESERVE, ROOM, TURN, COVERED, TRY, READ_READY, READ_POSTED, AGAIN_READY, AGAIN_POSTED };

/* The whole struct is the state: posters are alike, and kept sorted. */
struct poster {
	uint8_t at;
	uint8_t left;  /* posts still to make */
	uint8_t index; /* of its WQE */
	uint8_t ready; /* as read */
	uint8_t stores;
	uint8_t word[STORES];
	uint8_t value[STORES];
};

struct state {
	uint8_t memory[WORDS];
	struct poster posters[POSTERS_MAX];
};

static struct {
	unsigned posters, posts, fences, buffers, room, retests;
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
		complaint = "the doorbell goes back";
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

/* What follows the load that a poster is about to make. NULL: nothing, it waits. */
static const char *poster_step(struct state *s, struct poster *p)
{
	uint8_t end = (uint8_t)(p->index + 1), seen;

	switch (p->at) {
	case RESERVE:
		p->index = s->memory[RESV]++;
		p->at = ROOM;
		return "reserves WQE";
	case ROOM:
		if (ring.room && end > ring_load(s, p, DONE) + DEPTH)
			return NULL;
		ring_store(p, SLOT + p->index % DEPTH, p->index);
		p->at = TURN;
		return "has room for WQE";
	case TURN:
		if (ring_load(s, p, READY) != p->index)
			return NULL;
		ring_store(p, READY, end);
		p->at = COVERED;
		return "publishes WQE";
	case COVERED:
		if ((ring.fences & 1) && p->stores)
			return NULL;
		p->at = TRY;
		if (ring_load(s, p, POSTED) >= end)
			poster_leave(p);
		return "looks whether it is told of WQE";
	case TRY:
		if (ring_load(s, p, LOCK) != s->memory[LOCK])
			return NULL;
		p->at = READ_READY;
		if (s->memory[LOCK])
			poster_leave(p);
		s->memory[LOCK] = 1;
		return "tries the lock for WQE";
	case READ_READY:
		p->ready = ring_load(s, p, READY);
		p->at = READ_POSTED;
		return "reads ready for WQE";
	case READ_POSTED:
		if (p->ready > ring_load(s, p, POSTED)) {
			ring_store(p, DOORBELL, p->ready);
			ring_store(p, POSTED, p->ready);
		}
		ring_store(p, LOCK, 0);
		p->at = AGAIN_READY;
		return "rings and lets go, with WQE";
	case AGAIN_READY:
		if ((ring.fences & 2) && p->stores)
			return NULL;
		p->ready = ring_load(s, p, READY);
		p->at = AGAIN_POSTED;
		return "looks at ready again, with WQE";
	case AGAIN_POSTED:
		seen = ring_load(s, p, POSTED);
		p->at = TRY;
		/* What the retry must not do: see oriel_mlx5_ring(). */
		if (p->ready == seen || (ring.retests && seen >= end))
			poster_leave(p);
		return "looks at posted again, with WQE";
	}
	return NULL;
}

static void adapter_step(struct explore *e, struct state s)
{
	uint8_t next = s.memory[DONE], *slot = &s.memory[SLOT + next % DEPTH];
	const char *complaint = NULL;

	if (next >= s.memory[DOORBELL])
		return;
	if (*slot != next)
		complaint = "the adapter is told of a WQE that is not there";
	*slot = EMPTY;
	s.memory[DONE]++;
	ring_to(e, &s, "the adapter executes WQE", next, complaint);
}

static void ring_step(struct explore *e, const void *state, unsigned process)
{
	struct state s = *(const struct state *)state, next = s;
	struct poster *p;
	const char *what;
	unsigned index;

	if (process == ring.posters) {
		adapter_step(e, s);
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
	return s->memory[DONE] == total ? NULL : "somebody waits for ever";
}

int ring_model(int argc, char **argv)
{
	struct state start;
	struct model model = {sizeof(start), 0, ring_step, ring_end};
	char title[80];
	unsigned i;

	ring.posters = model_option(argc, argv, "--posters", 2);
	ring.posts = model_option(argc, argv, "--posts", 3);
	ring.fences = model_option(argc, argv, "--fences", 3);
	ring.buffers = model_option(argc, argv, "--buffers", 1);
	ring.room = model_option(argc, argv, "--room", 1);
	ring.retests = model_option(argc, argv, "--retests", 0);
	if (!ring.posters || ring.posters > POSTERS_MAX || ring.posters * ring.posts >= EMPTY)
		return 2;
	memset(&start, 0, sizeof(start));
	memset(start.memory + SLOT, EMPTY, DEPTH);
	for (i = 0; i < ring.posters; i++)
		start.posters[i].left = (uint8_t)ring.posts;
	model.processes = ring.posters + 1;
	snprintf(title, sizeof(title), "ring, %u x %u posts, fences %u, buffers %u", ring.posters,
		 ring.posts, ring.fences, ring.buffers);
	return explore_run(&model, &start, title) ? 0 : 1;
}
