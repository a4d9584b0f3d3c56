/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver for kv_transfer, loaded at run time. */
#include "kv_gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

/* Function types as in the driver's ABI, so that the example builds without CUDA. */
static struct {
	int (*init)(unsigned flags);
	int (*count)(int *count);
	int (*get)(int *device, int number);
	int (*retain)(void **context, int device);
	int (*set)(void *context);
	int (*to_gpu)(uint64_t to, const void *from, size_t length);
	int (*to_host)(void *to, uint64_t from, size_t length);
} driver;

static bool driver_load(void)
{
	const struct {
		const char *name;
		void *at;
	} calls[] = {
		{"cuInit", &driver.init},
		{"cuDeviceGetCount", &driver.count},
		{"cuDeviceGet", &driver.get},
		{"cuDevicePrimaryCtxRetain", &driver.retain},
		{"cuCtxSetCurrent", &driver.set},
		{"cuMemcpyHtoD_v2", &driver.to_gpu},
		{"cuMemcpyDtoH_v2", &driver.to_host},
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	void *call;

	for (size_t i = 0; library && i < sizeof(calls) / sizeof(calls[0]); i++) {
		call = dlsym(library, calls[i].name);
		if (!call)
			return false;
		memcpy(calls[i].at, &call, sizeof(call));
	}
	return library;
}

bool kv_gpu_open(unsigned number, const char **why)
{
	void *context = NULL;
	int count = 0, device;

	*why = "no driver of GPUs (libcuda.so.1)";
	if (!driver_load())
		return false;
	*why = "no GPU";
	if (driver.init(0) || driver.count(&count) || !count)
		return false;
	*why = "a GPU that gives no context";
	/* The context is released with the process. */
	if (driver.get(&device, (int)(number % (unsigned)count)) ||
	    driver.retain(&context, device) || driver.set(context))
		return false;
	*why = NULL;
	return true;
}

bool kv_gpu_write(void *to, const void *from, size_t length)
{
	return driver.to_gpu((uintptr_t)to, from, length) == 0;
}

bool kv_gpu_read(void *to, const void *from, size_t length)
{
	return driver.to_host(to, (uintptr_t)from, length) == 0;
}
