/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of late.c: a long wait is reported once, after ORIEL_LATE seconds. */
#include "base/late.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <oriel/dev/detail/cpu.h>
#include <oriel/status.h>

#include "base/log.h"
#include "base/wait_page.h"

static char warning[512];

static void hear(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	assert_int_equal(level, ORIEL_LOG_WARN);
	strncpy(warning, message, sizeof(warning) - 1);
}

static int restore(void **state)
{
	(void)state;
	oriel_log_set_sink(NULL, NULL);
	unsetenv("ORIEL_LATE");
	return 0;
}

static bool is_due_within(struct ori_late *late, unsigned ms)
{
	const struct timespec pause = {0, 1000000};

	for (; ms > 0; ms--) {
		if (ori_late_is_due(late))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static void test_a_wait_is_due_once(void **state)
{
	struct ori_late late;

	(void)state;
	setenv("ORIEL_LATE", "0.02", 1);
	ori_late_read();
	ori_late_begin(&late);
	assert_false(ori_late_is_due(&late));
	assert_true(is_due_within(&late, 10000));
	assert_false(is_due_within(&late, 50));
}

static void test_0_is_never(void **state)
{
	struct ori_late late;

	(void)state;
	setenv("ORIEL_LATE", "0", 1);
	ori_late_read();
	ori_late_begin(&late);
	assert_false(is_due_within(&late, 50));
	assert_int_equal(late.at, ORIEL_TIMEOUT_INFINITE);
}

static void test_the_default_is_30_s(void **state)
{
	struct ori_late late;

	(void)state;
	ori_late_read();
	ori_late_begin(&late);
	assert_int_equal(late.at - late.begun, 30000000000u);
}

static void test_the_warning_has_the_limit(void **state)
{
	struct ori_late late;

	(void)state;
	oriel_log_set_sink(hear, NULL);
	ori_late_read();
	ori_late_begin(&late);
	late.begun -= 31000000000u;
	ori_late_warn(&late, 600000000000u, "rank %u of %u did not join", 2u, 4u);
	assert_string_equal(warning,
			    "rank 2 of 4 did not join within 31 s; this rank goes on waiting, "
			    "until 600 s have passed (ORIEL_TIMEOUT)");
	ori_late_warn(&late, ORIEL_TIMEOUT_INFINITE, "rank 1 did not join");
	assert_non_null(strstr(warning, "waiting, for ever (ORIEL_TIMEOUT)"));
}

/* A wait for a NIC, which does not say which rank waits. */
static void test_the_rank_of_a_wait_is_found(void **state)
{
	static const struct ori_wait_comm comm = {.key = 77, .rank = 3, .size = 4, .health_fd = -1};
	struct oriel_dev_fault record = {.what = ORIEL_DEV_NIC, .peer = 2, .comm = 77};

	(void)state;
	oriel_log_set_sink(hear, NULL);
	ori_late_read();
	ori_wait_page_open();
	ori_wait_page_add(&comm);
	assert_int_equal(oriel_cpu_late(&record, ORIEL_EQ, 600000000000u), ORI_WAIT_RECORD_NS);
	record.age_ns = 31000000000u;
	assert_int_equal(oriel_cpu_late(&record, ORIEL_EQ, 600000000000u), record.age_ns);
	assert_string_equal(
		warning, "rank 3: the NIC did not complete requests for rank 2 within 31 s; this "
			 "rank goes on waiting, until 600 s have passed (ORIEL_TIMEOUT)");
	/* The next wait is another communicator's, which is not there. */
	record.age_ns = 0;
	record.comm = 78;
	(void)oriel_cpu_late(&record, ORIEL_EQ, 600000000000u);
	record.age_ns = 31000000000u;
	(void)oriel_cpu_late(&record, ORIEL_EQ, 600000000000u);
	assert_non_null(strstr(warning, "a rank of this process: the NIC did not complete"));
	ori_wait_page_remove(comm.key);
	ori_wait_page_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_a_wait_is_due_once, restore),
		cmocka_unit_test_teardown(test_0_is_never, restore),
		cmocka_unit_test_teardown(test_the_default_is_30_s, restore),
		cmocka_unit_test_teardown(test_the_warning_has_the_limit, restore),
		cmocka_unit_test_teardown(test_the_rank_of_a_wait_is_found, restore),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
