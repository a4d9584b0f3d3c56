/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the memory probes, with and without a sandbox that forbids process_vm_readv(). */
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

#include "base/memory_probe.h"

#define PAGE 4096u

/* Map two pages: the second is inaccessible, the first is read-only if @is_fixed. */
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

static void test_readable_memory_is_read(void **state)
{
	char *at = pages(true), seen[64] = {0};

	(void)state;
	assert_true(ori_probe_read(seen, at + PAGE - 64, 64));
	assert_int_equal(seen[0], 7);
	assert_int_equal(seen[63], 7);
	assert_false(ori_probe_read(seen, at + PAGE - 63, 64));
	assert_false(ori_probe_read(seen, at + PAGE, 1));
	assert_true(ori_probe_read(seen, at + PAGE, 0));
	assert_int_equal(munmap(at, 2 * PAGE), 0);
	assert_false(ori_probe_read(seen, at, 1));
}

static void test_writable_memory_is_written(void **state)
{
	char *at = pages(false), *fixed = pages(true);

	(void)state;
	assert_true(ori_probe_write(at + PAGE - 4, "abcd", 4));
	assert_memory_equal(at + PAGE - 4, "abcd", 4);
	assert_int_equal(at[PAGE - 5], 7);
	assert_false(ori_probe_write(at + PAGE - 3, "abcd", 4));
	assert_false(ori_probe_write(fixed, "a", 1));
	assert_int_equal(fixed[0], 7);
	assert_true(ori_probe_write(fixed, "a", 0));
	assert_int_equal(munmap(at, 2 * PAGE), 0);
	assert_int_equal(munmap(fixed, 2 * PAGE), 0);
}

static bool may_read(void *at, size_t length)
{
	return ori_probe_may_read(at, length);
}

static bool looks_readable(void *at, size_t length)
{
	return ori_probe_looks_readable(at, length);
}

static const struct {
	bool (*look)(void *at, size_t length);
	bool is_exact, writes, spoils;
} looks[] = {
	{may_read, true, false, false},
	{looks_readable, false, false, false},
	{ori_probe_may_overwrite, true, true, true},
	{ori_probe_looks_writable, false, true, false},
};

/* Are all bytes still 7? */
static bool is_unchanged(const char *at, size_t length)
{
	size_t i = 0;

	while (i < length && at[i] == 7)
		i++;
	return i == length;
}

static void test_probes_find_inaccessible_ends_and_holes(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
		bool (*look)(void *, size_t) = looks[i].look;
		char *at = pages(false), *fixed = pages(true);

		assert_true(look(at, PAGE));
		assert_true(looks[i].spoils || is_unchanged(at, PAGE));
		memset(at, 7, PAGE);
		for (size_t length = 1; length < 24; length++) {
			assert_true(look(at + PAGE - length, length));
			assert_true(looks[i].spoils || is_unchanged(at, PAGE));
			assert_false(look(at + PAGE - length + 1, length));
			assert_false(look(at + PAGE, length));
			assert_int_equal(look(fixed + 3, length), !looks[i].writes);
		}
		memset(at, 7, PAGE);
		assert_true(look(at + 32, 24));
		/* The bytes before and behind it are unchanged. */
		assert_true(is_unchanged(at, 32) && is_unchanged(at + 56, PAGE - 56));
		assert_true(look(at + PAGE, 0));
		assert_false(look(at, 2 * PAGE));
		assert_false(look(NULL, 1));
		assert_false(look(at, SIZE_MAX));
		assert_false(look((void *)(UINTPTR_MAX - 1), 1));
		assert_int_equal(munmap(at, 2 * PAGE), 0);
		assert_int_equal(munmap(fixed, 2 * PAGE), 0);
	}
}

/* One of twenty pages is inaccessible, then unmapped. */
static void test_full_probes_check_every_page(void **state)
{
	unsigned i, hole;

	(void)state;
	for (i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
		for (hole = 0; hole < 20; hole++) {
			char *at = mmap(NULL, 20 * PAGE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			bool is_end = hole == 0 || hole == 19;

			assert_true(at != MAP_FAILED);
			assert_true(looks[i].look(at + 1, 20 * PAGE - 2));
			assert_int_equal(mprotect(at + hole * PAGE, PAGE, PROT_NONE), 0);
			assert_int_equal(looks[i].look(at + 1, 20 * PAGE - 2),
					 !looks[i].is_exact && !is_end);
			assert_int_equal(munmap(at + hole * PAGE, PAGE), 0);
			assert_false(looks[i].look(at + 1, 20 * PAGE - 2));
			assert_int_equal(munmap(at, 20 * PAGE), 0);
		}
}

/* From here on process_vm_readv() fails, as in a sandbox. */
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
		cmocka_unit_test(test_readable_memory_is_read),
		cmocka_unit_test(test_writable_memory_is_written),
		cmocka_unit_test(test_probes_find_inaccessible_ends_and_holes),
		cmocka_unit_test(test_full_probes_check_every_page),
		cmocka_unit_test(test_sandbox),
		cmocka_unit_test(test_readable_memory_is_read),
		cmocka_unit_test(test_writable_memory_is_written),
	};

	return cmocka_run_group_tests_name("touch", tests, NULL, NULL);
}
