/* SPDX-License-Identifier: Apache-2.0 */
/* Two adapters of this process and a link between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"

#define LENGTH 65536u
#define LONG_NS 20000000000u
#define DEPTH 16u

/* Words at the start of each side's memory; the data begins at DATA. */
enum { SIGNAL = 0, COUNTER = 8, DATA = 4096 };

struct side {
	struct ori_rdma *rdma;
	struct ori_rdma_link *link;
	const struct oriel_dev_link *dev;
	struct ori_hca_qp_address address;
	struct ori_hca_mr *mr;
	struct ori_hca_keys keys;
	struct oriel_dev_fault health;
	char *memory;
};

struct pair {
	struct side a, b;
};

static void side_open(struct side *s, const char *config, unsigned peer)
{
	struct ori_rdma_attr attr = {&ori_hca_soft_ops, config, DEPTH, &s->health, LONG_NS, 100};

	s->memory = aligned_alloc(4096, LENGTH);
	assert_non_null(s->memory);
	memset(s->memory, 0, LENGTH);
	assert_int_equal(ori_rdma_open(&attr, &s->rdma), ORIEL_OK);
	assert_int_equal(ori_rdma_register(s->rdma, s->memory, LENGTH, &s->mr, &s->keys), ORIEL_OK);
	assert_int_equal(ori_rdma_link_create(s->rdma, peer, &s->link, &s->address), ORIEL_OK);
	s->dev = ori_rdma_link_device(s->link);
}

static void side_close(struct side *s)
{
	ori_rdma_link_destroy(s->link);
	ori_rdma_unregister(s->rdma, s->mr);
	ori_rdma_close(s->rdma);
	free(s->memory);
}

static struct pair *pair_open(const char *config)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	side_open(&p->a, config, 1);
	side_open(&p->b, config, 0);
	assert_int_equal(ori_rdma_link_connect(p->a.link, &p->b.address), ORIEL_OK);
	assert_int_equal(ori_rdma_link_connect(p->b.link, &p->a.address), ORIEL_OK);
	return p;
}

static void pair_close(struct pair *p)
{
	side_close(&p->a);
	side_close(&p->b);
	free(p);
}

static struct oriel_mlx5_place here(const struct side *s, uint64_t at)
{
	struct oriel_mlx5_place place = {at, s->keys.lkey};

	return place;
}

static struct oriel_mlx5_place there(const struct side *s, uint64_t at)
{
	struct oriel_mlx5_place place = {at, s->keys.rkey};

	return place;
}

static uint64_t *word(const struct side *s, uint64_t at)
{
	return (uint64_t *)(void *)(s->memory + at);
}

static void fill(struct side *s, size_t length, unsigned seed)
{
	size_t i;

	for (i = 0; i < length; i++)
		s->memory[DATA + i] = (char)(seed + i * 7);
}

static void test_a_signal_comes_after_its_put(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	size_t sizes[] = {0, 1, 8, 13, 4095, 4097, 3 * 4096 + 1};
	uint64_t raised = 0;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fill(&p->a, sizes[i], (unsigned)i + 1);
		assert_true(oriel_link_put_signal(p->a.dev, g, there(&p->b, DATA),
						  here(&p->a, DATA), sizes[i], there(&p->b, SIGNAL),
						  3) >= 0);
		raised += 3;
		assert_int_equal(oriel_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), raised,
							0),
				 ORIEL_OK);
		assert_memory_equal(p->b.memory + DATA, p->a.memory + DATA, sizes[i]);
		assert_int_equal(oriel_link_fence(p->a.dev, g, 0), ORIEL_OK);
	}
	assert_int_equal(oriel_link_read_signal(word(&p->b, SIGNAL)), raised);
	pair_close(p);
}

static void test_a_get_brings_what_is_there(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	int64_t ticket;

	(void)state;
	fill(&p->b, 20000, 5);
	ticket = oriel_link_get(p->a.dev, g, there(&p->b, DATA), here(&p->a, DATA), 20000);
	assert_int_equal(oriel_link_wait_local(p->a.dev, g, ticket, 0), ORIEL_OK);
	assert_memory_equal(p->a.memory + DATA, p->b.memory + DATA, 20000);
	pair_close(p);
}

static void test_a_counter_says_that_the_source_is_free(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	uint64_t i;

	(void)state;
	for (i = 1; i <= 3 * DEPTH; i++) {
		memset(p->a.memory + DATA, (int)i, 5000);
		assert_true(oriel_link_put_signal_counter(p->a.dev, g, there(&p->b, DATA),
							  here(&p->a, DATA), 5000,
							  there(&p->b, SIGNAL), 1,
							  there(&p->a, COUNTER), 2) >= 0);
		assert_int_equal(oriel_link_wait_signal(p->a.dev, g, word(&p->a, COUNTER), 2 * i,
							0),
				 ORIEL_OK);
		assert_int_equal(oriel_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), i, 0),
				 ORIEL_OK);
		assert_int_equal(p->b.memory[DATA + 4999], (char)i);
	}
	assert_true(oriel_link_signal_counter(p->a.dev, g, there(&p->b, SIGNAL), 1,
					      there(&p->a, COUNTER), 1) >= 0);
	assert_int_equal(oriel_link_wait_signal(p->a.dev, g, word(&p->a, COUNTER), 6 * DEPTH + 1,
						0),
			 ORIEL_OK);
	pair_close(p);
}

static void test_a_reset_comes_after_all_signals(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	unsigned i;

	(void)state;
	for (i = 0; i < 100; i++)
		assert_true(oriel_link_signal(p->a.dev, g, there(&p->b, SIGNAL), 1) >= 0);
	assert_true(oriel_link_signal_with_fence(p->a.dev, g, there(&p->b, SIGNAL), 1) >= 0);
	assert_int_equal(oriel_link_reset_signal(p->a.dev, g, there(&p->b, SIGNAL), 0), ORIEL_OK);
	assert_int_equal(oriel_link_read_signal(word(&p->b, SIGNAL)), 0);
	assert_true(oriel_link_put_value(p->a.dev, g, there(&p->b, SIGNAL), 77) >= 0);
	assert_int_equal(oriel_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), 77, 0), ORIEL_OK);
	pair_close(p);
}

struct crew {
	struct pair *p;
	struct oriel_team team;
	uint32_t next;
	int failures;
};

#define CREW 4u
#define ROUNDS 50u

/* Parts of different lengths, empty ones among them, many times round the ring. */
static void *crew_work(void *argument)
{
	struct crew *c = argument;
	struct oriel_dev_group g =
		oriel_dev_team(&c->team, __atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED));
	uint64_t i;

	for (i = 1; i <= ROUNDS; i++) {
		size_t length = i * 61;
		int64_t ticket;

		if (oriel_dev_is_leader(g))
			fill(&c->p->a, length, (unsigned)i);
		oriel_dev_sync(g);
		ticket = oriel_link_put_cooperative(c->p->a.dev, g, there(&c->p->b, DATA),
						    here(&c->p->a, DATA), length);
		if (ticket < 0 ||
		    oriel_link_signal(c->p->a.dev, g, there(&c->p->b, SIGNAL), 1) < 0 ||
		    oriel_link_wait_signal(c->p->b.dev, g, word(&c->p->b, SIGNAL), i, 0) ||
		    oriel_link_fence(c->p->a.dev, g, 0))
			__atomic_fetch_add(&c->failures, 1, __ATOMIC_RELAXED);
		if (oriel_dev_is_leader(g) &&
		    memcmp(c->p->a.memory + DATA, c->p->b.memory + DATA, length))
			__atomic_fetch_add(&c->failures, 1, __ATOMIC_RELAXED);
		oriel_dev_sync(g);
	}
	return NULL;
}

static void test_a_team_shares_the_writing_of_wqes(void **state)
{
	struct crew c = {pair_open(NULL), {0}, 0, 0};
	pthread_t threads[CREW];
	unsigned i;

	(void)state;
	assert_int_equal(oriel_team_open(&c.team, CREW, true), ORIEL_OK);
	for (i = 0; i < CREW; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, crew_work, &c), 0);
	for (i = 0; i < CREW; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(c.failures, 0);
	pair_close(c.p);
}

static void test_more_threads_than_half_the_ring_are_refused(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_team team = {0};
	struct oriel_dev_group leader;
	struct oriel_link_post post;

	(void)state;
	assert_int_equal(oriel_team_open(&team, DEPTH, true), ORIEL_OK);
	leader = oriel_dev_team(&team, 0);
	post = oriel_link_begin(p->a.dev, p->a.dev->main, ORIEL_DEV_PUT, leader.size);
	assert_int_equal(post.status, ORIEL_ERR_RANGE);
	/* Nothing is broken by it. */
	assert_int_equal(p->a.health.state, ORIEL_DEV_FAULT_EMPTY);
	assert_true(oriel_link_signal(p->a.dev, oriel_dev_thread(), there(&p->b, SIGNAL), 1) >= 0);
	assert_int_equal(oriel_link_fence(p->a.dev, oriel_dev_thread(), 0), ORIEL_OK);
	pair_close(p);
}

static void test_a_bad_key_breaks_the_link_and_is_told(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();
	struct oriel_mlx5_place nowhere = there(&p->b, LENGTH - 4);
	int64_t ticket;

	(void)state;
	ticket = oriel_link_put(p->a.dev, g, nowhere, here(&p->a, DATA), 100);
	assert_true(ticket >= 0);
	assert_true(oriel_link_wait_local(p->a.dev, g, ticket, 0) < 0);
	assert_int_equal(p->a.health.state, ORIEL_DEV_FAULT_FULL);
	assert_int_equal(p->a.health.peer, 1);
	assert_int_equal(oriel_mlx5_err_syndrome(p->a.health.seen), ORIEL_MLX5_REMOTE_ACCESS);
	/* Everybody else is told at once, whatever he waits for. */
	assert_true(oriel_link_put(p->a.dev, g, there(&p->b, DATA), here(&p->a, DATA), 8) < 0);
	assert_true(oriel_link_wait_signal(p->a.dev, g, word(&p->a, SIGNAL), 1, 0) < 0);
	pair_close(p);
}

static void test_an_own_limit_harms_nothing(void **state)
{
	struct pair *p = pair_open(NULL);
	struct oriel_dev_group g = oriel_dev_thread();

	(void)state;
	assert_int_equal(oriel_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), 1, 1000000),
			 ORIEL_ERR_TIMEOUT);
	assert_int_equal(p->b.health.state, ORIEL_DEV_FAULT_EMPTY);
	assert_true(oriel_link_signal(p->a.dev, g, there(&p->b, SIGNAL), 1) >= 0);
	assert_int_equal(oriel_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), 1, 0), ORIEL_OK);
	pair_close(p);
}

static void test_loss_changes_nothing(void **state)
{
	struct pair *p = pair_open("seed=7,drop=0.05,ack=2ms");
	struct oriel_dev_group g = oriel_dev_thread();
	uint64_t i;

	(void)state;
	for (i = 1; i <= 200; i++) {
		fill(&p->a, 5000, (unsigned)i);
		assert_true(oriel_link_put_signal(p->a.dev, g, there(&p->b, DATA),
						  here(&p->a, DATA), 5000, there(&p->b, SIGNAL),
						  1) >= 0);
		assert_int_equal(oriel_link_wait_signal(p->b.dev, g, word(&p->b, SIGNAL), i, 0),
				 ORIEL_OK);
		assert_memory_equal(p->b.memory + DATA, p->a.memory + DATA, 5000);
		assert_int_equal(oriel_link_fence(p->a.dev, g, 0), ORIEL_OK);
	}
	assert_int_equal(oriel_link_read_signal(word(&p->b, SIGNAL)), 200);
	pair_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_signal_comes_after_its_put),
		cmocka_unit_test(test_a_get_brings_what_is_there),
		cmocka_unit_test(test_a_counter_says_that_the_source_is_free),
		cmocka_unit_test(test_a_reset_comes_after_all_signals),
		cmocka_unit_test(test_a_team_shares_the_writing_of_wqes),
		cmocka_unit_test(test_more_threads_than_half_the_ring_are_refused),
		cmocka_unit_test(test_a_bad_key_breaks_the_link_and_is_told),
		cmocka_unit_test(test_an_own_limit_harms_nothing),
		cmocka_unit_test(test_loss_changes_nothing),
	};

	return cmocka_run_group_tests_name("rdma", tests, NULL, NULL);
}
