/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU through the driver alone, which is loaded at the first call. */
#ifndef EXAMPLES_KV_GPU_H
#define EXAMPLES_KV_GPU_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Make GPU number @number, modulo the number of GPUs, current in this thread. @why: NULL, or the
 * reason for the failure, as on a machine without a GPU.
 */
bool kv_gpu_open(unsigned number, const char **why);

/* Copy between host memory and that GPU; complete on return. */
bool kv_gpu_write(void *to, const void *from, size_t length);
bool kv_gpu_read(void *to, const void *from, size_t length);

#endif
