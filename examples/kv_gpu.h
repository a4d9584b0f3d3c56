/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU by its driver alone, which is loaded when somebody asks for it. */
#ifndef EXAMPLES_KV_GPU_H
#define EXAMPLES_KV_GPU_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Make number @number, modulo how many there are, that of this thread. @why: NULL, or
 * what is missing, which is as with a machine without.
 */
bool kv_gpu_open(unsigned number, const char **why);

/* Between memory of the host and of that GPU; done on return. */
bool kv_gpu_write(void *to, const void *from, size_t length);
bool kv_gpu_read(void *to, const void *from, size_t length);

#endif
