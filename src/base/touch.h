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

#endif
