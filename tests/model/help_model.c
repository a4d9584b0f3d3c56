/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of the proxy, and posters that do its work while it sleeps (rdma_proxy_thread.c).
 * Posters publish requests, and post by themselves if they find the thread asleep and get its
 * lock. A poster that does not get the lock sets a word for the owner of the lock. No process wakes
 * the thread in this model. Stores, an unlock included, go through store buffers, and atomics pass
 * them, as in ring_model.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define POSTERS 3u
#define THREAD POSTERS
#define ALL ((1u << POSTERS) - 1)

/* Positions of a poster: up to TRY_ONCE_MORE before the lock, then with it, then after it. */
enum at { PUBLISH, LOOK, TRY, MISS, TRY_ONCE_MORE, TURN, UNLOCK, LOOK_BACK, MAKE_UP, LEFT };
enum thread { POLL, ANNOUNCE, CHECK, LET_GO, ENTER, ASLEEP, LOCK };

/* Stores in the buffers have not landed yet. */
struct state {
	uint8_t asked;  /* mask of the posters that have published */
	uint8_t served; /* mask of the posters whose requests are posted */
	uint8_t missed;
	uint8_t asleep;
	uint8_t holder; /* 1 + the process with the lock; 0: free */
	uint8_t at[POSTERS];
	uint8_t thread;
	uint8_t publishes, misses, unlocks; /* buffers, as masks of processes */
	uint8_t announces;                  /* of the thread: 1 + the value of asleep */
};

static unsigned help_fences, help_misses, help_makes_up;

static bool help_has_landed(const struct state *s, unsigned me)
{
	return !((s->publishes | s->misses | s->unlocks) >> me & 1);
}

static void help_land(struct explore *e, const struct state *s, unsigned me)
{
	struct state next = *s;
	uint8_t mine = (uint8_t)(1u << me);

	/* In their order: the published request, the word, the unlock. */
	if (s->publishes & mine) {
		next.publishes &= (uint8_t)~mine;
		next.asked |= mine;
		explore_to(e, &next, "  entry lands: poster", me, NULL);
	} else if (s->misses & mine) {
		next.misses &= (uint8_t)~mine;
		next.missed = 1;
		explore_to(e, &next, "  the word lands: poster", me, NULL);
	} else if (s->unlocks & mine) {
		next.unlocks &= (uint8_t)~mine;
		next.holder = 0;
		explore_to(e, &next, "  unlock lands: process", me, NULL);
	}
}

static bool help_try(struct state *s, unsigned me)
{
	if (s->holder)
		return false;
	s->holder = (uint8_t)(me + 1);
	return true;
}

/* Posts the requests of all posters. */
static void help_serve_all(struct state *s)
{
	s->missed = 0;
	s->served |= s->asked;
}

static void poster_step(struct explore *e, const struct state *s, unsigned me)
{
	static const char *const doing[] = {"publishes: poster",       "reads asleep: poster",
					    "tries the lock: poster",  "sets the word: poster",
					    "tries once more: poster", "posts: poster",
					    "unlocks: poster",         "reads the word: poster",
					    "makes up: poster"};
	struct state next = *s;

	help_land(e, s, me);
	switch (s->at[me]) {
	case PUBLISH:
		next.publishes |= (uint8_t)(1u << me);
		next.at[me] = LOOK;
		break;
	case LOOK:
		if ((help_fences & 1) && !help_has_landed(s, me))
			return;
		next.at[me] = s->asleep ? TRY : LEFT;
		break;
	case TRY:
		next.at[me] = help_try(&next, me) ? TURN : help_misses ? MISS : LEFT;
		break;
	case MISS:
		next.misses |= (uint8_t)(1u << me);
		next.at[me] = TRY_ONCE_MORE;
		break;
	case TRY_ONCE_MORE:
		if ((help_fences & 2) && !help_has_landed(s, me))
			return;
		next.at[me] = help_try(&next, me) ? TURN : LEFT;
		break;
	case TURN:
		next.served |= (uint8_t)(1u << me);
		next.at[me] = UNLOCK;
		break;
	case UNLOCK:
		next.unlocks |= (uint8_t)(1u << me);
		next.at[me] = help_makes_up ? LOOK_BACK : LEFT;
		break;
	case LOOK_BACK:
		if ((help_fences & 4) && !help_has_landed(s, me))
			return;
		next.at[me] = s->missed ? MAKE_UP : LEFT;
		break;
	case MAKE_UP:
		next.at[me] = help_try(&next, me) ? UNLOCK : LEFT;
		if (next.at[me] == UNLOCK)
			help_serve_all(&next);
		break;
	default:
		return;
	}
	explore_to(e, &next, doing[s->at[me]], me, NULL);
}

static void thread_step(struct explore *e, const struct state *s)
{
	static const char *const doing[] = {
		"the thread polls",   "the thread announces sleep", "the thread polls again",
		"the thread unlocks", "the thread reads the word",  "",
		"the thread locks"};
	struct state next = *s;

	help_land(e, s, THREAD);
	if (s->announces) {
		next.asleep = (uint8_t)(s->announces - 1);
		next.announces = 0;
		explore_to(e, &next, "  asleep lands as", next.asleep, NULL);
		next = *s;
	}
	switch (s->thread) {
	case POLL:
		if (s->announces)
			return;
		help_serve_all(&next);
		next.thread = next.served == s->served ? ANNOUNCE : POLL;
		break;
	case ANNOUNCE:
		next.announces = 1 + 1;
		next.thread = CHECK;
		break;
	case CHECK:
		if ((help_fences & 8) && s->announces)
			return;
		next.thread = s->asked & ~s->served ? POLL : LET_GO;
		if (next.thread == POLL)
			next.announces = 1 + 0;
		break;
	case LET_GO:
		if (s->announces)
			return;
		next.unlocks |= (uint8_t)(1u << THREAD);
		next.thread = ENTER;
		break;
	case ENTER:
		if ((help_fences & 16) && !help_has_landed(s, THREAD))
			return;
		next.thread = s->missed ? LOCK : ASLEEP;
		break;
	case LOCK:
		if (!help_try(&next, THREAD))
			return;
		next.announces = 1 + 0;
		next.thread = POLL;
		break;
	default:
		return;
	}
	explore_to(e, &next, doing[s->thread], s->served, NULL);
}

static void help_step(struct explore *e, const void *state, unsigned process)
{
	if (process == THREAD)
		thread_step(e, state);
	else
		poster_step(e, state, process);
}

static const char *help_end(const void *state)
{
	const struct state *s = state;

	if (s->thread == ASLEEP && s->served == ALL)
		return NULL;
	return s->thread == ASLEEP ? "a request is never posted"
				   : "a process waits for a lock for ever";
}

int help_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct state), POSTERS + 1, help_step, help_end};
	struct state start;
	char title[60];

	help_fences = model_option(argc, argv, "--fences", 31);
	help_misses = model_option(argc, argv, "--misses", 1);
	help_makes_up = model_option(argc, argv, "--makes-up", 1);
	memset(&start, 0, sizeof(start));
	start.holder = THREAD + 1;
	snprintf(title, sizeof(title), "help, fences %u, misses %u, makes up %u", help_fences,
		 help_misses, help_makes_up);
	return explore_run(&model, &start, title) ? 0 : 1;
}
