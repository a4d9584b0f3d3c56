/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send/recv by NCCL's host calls, and its barrier for kernels, one process for each GPU. run.py
 * calls it. usage: nccl_rows [GPUS]
 */
#include "samples.h"
#include "start.h"

#include <cuda_runtime.h>
#include <nccl.h>
#if __has_include(<nccl_device.h>)
#include <nccl_device.h>
#define HAS_DEVICE
#endif

#include <string.h>
#include <unistd.h>

static int rank_of, ranks;
static cudaStream_t stream;
static ncclComm_t comm;
static char *source, *target;
static unsigned *wrong, *present; /* @present: for is_placed() */
static unsigned long long *ns;

static void nccl_check(ncclResult_t result, const char *what)
{
	if (result == ncclSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, ncclGetErrorString(result));
	exit(2);
}

#define NCCL_CHECK(call) nccl_check(call, #call)

__global__ void __launch_bounds__(512) paint(char *at, size_t bytes, unsigned seed)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		at[i] = (char)(i * 131 + (i >> 8) * 29 + seed);
}

__global__ void __launch_bounds__(512)
	check_bytes(const char *at, size_t bytes, unsigned seed, unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != (char)(i * 131 + (i >> 8) * 29 + seed))
			atomicAdd(wrong, 1u);
}

static void exchange(size_t bytes, bool is_both)
{
	NCCL_CHECK(ncclGroupStart());
	if (is_both || rank_of == 0)
		NCCL_CHECK(ncclSend(source, bytes, ncclInt8, 1 - rank_of, comm, stream));
	if (is_both || rank_of == 1)
		NCCL_CHECK(ncclRecv(target, bytes, ncclInt8, 1 - rank_of, comm, stream));
	NCCL_CHECK(ncclGroupEnd());
}

/* Time of one of many queued operations. */
static void run_send_recv(size_t bytes, bool is_both)
{
	struct row r = {"send_recv", "nccl", is_both ? "both ways" : "one way", "mapped", 2, bytes,
			0,           0};
	unsigned rounds = bytes >= 1ul << 28 ? 4 : bytes >= 1ul << 24 ? 20 : 100, pass, i;
	cudaEvent_t begin, end;
	double us[7];
	float ms;

	paint<<<264, 512, 0, stream>>>(source, bytes, (unsigned)(bytes + rank_of));
	paint<<<264, 512, 0, stream>>>(target, bytes, 99);
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	for (pass = 0; pass < 8; pass++) {
		exchange(bytes, is_both);
		CHECK(cudaEventRecord(begin, stream));
		for (i = 0; i < rounds; i++)
			exchange(bytes, is_both);
		CHECK(cudaEventRecord(end, stream));
		CHECK(cudaStreamSynchronize(stream));
		CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (pass)
			us[pass - 1] = ms * 1e3 / rounds;
	}
	if (is_both || rank_of == 1) {
		check_bytes<<<264, 512, 0, stream>>>(target, bytes, (unsigned)(bytes + 1 - rank_of),
						     wrong);
		CHECK(cudaStreamSynchronize(stream));
		if (*wrong) {
			fprintf(stderr, "send_recv: %u bytes wrong\n", *wrong);
			exit(1);
		}
	}
	if (rank_of == 0)
		row_print(&r, us, 7, (double)bytes * (is_both ? 2 : 1));
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
}

#ifdef HAS_DEVICE
template <class Coop>
__global__ void barriers(ncclDevComm dev, unsigned sm, unsigned *present, unsigned rounds,
			 unsigned long long *ns)
{
	if (!is_placed(sm, present))
		return;

	ncclLsaBarrierSession<Coop> barrier(Coop(), dev, ncclTeamTagLsa(), 0);
	unsigned long long start, end;
	unsigned i, k;

	for (i = 0; i < EACH; i++) {
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start)::"memory");
		for (k = 0; k < rounds; k++)
			barrier.sync(Coop(), cuda::memory_order_acq_rel);
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end)::"memory");
		if (threadIdx.x == 0)
			ns[i] = end - start;
	}
}

template <typename Coop> static void run_barrier(ncclDevComm dev, unsigned threads)
{
	struct row r = {"barrier", "nccl", "in kernel", "mapped", (unsigned)ranks, 0, threads, 1};
	unsigned i;

	for (i = 0; i < PLACES; i++) {
		barriers<Coop><<<place_blocks(), threads, 0, stream>>>(dev, place_sm(i, rank_of),
								       present, 200, ns + i * EACH);
		CHECK(cudaGetLastError());
		CHECK(cudaStreamSynchronize(stream));
	}
	if (rank_of == 0)
		row_print_places(&r, ns, 200, 0);
}

static void run_barriers(void)
{
	ncclDevCommRequirements needs;
	ncclResult_t result;
	ncclDevComm dev;

	memset(&needs, 0, sizeof(needs));
	needs.lsaBarrierCount = 1;
	result = ncclDevCommCreate(comm, &needs, &dev);
	if (result != ncclSuccess) {
		fprintf(stderr, "no NCCL device communicator: %s\n", ncclGetErrorString(result));
		return;
	}
	run_barrier<ncclCoopWarp>(dev, 32);
	run_barrier<ncclCoopCta>(dev, 256);
	NCCL_CHECK(ncclDevCommDestroy(comm, &dev));
}
#else
static void run_barriers(void)
{
	fprintf(stderr, "this NCCL has no header for kernels\n");
}
#endif

int main(int argc, char **argv)
{
	static const size_t sizes[] = {8,          1024,        65536,    1ul << 20,
				       16ul << 20, 256ul << 20, 1ul << 30};
	struct meeting_place<ncclUniqueId> *place = start_place<ncclUniqueId>();
	int i, both;

	ranks = argc > 1 ? atoi(argv[1]) : 2;
	rank_of = start_ranks(ranks);
	CHECK(cudaSetDevice(rank_of));
	if (rank_of == 0) {
		NCCL_CHECK(ncclGetUniqueId(&place->id));
		start_publish(place);
	}
	start_await(place);
	NCCL_CHECK(ncclCommInitRank(&comm, ranks, place->id, rank_of));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&source, 1ul << 30));
	CHECK(cudaMalloc(&target, 1ul << 30));
	CHECK(cudaHostAlloc(&wrong, sizeof(*wrong), cudaHostAllocDefault));
	CHECK(cudaMalloc(&present, 2 * sizeof(*present)));
	CHECK(cudaMemset(present, 0, 2 * sizeof(*present)));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaHostAlloc(&ns, sizeof(*ns) * PLACED, cudaHostAllocDefault));
	*wrong = 0;
	run_barriers();
	for (both = 0; both < 2 && ranks == 2; both++)
		for (i = 0; i < (int)(sizeof(sizes) / sizeof(sizes[0])); i++)
			run_send_recv(sizes[i], both);
	NCCL_CHECK(ncclCommDestroy(comm));
	return 0;
}
