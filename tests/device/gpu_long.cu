/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of more than 4 GiB of GPU memory, all bytes of which are compared, and one that ends
 * in the middle: gpu_long RANKS [NODES] (threads), or oriel run -n N [--nodes M] gpu_long
 * (processes). Rank r uses GPU r modulo the number of GPUs, and has memory of RANKS + 1 times 4 GiB
 * there. Prints a line for each claim; exit status 1: a claim does not hold, or there is not the
 * memory. tests/fakecuda builds it for the CPU, for shorter ones. scripts/gpu-check calls it.
 */
#include <cuda_runtime.h>

#include <oriel/dev.h>

#include "ranks.h"

/* Elements of a result, which are its bytes: an offset or a length that lost its upper half is
 * seen. */
#ifdef FAKECUDA_RUNTIME
#define LENGTH (((size_t)1 << 20) + 12345)
#else
#define LENGTH (((size_t)1 << 32) + 12345)
#endif
#define LONG_NS 60000000000ull
#define POSTED 40u /* executions of which an abort ends some */

struct rank {
	unsigned rank, size, failures;
	struct oriel_comm *comm;
	cudaStream_t stream;
	uint8_t *view, *send; /* LENGTH bytes, and those for each rank */
	unsigned long long *wrong;
};

static void verdict(struct rank *r, const char *claim, bool is_true)
{
	r->failures += !is_true;
	if (!is_true || r->rank == 0)
		printf("%s rank %u of %u: %s, %zu bytes\n", is_true ? "PASS" : "FAIL", r->rank,
		       r->size, claim, LENGTH);
}

__host__ __device__ uint8_t pattern(unsigned rank, size_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull ^ (rank + 1) * 0xbf58476d1ce4e5b9ull;

	return (uint8_t)(x >> 40);
}

__global__ void paint(uint8_t *at, size_t count, unsigned rank)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < count; i += gridDim.x * (size_t)blockDim.x)
		at[i] = pattern(rank, i);
}

/* Counts the elements that are not the sum of elements @begin and following of all ranks. */
__global__ void check(const uint8_t *at, size_t begin, size_t count, unsigned ranks,
		      unsigned long long *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	unsigned rank;
	uint8_t sum;

	for (; i < count; i += gridDim.x * (size_t)blockDim.x) {
		for (sum = 0, rank = 0; rank < ranks; rank++)
			sum = (uint8_t)(sum + pattern(rank, begin + i));
		if (at[i] != sum)
			atomicAdd(wrong, 1ull);
	}
}

static bool is_sum(struct rank *r, size_t begin)
{
	unsigned long long wrong = 0;

	CUDA(cudaMemsetAsync(r->wrong, 0, sizeof(wrong), r->stream));
	check<<<1024, 256, 0, r->stream>>>(r->view, begin, LENGTH, r->size, r->wrong);
	CUDA(cudaMemcpyAsync(&wrong, r->wrong, sizeof(wrong), cudaMemcpyDefault, r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
	/* No rank writes to a view that its peer still compares. */
	MUST(oriel_comm_barrier(r->comm));
	if (wrong)
		printf("rank %u: %llu bytes are wrong\n", r->rank, wrong);
	return wrong == 0;
}

static struct oriel_reduction sum_of_bytes(void)
{
	struct oriel_reduction sum = {};

	sum.size = sizeof(sum);
	sum.type = ORIEL_TYPE_UINT8;
	sum.op = ORIEL_OP_SUM;
	return sum;
}

static struct oriel_view view_of(const struct rank *r)
{
	struct oriel_view view = {};

	view.size = sizeof(view);
	view.kind = ORIEL_VIEW_BUFFER;
	view.flags = ORIEL_VIEW_GPU;
	view.buffer = r->view;
	view.length = LENGTH;
	return view;
}

static void test_all(struct rank *r)
{
	struct oriel_reduction sum = sum_of_bytes();
	struct oriel_view view = view_of(r);
	struct oriel_allreduce *all = NULL;

	MUST(oriel_allreduce_create(r->comm, &view, &sum, NULL, &all));
	paint<<<1024, 256, 0, r->stream>>>(r->view, LENGTH, r->rank);
	MUST(oriel_allreduce_run_on_stream(all, r->view, LENGTH, r->stream));
	verdict(r, "all-reduce in place", is_sum(r, 0));
	MUST(oriel_allreduce_destroy(all));
}

static void test_scatter(struct rank *r)
{
	struct oriel_reduction sum = sum_of_bytes();
	struct oriel_reduce_scatter *scatter = NULL;
	struct oriel_view view = view_of(r);

	MUST(oriel_reduce_scatter_create(r->comm, &view, &sum, NULL, &scatter));
	paint<<<1024, 256, 0, r->stream>>>(r->send, r->size * LENGTH, r->rank);
	CUDA(cudaMemsetAsync(r->view, 0, LENGTH, r->stream));
	MUST(oriel_reduce_scatter_run_on_stream(scatter, r->send, LENGTH, r->stream));
	verdict(r, "reduce-scatter", is_sum(r, r->rank * LENGTH));
	MUST(oriel_reduce_scatter_destroy(scatter));
}

static void join(const struct rank *r, const struct oriel_bootstrap *bootstrap, const char *node,
		 struct oriel_comm **comm)
{
	struct oriel_comm_attr attr = {};

	attr.size = sizeof(attr);
	attr.timeout_ns = LONG_NS;
	attr.flags = ORIEL_COMM_GPU;
	attr.node = node;
	MUST(oriel_comm_create(bootstrap, &attr, comm));
}

/* Rank 0 aborts a communicator while many executions are posted. All streams end. */
static void test_abort(struct rank *r, const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct oriel_reduction sum = sum_of_bytes();
	struct oriel_health health = {};
	struct oriel_view view = view_of(r);
	struct oriel_allreduce *all = NULL;
	struct oriel_comm *comm = NULL;
	enum oriel_status status;
	unsigned i;

	health.size = sizeof(health);
	join(r, bootstrap, node, &comm);
	MUST(oriel_allreduce_create(comm, &view, &sum, NULL, &all));
	paint<<<1024, 256, 0, r->stream>>>(r->send, LENGTH, r->rank);
	for (i = 0, status = ORIEL_OK; i < POSTED && status == ORIEL_OK; i++) {
		status = oriel_allreduce_run_on_stream(all, r->send, LENGTH, r->stream);
		if (r->rank == 0 && (i == POSTED / 2 || status != ORIEL_OK))
			oriel_comm_abort(comm, "a test");
	}
	CUDA(cudaStreamSynchronize(r->stream));
	while (oriel_comm_health(comm, &health) == ORIEL_OK && health.status == ORIEL_OK)
		ori_dev_back_off(10000000);
	status = oriel_allreduce_run_on_stream(all, r->send, LENGTH, r->stream);
	verdict(r, "an abort ends executions under way and later calls",
		health.status == ORIEL_ERR_ABORTED && status == ORIEL_ERR_ABORTED);
	oriel_allreduce_destroy(all);
	oriel_comm_destroy(comm);
	/* A kernel of a peer may write to the view until it has ended there, too. */
	MUST(oriel_comm_barrier(r->comm));
}

static void rank_open(struct rank *r, const struct oriel_bootstrap *bootstrap, const char *node)
{
	int gpus = 0;

	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((int)r->rank % gpus));
	CUDA(cudaFree(NULL));
	join(r, bootstrap, node, &r->comm);
	CUDA(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
	CUDA(cudaMalloc((void **)&r->view, LENGTH));
	CUDA(cudaMalloc((void **)&r->send, r->size * LENGTH));
	CUDA(cudaMalloc((void **)&r->wrong, sizeof(*r->wrong)));
	/* A first launch may wait for all work of the GPU, of other ranks too. */
	paint<<<1024, 256, 0, r->stream>>>(r->view, 0, 0);
	check<<<1024, 256, 0, r->stream>>>(r->view, 0, 0, 1, r->wrong);
	CUDA(cudaDeviceSynchronize());
	MUST(oriel_comm_barrier(r->comm));
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct rank rank = {}, *r = &rank;

	r->rank = bootstrap->rank;
	r->size = bootstrap->size;
	rank_open(r, bootstrap, node);
	test_all(r);
	test_scatter(r);
	test_abort(r, bootstrap, node);
	oriel_comm_destroy(r->comm);
	CUDA(cudaFree(r->wrong));
	CUDA(cudaFree(r->send));
	CUDA(cudaFree(r->view));
	CUDA(cudaStreamDestroy(r->stream));
	return r->failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
