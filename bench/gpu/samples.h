/* SPDX-License-Identifier: Apache-2.0 */
/* One measured row: samples to median and p99, and a JSON line of them. */
#ifndef BENCH_GPU_SAMPLES_H
#define BENCH_GPU_SAMPLES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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
 * A word is near some SMs and far from others: one flag takes 682 to 892 ns from one
 * H200 to another. So what one block measures is measured from several SMs: as many
 * blocks are launched as it takes for the last to be on that SM, and that one works.
 */
static const uint32_t place_blocks[] = {0, 16, 33, 49, 66, 82, 99, 115};

#define PLACES 32

/*
 * And near some parts of the L2 cache: in one process a value took 767 ns, in the next 850,
 * its word elsewhere; by 32 words in all NVSHMEM took 642 ns, by 512 of them 695 to 721, and
 * an atomic 858 or 906, by the page of 2 MiB. So each place has words of its own, so many
 * bytes apart in several pages, which its messages take in turn.
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

/* How many messages that word has got with this one. */
static inline __device__ uint64_t turns_of(uint64_t n)
{
	return (n + TURNS - 1) / TURNS;
}

static inline uint32_t place_block(uint32_t place)
{
	return place_blocks[place % (sizeof(place_blocks) / sizeof(place_blocks[0]))];
}

/* Samples from each place; the first, in which one side may come late, does not count. */
#define EACH 4
#define PLACED (PLACES * EACH)

/* In one sample: fewer where few threads move much. */
static inline uint32_t ping_pong_rounds(uint64_t bytes, uint32_t threads)
{
	return bytes / threads > 16384 ? 2 : bytes / threads > 1024 ? 20 : 200;
}

static inline int samples_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* @us: of one operation each. @moved: bytes in it, for GB/s; 0 for none. */
static inline void row_print(const struct row *r, double *us, unsigned count, double moved)
{
	double median, p99;

	qsort(us, count, sizeof(*us), samples_order);
	median = us[count / 2];
	p99 = us[count - 1 - count / 100];
	printf("{\"test\": \"%s\", \"impl\": \"%s\", \"mode\": \"%s\", \"path\": \"%s\", "
	       "\"ranks\": %u, \"bytes\": %llu, \"threads\": %u, \"blocks\": %u, "
	       "\"median_us\": %.4f, \"p99_us\": %.4f, \"gbps\": ",
	       r->test, r->impl, r->mode, r->path, r->ranks, (unsigned long long)r->bytes,
	       r->threads, r->blocks, median, p99);
	if (moved > 0)
		printf("%.3f}\n", moved / median / 1e3);
	else
		printf("null}\n");
	fflush(stdout);
}

/* The same of @ns, PLACED of them, each of @divisor operations. */
static inline void row_print_places(const struct row *r, const unsigned long long *ns,
				    double divisor, double moved)
{
	double us[PLACED];
	unsigned count = 0, i;

	for (i = 0; i < PLACED; i++)
		if (i % EACH)
			us[count++] = (double)ns[i] / divisor / 1e3;
	row_print(r, us, count, moved);
}

#endif
