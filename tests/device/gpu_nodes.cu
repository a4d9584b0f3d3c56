/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gathers of GPU memory over virtual nodes, an adapter in software between them:
 * gpu_nodes RANKS NODES (threads), or oriel run -n N --nodes M gpu_nodes (processes).
 * Rank r uses GPU r modulo the number of GPUs. A line for each claim and each time;
 * ends with 1 if a claim does not hold.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include "ranks.h"

#define SHARE ((16u << 20) + 64) /* bytes of each rank at most */
#define LONG_NS 20000000000ull
#define REPLAYS 1000u
#define OBJECTS 2u

/* One all-gather with its stream and its memory. */
struct object {
	struct oriel_allgather *gather;
	cudaStream_t stream;
	char *result;            /* size * SHARE bytes */
	char *send;              /* SHARE bytes */
	unsigned *round, *wrong; /* of the GPU */
	unsigned *seen;          /* of the host, pinned: a copy to other memory waits in the call */
};

struct rank {
	unsigned rank, size, failures;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct object objects[OBJECTS];
};

static void verdict(struct rank *r, const char *claim, const char *detail, size_t bytes, bool holds)
{
	r->failures += !holds;
	if (!holds || r->rank == 0)
		printf("%s rank %u of %u: %s, %s, %zu bytes\n", holds ? "PASS" : "FAIL", r->rank,
		       r->size, claim, detail, bytes);
	fflush(stdout);
}

__device__ char pattern(unsigned round, unsigned rank, size_t i)
{
	return (char)(round * 101 + rank * 37 + i * 11 + (i >> 8) * 59 + (i >> 16) * 7);
}

/* What this rank sends in the next round; nobody reads @round meanwhile. */
__global__ void paint(char *at, size_t bytes, unsigned rank, const unsigned *round)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		at[i] = pattern(*round + 1, rank, i);
}

__global__ void look(const char *at, size_t bytes, unsigned size, const unsigned *round,
		     unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes * size; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != pattern(*round + 1, (unsigned)(i / bytes), i % bytes))
			atomicAdd(wrong, 1u);
}

__global__ void count(unsigned *round)
{
	++*round;
}

static void object_open(struct rank *r, struct object *o, unsigned number)
{
	size_t length = (size_t)r->size * SHARE;
	void *at;

	CUDA(cudaStreamCreateWithFlags(&o->stream, cudaStreamNonBlocking));
	CUDA(cudaMalloc((void **)&o->send, SHARE + 16));
	CUDA(cudaMallocHost((void **)&o->seen, sizeof(*o->seen)));
	CUDA(cudaMalloc((void **)&o->round, 2 * sizeof(*o->round)));
	CUDA(cudaMemset(o->round, 0, 2 * sizeof(*o->round)));
	o->wrong = o->round + 1;
	if (number) {
		CUDA(cudaMalloc((void **)&o->result, length));
		return;
	}
	MUST(oriel_window_buffer(r->window, 0, &at, NULL));
	o->result = (char *)at;
}

static void object_create(struct rank *r, unsigned number, unsigned algorithm)
{
	struct object *o = &r->objects[number];
	struct oriel_allgather_attr attr = {};
	struct oriel_view view = {};

	attr.size = sizeof(attr);
	attr.algorithm = algorithm;
	view.size = sizeof(view);
	view.length = (size_t)r->size * SHARE;
	view.flags = ORIEL_VIEW_GPU;
	if (number)
		view.buffer = o->result;
	else
		view.window = r->window;
	MUST(oriel_allgather_create(r->comm, &view, &attr, &o->gather));
}

static void post(struct rank *r, struct object *o, size_t bytes, bool in_place)
{
	char *send = in_place ? o->result + r->rank * bytes : o->send;

	paint<<<64, 256, 0, o->stream>>>(send, bytes, r->rank, o->round);
	MUST(oriel_allgather_start(o->gather, send, bytes, o->stream));
	look<<<64, 256, 0, o->stream>>>(o->result, bytes, r->size, o->round, o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
}

static bool object_is_right(struct rank *r, struct object *o)
{
	unsigned wrong;

	CUDA(cudaMemcpyAsync(o->seen, o->wrong, sizeof(wrong), cudaMemcpyDefault, o->stream));
	CUDA(cudaStreamSynchronize(o->stream));
	wrong = *o->seen;
	CUDA(cudaMemsetAsync(o->wrong, 0, sizeof(wrong), o->stream));
	CUDA(cudaStreamSynchronize(o->stream));
	return !wrong;
}

static void test_sizes(struct rank *r, const char *name)
{
	static const size_t sizes[] = {1, 1000, 65536, (1u << 20) + 4, (5u << 20) + 3};
	struct object *o = &r->objects[0];
	size_t i;
	int k;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (k = 0; k < 4; k++)
			post(r, o, sizes[i], k % 3 == 1);
		verdict(r, "eager", name, sizes[i], object_is_right(r, o));
	}
}

/* Two captures of one object, and executions that are started between them. */
static void test_graphs(struct rank *r, const char *name, size_t bytes)
{
	struct object *o = &r->objects[0];
	cudaGraphExec_t execs[2];
	cudaGraph_t graphs[2];
	unsigned i;

	post(r, o, bytes, false);
	for (i = 0; i < 2; i++) {
		CUDA(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
		post(r, o, bytes / (i + 1), i);
		CUDA(cudaStreamEndCapture(o->stream, &graphs[i]));
		CUDA(cudaGraphInstantiate(&execs[i], graphs[i], 0));
	}
	for (i = 0; i < REPLAYS; i++) {
		CUDA(cudaGraphLaunch(execs[i % 2], o->stream));
		if (i % 100 == 50)
			post(r, o, bytes, false);
	}
	verdict(r, "1000 replays", name, bytes, object_is_right(r, o));
	for (i = 0; i < 2; i++) {
		CUDA(cudaGraphExecDestroy(execs[i]));
		CUDA(cudaGraphDestroy(graphs[i]));
	}
}

/* Ranks come to the two streams in different orders. */
static void test_two(struct rank *r, const char *name)
{
	size_t bytes = 0;
	unsigned i, k;

	for (i = 0; i < 100; i++) {
		bytes = 1 + i * 7919 % 300000;
		for (k = 0; k < 2; k++)
			post(r, &r->objects[(r->rank + k) % 2], bytes, i % 2);
	}
	for (k = 0; k < 2; k++)
		verdict(r, "two in two streams", name, bytes, object_is_right(r, &r->objects[k]));
}

static void measure(struct rank *r, const char *name, size_t bytes, unsigned times)
{
	struct object *o = &r->objects[0];
	cudaEvent_t begin, end;
	float ms = 0;
	unsigned i;

	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < times + 2; i++) {
		if (i == 2)
			CUDA(cudaEventRecord(begin, o->stream));
		MUST(oriel_allgather_start(o->gather, o->send, bytes, o->stream));
	}
	CUDA(cudaEventRecord(end, o->stream));
	CUDA(cudaStreamSynchronize(o->stream));
	CUDA(cudaEventElapsedTime(&ms, begin, end));
	if (r->rank == 0)
		printf("TIME %s, %zu bytes: %.1f us\n", name, bytes, ms * 1000 / times);
	CUDA(cudaEventDestroy(begin));
	CUDA(cudaEventDestroy(end));
}

static void test_algorithm(struct rank *r, unsigned algorithm)
{
	const char *name = oriel_algorithm_name((enum oriel_algorithm)algorithm);
	unsigned i;

	for (i = 0; i < OBJECTS; i++)
		object_create(r, i, algorithm);
	test_sizes(r, name);
	test_graphs(r, name, 100000);
	test_two(r, name);
	measure(r, name, 1024, 200);
	measure(r, name, 1u << 20, 50);
	measure(r, name, 16u << 20, 10);
	for (i = 0; i < OBJECTS; i++)
		oriel_allgather_destroy(r->objects[i].gather);
}

/* A first launch may wait for all that the GPU has to do, for another rank as well. */
static void warm_up(const struct rank *r, struct object *o)
{
	paint<<<64, 256, 0, o->stream>>>(o->send, 0, 0, o->round);
	look<<<64, 256, 0, o->stream>>>(o->result, 0, 1, o->round, o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
	CUDA(cudaMemsetAsync(o->round, 0, 2 * sizeof(*o->round), o->stream));
}

static void rank_open(struct rank *r, const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct oriel_comm_attr comm = {};
	struct oriel_window_attr attr = {};
	int gpus = 0;
	unsigned i;

	comm.size = sizeof(comm);
	comm.timeout_ns = LONG_NS;
	comm.flags = ORIEL_COMM_GPU;
	comm.node = node;
	attr.size = sizeof(attr);
	attr.length = (size_t)r->size * SHARE;
	attr.flags = ORIEL_WINDOW_DEVICE;
	attr.channels = ORIEL_NONE;
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((int)r->rank % gpus));
	CUDA(cudaFree(NULL));
	MUST(oriel_comm_create(bootstrap, &comm, &r->comm));
	MUST(oriel_window_create(r->comm, &attr, &r->window));
	for (i = 0; i < OBJECTS; i++) {
		object_open(r, &r->objects[i], i);
		warm_up(r, &r->objects[i]);
	}
	CUDA(cudaDeviceSynchronize());
	MUST(oriel_comm_barrier(r->comm));
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	static const unsigned algorithms[] = {ORIEL_ALGORITHM_DEFAULT, ORIEL_ALGORITHM_DIRECT,
					      ORIEL_ALGORITHM_RING, ORIEL_ALGORITHM_DOUBLING};
	struct rank r = {};
	unsigned i;

	r.rank = bootstrap->rank;
	r.size = bootstrap->size;
	rank_open(&r, bootstrap, node);
	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		test_algorithm(&r, algorithms[i]);
	/* The peers are done, too, before memory is freed that waits for GPUs. */
	oriel_comm_barrier(r.comm);
	oriel_window_destroy(r.window);
	oriel_comm_destroy(r.comm);
	return r.failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
