/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs for `oriel tune`, by the driver alone, which is looked for when it is needed. */
#ifndef ORIEL_TUNE_GPU_H
#define ORIEL_TUNE_GPU_H

#include <stdbool.h>

struct tune_gpu;

/* GPU number @rank, modulo how many there are, becomes current; NULL, and told, if it cannot. */
struct tune_gpu *tune_gpu_open(unsigned rank, void **stream);
void tune_gpu_close(struct tune_gpu *gpu); /* NULL is allowed */
/* Until the stream is empty. */
bool tune_gpu_wait(struct tune_gpu *gpu);

#endif
