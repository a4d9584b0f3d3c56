/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of kernels on one GPU, over windows of the library and over both paths: ranks are
 * threads of this process that share the GPU, mapped, or each on a virtual node of its own, with
 * the software HCA between them. Puts and flushes by one block and by many, signals alone, to one
 * peer and to all, the wait for a ticket beside that for a counter, counters of 2 to 8 peers, and
 * ping-pongs of pairs. The bytes and signals of each row are compared. run.py calls it.
 * usage: peer_rows [mapped | rdma]
 */
#define ORIEL_DEV_PATHS 14u /* self, mapped and rdma */
#include "peer_job.h"
#include "samples.h"

#define SAMPLES 15 /* launches; one more comes before them */
#define ROUNDS 30u
#define THREADS 128u
#define BYTES_MAX 65536u /* of a block */
#define BLOCKS_MAX 64u
#define LENGTH (BLOCKS_MAX * BYTES_MAX)

enum { SIGNAL, COUNTER }; /* numbers in the window; SIGNAL also of answers */

/* One launch. */
struct work {
	uint64_t bytes;   /* of a block */
	uint64_t earlier; /* rounds of the launches before */
	char *source;
	uint64_t *begin, *end; /* [blocks], ns; pinned */
	uint32_t *failed;      /* operations; pinned */
	uint32_t rounds;
};

struct put_flush_op {
	static constexpr const char *test = "put_flush", *mode = "flush";
	static __device__ __forceinline__ enum oriel_status go(const struct oriel_dev_window *w,
							       struct oriel_dev_group g,
							       const struct work *p, uint64_t)
	{
		uint64_t at = blockIdx.x * p->bytes;
		enum oriel_status posted =
			oriel_dev_put(w, g, 1, at, p->source + at, p->bytes, NULL);

		return posted != ORIEL_OK ? posted : oriel_dev_flush(w, g, 0);
	}
};

struct signal_op {
	static constexpr const char *test = "signal_flush", *mode = "flush";
	static __device__ __forceinline__ enum oriel_status go(const struct oriel_dev_window *w,
							       struct oriel_dev_group g,
							       const struct work *, uint64_t)
	{
		enum oriel_status posted =
			oriel_dev_signal(w, g, 1, SIGNAL, ORIEL_SIGNAL_ADD, 1, NULL);

		return posted != ORIEL_OK ? posted : oriel_dev_flush(w, g, 0);
	}
};

struct signal_all_op {
	static constexpr const char *test = "signal_all", *mode = "flush";
	static __device__ __forceinline__ enum oriel_status go(const struct oriel_dev_window *w,
							       struct oriel_dev_group g,
							       const struct work *, uint64_t)
	{
		enum oriel_status posted = oriel_dev_signal_all(w, g, SIGNAL, ORIEL_SIGNAL_ADD, 1);

		return posted != ORIEL_OK ? posted : oriel_dev_flush(w, g, 0);
	}
};

struct put_local_op {
	static constexpr const char *test = "put_local", *mode = "wait_local";
	static __device__ __forceinline__ enum oriel_status go(const struct oriel_dev_window *w,
							       struct oriel_dev_group g,
							       const struct work *p, uint64_t)
	{
		struct oriel_dev_ticket done;
		enum oriel_status status = oriel_dev_put(w, g, 1, 0, p->source, p->bytes, &done);

		return status == ORIEL_OK ? oriel_dev_wait_local(w, g, done, 0) : status;
	}
};

struct put_counter_op {
	static constexpr const char *test = "put_counter", *mode = "wait_counter";
	static __device__ __forceinline__ enum oriel_status go(const struct oriel_dev_window *w,
							       struct oriel_dev_group g,
							       const struct work *p, uint64_t n)
	{
		enum oriel_status posted =
			oriel_dev_put_counter(w, g, 1, 0, p->source, p->bytes, COUNTER, NULL);

		return posted != ORIEL_OK
			       ? posted
			       : oriel_dev_wait_counter(w, g, 1, COUNTER, ORIEL_EQ, n, 0);
	}
};

struct put_signal_counter_op {
	static constexpr const char *test = "put_signal_counter", *mode = "wait_counter";
	static __device__ __forceinline__ enum oriel_status go(const struct oriel_dev_window *w,
							       struct oriel_dev_group g,
							       const struct work *p, uint64_t n)
	{
		enum oriel_status posted =
			oriel_dev_put_signal_counter(w, g, 1, 0, p->source, p->bytes, SIGNAL, 1,
						     COUNTER, NULL);

		return posted != ORIEL_OK
			       ? posted
			       : oriel_dev_wait_counter(w, g, 1, COUNTER, ORIEL_EQ, n, 0);
	}
};

/* To every peer, and then until all sources may be reused: by a drain, or by their counters. */
struct fan_drain_op {
	static constexpr const char *test = "fan_out", *mode = "drain";
	static __device__ __forceinline__ enum oriel_status go(const struct oriel_dev_window *w,
							       struct oriel_dev_group g,
							       const struct work *p, uint64_t)
	{
		enum oriel_status posted = ORIEL_OK;

		for (uint32_t peer = 1; peer < w->ranks && posted == ORIEL_OK; peer++)
			posted = oriel_dev_put(w, g, peer, 0, p->source, p->bytes, NULL);
		return posted != ORIEL_OK ? posted : oriel_dev_drain(w, g, 0);
	}
};

struct fan_counter_op {
	static constexpr const char *test = "fan_out", *mode = "wait_counter";
	static __device__ __forceinline__ enum oriel_status go(const struct oriel_dev_window *w,
							       struct oriel_dev_group g,
							       const struct work *p, uint64_t n)
	{
		enum oriel_status status = ORIEL_OK;
		enum oriel_status posted = ORIEL_OK;

		for (uint32_t peer = 1; peer < w->ranks && posted == ORIEL_OK; peer++)
			posted = oriel_dev_put_counter(w, g, peer, 0, p->source, p->bytes, COUNTER,
						       NULL);
		if (posted != ORIEL_OK)
			return posted;
		for (uint32_t peer = 1; peer < w->ranks && status == ORIEL_OK; peer++)
			status = oriel_dev_wait_counter(w, g, peer, COUNTER, ORIEL_EQ, n, 0);
		return status;
	}
};

/* A pair: rank 0 begins, and each rank answers the signal that it waited for. */
struct signal_ping_op {
	static constexpr const char *test = "signal_lat", *mode = "one way";
	static __device__ __forceinline__ enum oriel_status
	post(const struct oriel_dev_window *w, struct oriel_dev_group g, const struct work *)
	{
		return oriel_dev_signal(w, g, 1 - w->rank, SIGNAL, ORIEL_SIGNAL_ADD, 1, NULL);
	}
};

struct put_signal_ping_op {
	static constexpr const char *test = "put_signal_lat", *mode = "one way";
	static __device__ __forceinline__ enum oriel_status
	post(const struct oriel_dev_window *w, struct oriel_dev_group g, const struct work *p)
	{
		return oriel_dev_put_signal(w, g, 1 - w->rank, 0, p->source, p->bytes, SIGNAL, 1,
					    NULL);
	}
};

/* The first thread of a block. */
static __device__ void note(const struct work *p, uint64_t begin, enum oriel_status status)
{
	if (threadIdx.x)
		return;
	p->begin[blockIdx.x] = begin;
	p->end[blockIdx.x] = oriel_dev_clock_ns();
	if (status != ORIEL_OK)
		atomicAdd(p->failed, 1u);
}

/* Every wait has the limit of the communicator, so that a launch ends. */
template <class Op>
__global__ void __launch_bounds__(THREADS)
	rounds_of_origin(const __grid_constant__ struct oriel_dev_window w,
			 const __grid_constant__ struct work p)
{
	struct oriel_dev_group g = oriel_dev_block();
	enum oriel_status status = ORIEL_OK;
	uint64_t begin = oriel_dev_clock_ns();

	for (uint32_t k = 0; k < p.rounds && status == ORIEL_OK; k++)
		status = Op::go(&w, g, &p, p.earlier + k + 1);
	note(&p, begin, status);
	/* Local completion is no arrival, and the bytes are compared. */
	if (status == ORIEL_OK && oriel_dev_flush(&w, g, 0) != ORIEL_OK && threadIdx.x == 0)
		atomicAdd(p.failed, 1u);
}

template <class Op>
__global__ void __launch_bounds__(THREADS)
	rounds_of_pair(const __grid_constant__ struct oriel_dev_window w,
		       const __grid_constant__ struct work p)
{
	struct oriel_dev_group g = oriel_dev_block();
	enum oriel_status status = ORIEL_OK;
	uint64_t begin = 0;
	enum oriel_status posted = ORIEL_OK;

	/* The first round waits for the launch of the other rank, and does not count. */
	for (uint32_t k = 0; k <= p.rounds && status == ORIEL_OK; k++) {
		if (k == 1)
			begin = oriel_dev_clock_ns();
		if (w.rank == 0)
			posted = Op::post(&w, g, &p);
		status = posted != ORIEL_OK
				 ? posted
				 : oriel_dev_wait_signal_from(&w, g, 1 - w.rank, SIGNAL, ORIEL_EQ,
							      p.earlier + k + 1, 0);
		if (w.rank == 1 && status == ORIEL_OK)
			posted = Op::post(&w, g, &p);
	}
	if (status == ORIEL_OK && posted != ORIEL_OK)
		status = posted;
	note(&p, begin, status);
}

/* Have exactly @total signals of rank 0 arrived? Those that were flushed have. */
__global__ void count_signals(const __grid_constant__ struct oriel_dev_window w,
			      const __grid_constant__ struct work p, uint64_t total)
{
	note(&p, 0,
	     oriel_dev_wait_signal_from(&w, oriel_dev_thread(), 0, SIGNAL, ORIEL_EQ, total, 0));
}

/* The bytes that a row moves, and those that were there before; then all ranks are ready. */
static void bytes_prepare(struct peer *r, unsigned seed)
{
	peer_pattern(r->bytes, LENGTH, seed);
	CUDA_MUST(r, cudaMemcpy(r->source, r->bytes, LENGTH, cudaMemcpyHostToDevice));
	memset(r->bytes, 0xee, LENGTH);
	CUDA_MUST(r, cudaMemcpy(r->target, r->bytes, LENGTH, cudaMemcpyHostToDevice));
	peer_meet(r);
}

/* @length bytes of this rank's window are those of @seed, and no more than these. */
static void bytes_check(struct peer *r, const char *test, size_t length, unsigned seed)
{
	char *found = r->bytes, *expected = r->bytes + LENGTH;

	CUDA_MUST(r, cudaMemcpy(found, r->target, LENGTH, cudaMemcpyDeviceToHost));
	peer_pattern(expected, LENGTH, seed);
	memset(expected + length, 0xee, LENGTH - length);
	for (size_t i = 0; i < LENGTH; i++)
		if (found[i] != expected[i])
			peer_die(r, "%s: byte %zu of %zu is wrong", test, i, length);
}

static void launch_check(struct peer *r, const char *test, const struct work *p)
{
	CUDA_MUST(r, cudaGetLastError());
	CUDA_MUST(r, cudaStreamSynchronize(r->stream));
	if (*p->failed)
		peer_die(r, "%s: an operation failed: %s", test, peer_fault(r));
}

/* From the first block that began to the last one that ended. */
static double span_us(const struct work *p, uint32_t blocks)
{
	uint64_t begin = p->begin[0], end = p->end[0];

	for (uint32_t i = 1; i < blocks; i++) {
		begin = p->begin[i] < begin ? p->begin[i] : begin;
		end = p->end[i] > end ? p->end[i] : end;
	}
	return (double)(end - begin) / 1e3;
}

/*
 * The window and the words of one row on this rank. Memory is allocated before the ranks meet: the
 * driver might make that wait for a kernel of another rank, which waits for one of this rank.
 */
static struct work row_open(struct peer *r, uint64_t bytes, unsigned seed)
{
	struct work p = {};

	peer_window_open(r);
	p.bytes = bytes;
	p.source = r->source;
	p.rounds = ROUNDS;
	p.begin = (uint64_t *)peer_pinned(r, BLOCKS_MAX * sizeof(*p.begin));
	p.end = (uint64_t *)peer_pinned(r, BLOCKS_MAX * sizeof(*p.end));
	p.failed = (uint32_t *)peer_pinned(r, sizeof(*p.failed));
	bytes_prepare(r, seed);
	return p;
}

static void row_close(struct peer *r, struct work *p)
{
	peer_window_close(r);
	CUDA_MUST(r, cudaFreeHost(p->begin));
	CUDA_MUST(r, cudaFreeHost(p->end));
	CUDA_MUST(r, cudaFreeHost(p->failed));
}

/* By rank 0: @us of one operation, in an order that the call changes. */
static void row_report(const struct peer *r, const char *test, const char *mode, uint32_t blocks,
		       uint64_t bytes, double *us)
{
	struct row row = {test, "oriel", NULL, r->path, r->ranks, bytes, THREADS, blocks};
	char text[64];

	if (r->rank)
		return;
	snprintf(text, sizeof(text), "%s, %s", mode, r->place);
	row.mode = text;
	row_print(&row, us, SAMPLES, (double)bytes);
}

/* A row of rank 0: its blocks, what they move, and what has to arrive. */
struct shape {
	uint32_t blocks;
	uint64_t bytes;   /* of a block; 0: none move */
	bool is_to_all;   /* else to rank 1 */
	bool has_signals; /* one of each round */
};

template <class Op> static void run_origin(struct peer *r, struct shape s)
{
	bool is_receiver = r->rank && (r->rank == 1 || s.is_to_all);
	unsigned seed = s.blocks + r->ranks;
	struct work p = row_open(r, s.bytes, seed);
	double us[SAMPLES], parts = s.bytes && s.is_to_all ? r->ranks - 1 : s.blocks;

	for (unsigned i = 0; i <= SAMPLES && r->rank == 0; i++) {
		rounds_of_origin<Op><<<s.blocks, THREADS, 0, r->stream>>>(r->dev, p);
		launch_check(r, Op::test, &p);
		p.earlier += ROUNDS;
		if (i)
			us[i - 1] = span_us(&p, s.blocks) / ROUNDS / parts;
	}
	peer_meet(r);
	if (is_receiver && s.bytes)
		bytes_check(r, Op::test, s.blocks * s.bytes, seed);
	if (is_receiver && s.has_signals) {
		count_signals<<<1, 1, 0, r->stream>>>(r->dev, p, (SAMPLES + 1ull) * ROUNDS);
		launch_check(r, Op::test, &p);
	}
	row_close(r, &p);
	row_report(r, Op::test, Op::mode, s.blocks, s.bytes, us);
}

/* A row of ranks 0 and 1; the time is of one way. */
template <class Op> static void run_pair(struct peer *r, uint64_t bytes)
{
	struct work p = row_open(r, bytes, 99);
	double us[SAMPLES];

	for (unsigned i = 0; i <= SAMPLES; i++) {
		rounds_of_pair<Op><<<1, THREADS, 0, r->stream>>>(r->dev, p);
		launch_check(r, Op::test, &p);
		p.earlier += ROUNDS + 1;
		if (i)
			us[i - 1] = span_us(&p, 1) / ROUNDS / 2;
	}
	peer_meet(r);
	if (bytes)
		bytes_check(r, Op::test, bytes, 99);
	row_close(r, &p);
	row_report(r, Op::test, Op::mode, 1, bytes, us);
}

static const uint64_t sizes[] = {8, 4096, 65536};

static void rows_of_pair(struct peer *r)
{
	static const uint32_t blocks[] = {1, 2, 8, 32, 64};

	for (uint64_t bytes : sizes) {
		for (uint32_t count : blocks)
			run_origin<put_flush_op>(r, {count, bytes, false, false});
		run_origin<put_local_op>(r, {1, bytes, false, false});
		run_origin<put_counter_op>(r, {1, bytes, false, false});
		run_origin<put_signal_counter_op>(r, {1, bytes, false, true});
		run_pair<put_signal_ping_op>(r, bytes);
	}
	run_origin<signal_op>(r, {1, 0, false, true});
	run_pair<signal_ping_op>(r, 0);
}

static void rows_of_peers(struct peer *r)
{
	run_origin<signal_all_op>(r, {1, 0, true, true});
	for (uint64_t bytes : sizes) {
		run_origin<fan_drain_op>(r, {1, bytes, true, false});
		run_origin<fan_counter_op>(r, {1, bytes, true, false});
	}
}

int main(int argc, char **argv)
{
	static const unsigned counts[] = {2, 3, 5, 9}; /* ranks */
	const char *only = argc > 1 ? argv[1] : NULL;

	if (argc > 2 || (only && strcmp(only, "mapped") != 0 && strcmp(only, "rdma") != 0)) {
		fprintf(stderr, "usage: peer_rows [mapped | rdma]\n");
		return 2;
	}
	peers_begin();
	for (unsigned count : counts) {
		if (!only || strcmp(only, "mapped") == 0)
			peers_run(count == 2 ? rows_of_pair : rows_of_peers, count, LENGTH, false);
		if (!only || strcmp(only, "rdma") == 0)
			peers_run(count == 2 ? rows_of_pair : rows_of_peers, count, LENGTH, true);
	}
	return 0;
}
