/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-to-alls, broadcasts, gathers and scatters of a rank of gather_rank.h, and the checks of their
 * results. Shared by gpu_gather and gpu_nodes.
 */
#ifndef TESTS_DEVICE_EXCHANGE_RANK_H
#define TESTS_DEVICE_EXCHANGE_RANK_H

#include "gather_rank.h"

/* Other collectives use the stream and the memory of an object while its all-gather is idle. */
struct others {
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast; /* NULL: broadcasts do not support the algorithm */
	struct oriel_gather *gather;
	struct oriel_scatter *scatter;
	char *send;                         /* size * SHARE bytes */
	struct oriel_dev_alltoallv *layout; /* [size], GPU memory */
};

/* Writes a message for every rank, for the next round. */
__global__ void paint_each(char *at, size_t bytes, unsigned rank, unsigned size,
			   const unsigned *round)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes * size; i += (size_t)gridDim.x * blockDim.x)
		at[i] = pattern(*round + 1, rank * size + (unsigned)(i / bytes), i % bytes);
}

__global__ void check_alltoall(const char *at, size_t bytes, unsigned rank, unsigned size,
			       const unsigned *round, unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes * size; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != pattern(*round + 1, (unsigned)(i / bytes) * size + rank, i % bytes))
			atomicAdd(wrong, 1u);
}

/* Bytes from @from to @to in a round; some pairs have none. */
__device__ size_t length_of(unsigned round, unsigned from, unsigned to)
{
	unsigned draw = (round * 7 + from * 13 + to * 5) % 8;

	return draw < 2 ? 0 : draw * 24770 + round % 31;
}

/* Lengths and displacements that differ from round to round, and that no host knows. */
__global__ void fill_layout(struct oriel_dev_alltoallv *layout, char *send, unsigned rank,
			    unsigned size, const unsigned *round)
{
	unsigned other = threadIdx.x, now = *round + 1;

	for (; other < size; other += blockDim.x) {
		layout[other].send_displacement = (uint64_t)other * SHARE + now % 16;
		layout[other].send_length = length_of(now, rank, other);
		layout[other].recv_displacement = (uint64_t)(size - 1 - other) * SHARE + now % 3;
		layout[other].recv_length = length_of(now, other, rank);
	}
	__syncthreads();
	for (other = 0; other < size; other++)
		for (size_t i = threadIdx.x; i < layout[other].send_length; i += blockDim.x)
			send[layout[other].send_displacement + i] =
				pattern(now, rank * size + other, i);
}

__global__ void check_alltoallv(const struct oriel_dev_alltoallv *layout, const char *result,
				unsigned rank, unsigned size, const unsigned *round,
				unsigned *wrong)
{
	for (unsigned other = 0; other < size; other++)
		for (size_t i = threadIdx.x; i < layout[other].recv_length; i += blockDim.x)
			if (result[layout[other].recv_displacement + i] !=
			    pattern(*round + 1, other * size + rank, i))
				atomicAdd(wrong, 1u);
}

static void post_alltoall(struct rank *r, struct object *o, struct others *x, size_t bytes)
{
	paint_each<<<64, 256, 0, o->stream>>>(x->send, bytes, r->rank, r->size, o->round);
	MUST(oriel_alltoall_run_on_stream(x->alltoall, x->send, bytes, o->stream));
	check_alltoall<<<64, 256, 0, o->stream>>>(o->result, bytes, r->rank, r->size, o->round,
						  o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
}

static void post_alltoallv(struct rank *r, struct object *o, struct others *x)
{
	fill_layout<<<1, 256, 0, o->stream>>>(x->layout, x->send, r->rank, r->size, o->round);
	MUST(oriel_alltoall_run_v_on_stream(x->alltoall, x->send, x->layout, o->stream));
	check_alltoallv<<<1, 256, 0, o->stream>>>(x->layout, o->result, r->rank, r->size, o->round,
						  o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
}

__global__ void check_bcast(const char *at, size_t bytes, unsigned root, const unsigned *round,
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
	MUST(oriel_bcast_run_on_stream(x->bcast, root, x->send, bytes, o->stream));
	check_bcast<<<64, 256, 0, o->stream>>>(o->result, bytes, root, o->round, o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
}

__global__ void check_scattered(const char *at, size_t bytes, unsigned root, unsigned rank,
				unsigned size, const unsigned *round, unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != pattern(*round + 1, root * size + rank, i))
			atomicAdd(wrong, 1u);
}

/* To @root, and back from it: two rounds. */
static void post_root(struct rank *r, struct object *o, struct others *x, unsigned root,
		      size_t bytes)
{
	paint<<<64, 256, 0, o->stream>>>(x->send, bytes, r->rank, o->round);
	MUST(oriel_gather_run_on_stream(x->gather, root, x->send, bytes, o->stream));
	if (r->rank == root)
		check_gathered<<<64, 256, 0, o->stream>>>(o->result, bytes, r->size, o->round,
							  o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
	if (r->rank == root)
		paint_each<<<64, 256, 0, o->stream>>>(x->send, bytes, root, r->size, o->round);
	MUST(oriel_scatter_run_on_stream(x->scatter, root, x->send, bytes, o->stream));
	check_scattered<<<64, 256, 0, o->stream>>>(o->result, bytes, root, r->rank, r->size,
						   o->round, o->wrong);
	count<<<1, 1, 0, o->stream>>>(o->round);
}

/* First launches and allocations may wait for all work of the GPU, of other ranks too. */
static void others_open(struct rank *r, struct others *x, struct object *o)
{
	CUDA(cudaMalloc((void **)&x->send, (size_t)r->size * SHARE + 16));
	CUDA(cudaMalloc((void **)&x->layout, r->size * sizeof(*x->layout)));
	paint_each<<<64, 256, 0, o->stream>>>(x->send, 0, 0, 1, o->round);
	check_alltoall<<<64, 256, 0, o->stream>>>(o->result, 0, 0, 1, o->round, o->wrong);
	fill_layout<<<1, 256, 0, o->stream>>>(x->layout, x->send, 0, 0, o->round);
	check_alltoallv<<<1, 256, 0, o->stream>>>(x->layout, o->result, 0, 0, o->round, o->wrong);
	check_bcast<<<64, 256, 0, o->stream>>>(o->result, 0, 0, o->round, o->wrong);
	paint<<<64, 256, 0, o->stream>>>(x->send, 0, 0, o->round);
	check_gathered<<<64, 256, 0, o->stream>>>(o->result, 0, 1, o->round, o->wrong);
	check_scattered<<<64, 256, 0, o->stream>>>(o->result, 0, 0, 0, 1, o->round, o->wrong);
	CUDA(cudaStreamSynchronize(o->stream));
}

static void others_close(struct rank *r, struct others *x)
{
	CUDA(cudaFree(x->layout));
	CUDA(cudaFree(x->send));
}

/* A collective that does not support @algorithm uses the default. */
static void others_create(struct rank *r, struct others *x, unsigned number, unsigned algorithm)
{
	struct oriel_coll_attr attr = attr_of(algorithm);
	struct oriel_view view = view_of(r, number);

	x->alltoall = NULL;
	x->bcast = NULL;
	if (algorithm != ORIEL_ALGORITHM_LL)
		MUST(oriel_bcast_create(r->comm, &view, &attr, &x->bcast));
	if (algorithm == ORIEL_ALGORITHM_RING || algorithm == ORIEL_ALGORITHM_BRUCK)
		attr.algorithm = ORIEL_ALGORITHM_DEFAULT;
	MUST(oriel_alltoall_create(r->comm, &view, &attr, &x->alltoall));
	attr.algorithm = ORIEL_ALGORITHM_DEFAULT;
	MUST(oriel_gather_create(r->comm, &view, &attr, &x->gather));
	MUST(oriel_scatter_create(r->comm, &view, &attr, &x->scatter));
}

static void others_destroy(struct others *x)
{
	oriel_scatter_destroy(x->scatter);
	oriel_gather_destroy(x->gather);
	oriel_bcast_destroy(x->bcast);
	oriel_alltoall_destroy(x->alltoall);
}

#endif
