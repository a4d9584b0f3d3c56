/* SPDX-License-Identifier: Apache-2.0 */
/* Masked atomics, of one block and of two, and requests that must not be mixed with them. */
#include "hca/soft/soft_arena_test.h"

#define AT 256u /* of the word of b */
#define OLD 8u  /* where a gets the old value */

static uint32_t *word32(struct side *s, uint64_t offset)
{
	return (uint32_t *)(void *)(s->memory + offset);
}

static int open_arena(void **state)
{
	*state = calloc(1, sizeof(struct arena));
	arena_open(*state, 1, "");
	return 0;
}

/* The 4 bytes at AT become @before; their neighbours must not change. */
static void begin32(struct arena *r, uint32_t before)
{
	memset(r->b.memory + AT - 4, 0x11, 12);
	*word32(&r->b, AT) = before;
	memset(r->a.memory + OLD - 4, 0x11, 12);
}

/* The result is big-endian, whatever the HCA does with 8 bytes. */
static void expect32(struct arena *r, uint64_t index, uint32_t before, uint32_t after)
{
	assert_int_equal(side_wait(&r->a, index), ORIEL_OK);
	assert_int_equal(*word32(&r->b, AT), after);
	assert_int_equal(*word32(&r->b, AT - 4), 0x11111111);
	assert_int_equal(*word32(&r->b, AT + 4), 0x11111111);
	assert_int_equal(ori_dev_swap_bytes32(*word32(&r->a, OLD)), before);
	assert_int_equal(*word32(&r->a, OLD - 4), 0x11111111);
	assert_int_equal(*word32(&r->a, OLD + 4), 0x11111111);
}

static void test_carries_stop_at_boundaries_of_4_bytes(void **state)
{
	static const struct {
		uint32_t before, add, boundary, after;
	} cases[] = {
		{5, 3, 0, 8},
		{0xffffffff, 1, 0, 0},
		{0xff00ff00, 0x0ff00ff0, UINT32_MAX, 0xf0f0f0f0}, /* exclusive or */
		{0x00ff, 0x0001, 0x0080, 0x0000},                 /* two fields */
		{0x00ff, 0x0101, 0x0080, 0x0100},
		{0x80000000, 0x80000000, 0x80000000, 0},
		{0x7fffffff, 1, 0x40000000, 0},
	};
	struct arena *r = *state;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin32(r, cases[i].before);
		expect32(r, side_add32(&r->a, &r->b, AT, OLD, cases[i].add, cases[i].boundary),
			 cases[i].before, cases[i].after);
	}
}

static void test_carries_stop_at_boundaries_of_8_bytes(void **state)
{
	static const struct {
		uint64_t before, add, boundary, after;
	} cases[] = {
		{UINT32_MAX, 1, 0, UINT64_C(1) << 32},
		{UINT32_MAX, 1, UINT64_C(1) << 31, 0},
		{UINT64_MAX, 1, UINT64_C(1) << 31, UINT64_C(0xffffffff00000000)},
		{UINT64_C(0xf0f0), UINT64_C(0xff00), UINT64_MAX, 0x0ff0},
	};
	struct arena *r = *state;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t index;

		*side_word(&r->b, AT) = cases[i].before;
		index = side_add64(&r->a, &r->b, AT, OLD, cases[i].add, cases[i].boundary);
		assert_int_equal(side_wait(&r->a, index), ORIEL_OK);
		assert_true(*side_word(&r->b, AT) == cases[i].after);
		assert_true(*side_word(&r->a, OLD) == cases[i].before);
	}
}

static void test_a_masked_swap_of_4_bytes(void **state)
{
	static const struct {
		struct ori_dev_mlx5_swap s;
		uint32_t before, after;
	} cases[] = {
		{{9, 5, UINT32_MAX, UINT32_MAX}, 5, 9},
		{{9, 5, UINT32_MAX, UINT32_MAX}, 6, 6},
		{{0xaaaa, 0, UINT32_MAX, 0}, 77, 0xaaaa},           /* set */
		{{0x0f0f, 0, 0x0f0f, 0}, 0x1100, 0x1f0f},           /* or */
		{{0x0f0f, 0, ~0x0f0fu, 0}, 0xffffffff, 0x00000f0f}, /* and */
		{{0xff, 0x1200, 0xff, 0xff00}, 0x3412aa, 0x3412ff},
		{{0xff, 0x1200, 0xff, 0xff00}, 0x3412, 0x3412},
		{{0xff, 0x3400, 0xff, 0xff00}, 0x123412, 0x1234ff},
	};
	struct arena *r = *state;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin32(r, cases[i].before);
		expect32(r, side_swap32(&r->a, &r->b, AT, OLD, &cases[i].s), cases[i].before,
			 cases[i].after);
	}
}

/* Posts as many blocks from *@index on as the WQE has. */
static uint64_t post_swap64(struct side *s, const struct side *to, uint64_t offset,
			    const struct ori_dev_mlx5_swap *swap)
{
	struct ori_dev_link_wait_limits limits = side_limits();
	uint64_t index = 0;

	assert_int_equal(ori_dev_mlx5_reserve(&s->queue, 2, &limits, &index), ORIEL_OK);
	ori_dev_mlx5_wqe_masked_swap64(ori_dev_mlx5_slot(&s->queue, index),
				       ori_dev_mlx5_slot(&s->queue, index + 1),
				       ori_dev_mlx5_head_of(&s->queue, index, 0),
				       side_at(to, offset), side_at(s, OLD), swap);
	assert_int_equal(ori_dev_mlx5_publish(&s->queue, index, 2, &limits), ORIEL_OK);
	ori_dev_mlx5_ring(&s->queue);
	return index;
}

static uint32_t counter_of(const struct side *s, uint64_t cqe)
{
	return ori_dev_mlx5_tail_counter(ori_dev_load_acquire32(
		ori_dev_mlx5_cqe_word(s->cq_ring + cqe % 32 * 64, ORIEL_MLX5_TAIL)));
}

static void step_all(struct arena *r)
{
	while (ori_soft_cluster_step(r->cluster))
		;
}

/* The WQE may begin in the last slot of the ring and end in the first. */
static void test_a_masked_swap_of_8_bytes_takes_two_blocks(void **state)
{
	const struct ori_dev_mlx5_swap s = {UINT64_C(0x1122334455667788), UINT64_C(0xff00),
					    UINT64_C(0xffffffff00000000), UINT64_C(0xff00)};
	struct arena *r = *state;
	uint64_t index;

	while (r->a.queue.resv % 32 != 31)
		assert_int_equal(side_wait(&r->a, side_nop(&r->a)), ORIEL_OK);
	*side_word(&r->b, AT) = UINT64_C(0xaabbccddeeffff99);
	index = post_swap64(&r->a, &r->b, AT, &s);
	step_all(r);
	assert_true(*side_word(&r->b, AT) == UINT64_C(0x11223344eeffff99));
	assert_true(*side_word(&r->a, OLD) == UINT64_C(0xaabbccddeeffff99));
	assert_int_equal(counter_of(&r->a, index), index & 0xffff);
	/* The CQE of the next WQE has number index + 1, and that queue takes it for a stray. */
	side_nop(&r->a);
	step_all(r);
	assert_int_equal(counter_of(&r->a, index + 1), (index + 2) & 0xffff);
	assert_int_equal(ori_dev_mlx5_poll(&r->a.queue, index + 2), ORIEL_ERR_PROTOCOL);
	assert_int_equal(ori_dev_queue_err_state(r->a.queue.err), ORIEL_QUEUE_STRAY_CQE);
}

static void test_two_blocks_are_flushed_as_one_wqe(void **state)
{
	const struct ori_dev_mlx5_swap s = {1, 0, UINT64_MAX, 0};
	struct arena *r = *state;
	uint64_t index;

	index = side_signal(&r->a, &r->b, LENGTH);
	post_swap64(&r->a, &r->b, AT, &s);
	side_nop(&r->a);
	step_all(r);
	assert_int_equal(counter_of(&r->a, index + 1), (index + 1) & 0xffff);
	assert_int_equal(counter_of(&r->a, index + 2), (index + 3) & 0xffff);
	assert_int_equal(*side_word(&r->b, AT), 0);
	assert_int_equal(r->a.cq_ring[(index + 3) % 32 * 64 + 63], (char)0xff);
	/* The same if they are posted to a queue that has failed already. */
	r->a.queue.err = 0;
	post_swap64(&r->a, &r->b, AT, &s);
	side_nop(&r->a);
	step_all(r);
	assert_int_equal(counter_of(&r->a, index + 3), (index + 4) & 0xffff);
	assert_int_equal(counter_of(&r->a, index + 4), (index + 6) & 0xffff);
}

static void test_masked_atomics_run_once(void **state)
{
	struct arena r;

	(void)state;
	arena_open(&r, 3, "drop=0.1,dup=0.1,ack=1ms,retry=100");
	for (uint32_t i = 1; i <= 100; i++) {
		assert_int_equal(side_wait(&r.a, side_add32(&r.a, &r.b, AT, OLD, 1, 0)), ORIEL_OK);
		assert_int_equal(ori_dev_swap_bytes32(*word32(&r.a, OLD)), i - 1);
	}
	assert_int_equal(*side_word(&r.b, AT), 100);
	arena_close(&r);
}

static void test_4_bytes_are_aligned_to_4(void **state)
{
	struct arena *r = *state;
	uint64_t index = side_add32(&r->a, &r->b, AT + 2, OLD, 1, 0);

	assert_int_not_equal(side_wait(&r->a, index), ORIEL_OK);
	assert_int_equal(side_syndrome(&r->a), ORIEL_SYNDROME_REMOTE_REQUEST);
	assert_int_equal(*side_word(&r->b, AT), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_arena, close_arena)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_carries_stop_at_boundaries_of_4_bytes),
		TEST(test_carries_stop_at_boundaries_of_8_bytes),
		TEST(test_a_masked_swap_of_4_bytes),
		TEST(test_a_masked_swap_of_8_bytes_takes_two_blocks),
		TEST(test_two_blocks_are_flushed_as_one_wqe),
		cmocka_unit_test(test_masked_atomics_run_once),
		TEST(test_4_bytes_are_aligned_to_4),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
