/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"

#define RANKS 3

static void fill(struct ori_verdict *verdicts, enum ori_call call)
{
	unsigned i;

	for (i = 0; i < RANKS; i++)
		ori_verdict_fill(&verdicts[i], call, ORIEL_OK);
}

static enum oriel_status judge(const struct ori_verdict *verdicts, unsigned rank)
{
	return ori_verdict_judge(verdicts, sizeof(*verdicts), RANKS, rank);
}

static void test_success_of_all_is_success(void **state)
{
	struct ori_verdict verdicts[RANKS];

	(void)state;
	fill(verdicts, ORI_CALL_COMM_CREATE);
	assert_int_equal(judge(verdicts, 1), ORIEL_OK);
}

static void test_the_lowest_failure_is_everybodys(void **state)
{
	struct ori_verdict verdicts[RANKS];

	(void)state;
	fill(verdicts, ORI_CALL_COMM_CREATE);
	ori_verdict_fill(&verdicts[2], ORI_CALL_COMM_CREATE,
			 ori_fail(ORIEL_ERR_NOMEM, "no room at two"));
	ori_verdict_fill(&verdicts[1], ORI_CALL_COMM_CREATE,
			 ori_fail(ORIEL_ERR_RANGE, "too far at one"));
	assert_int_equal(judge(verdicts, 0), ORIEL_ERR_RANGE);
	assert_string_equal(oriel_last_error(), "rank 1: too far at one");
	assert_int_equal(judge(verdicts, 1), ORIEL_ERR_RANGE);
	assert_string_equal(oriel_last_error(), "too far at one");
	assert_int_equal(judge(verdicts, 2), ORIEL_ERR_RANGE);
}

static void test_a_cause_goes_before_its_consequences(void **state)
{
	struct ori_verdict verdicts[RANKS];

	(void)state;
	fill(verdicts, ORI_CALL_COMM_CREATE);
	ori_verdict_fill(&verdicts[0], ORI_CALL_COMM_CREATE,
			 ori_fail(ORIEL_ERR_TIMEOUT, "rank 2 sent nothing"));
	ori_verdict_fill(&verdicts[2], ORI_CALL_COMM_CREATE,
			 ori_fail(ORIEL_ERR_SYSTEM, "no descriptors left"));
	assert_int_equal(judge(verdicts, 0), ORIEL_ERR_SYSTEM);
	assert_string_equal(oriel_last_error(), "rank 2: no descriptors left");
}

static void test_a_status_without_a_text_gets_the_general_one(void **state)
{
	struct ori_verdict verdicts[RANKS];

	(void)state;
	fill(verdicts, ORI_CALL_COMM_AGREE);
	ori_fail(ORIEL_ERR_RANGE, "something long ago");
	ori_verdict_fill(&verdicts[1], ORI_CALL_COMM_AGREE, ORIEL_ERR_SYSTEM);
	assert_string_equal(verdicts[1].text, oriel_status_text(ORIEL_ERR_SYSTEM));
}

static void test_ranks_in_different_calls_are_told_apart(void **state)
{
	struct ori_verdict verdicts[RANKS];

	(void)state;
	fill(verdicts, ORI_CALL_WINDOW_CREATE);
	ori_verdict_fill(&verdicts[2], ORI_CALL_REGION_SHARE, ORIEL_OK);
	assert_int_equal(judge(verdicts, 0), ORIEL_ERR_MISMATCH);
	assert_string_equal(oriel_last_error(),
			    "rank 0 calls oriel_window_create, rank 2 calls oriel_region_share");
}

static void test_another_wire_version_is_refused(void **state)
{
	struct ori_verdict verdicts[RANKS];

	(void)state;
	fill(verdicts, ORI_CALL_WINDOW_CREATE);
	verdicts[1].version = ORI_COMM_WIRE + 1;
	assert_int_equal(judge(verdicts, 0), ORIEL_ERR_VERSION);
}

static void test_a_text_without_end_is_cut(void **state)
{
	struct ori_verdict verdicts[RANKS];

	(void)state;
	fill(verdicts, ORI_CALL_WINDOW_CREATE);
	verdicts[0].status = ORIEL_ERR_SYSTEM;
	memset(verdicts[0].text, 'x', sizeof(verdicts[0].text));
	assert_int_equal(judge(verdicts, 1), ORIEL_ERR_SYSTEM);
	assert_int_equal(strlen(oriel_last_error()),
			 strlen("rank 0: ") + sizeof(verdicts[0].text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_success_of_all_is_success),
		cmocka_unit_test(test_the_lowest_failure_is_everybodys),
		cmocka_unit_test(test_a_cause_goes_before_its_consequences),
		cmocka_unit_test(test_a_status_without_a_text_gets_the_general_one),
		cmocka_unit_test(test_ranks_in_different_calls_are_told_apart),
		cmocka_unit_test(test_another_wire_version_is_refused),
		cmocka_unit_test(test_a_text_without_end_is_cut),
	};

	return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
