/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduces and reduce-scatters of GPU memory, sums of bf16, beside NCCL's in two modes and a
 * bare kernel that synchronises nothing; eager and in graphs, in one run. The bytes of a
 * reduce-scatter are those of one part. Ranks are threads, one for each GPU. reduce.py calls it.
 * usage: reduce_rows [GPUS]
 */
#include "coll_rows.h"

#include <cuda_bf16.h>

static const size_t sizes[] = {1024,     4096,     16384,    65536,     262144,    524288,
			       1u << 20, 2u << 20, 4u << 20, 16u << 20, 64u << 20, 256u << 20};

/* One method of a reduction. */
struct method {
	const char *impl;
	const char *mode;
	unsigned algorithm; /* Oriel's */
	bool is_scatter;
	bool in_place;
	bool is_symmetric;  /* NCCL's */
	size_t least, most; /* bytes; 0: any */
};

static char *results[RANKS_MAX]; /* of all ranks, for the bare kernel */

/* Integers whose sums over 8 ranks are numbers of bf16, in any order. */
__device__ static float pattern(size_t i, int rank)
{
	return (float)((i * 7 + (i >> 9) * 5 + (size_t)rank * 3) % 16);
}

__global__ void __launch_bounds__(512) paint(__nv_bfloat16 *at, size_t count, int rank)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < count; i += (size_t)gridDim.x * blockDim.x)
		at[i] = __float2bfloat16(pattern(i, rank));
}

__global__ void __launch_bounds__(512)
	check_sums(const __nv_bfloat16 *at, size_t begin, size_t count, int ranks, unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < count; i += (size_t)gridDim.x * blockDim.x) {
		float sum = 0;

		for (int rank = 0; rank < ranks; rank++)
			sum += pattern(begin + i, rank);
		if (__bfloat162float(at[i]) != sum)
			atomicAdd(wrong, 1u);
	}
}

struct places {
	float4 *of[RANKS_MAX];
};

/* Each rank adds its piece of all ranks and stores it to all, of float: the limit of two shots. */
__global__ void __launch_bounds__(512)
	bare(struct places places, size_t vectors, int rank, int ranks)
{
	size_t piece = vectors / ranks, i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < piece; i += (size_t)gridDim.x * blockDim.x) {
		float4 sum = places.of[rank][rank * piece + i], x;

		for (int k = 1; k < ranks; k++) {
			x = places.of[(rank + k) % ranks][rank * piece + i];
			sum = make_float4(sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w);
		}
		for (int k = 0; k < ranks; k++)
			places.of[(rank + k) % ranks][rank * piece + i] = sum;
	}
}

static char *sent(const struct rank *r, const struct method *method)
{
	return method->in_place ? r->result : r->send;
}

static void post_bare(struct rank *r, size_t bytes)
{
	struct places places;

	for (int i = 0; i < r->ranks; i++)
		places.of[i] = (float4 *)results[i];
	bare<<<132, 512, 0, r->stream>>>(places, bytes / sizeof(float4), r->rank, r->ranks);
}

static void execute(struct rank *r, const struct method *method, size_t bytes)
{
	size_t count = bytes / sizeof(__nv_bfloat16);
	char *send = sent(r, method);

	if (strcmp(method->impl, "bare") == 0)
		post_bare(r, bytes);
	else if (strcmp(method->impl, "oriel") == 0 && method->is_scatter)
		ORIEL_CHECK(oriel_reduce_scatter_run_on_stream(r->scatter, send, count, r->stream));
	else if (strcmp(method->impl, "oriel") == 0)
		ORIEL_CHECK(oriel_allreduce_run_on_stream(r->all, send, count, r->stream));
	else if (method->is_scatter)
		NCCL_CHECK(ncclReduceScatter(send, r->result, count, ncclBfloat16, ncclSum, r->nccl,
					     r->stream));
	else
		NCCL_CHECK(ncclAllReduce(send, r->result, count, ncclBfloat16, ncclSum, r->nccl,
					 r->stream));
}

static void verify(struct rank *r, const struct method *method, size_t bytes)
{
	size_t count = bytes / sizeof(__nv_bfloat16), parts = method->is_scatter ? r->ranks : 1;
	size_t begin = method->is_scatter ? r->rank * count : 0;
	unsigned wrong;

	if (strcmp(method->impl, "bare") == 0)
		return;
	CHECK(cudaMemsetAsync(r->result, 99, bytes, r->stream));
	CHECK(cudaMemsetAsync(r->wrong, 0, sizeof(*r->wrong), r->stream));
	paint<<<264, 512, 0, r->stream>>>((__nv_bfloat16 *)sent(r, method), count * parts, r->rank);
	CHECK(cudaStreamSynchronize(r->stream));
	pthread_barrier_wait(&meeting);
	execute(r, method, bytes);
	check_sums<<<264, 512, 0, r->stream>>>((const __nv_bfloat16 *)r->result, begin, count,
					       r->ranks, r->wrong);
	wrong = count_wrong(r);
	if (wrong) {
		fprintf(stderr, "%s %s, %zu bytes: %u wrong on rank %d\n", method->impl,
			method->mode, bytes, wrong, r->rank);
		exit(1);
	}
}

/* Bytes that a GPU sends at least: for GB/s of the bus, as NCCL's tests count them. */
static double moved(const struct rank *r, const struct method *method, size_t bytes)
{
	double peers = r->ranks - 1;

	return method->is_scatter ? bytes * peers : 2 * bytes * peers / r->ranks;
}

static void run_size(struct rank *r, const struct method *method, size_t bytes)
{
	const struct row row = {method->is_scatter ? "reduce_scatter" : "allreduce",
				method->impl,
				method->mode,
				"mapped",
				(uint32_t)r->ranks,
				bytes,
				0,
				0};

	if (bytes < method->least || (method->most && bytes > method->most))
		return;
	verify(r, method, bytes);
	run_forms(r, method, &row, 2, moved(r, method, bytes));
}

static void run_sizes(struct rank *r, const struct method *method)
{
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		run_size(r, method, sizes[i]);
}

static void oriel_create(struct rank *r, const struct method *method)
{
	struct oriel_reduction sum = {};
	struct oriel_coll_attr attr = {};
	struct oriel_view view = {};

	attr.size = sizeof(attr);
	attr.algorithm = method->algorithm;
	sum.size = sizeof(sum);
	sum.type = ORIEL_TYPE_BF16;
	sum.op = ORIEL_OP_SUM;
	view.size = sizeof(view);
	view.length = BYTES_MAX;
	view.buffer = r->result;
	view.kind = ORIEL_VIEW_BUFFER;
	view.flags = ORIEL_VIEW_GPU;
	if (method->is_scatter)
		ORIEL_CHECK(oriel_reduce_scatter_create(r->oriel, &view, &sum, &attr, &r->scatter));
	else
		ORIEL_CHECK(oriel_allreduce_create(r->oriel, &view, &sum, &attr, &r->all));
}

static void oriel_destroy(struct rank *r, const struct method *method)
{
	if (method->is_scatter)
		ORIEL_CHECK(oriel_reduce_scatter_destroy(r->scatter));
	else
		ORIEL_CHECK(oriel_allreduce_destroy(r->all));
}

static void run_oriel(struct rank *r)
{
	static const struct method methods[] = {
		{"oriel", "auto", ORIEL_ALGORITHM_DEFAULT, false, false},
		{"oriel", "in place", ORIEL_ALGORITHM_DEFAULT, false, true},
		{"oriel", "ll", ORIEL_ALGORITHM_LL, false, false, false, 0, 256u << 10},
		{"oriel", "one_shot", ORIEL_ALGORITHM_ONE_SHOT, false, false, false, 16384,
		 4u << 20},
		{"oriel", "owner", ORIEL_ALGORITHM_OWNER, false, false, false, 16384},
		{"oriel", "auto", ORIEL_ALGORITHM_DEFAULT, true, false},
		{"oriel", "ll", ORIEL_ALGORITHM_LL, true, false, false, 0, 256u << 10},
		{"oriel", "owner", ORIEL_ALGORITHM_OWNER, true, false, false, 16384}};
	static const struct method limit = {"bare", "two shots", 0, false, true, false, 16u << 20};
	size_t i;
	void *memory;

	ORIEL_CHECK(oriel_memory_alloc(BYTES_MAX, ORIEL_MEMORY_DEVICE, &memory));
	r->result = (char *)memory;
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		oriel_create(r, &methods[i]);
		run_sizes(r, &methods[i]);
		oriel_destroy(r, &methods[i]);
	}
	oriel_memory_free(memory);
	CHECK(cudaMalloc((void **)&results[r->rank], BYTES_MAX));
	CHECK(cudaMemsetAsync(results[r->rank], 0, BYTES_MAX, r->stream));
	for (i = 0; (int)i < r->ranks; i++)
		if ((int)i != r->rank && cudaDeviceEnablePeerAccess((int)i, 0) != cudaSuccess)
			(void)cudaGetLastError(); /* the library has enabled it */
	CHECK(cudaStreamSynchronize(r->stream));
	pthread_barrier_wait(&meeting);
	run_sizes(r, &limit);
	pthread_barrier_wait(&meeting);
	CHECK(cudaFree(results[r->rank]));
}

static void run_nccl(struct rank *r, bool is_symmetric)
{
	const struct method methods[] = {{"nccl", is_symmetric ? "symmetric" : "default", 0, false,
					  false, is_symmetric},
					 {"nccl", is_symmetric ? "symmetric, in place" : "in place",
					  0, false, true, is_symmetric},
					 {"nccl", is_symmetric ? "symmetric" : "default", 0, true,
					  false, is_symmetric}};
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct nccl_buffers buffers =
		nccl_open(r, &config, BYTES_MAX * (size_t)r->ranks, BYTES_MAX, is_symmetric);
	size_t i;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		run_sizes(r, &methods[i]);
	nccl_close(r, &buffers);
}

static void rank_run(struct rank *r)
{
	CHECK(cudaMalloc((void **)&r->send, BYTES_MAX * (size_t)r->ranks));
	run_oriel(r);
	run_nccl(r, false);
	run_nccl(r, true);
}

int main(int argc, char **argv)
{
	return run_ranks(argc, argv);
}
