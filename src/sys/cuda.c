/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libcuda and looks up its functions. gpu_*.c and the tools' GPU helper call it. */
#include "sys/cuda.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "sys/library.h"

#define CUDA_LIBRARY "libcuda.so.1"

struct ori_cuda ori_cuda;

/* Empty if the driver is usable. Written once, in cuda_load(). */
static char cuda_why_not[256];

static bool cuda_need_symbol(void *library, const char *name, void *function)
{
	bool is_found = ori_library_find(library, name, function);

	if (!is_found)
		snprintf(cuda_why_not, sizeof(cuda_why_not),
			 CUDA_LIBRARY " has no %s: the driver is too old", name);
	return is_found;
}

static const char *cuda_error_name(CUresult result)
{
	const char *name = NULL;

	return ori_cuda.cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "unknown";
}

static const char *cuda_error_text(CUresult result)
{
	const char *text = NULL;

	return ori_cuda.cuGetErrorString(result, &text) == CUDA_SUCCESS && text ? text : "";
}

/* The library stays open: it does not survive dlclose(). */
static void cuda_load(void)
{
	void *library = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	CUresult result;

	if (!library) {
		snprintf(cuda_why_not, sizeof(cuda_why_not), "no CUDA driver: %s", dlerror());
		return;
	}
#define CUDA_TEXT(name) #name
#define CUDA_NEED(call)                                                          \
	if (!cuda_need_symbol(library, CUDA_TEXT(call), (void *)&ori_cuda.call)) \
		return;
	ORI_CUDA_CALLS(CUDA_NEED)
#undef CUDA_NEED
#define CUDA_TRY(call) ori_library_find(library, CUDA_TEXT(call), (void *)&ori_cuda.call);
	ORI_CUDA_OPTIONAL(CUDA_TRY)
#undef CUDA_TRY
#undef CUDA_TEXT
	result = ori_cuda.cuInit(0);
	if (result != CUDA_SUCCESS)
		snprintf(cuda_why_not, sizeof(cuda_why_not),
			 "the CUDA driver cannot be initialised: %s: %s", cuda_error_name(result),
			 cuda_error_text(result));
}

enum oriel_status ori_cuda_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, cuda_load);
	if (!cuda_why_not[0])
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s", cuda_why_not);
}

static enum oriel_status cuda_status(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return ORIEL_OK;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return ORIEL_ERR_NOMEM;
	case CUDA_ERROR_INVALID_VALUE:
		return ORIEL_ERR_INVALID;
	case CUDA_ERROR_NOT_SUPPORTED:
	case CUDA_ERROR_NOT_PERMITTED:
	case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
	case CUDA_ERROR_INVALID_DEVICE:
		return ORIEL_ERR_UNSUPPORTED;
	default:
		return ORIEL_ERR_SYSTEM;
	}
}

enum oriel_status ori_cuda_fail(CUresult result, const char *format, ...)
{
	char what[512];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return ori_fail(cuda_status(result), "%s: %s: %s", what, cuda_error_name(result),
			cuda_error_text(result));
}
