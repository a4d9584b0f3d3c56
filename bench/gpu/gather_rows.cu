/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gathers of GPU memory beside NCCL's in its three modes, eager and in graphs, in one run; with
 * two GPUs also puts by a copy engine. Ranks are threads, one for each GPU. gather.py calls it.
 * usage: gather_rows [GPUS]
 */
#include "coll_rows.h"

static const size_t sizes[] = {1024,     4096,     16384,     65536,     262144,
			       1u << 20, 4u << 20, 16u << 20, 64u << 20, 256u << 20};

/* One method of an all-gather. */
struct method {
	const char *impl;
	const char *mode;
	unsigned algorithm; /* Oriel's */
	int cta_policy;     /* NCCL's */
	bool is_symmetric;
	const char *batch; /* Oriel's ORIEL_CE_BATCH; NULL: unchanged */
};

__device__ static char pattern(size_t i, int rank)
{
	return (char)(i * 131 + (i >> 8) * 29 + rank * 17 + 5);
}

__global__ void __launch_bounds__(512) paint(char *at, size_t bytes, int rank)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes; i += (size_t)gridDim.x * blockDim.x)
		at[i] = pattern(i, rank);
}

__global__ void __launch_bounds__(512)
	check_bytes(const char *at, size_t bytes, int ranks, unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < bytes * ranks; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != pattern(i % bytes, (int)(i / bytes)))
			atomicAdd(wrong, 1u);
}

static void execute(struct rank *r, const struct method *method, size_t bytes)
{
	if (strcmp(method->impl, "oriel") == 0)
		ORIEL_CHECK(oriel_allgather_run_on_stream(r->gather, r->send, bytes, r->stream));
	else
		NCCL_CHECK(ncclAllGather(r->send, r->result, bytes, ncclInt8, r->nccl, r->stream));
}

static void verify(struct rank *r, const struct method *method, size_t bytes)
{
	unsigned wrong;

	CHECK(cudaMemsetAsync(r->result, 99, bytes * (size_t)r->ranks, r->stream));
	CHECK(cudaMemsetAsync(r->wrong, 0, sizeof(*r->wrong), r->stream));
	paint<<<264, 512, 0, r->stream>>>(r->send, bytes, r->rank);
	CHECK(cudaStreamSynchronize(r->stream));
	pthread_barrier_wait(&meeting);
	execute(r, method, bytes);
	check_bytes<<<264, 512, 0, r->stream>>>(r->result, bytes, r->ranks, r->wrong);
	wrong = count_wrong(r);
	if (wrong) {
		fprintf(stderr, "%s %s, %zu bytes: %u wrong on rank %d\n", method->impl,
			method->mode, bytes, wrong, r->rank);
		exit(1);
	}
}

static void run_size(struct rank *r, const struct method *method, size_t bytes)
{
	const struct row row = {
		"allgather", method->impl, method->mode, "mapped", (uint32_t)r->ranks, bytes, 0, 0};

	verify(r, method, bytes);
	/* Batches are not captured, so that row would equal the one without. */
	run_forms(r, method, &row, method->batch ? 1 : 2, (double)bytes * (r->ranks - 1));
}

/* Registers and arithmetic alone, on all SMs, in several waves of blocks. */
__global__ void __launch_bounds__(1024) compute(float *sink, unsigned turns)
{
	float a = threadIdx.x, b = 1.0001f, c = 0.5f, d = blockIdx.x;

	for (unsigned i = 0; i < turns; i++) {
		a = a * b + c;
		d = d * b + c;
	}
	if (a + d == 1)
		*sink = a;
}

#define BESIDE_BYTES (64ul << 20)
#define BESIDE_GATHERS 24u /* enough to last longer than the kernel */
#define BESIDE_WAVES 8
#define BESIDE_TURNS 40000u

static void post_compute(struct rank *r)
{
	int sms, gpu;

	CHECK(cudaGetDevice(&gpu));
	CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, gpu));
	compute<<<(unsigned)(sms * BESIDE_WAVES), 1024, 0, r->stream>>>((float *)r->wrong,
									BESIDE_TURNS);
}

/* The time of a kernel that uses all SMs, alone or beside gathers in another stream. */
static void run_beside(struct rank *r, const struct method *method)
{
	struct row row = {"compute",
			  method ? method->impl : "cuda",
			  method ? method->mode : "alone",
			  "mapped",
			  (uint32_t)r->ranks,
			  method ? BESIDE_BYTES : 0,
			  1024,
			  0};
	cudaStream_t mine = r->stream;
	cudaEvent_t begin, end;
	double us[PASSES];
	unsigned pass, i;
	float ms;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	for (pass = 0; pass <= PASSES; pass++) {
		CHECK(cudaDeviceSynchronize());
		pthread_barrier_wait(&meeting);
		r->stream = r->urgent;
		for (i = 0; method && i < BESIDE_GATHERS; i++)
			execute(r, method, BESIDE_BYTES);
		r->stream = mine;
		CHECK(cudaEventRecord(begin, mine));
		post_compute(r);
		CHECK(cudaEventRecord(end, mine));
		CHECK(cudaStreamSynchronize(mine));
		CHECK(cudaEventElapsedTime(&ms, begin, end));
		if (pass)
			us[pass - 1] = ms * 1e3;
		/* The gathers must last until the kernel ends. */
		if (method && cudaStreamQuery(r->urgent) == cudaSuccess && r->rank == 0)
			fprintf(stderr, "%s %s: gathers ended before the kernel\n", method->impl,
				method->mode);
		CHECK(cudaStreamSynchronize(r->urgent));
	}
	pthread_barrier_wait(&meeting);
	if (r->rank == 0)
		row_print(&row, us, PASSES, 0);
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
}

#define ENGINE_BYTES (1ul << 30)
#define ENGINE_ROUNDS 4u

static void put_some(struct rank *r, struct oriel_window *w, const char *from, size_t bytes,
		     unsigned rounds)
{
	while (rounds--)
		ORIEL_CHECK(oriel_window_put_on_stream(w, 1, 0, from, bytes, r->stream));
}

static void time_put(struct rank *r, struct oriel_window *w, const char *from, size_t bytes)
{
	struct row row = {"put_bw", "oriel", "copy engine", "mapped", 2, bytes, 0, 0};
	cudaEvent_t begin, end;
	double us[PASSES];
	unsigned pass;
	float ms;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	for (pass = 0; pass < PASSES; pass++) {
		put_some(r, w, from, bytes, 1);
		CHECK(cudaEventRecord(begin, r->stream));
		put_some(r, w, from, bytes, ENGINE_ROUNDS);
		CHECK(cudaEventRecord(end, r->stream));
		CHECK(cudaStreamSynchronize(r->stream));
		CHECK(cudaEventElapsedTime(&ms, begin, end));
		us[pass] = ms * 1e3 / ENGINE_ROUNDS;
	}
	row_print(&row, us, PASSES, (double)bytes);
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
}

/* Puts of rank 0 to rank 1 by a copy engine, one behind the other. */
static void run_engine(struct rank *r)
{
	struct oriel_window_attr attr = {};
	struct oriel_window *window;
	unsigned wrong;
	void *mine;
	char *from;
	size_t bytes;

	attr.size = sizeof(attr);
	attr.length = ENGINE_BYTES;
	attr.flags = ORIEL_WINDOW_DEVICE;
	CHECK(cudaMalloc((void **)&from, ENGINE_BYTES));
	ORIEL_CHECK(oriel_window_create(r->oriel, &attr, &window));
	ORIEL_CHECK(oriel_window_buffer(window, 0, &mine, NULL));
	paint<<<264, 512, 0, r->stream>>>(from, ENGINE_BYTES, r->rank);
	CHECK(cudaMemsetAsync(r->wrong, 0, sizeof(*r->wrong), r->stream));
	CHECK(cudaStreamSynchronize(r->stream));
	for (bytes = 64ul << 20; bytes <= ENGINE_BYTES && r->rank == 0; bytes *= 4)
		time_put(r, window, from, bytes);
	pthread_barrier_wait(&meeting);
	if (r->rank == 1)
		check_bytes<<<264, 512, 0, r->stream>>>((const char *)mine, ENGINE_BYTES, 1,
							r->wrong);
	wrong = count_wrong(r);
	if (wrong) {
		fprintf(stderr, "a put of %lu bytes: %u wrong\n", ENGINE_BYTES, wrong);
		exit(1);
	}
	oriel_window_destroy(window);
	CHECK(cudaFree(from));
}

/* The ranks share one environment, which is read when a window is created. */
static void set_batch(const struct rank *r, const char *batch)
{
	pthread_barrier_wait(&meeting);
	if (r->rank == 0 && batch)
		setenv("ORIEL_CE_BATCH", batch, 1);
	else if (r->rank == 0)
		unsetenv("ORIEL_CE_BATCH");
	pthread_barrier_wait(&meeting);
}

static void oriel_create(struct rank *r, const struct method *method)
{
	struct oriel_coll_attr attr = {};
	struct oriel_view view = {};

	attr.size = sizeof(attr);
	attr.algorithm = method->algorithm;
	view.size = sizeof(view);
	view.length = BYTES_MAX * (size_t)r->ranks;
	view.buffer = r->result;
	view.kind = ORIEL_VIEW_BUFFER;
	view.flags = ORIEL_VIEW_GPU;
	if (method->batch)
		set_batch(r, method->batch);
	ORIEL_CHECK(oriel_allgather_create(r->oriel, &view, &attr, &r->gather));
	if (method->batch)
		set_batch(r, NULL);
}

static bool method_supports(const struct method *method, size_t bytes)
{
	if (method->algorithm == ORIEL_ALGORITHM_LL)
		return bytes <= 1u << 20;
	if (method->batch)
		return bytes >= 65536 && bytes <= 64u << 20;
	if (method->algorithm == ORIEL_ALGORITHM_CE)
		return bytes >= 65536;
	return true;
}

static void run_oriel(struct rank *r)
{
	static const struct method methods[] = {{"oriel", "auto", ORIEL_ALGORITHM_DEFAULT, 0,
						 false},
						{"oriel", "ll", ORIEL_ALGORITHM_LL, 0, false},
						{"oriel", "store", ORIEL_ALGORITHM_STORE, 0, false},
						{"oriel", "ce", ORIEL_ALGORITHM_CE, 0, false},
						{"oriel", "ce batch", ORIEL_ALGORITHM_CE, 0, false,
						 "67108864"}};
	size_t i, k;
	void *memory;

	ORIEL_CHECK(oriel_memory_alloc(BYTES_MAX * (size_t)r->ranks, ORIEL_MEMORY_DEVICE, &memory));
	r->result = (char *)memory;
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		oriel_create(r, &methods[i]);
		for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
			if (method_supports(&methods[i], sizes[k]))
				run_size(r, &methods[i], sizes[k]);
		if ((methods[i].algorithm == ORIEL_ALGORITHM_CE && !methods[i].batch) ||
		    methods[i].algorithm == ORIEL_ALGORITHM_STORE)
			run_beside(r, &methods[i]);
		oriel_allgather_destroy(r->gather);
	}
	oriel_memory_free(memory);
}

static void run_nccl(struct rank *r, const struct method *method)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct nccl_buffers buffers;
	size_t k;

	if (method->cta_policy)
		config.CTAPolicy = method->cta_policy;
	buffers = nccl_open(r, &config, BYTES_MAX, BYTES_MAX * (size_t)r->ranks,
			    method->is_symmetric);
	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
		run_size(r, method, sizes[k]);
	run_beside(r, method);
	nccl_close(r, &buffers);
}

static void rank_run(struct rank *r)
{
	static const struct method methods[] = {
		{"nccl", "default", 0, 0, false},
		{"nccl", "symmetric", 0, 0, true},
		{"nccl", "zero cta", 0, NCCL_CTA_POLICY_ZERO, true},
	};
	size_t i;

	CHECK(cudaMalloc((void **)&r->send, BYTES_MAX));
	CHECK(cudaStreamCreateWithPriority(&r->urgent, cudaStreamNonBlocking, -5));
	run_beside(r, NULL);
	run_oriel(r);
	if (r->ranks == 2)
		run_engine(r);
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		run_nccl(r, &methods[i]);
}

int main(int argc, char **argv)
{
	return run_ranks(argc, argv);
}
