/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks judge the verdicts of all, and a bootstrap that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/handle.h"
#include "comm/exchange.h"

#define RANKS 3
#define UNASKED 77u /* of a bootstrap without at_fault() */

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

static void test_all_ranks_get_the_failure_of_the_lowest_rank(void **state)
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

static void test_a_cause_wins_over_its_consequences(void **state)
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

static void test_a_rank_reports_any_failure_but_nothing_else(void **state)
{
	struct ori_verdict verdicts[RANKS];

	(void)state;
	fill(verdicts, ORI_CALL_COMM_CREATE);
	verdicts[1].status = ORIEL_ERR_FORKED;
	assert_int_equal(judge(verdicts, 0), ORIEL_ERR_FORKED);
	verdicts[1].status = ORIEL_ERR_FORKED - 1;
	assert_int_equal(judge(verdicts, 0), ORIEL_ERR_PROTOCOL);
	verdicts[1].status = ORIEL_AGAIN;
	assert_int_equal(judge(verdicts, 0), ORIEL_ERR_PROTOCOL);
}

static void test_ranks_in_different_calls_are_named(void **state)
{
	struct ori_verdict verdicts[RANKS];

	(void)state;
	fill(verdicts, ORI_CALL_WINDOW_CREATE);
	ori_verdict_fill(&verdicts[2], ORI_CALL_REGION_SHARE, ORIEL_OK);
	assert_int_equal(judge(verdicts, 0), ORIEL_ERR_MISMATCH);
	assert_string_equal(oriel_last_error(),
			    "rank 0 calls oriel_window_create, rank 2 calls oriel_region_share");
}

static void test_another_wire_version_is_rejected(void **state)
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

/* A bootstrap whose collectives fail with these values. */
struct words {
	enum oriel_status status;
	unsigned at_fault;
	const char *text;
};

static enum oriel_status words_barrier(void *context, uint64_t timeout_ns)
{
	const struct words *w = context;

	(void)timeout_ns;
	return ori_fail(w->status, "%s", w->text);
}

static unsigned words_at_fault(void *context)
{
	const struct words *w = context;

	return w->at_fault;
}

/* Checks the errors and the health of rank 1, in the call that failed and after it. */
static void bootstrap_fails(struct words words, int rank, const char *later)
{
	static const struct oriel_bootstrap_ops ops = {.size = sizeof(ops),
						       .barrier = words_barrier,
						       .at_fault = words_at_fault};
	static struct oriel_dev_rank of[RANKS];
	struct ori_control *control = calloc(1, sizeof(*control));
	struct oriel_comm *comm = ori_handle_alloc(ORI_HANDLE_COMM, sizeof(*comm));
	struct oriel_health health;
	char text[100];

	assert_non_null(control);
	assert_non_null(comm);
	*comm = (struct oriel_comm){.bootstrap = {.ops = &ops, .context = &words},
				    .has_at_fault = words.at_fault != UNASKED,
				    .rank = 1,
				    .size = RANKS,
				    .host_paths.of = of,
				    .control = control};
	ori_handle_open(comm, NULL);
	assert_int_equal(oriel_comm_barrier(comm), words.status);
	snprintf(text, sizeof(text), "oriel_comm_barrier: %s", words.text);
	assert_string_equal(oriel_last_error(), text);
	assert_int_equal(oriel_comm_health(comm, &health), ORIEL_OK);
	assert_int_equal(health.rank, rank);
	assert_int_equal(oriel_comm_barrier(comm), words.status);
	assert_string_equal(oriel_last_error(), later);
	assert_true(ori_handle_shut(comm, ORI_HANDLE_COMM, "bootstrap_fails"));
	ori_handle_free(comm);
	free(control);
}

/* The watcher has no peer to poll, so that only the bootstrap can name the rank. */
static void test_the_rank_that_exited_is_named_in_every_later_failure(void **state)
{
	const char *some = "exchange with the ranks failed: Another rank has left or died.";

	(void)state;
	bootstrap_fails((struct words){ORIEL_ERR_PEER, 2, "the cable of the third is cut"}, 2,
			"rank 2 exited before the communicator was destroyed");
	bootstrap_fails(
		(struct words){ORIEL_ERR_TIMEOUT, 2, "the third is late"}, 2,
		"rank 2 did not enter oriel_comm_barrier, where rank 1 waited until its limit; "
		"raise ORIEL_TIMEOUT if it is only slow");
	bootstrap_fails((struct words){ORIEL_ERR_PEER, ORIEL_NO_RANK, "rank 2 of 3 left"}, -1,
			some);
	bootstrap_fails((struct words){ORIEL_ERR_PEER, UNASKED, "rank 2 of 3 left"}, -1, some);
	bootstrap_fails((struct words){ORIEL_ERR_TIMEOUT, ORIEL_NO_RANK, "some are late"}, -1,
			"exchange with the ranks timed out; raise ORIEL_TIMEOUT if they are only "
			"slow");
	/* There is no such rank, and rank 1 itself is not at fault. */
	bootstrap_fails((struct words){ORIEL_ERR_PEER, RANKS, "some rank left"}, -1, some);
	bootstrap_fails((struct words){ORIEL_ERR_PEER, 1, "the second left"}, -1, some);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_success_of_all_is_success),
		cmocka_unit_test(test_all_ranks_get_the_failure_of_the_lowest_rank),
		cmocka_unit_test(test_a_cause_wins_over_its_consequences),
		cmocka_unit_test(test_a_status_without_a_text_gets_the_general_one),
		cmocka_unit_test(test_a_rank_reports_any_failure_but_nothing_else),
		cmocka_unit_test(test_ranks_in_different_calls_are_named),
		cmocka_unit_test(test_another_wire_version_is_rejected),
		cmocka_unit_test(test_a_text_without_end_is_cut),
		cmocka_unit_test(test_the_rank_that_exited_is_named_in_every_later_failure),
	};

	return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
