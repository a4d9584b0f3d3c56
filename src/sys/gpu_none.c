/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces gpu_cuda.c in builds without cuda.h: every open fails. */
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

enum oriel_status ori_gpu_primary_open(unsigned number, void **stream)
{
	(void)number;
	(void)stream;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "this library was built without cuda.h");
}

enum oriel_status ori_gpu_primary_wait(void *stream)
{
	(void)stream;
	return ORIEL_ERR_UNSUPPORTED;
}

void ori_gpu_primary_close(void *stream)
{
	(void)stream;
}

void ori_gpu_close(struct ori_gpu *gpu)
{
	*gpu = (struct ori_gpu){0};
}
