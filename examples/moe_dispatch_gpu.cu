/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mixture-of-experts layer on GPUs: every rank has some experts, and a batch of tokens that go
 * to two experts each, on any rank. Kernels put each token directly into the memory of its
 * expert's rank, which puts the result directly back. A step is a CUDA graph; no CPU knows how
 * many tokens go where. The rank compares the results with its own computation. Prints tokens per
 * second and the bytes sent.
 * usage: oriel run -n N moe_dispatch_gpu [STEPS [TOKENS]]
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define WIDTH 1024u /* values of a token */
#define EXPERTS 4u  /* of each rank */
#define CHOICES 2u  /* experts of each token */
#define STEPS_MAX 100000u
#define TOKENS_MAX 16384u
#define BLOCKS 264u
#define THREADS 256u

#define TOKEN_BYTES (WIDTH * sizeof(float))

enum {
	DISPATCHED,
	RETURNED,
	SIGNALS
}; /* each block of a rank adds to each of them once per step */

/* The destination of a token for one of its choices. */
struct choice {
	unsigned expert; /* number among all experts */
	unsigned slot;   /* among those that this rank has on the expert's rank */
};

/* Sent with a token: its expert, and which choice of the sending rank it is. */
struct tag {
	unsigned expert, choice;
};

/*
 * Offsets in the window of a rank. A rank has slots of its own on each other rank, as many as it
 * has choices: in the worst case all of them go to one rank.
 */
struct layout {
	uint64_t batch;    /* [tokens], of this rank */
	uint64_t returned; /* [choices], results of the experts */
	uint64_t arrived;  /* [ranks][choices], tokens; then the experts' results */
	uint64_t tags;     /* [ranks][choices] */
	uint64_t counts;   /* [ranks], slots in use, 64 bits each */
	uint64_t end;
};

/* Passed to kernels by value. */
struct layer {
	struct oriel_dev_window window;
	struct layout at;
	char *memory; /* of this rank, in the window */
	unsigned tokens, choices;
	unsigned *step;
	unsigned *sent;                    /* [ranks], choices of this step */
	struct choice *chosen;             /* [choices] */
	float *combined;                   /* [tokens] */
	unsigned long long *wrong, *bytes; /* wrong values; bytes to other ranks, one way */
};

#define CUDA(call) cuda_must(call, #call)
#define MUST(call) must(call, #call)

static void cuda_must(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

static void must(enum oriel_status status, const char *what)
{
	if (status == ORIEL_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, oriel_last_error());
	exit(1);
}

__device__ unsigned draw(unsigned long long seed)
{
	seed *= 0x9e3779b97f4a7c15ull;
	return (unsigned)((seed ^ seed >> 29) * 0xbf58476d1ce4e5b9ull >> 40);
}

/* Some experts are chosen more often than others, and different ones in each step. */
__device__ unsigned choose_expert(const struct layer *l, unsigned choice)
{
	unsigned long long seed =
		(*l->step * 64ull + l->window.rank) * TOKENS_MAX * CHOICES + choice;
	unsigned count = l->window.ranks * EXPERTS;
	unsigned first = draw(seed) % count, second = draw(~seed) % count;

	return ((first < second ? first : second) + *l->step) % count;
}

/* The values are multiples of one eighth, so nothing is rounded. */
__device__ float make(unsigned expert, float x)
{
	float y = x * (float)(expert + 1) - 500.0f;

	return y > 0 ? y : y * 0.125f;
}

/* The first slot that rank @source has on another rank. */
__device__ size_t slots_of(const struct layer *l, unsigned source)
{
	return (size_t)source * l->choices;
}

__global__ void fill(struct layer l)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	float *batch = (float *)(l.memory + l.at.batch);

	for (; i < (size_t)l.tokens * WIDTH; i += (size_t)gridDim.x * blockDim.x)
		batch[i] = (float)((i * 31 + *l.step * 7919 + l.window.rank * 101) % 1009);
}

__global__ void route(struct layer l)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	for (; i < l.choices; i += gridDim.x * blockDim.x) {
		l.chosen[i].expert = choose_expert(&l, i);
		l.chosen[i].slot = atomicAdd(&l.sent[l.chosen[i].expert / EXPERTS], 1u);
	}
}

/* A block's puts precede its signal; a receiver of one signal per block has all tokens. */
__global__ void dispatch(struct layer l)
{
	struct oriel_dev_group g = oriel_dev_block();
	unsigned i, rank;

	for (i = blockIdx.x; i < l.choices; i += gridDim.x) {
		struct choice choice = l.chosen[i];
		size_t slot = slots_of(&l, l.window.rank) + choice.slot;
		const char *token = l.memory + l.at.batch + i / CHOICES * TOKEN_BYTES;

		rank = choice.expert / EXPERTS;
		oriel_dev_put(&l.window, g, rank, l.at.arrived + slot * TOKEN_BYTES, token,
			      TOKEN_BYTES, NULL);
		if (threadIdx.x == 0)
			oriel_dev_put_value(&l.window, rank, l.at.tags + slot * sizeof(struct tag),
					    (uint64_t)i << 32 | choice.expert, NULL);
	}
	for (rank = threadIdx.x; blockIdx.x == 0 && rank < l.window.ranks; rank += blockDim.x) {
		oriel_dev_put_value(&l.window, rank, l.at.counts + l.window.rank * 8, l.sent[rank],
				    NULL);
		if (rank != l.window.rank)
			atomicAdd(l.bytes, l.sent[rank] * (unsigned long long)TOKEN_BYTES);
	}
	oriel_dev_signal_all(&l.window, g, DISPATCHED, ORIEL_SIGNAL_ADD, 1);
	oriel_dev_drain(&l.window, g, 0);
}

/* One block; the kernels after it see the puts that preceded the signals. */
__global__ void wait_all(struct layer l, unsigned signal)
{
	oriel_dev_wait_signal_next_all(&l.window, oriel_dev_block(), signal, BLOCKS, 0);
}

/*
 * Run the experts and return the results. A rank sends the tokens of its next step after all
 * results of this one have returned, so no slot is overwritten while it is read, and no other
 * synchronization is needed.
 */
__global__ void experts(struct layer l)
{
	const uint64_t *counts = (const uint64_t *)(l.memory + l.at.counts);
	const struct tag *tags = (const struct tag *)(l.memory + l.at.tags);
	struct oriel_dev_group g = oriel_dev_block();
	unsigned k, source;
	size_t slot;

	for (k = 0; k < l.window.ranks; k++) {
		source = (l.window.rank + k) % l.window.ranks;
		for (slot = blockIdx.x; slot < counts[source]; slot += gridDim.x) {
			size_t at = slots_of(&l, source) + slot;
			float *token = (float *)(l.memory + l.at.arrived + at * TOKEN_BYTES);

			for (unsigned i = threadIdx.x; i < WIDTH; i += blockDim.x)
				token[i] = make(tags[at].expert, token[i]);
			oriel_dev_sync(g);
			oriel_dev_put(&l.window, g, source,
				      l.at.returned + tags[at].choice * TOKEN_BYTES, token,
				      TOKEN_BYTES, NULL);
		}
	}
	oriel_dev_signal_all(&l.window, g, RETURNED, ORIEL_SIGNAL_ADD, 1);
	oriel_dev_drain(&l.window, g, 0);
}

__global__ void combine(struct layer l)
{
	const float *returned = (const float *)(l.memory + l.at.returned);
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < (size_t)l.tokens * WIDTH; i += (size_t)gridDim.x * blockDim.x) {
		size_t first = i / WIDTH * CHOICES * WIDTH + i % WIDTH;

		l.combined[i] = 0.5f * (returned[first] + returned[first + WIDTH]);
	}
}

__global__ void check(struct layer l)
{
	const float *batch = (const float *)(l.memory + l.at.batch);
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < (size_t)l.tokens * WIDTH; i += (size_t)gridDim.x * blockDim.x) {
		unsigned first = (unsigned)(i / WIDTH) * CHOICES;
		float one = make(choose_expert(&l, first), batch[i]);
		float other = make(choose_expert(&l, first + 1), batch[i]);

		if (l.combined[i] != 0.5f * (one + other))
			atomicAdd(l.wrong, 1ull);
	}
}

__global__ void next(unsigned *step)
{
	++*step;
}

static cudaGraphExec_t layer_capture(const struct layer *l, cudaStream_t stream, bool is_checked)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	if (is_checked)
		fill<<<BLOCKS, THREADS, 0, stream>>>(*l);
	CUDA(cudaMemsetAsync(l->sent, 0, l->window.ranks * sizeof(*l->sent), stream));
	route<<<BLOCKS, THREADS, 0, stream>>>(*l);
	dispatch<<<BLOCKS, THREADS, 0, stream>>>(*l);
	wait_all<<<1, 32, 0, stream>>>(*l, DISPATCHED);
	experts<<<BLOCKS, THREADS, 0, stream>>>(*l);
	wait_all<<<1, 32, 0, stream>>>(*l, RETURNED);
	combine<<<BLOCKS, THREADS, 0, stream>>>(*l);
	if (is_checked)
		check<<<BLOCKS, THREADS, 0, stream>>>(*l);
	next<<<1, 1, 0, stream>>>(l->step);
	CUDA(cudaStreamEndCapture(stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

static struct layout layout_of(unsigned ranks, unsigned tokens)
{
	size_t choices = (size_t)tokens * CHOICES;
	struct layout at = {};

	at.returned = at.batch + tokens * TOKEN_BYTES;
	at.arrived = at.returned + choices * TOKEN_BYTES;
	at.tags = at.arrived + ranks * choices * TOKEN_BYTES;
	at.counts = at.tags + ranks * choices * sizeof(struct tag);
	at.end = at.counts + ranks * sizeof(uint64_t);
	return at;
}

static struct oriel_window *layer_open(struct layer *l, struct oriel_comm *comm, unsigned tokens)
{
	unsigned ranks = oriel_comm_size(comm);
	struct oriel_window_attr attr = {};
	struct oriel_window *window;
	void *memory;

	l->at = layout_of(ranks, tokens);
	l->tokens = tokens;
	l->choices = tokens * CHOICES;
	attr.size = sizeof(attr);
	attr.length = l->at.end;
	attr.flags = ORIEL_WINDOW_DEVICE;
	attr.signals = SIGNALS;
	MUST(oriel_window_create(comm, &attr, &window));
	MUST(oriel_window_device(window, &l->window));
	MUST(oriel_window_buffer(window, 0, &memory, NULL));
	l->memory = (char *)memory;
	CUDA(cudaMalloc((void **)&l->sent, ranks * sizeof(*l->sent)));
	CUDA(cudaMalloc((void **)&l->chosen, l->choices * sizeof(*l->chosen)));
	CUDA(cudaMalloc((void **)&l->combined, tokens * TOKEN_BYTES));
	CUDA(cudaMalloc((void **)&l->step, sizeof(*l->step)));
	CUDA(cudaMalloc((void **)&l->wrong, 2 * sizeof(*l->wrong)));
	l->bytes = l->wrong + 1;
	CUDA(cudaMemset(l->step, 0, sizeof(*l->step)));
	CUDA(cudaMemset(l->wrong, 0, 2 * sizeof(*l->wrong)));
	CUDA(cudaDeviceSynchronize());
	return window;
}

static void layer_close(struct layer *l)
{
	CUDA(cudaFree(l->wrong));
	CUDA(cudaFree(l->step));
	CUDA(cudaFree(l->combined));
	CUDA(cudaFree(l->chosen));
	CUDA(cudaFree(l->sent));
}

/* Milliseconds of @steps steps, from the time when all ranks are ready. */
static float layer_run(const struct layer *l, struct oriel_comm *comm, cudaStream_t stream,
		       unsigned steps, bool is_checked)
{
	cudaGraphExec_t exec = layer_capture(l, stream, is_checked);
	cudaEvent_t begin, end;
	float ms = 0;

	CUDA(cudaEventCreate(&begin));
	CUDA(cudaEventCreate(&end));
	CUDA(cudaMemsetAsync(l->bytes, 0, sizeof(*l->bytes), stream));
	MUST(oriel_comm_barrier(comm));
	CUDA(cudaEventRecord(begin, stream));
	for (unsigned i = 0; i < steps; i++)
		CUDA(cudaGraphLaunch(exec, stream));
	CUDA(cudaEventRecord(end, stream));
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaEventElapsedTime(&ms, begin, end));
	CUDA(cudaEventDestroy(begin));
	CUDA(cudaEventDestroy(end));
	CUDA(cudaGraphExecDestroy(exec));
	return ms;
}

/* Returns the number of wrong values. */
static unsigned long long layer_report(const struct layer *l, unsigned steps, float ms)
{
	unsigned long long totals[2];

	CUDA(cudaMemcpy(totals, l->wrong, sizeof(totals), cudaMemcpyDefault));
	printf("rank %u of %u: %u steps of %u tokens, %u experts of %u each: %.0f tokens/s, "
	       "%.1f GB/s to other ranks, %llu numbers wrong\n",
	       l->window.rank, l->window.ranks, steps, l->tokens, CHOICES,
	       l->window.ranks * EXPERTS, steps * l->tokens / (ms / 1e3),
	       2.0 * (double)totals[1] / (ms / 1e3) / 1e9, totals[0]);
	return totals[0];
}

/* Did all waits in kernels end without an error? */
static bool is_well(const struct oriel_comm *comm)
{
	struct oriel_health health = {};
	char text[256];

	health.size = sizeof(health);
	oriel_comm_health(comm, &health);
	if (health.status == ORIEL_OK)
		return true;
	oriel_health_text(&health, text, sizeof(text));
	fprintf(stderr, "rank %u: %s\n", oriel_comm_rank(comm), text);
	return false;
}

/* The GPU of the rank stays the current one. */
static struct oriel_comm *comm_open(const struct oriel_bootstrap *bootstrap)
{
	struct oriel_comm_attr attr = {};
	struct oriel_comm *comm;
	int gpus = 0;

	attr.size = sizeof(attr);
	attr.flags = ORIEL_COMM_GPU;
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((int)bootstrap->rank % gpus));
	CUDA(cudaFree(NULL));
	MUST(oriel_comm_create(bootstrap, &attr, &comm));
	return comm;
}

int main(int argc, char **argv)
{
	unsigned steps = argc > 1 ? (unsigned)atoi(argv[1]) : 50;
	unsigned tokens = argc > 2 ? (unsigned)atoi(argv[2]) : 4096;
	struct oriel_bootstrap bootstrap;
	unsigned long long wrong;
	struct oriel_window *window;
	struct oriel_comm *comm;
	struct layer layer = {};
	cudaStream_t stream;
	float ms;

	if (steps < 1 || steps > STEPS_MAX || tokens < 1 || tokens > TOKENS_MAX) {
		fprintf(stderr, "usage: moe_dispatch_gpu [STEPS [TOKENS]], at most %u of %u\n",
			STEPS_MAX, TOKENS_MAX);
		return 2;
	}
	/* Kernels that wait must not be queued in front of those of another rank. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	MUST(oriel_bootstrap_open_env(0, &bootstrap));
	comm = comm_open(&bootstrap);
	window = layer_open(&layer, comm, tokens);
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	(void)layer_run(&layer, comm, stream, steps, true);
	ms = layer_run(&layer, comm, stream, steps, false);
	wrong = layer_report(&layer, steps, ms) + !is_well(comm);
	CUDA(cudaStreamDestroy(stream));
	layer_close(&layer);
	oriel_window_destroy(window);
	oriel_comm_destroy(comm);
	oriel_bootstrap_close(&bootstrap);
	return wrong ? 1 : 0;
}
