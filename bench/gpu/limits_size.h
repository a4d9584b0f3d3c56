/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes that the parts of limits.cu share. */
#ifndef BENCH_GPU_LIMITS_SIZE_H
#define BENCH_GPU_LIMITS_SIZE_H

#include "samples.h"

#define SAMPLES 30
#define ROUNDS 200u
#define LOST 20000000u /* polls before a kernel gives up */

#endif
