/* SPDX-License-Identifier: Apache-2.0 */
/* The loops for x86-64 with AVX-512; the build gives this file its options. fold.c calls them. */
#define FOLD_SET ori_fold_avx512
#define FOLD_NAME "avx512"
#define FOLD_SUPPORTED                                                              \
	(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && \
	 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))

#include "reduce/fold_loops.h"
