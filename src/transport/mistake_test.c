/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes that links have been made with elsewhere (docs/mistakes.md), and what these do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"

#define LENGTH 65536u
#define LONG_NS 20000000000u
#define DEPTH 16u

/* Words at the start of each side's memory; the data begins at DATA. */
enum { SIGNAL = 0, COUNTER = 8, OLD = 16, DATA = 4096 };

struct side {
	struct ori_rdma *rdma;
	struct ori_rdma_link *link;
	const struct oriel_dev_link *dev;
	struct ori_hca_qp_address adapter;
	struct ori_rdma_end end;
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
	ori_rdma_describe(s->rdma, &s->adapter);
	assert_int_equal(ori_rdma_link_create(s->rdma, peer, &s->link), ORIEL_OK);
	assert_int_equal(ori_rdma_link_open(s->link, &s->end), ORIEL_OK);
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
	assert_int_equal(ori_rdma_link_connect(p->a.link, &p->b.adapter, &p->b.end), ORIEL_OK);
	assert_int_equal(ori_rdma_link_connect(p->b.link, &p->a.adapter, &p->a.end), ORIEL_OK);
	ori_rdma_link_begin(p->b.link);
	ori_rdma_link_begin(p->a.link);
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
	return (struct oriel_mlx5_place){at, s->keys.lkey};
}

static struct oriel_mlx5_place there(const struct side *s, uint64_t at)
{
	return (struct oriel_mlx5_place){at, s->keys.rkey};
}

static uint64_t *word(const struct side *s, uint64_t at)
{
	return (uint64_t *)(void *)(s->memory + at);
}

static void wait_for(const struct side *s, uint64_t at, uint64_t least)
{
	assert_int_equal(oriel_link_wait_signal(s->dev, oriel_dev_thread(), word(s, at), least, 0),
			 ORIEL_OK);
}

/* Counters go by WAIT on the index of a CQE: 16 bits of it are not enough. */
static void test_links_go_on_where_indices_wrap(void **state)
{
	static const char *const configs[] = {
		"first=65528",
		"first=16777208",
		"first=4294967288",
		"first=65528,db_loss=1,db_delay=20us,scrub=1",
		"first=16777208,late_cqe=20us,dup_cqe=0.5",
	};
	struct oriel_dev_group g = oriel_dev_thread();

	(void)state;
	for (unsigned k = 0; k < sizeof(configs) / sizeof(configs[0]); k++) {
		struct pair *p = pair_open(configs[k]);

		for (uint64_t i = 1; i <= 2 * DEPTH; i++) {
			memset(p->a.memory + DATA, (int)i, 100);
			assert_true(oriel_link_put_signal_counter(p->a.dev, g, there(&p->b, DATA),
								  here(&p->a, DATA), 100,
								  there(&p->b, SIGNAL), 1,
								  there(&p->a, COUNTER), 1) >= 0);
			wait_for(&p->a, COUNTER, i);
			wait_for(&p->b, SIGNAL, i);
			assert_int_equal(p->b.memory[DATA + 99], (char)i);
			assert_int_equal(*word(&p->a, COUNTER), i);
		}
		pair_close(p);
	}
}

/* A put that fails is not counted, is not quiet, and ends who waits for the counter. */
static void test_a_failed_put_is_never_taken_for_done(void **state)
{
	struct oriel_dev_group g = oriel_dev_thread();
	struct oriel_mlx5_place nowhere;
	struct pair *p;

	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		p = pair_open(k ? "late_cqe=100us" : NULL);
		nowhere = there(&p->b, LENGTH);
		assert_true(oriel_link_put_counter(p->a.dev, g, there(&p->b, DATA),
						   here(&p->a, DATA), 8, there(&p->a, COUNTER),
						   1) >= 0);
		wait_for(&p->a, COUNTER, 1);
		(void)oriel_link_put_counter(p->a.dev, g, nowhere, here(&p->a, DATA), 8,
					     there(&p->a, COUNTER), 1);
		assert_true(oriel_link_wait_signal(p->a.dev, g, word(&p->a, COUNTER), 2, 0) < 0);
		assert_true(oriel_link_fence(p->a.dev, g, 0) < 0);
		assert_true(oriel_link_put(p->a.dev, g, there(&p->b, DATA), here(&p->a, DATA), 8) <
			    0);
		assert_int_equal(*word(&p->a, COUNTER), 1);
		pair_close(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links_go_on_where_indices_wrap),
		cmocka_unit_test(test_a_failed_put_is_never_taken_for_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
