/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of src/progress that graphs execute again and again: streams, the thread, and a failure at
 * any moment. Writes of the GPU to host memory land later, in order; writes of the thread go
 * through a store buffer as well.
 *
 * With --jobs 2 there are two captures of one object, launched in any order; with --streams 2 they
 * are launched in either of two streams, one launch behind the other. The thread counts the
 * executions of the object. Its count must be the number of the launch, since that is equal on all
 * ranks.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"

#define WRITES 3u /* writes of the GPU that have not landed */
#define JOBS 2u
#define STREAMS 2u

enum word { BEGUN, DONE, WORDS };
enum at { BEGIN, AWAIT, RESET };
enum thread { LOOK, TAKE, RUN, END };
enum process { THREAD, FAILURE, STREAM, PROCESSES = STREAM + STREAMS };

struct stream {
	uint8_t at;
	uint8_t job;
};

/* A write that has not landed: 1 + 2 * (WORDS * job + word) + value, 0 if none. */
struct state {
	uint8_t words[JOBS * WORDS];
	struct stream streams[STREAMS];
	uint8_t passed;                  /* executions that a stream has passed */
	uint8_t launched;                /* executions that a stream has begun */
	uint8_t order;                   /* bit i: the job of launch i */
	uint8_t writes[STREAMS][WRITES]; /* of the GPU, the oldest first; --queues 1: one queue */
	uint8_t thread;
	uint8_t job;       /* the current one of the thread */
	uint8_t buffer[2]; /* of the thread, the oldest first */
	uint8_t steps;     /* of this execution */
	uint8_t ended;     /* executions */
	uint8_t is_broken;
};

static struct {
	unsigned launches, resets, passes, releases, late, frees, stuck;
	unsigned jobs, streams, queues, is_ordered;
} options;

static uint8_t write_of(unsigned job, enum word word, unsigned value)
{
	return (uint8_t)(1 + 2 * (WORDS * job + (unsigned)word) + value);
}

static void land(struct state *s, uint8_t *writes, unsigned index, unsigned room)
{
	s->words[(writes[index] - 1) / 2] = (writes[index] - 1) % 2;
	for (; index + 1 < room; index++)
		writes[index] = writes[index + 1];
	writes[room - 1] = 0;
}

static uint8_t *queue_of(struct state *s, unsigned stream)
{
	return s->writes[options.queues == 1 ? 0 : stream];
}

static bool is_full(struct state *s, unsigned stream)
{
	return queue_of(s, stream)[WRITES - 1];
}

static void stream_write(struct state *s, unsigned stream, enum word word, unsigned value)
{
	uint8_t *writes = queue_of(s, stream);
	unsigned i;

	for (i = 0; writes[i]; i++)
		;
	writes[i] = write_of(s->streams[stream].job, word, value);
}

/* Launches of an object are ordered, by a stream or by events. */
static bool stream_may_begin(const struct state *s)
{
	unsigned i;

	for (i = 0; i < options.streams && options.is_ordered; i++)
		if (s->streams[i].at != BEGIN)
			return false;
	return s->launched < options.launches;
}

static void stream_begin(struct explore *e, const struct state *s, unsigned me)
{
	struct state next = *s;
	unsigned job;

	for (job = 0; job < options.jobs; job++) {
		next = *s;
		if (!stream_may_begin(s) || is_full(&next, me))
			return;
		next.streams[me] = (struct stream){AWAIT, (uint8_t)job};
		next.order = (uint8_t)(next.order | job << next.launched);
		next.launched++;
		stream_write(&next, me, BEGUN, 1);
		explore_to(e, &next, "a stream begins", next.launched, NULL);
	}
}

static void stream_step(struct explore *e, const struct state *s, unsigned me)
{
	struct state next = *s;
	unsigned done = s->streams[me].job * WORDS + DONE;
	uint8_t *writes = queue_of(&next, me);

	if (writes[0] && (options.queues > 1 || me == 0)) {
		unsigned what = writes[0];

		land(&next, writes, 0, WRITES);
		explore_to(e, &next, "  a write of the GPU lands:", what, NULL);
		next = *s;
	}
	switch (s->streams[me].at) {
	case BEGIN:
		stream_begin(e, s, me);
		return;
	case AWAIT:
		/* A read of the GPU does not pass its writes. */
		if ((writes[0] && !options.passes) || !s->words[done])
			return;
		next.streams[me].at = RESET;
		next.passed++;
		explore_to(e, &next, "the stream goes on behind", next.passed,
			   s->ended < next.passed ? "the stream goes on before the job is over"
						  : NULL);
		return;
	case RESET:
		if (is_full(&next, me))
			return;
		if (options.resets)
			stream_write(&next, me, DONE, 0);
		next.streams[me].at = BEGIN;
		explore_to(e, &next, "the stream resets", s->passed, NULL);
		return;
	}
}

static void thread_write(struct state *s, enum word word, unsigned value)
{
	s->buffer[s->buffer[0] ? 1 : 0] = write_of(s->job, word, value);
}

static void thread_land(struct explore *e, const struct state *s)
{
	unsigned i;

	for (i = 0; i < (options.releases ? 1u : 2u); i++) {
		struct state next = *s;

		if (!s->buffer[i])
			continue;
		land(&next, next.buffer, i, 2);
		explore_to(e, &next, "  a write of the thread lands:", s->buffer[i], NULL);
	}
}

static const char *look_complaint(const struct state *s, unsigned job)
{
	if (s->ended == s->launched)
		return "an execution that was not launched";
	return (s->order >> s->ended & 1) != job ? "executions of an object change places" : NULL;
}

/* The thread looks only while its buffer is empty, so it sees its own writes. */
static void thread_poll(struct explore *e, const struct state *s)
{
	struct state next;
	unsigned job;

	for (job = 0; job < options.jobs && !s->buffer[0]; job++) {
		if (!s->words[job * WORDS + BEGUN])
			continue;
		next = *s;
		next.thread = TAKE;
		next.job = (uint8_t)job;
		explore_to(e, &next, "the thread sees a begin, having ended", s->ended,
			   look_complaint(s, job));
	}
}

static void thread_step(struct explore *e, const struct state *s)
{
	struct state next = *s;

	thread_land(e, s);
	switch (s->thread) {
	case LOOK:
		thread_poll(e, s);
		return;
	case TAKE:
		if (!options.late)
			thread_write(&next, BEGUN, 0);
		next.thread = RUN;
		next.steps = 0;
		explore_to(e, &next, "the thread takes", s->ended + 1u, NULL);
		return;
	case RUN:
		if (s->is_broken && !options.frees)
			return;
		next.steps = 1;
		if (s->is_broken || (!options.stuck && s->steps))
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
		if (options.late) {
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

	if (process >= STREAM) {
		stream_step(e, s, process - STREAM);
		return;
	}
	if (process == THREAD) {
		thread_step(e, s);
		return;
	}
	if (s->is_broken)
		return;
	next.is_broken = 1;
	explore_to(e, &next, "the communicator breaks, executions ended:", s->ended, NULL);
}

static const char *model_end(const void *state)
{
	const struct state *s = state;
	unsigned i;

	for (i = 0; i < options.streams; i++)
		if (s->passed < options.launches || s->streams[i].at != BEGIN)
			return "the stream waits for ever";
	for (i = 0; i < JOBS * WORDS; i++)
		if (s->words[i])
			return "a word is left behind";
	return NULL;
}

int stream_model(int argc, char **argv)
{
	struct model model = {sizeof(struct state), PROCESSES, model_step, model_end};
	struct state start;
	char title[80];

	options.launches = model_option(argc, argv, "--launches", 4);
	options.resets = model_option(argc, argv, "--resets", 1);
	options.passes = model_option(argc, argv, "--passes", 0);
	options.releases = model_option(argc, argv, "--releases", 1);
	options.late = model_option(argc, argv, "--late", 0);
	options.frees = model_option(argc, argv, "--frees", 1);
	options.stuck = model_option(argc, argv, "--stuck", 0);
	options.jobs = model_option(argc, argv, "--jobs", 1);
	options.streams = model_option(argc, argv, "--streams", 1);
	options.queues = model_option(argc, argv, "--queues", 1);
	options.is_ordered = model_option(argc, argv, "--ordered", 1);
	model.processes = STREAM + options.streams;
	memset(&start, 0, sizeof(start));
	snprintf(title, sizeof(title), "stream, %u launches", options.launches);
	return explore_run(&model, &start, title) ? 0 : 1;
}
