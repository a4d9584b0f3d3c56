/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a program maps by itself, from two allocations side by side. The tests of buffers
 * and of p2p use it.
 */
#ifndef TESTS_DEVICE_PIECES_H
#define TESTS_DEVICE_PIECES_H

#include <cuda.h>
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Two of @piece bytes each, the driver's granule; they are freed when the process exits. */
struct pieces {
	char *base;
	size_t piece;
};

/* From the runtime, since programs do not link the driver. */
#define PIECES_CALL(name) ((decltype(&name))pieces_find(#name))

static void *pieces_find(const char *name)
{
	void *call = NULL;
	cudaError_t error;

#if CUDART_VERSION >= 12050
	error = cudaGetDriverEntryPointByVersion(name, &call, 11000, cudaEnableDefault);
#else
	error = cudaGetDriverEntryPoint(name, &call, cudaEnableDefault);
#endif
	if (error == cudaSuccess && call)
		return call;
	printf("FAIL the driver has no %s: %s\n", name, cudaGetErrorString(error));
	exit(1);
}

static void pieces_must(const char *what, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("FAIL %s: driver error %d\n", what, (int)result);
	exit(1);
}

/*
 * One thread at a time calls it, while no other thread maps anything: see src/sys/gpu_range.c.
 */
static struct pieces pieces_open(int device)
{
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
	CUmemAllocationProp prop = {};
	CUmemGenericAllocationHandle handle;
	CUmemAccessDesc access = {};
	struct pieces p = {};
	CUdeviceptr base = 0;
	int i;

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	pthread_mutex_lock(&turn);
	pieces_must("granule", PIECES_CALL(cuMemGetAllocationGranularity)(
				       &p.piece, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	pieces_must("range", PIECES_CALL(cuMemAddressReserve)(&base, 2 * p.piece, 0, 0, 0));
	for (i = 0; i < 2; i++) {
		pieces_must("allocation", PIECES_CALL(cuMemCreate)(&handle, p.piece, &prop, 0));
		pieces_must("mapping",
			    PIECES_CALL(cuMemMap)(base + i * p.piece, p.piece, 0, handle, 0));
		/* The mapping holds the memory. */
		pieces_must("handle", PIECES_CALL(cuMemRelease)(handle));
	}
	pieces_must("access", PIECES_CALL(cuMemSetAccess)(base, 2 * p.piece, &access, 1));
	pthread_mutex_unlock(&turn);
	p.base = (char *)base;
	return p;
}

#endif
