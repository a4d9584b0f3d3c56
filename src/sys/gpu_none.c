/* SPDX-License-Identifier: Apache-2.0 */
/* In place of gpu_cuda.c, where cuda.h was not found when the library was built. */
#include "base/error.h"
#include "sys/gpu.h"

enum oriel_status ori_gpu_open(struct ori_gpu *gpu)
{
	(void)gpu;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "this library was built without cuda.h");
}

enum oriel_status ori_gpu_open_again(const struct ori_gpu *gpu, struct ori_gpu *again)
{
	(void)gpu;
	return ori_gpu_open(again);
}

void ori_gpu_close(struct ori_gpu *gpu)
{
	*gpu = (struct ori_gpu){0};
}
