/* SPDX-License-Identifier: Apache-2.0 */
/* What oriel/dev/order.h needs of the operating system. */
#include <oriel/dev/order.h>

#include <sched.h>
#include <time.h>

#include "base/clock.h"

#define CPU_YIELD_NS 4000000u
#define CPU_NAP_MAX_NS 2000000u

uint64_t oriel_cpu_clock_ns(void)
{
	return ori_clock_ns();
}

void oriel_cpu_give_way(uint64_t waited_ns)
{
	struct timespec nap = {0, 0};

	if (waited_ns < CPU_YIELD_NS) {
		sched_yield();
		return;
	}
	nap.tv_nsec = waited_ns / 32 < CPU_NAP_MAX_NS ? (long)(waited_ns / 32) : CPU_NAP_MAX_NS;
	nanosleep(&nap, NULL);
}
