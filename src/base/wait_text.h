/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of waits of device functions that take long or have passed their limit. error.c and
 * late.c call it for threads of the CPU; src/comm and src/window have the names of operations
 * from here.
 */
#ifndef ORI_BASE_WAIT_TEXT_H
#define ORI_BASE_WAIT_TEXT_H

#include <stddef.h>

#include <oriel/dev/types.h>

#define ORI_WAIT_TEXT 256

/* Names the operation @what, which may be no enum oriel_dev_what. */
const char *ori_what_name(uint32_t what);

/* The thing that the field id of a fault numbers: "signal", "barrier slot"; "id" if none. */
const char *ori_what_noun(uint32_t what);

/* "all-gather", of the number of its window; NULL: a window of the user's. */
const char *ori_collective_noun(uint32_t window);

/* ">=", of an enum oriel_compare. */
const char *ori_compare_sign(uint32_t compare);

/* The awaited event that is missing: "barrier: window 1: rank 2 did not arrive at barrier slot 0".
 */
void ori_wait_text(const struct oriel_dev_fault *record, uint32_t compare, char *text,
		   size_t length);

#endif
