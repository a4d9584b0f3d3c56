/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that a script hands out, by their numbers, and the requests that the program has
 * begun: what a program may do with them, whatever the script expects. p2p_calls_script.c calls it.
 */
#include "p2p_calls/p2p_calls_script.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct call_object {
	const void *ctx; /* that it was created in; NULL: none is known */
	bool is_live;
	bool has_owner; /* a communicator, which alone destroys it */
	bool was_destroyed;
};

struct call_request {
	struct oriel_p2p_request *at;
	const void *p2p, *memory;
	void *room; /* of a receive */
	size_t length;
	unsigned number; /* 0: none, or given to another request since */
	bool is_control;
	bool is_done;
};

/* Handles are the addresses of these: number 0 is none. */
static struct call_object objects[CALL_OBJECT_KINDS][ORIEL_P2P_CALL_OBJECTS + 1];

static struct call_request *requests;
static size_t request_count, request_room;

static const char *const nouns[] = {
	[CALL_CTX] = "context",
	[CALL_P2P] = "endpoint",
	[CALL_MEMORY] = "memory",
	[CALL_GROUP] = "copy group",
};

void ori_p2p_calls_objects_clear(void)
{
	memset(objects, 0, sizeof(objects));
	free(requests);
	requests = NULL;
	request_count = request_room = 0;
}

void *ori_p2p_calls_object(enum call_object_kind kind, unsigned number)
{
	return number && number <= ORIEL_P2P_CALL_OBJECTS ? &objects[kind][number] : NULL;
}

/* NULL for an address that no step has handed out. */
static struct call_object *object_of(enum call_object_kind kind, const void *handle)
{
	for (unsigned i = 1; i <= ORIEL_P2P_CALL_OBJECTS; i++)
		if (handle == &objects[kind][i])
			return &objects[kind][i];
	return NULL;
}

void ori_p2p_calls_name(enum call_object_kind kind, const void *handle, char *text, size_t room)
{
	const struct call_object *object = object_of(kind, handle);

	if (object)
		snprintf(text, room, "%s %u", nouns[kind], (unsigned)(object - objects[kind]));
	else
		snprintf(text, room, handle ? "no %s of the script" : "NULL", nouns[kind]);
}

/* Memory of buffers may be NULL. */
static bool object_is_needed(enum oriel_p2p_call_kind call, enum call_object_kind kind)
{
	const struct call_kind *is = ori_p2p_call_kind(call);
	bool is_made = is->effect == CALL_CREATES || is->effect == CALL_FINDS;

	return is->has & CALL_HAS_OBJECT(kind) && !(is_made && is->object == kind) &&
	       (kind != CALL_MEMORY || is->object == CALL_MEMORY);
}

bool ori_p2p_calls_check_objects(const struct call *call, char text[CALL_TEXT])
{
	for (unsigned kind = 0; kind < CALL_OBJECT_KINDS; kind++) {
		const void *handle = call->objects[kind];
		const struct call_object *object = object_of(kind, handle);
		char name[48];

		if (handle ? object && object->is_live : !object_is_needed(call->kind, kind))
			continue;
		ori_p2p_calls_name(kind, handle, name, sizeof(name));
		snprintf(text, CALL_TEXT, "was given %s%s", name,
			 !object                 ? ""
			 : object->was_destroyed ? ", which is destroyed"
						 : ", which is not created");
		return false;
	}
	return true;
}

bool ori_p2p_calls_create(enum call_object_kind kind, unsigned number, const void *ctx,
			  enum call_effect effect, char text[CALL_TEXT])
{
	struct call_object *object = ori_p2p_calls_object(kind, number);

	assert(object); /* scripts with other numbers do not begin */
	if (object->is_live && effect == CALL_CREATES) {
		snprintf(text, CALL_TEXT, "creates %s %u, which exists", nouns[kind], number);
		return false;
	}
	if (object->is_live)
		return true;
	*object = (struct call_object){.ctx = ctx,
				       .is_live = true,
				       .has_owner = effect == CALL_FINDS};
	return true;
}

/* Ends what is under way at an endpoint, and says for which request memory cannot be destroyed. */
static bool requests_are_left(enum call_object_kind kind, const void *handle, char text[CALL_TEXT])
{
	for (size_t i = 0; i < request_count; i++) {
		struct call_request *r = &requests[i];

		if (kind == CALL_P2P && r->p2p == handle && !r->is_done) {
			r->at->status = ORIEL_ERR_ABORTED;
			r->is_done = true;
		}
		if (kind == CALL_MEMORY && r->memory == handle && !r->is_done) {
			snprintf(text, CALL_TEXT, "ends memory %u, which a request uses",
				 (unsigned)(object_of(kind, handle) - objects[kind]));
			return false;
		}
	}
	return true;
}

static bool context_is_left(const void *ctx, char text[CALL_TEXT])
{
	for (unsigned kind = 0; kind < CALL_OBJECT_KINDS; kind++)
		for (unsigned i = 1; i <= ORIEL_P2P_CALL_OBJECTS; i++)
			if (objects[kind][i].is_live && objects[kind][i].ctx == ctx) {
				snprintf(text, CALL_TEXT,
					 "destroys the context of %s %u, which exists", nouns[kind],
					 i);
				return false;
			}
	return true;
}

bool ori_p2p_calls_destroy(enum call_object_kind kind, const void *handle, char text[CALL_TEXT])
{
	struct call_object *object = object_of(kind, handle);

	assert(object); /* it was checked with all objects of the call */
	if (object->has_owner) {
		snprintf(text, CALL_TEXT, "destroys the %s of a communicator", nouns[kind]);
		return false;
	}
	if (!requests_are_left(kind, handle, text) ||
	    (kind == CALL_CTX && !context_is_left(handle, text)))
		return false;
	object->is_live = false;
	object->was_destroyed = true;
	return true;
}

static struct call_request *request_at(const struct oriel_p2p_request *at)
{
	for (size_t i = 0; i < request_count; i++)
		if (requests[i].at == at)
			return &requests[i];
	return NULL;
}

static struct call_request *request_of(unsigned number)
{
	for (size_t i = 0; i < request_count; i++)
		if (requests[i].number == number)
			return &requests[i];
	return NULL;
}

bool ori_p2p_calls_request_is(const struct oriel_p2p_request *at, unsigned number)
{
	const struct call_request *r = at ? request_at(at) : NULL;

	return number == ORIEL_P2P_CALL_NONE ? !at : r && r->number == number;
}

static struct call_request *request_add(struct oriel_p2p_request *at)
{
	struct call_request *r = request_at(at), *more;

	if (r)
		return r;
	if (request_count == request_room) {
		size_t room = request_room ? 2 * request_room : 16;

		more = realloc(requests, room * sizeof(*more));
		if (!more)
			return NULL;
		requests = more;
		request_room = room;
	}
	r = &requests[request_count++];
	*r = (struct call_request){.at = at, .is_done = true};
	return r;
}

/* @number is free for another request, or 0. */
static bool request_name(unsigned number, char text[CALL_TEXT])
{
	struct call_request *before = number ? request_of(number) : NULL;

	if (before && !before->is_done) {
		snprintf(text, CALL_TEXT,
			 "begins request %u, but the request of that number is "
			 "under way",
			 number);
		return false;
	}
	if (before)
		before->number = 0;
	return true;
}

bool ori_p2p_calls_begin_request(const struct call *call, const struct oriel_p2p_call *step,
				 char text[CALL_TEXT])
{
	bool is_control = call->kind == ORIEL_P2P_CALL_SEND_CONTROL ||
			  call->kind == ORIEL_P2P_CALL_RECV_CONTROL;
	struct call_request *r = call->request ? request_at(call->request) : NULL;

	if (!call->request || (r && !r->is_done)) {
		snprintf(text, CALL_TEXT, "was given %s",
			 r ? "a request that is under way" : "no request");
		return false;
	}
	if (step->status != ORIEL_OK)
		return true;
	if (!request_name(step->request, text))
		return false;
	r = request_add(call->request);
	if (!r) {
		snprintf(text, CALL_TEXT, "finds no memory for a request");
		return false;
	}
	*r = (struct call_request){.at = call->request,
				   .p2p = call->objects[CALL_P2P],
				   .memory = call->objects[CALL_MEMORY],
				   .room = call->room,
				   .length = call->values[CALL_LENGTH],
				   .number = step->request,
				   .is_control = is_control};
	r->at->length = r->length;
	/* A transfer of no bytes is done at once. */
	r->is_done = !r->length && !is_control && call->kind != ORIEL_P2P_CALL_EXPECT;
	r->at->status = r->is_done ? ORIEL_OK : ORIEL_AGAIN;
	return true;
}

static bool request_end(struct call_request *r, const struct oriel_p2p_call *step,
			char text[CALL_TEXT])
{
	if (step->data && (!r->room || step->length > r->length)) {
		snprintf(text, CALL_TEXT, "has %llu bytes for a request with room for %zu",
			 (unsigned long long)step->length, r->room ? r->length : 0);
		return false;
	}
	if (step->data && step->length)
		memcpy(r->room, step->data, step->length);
	if (r->is_control && r->room && step->length != ORIEL_P2P_CALL_ANY)
		r->at->length = step->length;
	r->at->status = step->status;
	r->is_done = true;
	return true;
}

/* The request of this endpoint that a call is about. */
static struct call_request *request_asked(const struct call *call, char text[CALL_TEXT])
{
	struct call_request *r = call->request ? request_at(call->request) : NULL;

	if (r && r->p2p == call->objects[CALL_P2P])
		return r;
	snprintf(text, CALL_TEXT, "was given %s",
		 !call->request ? "no request"
		 : r            ? "a request of another endpoint"
				: "a request that was not begun");
	return NULL;
}

bool ori_p2p_calls_ask(const struct call *call, const struct oriel_p2p_call *step,
		       char text[CALL_TEXT])
{
	struct call_request *r = request_asked(call, text);
	bool is_final = step->status != ORIEL_AGAIN &&
			(call->kind == ORIEL_P2P_CALL_TEST || step->status != ORIEL_ERR_TIMEOUT);

	if (!r)
		return false;
	if (r->is_done && (step->data || r->at->status != step->status)) {
		snprintf(text, CALL_TEXT, "answers %s%s for a request that is done with %s",
			 oriel_status_name(step->status), step->data ? " with data" : "",
			 oriel_status_name(r->at->status));
		return false;
	}
	return r->is_done || !is_final || request_end(r, step, text);
}

bool ori_p2p_calls_cancel(const struct call *call, const struct oriel_p2p_call *step,
			  char text[CALL_TEXT])
{
	struct call_request *r = request_asked(call, text);

	if (!r)
		return false;
	if (r->is_done && step->status == ORIEL_OK) {
		snprintf(text, CALL_TEXT, "cancels a request that is done");
		return false;
	}
	if (step->status == ORIEL_OK) {
		r->at->status = ORIEL_ERR_ABORTED;
		r->is_done = true;
	}
	return true;
}

bool ori_p2p_calls_end_request(const struct oriel_p2p_call *step, char text[CALL_TEXT])
{
	struct call_request *r = request_of(step->request);

	if (!r || r->is_done) {
		snprintf(text, CALL_TEXT, "ends request %u, which is not under way", step->request);
		return false;
	}
	return request_end(r, step, text);
}
