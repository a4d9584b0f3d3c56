/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream that `oriel tune` and `oriel perf` run collectives in (oriel/tune.h). In mem/ because
 * tools link only the public library.
 */
#include <oriel/tune.h>

#include "base/error.h"
#include "sys/gpu.h"

enum oriel_status oriel_tune_gpu_open(unsigned rank, struct CUstream_st **stream)
{
	enum oriel_status status;
	void *opened = NULL;

	if (!stream)
		return ori_fail_null(__func__, "stream");
	status = ori_gpu_primary_open(rank, &opened);
	if (status == ORIEL_OK)
		*stream = opened;
	return status;
}

enum oriel_status oriel_tune_gpu_wait(struct CUstream_st *stream)
{
	return ori_gpu_primary_wait(stream);
}

void oriel_tune_gpu_close(struct CUstream_st *stream)
{
	ori_gpu_primary_close(stream);
}
