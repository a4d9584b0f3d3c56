/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two adapters stepped by the test. A litmus runs once per seed: what the
 * adversary may break it must break for some seed, what is promised holds for all.
 */
#include "hca/soft_bench_test.h"

#define SEEDS 60u
#define DATA 1024u
#define LENGTH 65536u

struct arena {
	struct ori_soft_cluster *cluster;
	struct ori_hca *hca[2];
	struct side a, b;
};

static void arena_side(struct arena *r, struct side *s, unsigned which, unsigned slot,
		       unsigned access)
{
	side_open(s, &(struct side_attr){.cluster = r->cluster,
					 .hca = r->hca[which],
					 .slot = slot,
					 .depth = 32,
					 .first = 0xfff8,
					 .length = LENGTH,
					 .access = access,
					 .is_companion = slot > 0});
}

static void arena_open(struct arena *r, uint64_t seed, const char *config)
{
	assert_int_equal(ori_soft_cluster_create(seed, &r->cluster), ORIEL_OK);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ori_soft_cluster_open(r->cluster, config, &r->hca[i]), ORIEL_OK);
	arena_side(r, &r->a, 0, 0, 0);
	arena_side(r, &r->b, 1, 0, 0);
	side_join(&r->a, &r->b);
}

static void arena_close(struct arena *r)
{
	side_close(&r->a);
	side_close(&r->b);
	for (unsigned i = 0; i < 2; i++)
		HCA.close(r->hca[i]);
	ori_soft_cluster_destroy(r->cluster);
}

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

static void lossy_run(const char *config, uint64_t seed, struct ori_soft_counters *sum)
{
	struct ori_soft_counters c;
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

static void test_atomics_happen_once_however_often_packets_come(void **state)
{
	struct ori_soft_counters sum = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		lossy_run("drop=0.01", seed, &sum);
	lossy_run("drop=0.1,dup=0.1,ack=1ms,retry=100", 4, &sum);
	assert_true(sum.dropped > 50 && sum.duplicated > 50 && sum.replayed > 50 &&
		    sum.rewound > 50);
}

static void test_every_other_knob_changes_nothing_that_is_promised(void **state)
{
	struct ori_soft_counters sum = {0};

	(void)state;
	lossy_run("delay=30us,stall=30us,stall_rate=0.5,shuffle=1", 1, &sum);
	lossy_run("late_cqe=50us,scrub=1", 2, &sum);
	lossy_run("db_loss=0.5,db_delay=50us", 3, &sum);
	lossy_run("db_loss=1", 4, &sum);
	lossy_run("relaxed=16,gather=20us", 5, &sum);
	assert_true(sum.stalled && sum.late_cqes && sum.doorbell_lost);
}

/* The 8 bytes at DATA of b hold 7 before word 0 of b is raised: was it ever seen otherwise? */
static bool saw_signal_first(struct arena *r)
{
	while (*side_word(&r->b, 0) == 0)
		if (!ori_soft_cluster_step(r->cluster))
			return true;
	return r->b.memory[DATA] != 7 || r->b.memory[DATA + 4999] != 7;
}

static unsigned broken_by(bool (*litmus)(uint64_t seed, const char *config), const char *config)
{
	unsigned broken = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		broken += litmus(seed, config);
	return broken;
}

static bool signal_on_same_qp(uint64_t seed, const char *config)
{
	struct arena r;
	bool is_broken;

	arena_open(&r, seed, config);
	memset(r.a.memory, 7, 5000);
	side_write(&r.a, &r.b, DATA, 0, 5000, 0);
	side_signal(&r.a, &r.b, 0);
	is_broken = saw_signal_first(&r);
	arena_close(&r);
	return is_broken;
}

static bool signal_on_other_qp(uint64_t seed, const char *config)
{
	struct side a, b;
	struct arena r;
	bool is_broken;

	arena_open(&r, seed, config);
	arena_side(&r, &a, 0, 1, 0);
	arena_side(&r, &b, 1, 1, 0);
	side_join(&a, &b);
	memset(r.a.memory, 7, 5000);
	side_write(&r.a, &r.b, DATA, 0, 5000, 0);
	side_signal(&a, &r.b, 0);
	is_broken = saw_signal_first(&r);
	side_close(&a);
	side_close(&b);
	arena_close(&r);
	return is_broken;
}

static void test_a_signal_follows_its_data_on_the_same_qp_only(void **state)
{
	(void)state;
	assert_int_equal(broken_by(signal_on_same_qp, "delay=20us"), 0);
	assert_int_equal(broken_by(signal_on_same_qp, "drop=0.2,ack=1ms,retry=100"), 0);
	assert_true(broken_by(signal_on_other_qp, "delay=20us") > 0);
}

/* Data in relaxed memory; the signal there as well if @access says so. */
static bool signal_in(uint64_t seed, const char *config, unsigned access)
{
	struct side word;
	struct arena r;
	bool is_broken;

	arena_open(&r, seed, config);
	arena_side(&r, &word, 1, 1, access);
	HCA.unregister_memory(r.b.mr);
	assert_int_equal(HCA.register_memory(r.hca[1], r.b.memory, LENGTH, 0,
					     ALL | ORI_HCA_RELAXED_ORDERING, &r.b.mr, &r.b.keys),
			 ORIEL_OK);
	memset(r.a.memory, 7, 5000);
	side_write(&r.a, &r.b, DATA, 0, 5000, 0);
	side_inline(&r.a, &word, 0, "\1\0\0\0\0\0\0\0", 8);
	while (*side_word(&word, 0) == 0)
		assert_true(ori_soft_cluster_step(r.cluster));
	is_broken = r.b.memory[DATA] != 7 || r.b.memory[DATA + 4999] != 7;
	side_close(&word);
	arena_close(&r);
	return is_broken;
}

static bool signal_in_strict_memory(uint64_t seed, const char *config)
{
	return signal_in(seed, config, ALL);
}

static bool signal_in_relaxed_memory(uint64_t seed, const char *config)
{
	return signal_in(seed, config, ALL | ORI_HCA_RELAXED_ORDERING);
}

static void test_a_signal_needs_strict_memory(void **state)
{
	(void)state;
	assert_int_equal(broken_by(signal_in_strict_memory, "relaxed=64"), 0);
	assert_true(broken_by(signal_in_relaxed_memory, "relaxed=64") > 0);
}

/* What is read from b is written back elsewhere, by a WRITE with @fence. */
static bool read_then_write(uint64_t seed, const char *config, uint32_t fence)
{
	struct arena r;
	bool is_broken;

	arena_open(&r, seed, config);
	memset(r.b.memory, 7, 100);
	side_read(&r.a, &r.b, 0, 0, 100, 0);
	assert_int_equal(side_wait(&r.a, side_write(&r.a, &r.b, DATA, 0, 100, fence)), ORIEL_OK);
	is_broken = r.b.memory[DATA] != 7;
	arena_close(&r);
	return is_broken;
}

static bool read_then_write_unfenced(uint64_t seed, const char *config)
{
	return read_then_write(seed, config, 0);
}

static bool read_then_write_fenced(uint64_t seed, const char *config)
{
	return read_then_write(seed, config, ORIEL_MLX5_FENCE_READS);
}

static bool read_then_write_all(uint64_t seed, const char *config)
{
	return read_then_write(seed, config, ORIEL_MLX5_FENCE_ALL);
}

static void test_a_write_of_what_was_read_needs_a_fence(void **state)
{
	(void)state;
	assert_true(broken_by(read_then_write_unfenced, "delay=5us") > 0);
	assert_int_equal(broken_by(read_then_write_fenced, "delay=5us"), 0);
	assert_int_equal(broken_by(read_then_write_all, "delay=5us"), 0);
}

/* The source is changed @after its CQE or at once. */
static bool source_reused(uint64_t seed, const char *config, bool after)
{
	struct arena r;
	uint64_t index;
	bool is_broken;

	arena_open(&r, seed, config);
	memset(r.a.memory, 7, 5000);
	index = side_write(&r.a, &r.b, DATA, 0, 5000, 0);
	if (after)
		assert_int_equal(side_wait(&r.a, index), ORIEL_OK);
	else
		for (unsigned i = 0; i < 4; i++)
			ori_soft_cluster_step(r.cluster);
	memset(r.a.memory, 8, 5000);
	assert_int_equal(side_wait(&r.a, index), ORIEL_OK);
	is_broken = r.b.memory[DATA] != 7 || r.b.memory[DATA + 4999] != 7;
	arena_close(&r);
	return is_broken;
}

static bool source_reused_early(uint64_t seed, const char *config)
{
	return source_reused(seed, config, false);
}

static bool source_reused_after(uint64_t seed, const char *config)
{
	return source_reused(seed, config, true);
}

static void test_a_source_is_free_after_its_cqe_only(void **state)
{
	(void)state;
	assert_true(broken_by(source_reused_early, "gather=20us") > 0);
	assert_int_equal(broken_by(source_reused_after, "gather=20us,drop=0.1,retry=50"), 0);
}

/* READ into relaxed memory, looked at when it, or the DUMP behind it, is done. */
static bool read_seen(uint64_t seed, const char *config, bool with_dump)
{
	struct arena r;
	uint64_t index;
	bool is_broken;

	arena_open(&r, seed, config);
	HCA.unregister_memory(r.a.mr);
	assert_int_equal(HCA.register_memory(r.hca[0], r.a.memory, LENGTH, 0,
					     ALL | ORI_HCA_RELAXED_ORDERING, &r.a.mr, &r.a.keys),
			 ORIEL_OK);
	memset(r.b.memory, 7, 5000);
	index = side_read(&r.a, &r.b, 0, 0, 5000, 0);
	if (with_dump)
		index = side_dump(&r.a, 0, 1, ORIEL_MLX5_FENCE_READS);
	assert_int_equal(side_wait(&r.a, index), ORIEL_OK);
	is_broken = r.a.memory[0] != 7 || r.a.memory[4999] != 7;
	arena_close(&r);
	return is_broken;
}

static bool read_seen_at_once(uint64_t seed, const char *config)
{
	return read_seen(seed, config, false);
}

static bool read_seen_after_dump(uint64_t seed, const char *config)
{
	return read_seen(seed, config, true);
}

static void test_a_dump_makes_reads_visible(void **state)
{
	(void)state;
	assert_true(broken_by(read_seen_at_once, "relaxed=64,late_read=1") > 0);
	assert_int_equal(broken_by(read_seen_after_dump, "relaxed=64,late_read=1"), 0);
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
		cmocka_unit_test(test_atomics_happen_once_however_often_packets_come),
		cmocka_unit_test(test_every_other_knob_changes_nothing_that_is_promised),
		cmocka_unit_test(test_a_signal_follows_its_data_on_the_same_qp_only),
		cmocka_unit_test(test_a_signal_needs_strict_memory),
		cmocka_unit_test(test_a_write_of_what_was_read_needs_a_fence),
		cmocka_unit_test(test_a_source_is_free_after_its_cqe_only),
		cmocka_unit_test(test_a_dump_makes_reads_visible),
		cmocka_unit_test(test_a_companion_waits_across_the_wrap_of_24_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
