/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures of a lane: those that requests meet, those of the host, and random orders of
 * events.
 */
#include "rdma/lane_test.h"

static void check_dead(struct bench *b, uint64_t done, uint64_t err, uint32_t what)
{
	struct ori_dev_link_wait_limits limits = {NULL, 1000000000, 1, 0};
	uint64_t posted = b->qp->posted, base;

	assert_int_equal(ori_dev_proxy_wait(&b->ring, done, &limits),
			 ori_dev_queue_err_status(err));
	assert_int_equal(b->ring.done, done);
	assert_int_equal(b->ring.err, err);
	assert_int_equal(b->words->err, err);
	assert_int_equal(ori_dev_proxy_what(b->words->failed, ORIEL_DEV_FLUSH), what);
	assert_true(ori_dev_proxy_is_over(&b->ring, b->ring.resv - 1));
	assert_false(ori_proxy_in_flight(b->lane) || ori_proxy_has_requests(b->lane));
	assert_int_equal(ori_dev_proxy_reserve(&b->ring, 1, &limits, &base),
			 ori_dev_queue_err_status(err));
	bench_run(b);
	assert_int_equal(b->qp->posted, posted);
}

static uint64_t err_of(uint32_t syndrome, uint64_t index)
{
	return ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, syndrome, 0, index);
}

static void test_a_failure_ends_all_requests_that_are_not_done(void **state)
{
	uint64_t base;
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_count(&b, 9, 9);
	bench_put(&b, 1);
	base = bench_reserve(&b, 1);
	bench_write(&b, base, 4000, ORIEL_PROXY_LOOKUP, 10);
	ori_dev_proxy_publish(&b.ring, base, 1);
	bench_put(&b, 2);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 4);
	b.loop->is_eager = true;
	script_end(b.qp, 1);
	script_fail(b.qp, ORIEL_ERR_ACCESS, ORIEL_SYNDROME_REMOTE_ACCESS);
	bench_put(&b, 3);
	bench_run(&b);
	/* The counter behind the first put was due. */
	assert_int_equal(b.loop->posted, 1);
	assert_int_equal(b.released, 1);
	assert_int_equal(b.released_well, 0);
	check_dead(&b, 2, err_of(ORIEL_SYNDROME_REMOTE_ACCESS, 2), ORIEL_DEV_PUT);
	bench_close(&b);
	assert_int_equal(b.released, 1);
}

static void test_the_host_may_abandon_all_requests(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_run(&b);
	bench_put(&b, 1);
	bench_run(&b);
	bench_put(&b, 2);
	/* The first request has ended, and the lane has not polled since. */
	script_end(b.qp, 1);
	ori_proxy_fail(b.lane);
	assert_true(b.qp->is_failed);
	check_dead(&b, 1, err_of(ORIEL_SYNDROME_FLUSHED, 0), ORIEL_DEV_PUT);
	bench_close(&b);

	/* The failure of the HCA says more than "flushed". */
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_run(&b);
	script_fail(b.qp, ORIEL_ERR_PEER, ORIEL_SYNDROME_RETRY_EXCEEDED);
	ori_proxy_fail(b.lane);
	check_dead(&b, 0, err_of(ORIEL_SYNDROME_RETRY_EXCEEDED, 0), ORIEL_DEV_PUT);
	bench_close(&b);
}

static void test_a_request_that_cannot_be_posted_fails_in_its_turn(void **state)
{
	static const uint32_t syndromes[] = {ORIEL_SYNDROME_LOCAL_PROTECTION,
					     ORIEL_SYNDROME_LOCAL_PROTECTION,
					     ORIEL_SYNDROME_LOCAL_OPERATION};
	uint64_t base;
	struct bench b;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(syndromes) / sizeof(syndromes[0]); i++) {
		bench_open(&b, DEPTH, 1u << 30);
		b.found = ORIEL_ERR_ACCESS;
		bench_put(&b, 0);
		base = bench_reserve(&b, 1);
		bench_write(&b, base, 0, i ? 0 : ORIEL_PROXY_LOOKUP, 8);
		if (i == 2)
			bench_other(&b, base, ORIEL_PROXY_COMPARE_SWAP + 1, 0, 0, 0);
		ori_dev_proxy_publish(&b.ring, base, 1);
		bench_put(&b, 2);
		assert_int_equal(bench_done(&b), 0);
		assert_int_equal(b.words->err, 0);
		assert_int_equal(b.qp->posted, 1);
		script_end(b.qp, 1);
		bench_run(&b);
		check_dead(&b, 1, err_of(syndromes[i], 1), i < 2 ? ORIEL_DEV_PUT : ORIEL_DEV_FLUSH);
		bench_close(&b);
	}
}

static void test_a_counter_that_fails_ends_the_lane(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_count(&b, 9, 9);
	bench_put(&b, 1);
	bench_run(&b);
	script_end(b.qp, 2);
	bench_run(&b);
	script_fail(b.loop, ORIEL_ERR_ACCESS, ORIEL_SYNDROME_REMOTE_ACCESS);
	bench_run(&b);
	check_dead(&b, 1, err_of(ORIEL_SYNDROME_REMOTE_ACCESS, 1), ORIEL_DEV_COUNTER);
	bench_close(&b);
}

static void test_a_thread_that_gives_up_a_post_ends_the_ring(void **state)
{
	struct ori_dev_link_wait_limits limits = {NULL, 1000000, 1, 0};
	struct bench b;
	uint64_t base;
	unsigned i;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	assert_int_equal(ori_dev_proxy_reserve(&b.ring, DEPTH / 2 + 1, &limits, &base),
			 ORIEL_ERR_RANGE);
	for (i = 0; i < DEPTH; i++)
		bench_put(&b, i);
	assert_int_equal(ori_dev_proxy_reserve(&b.ring, 1, &limits, &base), ORIEL_ERR_TIMEOUT);
	assert_int_equal(ori_dev_queue_err_state(b.ring.err), ORIEL_QUEUE_ABANDONED);
	assert_int_equal(ori_dev_queue_err_index(b.ring.err), DEPTH);
	/* Entries that are done before it count as done. */
	b.qp->is_eager = true;
	bench_run(&b);
	assert_int_equal(ori_dev_proxy_wait(&b.ring, DEPTH - 1, &limits), ORIEL_OK);
	assert_int_equal(ori_dev_proxy_wait(&b.ring, DEPTH, &limits), ORIEL_ERR_TIMEOUT);
	bench_close(&b);
}

/* Random events; nothing is lost, doubled, early or out of order. */
static void run_at_random(unsigned seed)
{
	uint64_t entries = 0, counts = 0, puts = 0, i, before = 0;
	uint32_t depth = 1 + seed % 9;
	struct bench b;

	srand(seed);
	bench_open(&b, depth, 1u << 30);
	while (b.words->completed < 200) {
		int what = rand() % 8;

		if (what < 3 && entries < 200 && entries - b.words->tail < DEPTH) {
			if (rand() % 4) {
				bench_put(&b, puts++);
			} else {
				bench_count(&b, counts++, puts);
			}
			entries++;
		}
		script_grant = (unsigned)rand() % 4;
		ori_proxy_step(b.lane);
		if (what == 4 && b.qp->ended < b.qp->posted)
			script_end(b.qp, 1);
		if (what == 5 && b.loop->ended < b.loop->posted)
			script_end(b.loop, 1);
		if (what == 6)
			ori_loopback_step(b.loopback);
		assert_true(b.words->completed >= before && b.words->completed <= b.words->tail);
		before = b.words->completed;
	}
	assert_int_equal(b.qp->posted, puts);
	assert_int_equal(b.loop->posted, counts);
	for (i = 0; i < puts; i++)
		assert_int_equal(b.qp->log[i].local, i);
	for (i = 0; i < counts; i++)
		assert_int_equal(b.loop->log[i].remote, i);
	bench_close(&b);
}

static void test_at_random(void **state)
{
	unsigned seed;

	(void)state;
	for (seed = 1; seed <= 200; seed++)
		run_at_random(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_failure_ends_all_requests_that_are_not_done),
		cmocka_unit_test(test_the_host_may_abandon_all_requests),
		cmocka_unit_test(test_a_request_that_cannot_be_posted_fails_in_its_turn),
		cmocka_unit_test(test_a_counter_that_fails_ends_the_lane),
		cmocka_unit_test(test_a_thread_that_gives_up_a_post_ends_the_ring),
		cmocka_unit_test(test_at_random),
	};

	return cmocka_run_group_tests_name("rdma_proxy_fail", tests, NULL, NULL);
}
