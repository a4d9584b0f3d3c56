/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that gather_rows.cu and reduce_rows.cu share: ranks are threads, one for each GPU, each
 * with a communicator of Oriel and one of NCCL; executions are timed, eager and in a graph. The
 * program that includes this has rank_run() and execute().
 */
#ifndef BENCH_GPU_COLL_ROWS_H
#define BENCH_GPU_COLL_ROWS_H

#include "samples.h"

#include <nccl.h>
#include <pthread.h>

#include <oriel/oriel.h>

#define BYTES_MAX (256ul << 20)
#define RANKS_MAX 8
#define PASSES 7
#define LONG_NS 20000000000ull /* a wait of a kernel that takes as long has failed */

struct rank {
	int rank, ranks;
	struct oriel_comm *oriel;
	struct oriel_allgather *gather; /* of the current row, as the next two */
	struct oriel_allreduce *all;
	struct oriel_reduce_scatter *scatter;
	ncclComm_t nccl;
	cudaStream_t stream;
	cudaStream_t urgent; /* for gathers beside a kernel */
	char *send, *result;
	unsigned *wrong; /* bytes or elements, on the GPU */
};

struct method;

/* All rows of the program, by each rank. */
static void rank_run(struct rank *r);
/* Posts one execution to the stream of @r. */
static void execute(struct rank *r, const struct method *method, size_t bytes);

static pthread_barrier_t meeting;

static void nccl_check(ncclResult_t result, const char *what)
{
	if (result == ncclSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, ncclGetErrorString(result));
	exit(2);
}

static void oriel_check(enum oriel_status status, const char *what)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, oriel_last_error());
	exit(2);
}

#define NCCL_CHECK(call) nccl_check(call, #call)
#define ORIEL_CHECK(call) oriel_check(call, #call)

static unsigned rounds_of(size_t bytes)
{
	return bytes >= 64u << 20 ? 4 : bytes >= 1u << 20 ? 20 : 100;
}

/* The errors that kernels in the stream of @r have counted since @r->wrong was set to 0. */
static unsigned count_wrong(const struct rank *r)
{
	unsigned wrong;

	CHECK(cudaMemcpyAsync(&wrong, r->wrong, sizeof(wrong), cudaMemcpyDefault, r->stream));
	CHECK(cudaStreamSynchronize(r->stream));
	return wrong;
}

/* Time of one of many queued executions. @exec NULL: each is started; else each is a launch. */
static void run_timed(struct rank *r, const struct method *method, size_t bytes,
		      cudaGraphExec_t exec, double *us)
{
	unsigned rounds = rounds_of(bytes), pass, i;
	cudaEvent_t begin, end;
	float ms;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	for (pass = 0; pass <= PASSES; pass++) {
		CHECK(cudaStreamSynchronize(r->stream));
		pthread_barrier_wait(&meeting);
		if (!exec)
			execute(r, method, bytes);
		CHECK(cudaEventRecord(begin, r->stream));
		for (i = 0; i < rounds && !exec; i++)
			execute(r, method, bytes);
		if (exec)
			CHECK(cudaGraphLaunch(exec, r->stream));
		CHECK(cudaEventRecord(end, r->stream));
		CHECK(cudaStreamSynchronize(r->stream));
		CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (pass)
			us[pass - 1] = ms * 1e3 / rounds;
	}
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
}

static cudaGraphExec_t capture(struct rank *r, const struct method *method, size_t bytes)
{
	unsigned rounds = rounds_of(bytes), i;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal));
	for (i = 0; i < rounds; i++)
		execute(r, method, bytes);
	CHECK(cudaStreamEndCapture(r->stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	return exec;
}

/* The rows of @method, whose mode without the form is that of @like; the first, or both, @forms. */
static void run_forms(struct rank *r, const struct method *method, const struct row *like,
		      int forms, double moved)
{
	struct row row = *like;
	double us[PASSES];
	cudaGraphExec_t exec;
	char mode[64];
	int in_graph;

	row.mode = mode;
	for (in_graph = 0; in_graph < forms; in_graph++) {
		exec = in_graph ? capture(r, method, row.bytes) : NULL;
		run_timed(r, method, row.bytes, exec, us);
		pthread_barrier_wait(&meeting);
		snprintf(mode, sizeof(mode), "%s, %s", like->mode, in_graph ? "graph" : "eager");
		if (r->rank == 0)
			row_print(&row, us, PASSES, moved);
		if (exec)
			CHECK(cudaGraphExecDestroy(exec));
	}
}

static ncclUniqueId nccl_id;

/* Buffers of NCCL, which those of @r are between open and close. */
struct nccl_buffers {
	char *send; /* that of @r before */
	ncclWindow_t windows[2];
	bool is_symmetric;
};

static struct nccl_buffers nccl_open(struct rank *r, ncclConfig_t *config, size_t send_length,
				     size_t result_length, bool is_symmetric)
{
	struct nccl_buffers b = {r->send, {}, is_symmetric};

	if (r->rank == 0)
		NCCL_CHECK(ncclGetUniqueId(&nccl_id));
	pthread_barrier_wait(&meeting);
	NCCL_CHECK(ncclCommInitRankConfig(&r->nccl, r->ranks, nccl_id, r->rank, config));
	NCCL_CHECK(ncclMemAlloc((void **)&r->send, send_length));
	NCCL_CHECK(ncclMemAlloc((void **)&r->result, result_length));
	if (is_symmetric) {
		NCCL_CHECK(ncclCommWindowRegister(r->nccl, r->send, send_length, &b.windows[0],
						  NCCL_WIN_COLL_SYMMETRIC));
		NCCL_CHECK(ncclCommWindowRegister(r->nccl, r->result, result_length, &b.windows[1],
						  NCCL_WIN_COLL_SYMMETRIC));
	}
	return b;
}

static void nccl_close(struct rank *r, const struct nccl_buffers *b)
{
	CHECK(cudaStreamSynchronize(r->stream));
	pthread_barrier_wait(&meeting);
	if (b->is_symmetric) {
		NCCL_CHECK(ncclCommWindowDeregister(r->nccl, b->windows[0]));
		NCCL_CHECK(ncclCommWindowDeregister(r->nccl, b->windows[1]));
	}
	NCCL_CHECK(ncclMemFree(r->send));
	NCCL_CHECK(ncclMemFree(r->result));
	NCCL_CHECK(ncclCommDestroy(r->nccl));
	r->send = b->send;
}

static struct oriel_local_job *job;
static int rank_count;

static void *rank_main(void *argument)
{
	struct oriel_bootstrap bootstrap;
	struct oriel_comm_attr attr = {};
	struct rank r = {};

	r.rank = (int)(intptr_t)argument;
	r.ranks = rank_count;
	attr.size = sizeof(attr);
	attr.flags = ORIEL_COMM_GPU;
	attr.timeout_ns = LONG_NS;
	CHECK(cudaSetDevice(r.rank));
	CHECK(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc((void **)&r.wrong, sizeof(*r.wrong)));
	ORIEL_CHECK(oriel_bootstrap_open_local(job, (unsigned)r.rank, &bootstrap));
	ORIEL_CHECK(oriel_comm_create(&bootstrap, &attr, &r.oriel));
	rank_run(&r);
	oriel_comm_destroy(r.oriel);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

/* The main() of the program; argv[1]: ranks, at most. */
static int run_ranks(int argc, char **argv)
{
	pthread_t threads[RANKS_MAX];
	int i;

	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	CHECK(cudaGetDeviceCount(&rank_count));
	if (argc > 1 && atoi(argv[1]) < rank_count)
		rank_count = atoi(argv[1]);
	if (rank_count < 1 || rank_count > RANKS_MAX)
		return 77;
	pthread_barrier_init(&meeting, NULL, (unsigned)rank_count);
	ORIEL_CHECK(oriel_local_job_create((unsigned)rank_count, &job));
	for (i = 0; i < rank_count; i++)
		if (pthread_create(&threads[i], NULL, rank_main, (void *)(intptr_t)i))
			return 2;
	for (i = 0; i < rank_count; i++)
		pthread_join(threads[i], NULL);
	oriel_local_job_destroy(job);
	return 0;
}

#endif
