/* SPDX-License-Identifier: Apache-2.0 */
/* Attribute structs of callers that may know more or fewer fields than we. */
#ifndef ORI_BASE_ATTR_H
#define ORI_BASE_ATTR_H

#include <stddef.h>

#include <oriel/status.h>

/*
 * Copy @caller, whose first field is its size_t size, into @attr of @length
 * bytes, zeroed first; NULL is all defaults. ORIEL_ERR_INVALID names @noun if a
 * field beyond @length is set.
 */
enum oriel_status ori_attr_read(const char *noun, const void *caller, void *attr, size_t length);

#endif
