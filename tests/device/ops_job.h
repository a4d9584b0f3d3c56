/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of a kernel of gpu_ops, its claims and their reports, and patterns of bytes that it
 * writes and checks. gpu_ops.cu and its kernels in ops_*.cu, which are listed last, include it.
 */
#ifndef TESTS_DEVICE_OPS_JOB_H
#define TESTS_DEVICE_OPS_JOB_H

#define ORIEL_DEV_PATHS 6u /* self and mapped */
#include <bare.h>

#ifndef KIND
#define KIND 2
#endif

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

static inline __device__ void fail(const struct job *j, unsigned rank, unsigned line,
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

static inline __device__ void fill(struct oriel_dev_group g, char *at, uint64_t length,
				   uint64_t seed)
{
	for (uint64_t i = g.rank; i < length; i += g.size)
		at[i] = (char)byte_of(seed, i);
	oriel_dev_sync(g);
}

static inline __device__ void flood(struct oriel_dev_group g, char *at, uint64_t length)
{
	for (uint64_t i = g.rank; i < length; i += g.size)
		at[i] = (char)GUARD;
	oriel_dev_sync(g);
}

static inline __device__ void compare(const struct job *j, const struct oriel_dev_window *w,
				      struct oriel_dev_group g, const char *at, uint64_t length,
				      uint64_t seed, unsigned line)
{
	for (uint64_t i = g.rank; i < length; i += g.size)
		if ((unsigned char)at[i] != byte_of(seed, i))
			fail(j, w->rank, line, i, (unsigned char)at[i], byte_of(seed, i));
}

static inline __device__ void look_guard(const struct job *j, const struct oriel_dev_window *w,
					 struct oriel_dev_group g, const char *at, uint64_t length,
					 unsigned line)
{
	for (uint64_t i = g.rank; i < length; i += g.size)
		if ((unsigned char)at[i] != GUARD)
			fail(j, w->rank, line, i, (unsigned char)at[i], GUARD);
}

#define COMPARE(at, length, seed) compare(j, w, g, at, length, seed, __LINE__)
#define LOOK_GUARD(at, length) look_guard(j, w, g, at, length, __LINE__)

/* These are in ops_data.cu. */
__global__ void put_skewed(const __grid_constant__ struct job j_);
__global__ void put_signal_carries(const __grid_constant__ struct job j_);
__global__ void fetch_adds_are_atomic(const __grid_constant__ struct job j_);
__global__ void counters_count(const __grid_constant__ struct job j_);
__global__ void channels_carry(const __grid_constant__ struct job j_);
__global__ void ll_carries(const __grid_constant__ struct job j_);
__global__ void ll128_carries(const __grid_constant__ struct job j_);

/* These are in ops_wait.cu. */
__global__ void signals_count(const __grid_constant__ struct job j_);
__global__ void barriers_hold(const __grid_constant__ struct job j_);
__global__ void bad_arguments(const __grid_constant__ struct job j_);
__global__ void limits_pass(const __grid_constant__ struct job j_);
__global__ void stuck(const __grid_constant__ struct job j_);
__global__ void pending(const __grid_constant__ struct job j_);
__global__ void one_round(const __grid_constant__ struct job j_);

#endif
