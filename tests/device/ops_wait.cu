/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that wait for signals, barriers and limits, that pass invalid arguments, and the round
 * that graphs replay. gpu_ops.cu launches them.
 */
#include "ops_job.h"

__global__ void __launch_bounds__(THREADS_MOST) signals_count(const __grid_constant__ struct job j_)
{
	BEGIN;
	uint64_t value = 0;
	uint32_t i;

	for (i = 0; i < w->ranks; i++)
		CLAIM_POSTED(oriel_dev_signal(w, g, i, 1, ORIEL_SIGNAL_ADD, me + 1, NULL));
	CLAIM_OK(oriel_dev_wait_signal(w, g, 1, ORIEL_EQ, w->ranks * (w->ranks + 1) / 2,
				       FOREVER_NS));
	for (i = 0; i < w->ranks; i++) {
		CLAIM_OK(oriel_dev_read_signal_from(w, i, 1, &value));
		CLAIM_EQ(value, i + 1);
		CLAIM_OK(oriel_dev_wait_signal_from(w, g, i, 1, ORIEL_EQ, i + 1, FOREVER_NS));
		CLAIM_OK(oriel_dev_wait_signal_from(w, g, i, 1, ORIEL_GE, i + 1, FOREVER_NS));
		CLAIM_OK(oriel_dev_wait_signal_from(w, g, i, 1, ORIEL_LE, i + 1, FOREVER_NS));
		CLAIM_OK(oriel_dev_wait_signal_from(w, g, i, 1, ORIEL_GT, i, FOREVER_NS));
		CLAIM_OK(oriel_dev_wait_signal_from(w, g, i, 1, ORIEL_LT, i + 2, FOREVER_NS));
		CLAIM_OK(oriel_dev_wait_signal_from(w, g, i, 1, ORIEL_NE, i, FOREVER_NS));
		CLAIM_OK(oriel_dev_wait_signal_relaxed(w, g, i, 1, ORIEL_NE, i, FOREVER_NS));
		CLAIM_EQ(oriel_dev_wait_signal_from(w, g, i, 1, ORIEL_GT, i + 1, MOMENT_NS),
			 ORIEL_ERR_TIMEOUT);
	}
	CLAIM_OK(oriel_dev_read_signal(w, 1, &value));
	CLAIM_EQ(value, w->ranks * (w->ranks + 1) / 2);
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	CLAIM_POSTED(oriel_dev_signal_all(w, g, 1, ORIEL_SIGNAL_SET, 1ul << 40));
	CLAIM_OK(
		oriel_dev_wait_signal(w, g, 1, ORIEL_GE, (w->ranks - 1) * (1ul << 40), FOREVER_NS));
	CLAIM_POSTED(oriel_dev_signal_relaxed(w, g, next, 2, ORIEL_SIGNAL_ADD, 5, NULL));
	CLAIM_OK(oriel_dev_wait_signal_relaxed(w, g, prev, 2, ORIEL_EQ, 5, FOREVER_NS));
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	if (oriel_dev_is_leader(g)) {
		for (i = 0; i < w->ranks; i++)
			CLAIM_OK(oriel_dev_reset_signal(w, i, 1));
		CLAIM_OK(oriel_dev_reset_signal(w, prev, 2));
	}
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
}

__global__ void __launch_bounds__(THREADS_MOST) barriers_hold(const __grid_constant__ struct job j_)
{
	BEGIN;
	const uint64_t *mine = (const uint64_t *)oriel_dev_address(w, me, 4096);
	uint64_t round;
	uint32_t i;

	for (round = 1; round <= 100; round++) {
		for (i = 0; i < w->ranks; i++)
			if (i % g.size == g.rank)
				CLAIM_POSTED(oriel_dev_put_value(w, i, 4096 + me * 8,
								 round * 10 + me, NULL));
		CLAIM_OK(oriel_dev_barrier(w, g, round % 3, FOREVER_NS));
		for (i = 0; i < w->ranks; i++)
			CLAIM_EQ(oriel_dev_load_relaxed(&mine[i]), round * 10 + i);
		CLAIM_OK(oriel_dev_barrier_flat(w, g, 1, FOREVER_NS));
	}
	for (round = 0; round < 50; round++) {
		CLAIM_OK(oriel_dev_barrier_arrive(w, g, 4));
		CLAIM_OK(oriel_dev_barrier_wait(w, g, 4, FOREVER_NS));
		CLAIM_OK(oriel_dev_barrier_flat_arrive(w, g, 4));
		CLAIM_OK(oriel_dev_barrier_flat_wait(w, g, 4, FOREVER_NS));
		/* In pairs, lower rank first on both sides. */
		for (i = 0; i < w->ranks; i++)
			if (i != me)
				CLAIM_OK(oriel_dev_barrier_peer(w, g, i, 5, FOREVER_NS));
	}
}

/* An invalid argument is rejected, breaks nothing, and leaves a record. */
__global__ void __launch_bounds__(THREADS_MOST) bad_arguments(const __grid_constant__ struct job j_)
{
	BEGIN;
	struct oriel_dev_window other = *w;
	uint64_t old;

	CLAIM_EQ(oriel_dev_put(w, g, w->ranks, 0, scratch, 8, NULL), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_put(w, g, next, LENGTH - 7, scratch, 8, NULL), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_put(w, g, next, oriel_at(9, 0), scratch, 8, NULL), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_put_value(w, next, 12, 1, NULL), ORIEL_ERR_INVALID);
	CLAIM_EQ(oriel_dev_fetch_add(w, next, UINT64_MAX, 1, &old), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_signal(w, g, next, w->signals, ORIEL_SIGNAL_ADD, 1, NULL),
		 ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_signal(w, g, next, 0, (enum oriel_signal_op)7, 1, NULL),
		 ORIEL_ERR_INVALID);
	CLAIM_EQ(oriel_dev_barrier(w, g, w->barriers, 0), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_send(w, g, me, 0, scratch, 1, 0), ORIEL_ERR_INVALID);
	CLAIM_EQ(oriel_dev_put_ll(w, g, next, 8, scratch, 8, 1), ORIEL_ERR_INVALID);
	CLAIM_EQ(oriel_dev_wait_counter(w, g, next, w->counters, ORIEL_EQ, 0, 0), ORIEL_ERR_RANGE);
	other.version++;
	memset(other.inline_peers, 0,
	       sizeof(other.inline_peers)); /* their marks are of another version, too */
	CLAIM_EQ(oriel_dev_put(&other, g, next, 0, scratch, 8, NULL), ORIEL_ERR_VERSION);
	CLAIM_EQ(oriel_dev_flush(&other, g, 0), ORIEL_ERR_VERSION);
}

/* Own limits pass everywhere and break nothing. */
__global__ void __launch_bounds__(THREADS_MOST) limits_pass(const __grid_constant__ struct job j_)
{
	BEGIN;

	CLAIM_EQ(oriel_dev_wait_signal(w, g, 6, ORIEL_GE, 1, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CLAIM_EQ(oriel_dev_wait_signal_from(w, g, next, 6, ORIEL_GE, 1, MOMENT_NS),
		 ORIEL_ERR_TIMEOUT);
	CLAIM_EQ(oriel_dev_wait_signal_next(w, g, next, 6, 1, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CLAIM_EQ(oriel_dev_wait_counter(w, g, next, 1, ORIEL_GE, 1, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CLAIM_EQ(oriel_dev_recv(w, g, next, 3, scratch, 1, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CLAIM_EQ(oriel_dev_recv_ll(w, g, next, 4, scratch, 1, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CLAIM_EQ(oriel_dev_wait_ll(w, g, 20ul << 20, scratch, 9, 77, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	if (me == 0)
		CLAIM_EQ(oriel_dev_barrier_peer(w, g, next, 7, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	if (me == 1)
		CLAIM_OK(oriel_dev_barrier_peer(w, g, 0, 7, FOREVER_NS));
	/* It has arrived: this only waits, and then both meet once more. */
	if (me == 0)
		CLAIM_OK(oriel_dev_barrier_peer(w, g, next, 7, FOREVER_NS));
	if (me == 0 || me == 1)
		CLAIM_OK(oriel_dev_barrier_peer(w, g, me ^ 1u, 7, FOREVER_NS));
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
}

/* Rank 0 waits with the default limit for a signal that no rank sends; the others for ever. */
__global__ void __launch_bounds__(THREADS_MOST) stuck(const __grid_constant__ struct job j_)
{
	BEGIN;
	uint64_t limit = me == 0 ? j->seed : ORIEL_TIMEOUT_INFINITE;
	enum oriel_status status = (enum oriel_status)(int)j->to;

	CLAIM_EQ(oriel_dev_wait_signal_from(w, g, next, 7, ORIEL_EQ, 99, limit), status);
	CLAIM_EQ(oriel_dev_wait_signal(w, g, 7, ORIEL_EQ, 99, limit), status);
	CLAIM_EQ(oriel_dev_recv(w, g, next, 3, scratch, 1, limit), status);
	CLAIM_EQ(oriel_dev_recv_ll(w, g, next, 4, scratch, 1, limit), status);
	CLAIM_EQ(oriel_dev_wait_ll(w, g, 20ul << 20, scratch, 900, 77, limit), status);
}

/*
 * Rank 0 arrives at the barrier of form @to with a limit of its own, which passes, and calls it
 * again with the default limit, which cannot continue. The other ranks wait without a limit.
 */
__global__ void __launch_bounds__(THREADS_MOST) pending(const __grid_constant__ struct job j_)
{
	BEGIN;

	if (me != 0) {
		CLAIM_EQ(oriel_dev_wait_signal_from(w, g, next, 7, ORIEL_EQ, 99,
						    ORIEL_TIMEOUT_INFINITE),
			 ORIEL_ERR_STATE);
	} else if (j->to == 0) {
		CLAIM_EQ(oriel_dev_barrier(w, g, 5, MOMENT_NS), ORIEL_ERR_TIMEOUT);
		CLAIM_EQ(oriel_dev_barrier(w, g, 5, 0), ORIEL_ERR_STATE);
	} else if (j->to == 1) {
		CLAIM_EQ(oriel_dev_barrier_flat(w, g, 5, MOMENT_NS), ORIEL_ERR_TIMEOUT);
		CLAIM_EQ(oriel_dev_barrier_flat(w, g, 5, 0), ORIEL_ERR_STATE);
	} else {
		CLAIM_EQ(oriel_dev_barrier_peer(w, g, next, 5, MOMENT_NS), ORIEL_ERR_TIMEOUT);
		CLAIM_EQ(oriel_dev_barrier_peer(w, g, next, 5, 0), ORIEL_ERR_STATE);
	}
}

/* One round of every operation that waits; the round is counted in device memory. */
__global__ void __launch_bounds__(THREADS_MOST) one_round(const __grid_constant__ struct job j_)
{
	BEGIN;
	uint64_t round = oriel_dev_load_relaxed(&j->round[me]), length = 1 + round % 300;
	const char *base = (const char *)oriel_dev_address(w, me, 0);
	char *in = scratch + LENGTH / 2;
	uint32_t i;

	fill(g, scratch, length, round + me * 7);
	CLAIM_POSTED(oriel_dev_put_signal(w, g, next, 0, scratch, length, 8, 1, NULL));
	CLAIM_OK(oriel_dev_wait_signal_next(w, g, prev, 8, 1, FOREVER_NS));
	COMPARE(base, length, round + prev * 7);
	CLAIM_OK(oriel_dev_barrier(w, g, 6, FOREVER_NS));
	CLAIM_OK(oriel_dev_barrier_flat(w, g, 6, FOREVER_NS));
	for (i = 0; i < w->ranks; i++)
		if (i != me)
			CLAIM_OK(oriel_dev_barrier_peer(w, g, i, 6, FOREVER_NS));
	CLAIM_OK(oriel_dev_send(w, g, next, 5, scratch, length, FOREVER_NS));
	CLAIM_OK(oriel_dev_recv(w, g, prev, 5, in, length, FOREVER_NS));
	COMPARE(in, length, round + prev * 7);
	oriel_dev_sync(g);
	CLAIM_OK(oriel_dev_send_ll(w, g, next, 6, scratch, length, FOREVER_NS));
	CLAIM_OK(oriel_dev_recv_ll(w, g, prev, 6, in, length, FOREVER_NS));
	COMPARE(in, length, round + prev * 7);
	CLAIM_POSTED(oriel_dev_signal_counter(w, g, next, 9, 1, 2, NULL));
	CLAIM_OK(oriel_dev_wait_counter(w, g, next, 2, ORIEL_EQ, round + 1, FOREVER_NS));
	CLAIM_OK(oriel_dev_wait_signal_from(w, g, prev, 9, ORIEL_GE, round + 1, FOREVER_NS));
	CLAIM_OK(oriel_dev_barrier(w, g, 6, FOREVER_NS));
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(&j->round[me], round + 1);
}
