/* SPDX-License-Identifier: Apache-2.0 */
/* The main function of the programs of nodes.h, and the steps that their tests share. */
#include "nodes.h"

#include <stdlib.h>
#include <time.h>

void nodes_expect_broken(struct site *s, struct object *o)
{
	while (ori_dev_health(&s->r.dev) == ORIEL_OK)
		ori_dev_back_off(10000000);
	fakecuda_finish(o->stream);
}

void nodes_capture_begin(struct site *s, struct object *o)
{
	CHECK(&s->r,
	      cuStreamBeginCapture(o->stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
}

void nodes_meet(const struct site *s)
{
	pthread_barrier_wait(s->barrier);
}

CUgraphExec nodes_capture_end(struct site *s, struct object *o, CUgraph *graph)
{
	CUgraphExec exec = NULL;

	CHECK(&s->r, cuStreamEndCapture(o->stream, graph) == CUDA_SUCCESS);
	CHECK(&s->r, cuGraphInstantiate(&exec, *graph, 0) == CUDA_SUCCESS);
	nodes_meet(s);
	return exec;
}

struct oriel_view nodes_view(const struct site *s, const struct object *o)
{
	const struct oriel_view view = {.size = sizeof(view),
					.kind = ORIEL_VIEW_BUFFER,
					.flags = ORIEL_VIEW_GPU,
					.length = (size_t)s->r.size * SHARE,
					.buffer = o->result};

	return view;
}

void nodes_expect_rejected(struct site *s, struct object *o, nodes_start *start)
{
	nodes_expect_broken(s, o);
	CHECK(&s->r, start(s, o) == ori_dev_health(&s->r.dev));
}

CUgraph nodes_abort_replays(struct site *s, struct object *o, nodes_start *start, unsigned launches)
{
	const struct timespec nap = {0, 1000000l * (1 + s->round % 7)};
	CUgraphExec exec;
	CUgraph graph;
	unsigned i;

	nodes_capture_begin(s, o);
	CHECK_OK(&s->r, start(s, o));
	exec = nodes_capture_end(s, o, &graph);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	for (i = 0; i < launches; i++)
		CHECK(&s->r, cuGraphLaunch(exec, o->stream) == CUDA_SUCCESS);
	nanosleep(&nap, NULL);
	if (s->r.rank == 0)
		oriel_comm_abort(s->r.comm, "a test");
	nodes_expect_rejected(s, o, start);
	CHECK(&s->r, ori_dev_health(&s->r.dev) == ORIEL_ERR_ABORTED);
	cuGraphExecDestroy(exec);
	return graph;
}

void nodes_fail_copies(struct site *s, struct object *o, nodes_start *start, unsigned after)
{
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	if (s->r.rank == 0)
		fakecuda_fail("cuMemcpyAsync", after);
	CHECK_OK(&s->r, oriel_comm_barrier(s->r.comm));
	while (ori_dev_health(&s->r.dev) == ORIEL_OK) {
		if (start(s, o) != ORIEL_OK)
			oriel_comm_abort(s->r.comm, "the driver fails");
		fakecuda_finish(o->stream);
	}
	nodes_expect_rejected(s, o, start);
}

static unsigned site_run(const struct oriel_bootstrap *bootstrap, const char *node, unsigned test,
			 pthread_barrier_t *barrier)
{
	struct site s = {.r = {.rank = bootstrap->rank,
			       .size = bootstrap->size,
			       .bootstrap = bootstrap,
			       .node = node},
			 .barrier = barrier};
	struct oriel_window_attr attr = {.size = sizeof(attr), .signals = 1};
	CUdeviceptr at;
	unsigned i;

	rank_use_gpu(&s.r);
	rank_join(&s.r, nodes_tests[test].timeout_ns);
	/* A window in host memory, to read the health. */
	CHECK_OK(&s.r, oriel_window_create(s.r.comm, &attr, &s.r.window));
	CHECK_OK(&s.r, oriel_window_device(s.r.window, &s.r.dev));
	for (i = 0; i < OBJECTS; i++) {
		CHECK(&s.r,
		      cuStreamCreate(&s.objects[i].stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
		CHECK(&s.r, cuMemAlloc(&at, s.r.size * SHARE) == CUDA_SUCCESS);
		s.objects[i].result = (char *)at;
		CHECK(&s.r, cuMemAlloc(&at, s.r.size * SHARE + 64) == CUDA_SUCCESS);
		s.objects[i].send = (char *)at;
	}
	nodes_meet(&s);
	nodes_tests[test].run(&s);
	oriel_window_destroy(s.r.window);
	oriel_comm_destroy(s.r.comm);
	/* Until then ranks of a broken communicator may still copy to each other's memory. */
	nodes_meet(&s);
	for (i = 0; i < OBJECTS; i++) {
		cuStreamDestroy(s.objects[i].stream);
		cuMemFree((CUdeviceptr)s.objects[i].result);
		cuMemFree((CUdeviceptr)s.objects[i].send);
	}
	return s.r.failures;
}

struct thread {
	struct oriel_local_job *job;
	unsigned rank, failures, test;
	char node[16];
	pthread_barrier_t *barrier;
	pthread_t id;
};

static void *thread_main(void *argument)
{
	struct thread *t = argument;
	struct oriel_bootstrap bootstrap;

	if (oriel_bootstrap_open_local(t->job, t->rank, &bootstrap) != ORIEL_OK)
		abort();
	t->failures = site_run(&bootstrap, t->node, t->test, t->barrier);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

static unsigned run(unsigned test, unsigned count, unsigned nodes)
{
	struct thread *threads = calloc(count, sizeof(*threads));
	struct oriel_local_job *job;
	pthread_barrier_t barrier;
	unsigned failures = 0, i;

	if (!threads || oriel_local_job_create(count, &job) != ORIEL_OK)
		abort();
	pthread_barrier_init(&barrier, NULL, count);
	for (i = 0; i < count; i++) {
		threads[i] =
			(struct thread){.job = job, .rank = i, .test = test, .barrier = &barrier};
		snprintf(threads[i].node, sizeof(threads[i].node), "node%u", i * nodes / count);
		if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]))
			abort();
	}
	for (i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		failures += threads[i].failures;
	}
	pthread_barrier_destroy(&barrier);
	oriel_local_job_destroy(job);
	free(threads);
	return failures;
}

int main(int argc, char **argv)
{
	unsigned fds = count_fds(), i;

	if (argc != 4)
		return 2;
	fakecuda_async(true);
	for (i = 0; nodes_tests[i].name; i++)
		if (strcmp(argv[1], nodes_tests[i].name) == 0)
			return rank_finish(run(i, (unsigned)atoi(argv[2]), (unsigned)atoi(argv[3])),
					   fds);
	return 2;
}
