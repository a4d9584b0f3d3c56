/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system's part of oriel/dev/detail/cpu.h: clock, back-off and wake-up of device
 * functions that run on CPU threads. ori_sleep_until_woken() is for the threads of the library.
 */
#include <oriel/dev/detail/order.h>

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/help.h"
#include "base/sleep.h"
#include "base/wait_page.h"
#include "base/yield.h"

/* A short wait yields only: a sleep costs the timer slack of Linux, 50 us, at least. */
#define CPU_YIELD_NS 4000000u
#define CPU_SLEEP_MAX_NS 2000000u

static atomic_int cpu_event = -1; /* see ori_nap_wake_by() */

uint64_t oriel_cpu_clock_ns(void)
{
	return ori_clock_ns();
}

/* A sleep is 1/32 of the time waited so far, so that it adds 3 % to a long wait at most. */
void oriel_cpu_back_off(uint64_t waited_ns)
{
	struct timespec pause = {0, 0};

	ori_help();
	if (waited_ns < CPU_YIELD_NS) {
		ori_yield();
		return;
	}
	pause.tv_nsec =
		waited_ns / 32 < CPU_SLEEP_MAX_NS ? (long)(waited_ns / 32) : CPU_SLEEP_MAX_NS;
	ori_wait_show();
	nanosleep(&pause, NULL);
	ori_wait_hide();
}

void oriel_cpu_help(void)
{
	ori_help();
}

void ori_sleep_until_woken(uint32_t *asleep, uint64_t ns)
{
	struct timespec timeout = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	(void)syscall(SYS_futex, asleep, FUTEX_WAIT_PRIVATE, 1, &timeout, NULL, 0);
}

void ori_nap_wake_by(int event)
{
	atomic_store_explicit(&cpu_event, event, memory_order_relaxed);
}

/* The word is of the doorbell page that the caller has rung, so the software HCA runs. */
void oriel_cpu_wake(uint32_t *asleep)
{
	const uint64_t once = 1;

	if (ori_dev_exchange_acquire32(asleep, 0))
		(void)!write(atomic_load_explicit(&cpu_event, memory_order_relaxed), &once,
			     sizeof(once));
}

void oriel_cpu_wake_thread(uint32_t *asleep)
{
	if (ori_dev_exchange_acquire32(asleep, 0))
		(void)syscall(SYS_futex, asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
