/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads attribute structs of callers that were built with an older or a newer header. Every
 * public create function that has an attr calls it.
 */
#include "base/attr.h"

#include <string.h>

#include "base/error.h"

#define ATTR_MOST 65536u /* bytes of a struct; a size beyond is one that was not set */

enum oriel_status ori_attr_read(const char *noun, const void *caller, void *attr, size_t length)
{
	const char *bytes = caller;
	size_t size, i;

	memset(attr, 0, length);
	if (!caller)
		return ORIEL_OK;
	memcpy(&size, caller, sizeof(size));
	if (size < sizeof(size))
		return ori_fail(ORIEL_ERR_INVALID, "%s.size is %zu", noun, size);
	/* A field that is ignored would silently change what the caller asks for. */
	for (i = length; i < size; i++)
		if (bytes[i])
			return ori_fail(ORIEL_ERR_INVALID,
					"%s has a field that this library does not know", noun);
	memcpy(attr, caller, size < length ? size : length);
	return ORIEL_OK;
}

enum oriel_status ori_info_check(const char *noun, const void *caller)
{
	size_t size;

	if (!caller)
		return ori_fail(ORIEL_ERR_INVALID, "the struct %s to write to is NULL", noun);
	memcpy(&size, caller, sizeof(size));
	if (size <= sizeof(size) || size > ATTR_MOST)
		return ori_fail(ORIEL_ERR_INVALID,
				"%s.size is %zu: set it to sizeof(struct %s) before the call", noun,
				size, noun);
	return ORIEL_OK;
}

void ori_info_write(void *caller, const void *info, size_t length)
{
	size_t size, known;

	memcpy(&size, caller, sizeof(size));
	known = size < length ? size : length;
	memcpy((char *)caller + sizeof(size), (const char *)info + sizeof(size),
	       known - sizeof(size));
	/* The library is older than its caller. */
	memset((char *)caller + known, 0, size - known);
}
