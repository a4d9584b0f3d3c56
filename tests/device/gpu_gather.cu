/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent collectives of GPU memory: gpu_gather RANKS (threads), or oriel run -n N
 * gpu_gather (processes). Rank r uses GPU r modulo the number of GPUs. A line for each
 * claim; ends with 1 if one does not hold.
 */
#include "gather_rank.h"

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

/* @posts executions, in place and not. */
static cudaGraphExec_t capture(struct rank *r, struct object *o, size_t bytes, unsigned posts)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	unsigned i;

	CUDA(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
	for (i = 0; i < posts; i++)
		post(r, o, bytes + i, i % 2);
	CUDA(cudaStreamEndCapture(o->stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphUpload(exec, o->stream));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

/* Replays of two graphs of one object, with executions that are started between them. */
static void test_graph(struct rank *r, const char *name, size_t bytes)
{
	struct object *o = &r->objects[0];
	cudaGraphExec_t execs[2];
	unsigned i;

	post(r, o, bytes, false);
	execs[0] = capture(r, o, bytes, 2);
	execs[1] = capture(r, o, bytes / 2 + 1, 3);
	CUDA(cudaStreamSynchronize(o->stream));
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < REPLAYS / 2; i++) {
		CUDA(cudaGraphLaunch(execs[i % 7 == 3], o->stream));
		if (i % 100 == 50)
			post(r, o, bytes, false);
	}
	verdict(r, "1000 replays", name, bytes, object_is_right(r, o));
	CUDA(cudaGraphExecDestroy(execs[0]));
	CUDA(cudaGraphExecDestroy(execs[1]));
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

/* All-to-all and broadcast, each in a stream and a memory of the first object. */
struct others {
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
	struct oriel_stream_barrier *barrier;
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

static void others_create(struct rank *r, struct others *x, unsigned algorithm)
{
	struct oriel_allgather_attr attr = {};
	struct oriel_view view = {};

	attr.size = sizeof(attr);
	attr.algorithm = algorithm;
	view.size = sizeof(view);
	view.length = (size_t)r->size * SHARE;
	view.flags = ORIEL_VIEW_GPU;
	view.window = r->window;
	x->alltoall = NULL;
	x->bcast = NULL;
	MUST(oriel_alltoall_create(r->comm, &view, &attr, &x->alltoall));
	if (algorithm != ORIEL_ALGORITHM_LL)
		MUST(oriel_bcast_create(r->comm, &view, &attr, &x->bcast));
}

static void test_others(struct rank *r, struct others *x, unsigned algorithm)
{
	static const size_t sizes[] = {1, 1000, 16384, 65537, 1u << 20, (5u << 20) + 3, 16u << 20};
	const char *name = oriel_algorithm_name((enum oriel_algorithm)algorithm);
	struct object *o = &r->objects[0];
	size_t i;
	int k;

	others_create(r, x, algorithm);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (k = 0; k < 5; k++)
			post_alltoall(r, o, x, sizes[i]);
		verdict(r, "all-to-all", name, sizes[i], object_is_right(r, o));
		for (k = 0; k < 5 && x->bcast; k++)
			post_bcast(r, o, x, (unsigned)k / 2 % r->size, sizes[i]);
		if (x->bcast)
			verdict(r, "broadcast", name, sizes[i], object_is_right(r, o));
	}
	for (k = 0; k < 50; k++)
		post_portions(r, o, x);
	verdict(r, "all-to-all of any lengths", name, 0, object_is_right(r, o));
}

/* Each launch finds other lengths in the memory that it reads. */
static void test_others_graph(struct rank *r, struct others *x, unsigned algorithm)
{
	const char *name = oriel_algorithm_name((enum oriel_algorithm)algorithm);
	struct object *o = &r->objects[0];
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	unsigned i;

	CUDA(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
	post_portions(r, o, x);
	post_alltoall(r, o, x, 3000);
	MUST(oriel_stream_barrier_start(x->barrier, o->stream));
	if (x->bcast)
		post_bcast(r, o, x, r->size - 1, 70000);
	CUDA(cudaStreamEndCapture(o->stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaStreamSynchronize(o->stream));
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < 300; i++) {
		CUDA(cudaGraphLaunch(exec, o->stream));
		if (i % 100 == 50)
			post_portions(r, o, x);
	}
	verdict(r, "300 replays of all of them", name, 0, object_is_right(r, o));
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
	oriel_bcast_destroy(x->bcast);
	oriel_alltoall_destroy(x->alltoall);
}

static void others_run(struct rank *r)
{
	static const unsigned algorithms[] = {ORIEL_ALGORITHM_DEFAULT, ORIEL_ALGORITHM_LL,
					      ORIEL_ALGORITHM_STORE, ORIEL_ALGORITHM_CE};
	struct others x = {};
	unsigned i;

	CUDA(cudaMalloc((void **)&x.send, (size_t)r->size * SHARE + 16));
	CUDA(cudaMalloc((void **)&x.portions, r->size * sizeof(*x.portions)));
	MUST(oriel_stream_barrier_create(r->comm, ORIEL_STREAM_BARRIER_GPU, &x.barrier));
	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
		test_others(r, &x, algorithms[i]);
		test_others_graph(r, &x, algorithms[i]);
	}
	oriel_stream_barrier_destroy(x.barrier);
	CUDA(cudaFree(x.portions));
	CUDA(cudaFree(x.send));
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	static const unsigned algorithms[] = {ORIEL_ALGORITHM_DEFAULT, ORIEL_ALGORITHM_LL,
					      ORIEL_ALGORITHM_STORE, ORIEL_ALGORITHM_CE};
	struct rank r = {};
	unsigned i;

	r.rank = bootstrap->rank;
	r.size = bootstrap->size;
	rank_open(&r, bootstrap, node);
	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		test_algorithm(&r, algorithms[i]);
	others_run(&r);
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
