/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for texts about the health of a communicator, beside the public functions of oriel/comm.h
 * in the same file. health.c and exchange.c call it.
 */
#ifndef ORI_COMM_HEALTH_TEXT_H
#define ORI_COMM_HEALTH_TEXT_H

#include <stdbool.h>

#include <oriel/comm.h>

/* The public name of @call, an enum ori_call; "an unknown call" for other numbers. */
const char *ori_call_name(unsigned call);

#define ORI_SILENT_TEXT 96
/* Ends the text of a limit: @rank, which another one may have been waited for, stands still. */
void ori_silent_text(unsigned rank, uint64_t silent_ns, char *text, size_t length);

/*
 * Does @h say that a rank exited, or does not answer? Its heartbeat found that, or a queue to it
 * that got no answer.
 */
bool ori_health_is_exit(const struct oriel_health *h);

#endif
