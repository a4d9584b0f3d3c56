/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/touch.h"

#define PAGE 4096u

/* Two pages, the second of which may not be touched, the first not written if @is_fixed. */
static char *pages(bool is_fixed)
{
	char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	memset(at, 7, 2 * PAGE);
	assert_int_equal(mprotect(at + PAGE, PAGE, PROT_NONE), 0);
	if (is_fixed)
		assert_int_equal(mprotect(at, PAGE, PROT_READ), 0);
	return at;
}

static void test_what_is_there_is_read(void **state)
{
	char *at = pages(true), seen[64] = {0};

	(void)state;
	assert_true(ori_touch_read(seen, at + PAGE - 64, 64));
	assert_int_equal(seen[0], 7);
	assert_int_equal(seen[63], 7);
	assert_false(ori_touch_read(seen, at + PAGE - 63, 64));
	assert_false(ori_touch_read(seen, at + PAGE, 1));
	assert_true(ori_touch_read(seen, at + PAGE, 0));
	assert_int_equal(munmap(at, 2 * PAGE), 0);
	assert_false(ori_touch_read(seen, at, 1));
}

static void test_what_may_be_written_is_written(void **state)
{
	char *at = pages(false), *fixed = pages(true);

	(void)state;
	assert_true(ori_touch_write(at + PAGE - 4, "abcd", 4));
	assert_memory_equal(at + PAGE - 4, "abcd", 4);
	assert_int_equal(at[PAGE - 5], 7);
	assert_false(ori_touch_write(at + PAGE - 3, "abcd", 4));
	assert_false(ori_touch_write(fixed, "a", 1));
	assert_int_equal(fixed[0], 7);
	assert_true(ori_touch_write(fixed, "a", 0));
	assert_int_equal(munmap(at, 2 * PAGE), 0);
	assert_int_equal(munmap(fixed, 2 * PAGE), 0);
}

/* As a sandbox does it, from here on. */
static void test_sandbox(void **state)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]), .filter = rules};
	struct iovec byte = {.iov_base = &program, .iov_len = 1};

	(void)state;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		skip();
	assert_int_equal(process_vm_readv(getpid(), &byte, 1, &byte, 1, 0), -1);
	assert_int_equal(errno, EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_there_is_read),
		cmocka_unit_test(test_what_may_be_written_is_written),
		cmocka_unit_test(test_sandbox),
		cmocka_unit_test(test_what_is_there_is_read),
		cmocka_unit_test(test_what_may_be_written_is_written),
	};

	return cmocka_run_group_tests_name("touch", tests, NULL, NULL);
}
