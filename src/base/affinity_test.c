/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of affinity.c: CPU lists of the kernel, and a thread that stays on one NUMA node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/affinity.h"

static void test_kernel_cpu_lists_parse(void **state)
{
	static const char *const wrong[] = {"",    "\n", "a",   "1-",      "-1",
					    "3-2", "1,", "1 2", "99999999"};
	cpu_set_t cpus;
	size_t i;

	(void)state;
	assert_true(ori_affinity_parse("0-2,8,10-11\n", &cpus));
	assert_int_equal(CPU_COUNT(&cpus), 6);
	assert_true(CPU_ISSET(0, &cpus) && CPU_ISSET(2, &cpus) && CPU_ISSET(8, &cpus));
	assert_true(CPU_ISSET(10, &cpus) && CPU_ISSET(11, &cpus) && !CPU_ISSET(9, &cpus));
	assert_true(ori_affinity_parse("5", &cpus));
	assert_int_equal(CPU_COUNT(&cpus), 1);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(ori_affinity_parse(wrong[i], &cpus));
}

static void test_a_missing_numa_node_changes_nothing(void **state)
{
	cpu_set_t before, after;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_false(ori_affinity_bind(-1));
	assert_false(ori_affinity_bind(100000));
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&before, &after));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_cpu_lists_parse),
		cmocka_unit_test(test_a_missing_numa_node_changes_nothing),
	};

	return cmocka_run_group_tests_name("near", tests, NULL, NULL);
}
