/* SPDX-License-Identifier: Apache-2.0 */
/* The loops for every processor: SSE2 on x86-64, NEON on AArch64. fold.c calls them. */
#define FOLD_SET ori_fold_plain
#define FOLD_NAME "plain"
#define FOLD_SUPPORTED true

#include "reduce/fold_loops.h"
