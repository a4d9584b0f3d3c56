/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent collectives in the memory of the fake driver: gpu_gather N (threads) or
 * oriel run -n N gpu_gather (processes). The kernels are the library's own, and the CPU checks
 * their results. CTest runs it as fakecuda/gather_*.
 */
#include "ranks.h"

#include "rank.h"

#define SHARE 3000000u /* the most bytes of each rank */
#define GATHER_TIMEOUT 60000000000ull

struct site {
	struct oriel_allgather *gather;
	struct oriel_region *region; /* a view that is a region; else NULL */
	char *result;
	char *send;
	unsigned round;
};

static char pattern(unsigned round, unsigned rank, size_t i)
{
	return (char)(round * 101 + rank * 37 + i * 11 + (i >> 8) * 59);
}

static void paint(char *at, unsigned round, unsigned rank, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = pattern(round, rank, i);
}

static bool is_painted(const char *at, unsigned round, unsigned rank, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != pattern(round, rank, i))
			return false;
	return true;
}

/* A view of the whole window. */
static struct oriel_view view_of(const struct rank *r)
{
	return (struct oriel_view){.size = sizeof(struct oriel_view),
				   .kind = ORIEL_VIEW_WINDOW,
				   .flags = ORIEL_VIEW_GPU,
				   .length = (size_t)r->size * SHARE,
				   .window = r->window};
}

static void gather_once(struct rank *r, struct site *s, CUstream stream, size_t bytes)
{
	char *send = s->round % 2 ? s->result + r->rank * bytes : s->send + s->round % 8;
	unsigned rank;

	paint(send, s->round, r->rank, bytes);
	if (!CHECK_OK(r, oriel_allgather_run_on_stream(s->gather, send, bytes, stream)))
		return;
	for (rank = 0; rank < r->size; rank++)
		CHECK(r, is_painted(s->result + rank * bytes, s->round, rank, bytes));
	s->round++;
}

/* The kinds of views over the memory of the window. */
enum view_kind { AS_WINDOW, AS_BUFFER, AS_REGION, AS_TABLE, VIEW_KINDS };

static void site_create(struct rank *r, struct site *s, unsigned algorithm,
			enum view_kind view_kind)
{
	static const unsigned kinds[VIEW_KINDS] = {ORIEL_VIEW_WINDOW, ORIEL_VIEW_BUFFER,
						   ORIEL_VIEW_TABLE, ORIEL_VIEW_TABLE};
	struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = algorithm};
	struct oriel_dev_buffer *table = calloc(r->size, sizeof(*table));
	struct oriel_view view = {.size = sizeof(view),
				  .kind = kinds[view_kind],
				  .flags = ORIEL_VIEW_GPU,
				  .length = (size_t)r->size * SHARE,
				  .window = view_kind == AS_WINDOW ? r->window : NULL,
				  .buffer = view_kind == AS_WINDOW ? NULL : s->result,
				  .peers = view_kind >= AS_REGION ? table : NULL};
	unsigned rank;
	void *base;

	if (view_kind == AS_REGION) {
		CHECK_OK(r, oriel_region_register(r->comm, s->result, view.length, &s->region));
		CHECK_OK(r, oriel_region_share(s->region));
		CHECK_OK(r, oriel_region_table(s->region, table));
	}
	for (rank = 0; view_kind == AS_TABLE && rank < r->size; rank++) {
		CHECK_OK(r, oriel_window_peer_address(r->window, rank, 0, &base));
		table[rank] = (struct oriel_dev_buffer){.base = base, .length = view.length};
	}
	CHECK_OK(r, oriel_allgather_create(r->comm, &view, &attr, &s->gather));
	free(table);
}

static void site_destroy(struct site *s)
{
	oriel_allgather_destroy(s->gather);
	oriel_region_unregister(s->region);
	s->gather = NULL;
	s->region = NULL;
}

/* The most ranks on one GPU. */
static unsigned sharers_of(struct rank *r)
{
	struct oriel_peer peer = {.size = sizeof(peer)};
	unsigned i, own = 0;
	int count = 0;

	CHECK(r, cuDeviceGetCount(&count) == CUDA_SUCCESS);
	for (i = 0; i < r->size; i++) {
		CHECK_OK(r, oriel_comm_peer(r->comm, i, &peer));
		CHECK(r, peer.is_same_gpu == (i % (unsigned)count == r->rank % (unsigned)count));
		own += peer.is_same_gpu;
	}
	CHECK(r, own <= (r->size + (unsigned)count - 1) / (unsigned)count);
	return (r->size + (unsigned)count - 1) / (unsigned)count;
}

/* Copies of at most this many bytes go in a batch. */
static size_t batch_of(struct rank *r)
{
	int bytes = fake_number("ORIEL_CE_BATCH", 0);

	CHECK(r, bytes >= 0);
	return CUDA_VERSION >= 12080 ? (size_t)bytes : 0;
}

/*
 * CE copies by engines alone; no kernel copies a byte. Kernels of ranks that share a GPU wait for
 * each other, so the kernels of two objects, except for one, must fit on the GPU at once.
 */
static void check_posted(struct rank *r, unsigned algorithm, size_t bytes,
			 struct fakecuda_posted posted)
{
	bool is_ce = algorithm == ORIEL_ALGORITHM_CE;
	unsigned room = (unsigned)fake_number("FAKECUDA_PROCESSORS", 132) - 1;
	unsigned blocks = (room < 128 ? room : 128) / (2 * sharers_of(r) - 1);

	CHECK(r, posted.kernels == (is_ce ? 2u : 1u));
	CHECK(r, posted.batches == (posted.copies && bytes <= batch_of(r)));
	CHECK(r, is_ce ? posted.copies >= r->size - 1 : posted.copies == 0);
	CHECK(r, is_ce || (bytes == SHARE ? posted.blocks == blocks : posted.blocks <= blocks));
}

static void test_algorithm(struct rank *r, struct site *s, CUstream stream, unsigned algorithm,
			   enum view_kind view_kind)
{
	static const size_t sizes[] = {1, 8, 1001, 4096, 16384, 16385, 65536, 1u << 20, SHARE};
	size_t i, k, times = view_kind < AS_REGION ? 3 : 1;

	site_create(r, s, algorithm, view_kind);
	if (!s->gather)
		return;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (k = 0; k < times; k++) {
			fakecuda_posted();
			gather_once(r, s, stream, sizes[i]);
			if (algorithm && (algorithm != ORIEL_ALGORITHM_LL || sizes[i] <= 1u << 20))
				check_posted(r, algorithm, sizes[i], fakecuda_posted());
		}
	}
	/* The default stream. */
	gather_once(r, s, NULL, 1000);
	CHECK_OK(r, oriel_allgather_run_on_stream(s->gather, NULL, 0, stream));
	CHECK_FAILS(r, oriel_allgather_run(s->gather, s->send, 8), ORIEL_ERR_INVALID,
		    "call oriel_allgather_run_on_stream()");
	CHECK_FAILS(r, oriel_allgather_run_on_stream(s->gather, s->send, SHARE + 1, stream),
		    ORIEL_ERR_RANGE, "at most 3000000");
	site_destroy(s);
}

/* Large messages use copy engines, unless ranks share a GPU. */
static void test_choice(struct rank *r, struct site *s)
{
	struct oriel_coll_info info = {.size = sizeof(info)};

	site_create(r, s, ORIEL_ALGORITHM_DEFAULT, AS_BUFFER);
	CHECK_OK(r, oriel_allgather_query(s->gather, 17u << 20, &info));
	CHECK(r,
	      info.algorithm == (sharers_of(r) > 1 ? ORIEL_ALGORITHM_STORE : ORIEL_ALGORITHM_CE));
	site_destroy(s);
}

/* The first execution creates copy lanes, which must be freed by the end of the program. */
static void test_lanes(struct rank *r, struct site *s, CUstream stream)
{
	unsigned left;

	site_create(r, s, ORIEL_ALGORITHM_CE, AS_WINDOW);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	left = fakecuda_left();
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	gather_once(r, s, stream, SHARE);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK(r, fakecuda_left() > left);
	site_destroy(s);
}

/* Destroys one of the three parts of a capture: executable, graph, object. */
static void destroy_part(struct site *s, CUgraphExec exec, CUgraph graph, char what)
{
	if (what == 'e')
		cuGraphExecDestroy(exec);
	else if (what == 'g')
		cuGraphDestroy(graph);
	else
		oriel_allgather_destroy(s->gather);
}

/* Captured copies go one by one, at each launch. Afterwards the parts are destroyed in @order. */
static void capture_once(struct rank *r, struct site *s, CUstream stream, unsigned algorithm,
			 const char *order)
{
	CUgraphExec exec = NULL;
	CUgraph graph = NULL;
	unsigned rank;

	site_create(r, s, algorithm, AS_WINDOW);
	paint(s->send, s->round, r->rank, 1001);
	CHECK(r, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	fakecuda_posted();
	CHECK_OK(r, oriel_allgather_run_on_stream(s->gather, s->send, 1001, stream));
	CHECK(r, fakecuda_posted().batches == 0);
	CHECK(r, cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
	CHECK(r, cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
	CHECK(r, cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
	for (rank = 0; rank < r->size; rank++)
		CHECK(r, is_painted(s->result + rank * 1001, s->round, rank, 1001));
	s->round++;
	for (; *order; order++)
		destroy_part(s, exec, graph, *order);
	s->gather = NULL;
}

static void test_captured(struct rank *r, struct site *s, CUstream stream)
{
	static const char *const orders[] = {"ego", "geo", "eog", "goe", "oeg", "oge"};
	unsigned i;

	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		capture_once(r, s, stream, ORIEL_ALGORITHM_CE, orders[i]);
		capture_once(r, s, stream, ORIEL_ALGORITHM_STORE, orders[i]);
	}
}

/* The last rank has an invalid table, and all ranks get the error. */
static void test_rejected_tables(struct rank *r)
{
	struct oriel_dev_buffer *table = calloc(r->size, sizeof(*table));
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_TABLE,
				  .flags = ORIEL_VIEW_GPU,
				  .length = 4096,
				  .peers = table};
	struct oriel_allgather *gather = NULL;
	char pageable[64];
	unsigned rank;

	CHECK_OK(r, oriel_window_buffer(r->window, 0, &view.buffer, NULL));
	for (rank = 0; rank < r->size; rank++)
		table[rank] = (struct oriel_dev_buffer){.base = view.buffer, .length = 4096};
	if (r->rank + 1 == r->size)
		table[r->rank].base = pageable;
	CHECK_FAILS(r, oriel_allgather_create(r->comm, &view, NULL, &gather), ORIEL_ERR_INVALID,
		    "is no memory of its GPU, nor pinned");
	if (r->rank + 1 == r->size)
		table[0].base = NULL;
	CHECK_FAILS(r, oriel_allgather_create(r->comm, &view, NULL, &gather), ORIEL_ERR_INVALID,
		    "has nothing of rank 0");
	free(table);
}

static void test_rejected(struct rank *r)
{
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_WINDOW,
				  .length = 4096,
				  .window = r->window};
	struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = ORIEL_ALGORITHM_RING};
	struct oriel_allgather *gather = NULL;

	CHECK_FAILS(r, oriel_allgather_create(r->comm, &view, NULL, &gather), ORIEL_ERR_INVALID,
		    "lies in GPU memory");
	view.flags = ORIEL_VIEW_GPU;
	CHECK_FAILS(r, oriel_allgather_create(r->comm, &view, &attr, &gather),
		    ORIEL_ERR_UNSUPPORTED, "ring does not support GPU memory");
	test_rejected_tables(r);
}

/* Messages that differ from rank to rank. The CPU writes the memory that the GPU reads. */
static void test_alltoall(struct rank *r, struct site *s, CUstream stream, unsigned algorithm)
{
	static const size_t sizes[] = {1, 1001, 16385, 65536, SHARE / 8};
	struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = algorithm};
	const struct oriel_view view = view_of(r);
	struct oriel_alltoall *alltoall = NULL;
	unsigned i, rank;

	CHECK_OK(r, oriel_alltoall_create(r->comm, &view, &attr, &alltoall));
	if (!alltoall)
		return;
	for (i = 0; i < 3 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = sizes[i / 3];

		for (rank = 0; rank < r->size; rank++)
			paint(s->send + rank * bytes, i, r->rank * 8 + rank, bytes);
		fakecuda_posted();
		CHECK_OK(r, oriel_alltoall_run_on_stream(alltoall, s->send, bytes, stream));
		if (algorithm)
			check_posted(r, algorithm, bytes, fakecuda_posted());
		for (rank = 0; rank < r->size; rank++)
			CHECK(r,
			      is_painted(s->result + rank * bytes, i, rank * 8 + r->rank, bytes));
	}
	CHECK_FAILS(r, oriel_alltoall_run(alltoall, s->send, 8), ORIEL_ERR_INVALID,
		    "call oriel_alltoall_run_on_stream()");
	oriel_alltoall_destroy(alltoall);
}

static size_t length_of(unsigned round, unsigned from, unsigned to)
{
	return (from + to + round) % 4 == 0 ? 0 : (from * 7919 + to * 977 + round * 31) % 50000;
}

static void test_alltoallv(struct rank *r, struct site *s, CUstream stream)
{
	const struct oriel_view view = view_of(r);
	struct oriel_dev_alltoallv *layout;
	struct oriel_alltoall *alltoall = NULL;
	unsigned round, rank;
	CUdeviceptr memory;

	CHECK(r, cuMemAlloc(&memory, r->size * sizeof(*layout)) == CUDA_SUCCESS);
	layout = (struct oriel_dev_alltoallv *)memory;
	CHECK_OK(r, oriel_alltoall_create(r->comm, &view, NULL, &alltoall));
	for (round = 0; round < 40; round++) {
		for (rank = 0; rank < r->size; rank++) {
			layout[rank] = (struct oriel_dev_alltoallv){
				.send_displacement = rank * 50000 + round,
				.send_length = length_of(round, r->rank, rank),
				.recv_displacement = (r->size - 1 - rank) * 60000 + round % 5,
				.recv_length = length_of(round, rank, r->rank)};
			paint(s->send + layout[rank].send_displacement, round, r->rank * 8 + rank,
			      layout[rank].send_length);
		}
		CHECK_OK(r, oriel_alltoall_run_v_on_stream(alltoall, s->send, layout, stream));
		for (rank = 0; rank < r->size; rank++)
			CHECK(r, is_painted(s->result + layout[rank].recv_displacement, round,
					    rank * 8 + r->rank, layout[rank].recv_length));
	}
	CHECK_FAILS(r,
		    oriel_alltoall_run_v_on_stream(alltoall, s->send, (const void *)&view, stream),
		    ORIEL_ERR_INVALID, "not pinned");
	oriel_alltoall_destroy(alltoall);
	CHECK(r, cuMemFree(memory) == CUDA_SUCCESS);
}

static void test_bcast(struct rank *r, struct site *s, CUstream stream, unsigned algorithm)
{
	static const size_t sizes[] = {1, 1001, 65537, SHARE};
	struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = algorithm};
	const struct oriel_view view = view_of(r);
	struct oriel_bcast *bcast = NULL;
	unsigned i, root;

	CHECK_OK(r, oriel_bcast_create(r->comm, &view, &attr, &bcast));
	for (i = 0; i < 3 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = sizes[i / 3];

		root = i / 2 % r->size;
		if (r->rank == root)
			paint(s->send, i, root, bytes);
		CHECK_OK(r, oriel_bcast_run_on_stream(bcast, root, r->rank == root ? s->send : NULL,
						      bytes, stream));
		CHECK(r, is_painted(s->result, i, root, bytes));
	}
	oriel_bcast_destroy(bcast);
}

/* All-to-alls and broadcasts without an object. */
static void test_once(struct rank *r, struct site *s, CUstream stream)
{
	static const size_t sizes[] = {1, 1001, 1001, 65537, 9};
	unsigned i, rank, root;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = sizes[i];

		for (rank = 0; rank < r->size; rank++)
			paint(s->send + rank * bytes, i, r->rank * 8 + rank, bytes);
		CHECK_OK(r,
			 oriel_alltoall_once_on_stream(r->comm, s->send, s->result, bytes, stream));
		for (rank = 0; rank < r->size; rank++)
			CHECK(r,
			      is_painted(s->result + rank * bytes, i, rank * 8 + r->rank, bytes));
		root = i % r->size;
		if (r->rank == root)
			paint(s->send, i + 100, root, bytes);
		CHECK_OK(r,
			 oriel_bcast_once_on_stream(r->comm, root, r->rank == root ? s->send : NULL,
						    s->result, bytes, stream));
		CHECK(r, is_painted(s->result, i + 100, root, bytes));
	}
}

static void test_barrier(struct rank *r, CUstream stream)
{
	struct oriel_stream_barrier *barrier = NULL;
	unsigned i;

	CHECK_OK(r, oriel_stream_barrier_create(r->comm, ORIEL_STREAM_BARRIER_GPU, &barrier));
	for (i = 0; i < 20; i++)
		CHECK_OK(r, oriel_stream_barrier_run_on_stream(barrier, stream));
	CHECK_FAILS(r, oriel_stream_barrier_run(barrier), ORIEL_ERR_INVALID, "run_on_stream");
	oriel_stream_barrier_destroy(barrier);
}

/* Lengths of a pair that differ: no call can return the error, so the communicator breaks. */
static void test_mismatch(struct rank *r, struct site *s, CUstream stream)
{
	const struct oriel_view view = view_of(r);
	struct oriel_dev_alltoallv *layout;
	struct oriel_alltoall *alltoall = NULL;
	enum oriel_status status = ORIEL_OK;
	CUdeviceptr memory;
	unsigned rank, i;

	CHECK(r, cuMemAlloc(&memory, r->size * sizeof(*layout)) == CUDA_SUCCESS);
	layout = (struct oriel_dev_alltoallv *)memory;
	CHECK_OK(r, oriel_alltoall_create(r->comm, &view, NULL, &alltoall));
	for (rank = 0; rank < r->size; rank++)
		layout[rank] = (struct oriel_dev_alltoallv){
			.send_length = 8 + (r->rank == 0 && rank == 1),
			.recv_displacement = rank * 16,
			.recv_length = 8,
		};
	/* The first call may succeed, and a third rank runs until it waits for one of the two. */
	for (i = 0; i < 3 && status == ORIEL_OK; i++)
		status = oriel_alltoall_run_v_on_stream(alltoall, s->send, layout, stream);
	CHECK_FAILS(r, status, ORIEL_ERR_MISMATCH, "all-to-all: a message of ");
	oriel_alltoall_destroy(alltoall);
	CHECK(r, cuMemFree(memory) == CUDA_SUCCESS);
}

/* The first rank aborts: at its start, or after its driver fails in @call. */
static void give_up(struct rank *r, const struct site *s, CUstream stream, const char *call)
{
	if (call) {
		fakecuda_fail(call, 0);
		CHECK_FAILS(r, oriel_allgather_run_on_stream(s->gather, s->send, SHARE, stream),
			    ORIEL_ERR_SYSTEM, "of the fake driver");
		fakecuda_fail(NULL, 0);
	}
	oriel_comm_abort(r->comm, "a test");
}

/* A second communicator, which the test breaks, and objects of it over its own memory. */
struct beside {
	struct rank r;
	struct site s;
	struct oriel_alltoall *alltoall;
	struct oriel_bcast *bcast;
	CUdeviceptr result;
	CUstream stream;
};

static struct beside beside_open(struct rank *r, const struct site *s, unsigned algorithm)
{
	struct oriel_coll_attr attr = {.size = sizeof(attr), .algorithm = algorithm};
	struct oriel_view view = view_of(r);
	struct beside b = {.r = *r, .s = *s};

	CHECK(&b.r, cuMemAlloc(&b.result, view.length) == CUDA_SUCCESS);
	view.kind = ORIEL_VIEW_BUFFER;
	view.window = NULL;
	view.buffer = (void *)b.result;
	fakecuda_async(true);
	rank_join(&b.r, GATHER_TIMEOUT);
	CHECK(&b.r, cuStreamCreate(&b.stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	CHECK_OK(&b.r, oriel_allgather_create(b.r.comm, &view, &attr, &b.s.gather));
	CHECK_OK(&b.r, oriel_alltoall_create(b.r.comm, &view, NULL, &b.alltoall));
	CHECK_OK(&b.r, oriel_bcast_create(b.r.comm, &view, NULL, &b.bcast));
	return b;
}

/* Streams go on after the failure, and later calls fail. */
static void beside_close(struct rank *r, struct beside *b)
{
	struct oriel_health health = {.size = sizeof(health)};

	fakecuda_finish(b->stream);
	while (oriel_comm_health(b->r.comm, &health) == ORIEL_OK && health.status == ORIEL_OK)
		ori_dev_back_off(10000000);
	CHECK(&b->r, health.status == ORIEL_ERR_ABORTED);
	CHECK_FAILS(&b->r, oriel_allgather_run_on_stream(b->s.gather, b->s.send, 8, b->stream),
		    ORIEL_ERR_ABORTED, "all-gather: ");
	oriel_bcast_destroy(b->bcast);
	oriel_alltoall_destroy(b->alltoall);
	oriel_allgather_destroy(b->s.gather);
	oriel_comm_destroy(b->r.comm);
	/* Peers may write to the memory until their objects are destroyed. */
	CHECK_OK(&b->r, oriel_comm_barrier(r->comm));
	fakecuda_async(false);
	CHECK(&b->r,
	      cuStreamDestroy(b->stream) == CUDA_SUCCESS && cuMemFree(b->result) == CUDA_SUCCESS);
	r->failures = b->r.failures;
}

/*
 * The first rank aborts while its peers wait in their streams, with several executions posted: for
 * its credit or its lines, for the barrier before copies by engines or, if @call fails, for the
 * barrier behind them.
 */
static void test_broken(struct rank *r, const struct site *s, unsigned algorithm, const char *call)
{
	struct beside b = beside_open(r, s, algorithm);
	size_t bytes = algorithm == ORIEL_ALGORITHM_LL ? 65536 : SHARE;
	unsigned i, ahead = call ? 1 : 3;

	CHECK_OK(&b.r, oriel_allgather_run_on_stream(b.s.gather, b.s.send, bytes, b.stream));
	for (i = 0; i < ahead && r->rank; i++)
		CHECK_OK(&b.r,
			 oriel_allgather_run_on_stream(b.s.gather, b.s.send, bytes, b.stream));
	CHECK_OK(&b.r, oriel_comm_barrier(b.r.comm));
	if (r->rank == 0)
		give_up(&b.r, &b.s, b.stream, call);
	beside_close(r, &b);
}

#ifndef NDEBUG
typedef enum oriel_status differ_start(const struct beside *b, unsigned more);

static enum oriel_status start_gather(const struct beside *b, unsigned more)
{
	return oriel_allgather_run_on_stream(b->s.gather, b->s.send, 1000 + more, b->stream);
}

/* A rank of 0 bytes waits for no peer, and its peers would wait for it. */
static enum oriel_status start_empty(const struct beside *b, unsigned more)
{
	return oriel_allgather_run_on_stream(b->s.gather, b->s.send, more ? 1000 : 0, b->stream);
}

static enum oriel_status start_alltoall(const struct beside *b, unsigned more)
{
	return oriel_alltoall_run_on_stream(b->alltoall, b->s.send, 1000 + more, b->stream);
}

static enum oriel_status start_bcast(const struct beside *b, unsigned more)
{
	return oriel_bcast_run_on_stream(b->bcast, 0, b->s.send, 1000 + more, b->stream);
}

static enum oriel_status start_root(const struct beside *b, unsigned more)
{
	return oriel_bcast_run_on_stream(b->bcast, more ? 1 : 0, b->s.send, 1000, b->stream);
}

/*
 * Debug builds. The last rank calls after its peers have started, which do not wait for it, and
 * gets the error at once. @text: the expected text, with the rank as %u.
 */
static void test_calls_differ(struct rank *r, const struct site *s, differ_start *start,
			      bool is_captured, const char *text)
{
	struct beside b = beside_open(r, s, ORIEL_ALGORITHM_DEFAULT);
	bool is_last = r->rank + 1 == r->size;
	CUgraph graph = NULL;
	char expected[80];

	snprintf(expected, sizeof(expected), text, r->rank);
	CHECK_OK(&b.r, start(&b, 0));
	if (is_captured)
		CHECK(&b.r, cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
				    CUDA_SUCCESS);
	if (!is_last)
		CHECK_OK(&b.r, start(&b, 0));
	CHECK_OK(&b.r, oriel_comm_barrier(r->comm));
	if (is_last)
		CHECK_FAILS(&b.r, start(&b, 1), ORIEL_ERR_MISMATCH, expected);
	if (is_captured)
		CHECK(&b.r, cuStreamEndCapture(b.stream, &graph) == CUDA_SUCCESS &&
				    cuGraphDestroy(graph) == CUDA_SUCCESS);
	beside_close(r, &b);
}

static void test_all_mismatches(struct rank *r, const struct site *s)
{
	test_calls_differ(r, s, start_gather, false,
			  "all-gather: ranks differ in bytes: 1001 on rank %u, 1000");
	test_calls_differ(r, s, start_gather, true,
			  "all-gather: ranks differ in bytes: 1001 on rank %u, 1000");
	test_calls_differ(r, s, start_empty, false,
			  "all-gather: ranks differ in bytes: 1000 on rank %u, 0 on rank");
	test_calls_differ(r, s, start_alltoall, false,
			  "all-to-all: ranks differ in bytes: 1001 on rank %u, 1000");
	test_calls_differ(r, s, start_bcast, true,
			  "broadcast: ranks differ in bytes: 1001 on rank %u, 1000");
	test_calls_differ(r, s, start_root, false,
			  "broadcast: ranks differ in root: 1 on rank %u, 0 on rank");
}
#endif

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct rank r = {.rank = bootstrap->rank,
			 .size = bootstrap->size,
			 .bootstrap = bootstrap,
			 .node = node};
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = (size_t)r.size * SHARE,
					 .flags = ORIEL_WINDOW_DEVICE};
	struct site s = {0};
	unsigned algorithm, view_kind;
	CUdeviceptr send;
	CUstream stream;
	void *base;

	rank_use_gpu(&r);
	rank_join(&r, GATHER_TIMEOUT);
	CHECK_OK(&r, oriel_window_create(r.comm, &attr, &r.window));
	CHECK(&r, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	CHECK(&r, cuMemAlloc(&send, SHARE + 8) == CUDA_SUCCESS);
	s.send = (char *)send;
	if (oriel_window_barrier_on_stream(r.window, 0, 0, stream) == ORIEL_ERR_UNSUPPORTED) {
		fprintf(stderr, "skipped: the library was built without nvcc\n");
		_Exit(77);
	}
	CHECK_OK(&r, oriel_window_buffer(r.window, 0, &base, NULL));
	s.result = base;
	test_rejected(&r);
	test_choice(&r, &s);
	for (algorithm = 0; algorithm <= ORIEL_ALGORITHM_CE; algorithm++) {
		for (view_kind = AS_WINDOW; view_kind < (algorithm ? VIEW_KINDS : AS_REGION);
		     view_kind++)
			test_algorithm(&r, &s, stream, algorithm, view_kind);
	}
	test_lanes(&r, &s, stream);
	test_captured(&r, &s, stream);
	for (algorithm = 0; algorithm <= ORIEL_ALGORITHM_CE; algorithm++) {
		test_alltoall(&r, &s, stream, algorithm);
		if (algorithm != ORIEL_ALGORITHM_LL)
			test_bcast(&r, &s, stream, algorithm);
	}
	test_alltoallv(&r, &s, stream);
	test_once(&r, &s, stream);
	test_barrier(&r, stream);
	CHECK_OK(&r, oriel_comm_barrier(r.comm));
	for (algorithm = ORIEL_ALGORITHM_LL; algorithm <= ORIEL_ALGORITHM_CE; algorithm++)
		test_broken(&r, &s, algorithm, NULL);
	test_broken(&r, &s, ORIEL_ALGORITHM_CE, "cuMemcpyAsync");
#ifndef NDEBUG
	if (r.size > 1)
		test_all_mismatches(&r, &s);
#endif
	if (r.size > 1)
		test_mismatch(&r, &s, stream);
	CHECK(&r, cuMemFree(send) == CUDA_SUCCESS && cuStreamDestroy(stream) == CUDA_SUCCESS);
	oriel_window_destroy(r.window);
	oriel_comm_destroy(r.comm);
	return r.failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
