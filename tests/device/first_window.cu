/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that operate on a window in GPU memory, on its own buffer and on those it shares, and
 * graphs of them. gpu_first calls its tests.
 */
#include "first_rank.h"
#include "pieces.h"

#define ROUNDS 20u

/* Each rank puts to all others, signals signal 0, and checks the bytes that arrived. */
__global__ void put_signal_kernel(struct oriel_dev_window w, char *scratch, uint64_t length,
				  uint32_t round, struct report *report)
{
	struct oriel_dev_group g = oriel_dev_block();

	for (uint32_t i = 1; i < w.ranks; i++) {
		uint32_t peer = (w.rank + i) % w.ranks;

		write_pattern(scratch, length, w.rank, peer, round);
		TRY(oriel_dev_put_signal(&w, g, peer, w.rank * length, scratch, length, 0, 1,
					 NULL));
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
		enum oriel_status put = ORIEL_OK;

		if (threadIdx.x == 0)
			put = oriel_dev_put_value(&w, next, 8ull * w.rank, round, NULL);
		TRY(oriel_dev_vote(g, put));
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
	struct oriel_dev_ticket ticket = {0, 0, 0};

	write_pattern(mine, length, w.rank, w.rank, 77);
	TRY(oriel_dev_barrier(&w, g, 0, LONG_NS));
	TRY(oriel_dev_get(&w, g, next, 0, scratch, length, &ticket));
	TRY(oriel_dev_wait_local(&w, g, ticket, 0));
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
	TRY(oriel_dev_put_counter(&w, g, next, at + 40, scratch, 8, 1, NULL));
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
	enum oriel_status result =
		oriel_dev_put(&w, oriel_dev_thread(), 0, LENGTH, scratch, 8, NULL);

	report->wrong += result != ORIEL_ERR_RANGE;
	report->checked++;
}

void warm_up_window(struct rank *r, const struct oriel_dev_window *closed)
{
	put_signal_kernel<<<1, THREADS, 0, r->stream>>>(*closed, r->scratch, 8, 0, r->report);
	barrier_kernel<<<1, THREADS, 0, r->stream>>>(*closed, 0, r->report);
	get_kernel<<<1, THREADS, 0, r->stream>>>(*closed, r->scratch, 0, r->report);
	atomic_kernel<<<1, THREADS, 0, r->stream>>>(*closed, r->scratch, r->report);
	channel_kernel<<<2, THREADS, 0, r->stream>>>(*closed, r->scratch, 8, 1, r->report);
	rejected_kernel<<<1, 1, 0, r->stream>>>(*closed, r->scratch, r->report);
}

void test_put_signal(struct rank *r, const char *claim)
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

void test_barrier(struct rank *r)
{
	report_clear(r);
	barrier_kernel<<<1, THREADS, 0, r->stream>>>(r->dev, 100, r->report);
	finish(r, "barriers order the puts of all ranks", 100);
}

void test_get(struct rank *r)
{
	report_clear(r);
	get_kernel<<<1, THREADS, 0, r->stream>>>(r->dev, r->scratch, 100003, r->report);
	finish(r, "a get reads the peer", 100003);
}

void test_atomics(struct rank *r)
{
	report_clear(r);
	atomic_kernel<<<1, THREADS, 0, r->stream>>>(r->dev, r->scratch, r->report);
	finish(r, "atomics, counters and signals add up", r->rank ? 1 : 2);
}

void test_channels(struct rank *r)
{
	if (r->size < 2)
		return;
	report_clear(r);
	channel_kernel<<<2, THREADS, 0, r->stream>>>(r->dev, r->scratch, 200001, 10, r->report);
	finish(r, "channels carry streams in order", 2000010);
}

void test_rejected(struct rank *r)
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
void test_graph(struct rank *r)
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

void test_buffers(struct rank *r, char **legacy, void **own, void **host,
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

void test_mistakes(struct rank *r)
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
	status = oriel_window_put(r->window, 0, 0, pageable, 8);
	verdict(r, "the host cannot put into a window on GPUs without a stream", status < 0,
		oriel_status_name(status));
}
