/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank with all-gathers of GPU memory, each with its stream, and the checks of their results.
 * Shared by gpu_gather and gpu_nodes.
 */
#ifndef TESTS_DEVICE_GATHER_RANK_H
#define TESTS_DEVICE_GATHER_RANK_H

#include <cuda_runtime.h>

#include "ranks.h"

/* Smaller where a CPU executes the kernels (tests/fakecuda); longer sizes are skipped there. */
#ifndef SHARE
#define SHARE ((16u << 20) + 64) /* the most bytes of each rank */
#define REPLAYS 1000u
#endif
#define LONG_NS 20000000000ull
#define OBJECTS 2u

/* One all-gather with its stream and its memory. */
struct object {
	struct oriel_allgather *gather;
	cudaStream_t stream;
	char *result;            /* size * SHARE bytes */
	char *send;              /* SHARE bytes */
	unsigned *round, *wrong; /* GPU memory */
	unsigned *seen;          /* pinned host memory: a copy to pageable memory would block */
};

struct rank {
	unsigned rank, size, failures;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct object objects[OBJECTS];
};

static void verdict(struct rank *r, const char *claim, const char *detail, size_t bytes,
		    bool is_true)
{
	r->failures += !is_true;
	if (!is_true || r->rank == 0)
		printf("%s rank %u of %u: %s, %s, %zu bytes\n", is_true ? "PASS" : "FAIL", r->rank,
		       r->size, claim, detail, bytes);
	fflush(stdout);
}

__device__ char pattern(unsigned round, unsigned rank, size_t i)
{
	return (char)(round * 101 + rank * 37 + i * 11 + (i >> 8) * 59 + (i >> 16) * 7);
}

/* Writes the message of this rank for the next round; the stream orders it with count(). */
__global__ void paint(char *at, size_t bytes, unsigned rank, const unsigned *round)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		at[i] = pattern(*round + 1, rank, i);
}

__global__ void check_gathered(const char *at, size_t bytes, unsigned size, const unsigned *round,
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

static struct oriel_coll_attr attr_of(unsigned algorithm)
{
	struct oriel_coll_attr attr = {};

	attr.size = sizeof(attr);
	attr.algorithm = algorithm;
	return attr;
}

/* The view of object @number: the window, or a buffer that the object shares. */
static struct oriel_view view_of(const struct rank *r, unsigned number)
{
	struct oriel_view view = {};

	view.size = sizeof(view);
	view.length = (size_t)r->size * SHARE;
	view.kind = number ? ORIEL_VIEW_BUFFER : ORIEL_VIEW_WINDOW;
	view.flags = ORIEL_VIEW_GPU;
	if (number)
		view.buffer = r->objects[number].result;
	else
		view.window = r->window;
	return view;
}

static void object_create(struct rank *r, unsigned number, unsigned algorithm)
{
	struct oriel_coll_attr attr = attr_of(algorithm);
	struct oriel_view view = view_of(r, number);

	MUST(oriel_allgather_create(r->comm, &view, &attr, &r->objects[number].gather));
}

static void post(struct rank *r, struct object *o, size_t bytes, bool in_place)
{
	char *send = in_place ? o->result + r->rank * bytes : o->send;

	paint<<<64, 256, 0, o->stream>>>(send, bytes, r->rank, o->round);
	MUST(oriel_allgather_run_on_stream(o->gather, send, bytes, o->stream));
	check_gathered<<<64, 256, 0, o->stream>>>(o->result, bytes, r->size, o->round, o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
}

static bool object_is_right(struct rank *r, struct object *o)
{
	unsigned wrong;

	/* A copy that waits here for other ranks may block copies that they wait for. */
	CUDA(cudaStreamSynchronize(o->stream));
	CUDA(cudaMemcpyAsync(o->seen, o->wrong, sizeof(wrong), cudaMemcpyDefault, o->stream));
	CUDA(cudaStreamSynchronize(o->stream));
	wrong = *o->seen;
	CUDA(cudaMemsetAsync(o->wrong, 0, sizeof(wrong), o->stream));
	CUDA(cudaStreamSynchronize(o->stream));
	return !wrong;
}

/* To create or free an executable graph may wait for all work of the GPU, of other ranks too. */
static void graphs_destroy(struct rank *r, cudaGraphExec_t *execs, unsigned count)
{
	unsigned i;

	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < count; i++)
		CUDA(cudaGraphExecDestroy(execs[i]));
	MUST(oriel_comm_barrier(r->comm));
}

/* A first launch may wait for all work of the GPU, of other ranks too. */
static void warm_up(const struct rank *r, struct object *o)
{
	paint<<<64, 256, 0, o->stream>>>(o->send, 0, 0, o->round);
	check_gathered<<<64, 256, 0, o->stream>>>(o->result, 0, 1, o->round, o->wrong);
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

#endif
