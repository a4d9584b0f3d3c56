/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a pair of rings over the fake; mlx5_test and create_test connect sides. */
#ifndef FAKEMLX5_MLX5_SIDE_H
#define FAKEMLX5_MLX5_SIDE_H

#include "fakemlx5.h"
#include "hca/call_bench_test.h"
#include "hca/mlx5/mlx5.h"
#include "hca/mlx5/ring_place_test.h"

#define RING_DEPTH 64u
#define RING_LENGTH (1u << 20)

static const struct ori_dev_link_wait_limits patient = {NULL, CALL_PATIENCE_NS, 1, 0};

/* One side of a pair of rings. */
struct side {
	struct ori_hca *hca;
	struct ori_hca_cq *cq;
	struct ori_hca_qp *qp;
	struct ori_hca_qp_address address;
	_Alignas(128) struct ori_dev_mlx5_queue queue;
	char *memory;
	struct ori_hca_mr *mr;
	struct ori_hca_keys keys;
	uint32_t cqn;
};

static inline const struct ori_hca_ops *ops(void)
{
	return ori_hca_mlx5();
}

static inline void side_open_queue(struct side *s, uint32_t depth, bool is_companion)
{
	struct ori_hca_cq_attr cq = {.depth = depth, .has_own_ring = true};
	struct ori_hca_qp_attr qp = {.depth = depth,
				     .has_own_ring = true,
				     .is_companion = is_companion};
	struct ori_hca_caps caps;

	assert_int_equal(ops()->create_cq(s->hca, &cq, &s->cq, &s->cqn), ORIEL_OK);
	qp.send_cq = s->cq;
	if (ops()->create_qp(s->hca, &qp, &s->qp, &s->address) != ORIEL_OK)
		fail_msg("%s", oriel_last_error());
	ops()->caps(s->hca, &caps);
	ring_place(&s->queue, &caps, s->qp, s->address.qpn, s->cqn, depth);
}

static inline void side_close_queue(struct side *s)
{
	ops()->destroy_qp(s->qp);
	ops()->destroy_cq(s->cq);
}

static inline void side_open(struct side *s, const char *name)
{
	memset(s, 0, sizeof(*s));
	if (ops()->open(name, 0, &s->hca) != ORIEL_OK)
		fail_msg("%s", oriel_last_error());
	s->memory = aligned_alloc(4096, RING_LENGTH);
	memset(s->memory, 0, RING_LENGTH);
	assert_int_equal(ops()->register_memory(s->hca, s->memory, RING_LENGTH, 0, CALL_ALL, &s->mr,
						&s->keys),
			 ORIEL_OK);
	side_open_queue(s, RING_DEPTH, false);
}

static inline void side_close(struct side *s)
{
	side_close_queue(s);
	ops()->unregister_memory(s->mr);
	ops()->close(s->hca);
	free(s->memory);
}

static inline enum oriel_status side_join(struct side *a, struct side *b)
{
	enum oriel_status status = ops()->connect_qp(a->qp, &b->address);

	return status == ORIEL_OK ? ops()->connect_qp(b->qp, &a->address) : status;
}

static inline struct ori_dev_rdma_address side_address(const struct side *s, uint64_t at)
{
	return (struct ori_dev_rdma_address){at, s->keys.lkey};
}

static inline enum oriel_status side_write(struct side *from, const struct side *to, uint64_t at,
					   uint64_t peer, uint32_t length)
{
	enum oriel_status status;
	uint64_t base = 0;

	status = ori_dev_mlx5_reserve(&from->queue, 1, &patient, &base);
	if (status != ORIEL_OK)
		return status;
	ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(&from->queue, base),
			       ori_dev_mlx5_head_of(&from->queue, base, ORIEL_MLX5_FENCE_NONE),
			       side_address(to, peer), side_address(from, at), length);
	status = ori_dev_mlx5_post(&from->queue, base, 1, &patient);
	return status == ORIEL_OK ? ori_dev_mlx5_wait(&from->queue, base, &patient) : status;
}

static inline uint64_t side_add(struct side *from, const struct side *to, uint64_t at,
				uint64_t value)
{
	uint64_t base = 0, *result = (uint64_t *)(void *)(from->memory + 4096);

	assert_int_equal(ori_dev_mlx5_reserve(&from->queue, 1, &patient, &base), ORIEL_OK);
	ori_dev_mlx5_wqe_fetch_add(ori_dev_mlx5_slot(&from->queue, base),
				   ori_dev_mlx5_head_of(&from->queue, base, ORIEL_MLX5_FENCE_NONE),
				   side_address(to, at), side_address(from, 4096), value);
	assert_int_equal(ori_dev_mlx5_post(&from->queue, base, 1, &patient), ORIEL_OK);
	assert_int_equal(ori_dev_mlx5_wait(&from->queue, base, &patient), ORIEL_OK);
	return ori_dev_mlx5_atomic_result(&from->queue, *result);
}

/* Bytes move both ways, in more WQEs than the ring holds, and the atomic counts. */
static inline void sides_move(struct side *a, struct side *b)
{
	for (unsigned i = 0; i < 3 * RING_DEPTH; i++) {
		struct side *from = i % 2 ? b : a, *to = i % 2 ? a : b;
		uint32_t length = i % 5 == 0 ? 40000 : 1 + i;

		call_fill(from->memory + 8192, length, i);
		assert_int_equal(side_write(from, to, 8192, 65536, length), ORIEL_OK);
		assert_memory_equal(from->memory + 8192, to->memory + 65536, length);
		assert_int_equal(side_add(a, b, 0, 3), 3 * i);
	}
}

static inline void assert_pair_works(const char *first, const char *second)
{
	struct side a, b;

	side_open(&a, first);
	side_open(&b, second);
	if (side_join(&a, &b) != ORIEL_OK)
		fail_msg("%s", oriel_last_error());
	sides_move(&a, &b);
	side_close(&a);
	side_close(&b);
	assert_int_equal(fake5_left(), 0);
}

static inline void assert_report(enum ori_mlx5_tier tier, bool is_devx, const char *doorbells)
{
	struct ori_mlx5_report report;

	assert_int_equal(ori_mlx5_probe("mlx5_0", 0, NULL, &report), ORIEL_OK);
	assert_int_equal(report.tier, tier);
	assert_int_equal(report.is_devx, is_devx);
	assert_string_equal(report.doorbells, doorbells);
	for (unsigned t = 0; t < ORI_MLX5_TIERS; t++)
		assert_int_equal(report.why[t][0] != 0, t < tier);
}

#endif
