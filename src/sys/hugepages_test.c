/* SPDX-License-Identifier: Apache-2.0 */
/* Huge pages as the kernel reports them, on any machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sys/hugepages.h"

static void test_the_values_are_consistent_on_any_machine(void **state)
{
	struct ori_hugepages p;

	(void)state;
	ori_hugepages_read(&p);
	assert_true(p.hugetlb_free <= p.hugetlb_total);
	assert_true((p.hugetlb_size & (p.hugetlb_size - 1)) == 0);
	assert_true((p.thp_size & (p.thp_size - 1)) == 0);
	assert_true(strlen(p.shmem_mode) > 0);
	assert_null(strpbrk(p.shmem_mode, "[] \n"));
	if (strcmp(p.shmem_mode, "never") == 0 || strcmp(p.shmem_mode, "absent") == 0)
		assert_false(p.is_thp_usable);
	if (p.hugetlb_total > 0)
		assert_true(p.hugetlb_size > 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_values_are_consistent_on_any_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
