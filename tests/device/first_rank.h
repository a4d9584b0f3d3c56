/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of gpu_first: its report, its window, its claims, and patterns of bytes that its kernels
 * write and check. gpu_first.cu and the tests in first_*.cu, which are listed last, include it.
 */
#ifndef TESTS_DEVICE_FIRST_RANK_H
#define TESTS_DEVICE_FIRST_RANK_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#define LENGTH (1u << 20) /* of buffer 0 */
#define THREADS 256
#define LONG_NS 20000000000ull

/* The report of a kernel; in pinned memory. */
struct report {
	int32_t status;   /* the first that was not ORIEL_OK */
	uint32_t line;    /* where */
	uint64_t wrong;   /* bytes or words that differ */
	uint64_t checked; /* those compared */
};

struct rank {
	unsigned rank, size;
	int device;
	const char *node; /* of a thread; NULL: not said */
	const struct oriel_bootstrap *bootstrap;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window dev;
	cudaStream_t stream;
	struct report *report;
	char *scratch;   /* of the GPU, LENGTH */
	uint32_t *round; /* of the GPU */
	unsigned failures;
};

static inline const char *host_reason(enum oriel_status status)
{
	return oriel_last_status() == status ? oriel_last_error() : oriel_status_text(status);
}

static inline void verdict(struct rank *r, const char *claim, bool holds, const char *why)
{
	if (!holds)
		r->failures++;
	if (holds && r->rank != 0)
		return;
	printf("%s rank %u of %u (GPU %d): %s%s%s\n", holds ? "PASS" : "FAIL", r->rank, r->size,
	       r->device, claim, holds ? "" : ": ", holds ? "" : why);
	fflush(stdout);
}

static inline void must(struct rank *r, const char *what, enum oriel_status status)
{
	if (status == ORIEL_OK)
		return;
	printf("FAIL rank %u of %u (GPU %d): %s: %s: %s\n", r->rank, r->size, r->device, what,
	       oriel_status_name(status), host_reason(status));
	fflush(stdout);
	exit(1);
}

static inline void must_cuda(struct rank *r, const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	printf("FAIL rank %u of %u (GPU %d): %s: %s\n", r->rank, r->size, r->device, what,
	       cudaGetErrorString(error));
	fflush(stdout);
	exit(1);
}

/* This is the byte at @i of the message of @from to @to in @round. */
static inline __device__ unsigned char pattern(uint32_t from, uint32_t to, uint32_t round,
					       uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + from * 1000003ull + to * 7919ull + round;

	return (unsigned char)(x >> 29 ^ x);
}

static inline __device__ void write_pattern(char *at, uint64_t length, uint32_t from, uint32_t to,
					    uint32_t round)
{
	for (uint64_t i = threadIdx.x; i < length; i += blockDim.x)
		at[i] = (char)pattern(from, to, round, i);
	__syncthreads();
}

static inline __device__ void check_pattern(struct report *report, const char *at, uint64_t length,
					    uint32_t from, uint32_t to, uint32_t round)
{
	__shared__ unsigned long long wrong;

	__syncthreads();
	if (threadIdx.x == 0)
		wrong = 0;
	__syncthreads();
	for (uint64_t i = threadIdx.x; i < length; i += blockDim.x)
		if ((unsigned char)at[i] != pattern(from, to, round, i))
			atomicAdd(&wrong, 1ull);
	__syncthreads();
	if (threadIdx.x == 0) {
		report->wrong += wrong;
		report->checked += length;
	}
	__syncthreads();
}

/* All threads pass the same; true: the kernel ends. */
static inline __device__ bool failed(struct report *report, int64_t result, uint32_t line)
{
	if (result >= 0)
		return false;
	if (threadIdx.x == 0 && report->status == ORIEL_OK) {
		report->status = (int32_t)result;
		report->line = line;
	}
	return true;
}

#define TRY(call)                                     \
	do {                                          \
		if (failed(report, (call), __LINE__)) \
			return;                       \
	} while (0)

static inline void report_clear(struct rank *r)
{
	memset(r->report, 0, 2 * sizeof(*r->report));
}

/* Wait for the stream and judge what its kernels reported. */
static inline void finish(struct rank *r, const char *claim, uint64_t least)
{
	char why[256];
	bool holds;

	must_cuda(r, claim, cudaGetLastError());
	must_cuda(r, claim, cudaStreamSynchronize(r->stream));
	for (int i = 0; i < 2; i++) {
		const struct report *report = r->report + i;

		if (report->status == ORIEL_OK && !report->wrong)
			continue;
		snprintf(why, sizeof(why), "%s at line %u, %llu of %llu wrong",
			 oriel_status_name((enum oriel_status)report->status), report->line,
			 (unsigned long long)report->wrong, (unsigned long long)report->checked);
		verdict(r, claim, false, why);
		return;
	}
	holds = r->report[0].checked + r->report[1].checked >= least;
	verdict(r, claim, holds, "too little was checked");
}

static inline void open_window(struct rank *r, uint64_t timeout_ns)
{
	struct oriel_comm_attr comm = {};
	struct oriel_window_attr window = {};

	comm.size = sizeof(comm);
	comm.flags = ORIEL_COMM_GPU;
	comm.timeout_ns = timeout_ns;
	comm.node = r->node;
	must(r, "oriel_comm_create", oriel_comm_create(r->bootstrap, &comm, &r->comm));
	window.size = sizeof(window);
	window.length = LENGTH;
	window.channels = 16;
	window.flags = ORIEL_WINDOW_DEVICE;
	must(r, "oriel_window_create", oriel_window_create(r->comm, &window, &r->window));
	must(r, "oriel_window_device", oriel_window_device(r->window, &r->dev));
}

static inline void close_window(struct rank *r)
{
	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
	r->window = NULL;
	r->comm = NULL;
}

struct pieces;

/* These are in first_window.cu. */
void warm_up_window(struct rank *r, const struct oriel_dev_window *closed);
void test_put_signal(struct rank *r, const char *claim);
void test_barrier(struct rank *r);
void test_get(struct rank *r);
void test_atomics(struct rank *r);
void test_channels(struct rank *r);
void test_rejected(struct rank *r);
void test_graph(struct rank *r);
void test_buffers(struct rank *r, char **legacy, void **own, void **host,
		  const struct pieces *pieces);
void test_mistakes(struct rank *r);

/* These are in first_stream.cu. */
void test_streams(struct rank *r);
void test_stream_graph(struct rank *r);

/* These are in first_break.cu. */
void warm_up_break(struct rank *r, const struct oriel_dev_window *closed);
void test_blame(struct rank *r);
void test_stream_limit(struct rank *r);
void test_abort(struct rank *r);

#endif
