/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of memory: system calls that read or write a user address report EFAULT where a load
 * would raise SIGSEGV. The software HCA calls it for addresses in requests; so do src/p2p and
 * src/window.
 */
#include "base/memory_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PROBE_PIPE 4096u /* bytes that an empty pipe takes at once */
#define PROBE_PAGE 4096u /* no page is smaller */
#define PROBE_SIGSET 8u  /* bytes of the kernel's set of signals */

/* write() checks the source and read() the destination, so neither can raise a signal. */
static bool probe_through(const int pipe[2], char *to, const char *from, size_t length)
{
	while (length > 0) {
		ssize_t moved = write(pipe[1], from, length < PROBE_PIPE ? length : PROBE_PIPE);

		if (moved <= 0 || read(pipe[0], to, (size_t)moved) != moved)
			return false;
		to += moved;
		from += moved;
		length -= (size_t)moved;
	}
	return true;
}

static bool probe_by_pipe(void *to, const void *from, size_t length)
{
	int pipe[2];
	bool is_copied;

	if (pipe2(pipe, O_CLOEXEC) < 0)
		return false;
	is_copied = probe_through(pipe, to, from, length);
	close(pipe[0]);
	close(pipe[1]);
	return is_copied;
}

bool ori_probe_read(void *to, const void *from, size_t length)
{
	struct iovec here = {.iov_base = to, .iov_len = length};
	struct iovec there = {.iov_base = (void *)(uintptr_t)from, .iov_len = length};
	ssize_t moved;

	if (!length)
		return true;
	moved = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
	if (moved >= 0 || errno == EFAULT)
		return moved == (ssize_t)length;
	return probe_by_pipe(to, from, length);
}

bool ori_probe_write(void *to, const void *from, size_t length)
{
	struct iovec here = {.iov_base = (void *)(uintptr_t)from, .iov_len = length};
	struct iovec there = {.iov_base = to, .iov_len = length};
	ssize_t moved;

	if (!length)
		return true;
	moved = process_vm_writev(getpid(), &here, 1, &there, 1, 0);
	if (moved >= 0 || errno == EFAULT)
		return moved == (ssize_t)length;
	return probe_by_pipe(to, from, length);
}

/*
 * The kernel reads the new set of signals before it checks the operation, which is invalid here,
 * so no mask changes: 0.2 us in a virtual machine, where process_vm_readv() takes 3.2. Abseil's
 * AddressIsReadable() does the same.
 */
static bool probe_page(uintptr_t at)
{
	/* The last set of the page: at the beginning of page 0 the pointer would be NULL, no set.
	 */
	uintptr_t set = (at | (PROBE_PAGE - 1)) - (PROBE_SIGSET - 1);

	return syscall(SYS_rt_sigprocmask, -1, set, NULL, PROBE_SIGSET) == 0 || errno != EFAULT;
}

/* The kernel writes the old set of signals to @at; no new set is given, so no mask changes. */
static bool probe_overwrite(uintptr_t at)
{
	return at && syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, at, PROBE_SIGSET) == 0;
}

/* An atomic operation of the kernel adds 0 to the word, so a concurrent change survives. */
static bool probe_add_zero(uintptr_t at)
{
	const int add = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, 0);
	uint32_t unused = 0;

	return syscall(SYS_futex, &unused, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, at & ~3ul,
		       add) >= 0 ||
	       errno != EFAULT;
}

/* The address of the last byte; false if the sum overflows. */
static bool probe_last(const void *at, size_t length, uintptr_t *last)
{
	return !__builtin_add_overflow((uintptr_t)at, length - 1, last);
}

static uintptr_t probe_next_page(uintptr_t at)
{
	return (at & ~(uintptr_t)(PROBE_PAGE - 1)) + PROBE_PAGE;
}

bool ori_probe_may_read(const void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, last;

	if (!length)
		return true;
	if (!probe_last(address, length, &last))
		return false;
	for (; at <= last; at = probe_next_page(at)) {
		if (!probe_page(at))
			return false;
		if (probe_next_page(at) < at)
			break;
	}
	return true;
}

bool ori_probe_may_overwrite(void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, last;

	if (!length)
		return true;
	if (!probe_last(address, length, &last))
		return false;
	/* A set of signals does not fit in fewer bytes. */
	if (length < PROBE_SIGSET)
		return probe_add_zero(at) && probe_add_zero(last);
	for (; last - at >= PROBE_SIGSET; at = probe_next_page(at))
		if (!probe_overwrite(at))
			return false;
		else if (last - at < PROBE_PAGE)
			break;
	return probe_overwrite(last - PROBE_SIGSET + 1);
}

/* Is every page from @at to @last mapped? msync() does not check the permissions. */
static bool probe_is_mapped(uintptr_t at, uintptr_t last)
{
	uintptr_t page = at & ~(uintptr_t)(PROBE_PAGE - 1);

	return syscall(SYS_msync, page, last - page + 1, MS_ASYNC) == 0 || errno != ENOMEM;
}

bool ori_probe_looks_readable(const void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, last;

	if (!length)
		return true;
	if (!probe_last(address, length, &last) || !probe_page(at))
		return false;
	if (probe_next_page(at) > last)
		return true;
	return probe_page(last) && probe_is_mapped(at, last);
}

bool ori_probe_looks_writable(void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, last;

	if (!length)
		return true;
	if (!probe_last(address, length, &last) || !probe_add_zero(at))
		return false;
	if (probe_next_page(at) > last)
		return true;
	return probe_add_zero(last) && probe_is_mapped(at, last);
}
