/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints of oriel/p2p.h with memory of GPUs: gpu_p2p 2 (threads), or oriel run -n 2 gpu_p2p
 * (processes). Rank r uses GPU r modulo the number of GPUs. A line for each claim, and for each
 * measurement; ends with 1 if a claim does not hold.
 */
#include <string.h>
#include <time.h>

#include <cuda_runtime.h>

#include <oriel/dev/copy_group.h>

#include "ranks.h"

#define LENGTH ((size_t)64 << 20)
#define RDMA_LENGTH ((size_t)16 << 20) /* by the software HCA */
#define SITE_LENGTH ((size_t)8 << 20)  /* each channel wraps around twice */
#define MANY 50u                       /* times that are measured, */
#define FEW 5u                         /* of long measurements */
#define TIMEOUT_NS 20000000000ull
#define CHANNELS 4u
#define WORKERS 8u

enum site { HOST, PINNED, LEGACY, OWN, SITES };

static const char *const site_names[] = {"host", "pinned", "cudaMalloc", "oriel"};

struct rank {
	unsigned rank, failures;
	const struct oriel_bootstrap *bootstrap;
	const char *node;
	struct oriel_comm *comm;
	struct oriel_p2p_context *context;
	unsigned *wrong; /* of the GPU */
	size_t longest;  /* of the measured messages */
};

static void verdict(struct rank *r, const char *what, const char *from, const char *to, bool holds)
{
	r->failures += !holds;
	if (!holds || r->rank == 0)
		printf("%s rank %u: %s, %s to %s\n", holds ? "PASS" : "FAIL", r->rank, what, from,
		       to);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

__host__ __device__ char pattern(unsigned seed, size_t i)
{
	return (char)(seed * 101 + i * 11 + (i >> 8) * 59 + (i >> 16) * 7);
}

__global__ void paint(char *at, size_t bytes, unsigned seed)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		at[i] = pattern(seed, i);
}

__global__ void count_wrong(const char *at, size_t bytes, unsigned seed, unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != pattern(seed, i))
			atomicAdd(wrong, 1u);
}

static char *site_open(struct rank *r, enum site site, size_t length)
{
	void *at = NULL;

	if (site == LEGACY)
		CUDA(cudaMalloc(&at, length));
	else if (site == PINNED)
		CUDA(cudaHostAlloc(&at, length, cudaHostAllocPortable));
	else
		MUST(oriel_memory_alloc(length, site == OWN ? ORIEL_MEMORY_DEVICE : 0, &at));
	return (char *)at;
}

static void site_close(struct rank *r, enum site site, char *at)
{
	if (site == LEGACY)
		CUDA(cudaFree(at));
	else if (site == PINNED)
		CUDA(cudaFreeHost(at));
	else
		oriel_memory_free(at);
}

static void fill(struct rank *r, enum site site, char *at, size_t bytes, unsigned seed)
{
	if (site >= LEGACY)
		paint<<<64, 256>>>(at, bytes, seed);
	for (size_t i = 0; site < LEGACY && i < bytes; i++)
		at[i] = pattern(seed, i);
	CUDA(cudaDeviceSynchronize());
}

static void wipe(struct rank *r, enum site site, char *at, size_t bytes)
{
	if (site >= LEGACY)
		CUDA(cudaMemset(at, 0, bytes));
	else
		memset(at, 0, bytes);
	CUDA(cudaDeviceSynchronize());
}

/* A kernel checks it that was launched when the receive was done. */
static bool is_filled(struct rank *r, enum site site, const char *at, size_t bytes, unsigned seed)
{
	unsigned wrong = 0;

	for (size_t i = 0; site < LEGACY && i < bytes; i++)
		wrong += at[i] != pattern(seed, i);
	if (site < LEGACY)
		return !wrong;
	CUDA(cudaMemset(r->wrong, 0, sizeof(wrong)));
	count_wrong<<<64, 256>>>(at, bytes, seed, r->wrong);
	CUDA(cudaMemcpy(&wrong, r->wrong, sizeof(wrong), cudaMemcpyDeviceToHost));
	return !wrong;
}

struct job {
	enum site site[2];
	char *at[2]; /* to send from, to receive in */
	struct oriel_p2p_memory *memory[2];
};

static void job_open(struct rank *r, struct job *j, enum site from, enum site to, size_t length)
{
	j->site[0] = from;
	j->site[1] = to;
	for (unsigned i = 0; i < 2; i++) {
		j->at[i] = site_open(r, j->site[i], length);
		MUST(oriel_p2p_register(r->context, j->at[i], length, 0, &j->memory[i]));
	}
}

static void job_close(struct rank *r, struct job *j)
{
	MUST(oriel_comm_barrier(r->comm));
	for (unsigned i = 0; i < 2; i++) {
		oriel_p2p_unregister(j->memory[i]);
		site_close(r, j->site[i], j->at[i]);
	}
}

/* Both ways at once, cut over all channels. */
static void exchange(struct rank *r, struct oriel_p2p *p2p, struct job *j, size_t bytes)
{
	struct oriel_p2p_request out[CHANNELS], in[CHANNELS];
	size_t part = bytes / CHANNELS;

	for (unsigned c = 0; c < CHANNELS; c++) {
		size_t length = c + 1 < CHANNELS ? part : bytes - c * part;
		struct oriel_p2p_buffer from = {j->at[0] + c * part, length, j->memory[0]};
		struct oriel_p2p_buffer to = {j->at[1] + c * part, length, j->memory[1]};

		MUST(oriel_p2p_recv(p2p, c, &to, &in[c]));
		MUST(oriel_p2p_send(p2p, c, &from, &out[c]));
	}
	for (unsigned c = 0; c < CHANNELS; c++) {
		MUST(oriel_p2p_wait(p2p, &in[c], 0));
		MUST(oriel_p2p_wait(p2p, &out[c], 0));
	}
}

static void test_sites(struct rank *r, struct oriel_p2p *p2p, enum oriel_p2p_mode mode)
{
	static const size_t sizes[] = {1, 8, 1001, 65536, 1000003, SITE_LENGTH};

	for (unsigned sites = 0; sites < SITES * SITES; sites++) {
		struct job j;
		bool holds = true;

		/* Memory of cudaHostAlloc() cannot be exported to another process. */
		if (mode == ORIEL_P2P_ZERO_COPY && sites / SITES == PINNED)
			continue;
		job_open(r, &j, (enum site)(sites % SITES), (enum site)(sites / SITES),
			 SITE_LENGTH);
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			fill(r, j.site[0], j.at[0], sizes[i], sites + i + r->rank);
			wipe(r, j.site[1], j.at[1], sizes[i]);
			MUST(oriel_comm_barrier(r->comm));
			exchange(r, p2p, &j, sizes[i]);
			holds = holds &&
				is_filled(r, j.site[1], j.at[1], sizes[i], sites + i + !r->rank);
		}
		verdict(r, oriel_p2p_mode_name(mode), site_names[sites % SITES],
			site_names[sites / SITES], holds);
		job_close(r, &j);
	}
}

static void move(struct rank *r, struct oriel_p2p *p2p, const struct job *j, bool is_send,
		 size_t bytes)
{
	struct oriel_p2p_buffer b = {j->at[!is_send], bytes, j->memory[!is_send]};
	struct oriel_p2p_request request;

	if (is_send)
		MUST(oriel_p2p_send(p2p, 0, &b, &request));
	else
		MUST(oriel_p2p_recv(p2p, 0, &b, &request));
	MUST(oriel_p2p_wait(p2p, &request, 0));
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Half of the time of a message there and back; medians. */
static void measure(struct rank *r, struct oriel_p2p *p2p, enum oriel_p2p_mode mode, enum site from,
		    enum site to)
{
	const size_t sizes[] = {8, 65536, 1u << 20, r->longest};
	struct oriel_p2p_info info = {};
	struct job j;

	info.size = sizeof(info);
	MUST(oriel_p2p_describe(p2p, &info));
	job_open(r, &j, from, to, r->longest);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned times = sizes[i] == r->longest ? FEW : MANY;
		double took[MANY];

		MUST(oriel_comm_barrier(r->comm));
		for (unsigned n = 0; n < times; n++) {
			double begin = now_us();

			move(r, p2p, &j, r->rank == 0, sizes[i]);
			move(r, p2p, &j, r->rank != 0, sizes[i]);
			took[n] = (now_us() - begin) / 2;
		}
		qsort(took, times, sizeof(took[0]), compare);
		if (r->rank == 0)
			printf("TIME %-6s %-10s %-10s to %-10s %9zu bytes %10.2f us %8.2f GB/s\n",
			       info.backend, oriel_p2p_mode_name(mode), site_names[from],
			       site_names[to], sizes[i], took[times / 2],
			       (double)sizes[i] / took[times / 2] / 1e3);
	}
	job_close(r, &j);
}

/* A block for each worker of each side: the same kernel packs and unpacks. */
__global__ void __launch_bounds__(512)
	copy_group_kernel(struct oriel_dev_copy_group group, uint64_t bytes, int *status)
{
	enum oriel_dev_side side = blockIdx.x < group.workers ? ORIEL_DEV_PACK : ORIEL_DEV_UNPACK;
	uint32_t worker = blockIdx.x % group.workers;
	struct oriel_dev_group g = oriel_dev_block();
	struct oriel_dev_chunk chunk;
	uint64_t begin, length, at, i;
	enum oriel_status st = oriel_dev_copy_group_enter(&group, g, side, worker);

	if (st == ORIEL_OK) {
		for (at = 0; at < bytes && st == ORIEL_OK; at += chunk.length) {
			st = oriel_dev_copy_group_next(&group, g, side, worker, 0, &chunk);
			if (st != ORIEL_OK)
				break;
			if (chunk.user == 0) {
				oriel_dev_copy_group_copy(&group, g, side, worker, &chunk);
				continue;
			}
			/*
			 * The producer computes the bytes that the consumer compares: there is
			 * no buffer.
			 */
			length = oriel_dev_copy_group_part(&group, worker, chunk.length, &begin);
			for (i = begin + g.rank; i < begin + length; i += g.size) {
				if (side == ORIEL_DEV_PACK)
					chunk.slot[i] =
						pattern((unsigned)chunk.user, chunk.offset + i);
				else if (chunk.slot[i] !=
					 pattern((unsigned)chunk.user, chunk.offset + i))
					atomicAdd(status, 1);
			}
			oriel_dev_copy_group_done(&group, g, side, worker, &chunk);
		}
		oriel_dev_copy_group_leave(&group, g, side, worker);
	}
	if (g.rank == 0 && st != ORIEL_OK)
		atomicExch(status, (int)st);
}

/* Kernels pack and unpack buffers, or bytes that they compute. */
static void test_copy_group(struct rank *r, struct oriel_p2p *p2p,
			    struct oriel_dev_copy_group device)
{
	size_t length = r->longest;
	cudaStream_t stream;
	int *status, seen = 0;
	struct job j;

	job_open(r, &j, LEGACY, OWN, length);
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CUDA(cudaMalloc((void **)&status, sizeof(*status)));
	CUDA(cudaMemset(status, 0, sizeof(*status)));
	for (unsigned made = 0; made < 2; made++) {
		struct oriel_p2p_buffer from = {j.at[0], length, j.memory[0]};
		struct oriel_p2p_buffer to = {j.at[1], length, j.memory[1]};
		struct oriel_p2p_request out = {}, in = {};
		double took = 0;

		fill(r, LEGACY, j.at[0], length, r->rank + 1);
		wipe(r, OWN, j.at[1], length);
		for (unsigned n = 0; n < FEW; n++) {
			MUST(oriel_comm_barrier(r->comm));
			out.user = (void *)(uintptr_t)(made ? r->rank + 5 : 0);
			in.user = (void *)(uintptr_t)(made ? !r->rank + 5 : 0);
			copy_group_kernel<<<2 * WORKERS, 512, 0, stream>>>(device, length, status);
			CUDA(cudaGetLastError());
			took = now_us();
			MUST(oriel_p2p_recv(p2p, 0, &to, &in));
			MUST(oriel_p2p_send(p2p, 0, &from, &out));
			MUST(oriel_p2p_wait(p2p, &in, 0));
			MUST(oriel_p2p_wait(p2p, &out, 0));
			took = now_us() - took;
			CUDA(cudaStreamSynchronize(stream));
		}
		CUDA(cudaMemcpy(&seen, status, sizeof(seen), cudaMemcpyDeviceToHost));
		verdict(r, made ? "kernels make and check" : "kernels pack and unpack",
			"cudaMalloc", "oriel",
			!seen && (made || is_filled(r, OWN, j.at[1], length, !r->rank + 1)));
		if (r->rank == 0)
			printf("TIME kernels, both ways at once, %zu bytes %10.2f us %8.2f GB/s "
			       "each\n",
			       length, took, (double)length / took / 1e3);
	}
	CUDA(cudaFree(status));
	CUDA(cudaStreamDestroy(stream));
	job_close(r, &j);
}

/* Creates an endpoint of this rank's context; the communicator exchanges the addresses. */
static struct oriel_p2p *meet(struct rank *r, struct oriel_p2p_context *context,
			      const struct oriel_p2p_attr *attr)
{
	char mine[ORIEL_P2P_ADDRESS], all[2][ORIEL_P2P_ADDRESS];
	struct oriel_p2p *p2p = NULL;

	MUST(oriel_p2p_create(context, attr, &p2p));
	MUST(oriel_p2p_address(p2p, mine));
	MUST(oriel_comm_all_gather(r->comm, mine, all, sizeof(mine)));
	MUST(oriel_p2p_connect(p2p, all[!r->rank], sizeof(all[0]), 0));
	while (oriel_p2p_check(p2p) == ORIEL_AGAIN)
		MUST(oriel_p2p_progress(p2p));
	MUST(oriel_p2p_check(p2p));
	return p2p;
}

static void run_mode(struct rank *r, enum oriel_p2p_mode mode)
{
	struct oriel_p2p_attr attr = {};
	struct oriel_p2p *p2p;

	attr.size = sizeof(attr);
	attr.mode = mode;
	attr.channels = CHANNELS;
	p2p = meet(r, r->context, &attr);
	test_sites(r, p2p, mode);
	measure(r, p2p, mode, HOST, HOST);
	measure(r, p2p, mode, OWN, OWN);
	measure(r, p2p, mode, LEGACY, LEGACY);
	MUST(oriel_comm_barrier(r->comm));
	oriel_p2p_destroy(p2p);
}

static void run_copy_group(struct rank *r)
{
	struct oriel_p2p_copy_group_attr group_attr = {};
	struct oriel_p2p_attr attr = {};
	struct oriel_p2p_copy_group *group;
	struct oriel_dev_copy_group device;
	struct oriel_p2p *p2p;

	group_attr.size = sizeof(group_attr);
	group_attr.workers = WORKERS;
	MUST(oriel_p2p_copy_group_create(r->context, &group_attr, &group));
	MUST(oriel_p2p_copy_group_device(group, &device));
	attr.size = sizeof(attr);
	attr.mode = ORIEL_P2P_COPY_BASED;
	attr.depth = 16;
	attr.hooks = oriel_p2p_copy_group_hooks();
	attr.context = group;
	p2p = meet(r, r->context, &attr);
	test_copy_group(r, p2p, device);
	MUST(oriel_comm_barrier(r->comm));
	oriel_p2p_destroy(p2p);
	oriel_p2p_copy_group_destroy(group);
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct oriel_comm_attr attr = {};
	struct rank rank = {}, *r = &rank;
	enum oriel_path path;
	int gpus = 0;

	r->rank = bootstrap->rank;
	r->bootstrap = bootstrap;
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((int)r->rank % gpus));
	CUDA(cudaFree(NULL));
	CUDA(cudaMalloc((void **)&r->wrong, sizeof(*r->wrong)));
	attr.size = sizeof(attr);
	attr.timeout_ns = TIMEOUT_NS;
	attr.flags = ORIEL_COMM_GPU;
	attr.node = node;
	MUST(oriel_comm_create(bootstrap, &attr, &r->comm));
	MUST(oriel_comm_p2p_context(r->comm, &r->context));
	MUST(oriel_comm_path(r->comm, !r->rank, &path));
	r->longest = path == ORIEL_PATH_RDMA ? RDMA_LENGTH : LENGTH;
	run_mode(r, ORIEL_P2P_ZERO_COPY);
	run_mode(r, ORIEL_P2P_COPY_BASED);
	run_mode(r, ORIEL_P2P_AUTO);
	run_copy_group(r);
	CUDA(cudaFree(r->wrong));
	MUST(oriel_comm_barrier(r->comm));
	oriel_comm_destroy(r->comm);
	return r->failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
