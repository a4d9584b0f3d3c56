/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a GPU without a CUDA context: each failure names what is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sys/gpu.h"

/* No test makes a context current, so the claim holds on every machine. */
static void test_opening_without_a_context_names_what_is_missing(void **state)
{
	struct ori_gpu gpu = {0}, untouched = {0};
	enum oriel_status status = ori_gpu_open(&gpu);

	(void)state;
	assert_memory_equal(&gpu, &untouched, sizeof(gpu));
	if (status == ORIEL_ERR_STATE)
		assert_non_null(strstr(oriel_last_error(), "no CUDA context is current"));
	else if (strstr(oriel_last_error(), "cuda.h"))
		assert_string_equal(oriel_last_error(), "this library was built without cuda.h");
	else
		assert_non_null(strstr(oriel_last_error(), "CUDA driver"));
	assert_true(status == ORIEL_ERR_STATE || status == ORIEL_ERR_UNSUPPORTED);
}

static void test_the_reason_stays(void **state)
{
	struct ori_gpu gpu = {0};
	char first[512] = "";

	(void)state;
	assert_int_not_equal(ori_gpu_open(&gpu), ORIEL_OK);
	strncpy(first, oriel_last_error(), sizeof(first) - 1);
	assert_int_not_equal(ori_gpu_open(&gpu), ORIEL_OK);
	assert_string_equal(oriel_last_error(), first);
}

static void test_closing_a_closed_gpu_does_nothing(void **state)
{
	struct ori_gpu gpu = {0};

	(void)state;
	ori_gpu_close(&gpu);
	ori_gpu_close(&gpu);
	assert_null(gpu.ops);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opening_without_a_context_names_what_is_missing),
		cmocka_unit_test(test_the_reason_stays),
		cmocka_unit_test(test_closing_a_closed_gpu_does_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
