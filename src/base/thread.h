/* SPDX-License-Identifier: Apache-2.0 */
/* Creates threads of the library. Modules that need a thread of their own call it. */
#ifndef ORI_BASE_THREAD_H
#define ORI_BASE_THREAD_H

#include <pthread.h>

/*
 * pthread_create() of a thread with all signals blocked: signals are for the threads of the
 * program. Returns the result of pthread_create(), 0 or a number of errno.
 */
int ori_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

#endif
