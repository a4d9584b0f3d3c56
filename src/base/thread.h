/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library. */
#ifndef ORI_BASE_THREAD_H
#define ORI_BASE_THREAD_H

#include <pthread.h>

/*
 * pthread_create() of one that takes no signals: these are for the threads of the
 * program. Returns what that does, a number of errno.
 */
int ori_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

#endif
