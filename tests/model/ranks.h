/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that start executions of one object, serve their peers one after the other in each phase of
 * an execution, and store to each other's memory. Between two ranks stores land in order, between
 * different pairs in any order, so the counts of sent and landed stores are the whole state.
 * Used by allgather_model.c and exchange_model.c.
 */
#ifndef RANKS_H
#define RANKS_H

#include <stdint.h>

#include "explore.h"

#define RANKS 3

enum phase {
	PHASE_START,
	PHASE_SEND,
	PHASE_WAIT,
	PHASE_READ,
};

struct rank {
	uint8_t execution;
	uint8_t phase;
	uint8_t peer; /* the next to be served, counted from the own rank */
	uint8_t line; /* models with lines: the next to be read */
	uint8_t sent[RANKS];
	uint8_t landed[RANKS];
};

struct state {
	struct rank ranks[RANKS];
};

struct state ranks_start(void);
/* One store of @me lands, at each possible target. */
void ranks_land(struct explore *e, const struct state *s, unsigned me);
/* @me sends @count stores to each peer. */
void ranks_send_all(struct rank *r, unsigned me, unsigned count);
/* Goes on to the next peer, or to @phase after the last. */
void ranks_advance(struct rank *r, enum phase phase);
/* NULL: all ranks have ended @executions executions. */
const char *ranks_end(const struct state *s, unsigned executions);

#endif
