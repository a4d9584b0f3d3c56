/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the assumption of LL128 (oriel/dev/ll128.h): 64 bytes that four threads write to the
 * memory of another GPU in one instruction are never seen in parts. Each GPU writes lines of
 * 128 bytes to the next one, whose kernel polls them as they arrive. Fails if half a line was
 * seen in parts; prints how many lines were seen in halves.
 *
 * usage: gpu_lines [--passes N]
 */
#include <bare.h>

#define BLOCKS 32u
#define THREADS 256u
#define WARPS (BLOCKS * THREADS / 32)
#define TURN (WARPS * 4 * 128ul) /* bytes of the lines that all warps write at once */
#define LIMIT_NS 20000000000ul
#define SPREAD 3000u /* cycles; a line takes as long from the request to its arrival */

/* How lines are written and where they lie. */
struct method {
	const char *name;
	uint64_t bytes; /* of lines, each used once in a pass; few stay in the cache */
	unsigned passes;
	bool is_torn; /* by two instructions: shows how torn lines look */
};

struct seen {
	unsigned long long lines;
	unsigned long long at_once; /* by the first poll */
	unsigned long long in_halves;
	unsigned long long in_parts; /* halves */
	unsigned long long missing;
};

struct job {
	char *lines;    /* at the reader */
	uint64_t *turn; /* at the writer; of each warp, 128 bytes apart */
	struct seen *seen;
	uint64_t bytes;
	uint64_t epoch;
	uint32_t is_torn;
};

static __device__ uint64_t *line_of(const struct job *j, uint64_t turn, uint32_t warp)
{
	uint64_t at = turn * TURN + warp * 512ul + threadIdx.x % 32 * 16;

	return (uint64_t *)(void *)(j->lines + at);
}

static __device__ uint32_t warp_of(void)
{
	return (blockIdx.x * blockDim.x + threadIdx.x) / 32;
}

/* A line by two instructions, its second half first. */
static __device__ void write_torn(uint64_t *word, uint64_t epoch)
{
	if (threadIdx.x & 4)
		ori_dev_store_pair_relaxed(word, epoch, epoch);
	__syncwarp();
	if (!(threadIdx.x & 4))
		ori_dev_store_pair_relaxed(word, epoch, epoch);
}

__global__ void __launch_bounds__(THREADS) write_lines(const __grid_constant__ struct job j)
{
	uint64_t *asked = j.turn + warp_of() * 16, end = oriel_dev_clock_ns() + LIMIT_NS, turn;

	for (turn = 0; turn < j.bytes / TURN; turn++) {
		uint64_t epoch = j.epoch + turn, *word = line_of(&j, turn, warp_of());

		while (oriel_dev_load_relaxed(asked) < epoch && oriel_dev_clock_ns() < end)
			;
		__syncwarp();
		if (j.is_torn)
			write_torn(word, epoch);
		else
			ori_dev_store_pair_relaxed(word, epoch, epoch);
	}
}

/*
 * The threads of an eight poll their line until all of it has arrived, or some of it has.
 * Returns a bit for each thread that saw the old line.
 */
static __device__ uint32_t poll_line(const uint64_t *word, uint64_t epoch, uint64_t end,
				     bool *at_once)
{
	uint32_t eight = threadIdx.x & 24, polls = 0, old;
	uint64_t first, second;

	do {
		__syncwarp(255u << eight);
		ori_dev_load_pair_relaxed(word, &first, &second);
		old = __ballot_sync(255u << eight, first != epoch || second != epoch);
		old = old >> eight & 255u;
		polls++;
	} while (old == 255u && oriel_dev_clock_ns() < end);
	*at_once = polls == 1;
	return old;
}

__global__ void __launch_bounds__(THREADS) read_lines(const __grid_constant__ struct job j)
{
	uint64_t *asked = j.turn + warp_of() * 16, end = oriel_dev_clock_ns() + LIMIT_NS, turn;
	uint64_t state = warp_of() * 7919 + j.epoch;
	struct seen seen = {0, 0, 0, 0, 0};

	for (turn = 0; turn < j.bytes / TURN; turn++) {
		uint64_t epoch = j.epoch + turn, *word = line_of(&j, turn, warp_of());
		long long start = clock64(), pause;
		uint32_t old;
		bool at_once;

		if (threadIdx.x % 32 == 0)
			oriel_dev_store_relaxed(asked, epoch);
		/* Some poll before it arrives, some as it does, some later. */
		state = state * 6364136223846793005ul + 1442695040888963407ul;
		pause = (long long)((state >> 33) % SPREAD);
		while (clock64() - start < pause)
			;
		__syncwarp();
		old = poll_line(word, epoch, end, &at_once);
		seen.lines++;
		seen.at_once += at_once;
		seen.missing += old == 255u;
		seen.in_halves += old == 15u || old == 240u;
		seen.in_parts += (old & 15u && (old & 15u) != 15u) + (old >> 4 && old >> 4 != 15u);
		__syncwarp();
	}
	if (threadIdx.x & 7)
		return;
	atomicAdd(&j.seen->lines, seen.lines);
	atomicAdd(&j.seen->at_once, seen.at_once);
	atomicAdd(&j.seen->in_halves, seen.in_halves);
	atomicAdd(&j.seen->in_parts, seen.in_parts);
	atomicAdd(&j.seen->missing, seen.missing);
}

struct gpu {
	char *lines;
	uint64_t *turn;
	struct seen *seen; /* pinned */
	cudaStream_t reads, writes;
};

/* The previous GPU writes to each GPU, which writes to the next. */
static void pass(struct gpu *gpu, unsigned gpus, const struct method *method, uint64_t epoch)
{
	unsigned i;

	for (i = 0; i < gpus; i++) {
		struct gpu *to = &gpu[(i + 1) % gpus];
		struct job job = {to->lines,     gpu[i].turn, to->seen,
				  method->bytes, epoch,       method->is_torn};

		CUDA_CHECK(cudaSetDevice((int)((i + 1) % gpus)));
		read_lines<<<BLOCKS, THREADS, 0, to->reads>>>(job);
		CUDA_CHECK(cudaGetLastError());
		CUDA_CHECK(cudaSetDevice((int)i));
		write_lines<<<BLOCKS, THREADS, 0, gpu[i].writes>>>(job);
		CUDA_CHECK(cudaGetLastError());
	}
	for (i = 0; i < gpus; i++) {
		CUDA_CHECK(cudaSetDevice((int)i));
		CUDA_CHECK(cudaStreamSynchronize(gpu[i].reads));
		CUDA_CHECK(cudaStreamSynchronize(gpu[i].writes));
	}
}

/* false: half a line was seen in parts, or a line did not arrive. */
static bool run(struct gpu *gpu, unsigned gpus, const struct method *method, unsigned passes,
		uint64_t *epoch)
{
	struct seen all = {0, 0, 0, 0, 0};
	bool is_right;
	unsigned i;

	for (i = 0; i < method->passes * passes; i++) {
		pass(gpu, gpus, method, *epoch);
		*epoch += method->bytes / TURN;
	}
	for (i = 0; i < gpus; i++) {
		all.lines += gpu[i].seen->lines;
		all.at_once += gpu[i].seen->at_once;
		all.in_halves += gpu[i].seen->in_halves;
		all.in_parts += gpu[i].seen->in_parts;
		all.missing += gpu[i].seen->missing;
		memset(gpu[i].seen, 0, sizeof(*gpu[i].seen));
	}
	is_right = !all.missing && (method->is_torn || !all.in_parts);
	printf("%s %s: %llu lines, %llu by the first poll; in halves %llu, halves in parts %llu, "
	       "missing %llu\n",
	       is_right ? "PASS" : "FAIL", method->name, all.lines, all.at_once, all.in_halves,
	       all.in_parts, all.missing);
	fflush(stdout);
	return is_right;
}

int main(int argc, char **argv)
{
	static const struct method methods[] = {
		{"lines by two instructions", 8ul << 20, 8, true},
		{"lines in the cache", 8ul << 20, 200, false},
		{"lines in memory", 4ul << 30, 3, false},
	};
	unsigned gpus = (unsigned)bare_begin(), passes = 1, i;
	static struct gpu gpu[BARE_MAX];
	uint64_t epoch = 1;
	bool is_right = true;

	if (argc == 3 && strcmp(argv[1], "--passes") == 0)
		passes = (unsigned)atoi(argv[2]);
	else if (argc != 1)
		bare_die("usage: gpu_lines [--passes N]");
	if (gpus < 2 || gpus > BARE_MAX) {
		printf("gpu_lines: skipped, there are %u GPUs\n", gpus);
		return 77;
	}
	bare_enable_peers(gpus);
	for (i = 0; i < gpus; i++) {
		CUDA_CHECK(cudaSetDevice((int)i));
		CUDA_CHECK(cudaMalloc((void **)&gpu[i].lines, 4ul << 30));
		CUDA_CHECK(cudaMemset(gpu[i].lines, 0, 4ul << 30));
		CUDA_CHECK(cudaMalloc((void **)&gpu[i].turn, WARPS * 128));
		CUDA_CHECK(cudaMemset(gpu[i].turn, 0, WARPS * 128));
		CUDA_CHECK(cudaDeviceSynchronize());
		CUDA_CHECK(cudaStreamCreateWithFlags(&gpu[i].reads, cudaStreamNonBlocking));
		CUDA_CHECK(cudaStreamCreateWithFlags(&gpu[i].writes, cudaStreamNonBlocking));
		gpu[i].seen = (struct seen *)bare_pinned(sizeof(struct seen));
	}
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		is_right &= run(gpu, gpus, &methods[i], passes, &epoch);
	return is_right ? 0 : 1;
}
