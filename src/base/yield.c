/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The yields of waits that poll, also beside threads that do not yield. Every module that polls
 * calls it; cpu.c does for device functions.
 */
#include "base/yield.h"

#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

#define YIELD_LONG_NS 2500000u /* more than a turn of threads that yield, less than two slices */
#define YIELD_PAUSE_NS 50000   /* and the timer slack of Linux, 50 us, too */
#define YIELD_PAUSE_FOR_NS 200000000u

/*
 * A thread that yields forfeits a slice and comes behind all that have not used up theirs:
 * Documentation/scheduler/sched-eevdf.rst, yield_task_fair() of kernel/sched/fair.c. A thread that
 * sleeps forfeits nothing, and what it would have burned goes to those that it waits for.
 */
void ori_yield(void)
{
	static const struct timespec pause = {0, YIELD_PAUSE_NS};
	static _Thread_local uint64_t pauses_until;
	uint64_t begin = ori_clock_ns(), end;

	if (begin < pauses_until) {
		nanosleep(&pause, NULL);
		return;
	}
	sched_yield();
	end = ori_clock_ns();
	if (end - begin > YIELD_LONG_NS)
		pauses_until = end + YIELD_PAUSE_FOR_NS;
}
