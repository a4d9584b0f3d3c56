/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One measured row: the median and p99 of samples, as a JSON line, and a checked CUDA call. Used by
 * limits.cu and the *_rows.cu programs.
 */
#ifndef BENCH_GPU_SAMPLES_H
#define BENCH_GPU_SAMPLES_H

#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(2);
}

#define CHECK(call) check(call, #call)

struct row {
	const char *test;
	const char *impl;
	const char *mode;
	const char *path;
	uint32_t ranks;
	uint64_t bytes;
	uint32_t threads;
	uint32_t blocks;
};

/*
 * The latency of a word depends on the SM: an atomic takes 830 ns from half of the GPCs of an H200
 * and 880 ns from the other half, a flag from one H200 to another 780 to 980. The hardware assigns
 * blocks to SMs, differently in each process. So as many blocks are launched as there are SMs, each
 * waits until all run, and only the block on the SM of the current place works. The places are SMs
 * 0, 2, 4 to 62: two neighbours are one TPC, and neighbouring TPCs belong to the 8 GPCs in turn, so
 * each GPC has four places.
 */
#define PLACES 32
#define PLACE_ANY 0xffffffffu /* all blocks work, and none waits */
#define PLACE_POLLS 10000000u

/* The SM of @place on the GPU of @rank, so that each GPC talks to several of the other GPU. */
static inline uint32_t place_sm(uint32_t place, uint32_t rank)
{
	return place / 8 * 16 + (place + place / 8 * rank) % 8 * 2;
}

/* Blocks of such a launch on this device. */
static inline uint32_t place_blocks(void)
{
	int device, count = 0;

	if (cudaGetDevice(&device) != cudaSuccess ||
	    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
	    count < 2 * PLACES) {
		fprintf(stderr, "no device of %d SMs\n", 2 * PLACES);
		exit(2);
	}
	return (uint32_t)count;
}

/* Does this block work? @present: two words on this GPU, 0 before the first launch. */
static __device__ __forceinline__ bool is_placed(uint32_t sm, uint32_t *present)
{
	__shared__ bool is_it;
	uint32_t here, turn, polls;

	if (sm == PLACE_ANY)
		return true;
	if (threadIdx.x == 0) {
		asm("mov.u32 %0, %%smid;" : "=r"(here));
		turn = atomicAdd(&present[0], 1u) / gridDim.x + 1;
		for (polls = 0; polls < PLACE_POLLS; polls++)
			if (*(volatile uint32_t *)&present[0] >= turn * gridDim.x)
				break;
		is_it = here == sm && atomicMax(&present[1], turn) < turn;
	}
	__syncthreads();
	return is_it;
}

/*
 * The latency depends on the part of the L2 cache as well: a value took 767 ns in one process and
 * 850 in the next, with its word elsewhere. With 32 words in all NVSHMEM took 642 ns, with 512 of
 * them 695 to 721, and an atomic 858 or 906, depending on the page of 2 MiB. So each place has
 * words of its own, APART bytes apart in several pages, which its messages use in turn.
 */
#define APART 4224u
#define PAGES 4u
#define PAGE_APART (2097152u + APART * PLACES)
#define TURNS 16u
#define WORDS_APART (PAGES * PAGE_APART / 8)

/* The word of message @n, counted from 1, of @place: one of WORDS_APART. */
static inline __device__ uint32_t word_of(uint32_t place, uint64_t n)
{
	uint32_t turn = (uint32_t)n % TURNS;

	return turn % PAGES * (PAGE_APART / 8) + (turn / PAGES * PLACES + place) * (APART / 8);
}

/* The number of messages to that word, including message @n. */
static inline __device__ uint64_t turns_of(uint64_t n)
{
	return (n + TURNS - 1) / TURNS;
}

/* Samples from each place; the first does not count, since one side may start late. */
#define EACH 4
#define PLACED (PLACES * EACH)

/* Rounds of one sample: fewer where few threads move many bytes. */
static inline uint32_t ping_pong_rounds(uint64_t bytes, uint32_t threads)
{
	return bytes / threads > 16384 ? 2 : bytes / threads > 1024 ? 20 : 200;
}

static inline int samples_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* @us: the median; @moved: bytes of one operation, for GB/s; 0 for none. */
static inline void row_write(const struct row *r, double us, double p99, double moved)
{
	printf("{\"test\": \"%s\", \"impl\": \"%s\", \"mode\": \"%s\", \"path\": \"%s\", "
	       "\"ranks\": %u, \"bytes\": %llu, \"threads\": %u, \"blocks\": %u, "
	       "\"median_us\": %.4f, \"p99_us\": %.4f, \"gbps\": ",
	       r->test, r->impl, r->mode, r->path, r->ranks, (unsigned long long)r->bytes,
	       r->threads, r->blocks, us, p99);
	if (moved > 0)
		printf("%.3f}\n", moved / us / 1e3);
	else
		printf("null}\n");
	fflush(stdout);
}

/* @us: samples of one operation; the call sorts them. */
static inline void row_print(const struct row *r, double *us, unsigned count, double moved)
{
	qsort(us, count, sizeof(*us), samples_order);
	row_write(r, us[count / 2], us[count - 1 - count / 100], moved);
}

/*
 * The same for PLACED samples @ns, each of @divisor operations: the mean of the medians of all
 * places, since half of the places are faster than the other half, and a median of all would be the
 * one or the other by chance. @ns is 0 afterwards, so that a missing sample is reported.
 */
static inline void row_print_places(const struct row *r, unsigned long long *ns, double divisor,
				    double moved)
{
	double us[PLACED], sum = 0;
	unsigned place, i;

	for (place = 0; place < PLACES; place++) {
		double *of = us + place * (EACH - 1);

		for (i = 1; i < EACH; i++) {
			of[i - 1] = (double)ns[place * EACH + i] / divisor / 1e3;
			if (ns[place * EACH + i])
				continue;
			fprintf(stderr, "%s, %s: no sample at place %u\n", r->test, r->mode, place);
			exit(1);
		}
		qsort(of, EACH - 1, sizeof(*of), samples_order);
		sum += of[(EACH - 1) / 2];
	}
	memset(ns, 0, sizeof(*ns) * PLACED);
	i = PLACES * (EACH - 1);
	qsort(us, i, sizeof(*us), samples_order);
	row_write(r, sum / PLACES, us[i - 1 - i / 100], moved);
}

#endif
