/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that move bytes: puts and gets, atomics, counters, channels, LL and LL128. gpu_ops.cu
 * launches them.
 */
#include "ops_job.h"

/* Window bytes [0, 12 MiB) belong to puts of the previous rank; sources lie in the scratch. */
__global__ void __launch_bounds__(THREADS_MOST) put_skewed(const __grid_constant__ struct job j_)
{
	BEGIN;
	char *base = (char *)oriel_dev_address(w, me, 0);
	uint64_t at = EDGE + j->to;
	uint32_t parts, i;

	fill(g, scratch + j->from, j->length, j->seed + me);
	/* Once in one piece, then by three parts. */
	for (parts = 1; parts <= 3; parts += 2) {
		flood(g, base, j->length + 2 * EDGE + 64);
		CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
		for (i = 0; i < parts; i++)
			CLAIM_POSTED(parts == 1 ? oriel_dev_put(w, g, next, at, scratch + j->from,
								j->length, NULL)
						: oriel_dev_put_part(w, g, i, parts, next, at,
								     scratch + j->from, j->length,
								     NULL));
		CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
		COMPARE(base + at, j->length, j->seed + prev);
		LOOK_GUARD(base, at);
		LOOK_GUARD(base + at + j->length, EDGE);
		oriel_dev_sync(g);
	}
	/* A get of the bytes at the peer, to another part of the scratch. */
	flood(g, scratch + LENGTH / 2, j->length + 2 * EDGE + 64);
	CLAIM_POSTED(oriel_dev_get(w, g, next, at, scratch + LENGTH / 2 + EDGE + j->from, j->length,
				   NULL));
	CLAIM_OK(oriel_dev_drain(w, g, FOREVER_NS));
	COMPARE(scratch + LENGTH / 2 + EDGE + j->from, j->length, j->seed + me);
	LOOK_GUARD(scratch + LENGTH / 2, EDGE + j->from);
	LOOK_GUARD(scratch + LENGTH / 2 + EDGE + j->from + j->length, EDGE);
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
}

__global__ void __launch_bounds__(THREADS_MOST)
	put_signal_carries(const __grid_constant__ struct job j_)
{
	BEGIN;
	const char *base = (const char *)oriel_dev_address(w, me, 0);
	uint64_t round, length;

	for (round = 0; round < 60; round++) {
		length = (round * round * 37) % 70000;
		fill(g, scratch, length, j->seed + round + me * 100);
		CLAIM_POSTED(
			oriel_dev_put_signal(w, g, next, round % 7, scratch, length, 0, 3, NULL));
		CLAIM_OK(oriel_dev_wait_signal_next(w, g, prev, 0, 3, FOREVER_NS));
		COMPARE(base + round % 7, length, j->seed + round + prev * 100);
		CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	}
	/* A put of no bytes is a signal all the same. */
	CLAIM_POSTED(oriel_dev_put_signal(w, g, me, 0, NULL, 0, 0, 1, NULL));
	CLAIM_OK(oriel_dev_wait_signal_from(w, g, me, 0, ORIEL_EQ, 1, FOREVER_NS));
	CLAIM_OK(oriel_dev_reset_signal(w, me, 0));
}

/* Every rank adds 1 to a word of rank 0 from every thread; all old values differ. */
__global__ void __launch_bounds__(THREADS_MOST)
	fetch_adds_are_atomic(const __grid_constant__ struct job j_)
{
	BEGIN;
	uint64_t *word = (uint64_t *)oriel_dev_address(w, me, 128), old = 0, i;
	uint32_t *seen = (uint32_t *)oriel_dev_address(w, 0, 1024);
	uint64_t total = (uint64_t)w->ranks * g.size * 50;

	if (me == 0) {
		if (oriel_dev_is_leader(g))
			*word = 0;
		for (i = g.rank; i < total; i += g.size)
			seen[i] = 0;
	}
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	for (i = 0; i < 50; i++) {
		CLAIM_OK(oriel_dev_fetch_add(w, 0, 128, 1, &old));
		if (old < total)
			atomicAdd_system(&seen[old], 1u);
		else
			CLAIM_EQ(old, total);
	}
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	for (i = g.rank; me == 0 && i < total; i += g.size)
		CLAIM_EQ(seen[i], 1);
	CLAIM_POSTED(oriel_dev_put_value(w, next, 256, 0x1122334455667788ul + me, NULL));
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	CLAIM_EQ(*(uint64_t *)oriel_dev_address(w, me, 256), 0x1122334455667788ul + prev);
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
}

__global__ void __launch_bounds__(THREADS_MOST)
	counters_count(const __grid_constant__ struct job j_)
{
	BEGIN;
	struct oriel_dev_ticket ticket = {0, 0, 0};
	uint64_t value = 0;

	fill(g, scratch, 999, me);
	CLAIM_POSTED(oriel_dev_put_counter(w, g, next, 5, scratch, 999, 0, &ticket));
	CLAIM_POSTED(oriel_dev_put_signal_counter(w, g, next, 5, scratch, 999, 3, 1, 0, NULL));
	CLAIM_POSTED(oriel_dev_signal_counter(w, g, next, 3, 1, 0, NULL));
	CLAIM_OK(oriel_dev_wait_counter(w, g, next, 0, ORIEL_EQ, 3, FOREVER_NS));
	CLAIM_OK(oriel_dev_read_counter(w, next, 0, &value));
	CLAIM_EQ(value, 3);
	CLAIM_OK(oriel_dev_wait_signal_next(w, g, prev, 3, 2, FOREVER_NS));
	COMPARE((const char *)oriel_dev_address(w, me, 5), 999, prev);
	CLAIM_OK(oriel_dev_wait_local(w, g, ticket, FOREVER_NS));
	CLAIM_OK(oriel_dev_flush(w, g, FOREVER_NS));
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	if (oriel_dev_is_leader(g))
		CLAIM_OK(oriel_dev_reset_counter(w, next, 0));
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
}

/*
 * Streams both ways, cut differently at the two ranks. A cut stays below half of the bytes that
 * may be under way without a receiver, since each group here sends and then receives.
 */
__global__ void __launch_bounds__(THREADS_MOST)
	channels_carry(const __grid_constant__ struct job j_)
{
	BEGIN;
	uint64_t total = 400000, sent = 0, got = 0, most = w->channel_bytes / 4, cut;
	uint64_t state = 7;

	fill(g, scratch, total, j->seed + me);
	flood(g, scratch + LENGTH / 2, total + EDGE);
	while (got < total) {
		state = state * 6364136223846793005ul + 1442695040888963407ul;
		cut = (state >> 33) % most + 1;
		cut = cut < total - sent ? cut : total - sent;
		CLAIM_OK(oriel_dev_send(w, g, next, 1, scratch + sent, cut, FOREVER_NS));
		sent += cut;
		/* Two receives for one send, cut at another byte. */
		CLAIM_OK(oriel_dev_recv(w, g, prev, 1, scratch + LENGTH / 2 + got, cut / 3,
					FOREVER_NS));
		CLAIM_OK(oriel_dev_recv(w, g, prev, 1, scratch + LENGTH / 2 + got + cut / 3,
					cut - cut / 3, FOREVER_NS));
		got += cut;
	}
	COMPARE(scratch + LENGTH / 2, total, j->seed + prev);
	LOOK_GUARD(scratch + LENGTH / 2 + total, EDGE);
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
}

__global__ void __launch_bounds__(THREADS_MOST) ll_carries(const __grid_constant__ struct job j_)
{
	BEGIN;
	uint64_t round, length, most = w->channel_bytes / 8;
	char *in = scratch + LENGTH / 2;

	for (round = 0; round < 80; round++) {
		length = round * round * 13 % 5000;
		fill(g, scratch + round % 8, length, j->seed + round + me * 1000);
		flood(g, in, length + EDGE + 8);
		CLAIM_POSTED(oriel_dev_put_ll(w, g, next, (16ul << 20) + round % 2 * 65536,
					      scratch + round % 8, length,
					      (uint32_t)(j->seed * 100 + round + 1)));
		CLAIM_OK(oriel_dev_wait_ll(w, g, (16ul << 20) + round % 2 * 65536, in + round % 3,
					   length, (uint32_t)(j->seed * 100 + round + 1),
					   FOREVER_NS));
		COMPARE(in + round % 3, length, j->seed + round + prev * 1000);
		LOOK_GUARD(in + round % 3 + length, EDGE);
		CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	}
	for (round = 0; round < 200; round++) {
		length = round * 131 % (most + 1);
		fill(g, scratch, length, j->seed + round + me * 1000);
		CLAIM_OK(oriel_dev_send_ll(w, g, next, 2, scratch, length, FOREVER_NS));
		CLAIM_OK(oriel_dev_recv_ll(w, g, prev, 2, in, length, FOREVER_NS));
		COMPARE(in, length, j->seed + round + prev * 1000);
		oriel_dev_sync(g);
	}
}

/* Lines of 128 bytes: few, many, the last in part; and rewritten while they are polled. */
__global__ void __launch_bounds__(THREADS_MOST) ll128_carries(const __grid_constant__ struct job j_)
{
	BEGIN;
	const uint64_t from = (16ul << 20) + (uint64_t)prev * 262144,
		       at = (16ul << 20) + (uint64_t)me * 262144;
	const uint64_t most = w->channel_bytes / 32 * 7;
	char *in = scratch + LENGTH / 2;
	uint64_t round, length, epoch;

	for (round = 0; round < 200; round++) {
		length = round < 120 ? round * round * 13 % 60000 : 8 * (round % 120);
		epoch = j->seed * 1000 + round + 1;
		fill(g, scratch + round % 8, length, j->seed + round + me * 1000);
		flood(g, in, length + EDGE + 8);
		CLAIM_POSTED(oriel_dev_put_ll128(w, g, next, at + round % 2 * 131072,
						 scratch + round % 8, length, epoch));
		CLAIM_OK(oriel_dev_wait_ll128(w, g, from + round % 2 * 131072, in + round % 3,
					      length, epoch, FOREVER_NS));
		oriel_dev_sync(g);
		COMPARE(in + round % 3, length, j->seed + round + prev * 1000);
		LOOK_GUARD(in + round % 3 + length, EDGE);
		/* A peer that sees this arrival may write the next message but one. */
		CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	}
	for (round = 0; round < 200; round++) {
		length = round * 131 % (most + 1);
		fill(g, scratch + round % 8, length, j->seed + round + me * 1000);
		flood(g, in, length + EDGE + 8);
		CLAIM_OK(oriel_dev_send_ll128(w, g, next, 7, scratch + round % 8, length,
					      FOREVER_NS));
		CLAIM_OK(oriel_dev_recv_ll128(w, g, prev, 7, in + round % 3, length, FOREVER_NS));
		COMPARE(in + round % 3, length, j->seed + round + prev * 1000);
		LOOK_GUARD(in + round % 3 + length, EDGE);
		oriel_dev_sync(g);
	}
	CLAIM_EQ(oriel_dev_recv_ll128(w, g, prev, 7, in, 8, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CLAIM_EQ(oriel_dev_wait_ll128(w, g, from, in, 8, 7, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CLAIM_EQ(oriel_dev_put_ll128(w, g, next, oriel_at(1, 0), scratch, 8, 7), ORIEL_ERR_NO_PATH);
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
}
