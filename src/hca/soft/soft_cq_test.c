/* SPDX-License-Identifier: Apache-2.0 */
/* The behaviour of completion queues, and assumptions that a poller must not make. */
#include "hca/soft/soft_arena_test.h"

static uint32_t tail_of(const char *cqe)
{
	return ori_dev_load_acquire32(ori_dev_mlx5_cqe_word(cqe, ORIEL_MLX5_TAIL));
}

static void step_all(struct arena *r)
{
	while (ori_soft_cluster_step(r->cluster))
		;
}

/* Does the only CQE, its opcode ignored, say that all WQEs below @end are retired? */
static bool is_retired(const struct side *s, uint64_t end)
{
	uint32_t counter = ori_dev_mlx5_tail_counter(tail_of(s->cq_ring));

	return ((uint32_t)end - 1 - counter) % 0x10000 == 0;
}

static void open_collapsed(struct arena *r, struct side *s, struct side *peer, const char *config)
{
	struct side_attr attr = {.slot = 1, .depth = 16, .first = 0xfffa, .length = 64};

	arena_open(r, 1, config);
	attr.cluster = r->cluster;
	attr.hca = r->hca[1];
	side_open(peer, &attr);
	attr.hca = r->hca[0];
	attr.is_collapsed = true;
	side_open(s, &attr);
	side_join(s, peer);
}

static void close_collapsed(struct arena *r, struct side *s, struct side *peer)
{
	side_close(s);
	side_close(peer);
	arena_close(r);
}

static void test_a_collapsed_queue_has_the_last_cqe_only(void **state)
{
	struct side s, peer;
	struct arena r;

	(void)state;
	open_collapsed(&r, &s, &peer, "dup_cqe=0.5");
	assert_int_equal(ori_dev_mlx5_tail_completion(tail_of(s.cq_ring)), ORIEL_MLX5_INVALID);
	for (uint64_t i = 0; i < 10; i++)
		side_signal(&s, &peer, 0);
	step_all(&r);
	assert_true(is_retired(&s, s.queue.resv));
	assert_int_equal(ori_dev_mlx5_tail_completion(tail_of(s.cq_ring)), ORIEL_MLX5_DONE);
	for (unsigned i = 64; i < 16 * 64; i++)
		assert_int_equal(s.cq_ring[i], 0);
	assert_int_equal(*side_word(&peer, 0), 10);
	close_collapsed(&r, &s, &peer);
}

/* A poller that reads only the counter sees success; later CQEs overwrite the cause as well. */
static void test_a_collapsed_queue_hides_the_cause_of_an_error(void **state)
{
	struct ori_hca_event event = {.status = ORIEL_OK};
	struct side s, peer;
	struct arena r;

	(void)state;
	open_collapsed(&r, &s, &peer, "");
	side_signal(&s, &peer, 0);
	side_signal(&s, &peer, 64);
	for (unsigned i = 0; i < 5; i++)
		side_signal(&s, &peer, 0);
	step_all(&r);
	assert_int_equal(*side_word(&peer, 0), 1);
	assert_true(is_retired(&s, s.queue.resv));
	assert_int_equal(ori_dev_mlx5_tail_completion(tail_of(s.cq_ring)), ORIEL_MLX5_FAILED);
	assert_int_equal((uint8_t)s.cq_ring[0x37], ORIEL_SYNDROME_FLUSHED);
	assert_int_equal(HCA.poll_event(r.hca[0], &event), ORIEL_OK);
	assert_int_equal(event.syndrome, ORIEL_SYNDROME_REMOTE_ACCESS);
	close_collapsed(&r, &s, &peer);
}

/* The ring of CQEs keeps the first cause, and a poller that polls in order finds it. */
static void test_a_ring_keeps_the_cause(void **state)
{
	struct arena r;
	uint64_t bad;

	(void)state;
	arena_open(&r, 1, "");
	side_signal(&r.a, &r.b, 0);
	bad = side_signal(&r.a, &r.b, LENGTH);
	for (unsigned i = 0; i < 5; i++)
		side_signal(&r.a, &r.b, 0);
	step_all(&r);
	assert_int_not_equal(ori_dev_mlx5_poll(&r.a.queue, r.a.queue.resv - 1), ORIEL_OK);
	assert_int_equal(side_syndrome(&r.a), ORIEL_SYNDROME_REMOTE_ACCESS);
	assert_int_equal(ori_dev_queue_err_index(r.a.queue.err), bad);
	arena_close(&r);
}

/* The HCA does not overwrite CQEs that are not polled: the queue fails instead. */
static void test_an_overrun_ends_the_queue(void **state)
{
	struct side_attr attr = {.slot = 1, .depth = 16, .cq_depth = 4, .length = 64};
	uint32_t record[2] = {0, 0};
	struct soft_counters c;
	struct ori_hca_event event;
	struct side s;
	struct arena r;

	(void)state;
	arena_open(&r, 1, "");
	attr.cluster = r.cluster;
	attr.hca = r.hca[0];
	attr.cq_record = record;
	side_open(&s, &attr);
	side_join_itself(&s);
	for (unsigned i = 0; i < 4; i++)
		side_nop(&s);
	step_all(&r);
	ori_dev_store_release32(record, ori_dev_swap_bytes32(3));
	for (unsigned i = 0; i < 3; i++)
		side_nop(&s);
	step_all(&r);
	ori_soft_counters(r.hca[0], &c);
	assert_int_equal(c.overruns, 0);
	for (unsigned i = 4; i < 8; i++)
		assert_int_equal(ori_dev_mlx5_tail_counter(tail_of(s.cq_ring + i % 4 * 64)),
				 i < 7 ? i : 3);
	side_nop(&s);
	side_nop(&s);
	step_all(&r);
	ori_soft_counters(r.hca[0], &c);
	assert_int_equal(c.overruns, 1);
	assert_int_equal(ori_dev_mlx5_tail_counter(tail_of(s.cq_ring + 3 * 64)), 3);
	assert_int_equal(ori_dev_mlx5_tail_counter(tail_of(s.cq_ring)), 4);
	assert_int_equal(HCA.poll_event(r.hca[0], &event), ORIEL_OK);
	assert_non_null(strstr(event.text, "overrun"));
	side_close(&s);
	arena_close(&r);
}

/* Without a count of polled CQEs the same queue runs for ever. */
static void test_a_cq_without_a_count_has_no_overrun(void **state)
{
	struct side_attr attr = {.slot = 1, .depth = 16, .cq_depth = 4, .length = 64};
	struct side s;
	struct arena r;

	(void)state;
	arena_open(&r, 1, "");
	attr.cluster = r.cluster;
	attr.hca = r.hca[0];
	side_open(&s, &attr);
	side_join_itself(&s);
	for (unsigned i = 0; i < 16; i++)
		side_nop(&s);
	step_all(&r);
	assert_int_equal(ori_dev_mlx5_tail_counter(tail_of(s.cq_ring + 3 * 64)), 15);
	side_close(&s);
	arena_close(&r);
}

static void test_cqes_may_arrive_late_torn_and_twice(void **state)
{
	struct soft_counters c;
	struct arena r;

	(void)state;
	arena_open(&r, 1, "late_cqe=20us,dup_cqe=0.5");
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(side_wait(&r.a, side_signal(&r.a, &r.b, 0)), ORIEL_OK);
	assert_int_equal(*side_word(&r.b, 0), 200);
	ori_soft_counters(r.hca[0], &c);
	assert_true(c.late_cqes > 100 && c.dup_cqes > 20);
	arena_close(&r);
}

/* A zeroed queue says that its first WQE has succeeded. */
static void test_a_queue_of_zeros_would_be_done(void **state)
{
	struct side_attr attr = {.slot = 1, .depth = 16, .length = 64};
	struct side s;
	struct arena r;

	(void)state;
	arena_open(&r, 1, "");
	attr.cluster = r.cluster;
	attr.hca = r.hca[0];
	side_open(&s, &attr);
	s.queue.resv = 1;
	s.queue.turn = ori_dev_mlx5_turn(1, ORIEL_MLX5_RUNG);
	assert_int_equal(ori_dev_mlx5_poll(&s.queue, 0), ORIEL_AGAIN);
	memset(s.cq_ring, 0, 64);
	assert_int_equal(ori_dev_mlx5_poll(&s.queue, 0), ORIEL_OK);
	side_close(&s);
	arena_close(&r);
}

/*
 * Two laps ahead the owner bit is right again: the counter rejects such a CQE,
 * and ready forbids it.
 */
static void test_an_owner_bit_is_good_for_one_lap(void **state)
{
	struct side_attr attr = {.slot = 1, .depth = 4, .length = 64};
	struct side s;
	struct arena r;
	uint32_t tail;

	(void)state;
	arena_open(&r, 1, "");
	attr.cluster = r.cluster;
	attr.hca = r.hca[0];
	side_open(&s, &attr);
	side_join_itself(&s);
	assert_int_equal(side_wait(&s, side_nop(&s)), ORIEL_OK);
	tail = tail_of(s.cq_ring);
	assert_int_equal(ori_dev_mlx5_tail_owner(tail), 8 >> 2 & 1);
	assert_int_not_equal(ori_dev_mlx5_tail_counter(tail), 8);
	assert_int_equal(ori_dev_mlx5_poll(&s.queue, 8), ORIEL_AGAIN);
	side_close(&s);
	arena_close(&r);
}

/* Post a WAIT and a signal after it: has the signal arrived when all HCAs are idle? */
static bool wait_is_over(struct arena *r, struct side *awaited, uint64_t cqe)
{
	struct side companion, loop;
	bool is_over;

	arena_side(r, &companion, 0, 6, 0);
	arena_side(r, &loop, 0, 7, 0);
	side_join(&companion, &loop);
	side_wait_cqe(&companion, awaited->queue.cqn, cqe);
	side_signal(&companion, &loop, 0);
	step_all(r);
	is_over = *side_word(&loop, 0) == 1;
	side_close(&companion);
	side_close(&loop);
	return is_over;
}

/* Distances whose sign 16 bits would get wrong. */
static void test_a_wait_compares_24_bits(void **state)
{
	static const uint64_t nexts[] = {0x20000, 0xfff000, 0x1001000};
	static const uint64_t distances[] = {1, 0x7fff, 0x8000, 0x9000, 0xffff, 0x10000, 0x7fffff};

	(void)state;
	for (unsigned i = 0; i < sizeof(nexts) / sizeof(nexts[0]); i++) {
		struct side_attr attr = {.slot = 1, .depth = 16, .length = 64};
		struct side s;
		struct arena r;

		arena_open(&r, 1, "");
		attr.cluster = r.cluster;
		attr.hca = r.hca[0];
		attr.first = nexts[i];
		side_open(&s, &attr);
		for (unsigned k = 0; k < sizeof(distances) / sizeof(distances[0]); k++) {
			assert_true(wait_is_over(&r, &s, nexts[i] - distances[k]));
			assert_false(wait_is_over(&r, &s, nexts[i] + distances[k] - 1));
		}
		side_close(&s);
		arena_close(&r);
	}
}

/* A counter of 16 bits identifies WQEs only in a ring of at most 2^16. */
static void test_a_ring_is_no_longer_than_its_counter_counts(void **state)
{
	struct ori_hca_cq_attr attr = {.depth = 2 * ORIEL_MLX5_DEPTH_MAX};
	struct ori_hca_cq *cq;
	struct arena r;
	uint32_t cqn;

	(void)state;
	arena_open(&r, 1, "");
	attr.ring = side_alloc((size_t)attr.depth * 64);
	assert_int_equal(HCA.create_cq(r.hca[0], &attr, &cq, &cqn), ORIEL_ERR_INVALID);
	free(attr.ring);
	arena_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_collapsed_queue_has_the_last_cqe_only),
		cmocka_unit_test(test_a_collapsed_queue_hides_the_cause_of_an_error),
		cmocka_unit_test(test_a_ring_keeps_the_cause),
		cmocka_unit_test(test_an_overrun_ends_the_queue),
		cmocka_unit_test(test_a_cq_without_a_count_has_no_overrun),
		cmocka_unit_test(test_cqes_may_arrive_late_torn_and_twice),
		cmocka_unit_test(test_a_queue_of_zeros_would_be_done),
		cmocka_unit_test(test_an_owner_bit_is_good_for_one_lap),
		cmocka_unit_test(test_a_wait_compares_24_bits),
		cmocka_unit_test(test_a_ring_is_no_longer_than_its_counter_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
