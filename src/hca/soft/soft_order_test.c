/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of a network that keeps no order (reorder), and of a NIC whose acknowledged
 * writes are not visible yet (invisible): programs that rely on either, and twins that do not.
 */
#include "hca/soft/soft_arena_test.h"

#define FLAG 0u

enum flag_kind {
	FLAG_ADD,
	FLAG_WRITE,
};

/* Sets the flag of @to to 1; the 8 bytes at FLAG of @s are 1 for a WRITE. */
static uint64_t post_flag(struct side *s, const struct side *to, enum flag_kind kind,
			  uint32_t fence)
{
	if (kind == FLAG_WRITE)
		return side_write(s, to, FLAG, FLAG, 8, fence);
	SIDE_POST(s, i,
		  ori_dev_mlx5_wqe_fetch_add(slot, head, side_at(to, FLAG),
					     ori_dev_mlx5_sink(&s->queue), 1));
}

/* 5000 bytes, then a flag with @fence; behind the CQE of the bytes if @after_cqe. */
static bool flag_passes(uint64_t seed, const char *config, enum flag_kind kind, uint32_t fence,
			bool after_cqe)
{
	struct arena r;
	uint64_t index;
	bool is_broken;

	arena_open(&r, seed, config);
	memset(r.a.memory + DATA, 7, 5000);
	*side_word(&r.a, FLAG) = 1;
	index = side_write(&r.a, &r.b, DATA, DATA, 5000, 0);
	if (after_cqe)
		assert_int_equal(side_wait(&r.a, index), ORIEL_OK);
	index = post_flag(&r.a, &r.b, kind, fence);
	is_broken = saw_signal_first(&r);
	assert_int_equal(side_wait(&r.a, index), ORIEL_OK);
	assert_int_equal(r.b.memory[DATA + 4999], 7);
	arena_close(&r);
	return is_broken;
}

static bool atomic_unfenced(uint64_t seed, const char *config)
{
	return flag_passes(seed, config, FLAG_ADD, ORIEL_MLX5_FENCE_NONE, false);
}

static bool atomic_behind_reads(uint64_t seed, const char *config)
{
	return flag_passes(seed, config, FLAG_ADD, ORIEL_MLX5_FENCE_READS, false);
}

static bool atomic_fenced(uint64_t seed, const char *config)
{
	return flag_passes(seed, config, FLAG_ADD, ORIEL_MLX5_FENCE_ALL, false);
}

static bool atomic_behind_cqe(uint64_t seed, const char *config)
{
	return flag_passes(seed, config, FLAG_ADD, ORIEL_MLX5_FENCE_NONE, true);
}

static bool word_unfenced(uint64_t seed, const char *config)
{
	return flag_passes(seed, config, FLAG_WRITE, ORIEL_MLX5_FENCE_NONE, false);
}

static bool word_fenced(uint64_t seed, const char *config)
{
	return flag_passes(seed, config, FLAG_WRITE, ORIEL_MLX5_FENCE_ALL, false);
}

static bool word_behind_cqe(uint64_t seed, const char *config)
{
	return flag_passes(seed, config, FLAG_WRITE, ORIEL_MLX5_FENCE_NONE, true);
}

/* IBV_SEND_FENCE is the fence behind READs and atomics: it does not help. */
static void test_a_flag_needs_strong_order_or_a_cqe_before_it(void **state)
{
	(void)state;
	expect_litmus("atomic", atomic_unfenced, atomic_fenced, "reorder=50us");
	expect_litmus("atomic fenced behind READs", atomic_behind_reads, atomic_behind_cqe,
		      "reorder=50us");
	expect_litmus("WRITE of a word", word_unfenced, word_fenced, "reorder=50us");
	expect_litmus("the same without a CQE", word_unfenced, word_behind_cqe, "reorder=50us");
}

static void test_losses_change_nothing(void **state)
{
	static const char config[] = "reorder=50us,drop=0.1,dup=0.1,ack=1ms,retry=100";

	(void)state;
	assert_int_equal(broken_by(atomic_fenced, config), 0);
	assert_int_equal(broken_by(word_fenced, config), 0);
}

/* A word that only grows is written twice: does it end as the older value? */
static bool cursor_goes_back(uint64_t seed, const char *config, uint32_t fence)
{
	struct arena r;
	uint64_t index = 0;
	bool is_broken;

	arena_open(&r, seed, config);
	for (uint64_t i = 1; i <= 2; i++) {
		*side_word(&r.a, i * 8) = i;
		index = side_write(&r.a, &r.b, FLAG, i * 8, 8, fence);
	}
	assert_int_equal(side_wait(&r.a, index), ORIEL_OK);
	is_broken = *side_word(&r.b, FLAG) != 2;
	arena_close(&r);
	return is_broken;
}

static bool cursor_unfenced(uint64_t seed, const char *config)
{
	return cursor_goes_back(seed, config, ORIEL_MLX5_FENCE_NONE);
}

static bool cursor_fenced(uint64_t seed, const char *config)
{
	return cursor_goes_back(seed, config, ORIEL_MLX5_FENCE_ALL);
}

static void test_two_writes_of_a_word_need_a_fence(void **state)
{
	(void)state;
	expect_litmus("cursor", cursor_unfenced, cursor_fenced, "reorder=50us");
}

/* The bytes are looked at behind the CQE of the WRITE, or of a READ behind it. */
static bool seen_behind_cqe(uint64_t seed, const char *config, bool with_read)
{
	struct arena r;
	uint64_t index;
	bool is_broken;

	arena_open(&r, seed, config);
	memset(r.a.memory + DATA, 7, 5000);
	index = side_write(&r.a, &r.b, DATA, DATA, 5000, 0);
	if (with_read)
		index = side_read(&r.a, &r.b, FLAG, FLAG, 8, ORIEL_MLX5_FENCE_ALL);
	assert_int_equal(side_wait(&r.a, index), ORIEL_OK);
	is_broken = r.b.memory[DATA] != 7 || r.b.memory[DATA + 4999] != 7;
	arena_close(&r);
	return is_broken;
}

static bool seen_behind_cqe_of_write(uint64_t seed, const char *config)
{
	return seen_behind_cqe(seed, config, false);
}

static bool seen_behind_cqe_of_read(uint64_t seed, const char *config)
{
	return seen_behind_cqe(seed, config, true);
}

static void test_an_acknowledged_write_is_visible_behind_a_read(void **state)
{
	(void)state;
	expect_litmus("notified by another path", seen_behind_cqe_of_write, seen_behind_cqe_of_read,
		      "invisible=50us");
	assert_int_equal(broken_by(seen_behind_cqe_of_read, "invisible=50us,reorder=50us"), 0);
}

/* Flags by the NIC that wrote the data come behind the data. */
static void test_flags_of_the_same_nic_follow_invisible_writes(void **state)
{
	(void)state;
	assert_int_equal(broken_by(atomic_unfenced, "invisible=50us"), 0);
	assert_int_equal(broken_by(word_unfenced, "invisible=50us"), 0);
	assert_int_equal(broken_by(atomic_fenced, "invisible=50us,reorder=50us"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_flag_needs_strong_order_or_a_cqe_before_it),
		cmocka_unit_test(test_losses_change_nothing),
		cmocka_unit_test(test_two_writes_of_a_word_need_a_fence),
		cmocka_unit_test(test_an_acknowledged_write_is_visible_behind_a_read),
		cmocka_unit_test(test_flags_of_the_same_nic_follow_invisible_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
