/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent collectives of GPU memory: gpu_gather RANKS (threads), or oriel run -n N
 * gpu_gather (processes). Rank r uses GPU r modulo the number of GPUs. Prints a line for each
 * claim; exit status 1: a claim does not hold.
 */
#include "exchange_rank.h"

static void test_sizes(struct rank *r, const char *name)
{
	static const size_t sizes[] = {
		1,     7,      8,        1000,           1024,     4096,           16384,    16385,
		65536, 262144, 1u << 20, (1u << 20) + 4, 5u << 20, (5u << 20) + 3, 16u << 20};
	struct object *o = &r->objects[0];
	size_t i;
	int k;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= SHARE; i++) {
		for (k = 0; k < 6; k++)
			post(r, o, sizes[i], k % 3 == 1);
		verdict(r, "eager", name, sizes[i], object_is_right(r, o));
	}
}

/* Captures @posts executions, in place and not. */
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
	verdict(r, "replays", name, bytes, object_is_right(r, o));
	graphs_destroy(r, execs, 2);
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

static void test_others(struct rank *r, struct others *x, unsigned algorithm)
{
	static const size_t sizes[] = {1, 1000, 16384, 65537, 1u << 20, (5u << 20) + 3, 16u << 20};
	const char *name = oriel_algorithm_name((enum oriel_algorithm)algorithm);
	struct object *o = &r->objects[0];
	size_t i;
	int k;

	others_create(r, x, 0, algorithm);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= SHARE; i++) {
		for (k = 0; k < 5; k++)
			post_alltoall(r, o, x, sizes[i]);
		verdict(r, "all-to-all", name, sizes[i], object_is_right(r, o));
		for (k = 0; k < 5 && x->bcast; k++)
			post_bcast(r, o, x, (unsigned)k / 2 % r->size, sizes[i]);
		if (x->bcast)
			verdict(r, "broadcast", name, sizes[i], object_is_right(r, o));
		for (k = 0; k < 5; k++)
			post_root(r, o, x, (unsigned)k / 2 % r->size, sizes[i]);
		verdict(r, "gather and scatter", name, sizes[i], object_is_right(r, o));
	}
	for (k = 0; k < 50; k++)
		post_alltoallv(r, o, x);
	verdict(r, "all-to-all of any lengths", name, 0, object_is_right(r, o));
}

/* Each launch reads other lengths from GPU memory. */
static void test_others_graph(struct rank *r, struct others *x,
			      struct oriel_stream_barrier *barrier, unsigned algorithm)
{
	const char *name = oriel_algorithm_name((enum oriel_algorithm)algorithm);
	struct object *o = &r->objects[0];
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	unsigned i;

	CUDA(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
	post_alltoallv(r, o, x);
	post_alltoall(r, o, x, 3000);
	MUST(oriel_stream_barrier_run_on_stream(barrier, o->stream));
	if (x->bcast)
		post_bcast(r, o, x, r->size - 1, 70000);
	post_root(r, o, x, r->size - 1, 5000);
	CUDA(cudaStreamEndCapture(o->stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaStreamSynchronize(o->stream));
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < REPLAYS * 3 / 10; i++) {
		CUDA(cudaGraphLaunch(exec, o->stream));
		if (i % 100 == 50)
			post_alltoallv(r, o, x);
	}
	verdict(r, "replays of all of them", name, 0, object_is_right(r, o));
	CUDA(cudaGraphDestroy(graph));
	graphs_destroy(r, &exec, 1);
	others_destroy(x);
}

static void others_run(struct rank *r)
{
	static const unsigned algorithms[] = {ORIEL_ALGORITHM_DEFAULT, ORIEL_ALGORITHM_LL,
					      ORIEL_ALGORITHM_STORE, ORIEL_ALGORITHM_CE};
	struct oriel_stream_barrier *barrier;
	struct others x;
	unsigned i;

	others_open(r, &x, &r->objects[0]);
	MUST(oriel_stream_barrier_create(r->comm, ORIEL_STREAM_BARRIER_GPU, &barrier));
	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
		test_others(r, &x, algorithms[i]);
		test_others_graph(r, &x, barrier, algorithms[i]);
	}
	oriel_stream_barrier_destroy(barrier);
	others_close(r, &x);
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
	/* Freeing memory waits for GPUs, so all peers have to end first. */
	oriel_comm_barrier(r.comm);
	oriel_window_destroy(r.window);
	oriel_comm_destroy(r.comm);
	return r.failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
