/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of error.c: the last error of a thread, its text, and what the log gets of it. */
#include <oriel/dev/detail/cpu.h>

#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_the_last_error_has_its_status(void **state)
{
	(void)state;
	assert_int_equal(ori_fail(ORIEL_ERR_PEER, "rank %d left", 2), ORIEL_ERR_PEER);
	assert_string_equal(oriel_last_error(), "rank 2 left");
	assert_int_equal(oriel_last_status(), ORIEL_ERR_PEER);
	ori_error_clear();
	assert_string_equal(oriel_last_error(), "");
	assert_int_equal(oriel_last_status(), ORIEL_OK);
}

static void test_a_failure_names_errno_and_preserves_it(void **state)
{
	(void)state;
	errno = EACCES;
	ori_fail_errno(ORIEL_ERR_SYSTEM, "open of x");
	assert_string_equal(oriel_last_error(), "open of x: Permission denied");
	assert_int_equal(errno, EACCES);
}

static void test_a_failed_allocation_names_its_bytes(void **state)
{
	(void)state;
	assert_int_equal(ori_fail_nomem(4096, "a job of %u ranks", 4), ORIEL_ERR_NOMEM);
	assert_string_equal(oriel_last_error(), "no memory for 4096 bytes of a job of 4 ranks");
	assert_int_equal(oriel_last_status(), ORIEL_ERR_NOMEM);
}

static void test_a_text_may_be_built_from_the_last_one(void **state)
{
	(void)state;
	ori_fail(ORIEL_ERR_PEER, "cause");
	ori_fail(ORIEL_ERR_STATE, "window: %s", oriel_last_error());
	assert_string_equal(oriel_last_error(), "window: cause");
}

static void test_a_saved_error_is_restored(void **state)
{
	struct ori_error error;

	(void)state;
	ori_fail(ORIEL_ERR_PEER, "rank 2 left");
	ori_error_save(&error);
	ori_fail(ORIEL_ERR_STATE, "while it is cleared away");
	ori_error_clear();
	ori_error_restore(&error);
	assert_string_equal(oriel_last_error(), "rank 2 left");
	assert_int_equal(oriel_last_status(), ORIEL_ERR_PEER);
}

static enum oriel_log_level logged_at;
static char logged[100];

static void keep_logged(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	logged_at = level;
	snprintf(logged, sizeof(logged), "%s", message);
}

static void test_a_misuse_is_logged_at_level_warn(void **state)
{
	(void)state;
	oriel_log_set_sink(keep_logged, NULL);
	ori_misuse("a window of %s still lives", "rank 2");
	oriel_log_set_sink(NULL, NULL);
	assert_int_equal(oriel_last_status(), ORIEL_ERR_STATE);
	assert_string_equal(oriel_last_error(), "a window of rank 2 still lives");
	assert_int_equal(logged_at, ORIEL_LOG_WARN);
	assert_string_equal(logged, "ORIEL_ERR_STATE: a window of rank 2 still lives");
}

static void test_attempts_are_logged_at_level_debug(void **state)
{
	struct ori_error before, inner;

	(void)state;
	oriel_log_set_sink(keep_logged, NULL);
	setenv("ORIEL_LOG", "debug", 1);
	ori_error_clear();
	ori_error_save(&before);
	ori_fail(ORIEL_ERR_PEER, "no answer");
	assert_int_equal(logged_at, ORIEL_LOG_DEBUG);
	ori_error_save(&inner);
	assert_int_equal(ori_error_end(&inner, ORIEL_OK), ORIEL_OK);
	ori_fail(ORIEL_ERR_PEER, "still no answer");
	assert_int_equal(logged_at, ORIEL_LOG_DEBUG);
	assert_int_equal(ori_error_end(&before, ORIEL_OK), ORIEL_OK);
	assert_string_equal(oriel_last_error(), "");
	ori_fail(ORIEL_ERR_PEER, "a failure");
	assert_int_equal(logged_at, ORIEL_LOG_INFO);
	oriel_log_set_sink(NULL, NULL);
	unsetenv("ORIEL_LOG");
}

static void test_the_failure_of_the_last_attempt_stays(void **state)
{
	struct ori_error before;

	(void)state;
	oriel_log_set_sink(keep_logged, NULL);
	setenv("ORIEL_LOG", "info", 1);
	ori_error_save(&before);
	logged[0] = '\0';
	ori_fail(ORIEL_ERR_PEER, "no answer");
	assert_string_equal(logged, "");
	assert_int_equal(ori_error_end(&before, ORIEL_ERR_PEER), ORIEL_ERR_PEER);
	assert_string_equal(logged, "ORIEL_ERR_PEER: no answer");
	assert_int_equal(logged_at, ORIEL_LOG_INFO);
	assert_string_equal(oriel_last_error(), "no answer");
	ori_fail(ORIEL_ERR_PEER, "a failure");
	assert_string_equal(logged, "ORIEL_ERR_PEER: a failure");
	oriel_log_set_sink(NULL, NULL);
	unsetenv("ORIEL_LOG");
}

static void test_an_endless_text_is_cut(void **state)
{
	char long_text[4000];

	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	errno = EACCES;
	ori_fail_errno(ORIEL_ERR_STATE, "%s", long_text);
	assert_true(strlen(oriel_last_error()) < 1024);
}

static void *fail_elsewhere(void *arg)
{
	(void)arg;
	assert_string_equal(oriel_last_error(), "");
	ori_fail(ORIEL_ERR_RANGE, "there");
	return NULL;
}

static void test_threads_do_not_share_the_text(void **state)
{
	pthread_t thread;

	(void)state;
	ori_fail(ORIEL_ERR_PEER, "here");
	assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(oriel_last_error(), "here");
}

static void test_code_above_the_library_sets_the_text(void **state)
{
	(void)state;
	assert_int_equal(oriel_error_set(ORIEL_ERR_PEER, "100% of rank 3"), ORIEL_ERR_PEER);
	assert_string_equal(oriel_last_error(), "100% of rank 3");
	assert_int_equal(oriel_last_status(), ORIEL_ERR_PEER);
	assert_int_equal(oriel_error_set(ORIEL_ERR_PEER, NULL), ORIEL_ERR_PEER);
	assert_string_equal(oriel_last_error(), "");
	assert_int_equal(oriel_error_set(ORIEL_OK, "fine"), ORIEL_ERR_INVALID);
	assert_non_null(strstr(oriel_last_error(), "status 0 is no failure: fine"));
}

static void expire(uint32_t ranks, const uint32_t *absent, unsigned count)
{
	const struct oriel_dev_fault record = {.what = ORIEL_DEV_BARRIER,
					       .window = 1,
					       .peer = 2,
					       .age_ns = 1000000000};
	unsigned i;

	oriel_cpu_expire(&record, ORIEL_DEV_PASSED, true);
	for (i = 0; i < count; i++)
		oriel_cpu_absent(absent[i], ranks);
}

static void test_a_barrier_names_its_absent_ranks(void **state)
{
	static const uint32_t some[] = {2, 5, 6, 7, 63, 64}, many[] = {2, 1023, 1024};

	(void)state;
	expire(65, some, 6);
	assert_string_equal(
		oriel_last_error(),
		"barrier: window 1: rank 2 did not arrive at barrier slot 0 within 1 s, "
		"the limit of the call; of 65 ranks these had not arrived: 2, 5-7, "
		"63-64");
	/* Those of one wait are not those of the next. */
	expire(65, some, 1);
	assert_non_null(strstr(oriel_last_error(), "these had not arrived: 2"));
	assert_null(strstr(oriel_last_error(), "5-7"));
	expire(0, NULL, 0);
	assert_null(strstr(oriel_last_error(), "had not arrived"));
	/* There is no room for all of a list that long, and one of some would mislead. */
	expire(1025, many, 3);
	assert_null(strstr(oriel_last_error(), "had not arrived"));
}

static void test_a_text_of_another_process_upsets_no_terminal(void **state)
{
	char whole[] = {'a', ' ', '~', '\x1b', '\x7f', '\x9b', '\n', 'b'}, ended[] = "a\t\0\t";

	(void)state;
	ori_error_clean(whole, sizeof(whole));
	assert_string_equal(whole, "a ~????");
	ori_error_clean(ended, sizeof(ended));
	assert_string_equal(ended, "a?");
	assert_int_equal(ended[3], '\t');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_last_error_has_its_status),
		cmocka_unit_test(test_a_failure_names_errno_and_preserves_it),
		cmocka_unit_test(test_a_failed_allocation_names_its_bytes),
		cmocka_unit_test(test_a_text_may_be_built_from_the_last_one),
		cmocka_unit_test(test_a_saved_error_is_restored),
		cmocka_unit_test(test_a_misuse_is_logged_at_level_warn),
		cmocka_unit_test(test_attempts_are_logged_at_level_debug),
		cmocka_unit_test(test_the_failure_of_the_last_attempt_stays),
		cmocka_unit_test(test_a_barrier_names_its_absent_ranks),
		cmocka_unit_test(test_an_endless_text_is_cut),
		cmocka_unit_test(test_threads_do_not_share_the_text),
		cmocka_unit_test(test_code_above_the_library_sets_the_text),
		cmocka_unit_test(test_a_text_of_another_process_upsets_no_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
