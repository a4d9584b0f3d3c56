/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation of oriel/dev.h on GPUs, over hand-made windows: right bytes at the right
 * offsets, graph replays, time limits, a broken communicator. Built once for each kind of group
 * (-DKIND=0 thread, 1 warp, 2 block, 3 cluster).
 *
 * usage: gpu_ops [--ranks N] [--threads N] [--replays N] [--table 1] [PART OF A NAME]
 *
 * One launch serves all ranks of a GPU (blockIdx.y), so that tools that run one kernel at a
 * time can watch two ranks on one GPU.
 */
#include <time.h>

#include "ops_job.h"

typedef void (*kernel)(struct job);

struct run {
	struct bare bare;
	struct job job;
	struct report *report;
	unsigned threads;
	unsigned passed;
	unsigned failed;
	const char *part;
};

static dim3 grid_of(unsigned ranks)
{
	return dim3(KIND == 3 ? 2 : 1, ranks);
}

static void launch(struct run *run, kernel k, const struct job *job, uint32_t gpu)
{
	cudaLaunchAttribute cluster = {};
	cudaLaunchConfig_t config = {};
	struct job j = *job;
	uint32_t i, here = 0;

	for (i = 0; i < run->bare.attr.ranks; i++)
		if ((uint32_t)run->bare.rank[i].gpu == gpu)
			j.rank[here++] = i;
	config.gridDim = grid_of(here);
	config.blockDim = dim3(run->threads);
	config.stream = run->bare.rank[gpu].stream;
	cluster.id = cudaLaunchAttributeClusterDimension;
	cluster.val.clusterDim.x = 2;
	cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
	config.attrs = &cluster;
	config.numAttrs = KIND == 3;
	CUDA_CHECK(cudaSetDevice((int)gpu));
	CUDA_CHECK(cudaLaunchKernelEx(&config, k, j));
}

static bool finish(struct run *run)
{
	bool is_right = true;
	uint32_t i;

	for (i = 0; i < run->bare.attr.gpus; i++) {
		CUDA_CHECK(cudaSetDevice((int)i));
		CUDA_CHECK(cudaDeviceSynchronize());
	}
	if (run->report->failures) {
		printf("  %u failures, the first:\n", run->report->failures);
		is_right = false;
	}
	for (i = 0; i < run->report->failures && i < REPORTED; i++)
		printf("  line %u, rank %u, at %llu: %llx, not %llx\n", run->report->first[i].line,
		       run->report->first[i].rank, run->report->first[i].at,
		       run->report->first[i].got, run->report->first[i].expected);
	memset(run->report, 0, sizeof(*run->report));
	return is_right;
}

static bool all_run(struct run *run, kernel k)
{
	uint32_t i;

	for (i = 0; i < run->bare.attr.gpus; i++)
		launch(run, k, &run->job, i);
	return finish(run);
}

static bool is_well(struct run *run)
{
	const struct oriel_dev_fault *h = run->bare.health;
	bool is_right = true;
	uint32_t i;

	if (h->state) {
		printf("  broken: status %d in operation %u, peer %u, id %u, expected %llu, seen "
		       "%llu\n",
		       h->status, h->what, h->peer, h->id, (unsigned long long)h->expected,
		       (unsigned long long)h->seen);
		is_right = false;
	}
	for (i = 0; i < run->bare.attr.ranks; i++) {
		if (run->bare.fault[i].state) {
			printf("  rejected at rank %u: status %d in operation %u\n", i,
			       run->bare.fault[i].status, run->bare.fault[i].what);
			is_right = false;
		}
	}
	return is_right;
}

static bool begins(struct run *run, const char *name)
{
	return !run->part || strstr(name, run->part);
}

static void verdict(struct run *run, const char *name, bool is_right)
{
	printf("%s %s\n", is_right ? "PASS" : "FAIL", name);
	fflush(stdout);
	if (is_right)
		run->passed++;
	else
		run->failed++;
}

static void simple_case(struct run *run, const char *name, kernel k)
{
	bool is_right;

	if (!begins(run, name))
		return;
	run->job.seed++;
	is_right = all_run(run, k);
	is_right &= is_well(run);
	verdict(run, name, is_right);
}

static void put_case(struct run *run)
{
	static const uint64_t lengths[] = {0,      1,       2,      3,    4,    5,     7,     8,
					   9,      12,      15,     16,   17,   24,    31,    32,
					   33,     47,      48,     63,   64,   65,    66,    80,
					   95,     100,     127,    128,  129,  255,   256,   257,
					   1000,   1024,    4095,   4096, 4097, 20000, 65536, 65541,
					   262144, 1048579, 5000001};
	static const uint32_t skews[] = {0, 1, 2, 4, 7, 8, 12, 15};
	bool is_right = true;
	unsigned i, to, from;

	if (!begins(run, "put_skewed"))
		return;
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && is_right; i++) {
		for (to = 0; to < 8 && is_right; to++) {
			for (from = 0; from < 8 && is_right; from++) {
				/*
				 * Long ones at all relative offsets, but not at all absolute
				 * ones.
				 */
				if (lengths[i] > 5000 && to > 1 && from)
					continue;
				if (KIND < 2 && lengths[i] > 70000 && (to || from > 1))
					continue;
				if (KIND == 0 && lengths[i] > 70000)
					continue;
				run->job.length = lengths[i];
				run->job.to = skews[to];
				run->job.from = skews[from];
				run->job.seed++;
				is_right = all_run(run, put_skewed) && is_well(run);
				if (!is_right)
					printf("  %llu bytes to skew %u from skew %u\n",
					       (unsigned long long)lengths[i], skews[to],
					       skews[from]);
			}
		}
	}
	verdict(run, "put_skewed", is_right);
}

static void refusal_case(struct run *run)
{
	bool is_right;
	uint32_t i;

	if (!begins(run, "bad_arguments"))
		return;
	is_right = all_run(run, bad_arguments);
	for (i = 0; i < run->bare.attr.ranks; i++) {
		const struct oriel_dev_fault *f = &run->bare.fault[i];

		if (f->state != ORIEL_DEV_FAULT_FULL || f->status != ORIEL_ERR_RANGE ||
		    f->what != ORIEL_DEV_PUT || f->seen != run->bare.attr.ranks) {
			printf("  rank %u: no record of the first refusal\n", i);
			is_right = false;
		}
		memset(&run->bare.fault[i], 0, sizeof(*f));
	}
	verdict(run, "bad_arguments", is_right && is_well(run));
}

/* The default limit breaks the communicator, and with it every wait of every rank. */
static void default_limit_case(struct run *run)
{
	struct job job = run->job;
	bool is_right;
	uint32_t i;

	if (!begins(run, "default_limit_breaks_all"))
		return;
	for (i = 0; i < run->bare.attr.ranks; i++)
		job.window[i].timeout_ns = 20000000;
	job.seed = 0;
	job.to = (uint32_t)ORIEL_ERR_TIMEOUT;
	for (i = 0; i < run->bare.attr.gpus; i++)
		launch(run, stuck, &job, i);
	is_right = finish(run);
	if (run->bare.health->state != ORIEL_DEV_FAULT_FULL ||
	    run->bare.health->status != ORIEL_ERR_TIMEOUT ||
	    run->bare.health->what != ORIEL_DEV_WAIT_SIGNAL_FROM || run->bare.health->peer != 1 ||
	    run->bare.health->expected != 99) {
		printf("  the record is wrong\n");
		is_right = false;
	}
	memset(run->bare.health, 0, sizeof(*run->bare.health));
	verdict(run, "default_limit_breaks_all", is_right);
}

/* A pending barrier that is called with the default limit breaks the communicator. */
static void pending_case(struct run *run)
{
	static const uint32_t forms[] = {ORIEL_DEV_BARRIER, ORIEL_DEV_BARRIER_FLAT,
					 ORIEL_DEV_BARRIER_PEER};
	struct job job = run->job;
	bool is_right = true;
	uint32_t i;

	if (!begins(run, "default_limit_does_not_continue"))
		return;
	for (job.to = 0; job.to < 3; job.to++) {
		for (i = 0; i < run->bare.attr.gpus; i++)
			launch(run, pending, &job, i);
		is_right = finish(run) && is_right;
		if (run->bare.health->state != ORIEL_DEV_FAULT_FULL ||
		    run->bare.health->status != ORIEL_ERR_STATE ||
		    run->bare.health->what != forms[job.to] || run->bare.health->id != 5) {
			printf("  form %u: the record is wrong\n", job.to);
			is_right = false;
		}
		memset(run->bare.health, 0, sizeof(*run->bare.health));
	}
	verdict(run, "default_limit_does_not_continue", is_right);
}

/* The host breaks the communicator while all spin; the context lives on. */
static void abort_case(struct run *run)
{
	struct oriel_dev_fault *h = run->bare.health;
	struct job job = run->job;
	struct timespec pause = {0, 50000000};
	bool is_right;
	uint32_t i;

	if (!begins(run, "abort_ends_spinning_kernels"))
		return;
	job.seed = ORIEL_TIMEOUT_INFINITE;
	job.to = (uint32_t)ORIEL_ERR_ABORTED;
	for (i = 0; i < run->bare.attr.gpus; i++)
		launch(run, stuck, &job, i);
	nanosleep(&pause, NULL);
	h->status = ORIEL_ERR_ABORTED;
	__atomic_store_n(&h->state, (uint32_t)ORIEL_DEV_FAULT_FULL, __ATOMIC_RELEASE);
	is_right = finish(run);
	memset(h, 0, sizeof(*h));
	verdict(run, "abort_ends_spinning_kernels", is_right);
}

static void replay_case(struct run *run, unsigned replays)
{
	cudaGraphExec_t exec[BARE_MAX];
	cudaGraph_t graph;
	bool is_right;
	uint32_t i, k;

	if (!begins(run, "graph_replays"))
		return;
	for (i = 0; i < run->bare.attr.gpus; i++) {
		CUDA_CHECK(cudaSetDevice((int)i));
		CUDA_CHECK(cudaStreamBeginCapture(run->bare.rank[i].stream,
						  cudaStreamCaptureModeRelaxed));
		launch(run, one_round, &run->job, i);
		CUDA_CHECK(cudaStreamEndCapture(run->bare.rank[i].stream, &graph));
		CUDA_CHECK(cudaGraphInstantiate(&exec[i], graph, 0));
		CUDA_CHECK(cudaGraphDestroy(graph));
	}
	for (k = 0; k < replays; k++) {
		for (i = 0; i < run->bare.attr.gpus; i++) {
			CUDA_CHECK(cudaSetDevice((int)i));
			CUDA_CHECK(cudaGraphLaunch(exec[i], run->bare.rank[i].stream));
		}
	}
	is_right = finish(run);
	is_right &= is_well(run);
	for (i = 0; i < run->bare.attr.gpus; i++)
		CUDA_CHECK(cudaGraphExecDestroy(exec[i]));
	verdict(run, "graph_replays", is_right);
}

static unsigned option(int argc, char **argv, const char *name, unsigned otherwise)
{
	int i;

	for (i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return (unsigned)atoi(argv[i + 1]);
	return otherwise;
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"thread", "warp", "block", "cluster"};
	static const unsigned sizes[] = {1, 32, 256, 128};
	struct bare_attr attr = {0, 0, 16, 16, 4, 8, 16384, LENGTH, 10000000000};
	static struct run run;
	bool has_tables_only = option(argc, argv, "--table", 0);
	int gpus = bare_begin();
	uint32_t i;

	attr.ranks = option(argc, argv, "--ranks", gpus < 2 ? 2 : (unsigned)gpus);
	attr.gpus = (unsigned)gpus < attr.ranks ? (unsigned)gpus : attr.ranks;
	if (attr.ranks < 2 || attr.ranks > BARE_MAX)
		bare_die("ranks: from 2 to %u", BARE_MAX);
	run.threads = option(argc, argv, "--threads", sizes[KIND]);
	run.part = argc % 2 ? NULL : argv[argc - 1];
	bare_enable_peers(attr.gpus);
	bare_open(&run.bare, &attr);
	run.report = (struct report *)bare_pinned(sizeof(*run.report));
	run.job.report = run.report;
	for (i = 0; i < attr.ranks; i++) {
		/* Without inline peers all operations use the tables. */
		if (has_tables_only)
			memset(run.bare.window[i].inline_peers, 0,
			       sizeof(run.bare.window[i].inline_peers));
		run.job.window[i] = run.bare.window[i];
		run.job.scratch[i] = (char *)bare_alloc(&run.bare, i, LENGTH);
	}
	run.job.round = (uint64_t *)bare_pinned(sizeof(uint64_t) * BARE_MAX);

	put_case(&run);
	simple_case(&run, "put_signal_carries", put_signal_carries);
	simple_case(&run, "signals_count", signals_count);
	simple_case(&run, "fetch_adds_are_atomic", fetch_adds_are_atomic);
	simple_case(&run, "barriers_hold", barriers_hold);
	simple_case(&run, "counters_count", counters_count);
	simple_case(&run, "channels_carry", channels_carry);
	simple_case(&run, "ll_carries", ll_carries);
	if (!has_tables_only)
		simple_case(&run, "ll128_carries", ll128_carries);
	simple_case(&run, "limits_pass", limits_pass);
	refusal_case(&run);
	replay_case(&run, option(argc, argv, "--replays", 1000));
	default_limit_case(&run);
	pending_case(&run);
	abort_case(&run);
	simple_case(&run, "put_signal_carries after", put_signal_carries);
	bare_close(&run.bare);
	printf("gpu_ops %s of %u threads, %u ranks on %u GPUs: %u passed, %u failed\n", kinds[KIND],
	       run.threads, attr.ranks, attr.gpus, run.passed, run.failed);
	return run.failed ? 1 : 0;
}
