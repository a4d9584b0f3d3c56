/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The yields of waits that poll, also beside threads that do not yield. Every module that polls
 * calls it; cpu.c does for device functions.
 */
#include "base/yield.h"

#include <assert.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define YIELD_LONG_NS 500000u
#define YIELD_SLICE_NS 100000u /* Linux clamps it to 0.1 ms at least */

/* struct sched_attr of sched_setattr(2) in its first version; the C library may have none. */
struct yield_attr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime; /* of SCHED_OTHER: the slice, since Linux 6.12 (857b158dc5e8) */
	uint64_t deadline;
	uint64_t period;
};

static_assert(sizeof(struct yield_attr) == 48, "struct sched_attr, SCHED_ATTR_SIZE_VER0");

/*
 * A thread that yields is behind all that have not used up their slices, and a yield costs it one
 * of its own: Documentation/scheduler/sched-eevdf.rst, yield_task_fair() of kernel/sched/fair.c.
 * Two threads that wait for each other beside threads that compute take turns once in many slices.
 * A kernel that has no slices ignores the number, and one that refuses the call leaves all as it
 * is.
 */
static void yield_ask(void)
{
	struct yield_attr attr = {.size = sizeof(attr)};

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.policy != SCHED_OTHER)
		return;
	attr.runtime = YIELD_SLICE_NS;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

void ori_yield(void)
{
	static _Thread_local bool has_asked;
	uint64_t begin;

	if (has_asked) {
		sched_yield();
		return;
	}
	begin = ori_clock_ns();
	sched_yield();
	if (ori_clock_ns() - begin < YIELD_LONG_NS)
		return;
	has_asked = true;
	yield_ask();
}
