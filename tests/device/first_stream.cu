/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of the host on a window in GPU memory, posted in order into a stream and captured in a
 * graph. gpu_first calls its tests.
 */
#include <time.h>

#include "first_rank.h"

#define STREAM_ROUNDS 50
#define STREAM_REPLAYS 1000
#define STREAM_HALF (LENGTH / 2)

/* For operations of the host, in order with them in one stream: the next round begins. */
__global__ void round_kernel(uint32_t *round)
{
	++*round;
}

__global__ void fill_kernel(char *at, uint64_t length, uint32_t from, uint32_t to,
			    const uint32_t *round)
{
	write_pattern(at, length, from, to, *round);
}

__global__ void check_kernel(const char *at, uint64_t length, uint32_t from, uint32_t to,
			     const uint32_t *round, struct report *report)
{
	check_pattern(report, at, length, from, to, *round);
}

/*
 * One round of host operations in the stream: put with a signal, one word, get,
 * signals of all kinds, barriers, a message. Nothing here waits for the GPU.
 */
static void post_round(struct rank *r, uint64_t length)
{
	uint32_t next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	/* Both ends are in one stream: a message must fit the staging. */
	uint64_t message = length < 16384 ? length : 16384;
	uint64_t word = LENGTH - 64;
	char *inbox = NULL, *half = r->scratch + STREAM_HALF;
	cudaStream_t s = r->stream;

	must(r, "address",
	     oriel_window_peer_address(r->window, r->rank, 0, (void **)(void *)&inbox));
	round_kernel<<<1, 1, 0, s>>>(r->round);
	fill_kernel<<<1, THREADS, 0, s>>>(r->scratch, length, r->rank, next, r->round);
	must(r, "put", oriel_window_put_on_stream(r->window, next, 0, r->scratch, length / 2, s));
	must(r, "put_signal",
	     oriel_window_put_signal_on_stream(r->window, next, length / 2, r->scratch + length / 2,
					       length - length / 2, 20, 1, s));
	must(r, "wait_signal_next",
	     oriel_window_wait_signal_next_on_stream(r->window, before, 20, 1, LONG_NS, s));
	check_kernel<<<1, THREADS, 0, s>>>(inbox, length, before, r->rank, r->round, r->report);
	must(r, "barrier", oriel_window_barrier_on_stream(r->window, 4, LONG_NS, s));
	must(r, "get", oriel_window_get_on_stream(r->window, next, 0, half, length, s));
	check_kernel<<<1, THREADS, 0, s>>>(half, length, r->rank, next, r->round, r->report);
	must(r, "put_value", oriel_window_put_value_on_stream(r->window, next, word + 8, 77, s));
	must(r, "signal",
	     oriel_window_signal_on_stream(r->window, next, 21, ORIEL_SIGNAL_ADD, 1, s));
	must(r, "signal_all",
	     oriel_window_signal_all_on_stream(r->window, 22, ORIEL_SIGNAL_ADD, 1, s));
	must(r, "wait_signal_next",
	     oriel_window_wait_signal_next_on_stream(r->window, before, 21, 1, LONG_NS, s));
	must(r, "barrier", oriel_window_barrier_on_stream(r->window, 4, LONG_NS, s));
	if (r->size > 1) {
		must(r, "send",
		     oriel_window_send_on_stream(r->window, next, 9, r->scratch, message, LONG_NS,
						 s));
		must(r, "recv",
		     oriel_window_recv_on_stream(r->window, before, 9, half, message, LONG_NS, s));
		check_kernel<<<1, THREADS, 0, s>>>(half, message, before, r->rank, r->round,
						   r->report);
	}
	must_cuda(r, "round", cudaGetLastError());
}

/* @rounds have been posted since the signals were reset. */
static void finish_rounds(struct rank *r, const char *claim, uint64_t rounds, uint64_t least)
{
	uint32_t before = (r->rank + r->size - 1) % r->size;
	uint64_t value[2] = {0, 0};
	uint64_t *mine = NULL;

	/* Signal 22 holds what all others have added; signal 21 what the one before has. */
	must(r, "wait_signal",
	     oriel_window_wait_signal_on_stream(r->window, 22, ORIEL_EQ, rounds * (r->size - 1),
						LONG_NS, r->stream));
	must(r, "wait_signal_from",
	     oriel_window_wait_signal_from_on_stream(r->window, before, 21, ORIEL_EQ, rounds,
						     LONG_NS, r->stream));
	finish(r, claim, least);
	must(r, "address",
	     oriel_window_peer_address(r->window, r->rank, LENGTH - 64, (void **)(void *)&mine));
	must_cuda(r, "word", cudaMemcpyAsync(value, mine, 16, cudaMemcpyDefault, r->stream));
	must_cuda(r, "word", cudaStreamSynchronize(r->stream));
	verdict(r, claim, value[1] == 77, "put_value did not arrive");
	must(r, "reset_signals", oriel_window_reset_signals_on_stream(r->window, r->stream));
	must_cuda(r, "reset_signals", cudaStreamSynchronize(r->stream));
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
}

void test_streams(struct rank *r)
{
	uint64_t lengths[] = {0, 8, 77, 4096, 65536, STREAM_HALF / 2};
	uint64_t least = 0;

	report_clear(r);
	must_cuda(r, "round", cudaMemset(r->round, 0, sizeof(*r->round)));
	must(r, "reset_signals", oriel_window_reset_signals_on_stream(r->window, r->stream));
	must_cuda(r, "reset_signals", cudaStreamSynchronize(r->stream));
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	for (int i = 0; i < STREAM_ROUNDS; i++) {
		post_round(r, lengths[i % 6]);
		least += 2 * lengths[i % 6];
	}
	finish_rounds(r, "host operations are done in the order of their stream", STREAM_ROUNDS,
		      least);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Fewer replays if each operation takes the software HCA some ten us. */
static int count_replays(struct rank *r)
{
	enum oriel_path path = ORIEL_PATH_SELF;

	must(r, "path", oriel_comm_path(r->comm, (r->rank + r->size / 2) % r->size, &path));
	return path == ORIEL_PATH_RDMA ? STREAM_REPLAYS / 20 : STREAM_REPLAYS;
}

void test_stream_graph(struct rank *r)
{
	int replays = count_replays(r);
	cudaGraphExec_t executable;
	cudaGraph_t graph;
	double start;

	report_clear(r);
	must_cuda(r, "capture", cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeGlobal));
	post_round(r, 4096);
	must_cuda(r, "capture", cudaStreamEndCapture(r->stream, &graph));
	/* The strictest mode forbids calls to all threads: so none may still capture here. */
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	must_cuda(r, "graph", cudaGraphInstantiate(&executable, graph, 0));
	must_cuda(r, "graph", cudaGraphUpload(executable, r->stream));
	must_cuda(r, "graph", cudaStreamSynchronize(r->stream));
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	start = now_us();
	for (int i = 0; i < replays; i++)
		must_cuda(r, "graph", cudaGraphLaunch(executable, r->stream));
	must_cuda(r, "graph", cudaStreamSynchronize(r->stream));
	if (r->rank == 0)
		printf("     %.1f us for each round in a graph\n", (now_us() - start) / replays);
	finish_rounds(r, "captured host operations are done at each launch of the graph",
		      (uint64_t)replays, (uint64_t)replays * 4096 * (r->size > 1 ? 3 : 2));
	/* Freeing and allocating wait for kernels of all ranks of the GPU, see docs/rdma.md. */
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	must_cuda(r, "graph", cudaGraphExecDestroy(executable));
	must_cuda(r, "graph", cudaGraphDestroy(graph));
}
