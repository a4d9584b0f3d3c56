/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads attribute structs of callers that were built with an older or a newer header. Every
 * public create function that has an attr calls it, and every call that fills a handle for
 * device functions.
 */
#include "base/attr.h"

#include <string.h>

#include <oriel/dev/types.h>

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
		return ori_fail(ORIEL_ERR_INVALID, "%s.size is %zu: set it to sizeof(struct %s)",
				noun, size, noun);
	if (size > ATTR_MOST)
		return ori_fail(ORIEL_ERR_INVALID,
				"%s.size is %zu: it was probably never set; set it to "
				"sizeof(struct %s)",
				noun, size, noun);
	/* A field that is ignored would silently change what the caller asks for. */
	for (i = length; i < size; i++)
		if (bytes[i])
			return ori_fail(ORIEL_ERR_INVALID,
					"%s has a field that this library does not know", noun);
	memcpy(attr, caller, size < length ? size : length);
	return ORIEL_OK;
}

enum oriel_status ori_attr_check_reserved(const char *field, uint32_t value)
{
	if (!value)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_INVALID,
			"%s is %u, but it has no meaning in this version: set it to 0", field,
			value);
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

enum oriel_status ori_device_check(const char *call, const void *device, uint32_t version,
				   size_t size, size_t known)
{
	if (!device)
		return ori_fail(ORIEL_ERR_INVALID, "%s: device is NULL", call);
	if (version == ORIEL_DEV_VERSION && size == known)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_VERSION,
			"%s: the program was compiled for handles of version %u (%zu bytes), this "
			"library makes those of version %u (%zu bytes): compile it again with the "
			"headers of this library",
			call, version, size, ORIEL_DEV_VERSION, known);
}
