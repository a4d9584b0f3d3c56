/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The yields of waits that poll, also beside threads that do not yield. Every module that polls
 * calls it; cpu.c does for device functions.
 */
#include "base/yield.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

#define YIELD_LONG_NS 2500000u /* more than a turn of threads that yield, less than two slices */
#define YIELD_PAUSE_NS 50000   /* and the timer slack of Linux, 50 us, too */
#define YIELD_SOON_NS 20000000u
#define YIELD_PAUSES_MAX_NS 200000000u

/* How long this thread pauses: until then, and for how long in all. */
struct pauses {
	uint64_t until, length;
};

/*
 * A host that takes the CPU away makes a yield long as well, and nothing is gained by pauses then.
 * So the first pauses cost no more than the yield did; a thread that computes beside this one makes
 * the next yields long too.
 */
static void pauses_begin(struct pauses *pauses, uint64_t begin, uint64_t end)
{
	bool again = begin - pauses->until < YIELD_SOON_NS;
	uint64_t length = again ? 2 * pauses->length : end - begin;

	pauses->length = length < YIELD_PAUSES_MAX_NS ? length : YIELD_PAUSES_MAX_NS;
	pauses->until = end + pauses->length;
}

/*
 * A thread that yields forfeits a slice and comes behind all that have not used up theirs:
 * Documentation/scheduler/sched-eevdf.rst, yield_task_fair() of kernel/sched/fair.c. A thread that
 * sleeps forfeits nothing, and what it would have burned goes to those that it waits for.
 */
void ori_yield(void)
{
	static const struct timespec pause = {0, YIELD_PAUSE_NS};
	static _Thread_local struct pauses pauses;
	uint64_t begin = ori_clock_ns(), end;

	if (begin < pauses.until) {
		nanosleep(&pause, NULL);
		return;
	}
	sched_yield();
	end = ori_clock_ns();
	if (end - begin > YIELD_LONG_NS)
		pauses_begin(&pauses, begin, end);
}
