/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that the models of collectives share. */
#include "ranks.h"

#include <string.h>

struct state ranks_start(void)
{
	struct state start;
	unsigned i;

	memset(&start, 0, sizeof(start));
	for (i = 0; i < RANKS; i++)
		start.ranks[i].peer = 1;
	return start;
}

void ranks_land(struct explore *e, const struct state *s, unsigned me)
{
	struct state next;
	unsigned i;

	for (i = 0; i < RANKS; i++) {
		if (s->ranks[me].landed[i] == s->ranks[me].sent[i])
			continue;
		next = *s;
		next.ranks[me].landed[i]++;
		explore_to(e, &next, "  a store lands at", i, NULL);
	}
}

void ranks_send_all(struct rank *r, unsigned me, unsigned count)
{
	unsigned i;

	for (i = 0; i < RANKS; i++)
		if (i != me)
			r->sent[i] = (uint8_t)(r->sent[i] + count);
}

void ranks_advance(struct rank *r, unsigned phase)
{
	if (++r->peer < RANKS)
		return;
	r->peer = 1;
	r->phase = (uint8_t)phase;
}

const char *ranks_end(const struct state *s, unsigned executions)
{
	unsigned i;

	for (i = 0; i < RANKS; i++)
		if (s->ranks[i].phase != PHASE_START || s->ranks[i].begun != executions)
			return "a rank waits for ever";
	return NULL;
}
