/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a call with the step that expects it, and finds steps that make no sense. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "p2p_calls/p2p_calls_script.h"

/* A field of a struct that steps, or attributes, have. */
struct call_field {
	const char *name;
	size_t at, length;
	unsigned has; /* of a step: its bit */
};

#define STEP(field, bit)                                                 \
	{                                                                \
#field, offsetof(struct oriel_p2p_call, field),          \
			sizeof(((struct oriel_p2p_call *)0)->field), bit \
	}
#define FIELD(type, field)                                                                 \
	{                                                                                  \
#field, offsetof(struct type, field), sizeof(((struct type *)0)->field), 0 \
	}
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* In the order of enum call_object_kind, and of enum call_value. */
static const struct call_field object_fields[] = {
	STEP(ctx, CALL_HAS_OBJECT(CALL_CTX)),
	STEP(p2p, CALL_HAS_OBJECT(CALL_P2P)),
	STEP(memory, CALL_HAS_OBJECT(CALL_MEMORY)),
	STEP(group, CALL_HAS_OBJECT(CALL_GROUP)),
};
static const struct call_field value_fields[] = {
	STEP(channel, CALL_HAS_VALUE(CALL_CHANNEL)), STEP(slot, CALL_HAS_VALUE(CALL_SLOT)),
	STEP(round, CALL_HAS_VALUE(CALL_ROUND)),     STEP(tag, CALL_HAS_VALUE(CALL_TAG)),
	STEP(offset, CALL_HAS_VALUE(CALL_OFFSET)),   STEP(length, CALL_HAS_VALUE(CALL_LENGTH)),
	STEP(flags, CALL_HAS_VALUE(CALL_FLAGS)),     STEP(timeout_ns, CALL_HAS_VALUE(CALL_TIMEOUT)),
	STEP(peer, CALL_HAS_VALUE(CALL_PEER)),
};
static const struct call_field other_fields[] = {
	STEP(request, CALL_HAS_REQUEST),
	STEP(address, CALL_HAS_ADDRESS),
	STEP(data, CALL_HAS_DATA),
	STEP(attr, CALL_HAS_ATTR),
	STEP(context_attr, CALL_HAS_CONTEXT_ATTR),
	STEP(group_attr, CALL_HAS_GROUP_ATTR),
	STEP(remote, CALL_HAS_REMOTE),
	STEP(info, CALL_HAS_INFO),
	STEP(device, CALL_HAS_DEVICE),
	STEP(status, CALL_HAS_STATUS),
};

static const struct call_field attr_fields[] = {
	FIELD(oriel_p2p_attr, mode),        FIELD(oriel_p2p_attr, channels),
	FIELD(oriel_p2p_attr, depth),       FIELD(oriel_p2p_attr, hooks),
	FIELD(oriel_p2p_attr, context),     FIELD(oriel_p2p_attr, queues),
	FIELD(oriel_p2p_attr, paths),       FIELD(oriel_p2p_attr, transport_data),
	FIELD(oriel_p2p_attr, chunk_slots), FIELD(oriel_p2p_attr, reserved1),
	FIELD(oriel_p2p_attr, reserved2),
};
static const struct call_field context_fields[] = {
	FIELD(oriel_p2p_context_attr, chunk),     FIELD(oriel_p2p_context_attr, slots),
	FIELD(oriel_p2p_context_attr, paths),     FIELD(oriel_p2p_context_attr, timeout_ns),
	FIELD(oriel_p2p_context_attr, flags),     FIELD(oriel_p2p_context_attr, reserved),
	FIELD(oriel_p2p_context_attr, transport), FIELD(oriel_p2p_context_attr, transport_context),
};
static const struct call_field group_fields[] = {
	FIELD(oriel_p2p_copy_group_attr, workers),
	FIELD(oriel_p2p_copy_group_attr, depth),
	FIELD(oriel_p2p_copy_group_attr, timeout_ns),
};
static const struct call_field remote_fields[] = {
	FIELD(oriel_p2p_remote, address),
	FIELD(oriel_p2p_remote, length),
	FIELD(oriel_p2p_remote, keys),
	FIELD(oriel_p2p_remote, piece),
};

static_assert(COUNT(object_fields) == CALL_OBJECT_KINDS, "a field for each kind of object");
static_assert(COUNT(value_fields) == CALL_VALUES, "a field for each value");

/* The number in @length bytes, at most 8. */
static unsigned long long number_at(const char *at, size_t length)
{
	unsigned long long number = 0;

	memcpy(&number, at, length < sizeof(number) ? length : sizeof(number));
	return number;
}

static unsigned object_number(const struct oriel_p2p_call *step, unsigned kind)
{
	return (unsigned)number_at((const char *)step + object_fields[kind].at, sizeof(unsigned));
}

static uint64_t value_of(const struct oriel_p2p_call *step, unsigned value)
{
	return number_at((const char *)step + value_fields[value].at, sizeof(uint64_t));
}

static bool objects_differ(const struct oriel_p2p_call *step, const struct call *call,
			   const struct call_kind *is, char text[CALL_TEXT])
{
	for (unsigned kind = 0; kind < CALL_OBJECT_KINDS; kind++) {
		unsigned number = object_number(step, kind);
		const void *expected = ori_p2p_calls_object(kind, number);
		bool is_made = (is->effect == CALL_CREATES || is->effect == CALL_FINDS) &&
			       is->object == kind;
		char came[48], name[48];

		if (!number || is_made || call->objects[kind] == expected)
			continue;
		ori_p2p_calls_name(kind, call->objects[kind], came, sizeof(came));
		ori_p2p_calls_name(kind, expected, name, sizeof(name));
		snprintf(text, CALL_TEXT, "%s is %s, not %s", object_fields[kind].name, came, name);
		return true;
	}
	return false;
}

static bool values_differ(const struct oriel_p2p_call *step, const struct call *call,
			  const struct call_kind *is, char text[CALL_TEXT])
{
	bool is_answer = is->effect == CALL_ASKS; /* its length is that of the answer */

	for (unsigned i = 0; i < CALL_VALUES; i++) {
		uint64_t expected = value_of(step, i);

		if (!(is->has & CALL_HAS_VALUE(i)) || expected == ORIEL_P2P_CALL_ANY ||
		    call->values[i] == expected || (i == CALL_LENGTH && is_answer))
			continue;
		snprintf(text, CALL_TEXT, "%s is %llu, not %llu", value_fields[i].name,
			 (unsigned long long)call->values[i], (unsigned long long)expected);
		return true;
	}
	return false;
}

static bool bytes_differ(const struct oriel_p2p_call *step, const struct call *call,
			 char text[CALL_TEXT])
{
	const unsigned char *expected = step->data, *came = call->data;

	if (step->address && step->address != call->address) {
		snprintf(text, CALL_TEXT, "address is %p, not %p", call->address, step->address);
		return true;
	}
	for (uint64_t i = 0; expected && came && i < step->length; i++) {
		if (came[i] == expected[i])
			continue;
		snprintf(text, CALL_TEXT, "byte %llu of %llu is 0x%02x, not 0x%02x",
			 (unsigned long long)i, (unsigned long long)step->length, came[i],
			 expected[i]);
		return true;
	}
	return false;
}

/* Structs that begin with their size, as the one who made them knew it: what lies beyond is 0. */
static bool fields_differ(const char *what, const void *expected, const void *came,
			  const struct call_field *fields, size_t count, bool is_sized,
			  char text[CALL_TEXT])
{
	size_t sizes[2] = {SIZE_MAX, SIZE_MAX};

	if (!expected)
		return false;
	if (is_sized)
		memcpy(&sizes[0], expected, sizeof(sizes[0]));
	if (is_sized && came)
		memcpy(&sizes[1], came, sizeof(sizes[1]));
	for (size_t i = 0; i < count; i++) {
		const struct call_field *f = &fields[i];
		char bytes[2][sizeof(((struct oriel_p2p_remote *)0)->keys)] = {{0}};

		if (f->at + f->length <= sizes[0])
			memcpy(bytes[0], (const char *)expected + f->at, f->length);
		if (came && f->at + f->length <= sizes[1])
			memcpy(bytes[1], (const char *)came + f->at, f->length);
		if (memcmp(bytes[0], bytes[1], f->length) == 0)
			continue;
		snprintf(text, CALL_TEXT, "%s.%s is %llu, not %llu", what, f->name,
			 number_at(bytes[1], f->length), number_at(bytes[0], f->length));
		return true;
	}
	return false;
}

static bool structs_differ(const struct oriel_p2p_call *step, const struct call *call,
			   const struct call_kind *is, char text[CALL_TEXT])
{
	return fields_differ("attr", step->attr, call->attr, attr_fields, COUNT(attr_fields), true,
			     text) ||
	       fields_differ("attr", step->context_attr, call->attr, context_fields,
			     COUNT(context_fields), true, text) ||
	       fields_differ("attr", step->group_attr, call->attr, group_fields,
			     COUNT(group_fields), true, text) ||
	       (is->effect == CALL_BEGINS &&
		fields_differ("remote", step->remote, call->remote, remote_fields,
			      COUNT(remote_fields), false, text));
}

bool ori_p2p_calls_differ(const struct oriel_p2p_call *step, const struct call *call,
			  char text[CALL_TEXT])
{
	const struct call_kind *is = ori_p2p_call_kind(step->call);

	if (step->call != call->kind) {
		snprintf(text, CALL_TEXT, "%s() was called", ori_p2p_call_kind(call->kind)->name);
		return true;
	}
	if (objects_differ(step, call, is, text) || values_differ(step, call, is, text) ||
	    bytes_differ(step, call, text) || structs_differ(step, call, is, text))
		return true;
	if (is->effect == CALL_BEGINS || !step->request ||
	    ori_p2p_calls_request_is(call->request, step->request))
		return false;
	snprintf(text, CALL_TEXT, "that is not request %u", step->request);
	return true;
}

/* Does the step set a field that its call does not have? */
static const char *field_too_many(const struct oriel_p2p_call *step, unsigned has,
				  const struct call_field *fields, size_t count)
{
	static const char zeros[sizeof(uint64_t)];

	for (size_t i = 0; i < count; i++)
		if (!(has & fields[i].has) &&
		    memcmp((const char *)step + fields[i].at, zeros, fields[i].length) != 0)
			return fields[i].name;
	return NULL;
}

static bool has_number(unsigned number)
{
	return number && number <= ORIEL_P2P_CALL_OBJECTS;
}

/* Numbers that are none, and those that a step needs and does not have. */
static bool numbers_are_wrong(const struct oriel_p2p_call *step, const struct call_kind *is,
			      char text[CALL_TEXT])
{
	bool is_made = is->effect == CALL_CREATES || is->effect == CALL_FINDS;
	bool is_end = step->call == ORIEL_P2P_CALL_REQUEST_DONE;

	for (unsigned kind = 0; kind < CALL_OBJECT_KINDS; kind++) {
		unsigned number = object_number(step, kind);

		if (!number || has_number(number) ||
		    (number == ORIEL_P2P_CALL_NONE && kind == CALL_MEMORY && !is_made))
			continue;
		snprintf(text, CALL_TEXT, "%s %u is not in 1 to %u", object_fields[kind].name,
			 number, ORIEL_P2P_CALL_OBJECTS);
		return true;
	}
	if (is_made && step->status == ORIEL_OK && !has_number(object_number(step, is->object))) {
		snprintf(text, CALL_TEXT, "%s needs the number of what it creates",
			 object_fields[is->object].name);
		return true;
	}
	if (is_end && (!step->request || step->request == ORIEL_P2P_CALL_NONE)) {
		snprintf(text, CALL_TEXT, "request needs the number of the one that ends");
		return true;
	}
	return false;
}

bool ori_p2p_calls_refuse(const struct oriel_p2p_call *step, char text[CALL_TEXT])
{
	const struct call_kind *is = ori_p2p_call_kind(step->call);
	const char *name;

	if (!is) {
		snprintf(text, CALL_TEXT, "%d is no call", (int)step->call);
		return true;
	}
	name = field_too_many(step, is->has, object_fields, COUNT(object_fields));
	if (!name)
		name = field_too_many(step, is->has, value_fields, COUNT(value_fields));
	if (!name)
		name = field_too_many(step, is->has, other_fields, COUNT(other_fields));
	if (name) {
		snprintf(text, CALL_TEXT, "%s has no %s", is->name, name);
		return true;
	}
	if (step->data && is->has & CALL_HAS_VALUE(CALL_LENGTH) &&
	    step->length == ORIEL_P2P_CALL_ANY && step->call != ORIEL_P2P_CALL_EXPORT) {
		snprintf(text, CALL_TEXT, "%s has data of no length", is->name);
		return true;
	}
	if (step->call == ORIEL_P2P_CALL_REQUEST_DONE &&
	    (step->times || step->status == ORIEL_AGAIN)) {
		snprintf(text, CALL_TEXT, "%s has a final status, and happens once", is->name);
		return true;
	}
	return numbers_are_wrong(step, is, text);
}
