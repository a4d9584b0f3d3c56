/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel of src/p2p whose transfers are short or long. A short one is a unit that comes
 * without a credit, as long as the place where it would be kept is free, and its bytes may
 * be aside, in that place; a long one is two, each by a credit. The receives may come at any time.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define UNITS 12u
#define DEPTH_MAX 3u
#define RING 8u

enum process { SENDER, RECEIVER, PROCESSES };

/* Units are counted from 1 on where 0 is none; a credit is 2 * unit + 1 if it is for what is short.
 */
struct state {
	uint8_t resolved,
		taken; /* of the sender: its next unit, and those that are taken for all it knows */
	uint8_t sent[UNITS]; /* units of long ones */
	uint8_t credits[DEPTH_MAX];
	uint8_t word; /* units that are taken */
	uint8_t ring[RING];
	uint8_t posted, granted, oldest, told; /* of the receiver */
	uint8_t done[UNITS], said[UNITS];
	uint8_t kept[DEPTH_MAX];
	uint8_t aside[DEPTH_MAX]; /* where bytes are from when they are sent until they are taken */
	uint8_t is_over;          /* one end has found that they differ */
};

/* Which transfer a unit is of, and how many there are. */
struct side {
	unsigned shorts; /* a bit for each transfer */
	uint8_t of[UNITS + 2];
	unsigned units;
};

static struct side sides[PROCESSES];
static unsigned transfers, depth, room, threshold, early, says, aside;

static bool is_short(enum process of, unsigned unit)
{
	return sides[of].shorts >> sides[of].of[unit] & 1;
}

static void side_fill(struct side *s, unsigned shorts)
{
	s->shorts = shorts;
	s->units = 0;
	for (unsigned t = 0; t < transfers; t++) {
		s->of[s->units++] = (uint8_t)t;
		if (!(shorts >> t & 1))
			s->of[s->units++] = (uint8_t)t;
	}
}

static void push(struct state *s, unsigned unit)
{
	unsigned i = 0;

	while (s->ring[i])
		i++;
	s->ring[i] = (uint8_t)(unit + 1);
}

static void explore_over(struct explore *e, const struct state *s, const char *what, unsigned unit)
{
	struct state next = *s;

	next.is_over = 1;
	explore_to(e, &next, what, unit,
		   sides[SENDER].shorts == sides[RECEIVER].shorts ? "equals are told apart" : NULL);
}

/* All that can be told of @unit of a long transfer by its credit; false: nothing. */
static bool sender_looks(struct explore *e, const struct state *s, unsigned unit)
{
	unsigned credit = s->credits[unit % depth];

	if (credit / 2 != unit + 1)
		return false;
	if (credit % 2)
		explore_over(e, s, "the sender sees a credit for what is short, unit", unit);
	return credit % 2 == 0;
}

static void sender_resolve(struct explore *e, const struct state *s)
{
	unsigned unit = s->resolved;
	struct state next = *s;

	if (unit == sides[SENDER].units)
		return;
	if (!is_short(SENDER, unit)) {
		if (!sender_looks(e, s, unit))
			return;
		next.resolved += 2;
		explore_to(e, &next, "the sender resolves unit", unit, NULL);
		return;
	}
	if (room && unit >= s->taken + depth)
		return;
	next.resolved++;
	next.aside[unit % depth] = (uint8_t)(unit + 1);
	push(&next, unit);
	explore_to(e, &next, "the sender sends what is short, unit", unit, NULL);
}

static void sender_step(struct explore *e, const struct state *s)
{
	struct state next = *s;

	sender_resolve(e, s);
	for (unsigned unit = 0; unit < s->resolved; unit++) {
		if (is_short(SENDER, unit) || s->sent[unit] || !sender_looks(e, s, unit))
			continue;
		next = *s;
		next.sent[unit] = 1;
		push(&next, unit);
		explore_to(e, &next, "the sender sends unit", unit, NULL);
	}
	if (s->word <= s->taken)
		return;
	next = *s;
	next.taken = s->word;
	explore_to(e, &next, "the sender sees taken", s->word,
		   s->word > s->resolved ? "more is taken than was sent" : NULL);
}

static void retire(struct state *s)
{
	while (s->oldest < s->granted && s->done[s->oldest])
		s->oldest++;
}

/* What is short came for @unit, which is granted. */
static void receiver_deliver(struct explore *e, const struct state *s, struct state *next,
			     unsigned unit)
{
	if (!is_short(RECEIVER, unit) || sides[SENDER].of[unit] != sides[RECEIVER].of[unit]) {
		explore_over(e, s, "the receiver finds another than it waits for, unit", unit);
		return;
	}
	next->done[unit] = 1;
	retire(next);
	explore_to(e, next, "the receiver has what is short, unit", unit,
		   aside && s->aside[unit % depth] != unit + 1 ? "it takes the bytes of another"
							       : NULL);
}

static void receiver_grant(struct explore *e, const struct state *s)
{
	unsigned unit = s->granted, slot = unit % depth;
	struct state next = *s;

	if (unit >= sides[RECEIVER].units || sides[RECEIVER].of[unit] >= s->posted ||
	    unit >= s->oldest + depth)
		return;
	next.granted++;
	if (s->kept[slot]) {
		next.kept[slot] = 0;
		receiver_deliver(e, s, &next, unit);
		return;
	}
	if (!is_short(RECEIVER, unit))
		next.credits[slot] = (uint8_t)(2 * (unit + 1));
	explore_to(e, &next, "the receiver waits for unit", unit, NULL);
}

static void receiver_take(struct explore *e, const struct state *s)
{
	unsigned unit = s->ring[0] - 1u, slot = unit % depth;
	struct state next = *s;

	if (!s->ring[0])
		return;
	memmove(next.ring, next.ring + 1, RING - 1);
	next.ring[RING - 1] = 0;
	if (!is_short(SENDER, unit)) {
		if (unit >= s->granted || is_short(RECEIVER, unit)) {
			explore_over(e, s, "the receiver takes what it does not wait for, unit",
				     unit);
			return;
		}
		next.done[unit] = 1;
		retire(&next);
		explore_to(e, &next, "the receiver takes unit", unit, NULL);
		return;
	}
	if (unit < s->granted) {
		receiver_deliver(e, s, &next, unit);
		return;
	}
	next.kept[slot] = (uint8_t)(unit + 1);
	explore_to(e, &next, "the receiver keeps unit", unit,
		   s->kept[slot] || unit >= s->oldest + depth ? "what is kept is overwritten"
							      : NULL);
}

static void receiver_step(struct explore *e, const struct state *s)
{
	unsigned taken = s->oldest;
	struct state next = *s;

	if (s->posted < transfers) {
		next.posted++;
		explore_to(e, &next, "a receive is begun:", s->posted, NULL);
	}
	receiver_grant(e, s);
	receiver_take(e, s);
	/* Too early: what is kept counts as taken. */
	for (unsigned slot = 0; early && slot < depth; slot++)
		taken += s->kept[slot] != 0;
	if (taken >= s->told + threshold) {
		next = *s;
		next.told = next.word = (uint8_t)taken;
		explore_to(e, &next, "the receiver tells taken", taken, NULL);
	}
	for (unsigned unit = s->oldest; says && unit < s->granted; unit++) {
		if (!is_short(RECEIVER, unit) || s->done[unit] || s->said[unit])
			continue;
		next = *s;
		next.said[unit] = 1;
		next.credits[unit % depth] = (uint8_t)(2 * (unit + 1) + 1);
		explore_to(e, &next, "the receiver says that what is short may come, unit", unit,
			   NULL);
	}
}

static void model_step(struct explore *e, const void *state, unsigned process)
{
	const struct state *s = state;

	if (s->is_over)
		return;
	if (process == SENDER)
		sender_step(e, s);
	else
		receiver_step(e, s);
}

static const char *model_end(const void *state)
{
	const struct state *s = state;

	if (sides[SENDER].shorts != sides[RECEIVER].shorts)
		return s->is_over ? NULL : "nobody finds that the ends differ";
	return s->oldest < sides[RECEIVER].units ? "an end waits for ever" : NULL;
}

int short_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct state), PROCESSES, model_step, model_end};
	unsigned shorts, others;
	struct state start;
	char title[80];

	transfers = model_option(argc, argv, "--transfers", 5);
	depth = model_option(argc, argv, "--depth", 2);
	shorts = model_option(argc, argv, "--shorts", 0x1f);
	others = model_option(argc, argv, "--others", shorts);
	room = model_option(argc, argv, "--room", 1);
	threshold = model_option(argc, argv, "--threshold", (depth + 1) / 2);
	early = model_option(argc, argv, "--early", 0);
	says = model_option(argc, argv, "--says", 1);
	aside = model_option(argc, argv, "--aside", 1);
	side_fill(&sides[SENDER], shorts);
	side_fill(&sides[RECEIVER], others);
	if (sides[SENDER].units > UNITS || sides[RECEIVER].units > UNITS || depth > DEPTH_MAX) {
		fprintf(stderr, "%u transfers of depth %u are too many\n", transfers, depth);
		return 2;
	}
	memset(&start, 0, sizeof(start));
	snprintf(title, sizeof(title), "short, %u transfers, depth %u, 0x%x and 0x%x", transfers,
		 depth, shorts, others);
	return explore_run(&model, &start, title) ? 0 : 1;
}
