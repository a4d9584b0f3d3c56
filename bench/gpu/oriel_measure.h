/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of the kernels that oriel_rows.cu times, the choice of rows, and what a wrong byte
 * does. The parts of oriel_rows.cu include it.
 */
#ifndef BENCH_GPU_ORIEL_MEASURE_H
#define BENCH_GPU_ORIEL_MEASURE_H

#define ORIEL_DEV_PATHS 6u /* self and mapped */
#include "bare.h"
#include "samples.h"

#define STREAM_THREADS 512
#define CHANNEL_BYTES (1ul << 20)
#define LL_CHANNEL 64 /* after the channels of streams */
#define LL128_CHANNEL 65
#define CHANNELS 66
#define WARM 3
#define PROFILED_NS 60000000000ul /* a profiler keeps one GPU while it gets ready */
#define AT_LL (64ul << 20)        /* offset of LL messages in the window */
#define AT_LL128 (96ul << 20)     /* offset of LL128 messages */

/* BIG: a block of up to 1024 threads, each of which has 64 registers. */
enum kind { THREAD, WARP, BLOCK, BIG };

static __device__ __forceinline__ struct oriel_dev_group group_of(int kind)
{
	return kind == THREAD ? oriel_dev_thread()
	       : kind == WARP ? oriel_dev_warp()
			      : oriel_dev_block();
}

static __device__ __forceinline__ unsigned char pattern(uint64_t round, uint32_t rank, uint64_t i)
{
	return (unsigned char)(i * 131 + (i >> 8) * 29 + round * 17 + rank * 7 + 3);
}

static uint64_t *ns_buffer[BARE_MAX];
static uint32_t *wrong_buffer, *zero_word, *present[BARE_MAX];
static unsigned failures;

/* Did all bytes arrive? If not, the program continues and fails at the end. */
static bool is_right(const struct row *r)
{
	if (!*wrong_buffer)
		return true;
	fprintf(stderr, "%s, %s, %llu bytes, %ux%u: %u wrong\n", r->test, r->mode,
		(unsigned long long)r->bytes, r->blocks, r->threads, *wrong_buffer);
	*wrong_buffer = 0;
	failures++;
	return false;
}

static const char *only_row; /* "TEST BYTES BLOCKSxTHREADS", or its first words; NULL: all */
static unsigned rows_wanted;

static bool is_wanted(const struct row *r)
{
	char name[96];
	size_t length = only_row ? strlen(only_row) : 0;
	bool is_it;

	snprintf(name, sizeof(name), "%s %llu %ux%u", r->test, (unsigned long long)r->bytes,
		 r->blocks, r->threads);
	is_it = !only_row ||
		(strncmp(only_row, name, length) == 0 && (name[length] == ' ' || !name[length]));
	rows_wanted += is_it;
	return is_it;
}

static void take(const struct row *r, uint64_t divisor, double moved)
{
	row_print_places(r, (unsigned long long *)ns_buffer[0], (double)divisor, moved);
}

static struct row row_of(const char *test, const char *mode, uint64_t bytes, uint32_t threads)
{
	struct row r = {test, "oriel", mode, "mapped", 2, bytes, threads, 1};

	return r;
}

#endif
