/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels on the CPU, from the same source. */
#include <stdlib.h>
#include <string.h>

#include "fakecuda.h"
#include "kernels/kernels.h"
#include "stream.h"

#define FATBIN 0xba55ed50u /* magic number of a fatbin header */

struct CUmod_st {
	unsigned kernels;
};

struct CUfunc_st {
	const char *name;
	fake_run *run;
	unsigned threads;
};

#define LAUNCH_DECLARE(number, name, threads) \
	void stream_##name(struct oriel_dev_window window, struct ori_kernel_call call);
ORI_KERNELS(LAUNCH_DECLARE)

#define LAUNCH_ROW(number, name, threads) {"stream_" #name, stream_##name, threads},
static struct CUfunc_st kernels[] = {ORI_KERNELS(LAUNCH_ROW)};

unsigned fakecuda_kernels(void)
{
	return FAKECUDA_KERNELS ? ORI_KERNEL_COUNT : 0;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	unsigned begin;

	memcpy(&begin, image, sizeof(begin));
	if (fake_current() < 0 || begin != FATBIN || fake_fails("cuModuleLoadData"))
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	fake_wait_device(fake_current());
	*module = calloc(1, sizeof(**module));
	fake_count(1);
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
	fake_wait_device(fake_current());
	free(module);
	fake_count(-1);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		if (strcmp(kernels[i].name, name) == 0 && !fake_fails("cuModuleGetFunction")) {
			*function = &kernels[i];
			module->kernels++;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
	if (!f || attribute != CU_FUNC_ATTRIBUTE_PTX_VERSION)
		return CUDA_ERROR_INVALID_VALUE;
	*value = fake_number("FAKECUDA_PTX", 90);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
			CUstream stream, void **arguments, void **extra)
{
	struct fake_op op = {.kind = FAKE_KERNEL, .run = f->run};

	/* The blocks of one launch are iterations of a loop in the kernel. */
	if (!grid_x || grid_y != 1 || grid_z != 1 || block_x != f->threads || block_y != 1 ||
	    block_z != 1 || shared || extra || !stream || fake_fails("cuLaunchKernel"))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&op.window, arguments[0], sizeof(op.window));
	memcpy(&op.call, arguments[1], sizeof(op.call));
	if (grid_x != 1 && grid_x != op.call.parts)
		return CUDA_ERROR_INVALID_VALUE;
	fake_count_kernel(grid_x);
	return fake_post(fake_stream(stream), &op);
}

/* Only kernels that wait for those ahead of them may be launched early. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **arguments,
			  void **extra)
{
	const CUlaunchAttribute *early = config->attrs;

	if (config->numAttrs != 1 ||
	    early->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ||
	    early->value.programmaticStreamSerializationAllowed != 1 ||
	    fake_number("FAKECUDA_PTX", 90) < 90 ||
	    fake_number("FAKECUDA_DRIVER", CUDA_VERSION) < 12030)
		return CUDA_ERROR_NOT_SUPPORTED;
	fake_count_early();
	return cuLaunchKernel(f, config->gridDimX, config->gridDimY, config->gridDimZ,
			      config->blockDimX, config->blockDimY, config->blockDimZ,
			      config->sharedMemBytes, config->hStream, arguments, extra);
}
