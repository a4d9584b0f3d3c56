/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent collectives of GPU memory over virtual nodes, with the software HCA between them:
 * gpu_nodes RANKS NODES (threads), or oriel run -n N --nodes M gpu_nodes (processes). Rank r uses
 * GPU r modulo the number of GPUs. Prints a line for each claim and each time; exit status 1: a
 * claim does not hold.
 */
#include "exchange_rank.h"

static void test_sizes(struct rank *r, const char *name)
{
	static const size_t sizes[] = {1, 1000, 65536, (1u << 20) + 4, (5u << 20) + 3};
	struct object *o = &r->objects[0];
	size_t i;
	int k;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= SHARE; i++) {
		for (k = 0; k < 4; k++)
			post(r, o, sizes[i], k % 3 == 1);
		verdict(r, "eager", name, sizes[i], object_is_right(r, o));
	}
}

static cudaGraphExec_t end_capture(struct rank *r, struct object *o)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CUDA(cudaStreamEndCapture(o->stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

/* Two captures of one object, and executions that are started between them. */
static void test_graphs(struct rank *r, const char *name, size_t bytes)
{
	struct object *o = &r->objects[0];
	cudaGraphExec_t execs[2];
	unsigned i;

	post(r, o, bytes, false);
	for (i = 0; i < 2; i++) {
		CUDA(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
		post(r, o, bytes / (i + 1), i);
		execs[i] = end_capture(r, o);
	}
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < REPLAYS; i++) {
		CUDA(cudaGraphLaunch(execs[i % 2], o->stream));
		if (i % 100 == 50)
			post(r, o, bytes, false);
	}
	verdict(r, "replays", name, bytes, object_is_right(r, o));
	graphs_destroy(r, execs, 2);
}

/* Ranks post to the two streams in different orders. */
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

	if (bytes > SHARE)
		return;
	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < times + 2; i++) {
		if (i == 2)
			CUDA(cudaEventRecord(begin, o->stream));
		MUST(oriel_allgather_run_on_stream(o->gather, o->send, bytes, o->stream));
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

static void test_others_sizes(struct rank *r, struct others *x, const char *name)
{
	static const size_t sizes[] = {1, 1000, 65537, (1u << 20) + 4, (5u << 20) + 3};
	struct object *o = &r->objects[0];
	size_t i;
	unsigned k;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= SHARE; i++) {
		for (k = 0; k < 4; k++)
			post_alltoall(r, o, x, sizes[i]);
		verdict(r, "all-to-all", name, sizes[i], object_is_right(r, o));
		for (k = 0; k < 4; k++)
			post_bcast(r, o, x, k % r->size, sizes[i]);
		verdict(r, "broadcast", name, sizes[i], object_is_right(r, o));
		for (k = 0; k < 4; k++)
			post_root(r, o, x, k % r->size, sizes[i]);
		verdict(r, "gather and scatter", name, sizes[i], object_is_right(r, o));
	}
	for (k = 0; k < 30; k++)
		post_alltoallv(r, o, x);
	verdict(r, "all-to-all of any lengths", name, 0, object_is_right(r, o));
}

/* All collectives in one graph: other lengths in each launch, and starts between launches. */
static void test_others_graph(struct rank *r, struct others *x, const char *name)
{
	struct object *o = &r->objects[0];
	cudaGraphExec_t exec;
	unsigned i;

	CUDA(cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal));
	post_alltoallv(r, o, x);
	post_alltoall(r, o, x, 3000);
	post_bcast(r, o, x, r->size - 1, 70000);
	post_root(r, o, x, r->size - 1, 5000);
	exec = end_capture(r, o);
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < REPLAYS; i++) {
		CUDA(cudaGraphLaunch(exec, o->stream));
		if (i % 100 == 50)
			post_alltoallv(r, o, x);
		if (i % 100 == 70)
			post_bcast(r, o, x, i / 100 % r->size, 1000);
	}
	verdict(r, "replays of all of them", name, 0, object_is_right(r, o));
	graphs_destroy(r, &exec, 1);
}

/* An all-to-all and a broadcast in a stream each, to which ranks post in different orders. */
static void test_others_two(struct rank *r, struct others x[OBJECTS], const char *name)
{
	size_t bytes = 0;
	unsigned i, k;

	for (i = 0; i < 100; i++) {
		bytes = 1 + i * 7919 % 300000;
		for (k = 0; k < 2; k++)
			if ((r->rank + k) % 2)
				post_bcast(r, &r->objects[1], &x[1], i % r->size, bytes);
			else if (i % 2)
				post_alltoall(r, &r->objects[0], &x[0], bytes);
			else
				post_alltoallv(r, &r->objects[0], &x[0]);
	}
	verdict(r, "all-to-alls in a stream", name, bytes, object_is_right(r, &r->objects[0]));
	verdict(r, "broadcasts in another", name, bytes, object_is_right(r, &r->objects[1]));
}

static void test_others(struct rank *r, struct others x[OBJECTS], unsigned algorithm)
{
	const char *name = oriel_algorithm_name((enum oriel_algorithm)algorithm);
	unsigned i;

	for (i = 0; i < OBJECTS; i++)
		others_create(r, &x[i], i, algorithm);
	test_others_sizes(r, &x[0], name);
	test_others_graph(r, &x[0], name);
	test_others_two(r, x, name);
	for (i = 0; i < OBJECTS; i++)
		others_destroy(&x[i]);
}

static void algorithms_run(struct rank *r)
{
	static const unsigned algorithms[] = {ORIEL_ALGORITHM_DEFAULT, ORIEL_ALGORITHM_DIRECT,
					      ORIEL_ALGORITHM_RING, ORIEL_ALGORITHM_BRUCK};
	struct others others[OBJECTS];
	unsigned i;

	for (i = 0; i < OBJECTS; i++)
		others_open(r, &others[i], &r->objects[i]);
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
		test_algorithm(r, algorithms[i]);
		test_others(r, others, algorithms[i]);
	}
	/* Freeing memory waits for GPUs, so all peers have to end first. */
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < OBJECTS; i++)
		others_close(r, &others[i]);
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct rank r = {};

	r.rank = bootstrap->rank;
	r.size = bootstrap->size;
	rank_open(&r, bootstrap, node);
	algorithms_run(&r);
	oriel_window_destroy(r.window);
	oriel_comm_destroy(r.comm);
	return r.failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
