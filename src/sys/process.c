/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random token that identifies this process, and random bytes of the kernel. topo/host.c, mem/
 * and bootstrap/ call it.
 */
#include "sys/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "base/error.h"

static atomic_uint_fast64_t process_token;

/* Runs in the child of fork(), where no other thread exists yet. */
static void process_forget_token(void)
{
	atomic_store_explicit(&process_token, 0, memory_order_relaxed);
}

static void process_watch_fork(void)
{
	pthread_atfork(NULL, NULL, process_forget_token);
}

enum oriel_status ori_random(void *bytes, size_t length)
{
	char *at = bytes;

	while (length > 0) {
		ssize_t n = getrandom(at, length, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return ori_fail_errno(ORIEL_ERR_SYSTEM, "no random bytes from the kernel");
		at += n;
		length -= (size_t)n;
	}
	return ORIEL_OK;
}

enum oriel_status ori_process_token(uint64_t *token)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint_fast64_t current = 0;
	uint64_t fresh = 0;

	pthread_once(&once, process_watch_fork);
	while (fresh == 0) {
		enum oriel_status status = ori_random(&fresh, sizeof(fresh));

		if (status != ORIEL_OK)
			return status;
	}
	/* Relaxed: the token is a plain value, no other data is published through it. */
	if (atomic_compare_exchange_strong_explicit(&process_token, &current, fresh,
						    memory_order_relaxed, memory_order_relaxed))
		current = fresh;
	*token = current;
	return ORIEL_OK;
}
