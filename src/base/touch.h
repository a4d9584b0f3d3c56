/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from and to addresses that somebody else has named: false where nothing
 * is that may be read, or written, instead of a signal. Where a sandbox has no such
 * calls they are plain copies.
 */
#ifndef ORI_BASE_TOUCH_H
#define ORI_BASE_TOUCH_H

#include <stdbool.h>
#include <stddef.h>

bool ori_touch_read(void *to, const void *from, size_t length);
bool ori_touch_write(void *to, const void *from, size_t length);

#endif
