/* SPDX-License-Identifier: Apache-2.0 */
/* The table of libmlx5 calls: complete, or an error that names the library or the call. */
#include "sys/mlx5dv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* Passes with the machine's library and without one. */
static void test_the_table_is_complete_or_the_error_names_the_library(void **state)
{
	enum oriel_status status = ori_mlx5dv_open();

	(void)state;
	assert_true(ori_mlx5dv_is_built());
	if (status != ORIEL_OK) {
		assert_int_equal(status, ORIEL_ERR_UNSUPPORTED);
		assert_non_null(strstr(oriel_last_error(), "libmlx5"));
		return;
	}
#define TEST_PRESENT(member, symbol, version) assert_non_null(ori_mlx5dv.member);
	ORI_MLX5DV_CALLS(TEST_PRESENT)
	if (!ori_mlx5dv_missing_objects()) {
		ORI_MLX5DV_OBJECTS(TEST_PRESENT)
	}
	if (!ori_mlx5dv_missing_devx()) {
		ORI_MLX5DV_DEVX(TEST_PRESENT)
	}
#undef TEST_PRESENT
}

static void test_a_group_names_its_first_call_that_is_missing(void **state)
{
	struct ori_mlx5dv saved;

	(void)state;
	if (ori_mlx5dv_open() != ORIEL_OK || ori_mlx5dv_missing_devx() ||
	    ori_mlx5dv_missing_objects())
		skip();
	saved = ori_mlx5dv;
	ori_mlx5dv.query_eqn = NULL;
	ori_mlx5dv.obj_modify = NULL;
	ori_mlx5dv.create_qp = NULL;
	assert_string_equal(ori_mlx5dv_missing_devx(), "mlx5dv_devx_obj_modify of MLX5_1.7");
	assert_string_equal(ori_mlx5dv_missing_objects(), "mlx5dv_create_qp of MLX5_1.3");
	ori_mlx5dv = saved;
}

static void test_the_answer_stays(void **state)
{
	enum oriel_status status = ori_mlx5dv_open();

	(void)state;
	assert_int_equal(ori_mlx5dv_open(), status);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_table_is_complete_or_the_error_names_the_library),
		cmocka_unit_test(test_a_group_names_its_first_call_that_is_missing),
		cmocka_unit_test(test_the_answer_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
