/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds members of one JSON object in text, without a tree in memory. `oriel perf` reads the lines
 * of its own --json with it; members that it does not ask for may hold any value.
 */
#ifndef ORIEL_JSON_READ_H
#define ORIEL_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>

/* Is @object one object in full, with nothing but white space around it? */
bool json_is_object(const char *object);

/*
 * The member @key of @object, which json_is_object(). False if it is missing or has another type;
 * the outputs are unchanged then. A text that does not fit into @room is cut off. Escapes other
 * than of one byte become '?'.
 */
bool json_find_text(const char *object, const char *key, char *text, size_t room);
bool json_find_number(const char *object, const char *key, double *value);
bool json_find_bool(const char *object, const char *key, bool *value);
/* An array of numbers; those beyond @most are left out. */
bool json_find_numbers(const char *object, const char *key, double *values, size_t most,
		       size_t *count);

#endif
