/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The script of a process: from step to step, one call after the other, and what happens where a
 * call is not the one that comes next. p2p_calls.c calls it, and the test its public functions.
 */
#include "p2p_calls/p2p_calls_script.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below, and the objects */

static struct oriel_p2p_calls_attr script;
static bool is_running, has_failed;
static unsigned next;  /* step */
static unsigned calls; /* that step @next has had */

/*
 * Unlocks. The report is made without the lock, since it may leave by longjmp(). Once a script has
 * failed, its callers report no more: what follows, follows from it.
 */
static enum oriel_status script_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static enum oriel_status script_fail(const char *format, ...)
{
	void (*fail)(void *context, const char *text) = script.fail;
	void *context = script.context;
	char text[2 * CALL_TEXT];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	has_failed = true;
	pthread_mutex_unlock(&lock);
	if (fail) {
		fail(context, text);
	} else {
		fprintf(stderr, "%s\n", text);
		abort();
	}
	return ORIEL_ERR_STATE;
}

static void script_clear(void)
{
	script = (struct oriel_p2p_calls_attr){0};
	is_running = has_failed = false;
	next = calls = 0;
	ori_p2p_calls_objects_clear();
}

static const char *step_name(unsigned index)
{
	return ori_p2p_call_kind(script.steps[index].call)->name;
}

static unsigned step_times(unsigned index)
{
	return script.steps[index].times ? script.steps[index].times : 1;
}

/* The index of the first step that makes no sense, with the reason; @count: none. */
static unsigned script_check(const struct oriel_p2p_calls_attr *attr, char text[CALL_TEXT])
{
	for (unsigned i = 0; i < attr->count; i++) {
		if (ori_p2p_calls_refuse(&attr->steps[i], text))
			return i;
		if (attr->steps[i].call != ORIEL_P2P_CALL_REQUEST_DONE)
			continue;
		if (i == 0 || attr->steps[i - 1].times == ORIEL_P2P_CALL_EVERY) {
			snprintf(text, CALL_TEXT, "a request ends with a call that comes: %s",
				 i ? "the one before may not" : "there is none before");
			return i;
		}
	}
	return attr->count;
}

enum oriel_status oriel_p2p_calls_begin(const struct oriel_p2p_calls_attr *attr)
{
	struct oriel_p2p_calls_attr known = {0};
	char text[CALL_TEXT];
	unsigned wrong;

	pthread_mutex_lock(&lock);
	/* One that has failed may have left its test by longjmp(). */
	if (is_running && !has_failed)
		return script_fail("oriel_p2p_calls_begin(): the script before has not ended");
	if (attr)
		memcpy(&known, attr, attr->size < sizeof(known) ? attr->size : sizeof(known));
	script_clear();
	script = known;
	if (known.size < sizeof(known.size) || (known.count && !known.steps))
		return script_fail("oriel_p2p_calls_begin(): the attributes have no %s",
				   known.size < sizeof(known.size) ? "size" : "steps");
	if (known.reserved)
		return script_fail("oriel_p2p_calls_begin(): oriel_p2p_calls_attr.reserved is %u, "
				   "but it has no meaning in this version: set it to 0",
				   known.reserved);
	wrong = script_check(&known, text);
	if (wrong < known.count)
		return script_fail("oriel_p2p_calls_begin(): step %u of %u: %s", wrong + 1,
				   known.count, text);
	is_running = true;
	pthread_mutex_unlock(&lock);
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_calls_end(void)
{
	enum oriel_status status = ORIEL_OK;

	pthread_mutex_lock(&lock);
	while (is_running && next < script.count &&
	       script.steps[next].times == ORIEL_P2P_CALL_EVERY)
		next++;
	if (!is_running && !has_failed)
		return script_fail("oriel_p2p_calls_end(): no script runs");
	if (!has_failed && next < script.count) {
		is_running = false;
		status = script_fail("step %u of %u, %s(), was called %u times, not %u", next + 1,
				     script.count, step_name(next), calls, step_times(next));
		pthread_mutex_lock(&lock);
	}
	if (has_failed)
		status = ORIEL_ERR_STATE;
	script_clear();
	pthread_mutex_unlock(&lock);
	return status;
}

/* The effect of a call beyond its answer. */
static bool script_effect(const struct call *call, const struct oriel_p2p_call *step,
			  char text[CALL_TEXT])
{
	const struct call_kind *is = ori_p2p_call_kind(step->call);
	const unsigned numbers[] = {step->ctx, step->p2p, step->memory, step->group};

	switch (is->effect) {
	case CALL_ONLY_ANSWERS:
		return true;
	case CALL_CREATES:
	case CALL_FINDS:
		return step->status != ORIEL_OK ||
		       ori_p2p_calls_create(is->object, numbers[is->object],
					    call->objects[CALL_CTX], is->effect, text);
	case CALL_DESTROYS:
		return ori_p2p_calls_destroy(is->object, call->objects[is->object], text);
	case CALL_BEGINS:
		return ori_p2p_calls_begin_request(call, step, text);
	case CALL_ASKS:
		return ori_p2p_calls_ask(call, step, text);
	case CALL_CANCELS:
		return ori_p2p_calls_cancel(call, step, text);
	}
	return true;
}

/* The step that expects @call; steps that need not come are left for it. */
static bool script_find(const struct call *call, char text[CALL_TEXT])
{
	while (ori_p2p_calls_differ(&script.steps[next], call, text)) {
		if (step_times(next) != ORIEL_P2P_CALL_EVERY || next + 1 == script.count)
			return false;
		next++;
		calls = 0;
	}
	return true;
}

/* The step has had a call: once it has had all, requests end, and the next step comes. */
static bool script_advance(char text[CALL_TEXT])
{
	if (step_times(next) == ORIEL_P2P_CALL_EVERY || ++calls < step_times(next))
		return true;
	calls = 0;
	for (next++; next < script.count; next++) {
		if (script.steps[next].call != ORIEL_P2P_CALL_REQUEST_DONE)
			break;
		if (!ori_p2p_calls_end_request(&script.steps[next], text))
			return false;
	}
	return true;
}

const struct oriel_p2p_call *ori_p2p_calls_take(const struct call *call)
{
	const char *name = ori_p2p_call_kind(call->kind)->name;
	const struct oriel_p2p_call *step;
	char text[CALL_TEXT];

	pthread_mutex_lock(&lock);
	if (has_failed) {
		pthread_mutex_unlock(&lock);
		return NULL;
	}
	if (!is_running) {
		script_fail("%s() was called while no script runs", name);
		return NULL;
	}
	if (!ori_p2p_calls_check_objects(call, text)) {
		script_fail("%s() %s", name, text);
		return NULL;
	}
	if (next == script.count) {
		script_fail("%s() was called after the last of %u steps", name, script.count);
		return NULL;
	}
	if (!script_find(call, text)) {
		script_fail("step %u of %u is %s(), but %s", next + 1, script.count,
			    step_name(next), text);
		return NULL;
	}
	step = &script.steps[next];
	if (!script_effect(call, step, text) || !script_advance(text)) {
		script_fail("step %u of %u: %s() %s", next + 1, script.count, step_name(next),
			    text);
		return NULL;
	}
	pthread_mutex_unlock(&lock);
	return step;
}

/* An object that the program gets from outside. */
static void *script_object(enum call_object_kind kind, unsigned number)
{
	char text[CALL_TEXT];
	void *object;
	bool is_there;

	pthread_mutex_lock(&lock);
	object = is_running ? ori_p2p_calls_object(kind, number) : NULL;
	is_there = object && ori_p2p_calls_create(kind, number, NULL, CALL_ONLY_ANSWERS, text);
	pthread_mutex_unlock(&lock);
	return is_there ? object : NULL;
}

struct oriel_p2p_context *oriel_p2p_calls_context(unsigned number)
{
	return script_object(CALL_CTX, number);
}

struct oriel_p2p *oriel_p2p_calls_endpoint(unsigned number)
{
	return script_object(CALL_P2P, number);
}

struct oriel_p2p_memory *oriel_p2p_calls_memory(unsigned number)
{
	return script_object(CALL_MEMORY, number);
}
