/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that start executions of one object, and serve their peers one after the other in each
 * phase of an execution. In allgather_model.c and exchange_model.c they store to each other's
 * memory: between two ranks stores land in order, between different pairs in any order, so the
 * counts of sent and landed stores are the whole state. reduce_model.c and staged_model.c have
 * phases of their own, and read and write words of their peers directly.
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
	uint8_t begun;     /* the last execution, or round of one, that it has begun */
	uint8_t published; /* reductions: the last one whose elements peers may add */
	uint8_t added;     /* reductions through slots: the last one that it has added */
	uint8_t done;      /* reductions by owners: the last one whose results are in all views */
	uint8_t phase;     /* 0: it is in no execution */
	uint8_t peer;      /* the next to be served, counted from the own rank */
	uint8_t line;      /* models with lines: the next to be read */
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
void ranks_advance(struct rank *r, unsigned phase);
/* NULL: all ranks have ended @executions executions, or rounds. */
const char *ranks_end(const struct state *s, unsigned executions);

#endif
