/* SPDX-License-Identifier: Apache-2.0 */
#include "base/touch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define TOUCH_PIPE 4096u /* bytes that an empty pipe takes at once */
#define TOUCH_PAGE 4096u /* at most as long as any page is */
#define TOUCH_SET 8u     /* bytes of the signals of the kernel */

/* Both calls of a pipe look at the memory that they are given. */
static bool touch_through(const int pipe[2], char *to, const char *from, size_t length)
{
	while (length > 0) {
		ssize_t moved = write(pipe[1], from, length < TOUCH_PIPE ? length : TOUCH_PIPE);

		if (moved <= 0 || read(pipe[0], to, (size_t)moved) != moved)
			return false;
		to += moved;
		from += moved;
		length -= (size_t)moved;
	}
	return true;
}

static bool touch_by_pipe(void *to, const void *from, size_t length)
{
	int pipe[2];
	bool is_there;

	if (pipe2(pipe, O_CLOEXEC) < 0)
		return false;
	is_there = touch_through(pipe, to, from, length);
	close(pipe[0]);
	close(pipe[1]);
	return is_there;
}

bool ori_touch_read(void *to, const void *from, size_t length)
{
	struct iovec here = {.iov_base = to, .iov_len = length};
	struct iovec there = {.iov_base = (void *)(uintptr_t)from, .iov_len = length};
	ssize_t moved;

	if (!length)
		return true;
	moved = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
	if (moved >= 0 || errno == EFAULT)
		return moved == (ssize_t)length;
	return touch_by_pipe(to, from, length);
}

bool ori_touch_write(void *to, const void *from, size_t length)
{
	struct iovec here = {.iov_base = (void *)(uintptr_t)from, .iov_len = length};
	struct iovec there = {.iov_base = to, .iov_len = length};
	ssize_t moved;

	if (!length)
		return true;
	moved = process_vm_writev(getpid(), &here, 1, &there, 1, 0);
	if (moved >= 0 || errno == EFAULT)
		return moved == (ssize_t)length;
	return touch_by_pipe(to, from, length);
}

/*
 * The kernel reads the new set of signals before it looks at what to do with it, which is
 * nothing here: 0.2 us in a guest, where process_vm_readv() takes 3.2. Abseil's
 * AddressIsReadable() does the same.
 */
static bool touch_page(uintptr_t at)
{
	/* The last of the page: no set at all would be at the beginning of the first one. */
	uintptr_t set = (at | (TOUCH_PAGE - 1)) - (TOUCH_SET - 1);

	return syscall(SYS_rt_sigprocmask, -1, set, NULL, TOUCH_SET) == 0 || errno != EFAULT;
}

/* The old set of signals, which nobody wants, goes there. */
static bool touch_overwrite(uintptr_t at)
{
	return at && syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, at, TOUCH_SET) == 0;
}

/* An atomic operation of the kernel adds 0 to the word. */
static bool touch_add_nothing(uintptr_t at)
{
	const int add = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, 0);
	uint32_t nobody = 0;

	return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0, at & ~3ul,
		       add) >= 0 ||
	       errno != EFAULT;
}

/* The last byte of @at; false if there is no such address. */
static bool touch_end(const void *at, size_t length, uintptr_t *last)
{
	return !__builtin_add_overflow((uintptr_t)at, length - 1, last);
}

static uintptr_t touch_next_page(uintptr_t at)
{
	return (at & ~(uintptr_t)(TOUCH_PAGE - 1)) + TOUCH_PAGE;
}

bool ori_touch_may_read(const void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, last;

	if (!length)
		return true;
	if (!touch_end(address, length, &last))
		return false;
	for (; at <= last; at = touch_next_page(at)) {
		if (!touch_page(at))
			return false;
		if (touch_next_page(at) < at)
			break;
	}
	return true;
}

bool ori_touch_may_overwrite(void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, last;

	if (!length)
		return true;
	if (!touch_end(address, length, &last))
		return false;
	/* Few bytes have no room for a set of signals. */
	if (length < TOUCH_SET)
		return touch_add_nothing(at) && touch_add_nothing(last);
	for (; last - at >= TOUCH_SET; at = touch_next_page(at))
		if (!touch_overwrite(at))
			return false;
		else if (last - at < TOUCH_PAGE)
			break;
	return touch_overwrite(last - TOUCH_SET + 1);
}

/* Is something mapped everywhere from @at to @last? That is all that this call looks at. */
static bool touch_is_mapped(uintptr_t at, uintptr_t last)
{
	uintptr_t page = at & ~(uintptr_t)(TOUCH_PAGE - 1);

	return syscall(SYS_msync, page, last - page + 1, MS_ASYNC) == 0 || errno != ENOMEM;
}

bool ori_touch_looks_readable(const void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, last;

	if (!length)
		return true;
	if (!touch_end(address, length, &last) || !touch_page(at))
		return false;
	if (touch_next_page(at) > last)
		return true;
	return touch_page(last) && touch_is_mapped(at, last);
}

bool ori_touch_looks_writable(void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, last;

	if (!length)
		return true;
	if (!touch_end(address, length, &last) || !touch_add_nothing(at))
		return false;
	if (touch_next_page(at) > last)
		return true;
	return touch_add_nothing(last) && touch_is_mapped(at, last);
}
