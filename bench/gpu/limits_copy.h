/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy loops between two GPUs: unrolled, with cache hints, in turns, by the bulk engine. limits.cu
 * includes it.
 */
#ifndef BENCH_GPU_LIMITS_COPY_H
#define BENCH_GPU_LIMITS_COPY_H

#include "limits_size.h"

enum hint { PLAIN, STREAM_LOADS, STREAM_STORES, STREAM_BOTH, HINTS };

static const char *const hint_names[] = {"plain", "no_allocate loads", "streaming stores",
					 "both hints"};

template <int HINT> static __device__ __forceinline__ uint4 load(const uint4 *at)
{
	uint4 v;

	if (HINT == STREAM_LOADS || HINT == STREAM_BOTH) {
		asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
			     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
			     : "l"(at));
		return v;
	}
	return *at;
}

template <int HINT> static __device__ __forceinline__ void store(uint4 *at, uint4 v)
{
	if (HINT == STREAM_STORES || HINT == STREAM_BOTH)
		__stcs(at, v);
	else
		*at = v;
}

template <int UNROLL, int HINT>
__global__ void __launch_bounds__(1024, 1)
	copies(uint4 *to, const uint4 *from, unsigned long long count)
{
	unsigned long long part = (count + gridDim.x - 1) / gridDim.x, k = part * blockIdx.x;
	unsigned long long end = k + part < count ? k + part : count;
	uint4 v[UNROLL];
	int i;

	k += threadIdx.x;
#pragma unroll 1
	for (; k + (UNROLL - 1) * blockDim.x < end; k += UNROLL * blockDim.x) {
#pragma unroll
		for (i = 0; i < UNROLL; i++)
			v[i] = load<HINT>(&from[k + i * blockDim.x]);
#pragma unroll
		for (i = 0; i < UNROLL; i++)
			store<HINT>(&to[k + i * blockDim.x], v[i]);
	}
	for (; k < end; k += blockDim.x)
		to[k] = from[k];
}

/* The same bytes in turns: in each round the blocks copy neighbouring parts. */
template <int UNROLL>
__global__ void __launch_bounds__(1024, 1)
	turns(uint4 *to, const uint4 *from, unsigned long long count)
{
	unsigned long long round = (unsigned long long)blockDim.x * UNROLL, k;
	uint4 v[UNROLL];
	int i;

	k = round * blockIdx.x + threadIdx.x;
#pragma unroll 1
	for (; k + (UNROLL - 1) * blockDim.x < count; k += round * gridDim.x) {
#pragma unroll
		for (i = 0; i < UNROLL; i++)
			v[i] = from[k + i * blockDim.x];
#pragma unroll
		for (i = 0; i < UNROLL; i++)
			to[k + i * blockDim.x] = v[i];
	}
}

/*
 * The bulk copy engine of an SM: pieces of 16 KiB through shared memory, several in flight. One
 * thread does everything.
 */
#define BULK_PIECE 16384u
#define BULK_STAGES 8u

__global__ void bulk(char *to, const char *from, unsigned long long bytes)
{
	extern __shared__ __align__(128) char stage[];
	__shared__ __align__(8) unsigned long long ready[BULK_STAGES];
	unsigned long long part = bytes / gridDim.x / BULK_PIECE * BULK_PIECE,
			   at = part * blockIdx.x;
	unsigned pieces =
		(unsigned)((blockIdx.x + 1 == gridDim.x ? bytes - at : part) / BULK_PIECE);
	unsigned i, k, lap, done;

	if (threadIdx.x)
		return;
	for (i = 0; i < BULK_STAGES; i++)
		asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(
			(unsigned)__cvta_generic_to_shared(&ready[i])));
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	for (i = 0; i < pieces + BULK_STAGES / 2; i++) {
		if (i < pieces) {
			unsigned where =
				(unsigned)__cvta_generic_to_shared(&ready[i % BULK_STAGES]);

			/* The piece of the lap before has been read from its stage. */
			if (i >= BULK_STAGES)
				asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(
						     BULK_STAGES / 2 - 1)
					     : "memory");
			asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(
					     where),
				     "r"(BULK_PIECE)
				     : "memory");
			asm volatile(
				"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
				"[%0], [%1], %2, [%3];" ::"r"((unsigned)__cvta_generic_to_shared(
					stage + i % BULK_STAGES * BULK_PIECE)),
				"l"(from + at + (unsigned long long)i * BULK_PIECE),
				"r"(BULK_PIECE), "r"(where)
				: "memory");
		}
		if (i < BULK_STAGES / 2)
			continue;
		k = i - BULK_STAGES / 2;
		lap = k / BULK_STAGES & 1;
		do {
			asm volatile("{\n\t.reg .pred p;\n\t"
				     "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n\t"
				     "selp.u32 %0, 1, 0, p;\n\t}"
				     : "=r"(done)
				     : "r"((unsigned)__cvta_generic_to_shared(
					       &ready[k % BULK_STAGES])),
				       "r"(lap)
				     : "memory");
		} while (!done);
		asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
				     to + at + (unsigned long long)k * BULK_PIECE),
			     "r"((unsigned)__cvta_generic_to_shared(stage +
								    k % BULK_STAGES * BULK_PIECE)),
			     "r"(BULK_PIECE)
			     : "memory");
		asm volatile("cp.async.bulk.commit_group;" ::: "memory");
	}
	asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#define COPY_BYTES (64ull << 20)

static char *copy_ends[2];

static void print_copy(const char *mode, unsigned blocks, unsigned threads, cudaStream_t stream,
		       void (*launch)(unsigned, unsigned, cudaStream_t))
{
	struct row r = {"copy", "limit", mode, "mapped", 2, COPY_BYTES, threads, blocks};
	cudaEvent_t begin, end;
	double us[5];
	float ms;
	int i;

	CHECK(cudaSetDevice(0));
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	for (i = 0; i < 6; i++) {
		CHECK(cudaEventRecord(begin, stream));
		launch(blocks, threads, stream);
		launch(blocks, threads, stream);
		CHECK(cudaEventRecord(end, stream));
		CHECK(cudaGetLastError());
		CHECK(cudaStreamSynchronize(stream));
		CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (i)
			us[i - 1] = ms * 1e3 / 2;
	}
	row_print(&r, us, 5, (double)COPY_BYTES);
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
}

template <int UNROLL, int HINT>
static void launch_copy(unsigned blocks, unsigned threads, cudaStream_t stream)
{
	copies<UNROLL, HINT><<<blocks, threads, 0, stream>>>((uint4 *)copy_ends[1],
							     (const uint4 *)copy_ends[0],
							     COPY_BYTES / 16);
}

template <int UNROLL>
static void launch_turns(unsigned blocks, unsigned threads, cudaStream_t stream)
{
	turns<UNROLL><<<blocks, threads, 0, stream>>>((uint4 *)copy_ends[1],
						      (const uint4 *)copy_ends[0], COPY_BYTES / 16);
}

static void launch_bulk(unsigned blocks, unsigned threads, cudaStream_t stream)
{
	CHECK(cudaFuncSetAttribute(bulk, cudaFuncAttributeMaxDynamicSharedMemorySize,
				   BULK_PIECE * BULK_STAGES));
	bulk<<<blocks, threads, BULK_PIECE * BULK_STAGES, stream>>>(copy_ends[1], copy_ends[0],
								    COPY_BYTES);
}

template <int UNROLL, int HINT> static void run_copies(cudaStream_t stream)
{
	static const unsigned blocks[] = {1, 8, 32, 132};
	char mode[64];
	int i;

	snprintf(mode, sizeof(mode), "unroll %d, %s", UNROLL, hint_names[HINT]);
	for (i = 0; i < 4; i++)
		print_copy(mode, blocks[i], 1024, stream, launch_copy<UNROLL, HINT>);
	print_copy(mode, 1, 256, stream, launch_copy<UNROLL, HINT>);
	print_copy(mode, 32, 512, stream, launch_copy<UNROLL, HINT>);
}

#endif
