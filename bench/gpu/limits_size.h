/* SPDX-License-Identifier: Apache-2.0 */
/* A checked CUDA call and the sizes that the parts of limits.cu share. */
#ifndef BENCH_GPU_LIMITS_SIZE_H
#define BENCH_GPU_LIMITS_SIZE_H

#include "samples.h"

#include <cuda_runtime.h>

#define SAMPLES 30
#define ROUNDS 200u
#define LOST 20000000u /* polls before a kernel gives up */

static void check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(2);
}

#define CHECK(call) check(call, #call)

#endif
