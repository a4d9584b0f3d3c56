/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The harness inside kernels; harness.h includes it where nvcc compiles. A case is one launch of
 * a rank: group 0 runs it, groups 1 .. WORKERS serve rank_fork(). A group posts a request for
 * work that only a host can do. The host thread of the rank serves it while the kernel waits, so
 * that no case has to end for it.
 */
#ifndef CONFORMANCE_KERNELS_H
#define CONFORMANCE_KERNELS_H

#define WORKERS 16u
#define GROUPS_MOST (WORKERS + 1)
#define CLAIMS 8u                  /* failed claims that one launch reports */
#define MAIN_MEMORY (12u << 20)    /* of group 0 */
#define WORKER_MEMORY (512u << 10) /* of each other */
#define ALL_MEMORY (MAIN_MEMORY + WORKERS * WORKER_MEMORY)

enum request_kind {
	REQUEST_BARRIER,
	REQUEST_MEET,
	REQUEST_DEVICE,
	REQUEST_FAULT,
	REQUEST_ABORT,
	REQUEST_HEALTHY,
	REQUEST_LAST,
	REQUEST_HOST,
};

/* The request of one group. The host answers @asked by making @answered equal. */
struct request {
	uint64_t asked;
	uint64_t reserved0[15];
	uint64_t answered;
	uint64_t reserved1[15];
	uint64_t word;
	uint32_t kind; /* enum request_kind */
	uint32_t what;
	uint64_t status;
	uint32_t line;
	char file[48];
	char text[96];
	struct oriel_dev_fault fault;
	struct oriel_dev_window device;
};

enum claim_kind {
	CLAIM_TRUE,
	CLAIM_EQUAL,
	CLAIM_STATUS,
	CLAIM_POSTED,
};

/* A claim that does not hold. */
struct claim {
	uint64_t got;
	uint64_t expected;
	uint32_t kind; /* enum claim_kind */
	uint32_t line;
	char file[48];
	char name[32];
	char what[160];
};

/* In pinned memory of the host. */
struct pinned {
	struct request requests[GROUPS_MOST];
	struct claim claims[CLAIMS];
};

typedef void (*fork_function)(struct rank *r, unsigned index, void *context);

#define TURN_OVER UINT64_MAX

/*
 * In memory of the GPU. @turn counts the forks; each worker takes part in each, so that none
 * still reads one when the next is written.
 */
struct grid {
	uint64_t turn;
	uint64_t reserved0[15];
	uint64_t done; /* workers that have ended this turn */
	uint64_t reserved1[15];
	fork_function run;
	void *context;
	uint64_t count;
	uint64_t round; /* the last round that ended */
	uint32_t failures;
	uint32_t lines[CLAIMS]; /* of the reported claims */
};

/*
 * Launches @kernel, case @index of @suite, for @r into @stream. Returns the cudaError_t of
 * cudaLaunchKernelExC().
 */
int gpu_launch(const void *kernel, const struct rank *r, unsigned index, unsigned groups,
	       void *stream);

#ifdef __cplusplus
}
#endif

#include "operations.h"

#define CASE static __device__ __noinline__ __attribute__((unused))
#define CASE_DATA static __device__
#define CASE_PASSED static __device__ __forceinline__

static __device__ __noinline__ void text_copy(char *to, size_t size, const char *from)
{
	size_t i;

	for (i = 0; from[i] && i + 1 < size; i++)
		to[i] = from[i];
	to[i] = '\0';
}

static __device__ __noinline__ void file_copy(char *to, size_t size, const char *path)
{
	const char *from = path;

	for (; *path; path++)
		if (*path == '/')
			from = path + 1;
	text_copy(to, size, from);
}

/* All threads of a group may find the same failure: it is reported once for each line. */
static __device__ __noinline__ void claim_fail(struct rank *r, struct claim c, const char *file,
					       const char *what)
{
	struct claim *place;
	uint32_t i, old = 0;

	atomicAdd(&r->grid->failures, 1);
	for (i = 0; i < CLAIMS; i++) {
		old = atomicCAS(&r->grid->lines[i], 0, c.line);
		if (old == c.line)
			return;
		if (!old)
			break;
	}
	if (i == CLAIMS)
		return;
	place = &r->pinned->claims[i];
	place->got = c.got;
	place->expected = c.expected;
	place->kind = c.kind;
	file_copy(place->file, sizeof(place->file), file);
	text_copy(place->what, sizeof(place->what), what);
	if (r->name)
		text_copy(place->name, sizeof(place->name), r->name);
	/* The host reads it when the launch has ended or timed out. */
	__threadfence_system();
	place->line = c.line;
}

static __host__ __device__ __forceinline__ bool
claim_true(struct rank *r, bool claim, const char *file, int line, const char *what)
{
#ifdef __CUDA_ARCH__
	if (!claim)
		claim_fail(r, {0, 0, CLAIM_TRUE, (uint32_t)line}, file, what);
	return claim;
#else
	return check_claim(r, claim, file, line, what);
#endif
}

static __host__ __device__ __forceinline__ bool claim_equal(struct rank *r, uint64_t got,
							    uint64_t expected, const char *file,
							    int line, const char *what)
{
#ifdef __CUDA_ARCH__
	if (got != expected)
		claim_fail(r, {got, expected, CLAIM_EQUAL, (uint32_t)line}, file, what);
	return got == expected;
#else
	return check_equal(r, got, expected, file, line, what);
#endif
}

/* Kernels have no last error. */
static __host__ __device__ __forceinline__ void claim_begin(void)
{
#ifndef __CUDA_ARCH__
	check_begin();
#endif
}

static __host__ __device__ __forceinline__ bool claim_status(struct rank *r, int64_t got,
							     enum oriel_status expected,
							     const char *file, int line,
							     const char *what)
{
#ifdef __CUDA_ARCH__
	if (got != expected)
		claim_fail(r, {(uint64_t)got, (uint64_t)expected, CLAIM_STATUS, (uint32_t)line},
			   file, what);
	return got == expected;
#else
	return check_status(r, got, expected, file, line, what);
#endif
}

static __host__ __device__ __forceinline__ bool
claim_posted(struct rank *r, int64_t got, const char *file, int line, const char *what)
{
#ifdef __CUDA_ARCH__
	if (got < 0)
		claim_fail(r, {(uint64_t)got, 0, CLAIM_POSTED, (uint32_t)line}, file, what);
	return got >= 0;
#else
	return check_posted(r, got, file, line, what);
#endif
}

#define CHECK(r, claim) claim_true(r, claim, __FILE__, __LINE__, #claim)
#define CHECK_EQ(r, got, expected) \
	claim_equal(r, (uint64_t)(got), (uint64_t)(expected), __FILE__, __LINE__, #got)
#define CHECK_STATUS(r, got, expected) \
	claim_status(r, (claim_begin(), (got)), expected, __FILE__, __LINE__, #got)
#define CHECK_OK(r, got) CHECK_STATUS(r, got, ORIEL_OK)
#define CHECK_POSTED(r, got) claim_posted(r, got, __FILE__, __LINE__, #got)
#define CHECK_TEXT(r, text, part) check_text(r, text, part, __FILE__, __LINE__)
#define CHECK_LAST(r, part) rank_check_last(r, part, __FILE__, __LINE__)

#define ALONE(r, call)                                                            \
	((int64_t)oriel_dev_share((r)->group, oriel_dev_is_leader((r)->group)     \
						      ? (uint64_t)(int64_t)(call) \
						      : (uint64_t)0))
#define SHARED(r, value) oriel_dev_share((r)->group, value)

/* One case, or one fork, uses the memory of a group; afterwards all of it is free again. */
static __device__ __noinline__ void *rank_alloc(struct rank *r, size_t length)
{
	size_t most = r->worker ? WORKER_MEMORY : MAIN_MEMORY;
	char *memory = r->memory;

	if (r->worker)
		memory += MAIN_MEMORY + (r->worker - 1) * (size_t)WORKER_MEMORY;
	length = (length + 255) / 256 * 256;
	if (!CHECK(r, r->taken + length <= most))
		r->taken = 0;
	r->taken += length;
	return memory + r->taken - length;
}

static __device__ __forceinline__ void rank_free(struct rank *r, void *memory)
{
	(void)r;
	(void)memory;
}

#define RANK_ARRAY(r, type, name, count) type *name = (type *)rank_alloc(r, sizeof(type) * (count))

static __device__ __forceinline__ bool rank_is_mapped(const struct rank *r, unsigned from,
						      unsigned to)
{
	uint32_t path = r->dev.peers[from == r->rank ? to : from].path;

	return path == ORIEL_PATH_SELF || path == ORIEL_PATH_MAPPED;
}

static __device__ __forceinline__ bool rank_is_in_domain(const struct rank *r, unsigned peer)
{
	uint32_t path = r->dev.topology[peer].path;

	return path == ORIEL_PATH_SELF || path == ORIEL_PATH_MAPPED;
}

static __device__ __forceinline__ unsigned rank_rail(const struct rank *r, unsigned peer)
{
	return r->dev.peers[peer].link->rail;
}

/* One thread: post the request of its group, which is written but for the kind, and wait. */
static __device__ __noinline__ uint64_t request_post(struct request *m, uint32_t kind)
{
	uint64_t turn = oriel_dev_load_relaxed(&m->asked) + 1;

	m->kind = kind;
	oriel_dev_store_release(&m->asked, turn);
	while (oriel_dev_load_relaxed(&m->answered) != turn)
		__nanosleep(200);
	/* This acquires what the host wrote before it answered. */
	(void)oriel_dev_load_acquire(&m->answered);
	return oriel_dev_load_relaxed(&m->status);
}

static __device__ __noinline__ uint64_t rank_ask(struct rank *r, uint32_t kind, uint32_t what,
						 uint64_t word)
{
	struct request *m = &r->pinned->requests[r->worker];
	uint64_t status = 0;

	oriel_dev_sync(r->group);
	if (oriel_dev_is_leader(r->group)) {
		m->what = what;
		m->word = word;
		status = request_post(m, kind);
	}
	return oriel_dev_share(r->group, status);
}

/* Copy whole words of an answer. */
static __device__ __noinline__ void answer_copy(void *to, const void *from, size_t length)
{
	size_t i;

	for (i = 0; i < length / 8; i++)
		((uint64_t *)to)[i] = oriel_dev_load_relaxed((const uint64_t *)from + i);
}

CASE enum oriel_status rank_barrier(struct rank *r)
{
	return (enum oriel_status)(int64_t)rank_ask(r, REQUEST_BARRIER, 0, 0);
}

CASE enum oriel_status rank_device(struct rank *r, struct oriel_dev_window *w)
{
	uint64_t status = rank_ask(r, REQUEST_DEVICE, 0, 0);

	answer_copy(w, &r->pinned->requests[r->worker].device, sizeof(*w));
	return (enum oriel_status)(int64_t)status;
}

CASE enum oriel_status rank_fault(struct rank *r, struct oriel_dev_fault *fault)
{
	uint64_t status = rank_ask(r, REQUEST_FAULT, 0, 0);

	answer_copy(fault, &r->pinned->requests[r->worker].fault, sizeof(*fault));
	return (enum oriel_status)(int64_t)status;
}

CASE void rank_check_last(struct rank *r, const char *part, const char *file, int line)
{
	struct request *m = &r->pinned->requests[r->worker];

	oriel_dev_sync(r->group);
	if (oriel_dev_is_leader(r->group)) {
		text_copy(m->text, sizeof(m->text), part);
		file_copy(m->file, sizeof(m->file), file);
		m->line = (uint32_t)line;
		request_post(m, REQUEST_LAST);
	}
	oriel_dev_sync(r->group);
}

/* The caller syncs before: all of the group have read the last answer. */
CASE void rank_abort(struct rank *r)
{
	request_post(&r->pinned->requests[r->worker], REQUEST_ABORT);
}

CASE void rank_meet_anyway(struct rank *r)
{
	rank_ask(r, REQUEST_MEET, 0, 0);
}

CASE void rank_check_healthy(struct rank *r)
{
	rank_ask(r, REQUEST_HEALTHY, 0, 0);
}

#define host_do(r, host, what, word) rank_ask(r, REQUEST_HOST, what, word)

CASE void rank_flush_barrier(struct rank *r)
{
	CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
	CHECK_OK(r, rank_barrier(r));
}

CASE void rank_fork(struct rank *r, unsigned count, fork_function run, void *context)
{
	struct grid *h = r->grid;

	if (!CHECK(r, count <= WORKERS))
		return;
	oriel_dev_sync(r->group);
	if (oriel_dev_is_leader(r->group)) {
		h->run = run;
		h->context = context;
		h->count = count;
		oriel_dev_store_relaxed(&h->done, 0);
		/* fork_take() acquires it. */
		oriel_dev_store_release(&h->turn, oriel_dev_load_relaxed(&h->turn) + 1);
		while (oriel_dev_load_relaxed(&h->done) < WORKERS)
			__nanosleep(500);
		/* This acquires what the workers released in fork_end(). */
		(void)oriel_dev_load_acquire(&h->done);
	}
	oriel_dev_sync(r->group);
}

/* A worker waits for turn *@turn + 1; returns false when the case is over. */
CASE bool fork_take(struct rank *r, uint64_t *turn)
{
	const uint64_t *word = &r->grid->turn;
	uint64_t seen = 0;

	if (oriel_dev_is_leader(r->group)) {
		while (oriel_dev_load_relaxed(word) == *turn)
			__nanosleep(500);
		seen = oriel_dev_load_acquire(word);
	}
	*turn = oriel_dev_share(r->group, seen);
	r->taken = 0;
	return *turn != TURN_OVER;
}

CASE void fork_end(struct rank *r)
{
	oriel_dev_sync(r->group);
	if (oriel_dev_is_leader(r->group))
		oriel_dev_add_release(&r->grid->done, 1);
}

#define rank_team(r, size, run, context) run(r, (r)->group, context)

CASE size_t wrong(const void *at, size_t length, uint64_t seed)
{
	const unsigned char *bytes = (const unsigned char *)at;
	size_t i, count = 0;

	for (i = 0; i < length; i++)
		count += bytes[i] != pattern(seed, i);
	return count;
}

CASE size_t not_all(const void *at, size_t length, unsigned char value)
{
	const unsigned char *bytes = (const unsigned char *)at;
	size_t i, count = 0;

	for (i = 0; i < length; i++)
		count += bytes[i] != value;
	return count;
}

/* The group syncs before as well: all threads have read the old bytes. */
CASE void group_fill(struct oriel_dev_group g, void *at, size_t length, uint64_t seed)
{
	size_t i;

	oriel_dev_sync(g);
	for (i = g.rank; i < length; i += g.size)
		((unsigned char *)at)[i] = pattern(seed, i);
	oriel_dev_sync(g);
}

CASE void group_flood(struct oriel_dev_group g, void *at, size_t length, unsigned char value)
{
	size_t i;

	oriel_dev_sync(g);
	for (i = g.rank; i < length; i += g.size)
		((unsigned char *)at)[i] = value;
	oriel_dev_sync(g);
}

/* Set the group of this thread; false if it has none, since the grid has threads to spare. */
CASE bool kernel_enter(struct rank *r)
{
	unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;

	switch (r->group.kind) {
	case ORIEL_DEV_WARP:
		r->group = oriel_dev_warp();
		r->worker = thread / 32;
		break;
	case ORIEL_DEV_BLOCK:
		r->group = oriel_dev_block();
		r->worker = blockIdx.x;
		break;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	case ORIEL_DEV_CLUSTER:
		r->group = oriel_dev_cluster();
		r->worker = thread / r->group.size;
		break;
#endif
	default:
		r->group = oriel_dev_thread();
		r->worker = thread;
	}
	r->round = r->grid->round + 1;
	return r->worker < GROUPS_MOST;
}

CASE void kernel_leave(struct rank *r)
{
	oriel_dev_sync(r->group);
	if (!oriel_dev_is_leader(r->group))
		return;
	r->grid->round = r->round;
	oriel_dev_store_release(&r->grid->turn, TURN_OVER);
}

#define CASE_ROW(name, window, ranks, flags) {#name, NULL, window, ranks, flags},
#define CASE_INDEX(name, window, ranks, flags) CASE_##name,
#define CASE_RUN(name, window, ranks, flags) \
	case CASE_##name:                    \
		name(&r);                    \
		break;
#define FORK_RUN(name)           \
	if (r.grid->run == name) \
		name(&r, r.worker - 1, r.grid->context);
#define FORK_COUNT(name) +1

#define DEVICE_SUITE(noun, CASES, FORKS, host)                                          \
	static const struct test_case noun##_cases[] = {CASES(CASE_ROW)};               \
	enum { CASES(CASE_INDEX) noun##_COUNT };                                        \
	static __global__ void noun##_kernel(const __grid_constant__ struct rank given, \
					     unsigned index)                            \
	{                                                                               \
		struct rank r = given;                                                  \
		uint64_t turn = 0;                                                      \
                                                                                        \
		if (!kernel_enter(&r))                                                  \
			return;                                                         \
		if (r.worker) {                                                         \
			while (fork_take(&r, &turn)) {                                  \
				if (r.worker <= r.grid->count) {                        \
					FORKS(FORK_RUN)                                 \
				}                                                       \
				fork_end(&r);                                           \
			}                                                               \
			return;                                                         \
		}                                                                       \
		switch (index) {                                                        \
			CASES(CASE_RUN)                                                 \
		}                                                                       \
		kernel_leave(&r);                                                       \
	}                                                                               \
	static int noun##_launch(const struct rank *r, unsigned index, void *stream)    \
	{                                                                               \
		return gpu_launch((const void *)noun##_kernel, r, index,                \
				  (0 FORKS(FORK_COUNT)) ? GROUPS_MOST : 1, stream);     \
	}                                                                               \
	const struct suite noun##_suite = {#noun, noun##_cases, noun##_COUNT, host, noun##_launch}

#ifdef __cplusplus
extern "C" {
#endif

#endif
