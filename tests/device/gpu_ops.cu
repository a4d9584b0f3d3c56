/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation of oriel/dev.h on GPUs, over hand-made windows: right bytes at the right
 * offsets, graph replays, time limits, a broken communicator. Built once for each kind of group
 * (-DKIND=0 thread, 1 warp, 2 block, 3 cluster).
 *
 * usage: gpu_ops [--ranks N] [--threads N] [--replays N] [--table 1] [PART OF A NAME]
 *
 * One launch serves all ranks of a GPU (blockIdx.y), so that tools that run one kernel at a
 * time can watch two ranks on one GPU.
 */
#define ORIEL_DEV_PATHS 6u /* self and mapped */
#include <bare.h>

#ifndef KIND
#define KIND 2
#endif

#include <time.h>

#define THREADS_MOST (KIND == 2 ? 1024 : 128)
#define GUARD 0xa5
#define LENGTH (24ul << 20)
#define FOREVER_NS 20000000000ul /* of every wait that should succeed */
#define MOMENT_NS 2000000ul      /* of every wait that cannot */
#define EDGE 32u                 /* guard bytes around a target */

#define REPORTED 16 /* failures that are printed of each launch: their bytes say whose they are */

struct failure {
	unsigned line;
	unsigned rank;
	unsigned long long at; /* byte of a message; of other claims 0 */
	unsigned long long got;
	unsigned long long expected;
};

struct report {
	unsigned failures;
	struct failure first[REPORTED];
};

struct job {
	struct oriel_dev_window window[BARE_MAX];
	uint32_t rank[BARE_MAX]; /* of blockIdx.y */
	struct report *report;
	char *scratch[BARE_MAX]; /* of each rank: LENGTH bytes of its own */
	uint64_t *round;         /* [ranks], of graph replays; in device memory of rank 0 */
	uint64_t length;
	uint64_t seed;
	uint32_t to;   /* how targets are shifted */
	uint32_t from; /* how sources are */
};

static __device__ void fail(const struct job *j, unsigned rank, unsigned line,
			    unsigned long long at, unsigned long long got,
			    unsigned long long expected)
{
	struct failure failure = {line, rank, at, got, expected};
	unsigned number = atomicAdd(&j->report->failures, 1u);

	if (number < REPORTED)
		j->report->first[number] = failure;
}

#define CLAIM_EQ(got, expected)                                                       \
	do {                                                                          \
		unsigned long long got_ = (unsigned long long)(long long)(got);       \
		unsigned long long want_ = (unsigned long long)(long long)(expected); \
		if (got_ != want_)                                                    \
			fail(j, w->rank, __LINE__, 0, got_, want_);                   \
	} while (0)
#define CLAIM_OK(got) CLAIM_EQ(got, ORIEL_OK)
#define CLAIM_POSTED(got)                                                           \
	do {                                                                        \
		long long got_ = (got);                                             \
		if (got_ < 0)                                                       \
			fail(j, w->rank, __LINE__, 0, (unsigned long long)got_, 0); \
	} while (0)

/* The beginning of every kernel here. */
#define BEGIN                                                                             \
	const uint32_t me = j_.rank[blockIdx.y];                                          \
	const struct job *j = &j_;                                                        \
	const struct oriel_dev_window *w = &j->window[me];                                \
	const uint32_t next = (me + 1) % w->ranks, prev = (me + w->ranks - 1) % w->ranks; \
	const struct oriel_dev_group g = group();                                         \
	char *const scratch = j->scratch[me];                                             \
	(void)next, (void)prev, (void)scratch

static __device__ __forceinline__ struct oriel_dev_group group(void)
{
#if KIND == 0
	return oriel_dev_thread();
#elif KIND == 1
	return oriel_dev_warp();
#elif KIND == 3 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	return oriel_dev_cluster();
#else
	return oriel_dev_block();
#endif
}

static __host__ __device__ __forceinline__ unsigned char byte_of(uint64_t seed, uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ul + seed * 0xc2b2ae3d27d4eb4ful;

	return (unsigned char)(x >> 56 ^ x >> 24);
}

static __device__ void fill(struct oriel_dev_group g, char *at, uint64_t length, uint64_t seed)
{
	for (uint64_t i = g.rank; i < length; i += g.size)
		at[i] = (char)byte_of(seed, i);
	oriel_dev_sync(g);
}

static __device__ void flood(struct oriel_dev_group g, char *at, uint64_t length)
{
	for (uint64_t i = g.rank; i < length; i += g.size)
		at[i] = (char)GUARD;
	oriel_dev_sync(g);
}

static __device__ void compare(const struct job *j, const struct oriel_dev_window *w,
			       struct oriel_dev_group g, const char *at, uint64_t length,
			       uint64_t seed, unsigned line)
{
	for (uint64_t i = g.rank; i < length; i += g.size)
		if ((unsigned char)at[i] != byte_of(seed, i))
			fail(j, w->rank, line, i, (unsigned char)at[i], byte_of(seed, i));
}

static __device__ void look_guard(const struct job *j, const struct oriel_dev_window *w,
				  struct oriel_dev_group g, const char *at, uint64_t length,
				  unsigned line)
{
	for (uint64_t i = g.rank; i < length; i += g.size)
		if ((unsigned char)at[i] != GUARD)
			fail(j, w->rank, line, i, (unsigned char)at[i], GUARD);
}

#define COMPARE(at, length, seed) compare(j, w, g, at, length, seed, __LINE__)
#define LOOK_GUARD(at, length) look_guard(j, w, g, at, length, __LINE__)

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
								j->length)
						: oriel_dev_put_part(w, g, i, parts, next, at,
								     scratch + j->from, j->length));
		CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
		COMPARE(base + at, j->length, j->seed + prev);
		LOOK_GUARD(base, at);
		LOOK_GUARD(base + at + j->length, EDGE);
		oriel_dev_sync(g);
	}
	/* A get of the bytes at the peer, to another part of the scratch. */
	flood(g, scratch + LENGTH / 2, j->length + 2 * EDGE + 64);
	CLAIM_POSTED(
		oriel_dev_get(w, g, next, at, scratch + LENGTH / 2 + EDGE + j->from, j->length));
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
		CLAIM_POSTED(oriel_dev_put_signal(w, g, next, round % 7, scratch, length, 0, 3));
		CLAIM_OK(oriel_dev_wait_signal_next(w, g, prev, 0, 3, FOREVER_NS));
		COMPARE(base + round % 7, length, j->seed + round + prev * 100);
		CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	}
	/* A put of no bytes is a signal all the same. */
	CLAIM_POSTED(oriel_dev_put_signal(w, g, me, 0, NULL, 0, 0, 1));
	CLAIM_OK(oriel_dev_wait_signal_from(w, g, me, 0, ORIEL_EQ, 1, FOREVER_NS));
	CLAIM_OK(oriel_dev_reset_signal(w, me, 0));
}

__global__ void __launch_bounds__(THREADS_MOST) signals_count(const __grid_constant__ struct job j_)
{
	BEGIN;
	uint64_t value = 0;
	uint32_t i;

	for (i = 0; i < w->ranks; i++)
		CLAIM_POSTED(oriel_dev_signal(w, g, i, 1, ORIEL_SIGNAL_ADD, me + 1));
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
	CLAIM_POSTED(oriel_dev_signal_relaxed(w, g, next, 2, ORIEL_SIGNAL_ADD, 5));
	CLAIM_OK(oriel_dev_wait_signal_relaxed(w, g, prev, 2, ORIEL_EQ, 5, FOREVER_NS));
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	if (oriel_dev_is_leader(g)) {
		for (i = 0; i < w->ranks; i++)
			CLAIM_OK(oriel_dev_reset_signal(w, i, 1));
		CLAIM_OK(oriel_dev_reset_signal(w, prev, 2));
	}
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
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
	CLAIM_POSTED(oriel_dev_put_value(w, next, 256, 0x1122334455667788ul + me));
	CLAIM_OK(oriel_dev_barrier(w, g, 0, FOREVER_NS));
	CLAIM_EQ(*(uint64_t *)oriel_dev_address(w, me, 256), 0x1122334455667788ul + prev);
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
				CLAIM_POSTED(
					oriel_dev_put_value(w, i, 4096 + me * 8, round * 10 + me));
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

__global__ void __launch_bounds__(THREADS_MOST)
	counters_count(const __grid_constant__ struct job j_)
{
	BEGIN;
	uint64_t value = 0;

	fill(g, scratch, 999, me);
	CLAIM_POSTED(oriel_dev_put_counter(w, g, next, 5, scratch, 999, 0));
	CLAIM_POSTED(oriel_dev_put_signal_counter(w, g, next, 5, scratch, 999, 3, 1, 0));
	CLAIM_POSTED(oriel_dev_signal_counter(w, g, next, 3, 1, 0));
	CLAIM_OK(oriel_dev_wait_counter(w, g, next, 0, ORIEL_EQ, 3, FOREVER_NS));
	CLAIM_OK(oriel_dev_read_counter(w, next, 0, &value));
	CLAIM_EQ(value, 3);
	CLAIM_OK(oriel_dev_wait_signal_next(w, g, prev, 3, 2, FOREVER_NS));
	COMPARE((const char *)oriel_dev_address(w, me, 5), 999, prev);
	CLAIM_OK(oriel_dev_wait_local(w, g, next, 0, FOREVER_NS));
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

/* An invalid argument is rejected, breaks nothing, and leaves a record. */
__global__ void __launch_bounds__(THREADS_MOST) bad_arguments(const __grid_constant__ struct job j_)
{
	BEGIN;
	struct oriel_dev_window other = *w;
	uint64_t old;

	CLAIM_EQ(oriel_dev_put(w, g, w->ranks, 0, scratch, 8), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_put(w, g, next, LENGTH - 7, scratch, 8), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_put(w, g, next, oriel_at(9, 0), scratch, 8), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_put_value(w, next, 12, 1), ORIEL_ERR_INVALID);
	CLAIM_EQ(oriel_dev_fetch_add(w, next, UINT64_MAX, 1, &old), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_signal(w, g, next, w->signals, ORIEL_SIGNAL_ADD, 1), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_signal(w, g, next, 0, (enum oriel_signal_op)7, 1), ORIEL_ERR_INVALID);
	CLAIM_EQ(oriel_dev_barrier(w, g, w->barriers, 0), ORIEL_ERR_RANGE);
	CLAIM_EQ(oriel_dev_send(w, g, me, 0, scratch, 1, 0), ORIEL_ERR_INVALID);
	CLAIM_EQ(oriel_dev_put_ll(w, g, next, 8, scratch, 8, 1), ORIEL_ERR_INVALID);
	CLAIM_EQ(oriel_dev_wait_counter(w, g, next, w->counters, ORIEL_EQ, 0, 0), ORIEL_ERR_RANGE);
	other.version++;
	memset(other.inline_peers, 0,
	       sizeof(other.inline_peers)); /* their marks are of another version, too */
	CLAIM_EQ(oriel_dev_put(&other, g, next, 0, scratch, 8), ORIEL_ERR_VERSION);
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
	uint64_t limit = me == 0 ? j->seed : ORIEL_FOREVER;
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
		CLAIM_EQ(oriel_dev_wait_signal_from(w, g, next, 7, ORIEL_EQ, 99, ORIEL_FOREVER),
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
	CLAIM_POSTED(oriel_dev_put_signal(w, g, next, 0, scratch, length, 8, 1));
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
	CLAIM_POSTED(oriel_dev_signal_counter(w, g, next, 9, 1, 2));
	CLAIM_OK(oriel_dev_wait_counter(w, g, next, 2, ORIEL_EQ, round + 1, FOREVER_NS));
	CLAIM_OK(oriel_dev_wait_signal_from(w, g, prev, 9, ORIEL_GE, round + 1, FOREVER_NS));
	CLAIM_OK(oriel_dev_barrier(w, g, 6, FOREVER_NS));
	if (oriel_dev_is_leader(g))
		oriel_dev_store_relaxed(&j->round[me], round + 1);
}

typedef void (*kernel)(struct job);

struct run {
	struct bare bare;
	struct job job;
	struct report *report;
	unsigned threads;
	unsigned passed;
	unsigned failed;
	const char *part;
};

static dim3 grid_of(unsigned ranks)
{
	return dim3(KIND == 3 ? 2 : 1, ranks);
}

static void launch(struct run *run, kernel k, const struct job *job, uint32_t gpu)
{
	cudaLaunchAttribute cluster = {};
	cudaLaunchConfig_t config = {};
	struct job j = *job;
	uint32_t i, here = 0;

	for (i = 0; i < run->bare.attr.ranks; i++)
		if ((uint32_t)run->bare.rank[i].gpu == gpu)
			j.rank[here++] = i;
	config.gridDim = grid_of(here);
	config.blockDim = dim3(run->threads);
	config.stream = run->bare.rank[gpu].stream;
	cluster.id = cudaLaunchAttributeClusterDimension;
	cluster.val.clusterDim.x = 2;
	cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
	config.attrs = &cluster;
	config.numAttrs = KIND == 3;
	CUDA_CHECK(cudaSetDevice((int)gpu));
	CUDA_CHECK(cudaLaunchKernelEx(&config, k, j));
}

static bool finish(struct run *run)
{
	bool is_right = true;
	uint32_t i;

	for (i = 0; i < run->bare.attr.gpus; i++) {
		CUDA_CHECK(cudaSetDevice((int)i));
		CUDA_CHECK(cudaDeviceSynchronize());
	}
	if (run->report->failures) {
		printf("  %u failures, the first:\n", run->report->failures);
		is_right = false;
	}
	for (i = 0; i < run->report->failures && i < REPORTED; i++)
		printf("  line %u, rank %u, at %llu: %llx, not %llx\n", run->report->first[i].line,
		       run->report->first[i].rank, run->report->first[i].at,
		       run->report->first[i].got, run->report->first[i].expected);
	memset(run->report, 0, sizeof(*run->report));
	return is_right;
}

static bool all_run(struct run *run, kernel k)
{
	uint32_t i;

	for (i = 0; i < run->bare.attr.gpus; i++)
		launch(run, k, &run->job, i);
	return finish(run);
}

static bool is_well(struct run *run)
{
	const struct oriel_dev_fault *h = run->bare.health;
	bool is_right = true;
	uint32_t i;

	if (h->state) {
		printf("  broken: status %d in operation %u, peer %u, id %u, expected %llu, seen "
		       "%llu\n",
		       h->status, h->what, h->peer, h->id, (unsigned long long)h->expected,
		       (unsigned long long)h->seen);
		is_right = false;
	}
	for (i = 0; i < run->bare.attr.ranks; i++) {
		if (run->bare.fault[i].state) {
			printf("  rejected at rank %u: status %d in operation %u\n", i,
			       run->bare.fault[i].status, run->bare.fault[i].what);
			is_right = false;
		}
	}
	return is_right;
}

static bool begins(struct run *run, const char *name)
{
	return !run->part || strstr(name, run->part);
}

static void verdict(struct run *run, const char *name, bool is_right)
{
	printf("%s %s\n", is_right ? "PASS" : "FAIL", name);
	fflush(stdout);
	if (is_right)
		run->passed++;
	else
		run->failed++;
}

static void simple_case(struct run *run, const char *name, kernel k)
{
	bool is_right;

	if (!begins(run, name))
		return;
	run->job.seed++;
	is_right = all_run(run, k);
	is_right &= is_well(run);
	verdict(run, name, is_right);
}

static void put_case(struct run *run)
{
	static const uint64_t lengths[] = {0,      1,       2,      3,    4,    5,     7,     8,
					   9,      12,      15,     16,   17,   24,    31,    32,
					   33,     47,      48,     63,   64,   65,    66,    80,
					   95,     100,     127,    128,  129,  255,   256,   257,
					   1000,   1024,    4095,   4096, 4097, 20000, 65536, 65541,
					   262144, 1048579, 5000001};
	static const uint32_t skews[] = {0, 1, 2, 4, 7, 8, 12, 15};
	bool is_right = true;
	unsigned i, to, from;

	if (!begins(run, "put_skewed"))
		return;
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && is_right; i++) {
		for (to = 0; to < 8 && is_right; to++) {
			for (from = 0; from < 8 && is_right; from++) {
				/*
				 * Long ones at all relative offsets, but not at all absolute
				 * ones.
				 */
				if (lengths[i] > 5000 && to > 1 && from)
					continue;
				if (KIND < 2 && lengths[i] > 70000 && (to || from > 1))
					continue;
				if (KIND == 0 && lengths[i] > 70000)
					continue;
				run->job.length = lengths[i];
				run->job.to = skews[to];
				run->job.from = skews[from];
				run->job.seed++;
				is_right = all_run(run, put_skewed) && is_well(run);
				if (!is_right)
					printf("  %llu bytes to skew %u from skew %u\n",
					       (unsigned long long)lengths[i], skews[to],
					       skews[from]);
			}
		}
	}
	verdict(run, "put_skewed", is_right);
}

static void refusal_case(struct run *run)
{
	bool is_right;
	uint32_t i;

	if (!begins(run, "bad_arguments"))
		return;
	is_right = all_run(run, bad_arguments);
	for (i = 0; i < run->bare.attr.ranks; i++) {
		const struct oriel_dev_fault *f = &run->bare.fault[i];

		if (f->state != ORIEL_DEV_FAULT_FULL || f->status != ORIEL_ERR_RANGE ||
		    f->what != ORIEL_DEV_PUT || f->seen != run->bare.attr.ranks) {
			printf("  rank %u: no record of the first refusal\n", i);
			is_right = false;
		}
		memset(&run->bare.fault[i], 0, sizeof(*f));
	}
	verdict(run, "bad_arguments", is_right && is_well(run));
}

/* The default limit breaks the communicator, and with it every wait of every rank. */
static void default_limit_case(struct run *run)
{
	struct job job = run->job;
	bool is_right;
	uint32_t i;

	if (!begins(run, "default_limit_breaks_all"))
		return;
	for (i = 0; i < run->bare.attr.ranks; i++)
		job.window[i].timeout_ns = 20000000;
	job.seed = 0;
	job.to = (uint32_t)ORIEL_ERR_TIMEOUT;
	for (i = 0; i < run->bare.attr.gpus; i++)
		launch(run, stuck, &job, i);
	is_right = finish(run);
	if (run->bare.health->state != ORIEL_DEV_FAULT_FULL ||
	    run->bare.health->status != ORIEL_ERR_TIMEOUT ||
	    run->bare.health->what != ORIEL_DEV_WAIT_SIGNAL_FROM || run->bare.health->peer != 1 ||
	    run->bare.health->expected != 99) {
		printf("  the record is wrong\n");
		is_right = false;
	}
	memset(run->bare.health, 0, sizeof(*run->bare.health));
	verdict(run, "default_limit_breaks_all", is_right);
}

/* A pending barrier that is called with the default limit breaks the communicator. */
static void pending_case(struct run *run)
{
	static const uint32_t forms[] = {ORIEL_DEV_BARRIER, ORIEL_DEV_BARRIER_FLAT,
					 ORIEL_DEV_BARRIER_PEER};
	struct job job = run->job;
	bool is_right = true;
	uint32_t i;

	if (!begins(run, "default_limit_does_not_continue"))
		return;
	for (job.to = 0; job.to < 3; job.to++) {
		for (i = 0; i < run->bare.attr.gpus; i++)
			launch(run, pending, &job, i);
		is_right = finish(run) && is_right;
		if (run->bare.health->state != ORIEL_DEV_FAULT_FULL ||
		    run->bare.health->status != ORIEL_ERR_STATE ||
		    run->bare.health->what != forms[job.to] || run->bare.health->id != 5) {
			printf("  form %u: the record is wrong\n", job.to);
			is_right = false;
		}
		memset(run->bare.health, 0, sizeof(*run->bare.health));
	}
	verdict(run, "default_limit_does_not_continue", is_right);
}

/* The host breaks the communicator while all spin; the context lives on. */
static void abort_case(struct run *run)
{
	struct oriel_dev_fault *h = run->bare.health;
	struct job job = run->job;
	struct timespec pause = {0, 50000000};
	bool is_right;
	uint32_t i;

	if (!begins(run, "abort_ends_spinning_kernels"))
		return;
	job.seed = ORIEL_FOREVER;
	job.to = (uint32_t)ORIEL_ERR_ABORTED;
	for (i = 0; i < run->bare.attr.gpus; i++)
		launch(run, stuck, &job, i);
	nanosleep(&pause, NULL);
	h->status = ORIEL_ERR_ABORTED;
	__atomic_store_n(&h->state, (uint32_t)ORIEL_DEV_FAULT_FULL, __ATOMIC_RELEASE);
	is_right = finish(run);
	memset(h, 0, sizeof(*h));
	verdict(run, "abort_ends_spinning_kernels", is_right);
}

static void replay_case(struct run *run, unsigned replays)
{
	cudaGraphExec_t exec[BARE_MAX];
	cudaGraph_t graph;
	bool is_right;
	uint32_t i, k;

	if (!begins(run, "graph_replays"))
		return;
	for (i = 0; i < run->bare.attr.gpus; i++) {
		CUDA_CHECK(cudaSetDevice((int)i));
		CUDA_CHECK(cudaStreamBeginCapture(run->bare.rank[i].stream,
						  cudaStreamCaptureModeRelaxed));
		launch(run, one_round, &run->job, i);
		CUDA_CHECK(cudaStreamEndCapture(run->bare.rank[i].stream, &graph));
		CUDA_CHECK(cudaGraphInstantiate(&exec[i], graph, 0));
		CUDA_CHECK(cudaGraphDestroy(graph));
	}
	for (k = 0; k < replays; k++) {
		for (i = 0; i < run->bare.attr.gpus; i++) {
			CUDA_CHECK(cudaSetDevice((int)i));
			CUDA_CHECK(cudaGraphLaunch(exec[i], run->bare.rank[i].stream));
		}
	}
	is_right = finish(run);
	is_right &= is_well(run);
	for (i = 0; i < run->bare.attr.gpus; i++)
		CUDA_CHECK(cudaGraphExecDestroy(exec[i]));
	verdict(run, "graph_replays", is_right);
}

static unsigned option(int argc, char **argv, const char *name, unsigned otherwise)
{
	int i;

	for (i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return (unsigned)atoi(argv[i + 1]);
	return otherwise;
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"thread", "warp", "block", "cluster"};
	static const unsigned sizes[] = {1, 32, 256, 128};
	struct bare_attr attr = {0, 0, 16, 16, 4, 8, 16384, LENGTH, 10000000000};
	static struct run run;
	bool has_tables_only = option(argc, argv, "--table", 0);
	int gpus = bare_begin();
	uint32_t i;

	attr.ranks = option(argc, argv, "--ranks", gpus < 2 ? 2 : (unsigned)gpus);
	attr.gpus = (unsigned)gpus < attr.ranks ? (unsigned)gpus : attr.ranks;
	if (attr.ranks < 2 || attr.ranks > BARE_MAX)
		bare_die("ranks: from 2 to %u", BARE_MAX);
	run.threads = option(argc, argv, "--threads", sizes[KIND]);
	run.part = argc % 2 ? NULL : argv[argc - 1];
	bare_enable_peers(attr.gpus);
	bare_open(&run.bare, &attr);
	run.report = (struct report *)bare_pinned(sizeof(*run.report));
	run.job.report = run.report;
	for (i = 0; i < attr.ranks; i++) {
		/* Without inline peers all operations use the tables. */
		if (has_tables_only)
			memset(run.bare.window[i].inline_peers, 0,
			       sizeof(run.bare.window[i].inline_peers));
		run.job.window[i] = run.bare.window[i];
		run.job.scratch[i] = (char *)bare_alloc(&run.bare, i, LENGTH);
	}
	run.job.round = (uint64_t *)bare_pinned(sizeof(uint64_t) * BARE_MAX);

	put_case(&run);
	simple_case(&run, "put_signal_carries", put_signal_carries);
	simple_case(&run, "signals_count", signals_count);
	simple_case(&run, "fetch_adds_are_atomic", fetch_adds_are_atomic);
	simple_case(&run, "barriers_hold", barriers_hold);
	simple_case(&run, "counters_count", counters_count);
	simple_case(&run, "channels_carry", channels_carry);
	simple_case(&run, "ll_carries", ll_carries);
	if (!has_tables_only)
		simple_case(&run, "ll128_carries", ll128_carries);
	simple_case(&run, "limits_pass", limits_pass);
	refusal_case(&run);
	replay_case(&run, option(argc, argv, "--replays", 1000));
	default_limit_case(&run);
	pending_case(&run);
	abort_case(&run);
	simple_case(&run, "put_signal_carries after", put_signal_carries);
	bare_close(&run.bare);
	printf("gpu_ops %s of %u threads, %u ranks on %u GPUs: %u passed, %u failed\n", kinds[KIND],
	       run.threads, attr.ranks, attr.gpus, run.passed, run.failed);
	return run.failed ? 1 : 0;
}
