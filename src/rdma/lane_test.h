/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane of the proxy with its ring, on an HCA that does what a test says, for the tests
 * of lanes.
 */
#ifndef ORI_RDMA_LANE_TEST_H
#define ORI_RDMA_LANE_TEST_H

#include "rdma/proxy_test.h"
#include "rdma/rdma_proxy.h"

#define LOG_DEPTH 4u
#define DEPTH (1u << LOG_DEPTH)
#define SINK 0x5171u
#define LKEY 0x1111u
#define RKEY 0x2222u
#define FOUND 0x3333u         /* key that find() gives */
#define UNORDERED_KEY 0x4444u /* key of unordered memory */

/* A lane, the ring that it serves, and the queue that it posts to. */
struct bench {
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp, *loop;
	struct ori_host_link *loopback;
	struct ori_proxy_lane *lane;
	struct ori_dev_proxy_entry *entries;
	struct ori_dev_proxy_words *words;
	struct ori_dev_proxy_ring ring;
	enum oriel_status found; /* the status of find() */
	const void *data;        /* ... and where a CPU finds it */
	unsigned finds, released, released_well;
	uint64_t completed_when_released;
};

static inline enum oriel_status bench_find(void *context, uint64_t address, uint64_t length,
					   bool is_target, struct ori_proxy_sge *sge)
{
	struct bench *b = context;

	b->finds++;
	if (b->found != ORIEL_OK)
		return b->found;
	*sge = (struct ori_proxy_sge){.address = address + (is_target ? 2 : 1) * length,
				      .key = FOUND,
				      .ref = b,
				      .data = b->data};
	return ORIEL_OK;
}

static inline void bench_release(void *context, const struct ori_proxy_sge *sge, bool is_done)
{
	struct bench *b = context;

	assert_ptr_equal(sge->ref, b);
	b->released++;
	b->released_well += is_done;
	b->completed_when_released = b->words->completed;
}

/* @flush_key: key of 8 bytes of unordered memory, or 0. */
static inline void bench_open_unordered(struct bench *b, const struct ori_hca_ops *ops,
					uint32_t depth, uint32_t length_max, uint32_t flush_key)
{
	struct ori_hca_qp_attr qp = {.depth = depth};
	struct ori_hca_qp_address address;
	struct ori_hca_cq_attr cq = {0};
	struct ori_proxy_lane_attr attr;
	uint32_t cqn;

	memset(b, 0, sizeof(*b));
	script_grant = UINT32_MAX;
	assert_int_equal(script_create_cq(NULL, &cq, &b->cq, &cqn), ORIEL_OK);
	qp.send_cq = b->cq;
	assert_int_equal(script_create_qp(NULL, &qp, &b->qp, &address), ORIEL_OK);
	script_made = NULL;
	assert_int_equal(ori_loopback_open(ops, NULL, SINK, &b->loopback), ORIEL_OK);
	b->loop = script_made;
	b->entries = aligned_alloc(ORIEL_DEV_LINE, DEPTH * sizeof(*b->entries));
	b->words = aligned_alloc(ORIEL_DEV_LINE, sizeof(*b->words));
	assert_true(b->entries && b->words);
	memset(b->entries, 0, DEPTH * sizeof(*b->entries));
	memset(b->words, 0, sizeof(*b->words));
	b->ring.entries = b->entries;
	b->ring.words = b->words;
	b->ring.log_depth = LOG_DEPTH;
	attr = (struct ori_proxy_lane_attr){
		.ops = ops,
		.qp = b->qp,
		.cq = b->cq,
		.depth = depth,
		.length_max = length_max,
		.sink_lkey = SINK,
		.entries = b->entries,
		.words = b->words,
		.log_depth = LOG_DEPTH,
		.memory = {b, bench_find, bench_release},
		.loopback = b->loopback,
		.flush_word = {64, flush_key},
	};
	assert_int_equal(ori_proxy_lane_open(&attr, &b->lane), ORIEL_OK);
}

static inline void bench_open_with(struct bench *b, const struct ori_hca_ops *ops, uint32_t depth,
				   uint32_t length_max)
{
	bench_open_unordered(b, ops, depth, length_max, 0);
}

static inline void bench_open(struct bench *b, uint32_t depth, uint32_t length_max)
{
	bench_open_with(b, &script_ops, depth, length_max);
}

static inline void bench_close(struct bench *b)
{
	ori_proxy_fail(b->lane);
	ori_proxy_lane_close(b->lane);
	ori_host_destroy(b->loopback);
	script_destroy_qp(b->qp);
	script_destroy_cq(b->cq);
	free(b->entries);
	free(b->words);
}

/* Steps the lane until nothing happens by itself. */
static inline void bench_run(struct bench *b)
{
	while (ori_proxy_step(b->lane) || ori_loopback_step(b->loopback))
		;
}

static inline uint64_t bench_reserve(struct bench *b, uint32_t count)
{
	struct ori_dev_link_wait_limits limits = {NULL, UINT64_C(30000000000), 1, 0};
	uint64_t base = 0;

	assert_int_equal(ori_dev_proxy_reserve(&b->ring, count, &limits, &base), ORIEL_OK);
	return base;
}

/* Fills entry @index: @length bytes from @at to @at. */
static inline void bench_write(struct bench *b, uint64_t index, uint64_t at, uint32_t key,
			       uint32_t length)
{
	struct ori_dev_rdma_address to = {at, RKEY}, from = {at, key};

	ori_dev_proxy_fill(&b->ring, index, ORIEL_PROXY_WRITE, 0, to, from, 0, length);
}

static inline void bench_other(struct bench *b, uint64_t index, uint32_t opcode, uint32_t fence,
			       uint64_t at, uint64_t operand)
{
	struct ori_dev_rdma_address to = {at, RKEY}, from = {at + 1, LKEY};

	ori_dev_proxy_fill(&b->ring, index, opcode, fence, to, from, operand, 8);
}

static inline void bench_put(struct bench *b, uint64_t at)
{
	uint64_t base = bench_reserve(b, 1);

	bench_write(b, base, at, LKEY, 8);
	ori_dev_proxy_publish(&b->ring, base, 1);
}

static inline void bench_count(struct bench *b, uint64_t at, uint64_t amount)
{
	uint64_t base = bench_reserve(b, 1);

	bench_other(b, base, ORIEL_PROXY_COUNT, 0, at, amount);
	ori_dev_proxy_publish(&b->ring, base, 1);
}

static inline uint64_t bench_done(struct bench *b)
{
	bench_run(b);
	ori_dev_proxy_progress(&b->ring);
	return b->ring.done;
}

#endif
