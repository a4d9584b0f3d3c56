/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_proxy_test [rate]: what a lane of the proxy does step by step: on an adapter
 * that ends requests when a test says so, and on adapters in software in virtual time.
 * "rate" tells what an entry costs on an adapter that costs nothing.
 */
#include "transport/rdma_proxy.h"

#include <stdio.h>

#include "base/clock.h"
#include "hca/soft.h"
#include "transport/proxy_test.h"

#define LOG_DEPTH 4u
#define DEPTH (1u << LOG_DEPTH)
#define SINK 0x5171u
#define LKEY 0x1111u
#define RKEY 0x2222u
#define FOUND 0x3333u /* key of what is found */

/* A lane, the ring that it serves, and the queue that it posts to. */
struct bench {
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp, *loop;
	struct ori_tally *tally;
	struct ori_proxy_lane *lane;
	struct oriel_proxy_entry *entries;
	struct oriel_proxy_words *words;
	struct oriel_proxy_ring ring;
	enum oriel_status found; /* what find() says */
	unsigned finds, gone, gone_well;
	uint64_t completed_when_gone;
};

static enum oriel_status bench_find(void *context, uint64_t address, uint64_t length,
				    bool is_target, struct ori_proxy_place *place)
{
	struct bench *b = context;

	b->finds++;
	if (b->found != ORIEL_OK)
		return b->found;
	*place = (struct ori_proxy_place){address + (is_target ? 2 : 1) * length, FOUND, b};
	return ORIEL_OK;
}

static void bench_let_go(void *context, const struct ori_proxy_place *place, bool is_done)
{
	struct bench *b = context;

	assert_ptr_equal(place->hold, b);
	b->gone++;
	b->gone_well += is_done;
	b->completed_when_gone = b->words->completed;
}

static void bench_open(struct bench *b, uint32_t depth, uint32_t length_max)
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
	assert_int_equal(ori_tally_open(&script_ops, NULL, SINK, &b->tally), ORIEL_OK);
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
		.ops = &script_ops,
		.qp = b->qp,
		.cq = b->cq,
		.depth = depth,
		.length_max = length_max,
		.sink_lkey = SINK,
		.entries = b->entries,
		.words = b->words,
		.log_depth = LOG_DEPTH,
		.memory = {b, bench_find, bench_let_go},
		.tally = b->tally,
	};
	assert_int_equal(ori_proxy_lane_open(&attr, &b->lane), ORIEL_OK);
}

static void bench_close(struct bench *b)
{
	ori_proxy_fail(b->lane);
	ori_proxy_lane_close(b->lane);
	ori_tally_close(b->tally);
	script_destroy_qp(b->qp);
	script_destroy_cq(b->cq);
	free(b->entries);
	free(b->words);
}

/* Until nothing happens by itself. */
static void bench_run(struct bench *b)
{
	while (ori_proxy_step(b->lane) || ori_tally_step(b->tally))
		;
}

static uint64_t bench_reserve(struct bench *b, uint32_t count)
{
	struct oriel_mlx5_limits limits = {NULL, 1, 1, 0};
	uint64_t base = 0;

	assert_int_equal(oriel_proxy_reserve(&b->ring, count, &limits, &base), ORIEL_OK);
	return base;
}

/* Entry @index: @length bytes from @at to @at. */
static void bench_write(struct bench *b, uint64_t index, uint64_t at, uint32_t key, uint32_t length)
{
	struct oriel_mlx5_place to = {at, RKEY}, from = {at, key};

	oriel_proxy_fill(&b->ring, index, ORIEL_PROXY_WRITE, 0, to, from, 0, length);
}

static void bench_other(struct bench *b, uint64_t index, uint32_t opcode, uint32_t fence,
			uint64_t at, uint64_t operand)
{
	struct oriel_mlx5_place to = {at, RKEY}, from = {at + 1, LKEY};

	oriel_proxy_fill(&b->ring, index, opcode, fence, to, from, operand, 8);
}

static void bench_put(struct bench *b, uint64_t at)
{
	uint64_t base = bench_reserve(b, 1);

	bench_write(b, base, at, LKEY, 8);
	oriel_proxy_publish(&b->ring, base, 1);
}

static void bench_count(struct bench *b, uint64_t at, uint64_t amount)
{
	uint64_t base = bench_reserve(b, 1);

	bench_other(b, base, ORIEL_PROXY_COUNT, 0, at, amount);
	oriel_proxy_publish(&b->ring, base, 1);
}

static uint64_t bench_done(struct bench *b)
{
	bench_run(b);
	oriel_proxy_progress(&b->ring);
	return b->ring.done;
}

static void test_what_is_not_published_is_not_taken(void **state)
{
	struct bench b;
	uint64_t base, lap;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	b.qp->is_eager = true;
	/* In the first lap slots are zero, later there are stamps of older entries. */
	for (lap = 0; lap < 3; lap++) {
		base = bench_reserve(&b, 3);
		bench_write(&b, base, 100, LKEY, 8);
		bench_write(&b, base + 1, 101, LKEY, 8);
		bench_write(&b, base + 2, 102, LKEY, 8);
		assert_false(ori_proxy_is_asked(b.lane));
		assert_int_equal(bench_done(&b), base);
		assert_int_equal(b.words->tail, base);
		oriel_proxy_publish(&b.ring, base, 3);
		assert_true(ori_proxy_is_asked(b.lane));
		assert_int_equal(bench_done(&b), base + 3);
		while (b.ring.resv % DEPTH) {
			bench_put(&b, 1);
			bench_run(&b);
		}
	}
	/* Who publishes first does not go first. */
	base = bench_reserve(&b, 2);
	bench_write(&b, base + 1, 7, LKEY, 8);
	oriel_proxy_publish(&b.ring, base + 1, 1);
	assert_int_equal(bench_done(&b), base);
	bench_write(&b, base, 6, LKEY, 8);
	oriel_proxy_publish(&b.ring, base, 1);
	assert_int_equal(bench_done(&b), base + 2);
	assert_int_equal(b.qp->log[base].local, 6);
	assert_int_equal(b.qp->log[base + 1].local, 7);
	bench_close(&b);
}

static void test_a_stamp_is_of_one_entry(void **state)
{
	static const uint64_t indices[] = {0,
					   1,
					   DEPTH,
					   UINT32_MAX,
					   (uint64_t)1 << 32,
					   ((uint64_t)1 << 48) - 1,
					   (uint64_t)1 << 48};
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
		uint64_t stamp = oriel_proxy_stamp(indices[i], ORIEL_MLX5_DEPTH_MAX / 2);

		assert_int_equal(oriel_proxy_stamp_count(stamp, indices[i]),
				 ORIEL_MLX5_DEPTH_MAX / 2);
		assert_int_equal(oriel_proxy_stamp_count(0, indices[i]), 0);
		for (k = 0; k < i && indices[i] - indices[k] != (uint64_t)1 << 48; k++)
			assert_int_equal(oriel_proxy_stamp_count(stamp, indices[k]), 0);
	}
}

static void check_request(const struct ori_hca_wr *wr, uint8_t opcode, uint64_t local,
			  uint32_t lkey, uint64_t operand)
{
	assert_int_equal(wr->opcode, opcode);
	assert_int_equal(wr->remote, 1000);
	assert_int_equal(wr->rkey, RKEY);
	assert_int_equal(wr->length, 8);
	if (!(wr->flags & ORI_HCA_INLINE_DATA)) {
		assert_int_equal(wr->local, local);
		assert_int_equal(wr->lkey, lkey);
	}
	assert_int_equal(wr->operand, operand);
}

static void test_requests_are_what_was_asked_for(void **state)
{
	uint64_t base;
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	base = bench_reserve(&b, 6);
	bench_other(&b, base, ORIEL_PROXY_WRITE, 0, 1000, 1);
	bench_other(&b, base + 1, ORIEL_PROXY_READ, 0, 1000, 2);
	bench_other(&b, base + 2, ORIEL_PROXY_ADD, 0, 1000, 3);
	bench_other(&b, base + 3, ORIEL_PROXY_FETCH_ADD, 0, 1000, 4);
	bench_other(&b, base + 4, ORIEL_PROXY_WRITE_VALUE, 0, 1000, 5);
	bench_write(&b, base + 5, 77, 0, 0);
	oriel_proxy_publish(&b.ring, base, 6);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 6);
	check_request(&b.qp->log[0], ORI_HCA_WRITE, 1001, LKEY, 1);
	check_request(&b.qp->log[1], ORI_HCA_READ, 1001, LKEY, 2);
	check_request(&b.qp->log[2], ORI_HCA_FETCH_ADD, 0, SINK, 3);
	check_request(&b.qp->log[3], ORI_HCA_FETCH_ADD, 1001, LKEY, 4);
	check_request(&b.qp->log[4], ORI_HCA_WRITE, 0, 0, 5);
	assert_true(b.qp->log[4].flags & ORI_HCA_INLINE_DATA);
	assert_int_equal(b.qp->values[4], 5);
	/* Nothing, from nowhere, is a request as well. */
	assert_int_equal(b.qp->log[5].length, 0);
	assert_int_equal(b.qp->calls, 1);
	script_end(b.qp, 6);
	assert_int_equal(bench_done(&b), 6);
	bench_close(&b);
}

static void test_a_post_is_one_chain_whose_last_tells(void **state)
{
	struct bench b;
	uint64_t i;

	(void)state;
	bench_open(&b, 4 * DEPTH, 1u << 30);
	for (i = 0; i < 5; i++)
		bench_put(&b, i);
	bench_run(&b);
	assert_int_equal(b.qp->calls, 1);
	assert_int_equal(b.qp->posted, 5);
	for (i = 0; i < 5; i++)
		assert_int_equal(b.qp->log[i].flags & ORI_HCA_SIGNALED, i == 4);
	script_end(b.qp, 4);
	assert_int_equal(bench_done(&b), 0);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 5);
	bench_close(&b);
}

static void test_nothing_is_done_before_its_end(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	assert_int_equal(bench_done(&b), 0);
	assert_int_equal(b.words->tail, 1);
	assert_true(ori_proxy_is_waiting(b.lane));
	bench_put(&b, 1);
	assert_int_equal(bench_done(&b), 0);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 1);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 2);
	assert_false(ori_proxy_is_waiting(b.lane));
	bench_close(&b);
}

static void test_a_slot_is_free_when_it_has_been_copied_and_no_sooner(void **state)
{
	struct oriel_mlx5_limits limits = {NULL, 1, 1, 0};
	struct bench b;
	uint64_t i, base;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	script_grant = 0;
	for (i = 0; i < DEPTH; i++)
		bench_put(&b, i);
	bench_run(&b);
	assert_int_equal(b.words->tail, DEPTH);
	/* A lap more is asked for, and stays where it is: all copies are in use. */
	for (i = DEPTH; i < 2 * DEPTH; i++)
		bench_put(&b, i);
	bench_run(&b);
	assert_int_equal(b.words->tail, DEPTH);
	assert_false(ori_proxy_is_asked(b.lane));
	assert_int_equal(oriel_proxy_reserve(&b.ring, 1, &limits, &base), ORIEL_ERR_TIMEOUT);
	script_grant = UINT32_MAX;
	b.qp->is_eager = true;
	assert_int_equal(bench_done(&b), 2 * DEPTH);
	for (i = 0; i < 2 * DEPTH; i++)
		assert_int_equal(b.qp->log[i].local, i);
	bench_close(&b);
}

/* A post that only the first part of has been copied. */
static void test_a_post_is_freed_in_parts(void **state)
{
	struct bench b;
	uint64_t i, base;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	script_grant = 0;
	for (i = 0; i < DEPTH - 3; i++)
		bench_put(&b, i);
	bench_run(&b);
	base = bench_reserve(&b, 5);
	for (i = base; i < base + 5; i++)
		bench_write(&b, i, i, LKEY, 8);
	oriel_proxy_publish(&b.ring, base, 5);
	bench_run(&b);
	assert_int_equal(b.words->tail, DEPTH);
	script_grant = UINT32_MAX;
	b.qp->is_eager = true;
	assert_int_equal(bench_done(&b), base + 5);
	for (i = 0; i < base + 5; i++)
		assert_int_equal(b.qp->log[i].local, i);
	bench_close(&b);
}

static void test_what_a_full_queue_refuses_is_posted_later_and_once(void **state)
{
	static const unsigned grants[] = {1, 3, 0, 2, 7, 1, 1};
	struct bench b;
	uint64_t i;
	size_t k;

	(void)state;
	bench_open(&b, 4, 1u << 30);
	for (i = 0; i < DEPTH; i++)
		bench_put(&b, i);
	for (k = 0; b.words->completed < DEPTH; k++) {
		assert_true(k < 1000);
		script_grant = grants[k % (sizeof(grants) / sizeof(grants[0]))];
		bench_run(&b);
		assert_true(b.qp->posted - b.qp->retired <= 4);
		if (k % 2 && b.qp->ended < b.qp->posted)
			script_end(b.qp, 1);
		bench_run(&b);
	}
	assert_int_equal(b.qp->posted, DEPTH);
	for (i = 0; i < DEPTH; i++)
		assert_int_equal(b.qp->log[i].local, i);
	bench_close(&b);
}

static void test_a_queue_of_any_depth_goes_on(void **state)
{
	struct bench b;
	uint32_t depth;
	uint64_t i;

	(void)state;
	for (depth = 1; depth <= 2 * DEPTH; depth++) {
		bench_open(&b, depth, 1u << 30);
		for (i = 0; i < 5 * DEPTH; i++) {
			bench_put(&b, i);
			bench_run(&b);
			if (i % DEPTH == DEPTH - 1)
				while (b.words->completed <= i) {
					assert_true(b.qp->ended < b.qp->posted);
					script_end(b.qp, 1);
					bench_run(&b);
				}
		}
		assert_int_equal(b.qp->posted, 5 * DEPTH);
		bench_close(&b);
	}
}

static void test_a_counter_waits_for_all_before_it(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_put(&b, 1);
	bench_count(&b, 500, 3);
	bench_put(&b, 2);
	bench_count(&b, 501, 4);
	assert_int_equal(bench_done(&b), 0);
	assert_int_equal(b.qp->posted, 3);
	assert_int_equal(b.loop->posted, 0);
	script_end(b.qp, 2);
	assert_int_equal(bench_done(&b), 0); /* the chain tells of its end only */
	assert_int_equal(b.loop->posted, 0);
	script_end(b.qp, 1);
	assert_int_equal(bench_done(&b), 2);
	assert_int_equal(b.loop->posted, 2);
	assert_int_equal(b.loop->log[0].opcode, ORI_HCA_FETCH_ADD);
	assert_int_equal(b.loop->log[0].remote, 500);
	assert_int_equal(b.loop->log[0].rkey, RKEY);
	assert_int_equal(b.loop->log[0].lkey, SINK);
	assert_int_equal(b.loop->log[0].operand, 3);
	assert_int_equal(b.loop->log[1].operand, 4);
	script_end(b.loop, 1);
	assert_int_equal(bench_done(&b), 4);
	script_end(b.loop, 1);
	assert_int_equal(bench_done(&b), 5);
	/* Nothing is before these. */
	bench_count(&b, 500, 1);
	bench_count(&b, 500, 1);
	assert_int_equal(bench_done(&b), 5);
	script_end(b.loop, 2);
	assert_int_equal(bench_done(&b), 7);
	bench_close(&b);
}

static void test_counters_wait_for_room(void **state)
{
	struct bench b;
	uint64_t i;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	script_grant = 2;
	for (i = 0; i < 5; i++)
		bench_count(&b, i, i);
	bench_run(&b);
	assert_int_equal(b.loop->posted, 2);
	script_grant = UINT32_MAX;
	bench_run(&b);
	assert_int_equal(b.loop->posted, 5);
	for (i = 0; i < 5; i++)
		assert_int_equal(b.loop->log[i].operand, i);
	script_end(b.loop, 5);
	assert_int_equal(bench_done(&b), 5);
	bench_close(&b);
}

static void test_a_fence_waits_for_all_before_it(void **state)
{
	uint64_t base;
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_count(&b, 9, 9);
	bench_put(&b, 1);
	base = bench_reserve(&b, 2);
	bench_other(&b, base, ORIEL_PROXY_ADD, ORIEL_PROXY_FENCE_ALL, 1000, 1);
	bench_other(&b, base + 1, ORIEL_PROXY_ADD, ORIEL_PROXY_FENCE_NONE, 1000, 1);
	oriel_proxy_publish(&b.ring, base, 2);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 2);
	script_end(b.qp, 1);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 2);
	script_end(b.qp, 1);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 4);
	/* One with nothing before it starts at once. */
	script_end(b.qp, 2);
	script_end(b.loop, 1);
	assert_int_equal(bench_done(&b), 5);
	base = bench_reserve(&b, 1);
	bench_other(&b, base, ORIEL_PROXY_ADD, ORIEL_PROXY_FENCE_ALL, 1000, 1);
	oriel_proxy_publish(&b.ring, base, 1);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 5);
	bench_close(&b);
}

static void test_what_is_too_long_is_cut(void **state)
{
	uint64_t base, i;
	struct bench b;

	(void)state;
	bench_open(&b, 2, 100);
	base = bench_reserve(&b, 2);
	bench_write(&b, base, 4000, LKEY, 450);
	bench_write(&b, base + 1, 5000, LKEY, 100);
	oriel_proxy_publish(&b.ring, base, 2);
	for (i = 0; i < 6; i++) {
		bench_run(&b);
		assert_int_equal(bench_done(&b), i == 5);
		assert_true(b.qp->posted > i);
		assert_int_equal(b.qp->log[i].local, i < 5 ? 4000 + 100 * i : 5000);
		assert_int_equal(b.qp->log[i].remote, i < 5 ? 4000 + 100 * i : 5000);
		assert_int_equal(b.qp->log[i].length, i == 4 ? 50 : 100);
		script_end(b.qp, 1);
	}
	assert_int_equal(bench_done(&b), 2);
	bench_close(&b);
}

static void test_memory_is_found_by_its_address(void **state)
{
	uint64_t base;
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	b.found = ORIEL_AGAIN;
	base = bench_reserve(&b, 2);
	bench_write(&b, base, 4000, ORIEL_PROXY_FIND, 10);
	oriel_proxy_fill(&b.ring, base + 1, ORIEL_PROXY_READ, 0, (struct oriel_mlx5_place){0, RKEY},
			 (struct oriel_mlx5_place){4000, ORIEL_PROXY_FIND}, 0, 10);
	oriel_proxy_publish(&b.ring, base, 2);
	bench_run(&b);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 0);
	assert_true(b.finds >= 2 && ori_proxy_is_waiting(b.lane));
	b.found = ORIEL_OK;
	bench_run(&b);
	assert_int_equal(b.qp->posted, 2);
	assert_int_equal(b.qp->log[0].local, 4010);
	assert_int_equal(b.qp->log[0].lkey, FOUND);
	assert_int_equal(b.qp->log[1].local, 4020);
	assert_int_equal(b.gone, 0);
	script_end(b.qp, 2);
	assert_int_equal(bench_done(&b), 2);
	assert_int_equal(b.gone, 2);
	assert_int_equal(b.gone_well, 2);
	/* Who sees that it is done finds what it brought. */
	assert_int_equal(b.completed_when_gone, 0);
	bench_close(&b);
	assert_int_equal(b.gone, 2);
}

static void check_dead(struct bench *b, uint64_t done, uint64_t err, uint32_t what)
{
	struct oriel_mlx5_limits limits = {NULL, 1000000000, 1, 0};
	uint64_t posted = b->qp->posted, base;

	assert_int_equal(oriel_proxy_wait(&b->ring, done, &limits), oriel_mlx5_err_status(err));
	assert_int_equal(b->ring.done, done);
	assert_int_equal(b->ring.err, err);
	assert_int_equal(b->words->err, err);
	assert_int_equal(oriel_proxy_what(b->words->failed, ORIEL_DEV_FLUSH), what);
	assert_true(oriel_proxy_is_over(&b->ring, b->ring.resv - 1));
	assert_false(ori_proxy_is_waiting(b->lane) || ori_proxy_is_asked(b->lane));
	assert_int_equal(oriel_proxy_reserve(&b->ring, 1, &limits, &base),
			 oriel_mlx5_err_status(err));
	bench_run(b);
	assert_int_equal(b->qp->posted, posted);
}

static uint64_t err_of(uint32_t syndrome, uint64_t index)
{
	return oriel_mlx5_err(ORIEL_MLX5_ERROR_CQE, syndrome, 0, index);
}

static void test_a_failure_ends_all_but_what_was_done(void **state)
{
	uint64_t base;
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_count(&b, 9, 9);
	bench_put(&b, 1);
	base = bench_reserve(&b, 1);
	bench_write(&b, base, 4000, ORIEL_PROXY_FIND, 10);
	oriel_proxy_publish(&b.ring, base, 1);
	bench_put(&b, 2);
	bench_run(&b);
	assert_int_equal(b.qp->posted, 4);
	b.loop->is_eager = true;
	script_end(b.qp, 1);
	script_fail(b.qp, ORIEL_ERR_ACCESS, ORIEL_MLX5_REMOTE_ACCESS);
	bench_put(&b, 3);
	bench_run(&b);
	/* The counter behind the first put was due. */
	assert_int_equal(b.loop->posted, 1);
	assert_int_equal(b.gone, 1);
	assert_int_equal(b.gone_well, 0);
	check_dead(&b, 2, err_of(ORIEL_MLX5_REMOTE_ACCESS, 2), ORIEL_DEV_PUT);
	bench_close(&b);
	assert_int_equal(b.gone, 1);
}

static void test_the_host_may_give_all_up(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_run(&b);
	bench_put(&b, 1);
	bench_run(&b);
	bench_put(&b, 2);
	/* The first has ended, and nobody has looked. */
	script_end(b.qp, 1);
	ori_proxy_fail(b.lane);
	assert_true(b.qp->is_failed);
	check_dead(&b, 1, err_of(ORIEL_MLX5_FLUSHED, 0), ORIEL_DEV_PUT);
	bench_close(&b);

	/* What the adapter says is worth more. */
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_run(&b);
	script_fail(b.qp, ORIEL_ERR_PEER, ORIEL_MLX5_RETRY_EXCEEDED);
	ori_proxy_fail(b.lane);
	check_dead(&b, 0, err_of(ORIEL_MLX5_RETRY_EXCEEDED, 0), ORIEL_DEV_PUT);
	bench_close(&b);
}

static void test_what_cannot_be_posted_fails_in_its_turn(void **state)
{
	static const uint32_t syndromes[] = {ORIEL_MLX5_LOCAL_PROTECTION,
					     ORIEL_MLX5_LOCAL_PROTECTION,
					     ORIEL_MLX5_LOCAL_OPERATION};
	uint64_t base;
	struct bench b;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(syndromes) / sizeof(syndromes[0]); i++) {
		bench_open(&b, DEPTH, 1u << 30);
		b.found = ORIEL_ERR_ACCESS;
		bench_put(&b, 0);
		base = bench_reserve(&b, 1);
		bench_write(&b, base, 0, i ? 0 : ORIEL_PROXY_FIND, 8);
		if (i == 2)
			bench_other(&b, base, ORIEL_PROXY_OPCODES, 0, 0, 0);
		oriel_proxy_publish(&b.ring, base, 1);
		bench_put(&b, 2);
		assert_int_equal(bench_done(&b), 0);
		assert_int_equal(b.words->err, 0);
		assert_int_equal(b.qp->posted, 1);
		script_end(b.qp, 1);
		bench_run(&b);
		check_dead(&b, 1, err_of(syndromes[i], 1), i < 2 ? ORIEL_DEV_PUT : ORIEL_DEV_FLUSH);
		bench_close(&b);
	}
}

static void test_a_counter_that_fails_ends_the_lane(void **state)
{
	struct bench b;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	bench_put(&b, 0);
	bench_count(&b, 9, 9);
	bench_put(&b, 1);
	bench_run(&b);
	script_end(b.qp, 2);
	bench_run(&b);
	script_fail(b.loop, ORIEL_ERR_ACCESS, ORIEL_MLX5_REMOTE_ACCESS);
	bench_run(&b);
	check_dead(&b, 1, err_of(ORIEL_MLX5_REMOTE_ACCESS, 1), ORIEL_DEV_COUNTER);
	bench_close(&b);
}

static void test_who_gives_up_in_the_middle_ends_the_ring(void **state)
{
	struct oriel_mlx5_limits limits = {NULL, 1000000, 1, 0};
	struct bench b;
	uint64_t base;
	unsigned i;

	(void)state;
	bench_open(&b, DEPTH, 1u << 30);
	assert_int_equal(oriel_proxy_reserve(&b.ring, DEPTH / 2 + 1, &limits, &base),
			 ORIEL_ERR_RANGE);
	for (i = 0; i < DEPTH; i++)
		bench_put(&b, i);
	assert_int_equal(oriel_proxy_reserve(&b.ring, 1, &limits, &base), ORIEL_ERR_TIMEOUT);
	assert_int_equal(oriel_mlx5_err_state(b.ring.err), ORIEL_MLX5_ABANDONED);
	assert_int_equal(oriel_mlx5_err_wqe(b.ring.err), DEPTH);
	/* What was done before counts as done. */
	b.qp->is_eager = true;
	bench_run(&b);
	assert_int_equal(oriel_proxy_wait(&b.ring, DEPTH - 1, &limits), ORIEL_OK);
	assert_int_equal(oriel_proxy_wait(&b.ring, DEPTH, &limits), ORIEL_ERR_TIMEOUT);
	bench_close(&b);
}

/* Anything at any time; nothing is lost, doubled, early or out of order. */
static void run_at_random(unsigned seed)
{
	uint64_t asked = 0, counts = 0, puts = 0, i, before = 0;
	uint32_t depth = 1 + seed % 9;
	struct bench b;

	srand(seed);
	bench_open(&b, depth, 1u << 30);
	while (b.words->completed < 200) {
		int what = rand() % 8;

		if (what < 3 && asked < 200 && asked - b.words->tail < DEPTH) {
			if (rand() % 4) {
				bench_put(&b, puts++);
			} else {
				bench_count(&b, counts++, puts);
			}
			asked++;
		}
		script_grant = (unsigned)rand() % 4;
		ori_proxy_step(b.lane);
		if (what == 4 && b.qp->ended < b.qp->posted)
			script_end(b.qp, 1);
		if (what == 5 && b.loop->ended < b.loop->posted)
			script_end(b.loop, 1);
		if (what == 6)
			ori_tally_step(b.tally);
		assert_true(b.words->completed >= before && b.words->completed <= b.words->tail);
		before = b.words->completed;
	}
	assert_int_equal(b.qp->posted, puts);
	assert_int_equal(b.loop->posted, counts);
	for (i = 0; i < puts; i++)
		assert_int_equal(b.qp->log[i].local, i);
	for (i = 0; i < counts; i++)
		assert_int_equal(b.loop->log[i].remote, i);
	bench_close(&b);
}

static void test_at_random(void **state)
{
	unsigned seed;

	(void)state;
	for (seed = 1; seed <= 200; seed++)
		run_at_random(seed);
}

#define LENGTH 65536u
#define PAGE 4096u
#define SEEDS 60u
#define ALL \
	(ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ | ORI_HCA_REMOTE_ATOMIC)

/* Two adapters in software; a lane of the first posts to a queue that the second answers. */
struct soft {
	struct ori_soft_cluster *cluster;
	struct ori_hca *hca[2];
	struct ori_hca_mr *mr[2], *sink_mr;
	struct ori_hca_keys keys[2], sink;
	struct ori_hca_cq *cq[2];
	struct ori_hca_qp *qp[2];
	struct ori_tally *tally;
	char *memory[2], *page;
	struct bench b; /* of which only the lane and the ring are used */
};

static const struct ori_hca_ops *const soft_ops = &ori_hca_soft_ops;

static enum oriel_status soft_find(void *context, uint64_t address, uint64_t length, bool is_target,
				   struct ori_proxy_place *place)
{
	struct soft *s = context;

	(void)length, (void)is_target;
	*place = (struct ori_proxy_place){address, s->keys[0].lkey, NULL};
	return ORIEL_OK;
}

static void soft_open(struct soft *s, uint64_t seed, const char *config, uint32_t depth)
{
	struct ori_hca_qp_address address[2], adapter[2];
	struct ori_proxy_lane_attr attr;
	uint32_t cqn;
	unsigned i;

	memset(s, 0, sizeof(*s));
	assert_int_equal(ori_soft_cluster_create(seed, &s->cluster), ORIEL_OK);
	s->page = aligned_alloc(PAGE, PAGE);
	assert_non_null(s->page);
	for (i = 0; i < 2; i++) {
		struct ori_hca_cq_attr cq = {.depth = depth};
		struct ori_hca_qp_attr qp = {.depth = depth};

		assert_int_equal(ori_soft_cluster_open(s->cluster, config, &s->hca[i]), ORIEL_OK);
		s->memory[i] = aligned_alloc(PAGE, LENGTH);
		assert_non_null(s->memory[i]);
		memset(s->memory[i], 0, LENGTH);
		/* This end by its addresses, that end from 0 on. */
		assert_int_equal(soft_ops->register_memory(s->hca[i], s->memory[i], LENGTH,
							   i ? 0
							     : (uint64_t)(uintptr_t)s->memory[i],
							   ALL, &s->mr[i], &s->keys[i]),
				 ORIEL_OK);
		assert_int_equal(soft_ops->create_cq(s->hca[i], &cq, &s->cq[i], &cqn), ORIEL_OK);
		qp.send_cq = s->cq[i];
		assert_int_equal(soft_ops->create_qp(s->hca[i], &qp, &s->qp[i], &address[i]),
				 ORIEL_OK);
		soft_ops->describe(s->hca[i], &adapter[i]);
	}
	assert_int_equal(soft_ops->register_memory(s->hca[0], s->page, PAGE, 0, ORI_HCA_LOCAL_WRITE,
						   &s->sink_mr, &s->sink),
			 ORIEL_OK);
	assert_int_equal(soft_ops->connect_qp(s->qp[0], &address[1]), ORIEL_OK);
	assert_int_equal(soft_ops->connect_qp(s->qp[1], &address[0]), ORIEL_OK);
	assert_int_equal(ori_tally_open(soft_ops, s->hca[0], s->sink.lkey, &s->tally), ORIEL_OK);
	s->b.entries = aligned_alloc(ORIEL_DEV_LINE, DEPTH * sizeof(*s->b.entries));
	s->b.words = aligned_alloc(ORIEL_DEV_LINE, sizeof(*s->b.words));
	assert_true(s->b.entries && s->b.words);
	memset(s->b.entries, 0, DEPTH * sizeof(*s->b.entries));
	memset(s->b.words, 0, sizeof(*s->b.words));
	s->b.ring.entries = s->b.entries;
	s->b.ring.words = s->b.words;
	s->b.ring.log_depth = LOG_DEPTH;
	attr = (struct ori_proxy_lane_attr){
		.ops = soft_ops,
		.qp = s->qp[0],
		.cq = s->cq[0],
		.depth = depth,
		.length_max = 1u << 30,
		.sink_lkey = s->sink.lkey,
		.entries = s->b.entries,
		.words = s->b.words,
		.log_depth = LOG_DEPTH,
		.memory = {s, soft_find, NULL},
		.tally = s->tally,
	};
	assert_int_equal(ori_proxy_lane_open(&attr, &s->b.lane), ORIEL_OK);
}

static void soft_close(struct soft *s)
{
	unsigned i;

	ori_proxy_lane_close(s->b.lane);
	ori_tally_close(s->tally);
	soft_ops->unregister_memory(s->sink_mr);
	for (i = 0; i < 2; i++) {
		soft_ops->destroy_qp(s->qp[i]);
		soft_ops->destroy_cq(s->cq[i]);
		soft_ops->unregister_memory(s->mr[i]);
		soft_ops->close(s->hca[i]);
		free(s->memory[i]);
	}
	ori_soft_cluster_destroy(s->cluster);
	free(s->page);
	free(s->b.entries);
	free(s->b.words);
}

static uint64_t soft_word(const struct soft *s, unsigned end, uint64_t at)
{
	return oriel_dev_load_acquire((uint64_t *)(void *)(s->memory[end] + at));
}

static struct oriel_mlx5_place soft_here(const struct soft *s, uint64_t at)
{
	return (struct oriel_mlx5_place){(uint64_t)(uintptr_t)s->memory[0] + at, ORIEL_PROXY_FIND};
}

static void soft_step(struct soft *s)
{
	ori_soft_cluster_step(s->cluster);
	ori_proxy_step(s->b.lane);
	ori_tally_step(s->tally);
}

enum { SIGNAL = 0, COUNTER = 8, OLD = 16, SOURCE = 4096, TARGET = 8192, BACK = 32768, PART = 1000 };

/* One post: a put, its signal, what brings it back, an atomic, and the counter of all. */
static void soft_ask(struct soft *s, uint64_t round)
{
	const struct oriel_mlx5_place none = {0, 0}, there = {TARGET, s->keys[1].rkey};
	const struct oriel_mlx5_place signal = {SIGNAL, s->keys[1].rkey};
	struct oriel_mlx5_place counter = {(uint64_t)(uintptr_t)s->memory[0] + COUNTER,
					   s->keys[0].rkey};
	uint64_t base = bench_reserve(&s->b, 5);

	memset(s->memory[0] + SOURCE, (int)round, PART);
	oriel_proxy_fill(&s->b.ring, base, ORIEL_PROXY_WRITE, 0, there, soft_here(s, SOURCE), 0,
			 PART);
	oriel_proxy_fill(&s->b.ring, base + 1, ORIEL_PROXY_ADD, 0, signal, none, 3, 8);
	oriel_proxy_fill(&s->b.ring, base + 2, ORIEL_PROXY_READ, 0, there, soft_here(s, BACK), 0,
			 PART);
	oriel_proxy_fill(&s->b.ring, base + 3, ORIEL_PROXY_FETCH_ADD, 0, signal, soft_here(s, OLD),
			 1, 8);
	oriel_proxy_fill(&s->b.ring, base + 4, ORIEL_PROXY_COUNT, 0, counter, none, round, 8);
	oriel_proxy_publish(&s->b.ring, base, 5);
}

static void soft_round(struct soft *s, uint64_t round)
{
	uint64_t counted = soft_word(s, 0, COUNTER), steps = 0;

	soft_ask(s, round);
	while (oriel_proxy_poll(&s->b.ring, 5 * round - 1) == ORIEL_AGAIN) {
		assert_true(steps++ < 1000000);
		soft_step(s);
		/* What tells comes after what it tells of. */
		if (soft_word(s, 1, SIGNAL) >= 4 * round - 1)
			assert_memory_equal(s->memory[1] + TARGET, s->memory[0] + SOURCE, PART);
		if (soft_word(s, 0, COUNTER) != counted)
			assert_memory_equal(s->memory[0] + BACK, s->memory[0] + SOURCE, PART);
	}
	assert_int_equal(oriel_proxy_poll(&s->b.ring, 5 * round - 1), ORIEL_OK);
	assert_memory_equal(s->memory[0] + BACK, s->memory[0] + SOURCE, PART);
	assert_int_equal(soft_word(s, 1, SIGNAL), 4 * round);
	assert_int_equal(soft_word(s, 0, OLD), 4 * round - 1);
	assert_int_equal(soft_word(s, 0, COUNTER), round * (round + 1) / 2);
}

static void test_adapters_in_software_do_it(void **state)
{
	static const char *const configs[] = {"", "drop=0.05,dup=0.05,ack=1ms,retry=100",
					      "gather=20us,late_cqe=20us,shuffle=1",
					      "mtu=256,reads=1,relaxed=8", "first=65500"};
	struct soft s;
	uint64_t seed, round;

	(void)state;
	for (seed = 1; seed <= SEEDS; seed++) {
		soft_open(&s, seed, configs[seed % 5], seed % 3 ? 3 : 64);
		for (round = 1; round <= 10; round++)
			soft_round(&s, round);
		soft_close(&s);
	}
}

static void test_adapters_in_software_refuse(void **state)
{
	struct oriel_mlx5_place from;
	struct soft s;
	uint64_t base, steps = 0;

	(void)state;
	soft_open(&s, 7, "", 16);
	soft_round(&s, 1);
	base = bench_reserve(&s.b, 2);
	from = soft_here(&s, SOURCE);
	oriel_proxy_fill(&s.b.ring, base, ORIEL_PROXY_WRITE, 0,
			 (struct oriel_mlx5_place){LENGTH - 4, s.keys[1].rkey}, from, 0, 8);
	oriel_proxy_fill(&s.b.ring, base + 1, ORIEL_PROXY_WRITE, 0,
			 (struct oriel_mlx5_place){TARGET, s.keys[1].rkey}, from, 0, 8);
	oriel_proxy_publish(&s.b.ring, base, 2);
	while (oriel_proxy_poll(&s.b.ring, base + 1) == ORIEL_AGAIN) {
		assert_true(steps++ < 1000000);
		soft_step(&s);
	}
	assert_int_equal(oriel_proxy_poll(&s.b.ring, base - 1), ORIEL_OK);
	assert_int_equal(oriel_proxy_poll(&s.b.ring, base), ORIEL_ERR_ACCESS);
	assert_int_equal(oriel_mlx5_err_syndrome(s.b.ring.err), ORIEL_MLX5_REMOTE_ACCESS);
	assert_int_equal(oriel_mlx5_err_wqe(s.b.ring.err), base);
	assert_true(oriel_proxy_is_over(&s.b.ring, base + 1));
	soft_close(&s);
}

#define RATE_ENTRIES 4000000u

/* ns for each entry, from its reservation to the word that says it is done. */
static double rate_of(uint32_t each)
{
	uint64_t asked = 0, start;
	struct bench b;
	double ns;

	bench_open(&b, 4 * DEPTH, 1u << 30);
	b.qp->is_eager = true;
	start = ori_clock_ns();
	while (asked < RATE_ENTRIES) {
		uint64_t base = bench_reserve(&b, each);

		for (uint32_t i = 0; i < each; i++)
			bench_write(&b, base + i, base + i, LKEY, 8);
		oriel_proxy_publish(&b.ring, base, each);
		asked += each;
		ori_proxy_step(b.lane);
		script_grant = UINT32_MAX;
	}
	assert_int_equal(bench_done(&b), asked);
	ns = (double)(ori_clock_ns() - start) / (double)asked;
	bench_close(&b);
	return ns;
}

static int tell_rate(void)
{
	uint32_t each;

	for (each = 1; each <= DEPTH / 2; each *= 2) {
		double ns = rate_of(each);

		printf("%u entries a post and a step: %.1f ns each, %.1f million/s\n", each, ns,
		       1e3 / ns);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_not_published_is_not_taken),
		cmocka_unit_test(test_a_stamp_is_of_one_entry),
		cmocka_unit_test(test_requests_are_what_was_asked_for),
		cmocka_unit_test(test_a_post_is_one_chain_whose_last_tells),
		cmocka_unit_test(test_nothing_is_done_before_its_end),
		cmocka_unit_test(test_a_slot_is_free_when_it_has_been_copied_and_no_sooner),
		cmocka_unit_test(test_a_post_is_freed_in_parts),
		cmocka_unit_test(test_what_a_full_queue_refuses_is_posted_later_and_once),
		cmocka_unit_test(test_a_queue_of_any_depth_goes_on),
		cmocka_unit_test(test_a_counter_waits_for_all_before_it),
		cmocka_unit_test(test_counters_wait_for_room),
		cmocka_unit_test(test_a_fence_waits_for_all_before_it),
		cmocka_unit_test(test_what_is_too_long_is_cut),
		cmocka_unit_test(test_memory_is_found_by_its_address),
		cmocka_unit_test(test_a_failure_ends_all_but_what_was_done),
		cmocka_unit_test(test_the_host_may_give_all_up),
		cmocka_unit_test(test_what_cannot_be_posted_fails_in_its_turn),
		cmocka_unit_test(test_a_counter_that_fails_ends_the_lane),
		cmocka_unit_test(test_who_gives_up_in_the_middle_ends_the_ring),
		cmocka_unit_test(test_at_random),
		cmocka_unit_test(test_adapters_in_software_do_it),
		cmocka_unit_test(test_adapters_in_software_refuse),
	};

	if (argc > 1 && strcmp(argv[1], "rate") == 0)
		return tell_rate();
	return cmocka_run_group_tests_name("rdma_proxy", tests, NULL, NULL);
}
