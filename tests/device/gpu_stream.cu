/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of the host in streams, on windows in GPU memory: gpu_stream RANKS
 * [NODES] (threads), or oriel run -n N gpu_stream (processes). Rank r uses GPU r modulo the
 * number of GPUs. A line for each claim, a table of times last; ends with 1 if a
 * claim does not hold.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include <oriel/oriel.h>

#include "ranks.h"

#define LENGTH (8u << 20) /* of buffer 0 */
#define LARGE (1u << 20)  /* goes by an engine */
#define SMALL 4096u       /* goes by a kernel */
#define REPLAYS 1000u
#define STREAMS 4u
#define LONG_NS 20000000000ull

/* Ranges of buffer 0. Stream s has its own at s * PART. */
#define PART (2u << 20)
#define AT_LARGE 0u
#define AT_SMALL LARGE
#define AT_VALUE (LARGE + 65536)
#define AT_SUM (LARGE + 65536 + 8)
#define AT_COUNTED (LARGE + 131072)

struct rank {
	unsigned rank, size, next, before;
	const struct oriel_bootstrap *bootstrap;
	const char *node; /* of a thread; NULL: not said */
	struct oriel_comm *comm;
	struct oriel_window *window;
	cudaStream_t stream[STREAMS];
	char *source, *target; /* of the GPU, LENGTH each */
	uint64_t *results;     /* pinned */
	unsigned failures;
};

static void verdict(struct rank *r, const char *claim, bool holds)
{
	r->failures += !holds;
	if (!holds || r->rank == 0)
		printf("%s rank %u of %u: %s\n", holds ? "PASS" : "FAIL", r->rank, r->size, claim);
	fflush(stdout);
}

/* The bytes that @rank sends. */
static int pattern(unsigned rank)
{
	return (int)(rank + 17);
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
	attr.length = LENGTH;
	attr.channels = 16;
	attr.flags = ORIEL_WINDOW_DEVICE;
	r->next = (r->rank + 1) % r->size;
	r->before = (r->rank + r->size - 1) % r->size;
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((int)r->rank % gpus));
	for (i = 0; i < STREAMS; i++)
		CUDA(cudaStreamCreateWithFlags(&r->stream[i], cudaStreamNonBlocking));
	CUDA(cudaMalloc((void **)&r->source, LENGTH));
	CUDA(cudaMalloc((void **)&r->target, LENGTH));
	CUDA(cudaMemset(r->source, pattern(r->rank), LENGTH));
	CUDA(cudaMallocHost((void **)&r->results, 4096));
	CUDA(cudaDeviceSynchronize());
	MUST(oriel_comm_create(r->bootstrap, &comm, &r->comm));
	MUST(oriel_window_create(r->comm, &attr, &r->window));
}

static void rank_close(struct rank *r)
{
	unsigned i;

	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
	CUDA(cudaFreeHost(r->results));
	CUDA(cudaFree(r->target));
	CUDA(cudaFree(r->source));
	for (i = 0; i < STREAMS; i++)
		CUDA(cudaStreamDestroy(r->stream[i]));
}

/* Every operation once, with ids, slot, channel and range of stream @n. */
static void post_all(struct rank *r, unsigned n)
{
	struct oriel_window *w = r->window;
	cudaStream_t s = r->stream[n];
	uint64_t base = (uint64_t)n * PART, *results = r->results + 16 * n;
	char *source = r->source, *target = r->target + base;
	uint32_t id = 8 * n;
	unsigned peer;

	MUST(oriel_window_put_value_on_stream(w, r->next, base + AT_VALUE, r->rank + 1, s));
	MUST(oriel_window_put_signal_on_stream(w, r->next, base + AT_SMALL, source, SMALL, id, 1,
					       s));
	MUST(oriel_window_wait_signal_next_on_stream(w, r->before, id, 1, 0, s));
	MUST(oriel_window_put_signal_on_stream(w, r->next, base + AT_LARGE, source, LARGE, id + 1,
					       1, s));
	MUST(oriel_window_wait_signal_next_on_stream(w, r->before, id + 1, 1, 0, s));
	MUST(oriel_window_barrier_on_stream(w, n, 0, s));
	MUST(oriel_window_get_on_stream(w, r->next, base + AT_LARGE, target, LARGE, s));
	MUST(oriel_window_fetch_add_on_stream(w, r->next, base + AT_SUM, 3, results, s));
	MUST(oriel_window_signal_all_on_stream(w, id + 2, ORIEL_SIGNAL_ADD, 1, s));
	for (peer = 0; peer < r->size; peer++)
		if (peer != r->rank)
			MUST(oriel_window_wait_signal_next_on_stream(w, peer, id + 2, 1, 0, s));
	MUST(oriel_window_signal_on_stream(w, r->next, id + 3, ORIEL_SIGNAL_SET, 9, s));
	MUST(oriel_window_wait_signal_from_on_stream(w, r->before, id + 3, ORIEL_EQ, 9, 0, s));
	MUST(oriel_window_wait_signal_on_stream(w, id + 3, ORIEL_GE, 9, 0, s));
	MUST(oriel_window_put_counter_on_stream(w, r->next, base + AT_COUNTED, source, SMALL, n,
						s));
	MUST(oriel_window_wait_counter_on_stream(w, r->next, n, ORIEL_EQ, 1, 0, s));
	MUST(oriel_window_put_signal_counter_on_stream(w, r->next, base + AT_COUNTED, source,
						       LARGE / 2, id + 4, 1, n, s));
	MUST(oriel_window_signal_counter_on_stream(w, r->next, id + 4, 1, n, s));
	MUST(oriel_window_wait_counter_on_stream(w, r->next, n, ORIEL_GE, 3, 0, s));
	MUST(oriel_window_wait_signal_next_on_stream(w, r->before, id + 4, 2, 0, s));
	MUST(oriel_window_read_counter_on_stream(w, r->next, n, results + 1, s));
	MUST(oriel_window_reset_counter_on_stream(w, r->next, n, s));
	if (r->size > 1) {
		MUST(oriel_window_send_on_stream(w, r->next, n, source, SMALL, 0, s));
		MUST(oriel_window_recv_on_stream(w, r->before, n, target + LARGE, SMALL, 0, s));
	}
	MUST(oriel_window_read_signal_on_stream(w, id, results + 2, s));
	MUST(oriel_window_read_signal_from_on_stream(w, r->before, id + 1, results + 3, s));
	MUST(oriel_window_drain_on_stream(w, 0, s));
	MUST(oriel_window_flush_on_stream(w, 0, s));
	MUST(oriel_window_barrier_on_stream(w, n, 0, s));
}

/* After @rounds of them: are all results right? */
static bool is_right(struct rank *r, unsigned n, uint64_t rounds, char *host)
{
	const uint64_t *results = r->results + 16 * n;
	uint64_t base = (uint64_t)n * PART, value = 0, sum = 0;
	void *mine = NULL;
	bool holds;
	unsigned i;

	MUST(oriel_window_buffer(r->window, 0, &mine, NULL));
	CUDA(cudaMemcpy(&value, (char *)mine + base + AT_VALUE, 8, cudaMemcpyDefault));
	CUDA(cudaMemcpy(&sum, (char *)mine + base + AT_SUM, 8, cudaMemcpyDefault));
	holds = value == r->before + 1 && sum == 3 * rounds && results[0] == 3 * (rounds - 1) &&
		results[1] == 3 && results[2] == rounds && results[3] == rounds;
	if (!holds)
		printf("rank %u stream %u: value %llu, sum %llu, results %llu %llu %llu %llu\n",
		       r->rank, n, (unsigned long long)value, (unsigned long long)sum,
		       (unsigned long long)results[0], (unsigned long long)results[1],
		       (unsigned long long)results[2], (unsigned long long)results[3]);
	CUDA(cudaMemcpy(host, (char *)mine + base, PART, cudaMemcpyDefault));
	for (i = 0; i < LARGE && holds; i++)
		holds = host[AT_LARGE + i] == (char)pattern(r->before);
	for (i = 0; i < SMALL && holds; i++)
		holds = host[AT_SMALL + i] == (char)pattern(r->before);
	for (i = 0; i < LARGE / 2 && holds; i++)
		holds = host[AT_COUNTED + i] == (char)pattern(r->before);
	/* The bytes of the get are those that this rank put to the next rank. */
	CUDA(cudaMemcpy(host, r->target + base, LARGE + SMALL, cudaMemcpyDefault));
	for (i = 0; i < LARGE && holds; i++)
		holds = host[i] == (char)pattern(r->rank);
	for (i = 0; i < SMALL && holds && r->size > 1; i++)
		holds = host[LARGE + i] == (char)pattern(r->before);
	return holds;
}

/* Resets memory and signals of all ranks. */
static void begin_again(struct rank *r)
{
	void *mine = NULL;
	unsigned n;

	MUST(oriel_comm_barrier(r->comm));
	MUST(oriel_window_buffer(r->window, 0, &mine, NULL));
	CUDA(cudaMemset(mine, 0, LENGTH));
	CUDA(cudaMemset(r->target, 0, LENGTH));
	for (n = 0; n < STREAMS; n++)
		CUDA(cudaStreamSynchronize(r->stream[n]));
	MUST(oriel_window_reset_signals_on_stream(r->window, r->stream[0]));
	CUDA(cudaDeviceSynchronize());
	MUST(oriel_comm_barrier(r->comm));
}

static void test_in_order(struct rank *r, char *host)
{
	unsigned i;

	begin_again(r);
	for (i = 0; i < 20; i++)
		post_all(r, 0);
	CUDA(cudaStreamSynchronize(r->stream[0]));
	verdict(r, "every operation in a stream, 20 times", is_right(r, 0, 20, host));
}

static cudaGraphExec_t end_capture(struct rank *r, cudaStream_t s)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CUDA(cudaStreamEndCapture(s, &graph));
	/* Instantiating waits for kernels that may wait for a rank that still captures. */
	MUST(oriel_comm_barrier(r->comm));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

static void test_replays(struct rank *r, char *host)
{
	cudaGraphExec_t exec;
	unsigned i;

	begin_again(r);
	CUDA(cudaStreamBeginCapture(r->stream[0], cudaStreamCaptureModeThreadLocal));
	post_all(r, 0);
	exec = end_capture(r, r->stream[0]);
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < REPLAYS; i++)
		CUDA(cudaGraphLaunch(exec, r->stream[0]));
	CUDA(cudaStreamSynchronize(r->stream[0]));
	verdict(r, "a graph of every operation, replayed 1000 times",
		is_right(r, 0, REPLAYS, host));
	CUDA(cudaGraphExecDestroy(exec));
}

static void test_streams(struct rank *r, char *host)
{
	bool holds = true;
	unsigned i, n;

	begin_again(r);
	for (i = 0; i < 50; i++)
		for (n = 0; n < STREAMS; n++)
			post_all(r, (n + i) % STREAMS);
	for (n = 0; n < STREAMS; n++) {
		CUDA(cudaStreamSynchronize(r->stream[n]));
		holds = is_right(r, n, 50, host) && holds;
	}
	verdict(r, "four streams at once, each with ids of its own", holds);
}

/* Bytes from pageable memory, and from memory of another GPU, go by an engine. */
static void test_sources(struct rank *r, char *host)
{
	cudaStream_t s = r->stream[0];
	char *other = NULL, got[2 * SMALL];
	int gpus = 0, mine = 0;
	void *base = NULL;
	bool holds = true;
	unsigned i;

	MUST(oriel_window_buffer(r->window, 0, &base, NULL));
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaGetDevice(&mine));
	CUDA(cudaSetDevice((mine + 1) % gpus));
	CUDA(cudaMalloc((void **)&other, SMALL));
	CUDA(cudaMemset(other, pattern(r->rank), SMALL));
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaSetDevice(mine));
	begin_again(r);
	memset(host, pattern(r->rank), SMALL);
	MUST(oriel_window_put_signal_on_stream(r->window, r->next, 0, host, SMALL, 0, 1, s));
	MUST(oriel_window_put_signal_on_stream(r->window, r->next, SMALL, other, SMALL, 0, 1, s));
	MUST(oriel_window_wait_signal_next_on_stream(r->window, r->before, 0, 2, 0, s));
	CUDA(cudaStreamSynchronize(s));
	CUDA(cudaMemcpy(got, base, sizeof(got), cudaMemcpyDefault));
	for (i = 0; i < sizeof(got); i++)
		holds = holds && got[i] == (char)pattern(r->before);
	verdict(r, "sources that kernels do not reach", holds);
	MUST(oriel_comm_barrier(r->comm));
	CUDA(cudaFree(other));
}

static float run_timed(struct rank *r, cudaGraphExec_t exec, unsigned times)
{
	cudaEvent_t begin, end;
	float ms = 0;
	unsigned i;

	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	MUST(oriel_comm_barrier(r->comm));
	CUDA(cudaGraphLaunch(exec, r->stream[0]));
	CUDA(cudaEventRecord(begin, r->stream[0]));
	for (i = 0; i < times; i++)
		CUDA(cudaGraphLaunch(exec, r->stream[0]));
	CUDA(cudaEventRecord(end, r->stream[0]));
	CUDA(cudaStreamSynchronize(r->stream[0]));
	CUDA(cudaEventElapsedTime(&ms, begin, end));
	CUDA(cudaEventDestroy(begin));
	CUDA(cudaEventDestroy(end));
	return ms;
}

#define TURNS 50u /* in one graph */

/* Back and forth between ranks 0 and 1, in us for one way. */
static float time_turns(struct rank *r, size_t length, bool is_fused)
{
	cudaStream_t s = r->stream[0];
	cudaGraphExec_t exec;
	float ms = 0;
	unsigned i, k;

	CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
	for (i = 0; i < TURNS && 2 > r->rank; i++) {
		for (k = 0; k < 2; k++) {
			if (k != r->rank) {
				MUST(oriel_window_wait_signal_next_on_stream(r->window, !r->rank, 5,
									     1, 0, s));
				continue;
			}
			if (is_fused) {
				MUST(oriel_window_put_signal_on_stream(r->window, !r->rank, 0,
								       r->source, length, 5, 1, s));
				continue;
			}
			MUST(oriel_window_put_on_stream(r->window, !r->rank, 0, r->source, length,
							s));
			MUST(oriel_window_signal_on_stream(r->window, !r->rank, 5, ORIEL_SIGNAL_ADD,
							   1, s));
		}
	}
	exec = end_capture(r, s);
	MUST(oriel_comm_barrier(r->comm));
	ms = run_timed(r, exec, 10);
	CUDA(cudaGraphExecDestroy(exec));
	return ms * 1000 / (10 * TURNS * 2);
}

static void time_all(struct rank *r)
{
	static const size_t lengths[] = {8,     1024,   4096,    16384,  32768,
					 65536, 131072, 1048576, 4194304};
	float fused, parted;
	unsigned i;

	begin_again(r);
	if (r->size < 2)
		return;
	if (r->rank == 0)
		printf("\n%10s %22s %22s\n", "bytes", "put_signal, us one way",
		       "put and signal, us");
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		fused = time_turns(r, lengths[i], true);
		parted = time_turns(r, lengths[i], false);
		if (r->rank == 0)
			printf("%10zu %22.2f %22.2f\n", lengths[i], fused, parted);
	}
	fflush(stdout);
}

static void print_path(struct rank *r)
{
	struct oriel_peer peer = {};

	peer.size = sizeof(peer);
	MUST(oriel_comm_peer(r->comm, r->next, &peer));
	if (r->rank == 0)
		printf("ranks 0 and %u: %s\n", r->next, peer.gpu_reason);
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	char *host = (char *)malloc(PART);
	struct rank r = {};

	r.rank = bootstrap->rank;
	r.size = bootstrap->size;
	r.bootstrap = bootstrap;
	r.node = node;
	rank_open(&r);
	print_path(&r);
	test_in_order(&r, host);
	test_replays(&r, host);
	test_streams(&r, host);
	test_sources(&r, host);
	time_all(&r);
	rank_close(&r);
	free(host);
	return r.failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
