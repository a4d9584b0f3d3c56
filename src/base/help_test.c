/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of help.c: which helpers a waiting thread calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/help.h"

struct counted {
	struct ori_helper helper; /* first */
	unsigned calls, depth;
};

static void counted_help(struct ori_helper *helper)
{
	struct counted *c = (struct counted *)(void *)helper;

	assert_int_equal(c->depth, 0);
	c->depth++;
	c->calls++;
	/* A helper that waits calls ori_help() as well, which calls no helper then. */
	ori_help();
	c->depth--;
}

static void test_a_waiting_thread_calls_all_helpers(void **state)
{
	struct counted one = {.helper.help = counted_help}, two = one;

	(void)state;
	ori_help();
	ori_help_add(&one.helper);
	ori_help_add(&two.helper);
	ori_help();
	ori_help();
	assert_int_equal(one.calls, 2);
	assert_int_equal(two.calls, 2);
	ori_help_remove(&one.helper);
	ori_help();
	assert_int_equal(one.calls, 2);
	assert_int_equal(two.calls, 3);
	ori_help_remove(&two.helper);
	ori_help();
	assert_int_equal(two.calls, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_waiting_thread_calls_all_helpers),
	};

	return cmocka_run_group_tests_name("help", tests, NULL, NULL);
}
