/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapped gather of src/comm/exchange.c: each rank writes its part of a round to one of two
 * slots, publishes the round, and reads the parts of all ranks. These must be complete and belong
 * to that round. Stores of a rank land in order.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define RANKS 3
#define ROUNDS 4

/*
 * The stores of a round are the first half of the slot, the second half, and the round. The counts
 * of made and of landed stores determine the content of the slots.
 */
struct rank {
	uint8_t made;
	uint8_t landed;
	uint8_t peer; /* the next to read */
	uint8_t is_reading;
};

struct state {
	struct rank ranks[RANKS];
};

static unsigned gather_slots;

/* Does the slot of @round hold exactly that round after @stores stores? */
static bool gather_holds(unsigned stores, unsigned round)
{
	return stores + 1 >= 3 * round && stores <= 3 * (round - 1 + gather_slots);
}

static void gather_step(struct explore *e, const void *state, unsigned me)
{
	const struct state *s = state;
	struct state next = *s;
	struct rank *r = &next.ranks[me];
	unsigned round = r->made / 3;
	unsigned seen = r->peer == me ? r->made : s->ranks[r->peer % RANKS].landed;

	if (r->landed < r->made) {
		next.ranks[me].landed++;
		explore_to(e, &next, "  a store lands, of rank", me, NULL);
		next = *s;
	}
	if (r->peer == RANKS) {
		if (round == ROUNDS)
			return;
		r->made = (uint8_t)(r->made + 3);
		r->peer = 0;
		explore_to(e, &next, "writes and publishes: rank", me, NULL);
		return;
	}
	if (!r->is_reading && seen / 3 < round)
		return;
	r->peer = (uint8_t)(r->peer + r->is_reading);
	r->is_reading = !r->is_reading;
	explore_to(e, &next, r->is_reading ? "begins to read: rank" : "has read: rank", me,
		   gather_holds(seen, round) ? NULL : "a slot is overwritten while it is read");
}

static const char *gather_end(const void *state)
{
	const struct state *s = state;
	unsigned i;

	for (i = 0; i < RANKS; i++)
		if (s->ranks[i].made != 3 * ROUNDS || s->ranks[i].peer != RANKS)
			return "a rank waits for ever";
	return NULL;
}

int gather_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct state), RANKS, gather_step, gather_end};
	struct state start;
	char title[40];
	unsigned i;

	gather_slots = model_option(argc, argv, "--slots", 2);
	memset(&start, 0, sizeof(start));
	for (i = 0; i < RANKS; i++)
		start.ranks[i].peer = RANKS;
	snprintf(title, sizeof(title), "gather, %u slots", gather_slots);
	return explore_run(&model, &start, title) ? 0 : 1;
}
