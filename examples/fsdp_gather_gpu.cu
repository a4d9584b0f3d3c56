/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fully sharded parameters on GPUs: every rank keeps a part of each layer. A CUDA graph gathers
 * the layers one after the other into two buffers in turn, in a stream that is ahead of the
 * computing one. No SM copies, so the computation has all of them. Prints a timeline of the last
 * launch by the GPU's clock, and how much of the gathering was hidden.
 * usage: oriel run -n N fsdp_gather_gpu [LAYERS [ALGORITHM]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include <oriel/oriel.h>

#include "fsdp_timeline.h"

#define BUFFERS 2u
#define LAYERS_MAX 256u
#define LAUNCHES 5u
#define WIDTHS 4u
#define PASSES 48u /* over its parameters, in a layer's kernel */

/* Parameters of a layer that one rank keeps: two of attention, two of a larger layer. */
static const size_t widths[WIDTHS] = {2u << 20, 2u << 20, 8u << 20, (8u << 20) + 4};

struct model {
	struct oriel_comm *comm;
	struct oriel_allgather *gathers[BUFFERS];
	float *buffers[BUFFERS];
	float *shards; /* of this rank, all layers one after the other */
	unsigned long long *stamps, *wrong;
	struct layer layers[LAYERS_MAX];
	cudaStream_t gathering, computing;
	cudaEvent_t gathered[LAYERS_MAX], computed[LAYERS_MAX];
	unsigned count, rank, ranks;
};

#define CUDA(call) cuda_must(call, #call)
#define MUST(call) must(call, #call)

static void cuda_must(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

static void must(enum oriel_status status, const char *what)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, oriel_last_error());
	exit(1);
}

__host__ __device__ static float parameter(unsigned layer, size_t index)
{
	return (float)((layer * 7919u + index * 31u) % 1009u) / 1009.0f;
}

__global__ void load(float *shard, unsigned layer, size_t first, size_t width)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < width; i += (size_t)gridDim.x * blockDim.x)
		shard[i] = parameter(layer, first + i);
}

__global__ void stamp(unsigned long long *at)
{
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(*at));
}

/* Stands for a forward pass; counts wrong parameters. */
__global__ void compute(const float *all, unsigned layer, size_t count, unsigned long long *wrong)
{
	size_t begin = blockIdx.x * (size_t)blockDim.x + threadIdx.x, i;
	float sum = 0;

	for (unsigned pass = 0; pass < PASSES; pass++)
		for (i = begin; i < count; i += (size_t)gridDim.x * blockDim.x)
			sum = sum * 0.5f + all[i];
	for (i = begin; i < count; i += (size_t)gridDim.x * blockDim.x)
		if (all[i] != parameter(layer, i))
			atomicAdd(wrong, 1ull);
	if (sum < 0)
		atomicAdd(wrong, 1ull);
}

static size_t width_of(unsigned layer)
{
	return widths[layer % WIDTHS];
}

static size_t shard_at(unsigned layer)
{
	size_t at = 0;

	while (layer--)
		at += width_of(layer);
	return at;
}

static void model_open(struct model *m, unsigned algorithm)
{
	struct oriel_coll_attr attr = {};
	struct oriel_view view = {};
	unsigned i;

	attr.size = sizeof(attr);
	attr.algorithm = algorithm;
	view.size = sizeof(view);
	view.kind = ORIEL_VIEW_BUFFER;
	view.flags = ORIEL_VIEW_GPU;
	for (i = 0; i < WIDTHS; i++)
		if (widths[i] * sizeof(float) * m->ranks > view.length)
			view.length = widths[i] * sizeof(float) * m->ranks;
	for (i = 0; i < BUFFERS; i++) {
		MUST(oriel_memory_alloc(view.length, ORIEL_MEMORY_DEVICE, (void **)&m->buffers[i]));
		view.buffer = m->buffers[i];
		MUST(oriel_allgather_create(m->comm, &view, &attr, &m->gathers[i]));
	}
	CUDA(cudaMalloc((void **)&m->shards, shard_at(m->count) * sizeof(float)));
	CUDA(cudaMalloc((void **)&m->stamps, 4 * m->count * sizeof(*m->stamps)));
	CUDA(cudaMalloc((void **)&m->wrong, sizeof(*m->wrong)));
	CUDA(cudaMemset(m->wrong, 0, sizeof(*m->wrong)));
	CUDA(cudaStreamCreateWithPriority(&m->gathering, cudaStreamNonBlocking, -5));
	CUDA(cudaStreamCreateWithFlags(&m->computing, cudaStreamNonBlocking));
	for (i = 0; i < m->count; i++) {
		CUDA(cudaEventCreateWithFlags(&m->gathered[i], cudaEventDisableTiming));
		CUDA(cudaEventCreateWithFlags(&m->computed[i], cudaEventDisableTiming));
		load<<<264, 512>>>(m->shards + shard_at(i), i, m->rank * width_of(i), width_of(i));
	}
	CUDA(cudaDeviceSynchronize());
}

/* Starting declares that the buffer's old content is no longer read. */
static void gather_layer(struct model *m, unsigned i)
{
	if (i >= BUFFERS)
		CUDA(cudaStreamWaitEvent(m->gathering, m->computed[i - BUFFERS], 0));
	stamp<<<1, 1, 0, m->gathering>>>(&m->stamps[4 * i]);
	MUST(oriel_allgather_run_on_stream(m->gathers[i % BUFFERS], m->shards + shard_at(i),
					   width_of(i) * sizeof(float), m->gathering));
	stamp<<<1, 1, 0, m->gathering>>>(&m->stamps[4 * i + 1]);
	CUDA(cudaEventRecord(m->gathered[i], m->gathering));
}

static void compute_layer(struct model *m, unsigned i)
{
	CUDA(cudaStreamWaitEvent(m->computing, m->gathered[i], 0));
	stamp<<<1, 1, 0, m->computing>>>(&m->stamps[4 * i + 2]);
	compute<<<264, 1024, 0, m->computing>>>(m->buffers[i % BUFFERS], i, width_of(i) * m->ranks,
						m->wrong);
	stamp<<<1, 1, 0, m->computing>>>(&m->stamps[4 * i + 3]);
	CUDA(cudaEventRecord(m->computed[i], m->computing));
}

static cudaGraphExec_t model_capture(struct model *m)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	unsigned i;

	CUDA(cudaStreamBeginCapture(m->computing, cudaStreamCaptureModeThreadLocal));
	CUDA(cudaEventRecord(m->computed[m->count - 1], m->computing));
	CUDA(cudaStreamWaitEvent(m->gathering, m->computed[m->count - 1], 0));
	for (i = 0; i < m->count; i++) {
		gather_layer(m, i);
		compute_layer(m, i);
	}
	CUDA(cudaStreamEndCapture(m->computing, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

static unsigned long long model_run(struct model *m)
{
	unsigned long long stamps[4 * LAYERS_MAX], wrong;
	cudaGraphExec_t exec = model_capture(m);
	unsigned i;

	for (i = 0; i < LAUNCHES; i++)
		CUDA(cudaGraphLaunch(exec, m->computing));
	CUDA(cudaStreamSynchronize(m->computing));
	CUDA(cudaMemcpy(stamps, m->stamps, 4 * m->count * sizeof(*stamps), cudaMemcpyDefault));
	CUDA(cudaMemcpy(&wrong, m->wrong, sizeof(wrong), cudaMemcpyDefault));
	for (i = 0; i < m->count; i++) {
		m->layers[i].gather.begin = (stamps[4 * i] - stamps[0]) / 1e3;
		m->layers[i].gather.end = (stamps[4 * i + 1] - stamps[0]) / 1e3;
		m->layers[i].compute.begin = (stamps[4 * i + 2] - stamps[0]) / 1e3;
		m->layers[i].compute.end = (stamps[4 * i + 3] - stamps[0]) / 1e3;
	}
	CUDA(cudaGraphExecDestroy(exec));
	return wrong;
}

static unsigned algorithm_of(const char *name)
{
	const char *known = "";
	unsigned i;

	/* The one behind the last is unknown. */
	for (i = 0; strcmp(known, "unknown") != 0; i++) {
		known = oriel_algorithm_name((enum oriel_algorithm)i);
		if (strcmp(name, known) == 0)
			return i;
	}
	fprintf(stderr, "there is no algorithm '%s'\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	static struct model m;
	struct oriel_comm_attr attr = {};
	struct oriel_bootstrap bootstrap;
	unsigned long long wrong;
	int gpus = 0;
	unsigned i;

	m.count = argc > 1 ? (unsigned)atoi(argv[1]) : 16;
	if (m.count < BUFFERS || m.count > LAYERS_MAX) {
		fprintf(stderr, "usage: fsdp_gather_gpu [LAYERS [ALGORITHM]], at most %u\n",
			LAYERS_MAX);
		return 2;
	}
	/* Kernels that wait must not be queued in front of those of another stream. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	attr.size = sizeof(attr);
	attr.flags = ORIEL_COMM_GPU;
	MUST(oriel_bootstrap_open_env(0, &bootstrap));
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((int)bootstrap.rank % gpus));
	CUDA(cudaFree(NULL));
	MUST(oriel_comm_create(&bootstrap, &attr, &m.comm));
	m.rank = oriel_comm_rank(m.comm);
	m.ranks = oriel_comm_size(m.comm);
	model_open(&m, argc > 2 ? algorithm_of(argv[2]) : (unsigned)ORIEL_ALGORITHM_CE);
	MUST(oriel_comm_barrier(m.comm));
	wrong = model_run(&m);
	if (m.rank == 0)
		timeline_print(m.layers, m.count);
	printf("rank %u of %u: %u layers, %llu parameters wrong in %u launches\n", m.rank, m.ranks,
	       m.count, wrong, LAUNCHES);
	MUST(oriel_comm_barrier(m.comm));
	for (i = 0; i < BUFFERS; i++) {
		oriel_allgather_destroy(m.gathers[i]);
		oriel_memory_free(m.buffers[i]);
	}
	oriel_comm_destroy(m.comm);
	oriel_bootstrap_close(&bootstrap);
	return wrong ? 1 : 0;
}
