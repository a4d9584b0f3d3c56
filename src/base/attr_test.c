/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of attr.c: attribute structs of callers that are older or newer than the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"

struct small {
	size_t size;
	uint64_t first;
};

struct large {
	size_t size;
	uint64_t first;
	uint64_t second;
};

static void test_a_null_attr_is_all_defaults(void **state)
{
	struct small attr = {7, 7};

	(void)state;
	assert_int_equal(ori_attr_read("attr", NULL, &attr, sizeof(attr)), ORIEL_OK);
	assert_int_equal(attr.size, 0);
	assert_int_equal(attr.first, 0);
}

static void test_an_older_caller_gets_defaults_for_the_rest(void **state)
{
	struct small caller = {sizeof(caller), 3};
	struct large attr;

	(void)state;
	assert_int_equal(ori_attr_read("attr", &caller, &attr, sizeof(attr)), ORIEL_OK);
	assert_int_equal(attr.first, 3);
	assert_int_equal(attr.second, 0);
}

static void test_a_newer_caller_may_only_pass_zeros_beyond(void **state)
{
	struct large caller = {sizeof(caller), 3, 0};
	struct small attr;

	(void)state;
	assert_int_equal(ori_attr_read("attr", &caller, &attr, sizeof(attr)), ORIEL_OK);
	assert_int_equal(attr.first, 3);
	caller.second = 1;
	assert_int_equal(ori_attr_read("attr", &caller, &attr, sizeof(attr)), ORIEL_ERR_INVALID);
	assert_string_equal(oriel_last_error(), "attr has a field that this library does not know");
}

static void test_a_size_below_the_first_field_is_rejected(void **state)
{
	struct small caller = {0, 3}, attr;

	(void)state;
	assert_int_equal(ori_attr_read("attr", &caller, &attr, sizeof(attr)), ORIEL_ERR_INVALID);
	assert_string_equal(oriel_last_error(), "attr.size is 0: set it to sizeof(struct attr)");
}

/* Memory that was not zeroed may hold an address there. */
static void test_a_size_that_no_struct_has_is_rejected(void **state)
{
	struct small caller = {(size_t)&caller, 3}, attr;
	char text[160];

	(void)state;
	assert_int_equal(ori_attr_read("attr", &caller, &attr, sizeof(attr)), ORIEL_ERR_INVALID);
	snprintf(text, sizeof(text),
		 "attr.size is %zu: it was probably never set; set it to sizeof(struct attr)",
		 caller.size);
	assert_string_equal(oriel_last_error(), text);
	caller.size = 65537;
	assert_int_equal(ori_attr_read("attr", &caller, &attr, sizeof(attr)), ORIEL_ERR_INVALID);
}

static void test_an_older_caller_gets_the_fields_that_it_knows(void **state)
{
	const struct large info = {77, 3, 4};
	struct large caller = {sizeof(struct small), 0, 5};

	(void)state;
	assert_int_equal(ori_info_check("info", &caller), ORIEL_OK);
	ori_info_write(&caller, &info, sizeof(info));
	assert_int_equal(caller.size, sizeof(struct small));
	assert_int_equal(caller.first, 3);
	assert_int_equal(caller.second, 5);
}

static void test_a_newer_caller_gets_zeros_beyond(void **state)
{
	const struct small info = {77, 3};
	struct large caller = {sizeof(caller), 0, 5};

	(void)state;
	ori_info_write(&caller, &info, sizeof(info));
	assert_int_equal(caller.size, sizeof(caller));
	assert_int_equal(caller.first, 3);
	assert_int_equal(caller.second, 0);
}

static void test_a_size_that_was_not_set_is_rejected(void **state)
{
	struct small caller = {0, 3};

	(void)state;
	assert_int_equal(ori_info_check("info", &caller), ORIEL_ERR_INVALID);
	assert_non_null(
		strstr(oriel_last_error(), "info.size is 0: set it to sizeof(struct info)"));
	assert_int_equal(ori_info_check("info", NULL), ORIEL_ERR_INVALID);
	caller.size = (size_t)&caller;
	assert_int_equal(ori_info_check("info", &caller), ORIEL_ERR_INVALID);
	assert_int_equal(caller.first, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_null_attr_is_all_defaults),
		cmocka_unit_test(test_an_older_caller_gets_defaults_for_the_rest),
		cmocka_unit_test(test_a_newer_caller_may_only_pass_zeros_beyond),
		cmocka_unit_test(test_a_size_below_the_first_field_is_rejected),
		cmocka_unit_test(test_a_size_that_no_struct_has_is_rejected),
		cmocka_unit_test(test_an_older_caller_gets_the_fields_that_it_knows),
		cmocka_unit_test(test_a_newer_caller_gets_zeros_beyond),
		cmocka_unit_test(test_a_size_that_was_not_set_is_rejected),
	};

	return cmocka_run_group_tests_name("attr", tests, NULL, NULL);
}
