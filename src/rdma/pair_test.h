/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends in one process, with software HCAs of their own, and a link between them, for
 * tests.
 */
#ifndef ORI_RDMA_PAIR_TEST_H
#define ORI_RDMA_PAIR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "rdma/rdma.h"

#define LENGTH 65536u
#define LONG_NS 20000000000u
#define DEPTH 16u

/* Words at the start of each side's memory; the data begins at DATA. */
enum { SIGNAL = 0, COUNTER = 8, OLD = 16, DATA = 4096 };

struct side {
	struct ori_rdma *rdma;
	struct ori_rdma_link *link;
	const struct oriel_dev_link *dev;
	struct ori_hca_qp_address hca_address;
	struct ori_rdma_qps qps;
	struct ori_rdma_mr *mr;
	struct oriel_dev_keys rkeys;
	unsigned rail; /* of the link */
	struct oriel_dev_fault health;
	char *memory;
};

/* The posting thread of the links; a test sets it before pair_create(). */
static enum ori_rdma_post pair_post;
/* Does the test watch its links? It sets this before pair_create(), too. */
static bool pair_is_watched;

struct pair {
	struct side a, b;
};

/* The link uses the last of @rails. */
static inline void side_open(struct side *s, const char *config, unsigned peer, unsigned rails)
{
	const struct ori_rdma_attr attr = {.rails = rails,
					   .hca = &ori_hca_soft_ops,
					   .config = config};
	const struct ori_rdma_links_attr links = {.depth = DEPTH,
						  .health = &s->health,
						  .timeout_ns = LONG_NS,
						  .spin = 100,
						  .post = pair_post,
						  .is_watched = pair_is_watched};

	s->memory = aligned_alloc(4096, LENGTH);
	assert_non_null(s->memory);
	memset(s->memory, 0, LENGTH);
	assert_int_equal(ori_rdma_open(&attr, &s->rdma), ORIEL_OK);
	assert_int_equal(ori_rdma_open_links(s->rdma, &links), ORIEL_OK);
	assert_int_equal(ori_rdma_register(s->rdma, s->memory, LENGTH, ORI_RDMA_SHARED, &s->mr,
					   &s->rkeys),
			 ORIEL_OK);
	s->rail = rails - 1;
	ori_rdma_describe(s->rdma, s->rail, &s->hca_address);
	assert_int_equal(ori_rdma_link_create(s->rdma, peer, s->rail, &s->link), ORIEL_OK);
	s->dev = ori_rdma_link_device(s->link);
}

static inline void side_close(struct side *s)
{
	ori_rdma_link_destroy(s->link);
	ori_rdma_unregister(s->rdma, s->mr);
	ori_rdma_close(s->rdma);
	free(s->memory);
}

/* Makes two links that are not connected. */
static inline struct pair *pair_create_on(const char *config, unsigned rails)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	side_open(&p->a, config, 1, rails);
	side_open(&p->b, config, 0, rails);
	return p;
}

static inline struct pair *pair_create(const char *config)
{
	return pair_create_on(config, 1);
}

static inline void pair_connect(struct pair *p)
{
	assert_int_equal(ori_rdma_link_open(p->a.link, &p->a.qps), ORIEL_OK);
	assert_int_equal(ori_rdma_link_open(p->b.link, &p->b.qps), ORIEL_OK);
	assert_int_equal(ori_rdma_link_connect(p->a.link, &p->b.hca_address, &p->b.qps), ORIEL_OK);
	assert_int_equal(ori_rdma_link_connect(p->b.link, &p->a.hca_address, &p->a.qps), ORIEL_OK);
	ori_rdma_link_begin(p->b.link);
	ori_rdma_link_begin(p->a.link);
}

static inline struct pair *pair_open(const char *config)
{
	struct pair *p = pair_create(config);

	pair_connect(p);
	return p;
}

static inline void pair_close(struct pair *p)
{
	side_close(&p->a);
	side_close(&p->b);
	free(p);
}

static inline struct ori_dev_rdma_address local(const struct side *s, uint64_t at)
{
	struct ori_dev_rdma_address address = {(uint64_t)(uintptr_t)s->memory + at,
					       ori_rdma_whole_lkeys(s->rdma)->rail[s->rail]};

	return address;
}

static inline struct ori_dev_rdma_address remote(const struct side *s, uint64_t at)
{
	struct ori_dev_rdma_address address = {at, s->rkeys.rail[s->rail]};

	return address;
}

static inline uint64_t *word(const struct side *s, uint64_t at)
{
	return (uint64_t *)(void *)(s->memory + at);
}

#endif
