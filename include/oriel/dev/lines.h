/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes of messages in lines, oriel/dev/ll.h and oriel/dev/ll128.h: the longest message, and
 * the bytes that one takes at its target. The host calls it to lay out windows, kernels to find
 * messages in them.
 */
#ifndef ORIEL_DEV_LINES_H
#define ORIEL_DEV_LINES_H

#include <oriel/dev/types.h>

/* The longest message of oriel_dev_put_ll() and oriel_dev_put_ll128(), in bytes. */
#define ORIEL_LL_MAX (1u << 30)

/* Bytes of a line; a target begins at a multiple of it. */
#define ORIEL_LL_LINE 16u
#define ORIEL_LL128_LINE 128u

/* Any thread, and the host: bytes that an LL message of @length bytes takes at its target. */
ORIEL_DEV uint64_t oriel_dev_ll_length(uint64_t length)
{
	return (length + 7) / 8 * ORIEL_LL_LINE;
}

/* Any thread, and the host: the same for an LL128 message; a line has 112 bytes of it. */
ORIEL_DEV uint64_t oriel_dev_ll128_length(uint64_t length)
{
	return (length + 111) / 112 * ORIEL_LL128_LINE;
}

#endif
