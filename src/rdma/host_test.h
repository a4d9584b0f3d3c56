/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of a link that the host drives, with NICs of their own, and claims that hold for
 * links of any rails and queues, for the tests of such links.
 */
#ifndef ORI_RDMA_HOST_TEST_H
#define ORI_RDMA_HOST_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <oriel/dev/detail/order.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "hca/test_support/soft_cluster.h"
#include "rdma/rdma_host.h"

#define LENGTH (1u << 20)
#define HALF (LENGTH / 2)
#define PIECE 4096u
#define SIGNAL (LENGTH - 64) /* words at the end */
#define PATIENCE_NS UINT64_C(30000000000)
#define SEEDS 40u
#define ALL \
	(ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ | ORI_HCA_REMOTE_ATOMIC)

static const char *hcas[2]; /* of libibverbs; NULL: a software HCA */

struct side {
	unsigned rails;
	struct ori_hca *hcas[ORIEL_DEV_RAILS];
	struct ori_hca_qp_address hca_addresses[ORIEL_DEV_RAILS];
	struct ori_hca_mr *mrs[ORIEL_DEV_RAILS];
	struct oriel_dev_keys lkeys, rkeys;
	struct ori_host_link *link;
	struct ori_host_qps end;
	char *memory;
};

struct pair {
	const struct ori_hca_ops *ops;
	struct ori_soft_cluster *cluster; /* NULL: its thread steps it */
	struct side a, b;
};

struct pair_attr {
	const char *config; /* of software HCAs */
	const char *last;   /* ... of the last rail of each side; NULL: config */
	uint64_t seed;      /* step by step; 0: by their thread */
	struct ori_host_attr host;
};

static inline void side_open_rail(struct pair *p, struct side *s, const struct pair_attr *attr,
				  unsigned which, unsigned rail)
{
	const char *config = attr->last && rail + 1 == s->rails ? attr->last : attr->config;
	struct ori_hca_keys keys;

	if (p->cluster)
		assert_int_equal(ori_soft_cluster_open(p->cluster, config, &s->hcas[rail]),
				 ORIEL_OK);
	else
		assert_int_equal(p->ops->open(hcas[which] ? hcas[which] : config, rail,
					      &s->hcas[rail]),
				 ORIEL_OK);
	assert_int_equal(p->ops->register_memory(s->hcas[rail], s->memory, LENGTH, 0, ALL,
						 &s->mrs[rail], &keys),
			 ORIEL_OK);
	s->lkeys.rail[rail] = keys.lkey;
	s->rkeys.rail[rail] = keys.rkey;
	p->ops->describe(s->hcas[rail], &s->hca_addresses[rail]);
}

static inline void side_open(struct pair *p, struct side *s, const struct pair_attr *attr,
			     unsigned which)
{
	struct ori_host_attr host = attr->host;

	s->rails = host.rails ? host.rails : 1;
	s->memory = aligned_alloc(4096, LENGTH);
	assert_non_null(s->memory);
	memset(s->memory, 0, LENGTH);
	for (unsigned rail = 0; rail < s->rails; rail++)
		side_open_rail(p, s, attr, which, rail);
	host.ops = p->ops;
	memcpy(host.hcas, s->hcas, sizeof(host.hcas));
	if (!host.piece)
		host.piece = PIECE;
	assert_int_equal(ori_host_create(&host, &s->link, &s->end), ORIEL_OK);
}

static inline void side_close(struct pair *p, struct side *s)
{
	ori_host_destroy(s->link);
	for (unsigned rail = 0; rail < s->rails; rail++) {
		p->ops->unregister_memory(s->mrs[rail]);
		p->ops->close(s->hcas[rail]);
	}
	free(s->memory);
}

static inline void pair_open(struct pair *p, const struct pair_attr *attr)
{
	memset(p, 0, sizeof(*p));
	p->ops = hcas[0] ? ori_hca_verbs() : &ori_hca_soft_ops;
	if (attr->seed)
		assert_int_equal(ori_soft_cluster_create(attr->seed, &p->cluster), ORIEL_OK);
	side_open(p, &p->a, attr, 0);
	side_open(p, &p->b, attr, 1);
	assert_int_equal(ori_host_connect(p->a.link, p->b.hca_addresses, &p->b.end), ORIEL_OK);
	assert_int_equal(ori_host_connect(p->b.link, p->a.hca_addresses, &p->a.end), ORIEL_OK);
}

static inline void pair_close(struct pair *p)
{
	side_close(p, &p->a);
	side_close(p, &p->b);
	ori_soft_cluster_destroy(p->cluster);
}

/* Lets the HCA or other threads work, but not for ever. */
static inline void pair_turn(struct pair *p, uint64_t until)
{
	assert_true(ori_clock_ns() < until);
	if (p->cluster)
		assert_true(ori_soft_cluster_step(p->cluster));
	else
		sched_yield();
}

static inline enum oriel_status pair_wait(struct pair *p, uint64_t op)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS;
	enum oriel_status status;

	while ((status = ori_host_test(p->a.link, op)) == ORIEL_AGAIN)
		pair_turn(p, until);
	return status;
}

static inline struct ori_host_move move_of(const struct pair *p, uint64_t here, uint64_t there,
					   uint64_t length)
{
	return (struct ori_host_move){.local = {here, p->a.lkeys},
				      .remote = {there, p->b.rkeys},
				      .length = length};
}

static inline struct ori_host_address remote(const struct pair *p, uint64_t at)
{
	return (struct ori_host_address){at, p->b.rkeys};
}

static inline void fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 31 + i / 251 + seed);
}

static inline uint64_t *word_of(const struct side *s, uint64_t at)
{
	return (uint64_t *)(void *)(s->memory + at);
}

static const uint32_t sizes[] = {
	0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 3, 40 * PIECE,
};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static inline void puts_and_gets_of_any_size(const struct pair_attr *attr)
{
	struct pair p;
	uint64_t op;

	pair_open(&p, attr);
	for (unsigned i = 0; i < SIZES; i++) {
		struct ori_host_move put = move_of(&p, 100, 1000, sizes[i]);
		struct ori_host_move get = move_of(&p, HALF, 999, sizes[i] + 2);

		fill(p.a.memory, HALF, i);
		memset(p.b.memory, 0x77, LENGTH);
		assert_int_equal(ori_host_put(p.a.link, &put, &op), ORIEL_OK);
		assert_int_equal(op, 2 * i);
		assert_int_equal(pair_wait(&p, op), ORIEL_OK);
		assert_int_equal(ori_host_get(p.a.link, &get, &op), ORIEL_OK);
		assert_int_equal(pair_wait(&p, op), ORIEL_OK);
		assert_memory_equal(p.b.memory + 1000, p.a.memory + 100, sizes[i]);
		assert_memory_equal(p.a.memory + HALF, p.b.memory + 999, sizes[i] + 2);
		assert_int_equal(p.b.memory[999], 0x77);
		assert_int_equal(p.b.memory[1000 + sizes[i]], 0x77);
	}
	pair_close(&p);
}

/*
 * A spread put, a short one and a put with a signal, whose data is spread as well if
 * @length is long.
 */
static inline void signal_covers_all(const struct pair_attr *attr, uint32_t length)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS, op = 0;
	struct ori_host_address word;
	struct pair p;

	pair_open(&p, attr);
	word = remote(&p, SIGNAL);
	for (unsigned i = 1; i <= 3; i++) {
		struct ori_host_move moves[3] = {
			move_of(&p, 0, 0, 7 * PIECE),
			move_of(&p, 32 * PIECE, 32 * PIECE, 100),
			move_of(&p, 64 * PIECE, 64 * PIECE, length),
		};

		fill(p.a.memory, HALF, i);
		assert_int_equal(ori_host_put(p.a.link, &moves[0], &op), ORIEL_OK);
		assert_int_equal(ori_host_put(p.a.link, &moves[1], &op), ORIEL_OK);
		assert_int_equal(ori_host_put_signal(p.a.link, &moves[2], &word, 5, &op), ORIEL_OK);
		while (oriel_dev_load_acquire(word_of(&p.b, SIGNAL)) != 5 * i) {
			assert_int_equal(ori_host_progress(p.a.link), ORIEL_OK);
			pair_turn(&p, until);
		}
		for (unsigned k = 0; k < 3; k++)
			assert_memory_equal(p.b.memory + moves[k].remote.address,
					    p.a.memory + moves[k].local.address, moves[k].length);
		assert_int_equal(pair_wait(&p, op), ORIEL_OK);
	}
	pair_close(&p);
}

/* The receiver takes all but a few late: the rest wait for receives. */
static inline void immediates_come_in_order(const struct pair_attr *attr)
{
	uint64_t until = ori_clock_ns() + PATIENCE_NS, op = 0;
	uint32_t immediate;
	struct pair p;

	pair_open(&p, attr);
	fill(p.a.memory, 16 * PIECE, 1);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t at = (uint64_t)(i % 4) * 4 * PIECE;
		struct ori_host_move move =
			move_of(&p, at, (uint64_t)i * 4 * PIECE, (uint64_t)(i % 4) * PIECE);

		assert_int_equal(ori_host_put_immediate(p.a.link, &move, 1000 + i, &op), ORIEL_OK);
	}
	for (unsigned i = 0; i < 20; i++) {
		enum oriel_status status;

		while ((status = ori_host_take(p.b.link, &immediate)) == ORIEL_AGAIN) {
			assert_int_equal(ori_host_progress(p.a.link), ORIEL_OK);
			pair_turn(&p, until);
		}
		assert_int_equal(status, ORIEL_OK);
		assert_int_equal(immediate, 1000 + i);
		assert_memory_equal(p.b.memory + (size_t)i * 4 * PIECE,
				    p.a.memory + (size_t)(i % 4) * 4 * PIECE,
				    (size_t)(i % 4) * PIECE);
	}
	assert_int_equal(pair_wait(&p, op), ORIEL_OK);
	assert_int_equal(ori_host_take(p.b.link, &immediate), ORIEL_AGAIN);
	pair_close(&p);
}

#endif
