/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of the programs of this folder: its objects, and the checks that count its failures. */
#ifndef FAKECUDA_RANK_H
#define FAKECUDA_RANK_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oriel/dev.h>
#include <oriel/oriel.h>

#include "fakecuda.h"

#define LENGTH 65536u
#define LONG_NS 60000000000ull

struct rank {
	unsigned rank, size;
	const struct oriel_bootstrap *bootstrap;
	struct oriel_comm *comm;
	struct oriel_window *window;
	struct oriel_dev_window dev;
	const char *node; /* of a rank that is a thread; NULL: not set */
	unsigned failures;
};

#define CHECK(r, claim) check(r, claim, __LINE__, #claim)
#define CHECK_OK(r, call) check_ok(r, call, __LINE__, #call)
#define CHECK_FAILS(r, call, status, part) check_fails(r, call, status, part, __LINE__, #call)

static inline bool check(struct rank *r, bool claim, int line, const char *what)
{
	if (!claim) {
		fprintf(stderr, "line %d: rank %u of %u: not true: %s\n", line, r->rank, r->size,
			what);
		r->failures++;
	}
	return claim;
}

static inline bool check_ok(struct rank *r, int64_t result, int line, const char *what)
{
	if (result < 0)
		fprintf(stderr, "line %d: rank %u of %u: %s: %s: %s\n", line, r->rank, r->size,
			what, oriel_status_name((enum oriel_status)result), oriel_last_error());
	return check(r, result >= 0, line, what);
}

static inline void check_fails(struct rank *r, enum oriel_status got, enum oriel_status expected,
			       const char *part, int line, const char *what)
{
	if (got != expected || !strstr(oriel_last_error(), part))
		fprintf(stderr, "line %d: rank %u of %u: %s: %s: %s\n", line, r->rank, r->size,
			what, oriel_status_name(got), oriel_last_error());
	check(r, got == expected && strstr(oriel_last_error(), part), line, what);
}

static inline void rank_use_gpu(struct rank *r)
{
	CUcontext context;
	int count = 0;

	CHECK(r, cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS);
	CHECK(r, cuDevicePrimaryCtxRetain(&context, (int)r->rank % count) == CUDA_SUCCESS);
	CHECK(r, cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

static inline void rank_join(struct rank *r, uint64_t timeout_ns)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = timeout_ns,
				       .node = r->node,
				       .flags = ORIEL_COMM_GPU};

	if (!CHECK_OK(r, oriel_comm_create(r->bootstrap, &attr, &r->comm)))
		_Exit(1);
}

static inline void rank_open(struct rank *r, uint64_t timeout_ns)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = LENGTH,
					 .flags = ORIEL_WINDOW_DEVICE,
					 .channels = 16};

	rank_join(r, timeout_ns);
	if (!CHECK_OK(r, oriel_window_create(r->comm, &attr, &r->window)) ||
	    !CHECK_OK(r, oriel_window_device(r->window, &r->dev)))
		_Exit(1);
}

static inline void rank_close(struct rank *r)
{
	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
}

/* Map adjacent allocations, as growing allocators do, followed by a hole. */
static inline char *map(struct rank *r, size_t each, unsigned count, CUmemAllocationHandleType type)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes = type,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base = 0;
	unsigned i;

	CHECK(r, cuCtxGetDevice(&prop.location.id) == CUDA_SUCCESS);
	access.location = prop.location;
	CHECK(r, cuMemAddressReserve(&base, (count + 1) * each, 0, 0, 0) == CUDA_SUCCESS);
	for (i = 0; i < count; i++) {
		CHECK(r, cuMemCreate(&handle, each, &prop, 0) == CUDA_SUCCESS);
		CHECK(r, cuMemMap(base + i * each, each, 0, handle, 0) == CUDA_SUCCESS);
		CHECK(r, cuMemRelease(handle) == CUDA_SUCCESS);
	}
	CHECK(r, cuMemSetAccess(base, count * each, &access, 1) == CUDA_SUCCESS);
	return (char *)base;
}

static inline void unmap(struct rank *r, char *at, size_t each, unsigned count)
{
	CHECK(r, cuMemUnmap((CUdeviceptr)at, count * each) == CUDA_SUCCESS);
	CHECK(r, cuMemAddressFree((CUdeviceptr)at, (count + 1) * each) == CUDA_SUCCESS);
}

static inline unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (dir && readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/*
 * The exit code, once all ranks of this process have ended; the process started with @fds
 * descriptors.
 */
static inline int rank_finish(unsigned failures, unsigned fds)
{
	if (fakecuda_left()) {
		fprintf(stderr, "%u things of the driver were left behind\n", fakecuda_left());
		failures++;
	}
	/* The descriptors of the launcher are closed with the bootstrap. */
	if (count_fds() > fds) {
		fprintf(stderr, "%u descriptors became %u\n", fds, count_fds());
		failures++;
	}
	return failures ? 1 : 0;
}

#endif
