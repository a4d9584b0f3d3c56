/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random token that identifies this process, random bytes of the kernel, and the end of other
 * processes. topo/host.c, mem/, bootstrap/ and comm/survive.c call it.
 */
#include "sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* /proc/PID/stat, proc(5): the name is in the last parentheses, and may have others inside. */
/* A /proc of another namespace of processes has others by the same numbers. */
static bool process_is_listed(void)
{
	char number[16] = "";

	return readlink("/proc/self", number, sizeof(number) - 1) > 0 && atoi(number) == getpid();
}

uint64_t ori_process_birth(unsigned pid)
{
	char path[32], stat[512];
	uint64_t birth = 0;
	const char *at;
	ssize_t length;
	int fd;

	if (!process_is_listed())
		return 0;
	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	length = read(fd, stat, sizeof(stat) - 1);
	close(fd);
	stat[length > 0 ? length : 0] = '\0';
	at = strrchr(stat, ')');
	/* Field 22; the state, behind the name, is field 3. */
	if (!at || sscanf(at + 1,
			  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			  "%*d %*d %" SCNu64,
			  &birth) != 1)
		return 0;
	return birth;
}

/*
 * A pidfd is readable once all threads of its process have ended, also before its parent has waited
 * for it (pidfd_open(2)). The descriptor is older than the second look: if that still sees the
 * process, the descriptor is of no other one.
 */
bool ori_process_has_ended(unsigned pid, uint64_t birth)
{
	struct pollfd ended = {.events = POLLIN};
	uint64_t now;
	bool has_ended;

	if (!birth)
		return false;
	ended.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	has_ended = ended.fd < 0 && errno == ESRCH;
	now = ori_process_birth(pid);
	has_ended |= now && now != birth;
	if (ended.fd < 0)
		return has_ended;
	has_ended |= poll(&ended, 1, 0) == 1;
	close(ended.fd);
	return has_ended;
}
