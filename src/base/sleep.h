/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sleeping side of oriel_cpu_wake_thread() and oriel_cpu_wake(). Threads of src/rdma and
 * src/progress call it while they are idle.
 */
#ifndef ORI_BASE_SLEEP_H
#define ORI_BASE_SLEEP_H

#include <stdint.h>

/*
 * Sleep @ns at most, and not at all unless *@asleep is 1. The thread that sets it to 0 wakes
 * this one.
 */
void ori_sleep_until_woken(uint32_t *asleep, uint64_t ns);

/*
 * The software HCA, which polls: from now on oriel_cpu_wake() writes to the descriptor @event,
 * an eventfd; -1: to none.
 */
void ori_nap_wake_by(int event);

#endif
