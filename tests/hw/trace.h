/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What queues looked like after each request, as text: what an adapter has read and
 * written, byte for byte, for a test that reads it again without one. A line each:
 *
 *   trace 1 DEVICE ROUTE            first; what it was made on
 *   queue NAME QPN CQN DEPTH        a queue pair begins with WQE 0
 *   wqe NAME INDEX HEX              64 bytes of the ring
 *   bell NAME END RECORD DOORBELL   what the record and the register were told
 *   cqe NAME INDEX HEX              64 bytes of the ring of completions
 *
 * NAMEs have no spaces, numbers are decimal but for QPN, CQN and bytes.
 */
#ifndef HW_TRACE_H
#define HW_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Of the file @name: 0, or how many lines are wrong, each told on stderr. */
int hw_trace_check(const char *name);

#endif
