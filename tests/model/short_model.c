/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel of src/p2p whose transfers are short or long. A short transfer is one unit that is sent
 * without a credit, as long as its slot for unexpected messages is free, and its bytes may be in
 * the eager buffer of that slot. A long transfer is two units, each sent by a credit. Receives may
 * be posted at any time.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define UNITS 12u
#define DEPTH_MAX 3u
#define RING 8u

enum process { SENDER, RECEIVER, PROCESSES };

/*
 * Units are counted from 1 where 0 means none. A credit is 2 * unit, or 2 * unit + 1 where the
 * receiver expects a short transfer.
 */
struct state {
	uint8_t resolved, taken; /* sender: its next unit, and the taken units that it knows of */
	uint8_t sent[UNITS];     /* units of long transfers */
	uint8_t credits[DEPTH_MAX];
	uint8_t word; /* taken units, as the receiver reports them */
	uint8_t ring[RING];
	uint8_t posted, granted, oldest, reported; /* receiver */
	uint8_t done[UNITS], announced[UNITS];
	uint8_t unexpected[DEPTH_MAX];
	uint8_t eager[DEPTH_MAX]; /* the unit whose bytes are in the eager buffer */
	uint8_t is_over;          /* one endpoint has found that they differ */
};

/* One endpoint: which of its transfers are short, and the transfer of each unit. */
struct side {
	unsigned shorts; /* a bit for each transfer */
	uint8_t of[UNITS + 2];
	unsigned units;
};

static struct side sides[PROCESSES];
static unsigned transfers, depth, room, threshold, early, announces, eager;

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
		   sides[SENDER].shorts == sides[RECEIVER].shorts
			   ? "equal endpoints are found to differ"
			   : NULL);
}

/* Has the credit of @unit, of a long transfer, arrived? A credit for a short one ends the run. */
static bool sender_has_credit(struct explore *e, const struct state *s, unsigned unit)
{
	unsigned credit = s->credits[unit % depth];

	if (credit / 2 != unit + 1)
		return false;
	if (credit % 2)
		explore_over(e, s, "the sender sees a credit for a short transfer, unit", unit);
	return credit % 2 == 0;
}

static void sender_resolve(struct explore *e, const struct state *s)
{
	unsigned unit = s->resolved;
	struct state next = *s;

	if (unit == sides[SENDER].units)
		return;
	if (!is_short(SENDER, unit)) {
		if (!sender_has_credit(e, s, unit))
			return;
		next.resolved += 2;
		explore_to(e, &next, "the sender resolves unit", unit, NULL);
		return;
	}
	if (room && unit >= s->taken + depth)
		return;
	next.resolved++;
	next.eager[unit % depth] = (uint8_t)(unit + 1);
	push(&next, unit);
	explore_to(e, &next, "the sender sends a short transfer, unit", unit, NULL);
}

static void sender_step(struct explore *e, const struct state *s)
{
	struct state next = *s;

	sender_resolve(e, s);
	for (unsigned unit = 0; unit < s->resolved; unit++) {
		if (is_short(SENDER, unit) || s->sent[unit] || !sender_has_credit(e, s, unit))
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

/* A short transfer has arrived for @unit, which is granted. */
static void receiver_deliver(struct explore *e, const struct state *s, struct state *next,
			     unsigned unit)
{
	if (!is_short(RECEIVER, unit) || sides[SENDER].of[unit] != sides[RECEIVER].of[unit]) {
		explore_over(e, s, "the receiver finds another transfer than it waits for, unit",
			     unit);
		return;
	}
	next->done[unit] = 1;
	retire(next);
	explore_to(e, next, "the receiver has a short transfer, unit", unit,
		   eager && s->eager[unit % depth] != unit + 1
			   ? "it takes the bytes of another message"
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
	if (s->unexpected[slot]) {
		next.unexpected[slot] = 0;
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
			explore_over(e, s,
				     "the receiver takes a unit that it does not wait for:", unit);
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
	next.unexpected[slot] = (uint8_t)(unit + 1);
	explore_to(e, &next, "the receiver stores the unexpected unit", unit,
		   s->unexpected[slot] || unit >= s->oldest + depth
			   ? "an unexpected message is overwritten"
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
	/* --early: unexpected messages count as taken. */
	for (unsigned slot = 0; early && slot < depth; slot++)
		taken += s->unexpected[slot] != 0;
	if (taken >= s->reported + threshold) {
		next = *s;
		next.reported = next.word = (uint8_t)taken;
		explore_to(e, &next, "the receiver reports taken", taken, NULL);
	}
	for (unsigned unit = s->oldest; announces && unit < s->granted; unit++) {
		if (!is_short(RECEIVER, unit) || s->done[unit] || s->announced[unit])
			continue;
		next = *s;
		next.announced[unit] = 1;
		next.credits[unit % depth] = (uint8_t)(2 * (unit + 1) + 1);
		explore_to(e, &next, "the receiver announces a short transfer, unit", unit, NULL);
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
		return s->is_over ? NULL : "no endpoint finds that they differ";
	return s->oldest < sides[RECEIVER].units ? "an endpoint waits for ever" : NULL;
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
	announces = model_option(argc, argv, "--announces", 1);
	eager = model_option(argc, argv, "--eager", 1);
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
