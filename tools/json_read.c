/* SPDX-License-Identifier: Apache-2.0 */
/* Implements tools/json_read.h. Each skip function returns the end of what it skips, or NULL. */
#include "json_read.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_DEPTH_MAX 32

static const char *skip_value(const char *at, unsigned depth);

static const char *skip_space(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

static const char *skip_string(const char *at)
{
	if (*at++ != '"')
		return NULL;
	for (; *at != '"'; at++) {
		if (*at == '\\')
			at++;
		if (*at == '\0')
			return NULL;
	}
	return at + 1;
}

/* A number, true, false or null: the reader of a value checks it. */
static const char *skip_word(const char *at)
{
	size_t length = strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");

	return length ? at + length : NULL;
}

/* The name of a member, and the colon behind it. */
static const char *skip_name(const char *at)
{
	at = skip_string(at);
	if (!at)
		return NULL;
	at = skip_space(at);
	return *at == ':' ? skip_space(at + 1) : NULL;
}

/* An object or array; @close is its bracket. */
static const char *skip_list(const char *at, char close, unsigned depth)
{
	if (depth == JSON_DEPTH_MAX)
		return NULL;
	at = skip_space(at + 1);
	if (*at == close)
		return at + 1;
	for (;;) {
		if (close == '}')
			at = skip_name(at);
		if (at)
			at = skip_value(at, depth + 1);
		if (!at)
			return NULL;
		at = skip_space(at);
		if (*at == close)
			return at + 1;
		if (*at != ',')
			return NULL;
		at = skip_space(at + 1);
	}
}

static const char *skip_value(const char *at, unsigned depth)
{
	switch (*at) {
	case '"':
		return skip_string(at);
	case '{':
		return skip_list(at, '}', depth);
	case '[':
		return skip_list(at, ']', depth);
	}
	return skip_word(at);
}

bool json_is_object(const char *object)
{
	const char *at = skip_space(object);

	if (*at != '{')
		return false;
	at = skip_value(at, 0);
	return at && *skip_space(at) == '\0';
}

/* The position at which the value of @key begins; NULL without that member. */
static const char *object_find(const char *object, const char *key)
{
	const char *at = skip_space(skip_space(object) + 1), *value;
	size_t length = strlen(key);

	while (*at == '"') {
		value = skip_name(at);
		assert(value); /* json_is_object() */
		if (strncmp(at + 1, key, length) == 0 && at[length + 1] == '"')
			return value;
		at = skip_value(value, 0);
		assert(at);
		at = skip_space(at);
		at = skip_space(at + (*at == ','));
	}
	return NULL;
}

bool json_find_text(const char *object, const char *key, char *text, size_t room)
{
	const char *at = object_find(object, key);
	size_t used = 0;

	if (!at || *at != '"')
		return false;
	for (at++; *at != '"'; at++) {
		char byte = *at;

		if (byte == '\\') {
			byte = *++at;
			if (byte != '"' && byte != '\\' && byte != '/')
				byte = '?';
		}
		if (used + 1 < room)
			text[used++] = byte;
	}
	text[used] = '\0';
	return true;
}

static bool read_number(const char **at, double *value)
{
	char *end;
	double read;

	if (**at != '-' && (**at < '0' || **at > '9'))
		return false;
	read = strtod(*at, &end);
	if (end != skip_word(*at))
		return false;
	*value = read;
	*at = end;
	return true;
}

bool json_find_number(const char *object, const char *key, double *value)
{
	const char *at = object_find(object, key);

	return at && read_number(&at, value);
}

bool json_find_bool(const char *object, const char *key, bool *value)
{
	const char *at = object_find(object, key);

	if (!at || (strncmp(at, "true", 4) != 0 && strncmp(at, "false", 5) != 0))
		return false;
	*value = *at == 't';
	return true;
}

bool json_find_numbers(const char *object, const char *key, double *values, size_t most,
		       size_t *count)
{
	const char *at = object_find(object, key);
	size_t found = 0;
	double value;

	if (!at || *at != '[')
		return false;
	for (at = skip_space(at + 1); *at != ']'; at = skip_space(at + (*at == ','))) {
		if (!read_number(&at, &value))
			return false;
		if (found < most)
			values[found++] = value;
		at = skip_space(at);
	}
	*count = found;
	return true;
}
