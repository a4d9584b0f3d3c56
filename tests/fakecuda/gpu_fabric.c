/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs that an NVLink fabric joins over nodes, and all that can be missing. Nodes are
 * virtual: oriel run -n 4 --nodes 2 gpu_fabric MODE.
 */
#include "rank.h"

/* The fabric settings of a process. NULL: not set. */
struct place {
	const char *fabric;
	const char *imex;
};

/* Returns how many ranks map each other's GPU memory with this one. */
static unsigned check_ways(struct rank *r, bool is_joined, const char *reason)
{
	struct oriel_peer peer = {.size = sizeof(peer)};
	unsigned i, mapped = 1;

	for (i = 0; i < r->size; i++) {
		if (i == r->rank)
			continue;
		CHECK_OK(r, oriel_comm_peer(r->comm, i, &peer));
		if (i / 2 == r->rank / 2) {
			CHECK(r, peer.path == ORIEL_PATH_MAPPED && peer.gpu_path == peer.path);
			CHECK(r, strncmp(peer.gpu_reason, peer.reason, strlen(peer.reason)) == 0);
			mapped++;
			continue;
		}
		CHECK(r, peer.path == ORIEL_PATH_RDMA);
		CHECK(r, peer.gpu_path == (is_joined ? ORIEL_PATH_MAPPED : ORIEL_PATH_RDMA));
		if (!CHECK(r, strstr(peer.gpu_reason, reason)))
			fprintf(stderr, "%s\n", peer.gpu_reason);
		mapped += is_joined;
	}
	CHECK(r, oriel_comm_domain_size(r->comm) == 2);
	return mapped;
}

/* The domain of a handle on GPUs has the ranks that map each other's GPU memory. */
static void check_domain(struct rank *r, const struct oriel_dev_window *dev, unsigned mapped)
{
	uint32_t member = 0, index = 0;
	unsigned i;

	CHECK(r, oriel_dev_domain_size(dev) == mapped);
	for (i = 0; i < mapped; i++) {
		CHECK_OK(r, oriel_dev_domain_rank(dev, i, &member));
		CHECK_OK(r, oriel_dev_domain_find(dev, member, &index));
		CHECK(r, index == i &&
				 oriel_dev_path(dev, member) ==
					 (member == r->rank ? ORIEL_PATH_SELF : ORIEL_PATH_MAPPED));
	}
}

/* Put through @buffer in a ring, forth and back over the nodes. */
static void pass(struct rank *r, uint32_t buffer)
{
	uint32_t next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct oriel_dev_group me = oriel_dev_thread();
	uint64_t word = r->rank * 1000u + buffer, got = 0, old;

	CHECK_OK(r, oriel_dev_put_signal(&r->dev, me, next, oriel_at(buffer, 24), &word, 8, 3, 1,
					 NULL));
	CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, me, before, 3, 1, 0));
	CHECK(r, *(uint64_t *)oriel_dev_address(&r->dev, r->rank, oriel_at(buffer, 24)) ==
			 before * 1000u + buffer);
	CHECK_OK(r, oriel_dev_get(&r->dev, me, next, oriel_at(buffer, 24), &got, 8, NULL));
	CHECK(r, got == word);
	CHECK_OK(r, oriel_dev_fetch_add(&r->dev, 0, oriel_at(buffer, 32), 1, &old));
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
}

static void share(struct rank *r, void *at)
{
	uint32_t number = 0;

	if (CHECK_OK(r, oriel_window_share(r->window, at, 4096, &number)))
		pass(r, number);
}

/* Share memory of each kind that can be exported to other nodes. */
static void test_buffers(struct rank *r)
{
	const CUmemAllocationHandleType both =
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
	char *one = map(r, 65536, 1, CU_MEM_HANDLE_TYPE_FABRIC), *two = map(r, 65536, 1, both);
	void *own = NULL;

	CHECK_OK(r, oriel_memory_alloc(4096, ORIEL_MEMORY_DEVICE, &own));
	share(r, own);
	share(r, one + 60000);
	share(r, two + 4096);
	share(r, r->rank % 2 ? own : one);
	oriel_window_destroy(r->window);
	r->window = NULL;
	oriel_memory_free(own);
	unmap(r, one, 65536, 1);
	unmap(r, two, 65536, 1);
}

/* Memory that cannot be exported is rejected on all ranks, whichever rank shares it. */
static void test_refusals(struct rank *r)
{
	char *files = map(r, 65536, 2, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	char *handles = map(r, 65536, 2, CU_MEM_HANDLE_TYPE_FABRIC);
	char *both = map(r, 65536, 2,
			 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC);
	void *own = NULL, *host = NULL;
	CUdeviceptr legacy = 0;
	uint32_t number = 0;
	bool is_one = r->rank == 3;

	CHECK(r, cuMemAlloc(&legacy, 20000) == CUDA_SUCCESS);
	CHECK_OK(r, oriel_memory_alloc(4096, ORIEL_MEMORY_DEVICE, &own));
	CHECK_OK(r, oriel_memory_alloc(4096, 0, &host));
	CHECK_FAILS(r, oriel_window_share(r->window, is_one ? files : own, 4096, &number),
		    ORIEL_ERR_UNSUPPORTED,
		    "rank 3 on another node: GPU memory cannot be reached from other nodes: it "
		    "was allocated without CU_MEM_HANDLE_TYPE_FABRIC");
	CHECK_FAILS(r,
		    oriel_window_share(r->window, is_one ? files + 65536 - 32 : own, 4096, &number),
		    ORIEL_ERR_UNSUPPORTED, "mapped from 2 allocations cannot be reached");
	CHECK_FAILS(r,
		    oriel_window_share(r->window, is_one ? both + 65536 - 32 : own, 4096, &number),
		    ORIEL_ERR_UNSUPPORTED, "mapped from 2 allocations cannot be reached");
	CHECK_FAILS(r,
		    oriel_window_share(r->window, is_one ? handles + 65536 - 32 : own, 4096,
				       &number),
		    ORIEL_ERR_UNSUPPORTED, "several allocations, of which that at");
	CHECK_FAILS(r, oriel_window_share(r->window, is_one ? (void *)legacy : own, 4096, &number),
		    ORIEL_ERR_UNSUPPORTED,
		    "cudaMalloc() memory cannot be reached from other nodes");
	CHECK_FAILS(r, oriel_window_share(r->window, is_one ? host : own, 4096, &number),
		    ORIEL_ERR_UNSUPPORTED, "host memory of another node");
	CHECK(r, cuMemFree(legacy) == CUDA_SUCCESS);
	oriel_memory_free(own);
	oriel_memory_free(host);
	unmap(r, files, 65536, 2);
	unmap(r, handles, 65536, 2);
	unmap(r, both, 65536, 2);
}

/* A region of host memory is reachable within its node only; one of GPU memory beyond it. */
static void test_regions(struct rank *r)
{
	unsigned remote = (r->rank + 2) % r->size;
	struct oriel_region *region = NULL;
	void *memory[2] = {NULL, NULL}, *address = NULL;
	unsigned i;

	for (i = 0; i < 2; i++) {
		CHECK_OK(r, oriel_memory_alloc(8192, i ? ORIEL_MEMORY_DEVICE : 0, &memory[i]));
		((char *)memory[i])[100] = (char)(r->rank + 1);
		CHECK_OK(r, oriel_region_register(r->comm, memory[i], 8192, &region));
		CHECK_OK(r, oriel_region_share(region));
		if (i) {
			CHECK_OK(r, oriel_region_peer_address(region, remote, 100, &address));
			CHECK(r, *(char *)address == (char)(remote + 1));
		} else {
			CHECK_FAILS(r, oriel_region_peer_address(region, remote, 100, &address),
				    ORIEL_ERR_NO_PATH, "is not mapped");
		}
		oriel_region_unregister(region);
		oriel_memory_free(memory[i]);
	}
}

/* A driver call fails on rank 0: all ranks get the status, and the next try succeeds. */
static void test_failures(struct rank *r)
{
	static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess",
					    "cuMemExportToShareableHandle",
					    "cuMemImportFromShareableHandle"};
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = LENGTH,
					 .flags = ORIEL_WINDOW_DEVICE};
	unsigned i, after, failed = 0;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (after = 0; after < 4; after++) {
			struct oriel_window *window = NULL;

			CHECK_OK(r, oriel_comm_barrier(r->comm));
			if (r->rank == 0)
				fakecuda_fail(calls[i], after);
			failed += oriel_window_create(r->comm, &attr, &window) != ORIEL_OK;
			if (r->rank == 0)
				fakecuda_fail(NULL, 0);
			CHECK_OK(r, oriel_comm_barrier(r->comm));
			oriel_window_destroy(window);
		}
	}
	CHECK(r, failed >= 10);
}

/* An abort on one node ends the waits of kernels on the other. */
static void test_abort(struct rank *r)
{
	rank_open(r, LONG_NS);
	if (r->rank == 3)
		oriel_comm_abort(r->comm, "the test aborts");
	else
		CHECK(r, oriel_dev_wait_signal_from(&r->dev, oriel_dev_thread(), 3, 9, ORIEL_GE, 1,
						    0) == ORIEL_ERR_ABORTED);
	rank_close(r);
}

static void test_joined(struct rank *r, const char *reason)
{
	struct oriel_window_attr host = {.size = sizeof(host), .length = LENGTH};
	struct oriel_window *window = NULL;
	enum oriel_path path;
	unsigned i;

	rank_open(r, LONG_NS);
	check_domain(r, &r->dev, check_ways(r, true, reason));
	for (i = 0; i < r->size; i++)
		CHECK(r,
		      r->dev.peers[i].path == (i == r->rank ? ORIEL_PATH_SELF : ORIEL_PATH_MAPPED));
	for (i = 0; i < 10; i++)
		pass(r, 0);
	test_regions(r);
	test_refusals(r);
	test_failures(r);
	test_buffers(r);
	/* Windows in host memory use the NIC. */
	CHECK_OK(r, oriel_window_create(r->comm, &host, &window));
	CHECK_OK(r, oriel_window_barrier(window, 0, 0));
	CHECK_OK(r, oriel_comm_path(r->comm, (r->rank + 2) % r->size, &path));
	CHECK(r, path == ORIEL_PATH_RDMA);
	oriel_window_destroy(window);
	rank_close(r);
	test_abort(r);
}

static void test_not_joined(struct rank *r, const char *reason)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_dev_window dev = {0};

	rank_join(r, LONG_NS);
	CHECK_OK(r, oriel_comm_device_create(r->comm, &attr));
	CHECK_OK(r, oriel_comm_device(r->comm, &dev));
	check_domain(r, &dev, check_ways(r, false, reason));
	oriel_comm_destroy(r->comm);
}

/* The failure is not visible before a rank opens a handle of its peer. */
static void test_wrong_node(struct rank *r, const char *reason)
{
	struct oriel_window_attr attr = {.size = sizeof(attr), .flags = ORIEL_WINDOW_DEVICE};
	struct oriel_window *window = NULL;

	rank_join(r, LONG_NS);
	check_ways(r, true, "one NVLink fabric");
	CHECK_FAILS(r, oriel_window_create(r->comm, &attr, &window), ORIEL_ERR_INVALID, reason);
	oriel_comm_destroy(r->comm);
}

/* The process can make handles and not open them. */
static void test_import(struct rank *r, const char *reason)
{
	fakecuda_fail("cuMemImportFromShareableHandle", 0);
	rank_join(r, LONG_NS);
	check_ways(r, false, reason);
	oriel_comm_destroy(r->comm);
}

static void test_refused(struct rank *r, const char *reason)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .flags = ORIEL_COMM_GPU};

	CHECK_FAILS(r, oriel_comm_create(r->bootstrap, &attr, &r->comm), ORIEL_ERR_UNSUPPORTED,
		    reason);
}

static void test_forbidden(struct rank *r, const char *reason)
{
	struct oriel_peer peer = {.size = sizeof(peer)};

	rank_join(r, LONG_NS);
	CHECK_OK(r, oriel_comm_peer(r->comm, (r->rank + 2) % r->size, &peer));
	CHECK(r, strstr(peer.gpu_reason, reason) && peer.gpu_path == ORIEL_PATH_RDMA);
	oriel_comm_destroy(r->comm);
}

/* Ranks of one node: GPUs with atomics and without NVLink. */
static void test_bus(struct rank *r, const char *reason)
{
	struct oriel_peer peer = {.size = sizeof(peer)};

	rank_join(r, LONG_NS);
	CHECK_OK(r, oriel_comm_peer(r->comm, r->rank ^ 1u, &peer));
	CHECK(r, strstr(peer.gpu_reason, reason) && peer.gpu_path == ORIEL_PATH_MAPPED);
	oriel_comm_destroy(r->comm);
}

static const struct mode {
	const char *name;
	struct place places[4]; /* of the ranks */
	void (*test)(struct rank *r, const char *reason);
	const char *reason;
	const char *variable, *value;
} modes[] = {
	{"joined",
	 {{"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}},
	 test_joined,
	 "mapped: one NVLink fabric (clique 3)",
	 NULL,
	 NULL},
	{"wrong_node",
	 {{"7,3", "1"}, {"7,3", "1"}, {"7,3", "2"}, {"7,3", "2"}},
	 test_wrong_node,
	 "on another node: importing a peer's GPU memory by its fabric handle",
	 NULL,
	 NULL},
	{"cliques",
	 {{"7,3", NULL}, {"7,3", NULL}, {"7,4", NULL}, {"7,4", NULL}},
	 test_not_joined,
	 "NVLink fabric: different cliques (",
	 NULL,
	 NULL},
	{"clusters",
	 {{"7,3", NULL}, {"7,3", NULL}, {"8,3", NULL}, {"8,3", NULL}},
	 test_not_joined,
	 "NVLink fabric: different clusters",
	 NULL,
	 NULL},
	{"pending",
	 {{"7,3", NULL}, {"7,3", NULL}, {"7,3,2", NULL}, {"7,3,2", NULL}},
	 test_not_joined,
	 "NVLink fabric: not joined yet on rank",
	 NULL,
	 NULL},
	{"failed",
	 {{"7,3,9", NULL}, {"7,3,9", NULL}, {"7,3", NULL}, {"7,3", NULL}},
	 test_not_joined,
	 "NVLink fabric: not joined yet on rank",
	 NULL,
	 NULL},
	{"uneven",
	 {{"7,3", NULL}, {NULL, NULL}, {"7,3", NULL}, {"7,3", NULL}},
	 test_not_joined,
	 "NVLink fabric: ",
	 NULL,
	 NULL},
	{"silent",
	 {{"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}},
	 test_not_joined,
	 "NVLink fabric: NVML does not report it on ranks",
	 "FAKECUDA_NVML",
	 "none"},
	{"channel",
	 {{"7,3", "0"}, {"7,3", "0"}, {"7,3", "0"}, {"7,3", "0"}},
	 test_not_joined,
	 "NVLink fabric: the driver rejects its handles on ranks",
	 NULL,
	 NULL},
	{"import",
	 {{"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}},
	 test_import,
	 "NVLink fabric: the driver rejects its handles on ranks",
	 NULL,
	 NULL},
	{"required",
	 {{"7,3", NULL}, {"7,3", NULL}, {"7,3", "0"}, {"7,3", NULL}},
	 test_refused,
	 "ORIEL_FABRIC requires an NVLink fabric, GPU 0000:10:00.0 (Fake 0) has none: allocating "
	 "65536 "
	 "bytes on GPU 0000:10:00.0: CUDA_ERROR_NOT_PERMITTED",
	 "ORIEL_FABRIC",
	 "require"},
	{"off",
	 {{"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}},
	 test_not_joined,
	 "NVLink fabric: ORIEL_FABRIC is off on ranks",
	 "ORIEL_FABRIC",
	 "off"},
	{"forbidden",
	 {{"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}, {"7,3", NULL}},
	 test_forbidden,
	 "NVLink fabric: not allowed by ORIEL_PATHS",
	 "ORIEL_PATHS",
	 "rdma"},
	{"bus",
	 {{NULL, NULL}, {NULL, NULL}, {NULL, NULL}, {NULL, NULL}},
	 test_bus,
	 "GPUs connected by another bus than NVLink",
	 NULL,
	 NULL},
};

static void use_place(const struct place *place)
{
	if (place->fabric)
		setenv("FAKECUDA_FABRIC", place->fabric, 1);
	if (place->imex)
		setenv("FAKECUDA_IMEX", place->imex, 1);
}

int main(int argc, char **argv)
{
	unsigned fds = count_fds();
	const struct mode *mode = modes;
	struct oriel_bootstrap bootstrap;
	struct rank r = {0};

	while (argc < 2 || strcmp(mode->name, argv[1]) != 0)
		if (argc < 2 || ++mode == modes + sizeof(modes) / sizeof(modes[0]))
			return 2;
	if (mode->variable)
		setenv(mode->variable, mode->value, 1);
	if (oriel_bootstrap_open_env(0, &bootstrap) != ORIEL_OK)
		return 1;
	use_place(&mode->places[bootstrap.rank % 4]);
	r.rank = bootstrap.rank;
	r.size = bootstrap.size;
	r.bootstrap = &bootstrap;
	rank_use_gpu(&r);
	mode->test(&r, mode->reason);
	oriel_bootstrap_close(&bootstrap);
	return rank_finish(r.failures, fds);
}
