/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of queues after each request, as text: the bytes that an HCA has
 * read and written, for a test that checks them again without an HCA. One
 * record a line:
 *   trace 1 DEVICE ROUTE            first; the device of the trace
 *   queue NAME QPN CQN DEPTH        a queue pair begins with WQE 0
 *   wqe NAME INDEX HEX              64 bytes of the ring
 *   bell NAME END RECORD DOORBELL   values of the record and the register
 *   cqe NAME INDEX HEX              64 bytes of the ring of completions
 *
 * NAMEs have no spaces, numbers are decimal but for QPN, CQN and bytes.
 */
#ifndef HW_TRACE_H
#define HW_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Check the file @name: 0, or the number of wrong lines, each reported on stderr. */
int hw_trace_check(const char *name);

#endif
