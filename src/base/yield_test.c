/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of yield.c in a time of their own: the linker gives it the clock and the calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <time.h>

#include "base/yield.h"

#define US 1000u
#define MS 1000000u

static uint64_t now, yield_ns;
static unsigned yields, pauses;

uint64_t __wrap_ori_clock_ns(void);
int __wrap_sched_yield(void);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);

uint64_t __wrap_ori_clock_ns(void)
{
	return now;
}

int __wrap_sched_yield(void)
{
	yields++;
	now += yield_ns;
	return 0;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
	(void)rest;
	assert_int_equal(pause->tv_sec, 0);
	assert_in_range(pause->tv_nsec, 1, MS);
	pauses++;
	now += (uint64_t)pause->tv_nsec;
	return 0;
}

static void expect(unsigned yield_calls, unsigned pause_calls)
{
	assert_int_equal(yields, yield_calls);
	assert_int_equal(pauses, pause_calls);
}

/* A test begins long after the pauses of the one before it. */
static int later(void **state)
{
	(void)state;
	now += 1000 * MS;
	yields = pauses = 0;
	return 0;
}

static void test_short_yields_stay_yields(void **state)
{
	(void)state;
	yield_ns = 2500 * US;
	while (yields < 1000)
		ori_yield();
	expect(1000, 0);
}

/* Ends the pauses that began now, which last that long; more or less by one pause. */
static void expect_pauses(uint64_t length)
{
	uint64_t begin = now;
	unsigned yields_before = yields;

	yield_ns = 0;
	while (yields == yields_before)
		ori_yield();
	assert_in_range(now - begin, length, length + MS);
	assert_in_range(pauses, length / MS, length / (10 * US));
	pauses = 0;
}

static void yield_for(uint64_t length)
{
	yield_ns = length;
	ori_yield();
}

static void test_a_thread_sleeps_as_long_as_a_long_yield_took(void **state)
{
	(void)state;
	yield_for(2500 * US + 1);
	expect_pauses(2500 * US + 1);
	now += 20 * MS;
	yield_for(30 * MS);
	expect_pauses(30 * MS);
	now += 20 * MS;
	yield_for(300 * MS);
	expect_pauses(200 * MS);
	/* The next one looks again whether others compete. */
	ori_yield();
	assert_int_equal(pauses, 0);
}

static void test_and_longer_if_the_next_yields_are_long_too(void **state)
{
	static const unsigned expected[] = {3, 6, 12, 24, 48, 96, 192, 200, 200};
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		yield_for(3 * MS);
		expect_pauses((uint64_t)expected[i] * MS);
		now += 18 * MS;
	}
	now += 20 * MS;
	yield_for(3 * MS);
	expect_pauses(3 * MS);
}

static void *yield_once(void *argument)
{
	ori_yield();
	return argument;
}

static void test_another_thread_finds_out_by_itself(void **state)
{
	pthread_t thread;

	(void)state;
	yield_ns = 3 * MS;
	ori_yield();
	assert_int_equal(pthread_create(&thread, NULL, yield_once, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	expect(2, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_short_yields_stay_yields, later),
		cmocka_unit_test_setup(test_a_thread_sleeps_as_long_as_a_long_yield_took, later),
		cmocka_unit_test_setup(test_and_longer_if_the_next_yields_are_long_too, later),
		cmocka_unit_test_setup(test_another_thread_finds_out_by_itself, later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
