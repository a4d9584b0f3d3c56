/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of config.c: values of settings, the errors about them, and the list of settings. */
#include "base/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int forget_all(void **state)
{
	struct oriel_setting setting = {.size = sizeof(setting)};
	unsigned i;

	(void)state;
	for (i = 0; oriel_setting_get(i, &setting) == ORIEL_OK; i++)
		unsetenv(setting.name);
	return 0;
}

static void test_an_empty_environment_is_fine_and_yields_defaults(void **state)
{
	uint64_t timeout_ns;
	unsigned mask;

	(void)state;
	assert_int_equal(oriel_settings_check(), ORIEL_OK);
	assert_int_equal(ori_setting_timeout(&timeout_ns), ORIEL_OK);
	assert_int_equal(timeout_ns, 600000000000u);
	assert_int_equal(ori_setting_paths(&mask), ORIEL_OK);
	assert_int_equal(mask, 1u << 2 | 1u << 3);
	assert_string_equal(ori_setting_text(ORI_SETTING_NODE), "");
}

static void test_good_values_parse(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} timeouts[] = {
		{"1", 1000000000u},
		{"0.5", 500000000u},
		{"infinite", ORIEL_TIMEOUT_INFINITE},
		{"2.000000001", 2000000001u},
		{"", 600000000000u},
	};
	uint64_t value;
	unsigned mask;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		setenv("ORIEL_TIMEOUT", timeouts[i].text, 1);
		assert_int_equal(oriel_settings_check(), ORIEL_OK);
		assert_int_equal(ori_setting_timeout(&value), ORIEL_OK);
		assert_int_equal(value, timeouts[i].ns);
	}
	setenv("ORIEL_PATHS", "rdma", 1);
	assert_int_equal(ori_setting_paths(&mask), ORIEL_OK);
	assert_int_equal(mask, 1u << 3);
	setenv("ORIEL_PORT", "65535", 1);
	assert_int_equal(ori_setting_unsigned(ORI_SETTING_PORT, 65535, &value), ORIEL_OK);
	assert_int_equal(value, 65535);
	setenv("ORIEL_JOB_KEY", "00ffABCDEF00112233445566778899aa", 1);
	assert_int_equal(oriel_settings_check(), ORIEL_OK);
}

static void test_a_bad_value_is_an_error_that_names_setting_and_value(void **state)
{
	static const char *const bad[][2] = {
		{"ORIEL_TIMEOUT", "soon"},
		{"ORIEL_TIMEOUT", "0"},
		{"ORIEL_TIMEOUT", "0.0"},
		{"ORIEL_TIMEOUT", "Infinite"},
		{"ORIEL_TIMEOUT", "-1"},
		{"ORIEL_TIMEOUT", "1."},
		{"ORIEL_TIMEOUT", ".5"},
		{"ORIEL_TIMEOUT", "1 s"},
		{"ORIEL_TIMEOUT", "1.0000000000"},
		{"ORIEL_TIMEOUT", "99999999999999999999"},
		{"ORIEL_NODE", "a b"},
		{"ORIEL_NODE", "0123456789012345678901234567890123456789012345678901234567890123"},
		{"ORIEL_PATHS", "mapped,tcp"},
		{"ORIEL_PATHS", "mapped,"},
		{"ORIEL_PATHS", "map"},
		{"ORIEL_LOG", "loud"},
		{"ORIEL_LOG_FILE", "/tmp/log.%r"},
		{"ORIEL_PORT", "0"},
		{"ORIEL_PORT", "65536"},
		{"ORIEL_PORT", "0x50"},
		{"ORIEL_LISTEN_FD", "-1"},
		{"ORIEL_LISTEN_FD", "2147483648"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv(bad[i][0], bad[i][1], 1);
		assert_int_equal(oriel_settings_check(), ORIEL_ERR_CONFIG);
		assert_non_null(strstr(oriel_last_error(), bad[i][0]));
		assert_non_null(strstr(oriel_last_error(), bad[i][1]));
		unsetenv(bad[i][0]);
		assert_int_equal(oriel_settings_check(), ORIEL_OK);
	}
}

static void test_an_error_about_a_value_lists_what_it_may_be(void **state)
{
	static const char *const expected[][2] = {
		{"ORIEL_LOG", "error, warn, info or debug"},
		{"ORIEL_CONNECT", "demand, eager or lazy"},
		{"ORIEL_FABRIC", "auto, off or require"},
		{"ORIEL_TIER", "auto, t0, t1, t2 or t3"},
		{"ORIEL_DEVX", "auto, on or off"},
		{"ORIEL_RAILS", "a number from 1 to 4"},
		{"ORIEL_ALLGATHER", "auto, ll, store, ce, direct, ring or bruck"},
		{"ORIEL_POST", "auto, rings or proxy"},
		{"ORIEL_NET_ORDER", "auto, ordered or relaxed"},
		{"ORIEL_PROXY_NEAR", "auto or off"},
		{"ORIEL_P2P_TCP", "auto, on or off"},
		{"ORIEL_MEET", "auto, unix or tcp"},
		{"ORIEL_PORT", "a port from 1 to 65535"},
		{"ORIEL_LISTEN_FD", "the number of a file descriptor"},
		{"ORIEL_IB_GID_INDEX", "a number from 0 to 255"},
		{"ORIEL_IB_SL", "a number from 0 to 15"},
		{"ORIEL_IB_TIMEOUT", "a number from 0 to 31"},
		{"ORIEL_IB_RETRY", "a number from 0 to 7"},
		{"ORIEL_IB_MTU", "256, 512, 1024, 2048 or 4096"},
	};
	char text[200];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		setenv(expected[i][0], "?", 1);
		assert_int_equal(oriel_settings_check(), ORIEL_ERR_CONFIG);
		snprintf(text, sizeof(text), "%s is '?', but it may be %s", expected[i][0],
			 expected[i][1]);
		assert_string_equal(oriel_last_error(), text);
		unsetenv(expected[i][0]);
	}
	setenv("ORIEL_RAILS", "0", 1);
	assert_int_equal(oriel_settings_check(), ORIEL_ERR_CONFIG);
	setenv("ORIEL_RAILS", "1", 1);
	assert_int_equal(oriel_settings_check(), ORIEL_OK);
}

static void test_a_typed_reader_rejects_a_bad_value(void **state)
{
	uint64_t value = 7;
	unsigned mask = 7;

	(void)state;
	setenv("ORIEL_TIMEOUT", "x", 1);
	setenv("ORIEL_PATHS", "x", 1);
	setenv("ORIEL_PORT", "x", 1);
	assert_int_equal(ori_setting_timeout(&value), ORIEL_ERR_CONFIG);
	assert_int_equal(ori_setting_paths(&mask), ORIEL_ERR_CONFIG);
	assert_int_equal(ori_setting_unsigned(ORI_SETTING_PORT, 65535, &value), ORIEL_ERR_CONFIG);
	assert_int_equal(value, 7);
	assert_int_equal(mask, 7);
}

static void test_the_job_key_is_never_shown(void **state)
{
	struct oriel_setting setting = {.size = sizeof(setting)};
	unsigned i;

	(void)state;
	setenv("ORIEL_JOB_KEY", "secret", 1);
	assert_int_equal(oriel_settings_check(), ORIEL_ERR_CONFIG);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_JOB_KEY"));
	assert_null(strstr(oriel_last_error(), "secret"));
	/* A byte less than the least length. */
	setenv("ORIEL_JOB_KEY", "000102030405060708090a0b0c0d0e", 1);
	assert_int_equal(oriel_settings_check(), ORIEL_ERR_CONFIG);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_JOB_KEY"));
	assert_non_null(strstr(oriel_last_error(), "32 to 254"));
	setenv("ORIEL_JOB_KEY", "000102030405060708090a0b0c0d0e0f", 1);
	assert_int_equal(oriel_settings_check(), ORIEL_OK);
	for (i = 0; oriel_setting_get(i, &setting) == ORIEL_OK; i++)
		assert_string_not_equal(setting.value, "000102030405060708090a0b0c0d0e0f");
}

static void test_an_unknown_name_is_an_error_that_names_the_nearest(void **state)
{
	static const char *const unknown[][2] = {
		{"ORIEL_TIMEOUTS", "ORIEL_TIMEOUT"},
		{"ORIEL_TIMOUT", "ORIEL_TIMEOUT"},
		{"ORIEL_PRT", "ORIEL_PORT"},
		{"ORIEL_JOBKEY", "ORIEL_JOB_KEY"},
		{"ORIEL_", "oriel info --config"},
		{"ORIEL_DEBUG", "is ORIEL_LOG=info meant?"},
		{"ORIEL_LOG_LEVEL", "is ORIEL_LOG=info meant?"},
		{"ORIEL_COLOUR", "oriel info --config"},
		{"ORIEL_DEBUGS", "oriel info --config"},
		{"ORIEL_PATH", "ORIEL_PATHS"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		setenv(unknown[i][0], "1", 1);
		assert_int_equal(oriel_settings_check(), ORIEL_ERR_CONFIG);
		assert_non_null(strstr(oriel_last_error(), unknown[i][0]));
		assert_non_null(strstr(oriel_last_error(), unknown[i][1]));
		unsetenv(unknown[i][0]);
	}
}

static void test_the_list_has_value_and_source(void **state)
{
	struct oriel_setting setting = {.size = sizeof(setting)};

	(void)state;
	assert_int_equal(oriel_setting_get(ORI_SETTING_TIMEOUT, &setting), ORIEL_OK);
	assert_string_equal(setting.name, "ORIEL_TIMEOUT");
	assert_string_equal(setting.value, "600");
	assert_string_equal(setting.source, "default");
	setenv("ORIEL_TIMEOUT", "5", 1);
	assert_int_equal(oriel_setting_get(ORI_SETTING_TIMEOUT, &setting), ORIEL_OK);
	assert_string_equal(setting.value, "5");
	assert_string_equal(setting.source, "environment");
	assert_true(strlen(setting.help) > 0);
	assert_int_equal(oriel_setting_get(ORI_SETTINGS, &setting), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_setting_get(0, NULL), ORIEL_ERR_INVALID);
}

static void test_numbers_are_digits_within_the_limit(void **state)
{
	static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "1a", "8", "99"};
	uint64_t value;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ori_parse_unsigned("RANK", bad[i], 7, &value), ORIEL_ERR_CONFIG);
	assert_int_equal(ori_parse_unsigned("RANK", "007", 7, &value), ORIEL_OK);
	assert_int_equal(value, 7);
	assert_int_equal(ori_parse_unsigned("RANK", "18446744073709551615", UINT64_MAX, &value),
			 ORIEL_OK);
	assert_true(value == UINT64_MAX);
	assert_int_equal(ori_parse_unsigned("RANK", "18446744073709551616", UINT64_MAX, &value),
			 ORIEL_ERR_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_empty_environment_is_fine_and_yields_defaults),
		cmocka_unit_test_teardown(test_good_values_parse, forget_all),
		cmocka_unit_test(test_a_bad_value_is_an_error_that_names_setting_and_value),
		cmocka_unit_test_teardown(test_an_error_about_a_value_lists_what_it_may_be,
					  forget_all),
		cmocka_unit_test_teardown(test_a_typed_reader_rejects_a_bad_value, forget_all),
		cmocka_unit_test_teardown(test_the_job_key_is_never_shown, forget_all),
		cmocka_unit_test(test_an_unknown_name_is_an_error_that_names_the_nearest),
		cmocka_unit_test_teardown(test_the_list_has_value_and_source, forget_all),
		cmocka_unit_test(test_numbers_are_digits_within_the_limit),
	};

	return cmocka_run_group_tests(tests, forget_all, NULL);
}
