/* SPDX-License-Identifier: Apache-2.0 */
/* Bandwidths of puts and of streams in channels, with checked bytes. oriel_rows.cu includes it. */
#ifndef BENCH_GPU_ORIEL_BANDWIDTH_H
#define BENCH_GPU_ORIEL_BANDWIDTH_H

#include "oriel_measure.h"

#include <thread>

__global__ void __launch_bounds__(1024, 1)
	put_blocks(const __grid_constant__ struct oriel_dev_window w, uint32_t peer, char *source,
		   uint64_t bytes, uint32_t rounds, uint32_t *wrong)
{
	uint64_t part = ((bytes + gridDim.x - 1) / gridDim.x + 15) & ~15ull;
	uint64_t from = part * blockIdx.x;
	struct oriel_dev_group g = oriel_dev_block();
	uint32_t i;

	if (from >= bytes)
		return;
	if (bytes - from < part)
		part = bytes - from;
	for (i = 0; i < rounds; i++)
		if (oriel_dev_put(&w, g, peer, from, source + from, part, NULL) < 0)
			atomicAdd(wrong, 1u);
	oriel_dev_flush(&w, g, 0);
}

/* The same bytes by oriel_dev_put_part(). */
__global__ void __launch_bounds__(1024, 1)
	put_turns(const __grid_constant__ struct oriel_dev_window w, uint32_t peer, char *source,
		  uint64_t bytes, uint32_t rounds, uint32_t *wrong)
{
	struct oriel_dev_group g = oriel_dev_block();
	uint32_t i;

	for (i = 0; i < rounds; i++)
		if (oriel_dev_put_part(&w, g, blockIdx.x, gridDim.x, peer, 0, source, bytes, NULL) <
		    0)
			atomicAdd(wrong, 1u);
	oriel_dev_flush(&w, g, 0);
}

__global__ void __launch_bounds__(512) paint(char *at, uint64_t bytes, uint64_t seed)
{
	uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (uint64_t)gridDim.x * blockDim.x)
		at[i] = (char)pattern(seed, 1, i);
}

__global__ void __launch_bounds__(512)
	check_bytes(const char *at, uint64_t bytes, uint64_t seed, uint32_t *wrong)
{
	uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (uint64_t)gridDim.x * blockDim.x)
		if ((unsigned char)at[i] != pattern(seed, 1, i))
			atomicAdd(wrong, 1u);
}

static void paint_on(struct bare *b, uint32_t rank, char *at, uint64_t bytes, uint64_t seed)
{
	CUDA_CHECK(cudaSetDevice(b->rank[rank].gpu));
	paint<<<264, 512, 0, b->rank[rank].stream>>>(at, bytes, seed);
	CUDA_CHECK(cudaGetLastError());
	CUDA_CHECK(cudaStreamSynchronize(b->rank[rank].stream));
}

static void check_on(struct bare *b, uint32_t rank, const char *at, uint64_t bytes, uint64_t seed)
{
	CUDA_CHECK(cudaSetDevice(b->rank[rank].gpu));
	check_bytes<<<264, 512, 0, b->rank[rank].stream>>>(at, bytes, seed, wrong_buffer);
	CUDA_CHECK(cudaGetLastError());
	CUDA_CHECK(cudaStreamSynchronize(b->rank[rank].stream));
}

static void run_put_bw(struct bare *b, const char *mode, uint64_t bytes, uint32_t blocks,
		       uint32_t threads, uint64_t shift)
{
	struct row r = {"put_bw", "oriel", mode, "mapped", 2, bytes, threads, blocks};
	bool is_in_turns = strcmp(mode, "in turns") == 0;
	double guess = (double)bytes / (blocks < 8 ? 44e3 * blocks : 360e3), us[7];
	uint32_t rounds = (uint32_t)(1500 / guess) + 1, i;
	cudaEvent_t begin, end;
	float ms;

	if (!is_wanted(&r))
		return;
	paint_on(b, 1, b->rank[1].buffer[0], bytes + 64, 77);
	paint_on(b, 0, b->rank[0].buffer[1] + shift, bytes, bytes + blocks);
	CUDA_CHECK(cudaSetDevice(b->rank[0].gpu));
	CUDA_CHECK(cudaEventCreate(&begin));
	CUDA_CHECK(cudaEventCreate(&end));
	for (i = 0; i < 9; i++) {
		CUDA_CHECK(cudaEventRecord(begin, b->rank[0].stream));
		(is_in_turns ? put_turns : put_blocks)<<<blocks, threads, 0, b->rank[0].stream>>>(
			b->window[0], 1, b->rank[0].buffer[1] + shift, bytes, i ? rounds : 1,
			wrong_buffer);
		CUDA_CHECK(cudaEventRecord(end, b->rank[0].stream));
		CUDA_CHECK(cudaGetLastError());
		bare_wait(b, "put_bw");
		CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (i >= 2)
			us[i - 2] = ms * 1e3 / rounds;
	}
	check_on(b, 1, b->rank[1].buffer[0], bytes, bytes + blocks);
	if (is_right(&r))
		row_print(&r, us, 7, (double)bytes);
	CUDA_CHECK(cudaEventDestroy(begin));
	CUDA_CHECK(cudaEventDestroy(end));
}

static void put_bandwidths(struct bare *b)
{
	static const uint32_t blocks[] = {1, 2, 4, 8, 16, 32, 64, 132};
	static const uint64_t sizes[] = {65536, 1ul << 20, 16ul << 20, 256ul << 20};
	unsigned i, k;

	for (i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		for (k = 0; k < 4; k++)
			run_put_bw(b, "one way", sizes[k], blocks[i], 1024, 0);
	run_put_bw(b, "one way", 16ul << 20, 1, 256, 0);
	run_put_bw(b, "one way", 16ul << 20, 1, 512, 0);
	run_put_bw(b, "one way", 16ul << 20, 8, 512, 0);
	run_put_bw(b, "one way", 256ul << 20, 32, 512, 0);
	run_put_bw(b, "one way", 256ul << 20, 132, 512, 0);
	for (i = 3; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		for (k = 512; k <= 1024; k += 512)
			run_put_bw(b, "in turns", 256ul << 20, blocks[i], k, 0);
	run_put_bw(b, "misaligned", 16ul << 20, 1, 1024, 3);
	run_put_bw(b, "misaligned", 16ul << 20, 1, 1024, 8);
	run_put_bw(b, "misaligned", 256ul << 20, 32, 1024, 3);
}

/*
 * Blocks [0, senders) send their slice of @bytes through their channel; each of the other blocks
 * receives one.
 */
__global__ void __launch_bounds__(STREAM_THREADS)
	stream_blocks(const __grid_constant__ struct oriel_dev_window w, uint32_t peer,
		      uint32_t senders, uint32_t streams, const char *from, char *to,
		      uint64_t bytes, uint32_t *wrong)
{
	bool sends = blockIdx.x < senders;
	uint32_t channel = sends ? blockIdx.x : blockIdx.x - senders;
	uint64_t part = ((bytes + streams - 1) / streams + 127) & ~127ull, at = part * channel;
	struct oriel_dev_group g = oriel_dev_block();
	enum oriel_status status;

	if (at >= bytes)
		return;
	if (bytes - at < part)
		part = bytes - at;
	if (sends)
		status = oriel_dev_send(&w, g, peer, channel, from + at, part, 0);
	else
		status = oriel_dev_recv(&w, g, peer, channel, to + at, part, 0);
	if (status != ORIEL_OK && g.rank == 0)
		atomicAdd(wrong, 1u);
}

/* Small messages: one warp sends, the other receives. */
__global__ void stream_warps(const __grid_constant__ struct oriel_dev_window w, uint32_t peer,
			     bool sends, bool receives, const char *from, char *to, uint64_t bytes,
			     uint32_t *wrong)
{
	enum oriel_status status = ORIEL_OK;

	if (threadIdx.x < 32 && sends)
		status = oriel_dev_send_ll(&w, oriel_dev_warp(), peer, LL_CHANNEL, from, bytes, 0);
	if (threadIdx.x >= 32 && receives)
		status = oriel_dev_recv_ll(&w, oriel_dev_warp(), peer, LL_CHANNEL, to, bytes, 0);
	if (status != ORIEL_OK)
		atomicAdd(wrong, 1u);
}

static void launch_stream(struct bare *b, uint32_t rank, uint64_t bytes, uint32_t streams,
			  bool is_both)
{
	struct bare_rank *r = &b->rank[rank];
	bool sends = is_both || rank == 0, receives = is_both || rank == 1;
	uint32_t senders = sends ? streams : 0, blocks = senders + (receives ? streams : 0);

	CUDA_CHECK(cudaSetDevice(r->gpu));
	if (bytes <= 1024)
		stream_warps<<<1, 64, 0, r->stream>>>(b->window[rank], 1 - rank, sends, receives,
						      r->buffer[1], r->buffer[0], bytes,
						      wrong_buffer);
	else
		stream_blocks<<<blocks, STREAM_THREADS, 0, r->stream>>>(b->window[rank], 1 - rank,
									senders, streams,
									r->buffer[1], r->buffer[0],
									bytes, wrong_buffer);
	CUDA_CHECK(cudaGetLastError());
}

/*
 * Time of one of many queued operations on both GPUs. A thread for each GPU launches them, since
 * launches take longest.
 */
static void run_stream(struct bare *b, uint64_t bytes, uint32_t streams, bool is_both)
{
	struct row r = {"send_recv",    "oriel", is_both ? "both ways" : "one way",
			"mapped",       2,       bytes,
			STREAM_THREADS, streams};
	uint32_t rounds = bytes >= 1ul << 28 ? 4 : bytes >= 1ul << 24 ? 20 : 100, pass, k;
	cudaEvent_t begin, end;
	double us[7];
	float ms;

	if (!is_wanted(&r))
		return;
	for (k = 0; k < 2; k++) {
		paint_on(b, k, b->rank[k].buffer[1], bytes, bytes + streams + k);
		paint_on(b, k, b->rank[k].buffer[0], bytes, 99);
	}
	CUDA_CHECK(cudaSetDevice(b->rank[0].gpu));
	CUDA_CHECK(cudaEventCreate(&begin));
	CUDA_CHECK(cudaEventCreate(&end));
	for (pass = 0; pass < 8; pass++) {
		std::thread other([=] {
			for (uint32_t i = 0; i <= rounds; i++)
				launch_stream(b, 1, bytes, streams, is_both);
		});

		/* The first launch is not timed, since the other thread begins with it. */
		launch_stream(b, 0, bytes, streams, is_both);
		CUDA_CHECK(cudaEventRecord(begin, b->rank[0].stream));
		for (uint32_t i = 0; i < rounds; i++)
			launch_stream(b, 0, bytes, streams, is_both);
		CUDA_CHECK(cudaEventRecord(end, b->rank[0].stream));
		other.join();
		bare_wait(b, "send_recv");
		CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (pass)
			us[pass - 1] = ms * 1e3 / rounds;
	}
	for (k = is_both ? 0 : 1; k < 2; k++)
		check_on(b, k, b->rank[k].buffer[0], bytes, bytes + streams + (1 - k));
	if (is_right(&r))
		row_print(&r, us, 7, (double)bytes * (is_both ? 2 : 1));
	CUDA_CHECK(cudaEventDestroy(begin));
	CUDA_CHECK(cudaEventDestroy(end));
}

static void streams(struct bare *b)
{
	static const uint64_t sizes[] = {8,          1024,        65536,    1ul << 20,
					 16ul << 20, 256ul << 20, 1ul << 30};
	static const uint32_t counts[] = {1, 8, 16, 32, 64};
	int both;
	unsigned i, k;

	for (both = 0; both < 2; both++)
		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			for (k = 0; k < 5; k++)
				if (sizes[i] > 1024 ? k && sizes[i] / counts[k] >= 4096 : k < 2)
					run_stream(b, sizes[i], counts[k], both);
}

#endif
