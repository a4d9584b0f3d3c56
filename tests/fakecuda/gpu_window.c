/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows in the memory of the fake driver, which the CPU reaches: the device
 * functions work on the handle as a kernel would. Ranks are threads (gpu_window
 * N [MODE]) or processes (oriel run -n N gpu_window [MODE]).
 */
#include <pthread.h>

#include "window_tests.h"

static void test_all(struct rank *r)
{
	int count = 0;

	rank_open(r, LONG_NS);
	test_operations(r);
	test_region(r);
	test_mistakes(r);
	if (cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 1)
		test_other_gpu(r);
	test_failures(r);
	test_streams(r);
	test_records(r);
	test_buffers(r);
	test_published(r);
	rank_close(r);
	test_blame(r);
	test_stream_timeout(r);
	test_stream_barrier_limit(r);
	test_stream_peer_limit(r);
	test_cpu_rank(r);
	test_cpu_comm(r);
	test_no_context(r);
}

/* The GPUs do not reach each other, and there is no NIC. */
static void test_apart(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .flags = ORIEL_COMM_GPU};

	CHECK_FAILS(r, oriel_comm_create(r->bootstrap, &attr, &r->comm), ORIEL_ERR_NO_PATH,
		    "of one machine do not reach each other");
}

/*
 * GPUs of even ranks do not reach those of odd ranks: windows on them go through an HCA, while host
 * memory is mapped as ever.
 */
static void test_islands(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = LENGTH, .channels = 16};
	struct oriel_dev_window host;
	struct oriel_peer peer = {.size = sizeof(peer)};
	unsigned i;

	rank_join(r, LONG_NS);
	CHECK(r, oriel_comm_domain_size(r->comm) == r->size);
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &r->window));
	CHECK_OK(r, oriel_window_device(r->window, &host));
	for (i = 0; i < r->size; i++) {
		if (i == r->rank)
			continue;
		CHECK_OK(r, oriel_comm_peer(r->comm, i, &peer));
		CHECK(r, peer.path == ORIEL_PATH_MAPPED && host.peers[i].path == peer.path);
		CHECK(r, peer.gpu_path ==
				 (i % 2 == r->rank % 2 ? ORIEL_PATH_MAPPED : ORIEL_PATH_RDMA));
	}
	CHECK_OK(r, oriel_window_barrier(r->window, 0, 0));
	rank_close(r);
	test_all(r);
}

/* Rank 1 alone gives values of its GPU, and they count for all. */
static enum oriel_status join_given(struct rank *r, const char *topology)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .flags = ORIEL_COMM_GPU,
				       .topology = r->rank == 1 ? topology : NULL};

	return oriel_comm_create(r->bootstrap, &attr, &r->comm);
}

static void test_given(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .length = LENGTH, .channels = 16};
	struct oriel_peer_gpu gpu = {.size = sizeof(gpu)};
	struct oriel_peer peer = {.size = sizeof(peer)};
	unsigned i;

	CHECK_FAILS(r, join_given(r, "clique=1"), ORIEL_ERR_INVALID,
		    "'clique' names an NVLink fabric, but GPU 0000:11:00.0 is in none");
	CHECK_FAILS(r, join_given(r, "peer_access"), ORIEL_ERR_INVALID, "'peer_access' is none of");
	CHECK_OK(r, join_given(r, "peer_access=off,gpudirect=off"));
	for (i = 0; i < r->size; i++) {
		CHECK_OK(r, oriel_comm_peer_gpu(r->comm, i, &gpu));
		CHECK(r, gpu.is_peer_access_off == (i == 1) && gpu.is_gpudirect_off == (i == 1));
		CHECK(r, gpu.domain == (i == 1 ? 1 : 0));
		CHECK(r, strcmp(gpu.gpudirect_source, i == 1 ? "attribute" : "machine") == 0);
		CHECK(r, strcmp(gpu.clique_source, "machine") == 0);
		CHECK_OK(r, oriel_comm_peer(r->comm, i, &peer));
		CHECK(r, i == r->rank || peer.path == ORIEL_PATH_MAPPED);
		CHECK(r, i == r->rank ||
				 (peer.gpu_path == ORIEL_PATH_RDMA) == (i == 1 || r->rank == 1));
	}
	CHECK(r, oriel_comm_peer_gpu(r->comm, r->size, &gpu) == ORIEL_ERR_RANGE);
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &r->window));
	CHECK_OK(r, oriel_window_barrier(r->window, 0, 0));
	oriel_window_destroy(r->window);
	attr.flags = ORIEL_WINDOW_DEVICE;
	CHECK_FAILS(r, oriel_window_create(r->comm, &attr, &r->window), ORIEL_ERR_ACCESS,
		    "GPUDirect RDMA of GPU 0000:11:00.0 is switched off");
	oriel_comm_destroy(r->comm);
	CHECK_OK(r, join_given(r, "peer_access=off"));
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &r->window));
	CHECK_OK(r, oriel_window_device(r->window, &r->dev));
	test_operations(r);
	rank_close(r);
}

/* All that holds over NVLink holds over PCIe, but for atomics on the data of a peer. */
static void test_bus(struct rank *r)
{
	test_pcie(r);
	test_all(r);
}

/* The GPUs are too old. */
static void test_old(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .flags = ORIEL_COMM_GPU};

	CHECK_FAILS(r, oriel_comm_create(r->bootstrap, &attr, &r->comm), ORIEL_ERR_UNSUPPORTED,
		    "compute capability 6.0");
}

/* Kernels that wait for those ahead of them are launched early, if the driver captures that. */
static void test_early(struct rank *r)
{
	const char *ptx = getenv("FAKECUDA_PTX"), *driver = getenv("FAKECUDA_DRIVER");
	bool is_early = (!ptx || atoi(ptx) >= 90) && (!driver || atoi(driver) >= 12030);
	struct fakecuda_posted posted;

	fakecuda_posted();
	rank_join(r, LONG_NS);
	posted = fakecuda_posted();
	CHECK(r, posted.kernels == fakecuda_kernels());
	CHECK(r, posted.early == (is_early ? posted.kernels : 0));
	oriel_comm_destroy(r->comm);
}

/* The modes of the program: the GPUs that processes see, and the test for them. */
static const struct mode {
	const char *name;
	const char *order[2]; /* of the GPUs, on even and on odd ranks */
	void (*test)(struct rank *r);
	const char *reason; /* between ranks 0 and 1 */
} modes[] = {
	{"all", {"0,1", "0,1"}, test_all, "GPUs connected by NVLink"},
	{"turned", {"0,1", "1,0"}, test_all, "same GPU"},
	{"alone", {"0", "1"}, test_all, "GPUs connected by NVLink"},
	{"unseen", {"0", "1"}, test_bus, "GPUs that are not visible to each other's process"},
	{"hidden", {"0", "1"}, test_bus, "GPUs connected by PCIe, without atomics"},
	{"apart", {"0,1", "0,1"}, test_apart, NULL},
	{"islands", {"0,1", "0,1"}, test_islands, "of one machine do not reach each other"},
	{"pcie", {"0,1", "0,1"}, test_bus, "GPUs connected by PCIe, without atomics"},
	{"given", {"0,1", "0,1"}, test_given, NULL},
	{"old", {"0,1", "0,1"}, test_old, NULL},
	{"early", {"0,1", "0,1"}, test_early, NULL},
	{"late", {"0,1", "0,1"}, test_early, NULL},
	{"capture", {"0,1", "0,1"}, test_early, NULL},
	{"remote", {"0,1", "0,1"}, test_remote, NULL},
};

static void check_reason(struct rank *r, const char *reason)
{
	struct oriel_peer peer = {.size = sizeof(peer)};

	rank_join(r, LONG_NS);
	CHECK_OK(r, oriel_comm_peer(r->comm, r->rank ^ 1u, &peer));
	CHECK(r, strstr(peer.gpu_reason, reason));
	oriel_comm_destroy(r->comm);
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const struct mode *mode,
			  const char *node)
{
	struct rank r = {.rank = bootstrap->rank,
			 .size = bootstrap->size,
			 .bootstrap = bootstrap,
			 .node = node};

	rank_use_gpu(&r);
	if (mode->reason && r.size == 2)
		check_reason(&r, mode->reason);
	mode->test(&r);
	return r.failures;
}

struct thread {
	struct oriel_local_job *job;
	const struct mode *mode;
	const char *node;
	unsigned rank;
	unsigned failures;
	pthread_t id;
};

static void *thread_main(void *argument)
{
	struct thread *t = argument;
	struct oriel_bootstrap bootstrap;

	if (oriel_bootstrap_open_local(t->job, t->rank, &bootstrap) != ORIEL_OK)
		abort();
	t->failures = rank_main(&bootstrap, t->mode, t->node);
	oriel_bootstrap_close(&bootstrap);
	return NULL;
}

static const struct mode *find_mode(const char *name)
{
	const struct mode *mode = modes;

	while (strcmp(mode->name, name) != 0)
		mode++;
	return mode;
}

static unsigned run_threads(unsigned count, const char *name)
{
	const struct mode *mode = find_mode(name);
	struct thread *threads = calloc(count, sizeof(*threads));
	struct oriel_local_job *job;
	unsigned failures = 0, i;

	if (!threads || oriel_local_job_create(count, &job) != ORIEL_OK)
		abort();
	for (i = 0; i < count; i++) {
		threads[i].job = job;
		threads[i].rank = i;
		threads[i].mode = mode;
		if (mode->test == test_remote)
			threads[i].node = i < count / 2 ? "left" : "right";
		if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]))
			abort();
	}
	for (i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		failures += threads[i].failures;
	}
	oriel_local_job_destroy(job);
	free(threads);
	return failures;
}

static unsigned run_process(const char *name)
{
	const struct mode *mode = find_mode(name);
	struct oriel_bootstrap bootstrap;
	unsigned failures;

	if (oriel_bootstrap_open_env(0, &bootstrap) != ORIEL_OK)
		abort();
	setenv("FAKECUDA_ORDER", mode->order[bootstrap.rank % 2], 1);
	failures = rank_main(&bootstrap, mode, NULL);
	oriel_bootstrap_close(&bootstrap);
	return failures;
}

int main(int argc, char **argv)
{
	unsigned fds = count_fds(), ranks = argc > 1 ? (unsigned)atoi(argv[1]) : 0;

	return rank_finish(ranks ? run_threads(ranks, argc > 2 ? argv[2] : "all")
				 : run_process(argc > 1 ? argv[1] : "all"),
			   fds);
}
