/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the queues of ConnectX HCAs, as commands and verbs create them, over the fake. */
#include <unistd.h>

#include "mlx5_side.h"

static void test_rings_by_commands_move_bytes(void **state)
{
	struct fake5_counters before = fake5_counters(), after;

	(void)state;
	assert_report(ORI_MLX5_T1, true, "dedicated");
	assert_pair_works("=mlx5_0", "=mlx5_0");
	assert_pair_works("=mlx5_0", "=mlx5_1");
	after = fake5_counters();
	assert_int_equal(after.refused, before.refused);
	assert_int_equal(after.recovered, before.recovered);
	assert_int_equal(after.stray, before.stray);
	assert_true(after.rung > before.rung);
}

static void test_rings_by_verbs_move_bytes(void **state)
{
	struct fake5_counters before = fake5_counters(), after;

	(void)state;
	setenv("ORIEL_DEVX", "off", 1);
	assert_report(ORI_MLX5_T3, false, "of verbs");
	setenv("ORIEL_TIER", "t1", 1);
	assert_report(ORI_MLX5_T1, false, "of verbs");
	assert_pair_works("=mlx5_0", "=mlx5_1");
	assert_pair_works("=mlx5_2", "=mlx5_2");
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
	after = fake5_counters();
	assert_int_equal(after.commands, before.commands);
	assert_true(after.rung > before.rung);
}

/* Each side may have its own route and tier. */
static void test_sides_of_different_routes_and_tiers_connect(void **state)
{
	struct side a, b;

	(void)state;
	side_open(&a, "=mlx5_0");
	setenv("ORIEL_DEVX", "off", 1);
	setenv("ORIEL_TIER", "t2", 1);
	side_open(&b, "=mlx5_1");
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
	assert_int_equal(side_join(&a, &b), ORIEL_OK);
	sides_move(&a, &b);
	side_close(&a);
	side_close(&b);
}

/* A companion increments a counter when a WRITE is complete, with no thread that polls. */
static void companion_counts(struct side *a, struct side *b)
{
	struct side companion = *a, responder = *a;
	uint64_t base = 0, *count = (uint64_t *)(void *)(a->memory + 512);
	uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS;

	side_open_queue(&companion, 2 * RING_DEPTH, true);
	side_open_queue(&responder, 4, false);
	assert_int_equal(side_join(&companion, &responder), ORIEL_OK);
	*count = 0;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(ori_dev_mlx5_reserve(&companion.queue, 2, &patient, &base),
				 ORIEL_OK);
		ori_dev_mlx5_wqe_wait(ori_dev_mlx5_slot(&companion.queue, base),
				      ori_dev_mlx5_head_of(&companion.queue, base, 0), a->cqn,
				      a->queue.resv);
		ori_dev_mlx5_wqe_fetch_add(ori_dev_mlx5_slot(&companion.queue, base + 1),
					   ori_dev_mlx5_head_of(&companion.queue, base + 1, 0),
					   side_address(a, 512), side_address(a, 4096), 1);
		assert_int_equal(ori_dev_mlx5_post(&companion.queue, base, 2, &patient), ORIEL_OK);
		usleep(2000);
		assert_int_equal(oriel_dev_load_acquire(count), i);
		assert_int_equal(side_write(a, b, 8192, 65536, 100), ORIEL_OK);
		while (oriel_dev_load_acquire(count) != i + 1) {
			assert_int_equal(ori_dev_mlx5_health(&companion.queue), ORIEL_OK);
			assert_true(ori_clock_ns() < until);
			sched_yield();
		}
	}
	assert_int_equal(ori_dev_mlx5_wait(&companion.queue, base + 1, &patient), ORIEL_OK);
	side_close_queue(&companion);
	side_close_queue(&responder);
}

static void test_a_companion_waits(void **state)
{
	static const char *const lacks[] = {"", "master", "stamps", "master,stamps"};
	struct ori_hca_caps caps;
	struct side a, b;

	(void)state;
	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		fake5_without(lacks[i]);
		side_open(&a, "=mlx5_0");
		side_open(&b, "=mlx5_1");
		ops()->caps(a.hca, &caps);
		assert_true(caps.has_wait);
		assert_int_equal(side_join(&a, &b), ORIEL_OK);
		companion_counts(&a, &b);
		side_close(&a);
		side_close(&b);
	}
	fake5_without("");
	assert_int_equal(fake5_left(), 0);
}

static void await_event(struct ori_hca *hca, struct ori_hca_event *event)
{
	uint64_t until = ori_clock_ns() + CALL_PATIENCE_NS;

	while (ops()->poll_event(hca, event) == ORIEL_AGAIN) {
		assert_true(ori_clock_ns() < until);
		sched_yield();
	}
}

static void errors_are_reported(void)
{
	struct ori_hca_event event;
	struct side a, b;

	side_open(&a, "=mlx5_0");
	side_open(&b, "=mlx5_1");
	assert_int_equal(side_join(&a, &b), ORIEL_OK);
	assert_int_equal(ops()->poll_event(a.hca, &event), ORIEL_AGAIN);
	fake5_break("mlx5_0", a.address.qpn);
	await_event(a.hca, &event);
	assert_int_equal(event.status, ORIEL_ERR_ACCESS);
	assert_int_equal(event.qpn, a.address.qpn);
	b.keys.lkey ^= 0x5500;
	assert_int_equal(side_write(&a, &b, 0, 0, 8), ORIEL_ERR_ACCESS);
	assert_int_equal(ori_dev_queue_err_syndrome(a.queue.err), ORIEL_SYNDROME_REMOTE_ACCESS);
	await_event(b.hca, &event);
	assert_int_equal(event.qpn, b.address.qpn);
	side_close(&a);
	side_close(&b);
	assert_int_equal(fake5_left(), 0);
}

static void test_a_cqe_and_an_event_report_each_error(void **state)
{
	(void)state;
	errors_are_reported();
	setenv("ORIEL_DEVX", "off", 1);
	setenv("ORIEL_TIER", "t1", 1);
	errors_are_reported();
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
}

static void queue_fails(void)
{
	struct side a, b;
	uint64_t base = 0;

	side_open(&a, "=mlx5_0");
	side_open(&b, "=mlx5_1");
	/* The peer never answers: posted WQEs stay until the retries end. */
	assert_int_equal(ops()->connect_qp(a.qp, &b.address), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_reserve(&a.queue, 1, &patient, &base), ORIEL_OK);
	ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(&a.queue, base),
			       ori_dev_mlx5_head_of(&a.queue, base, 0), side_address(&b, 0),
			       side_address(&a, 0), 64);
	assert_int_equal(ori_dev_mlx5_post(&a.queue, base, 1, &patient), ORIEL_OK);
	usleep(5000);
	ops()->fail_qp(a.qp);
	ops()->fail_qp(a.qp);
	assert_true(ori_dev_mlx5_wait(&a.queue, base, &patient) < 0);
	assert_int_equal(ori_dev_queue_err_syndrome(a.queue.err), ORIEL_SYNDROME_FLUSHED);
	side_close(&a);
	side_close(&b);
}

static void test_a_failed_queue_is_flushed(void **state)
{
	(void)state;
	queue_fails();
	setenv("ORIEL_DEVX", "off", 1);
	setenv("ORIEL_TIER", "t1", 1);
	queue_fails();
	unsetenv("ORIEL_DEVX");
	unsetenv("ORIEL_TIER");
}

/*
 * More than half as many queues as a page has registers, and rings that are
 * created and destroyed.
 */
static void many_queues_work(void)
{
	enum { PAIRS = 140 };
	static struct side of[2 * PAIRS];
	struct side a, b;
	int left = 0;

	side_open(&a, "=mlx5_0");
	side_open(&b, "=mlx5_0");
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < PAIRS; i++) {
			of[2 * i] = a;
			of[2 * i + 1] = b;
			side_open_queue(&of[2 * i], 4, false);
			side_open_queue(&of[2 * i + 1], 4, false);
			assert_int_equal(side_join(&of[2 * i], &of[2 * i + 1]), ORIEL_OK);
			assert_ptr_not_equal(of[2 * i].queue.doorbell, a.queue.doorbell);
		}
		/* Later rings reuse the chunks of destroyed ones. */
		assert_true(round == 0 || fake5_left() == left);
		left = fake5_left();
		for (unsigned i = 0; i < PAIRS; i++) {
			call_fill(a.memory + 8192, 300, i + round);
			assert_int_equal(side_write(&of[2 * i], &of[2 * i + 1], 8192, 65536, 300),
					 ORIEL_OK);
			assert_memory_equal(a.memory + 8192, b.memory + 65536, 300);
		}
		for (unsigned i = 0; i < 2 * PAIRS; i++)
			side_close_queue(&of[i]);
	}
	side_close(&a);
	side_close(&b);
	assert_int_equal(fake5_left(), 0);
}

static void test_many_queues_work_and_are_reused(void **state)
{
	(void)state;
	many_queues_work();
	setenv("ORIEL_TIER", "t2", 1);
	many_queues_work();
	unsetenv("ORIEL_TIER");
}

static void test_results_of_atomics_are_read_in_the_byte_order_of_the_hca(void **state)
{
	struct ori_hca_caps caps;
	struct side a;

	(void)state;
	side_open(&a, "=mlx5_0");
	ops()->caps(a.hca, &caps);
	assert_true(caps.is_atomic_host_endian);
	side_close(&a);
	setenv("FAKEMLX5_SOFT", "big_endian=1", 1);
	side_open(&a, "=mlx5_0");
	ops()->caps(a.hca, &caps);
	assert_false(caps.is_atomic_host_endian);
	side_close(&a);
	assert_pair_works("=mlx5_0", "=mlx5_1");
	unsetenv("FAKEMLX5_SOFT");
}

/* The same HCA also takes posts by calls. */
static void test_posts_by_calls(void **state)
{
	struct duo d;

	(void)state;
	for (unsigned i = 0; i < CALL_CASES; i++) {
		memset(&d, 0, sizeof(d));
		d.a.ops = d.b.ops = ops();
		assert_int_equal(ops()->open("=mlx5_0", 0, &d.a.hca), ORIEL_OK);
		assert_int_equal(ops()->open("=mlx5_1", 0, &d.b.hca), ORIEL_OK);
		end_open(&d.a, CALL_ALL);
		end_open(&d.b, CALL_ALL);
		duo_join(&d);
		call_cases[i].run(&d);
		end_close(&d.a);
		end_close(&d.b);
		ops()->close(d.a.hca);
		ops()->close(d.b.hca);
		assert_int_equal(fake5_left(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rings_by_commands_move_bytes),
		cmocka_unit_test(test_rings_by_verbs_move_bytes),
		cmocka_unit_test(test_sides_of_different_routes_and_tiers_connect),
		cmocka_unit_test(test_a_companion_waits),
		cmocka_unit_test(test_a_cqe_and_an_event_report_each_error),
		cmocka_unit_test(test_a_failed_queue_is_flushed),
		cmocka_unit_test(test_many_queues_work_and_are_reused),
		cmocka_unit_test(test_results_of_atomics_are_read_in_the_byte_order_of_the_hca),
		cmocka_unit_test(test_posts_by_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
