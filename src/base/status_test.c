/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of status.c: names and texts of statuses, and the version. */
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_every_status_has_its_own_name_and_text(void **state)
{
	int a, b;

	(void)state;
	for (a = ORIEL_ERR_FORKED; a <= ORIEL_AGAIN; a++) {
		assert_int_equal(strncmp(oriel_status_name(a), "ORIEL_", 6), 0);
		assert_true(strlen(oriel_status_text(a)) > 0);
		for (b = ORIEL_ERR_FORKED; b < a; b++) {
			assert_string_not_equal(oriel_status_name(a), oriel_status_name(b));
			assert_string_not_equal(oriel_status_text(a), oriel_status_text(b));
		}
	}
	assert_string_equal(oriel_status_name(ORIEL_OK), "ORIEL_OK");
	assert_string_equal(oriel_status_name(ORIEL_ERR_FORKED), "ORIEL_ERR_FORKED");
}

static void test_a_number_that_is_no_status_is_unknown(void **state)
{
	(void)state;
	assert_string_equal(oriel_status_name(ORIEL_ERR_FORKED - 1), "unknown status");
	assert_string_equal(oriel_status_name(ORIEL_AGAIN + 1), "unknown status");
	assert_true(strlen(oriel_status_text(ORIEL_AGAIN + 1)) > 0);
}

static void test_a_failure_is_a_negative_status(void **state)
{
	int64_t number;

	(void)state;
	for (number = ORIEL_ERR_FORKED; number < ORIEL_OK; number++)
		assert_true(ori_status_is_failure(number));
	assert_false(ori_status_is_failure(ORIEL_OK));
	assert_false(ori_status_is_failure(ORIEL_AGAIN));
	assert_false(ori_status_is_failure(ORIEL_ERR_FORKED - 1));
	assert_false(ori_status_is_failure(-((int64_t)1 << 32) + ORIEL_ERR_PEER));
}

static void test_the_version_is_that_of_the_header(void **state)
{
	char version[64];

	(void)state;
	snprintf(version, sizeof(version), "%d.%d.%d (commit ", ORIEL_VERSION_MAJOR,
		 ORIEL_VERSION_MINOR, ORIEL_VERSION_PATCH);
	assert_int_equal(strncmp(oriel_version(), version, strlen(version)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_status_has_its_own_name_and_text),
		cmocka_unit_test(test_a_number_that_is_no_status_is_unknown),
		cmocka_unit_test(test_a_failure_is_a_negative_status),
		cmocka_unit_test(test_the_version_is_that_of_the_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
