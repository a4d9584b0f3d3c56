/* SPDX-License-Identifier: Apache-2.0 */
/* Two HCAs of one process, driven by its thread. */
#include "hca/soft/soft_bench_test.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"

#define LENGTH (2u << 20)
#define AT_WORD 64u
#define POSTERS 64u
#define POSTS 40u

struct pair {
	struct ori_hca *hca[2];
	struct side a, b;
};

static void pair_open(struct pair *p, const char *config, uint32_t depth, uint64_t first)
{
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(HCA.open(config, 0, &p->hca[i]), ORIEL_OK);
	side_open(&p->a, &(struct side_attr){.hca = p->hca[0],
					     .depth = depth,
					     .first = first,
					     .length = LENGTH});
	side_open(&p->b, &(struct side_attr){.hca = p->hca[1],
					     .depth = depth,
					     .first = first,
					     .length = LENGTH});
	side_join(&p->a, &p->b);
}

static void pair_close(struct pair *p)
{
	side_close(&p->a);
	side_close(&p->b);
	for (unsigned i = 0; i < 2; i++)
		HCA.close(p->hca[i]);
}

static int open_pair(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	pair_open(p, "", 64, 0);
	*state = p;
	return 0;
}

static int close_pair(void **state)
{
	pair_close(*state);
	free(*state);
	return 0;
}

static void fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 31 + i / 251 + seed);
}

static const uint32_t sizes[] = {0, 1, 8, 13, 28, 4095, 4096, 4097, 3 * 4096 + 1, 1 << 20};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void test_a_write_of_any_size_arrives_and_nothing_else(void **state)
{
	struct pair *p = *state;

	for (unsigned i = 0; i < SIZES; i++) {
		fill(p->a.memory, LENGTH, i);
		memset(p->b.memory, 0x77, LENGTH);
		assert_int_equal(side_wait(&p->a, side_write(&p->a, &p->b, 1000, 500, sizes[i], 0)),
				 ORIEL_OK);
		assert_memory_equal(p->b.memory + 1000, p->a.memory + 500, sizes[i]);
		assert_int_equal((unsigned char)p->b.memory[999], 0x77);
		assert_int_equal((unsigned char)p->b.memory[1000 + sizes[i]], 0x77);
	}
}

static void test_a_read_of_any_size_arrives_and_nothing_else(void **state)
{
	struct pair *p = *state;

	for (unsigned i = 0; i < SIZES; i++) {
		fill(p->b.memory, LENGTH, i);
		memset(p->a.memory, 0x77, LENGTH);
		assert_int_equal(side_wait(&p->a, side_read(&p->a, &p->b, 500, 1000, sizes[i], 0)),
				 ORIEL_OK);
		assert_memory_equal(p->a.memory + 1000, p->b.memory + 500, sizes[i]);
		assert_int_equal((unsigned char)p->a.memory[999], 0x77);
		assert_int_equal((unsigned char)p->a.memory[1000 + sizes[i]], 0x77);
	}
}

static void test_inline_data_may_be_changed_at_once(void **state)
{
	struct pair *p = *state;
	char data[28];

	for (uint32_t length = 0; length <= sizeof(data); length++) {
		uint64_t index;

		memset(p->b.memory, 0, 64);
		fill(data, sizeof(data), length);
		index = side_inline(&p->a, &p->b, 0, data, length);
		memset(data, 0, sizeof(data));
		assert_int_equal(side_wait(&p->a, index), ORIEL_OK);
		fill(data, sizeof(data), length);
		assert_memory_equal(p->b.memory, data, length);
		assert_int_equal(p->b.memory[length], 0);
	}
}

static void test_atomics_return_the_old_value(void **state)
{
	struct pair *p = *state;

	*side_word(&p->b, AT_WORD) = UINT64_MAX;
	side_wait(&p->a, side_add(&p->a, &p->b, AT_WORD, side_at(&p->a, 0), 3));
	assert_true(*side_word(&p->a, 0) == UINT64_MAX && *side_word(&p->b, AT_WORD) == 2);
	side_wait(&p->a, side_swap(&p->a, &p->b, AT_WORD, 0, 5, 9));
	assert_true(*side_word(&p->a, 0) == 2 && *side_word(&p->b, AT_WORD) == 2);
	side_wait(&p->a, side_swap(&p->a, &p->b, AT_WORD, 8, 2, 9));
	assert_true(*side_word(&p->a, 8) == 2 && *side_word(&p->b, AT_WORD) == 9);
}

static void test_nop_and_dump_complete(void **state)
{
	struct pair *p = *state;

	assert_int_equal(side_wait(&p->a, side_nop(&p->a)), ORIEL_OK);
	assert_int_equal(side_wait(&p->a, side_dump(&p->a, 0, 1, ORIEL_MLX5_FENCE_READS)),
			 ORIEL_OK);
}

/* The index may begin anywhere: shortly before the wraps of 16, 24 and 32 bits. */
static void test_rings_wrap(void **state)
{
	static const uint64_t firsts[] = {0, 0xfff0, 0xfffff0, 0xfffffff0};

	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		struct pair p;

		pair_open(&p, "scrub=1", 4, firsts[k]);
		for (uint64_t i = 1; i <= 64; i++) {
			uint64_t index;

			*side_word(&p.a, 0) = i;
			side_write(&p.a, &p.b, 8, 0, 8, 0);
			index = side_signal(&p.a, &p.b, AT_WORD);
			assert_int_equal(side_wait(&p.a, index), ORIEL_OK);
			assert_int_equal(*side_word(&p.b, 8), i);
			assert_int_equal(*side_word(&p.b, AT_WORD), i);
		}
		pair_close(&p);
	}
}

struct poster {
	pthread_t thread;
	struct pair *pair;
};

static void *post_signals(void *context)
{
	struct poster *me = context;
	struct ori_dev_link_wait_limits limits = side_limits();
	struct ori_dev_mlx5_queue *q = &me->pair->a.queue;

	for (unsigned i = 0; i < POSTS; i++) {
		uint64_t index = 0;

		if (ori_dev_mlx5_reserve(q, 1, &limits, &index) != ORIEL_OK)
			return me;
		ori_dev_mlx5_wqe_fetch_add(ori_dev_mlx5_slot(q, index),
					   ori_dev_mlx5_head_of(q, index, 0),
					   side_at(&me->pair->b, AT_WORD), ori_dev_mlx5_sink(q), 1);
		if (ori_dev_mlx5_publish(q, index, 1, &limits) != ORIEL_OK)
			return me;
		ori_dev_mlx5_ring(q);
		if (i % 16 == 15 && ori_dev_mlx5_wait(q, index, &limits) != ORIEL_OK)
			return me;
	}
	return NULL;
}

static void test_many_threads_post_to_a_small_ring(void **state)
{
	struct poster posters[POSTERS];
	struct pair p;
	void *failed;

	(void)state;
	pair_open(&p, "", 4, 0xfff8);
	for (unsigned i = 0; i < POSTERS; i++) {
		posters[i].pair = &p;
		assert_int_equal(pthread_create(&posters[i].thread, NULL, post_signals,
						&posters[i]),
				 0);
	}
	for (unsigned i = 0; i < POSTERS; i++) {
		pthread_join(posters[i].thread, &failed);
		assert_null(failed);
	}
	assert_int_equal(side_wait(&p.a, p.a.queue.resv - 1), ORIEL_OK);
	assert_int_equal(*side_word(&p.b, AT_WORD), POSTERS * POSTS);
	pair_close(&p);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * The test takes the least of a few sleeps: a host that takes a core away may
 * charge the thread on it.
 */
static void test_an_idle_hca_burns_no_core(void **state)
{
	struct pair *p = *state;
	const struct timespec pause = {.tv_nsec = 100000000};
	uint64_t before, used, least = UINT64_MAX;

	assert_int_equal(side_wait(&p->a, side_nop(&p->a)), ORIEL_OK);
	for (unsigned i = 0; i < 5; i++) {
		before = cpu_ns();
		nanosleep(&pause, NULL);
		used = cpu_ns() - before;
		least = used < least ? used : least;
	}
	assert_true(least < 5000000);
	assert_int_equal(side_wait(&p->a, side_signal(&p->a, &p->b, AT_WORD)), ORIEL_OK);
}

static void test_a_companion_counts_completed_writes(void **state)
{
	struct pair *p = *state;
	struct side companion, responder;

	side_open(&companion, &(struct side_attr){.hca = p->hca[0],
						  .slot = 1,
						  .depth = 16,
						  .length = 64,
						  .is_companion = true});
	side_open(&responder,
		  &(struct side_attr){.hca = p->hca[0], .slot = 2, .depth = 16, .length = 64});
	side_join(&companion, &responder);
	for (uint64_t i = 1; i <= 40; i++) {
		uint64_t index;

		side_wait_cqe(&companion, p->a.queue.cqn, p->a.queue.resv);
		index = side_signal(&companion, &responder, 0);
		assert_int_equal(ori_dev_mlx5_poll(&companion.queue, index), ORIEL_AGAIN);
		assert_int_equal(*side_word(&responder, 0), i - 1);
		side_write(&p->a, &p->b, 0, 0, 4097, 0);
		assert_int_equal(side_wait(&companion, index), ORIEL_OK);
		assert_int_equal(*side_word(&responder, 0), i);
	}
	side_close(&companion);
	side_close(&responder);
}

/* All faults at once, in real time: every promise still holds. */
static void test_the_adversary_changes_nothing_that_is_promised(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p,
		  "drop=0.02,dup=0.02,delay=20us,stall=20us,shuffle=1,late_cqe=20us,db_loss=0.1,"
		  "gather=10us,relaxed=16,late_read=1,scrub=1,ack=2ms,retry=100",
		  16, 0xffffff80);
	for (uint64_t i = 1; i <= 100; i++) {
		memset(p.a.memory + 4096, (int)i, 6000);
		side_write(&p.a, &p.b, 4096, 4096, 6000, 0);
		side_signal(&p.a, &p.b, AT_WORD);
		side_read(&p.a, &p.b, 4096, 20000, 6000, 0);
		assert_int_equal(side_wait(&p.a, side_dump(&p.a, 20000, 1, ORIEL_MLX5_FENCE_READS)),
				 ORIEL_OK);
		assert_int_equal(oriel_dev_load_acquire(side_word(&p.b, AT_WORD)), i);
		assert_memory_equal(p.b.memory + 4096, p.a.memory + 4096, 6000);
		assert_memory_equal(p.a.memory + 20000, p.a.memory + 4096, 6000);
	}
	pair_close(&p);
}

/* Posting costs the same, no byte moves: for measurements. */
static void test_a_sink_completes_and_moves_nothing(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, "sink=1", 16, 0);
	p.a.memory[0] = 1;
	side_write(&p.a, &p.b, 0, 0, 4097, 0);
	assert_int_equal(side_wait(&p.a, side_signal(&p.a, &p.b, AT_WORD)), ORIEL_OK);
	assert_int_equal(p.b.memory[0], 0);
	assert_int_equal(*side_word(&p.b, AT_WORD), 0);
	pair_close(&p);
}

static void test_atomics_may_come_back_big_endian(void **state)
{
	struct ori_hca_caps caps;
	struct pair p;

	(void)state;
	pair_open(&p, "big_endian=1", 16, 0);
	HCA.caps(p.hca[0], &caps);
	assert_false(caps.is_atomic_host_endian);
	*side_word(&p.b, AT_WORD) = 5;
	side_wait(&p.a, side_add(&p.a, &p.b, AT_WORD, side_at(&p.a, 0), 1));
	assert_true(*side_word(&p.a, 0) == UINT64_C(5) << 56 && *side_word(&p.b, AT_WORD) == 6);
	pair_close(&p);
}

static void test_queues_may_begin_at_any_index(void **state)
{
	struct ori_hca_caps caps;
	struct ori_hca *hca;

	(void)state;
	assert_int_equal(HCA.open("first=16777200", 0, &hca), ORIEL_OK);
	HCA.caps(hca, &caps);
	assert_int_equal(caps.first, 16777200);
	HCA.close(hca);
	assert_int_equal(HCA.open("", 0, &hca), ORIEL_OK);
	HCA.caps(hca, &caps);
	assert_int_equal(caps.first, 0);
	HCA.close(hca);
}

static void test_another_mtu_is_rejected(void **state)
{
	struct pair *p = *state;
	struct side other;
	struct ori_hca *hca;

	assert_int_equal(HCA.open("mtu=1024", 0, &hca), ORIEL_OK);
	side_open(&other, &(struct side_attr){.hca = hca, .depth = 4, .length = 8});
	assert_int_equal(HCA.connect_qp(other.qp, &p->a.address), ORIEL_ERR_MISMATCH);
	assert_int_equal(HCA.connect_qp(p->a.qp, &p->b.address), ORIEL_ERR_STATE);
	side_close(&other);
	HCA.close(hca);
}

static void test_an_unknown_setting_is_rejected(void **state)
{
	struct ori_hca *hca;

	(void)state;
	assert_int_equal(HCA.open("dorp=0.1", 0, &hca), ORIEL_ERR_CONFIG);
	assert_non_null(strstr(oriel_last_error(), "dorp"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_write_of_any_size_arrives_and_nothing_else,
						open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_a_read_of_any_size_arrives_and_nothing_else,
						open_pair, close_pair),
		cmocka_unit_test_setup_teardown(test_inline_data_may_be_changed_at_once, open_pair,
						close_pair),
		cmocka_unit_test_setup_teardown(test_atomics_return_the_old_value, open_pair,
						close_pair),
		cmocka_unit_test_setup_teardown(test_nop_and_dump_complete, open_pair, close_pair),
		cmocka_unit_test(test_rings_wrap),
		cmocka_unit_test(test_many_threads_post_to_a_small_ring),
		cmocka_unit_test_setup_teardown(test_an_idle_hca_burns_no_core, open_pair,
						close_pair),
		cmocka_unit_test_setup_teardown(test_a_companion_counts_completed_writes, open_pair,
						close_pair),
		cmocka_unit_test_setup_teardown(test_another_mtu_is_rejected, open_pair,
						close_pair),
		cmocka_unit_test(test_the_adversary_changes_nothing_that_is_promised),
		cmocka_unit_test(test_a_sink_completes_and_moves_nothing),
		cmocka_unit_test(test_atomics_may_come_back_big_endian),
		cmocka_unit_test(test_queues_may_begin_at_any_index),
		cmocka_unit_test(test_an_unknown_setting_is_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
