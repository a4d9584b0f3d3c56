/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the parser of scenarios: values, units, defaults and errors. */
#include "hca/soft/soft_bench_test.h"
#include "hca/soft/soft_rand.h"
#include "hca/soft/soft_scenario.h"

static void test_defaults_do_no_harm(void **state)
{
	struct soft_scenario s;

	(void)state;
	assert_int_equal(ori_soft_scenario_parse(NULL, &s), ORIEL_OK);
	assert_int_equal(s.drop + s.dup + s.delay + s.stall + s.gather + s.relaxed + s.late_cqe, 0);
	assert_true(s.black_hole == SOFT_OFF && s.fail_wqe == SOFT_OFF && s.qp == SOFT_OFF);
	assert_int_equal(s.mtu, 4096);
	assert_int_equal(s.ack, 50000000);
}

static void test_values_are_read_with_their_units(void **state)
{
	struct soft_scenario s;

	(void)state;
	assert_int_equal(ori_soft_scenario_parse("seed=7,drop=0.25,delay=1.5us,ack=2s,tcp=1,dup=1",
						 &s),
			 ORIEL_OK);
	assert_int_equal(s.seed, 7);
	assert_true(s.drop == SOFT_CERTAIN / 4 && s.dup == SOFT_CERTAIN);
	assert_int_equal(s.delay, 1500);
	assert_int_equal(s.ack, 2000000000);
	assert_int_equal(s.tcp, 1);
}

static void test_a_parse_error_names_its_cause(void **state)
{
	static const char *const wrong[] = {
		"bogus=1",
		"drop=2",
		"drop=-1",
		"drop",
		"delay=5",
		"delay=5m",
		"mtu=1000",
		"retry=x",
		"reads=0",
		"tcp=2",
		"drop=0.1;",
		"=",
		"seed=99999999999999999999",
		"drop=0000000000000000000000000000000000000.1",
	};
	struct soft_scenario s;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(ori_soft_scenario_parse(wrong[i], &s), ORIEL_ERR_CONFIG);
		assert_non_null(strstr(oriel_last_error(), "oftware HCA"));
	}
	assert_int_equal(ori_soft_scenario_parse("seed=1,bogus=1", &s), ORIEL_ERR_CONFIG);
	assert_non_null(strstr(oriel_last_error(), "bogus"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_do_no_harm),
		cmocka_unit_test(test_values_are_read_with_their_units),
		cmocka_unit_test(test_a_parse_error_names_its_cause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
