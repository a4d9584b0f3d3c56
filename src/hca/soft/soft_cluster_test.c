/* SPDX-License-Identifier: Apache-2.0 */
/* Two HCAs stepped by the test: replay, loss, every knob at once. */
#include "hca/soft/soft_arena_test.h"

static uint64_t trace_of(uint64_t seed)
{
	struct arena r;
	uint64_t trace;

	arena_open(&r, seed, "drop=0.05,dup=0.05,delay=20us,stall=5us");
	for (unsigned i = 0; i < 20; i++) {
		side_write(&r.a, &r.b, 0, 0, 5000, 0);
		side_signal(&r.a, &r.b, DATA);
		side_read(&r.b, &r.a, 0, 0, 300, 0);
	}
	assert_int_equal(side_wait(&r.a, r.a.queue.resv - 1), ORIEL_OK);
	assert_int_equal(side_wait(&r.b, r.b.queue.resv - 1), ORIEL_OK);
	trace = ori_soft_cluster_trace(r.cluster);
	arena_close(&r);
	return trace;
}

static void test_a_seed_replays_and_another_does_not(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed < 6; seed++) {
		assert_true(trace_of(seed) == trace_of(seed));
		assert_true(trace_of(seed) != trace_of(seed + 1));
	}
}

static void lossy_run(const char *config, uint64_t seed, struct soft_counters *sum)
{
	struct soft_counters c;
	struct arena r;

	arena_open(&r, seed, config);
	for (uint64_t i = 1; i <= 100; i++) {
		memset(r.a.memory + 4096, (int)i, 9000);
		side_write(&r.a, &r.b, 4096, 4096, 9000, 0);
		side_signal(&r.a, &r.b, 0);
		side_add(&r.a, &r.b, 8, side_at(&r.a, 64), 2);
		side_read(&r.a, &r.b, 4096, 20000, 9000, 0);
		assert_int_equal(side_wait(&r.a, side_signal(&r.a, &r.b, 0)), ORIEL_OK);
		assert_int_equal(*side_word(&r.b, 0), 2 * i);
		assert_int_equal(*side_word(&r.a, 64), 2 * i - 2);
		assert_memory_equal(r.b.memory + 4096, r.a.memory + 4096, 9000);
		assert_memory_equal(r.a.memory + 20000, r.a.memory + 4096, 9000);
	}
	for (unsigned i = 0; i < 2; i++) {
		ori_soft_counters(r.hca[i], &c);
		sum->dropped += c.dropped;
		sum->duplicated += c.duplicated;
		sum->replayed += c.replayed;
		sum->rewound += c.rewound;
		sum->late_cqes += c.late_cqes;
		sum->doorbell_lost += c.doorbell_lost;
		sum->relaxed += c.relaxed;
		sum->stalled += c.stalled;
	}
	arena_close(&r);
}

static void test_atomics_run_once_however_often_packets_arrive(void **state)
{
	struct soft_counters sum = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		lossy_run("drop=0.01", seed, &sum);
	lossy_run("drop=0.1,dup=0.1,ack=1ms,retry=100", 4, &sum);
	assert_true(sum.dropped > 50 && sum.duplicated > 50 && sum.replayed > 50 &&
		    sum.rewound > 50);
}

static void test_every_other_knob_changes_nothing_that_is_promised(void **state)
{
	struct soft_counters sum = {0};

	(void)state;
	lossy_run("delay=30us,stall=30us,stall_rate=0.5,shuffle=1", 1, &sum);
	lossy_run("late_cqe=50us,scrub=1", 2, &sum);
	lossy_run("db_loss=0.5,db_delay=50us", 3, &sum);
	lossy_run("db_loss=1", 4, &sum);
	lossy_run("relaxed=16,gather=20us", 5, &sum);
	assert_true(sum.stalled && sum.late_cqes && sum.doorbell_lost);
}

static void test_a_companion_waits_across_the_wrap_of_24_bits(void **state)
{
	struct side main_side, peer, companion, loop;
	struct arena r;

	(void)state;
	arena_open(&r, 5, "delay=10us");
	side_open(&main_side, &(struct side_attr){.cluster = r.cluster,
						  .hca = r.hca[0],
						  .slot = 5,
						  .depth = 16,
						  .first = 0xfffff8,
						  .length = 64});
	arena_side(&r, &companion, 0, 6, 0);
	arena_side(&r, &loop, 0, 7, 0);
	side_join(&companion, &loop);
	arena_side(&r, &peer, 1, 8, 0);
	side_join(&main_side, &peer);
	for (uint64_t i = 1; i <= 30; i++) {
		uint64_t index;

		side_wait_cqe(&companion, main_side.queue.cqn, main_side.queue.resv);
		index = side_signal(&companion, &loop, 0);
		for (unsigned k = 0; k < 50; k++)
			ori_soft_cluster_step(r.cluster);
		assert_int_equal(*side_word(&loop, 0), i - 1);
		side_signal(&main_side, &peer, 0);
		assert_int_equal(side_wait(&companion, index), ORIEL_OK);
		assert_int_equal(*side_word(&loop, 0), i);
		assert_int_equal(*side_word(&peer, 0), i);
	}
	side_close(&peer);
	side_close(&companion);
	side_close(&loop);
	side_close(&main_side);
	arena_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_seed_replays_and_another_does_not),
		cmocka_unit_test(test_atomics_run_once_however_often_packets_arrive),
		cmocka_unit_test(test_every_other_knob_changes_nothing_that_is_promised),
		cmocka_unit_test(test_a_companion_waits_across_the_wrap_of_24_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
