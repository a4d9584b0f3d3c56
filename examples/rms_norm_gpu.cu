/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer of a model whose ranks share the work of each token: every rank has a part of the sum,
 * and one kernel adds the parts of all ranks, adds the sum to the residual and normalises that
 * (RMSNorm). The kernel reads the parts where they are, so no other pass over memory is needed. The
 * result has the same bits on all ranks, and those that the host computes. usage: oriel run -n 2
 * rms_norm_gpu
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define TOKENS 64u
#define HIDDEN 1024u
#define LAYERS 3u
#define BLOCKS 8u
#define LANES 256u /* sums of squares, whatever the number of threads */
#define EPSILON 1e-5f
#define BYTES (TOKENS * HIDDEN * sizeof(float))

static void must(enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "rms_norm_gpu: %s\n", oriel_last_error());
	exit(1);
}

static void cuda(cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "rms_norm_gpu: %s\n", cudaGetErrorString(error));
	exit(1);
}

/* A product and a sum that no compiler fuses, so that GPU and host get the same bits. */
__host__ __device__ static inline float mul(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fmul_rn(a, b);
#else
	volatile float product = a;

	product = product * b;
	return product;
#endif
}

__host__ __device__ static inline float add(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fadd_rn(a, b);
#else
	return a + b;
#endif
}

/* Lane @lane of a row: adds the sum to the residual. Returns its part of the sum of squares. */
__host__ __device__ static float add_lane(const float *sum, float *residual, unsigned lane)
{
	float squares = 0;

	for (unsigned i = lane; i < HIDDEN; i += LANES) {
		residual[i] = add(residual[i], sum[i]);
		squares = add(squares, mul(residual[i], residual[i]));
	}
	return squares;
}

__host__ __device__ static float scale_of(const float *squares)
{
	float total = 0;

	for (unsigned lane = 0; lane < LANES; lane++)
		total = add(total, squares[lane]);
	return 1.0f / sqrtf(add(total / HIDDEN, EPSILON));
}

/* [kernel] */
/* @w: the part of each rank. The row @to holds the sum of a token first, and then the result. */
__global__ void __launch_bounds__(256)
	add_and_normalise(struct oriel_dev_window w, const float *weight, float *residual,
			  float *to, int *failed)
{
	const struct oriel_dev_reduction sum = {ORIEL_TYPE_FP32, ORIEL_OP_SUM, 0, 0};
	struct oriel_dev_group block = oriel_dev_block();
	/* This block of all ranks has written its part, and has read that of the last layer. */
	enum oriel_status status = oriel_dev_barrier(&w, block, blockIdx.x, 0);
	__shared__ float squares[LANES];

	for (unsigned token = blockIdx.x; token < TOKENS && status == ORIEL_OK;
	     token += gridDim.x) {
		float *row = to + token * HIDDEN, *rest = residual + token * HIDDEN;

		status = oriel_dev_reduce(&w, block, &sum, token * HIDDEN * sizeof(float), HIDDEN,
					  row);
		oriel_dev_sync(block);
		for (unsigned lane = block.rank; lane < LANES; lane += block.size)
			squares[lane] = add_lane(row, rest, lane);
		oriel_dev_sync(block);
		float scale = scale_of(squares);

		for (unsigned i = block.rank; i < HIDDEN; i += block.size)
			row[i] = mul(mul(rest[i], scale), weight[i]);
		oriel_dev_sync(block);
	}
	/* Peers have read this rank's part, which the next layer overwrites. */
	if (status == ORIEL_OK)
		status = oriel_dev_barrier(&w, block, blockIdx.x, 0);
	if (status != ORIEL_OK && oriel_dev_is_leader(block))
		*failed = status;
}
/* [/kernel] */

__host__ __device__ static float part_of(unsigned rank, unsigned layer, unsigned i)
{
	unsigned x = (i + 1) * 2654435761u + rank * 0x9e3779b9u + layer * 0x85ebca6bu;

	x ^= x >> 15;
	return (float)(int)(x * 0x2c1b3c6du) * 0x1p-31f;
}

/* Stands for the matrix product of a model, which leaves such a part. */
__global__ void make_part(float *part, unsigned rank, unsigned layer)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < TOKENS * HIDDEN;
	     i += gridDim.x * blockDim.x)
		part[i] = part_of(rank, layer, i);
}

/* Computes the same layer on the host, one element after the other. */
static void host_layer(unsigned ranks, unsigned layer, const float *weight, float *residual,
		       float *to)
{
	float squares[LANES];

	for (unsigned i = 0; i < TOKENS * HIDDEN; i++) {
		to[i] = part_of(0, layer, i);
		for (unsigned rank = 1; rank < ranks; rank++)
			to[i] = add(to[i], part_of(rank, layer, i));
	}
	for (unsigned token = 0; token < TOKENS; token++) {
		float *row = to + token * HIDDEN, *rest = residual + token * HIDDEN;

		for (unsigned lane = 0; lane < LANES; lane++)
			squares[lane] = add_lane(row, rest, lane);
		float scale = scale_of(squares);

		for (unsigned i = 0; i < HIDDEN; i++)
			row[i] = mul(mul(rest[i], scale), weight[i]);
	}
}

/* Memory of the GPU: the weights, the residual and the result; and a word. */
struct memory {
	float *weight, *residual, *result;
	int *failed;
};

static struct memory memory_open(const float *weight)
{
	struct memory m;

	cuda(cudaMalloc((void **)&m.weight, HIDDEN * sizeof(float)));
	cuda(cudaMalloc((void **)&m.residual, BYTES));
	cuda(cudaMalloc((void **)&m.result, BYTES));
	cuda(cudaMalloc((void **)&m.failed, sizeof(int)));
	cuda(cudaMemset(m.residual, 0, BYTES));
	cuda(cudaMemset(m.failed, 0, sizeof(int)));
	cuda(cudaMemcpy(m.weight, weight, HIDDEN * sizeof(float), cudaMemcpyDefault));
	cuda(cudaDeviceSynchronize());
	return m;
}

static struct oriel_window *window_open(struct oriel_comm *comm)
{
	struct oriel_window_attr attr = {};
	struct oriel_window *window;

	attr.size = sizeof(attr);
	attr.length = BYTES;
	attr.flags = ORIEL_WINDOW_DEVICE;
	attr.barriers = BLOCKS;
	must(oriel_window_create(comm, &attr, &window));
	return window;
}

int main(void)
{
	static float weight[HIDDEN], residual[TOKENS * HIDDEN], expected[TOKENS * HIDDEN],
		got[TOKENS * HIDDEN];
	const char *local = getenv("LOCAL_RANK"); /* set by oriel run and torchrun */
	struct oriel_comm_attr with_gpu = {};
	struct oriel_dev_window device;
	struct oriel_window *window;
	struct oriel_comm *comm;
	cudaStream_t stream;
	int gpus = 0, failed = 0;
	void *part;

	cuda(cudaGetDeviceCount(&gpus));
	cuda(cudaSetDevice(local ? atoi(local) % gpus : 0));
	cuda(cudaFree(NULL)); /* makes the context, which the communicator takes */
	with_gpu.size = sizeof(with_gpu);
	with_gpu.flags = ORIEL_COMM_GPU;
	must(oriel_comm_create(NULL, &with_gpu, &comm));
	window = window_open(comm);
	must(oriel_window_device(window, &device));
	must(oriel_window_buffer(window, 0, &part, NULL));
	for (unsigned i = 0; i < HIDDEN; i++)
		weight[i] = 1.0f + (float)(i % 7) * 0.125f;
	struct memory m = memory_open(weight);
	unsigned rank = oriel_comm_rank(comm), ranks = oriel_comm_size(comm);

	cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (unsigned layer = 0; layer < LAYERS; layer++) {
		make_part<<<64, 256, 0, stream>>>((float *)part, rank, layer);
		add_and_normalise<<<BLOCKS, 256, 0, stream>>>(device, m.weight, m.residual,
							      m.result, m.failed);
		host_layer(ranks, layer, weight, residual, expected);
	}
	cuda(cudaMemcpyAsync(got, m.result, BYTES, cudaMemcpyDefault, stream));
	cuda(cudaMemcpyAsync(&failed, m.failed, sizeof(failed), cudaMemcpyDefault, stream));
	cuda(cudaStreamSynchronize(stream));
	bool is_same = !failed && memcmp(got, expected, BYTES) == 0;

	printf("rank %u of %u: %u layers of %u tokens: %s\n", rank, ranks, LAYERS, TOKENS,
	       is_same ? "the bits of the host" : "WRONG");
	must(oriel_comm_barrier(comm));
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	return is_same ? 0 : 1;
}
