/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_proxy_test [rate]: the steps of a lane of the proxy, on an HCA that ends requests
 * when a test says so. "rate" prints the cost of an entry on an HCA that costs nothing.
 */
#include <stdio.h>

#include "base/clock.h"
#include "rdma/lane_test.h"

static void test_an_unpublished_entry_is_not_taken(void **state)
{
	struct bench b;
	uint64_t base, lap;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	b.qp->is_eager = true;
	/* In the first lap slots are zero, later they have stamps of older entries. */
	for (lap = 0; lap < 3; lap++) {
		base = bench_reserve(&b, 3);
		bench_write(&b, base, 100, LKEY, 8);
		bench_write(&b, base + 1, 101, LKEY, 8);
		bench_write(&b, base + 2, 102, LKEY, 8);
		assert_false(ori_proxy_has_requests(b.lane));
		assert_int_equal(bench_done(&b), base);
		assert_int_equal(b.words->tail, base);
		ori_dev_proxy_publish(&b.ring, base, 3);
		assert_true(ori_proxy_has_requests(b.lane));
		assert_int_equal(bench_done(&b), base + 3);
		while (b.ring.resv % DEPTH) {
			bench_put(&b, 1);
			bench_run(&b);
		}
	}
	/* A poster that publishes first does not go first. */
	base = bench_reserve(&b, 2);
	bench_write(&b, base + 1, 7, LKEY, 8);
	ori_dev_proxy_publish(&b.ring, base + 1, 1);
	assert_int_equal(bench_done(&b), base);
	bench_write(&b, base, 6, LKEY, 8);
	ori_dev_proxy_publish(&b.ring, base, 1);
	assert_int_equal(bench_done(&b), base + 2);
	assert_int_equal(b.qp->log[base].local, 6);
	assert_int_equal(b.qp->log[base + 1].local, 7);
	bench_close(&b);
}

static void test_a_stamp_covers_one_entry(void **state)
{
	static const uint64_t indices[] = {0,
					   1,
					   DEPTH,
					   UINT32_MAX,
					   (uint64_t)1 << 32,
					   ((uint64_t)1 << 48) - 1,
					   (uint64_t)1 << 48};
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
		uint64_t stamp = ori_dev_proxy_stamp(indices[i], ORIEL_MLX5_DEPTH_MAX / 2);

		assert_int_equal(ori_dev_proxy_stamp_count(stamp, indices[i]),
				 ORIEL_MLX5_DEPTH_MAX / 2);
		assert_int_equal(ori_dev_proxy_stamp_count(0, indices[i]), 0);
		for (k = 0; k < i && indices[i] - indices[k] != (uint64_t)1 << 48; k++)
			assert_int_equal(ori_dev_proxy_stamp_count(stamp, indices[k]), 0);
	}
}

static void check_request(const struct ori_hca_wr *wr, uint8_t opcode, uint64_t local,
			  uint32_t lkey, uint64_t operand)
{
	assert_int_equal(wr->opcode, opcode);
	assert_int_equal(wr->remote, 1000);
	assert_int_equal(wr->rkey, RKEY);
	assert_int_equal(wr->length, 8);
	if (!wr->data) {
		assert_int_equal(wr->local, local);
		assert_int_equal(wr->lkey, lkey);
	}
	assert_int_equal(wr->operand, operand);
}

static void test_a_request_is_what_its_entry_says(void **state)
{
	uint64_t base;
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	base = bench_reserve(&b, 6);
	bench_other(&b, base, ORIEL_PROXY_WRITE, 0, 1000, 1);
	bench_other(&b, base + 1, ORIEL_PROXY_READ, 0, 1000, 2);
	bench_other(&b, base + 2, ORIEL_PROXY_ADD, 0, 1000, 3);
	bench_other(&b, base + 3, ORIEL_PROXY_FETCH_ADD, 0, 1000, 4);
	bench_other(&b, base + 4, ORIEL_PROXY_WRITE_VALUE, 0, 1000, 5);
	bench_write(&b, base + 5, 77, 0, 0);
	ori_dev_proxy_publish(&b.ring, base, 6);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 6);
	check_request(&b.qp->log[0], ORI_HCA_WRITE, 1001, LKEY, 1);
	check_request(&b.qp->log[1], ORI_HCA_READ, 1001, LKEY, 2);
	check_request(&b.qp->log[2], ORI_HCA_FETCH_ADD, 0, SINK, 3);
	check_request(&b.qp->log[3], ORI_HCA_FETCH_ADD, 1001, LKEY, 4);
	check_request(&b.qp->log[4], ORI_HCA_WRITE, 0, 0, 5);
	assert_non_null(b.qp->log[4].data);
	assert_int_equal(b.qp->values[4], 5);
	/* A put of no bytes is a request as well. */
	assert_int_equal(b.qp->log[5].length, 0);
	assert_int_equal(b.qp->calls, 1);
	script_end(b.qp, 6);
	assert_int_equal(bench_done(&b), 6);
	bench_close(&b);
}

static void test_a_read_flush_is_a_read_into_the_sink(void **state)
{
	uint64_t base;
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	base = bench_reserve(&b, 2);
	bench_other(&b, base, ORIEL_PROXY_READ_FLUSH, 0, 1000, 0);
	bench_other(&b, base + 1, ORIEL_PROXY_ADD, ORIEL_PROXY_FENCE_ALL, 1000, 3);
	ori_dev_proxy_publish(&b.ring, base, 2);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 1);
	check_request(&b.qp->log[0], ORI_HCA_READ, 0, SINK, 0);
	script_end(b.qp, 1);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 2);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 2);
	assert_int_equal(b.finds, 0);
	bench_close(&b);
}

/* A put needs no flush, nor does memory that is ordered. */
static void test_a_result_in_unordered_memory_is_done_after_a_read_flush(void **state)
{
	static const uint32_t opcodes[] = {ORIEL_PROXY_READ, ORIEL_PROXY_FETCH_ADD};
	uint64_t base, i;
	struct bench b;

	(void)state;
	bench_open_unordered(&b, &script_ops, DEPTH, 1u << 30, UNORDERED_KEY);
	bench_put(&b, 1);
	bench_run(&b);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 1);
	assert_int_equal(b.loop->posted, 0);
	for (i = 0; i < 2; i++) {
		base = bench_reserve(&b, 1);
		bench_other(&b, base, opcodes[i], 0, 1000, 0);
		ori_dev_proxy_publish(&b.ring, base, 1);
		bench_run(&b);
		assert_int_equal(b.loop->posted, i);
		script_end(b.qp, 1);
		assert_int_equal(bench_done(&b), base);
		assert_int_equal(b.loop->posted, i + 1);
		assert_int_equal(b.loop->log[i].opcode, ORI_HCA_READ);
		assert_int_equal(b.loop->log[i].remote, 64);
		assert_int_equal(b.loop->log[i].rkey, UNORDERED_KEY);
		assert_int_equal(b.loop->log[i].lkey, SINK);
		script_end(b.loop, 1);
		assert_int_equal(bench_done(&b), base + 1);
	}
	bench_close(&b);
	bench_open(&b, DEPTH, 1u << 30);
	base = bench_reserve(&b, 1);
	bench_other(&b, base, ORIEL_PROXY_READ, 0, 1000, 0);
	ori_dev_proxy_publish(&b.ring, base, 1);
	bench_run(&b);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 1);
	assert_int_equal(b.loop->posted, 0);
	bench_close(&b);
}

static void test_a_post_is_one_chain_whose_last_is_signaled(void **state)
{
	struct bench b;
	uint64_t i;

	(void)state;
	bench_open(&b, 4 * DEPTH, 1u << 30);
	for (i = 0; i < 5; i++)
		bench_put(&b, i);
	bench_run(&b);
	assert_int_equal(b.qp->calls, 1);
	assert_int_equal(b.qp->posted, 5);
	for (i = 0; i < 5; i++)
		assert_int_equal(b.qp->log[i].flags & ORI_HCA_SIGNALED, i == 4);
	script_end(b.qp, 4);
	assert_int_equal(bench_done(&b), 0);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 5);
	bench_close(&b);
}

static void test_an_entry_is_not_done_before_its_completion(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	assert_int_equal(bench_done(&b), 0);
	assert_int_equal(b.words->tail, 1);
	assert_true(ori_proxy_in_flight(b.lane));
	bench_put(&b, 1);
	assert_int_equal(bench_done(&b), 0);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 1);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 2);
	assert_false(ori_proxy_in_flight(b.lane));
	bench_close(&b);
}

static void test_a_slot_is_free_when_it_has_been_copied_and_no_sooner(void **state)
{
	struct ori_dev_link_wait_limits limits = {NULL, 1, 1, 0};
	struct bench b;
	uint64_t i, base;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	script_grant = 0;
	for (i = 0; i < DEPTH; i++)
		bench_put(&b, i);
	bench_run(&b);
	assert_int_equal(b.words->tail, DEPTH);
	/* Entries of one more lap stay in the ring: all copies are in use. */
	for (i = DEPTH; i < 2 * DEPTH; i++)
		bench_put(&b, i);
	bench_run(&b);
	assert_int_equal(b.words->tail, DEPTH);
	assert_false(ori_proxy_has_requests(b.lane));
	assert_int_equal(ori_dev_proxy_reserve(&b.ring, 1, &limits, &base), ORIEL_ERR_TIMEOUT);
	script_grant = UINT32_MAX;
	b.qp->is_eager = true;
	assert_int_equal(bench_done(&b), 2 * DEPTH);
	for (i = 0; i < 2 * DEPTH; i++)
		assert_int_equal(b.qp->log[i].local, i);
	bench_close(&b);
}

/* The lane has copied only the first part of the last post. */
static void test_a_post_is_freed_in_parts(void **state)
{
	struct bench b;
	uint64_t i, base;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	script_grant = 0;
	for (i = 0; i < DEPTH - 3; i++)
		bench_put(&b, i);
	bench_run(&b);
	base = bench_reserve(&b, 5);
	for (i = base; i < base + 5; i++)
		bench_write(&b, i, i, LKEY, 8);
	ori_dev_proxy_publish(&b.ring, base, 5);
	bench_run(&b);
	assert_int_equal(b.words->tail, DEPTH);
	script_grant = UINT32_MAX;
	b.qp->is_eager = true;
	assert_int_equal(bench_done(&b), base + 5);
	for (i = 0; i < base + 5; i++)
		assert_int_equal(b.qp->log[i].local, i);
	bench_close(&b);
}

static void test_a_request_that_a_full_queue_rejects_is_posted_later_and_once(void **state)
{
	static const unsigned grants[] = {1, 3, 0, 2, 7, 1, 1};
	struct bench b;
	uint64_t i;
	size_t k;

	(void)state;
	bench_open(&b, 4, 1u << 30);
	for (i = 0; i < DEPTH; i++)
		bench_put(&b, i);
	for (k = 0; b.words->completed < DEPTH; k++) {
		assert_true(k < 1000);
		script_grant = grants[k % (sizeof(grants) / sizeof(grants[0]))];
		bench_run(&b);
		assert_true(b.qp->posted - b.qp->retired <= 4);
		if (k % 2 && b.qp->ended < b.qp->posted)
			script_end(b.qp, 1);
		bench_run(&b);
	}
	assert_int_equal(b.qp->posted, DEPTH);
	for (i = 0; i < DEPTH; i++)
		assert_int_equal(b.qp->log[i].local, i);
	bench_close(&b);
}

static void test_a_queue_of_any_depth_goes_on(void **state)
{
	struct bench b;
	uint32_t depth;
	uint64_t i;

	(void)state;
	for (depth = 1; depth <= 2 * DEPTH; depth++) {
		bench_open(&b, depth, 1u << 30);
		for (i = 0; i < 5 * DEPTH; i++) {
			bench_put(&b, i);
			bench_run(&b);
			if (i % DEPTH == DEPTH - 1)
				while (b.words->completed <= i) {
					assert_true(b.qp->ended < b.qp->posted);
					script_end(b.qp, 1);
					bench_run(&b);
				}
		}
		assert_int_equal(b.qp->posted, 5 * DEPTH);
		bench_close(&b);
	}
}

static void test_a_counter_waits_for_all_before_it(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_put(&b, 1);
	bench_count(&b, 500, 3);
	bench_put(&b, 2);
	bench_count(&b, 501, 4);
	assert_int_equal(bench_done(&b), 0);
	assert_int_equal(b.qp->posted, 3);
	assert_int_equal(b.loop->posted, 0);
	script_end(b.qp, 2);
	assert_int_equal(bench_done(&b), 0); /* only the end of the chain is signaled */
	assert_int_equal(b.loop->posted, 0);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 2);
	assert_int_equal(b.loop->posted, 2);
	assert_int_equal(b.loop->log[0].opcode, ORI_HCA_FETCH_ADD);
	assert_int_equal(b.loop->log[0].remote, 500);
	assert_int_equal(b.loop->log[0].rkey, RKEY);
	assert_int_equal(b.loop->log[0].lkey, SINK);
	assert_int_equal(b.loop->log[0].operand, 3);
	assert_int_equal(b.loop->log[1].operand, 4);
	script_end(b.loop, 1);
	assert_int_equal(bench_done(&b), 4);
	script_end(b.loop, 1);
	assert_int_equal(bench_done(&b), 5);
	/* Nothing is before these. */
	bench_count(&b, 500, 1);
	bench_count(&b, 500, 1);
	assert_int_equal(bench_done(&b), 5);
	script_end(b.loop, 2);
	assert_int_equal(bench_done(&b), 7);
	bench_close(&b);
}

static void test_counters_wait_for_room(void **state)
{
	struct bench b;
	uint64_t i;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	script_grant = 2;
	for (i = 0; i < 5; i++)
		bench_count(&b, i, i);
	bench_run(&b);
	assert_int_equal(b.loop->posted, 2);
	script_grant = UINT32_MAX;
	bench_run(&b);
	assert_int_equal(b.loop->posted, 5);
	for (i = 0; i < 5; i++)
		assert_int_equal(b.loop->log[i].operand, i);
	script_end(b.loop, 5);
	assert_int_equal(bench_done(&b), 5);
	bench_close(&b);
}

static void test_a_fence_waits_for_all_before_it(void **state)
{
	uint64_t base;
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_count(&b, 9, 9);
	bench_put(&b, 1);
	base = bench_reserve(&b, 2);
	bench_other(&b, base, ORIEL_PROXY_ADD, ORIEL_PROXY_FENCE_ALL, 1000, 1);
	bench_other(&b, base + 1, ORIEL_PROXY_ADD, ORIEL_PROXY_FENCE_NONE, 1000, 1);
	ori_dev_proxy_publish(&b.ring, base, 2);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 2);
	script_end(b.qp, 1);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 2);
	script_end(b.qp, 1);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 4);
	/* A fenced entry with nothing before it starts at once. */
	script_end(b.qp, 2);
	script_end(b.loop, 1);
	assert_int_equal(bench_done(&b), 5);
	base = bench_reserve(&b, 1);
	bench_other(&b, base, ORIEL_PROXY_ADD, ORIEL_PROXY_FENCE_ALL, 1000, 1);
	ori_dev_proxy_publish(&b.ring, base, 1);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 5);
	bench_close(&b);
}

static void test_a_long_entry_is_cut(void **state)
{
	uint64_t base, i;
	struct bench b;

	(void)state;
	bench_open(&b, 2, 100);
	base = bench_reserve(&b, 2);
	bench_write(&b, base, 4000, LKEY, 450);
	bench_write(&b, base + 1, 5000, LKEY, 100);
	ori_dev_proxy_publish(&b.ring, base, 2);
	for (i = 0; i < 6; i++) {
		bench_run(&b);
		assert_int_equal(bench_done(&b), i == 5);
		assert_true(b.qp->posted > i);
		assert_int_equal(b.qp->log[i].local, i < 5 ? 4000 + 100 * i : 5000);
		assert_int_equal(b.qp->log[i].remote, i < 5 ? 4000 + 100 * i : 5000);
		assert_int_equal(b.qp->log[i].length, i == 4 ? 50 : 100);
		script_end(b.qp, 1);
	}
	assert_int_equal(bench_done(&b), 2);
	bench_close(&b);
}

static void test_memory_is_found_by_its_address(void **state)
{
	uint64_t base;
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	b.found = ORIEL_AGAIN;
	base = bench_reserve(&b, 2);
	bench_write(&b, base, 4000, ORIEL_PROXY_LOOKUP, 10);
	ori_dev_proxy_fill(&b.ring, base + 1, ORIEL_PROXY_READ, 0,
			   (struct ori_dev_rdma_address){0, RKEY},
			   (struct ori_dev_rdma_address){4000, ORIEL_PROXY_LOOKUP}, 0, 10);
	ori_dev_proxy_publish(&b.ring, base, 2);
	bench_run(&b);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 0);
	assert_true(b.finds >= 2 && ori_proxy_in_flight(b.lane));
	b.found = ORIEL_OK;
	bench_run(&b);
	assert_int_equal(b.qp->posted, 2);
	assert_int_equal(b.qp->log[0].local, 4010);
	assert_int_equal(b.qp->log[0].lkey, FOUND);
	assert_int_equal(b.qp->log[1].local, 4020);
	assert_int_equal(b.released, 0);
	script_end(b.qp, 2);
	assert_int_equal(bench_done(&b), 2);
	assert_int_equal(b.released, 2);
	assert_int_equal(b.released_well, 2);
	/* A waiter that sees completed finds the result: it is released first. */
	assert_int_equal(b.completed_when_released, 0);
	bench_close(&b);
	assert_int_equal(b.released, 2);
}

#define RATE_ENTRIES 4000000u

/* ns for each entry, from its reservation to the word that says it is done. */
static double rate_of(uint32_t each)
{
	uint64_t entries = 0, start;
	struct bench b;
	double ns;

	bench_open(&b, 4 * DEPTH, 1u << 30);
	b.qp->is_eager = true;
	start = ori_clock_ns();
	while (entries < RATE_ENTRIES) {
		uint64_t base = bench_reserve(&b, each);

		for (uint32_t i = 0; i < each; i++)
			bench_write(&b, base + i, base + i, LKEY, 8);
		ori_dev_proxy_publish(&b.ring, base, each);
		entries += each;
		ori_proxy_step(b.lane);
		script_grant = UINT32_MAX;
	}
	assert_int_equal(bench_done(&b), entries);
	ns = (double)(ori_clock_ns() - start) / (double)entries;
	bench_close(&b);
	return ns;
}

static int print_rate(void)
{
	uint32_t each;

	for (each = 1; each <= DEPTH / 2; each *= 2) {
		double ns = rate_of(each);

		printf("%u entries a post and a step: %.1f ns each, %.1f million/s\n", each, ns,
		       1e3 / ns);
	}
	return 0;
}

static void test_writes_of_a_cpu_may_go_inside(void **state)
{
	const char data[] = "0123456789abcdefghijklmnopqr";
	struct ori_dev_rdma_address to = {0, RKEY}, from = {4000, ORIEL_PROXY_LOOKUP};
	struct bench b;
	uint64_t base;

	(void)state;
	bench_open(&b, DEPTH, 20);
	b.data = data;
	base = bench_reserve(&b, 4);
	bench_write(&b, base, 4000, ORIEL_PROXY_LOOKUP, 20);
	bench_write(&b, base + 1, 4000, ORIEL_PROXY_LOOKUP, 28);
	bench_write(&b, base + 2, 4000, LKEY, 8);
	ori_dev_proxy_fill(&b.ring, base + 3, ORIEL_PROXY_READ, 0, to, from, 0, 8);
	ori_dev_proxy_publish(&b.ring, base, 4);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 5);
	/* The first entry, and both parts of the second one, which is cut. */
	assert_ptr_equal(b.qp->log[0].data, data);
	assert_ptr_equal(b.qp->log[1].data, data);
	assert_ptr_equal(b.qp->log[2].data, data + 20);
	assert_null(b.qp->log[3].data);
	assert_null(b.qp->log[4].data);
	/* An HCA that cannot take data inside uses the sge. */
	assert_int_equal(b.qp->log[1].local, 4028);
	assert_int_equal(b.qp->log[2].local, 4048);
	assert_int_equal(b.qp->log[2].lkey, FOUND);
	assert_int_equal(b.qp->log[4].lkey, FOUND);
	script_end(b.qp, 5);
	assert_int_equal(bench_done(&b), 4);
	assert_int_equal(b.released, 3);
	bench_close(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_unpublished_entry_is_not_taken),
		cmocka_unit_test(test_a_stamp_covers_one_entry),
		cmocka_unit_test(test_a_request_is_what_its_entry_says),
		cmocka_unit_test(test_a_read_flush_is_a_read_into_the_sink),
		cmocka_unit_test(test_a_result_in_unordered_memory_is_done_after_a_read_flush),
		cmocka_unit_test(test_a_post_is_one_chain_whose_last_is_signaled),
		cmocka_unit_test(test_an_entry_is_not_done_before_its_completion),
		cmocka_unit_test(test_a_slot_is_free_when_it_has_been_copied_and_no_sooner),
		cmocka_unit_test(test_a_post_is_freed_in_parts),
		cmocka_unit_test(test_a_request_that_a_full_queue_rejects_is_posted_later_and_once),
		cmocka_unit_test(test_a_queue_of_any_depth_goes_on),
		cmocka_unit_test(test_a_counter_waits_for_all_before_it),
		cmocka_unit_test(test_counters_wait_for_room),
		cmocka_unit_test(test_a_fence_waits_for_all_before_it),
		cmocka_unit_test(test_a_long_entry_is_cut),
		cmocka_unit_test(test_memory_is_found_by_its_address),
		cmocka_unit_test(test_writes_of_a_cpu_may_go_inside),
	};

	if (argc > 1 && strcmp(argv[1], "rate") == 0)
		return print_rate();
	return cmocka_run_group_tests_name("rdma_proxy", tests, NULL, NULL);
}
