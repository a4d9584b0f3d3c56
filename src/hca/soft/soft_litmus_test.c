/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that assume an order, and their twins that enforce it. */
#include "hca/soft/soft_arena_test.h"

/* Promises that many NICs keep, and that the twin of a program may rely on. */
enum relies {
	RELIES_ON_NEITHER,
	RELIES_ON_ORDER, /* requests of a QP arrive in order: soft_order_test.c has fenced twins */
	RELIES_ON_CQE,   /* a thread of the target sees an acknowledged WRITE */
};

/* Does @right hold with one more liberty, unless it relies on what that takes away? */
static void expect_with(const char *name, litmus right, const char *config, const char *liberty,
			bool holds)
{
	char more[128];
	unsigned found;

	snprintf(more, sizeof(more), "%s%s%s", config, *config ? "," : "", liberty);
	found = broken_by(right, more);
	print_message("%s: its twin with %s: %u break it\n", name, liberty, found);
	assert_int_equal(found == 0, holds);
}

/* As expect_litmus(), and under both adversaries. */
static void expect_everywhere(const char *name, litmus wrong, litmus right, const char *config,
			      enum relies relies)
{
	expect_litmus(name, wrong, right, config);
	expect_with(name, right, config, "reorder=50us", relies != RELIES_ON_ORDER);
	expect_with(name, right, config, "invisible=50us", relies != RELIES_ON_CQE);
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
	expect_everywhere("signal on another QP", signal_on_other_qp, signal_on_same_qp,
			  "delay=20us", RELIES_ON_ORDER);
	assert_int_equal(broken_by(signal_on_same_qp, "drop=0.2,ack=1ms,retry=100"), 0);
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
	expect_everywhere("signal in relaxed memory", signal_in_relaxed_memory,
			  signal_in_strict_memory, "relaxed=64", RELIES_ON_ORDER);
}

/* A WRITE with @fence writes the bytes that a READ brings from b back elsewhere. */
static bool read_then_write(uint64_t seed, const char *config, uint32_t fence)
{
	struct arena r;
	bool is_broken;

	arena_open(&r, seed, config);
	memset(r.b.memory, 7, 100);
	side_read(&r.a, &r.b, 0, 0, 100, 0);
	assert_int_equal(side_wait(&r.a, side_write(&r.a, &r.b, DATA, 0, 100, fence)), ORIEL_OK);
	while (ori_soft_cluster_step(r.cluster))
		;
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

static void test_a_write_of_read_data_needs_a_fence(void **state)
{
	(void)state;
	expect_everywhere("WRITE after READ without a fence", read_then_write_unfenced,
			  read_then_write_fenced, "delay=5us", RELIES_ON_NEITHER);
	expect_everywhere("the same, below OWNER", read_then_write_unfenced, read_then_write_fenced,
			  "late_read=1,below_owner=50us", RELIES_ON_NEITHER);
	assert_int_equal(broken_by(read_then_write_all, "delay=5us"), 0);
}

/* The source changes after its CQE if @after, else at once. */
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
	expect_everywhere("source changed before its CQE", source_reused_early, source_reused_after,
			  "gather=20us", RELIES_ON_CQE);
	expect_everywhere("the same with losses", source_reused_early, source_reused_after,
			  "gather=20us,drop=0.1,retry=50", RELIES_ON_CQE);
}

/*
 * READ into relaxed memory; the program reads the bytes when the READ, or the
 * DUMP after it, completes.
 */
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
	expect_everywhere("READ without DUMP, relaxed", read_seen_at_once, read_seen_after_dump,
			  "relaxed=64,late_read=1", RELIES_ON_NEITHER);
	expect_everywhere("READ without DUMP, below OWNER", read_seen_at_once, read_seen_after_dump,
			  "below_owner=50us,late_read=1", RELIES_ON_NEITHER);
}

/* A poller sees the signal and reads the data: at once, or after a DUMP by its own NIC. */
static bool data_seen(uint64_t seed, const char *config, bool with_dump)
{
	struct arena r;
	bool is_broken;

	arena_open(&r, seed, config);
	memset(r.a.memory, 7, 5000);
	side_write(&r.a, &r.b, DATA, 0, 5000, 0);
	side_signal(&r.a, &r.b, 0);
	while (*side_word(&r.b, 0) == 0)
		assert_true(ori_soft_cluster_step(r.cluster));
	if (with_dump)
		assert_int_equal(side_wait(&r.b, side_dump(&r.b, DATA, 1, 0)), ORIEL_OK);
	is_broken = r.b.memory[DATA] != 7 || r.b.memory[DATA + 4999] != 7;
	arena_close(&r);
	return is_broken;
}

static bool data_seen_at_once(uint64_t seed, const char *config)
{
	return data_seen(seed, config, false);
}

static bool data_seen_after_dump(uint64_t seed, const char *config)
{
	return data_seen(seed, config, true);
}

static void test_below_owner_a_signal_needs_a_dump(void **state)
{
	(void)state;
	expect_everywhere("signal without DUMP, below OWNER", data_seen_at_once,
			  data_seen_after_dump, "below_owner=50us", RELIES_ON_ORDER);
}

/* Held writes arrive by themselves in the end, in their order. */
static void test_below_owner_data_is_late_not_lost(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct arena r;

		arena_open(&r, seed, "below_owner=50us");
		for (char i = 1; i <= 9; i++) {
			r.a.memory[0] = i;
			assert_int_equal(side_wait(&r.a, side_write(&r.a, &r.b, DATA, 0, 1, 0)),
					 ORIEL_OK);
		}
		while (ori_soft_cluster_step(r.cluster))
			;
		assert_int_equal(r.b.memory[DATA], 9);
		arena_close(&r);
	}
}

static void step_some(struct arena *r, uint64_t count)
{
	while (count--)
		ori_soft_cluster_step(r->cluster);
}

/* Post a NOP in two steps, record and doorbell, with time between them. */
static bool rung_in_order(uint64_t seed, const char *config, bool record_first)
{
	struct arena r;
	bool is_broken;
	uint64_t i;

	arena_open(&r, seed, config);
	i = r.a.queue.resv;
	ori_dev_mlx5_wqe_nop(ori_dev_mlx5_slot(&r.a.queue, i),
			     ori_dev_mlx5_head_of(&r.a.queue, i, 0));
	r.a.queue.resv = i + 1;
	r.a.queue.turn = ori_dev_mlx5_turn(i + 1, ORIEL_MLX5_RUNG);
	for (unsigned k = 0; k < 2; k++) {
		if ((k == 0) == record_first)
			ori_dev_store_release32(&r.a.record[1], ori_dev_mlx5_record_value(i + 1));
		else
			oriel_dev_store_release(r.a.queue.doorbell,
						ori_dev_mlx5_doorbell_value(r.a.queue.qpn, i + 1));
		step_some(&r, seed);
	}
	is_broken = side_wait(&r.a, i) != ORIEL_OK;
	arena_close(&r);
	return is_broken;
}

static bool doorbell_first(uint64_t seed, const char *config)
{
	return rung_in_order(seed, config, false);
}

static bool record_first(uint64_t seed, const char *config)
{
	return rung_in_order(seed, config, true);
}

static void no_log(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	(void)level;
	(void)message;
}

/* The HCA reports it, or, if it reads nothing but the record, never executes the WQE. */
static void test_the_record_comes_before_the_doorbell(void **state)
{
	(void)state;
	oriel_log_set_sink(no_log, NULL);
	expect_everywhere("doorbell before its record", doorbell_first, record_first, "",
			  RELIES_ON_NEITHER);
	expect_everywhere("the same, record only", doorbell_first, record_first,
			  "db_loss=1,db_delay=20us", RELIES_ON_NEITHER);
	oriel_log_set_sink(NULL, NULL);
}

/* Ring a WQE before its bytes are written if @before, else after. */
static bool filled(uint64_t seed, const char *config, bool before)
{
	struct arena r;
	bool is_broken;
	uint64_t i;
	void *slot;

	arena_open(&r, seed, config);
	i = side_reserve(&r.a);
	slot = ori_dev_mlx5_slot(&r.a.queue, i);
	if (before)
		ori_dev_mlx5_wqe_nop(slot, ori_dev_mlx5_head_of(&r.a.queue, i, 0));
	side_publish(&r.a, i);
	step_some(&r, seed);
	if (!before)
		ori_dev_mlx5_wqe_nop(slot, ori_dev_mlx5_head_of(&r.a.queue, i, 0));
	is_broken = side_wait(&r.a, i) != ORIEL_OK;
	arena_close(&r);
	return is_broken;
}

static bool filled_late(uint64_t seed, const char *config)
{
	return filled(seed, config, false);
}

static bool filled_before(uint64_t seed, const char *config)
{
	return filled(seed, config, true);
}

static void test_a_wqe_is_written_before_its_doorbell_rings(void **state)
{
	(void)state;
	oriel_log_set_sink(no_log, NULL);
	expect_everywhere("doorbell before its WQE", filled_late, filled_before, "",
			  RELIES_ON_NEITHER);
	oriel_log_set_sink(NULL, NULL);
}

/* This process adds to a word to which an HCA adds as well; or it only reads it. */
static bool word_shared(uint64_t seed, const char *config, bool is_written)
{
	uint64_t old, last = 0;
	struct arena r;
	bool is_broken;

	arena_open(&r, seed, config);
	for (unsigned i = 0; i < 10; i++)
		last = side_signal(&r.a, &r.b, 0);
	for (unsigned i = 0; i < 10; i++) {
		old = *side_word(&r.b, 0);
		step_some(&r, seed % 7 + 1);
		if (is_written)
			*side_word(&r.b, 0) = old + 1;
	}
	assert_int_equal(side_wait(&r.a, last), ORIEL_OK);
	is_broken = *side_word(&r.b, 0) != (is_written ? 20 : 10);
	arena_close(&r);
	return is_broken;
}

static bool word_written_by_the_cpu(uint64_t seed, const char *config)
{
	return word_shared(seed, config, true);
}

static bool word_read_by_the_cpu(uint64_t seed, const char *config)
{
	return word_shared(seed, config, false);
}

static void test_only_hcas_may_write_a_word_that_they_add_to(void **state)
{
	(void)state;
	expect_everywhere("a word to which CPU and HCA add", word_written_by_the_cpu,
			  word_read_by_the_cpu, "", RELIES_ON_NEITHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_signal_follows_its_data_on_the_same_qp_only),
		cmocka_unit_test(test_a_signal_needs_strict_memory),
		cmocka_unit_test(test_a_write_of_read_data_needs_a_fence),
		cmocka_unit_test(test_a_source_is_free_after_its_cqe_only),
		cmocka_unit_test(test_a_dump_makes_reads_visible),
		cmocka_unit_test(test_below_owner_a_signal_needs_a_dump),
		cmocka_unit_test(test_below_owner_data_is_late_not_lost),
		cmocka_unit_test(test_the_record_comes_before_the_doorbell),
		cmocka_unit_test(test_a_wqe_is_written_before_its_doorbell_rings),
		cmocka_unit_test(test_only_hcas_may_write_a_word_that_they_add_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
