/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from and to addresses that somebody else has named: false where nothing
 * is that may be read, or written, instead of a signal; also where a sandbox forbids
 * process_vm_readv(), then by a pipe, and false as well if there is none to be had.
 */
#ifndef ORI_BASE_TOUCH_H
#define ORI_BASE_TOUCH_H

#include <stdbool.h>
#include <stddef.h>

bool ori_touch_read(void *to, const void *from, size_t length);
bool ori_touch_write(void *to, const void *from, size_t length);

/*
 * May this process read all of it now? Every page is looked at. may_overwrite(): may it be
 * written? The bytes are lost, so that they are those of a target that is still to come.
 */
bool ori_touch_may_read(const void *at, size_t length);
bool ori_touch_may_overwrite(void *at, size_t length);

/*
 * The same at a price that does not depend on @length, and no byte changes: both ends and
 * every hole are found, but not a page in between that is mapped and may not be touched.
 */
bool ori_touch_looks_readable(const void *at, size_t length);
bool ori_touch_looks_writable(void *at, size_t length);

#endif
