/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of join_record.c: what must be equal on all ranks is named where it differs. */
#include "comm/join_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 3u

static struct ori_join_record joins[RANKS];

static int fill(void **state)
{
	unsigned i;

	(void)state;
	memset(joins, 0, sizeof(joins));
	for (i = 0; i < RANKS; i++) {
		joins[i].device_version = 14;
		joins[i].control_length = 4096;
		joins[i].timeout_ns = 1000000000;
		joins[i].connect = ORIEL_CONNECT_EAGER;
		joins[i].rails = 1;
	}
	return 0;
}

static void expect(enum oriel_status status, const char *text)
{
	assert_int_equal(ori_join_record_compare(joins, RANKS), status);
	assert_string_equal(oriel_last_error(), text);
}

static void test_equal_records_are_right(void **state)
{
	(void)state;
	assert_int_equal(ori_join_record_compare(joins, RANKS), ORIEL_OK);
}

static void test_ranks_with_other_handles_have_another_version(void **state)
{
	(void)state;
	joins[2].device_version = 15;
	expect(ORIEL_ERR_VERSION,
	       "handles of version 14 and control segments of 4096 bytes on rank 0, of version 15 "
	       "and 4096 bytes on rank 2: all ranks need one version of the library");
}

static void test_ranks_with_other_control_segments_have_another_version(void **state)
{
	(void)state;
	joins[1].control_length = 8192;
	expect(ORIEL_ERR_VERSION,
	       "handles of version 14 and control segments of 4096 bytes on rank 0, of version 14 "
	       "and 8192 bytes on rank 1: all ranks need one version of the library");
}

static void test_ranks_that_ask_for_something_else_disagree(void **state)
{
	(void)state;
	joins[2].timeout_ns *= 2;
	expect(ORIEL_ERR_MISMATCH, "a timeout of 1 s on rank 0 and of 2 s on rank 2");
	joins[1].connect = ORIEL_CONNECT_LAZY;
	expect(ORIEL_ERR_MISMATCH, "ORIEL_CONNECT is eager on rank 0 and lazy on rank 1");
	joins[1] = joins[0];
	joins[1].flags = ORIEL_COMM_SHRINK;
	expect(ORIEL_ERR_MISMATCH, "ORIEL_COMM_SHRINK is set on rank 1 and not on rank 0");
	joins[1] = joins[0];
	joins[1].rails = 2;
	expect(ORIEL_ERR_MISMATCH, "ORIEL_RAILS is 1 on rank 0 and 2 on rank 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_equal_records_are_right, fill),
		cmocka_unit_test_setup(test_ranks_with_other_handles_have_another_version, fill),
		cmocka_unit_test_setup(test_ranks_with_other_control_segments_have_another_version,
				       fill),
		cmocka_unit_test_setup(test_ranks_that_ask_for_something_else_disagree, fill),
	};

	return cmocka_run_group_tests_name("join_record", tests, NULL, NULL);
}
