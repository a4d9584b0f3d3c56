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

/* A bootstrap whose all_gather fails with these values. */
struct words {
	enum oriel_status status;
	unsigned at_fault;
	const char *text;
};

static enum oriel_status words_all_gather(void *context, const void *mine, void *all, size_t length,
					  uint64_t timeout_ns)
{
	const struct words *w = context;

	(void)mine, (void)all, (void)length, (void)timeout_ns;
	return ori_fail(w->status, "%s", w->text);
}

static unsigned words_at_fault(void *context)
{
	const struct words *w = context;

	return w->at_fault;
}

/* Rank 1 of a job that has no path but the bootstrap. */
static struct oriel_comm *open_comm(const struct oriel_bootstrap_ops *ops, void *context)
{
	static struct oriel_dev_rank of[RANKS];
	static struct ori_gather_first firsts[RANKS];
	static struct ori_control control;
	struct oriel_comm *comm = ori_handle_alloc(ORI_HANDLE_COMM, sizeof(*comm));

	assert_non_null(comm);
	memset(&control, 0, sizeof(control));
	*comm = (struct oriel_comm){.bootstrap = {.ops = ops, .context = context},
				    .rank = 1,
				    .size = RANKS,
				    .host_paths.of = of,
				    .firsts = firsts,
				    .control = &control};
	ori_handle_open(comm, NULL);
	return comm;
}

static void close_comm(struct oriel_comm *comm)
{
	assert_true(ori_handle_shut(comm, ORI_HANDLE_COMM, "close_comm"));
	ori_handle_free(comm);
}

/* Checks the errors and the health of rank 1, in the call that failed and after it. */
static void bootstrap_fails(struct words words, int rank, const char *later)
{
	static const struct oriel_bootstrap_ops ops = {.size = sizeof(ops),
						       .all_gather = words_all_gather,
						       .at_fault = words_at_fault};
	struct oriel_comm *comm = open_comm(&ops, &words);
	struct oriel_health health = {.size = sizeof(health)};
	char text[100];

	comm->has_at_fault = words.at_fault != UNASKED;
	assert_int_equal(oriel_comm_barrier(comm), words.status);
	snprintf(text, sizeof(text), "oriel_comm_barrier: %s", words.text);
	assert_string_equal(oriel_last_error(), text);
	assert_int_equal(oriel_comm_health(comm, &health), ORIEL_OK);
	assert_int_equal(health.rank, rank);
	assert_int_equal(oriel_comm_barrier(comm), words.status);
	assert_string_equal(oriel_last_error(), later);
	close_comm(comm);
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

/* A bootstrap whose ranks all do the same, but for the head of rank 2. */
static enum oriel_status heads_all_gather(void *context, const void *mine, void *all, size_t length,
					  uint64_t timeout_ns)
{
	const struct ori_gather_head *head = context;
	unsigned i;

	(void)timeout_ns;
	assert_int_equal(length, sizeof(struct ori_gather_first));
	for (i = 0; i < RANKS; i++)
		memcpy((char *)all + i * length, mine, length);
	if (head)
		memcpy((char *)all + 2 * length, head, sizeof(*head));
	return ORIEL_OK;
}

static enum oriel_status gather_with(struct ori_gather_head *head)
{
	static const struct oriel_bootstrap_ops ops = {.size = sizeof(ops),
						       .all_gather = heads_all_gather};
	struct oriel_comm *comm = open_comm(&ops, head);
	char mine[4] = "abc", all[RANKS * 4] = "";
	enum oriel_status status = oriel_comm_all_gather(comm, mine, all, sizeof(mine));

	/* The bytes of another call are no result. */
	assert_string_equal(all, status == ORIEL_OK ? "abc" : "");
	assert_string_equal(all + 8, status == ORIEL_OK ? "abc" : "");
	close_comm(comm);
	return status;
}

static void test_a_gather_of_the_bootstrap_names_ranks_out_of_step(void **state)
{
	struct ori_gather_head newer = {ORI_COMM_WIRE + 1, ORI_CALL_COMM_ALL_GATHER, 4};
	struct ori_gather_head other = {ORI_COMM_WIRE, ORI_CALL_WINDOW_DESTROY, 4};
	struct ori_gather_head longer = {ORI_COMM_WIRE, ORI_CALL_COMM_ALL_GATHER, 5};
	char text[80];

	(void)state;
	assert_int_equal(gather_with(NULL), ORIEL_OK);
	assert_int_equal(gather_with(&newer), ORIEL_ERR_VERSION);
	snprintf(text, sizeof(text), "rank 2 speaks version %u, rank 1 version %u",
		 ORI_COMM_WIRE + 1, ORI_COMM_WIRE);
	assert_string_equal(oriel_last_error(), text);
	assert_int_equal(gather_with(&other), ORIEL_ERR_MISMATCH);
	assert_string_equal(oriel_last_error(), "rank 1 calls oriel_comm_all_gather, rank 2 calls "
						"oriel_window_destroy");
	assert_int_equal(gather_with(&longer), ORIEL_ERR_MISMATCH);
	assert_string_equal(oriel_last_error(),
			    "oriel_comm_all_gather: rank 1 passes 4 bytes, rank 2 passes 5");
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
		cmocka_unit_test(test_a_gather_of_the_bootstrap_names_ranks_out_of_step),
	};

	return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
