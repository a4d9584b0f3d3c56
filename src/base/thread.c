/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a thread of the library, with all signals blocked: proxies, watchers, listeners. The
 * modules that own such threads call it.
 */
#include "base/thread.h"

#include <signal.h>

int ori_thread_start(pthread_t *thread, void *(*run)(void *context), void *context)
{
	sigset_t all, before;
	int error;

	/* A new thread inherits the mask, so no signal reaches it even before it runs. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
