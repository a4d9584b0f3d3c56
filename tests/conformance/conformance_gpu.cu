/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance_gpu [--group thread|warp|block|cluster] [--width N] [--packed] [--rounds N]
 * [--threads N [--nodes M]] [PART OF A NAME...]
 *
 * Runs the cases as kernels over windows on GPUs. Rank r uses GPU r modulo their number.
 * --width: threads of a block; --packed: groups that are threads or warps share blocks. Ends
 * with 77 where there is no GPU.
 */
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STACK (8u << 10)
#define LATE_NS LONG_NS /* of one case */

static struct {
	uint32_t kind; /* enum oriel_dev_kind */
	unsigned width;
	bool is_packed;
	unsigned rounds;
} options = {ORIEL_DEV_BLOCK, 128, false, 1000};

/* One launch of a case. */
struct part {
	struct rank rank; /* for the kernel */
	cudaStream_t stream;
	struct pinned *pinned;
	struct grid *grid;
	char *memory;
};

struct gpu {
	int device;
	cudaStream_t copy_stream; /* for copies while a case runs */
	struct part parts[STREAMS];
};

static void must(const struct rank *r, const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "rank %u of %u: %s: %s\n", r->rank, r->size, what,
		cudaGetErrorString(error));
	give_up(r, what);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Threads of a block, and how many of them form a group with others. */
static void shape(unsigned groups, unsigned *blocks, unsigned *threads)
{
	unsigned group = options.kind == ORIEL_DEV_WARP ? 32 : 1;

	if (options.kind == ORIEL_DEV_BLOCK || options.kind == ORIEL_DEV_CLUSTER) {
		*threads = options.width;
		*blocks = options.kind == ORIEL_DEV_CLUSTER ? 2 * groups : groups;
		return;
	}
	*threads = options.is_packed ? options.width : group;
	*blocks = (groups * group + *threads - 1) / *threads;
}

int gpu_launch(const void *kernel, const struct rank *r, unsigned index, unsigned groups,
	       void *stream)
{
	void *arguments[] = {(void *)r, &index};
	cudaLaunchAttribute cluster = {};
	cudaLaunchConfig_t config = {};
	unsigned blocks, threads;

	shape(groups, &blocks, &threads);
	config.gridDim = dim3(blocks);
	config.blockDim = dim3(threads);
	config.stream = (cudaStream_t)stream;
	cluster.id = cudaLaunchAttributeClusterDimension;
	cluster.val.clusterDim.x = 2;
	cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
	config.attrs = &cluster;
	config.numAttrs = options.kind == ORIEL_DEV_CLUSTER;
	return cudaLaunchKernelExC(&config, kernel, arguments);
}

/* Load everything that is ever loaded before a kernel waits for another one. */
static void warm_up(struct rank *r)
{
	struct part *part = &r->gpu->parts[0];
	const struct suite *s;
	size_t i;

	part->rank = *r;
	part->rank.group.kind = options.kind;
	part->rank.grid = part->grid;
	for (i = 0; i < r->backend->count; i++) {
		s = r->backend->suites[i];
		if (!s->launch)
			continue;
		must(r, "memset",
		     cudaMemsetAsync(part->grid, 0, sizeof(*part->grid), part->stream));
		must(r, s->name,
		     (cudaError_t)s->launch(&part->rank, (unsigned)s->count, part->stream));
		must(r, s->name, cudaStreamSynchronize(part->stream));
	}
}

static void gpu_open(struct rank *r)
{
	struct gpu *gpu = (struct gpu *)calloc(1, sizeof(*gpu));
	int devices = 0;
	unsigned i;

	if (!gpu)
		give_up(r, "calloc");
	r->gpu = gpu;
	must(r, "cudaGetDeviceCount", cudaGetDeviceCount(&devices));
	gpu->device = (int)(r->rank % (unsigned)devices);
	must(r, "cudaSetDevice", cudaSetDevice(gpu->device));
	must(r, "stack", cudaDeviceSetLimit(cudaLimitStackSize, STACK));
	must(r, "stream", cudaStreamCreateWithFlags(&gpu->copy_stream, cudaStreamNonBlocking));
	for (i = 0; i < STREAMS; i++) {
		struct part *part = &gpu->parts[i];

		must(r, "stream", cudaStreamCreateWithFlags(&part->stream, cudaStreamNonBlocking));
		must(r, "pinned",
		     cudaHostAlloc((void **)&part->pinned, sizeof(*part->pinned),
				   cudaHostAllocPortable));
		must(r, "grid", cudaMalloc((void **)&part->grid, sizeof(*part->grid)));
		must(r, "memory", cudaMalloc((void **)&part->memory, ALL_MEMORY));
	}
	warm_up(r);
}

static void gpu_close(struct rank *r)
{
	struct gpu *gpu = r->gpu;
	unsigned i;

	for (i = 0; i < STREAMS; i++) {
		must(r, "memory", cudaFree(gpu->parts[i].memory));
		must(r, "grid", cudaFree(gpu->parts[i].grid));
		must(r, "pinned", cudaFreeHost(gpu->parts[i].pinned));
		must(r, "stream", cudaStreamDestroy(gpu->parts[i].stream));
	}
	must(r, "stream", cudaStreamDestroy(gpu->copy_stream));
	free(gpu);
	r->gpu = NULL;
}

static void part_open(struct rank *r, const struct suite *s, unsigned index)
{
	struct part *part = &r->gpu->parts[index];

	memset(part->pinned, 0, sizeof(*part->pinned));
	must(r, "memset", cudaMemsetAsync(part->grid, 0, sizeof(*part->grid), part->stream));
	must(r, "memset", cudaStreamSynchronize(part->stream));
	part->rank = *r;
	part->rank.group.kind = options.kind;
	part->rank.stream = index;
	part->rank.name = NULL; /* a pointer of the host */
	part->rank.pinned = part->pinned;
	part->rank.grid = part->grid;
	part->rank.memory = part->memory;
	(void)s;
}

/* Launches the parts of a case and waits for them, while another thread serves requests. */
struct launcher {
	struct rank *r;
	const struct suite *s;
	unsigned index;
	unsigned parts;
	cudaGraphExec_t graph; /* launched again and again; NULL: a launch for each part */
	uint32_t is_done;
};

static void *launcher_main(void *argument)
{
	struct launcher *l = (struct launcher *)argument;
	struct gpu *gpu = l->r->gpu;
	unsigned i;

	must(l->r, "cudaSetDevice", cudaSetDevice(gpu->device));
	for (i = 0; !l->graph && i < l->parts; i++)
		must(l->r, "launch",
		     (cudaError_t)l->s->launch(&gpu->parts[i].rank, l->index,
					       gpu->parts[i].stream));
	for (i = 0; l->graph && i < options.rounds; i++)
		must(l->r, "graph", cudaGraphLaunch(l->graph, gpu->parts[0].stream));
	for (i = 0; i < l->parts; i++)
		must(l->r, "kernel", cudaStreamSynchronize(gpu->parts[i].stream));
	__atomic_store_n(&l->is_done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Capture one launch in a graph that is ready to run: its launch must wait for no other rank. */
static cudaGraphExec_t capture(struct rank *r, const struct suite *s, unsigned index)
{
	struct part *part = &r->gpu->parts[0];
	cudaGraphExec_t executable;
	cudaGraph_t graph;

	must(r, "capture", cudaStreamBeginCapture(part->stream, cudaStreamCaptureModeThreadLocal));
	must(r, "capture", (cudaError_t)s->launch(&part->rank, index, part->stream));
	must(r, "capture", cudaStreamEndCapture(part->stream, &graph));
	must(r, "graph", cudaGraphInstantiate(&executable, graph, 0));
	must(r, "graph", cudaGraphUpload(executable, part->stream));
	must(r, "graph", cudaStreamSynchronize(part->stream));
	must(r, "graph", cudaGraphDestroy(graph));
	check_begin();
	check_status(r, oriel_comm_barrier(r->comm), ORIEL_OK, __FILE__, __LINE__, "barrier");
	return executable;
}

static uint64_t serve_one(struct rank *r, const struct suite *s, struct request *m)
{
	switch ((enum request_kind)m->kind) {
	case REQUEST_BARRIER:
		return (uint64_t)oriel_comm_barrier(r->comm);
	case REQUEST_MEET:
		host_meet(r);
		break;
	case REQUEST_DEVICE:
		return (uint64_t)oriel_window_device(r->window, &m->device);
	case REQUEST_FAULT:
		return (uint64_t)host_fault(r, &m->fault);
	case REQUEST_ABORT:
		oriel_comm_abort(r->comm, "the test aborts");
		break;
	case REQUEST_HEALTHY: {
		struct oriel_health health = {};

		health.size = sizeof(health);
		check_begin();
		check_status(r, oriel_comm_health(r->comm, &health), ORIEL_OK, __FILE__, __LINE__,
			     "health");
		check_equal(r, health.status, ORIEL_OK, __FILE__, __LINE__, "health.status");
		break;
	}
	case REQUEST_LAST:
		check_text(r, oriel_last_error(), m->text, m->file, (int)m->line);
		break;
	case REQUEST_HOST:
		s->host(r, m->what, m->word);
		break;
	}
	return ORIEL_OK;
}

static void serve(struct rank *r, const struct suite *s, unsigned parts)
{
	unsigned i, k;

	for (i = 0; i < parts; i++) {
		for (k = 0; k < GROUPS_MOST; k++) {
			struct request *m = &r->gpu->parts[i].pinned->requests[k];
			uint64_t asked = __atomic_load_n(&m->asked, __ATOMIC_ACQUIRE);

			if (asked == m->answered)
				continue;
			m->status = serve_one(r, s, m);
			__atomic_store_n(&m->answered, asked, __ATOMIC_RELEASE);
		}
	}
}

/* Report failures through the functions that CPU threads use. */
static void report_claim(struct rank *r, const struct claim *c)
{
	const char *name = r->name;

	if (c->name[0])
		r->name = c->name;
	switch ((enum claim_kind)c->kind) {
	case CLAIM_TRUE:
		check_claim(r, false, c->file, (int)c->line, c->what);
		break;
	case CLAIM_EQUAL:
		check_equal(r, c->got, c->expected, c->file, (int)c->line, c->what);
		break;
	case CLAIM_STATUS:
		check_status(r, (int64_t)c->got, (enum oriel_status)(int64_t)c->expected, c->file,
			     (int)c->line, c->what);
		break;
	case CLAIM_POSTED:
		check_posted(r, (int64_t)c->got, c->file, (int)c->line, c->what);
		break;
	}
	r->name = name;
}

static void report_claims(struct rank *r, const struct part *part)
{
	unsigned i;

	for (i = 0; i < CLAIMS; i++)
		if (part->pinned->claims[i].line)
			report_claim(r, &part->pinned->claims[i]);
}

/* The claim may have been reported already; then this adds nothing. */
static void count_failures(struct rank *r, const struct part *part)
{
	uint32_t failures = 0;

	must(r, "failures",
	     cudaMemcpyAsync(&failures, &part->grid->failures, sizeof(failures),
			     cudaMemcpyDeviceToHost, r->gpu->copy_stream));
	must(r, "failures", cudaStreamSynchronize(r->gpu->copy_stream));
	r->failures += failures;
}

/* A kernel does not end: break the waits that it may be in, report the claims, and exit. */
static void give_up_late(struct rank *r, struct launcher *l)
{
	uint64_t end = now_ns() + 10000000000u;
	unsigned i;

	fprintf(stderr, "rank %u of %u, %s/%s: the kernel has not ended in time\n", r->rank,
		r->size, r->suite, r->name);
	oriel_comm_abort(r->comm, "a kernel timed out");
	while (!__atomic_load_n(&l->is_done, __ATOMIC_ACQUIRE) && now_ns() < end)
		serve(r, l->s, l->parts);
	for (i = 0; i < l->parts; i++)
		report_claims(r, &r->gpu->parts[i]);
	give_up(r, "late");
}

static void gpu_run(struct rank *r, const struct suite *s, const struct test_case *c)
{
	struct launcher l = {r, s, (unsigned)(c - s->cases), 1, NULL, 0};
	uint64_t end = now_ns() + LATE_NS;
	pthread_t thread;
	unsigned i;

	if (c->run) {
		c->run(r);
		return;
	}
	l.parts = c->flags & IN_STREAMS ? STREAMS : 1;
	for (i = 0; i < l.parts; i++)
		part_open(r, s, i);
	if (c->flags & IN_ROUNDS)
		l.graph = capture(r, s, l.index);
	if (pthread_create(&thread, NULL, launcher_main, &l))
		give_up(r, "pthread_create");
	while (!__atomic_load_n(&l.is_done, __ATOMIC_ACQUIRE)) {
		serve(r, s, l.parts);
		if (now_ns() > end)
			give_up_late(r, &l);
	}
	pthread_join(thread, NULL);
	for (i = 0; i < l.parts; i++) {
		report_claims(r, &r->gpu->parts[i]);
		count_failures(r, &r->gpu->parts[i]);
	}
	if (l.graph)
		must(r, "graph", cudaGraphExecDestroy(l.graph));
}

static bool take_option(const char *name, const char *value)
{
	static const char *const kinds[] = {"thread", "warp", "block", "", "cluster"};
	unsigned i;

	if (strcmp(name, "--group") == 0) {
		for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (*value && strcmp(kinds[i], value) == 0)
				options.kind = i;
		return strcmp(kinds[options.kind], value) == 0;
	}
	if (strcmp(name, "--width") == 0)
		options.width = (unsigned)strtoul(value, NULL, 10);
	else if (strcmp(name, "--rounds") == 0)
		options.rounds = (unsigned)strtoul(value, NULL, 10);
	else
		return false;
	return options.width && options.width <= 1024 && options.width % 32 == 0 && options.rounds;
}

int main(int argc, char **argv)
{
	static const struct suite *const suites[] = {
		&data_suite, &atomic_suite,  &signal_suite,  &order_suite, &barrier_suite,
		&team_suite, &counter_suite, &channel_suite, &ll_suite,    &ll128_suite,
		&fold_suite, &replay_suite,  &fault_suite,   &stuck_suite, &stuck_host_suite,
		&lie_suite,  &handle_suite,
	};
	static const struct backend backend = {suites,         sizeof(suites) / sizeof(suites[0]),
					       ORIEL_COMM_GPU, ORIEL_WINDOW_DEVICE,
					       gpu_open,       gpu_run,
					       gpu_close};
	int devices = 0, taken = 0;

	while (argc - taken > 1) {
		const char *name = argv[taken + 1];

		if (strcmp(name, "--packed") == 0) {
			options.is_packed = true;
			taken++;
		} else if (argc - taken > 2 && take_option(name, argv[taken + 2])) {
			taken += 2;
		} else {
			break;
		}
	}
	/* A module that is loaded at the first launch would wait for kernels that wait for it. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	/* Kernels of several ranks in one queue of one GPU would wait in the same way. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
		printf("conformance_gpu: skipped: no GPU\n");
		return 77;
	}
	return conformance_main(argc - taken, argv + taken, &backend);
}
