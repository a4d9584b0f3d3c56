/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of yield.c, beside a thread that computes on the only CPU that both may use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/yield.h"

#define SHORTEST_NS 100000u
#define LIMIT_NS 20000000000u

/* struct sched_attr of sched_setattr(2). */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static atomic_bool is_ending;

static uint64_t slice(void)
{
	struct attr attr = {.size = sizeof(attr)};

	assert_int_equal(syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0), 0);
	return attr.runtime;
}

static void *compute(void *context)
{
	while (!atomic_load(&is_ending))
		;
	return context;
}

/* A thread that yields until its slice is the shortest, or @limit_ns; returns its slice. */
struct yielding {
	cpu_set_t cpu;
	int policy;
	uint64_t limit_ns;
	uint64_t slice;
};

static void *yield(void *context)
{
	const struct sched_param none = {0};
	struct yielding *y = context;
	uint64_t deadline = ori_deadline(y->limit_ns);

	if (sched_setaffinity(0, sizeof(y->cpu), &y->cpu) ||
	    sched_setscheduler(0, y->policy, &none))
		return NULL;
	while (slice() != SHORTEST_NS && !ori_deadline_passed(deadline))
		ori_yield();
	y->slice = slice();
	return y;
}

/* @yielding beside a thread that computes on the same CPU. */
static void compete(struct yielding *yielding)
{
	pthread_t other, thread;
	cpu_set_t all;
	void *ended;
	int cpu;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	for (cpu = 0; !CPU_ISSET(cpu, &all); cpu++)
		;
	CPU_ZERO(&yielding->cpu);
	CPU_SET(cpu, &yielding->cpu);
	atomic_store(&is_ending, false);
	assert_int_equal(sched_setaffinity(0, sizeof(yielding->cpu), &yielding->cpu), 0);
	assert_int_equal(pthread_create(&other, NULL, compute, NULL), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	assert_int_equal(pthread_create(&thread, NULL, yield, yielding), 0);
	pthread_join(thread, &ended);
	atomic_store(&is_ending, true);
	pthread_join(other, NULL);
	assert_non_null(ended);
}

static void test_a_thread_that_competes_has_short_slices(void **state)
{
	struct yielding y = {.policy = SCHED_OTHER, .limit_ns = LIMIT_NS};

	(void)state;
	if (!slice()) {
		print_message("skipped: this kernel has no slices (Linux before 6.12)\n");
		skip();
	}
	compete(&y);
	assert_int_equal(y.slice, SHORTEST_NS);
}

/* A thread of another policy is left alone. */
static void test_a_policy_of_the_program_stays(void **state)
{
	struct yielding y = {.policy = SCHED_BATCH, .limit_ns = LIMIT_NS / 20};

	(void)state;
	compete(&y);
	assert_int_not_equal(y.slice, SHORTEST_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thread_that_competes_has_short_slices),
		cmocka_unit_test(test_a_policy_of_the_program_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
