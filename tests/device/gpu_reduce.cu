/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of GPU memory, by the library and in a kernel, have the bits of those of host memory:
 * gpu_reduce RANKS [NODES] (threads), or oriel run -n N [--nodes M] gpu_reduce (processes). Rank r
 * uses GPU r modulo the number of GPUs. Over virtual nodes the software HCA joins them, and a
 * kernel of the program does not reduce. Prints a line for each claim; exit status 1: a claim does
 * not hold. tests/fakecuda builds it for the CPU.
 */
#include <cuda_runtime.h>

#include <string.h>

#include <oriel/dev.h>

#include "ranks.h"

/* Smaller where a CPU executes the kernels. */
#ifdef FAKECUDA_RUNTIME
#define MOST (1u << 20)
#define CHUNK 4096u
#define REDUCE_REPLAYS 30u
#else
#define MOST (32u << 20)
#define CHUNK 65536u /* over nodes the longest reductions by owners take several rounds then */
#define REDUCE_REPLAYS 500u
#endif
#define BLOCKS 4u
#define LONG_NS 20000000000ull

struct rank {
	unsigned rank, size, nodes, failures;
	struct oriel_comm *comm;
	struct oriel_window *window; /* its buffer is the view */
	struct oriel_dev_window dev;
	cudaStream_t stream;
	char *view, *send;            /* MOST bytes; @send has those for each rank, and 64 */
	char *input, *expected, *got; /* host memory */
	unsigned *round, *wrong;      /* GPU memory */
	unsigned *seen;               /* pinned host memory */
	unsigned seed;
};

/* A type and an operation. */
struct what {
	enum oriel_type type;
	enum oriel_op op;
	unsigned block;
};

static void verdict(struct rank *r, const char *claim, const char *detail, size_t count,
		    bool is_true)
{
	r->failures += !is_true;
	if (!is_true || r->rank == 0)
		printf("%s rank %u of %u: %s, %s, %zu elements\n", is_true ? "PASS" : "FAIL",
		       r->rank, r->size, claim, detail, count);
	fflush(stdout);
}

/* It has the accumulation type of @type. */
static const void *factor_of(enum oriel_type type, unsigned rank)
{
	static const float floats[] = {1.3f, -0.7f, 3, 0.01f};
	static const double doubles[] = {1.3, -0.7, 3, 0.01};
	static const uint64_t integers[] = {7, 0xfedcba9876543211ull, 0x0101010101010103ull, 250};

	if (type == ORIEL_TYPE_FP64)
		return &doubles[rank % 4];
	return type < ORIEL_TYPE_FP16 ? (const void *)&integers[rank % 4] : &floats[rank % 4];
}

static struct oriel_reduction reduction_of(struct what what, unsigned rank)
{
	struct oriel_reduction reduction = {};

	reduction.size = sizeof(reduction);
	reduction.type = what.type;
	reduction.op = what.op;
	reduction.block = what.block;
	reduction.factor = what.op == ORIEL_OP_PREMUL_SUM ? factor_of(what.type, rank) : NULL;
	return reduction;
}

static struct oriel_view view_of(const struct rank *r)
{
	struct oriel_view view = {};

	view.size = sizeof(view);
	view.kind = ORIEL_VIEW_WINDOW;
	view.flags = ORIEL_VIEW_GPU;
	view.length = MOST;
	view.window = r->window;
	return view;
}

/* An element of which sums have other bits in another order. */
__host__ __device__ float pattern(unsigned round, unsigned rank, size_t i)
{
	uint32_t x = (uint32_t)i * 2654435761u + rank * 0x9e3779b9u + round * 0x85ebca6bu;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	x ^= x >> 12;
	return (float)(int32_t)x * (float)(1u << (x >> 7) % 16);
}

__host__ __device__ float sum_of(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fadd_rn(a, b);
#else
	volatile float sum = a;

	sum = sum + b;
	return sum;
#endif
}

/* The definition, one element at a time. */
__host__ __device__ float pattern_sum(unsigned round, unsigned ranks, unsigned block, size_t i)
{
	float total = 0, part = 0, value;
	unsigned rank;

	for (rank = 0; rank < ranks; rank++) {
		value = pattern(round, rank, i);
		part = rank % block ? sum_of(part, value) : value;
		if ((rank + 1) % block && rank + 1 < ranks)
			continue;
		total = rank < block ? part : sum_of(total, part);
	}
	return total;
}

__global__ void paint(float *at, size_t count, unsigned rank, const unsigned *round)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < count; i += (size_t)gridDim.x * blockDim.x)
		at[i] = pattern(*round + 1, rank, i);
}

__global__ void check_sums(const float *at, size_t begin, size_t count, unsigned ranks,
			   unsigned block, const unsigned *round, unsigned *wrong)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	for (; i < count; i += (size_t)gridDim.x * blockDim.x)
		if (at[i] != pattern_sum(*round + 1, ranks, block, begin + i))
			atomicAdd(wrong, 1u);
}

__global__ void next_round(unsigned *round)
{
	++*round;
}

/* Elements of all kinds: finite floats of similar size, or any bits. */
static void fill(struct rank *r, struct what what, char *at, size_t count)
{
	size_t size = oriel_type_size(what.type), i;
	uint64_t x;

	for (i = 0; i < count; i++) {
		x = (i + 1) * 0x9e3779b97f4a7c15ull + r->rank * 0xbf58476d1ce4e5b9ull + r->seed;
		x ^= x >> 29;
		x *= 0x94d049bb133111ebull;
		x ^= x >> 32;
		memcpy(at + i * size, &x, size);
	}
}

static void to_gpu(struct rank *r, char *to, const char *from, size_t length)
{
	CUDA(cudaMemcpyAsync(to, from, length, cudaMemcpyDefault, r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
}

/* Runs @all or @scatter once, and once in host memory. Are the bits equal? */
static bool is_same(struct rank *r, struct what what, struct oriel_allreduce *all,
		    struct oriel_reduce_scatter *scatter, size_t count)
{
	const struct oriel_reduction reduction = reduction_of(what, r->rank);
	size_t bytes = count * oriel_type_size(what.type);
	size_t sent = all ? bytes : bytes * r->size;
	/* In place on some ranks: the whole message, which has room for all parts then. */
	bool in_place = sent <= MOST && (r->seed + r->rank) % 3 == 0;
	char *send = in_place ? r->view : r->send + r->seed % 3 * 5;

	r->seed++;
	fill(r, what, r->input, all ? count : count * r->size);
	if (all)
		MUST(oriel_allreduce_once(r->comm, r->input, r->expected, count, &reduction));
	else
		MUST(oriel_reduce_scatter_once(r->comm, r->input, r->expected, count, &reduction));
	memset(r->got, 0x5a, bytes + 64);
	to_gpu(r, r->view, r->got, bytes + 64 < MOST ? bytes + 64 : bytes);
	to_gpu(r, send, r->input, sent);
	/* A peer that is ahead writes to the view. */
	MUST(oriel_comm_barrier(r->comm));
	if (all)
		MUST(oriel_allreduce_run_on_stream(all, send, count, r->stream));
	else
		MUST(oriel_reduce_scatter_run_on_stream(scatter, send, count, r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
	to_gpu(r, r->got, r->view, bytes);
	return memcmp(r->got, r->expected, bytes) == 0;
}

/* The same of a reduction to @root. The views of the other ranks do not change. */
static bool is_same_at_root(struct rank *r, struct what what, struct oriel_reduce *reduce,
			    unsigned root, size_t count)
{
	const struct oriel_reduction reduction = reduction_of(what, r->rank);
	size_t bytes = count * oriel_type_size(what.type);
	char *send = root == r->rank && r->seed % 2 ? r->view : r->send + r->seed % 3 * 5;

	r->seed++;
	fill(r, what, r->input, count);
	memset(r->expected, 0x5a, bytes);
	MUST(oriel_reduce_once(r->comm, root, r->input, r->expected, count, &reduction));
	memset(r->got, 0x5a, bytes);
	to_gpu(r, r->view, r->got, bytes);
	to_gpu(r, send, r->input, bytes);
	MUST(oriel_reduce_run_on_stream(reduce, root, send, count, r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
	to_gpu(r, r->got, r->view, bytes);
	return memcmp(r->got, r->expected, bytes) == 0;
}

static struct oriel_coll_attr attr_of(unsigned algorithm)
{
	struct oriel_coll_attr attr = {};

	attr.size = sizeof(attr);
	attr.algorithm = algorithm;
	if (algorithm == ORIEL_ALGORITHM_OWNER || algorithm == ORIEL_ALGORITHM_HIERARCHICAL)
		attr.chunk = CHUNK;
	return attr;
}

/* Is there @algorithm for @what? Over nodes it depends on the block and on the type of the sums. */
static bool has(struct rank *r, struct what what, unsigned algorithm)
{
	const struct oriel_reduction reduction = reduction_of(what, r->rank);
	const struct oriel_view view = view_of(r);
	struct oriel_allreduce *all = NULL;
	struct oriel_coll_info info = {};

	if (algorithm == ORIEL_ALGORITHM_DEFAULT || r->nodes == 1)
		return algorithm != ORIEL_ALGORITHM_HIERARCHICAL;
	info.size = sizeof(info);
	MUST(oriel_allreduce_create(r->comm, &view, &reduction, NULL, &all));
	MUST(oriel_allreduce_query(all, 1, &info));
	MUST(oriel_allreduce_destroy(all));
	return info.supported >> algorithm & 1;
}

static void test_what(struct rank *r, struct what what, unsigned algorithm)
{
	static const size_t sizes[] = {1,    3,     16,    255,    1024,    1025,   8191,
				       9000, 32768, 70001, 131072, 262144u, 2000003};
	const struct oriel_reduction reduction = reduction_of(what, r->rank);
	struct oriel_coll_attr attr = attr_of(algorithm);
	const struct oriel_view view = view_of(r);
	struct oriel_reduce_scatter *scatter = NULL;
	struct oriel_allreduce *all = NULL;
	struct oriel_reduce *reduce = NULL;
	size_t size = oriel_type_size(what.type), i;
	char text[80];
	bool is_right = true;

	if (!has(r, what, algorithm))
		return;
	MUST(oriel_allreduce_create(r->comm, &view, &reduction, &attr, &all));
	if (algorithm == ORIEL_ALGORITHM_ONE_SHOT)
		attr.algorithm = ORIEL_ALGORITHM_DEFAULT;
	MUST(oriel_reduce_scatter_create(r->comm, &view, &reduction, &attr, &scatter));
	if (attr.algorithm != ORIEL_ALGORITHM_LL)
		MUST(oriel_reduce_create(r->comm, &view, &reduction, &attr, &reduce));
	snprintf(text, sizeof(text), "%s %s %s, blocks of %u", oriel_type_name(what.type),
		 oriel_op_name(what.op), oriel_algorithm_name((enum oriel_algorithm)algorithm),
		 what.block);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] * size <= MOST; i++) {
		is_right &= is_same(r, what, all, NULL, sizes[i]);
		is_right &= is_same(r, what, NULL, scatter, sizes[i]);
		if (reduce)
			is_right &=
				is_same_at_root(r, what, reduce, (unsigned)i % r->size, sizes[i]);
	}
	verdict(r, "the bits of the host", text, sizes[i - 1], is_right);
	MUST(oriel_allreduce_destroy(all));
	MUST(oriel_reduce_destroy(reduce));
	MUST(oriel_reduce_scatter_destroy(scatter));
}

static void test_types(struct rank *r)
{
	static const unsigned algorithms[] = {ORIEL_ALGORITHM_DEFAULT, ORIEL_ALGORITHM_LL,
					      ORIEL_ALGORITHM_ONE_SHOT, ORIEL_ALGORITHM_OWNER};
	static const struct what whats[] = {{ORIEL_TYPE_FP32, ORIEL_OP_SUM, 0},
					    {ORIEL_TYPE_BF16, ORIEL_OP_SUM, 0},
					    {ORIEL_TYPE_FP16, ORIEL_OP_AVG, 2},
					    {ORIEL_TYPE_BF16, ORIEL_OP_PREMUL_SUM, 2},
					    {ORIEL_TYPE_FP64, ORIEL_OP_PROD, 1},
					    {ORIEL_TYPE_FP64, ORIEL_OP_PREMUL_SUM, 0},
					    {ORIEL_TYPE_FP8_E4M3, ORIEL_OP_PREMUL_SUM, 2},
					    {ORIEL_TYPE_INT8, ORIEL_OP_PREMUL_SUM, 0},
					    {ORIEL_TYPE_UINT16, ORIEL_OP_PREMUL_SUM, 0},
					    {ORIEL_TYPE_INT64, ORIEL_OP_PREMUL_SUM, 0},
					    {ORIEL_TYPE_FP8_E4M3, ORIEL_OP_SUM, 0},
					    {ORIEL_TYPE_FP8_E5M2, ORIEL_OP_AVG, 2},
					    {ORIEL_TYPE_FP32, ORIEL_OP_MIN, 0},
					    {ORIEL_TYPE_BF16, ORIEL_OP_MAX, 0},
					    {ORIEL_TYPE_FP64, ORIEL_OP_MAX, 0},
					    {ORIEL_TYPE_FP32, ORIEL_OP_AVG, 3},
					    {ORIEL_TYPE_INT8, ORIEL_OP_MIN, 0},
					    {ORIEL_TYPE_UINT16, ORIEL_OP_AVG, 0},
					    {ORIEL_TYPE_INT32, ORIEL_OP_AVG, 0},
					    {ORIEL_TYPE_INT64, ORIEL_OP_PROD, 0},
					    {ORIEL_TYPE_UINT64, ORIEL_OP_MAX, 0},
					    {ORIEL_TYPE_UINT8, ORIEL_OP_BXOR, 0},
					    {ORIEL_TYPE_INT16, ORIEL_OP_BAND, 0},
					    {ORIEL_TYPE_UINT32, ORIEL_OP_BOR, 0}};
	size_t i, k;

	for (i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
		for (k = 0; k < (i < 4 ? 4 : 1); k++)
			test_what(r, whats[i], algorithms[k]);
		test_what(r, whats[i], ORIEL_ALGORITHM_HIERARCHICAL);
	}
	/* And the longest of the others. */
	test_what(r, {ORIEL_TYPE_FP8_E4M3, ORIEL_OP_SUM, 0}, ORIEL_ALGORITHM_OWNER);
	test_what(r, {ORIEL_TYPE_FP64, ORIEL_OP_PROD, 1}, ORIEL_ALGORITHM_LL);
}

/* The elements have another value in each round, also where a graph is replayed. */
static void post_all(struct rank *r, struct oriel_allreduce *all, size_t count, unsigned block,
		     bool in_place)
{
	float *send = (float *)(in_place ? r->view : r->send) + (in_place ? 0 : count % 3);

	paint<<<64, 256, 0, r->stream>>>(send, count, r->rank, r->round);
	MUST(oriel_allreduce_run_on_stream(all, send, count, r->stream));
	check_sums<<<64, 256, 0, r->stream>>>((const float *)r->view, 0, count, r->size, block,
					      r->round, r->wrong);
	next_round<<<1, 1, 0, r->stream>>>(r->round);
}

/* @way 1: in place, the whole message; 2: this rank's part of it. The view has room for all. */
static void post_scatter(struct rank *r, struct oriel_reduce_scatter *scatter, size_t count,
			 unsigned block, unsigned way)
{
	float *send = (float *)(way == 1 ? r->view : r->send);
	size_t begin = r->rank * count;

	paint<<<64, 256, 0, r->stream>>>(send, count * r->size, r->rank, r->round);
	MUST(oriel_reduce_scatter_run_on_stream(scatter, send, count, r->stream));
	check_sums<<<64, 256, 0, r->stream>>>((const float *)r->view, begin, count, r->size, block,
					      r->round, r->wrong);
	next_round<<<1, 1, 0, r->stream>>>(r->round);
}

static bool all_is_right(struct rank *r)
{
	unsigned wrong;

	CUDA(cudaStreamSynchronize(r->stream));
	CUDA(cudaMemcpyAsync(r->seen, r->wrong, sizeof(wrong), cudaMemcpyDefault, r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
	wrong = *r->seen;
	CUDA(cudaMemsetAsync(r->wrong, 0, sizeof(wrong), r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
	return !wrong;
}

/* Executions of all sizes and kinds, one behind the other, and replays among them. */
static void test_streams(struct rank *r, unsigned algorithm, unsigned block)
{
	static const size_t counts[] = {1, 2000, 33, 70000, 512, 100003, 4096, 17};
	const struct oriel_reduction reduction =
		reduction_of({ORIEL_TYPE_FP32, ORIEL_OP_SUM, block}, r->rank);
	const char *name = oriel_algorithm_name((enum oriel_algorithm)algorithm);
	struct oriel_coll_attr attr = attr_of(algorithm);
	const struct oriel_view view = view_of(r);
	struct oriel_reduce_scatter *scatter = NULL;
	struct oriel_coll_info info = {};
	struct oriel_allreduce *all = NULL;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	unsigned i;

	MUST(oriel_allreduce_create(r->comm, &view, &reduction, &attr, &all));
	if (algorithm == ORIEL_ALGORITHM_ONE_SHOT)
		attr.algorithm = ORIEL_ALGORITHM_DEFAULT;
	MUST(oriel_reduce_scatter_create(r->comm, &view, &reduction, &attr, &scatter));
	info.size = sizeof(info);
	MUST(oriel_allreduce_query(all, 1, &info));
	for (i = 0; i < 48; i++) {
		post_all(r, all, counts[i % 8] + i, info.block, i % 3 == 0);
		post_scatter(r, scatter, counts[i % 7] / 4 + i, info.block, i % 2);
	}
	verdict(r, "many in a stream", name, counts[5], all_is_right(r));
	CUDA(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal));
	post_all(r, all, 1000, info.block, false);
	post_scatter(r, scatter, 700, info.block, 1);
	post_all(r, all, 50000, info.block, true);
	CUDA(cudaStreamEndCapture(r->stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphUpload(exec, r->stream));
	CUDA(cudaGraphDestroy(graph));
	CUDA(cudaStreamSynchronize(r->stream));
	MUST(oriel_comm_barrier(r->comm));
	for (i = 0; i < REDUCE_REPLAYS; i++) {
		CUDA(cudaGraphLaunch(exec, r->stream));
		if (i % 10 == 5)
			post_all(r, all, 3000 + i, info.block, false);
	}
	verdict(r, "replays", name, 50000, all_is_right(r));
	MUST(oriel_comm_barrier(r->comm));
	CUDA(cudaGraphExecDestroy(exec));
	MUST(oriel_comm_barrier(r->comm));
	MUST(oriel_allreduce_destroy(all));
	MUST(oriel_reduce_scatter_destroy(scatter));
}

/*
 * An all-reduce in a kernel of the user: each block reduces a range of the windows to @to, or this
 * rank's share of that to the second half of the windows of all ranks.
 */
__global__ void __launch_bounds__(256)
	fused(struct oriel_dev_window w, struct oriel_dev_reduction reduction, uint64_t count,
	      float *to, bool is_to_all, int *failed)
{
	struct oriel_dev_group g = oriel_dev_block();
	uint64_t range = (count + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * range, share;
	enum oriel_status status;

	range = begin >= count ? 0 : count - begin < range ? count - begin : range;
	status = oriel_dev_barrier(&w, g, blockIdx.x, 0);
	if (is_to_all) {
		share = (range + w.ranks - 1) / w.ranks;
		begin += w.rank * share;
		share = w.rank * share >= range          ? 0
			: range - w.rank * share < share ? range - w.rank * share
							 : share;
		if (status == ORIEL_OK)
			status = oriel_dev_reduce_all(&w, g, &reduction, begin * sizeof(float),
						      share, MOST / 2 + begin * sizeof(float));
	} else if (status == ORIEL_OK) {
		status = oriel_dev_reduce(&w, g, &reduction, begin * sizeof(float), range,
					  to + begin);
	}
	if (status == ORIEL_OK)
		status = oriel_dev_barrier(&w, g, blockIdx.x, 0);
	if (status != ORIEL_OK && oriel_dev_is_leader(g))
		*failed = status;
}

static void test_fused(struct rank *r)
{
	static const size_t counts[] = {1, 5, 64, 1001, 4096, 50003};
	struct oriel_dev_reduction reduction = {ORIEL_TYPE_FP32, ORIEL_OP_SUM, 2};
	const float *result;
	unsigned i;

	for (i = 0; i < 4 * sizeof(counts) / sizeof(counts[0]); i++) {
		size_t count = counts[i / 4];
		bool is_to_all = i % 2;

		reduction.block = i % 4 < 2 ? 2 : 0;
		result = (const float *)(is_to_all ? r->view + MOST / 2 : r->send + 4 * (i % 3));
		paint<<<64, 256, 0, r->stream>>>((float *)r->view, count, r->rank, r->round);
		fused<<<BLOCKS, 256, 0, r->stream>>>(r->dev, reduction, count, (float *)result,
						     is_to_all, (int *)r->wrong);
		check_sums<<<64, 256, 0, r->stream>>>(result, 0, count, r->size,
						      reduction.block ? reduction.block : r->size,
						      r->round, r->wrong);
		next_round<<<1, 1, 0, r->stream>>>(r->round);
	}
	verdict(r, "in a kernel", "to the rank and to all", 50003, all_is_right(r));
	reduction.op = ORIEL_OP_PREMUL_SUM;
	fused<<<1, 256, 0, r->stream>>>(r->dev, reduction, 1, (float *)r->send, false,
					(int *)r->wrong);
	verdict(r, "in a kernel, no factors are rejected", "premul_sum", 1, !all_is_right(r));
}

static bool fails(enum oriel_status got, enum oriel_status expected, const char *text)
{
	if (got == expected && strstr(oriel_last_error(), text))
		return true;
	printf("%s: %s\n", oriel_status_name(got), oriel_last_error());
	return false;
}

static void user(void *context, void *left, const void *right, size_t count)
{
	(void)context;
	memmove(left, right, count * sizeof(float));
}

static void test_rejected(struct rank *r)
{
	struct oriel_reduction reduction =
		reduction_of({ORIEL_TYPE_FP32, ORIEL_OP_SUM, 0}, r->rank);
	const struct oriel_view view = view_of(r);
	struct oriel_allreduce *all = NULL;
	struct oriel_coll_attr attr = attr_of(ORIEL_ALGORITHM_LL);
	struct oriel_coll_info info = {};
	bool is_right = true;

	info.size = sizeof(info);
	MUST(oriel_allreduce_create(r->comm, &view, &reduction, NULL, &all));
	MUST(oriel_allreduce_query(all, 1, &info));
	r->nodes = info.nodes;
	is_right &= fails(oriel_allreduce_run(all, r->send, 1), ORIEL_ERR_INVALID,
			  "call oriel_allreduce_run_on_stream()");
	is_right &= fails(oriel_allreduce_run_on_stream(all, r->send, MOST, r->stream),
			  ORIEL_ERR_RANGE, "but the shortest view has");
	is_right &= fails(oriel_allreduce_run_on_stream(all, NULL, 1, r->stream), ORIEL_ERR_INVALID,
			  "send is NULL");
	is_right &= fails(oriel_allreduce_run_on_stream(all, r->view + 4, 2, r->stream),
			  ORIEL_ERR_INVALID, "overlaps the result");
	MUST(oriel_allreduce_run_on_stream(all, NULL, 0, r->stream));
	MUST(oriel_allreduce_destroy(all));
	if (r->nodes > 1)
		is_right &= fails(oriel_allreduce_create(r->comm, &view, &reduction, &attr, &all),
				  ORIEL_ERR_UNSUPPORTED, "algorithm ll does not support GPU");
	reduction.op = ORIEL_OP_USER;
	reduction.function = user;
	is_right &= fails(oriel_allreduce_create(r->comm, &view, &reduction, NULL, &all),
			  ORIEL_ERR_UNSUPPORTED, "op user is for host memory");
	verdict(r, "wrong calls are rejected", "all-reduce", 1, is_right);
}

/* Calls without an object. */
static void test_once(struct rank *r)
{
	const struct what what = {ORIEL_TYPE_BF16, ORIEL_OP_SUM, 0};
	const struct oriel_reduction reduction = reduction_of(what, r->rank);
	bool is_right = true;
	size_t count = 5001;
	unsigned i;

	for (i = 0; i < 4; i++) {
		r->seed++;
		fill(r, what, r->input, count * r->size);
		to_gpu(r, r->send, r->input, count * r->size * 2);
		MUST(oriel_allreduce_once(r->comm, r->input, r->expected, count, &reduction));
		MUST(oriel_allreduce_once_on_stream(r->comm, r->send, r->view, count, &reduction,
						    r->stream));
		CUDA(cudaStreamSynchronize(r->stream));
		to_gpu(r, r->got, r->view, count * 2);
		is_right &= !memcmp(r->got, r->expected, count * 2);
		MUST(oriel_reduce_scatter_once(r->comm, r->input, r->expected, count, &reduction));
		MUST(oriel_reduce_scatter_once_on_stream(r->comm, r->send, r->view, count,
							 &reduction, r->stream));
		CUDA(cudaStreamSynchronize(r->stream));
		to_gpu(r, r->got, r->view, count * 2);
		is_right &= !memcmp(r->got, r->expected, count * 2);
	}
	MUST(oriel_object_cache_release(r->comm, NULL, 0));
	verdict(r, "without an object", "bf16 sum", count, is_right);
}

static void join(struct rank *r, const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct oriel_comm_attr comm = {};

	comm.size = sizeof(comm);
	comm.timeout_ns = LONG_NS;
	comm.flags = ORIEL_COMM_GPU;
	comm.node = node;
	MUST(oriel_comm_create(bootstrap, &comm, &r->comm));
}

/* Rank 0 aborts while its peers wait for it in their streams. @r is a copy. */
static void test_broken(struct rank r_copy, const struct oriel_bootstrap *bootstrap,
			const char *node, unsigned algorithm, struct rank *out)
{
	const struct oriel_reduction reduction =
		reduction_of({ORIEL_TYPE_FP32, ORIEL_OP_SUM, 0}, r_copy.rank);
	struct oriel_coll_attr attr = attr_of(algorithm);
	struct oriel_health health = {};
	struct oriel_view view = {};
	struct oriel_allreduce *all = NULL;
	struct rank *r = &r_copy;
	enum oriel_status status;
	size_t count = algorithm == ORIEL_ALGORITHM_LL ? 5000 : 200000;

	health.size = sizeof(health);
	view.size = sizeof(view);
	view.kind = ORIEL_VIEW_BUFFER;
	view.flags = ORIEL_VIEW_GPU;
	view.length = MOST;
	CUDA(cudaMalloc((void **)&view.buffer, MOST));
	join(r, bootstrap, node);
	MUST(oriel_allreduce_create(r->comm, &view, &reduction, &attr, &all));
	MUST(oriel_allreduce_run_on_stream(all, r->send, count, r->stream));
	CUDA(cudaStreamSynchronize(r->stream));
	if (r->rank)
		MUST(oriel_allreduce_run_on_stream(all, r->send, count, r->stream));
	MUST(oriel_comm_barrier(r->comm));
	if (r->rank == 0)
		oriel_comm_abort(r->comm, "a test");
	/* The kernel ends. */
	CUDA(cudaStreamSynchronize(r->stream));
	while (oriel_comm_health(r->comm, &health) == ORIEL_OK && health.status == ORIEL_OK)
		ori_dev_back_off(10000000);
	status = oriel_allreduce_run_on_stream(all, r->send, count, r->stream);
	verdict(r, "an abort ends the kernel and later calls",
		oriel_algorithm_name((enum oriel_algorithm)algorithm), count,
		health.status == ORIEL_ERR_ABORTED &&
			fails(status, ORIEL_ERR_ABORTED, "all-reduce: "));
	oriel_allreduce_destroy(all);
	oriel_comm_destroy(r->comm);
	MUST(oriel_comm_barrier(out->comm));
	CUDA(cudaFree(view.buffer));
	out->failures = r->failures;
}

static void rank_open(struct rank *r, const struct oriel_bootstrap *bootstrap, const char *node)
{
	struct oriel_window_attr attr = {};
	int gpus = 0;
	void *at;

	attr.size = sizeof(attr);
	attr.length = MOST;
	attr.flags = ORIEL_WINDOW_DEVICE;
	attr.barriers = BLOCKS;
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice((int)r->rank % gpus));
	CUDA(cudaFree(NULL));
	join(r, bootstrap, node);
	MUST(oriel_window_create(r->comm, &attr, &r->window));
	MUST(oriel_window_device(r->window, &r->dev));
	MUST(oriel_window_buffer(r->window, 0, &at, NULL));
	r->view = (char *)at;
	r->input = (char *)malloc((size_t)MOST * r->size);
	r->expected = (char *)malloc(MOST + 64);
	r->got = (char *)malloc(MOST + 64);
	CUDA(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
	CUDA(cudaMalloc((void **)&r->send, (size_t)MOST * r->size + 64));
	CUDA(cudaMalloc((void **)&r->round, 2 * sizeof(*r->round)));
	CUDA(cudaMemset(r->round, 0, 2 * sizeof(*r->round)));
	CUDA(cudaMallocHost((void **)&r->seen, sizeof(*r->seen)));
	r->wrong = r->round + 1;
	/* A first launch may wait for all work of the GPU, of other ranks too. */
	paint<<<64, 256, 0, r->stream>>>((float *)r->send, 0, 0, r->round);
	check_sums<<<64, 256, 0, r->stream>>>((float *)r->send, 0, 0, 1, 1, r->round, r->wrong);
	CUDA(cudaDeviceSynchronize());
	CUDA(cudaStreamSynchronize(r->stream));
	MUST(oriel_comm_barrier(r->comm));
}

static unsigned rank_main(const struct oriel_bootstrap *bootstrap, const char *node)
{
	static const unsigned algorithms[] = {ORIEL_ALGORITHM_DEFAULT, ORIEL_ALGORITHM_LL,
					      ORIEL_ALGORITHM_ONE_SHOT, ORIEL_ALGORITHM_OWNER,
					      ORIEL_ALGORITHM_HIERARCHICAL};
	struct what what = {ORIEL_TYPE_FP32, ORIEL_OP_SUM, 0};
	struct rank r = {};
	unsigned i;

	r.rank = bootstrap->rank;
	r.size = bootstrap->size;
	rank_open(&r, bootstrap, node);
	test_rejected(&r);
	test_types(&r);
	for (i = 0; i < 5; i++) {
		what.block = i % 2 ? 2 : 0;
		if (has(&r, what, algorithms[i]))
			test_streams(&r, algorithms[i], what.block);
	}
	what.block = 0;
	if (r.nodes == 1)
		test_fused(&r);
	test_once(&r);
	for (i = 1; i < 5 && r.size > 1; i++)
		if (has(&r, what, algorithms[i]))
			test_broken(r, bootstrap, node, algorithms[i], &r);
	/* Freeing memory waits for GPUs, so all peers have to end first. */
	oriel_comm_barrier(r.comm);
	oriel_window_destroy(r.window);
	oriel_comm_destroy(r.comm);
	return r.failures;
}

int main(int argc, char **argv)
{
	return run_ranks(rank_main, argc, argv);
}
