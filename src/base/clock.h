/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monotonic time and deadlines, in nanoseconds. Every module that waits calls it; any thread.
 */
#ifndef ORI_BASE_CLOCK_H
#define ORI_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t ori_clock_ns(void);

/* The current time plus @timeout_ns; ORIEL_TIMEOUT_INFINITE stays ORIEL_TIMEOUT_INFINITE. */
uint64_t ori_deadline(uint64_t timeout_ns);
bool ori_deadline_passed(uint64_t deadline);

/* The timeout for poll(): ms until @deadline, rounded up, at most 1000; 0 if it passed. */
int ori_deadline_poll_ms(uint64_t deadline);

#endif
