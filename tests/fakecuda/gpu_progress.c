/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs in streams of the fake driver, which have threads of their own, and in graphs. One rank:
 * gpu_progress TEST, or all tests. CTest runs it as fakecuda/progress_*.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "rank.h"

#define JOBS 40u
#define REPLAYS 1000u
#define MANY 5000u
#define FEW 100u
#define SHORT_NS UINT64_C(200000000)

/* Pinned memory: streams write @seen and jobs read it, or jobs write and streams read. */
struct page {
	uint32_t seen[64];
	uint32_t gate;
};

struct work {
	struct page *page;
	unsigned index;
	atomic_uint executions, released, steps;
	atomic_bool *gate;
	atomic_uint *order;
	unsigned ends[4];
	enum oriel_status end;
	uint32_t expected; /* of seen[index] as the execution begins, if @is_checked */
	bool is_checked, is_wrong, is_running;
};

static enum oriel_status work_step(void *context, bool *has_moved)
{
	struct work *w = context;
	unsigned count;

	atomic_fetch_add(&w->steps, 1);
	if (!w->is_running && w->is_checked)
		w->is_wrong |=
			__atomic_load_n(&w->page->seen[w->index], __ATOMIC_RELAXED) != w->expected;
	w->is_running = true;
	if (w->gate && !atomic_load(w->gate))
		return ORIEL_AGAIN;
	*has_moved = true;
	w->is_running = false;
	count = atomic_fetch_add(&w->executions, 1);
	if (w->order && count < 4)
		w->ends[count] = atomic_fetch_add(w->order, 1);
	/* A plain store: operations behind the job in the stream see it. */
	w->page->seen[w->index] = w->expected + 1;
	return w->end;
}

static void work_release(void *context)
{
	struct work *w = context;

	atomic_fetch_add(&w->released, 1);
}

struct test {
	struct rank r;
	CUstream stream, other;
	struct page *page;
};

static enum oriel_status post(struct test *t, struct work *w, CUstream stream)
{
	struct oriel_job job = {sizeof(job), work_step, work_release, w};

	w->page = t->page;
	return stream ? oriel_comm_post_on_stream(t->r.comm, &job, stream)
		      : oriel_comm_post(t->r.comm, &job);
}

static void await(atomic_uint *word, unsigned value)
{
	const struct timespec nap = {0, 50000};

	while (atomic_load(word) < value)
		nanosleep(&nap, NULL);
}

static void relaxed(bool is_relaxed)
{
	CUstreamCaptureMode mode =
		is_relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;

	cuThreadExchangeStreamCaptureMode(&mode);
}

/* An operation of the program in a stream. */
static void stream_set(struct test *t, CUstream stream, unsigned index, uint32_t value)
{
	relaxed(true);
	CHECK(&t->r, cuStreamWriteValue32(stream, (CUdeviceptr)&t->page->seen[index], value, 0) ==
			     CUDA_SUCCESS);
	relaxed(false);
}

static void stream_block(struct test *t, CUstream stream)
{
	relaxed(true);
	CHECK(&t->r, cuStreamWaitValue32(stream, (CUdeviceptr)&t->page->gate, 1,
					 CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_FLUSH) ==
			     CUDA_SUCCESS);
	relaxed(false);
}

static void test_begin(struct test *t)
{
	void *page = aligned_alloc(4096, 4096);

	if (!page)
		abort();
	memset(page, 0, 4096);
	t->page = page;
	CHECK(&t->r, cuMemHostRegister(page, 4096, CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS);
	CHECK(&t->r, cuStreamCreate(&t->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	CHECK(&t->r, cuStreamCreate(&t->other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
}

static void test_end(struct test *t)
{
	if (t->stream)
		cuStreamDestroy(t->stream);
	if (t->other)
		cuStreamDestroy(t->other);
	CHECK(&t->r, cuMemHostUnregister(t->page) == CUDA_SUCCESS);
	free(t->page);
	t->page = NULL;
}

/* A job begins after the operations before it, and operations behind it begin after its end. */
static void test_order(struct test *t)
{
	struct work works[JOBS] = {{0}};
	unsigned i;

	for (i = 0; i < JOBS; i++) {
		works[i] = (struct work){.expected = 2 * i + 1, .is_checked = true};
		stream_set(t, t->stream, 0, 2 * i + 1);
		CHECK_OK(&t->r, post(t, &works[i], t->stream));
	}
	fakecuda_finish(t->stream);
	CHECK(&t->r, t->page->seen[0] == 2 * JOBS);
	for (i = 0; i < JOBS; i++) {
		await(&works[i].released, 1);
		CHECK(&t->r, works[i].executions == 1 && !works[i].is_wrong);
	}
}

/* No job begins before its stream has reached it. */
static void test_blocked(struct test *t)
{
	struct work blocked = {.index = 1}, free_one = {.index = 2};

	/* It pins memory, which may wait for streams. */
	CHECK_OK(&t->r, oriel_comm_prepare(t->r.comm));
	stream_block(t, t->stream);
	CHECK_OK(&t->r, post(t, &blocked, t->stream));
	CHECK_OK(&t->r, post(t, &free_one, t->other));
	fakecuda_finish(t->other);
	CHECK(&t->r, blocked.steps == 0 && free_one.executions == 1);
	__atomic_store_n(&t->page->gate, 1, __ATOMIC_RELEASE);
	fakecuda_finish(t->stream);
	CHECK(&t->r, blocked.executions == 1);
	await(&blocked.released, 1);
	await(&free_one.released, 1);
	t->page->gate = 0;
}

/* The job of the first stream ends only after the job of the second stream, posted later. */
static void test_streams(struct test *t)
{
	atomic_bool gate = false;
	atomic_uint order = 0;
	struct work first = {.index = 3, .gate = &gate, .order = &order};
	struct work second = {.index = 4, .order = &order};

	CHECK_OK(&t->r, post(t, &first, t->stream));
	await(&first.steps, 1);
	CHECK_OK(&t->r, post(t, &second, t->other));
	fakecuda_finish(t->other);
	CHECK(&t->r, second.ends[0] == 0 && first.executions == 0);
	atomic_store(&gate, true);
	fakecuda_finish(t->stream);
	CHECK(&t->r, first.ends[0] == 1);
	await(&first.released, 1);
	await(&second.released, 1);
}

static CUgraphExec capture(struct test *t, struct work *works, unsigned count, CUgraph *graph)
{
	CUgraphExec exec = NULL;
	unsigned i;

	CHECK(&t->r,
	      cuStreamBeginCapture(t->stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	for (i = 0; i < count; i++) {
		stream_set(t, t->stream, works[i].index, works[i].expected);
		CHECK_OK(&t->r, post(t, &works[i], t->stream));
	}
	CHECK(&t->r, cuStreamEndCapture(t->stream, graph) == CUDA_SUCCESS);
	CHECK(&t->r, cuGraphInstantiate(&exec, *graph, 0) == CUDA_SUCCESS);
	return exec;
}

/* Each launch is an execution; contexts are released with both graph and executable. */
static void test_replays(struct test *t)
{
	struct work works[2] = {{.index = 5, .expected = 10, .is_checked = true},
				{.index = 6, .expected = 20, .is_checked = true}};
	struct work eager = {.index = 7};
	unsigned dropped = fakecuda_dropped(), i;
	CUgraphExec exec;
	CUgraph graph;

	exec = capture(t, works, 2, &graph);
	CHECK(&t->r, works[0].steps == 0);
	for (i = 0; i < REPLAYS; i++) {
		CHECK(&t->r, cuGraphLaunch(exec, t->stream) == CUDA_SUCCESS);
		if (i == REPLAYS / 2)
			CHECK_OK(&t->r, post(t, &eager, t->stream));
	}
	fakecuda_finish(t->stream);
	CHECK(&t->r, eager.executions == 1 && eager.released <= 1);
	for (i = 0; i < 2; i++) {
		CHECK(&t->r, works[i].executions == REPLAYS && !works[i].is_wrong);
		CHECK(&t->r, t->page->seen[works[i].index] == works[i].expected + 1);
		CHECK(&t->r, works[i].released == 0);
	}
	CHECK(&t->r, cuGraphDestroy(graph) == CUDA_SUCCESS && works[0].released == 0);
	CHECK(&t->r, cuGraphLaunch(exec, t->other) == CUDA_SUCCESS);
	CHECK(&t->r, cuGraphExecDestroy(exec) == CUDA_SUCCESS);
	for (i = 0; i < 2; i++) {
		await(&works[i].released, 1);
		CHECK(&t->r, works[i].executions == REPLAYS + 1);
	}
	CHECK(&t->r, fakecuda_dropped() == dropped + 2);
	await(&eager.released, 1);
	fakecuda_finish(t->other);
}

/* The jobs of two graphs and jobs that are not captured, in turn. */
static void test_two_graphs(struct test *t)
{
	struct work works[2] = {{.index = 8}, {.index = 9}}, eager[20] = {{0}};
	CUgraphExec execs[2];
	CUgraph graphs[2];
	unsigned i;

	for (i = 0; i < 2; i++)
		execs[i] = capture(t, &works[i], 1, &graphs[i]);
	for (i = 0; i < 20; i++) {
		eager[i].index = 10;
		CHECK_OK(&t->r, post(t, &eager[i], t->stream));
		CHECK(&t->r, cuGraphLaunch(execs[i % 2], t->stream) == CUDA_SUCCESS);
	}
	fakecuda_finish(t->stream);
	CHECK(&t->r, works[0].executions == 10 && works[1].executions == 10);
	/* Destroys one graph before its executable, and the other one after. */
	cuGraphDestroy(graphs[0]);
	cuGraphExecDestroy(execs[0]);
	cuGraphExecDestroy(execs[1]);
	CHECK(&t->r, works[1].released == 0);
	cuGraphDestroy(graphs[1]);
	for (i = 0; i < 2; i++)
		await(&works[i].released, 1);
	for (i = 0; i < 20; i++)
		await(&eager[i].released, 1);
}

/* If the driver rejects the first operation, the context stays the caller's; in graphs as well. */
static void test_rejected(struct test *t)
{
	static const char *const calls[] = {"cuStreamWriteValue32", "cuUserObjectCreate"};
	struct work w = {.index = 11}, good = {.index = 11}, first = {.index = 11};
	unsigned i, left;
	CUgraphExec exec;
	CUgraph graph;

	/* After it a post allocates nothing, and so does not wait for the GPU. */
	CHECK_OK(&t->r, oriel_comm_prepare(t->r.comm));
	left = fakecuda_left();
	CHECK_OK(&t->r, post(t, &first, t->stream));
	await(&first.released, 1);
	CHECK(&t->r, fakecuda_left() == left);
	for (i = 0; i < 2; i++) {
		CHECK(&t->r, cuStreamBeginCapture(t->stream, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
				     CUDA_SUCCESS);
		fakecuda_fail(calls[i], 0);
		CHECK_FAILS(&t->r, post(t, &w, t->stream), ORIEL_ERR_INVALID, "on GPU");
		fakecuda_fail(NULL, 0);
		CHECK(&t->r, cuStreamEndCapture(t->stream, &graph) == CUDA_SUCCESS);
		cuGraphDestroy(graph);
	}
	fakecuda_fail("cuStreamWriteValue32", 0);
	CHECK_FAILS(&t->r, post(t, &w, t->stream), ORIEL_ERR_INVALID, "on GPU");
	fakecuda_fail(NULL, 0);
	exec = capture(t, &good, 1, &graph);
	CHECK(&t->r, cuGraphLaunch(exec, t->stream) == CUDA_SUCCESS);
	fakecuda_finish(t->stream);
	cuGraphExecDestroy(exec);
	cuGraphDestroy(graph);
	await(&good.released, 1);
	CHECK(&t->r, w.steps == 0 && w.released == 0 && good.executions == 1);
	CHECK(&t->r, fakecuda_left() == left);
}

/* The stream goes on after a failure, as do other streams and later launches. */
static void test_failure(struct test *t)
{
	atomic_bool gate = false;
	struct work stuck = {.index = 12, .gate = &gate},
		    bad = {.index = 13, .end = ORIEL_ERR_PEER};
	struct work captured = {.index = 14, .gate = &gate}, pending = {.index = 15};
	struct oriel_health health = {.size = sizeof(health)};
	CUgraphExec exec;
	CUgraph graph;

	exec = capture(t, &captured, 1, &graph);
	stream_block(t, t->other);
	CHECK_OK(&t->r, post(t, &pending, t->other));
	CHECK_OK(&t->r, post(t, &stuck, t->stream));
	await(&stuck.steps, 1);
	/* Without a stream, so it does not wait for the stuck job. */
	CHECK_OK(&t->r, post(t, &bad, NULL));
	fakecuda_finish(t->stream);
	CHECK(&t->r, stuck.executions == 0);
	oriel_comm_health(t->r.comm, &health);
	CHECK(&t->r, health.status == ORIEL_ERR_PEER);
	CHECK(&t->r, post(t, &bad, t->stream) == ORIEL_ERR_PEER);
	/* Each launch still has one step. */
	CHECK(&t->r, cuGraphLaunch(exec, t->stream) == CUDA_SUCCESS);
	CHECK(&t->r, cuGraphLaunch(exec, t->stream) == CUDA_SUCCESS);
	fakecuda_finish(t->stream);
	CHECK(&t->r, captured.steps == 2 && captured.executions == 0);
	__atomic_store_n(&t->page->gate, 1, __ATOMIC_RELEASE);
	fakecuda_finish(t->other);
	CHECK(&t->r, pending.steps == 1);
	cuGraphExecDestroy(exec);
	/* Destroyed before the graph, the communicator releases captured jobs. */
	oriel_comm_destroy(t->r.comm);
	t->r.comm = NULL;
	CHECK(&t->r, captured.released == 1 && pending.released == 1 && stuck.released == 1);
	cuGraphDestroy(graph);
	CHECK(&t->r, captured.released == 1);
}

/* After the first operation the job cannot be withdrawn, and the communicator breaks. */
static void test_torn(struct test *t)
{
	struct work w = {.index = 16}, captured = {.index = 17};
	struct oriel_health health = {.size = sizeof(health)};
	CUgraph graph;

	CHECK(&t->r, cuStreamBeginCapture(t->other, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	CHECK_OK(&t->r, post(t, &captured, t->other));
	CHECK(&t->r, cuStreamEndCapture(t->other, &graph) == CUDA_SUCCESS);
	fakecuda_fail("cuStreamWaitValue32", 0);
	CHECK_OK(&t->r, post(t, &w, t->stream));
	fakecuda_fail(NULL, 0);
	fakecuda_finish(t->stream);
	await(&w.released, 1);
	oriel_comm_health(t->r.comm, &health);
	CHECK(&t->r, health.status == ORIEL_ERR_INVALID && w.steps == 1);
	/* It was never launched: the graph is destroyed, then the communicator. */
	cuGraphDestroy(graph);
	await(&captured.released, 1);
	CHECK(&t->r, captured.steps == 0);
}

/*
 * More captured jobs than one allocation has words for, and more than may be posted. Each pass of
 * the thread polls all of them: ThreadSanitizer takes minutes for as many launches.
 */
static void test_many(struct test *t)
{
	static struct work works[MANY];
	static const unsigned begins[] = {0, MANY - FEW, MANY};
	unsigned launches[] = {3, 3}, i, k;
	CUgraphExec execs[2];
	CUgraph graphs[2];

#ifdef ORIEL_DEV_TSAN
	launches[0] = 0;
#endif
	for (i = 0; i < MANY; i++)
		works[i].index = 18;
	for (k = 0; k < 2; k++)
		execs[k] = capture(t, &works[begins[k]], begins[k + 1] - begins[k], &graphs[k]);
	for (k = 0; k < 2; k++)
		for (i = 0; i < launches[k]; i++)
			CHECK(&t->r, cuGraphLaunch(execs[k], t->stream) == CUDA_SUCCESS);
	fakecuda_finish(t->stream);
	for (k = 0; k < 2; k++) {
		cuGraphExecDestroy(execs[k]);
		cuGraphDestroy(graphs[k]);
	}
	for (i = 0; i < MANY; i++) {
		await(&works[i].released, 1);
		CHECK(&t->r, works[i].executions == launches[i >= MANY - FEW]);
	}
}

/* NULL is the default stream: the fake driver waits for the end of the job in the call. */
static void test_a_job_in_the_default_stream(struct test *t)
{
	struct work w = {.page = t->page};
	struct oriel_job job = {sizeof(job), work_step, work_release, &w};

	CHECK_OK(&t->r, oriel_comm_post_on_stream(t->r.comm, &job, NULL));
	CHECK(&t->r, w.executions == 1);
	await(&w.released, 1);
}

/* A mark says when the stream has passed it, also after the stream was destroyed. */
static void test_marks(struct test *t)
{
	unsigned left = fakecuda_left();
	struct oriel_mark *mark = NULL;
	bool is_capturing = false;
	CUgraph graph;

	CHECK_OK(&t->r, oriel_mark_create(t->r.comm, &mark));
	CHECK_OK(&t->r, oriel_mark_test(mark));
	stream_block(t, t->other);
	CHECK_OK(&t->r, oriel_mark_set_on_stream(mark, t->other));
	CHECK(&t->r, oriel_mark_test(mark) == ORIEL_AGAIN);
	CHECK_OK(&t->r, oriel_comm_is_capturing(t->r.comm, t->stream, &is_capturing));
	CHECK(&t->r, !is_capturing);
	CHECK(&t->r,
	      cuStreamBeginCapture(t->stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	CHECK_OK(&t->r, oriel_comm_is_capturing(t->r.comm, t->stream, &is_capturing));
	CHECK(&t->r, is_capturing);
	CHECK_FAILS(&t->r, oriel_mark_set_on_stream(mark, t->stream), ORIEL_ERR_STATE,
		    "being captured");
	/* Other streams go on meanwhile. */
	CHECK(&t->r, oriel_mark_test(mark) == ORIEL_AGAIN);
	__atomic_store_n(&t->page->gate, 1, __ATOMIC_RELEASE);
	fakecuda_finish(t->other);
	CHECK_OK(&t->r, oriel_mark_test(mark));
	CHECK(&t->r, cuStreamEndCapture(t->stream, &graph) == CUDA_SUCCESS);
	cuGraphDestroy(graph);
	CHECK_OK(&t->r, oriel_mark_set_on_stream(mark, t->other));
	cuStreamDestroy(t->other);
	t->other = NULL;
	CHECK_OK(&t->r, oriel_mark_test(mark));
	/* NULL is the default stream. */
	is_capturing = true;
	CHECK_OK(&t->r, oriel_comm_is_capturing(t->r.comm, NULL, &is_capturing));
	CHECK(&t->r, !is_capturing);
	CHECK_OK(&t->r, oriel_mark_set_on_stream(mark, NULL));
	CHECK_OK(&t->r, oriel_mark_test(mark));
	oriel_mark_destroy(mark);
	CHECK(&t->r, fakecuda_left() == left - 1);
}

/* Jobs in streams count for the limit of posts; after their end there is room again. */
static void test_limit(struct test *t)
{
	static struct work works[ORIEL_JOBS];
	struct work more = {.index = 21}, last = {.index = 21};
	unsigned i;

	oriel_comm_destroy(t->r.comm);
	rank_join(&t->r, SHORT_NS);
	CHECK_OK(&t->r, oriel_comm_prepare(t->r.comm));
	stream_block(t, t->other);
	for (i = 0; i < ORIEL_JOBS; i++) {
		works[i].index = 21;
		CHECK_OK(&t->r, post(t, &works[i], t->other));
	}
	CHECK_FAILS(&t->r, post(t, &more, t->other), ORIEL_ERR_TIMEOUT, "1024 jobs");
	__atomic_store_n(&t->page->gate, 1, __ATOMIC_RELEASE);
	fakecuda_finish(t->other);
	for (i = 0; i < ORIEL_JOBS; i++)
		await(&works[i].released, 1);
	if (CHECK_OK(&t->r, post(t, &last, NULL)))
		await(&last.released, 1);
	CHECK(&t->r, more.steps == 0 && more.released == 0);
	t->page->gate = 0;
}

/* Opens the gate once the destroy is likely to wait for the job behind it. */
static void *opener_main(void *argument)
{
	const struct timespec nap = {0, 100000000};
	struct page *page = argument;

	nanosleep(&nap, NULL);
	__atomic_store_n(&page->gate, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* The destroy waits for a job whose stream has not reached it, and for none that a graph holds. */
static void test_destroyed(struct test *t)
{
	struct work captured = {.index = 19}, waiting = {.index = 20};
	pthread_t opener;
	CUgraphExec exec;
	CUgraph graph;
	unsigned left;

	oriel_comm_destroy(t->r.comm);
	left = fakecuda_left();
	rank_join(&t->r, LONG_NS);
	exec = capture(t, &captured, 1, &graph);
	oriel_comm_destroy(t->r.comm);
	CHECK(&t->r, captured.steps == 0 && captured.released == 1);
	cuGraphExecDestroy(exec);
	cuGraphDestroy(graph);
	/* Had it waited until the limit, it would have left the words to the stream. */
	CHECK(&t->r, fakecuda_left() == left);

	rank_join(&t->r, LONG_NS);
	CHECK_OK(&t->r, oriel_comm_prepare(t->r.comm));
	stream_block(t, t->other);
	CHECK_OK(&t->r, post(t, &waiting, t->other));
	if (pthread_create(&opener, NULL, opener_main, t->page) != 0)
		abort();
	oriel_comm_destroy(t->r.comm);
	t->r.comm = NULL;
	pthread_join(opener, NULL);
	/* Otherwise the stream waits for ever. */
	if (CHECK(&t->r, waiting.executions == 1 && waiting.released == 1))
		fakecuda_finish(t->other);
	else
		t->other = NULL;
	CHECK(&t->r, fakecuda_left() == left);
	t->page->gate = 0;
}

static const struct {
	const char *name;
	void (*run)(struct test *t);
} tests[] = {
	{"order", test_order},         {"blocked", test_blocked},
	{"streams", test_streams},     {"replays", test_replays},
	{"two", test_two_graphs},      {"rejected", test_rejected},
	{"failure", test_failure},     {"torn", test_torn},
	{"many", test_many},           {"default_stream", test_a_job_in_the_default_stream},
	{"marks", test_marks},         {"limit", test_limit},
	{"destroyed", test_destroyed},
};

static unsigned run_test(void (*run)(struct test *t))
{
	struct oriel_bootstrap bootstrap;
	struct oriel_local_job *job;
	struct test t = {0};

	if (oriel_local_job_create(1, &job) != ORIEL_OK ||
	    oriel_bootstrap_open_local(job, 0, &bootstrap) != ORIEL_OK)
		abort();
	t.r = (struct rank){.rank = 0, .size = 1, .bootstrap = &bootstrap};
	rank_use_gpu(&t.r);
	test_begin(&t);
	rank_join(&t.r, LONG_NS);
	run(&t);
	test_end(&t);
	oriel_comm_destroy(t.r.comm);
	oriel_bootstrap_close(&bootstrap);
	oriel_local_job_destroy(job);
	return t.r.failures;
}

int main(int argc, char **argv)
{
	unsigned failures = 0, fds = count_fds();
	size_t i;

	fakecuda_async(true);
	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (argc < 2 || strcmp(argv[1], tests[i].name) == 0) {
			printf("%s\n", tests[i].name);
			fflush(stdout);
			failures += run_test(tests[i].run);
		}
	return rank_finish(failures, fds);
}
