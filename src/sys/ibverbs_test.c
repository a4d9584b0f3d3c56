/* SPDX-License-Identifier: Apache-2.0 */
/* The table of libibverbs calls: complete, or an error that names the library. */
#include "sys/ibverbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* Passes with the machine's library and without one. */
static void test_the_table_is_complete_or_the_error_names_the_library(void **state)
{
	enum oriel_status status = ori_ibverbs_open();

	(void)state;
	assert_true(ori_ibverbs_is_built());
	if (status != ORIEL_OK) {
		assert_int_equal(status, ORIEL_ERR_UNSUPPORTED);
		assert_non_null(strstr(oriel_last_error(), "libibverbs"));
		return;
	}
#define TEST_PRESENT(member, symbol, version) assert_non_null(ori_ibverbs.member);
	ORI_IBVERBS_CALLS(TEST_PRESENT)
#undef TEST_PRESENT
	assert_string_equal(ori_ibverbs.wc_status_str(IBV_WC_SUCCESS), "success");
}

static void test_the_answer_stays(void **state)
{
	enum oriel_status status = ori_ibverbs_open();

	(void)state;
	assert_int_equal(ori_ibverbs_open(), status);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_table_is_complete_or_the_error_names_the_library),
		cmocka_unit_test(test_the_answer_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
