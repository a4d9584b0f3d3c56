/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory: sizes, seals, offsets and huge pages. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/count_fds.h"
#include "mem/memfd.h"
#include "sys/hugepages.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static int make_file(size_t length, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void test_memory_is_zeroed_and_rounded_to_pages(void **state)
{
	unsigned before = count_fds();
	struct ori_memfd_map map;
	size_t length = PAGE + 1;
	int fd;

	(void)state;
	assert_int_equal(ori_memfd_open(false, &length, &fd, &map), ORIEL_OK);
	assert_int_equal(length, 2 * PAGE);
	assert_int_equal(map.length, length);
	assert_int_equal(map.lead, 0);
	for (size_t i = 0; i < length; i++)
		assert_int_equal(map.base[i], 0);
	ori_memfd_unmap(&map);
	close(fd);
	assert_int_equal(count_fds(), before);
}

static void test_the_file_cannot_be_resized_or_unsealed(void **state)
{
	struct ori_memfd_map map;
	size_t length = 4 * PAGE;
	int fd;

	(void)state;
	assert_int_equal(ori_memfd_open(false, &length, &fd, &map), ORIEL_OK);
	assert_int_equal(ftruncate(fd, (off_t)PAGE), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, (off_t)(8 * PAGE)), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	map.base[length - 1] = 1;
	ori_memfd_unmap(&map);
	close(fd);
}

static void test_impossible_lengths_are_rejected(void **state)
{
	static const size_t table[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 4};
	unsigned before = count_fds();

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct ori_memfd_map map;
		size_t length = table[i];
		int fd;

		assert_true(ori_memfd_open(false, &length, &fd, &map) < 0);
		assert_int_equal(length, table[i]);
	}
	assert_int_equal(count_fds(), before);
}

/* By default the kernel ends a process that exceeds the limit. */
static void test_a_limit_of_file_sizes_is_an_error(void **state)
{
	struct rlimit before, few;
	struct ori_memfd_map map;
	size_t length = 2 * PAGE;
	int fd;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	few = (struct rlimit){.rlim_cur = PAGE, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	assert_int_equal(ori_memfd_open(false, &length, &fd, &map), ORIEL_ERR_NOMEM);
	assert_non_null(strstr(oriel_last_error(), "raise ulimit -f: File too large"));
	length = PAGE;
	assert_int_equal(ori_memfd_open(false, &length, &fd, &map), ORIEL_OK);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	ori_memfd_unmap(&map);
	close(fd);
}

static void test_huge_pages_are_used_or_their_lack_is_explained(void **state)
{
	unsigned before = count_fds();
	struct ori_memfd_map map;
	struct ori_hugepages p;
	enum oriel_status status;
	size_t length = 100;
	int fd;

	(void)state;
	ori_hugepages_read(&p);
	status = ori_memfd_open(true, &length, &fd, &map);
	if (p.hugetlb_free == 0 && !p.is_thp_usable)
		assert_int_equal(status, ORIEL_ERR_UNSUPPORTED);
	if (status == ORIEL_OK) {
		assert_true(length > PAGE && length == map.length);
		assert_int_equal((uintptr_t)map.base % length, 0);
		map.base[length - 1] = 1;
		ori_memfd_unmap(&map);
		close(fd);
	} else {
		assert_int_equal(status, ORIEL_ERR_UNSUPPORTED);
		assert_non_null(strstr(oriel_last_error(), p.shmem_mode));
		assert_non_null(strstr(oriel_last_error(), "hugetlb"));
	}
	assert_int_equal(count_fds(), before);
}

/* Another program takes the last pages while this one asks for more than are left. */
static void test_hugetlb_pages_run_out(void **state)
{
	struct ori_memfd_map map;
	struct ori_hugepages p;
	enum oriel_status status;
	size_t length, taken;
	void *others;
	int fd;

	(void)state;
	ori_hugepages_read(&p);
	if (p.hugetlb_free == 0) {
		print_message("no hugetlb page of %llu is free (vm.nr_hugepages)\n",
			      (unsigned long long)p.hugetlb_total);
		skip();
	}
	taken = (p.hugetlb_free - 1) * p.hugetlb_size;
	others = taken ? mmap(NULL, taken, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0)
		       : NULL;
	assert_ptr_not_equal(others, MAP_FAILED);
	/* One is free, and two are wanted: none of them is found missing at its first use. */
	length = 2 * p.hugetlb_size;
	status = ori_memfd_open(true, &length, &fd, &map);
	if (status == ORIEL_OK) {
		assert_true(p.is_thp_usable);
		memset(map.base, 1, length);
		ori_memfd_unmap(&map);
		close(fd);
	} else {
		assert_int_equal(status, ORIEL_ERR_UNSUPPORTED);
		assert_non_null(strstr(oriel_last_error(), "hugetlb pages of"));
	}
	length = p.hugetlb_size;
	assert_int_equal(ori_memfd_open(true, &length, &fd, &map), ORIEL_OK);
	memset(map.base, 1, length);
	ori_memfd_unmap(&map);
	close(fd);
	if (taken)
		munmap(others, taken);
}

static void test_any_offset_can_be_mapped(void **state)
{
	int fd = make_file(4 * PAGE, F_SEAL_SHRINK);
	struct ori_memfd_map whole, part;

	(void)state;
	assert_int_equal(ori_memfd_map(fd, 0, 4 * PAGE, false, &whole), ORIEL_OK);
	assert_int_equal(ori_memfd_map(fd, PAGE + 7, 2 * PAGE, false, &part), ORIEL_OK);
	assert_int_equal(part.lead, 7);
	assert_int_equal(part.length, 3 * PAGE);
	strcpy(whole.base + PAGE + 7, "here");
	assert_string_equal(part.base + part.lead, "here");
	ori_memfd_unmap(&part);

	/*
	 * The address has the alignment of a huge page, since one is requested; the bytes are the
	 * same.
	 */
	assert_int_equal(ori_memfd_map(fd, PAGE + 7, 2 * PAGE, true, &part), ORIEL_OK);
	assert_string_equal(part.base + part.lead, "here");
	ori_memfd_unmap(&part);
	ori_memfd_unmap(&whole);
	close(fd);
}

static void test_offsets_that_overflow_are_rejected(void **state)
{
	int fd = make_file(PAGE, F_SEAL_SHRINK);
	struct ori_memfd_map map;

	(void)state;
	assert_int_equal(ori_memfd_map(fd, UINT64_MAX - PAGE, PAGE, false, &map), ORIEL_ERR_RANGE);
	assert_int_equal(ori_memfd_map(fd, 100, SIZE_MAX, false, &map), ORIEL_ERR_RANGE);
	assert_int_equal(ori_memfd_check(fd, UINT64_MAX, 2), ORIEL_ERR_PROTOCOL);
	close(fd);
}

static void test_short_or_unsealed_files_are_rejected(void **state)
{
	int sealed = make_file(2 * PAGE, F_SEAL_SHRINK), bare = make_file(2 * PAGE, F_SEAL_GROW);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)state;
	assert_int_equal(ori_memfd_check(sealed, PAGE, PAGE), ORIEL_OK);
	assert_int_equal(ori_memfd_check(sealed, PAGE, PAGE + 1), ORIEL_ERR_PROTOCOL);
	assert_non_null(strstr(oriel_last_error(), "bytes, not"));
	assert_int_equal(ori_memfd_check(bare, 0, PAGE), ORIEL_ERR_PROTOCOL);
	assert_non_null(strstr(oriel_last_error(), "not sealed against shrinking"));
	assert_int_equal(ori_memfd_check(null, 0, 1), ORIEL_ERR_PROTOCOL);
	close(sealed);
	close(bare);
	close(null);
}

static void test_only_writable_files_that_can_be_sealed_are(void **state)
{
	int good = make_file(PAGE, 0), read_only_file = make_file(PAGE, F_SEAL_WRITE);
	int closed_to_seals = make_file(PAGE, F_SEAL_SEAL);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), reader;
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", good);
	reader = open(name, O_RDONLY | O_CLOEXEC);
	assert_int_equal(ori_memfd_seal(reader), ORIEL_ERR_UNSUPPORTED);
	assert_int_equal(ori_memfd_seal(read_only_file), ORIEL_ERR_UNSUPPORTED);
	assert_int_equal(ori_memfd_seal(closed_to_seals), ORIEL_ERR_UNSUPPORTED);
	assert_int_equal(ori_memfd_seal(null), ORIEL_ERR_UNSUPPORTED);
	assert_int_equal(ori_memfd_seal(-1), ORIEL_ERR_INVALID);
	assert_int_equal(ori_memfd_seal(good), ORIEL_OK);
	assert_int_equal(ori_memfd_seal(good), ORIEL_OK);
	assert_int_equal(ftruncate(good, 0), -1);
	close(good);
	close(read_only_file);
	close(closed_to_seals);
	close(null);
	close(reader);
}

static void test_a_mapping_is_distinguished_from_others(void **state)
{
	int fd = make_file(4 * PAGE, F_SEAL_SHRINK), other = make_file(4 * PAGE, F_SEAL_SHRINK);
	char *shared = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)PAGE);
	char *copy = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, (off_t)PAGE);

	(void)state;
	/* Two adjacent areas of one file count as one mapping. */
	assert_int_equal(mprotect(shared + PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(ori_memfd_check_mapped(fd, PAGE, shared, 3 * PAGE), ORIEL_OK);
	assert_int_equal(ori_memfd_check_mapped(fd, PAGE + 9, shared + 9, PAGE), ORIEL_OK);

	assert_int_equal(ori_memfd_check_mapped(fd, 0, shared, PAGE), ORIEL_ERR_INVALID);
	assert_int_equal(ori_memfd_check_mapped(other, PAGE, shared, PAGE), ORIEL_ERR_INVALID);
	assert_int_equal(ori_memfd_check_mapped(fd, PAGE, copy, PAGE), ORIEL_ERR_INVALID);
	munmap(shared + 2 * PAGE, PAGE);
	assert_int_equal(ori_memfd_check_mapped(fd, PAGE, shared, 3 * PAGE), ORIEL_ERR_INVALID);
	munmap(shared, 2 * PAGE);
	munmap(copy, 3 * PAGE);
	close(fd);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_is_zeroed_and_rounded_to_pages),
		cmocka_unit_test(test_the_file_cannot_be_resized_or_unsealed),
		cmocka_unit_test(test_impossible_lengths_are_rejected),
		cmocka_unit_test(test_a_limit_of_file_sizes_is_an_error),
		cmocka_unit_test(test_huge_pages_are_used_or_their_lack_is_explained),
		cmocka_unit_test(test_hugetlb_pages_run_out),
		cmocka_unit_test(test_any_offset_can_be_mapped),
		cmocka_unit_test(test_offsets_that_overflow_are_rejected),
		cmocka_unit_test(test_short_or_unsealed_files_are_rejected),
		cmocka_unit_test(test_only_writable_files_that_can_be_sealed_are),
		cmocka_unit_test(test_a_mapping_is_distinguished_from_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
