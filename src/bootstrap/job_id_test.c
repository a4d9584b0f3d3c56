/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of job_id.c: the bytes of ids, jobs that meet by one, and errors. */
#include "bootstrap/job_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/party_test.h"
#include "sys/process.h"

#define LONG 60000000000u /* ns */
#define SHORT 100000000u

struct meeting {
	struct oriel_job_id id, of_others;
	bool all_have_key[4];
};

static int clear(void **state)
{
	(void)state;
	unsetenv("ORIEL_JOB_KEY");
	return 0;
}

static void test_the_bytes_of_an_id_are_read_back(void **state)
{
	struct ori_job_id in = {.key.length = 32, .count = 2}, out;
	struct oriel_job_id id;

	(void)state;
	memset(in.key.bytes, 7, 32);
	in.addresses[0] = (struct ori_address){.family = 4, .port = 5, .ip = {10, 0, 0, 1}};
	in.addresses[1] = (struct ori_address){.family = 6, .port = 5, .ip = {0xfd, 1}};
	ori_job_id_encode(&in, &id);
	assert_true(ori_job_id_parse(&id, &out));
	assert_memory_equal(&in, &out, sizeof(in));
}

static void test_malformed_bytes_are_rejected(void **state)
{
	static const struct {
		unsigned at;
		unsigned char value;
	} bad[] = {{0, 'o'}, {3, 2},  {4, 31}, {5, 0},  {5, 5},
		   {6, 1},   {40, 7}, {42, 0}, {60, 1}, {127, 1}};
	struct ori_job_id in = {.key.length = 32, .count = 1}, out;
	struct oriel_bootstrap b;
	struct oriel_job_id id;
	size_t i;

	(void)state;
	in.addresses[0] = (struct ori_address){.family = 4, .port = 5, .ip = {10, 0, 0, 1}};
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ori_job_id_encode(&in, &id);
		id.bytes[bad[i].at] = bad[i].value;
		assert_false(ori_job_id_parse(&id, &out));
		assert_int_equal(oriel_bootstrap_open_id(&id, 1, 2, SHORT, &b), ORIEL_ERR_INVALID);
		assert_non_null(strstr(oriel_last_error(), "oriel_job_id_open"));
	}
}

static void *join(void *argument)
{
	struct party_seat *seat = argument;
	struct meeting *meeting = seat->party;
	struct oriel_bootstrap b;
	unsigned char all[4];
	unsigned char mine = (unsigned char)(seat->rank + 10);
	unsigned i;

	seat->status = oriel_bootstrap_open_id(seat->rank ? &meeting->of_others : &meeting->id,
					       seat->rank, seat->size, LONG, &b);
	party_note(seat, seat->status);
	if (seat->status != ORIEL_OK)
		return NULL;
	meeting->all_have_key[seat->rank] = ori_tcp_key(&b)->length > 0;
	seat->status = b.ops->all_gather(b.context, &mine, all, 1, LONG);
	party_note(seat, seat->status);
	for (i = 0; i < seat->size && seat->status == ORIEL_OK; i++)
		if (all[i] != i + 10)
			seat->status = ORIEL_ERR_MISMATCH;
	oriel_bootstrap_close(&b);
	return NULL;
}

static void meet(struct meeting *meeting, bool expects_key)
{
	unsigned i;

	memset(meeting->all_have_key, 0, sizeof(meeting->all_have_key));
	party_run(4, join, meeting);
	party_expect_all(4, ORIEL_OK, "");
	for (i = 0; i < 4; i++)
		assert_int_equal(meeting->all_have_key[i], expects_key);
}

static void test_ranks_with_one_id_meet_and_meet_again(void **state)
{
	struct meeting meeting;

	(void)state;
	assert_int_equal(oriel_job_id_open(&meeting.id), ORIEL_OK);
	meeting.of_others = meeting.id;
	meet(&meeting, true);
	meet(&meeting, true);
	assert_int_equal(oriel_job_id_close(&meeting.id), ORIEL_OK);
}

static void test_two_ids_are_two_jobs(void **state)
{
	struct oriel_job_id a, b;

	(void)state;
	assert_int_equal(oriel_job_id_open(&a), ORIEL_OK);
	assert_int_equal(oriel_job_id_open(&b), ORIEL_OK);
	assert_memory_not_equal(&a, &b, sizeof(a));
	assert_int_equal(oriel_job_id_close(&a), ORIEL_OK);
	assert_int_equal(oriel_job_id_close(&b), ORIEL_OK);
}

/* Rank 0 has several networks, and not all ranks are in all of them. */
static void test_the_next_address_is_tried(void **state)
{
	struct meeting meeting;
	struct ori_job_id in;
	int fd;

	(void)state;
	assert_int_equal(oriel_job_id_open(&meeting.id), ORIEL_OK);
	assert_true(ori_job_id_parse(&meeting.id, &in));
	in.count = 2;
	in.addresses[1] = in.addresses[0];
	fd = party_reserve(&in.addresses[0]);
	ori_job_id_encode(&in, &meeting.of_others);
	meet(&meeting, true);
	close(fd);
	assert_int_equal(oriel_job_id_close(&meeting.id), ORIEL_OK);
}

static void test_the_key_of_the_user_is_not_in_the_id(void **state)
{
	struct meeting meeting;
	struct ori_job_id in;

	(void)state;
	setenv("ORIEL_JOB_KEY", "00112233445566778899aabbccddeeff", 1);
	assert_int_equal(oriel_job_id_open(&meeting.id), ORIEL_OK);
	assert_true(ori_job_id_parse(&meeting.id, &in));
	assert_int_equal(in.key.length, 0);
	meeting.of_others = meeting.id;
	meet(&meeting, true);
	assert_int_equal(oriel_job_id_close(&meeting.id), ORIEL_OK);
}

/* Ranks of lists of ids, each a thread. */
struct lists {
	struct oriel_job_id ids[3];
	unsigned phase; /* of the test */
};

static enum oriel_status join_list(struct party_seat *seat, const unsigned *members, unsigned size,
				   unsigned rank, uint64_t number, uint64_t timeout_ns)
{
	struct lists *lists = seat->party;
	struct oriel_job_id ids[3];
	struct oriel_bootstrap b;
	enum oriel_status status;
	unsigned i;

	for (i = 0; i < size; i++)
		ids[i] = lists->ids[members[i]];
	status = ori_bootstrap_open_ids(ids, rank, size, number, timeout_ns, &b);
	if (status != ORIEL_OK)
		return status;
	status = party_rounds(&b, 3, 10);
	oriel_bootstrap_close(&b);
	return status;
}

static void await_phase(struct lists *lists, unsigned phase)
{
	while (__atomic_load_n(&lists->phase, __ATOMIC_ACQUIRE) < phase)
		usleep(1000);
}

/* Until the first rank has told this one to come later. */
static void await_refusal(struct party_seat *seat, const unsigned *members, unsigned size,
			  unsigned rank, uint64_t number)
{
	while (join_list(seat, members, size, rank, number, SHORT) == ORIEL_ERR_TIMEOUT)
		if (strstr(oriel_last_error(), "has not left another job for this one within"))
			break;
}

/* Rank 2 comes to two lists of which rank 0 is the first, while that one forms one without it. */
static void *come_early(void *argument)
{
	static const unsigned first[] = {0, 1}, all[] = {0, 1, 2}, other[] = {0, 2};
	struct party_seat *seat = argument;
	struct lists *lists = seat->party;
	enum oriel_status status = ORIEL_OK;

	if (seat->rank < 2) {
		if (seat->rank == 1)
			await_phase(lists, 1);
		status = join_list(seat, first, 2, seat->rank, 1, PARTY_PATIENCE);
	} else {
		/* No other rank learns of that. */
		await_refusal(seat, all, 3, 2, 1);
		await_refusal(seat, other, 2, 1, 1);
		__atomic_store_n(&lists->phase, 1, __ATOMIC_RELEASE);
	}
	if (status == ORIEL_OK)
		status = join_list(seat, all, 3, seat->rank, 2, PARTY_PATIENCE);
	/* Rank 2 is rank 1 then, which one process is once. */
	if (seat->rank == 1)
		__atomic_store_n(&lists->phase, 2, __ATOMIC_RELEASE);
	await_phase(lists, 2);
	if (status == ORIEL_OK && seat->rank != 1)
		status = join_list(seat, other, 2, seat->rank / 2, 3, PARTY_PATIENCE);
	party_note(seat, status);
	return NULL;
}

/* Rank 1 comes to another list than that in which rank 0 awaits it: all learn that, and go on. */
static void *differ(void *argument)
{
	static const unsigned all[] = {0, 1, 2}, pair[] = {0, 1};
	struct party_seat *seat = argument;
	struct lists *lists = seat->party;

	if (seat->rank == 1) {
		await_phase(lists, 1);
		party_note(seat, join_list(seat, pair, 2, 1, 1, PARTY_PATIENCE));
		/* It awaits rank 2 yet, and is not disturbed again. */
		await_refusal(seat, pair, 2, 1, 2);
		__atomic_store_n(&lists->phase, 2, __ATOMIC_RELEASE);
	} else {
		if (seat->rank == 0)
			__atomic_store_n(&lists->phase, 1, __ATOMIC_RELEASE);
		else
			await_phase(lists, 2);
		party_note(seat, join_list(seat, all, 3, seat->rank, 1, PARTY_PATIENCE));
	}
	if (seat->status == ORIEL_ERR_MISMATCH)
		seat->status = join_list(seat, all, 3, seat->rank, 3, PARTY_PATIENCE);
	return NULL;
}

static void open_ids(struct lists *lists)
{
	unsigned i;

	memset(lists, 0, sizeof(*lists));
	for (i = 0; i < 3; i++)
		assert_int_equal(oriel_job_id_open(&lists->ids[i]), ORIEL_OK);
}

static void close_ids(const struct lists *lists)
{
	unsigned i;

	for (i = 0; i < 3; i++)
		assert_int_equal(oriel_job_id_close(&lists->ids[i]), ORIEL_OK);
}

static void test_a_rank_that_is_early_disturbs_no_list_without_it(void **state)
{
	struct lists lists;

	(void)state;
	open_ids(&lists);
	party_run(3, come_early, &lists);
	party_expect_all(3, ORIEL_OK, "");
	close_ids(&lists);
}

static void test_a_rank_that_comes_with_another_list_is_named_to_all(void **state)
{
	struct lists lists;

	(void)state;
	open_ids(&lists);
	party_run(3, differ, &lists);
	party_expect(0, ORIEL_OK, "rank 1 at ");
	party_expect_all(3, ORIEL_OK, "has come with another number or list of ids than rank 0");
	close_ids(&lists);
}

/* By it a rank that comes again is told from another process that comes as that rank. */
static void test_a_rank_of_an_id_says_which_process_it_is(void **state)
{
	struct ori_tcp_job job = {.rank = 1, .size = 2};
	struct oriel_job_id id;
	uint64_t token;

	(void)state;
	assert_int_equal(oriel_job_id_open(&id), ORIEL_OK);
	assert_int_equal(ori_job_id_use(&id, "test", &job), ORIEL_OK);
	assert_int_equal(ori_process_token(&token), ORIEL_OK);
	assert_true(token && job.own.process == token);
	assert_int_equal(oriel_job_id_close(&id), ORIEL_OK);
}

static void test_a_closed_id_is_refused(void **state)
{
	struct oriel_bootstrap b;
	struct oriel_job_id id;

	(void)state;
	assert_int_equal(oriel_job_id_open(&id), ORIEL_OK);
	assert_int_equal(oriel_job_id_close(&id), ORIEL_OK);
	assert_int_equal(oriel_job_id_close(&id), ORIEL_ERR_STATE);
	assert_int_equal(oriel_job_id_close(NULL), ORIEL_OK);
	assert_int_equal(oriel_bootstrap_open_id(&id, 0, 2, SHORT, &b), ORIEL_ERR_STATE);
	assert_non_null(strstr(oriel_last_error(), "rank 0 has not opened this id"));
}

static void test_bad_arguments_are_errors(void **state)
{
	struct oriel_bootstrap b;
	struct oriel_job_id id;

	(void)state;
	assert_int_equal(oriel_job_id_open(NULL), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_job_id_open(&id), ORIEL_OK);
	assert_int_equal(oriel_bootstrap_open_id(NULL, 0, 1, SHORT, &b), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_bootstrap_open_id(&id, 0, 1, SHORT, NULL), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_bootstrap_open_id(&id, 0, 0, SHORT, &b), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_bootstrap_open_id(&id, 2, 2, SHORT, &b), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_bootstrap_open_id(&id, 0, 1, SHORT, &b), ORIEL_OK);
	oriel_bootstrap_close(&b);
	assert_int_equal(oriel_job_id_close(&id), ORIEL_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_bytes_of_an_id_are_read_back),
		cmocka_unit_test(test_malformed_bytes_are_rejected),
		cmocka_unit_test(test_ranks_with_one_id_meet_and_meet_again),
		cmocka_unit_test(test_two_ids_are_two_jobs),
		cmocka_unit_test(test_the_next_address_is_tried),
		cmocka_unit_test_setup_teardown(test_the_key_of_the_user_is_not_in_the_id, clear,
						clear),
		cmocka_unit_test(test_a_rank_that_is_early_disturbs_no_list_without_it),
		cmocka_unit_test(test_a_rank_that_comes_with_another_list_is_named_to_all),
		cmocka_unit_test(test_a_rank_of_an_id_says_which_process_it_is),
		cmocka_unit_test(test_a_closed_id_is_refused),
		cmocka_unit_test(test_bad_arguments_are_errors),
	};

	return cmocka_run_group_tests(tests, clear, clear);
}
