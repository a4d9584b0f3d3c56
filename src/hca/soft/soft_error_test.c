/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HCA detects each fault, reports it to the process that caused it, and
 * stops no other QP.
 */
#include "hca/soft/soft_bench_test.h"

#define LENGTH 8192u
#define DEPTH 16u

static void arena_open(struct arena *r, const char *config)
{
	assert_int_equal(ori_soft_cluster_create(1, &r->cluster), ORIEL_OK);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ori_soft_cluster_open(r->cluster, config, &r->hca[i]), ORIEL_OK);
		side_open(i ? &r->b : &r->a, &(struct side_attr){.cluster = r->cluster,
								 .hca = r->hca[i],
								 .depth = DEPTH,
								 .length = LENGTH});
	}
	side_join(&r->a, &r->b);
}

static int open_arena(void **state)
{
	*state = calloc(1, sizeof(struct arena));
	arena_open(*state, "ack=1ms");
	return 0;
}

/* WQE @index has an error CQE with @syndrome. */
static void expect_cqe(const struct side *s, uint64_t index, uint32_t syndrome)
{
	const char *cqe = s->cq_ring + index % DEPTH * 64;
	uint32_t tail = ori_dev_load_acquire32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));

	assert_int_equal(ori_dev_mlx5_tail_completion(tail), ORIEL_MLX5_FAILED);
	assert_int_equal(ori_dev_mlx5_tail_counter(tail), index & 0xffff);
	assert_int_equal((uint8_t)cqe[0x37], syndrome);
}

static void expect_event(struct ori_hca *hca, uint32_t syndrome, const char *text)
{
	struct ori_hca_event event;

	while (HCA.poll_event(hca, &event) == ORIEL_OK)
		if (event.syndrome == syndrome && strstr(event.text, text))
			return;
	fail_msg("no event 0x%02x with '%s'", syndrome, text);
}

/* WQE @index and a NOP after it fail, and so do later posts. */
static void expect_failure(struct arena *r, uint64_t index, uint32_t syndrome)
{
	uint64_t next = side_nop(&r->a), later;

	assert_int_not_equal(side_wait(&r->a, next), ORIEL_OK);
	assert_int_equal(ori_dev_queue_err_index(r->a.queue.err), index);
	assert_int_equal(side_syndrome(&r->a), syndrome);
	expect_cqe(&r->a, index, syndrome);
	expect_cqe(&r->a, next, ORIEL_SYNDROME_FLUSHED);
	r->a.queue.err = 0;
	later = side_nop(&r->a);
	for (unsigned i = 0; i < 100; i++)
		ori_soft_cluster_step(r->cluster);
	expect_cqe(&r->a, later, ORIEL_SYNDROME_FLUSHED);
}

static void test_a_local_key_that_does_not_fit_is_0x04(void **state)
{
	struct arena *r = *state;
	uint64_t index = side_write(&r->a, &r->b, 0, LENGTH - 8, 9, 0);

	expect_failure(r, index, ORIEL_SYNDROME_LOCAL_PROTECTION);
	expect_event(r->hca[0], ORIEL_SYNDROME_LOCAL_PROTECTION, "WQE 0");
}

static void test_remote_bounds_are_0x13_at_both_sides(void **state)
{
	struct arena *r = *state;
	uint64_t index;

	assert_int_equal(side_wait(&r->a, side_write(&r->a, &r->b, LENGTH - 8, 0, 8, 0)), ORIEL_OK);
	index = side_write(&r->a, &r->b, LENGTH - 8, 0, 9, 0);
	expect_failure(r, index, ORIEL_SYNDROME_REMOTE_ACCESS);
	expect_event(r->hca[1], ORIEL_SYNDROME_REMOTE_ACCESS, "outside");
	assert_int_not_equal(side_wait(&r->b, side_nop(&r->b)), ORIEL_OK);
}

static void test_a_key_that_wraps_around_is_0x13(void **state)
{
	struct arena *r = *state;

	expect_failure(r, side_write(&r->a, &r->b, UINT64_MAX - 3, 0, 8, 0),
		       ORIEL_SYNDROME_REMOTE_ACCESS);
}

static void test_a_read_out_of_bounds_is_0x13(void **state)
{
	struct arena *r = *state;

	expect_failure(r, side_read(&r->a, &r->b, 1, 0, LENGTH, 0), ORIEL_SYNDROME_REMOTE_ACCESS);
}

static void test_a_key_of_unregistered_memory_is_0x13_with_its_cause(void **state)
{
	struct arena *r = *state;
	uint32_t old = r->b.keys.rkey;

	/* Slots of keys are used again, keys are not. */
	for (unsigned i = 0; i < 200; i++) {
		HCA.unregister_memory(r->b.mr);
		assert_int_equal(HCA.register_memory(r->hca[1], r->b.memory, LENGTH, 0, ALL,
						     &r->b.mr, &r->b.keys),
				 ORIEL_OK);
		assert_int_not_equal(r->b.keys.rkey, old);
	}
	r->b.keys.rkey = old;
	expect_failure(r, side_write(&r->a, &r->b, 0, 0, 8, 0), ORIEL_SYNDROME_REMOTE_ACCESS);
	expect_event(r->hca[1], ORIEL_SYNDROME_REMOTE_ACCESS, "unregistered");
}

/* Another registration in the same slot has another key: the old key stays invalid. */
static void test_a_key_is_not_used_again(void **state)
{
	struct arena *r = *state;
	uint32_t old = r->b.keys.rkey;
	unsigned tries = 0;
	uint64_t index;

	do {
		HCA.unregister_memory(r->b.mr);
		assert_int_equal(HCA.register_memory(r->hca[1], r->b.memory, LENGTH, 0, ALL,
						     &r->b.mr, &r->b.keys),
				 ORIEL_OK);
		assert_int_not_equal(r->b.keys.rkey, old);
	} while (r->b.keys.rkey >> 8 != old >> 8 && ++tries < 100);
	assert_int_equal(r->b.keys.rkey >> 8, old >> 8);
	assert_int_equal(side_wait(&r->a, side_write(&r->a, &r->b, 0, 0, 8, 0)), ORIEL_OK);
	r->b.keys.rkey = old;
	index = side_write(&r->a, &r->b, 0, 0, 8, 0);
	expect_failure(r, index, ORIEL_SYNDROME_REMOTE_ACCESS);
	expect_event(r->hca[1], ORIEL_SYNDROME_REMOTE_ACCESS, "unregistered");
}

static void test_access_that_is_not_allowed_is_0x13(void **state)
{
	struct arena *r = *state;

	HCA.unregister_memory(r->b.mr);
	assert_int_equal(HCA.register_memory(r->hca[1], r->b.memory, LENGTH, 0,
					     ORI_HCA_REMOTE_WRITE, &r->b.mr, &r->b.keys),
			 ORIEL_OK);
	assert_int_equal(side_wait(&r->a, side_write(&r->a, &r->b, 0, 0, 8, 0)), ORIEL_OK);
	expect_failure(r, side_signal(&r->a, &r->b, 0), ORIEL_SYNDROME_REMOTE_ACCESS);
}

static void test_an_atomic_that_is_not_aligned_is_0x12(void **state)
{
	struct arena *r = *state;

	expect_failure(r, side_signal(&r->a, &r->b, 4), ORIEL_SYNDROME_REMOTE_REQUEST);
}

/* Peers address @shift bytes behind the beginning of b's memory as @iova. */
static void register_again(struct arena *r, size_t shift, uint64_t iova)
{
	HCA.unregister_memory(r->b.mr);
	assert_int_equal(HCA.register_memory(r->hca[1], r->b.memory + shift, 32, iova, ALL,
					     &r->b.mr, &r->b.keys),
			 ORIEL_OK);
}

/* An address that is aligned may be of memory that is not, and the other way round. */
static void test_an_atomic_on_memory_that_is_not_aligned_is_0x12(void **state)
{
	struct arena *r = *state;

	register_again(r, 4, 0);
	expect_failure(r, side_signal(&r->a, &r->b, 0), ORIEL_SYNDROME_REMOTE_REQUEST);
}

static void test_an_atomic_whose_address_alone_is_not_aligned_is_0x12(void **state)
{
	struct arena *r = *state;

	register_again(r, 0, 4);
	expect_failure(r, side_signal(&r->a, &r->b, 4), ORIEL_SYNDROME_REMOTE_REQUEST);
}

static void test_a_destroyed_peer_is_0x15(void **state)
{
	struct arena *r = *state;
	struct ori_hca_qp_attr attr = {.ring = r->b.sq_ring,
				       .depth = DEPTH,
				       .record = r->b.record,
				       .doorbell = r->b.queue.doorbell,
				       .send_cq = r->b.cq};
	uint64_t index;

	HCA.destroy_qp(r->b.qp);
	index = side_write(&r->a, &r->b, 0, 0, 8, 0);
	expect_failure(r, index, ORIEL_SYNDROME_RETRY_EXCEEDED);
	expect_event(r->hca[0], ORIEL_SYNDROME_RETRY_EXCEEDED, "no answer");
	/* Another QP in its slot is not mistaken for it. */
	assert_int_equal(HCA.create_qp(r->hca[1], &attr, &r->b.qp, &r->b.address), ORIEL_OK);
	assert_int_not_equal(r->b.address.qpn, r->b.queue.qpn);
}

static void test_a_black_hole_is_0x15(void **state)
{
	struct arena r;

	(void)state;
	arena_open(&r, "ack=1ms,black_hole=3");
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(side_wait(&r.a, side_signal(&r.a, &r.b, 0)), ORIEL_OK);
	expect_failure(&r, side_signal(&r.a, &r.b, 0), ORIEL_SYNDROME_RETRY_EXCEEDED);
	assert_int_equal(*side_word(&r.b, 0), 3);
	arena_close(&r);
}

static void test_a_qp_forced_into_error_flushes_the_rest(void **state)
{
	struct arena r;

	(void)state;
	arena_open(&r, "fail_wqe=2,qp=0");
	side_signal(&r.a, &r.b, 0);
	side_signal(&r.a, &r.b, 0);
	assert_int_equal(side_wait(&r.a, 1), ORIEL_OK);
	expect_failure(&r, side_signal(&r.a, &r.b, 0), ORIEL_SYNDROME_FLUSHED);
	assert_int_equal(*side_word(&r.b, 0), 2);
	arena_close(&r);
}

static void test_fail_qp_flushes_all_that_is_posted(void **state)
{
	struct arena *r = *state;
	uint64_t first = side_write(&r->a, &r->b, 0, 0, 8, 0), last = first;

	for (unsigned i = 0; i < 5; i++)
		last = side_nop(&r->a);
	HCA.fail_qp(r->a.qp);
	for (uint64_t i = first; i <= last; i++)
		expect_cqe(&r->a, i, ORIEL_SYNDROME_FLUSHED);
}

static void test_a_waiter_on_a_queue_that_failed_is_flushed(void **state)
{
	struct arena *r = *state;
	struct side companion, loop;
	struct side_attr attr = {.cluster = r->cluster,
				 .hca = r->hca[0],
				 .slot = 1,
				 .depth = DEPTH,
				 .length = 64,
				 .is_companion = true};
	uint64_t index;

	side_open(&companion, &attr);
	attr.slot = 2;
	side_open(&loop, &attr);
	side_join(&companion, &loop);
	side_wait_cqe(&companion, r->a.queue.cqn, 1);
	index = side_signal(&companion, &loop, 0);
	side_write(&r->a, &r->b, 0, 0, 8, 0);
	side_write(&r->a, &r->b, LENGTH, 0, 8, 0);
	assert_int_not_equal(side_wait(&companion, index), ORIEL_OK);
	expect_cqe(&companion, 0, ORIEL_SYNDROME_FLUSHED);
	expect_cqe(&companion, index, ORIEL_SYNDROME_FLUSHED);
	assert_int_equal(*side_word(&loop, 0), 0);
	side_close(&companion);
	side_close(&loop);
}

/* Post a valid WQE of which byte @at is changed by @flip. */
static void spoil(const char *text, unsigned at, uint8_t flip)
{
	struct ori_dev_link_wait_limits limits = side_limits();
	struct soft_counters counters;
	struct arena r;
	uint64_t index = 0;
	uint8_t *slot;

	arena_open(&r, "");
	assert_int_equal(ori_dev_mlx5_reserve(&r.a.queue, 1, &limits, &index), ORIEL_OK);
	slot = ori_dev_mlx5_slot(&r.a.queue, index);
	ori_dev_mlx5_wqe_fetch_add(slot, ori_dev_mlx5_head_of(&r.a.queue, index, 0),
				   side_at(&r.b, 0), ori_dev_mlx5_sink(&r.a.queue), 1);
	slot[at] ^= flip;
	side_publish(&r.a, index);
	expect_failure(&r, index, ORIEL_SYNDROME_LOCAL_OPERATION);
	expect_event(r.hca[0], ORIEL_SYNDROME_LOCAL_OPERATION, text);
	ori_soft_counters(r.hca[0], &counters);
	assert_int_equal(counters.violations, 1);
	assert_int_equal(*side_word(&r.b, 0), 0);
	arena_close(&r);
}

static void ignore_log(void *context, enum oriel_log_level level, const char *message)
{
	char *last = context;

	if (level == ORIEL_LOG_ERROR)
		strncpy(last, message, 511);
}

static void test_a_wqe_that_breaks_the_rules_is_0x02_with_a_dump(void **state)
{
	char last[512] = "";

	(void)state;
	oriel_log_set_sink(ignore_log, last);
	spoil("operation modifier", 0, 1);
	spoil("index of another", 2, 1);
	assert_non_null(strstr(last, "00 00 01 12 "));
	spoil("not supported", 3, 0x40);
	spoil("another QP", 6, 1);
	spoil("length", 7, 1);
	spoil("reserved bits", 7, 0x40);
	spoil("signature", 8, 1);
	spoil("reserved bytes", 9, 1);
	spoil("reserved bits", 11, 1);
	spoil("unknown fence", 11, 0xe0);
	spoil("completion mode", 11, 0x04);
	spoil("reserved bytes", 15, 1);
	spoil("reserved bytes", 31, 1);
	spoil("compare value", 47, 1);
	spoil("not 8 bytes", 51, 1);
	spoil("2^31", 51, 8);
	spoil("2^30", 48, 0x80);
	oriel_log_set_sink(NULL, NULL);
}

/* Ring as no poster should. */
static void misring(const char *text, const char *config, uint64_t doorbell, uint32_t record)
{
	struct arena r;

	arena_open(&r, config);
	assert_int_equal(side_wait(&r.a, side_nop(&r.a)), ORIEL_OK);
	ori_dev_store_release32(&r.a.record[1], ori_dev_mlx5_record_value(record));
	oriel_dev_store_release(r.a.queue.doorbell,
				doorbell ? doorbell
					 : ori_dev_mlx5_doorbell_value(r.a.queue.qpn, record));
	for (unsigned i = 0; i < 100; i++)
		ori_soft_cluster_step(r.cluster);
	if (text)
		expect_event(r.hca[0], ORIEL_SYNDROME_LOCAL_OPERATION, text);
	arena_close(&r);
}

static void test_doorbells_that_break_the_rules_are_reported(void **state)
{
	char last[512] = "";
	uint64_t two, mine;
	struct arena r;

	(void)state;
	arena_open(&r, "");
	mine = r.a.queue.qpn;
	arena_close(&r);
	two = ori_dev_mlx5_doorbell_value((uint32_t)mine, 2);
	oriel_log_set_sink(ignore_log, last);
	misring("another QP", "", ori_dev_mlx5_doorbell_value((uint32_t)mine + 1, 2), 2);
	misring("before its record", "", two, 1);
	misring("went back", "", 0, 0);
	misring("more WQEs", "", 0, 2 + DEPTH);
	oriel_log_set_sink(NULL, NULL);
}

static void test_the_first_doorbell_of_two_may_come_before_the_record(void **state)
{
	struct arena r;

	(void)state;
	arena_open(&r, "double_ring=1");
	ori_dev_mlx5_wqe_nop(r.a.sq_ring, ori_dev_mlx5_head_of(&r.a.queue, 0, 0));
	oriel_dev_store_release(r.a.queue.doorbell, ori_dev_mlx5_doorbell_value(r.a.queue.qpn, 1));
	r.a.queue.resv = 1;
	r.a.queue.turn = ori_dev_mlx5_turn(1, ORIEL_MLX5_RUNG);
	assert_int_equal(side_wait(&r.a, 0), ORIEL_OK);
	arena_close(&r);
}

/* The thread of mlx5_doorbell.c does this if it is held up between its load and its store. */
static void test_a_doorbell_that_a_thread_carries_may_be_older_than_the_ring(void **state)
{
	struct arena *r = *state;
	uint64_t *reg = r->a.queue.doorbell, word = 0, held;

	r->a.queue.doorbell = &word;
	side_nop(&r->a);
	oriel_dev_store_release(reg, word);
	side_nop(&r->a);
	held = word;
	while (r->a.queue.resv < DEPTH)
		side_nop(&r->a);
	/* The first doorbell shows the HCA the record, which has all of the ring. */
	assert_int_equal(side_wait(&r->a, DEPTH - 1), ORIEL_OK);
	while (r->a.queue.resv < 2 * DEPTH)
		side_nop(&r->a);
	oriel_dev_store_release(reg, held);
	assert_int_equal(side_wait(&r->a, 2 * DEPTH - 1), ORIEL_OK);
	oriel_dev_store_release(reg, word);
	for (unsigned i = 0; i < 100; i++)
		ori_soft_cluster_step(r->cluster);
	assert_int_equal(r->a.queue.err, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_arena, close_arena)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_local_key_that_does_not_fit_is_0x04),
		TEST(test_remote_bounds_are_0x13_at_both_sides),
		TEST(test_a_key_that_wraps_around_is_0x13),
		TEST(test_a_read_out_of_bounds_is_0x13),
		TEST(test_a_key_of_unregistered_memory_is_0x13_with_its_cause),
		TEST(test_a_key_is_not_used_again),
		TEST(test_access_that_is_not_allowed_is_0x13),
		TEST(test_an_atomic_that_is_not_aligned_is_0x12),
		TEST(test_an_atomic_on_memory_that_is_not_aligned_is_0x12),
		TEST(test_an_atomic_whose_address_alone_is_not_aligned_is_0x12),
		TEST(test_a_destroyed_peer_is_0x15),
		cmocka_unit_test(test_a_black_hole_is_0x15),
		cmocka_unit_test(test_a_qp_forced_into_error_flushes_the_rest),
		TEST(test_fail_qp_flushes_all_that_is_posted),
		TEST(test_a_waiter_on_a_queue_that_failed_is_flushed),
		cmocka_unit_test(test_a_wqe_that_breaks_the_rules_is_0x02_with_a_dump),
		cmocka_unit_test(test_doorbells_that_break_the_rules_are_reported),
		cmocka_unit_test(test_the_first_doorbell_of_two_may_come_before_the_record),
		TEST(test_a_doorbell_that_a_thread_carries_may_be_older_than_the_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
