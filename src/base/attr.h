/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attribute structs of callers that may know more or fewer fields than this library. Every
 * public create function that has an attr calls ori_attr_read(), every query the other two, and
 * every call that fills a handle for device functions ori_device_check().
 */
#ifndef ORI_BASE_ATTR_H
#define ORI_BASE_ATTR_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

/*
 * Zero @attr, of @length bytes, and copy @caller into it; the first field of @caller is its
 * size_t size. A NULL @caller means all defaults. ORIEL_ERR_INVALID, with @noun in the text, if
 * @caller sets a field beyond @length, or has a size that was not set.
 */
enum oriel_status ori_attr_read(const char *noun, const void *caller, void *attr, size_t length);

/*
 * ORIEL_ERR_INVALID unless @value is 0, that of @field of an attribute struct,
 * "oriel_coll_attr.reserved": a later version may give it a meaning, which a program then asks for.
 */
enum oriel_status ori_attr_check_reserved(const char *field, uint32_t value);

/*
 * May a query write to @caller, whose first field is its size_t size? ORIEL_ERR_INVALID, with
 * @noun in the text, for NULL and for a size that was not set.
 */
enum oriel_status ori_info_check(const char *noun, const void *caller);
/* After that check: copies all but the size of @info, of @length bytes, as far as @caller goes. */
void ori_info_write(void *caller, const void *info, size_t length);

/*
 * May @call write a handle for device functions, of @known bytes here, to @device? The program was
 * compiled for handles of @version, of @size bytes. ORIEL_ERR_INVALID for NULL,
 * ORIEL_ERR_VERSION for handles that this library does not make.
 */
enum oriel_status ori_device_check(const char *call, const void *device, uint32_t version,
				   size_t size, size_t known);

#endif
