/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of oriel_rows.cu by NVSHMEM's device functions, one process for each GPU. run.py calls
 * it. usage: nvshmem_rows [GPUS]
 */
#include "samples.h"
#include "start.h"

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <string.h>
#include <unistd.h>

#define ROOM (1ul << 30)
#define WORDS (64 + WORDS_APART)

static int rank_of, ranks;
static cudaStream_t stream;
static char *window, *source;
static uint64_t *words; /* symmetric, WORDS of them */
static unsigned long long *ns;
static unsigned *wrong, *present; /* @present: for is_placed() */

enum scope { THREAD, WARP, BLOCK };
enum method { VALUE, SIGNAL, PUT_SIGNAL };

static __device__ __forceinline__ unsigned long long now_ns(void)
{
	unsigned long long now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
	return now;
}

template <int SCOPE> static __device__ __forceinline__ void meet(void)
{
	if (SCOPE == WARP)
		__syncwarp();
	if (SCOPE == BLOCK)
		__syncthreads();
}

template <int METHOD, int SCOPE>
static __device__ __forceinline__ void go(char *to, const char *from, size_t bytes, uint64_t *word,
					  unsigned long long n, int peer)
{
	if (METHOD == VALUE) {
		nvshmem_uint64_p(word, n, peer);
	} else if (METHOD == SIGNAL) {
		nvshmemx_signal_op(word, 1, NVSHMEM_SIGNAL_ADD, peer);
	} else if (SCOPE == THREAD) {
		nvshmem_putmem_signal_nbi(to, from, bytes, word, 1, NVSHMEM_SIGNAL_ADD, peer);
	} else if (SCOPE == WARP) {
		nvshmemx_putmem_signal_nbi_warp(to, from, bytes, word, 1, NVSHMEM_SIGNAL_ADD, peer);
	} else {
		nvshmemx_putmem_signal_nbi_block(to, from, bytes, word, 1, NVSHMEM_SIGNAL_ADD,
						 peer);
	}
}

static __device__ __forceinline__ char pattern(unsigned long long round, int rank, size_t i)
{
	return (char)(i * 131 + (i >> 8) * 29 + round * 17 + rank * 7 + 3);
}

/* Writes payload @n of rank @me to @from; the check expects that of the peer in @at. */
template <int SCOPE>
static __device__ void fill(char *from, size_t bytes, unsigned long long n, int me)
{
	for (size_t i = threadIdx.x; i < bytes; i += blockDim.x)
		from[i] = pattern(n, me, i);
	meet<SCOPE>();
}

template <int SCOPE>
static __device__ void compare(const char *at, size_t bytes, unsigned long long n, int me,
			       unsigned *wrong)
{
	for (size_t i = threadIdx.x; i < bytes; i += blockDim.x)
		if (at[i] != pattern(n, 1 - me, i))
			atomicAdd(wrong, 1u);
	meet<SCOPE>();
}

/* @IS_CHECKED: each message has other bytes, which the receiver checks. */
template <int METHOD, int SCOPE, bool IS_CHECKED>
__global__ void ping_pong(char *to, char *from, size_t bytes, uint64_t *words, int me, unsigned sm,
			  unsigned *present, unsigned place, unsigned samples, unsigned rounds,
			  unsigned long long first, unsigned long long *ns, unsigned *wrong)
{
	unsigned long long n = first, start;
	uint64_t *word;
	unsigned i, k;

	if (!is_placed(sm, present))
		return;
	for (i = 0; i < samples; i++) {
		start = now_ns();
		for (k = 0; k < rounds; k++) {
			n++;
			word = words + word_of(place, n);
			if (IS_CHECKED)
				fill<SCOPE>(from, bytes, n, me);
			if (me == 0)
				go<METHOD, SCOPE>(to, from, bytes, word, n, 1);
			if (threadIdx.x == 0)
				nvshmem_signal_wait_until(word, NVSHMEM_CMP_GE,
							  METHOD == VALUE ? n : turns_of(n));
			meet<SCOPE>();
			if (IS_CHECKED)
				compare<SCOPE>(to, bytes, n, me, wrong);
			if (me != 0)
				go<METHOD, SCOPE>(to, from, bytes, word, n, 0);
		}
		if (threadIdx.x == 0)
			ns[i] = now_ns() - start;
	}
}

__global__ void paint(char *at, size_t bytes, unsigned seed)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		at[i] = (char)(i * 131 + (i >> 8) * 29 + seed);
}

__global__ void check_bytes(const char *at, size_t bytes, unsigned seed, unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != (char)(i * 131 + (i >> 8) * 29 + seed))
			atomicAdd(wrong, 1u);
}

static void settle(void)
{
	CHECK(cudaGetLastError());
	CHECK(cudaStreamSynchronize(stream));
	nvshmem_barrier_all();
}

static void take(const char *test, const char *mode, size_t bytes, unsigned threads, double divisor)
{
	struct row r = {test, "nvshmem", mode, "mapped", (unsigned)ranks, bytes, threads, 1};

	if (rank_of == 0)
		row_print_places(&r, ns, divisor, 0);
}

/* Messages sent by each method from each place: the current value of its words. */
static unsigned long long counts[3][PLACES];

template <int METHOD, int SCOPE>
static void run_ping_pong(const char *test, const char *mode, size_t bytes, unsigned threads)
{
	unsigned rounds = ping_pong_rounds(bytes, threads), pass;

	for (pass = 0; pass < 1 + PLACES && rank_of < 2; pass++) {
		unsigned samples = pass ? EACH : 4, place = pass ? pass - 1 : 0;
		bool is_checked = METHOD == PUT_SIGNAL && pass == 0;

		(is_checked
			 ? ping_pong<METHOD, SCOPE, METHOD == PUT_SIGNAL>
			 : ping_pong<METHOD, SCOPE, false>)<<<place_blocks(), threads, 0, stream>>>(
			window, source, bytes, words + METHOD * 8, rank_of,
			place_sm(place, rank_of), present, place, samples, rounds,
			counts[METHOD][place], ns + place * EACH, wrong);
		CHECK(cudaGetLastError());
		CHECK(cudaStreamSynchronize(stream));
		counts[METHOD][place] += samples * rounds;
	}
	if (*wrong) {
		fprintf(stderr, "%s of %zu bytes: %u wrong\n", test, bytes, *wrong);
		exit(1);
	}
	nvshmem_barrier_all();
	take(test, mode, bytes, threads, 2 * rounds);
}

enum meeting { SYNC_ALL, BARRIER_ALL };

template <int MEETING, int SCOPE>
__global__ void meetings(unsigned sm, unsigned *present, unsigned samples, unsigned rounds,
			 unsigned long long *ns)
{
	unsigned long long start;
	unsigned i, k;

	if (!is_placed(sm, present))
		return;
	for (i = 0; i < samples; i++) {
		start = now_ns();
		for (k = 0; k < rounds; k++) {
			if (MEETING == SYNC_ALL && SCOPE == WARP)
				nvshmemx_sync_all_warp();
			else if (MEETING == SYNC_ALL)
				nvshmemx_sync_all_block();
			else if (SCOPE == WARP)
				nvshmemx_barrier_all_warp();
			else
				nvshmemx_barrier_all_block();
		}
		if (threadIdx.x == 0)
			ns[i] = now_ns() - start;
	}
}

template <int MEETING, int SCOPE> static void run_meeting(const char *mode, unsigned threads)
{
	unsigned samples = EACH, rounds = 200, sm, place;
	unsigned long long *at;
	void *arguments[] = {&sm, &present, &samples, &rounds, &at};

	for (place = 0; place < PLACES; place++) {
		sm = place_sm(place, rank_of);
		at = ns + place * EACH;
		nvshmem_barrier_all();
		if (nvshmemx_collective_launch((const void *)meetings<MEETING, SCOPE>,
					       place_blocks(), threads, arguments, 0, stream)) {
			fprintf(stderr, "nvshmemx_collective_launch failed\n");
			exit(2);
		}
		settle();
	}
	take("barrier", mode, 0, threads, 200);
}

__global__ void fetch_adds(uint64_t *words, unsigned sm, unsigned *present, unsigned place,
			   unsigned samples, unsigned rounds, unsigned long long *ns)
{
	unsigned long long start, old = 0;
	unsigned i, k;

	if (!is_placed(sm, present))
		return;
	for (i = 0; i < samples; i++) {
		start = now_ns();
		/* Each adds the result of the one before, so that none is optimised away. */
		for (k = 0; k < rounds; k++)
			old = nvshmem_uint64_atomic_fetch_add(words + word_of(place, k),
							      1 + (old == UINT64_MAX), 1);
		if (threadIdx.x == 0 && (sm != PLACE_ANY || blockIdx.x == 0))
			ns[i] = now_ns() - start;
	}
}

static void run_fetch_add(const char *mode, unsigned blocks, unsigned threads)
{
	struct row r = {"fetch_add",     "nvshmem", mode,    "mapped",
			(unsigned)ranks, 8,         threads, blocks};

	unsigned place, sm;

	for (place = 0; place < PLACES && rank_of == 0; place++) {
		sm = blocks == 1 ? place_sm(place, 0) : PLACE_ANY;
		fetch_adds<<<blocks == 1 ? place_blocks() : blocks, threads, 0, stream>>>(
			words + 60, sm, present, place, EACH, 200, ns + place * EACH);
		CHECK(cudaGetLastError());
		CHECK(cudaStreamSynchronize(stream));
	}
	if (rank_of == 0)
		row_print_places(&r, ns, 200, 0);
	nvshmem_barrier_all();
}

__global__ void put_blocks(char *to, const char *from, size_t bytes, unsigned rounds)
{
	size_t part = ((bytes + gridDim.x - 1) / gridDim.x + 15) & ~(size_t)15;
	size_t at = part * blockIdx.x;
	unsigned i;

	if (at >= bytes)
		return;
	if (bytes - at < part)
		part = bytes - at;
	for (i = 0; i < rounds; i++)
		nvshmemx_putmem_nbi_block(to + at, from + at, part, 1);
	__syncthreads();
	if (threadIdx.x == 0)
		nvshmem_quiet();
}

static void run_put_bw(size_t bytes, unsigned blocks, unsigned threads)
{
	struct row r = {"put_bw", "nvshmem", "one way", "mapped", 2, bytes, threads, blocks};
	double guess = (double)bytes / (blocks < 8 ? 38e3 * blocks : 350e3), us[5];
	unsigned rounds = (unsigned)(1500 / guess) + 1, i;
	cudaEvent_t begin, end;
	float ms;

	if (rank_of == 0) {
		paint<<<264, 512, 0, stream>>>(source, bytes, blocks);
		CHECK(cudaEventCreate(&begin));
		CHECK(cudaEventCreate(&end));
		for (i = 0; i < 7; i++) {
			CHECK(cudaEventRecord(begin, stream));
			put_blocks<<<blocks, threads, 0, stream>>>(window, source, bytes,
								   i ? rounds : 1);
			CHECK(cudaEventRecord(end, stream));
			CHECK(cudaGetLastError());
			CHECK(cudaStreamSynchronize(stream));
			CHECK(cudaEventElapsedTime(&ms, begin, end));
			if (i >= 2)
				us[i - 2] = ms * 1e3 / rounds;
		}
		row_print(&r, us, 5, (double)bytes);
	}
	nvshmem_barrier_all();
	if (rank_of == 1) {
		check_bytes<<<264, 512, 0, stream>>>(window, bytes, blocks, wrong);
		CHECK(cudaStreamSynchronize(stream));
		if (*wrong) {
			fprintf(stderr, "put_bw: %u bytes wrong\n", *wrong);
			exit(1);
		}
	}
	nvshmem_barrier_all();
}

static void barrier_rows(void)
{
	run_meeting<SYNC_ALL, WARP>("sync_all", 32);
	run_meeting<SYNC_ALL, BLOCK>("sync_all", 256);
	run_meeting<BARRIER_ALL, WARP>("in kernel", 32);
	run_meeting<BARRIER_ALL, BLOCK>("in kernel", 256);
}

static void pair_rows(void)
{
	static const unsigned blocks[] = {1, 2, 4, 8, 16, 32, 64, 132};
	static const size_t sizes[] = {65536, 1ul << 20, 16ul << 20, 256ul << 20};
	unsigned i, k;

	run_ping_pong<VALUE, THREAD>("put_value", "one way", 8, 1);
	run_ping_pong<SIGNAL, THREAD>("signal", "unordered", 0, 1);
	run_ping_pong<PUT_SIGNAL, THREAD>("put_signal", "one way", 8, 1);
	run_ping_pong<PUT_SIGNAL, THREAD>("put_signal", "one way", 4096, 1);
	run_ping_pong<PUT_SIGNAL, THREAD>("put_signal", "one way", 65536, 1);
	run_ping_pong<PUT_SIGNAL, WARP>("put_signal", "one way", 8, 32);
	run_ping_pong<PUT_SIGNAL, WARP>("put_signal", "one way", 1024, 32);
	run_ping_pong<PUT_SIGNAL, WARP>("put_signal", "one way", 4096, 32);
	run_ping_pong<PUT_SIGNAL, WARP>("put_signal", "one way", 65536, 32);
	run_ping_pong<PUT_SIGNAL, BLOCK>("put_signal", "one way", 8, 256);
	run_ping_pong<PUT_SIGNAL, BLOCK>("put_signal", "one way", 1024, 256);
	run_ping_pong<PUT_SIGNAL, BLOCK>("put_signal", "one way", 4096, 256);
	run_ping_pong<PUT_SIGNAL, BLOCK>("put_signal", "one way", 4096, 1024);
	run_ping_pong<PUT_SIGNAL, BLOCK>("put_signal", "one way", 65536, 256);
	run_ping_pong<PUT_SIGNAL, BLOCK>("put_signal", "one way", 65536, 1024);
	run_fetch_add("round trip", 1, 1);
	run_fetch_add("contended", 32, 32);
	for (i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		for (k = 0; k < 4; k++)
			run_put_bw(sizes[k], blocks[i], 1024);
}

int main(int argc, char **argv)
{
	struct meeting_place<nvshmemx_uniqueid_t> *place = start_place<nvshmemx_uniqueid_t>();
	nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;

	ranks = argc > 1 ? atoi(argv[1]) : 2;
	rank_of = start_ranks(ranks);
	CHECK(cudaSetDevice(rank_of));
	if (rank_of == 0) {
		place->id = NVSHMEMX_UNIQUEID_INITIALIZER;
		nvshmemx_get_uniqueid(&place->id);
		start_publish(place);
	}
	start_await(place);
	nvshmemx_set_attr_uniqueid_args(rank_of, ranks, &place->id, &attr);
	if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr)) {
		fprintf(stderr, "nvshmemx_init_attr failed\n");
		return 2;
	}
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	window = (char *)nvshmem_malloc(256ul << 20);
	words = (uint64_t *)nvshmem_calloc(WORDS, sizeof(*words));
	CHECK(cudaMalloc(&source, 256ul << 20));
	CHECK(cudaHostAlloc(&ns, sizeof(*ns) * PLACED, cudaHostAllocDefault));
	CHECK(cudaHostAlloc(&wrong, sizeof(*wrong), cudaHostAllocDefault));
	CHECK(cudaMalloc(&present, 2 * sizeof(*present)));
	CHECK(cudaMemset(present, 0, 2 * sizeof(*present)));
	CHECK(cudaDeviceSynchronize());
	*wrong = 0;
	nvshmem_barrier_all();
	barrier_rows();
	if (ranks == 2)
		pair_rows();
	nvshmem_free(words);
	nvshmem_free(window);
	nvshmem_finalize();
	return 0;
}
