/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent all-gathers of GPU memory: gpu_gather RANKS (threads), or oriel run -n N
 * gpu_gather (processes). Rank r uses GPU r modulo the number of GPUs. A line for each
 * claim; ends with 1 if one does not hold.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

#include <oriel/oriel.h>

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
};

struct rank {
	unsigned rank, size, failures;
	const struct oriel_bootstrap *bootstrap;
	const char *node; /* of a thread; NULL: not said */
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

	CUDA(cudaMemcpyAsync(&wrong, o->wrong, sizeof(wrong), cudaMemcpyDefault, o->stream));
	CUDA(cudaStreamSynchronize(o->stream));
	CUDA(cudaMemsetAsync(o->wrong, 0, sizeof(wrong), o->stream));
	CUDA(cudaStreamSynchronize(o->stream));
	return !wrong;
}

static void test_sizes(struct rank *r, const char *name)
{
	static const size_t sizes[] = {
		1,     7,      8,        1000,           1024,     4096,           16384,    16385,
		65536, 262144, 1u << 20, (1u << 20) + 4, 5u << 20, (5u << 20) + 3, 16u << 20};
	struct object *o = &r->objects[0];
	size_t i;
	int k;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (k = 0; k < 6; k++)
			post(r, o, sizes[i], k % 3 == 1);
		verdict(r, "eager", name, sizes[i], object_is_right(r, o));
	}
}

/* Replays, with executions that are started between them. */
static void test_graph(struct rank *r, const char *name, size_t bytes)
{
	struct object *o = &r->objects[0];
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	unsigned i;

	post(r, o, bytes, false);
	CUDA(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
	post(r, o, bytes, false);
	post(r, o, bytes, true);
	CUDA(cudaStreamEndCapture(o->stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphUpload(exec, o->stream));
	CUDA(cudaStreamSynchronize(o->stream));
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < REPLAYS / 2; i++) {
		CUDA(cudaGraphLaunch(exec, o->stream));
		if (i % 100 == 50)
			post(r, o, bytes, false);
	}
	verdict(r, "1000 replays", name, bytes, object_is_right(r, o));
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
}

static void test_two(struct rank *r, const char *name)
{
	size_t bytes = 0;
	unsigned i;

	for (i = 0; i < 200; i++) {
		bytes = 1 + i * 7919 % 300000;
		post(r, &r->objects[0], bytes, i % 2);
		post(r, &r->objects[1], bytes / 2 + 1, i % 3 == 0);
	}
	verdict(r, "two in two streams, the first", name, bytes,
		object_is_right(r, &r->objects[0]));
	verdict(r, "two in two streams, the second", name, bytes,
		object_is_right(r, &r->objects[1]));
}

static void test_algorithm(struct rank *r, unsigned algorithm)
{
	const char *name = oriel_algorithm_name((enum oriel_algorithm)algorithm);
	unsigned i;

	for (i = 0; i < OBJECTS; i++)
		object_create(r, i, algorithm);
	test_sizes(r, name);
	test_graph(r, name, 1024);
	test_graph(r, name, 100000);
	test_two(r, name);
	for (i = 0; i < OBJECTS; i++)
		oriel_allgather_destroy(r->objects[i].gather);
}

static void rank_open(struct rank *r)
{
	struct oriel_comm_attr comm = {};
	struct oriel_window_attr attr = {};
	int gpus = 0;
	unsigned i;

	comm.size = sizeof(comm);
	comm.timeout_ns = LONG_NS;
	comm.flags = ORIEL_COMM_GPU;
	comm.node = r->node;
	attr.size = sizeof(attr);
	attr.length = (size_t)r->size * SHARE;
	attr.flags = ORIEL_WINDOW_DEVICE;
	attr.channels = ORIEL_NONE;
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((int)r->rank % gpus));
	CUDA(cudaFree(NULL));
	MUST(oriel_comm_create(r->bootstrap, &comm, &r->comm));
	MUST(oriel_window_create(r->comm, &attr, &r->window));
	for (i = 0; i < OBJECTS; i++)
		object_open(r, &r->objects[i], i);
	CUDA(cudaDeviceSynchronize());
	MUST(oriel_comm_barrier(r->comm));
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	static const unsigned algorithms[] = {ORIEL_ALGORITHM_DEFAULT, ORIEL_ALGORITHM_LL,
					      ORIEL_ALGORITHM_STORE, ORIEL_ALGORITHM_CE};
	struct rank r = {};
	unsigned i;

	r.rank = bootstrap->rank;
	r.size = bootstrap->size;
	r.bootstrap = bootstrap;
	r.node = node;
	rank_open(&r);
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
