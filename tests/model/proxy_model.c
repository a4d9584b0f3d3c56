/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of oriel/dev/detail/proxy.h: two or three posters request posts of --entries entries on
 * a ring of four, the second of which is a counter. A proxy copies, posts and completes them; an
 * HCA ends them. Stores of a poster go through its store buffer, first in first out, as after a
 * release; with --releases 0 in any order. The mutants: --room 0 does not wait for the tail; --laps
 * 0 leaves the index out of the stamp; --early 1 moves the tail before the copy; --ends 0 completes
 * an entry as soon as it is posted; --counts 0 increments a counter as soon as it is copied.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explore.h"

#define DEPTH 4u
#define POSTERS_MAX 3
#define ENTRIES_MAX 2
#define STORES (ENTRIES_MAX + 1)
#define EMPTY 31u /* a slot: no entry that the proxy has yet to copy */

enum word { RESV, TAIL, COMPLETED, STAMP, SLOT = STAMP + DEPTH, WORDS = SLOT + DEPTH };

enum at { RESERVE, ROOM, PUBLISH, WAIT, LEFT };

/* Posters are interchangeable, and sorted so that equal states compare equal. */
struct poster {
	uint8_t at;
	uint8_t left;  /* posts still to make */
	uint8_t index; /* of the first entry of its post */
	uint8_t stores;
	uint8_t word[STORES];
	uint8_t value[STORES];
};

struct state {
	uint8_t memory[WORDS];
	struct poster posters[POSTERS_MAX];
	uint8_t published; /* entries that the proxy may copy */
	uint8_t copied;
	uint8_t is_tail_moved; /* --early: the tail has moved past the next entry */
	uint8_t ended;         /* the HCA has ended all entries below */
};

static struct {
	unsigned posters, posts, entries, releases, room, laps, early, ends, counts;
} proxy;

static bool is_counter(unsigned index)
{
	return index % proxy.entries == 1;
}

static int poster_order(const void *left, const void *right)
{
	return memcmp(left, right, sizeof(struct poster));
}

static void proxy_to(struct explore *e, struct state *next, const char *what, unsigned number,
		     const char *complaint)
{
	qsort(next->posters, proxy.posters, sizeof(struct poster), poster_order);
	explore_to(e, next, what, number, complaint);
}

static void poster_store(struct poster *p, unsigned word, unsigned value)
{
	p->word[p->stores] = (uint8_t)word;
	p->value[p->stores++] = (uint8_t)value;
}

/* Store @which of a poster reaches memory. */
static void poster_land(struct explore *e, struct state s, unsigned number, unsigned which)
{
	struct poster *p = &s.posters[number];
	unsigned word = p->word[which], value = p->value[which];
	const char *complaint = NULL;

	if (word >= SLOT && s.memory[word] != EMPTY)
		complaint = "an entry is overwritten before it has been copied";
	s.memory[word] = (uint8_t)value;
	p->stores--;
	memmove(p->word + which, p->word + which + 1, STORES - 1 - which);
	memmove(p->value + which, p->value + which + 1, STORES - 1 - which);
	p->word[STORES - 1] = p->value[STORES - 1] = 0;
	proxy_to(e, &s, word < SLOT ? "  the stamp lands of entry" : "  filled in is entry",
		 word < SLOT ? value - 1 : value, complaint);
}

/* The next step of a poster; NULL: it waits. */
static const char *poster_step(struct state *s, struct poster *p, const char **complaint)
{
	unsigned i, end = p->index + proxy.entries;

	switch (p->at) {
	case RESERVE:
		p->index = s->memory[RESV];
		s->memory[RESV] = (uint8_t)(s->memory[RESV] + proxy.entries);
		p->at = ROOM;
		return "reserves entry";
	case ROOM:
		if (p->stores || (proxy.room && end > s->memory[TAIL] + DEPTH))
			return NULL;
		for (i = p->index; i < end; i++)
			poster_store(p, SLOT + i % DEPTH, i);
		p->at = PUBLISH;
		return "has room for entry";
	case PUBLISH:
		poster_store(p, STAMP + p->index % DEPTH, p->index + 1u);
		p->left--;
		p->at = p->left ? RESERVE : WAIT;
		return "publishes entry";
	case WAIT:
		if (s->memory[COMPLETED] < end)
			return NULL;
		for (i = p->index; i < end; i++)
			if (!is_counter(i) && s->ended <= i)
				*complaint = "memory is returned while the HCA reads it";
		p->at = LEFT;
		return "sees the completion of entry";
	}
	return NULL;
}

/* The HCA ends the next entry that was posted to it. */
static void hca_step(struct explore *e, struct state s)
{
	if (s.ended < s.copied && !is_counter(s.ended)) {
		s.ended++;
		if (is_counter(s.ended))
			s.ended++;
		proxy_to(e, &s, "the HCA has ended all below", s.ended, NULL);
	}
}

static void proxy_poll(struct explore *e, struct state s)
{
	uint8_t stamp = s.memory[STAMP + s.published % DEPTH];

	if (s.copied != s.published || !stamp || (proxy.laps && stamp != s.published + 1))
		return;
	s.published = (uint8_t)(s.published + proxy.entries);
	proxy_to(e, &s, "the proxy finds all entries below", s.published, NULL);
}

static void proxy_copy(struct explore *e, struct state s)
{
	uint8_t *slot = &s.memory[SLOT + s.copied % DEPTH];
	const char *complaint = NULL;

	if (s.copied == s.published)
		return;
	if (proxy.early && !s.is_tail_moved) {
		s.is_tail_moved = 1;
		s.memory[TAIL]++;
		proxy_to(e, &s, "the proxy moves the tail beyond entry", s.copied, NULL);
		return;
	}
	if (*slot != s.copied)
		complaint = "an entry is copied that is not there";
	if (!proxy.counts && is_counter(s.copied) && s.ended < s.copied)
		complaint = "a counter is incremented before its operations have ended";
	*slot = EMPTY;
	s.copied++;
	s.is_tail_moved = 0;
	s.memory[TAIL] = s.copied;
	proxy_to(e, &s, "the proxy copies and posts entry", s.copied - 1u, complaint);
}

static void proxy_complete(struct explore *e, struct state s)
{
	uint8_t next = s.memory[COMPLETED];

	if (next == s.copied || (proxy.ends && s.ended <= next))
		return;
	s.memory[COMPLETED]++;
	proxy_to(e, &s, "the proxy completes entry", next, NULL);
}

static void proxy_step(struct explore *e, const void *state, unsigned process)
{
	struct state s = *(const struct state *)state, next = s;
	const char *what, *complaint = NULL;
	struct poster *p;
	unsigned i, index;

	if (process == proxy.posters) {
		hca_step(e, s);
		return;
	}
	if (process > proxy.posters) {
		proxy_poll(e, s);
		proxy_copy(e, s);
		proxy_complete(e, s);
		return;
	}
	p = &next.posters[process];
	for (i = 0; i < p->stores && (i == 0 || !proxy.releases); i++)
		poster_land(e, s, process, i);
	if (p->at == LEFT)
		return;
	index = p->at == RESERVE ? s.memory[RESV] : p->index;
	what = poster_step(&next, p, &complaint);
	if (what)
		proxy_to(e, &next, what, index, complaint);
}

static const char *proxy_end(const void *state)
{
	const struct state *s = state;
	unsigned i;

	for (i = 0; i < proxy.posters; i++)
		if (s->posters[i].at != LEFT)
			return "a poster waits for ever";
	return NULL;
}

int proxy_model(int argc, char **argv)
{
	struct state start;
	struct model model = {sizeof(start), 0, proxy_step, proxy_end};
	char title[80];
	unsigned i;

	proxy.posters = model_option(argc, argv, "--posters", 2);
	proxy.posts = model_option(argc, argv, "--posts", 3);
	proxy.entries = model_option(argc, argv, "--entries", 2);
	proxy.releases = model_option(argc, argv, "--releases", 1);
	proxy.room = model_option(argc, argv, "--room", 1);
	proxy.laps = model_option(argc, argv, "--laps", 1);
	proxy.early = model_option(argc, argv, "--early", 0);
	proxy.ends = model_option(argc, argv, "--ends", 1);
	proxy.counts = model_option(argc, argv, "--counts", 1);
	if (!proxy.posters || proxy.posters > POSTERS_MAX || !proxy.entries ||
	    proxy.entries > ENTRIES_MAX || proxy.posters * proxy.posts * proxy.entries >= EMPTY)
		return 2;
	memset(&start, 0, sizeof(start));
	memset(start.memory + SLOT, EMPTY, DEPTH);
	for (i = 0; i < proxy.posters; i++)
		start.posters[i].left = (uint8_t)proxy.posts;
	model.processes = proxy.posters + 2;
	snprintf(title, sizeof(title), "proxy, %u x %u posts of %u", proxy.posters, proxy.posts,
		 proxy.entries);
	return explore_run(&model, &start, title) ? 0 : 1;
}
