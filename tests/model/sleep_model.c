/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oriel_cpu_wake() and the sleep of the software HCA: two posters ring the doorbell, one after the
 * other under their lock, and each checks whether the HCA sleeps. Stores go through store buffers,
 * and atomics pass them, as in ring_model.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define POSTERS 2

enum at { RING, LOOK, CLEAR, WAKE, LEFT };
enum hca { POLL, ANNOUNCE, CHECK, ENTER, ASLEEP };

/* A store buffer has one entry per word: each word is stored once between two fences. */
struct state {
	uint8_t doorbell;
	uint8_t asleep;
	uint8_t served;
	uint8_t hca;
	uint8_t buffered;      /* 1 + the value of asleep that has not landed */
	uint8_t at[POSTERS];   /* positions of the posters */
	uint8_t rung[POSTERS]; /* the doorbell that has not landed */
};

static unsigned sleep_fences, sleep_clears;

static void poster_step(struct explore *e, const struct state *s, unsigned me)
{
	struct state next = *s;

	if (s->rung[me]) {
		next.doorbell = s->rung[me];
		next.rung[me] = 0;
		explore_to(e, &next, "  doorbell lands as", s->rung[me], NULL);
		next = *s;
	}
	switch (s->at[me]) {
	case RING:
		/* In the order of the lock of the doorbell. */
		if (s->doorbell != me)
			return;
		next.rung[me] = (uint8_t)(me + 1);
		next.at[me] = LOOK;
		explore_to(e, &next, "rings: poster", me, NULL);
		return;
	case LOOK:
		if ((sleep_fences & 1) && s->rung[me])
			return;
		next.at[me] = s->asleep ? CLEAR : LEFT;
		explore_to(e, &next, "reads asleep: poster", me, NULL);
		return;
	case CLEAR:
		next.at[me] = s->asleep ? WAKE : LEFT;
		if (sleep_clears)
			next.asleep = 0;
		explore_to(e, &next, "clears asleep: poster", me, NULL);
		return;
	case WAKE:
		if (s->hca == ASLEEP)
			next.hca = POLL;
		next.at[me] = LEFT;
		explore_to(e, &next, "wakes: poster", me, NULL);
		return;
	}
}

static void hca_step(struct explore *e, const struct state *s)
{
	static const char *const doing[] = {"the HCA polls, having served",
					    "the HCA announces sleep, having served",
					    "the HCA polls again, having served",
					    "the HCA enters the kernel, having served"};
	struct state next = *s;

	if (s->buffered) {
		next.asleep = (uint8_t)(s->buffered - 1);
		next.buffered = 0;
		explore_to(e, &next, "  asleep lands as", next.asleep, NULL);
		next = *s;
	}
	switch (s->hca) {
	case POLL:
		next.served = s->doorbell;
		next.hca = s->doorbell == s->served ? ANNOUNCE : POLL;
		break;
	case ANNOUNCE:
		if (s->buffered)
			return;
		next.buffered = 1 + 1;
		next.hca = CHECK;
		break;
	case CHECK:
		if ((sleep_fences & 2) && s->buffered)
			return;
		next.hca = s->doorbell == s->served ? ENTER : POLL;
		break;
	case ENTER:
		/* The system call drains the buffer, and sleeps only if the word is set. */
		if (s->buffered)
			return;
		next.hca = s->asleep ? ASLEEP : POLL;
		break;
	case ASLEEP:
		return;
	}
	explore_to(e, &next, doing[s->hca], s->served, NULL);
}

static void sleep_step(struct explore *e, const void *state, unsigned process)
{
	if (process == POSTERS)
		hca_step(e, state);
	else
		poster_step(e, state, process);
}

static const char *sleep_end(const void *state)
{
	const struct state *s = state;

	return s->served == s->doorbell && s->doorbell == POSTERS
		       ? NULL
		       : "the HCA sleeps with work to do";
}

int sleep_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct state), POSTERS + 1, sleep_step, sleep_end};
	struct state start;
	char title[60];

	sleep_fences = model_option(argc, argv, "--fences", 3);
	sleep_clears = model_option(argc, argv, "--clears", 1);
	memset(&start, 0, sizeof(start));
	snprintf(title, sizeof(title), "sleep, fences %u, clears %u", sleep_fences, sleep_clears);
	return explore_run(&model, &start, title) ? 0 : 1;
}
