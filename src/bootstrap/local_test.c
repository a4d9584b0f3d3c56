/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of local.c: the bootstrap for ranks that are threads of one process. */
#include "base/late.h"
#include "bootstrap/local.h"
#include "bootstrap/party_test.h"

struct local_party {
	struct oriel_local_job *job;
	unsigned rounds;
	size_t length;
};

static struct local_party local_party(unsigned size, unsigned rounds, size_t length)
{
	struct local_party party = {.rounds = rounds, .length = length};

	assert_int_equal(oriel_local_job_create(size, &party.job), ORIEL_OK);
	return party;
}

static void *run_rounds(void *arg)
{
	struct party_seat *seat = arg;
	struct local_party *party = seat->party;
	struct oriel_bootstrap b;

	party_note(seat, oriel_bootstrap_open_local(party->job, seat->rank, &b));
	if (seat->status == ORIEL_OK)
		party_note(seat, party_rounds(&b, party->rounds, party->length));
	if (seat->status == ORIEL_OK)
		party_note(seat, b.ops->barrier(b.context, PARTY_PATIENCE));
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_all_ranks_gather_the_data_of_all(void **state)
{
	static const unsigned sizes[] = {1, 2, 3, 8, 512};
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct local_party party = local_party(sizes[i], sizes[i] > 8 ? 3 : 50, 24);

		party_run(sizes[i], run_rounds, &party);
		party_expect_all(sizes[i], ORIEL_OK, "");
		oriel_local_job_destroy(party.job);
	}
}

/* A part whose rank 0 fails is closed while a slower thread still opens it by its address. */
static void test_a_destroyed_job_is_not_taken_for_one_at_its_address(void **state)
{
	struct oriel_local_job *job, *later;
	unsigned jobs = 0;
	struct oriel_bootstrap b;
	uint32_t number;

	(void)state;
	assert_int_equal(oriel_local_job_create(2, &job), ORIEL_OK);
	number = ori_local_number(job);
	assert_int_equal(oriel_local_job_destroy(job), ORIEL_OK);
	assert_int_equal(ori_local_open(job, number, 1, &b), ORIEL_ERR_STATE);
	/* The handle table gives free slots out again, the oldest first. */
	for (;;) {
		assert_int_equal(oriel_local_job_create(2, &later), ORIEL_OK);
		if (later == job)
			break;
		assert_int_equal(oriel_local_job_destroy(later), ORIEL_OK);
		assert_true(++jobs < 100000);
	}
	assert_int_equal(ori_local_open(job, number, 1, &b), ORIEL_ERR_STATE);
	assert_string_equal(oriel_last_error(), "rank 1 opens a job of threads that was destroyed");
	assert_int_equal(ori_local_open(later, ori_local_number(later), 1, &b), ORIEL_OK);
	oriel_bootstrap_close(&b);
	assert_int_equal(oriel_local_job_destroy(later), ORIEL_OK);
}

struct open_late {
	struct oriel_local_job *job;
	uint32_t number;
	pthread_barrier_t *start;
};

static void *open_late(void *arg)
{
	struct open_late *late = arg;
	struct oriel_bootstrap b;

	pthread_barrier_wait(late->start);
	if (ori_local_open(late->job, late->number, 1, &b) == ORIEL_OK)
		oriel_bootstrap_close(&b);
	return NULL;
}

/* AddressSanitizer and ThreadSanitizer judge. */
static void test_a_job_may_be_opened_while_it_is_destroyed(void **state)
{
	pthread_barrier_t start;
	unsigned round;

	(void)state;
	pthread_barrier_init(&start, NULL, 2);
	for (round = 0; round < 200; round++) {
		struct open_late late = {.start = &start};
		pthread_t thread;

		assert_int_equal(oriel_local_job_create(2, &late.job), ORIEL_OK);
		late.number = ori_local_number(late.job);
		assert_int_equal(pthread_create(&thread, NULL, open_late, &late), 0);
		pthread_barrier_wait(&start);
		assert_int_equal(oriel_local_job_destroy(late.job), ORIEL_OK);
		pthread_join(thread, NULL);
	}
	pthread_barrier_destroy(&start);
}

static void *leave_as_two(void *arg)
{
	struct party_seat *seat = arg;
	struct local_party *party = seat->party;
	struct oriel_bootstrap b;

	oriel_bootstrap_open_local(party->job, seat->rank, &b);
	if (seat->rank != 2) {
		enum oriel_status first = b.ops->barrier(b.context, PARTY_PATIENCE);

		party_note_fault(seat, &b, b.ops->barrier(b.context, PARTY_PATIENCE));
		if (first != seat->status)
			seat->status = ORIEL_OK;
	}
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_a_rank_that_leaves_is_named_to_all(void **state)
{
	struct local_party party = local_party(4, 0, 0);

	(void)state;
	party_run(4, leave_as_two, &party);
	party_expect(0, ORIEL_ERR_PEER, "rank 2 of 4 left");
	party_expect(1, ORIEL_ERR_PEER, "rank 2 of 4 left");
	party_expect(3, ORIEL_ERR_PEER, "rank 2 of 4 left");
	party_expect_fault(4, 2);
	oriel_local_job_destroy(party.job);
}

static void *interrupt_as_two(void *arg)
{
	struct party_seat *seat = arg;
	struct local_party *party = seat->party;
	struct oriel_bootstrap b;

	oriel_bootstrap_open_local(party->job, seat->rank, &b);
	if (seat->rank == 2)
		b.ops->interrupt(b.context);
	else
		party_note_fault(seat, &b, b.ops->barrier(b.context, PARTY_PATIENCE));
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_an_interrupt_ends_the_calls_of_all(void **state)
{
	struct local_party party = local_party(3, 0, 0);

	(void)state;
	party_run(3, interrupt_as_two, &party);
	party_expect(0, ORIEL_ERR_ABORTED, "rank 2 of 3 was interrupted");
	party_expect(1, ORIEL_ERR_ABORTED, "rank 2 of 3 was interrupted");
	assert_int_equal(party_seats[0].at_fault, ORIEL_NO_RANK);
	assert_int_equal(party_seats[1].at_fault, ORIEL_NO_RANK);
	oriel_local_job_destroy(party.job);
}

static void *gather_own_length(void *arg)
{
	struct party_seat *seat = arg;
	struct local_party *party = seat->party;
	unsigned char mine[16] = {0}, all[64];
	struct oriel_bootstrap b;

	oriel_bootstrap_open_local(party->job, seat->rank, &b);
	party_note_fault(seat, &b,
			 b.ops->all_gather(b.context, mine, all, seat->rank == 1 ? 8 : 16,
					   PARTY_PATIENCE));
	b.ops->barrier(b.context, PARTY_PATIENCE);
	oriel_bootstrap_close(&b);
	return NULL;
}

static void test_lengths_that_differ_are_an_error_on_all(void **state)
{
	struct local_party party = local_party(3, 0, 0);

	(void)state;
	party_run(3, gather_own_length, &party);
	party_expect_all(3, ORIEL_ERR_MISMATCH, "rank 1 gives 8");
	/* Either of the two ranks may be wrong, so none is at fault. */
	party_expect_fault(3, ORIEL_NO_RANK);
	oriel_local_job_destroy(party.job);
}

static void test_messages_are_matched_by_rank_and_tag(void **state)
{
	struct local_party party = local_party(2, 0, 0);
	struct oriel_bootstrap a, b;
	char got[8];

	(void)state;
	assert_int_equal(oriel_bootstrap_open_local(party.job, 0, &a), ORIEL_OK);
	assert_int_equal(oriel_bootstrap_open_local(party.job, 1, &b), ORIEL_OK);
	oriel_local_job_destroy(party.job);
	assert_int_equal(a.ops->send(a.context, 1, 5, "five", 5, 1), ORIEL_OK);
	assert_int_equal(a.ops->send(a.context, 1, 6, "six", 4, 1), ORIEL_OK);
	assert_int_equal(a.ops->send(a.context, 1, 6, "seven", 6, 1), ORIEL_OK);
	assert_int_equal(b.ops->recv(b.context, 0, 6, got, 4, PARTY_PATIENCE), ORIEL_OK);
	assert_string_equal(got, "six");
	assert_int_equal(b.ops->recv(b.context, 0, 5, got, 5, PARTY_PATIENCE), ORIEL_OK);
	assert_string_equal(got, "five");
	assert_int_equal(b.ops->send(b.context, 2, 6, "x", 1, 1), ORIEL_ERR_RANGE);
	assert_int_equal(b.ops->recv(b.context, 0, 6, got, 5, PARTY_PATIENCE), ORIEL_ERR_MISMATCH);
	assert_int_equal(a.ops->barrier(a.context, PARTY_PATIENCE), ORIEL_ERR_MISMATCH);
	oriel_bootstrap_close(&a);
	oriel_bootstrap_close(&b);
}

static void test_a_receive_without_a_message_ends_at_the_deadline(void **state)
{
	struct local_party party = local_party(3, 0, 0);
	struct oriel_bootstrap a;
	char got[8];

	(void)state;
	assert_int_equal(oriel_bootstrap_open_local(party.job, 0, &a), ORIEL_OK);
	assert_int_equal(a.ops->at_fault(a.context), ORIEL_NO_RANK);
	assert_int_equal(a.ops->barrier(a.context, 1000000), ORIEL_ERR_TIMEOUT);
	assert_int_equal(a.ops->at_fault(a.context), 1);
	assert_string_equal(oriel_last_error(),
			    "ranks 1, 2 of 3 did not take part within 0.001 s " ORI_LATE_LIMIT);
	assert_int_equal(a.ops->recv(a.context, 1, 0, got, 8, 1), ORIEL_ERR_TIMEOUT);
	oriel_bootstrap_close(&a);
	oriel_local_job_destroy(party.job);
}

static void test_each_rank_of_a_local_job_opens_once(void **state)
{
	struct local_party party = local_party(2, 0, 0);
	struct oriel_local_job *none;
	struct oriel_bootstrap a, b;

	(void)state;
	assert_int_equal(oriel_local_job_create(0, &none), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_bootstrap_open_local(party.job, 2, &a), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_bootstrap_open_local(party.job, 1, &a), ORIEL_OK);
	assert_int_equal(oriel_bootstrap_open_local(party.job, 1, &b), ORIEL_ERR_STATE);
	oriel_bootstrap_close(&a);
	oriel_bootstrap_close(&a);
	oriel_bootstrap_close(NULL);
	oriel_local_job_destroy(party.job);
	oriel_local_job_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_ranks_gather_the_data_of_all),
		cmocka_unit_test(test_a_destroyed_job_is_not_taken_for_one_at_its_address),
		cmocka_unit_test(test_a_job_may_be_opened_while_it_is_destroyed),
		cmocka_unit_test(test_a_rank_that_leaves_is_named_to_all),
		cmocka_unit_test(test_lengths_that_differ_are_an_error_on_all),
		cmocka_unit_test(test_an_interrupt_ends_the_calls_of_all),
		cmocka_unit_test(test_messages_are_matched_by_rank_and_tag),
		cmocka_unit_test(test_a_receive_without_a_message_ends_at_the_deadline),
		cmocka_unit_test(test_each_rank_of_a_local_job_opens_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
