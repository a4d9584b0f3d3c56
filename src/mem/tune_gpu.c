/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream that `oriel tune` runs collectives in (oriel/tune.h). In mem/ because tools link only
 * the public library.
 */
#include <oriel/tune.h>

#include "sys/gpu.h"

enum oriel_status oriel_tune_gpu_open(unsigned rank, void **stream)
{
	return ori_gpu_primary_open(rank, stream);
}

enum oriel_status oriel_tune_gpu_wait(void *stream)
{
	return ori_gpu_primary_wait(stream);
}

void oriel_tune_gpu_close(void *stream)
{
	ori_gpu_primary_close(stream);
}
