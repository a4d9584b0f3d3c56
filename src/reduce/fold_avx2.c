/* SPDX-License-Identifier: Apache-2.0 */
/* The loops for x86-64 with AVX2; the build gives this file its options. fold.c calls them. */
#define FOLD_SET ori_fold_avx2
#define FOLD_NAME "avx2"
#define FOLD_SUPPORTED __builtin_cpu_supports("avx2")

#include "reduce/fold_loops.h"
