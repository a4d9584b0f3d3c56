/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON: names, numbers, escapes and commas. The tools' --json output calls it. */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

/*
 * Length of the UTF-8 sequence at @at; 0 if it is invalid: truncated, overlong, a surrogate, or
 * past U+10FFFF. The NUL at the end is no continuation byte.
 */
static size_t utf8_length(const unsigned char *at)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t point;
	size_t length;
	size_t i;

	if (*at < 0x80)
		return 1;
	if (*at < 0xc2 || *at > 0xf4)
		return 0;
	length = *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
	point = *at & (0x7fu >> length);
	for (i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (at[i] & 0x3fu);
	}
	if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 0;
	return length;
}

static void json_string(FILE *to, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	size_t length;

	fputc('"', to);
	while (*at) {
		length = utf8_length(at);
		if (length == 0)
			fputs("\\ufffd", to);
		else if (*at == '"' || *at == '\\')
			fprintf(to, "\\%c", *at);
		else if (*at < 0x20)
			fprintf(to, "\\u%04x", *at);
		else
			fwrite(at, 1, length, to);
		at += length ? length : 1;
	}
	fputc('"', to);
}

static void json_key(struct json *json, const char *key)
{
	if (json->needs_comma)
		fputc(',', json->to);
	json->needs_comma = true;
	if (!key)
		return;
	json_string(json->to, key);
	fputc(':', json->to);
}

static void json_open(struct json *json, const char *key, char bracket)
{
	json_key(json, key);
	fputc(bracket, json->to);
	json->needs_comma = false;
}

static void json_close(struct json *json, char bracket)
{
	fputc(bracket, json->to);
	json->needs_comma = true;
}

void json_open_object(struct json *json, const char *key)
{
	json_open(json, key, '{');
}

void json_close_object(struct json *json)
{
	json_close(json, '}');
}

void json_open_array(struct json *json, const char *key)
{
	json_open(json, key, '[');
}

void json_close_array(struct json *json)
{
	json_close(json, ']');
}

void json_text(struct json *json, const char *key, const char *value)
{
	json_key(json, key);
	json_string(json->to, value);
}

void json_unsigned(struct json *json, const char *key, uint64_t value)
{
	json_key(json, key);
	fprintf(json->to, "%" PRIu64, value);
}

void json_number(struct json *json, const char *key, double value)
{
	json_key(json, key);
	if (isfinite(value))
		fprintf(json->to, "%.9g", value);
	else
		fputs("null", json->to);
}

void json_bool(struct json *json, const char *key, bool value)
{
	json_key(json, key);
	fputs(value ? "true" : "false", json->to);
}
