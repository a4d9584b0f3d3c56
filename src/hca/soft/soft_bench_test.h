/* SPDX-License-Identifier: Apache-2.0 */
/* QPs of software HCAs with everything they need, for tests. */
#ifndef ORI_HCA_SOFT_BENCH_TEST_H
#define ORI_HCA_SOFT_BENCH_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <oriel/dev/detail/mlx5_ring.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hca/test_support/soft_cluster.h"

#define HCA ori_hca_soft_ops
#define ALL \
	(ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ | ORI_HCA_REMOTE_ATOMIC)
#define PATIENCE_NS UINT64_C(30000000000)
#define STEPS_MOST 20000000u

/* One QP, its CQ and a buffer. */
struct side {
	struct ori_soft_cluster *cluster; /* NULL: the thread of the process drives the HCA */
	struct ori_hca *hca;
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_mr *mr, *sink_mr;
	struct ori_hca_keys keys, sink_keys;
	struct ori_hca_qp_address address;
	struct ori_dev_mlx5_queue queue;
	char *sq_ring, *cq_ring, *memory;
	uint32_t *record;
	uint64_t *sink;
};

struct side_attr {
	struct ori_soft_cluster *cluster;
	struct ori_hca *hca;
	unsigned slot; /* of the doorbell page */
	uint32_t depth;
	uint64_t first;
	size_t length;   /* of the buffer */
	unsigned access; /* ALL if 0 */
	bool is_companion;

	/* of the CQ; as the QP's if 0 */
	uint32_t cq_depth;
	uint64_t cq_first;
	bool is_collapsed;
	const uint32_t *cq_record;
};

/* Warnings and errors, which also the thread of the engine writes. */
struct bench_log {
	pthread_mutex_t lock;
	char text[4096]; /* guarded by lock */
};

static inline void bench_log_keep(void *context, enum oriel_log_level level, const char *message)
{
	struct bench_log *log = context;
	size_t length;

	if (level > ORIEL_LOG_WARN)
		return;
	pthread_mutex_lock(&log->lock);
	length = strlen(log->text);
	snprintf(log->text + length, sizeof(log->text) - length, "%s\n", message);
	pthread_mutex_unlock(&log->lock);
}

static inline void bench_log_begin(struct bench_log *log)
{
	pthread_mutex_init(&log->lock, NULL);
	log->text[0] = '\0';
	oriel_log_set_sink(bench_log_keep, log);
}

static inline void bench_log_end(struct bench_log *log)
{
	oriel_log_set_sink(NULL, NULL);
	pthread_mutex_destroy(&log->lock);
}

/* Occurrences of @text. */
static inline unsigned bench_log_count(struct bench_log *log, const char *text)
{
	unsigned count = 0;

	pthread_mutex_lock(&log->lock);
	for (const char *at = log->text; (at = strstr(at, text)); at++)
		count++;
	pthread_mutex_unlock(&log->lock);
	return count;
}

static inline void *side_alloc(size_t length)
{
	size_t whole = (length + 4095) / 4096 * 4096;
	char *p = aligned_alloc(4096, whole ? whole : 4096);

	assert_non_null(p);
	memset(p, 0, whole ? whole : 4096);
	return p;
}

static inline void side_open(struct side *s, const struct side_attr *attr)
{
	struct ori_hca_cq_attr cq;
	struct ori_hca_qp_attr qp;
	struct ori_hca_caps caps;
	void *page;

	*s = (struct side){.cluster = attr->cluster, .hca = attr->hca};
	s->sq_ring = side_alloc((size_t)attr->depth * 64);
	s->cq_ring = side_alloc((size_t)attr->depth * 64);
	s->memory = side_alloc(attr->length);
	s->record = side_alloc(8);
	s->record[1] = ori_dev_mlx5_record_value(attr->first);
	s->sink = side_alloc(8);
	HCA.caps(s->hca, &caps);
	assert_int_equal(caps.rings->doorbell_page(s->hca, &page), ORIEL_OK);
	cq = (struct ori_hca_cq_attr){
		.ring = s->cq_ring,
		.depth = attr->cq_depth ? attr->cq_depth : attr->depth,
		.first = attr->cq_first ? attr->cq_first : attr->first,
		.is_collapsed = attr->is_collapsed,
		.record = attr->cq_record,
	};
	assert_int_equal(HCA.create_cq(s->hca, &cq, &s->cq, &s->queue.cqn), ORIEL_OK);
	qp = (struct ori_hca_qp_attr){
		.ring = s->sq_ring,
		.depth = attr->depth,
		.record = s->record,
		.doorbell = (uint64_t *)page + 0x100 + attr->slot,
		.send_cq = s->cq,
		.is_companion = attr->is_companion,
		.first = attr->first,
	};
	assert_int_equal(HCA.create_qp(s->hca, &qp, &s->qp, &s->address), ORIEL_OK);
	assert_int_equal(HCA.register_memory(s->hca, s->memory, attr->length ? attr->length : 1, 0,
					     attr->access ? attr->access : ALL, &s->mr, &s->keys),
			 ORIEL_OK);
	assert_int_equal(HCA.register_memory(s->hca, s->sink, 8, 0, ORI_HCA_LOCAL_WRITE,
					     &s->sink_mr, &s->sink_keys),
			 ORIEL_OK);
	s->queue.sq = s->sq_ring;
	s->queue.cq = s->cq_ring;
	s->queue.record = s->record;
	s->queue.doorbell = qp.doorbell;
	s->queue.asleep = page;
	s->queue.qpn = s->address.qpn;
	s->queue.log_depth = (uint32_t)__builtin_ctz(attr->depth);
	s->queue.sink_lkey = s->sink_keys.lkey;
	ori_dev_mlx5_queue_begin(&s->queue, attr->first);
}

static inline void side_close(struct side *s)
{
	HCA.destroy_qp(s->qp);
	HCA.destroy_cq(s->cq);
	HCA.unregister_memory(s->mr);
	HCA.unregister_memory(s->sink_mr);
	free(s->sq_ring);
	free(s->cq_ring);
	free(s->memory);
	free(s->record);
	free(s->sink);
}

static inline void side_join(struct side *a, struct side *b)
{
	assert_int_equal(HCA.connect_qp(a->qp, &b->address), ORIEL_OK);
	assert_int_equal(HCA.connect_qp(b->qp, &a->address), ORIEL_OK);
}

/* The QP becomes its own peer. */
static inline void side_join_itself(struct side *s)
{
	assert_int_equal(HCA.connect_qp(s->qp, &s->address), ORIEL_OK);
}

static inline struct ori_dev_link_wait_limits side_limits(void)
{
	return (struct ori_dev_link_wait_limits){.timeout_ns = PATIENCE_NS, .spin = 100};
}

/* Wait until WQE @index is complete or the queue has failed. */
static inline enum oriel_status side_wait(struct side *s, uint64_t index)
{
	struct ori_dev_link_wait_limits limits = side_limits();
	enum oriel_status status = ori_dev_mlx5_poll(&s->queue, index);

	if (!s->cluster)
		return ori_dev_mlx5_wait(&s->queue, index, &limits);
	for (unsigned i = 0; i < STEPS_MOST && status == ORIEL_AGAIN; i++) {
		if (!ori_soft_cluster_step(s->cluster))
			return ori_dev_mlx5_poll(&s->queue, index);
		status = ori_dev_mlx5_poll(&s->queue, index);
	}
	return status;
}

/* Reserve room for one WQE; returns its index. */
static inline uint64_t side_reserve(struct side *s)
{
	struct ori_dev_link_wait_limits limits = side_limits();
	uint64_t depth = ori_dev_mlx5_depth(&s->queue), index = 0;

	if (s->queue.resv >= s->queue.done + depth)
		assert_int_equal(side_wait(s, s->queue.resv - depth), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_reserve(&s->queue, 1, &limits, &index), ORIEL_OK);
	return index;
}

static inline uint64_t side_publish(struct side *s, uint64_t index)
{
	struct ori_dev_link_wait_limits limits = side_limits();

	assert_int_equal(ori_dev_mlx5_publish(&s->queue, index, 1, &limits), ORIEL_OK);
	ori_dev_mlx5_ring(&s->queue);
	return index;
}

static inline struct ori_dev_rdma_address side_at(const struct side *s, uint64_t offset)
{
	return (struct ori_dev_rdma_address){offset, s->keys.rkey};
}

#define SIDE_POST(s, index, call)                                                        \
	uint64_t index = side_reserve(s);                                                \
	void *slot = ori_dev_mlx5_slot(&(s)->queue, index);                              \
	struct ori_dev_mlx5_head head = ori_dev_mlx5_head_of(&(s)->queue, index, fence); \
	call;                                                                            \
	return side_publish(s, index)

static inline uint64_t side_write(struct side *s, const struct side *to, uint64_t offset,
				  uint64_t from, uint32_t length, uint32_t fence)
{
	SIDE_POST(s, i,
		  ori_dev_mlx5_wqe_write(slot, head, side_at(to, offset), side_at(s, from),
					 length));
}

static inline uint64_t side_inline(struct side *s, const struct side *to, uint64_t offset,
				   const void *data, uint32_t length)
{
	uint32_t fence = 0;

	SIDE_POST(s, i,
		  ori_dev_mlx5_wqe_write_inline(slot, head, side_at(to, offset), data, length));
}

static inline uint64_t side_read(struct side *s, const struct side *of, uint64_t offset,
				 uint64_t into, uint32_t length, uint32_t fence)
{
	SIDE_POST(s, i,
		  ori_dev_mlx5_wqe_read(slot, head, side_at(of, offset), side_at(s, into), length));
}

static inline uint64_t side_add(struct side *s, const struct side *to, uint64_t offset,
				struct ori_dev_rdma_address result, uint64_t value)
{
	uint32_t fence = 0;

	SIDE_POST(s, i, ori_dev_mlx5_wqe_fetch_add(slot, head, side_at(to, offset), result, value));
}

static inline uint64_t side_signal(struct side *s, const struct side *to, uint64_t offset)
{
	return side_add(s, to, offset, ori_dev_mlx5_sink(&s->queue), 1);
}

static inline uint64_t side_swap(struct side *s, const struct side *to, uint64_t offset,
				 uint64_t into, uint64_t compare, uint64_t swap)
{
	uint32_t fence = 0;

	SIDE_POST(s, i,
		  ori_dev_mlx5_wqe_compare_swap(slot, head, side_at(to, offset), side_at(s, into),
						compare, swap));
}

static inline uint64_t side_nop(struct side *s)
{
	uint32_t fence = 0;

	SIDE_POST(s, i, ori_dev_mlx5_wqe_nop(slot, head));
}

static inline uint64_t side_dump(struct side *s, uint64_t at, uint32_t length, uint32_t fence)
{
	SIDE_POST(s, i, ori_dev_mlx5_wqe_dump(slot, head, side_at(s, at), length));
}

static inline uint64_t side_wait_cqe(struct side *s, uint32_t cqn, uint64_t cqe)
{
	uint32_t fence = 0;

	SIDE_POST(s, i, ori_dev_mlx5_wqe_wait(slot, head, cqn, cqe));
}

static inline uint32_t side_syndrome(const struct side *s)
{
	return ori_dev_queue_err_syndrome(s->queue.err);
}

/* Add @add to the 4 bytes at @offset of @to. */
static inline uint64_t side_add32(struct side *s, const struct side *to, uint64_t offset,
				  uint64_t into, uint32_t add, uint32_t boundary)
{
	uint32_t fence = 0;

	SIDE_POST(s, i,
		  ori_dev_mlx5_wqe_masked_add32(slot, head, side_at(to, offset), side_at(s, into),
						add, boundary));
}

static inline uint64_t side_add64(struct side *s, const struct side *to, uint64_t offset,
				  uint64_t into, uint64_t add, uint64_t boundary)
{
	uint32_t fence = 0;

	SIDE_POST(s, i,
		  ori_dev_mlx5_wqe_masked_add64(slot, head, side_at(to, offset), side_at(s, into),
						add, boundary));
}

static inline uint64_t side_swap32(struct side *s, const struct side *to, uint64_t offset,
				   uint64_t into, const struct ori_dev_mlx5_swap *swap)
{
	uint32_t fence = 0;

	SIDE_POST(s, i,
		  ori_dev_mlx5_wqe_masked_swap32(slot, head, side_at(to, offset), side_at(s, into),
						 swap));
}

static inline uint64_t *side_word(struct side *s, uint64_t offset)
{
	return (uint64_t *)(void *)(s->memory + offset);
}

/* Two HCAs, each with a QP that is joined to that of the other. */
struct arena {
	struct ori_soft_cluster *cluster;
	struct ori_hca *hca[2];
	struct side a, b;
};

static inline void arena_close(struct arena *r)
{
	side_close(&r->a);
	side_close(&r->b);
	for (unsigned i = 0; i < 2; i++)
		HCA.close(r->hca[i]);
	ori_soft_cluster_destroy(r->cluster);
}

/* The teardown of a test whose state is an arena on the heap. */
static inline int close_arena(void **state)
{
	arena_close(*state);
	free(*state);
	return 0;
}

#endif
