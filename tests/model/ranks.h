/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that start executions of one object, deal with each other one after the other in
 * each phase of an execution, and store to each other's memory. Between two ranks stores land
 * in order, between different pairs in any: how many were sent and have landed says it all.
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
	uint8_t peer; /* the next to be dealt with, counted from oneself */
	uint8_t line; /* of a model that has lines: the next to be taken */
	uint8_t sent[RANKS];
	uint8_t landed[RANKS];
};

struct state {
	struct rank ranks[RANKS];
};

struct state ranks_start(void);
/* A store of @me lands somewhere. */
void ranks_land(struct explore *e, const struct state *s, unsigned me);
/* @me sends @count stores to all others. */
void ranks_send_all(struct rank *r, unsigned me, unsigned count);
/* The next peer, or the next phase. */
void ranks_advance(struct rank *r, enum phase phase);
/* NULL: all have ended as many executions. */
const char *ranks_end(const struct state *s, unsigned executions);

#endif
