/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the rank of a job that fails: kill_rank.c arms it where a phase begins, and at the
 * Nth call of these functions from then on, by any thread, the fault KILL_FAULT happens. Calls that
 * a phase makes are its steps: a seed of kill_test.py picks one.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FDS 1024 /* beyond those of a rank */
#define EXIT_CODE 7
#define FIRING (-1) /* a thread is at it */

/* Weak symbols of kill_rank.c. */
void kill_shim_arm(long steps);
void kill_shim_end(void);

static atomic_long steps_left; /* 0: not armed, or done */
static _Thread_local bool is_firing;

/* It says so when it is done: nothing else shows it from outside. */
static void close_sockets(void)
{
	struct stat stat;
	int fd;

	for (fd = 3; fd < FDS; fd++)
		if (fstat(fd, &stat) == 0 && S_ISSOCK(stat.st_mode))
			shutdown(fd, SHUT_RDWR);
	if (write(STDOUT_FILENO, "FIRED\n", 6) != 6)
		_exit(3);
}

/*
 * Other threads do not get past their next call until it is done: exit() takes a while, in which
 * they would end the job as if nothing had happened.
 */
static void fire(void)
{
	const char *fault = getenv("KILL_FAULT");
	int before = errno;

	is_firing = true;
	if (!fault)
		_exit(3);
	if (strcmp(fault, "kill") == 0)
		kill(getpid(), SIGKILL);
	else if (strcmp(fault, "segv") == 0)
		kill(getpid(), SIGSEGV);
	else if (strcmp(fault, "exit") == 0)
		exit(EXIT_CODE);
	else if (strcmp(fault, "socket") == 0)
		close_sockets();
	else
		kill(getpid(), SIGSTOP); /* kill_test.py continues it, or cuts the cable first */
	atomic_store(&steps_left, 0);
	errno = before;
}

void kill_shim_arm(long steps)
{
	atomic_store(&steps_left, steps);
}

/* One of the steps that are left, or @all of them: the fault comes with the last. */
static void take(bool all)
{
	long left = atomic_load(&steps_left);

	while (left > 0 && !atomic_compare_exchange_weak(&steps_left, &left,
							 all || left == 1 ? FIRING : left - 1))
		;
	if (left > 0 && (all || left == 1))
		fire();
	while (atomic_load(&steps_left) == FIRING && !is_firing)
		usleep(1000);
}

/* The phase is over. */
void kill_shim_end(void)
{
	take(true);
}

static void step(void)
{
	take(false);
}

/* Linux has no system calls poll and epoll_wait on AArch64. */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	const struct timespec limit = {timeout / 1000, timeout % 1000 * 1000000L};

	step();
	return ppoll(fds, count, timeout < 0 ? NULL : &limit, NULL);
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
	step();
	return epoll_pwait(fd, events, count, timeout, NULL);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	step();
	return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	step();
	return syscall(SYS_recvmsg, fd, message, flags);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
	step();
	return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

ssize_t recv(int fd, void *bytes, size_t length, int flags)
{
	step();
	return syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
}

ssize_t read(int fd, void *bytes, size_t length)
{
	step();
	return syscall(SYS_read, fd, bytes, length);
}

int socket(int family, int type, int protocol)
{
	step();
	return (int)syscall(SYS_socket, family, type, protocol);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	step();
	return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

int munmap(void *address, size_t length)
{
	step();
	return (int)syscall(SYS_munmap, address, length);
}

int ftruncate(int fd, off_t length)
{
	step();
	return (int)syscall(SYS_ftruncate, fd, length);
}

int close(int fd)
{
	step();
	return (int)syscall(SYS_close, fd);
}
