/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posts to the queues of a NIC before the library relies on them: one text for a kernel
 * (stream_trial()) and for a thread. src/hca makes the queues and reads the results.
 */
#ifndef ORI_KERNELS_TRIAL_H
#define ORI_KERNELS_TRIAL_H

#include <oriel/dev/detail/mlx5_ring.h>

#define ORI_TRIAL_DEPTH 64u
#define ORI_TRIAL_NS UINT64_C(1000000000)
#define ORI_TRIAL_WORDS 8u
#define ORI_TRIAL_UNSET UINT64_C(0x5a5a5a5a5a5a5a5a)

/* Memory that the NIC reads and writes: both keys cover it, at its offset in it. */
struct ori_trial_memory {
	uint64_t source[ORI_TRIAL_WORDS];
	uint64_t target[ORI_TRIAL_WORDS];
	uint64_t counter;   /* begins at 0 */
	uint64_t old;       /* of the counter, as the main queue found it; UNSET before */
	uint64_t counted;   /* the same of the companion */
	uint64_t masked[2]; /* the word of a masked addition, and its old value */
	uint64_t reserved[11];
};

ORIEL_DEV_ASSERT(sizeof(struct ori_trial_memory) == 2 * ORIEL_DEV_LINE);

/* At the start of a page, which the poster and the host reach. The host fills in all but the
 * results. */
struct ori_trial {
	struct ori_trial_memory memory; /* first: keys from offset 0 need the start of a page */
	struct ori_dev_mlx5_queue main; /* connected to itself, empty */
	struct ori_dev_mlx5_queue companion; /* the same; not used without @has_companion */
	uint32_t lkey, rkey;
	uint32_t has_companion, has_masked;

	/* The host withdraws a kernel that does not begin: each of both stores, then reads. */
	uint32_t is_begun, is_withdrawn;

	/* enum oriel_status, of a NOP and a WRITE, of what the companion posts, of the addition. */
	int32_t main_status, companion_status, masked_status;
	uint32_t is_done;
};

ORIEL_DEV struct ori_dev_rdma_address ori_trial_local(const struct ori_trial *t, size_t offset)
{
	struct ori_dev_rdma_address address = {offset, t->lkey};

	return address;
}

ORIEL_DEV struct ori_dev_rdma_address ori_trial_remote(const struct ori_trial *t, size_t offset)
{
	struct ori_dev_rdma_address address = {offset, t->rkey};

	return address;
}

/* A CQE in other memory may be visible before the data: a READ or a DUMP would order them. */
ORIEL_DEV enum oriel_status ori_trial_await(const uint64_t *word, uint64_t value, bool is_equal)
{
	uint64_t begin = oriel_dev_clock_ns();

	while ((oriel_dev_load_acquire(word) == value) != is_equal) {
		if (oriel_dev_clock_ns() - begin > ORI_TRIAL_NS)
			return ORIEL_ERR_PROTOCOL;
		ori_dev_back_off(oriel_dev_clock_ns() - begin);
	}
	return ORIEL_OK;
}

/* A NOP, then a WRITE, and their CQEs. */
ORIEL_DEV enum oriel_status ori_trial_post(struct ori_trial *t,
					   const struct ori_dev_link_wait_limits *limits)
{
	struct ori_dev_mlx5_queue *q = &t->main;
	enum oriel_status status;
	uint64_t base = 0;
	uint32_t i;

	status = ori_dev_mlx5_reserve(q, 2, limits, &base);
	if (status != ORIEL_OK)
		return status;
	ori_dev_mlx5_wqe_nop(ori_dev_mlx5_slot(q, base), ori_dev_mlx5_head_of(q, base, 0));
	ori_dev_mlx5_wqe_write(ori_dev_mlx5_slot(q, base + 1), ori_dev_mlx5_head_of(q, base + 1, 0),
			       ori_trial_remote(t, offsetof(struct ori_trial_memory, target)),
			       ori_trial_local(t, offsetof(struct ori_trial_memory, source)),
			       sizeof(t->memory.source));
	status = ori_dev_mlx5_post(q, base, 2, limits);
	if (status == ORIEL_OK)
		status = ori_dev_mlx5_wait(q, base, limits);
	if (status == ORIEL_OK)
		status = ori_dev_mlx5_wait(q, base + 1, limits);
	for (i = 0; i < ORI_TRIAL_WORDS && status == ORIEL_OK; i++)
		status = ori_trial_await(&t->memory.target[i], t->memory.source[i], true);
	return status;
}

ORIEL_DEV void ori_trial_add(struct ori_trial *t, struct ori_dev_mlx5_queue *q, uint64_t index,
			     size_t result)
{
	ori_dev_mlx5_wqe_fetch_add(ori_dev_mlx5_slot(q, index), ori_dev_mlx5_head_of(q, index, 0),
				   ori_trial_remote(t, offsetof(struct ori_trial_memory, counter)),
				   ori_trial_local(t, result), 1);
}

/*
 * The companion WAITs for a request that is not posted yet and then adds to a word to which that
 * request adds as well. It finds the addition there: else it did not wait.
 */
ORIEL_DEV enum oriel_status ori_trial_count(struct ori_trial *t,
					    const struct ori_dev_link_wait_limits *limits)
{
	struct ori_dev_mlx5_queue *q = &t->main, *c = &t->companion;
	uint64_t index = 0, base = 0;
	enum oriel_status status;

	status = ori_dev_mlx5_reserve(q, 1, limits, &index);
	if (status == ORIEL_OK)
		status = ori_dev_mlx5_reserve(c, 2, limits, &base);
	if (status != ORIEL_OK)
		return status;
	ori_dev_mlx5_wqe_wait(ori_dev_mlx5_slot(c, base), ori_dev_mlx5_head_of(c, base, 0), q->cqn,
			      index);
	ori_trial_add(t, c, base + 1, offsetof(struct ori_trial_memory, counted));
	ori_trial_add(t, q, index, offsetof(struct ori_trial_memory, old));
	status = ori_dev_mlx5_post(c, base, 2, limits);
	if (status == ORIEL_OK)
		status = ori_dev_mlx5_post(q, index, 1, limits);
	if (status == ORIEL_OK)
		status = ori_dev_mlx5_wait(q, index, limits);
	if (status == ORIEL_OK)
		status = ori_dev_mlx5_wait(c, base + 1, limits);
	if (status == ORIEL_OK)
		status = ori_trial_await(&t->memory.counted, ORI_TRIAL_UNSET, false);
	if (status == ORIEL_OK)
		status = ori_trial_await(&t->memory.counter, 2, true);
	if (status == ORIEL_OK && t->memory.counted == 0)
		status = ORIEL_ERR_STATE;
	return status;
}

/* 1 to the lower half of a word that is all ones: the boundary keeps the carry from the upper. */
ORIEL_DEV enum oriel_status ori_trial_masked(struct ori_trial *t,
					     const struct ori_dev_link_wait_limits *limits)
{
	struct ori_dev_mlx5_queue *q = &t->main;
	enum oriel_status status;
	uint64_t index = 0;

	status = ori_dev_mlx5_reserve(q, 1, limits, &index);
	if (status != ORIEL_OK)
		return status;
	ori_dev_mlx5_wqe_masked_add64(
		ori_dev_mlx5_slot(q, index), ori_dev_mlx5_head_of(q, index, 0),
		ori_trial_remote(t, offsetof(struct ori_trial_memory, masked[0])),
		ori_trial_local(t, offsetof(struct ori_trial_memory, masked[1])), 1,
		(uint64_t)1 << 31);
	status = ori_dev_mlx5_post(q, index, 1, limits);
	if (status == ORIEL_OK)
		status = ori_dev_mlx5_wait(q, index, limits);
	if (status == ORIEL_OK)
		status = ori_trial_await(&t->memory.masked[0], (uint64_t)UINT32_MAX << 32, true);
	if (status == ORIEL_OK)
		status = ori_trial_await(&t->memory.masked[1], UINT64_MAX, true);
	return status;
}

/* One thread. */
ORIEL_DEV enum oriel_status ori_trial_run(struct ori_trial *t)
{
	const struct ori_dev_link_wait_limits limits = {NULL, ORI_TRIAL_NS, 100, 0};

	ori_dev_store_release32(&t->is_begun, 1);
	ori_dev_fence_full();
	if (ori_dev_load_acquire32(&t->is_withdrawn))
		return ORIEL_ERR_ABORTED;
	t->main_status = ori_trial_post(t, &limits);
	if (t->main_status == ORIEL_OK && t->has_companion)
		t->companion_status = ori_trial_count(t, &limits);
	/* The last request: a queue dies of one that its NIC does not execute. */
	if (t->main_status == ORIEL_OK && t->companion_status == ORIEL_OK && t->has_masked)
		t->masked_status = ori_trial_masked(t, &limits);
	ori_dev_store_release32(&t->is_done, 1);
	return ORIEL_OK;
}

#endif
