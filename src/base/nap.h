/* SPDX-License-Identifier: Apache-2.0 */
/* The sleeper's half of oriel_cpu_wake_thread(). */
#ifndef ORI_BASE_NAP_H
#define ORI_BASE_NAP_H

#include <stdint.h>

/* Sleep @ns at most, and not at all unless *@asleep is 1: whoever sets it to 0 wakes. */
void ori_nap(uint32_t *asleep, uint64_t ns);

#endif
