/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows in GPU memory, kernels that operate on them: every rank a thread (gpu_first THREADS
 * [NODES]) or a process (oriel run -n N [--nodes M] gpu_first). Rank r uses GPU r modulo the
 * number of GPUs; kernels reach ranks of other virtual nodes through the software HCA. Prints a
 * line for each claim and ends with 1 if one does not hold.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#include "pieces.h"
#include "ranks.h"

#define LENGTH (1u << 20) /* of buffer 0 */
#define THREADS 256
#define ROUNDS 20u
#define LONG_NS 20000000000ull
#define BRIEF_NS 3000000000ull

/* The report of a kernel; in pinned memory. */
struct report {
	int32_t status;   /* the first that was not ORIEL_OK */
	uint32_t line;    /* where */
	uint64_t wrong;   /* bytes or words that differ */
	uint64_t checked; /* those compared */
};

struct rank {
	unsigned rank, size;
	int device;
	const char *node; /* of a thread; NULL: not said */
	const struct oriel_bootstrap *bootstrap;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window dev;
	cudaStream_t stream;
	struct report *report;
	char *scratch;   /* of the GPU, LENGTH */
	uint32_t *round; /* of the GPU */
	unsigned failures;
};

static const char *host_reason(enum oriel_status status)
{
	return oriel_last_status() == status ? oriel_last_error() : oriel_status_text(status);
}

static void verdict(struct rank *r, const char *claim, bool holds, const char *why)
{
	if (!holds)
		r->failures++;
	if (holds && r->rank != 0)
		return;
	printf("%s rank %u of %u (GPU %d): %s%s%s\n", holds ? "PASS" : "FAIL", r->rank, r->size,
	       r->device, claim, holds ? "" : ": ", holds ? "" : why);
	fflush(stdout);
}

static void must(struct rank *r, const char *what, enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	printf("FAIL rank %u of %u (GPU %d): %s: %s: %s\n", r->rank, r->size, r->device, what,
	       oriel_status_name(status), host_reason(status));
	fflush(stdout);
	exit(1);
}

static void must_cuda(struct rank *r, const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	printf("FAIL rank %u of %u (GPU %d): %s: %s\n", r->rank, r->size, r->device, what,
	       cudaGetErrorString(error));
	fflush(stdout);
	exit(1);
}

/* This is the byte at @i of the message of @from to @to in @round. */
static __device__ unsigned char pattern(uint32_t from, uint32_t to, uint32_t round, uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + from * 1000003ull + to * 7919ull + round;

	return (unsigned char)(x >> 29 ^ x);
}

static __device__ void write_pattern(char *at, uint64_t length, uint32_t from, uint32_t to,
				     uint32_t round)
{
	for (uint64_t i = threadIdx.x; i < length; i += blockDim.x)
		at[i] = (char)pattern(from, to, round, i);
	__syncthreads();
}

static __device__ void check_pattern(struct report *report, const char *at, uint64_t length,
				     uint32_t from, uint32_t to, uint32_t round)
{
	__shared__ unsigned long long wrong;

	__syncthreads();
	if (threadIdx.x == 0)
		wrong = 0;
	__syncthreads();
	for (uint64_t i = threadIdx.x; i < length; i += blockDim.x)
		if ((unsigned char)at[i] != pattern(from, to, round, i))
			atomicAdd(&wrong, 1ull);
	__syncthreads();
	if (threadIdx.x == 0) {
		report->wrong += wrong;
		report->checked += length;
	}
	__syncthreads();
}

/* All threads pass the same; true: the kernel ends. */
static __device__ bool failed(struct report *report, int64_t result, uint32_t line)
{
	if (result >= 0)
		return false;
	if (threadIdx.x == 0 && report->status == ORIEL_OK) {
		report->status = (int32_t)result;
		report->line = line;
	}
	return true;
}

#define TRY(call)                                     \
	do {                                          \
		if (failed(report, (call), __LINE__)) \
			return;                       \
	} while (0)

/* Each rank puts to all others, signals signal 0, and checks the bytes that arrived. */
__global__ void put_signal_kernel(struct oriel_dev_window w, char *scratch, uint64_t length,
				  uint32_t round, struct report *report)
{
	struct oriel_dev_group g = oriel_dev_block();

	for (uint32_t i = 1; i < w.ranks; i++) {
		uint32_t peer = (w.rank + i) % w.ranks;

		write_pattern(scratch, length, w.rank, peer, round);
		TRY(oriel_dev_put_signal(&w, g, peer, w.rank * length, scratch, length, 0, 1));
		TRY(oriel_dev_drain(&w, g, 0));
	}
	for (uint32_t i = 1; i < w.ranks; i++) {
		uint32_t peer = (w.rank + i) % w.ranks;
		const char *mine = (const char *)oriel_dev_address(&w, w.rank, peer * length);

		TRY(oriel_dev_wait_signal_next(&w, g, peer, 0, 1, LONG_NS));
		check_pattern(report, mine, length, peer, w.rank, round);
	}
	/* No rank overwrites bytes that are still being read. */
	TRY(oriel_dev_barrier(&w, g, 0, LONG_NS));
}

/* Barriers order the puts of all, over many rounds in one launch. */
__global__ void barrier_kernel(struct oriel_dev_window w, uint32_t rounds, struct report *report)
{
	struct oriel_dev_group g = oriel_dev_block();
	uint32_t next = (w.rank + 1) % w.ranks, before = (w.rank + w.ranks - 1) % w.ranks;
	const uint64_t *mine = (const uint64_t *)oriel_dev_address(&w, w.rank, 0);

	for (uint32_t round = 1; round <= rounds; round++) {
		int64_t put = 0;

		if (threadIdx.x == 0)
			put = oriel_dev_put_value(&w, next, 8ull * w.rank, round);
		TRY(oriel_dev_vote(g, put < 0 ? (enum oriel_status)put : ORIEL_OK));
		TRY(oriel_dev_barrier(&w, g, 1, LONG_NS));
		if (threadIdx.x == 0) {
			report->wrong += oriel_dev_load_relaxed(mine + before) != round;
			report->checked++;
		}
		TRY(oriel_dev_barrier(&w, g, 1, LONG_NS));
	}
	TRY(oriel_dev_barrier_flat(&w, g, 1, LONG_NS));
	if (w.ranks % 2 == 0)
		TRY(oriel_dev_barrier_peer(&w, g, w.rank ^ 1u, 2, LONG_NS));
}

/* Reads the bytes of a peer. */
__global__ void get_kernel(struct oriel_dev_window w, char *scratch, uint64_t length,
			   struct report *report)
{
	struct oriel_dev_group g = oriel_dev_block();
	uint32_t next = (w.rank + 1) % w.ranks;
	char *mine = (char *)oriel_dev_address(&w, w.rank, 0);

	write_pattern(mine, length, w.rank, w.rank, 77);
	TRY(oriel_dev_barrier(&w, g, 0, LONG_NS));
	TRY(oriel_dev_wait_local(&w, g, next, oriel_dev_get(&w, g, next, 0, scratch, length), 0));
	check_pattern(report, scratch, length, next, next, 77);
	TRY(oriel_dev_barrier(&w, g, 0, LONG_NS));
}

/*
 * All ranks add to words of rank 0, one for each path, since the atomics of NICs and GPUs are
 * not atomic with each other; counters count the puts.
 */
__global__ void atomic_kernel(struct oriel_dev_window w, char *scratch, struct report *report)
{
	struct oriel_dev_group g = oriel_dev_block();
	uint64_t at = LENGTH - 64, old = 0, seen = 0;
	uint32_t next = (w.rank + 1) % w.ranks;

	TRY(oriel_dev_barrier(&w, g, 0, LONG_NS));
	TRY(oriel_dev_vote(g, oriel_dev_fetch_add(&w, 0, at + 8 * oriel_dev_path(&w, 0), 3, &old)));
	TRY(oriel_dev_barrier(&w, g, 0, LONG_NS));
	if (w.rank == 0 && threadIdx.x == 0) {
		const uint64_t *word = (const uint64_t *)oriel_dev_address(&w, 0, at);

		report->wrong += oriel_dev_load_relaxed(word + ORIEL_PATH_SELF) +
					 oriel_dev_load_relaxed(word + ORIEL_PATH_MAPPED) +
					 oriel_dev_load_relaxed(word + ORIEL_PATH_RDMA) !=
				 3ull * w.ranks * blockDim.x;
		report->checked++;
	}
	TRY(oriel_dev_put_counter(&w, g, next, at + 40, scratch, 8, 1));
	TRY(oriel_dev_wait_counter(&w, g, next, 1, ORIEL_GE, 1, LONG_NS));
	TRY(oriel_dev_read_counter(&w, next, 1, &seen));
	if (threadIdx.x == 0) {
		report->wrong += seen != 1;
		report->checked++;
	}
	TRY(oriel_dev_signal_all(&w, g, 5, ORIEL_SIGNAL_ADD, 2));
	TRY(oriel_dev_wait_signal(&w, g, 5, ORIEL_GE, 2ull * (w.ranks - 1), LONG_NS));
	TRY(oriel_dev_barrier(&w, g, 0, LONG_NS));
}

/* Block 0 sends to the next rank, block 1 receives from the one before. */
__global__ void channel_kernel(struct oriel_dev_window w, char *scratch, uint64_t length,
			       uint32_t messages, struct report *reports)
{
	struct oriel_dev_group g = oriel_dev_block();
	uint32_t next = (w.rank + 1) % w.ranks, before = (w.rank + w.ranks - 1) % w.ranks;
	struct report *report = reports + blockIdx.x;
	char *memory = scratch + blockIdx.x * (LENGTH / 2);

	for (uint32_t m = 0; m < messages; m++) {
		if (blockIdx.x == 0) {
			write_pattern(memory, length, w.rank, next, m);
			TRY(oriel_dev_send(&w, g, next, 3, memory, length, LONG_NS));
		} else {
			TRY(oriel_dev_recv(&w, g, before, 3, memory, length, LONG_NS));
			check_pattern(report, memory, length, before, w.rank, m);
		}
	}
}

/* A rejected argument leaves a record for the host. */
__global__ void rejected_kernel(struct oriel_dev_window w, char *scratch, struct report *report)
{
	int64_t result = oriel_dev_put(&w, oriel_dev_thread(), 0, LENGTH, scratch, 8);

	report->wrong += result != ORIEL_ERR_RANGE;
	report->checked++;
}

/* No rank signals signal 9. */
__global__ void stuck_kernel(struct oriel_dev_window w, struct report *report)
{
	report->status =
		oriel_dev_wait_signal_from(&w, oriel_dev_thread(), w.rank, 9, ORIEL_GE, 1, 0);
}

/* Rank 0 waits until all others are about to wait for ever. */
__global__ void gather_kernel(struct oriel_dev_window w, struct report *report)
{
	report->status =
		oriel_dev_wait_signal(&w, oriel_dev_thread(), 8, ORIEL_GE, w.ranks - 1, LONG_NS);
}

/* Waits for ever, after it has signalled rank 0; only a broken communicator ends it. */
__global__ void forever_kernel(struct oriel_dev_window w, struct report *report)
{
	if (w.rank != 0)
		oriel_dev_signal(&w, oriel_dev_thread(), 0, 8, ORIEL_SIGNAL_ADD, 1);
	report->status = oriel_dev_wait_signal_from(&w, oriel_dev_thread(), w.rank, 9, ORIEL_GE, 1,
						    ORIEL_FOREVER);
}

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

static void report_clear(struct rank *r)
{
	memset(r->report, 0, 2 * sizeof(*r->report));
}

/* Wait for the stream and judge what its kernels reported. */
static void finish(struct rank *r, const char *claim, uint64_t least)
{
	char why[256];
	bool holds;

	must_cuda(r, claim, cudaGetLastError());
	must_cuda(r, claim, cudaStreamSynchronize(r->stream));
	for (int i = 0; i < 2; i++) {
		const struct report *report = r->report + i;

		if (report->status == ORIEL_OK && !report->wrong)
			continue;
		snprintf(why, sizeof(why), "%s at line %u, %llu of %llu wrong",
			 oriel_status_name((enum oriel_status)report->status), report->line,
			 (unsigned long long)report->wrong, (unsigned long long)report->checked);
		verdict(r, claim, false, why);
		return;
	}
	holds = r->report[0].checked + r->report[1].checked >= least;
	verdict(r, claim, holds, "too little was checked");
}

static void test_put_signal(struct rank *r, const char *claim)
{
	uint64_t lengths[] = {8, 77, 4096, LENGTH / 8};
	uint64_t least = 0;

	report_clear(r);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint64_t length = lengths[round % 4];

		if (length * r->size > LENGTH - 4096)
			length = 4096;
		least += length * (r->size - 1);
		put_signal_kernel<<<1, THREADS, 0, r->stream>>>(r->dev, r->scratch, length, round,
								r->report);
	}
	finish(r, claim, least);
}

static void test_barrier(struct rank *r)
{
	report_clear(r);
	barrier_kernel<<<1, THREADS, 0, r->stream>>>(r->dev, 100, r->report);
	finish(r, "barriers order the puts of all ranks", 100);
}

static void test_get(struct rank *r)
{
	report_clear(r);
	get_kernel<<<1, THREADS, 0, r->stream>>>(r->dev, r->scratch, 100003, r->report);
	finish(r, "a get reads the peer", 100003);
}

static void test_atomics(struct rank *r)
{
	report_clear(r);
	atomic_kernel<<<1, THREADS, 0, r->stream>>>(r->dev, r->scratch, r->report);
	finish(r, "atomics, counters and signals add up", r->rank ? 1 : 2);
}

static void test_channels(struct rank *r)
{
	if (r->size < 2)
		return;
	report_clear(r);
	channel_kernel<<<2, THREADS, 0, r->stream>>>(r->dev, r->scratch, 200001, 10, r->report);
	finish(r, "channels carry streams in order", 2000010);
}

static void test_rejected(struct rank *r)
{
	struct oriel_dev_fault fault;
	enum oriel_status status;

	report_clear(r);
	rejected_kernel<<<1, 1, 0, r->stream>>>(r->dev, r->scratch, r->report);
	finish(r, "kernels check arguments", 1);
	status = oriel_window_fault(r->window, &fault);
	verdict(r, "the record of a rejected argument reaches the host",
		status == ORIEL_OK && fault.status == ORIEL_ERR_RANGE &&
			strstr(oriel_last_error(), "beyond the 1048576 bytes"),
		status == ORIEL_OK ? oriel_last_error() : oriel_status_name(status));
	verdict(r, "and the host takes it out",
		oriel_window_fault(r->window, &fault) == ORIEL_AGAIN, "the record is still there");
}

/* A second launch of everything through a graph, which knows nothing of rounds. */
static void test_graph(struct rank *r)
{
	cudaGraphExec_t executable;
	cudaGraph_t graph;

	report_clear(r);
	must_cuda(r, "capture",
		  cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal));
	put_signal_kernel<<<1, THREADS, 0, r->stream>>>(r->dev, r->scratch, 4096, 5, r->report);
	must_cuda(r, "capture", cudaStreamEndCapture(r->stream, &graph));
	must_cuda(r, "graph", cudaGraphInstantiate(&executable, graph, 0));
	must_cuda(r, "graph", cudaGraphUpload(executable, r->stream));
	must_cuda(r, "graph", cudaStreamSynchronize(r->stream));
	/* An allocation would wait for a peer's graph, which waits for this one. */
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	for (int i = 0; i < 10; i++)
		must_cuda(r, "graph", cudaGraphLaunch(executable, r->stream));
	finish(r, "a graph can be launched again and again", 40960ull * (r->size - 1));
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	must_cuda(r, "graph", cudaGraphExecDestroy(executable));
	must_cuda(r, "graph", cudaGraphDestroy(graph));
}

#define STREAM_ROUNDS 50
#define STREAM_REPLAYS 1000
#define STREAM_HALF (LENGTH / 2)

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
	must(r, "put", oriel_window_put(r->window, next, 0, r->scratch, length / 2, s));
	must(r, "put_signal",
	     oriel_window_put_signal(r->window, next, length / 2, r->scratch + length / 2,
				     length - length / 2, 20, 1, s));
	must(r, "wait_signal_next",
	     oriel_window_wait_signal_next(r->window, before, 20, 1, LONG_NS, s));
	check_kernel<<<1, THREADS, 0, s>>>(inbox, length, before, r->rank, r->round, r->report);
	must(r, "barrier", oriel_window_barrier(r->window, 4, LONG_NS, s));
	must(r, "get", oriel_window_get(r->window, next, 0, half, length, s));
	check_kernel<<<1, THREADS, 0, s>>>(half, length, r->rank, next, r->round, r->report);
	must(r, "put_value", oriel_window_put_value(r->window, next, word + 8, 77, s));
	must(r, "signal", oriel_window_signal(r->window, next, 21, ORIEL_SIGNAL_ADD, 1, s));
	must(r, "signal_all", oriel_window_signal_all(r->window, 22, ORIEL_SIGNAL_ADD, 1, s));
	must(r, "wait_signal_next",
	     oriel_window_wait_signal_next(r->window, before, 21, 1, LONG_NS, s));
	must(r, "barrier", oriel_window_barrier(r->window, 4, LONG_NS, s));
	if (r->size > 1) {
		must(r, "send",
		     oriel_window_send(r->window, next, 9, r->scratch, message, LONG_NS, s));
		must(r, "recv", oriel_window_recv(r->window, before, 9, half, message, LONG_NS, s));
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
	     oriel_window_wait_signal(r->window, 22, ORIEL_EQ, rounds * (r->size - 1), LONG_NS,
				      r->stream));
	must(r, "wait_signal_from",
	     oriel_window_wait_signal_from(r->window, before, 21, ORIEL_EQ, rounds, LONG_NS,
					   r->stream));
	finish(r, claim, least);
	must(r, "address",
	     oriel_window_peer_address(r->window, r->rank, LENGTH - 64, (void **)(void *)&mine));
	must_cuda(r, "word", cudaMemcpyAsync(value, mine, 16, cudaMemcpyDefault, r->stream));
	must_cuda(r, "word", cudaStreamSynchronize(r->stream));
	verdict(r, claim, value[1] == 77, "put_value did not arrive");
	must(r, "reset_signals", oriel_window_reset_signals(r->window, r->stream));
	must_cuda(r, "reset_signals", cudaStreamSynchronize(r->stream));
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
}

static void test_streams(struct rank *r)
{
	uint64_t lengths[] = {0, 8, 77, 4096, 65536, STREAM_HALF / 2};
	uint64_t least = 0;

	report_clear(r);
	must_cuda(r, "round", cudaMemset(r->round, 0, sizeof(*r->round)));
	must(r, "reset_signals", oriel_window_reset_signals(r->window, r->stream));
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

static void test_stream_graph(struct rank *r)
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

/* Buffers of the application: each kind of memory is put to and read back. */
static void test_buffer(struct rank *r, void *memory, const char *claim)
{
	struct oriel_dev_window whole = r->dev;
	enum oriel_status status;
	uint32_t number = 0;

	status = oriel_window_share(r->window, memory, 65536, &number);
	verdict(r, claim, status == ORIEL_OK, status == ORIEL_OK ? "" : host_reason(status));
	if (status != ORIEL_OK)
		return;
	/*
	 * The kernels use buffer 0: this one becomes that, once the handle has no inline peers.
	 */
	whole.table += (size_t)number * r->size;
	whole.buffers = 1;
	memset(whole.inline_peers, 0, sizeof(whole.inline_peers));
	report_clear(r);
	for (uint32_t round = 0; round < 4; round++)
		put_signal_kernel<<<1, THREADS, 0, r->stream>>>(whole, r->scratch, 4096, round,
								r->report);
	finish(r, claim, 4ull * 4096 * (r->size - 1));
}

static void test_buffers(struct rank *r, char **legacy, void **own, void **host,
			 const struct pieces *pieces)
{
	must_cuda(r, "cudaMalloc", cudaMalloc((void **)legacy, 1 << 20));
	must(r, "oriel_memory_alloc", oriel_memory_alloc(65536, ORIEL_MEMORY_DEVICE, own));
	must(r, "oriel_memory_alloc", oriel_memory_alloc(65536, 0, host));
	test_buffer(r, *legacy + 4096 * 3, "a part of memory of cudaMalloc() is a buffer");
	test_buffer(r, *own, "memory of oriel_memory_alloc() on the GPU is a buffer");
	test_buffer(r, *host, "memory of oriel_memory_alloc() on the host is a buffer");
	/* The message of rank 0 begins in the one and ends in the other. */
	test_buffer(r, pieces->base + pieces->piece - 2048,
		    "memory that is mapped from two allocations is a buffer");
	test_buffer(r, r->rank % 2 ? *own : *host, "kinds of memory may differ between ranks");
}

static void test_mistakes(struct rank *r)
{
	struct oriel_window_attr attr = {};
	struct oriel_window *none = NULL;
	enum oriel_status status;
	static char pageable[4096];
	uint32_t number;

	status = oriel_window_share(r->window, pageable, sizeof(pageable), &number);
	verdict(r, "pageable memory is no buffer of a window on GPUs",
		status == ORIEL_ERR_INVALID && strstr(oriel_last_error(), "host memory"),
		oriel_last_error());
	attr.size = sizeof(attr);
	attr.buffer = r->scratch;
	attr.length = 4096;
	status = oriel_window_create(r->comm, &attr, &none);
	verdict(r, "memory of a GPU is no buffer of a window in host memory",
		status == ORIEL_ERR_INVALID && strstr(oriel_last_error(), "ORIEL_WINDOW_DEVICE"),
		oriel_last_error());
	attr.buffer = NULL;
	attr.flags = r->rank == 0 ? ORIEL_WINDOW_DEVICE : 0;
	status = oriel_window_create(r->comm, &attr, &none);
	if (r->size > 1)
		verdict(r, "all ranks must have their window in the same kind of memory",
			status == ORIEL_ERR_MISMATCH, oriel_last_error());
	else
		oriel_window_destroy(none);
	status = oriel_window_put(r->window, 0, 0, pageable, 8, NULL);
	verdict(r, "the host cannot put into a window on GPUs without a stream", status < 0,
		oriel_status_name(status));
}

static void open_window(struct rank *r, uint64_t timeout_ns)
{
	struct oriel_comm_attr comm = {};
	struct oriel_window_attr window = {};

	comm.size = sizeof(comm);
	comm.flags = ORIEL_COMM_GPU;
	comm.timeout_ns = timeout_ns;
	comm.node = r->node;
	must(r, "oriel_comm_create", oriel_comm_create(r->bootstrap, &comm, &r->comm));
	window.size = sizeof(window);
	window.length = LENGTH;
	window.flags = ORIEL_WINDOW_DEVICE;
	must(r, "oriel_window_create", oriel_window_create(r->comm, &window, &r->window));
	must(r, "oriel_window_device", oriel_window_device(r->window, &r->dev));
}

/*
 * Each kernel once, with a window that all operations reject: the setup of a first launch
 * (local memory, say) may have to wait for the kernels that run on the GPU, and those of
 * another rank there would wait for this one.
 */
static void warm_up(struct rank *r)
{
	struct oriel_dev_window closed = r->dev;

	closed.magic = 0;
	closed.ranks = 1;
	put_signal_kernel<<<1, THREADS, 0, r->stream>>>(closed, r->scratch, 8, 0, r->report);
	barrier_kernel<<<1, THREADS, 0, r->stream>>>(closed, 0, r->report);
	get_kernel<<<1, THREADS, 0, r->stream>>>(closed, r->scratch, 0, r->report);
	atomic_kernel<<<1, THREADS, 0, r->stream>>>(closed, r->scratch, r->report);
	channel_kernel<<<2, THREADS, 0, r->stream>>>(closed, r->scratch, 8, 1, r->report);
	rejected_kernel<<<1, 1, 0, r->stream>>>(closed, r->scratch, r->report);
	stuck_kernel<<<1, 1, 0, r->stream>>>(closed, r->report);
	gather_kernel<<<1, 1, 0, r->stream>>>(closed, r->report);
	forever_kernel<<<1, 1, 0, r->stream>>>(closed, r->report);
	must_cuda(r, "warm up", cudaGetLastError());
	must_cuda(r, "warm up", cudaStreamSynchronize(r->stream));
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
}

static void close_window(struct rank *r)
{
	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
	r->window = NULL;
	r->comm = NULL;
}

static void print_peers(struct rank *r)
{
	for (unsigned i = 0; i < r->size && r->rank == 0; i++) {
		struct oriel_peer peer;

		must(r, "oriel_comm_peer", oriel_comm_peer(r->comm, i, &peer));
		printf("     rank 0 to rank %u: %s\n", i, peer.reason);
	}
}

/* No rank ends this wait: a kernel breaks the communicator, and its peers are notified. */
static void test_blame(struct rank *r)
{
	struct oriel_health health;
	char text[256];

	open_window(r, BRIEF_NS);
	report_clear(r);
	if (r->rank == 0)
		stuck_kernel<<<1, 1, 0, r->stream>>>(r->dev, r->report);
	else
		forever_kernel<<<1, 1, 0, r->stream>>>(r->dev, r->report);
	must_cuda(r, "stuck kernel", cudaGetLastError());
	must_cuda(r, "stuck kernel", cudaStreamSynchronize(r->stream));
	verdict(r, "a wait that no signal ends ends in time, on all ranks",
		r->report->status == ORIEL_ERR_TIMEOUT,
		oriel_status_name((enum oriel_status)r->report->status));
	must(r, "oriel_comm_health", oriel_comm_health(r->comm, &health));
	oriel_health_text(&health, text, sizeof(text));
	verdict(r, "the health names the wait that timed out",
		health.status == ORIEL_ERR_TIMEOUT &&
			strcmp(health.what, "wait_signal_from") == 0 && health.id == 9 &&
			health.object == 1 && health.age_ns >= BRIEF_NS,
		text);
	verdict(r, "and every call returns that status",
		oriel_comm_barrier(r->comm) == ORIEL_ERR_TIMEOUT, "the barrier succeeded");
	close_window(r);
}

/* A limit of the host's own passes in a stream: only the communicator can report it. */
static void test_stream_limit(struct rank *r)
{
	open_window(r, LONG_NS);
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	must(r, "wait_signal_from",
	     oriel_window_wait_signal_from(r->window, r->rank, 9, ORIEL_GE, 1,
					   r->rank ? ORIEL_FOREVER : 100000000, r->stream));
	must_cuda(r, "limit", cudaStreamSynchronize(r->stream));
	verdict(r, "a limit that passes in a stream breaks the communicator, for all ranks",
		oriel_window_barrier(r->window, 0, 0, r->stream) == ORIEL_ERR_TIMEOUT,
		"the barrier succeeded");
	close_window(r);
}

/* An abort by the host of rank 0 ends kernels everywhere. */
static void test_abort(struct rank *r)
{
	open_window(r, LONG_NS);
	report_clear(r);
	if (r->rank == 0) {
		gather_kernel<<<1, 1, 0, r->stream>>>(r->dev, r->report);
		finish(r, "all ranks wait in kernels", 0);
	}
	forever_kernel<<<1, 1, 0, r->stream>>>(r->dev, r->report);
	must_cuda(r, "abort", cudaGetLastError());
	if (r->rank == 0)
		oriel_comm_abort(r->comm, "a test");
	must_cuda(r, "abort", cudaStreamSynchronize(r->stream));
	verdict(r, "an abort ends waiting kernels on all ranks",
		r->report->status == ORIEL_ERR_ABORTED,
		oriel_status_name((enum oriel_status)r->report->status));
	close_window(r);
}

static void cycle_windows(struct rank *r)
{
	struct oriel_window_attr attr = {};
	size_t before, after, total;

	attr.size = sizeof(attr);
	attr.length = LENGTH;
	attr.flags = ORIEL_WINDOW_DEVICE;
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	must_cuda(r, "cudaMemGetInfo", cudaMemGetInfo(&before, &total));
	for (int i = 0; i < 100; i++) {
		struct oriel_window *window;

		must(r, "oriel_window_create", oriel_window_create(r->comm, &attr, &window));
		oriel_window_destroy(window);
	}
	must(r, "oriel_comm_barrier", oriel_comm_barrier(r->comm));
	must_cuda(r, "cudaMemGetInfo", cudaMemGetInfo(&after, &total));
	/* Other ranks on this GPU may be ahead or behind by a window. */
	verdict(r, "a hundred windows leave no memory behind", after + (64u << 20) >= before,
		"less memory is free than before");
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct rank r = {};
	void *own = NULL, *host = NULL;
	struct pieces pieces;
	char *legacy = NULL;
	int devices = 0;

	r.rank = bootstrap->rank;
	r.size = bootstrap->size;
	r.bootstrap = bootstrap;
	r.node = node;
	must_cuda(&r, "cudaGetDeviceCount", cudaGetDeviceCount(&devices));
	r.device = (int)(r.rank % (unsigned)devices);
	must_cuda(&r, "cudaSetDevice", cudaSetDevice(r.device));
	must_cuda(&r, "cudaFree", cudaFree(NULL));
	must_cuda(&r, "stream", cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
	must_cuda(&r, "report",
		  cudaHostAlloc((void **)&r.report, 2 * sizeof(*r.report), cudaHostAllocPortable));
	must_cuda(&r, "scratch", cudaMalloc((void **)&r.scratch, LENGTH));
	must_cuda(&r, "round", cudaMalloc((void **)&r.round, sizeof(*r.round)));

	pieces = pieces_open(r.device);
	open_window(&r, LONG_NS);
	print_peers(&r);
	warm_up(&r);
	test_put_signal(&r, "put_signal brings all bytes");
	test_barrier(&r);
	test_get(&r);
	test_atomics(&r);
	test_channels(&r);
	test_rejected(&r);
	test_graph(&r);
	test_streams(&r);
	test_stream_graph(&r);
	test_buffers(&r, &legacy, &own, &host, &pieces);
	test_mistakes(&r);
	cycle_windows(&r);
	test_put_signal(&r, "and the first window still works");
	close_window(&r);
	test_blame(&r);
	test_stream_limit(&r);
	test_abort(&r);

	oriel_memory_free(own);
	oriel_memory_free(host);
	must_cuda(&r, "end", cudaDeviceSynchronize());
	printf("%s rank %u of %u: %u claims do not hold\n", r.failures ? "FAIL" : "PASS", r.rank,
	       r.size, r.failures);
	return r.failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
