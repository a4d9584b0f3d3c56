/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduces and reduce-scatters of GPU memory, sums of bf16, beside NCCL's in two modes and a
 * bare kernel that synchronises nothing; eager and in graphs, in one run. The bytes of a
 * reduce-scatter are those of one part. Ranks are threads, one for each GPU. reduce.py calls it.
 * usage: reduce_rows [GPUS]
 */
#include "samples.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <oriel/oriel.h>

#include <pthread.h>
#include <string.h>

#define BYTES_MAX (256ul << 20)
#define RANKS_MAX 8
#define PASSES 7
#define LONG_NS 20000000000ull /* a wait of a kernel that takes as long has failed */

static const size_t sizes[] = {1024,     4096,     16384,    65536,     262144,    524288,
			       1u << 20, 2u << 20, 4u << 20, 16u << 20, 64u << 20, 256u << 20};

struct rank {
	int rank, ranks;
	struct oriel_comm *oriel;
	struct oriel_allreduce *all; /* of the current row */
	struct oriel_reduce_scatter *scatter;
	ncclComm_t nccl;
	cudaStream_t stream;
	char *send, *result; /* of a part for each rank */
	unsigned *wrong;
};

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

static pthread_barrier_t meeting;
static char *results[RANKS_MAX]; /* of all ranks, for the bare kernel */

static void nccl_check(ncclResult_t result, const char *what)
{
	if (result == ncclSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, ncclGetErrorString(result));
	exit(2);
}

static void oriel_check(enum oriel_status status, const char *what)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, oriel_last_error());
	exit(2);
}

#define NCCL_CHECK(call) nccl_check(call, #call)
#define ORIEL_CHECK(call) oriel_check(call, #call)

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

static void reduce(struct rank *r, const struct method *method, size_t bytes)
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

static unsigned rounds_of(size_t bytes)
{
	return bytes >= 64u << 20 ? 4 : bytes >= 1u << 20 ? 20 : 100;
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
	reduce(r, method, bytes);
	check_sums<<<264, 512, 0, r->stream>>>((const __nv_bfloat16 *)r->result, begin, count,
					       r->ranks, r->wrong);
	CHECK(cudaMemcpyAsync(&wrong, r->wrong, sizeof(wrong), cudaMemcpyDefault, r->stream));
	CHECK(cudaStreamSynchronize(r->stream));
	if (wrong) {
		fprintf(stderr, "%s %s, %zu bytes: %u wrong on rank %d\n", method->impl,
			method->mode, bytes, wrong, r->rank);
		exit(1);
	}
}

/* Time of one of many queued executions. @exec NULL: each is started; else each is a launch. */
static void run_timed(struct rank *r, const struct method *method, size_t bytes,
		      cudaGraphExec_t exec, double *us)
{
	unsigned rounds = rounds_of(bytes), pass, i;
	cudaEvent_t begin, end;
	float ms;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	for (pass = 0; pass <= PASSES; pass++) {
		CHECK(cudaStreamSynchronize(r->stream));
		pthread_barrier_wait(&meeting);
		if (!exec)
			reduce(r, method, bytes);
		CHECK(cudaEventRecord(begin, r->stream));
		for (i = 0; i < rounds && !exec; i++)
			reduce(r, method, bytes);
		if (exec)
			CHECK(cudaGraphLaunch(exec, r->stream));
		CHECK(cudaEventRecord(end, r->stream));
		CHECK(cudaStreamSynchronize(r->stream));
		CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (pass)
			us[pass - 1] = ms * 1e3 / rounds;
	}
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
}

static cudaGraphExec_t capture(struct rank *r, const struct method *method, size_t bytes)
{
	unsigned rounds = rounds_of(bytes), i;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal));
	for (i = 0; i < rounds; i++)
		reduce(r, method, bytes);
	CHECK(cudaStreamEndCapture(r->stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	return exec;
}

/* Bytes that a GPU sends at least: for GB/s of the bus, as NCCL's tests count them. */
static double moved(const struct rank *r, const struct method *method, size_t bytes)
{
	double peers = r->ranks - 1;

	return method->is_scatter ? bytes * peers : 2 * bytes * peers / r->ranks;
}

static void run_size(struct rank *r, const struct method *method, size_t bytes)
{
	struct row row = {method->is_scatter ? "reduce_scatter" : "allreduce",
			  method->impl,
			  "",
			  "mapped",
			  (uint32_t)r->ranks,
			  bytes,
			  0,
			  0};
	double us[PASSES];
	cudaGraphExec_t exec;
	char mode[64];
	int in_graph;

	if (bytes < method->least || (method->most && bytes > method->most))
		return;
	row.mode = mode;
	verify(r, method, bytes);
	for (in_graph = 0; in_graph < 2; in_graph++) {
		exec = in_graph ? capture(r, method, bytes) : NULL;
		run_timed(r, method, bytes, exec, us);
		pthread_barrier_wait(&meeting);
		snprintf(mode, sizeof(mode), "%s, %s", method->mode, in_graph ? "graph" : "eager");
		if (r->rank == 0)
			row_print(&row, us, PASSES, moved(r, method, bytes));
		if (exec)
			CHECK(cudaGraphExecDestroy(exec));
	}
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

static ncclUniqueId nccl_id;

static void run_nccl(struct rank *r, bool is_symmetric)
{
	const struct method methods[] = {{"nccl", is_symmetric ? "symmetric" : "default", 0, false,
					  false, is_symmetric},
					 {"nccl", is_symmetric ? "symmetric, in place" : "in place",
					  0, false, true, is_symmetric},
					 {"nccl", is_symmetric ? "symmetric" : "default", 0, true,
					  false, is_symmetric}};
	size_t length = BYTES_MAX * (size_t)r->ranks, i;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclWindow_t windows[2] = {};
	char *send = r->send;

	if (r->rank == 0)
		NCCL_CHECK(ncclGetUniqueId(&nccl_id));
	pthread_barrier_wait(&meeting);
	NCCL_CHECK(ncclCommInitRankConfig(&r->nccl, r->ranks, nccl_id, r->rank, &config));
	NCCL_CHECK(ncclMemAlloc((void **)&r->send, length));
	NCCL_CHECK(ncclMemAlloc((void **)&r->result, BYTES_MAX));
	if (is_symmetric) {
		NCCL_CHECK(ncclCommWindowRegister(r->nccl, r->send, length, &windows[0],
						  NCCL_WIN_COLL_SYMMETRIC));
		NCCL_CHECK(ncclCommWindowRegister(r->nccl, r->result, BYTES_MAX, &windows[1],
						  NCCL_WIN_COLL_SYMMETRIC));
	}
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		run_sizes(r, &methods[i]);
	CHECK(cudaStreamSynchronize(r->stream));
	pthread_barrier_wait(&meeting);
	if (is_symmetric) {
		NCCL_CHECK(ncclCommWindowDeregister(r->nccl, windows[0]));
		NCCL_CHECK(ncclCommWindowDeregister(r->nccl, windows[1]));
	}
	NCCL_CHECK(ncclMemFree(r->send));
	NCCL_CHECK(ncclMemFree(r->result));
	NCCL_CHECK(ncclCommDestroy(r->nccl));
	r->send = send;
}

static struct oriel_local_job *job;
static int ranks;

static void *rank_main(void *argument)
{
	struct oriel_bootstrap bootstrap;
	struct oriel_comm_attr attr = {};
	struct rank r = {};

	r.rank = (int)(intptr_t)argument;
	r.ranks = ranks;
	attr.size = sizeof(attr);
	attr.flags = ORIEL_COMM_GPU;
	attr.timeout_ns = LONG_NS;
	CHECK(cudaSetDevice(r.rank));
	CHECK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc((void **)&r.send, BYTES_MAX * (size_t)ranks));
	CHECK(cudaMalloc((void **)&r.wrong, sizeof(*r.wrong)));
	ORIEL_CHECK(oriel_bootstrap_open_local(job, (unsigned)r.rank, &bootstrap));
	ORIEL_CHECK(oriel_comm_create(&bootstrap, &attr, &r.oriel));
	run_oriel(&r);
	run_nccl(&r, false);
	run_nccl(&r, true);
	oriel_comm_destroy(r.oriel);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[RANKS_MAX];
	int i;

	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	CHECK(cudaGetDeviceCount(&ranks));
	if (argc > 1 && atoi(argv[1]) < ranks)
		ranks = atoi(argv[1]);
	if (ranks < 1 || ranks > RANKS_MAX)
		return 77;
	pthread_barrier_init(&meeting, NULL, (unsigned)ranks);
	ORIEL_CHECK(oriel_local_job_create((unsigned)ranks, &job));
	for (i = 0; i < ranks; i++)
		if (pthread_create(&threads[i], NULL, rank_main, (void *)(intptr_t)i))
			return 2;
	for (i = 0; i < ranks; i++)
		pthread_join(threads[i], NULL);
	oriel_local_job_destroy(job);
	return 0;
}
