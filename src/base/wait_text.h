/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of operations of device functions. src/comm and src/window call it for their texts.
 */
#ifndef ORI_BASE_WAIT_TEXT_H
#define ORI_BASE_WAIT_TEXT_H

#include <oriel/dev/types.h>

/* Names the operation @what, which may be no enum oriel_dev_what. */
const char *ori_what_name(uint32_t what);

/* The thing that the field id of a fault numbers: "signal", "barrier slot"; "id" if none. */
const char *ori_what_noun(uint32_t what);

/* "all-gather", of the number of its window; NULL: a window of the user's. */
const char *ori_collective_noun(uint32_t window);

#endif
