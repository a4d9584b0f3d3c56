/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time and deadlines, in nanoseconds. */
#ifndef ORI_BASE_CLOCK_H
#define ORI_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t ori_clock_ns(void);

/* Now plus @timeout_ns; ORIEL_FOREVER stays ORIEL_FOREVER. */
uint64_t ori_deadline(uint64_t timeout_ns);
bool ori_deadline_passed(uint64_t deadline);

/* What poll() takes: ms until @deadline, rounded up, at most 1000; 0 if passed. */
int ori_deadline_poll_ms(uint64_t deadline);

#endif
