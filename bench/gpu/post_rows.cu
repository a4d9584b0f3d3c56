/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that a kernel takes to post WQEs: the rings are in device or pinned memory, the doorbell
 * is a page of pinned memory, and no HCA executes them. "done" is ahead from the start, so no post
 * waits for a completion. usage: post_rows
 */
#define ORIEL_DEV_PATHS 8u /* rdma */
#include <oriel/dev/detail/rdma.h>

#include "bare.h"
#include "samples.h"

#define SAMPLES 40
#define ROUNDS 64u
#define LOG_DEPTH 10u
#define PEERS 8u

struct post_plan {
	const struct oriel_dev_link *link; /* PEERS of them */
	unsigned long long *ns;
	uint32_t *wrong;
};

static __device__ struct ori_dev_rdma_address place_of(uint64_t address, uint32_t key)
{
	struct ori_dev_rdma_address place = {address, key};

	return place;
}

/* One WQE, published and rung. */
struct put_post {
	static __device__ __forceinline__ int64_t go(const struct oriel_dev_link *l,
						     struct oriel_dev_group g, uint64_t k)
	{
		return ori_dev_link_put(l, g, place_of(k * 64, 7), place_of(4096, 8), 64);
	}
};

/* A value of 8 bytes inside of the WQE. */
struct value_post {
	static __device__ __forceinline__ int64_t go(const struct oriel_dev_link *l,
						     struct oriel_dev_group g, uint64_t k)
	{
		return ori_dev_link_put_value(l, g, place_of(k * 64, 7), k);
	}
};

/* Put and signal: two WQEs, one doorbell. */
struct signal_post {
	static __device__ __forceinline__ int64_t go(const struct oriel_dev_link *l,
						     struct oriel_dev_group g, uint64_t k)
	{
		return ori_dev_link_put_signal(l, g, place_of(k * 64, 7), place_of(4096, 8), 64,
					       place_of(128, 9), 1);
	}
};

/* Put, signal and the count of their completion: two WQEs here, two on the companion queue. */
struct counter_post {
	static __device__ __forceinline__ int64_t go(const struct oriel_dev_link *l,
						     struct oriel_dev_group g, uint64_t k)
	{
		return ori_dev_link_put_signal_counter(l, g, place_of(k * 64, 7), place_of(4096, 8),
						       64, place_of(128, 9), 1, place_of(192, 9),
						       1);
	}
};

/* The queue of each peer gets one WQE and one doorbell. */
struct fan_out_post {
	static __device__ __forceinline__ int64_t go(const struct oriel_dev_link *l,
						     struct oriel_dev_group g, uint64_t k)
	{
		int64_t ticket = 0;
		uint32_t peer;

		for (peer = 0; peer < PEERS && ticket >= 0; peer++)
			ticket = ori_dev_link_put(&l[peer], g, place_of(k * 64, 7),
						  place_of(4096, 8), 64);
		return ticket;
	}
};

/* 32 WQEs of one thread, one doorbell. */
struct batch_post {
	static __device__ __forceinline__ int64_t go(const struct oriel_dev_link *l,
						     struct oriel_dev_group, uint64_t k)
	{
		struct ori_dev_link_post post =
			ori_dev_link_begin(l, ori_dev_link_main(l), ORIEL_DEV_PUT, 32);
		uint32_t i;

		if (post.status != ORIEL_OK)
			return post.status;
		for (i = 0; i < 32; i++)
			ori_dev_link_add_write(&post, place_of(k * 64 + i, 7), place_of(4096, 8),
					       64);
		return ori_dev_link_end(l, ORIEL_DEV_PUT, &post);
	}
};

/* 32 WQEs of the lanes of a warp, one doorbell. */
struct warp_post {
	static __device__ __forceinline__ int64_t go(const struct oriel_dev_link *l,
						     struct oriel_dev_group g, uint64_t k)
	{
		return ori_dev_link_put_cooperative(l, g, place_of(k * 64, 7), place_of(4096, 8),
						    32 * 64);
	}
};

template <class Post, int THREADS> __global__ void posts(const __grid_constant__ struct post_plan p)
{
	struct oriel_dev_group g = THREADS == 1 ? oriel_dev_thread() : oriel_dev_warp();
	uint64_t start, n = 0;
	uint32_t i, k;

	for (i = 0; i < SAMPLES; i++) {
		start = oriel_dev_clock_ns();
		for (k = 0; k < ROUNDS; k++)
			if (Post::go(p.link, g, n++) < 0)
				*p.wrong = 1;
		if (g.rank == 0)
			p.ns[i] = oriel_dev_clock_ns() - start;
	}
}

static struct post_plan plan;

static void *memory_of(bool is_pinned, size_t length)
{
	void *memory;

	if (is_pinned)
		return bare_pinned(length);
	CUDA_CHECK(cudaMalloc(&memory, length));
	CUDA_CHECK(cudaMemset(memory, 0, length));
	return memory;
}

/*
 * A queue in device memory, returned as kernels see it. @is_pinned: the memory that a NIC accesses
 * is pinned host memory. The words that posters share are in device memory in any case.
 */
static struct ori_dev_mlx5_queue *open_queue(bool is_pinned, struct ori_dev_mlx5_queue *queue)
{
	struct ori_dev_mlx5_queue *there;

	memset(queue, 0, sizeof(*queue));
	queue->sq = (char *)memory_of(is_pinned, (1ul << LOG_DEPTH) * ORIEL_MLX5_BLOCK);
	queue->cq = (const char *)memory_of(is_pinned, (1ul << LOG_DEPTH) * ORIEL_MLX5_BLOCK);
	queue->record = (uint32_t *)memory_of(is_pinned, 64);
	queue->doorbell = (uint64_t *)bare_pinned(4096);
	queue->qpn = 0x1234;
	queue->cqn = 0x56;
	queue->log_depth = LOG_DEPTH;
	ori_dev_mlx5_queue_begin(queue, 0);
	queue->done = 1ul << 40;
	there = (struct ori_dev_mlx5_queue *)memory_of(false, sizeof(*queue));
	CUDA_CHECK(cudaMemcpy(there, queue, sizeof(*queue), cudaMemcpyDefault));
	return there;
}

/* Links to PEERS peers; @queue gets the main queue of the first. */
static void open_links(bool is_pinned, struct ori_dev_mlx5_queue *queue)
{
	struct oriel_dev_link links[PEERS];
	struct ori_dev_mlx5_queue other;
	void *there;
	unsigned i;

	memset(links, 0, sizeof(links));
	for (i = 0; i < PEERS; i++) {
		links[i].main = open_queue(is_pinned, i == 0 ? queue : &other);
		links[i].companion = open_queue(is_pinned, &other);
		links[i].timeout_ns = 1000000000;
		links[i].spin = 1;
	}
	there = memory_of(false, sizeof(links));
	CUDA_CHECK(cudaMemcpy(there, links, sizeof(links), cudaMemcpyDefault));
	plan.link = (const struct oriel_dev_link *)there;
}

/* The main queue of the first link gets @rung of the @wqes in a round. */
template <class Post, int THREADS>
static void run_posts(const char *test, bool is_pinned, uint32_t wqes, uint32_t rung)
{
	struct row r = {test,    "oriel", is_pinned ? "pinned ring" : "device ring", "rdma", 1, 64,
			THREADS, 1};
	struct ori_dev_mlx5_queue queue;
	cudaFuncAttributes a;
	double us[SAMPLES];
	unsigned i;

	open_links(is_pinned, &queue);
	posts<Post, THREADS><<<1, THREADS>>>(plan);
	CUDA_CHECK(cudaGetLastError());
	CUDA_CHECK(cudaDeviceSynchronize());
	if (*plan.wrong)
		bare_die("%s: a post failed", test);
	/* The last doorbell is of the last WQE: 16 bits of the index after it, big-endian. */
	if (*queue.doorbell !=
	    ori_dev_mlx5_doorbell_value(queue.qpn, (uint64_t)SAMPLES * ROUNDS * rung))
		bare_die("%s: the doorbell says %llx", test, (unsigned long long)*queue.doorbell);
	for (i = 0; i < SAMPLES; i++)
		us[i] = (double)plan.ns[i] / ROUNDS / wqes / 1e3;
	row_print(&r, us, SAMPLES, 0);
	CUDA_CHECK(cudaFuncGetAttributes(&a, posts<Post, THREADS>));
	fprintf(stderr, "%s: %d registers, %zu bytes of local memory\n", test, a.numRegs,
		a.localSizeBytes);
}

int main(void)
{
	int pinned;

	bare_begin();
	plan.ns = (unsigned long long *)bare_pinned(sizeof(*plan.ns) * SAMPLES);
	plan.wrong = (uint32_t *)bare_pinned(sizeof(*plan.wrong));
	for (pinned = 0; pinned < 2; pinned++) {
		run_posts<put_post, 1>("post_put", pinned, 1, 1);
		run_posts<put_post, 32>("post_put", pinned, 1, 1);
		run_posts<value_post, 1>("post_value", pinned, 1, 1);
		run_posts<signal_post, 1>("post_put_signal", pinned, 2, 2);
		run_posts<counter_post, 1>("post_put_signal_counter", pinned, 4, 2);
		run_posts<fan_out_post, 1>("post_fan_out", pinned, PEERS, 1);
		run_posts<batch_post, 1>("post_batch", pinned, 32, 32);
		run_posts<warp_post, 32>("post_batch", pinned, 32, 32);
	}
	return 0;
}
