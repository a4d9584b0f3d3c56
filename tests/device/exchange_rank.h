/* SPDX-License-Identifier: Apache-2.0 */
/* All-to-alls and broadcasts of a rank of gather_rank.h, and what is to be found there. */
#ifndef TESTS_DEVICE_EXCHANGE_RANK_H
#define TESTS_DEVICE_EXCHANGE_RANK_H

#include "gather_rank.h"

/* In the stream and the memory of an object, and beside its all-gather if that is idle. */
struct others {
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;          /* NULL: the algorithm is none of broadcasts */
	char *send;                         /* size * SHARE bytes */
	struct oriel_dev_portion *portions; /* [size], of the GPU */
};

/* For every rank its own message, in the next round. */
__global__ void paint_each(char *at, size_t bytes, unsigned rank, unsigned size,
			   const unsigned *round)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes * size; i += (size_t)gridDim.x * blockDim.x)
		at[i] = pattern(*round + 1, rank * size + (unsigned)(i / bytes), i % bytes);
}

__global__ void look_each(const char *at, size_t bytes, unsigned rank, unsigned size,
			  const unsigned *round, unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes * size; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != pattern(*round + 1, (unsigned)(i / bytes) * size + rank, i % bytes))
			atomicAdd(wrong, 1u);
}

/* Bytes from @from to @to in a round; some pairs have none. */
__device__ size_t portion_of(unsigned round, unsigned from, unsigned to)
{
	unsigned draw = (round * 7 + from * 13 + to * 5) % 8;

	return draw < 2 ? 0 : draw * 24770 + round % 31;
}

/* What nobody on a host knows: lengths and places that differ from round to round. */
__global__ void draw_portions(struct oriel_dev_portion *portions, char *send, unsigned rank,
			      unsigned size, const unsigned *round)
{
	unsigned other = threadIdx.x, now = *round + 1;

	for (; other < size; other += blockDim.x) {
		portions[other].send_at = (uint64_t)other * SHARE + now % 16;
		portions[other].send_length = portion_of(now, rank, other);
		portions[other].recv_at = (uint64_t)(size - 1 - other) * SHARE + now % 3;
		portions[other].recv_length = portion_of(now, other, rank);
	}
	__syncthreads();
	for (other = 0; other < size; other++)
		for (size_t i = threadIdx.x; i < portions[other].send_length; i += blockDim.x)
			send[portions[other].send_at + i] = pattern(now, rank * size + other, i);
}

__global__ void look_portions(const struct oriel_dev_portion *portions, const char *result,
			      unsigned rank, unsigned size, const unsigned *round, unsigned *wrong)
{
	for (unsigned other = 0; other < size; other++)
		for (size_t i = threadIdx.x; i < portions[other].recv_length; i += blockDim.x)
			if (result[portions[other].recv_at + i] !=
			    pattern(*round + 1, other * size + rank, i))
				atomicAdd(wrong, 1u);
}

static void post_alltoall(struct rank *r, struct object *o, struct others *x, size_t bytes)
{
	paint_each<<<64, 256, 0, o->stream>>>(x->send, bytes, r->rank, r->size, o->round);
	MUST(oriel_alltoall_start(x->alltoall, x->send, bytes, o->stream));
	look_each<<<64, 256, 0, o->stream>>>(o->result, bytes, r->rank, r->size, o->round,
					     o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
}

static void post_portions(struct rank *r, struct object *o, struct others *x)
{
	draw_portions<<<1, 256, 0, o->stream>>>(x->portions, x->send, r->rank, r->size, o->round);
	MUST(oriel_alltoall_start_portions(x->alltoall, x->send, x->portions, o->stream));
	look_portions<<<1, 256, 0, o->stream>>>(x->portions, o->result, r->rank, r->size, o->round,
						o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
}

__global__ void look_root(const char *at, size_t bytes, unsigned root, const unsigned *round,
			  unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != pattern(*round + 1, root, i))
			atomicAdd(wrong, 1u);
}

static void post_bcast(struct rank *r, struct object *o, struct others *x, unsigned root,
		       size_t bytes)
{
	if (r->rank == root)
		paint<<<64, 256, 0, o->stream>>>(x->send, bytes, root, o->round);
	MUST(oriel_bcast_start(x->bcast, root, x->send, bytes, o->stream));
	look_root<<<64, 256, 0, o->stream>>>(o->result, bytes, root, o->round, o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
}

/* First launches and allocations may wait for all that the GPU has to do, also for others. */
static void others_open(struct rank *r, struct others *x, struct object *o)
{
	CUDA(cudaMalloc((void **)&x->send, (size_t)r->size * SHARE + 16));
	CUDA(cudaMalloc((void **)&x->portions, r->size * sizeof(*x->portions)));
	paint_each<<<64, 256, 0, o->stream>>>(x->send, 0, 0, 1, o->round);
	look_each<<<64, 256, 0, o->stream>>>(o->result, 0, 0, 1, o->round, o->wrong);
	draw_portions<<<1, 256, 0, o->stream>>>(x->portions, x->send, 0, 0, o->round);
	look_portions<<<1, 256, 0, o->stream>>>(x->portions, o->result, 0, 0, o->round, o->wrong);
	look_root<<<64, 256, 0, o->stream>>>(o->result, 0, 0, o->round, o->wrong);
	CUDA(cudaStreamSynchronize(o->stream));
}

static void others_close(struct rank *r, struct others *x)
{
	CUDA(cudaFree(x->portions));
	CUDA(cudaFree(x->send));
}

/* An algorithm that is only of the one goes with the default of the other. */
static void others_create(struct rank *r, struct others *x, unsigned number, unsigned algorithm)
{
	struct oriel_allgather_attr attr = attr_of(algorithm);
	struct oriel_view view = view_of(r, number);

	x->alltoall = NULL;
	x->bcast = NULL;
	if (algorithm != ORIEL_ALGORITHM_LL)
		MUST(oriel_bcast_create(r->comm, &view, &attr, &x->bcast));
	if (algorithm == ORIEL_ALGORITHM_RING || algorithm == ORIEL_ALGORITHM_BRUCK)
		attr.algorithm = ORIEL_ALGORITHM_DEFAULT;
	MUST(oriel_alltoall_create(r->comm, &view, &attr, &x->alltoall));
}

static void others_destroy(struct others *x)
{
	oriel_bcast_destroy(x->bcast);
	oriel_alltoall_destroy(x->alltoall);
}

#endif
