/* SPDX-License-Identifier: Apache-2.0 */
#include "tune.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions of the driver, as it has them since CUDA 7. */
struct tune_gpu {
	void *library;
	void *stream;
	int device;
	int (*init)(unsigned);
	int (*count)(int *);
	int (*retain)(void **, int);
	int (*release)(int);
	int (*use)(void *);
	int (*open)(void **, unsigned);
	int (*close)(void *);
	int (*wait)(void *);
};

static bool gpu_find(struct tune_gpu *gpu, const char *name, void *function)
{
	void *symbol = dlsym(gpu->library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol;
}

static bool gpu_load(struct tune_gpu *gpu)
{
	gpu->library = dlopen("libcuda.so.1", RTLD_NOW);
	return gpu->library && gpu_find(gpu, "cuInit", &gpu->init) &&
	       gpu_find(gpu, "cuDeviceGetCount", &gpu->count) &&
	       gpu_find(gpu, "cuDevicePrimaryCtxRetain", &gpu->retain) &&
	       gpu_find(gpu, "cuDevicePrimaryCtxRelease_v2", &gpu->release) &&
	       gpu_find(gpu, "cuCtxSetCurrent", &gpu->use) &&
	       gpu_find(gpu, "cuStreamCreate", &gpu->open) &&
	       gpu_find(gpu, "cuStreamDestroy_v2", &gpu->close) &&
	       gpu_find(gpu, "cuStreamSynchronize", &gpu->wait);
}

struct tune_gpu *tune_gpu_open(unsigned rank, void **stream)
{
	struct tune_gpu *gpu = calloc(1, sizeof(*gpu));
	void *context = NULL;
	int count = 0, error = 0;

	if (!gpu || !gpu_load(gpu)) {
		fprintf(stderr, "oriel tune: there is no driver for GPUs\n");
		goto failed;
	}
	error = gpu->init(0);
	if (!error)
		error = gpu->count(&count);
	if (!error && count < 1)
		error = 100; /* CUDA_ERROR_NO_DEVICE */
	if (!error) {
		gpu->device = (int)(rank % (unsigned)count);
		error = gpu->retain(&context, gpu->device);
	}
	if (!error)
		error = gpu->use(context);
	if (!error)
		error = gpu->open(&gpu->stream, 1);
	if (!error) {
		*stream = gpu->stream;
		return gpu;
	}
	fprintf(stderr, "oriel tune: GPU %d of %d: CUDA error %d\n", gpu->device, count, error);
failed:
	if (gpu && gpu->library)
		dlclose(gpu->library);
	free(gpu);
	return NULL;
}

bool tune_gpu_wait(struct tune_gpu *gpu)
{
	return gpu->wait(gpu->stream) == 0;
}

void tune_gpu_close(struct tune_gpu *gpu)
{
	if (!gpu)
		return;
	gpu->close(gpu->stream);
	gpu->release(gpu->device);
	free(gpu);
}
