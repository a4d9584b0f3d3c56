/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of src/progress that a graph executes again and again: the stream, the thread,
 * and a failure that comes at any moment. What the GPU writes to host memory lands
 * later, in order; what the thread writes goes through a buffer as well.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define WRITES 3u /* of the GPU that have not landed */

enum word { BEGUN, DONE, WORDS };
enum at { BEGIN, AWAIT, RESET };
enum thread { LOOK, TAKE, RUN, END };
enum process { STREAM, THREAD, FAILURE, PROCESSES };

/* A write that has not landed: 1 + 2 * word + value, 0 if none. */
struct state {
	uint8_t words[WORDS];
	uint8_t at;
	uint8_t passed;         /* executions that the stream has come past */
	uint8_t launched;       /* ... that it has begun */
	uint8_t writes[WRITES]; /* of the GPU, the oldest first */
	uint8_t thread;
	uint8_t buffer[2]; /* of the thread, the oldest first */
	uint8_t steps;     /* of this execution */
	uint8_t ended;     /* executions */
	uint8_t is_broken;
};

static unsigned launches, resets, passes, releases, late, frees, stuck;

static uint8_t write_of(enum word word, unsigned value)
{
	return (uint8_t)(1 + 2 * (unsigned)word + value);
}

static void land(struct state *s, uint8_t *writes, unsigned index, unsigned room)
{
	s->words[(writes[index] - 1) / 2] = (writes[index] - 1) % 2;
	for (; index + 1 < room; index++)
		writes[index] = writes[index + 1];
	writes[room - 1] = 0;
}

static void stream_write(struct state *s, enum word word, unsigned value)
{
	unsigned i;

	for (i = 0; s->writes[i]; i++)
		;
	s->writes[i] = write_of(word, value);
}

static void stream_step(struct explore *e, const struct state *s)
{
	struct state next = *s;

	if (s->writes[0]) {
		land(&next, next.writes, 0, WRITES);
		explore_to(e, &next, "  a write of the stream lands:", s->writes[0], NULL);
		next = *s;
	}
	switch (s->at) {
	case BEGIN:
		if (s->launched == launches || s->writes[WRITES - 1])
			return;
		stream_write(&next, BEGUN, 1);
		next.launched++;
		next.at = AWAIT;
		explore_to(e, &next, "the stream begins", next.launched, NULL);
		return;
	case AWAIT:
		/* A read of the GPU does not pass its writes. */
		if ((s->writes[0] && !passes) || !s->words[DONE])
			return;
		next.at = RESET;
		next.passed++;
		explore_to(e, &next, "the stream goes on behind", next.passed,
			   s->ended < next.passed ? "the stream goes on before the job is over"
						  : NULL);
		return;
	case RESET:
		if (s->writes[WRITES - 1])
			return;
		if (resets)
			stream_write(&next, DONE, 0);
		next.at = BEGIN;
		explore_to(e, &next, "the stream resets", s->passed, NULL);
		return;
	}
}

static void thread_write(struct state *s, enum word word, unsigned value)
{
	s->buffer[s->buffer[0] ? 1 : 0] = write_of(word, value);
}

static void thread_land(struct explore *e, const struct state *s)
{
	unsigned i;

	for (i = 0; i < (releases ? 1u : 2u); i++) {
		struct state next = *s;

		if (!s->buffer[i])
			continue;
		land(&next, next.buffer, i, 2);
		explore_to(e, &next, "  a write of the thread lands:", s->buffer[i], NULL);
	}
}

static void thread_step(struct explore *e, const struct state *s)
{
	struct state next = *s;

	thread_land(e, s);
	switch (s->thread) {
	case LOOK:
		/* It sees its own writes. */
		if (s->buffer[0] || !s->words[BEGUN])
			return;
		next.thread = TAKE;
		explore_to(e, &next, "the thread sees a begin, having ended", s->ended,
			   s->ended == s->launched ? "an execution that nobody launched" : NULL);
		return;
	case TAKE:
		if (!late)
			thread_write(&next, BEGUN, 0);
		next.thread = RUN;
		next.steps = 0;
		explore_to(e, &next, "the thread takes", s->ended + 1u, NULL);
		return;
	case RUN:
		if (s->is_broken && !frees)
			return;
		next.steps = 1;
		if (s->is_broken || (!stuck && s->steps))
			next.thread = END;
		else if (s->steps)
			return;
		explore_to(e, &next, "a step of", s->ended + 1u, NULL);
		return;
	case END:
		if (s->buffer[1])
			return;
		thread_write(&next, DONE, 1);
		next.ended++;
		next.thread = LOOK;
		if (late) {
			if (s->buffer[0])
				return;
			thread_write(&next, BEGUN, 0);
		}
		explore_to(e, &next, "the thread ends", next.ended, NULL);
		return;
	}
}

static void model_step(struct explore *e, const void *state, unsigned process)
{
	const struct state *s = state;
	struct state next = *s;

	switch (process) {
	case STREAM:
		stream_step(e, s);
		return;
	case THREAD:
		thread_step(e, s);
		return;
	default:
		if (s->is_broken)
			return;
		next.is_broken = 1;
		explore_to(e, &next, "the communicator breaks, executions ended:", s->ended, NULL);
	}
}

static const char *model_end(const void *state)
{
	const struct state *s = state;

	if (s->passed < launches || s->at != BEGIN)
		return "the stream waits for ever";
	return s->words[BEGUN] || s->words[DONE] ? "a word is left behind" : NULL;
}

int stream_model(int argc, char **argv)
{
	const struct model model = {sizeof(struct state), PROCESSES, model_step, model_end};
	struct state start;
	char title[80];

	launches = model_option(argc, argv, "--launches", 4);
	resets = model_option(argc, argv, "--resets", 1);
	passes = model_option(argc, argv, "--passes", 0);
	releases = model_option(argc, argv, "--releases", 1);
	late = model_option(argc, argv, "--late", 0);
	frees = model_option(argc, argv, "--frees", 1);
	stuck = model_option(argc, argv, "--stuck", 0);
	memset(&start, 0, sizeof(start));
	snprintf(title, sizeof(title), "stream, %u launches", launches);
	return explore_run(&model, &start, title) ? 0 : 1;
}
