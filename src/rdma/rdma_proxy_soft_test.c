/* SPDX-License-Identifier: Apache-2.0 */
/* A lane on software HCAs, in virtual time. */
#include "hca/test_support/soft_cluster.h"
#include "rdma/lane_test.h"

#define LENGTH 65536u
#define PAGE 4096u
#define SEEDS 60u
#define ALL \
	(ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ | ORI_HCA_REMOTE_ATOMIC)

/* Two software HCAs; a lane of the first posts to a queue that the second answers. */
struct soft {
	struct ori_soft_cluster *cluster;
	struct ori_hca *hca[2];
	struct ori_hca_mr *mr[2], *sink_mr;
	struct ori_hca_keys keys[2], sink;
	struct ori_hca_cq *cq[2];
	struct ori_hca_qp *qp[2];
	struct ori_host_link *loopback;
	char *memory[2], *page;
	struct bench b; /* of which only the lane and the ring are used */
};

static const struct ori_hca_ops *const soft_ops = &ori_hca_soft_ops;

static enum oriel_status soft_find(void *context, uint64_t address, uint64_t length, bool is_target,
				   struct ori_proxy_sge *sge)
{
	struct soft *s = context;

	(void)length, (void)is_target;
	*sge = (struct ori_proxy_sge){.address = address, .key = s->keys[0].lkey};
	return ORIEL_OK;
}

static void soft_open(struct soft *s, uint64_t seed, const char *config, uint32_t depth)
{
	struct ori_hca_qp_address address[2], hca_address[2];
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
		/* Peers name local memory by its addresses, remote memory by offsets from 0. */
		assert_int_equal(soft_ops->register_memory(s->hca[i], s->memory[i], LENGTH,
							   i ? 0
							     : (uint64_t)(uintptr_t)s->memory[i],
							   ALL, &s->mr[i], &s->keys[i]),
				 ORIEL_OK);
		assert_int_equal(soft_ops->create_cq(s->hca[i], &cq, &s->cq[i], &cqn), ORIEL_OK);
		qp.send_cq = s->cq[i];
		assert_int_equal(soft_ops->create_qp(s->hca[i], &qp, &s->qp[i], &address[i]),
				 ORIEL_OK);
		soft_ops->describe(s->hca[i], &hca_address[i]);
	}
	assert_int_equal(soft_ops->register_memory(s->hca[0], s->page, PAGE, 0, ORI_HCA_LOCAL_WRITE,
						   &s->sink_mr, &s->sink),
			 ORIEL_OK);
	assert_int_equal(soft_ops->connect_qp(s->qp[0], &address[1]), ORIEL_OK);
	assert_int_equal(soft_ops->connect_qp(s->qp[1], &address[0]), ORIEL_OK);
	assert_int_equal(ori_loopback_open(soft_ops, s->hca[0], s->sink.lkey, &s->loopback),
			 ORIEL_OK);
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
		.loopback = s->loopback,
	};
	assert_int_equal(ori_proxy_lane_open(&attr, &s->b.lane), ORIEL_OK);
}

static void soft_close(struct soft *s)
{
	unsigned i;

	ori_proxy_lane_close(s->b.lane);
	ori_host_destroy(s->loopback);
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

static struct ori_dev_rdma_address soft_local(const struct soft *s, uint64_t at)
{
	return (struct ori_dev_rdma_address){(uint64_t)(uintptr_t)s->memory[0] + at,
					     ORIEL_PROXY_LOOKUP};
}

static void soft_step(struct soft *s)
{
	ori_soft_cluster_step(s->cluster);
	ori_proxy_step(s->b.lane);
	ori_loopback_step(s->loopback);
}

enum { SIGNAL = 0, COUNTER = 8, OLD = 16, SOURCE = 4096, TARGET = 8192, BACK = 32768, PART = 1000 };

/* One post: a put, its signal, a get that reads it back, an atomic, and the counter of all. */
static void soft_post(struct soft *s, uint64_t round)
{
	const struct ori_dev_rdma_address none = {0, 0}, there = {TARGET, s->keys[1].rkey};
	const struct ori_dev_rdma_address signal = {SIGNAL, s->keys[1].rkey};
	struct ori_dev_rdma_address counter = {(uint64_t)(uintptr_t)s->memory[0] + COUNTER,
					       s->keys[0].rkey};
	uint64_t base = bench_reserve(&s->b, 5);

	memset(s->memory[0] + SOURCE, (int)round, PART);
	ori_dev_proxy_fill(&s->b.ring, base, ORIEL_PROXY_WRITE, 0, there, soft_local(s, SOURCE), 0,
			   PART);
	ori_dev_proxy_fill(&s->b.ring, base + 1, ORIEL_PROXY_ADD, 0, signal, none, 3, 8);
	ori_dev_proxy_fill(&s->b.ring, base + 2, ORIEL_PROXY_READ, 0, there, soft_local(s, BACK), 0,
			   PART);
	ori_dev_proxy_fill(&s->b.ring, base + 3, ORIEL_PROXY_FETCH_ADD, 0, signal,
			   soft_local(s, OLD), 1, 8);
	ori_dev_proxy_fill(&s->b.ring, base + 4, ORIEL_PROXY_COUNT, 0, counter, none, round, 8);
	ori_dev_proxy_publish(&s->b.ring, base, 5);
}

static void soft_round(struct soft *s, uint64_t round)
{
	uint64_t counted = soft_word(s, 0, COUNTER), steps = 0;

	soft_post(s, round);
	while (ori_dev_proxy_poll(&s->b.ring, 5 * round - 1) == ORIEL_AGAIN) {
		assert_true(steps++ < 1000000);
		soft_step(s);
		/* A signal or counter changes after the data that it announces. */
		if (soft_word(s, 1, SIGNAL) >= 4 * round - 1)
			assert_memory_equal(s->memory[1] + TARGET, s->memory[0] + SOURCE, PART);
		if (soft_word(s, 0, COUNTER) != counted)
			assert_memory_equal(s->memory[0] + BACK, s->memory[0] + SOURCE, PART);
	}
	assert_int_equal(ori_dev_proxy_poll(&s->b.ring, 5 * round - 1), ORIEL_OK);
	assert_memory_equal(s->memory[0] + BACK, s->memory[0] + SOURCE, PART);
	assert_int_equal(soft_word(s, 1, SIGNAL), 4 * round);
	assert_int_equal(soft_word(s, 0, OLD), 4 * round - 1);
	assert_int_equal(soft_word(s, 0, COUNTER), round * (round + 1) / 2);
}

static void test_the_software_hca_completes_it(void **state)
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

static void test_the_software_hca_rejects_a_bad_key(void **state)
{
	struct ori_dev_rdma_address from;
	struct soft s;
	uint64_t base, steps = 0;

	(void)state;
	soft_open(&s, 7, "", 16);
	soft_round(&s, 1);
	base = bench_reserve(&s.b, 2);
	from = soft_local(&s, SOURCE);
	ori_dev_proxy_fill(&s.b.ring, base, ORIEL_PROXY_WRITE, 0,
			   (struct ori_dev_rdma_address){LENGTH - 4, s.keys[1].rkey}, from, 0, 8);
	ori_dev_proxy_fill(&s.b.ring, base + 1, ORIEL_PROXY_WRITE, 0,
			   (struct ori_dev_rdma_address){TARGET, s.keys[1].rkey}, from, 0, 8);
	ori_dev_proxy_publish(&s.b.ring, base, 2);
	while (ori_dev_proxy_poll(&s.b.ring, base + 1) == ORIEL_AGAIN) {
		assert_true(steps++ < 1000000);
		soft_step(&s);
	}
	assert_int_equal(ori_dev_proxy_poll(&s.b.ring, base - 1), ORIEL_OK);
	assert_int_equal(ori_dev_proxy_poll(&s.b.ring, base), ORIEL_ERR_ACCESS);
	assert_int_equal(ori_dev_queue_err_syndrome(s.b.ring.err), ORIEL_SYNDROME_REMOTE_ACCESS);
	assert_int_equal(ori_dev_queue_err_index(s.b.ring.err), base);
	assert_true(ori_dev_proxy_is_over(&s.b.ring, base + 1));
	soft_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_software_hca_completes_it),
		cmocka_unit_test(test_the_software_hca_rejects_a_bad_key),
	};

	return cmocka_run_group_tests_name("rdma_proxy_soft", tests, NULL, NULL);
}
