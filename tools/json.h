/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON on one line, without a tree in memory. @key is the member's name, NULL inside an
 * array. Bytes that are not UTF-8 become U+FFFD. The tools' --json output uses it.
 */
#ifndef ORIEL_JSON_H
#define ORIEL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *to;
	bool needs_comma;
};

void json_open_object(struct json *json, const char *key);
void json_close_object(struct json *json);
void json_open_array(struct json *json, const char *key);
void json_close_array(struct json *json);

void json_text(struct json *json, const char *key, const char *value);
void json_unsigned(struct json *json, const char *key, uint64_t value);
void json_number(struct json *json, const char *key, double value); /* null if not finite */
void json_bool(struct json *json, const char *key, bool value);

#endif
