/* SPDX-License-Identifier: Apache-2.0 */
/* The table of allocations: lookup, references, errors, and a hundred threads. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/count_fds.h"
#include "base/error.h"
#include "mem/memory.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))
#define THREADS 100
#define ROUNDS 50

static char *alloc(size_t length)
{
	void *address = NULL;

	assert_int_equal(oriel_memory_alloc(length, 0, &address), ORIEL_OK);
	assert_non_null(address);
	return address;
}

static void test_a_range_is_found_with_its_offset(void **state)
{
	unsigned before = count_fds();
	char *a = alloc(3 * PAGE), *b = alloc(PAGE);
	struct ori_mem *mem;
	uint64_t offset;

	(void)state;
	assert_int_equal(ori_mem_find(a + 100, 2 * PAGE, &mem, &offset), ORIEL_OK);
	assert_ptr_equal(mem->address, a);
	assert_int_equal(offset, 100);
	ori_mem_unref(mem);
	assert_int_equal(ori_mem_find(b, PAGE, &mem, &offset), ORIEL_OK);
	assert_ptr_equal(mem->address, b);
	assert_int_equal(offset, 0);
	ori_mem_unref(mem);
	assert_int_equal(ori_mem_find(a + 3 * PAGE - 1, 1, &mem, &offset), ORIEL_OK);
	ori_mem_unref(mem);
	oriel_memory_free(a);
	oriel_memory_free(b);
	assert_int_equal(ori_mem_count(), 0);
	assert_int_equal(count_fds(), before);
}

static void expect_lost(const void *address, size_t length, enum oriel_status status,
			const char *part)
{
	struct ori_mem *mem = NULL;
	uint64_t offset;

	assert_int_equal(ori_mem_find(address, length, &mem, &offset), status);
	assert_null(mem);
	assert_non_null(strstr(oriel_last_error(), part));
}

/* As ori_mem_find(), without an error text. */
static void test_try_find_finds_the_same_without_an_error_text(void **state)
{
	char *a = alloc(2 * PAGE);
	struct ori_mem *mem;
	uint64_t offset = 1;

	(void)state;
	ori_fail(ORIEL_ERR_TIMEOUT, "what came before");
	assert_null(ori_mem_try_find(&offset, sizeof(offset), &offset));
	assert_null(ori_mem_try_find(a + 1, 2 * PAGE, &offset));
	assert_null(ori_mem_try_find(a - 8, 16, &offset));
	assert_null(ori_mem_try_find(a, 0, &offset));
	assert_null(ori_mem_try_find(a, SIZE_MAX, &offset));
	assert_null(ori_mem_try_find(NULL, 1, &offset));
	assert_int_equal(offset, 1);
	mem = ori_mem_try_find(a + 100, 2 * PAGE - 100, &offset);
	assert_non_null(mem);
	assert_ptr_equal(mem->address, a);
	assert_int_equal(offset, 100);
	oriel_memory_free(a);
	assert_null(ori_mem_try_find(a, PAGE, &offset));
	ori_mem_unref(mem);
	assert_int_equal(ori_mem_count(), 0);
	assert_int_equal(oriel_last_status(), ORIEL_ERR_TIMEOUT);
	assert_string_equal(oriel_last_error(), "what came before");
}

static void test_a_range_that_is_not_shareable_is_explained(void **state)
{
	char *a = alloc(2 * PAGE), text[64];
	static char private_memory[4096];

	(void)state;
	expect_lost(private_memory, 4096, ORIEL_ERR_UNSUPPORTED,
		    "is private memory of this process: allocate it with oriel_memory_alloc() or "
		    "pass its file with oriel_memory_take_fd()");
	snprintf(text, sizeof(text), "0x%jx (4096 bytes)", (uintmax_t)(uintptr_t)private_memory);
	expect_lost(private_memory, 4096, ORIEL_ERR_UNSUPPORTED, text);
	expect_lost(a + 1, 2 * PAGE, ORIEL_ERR_UNSUPPORTED, "reaches past the end of");
	expect_lost(a - 8, 16, ORIEL_ERR_UNSUPPORTED, "begins before the allocation");
	expect_lost(a, 0, ORIEL_ERR_INVALID, "0 bytes");
	expect_lost(NULL, 1, ORIEL_ERR_INVALID, "1 bytes");
	expect_lost(a, SIZE_MAX, ORIEL_ERR_RANGE, "exceeds the address space");
	oriel_memory_free(a);
	expect_lost(a, PAGE, ORIEL_ERR_UNSUPPORTED, "private memory");
}

/* Two adjacent allocations are not one. */
static void test_a_range_over_two_allocations_is_rejected(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), second = dup(fd);
	char *a;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)(2 * PAGE)), 0);
	a = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(oriel_memory_take_fd(a, PAGE, fd, 0), ORIEL_OK);
	assert_int_equal(oriel_memory_take_fd(a + PAGE, PAGE, second, PAGE), ORIEL_OK);
	expect_lost(a + PAGE / 2, PAGE, ORIEL_ERR_UNSUPPORTED, "must lie in one allocation");
	oriel_memory_release(a);
	oriel_memory_release(a + PAGE);
	munmap(a, 2 * PAGE);
}

static void test_references_keep_freed_memory(void **state)
{
	char *a = alloc(PAGE);
	struct ori_mem *mem, *same;
	uint64_t offset;

	(void)state;
	assert_int_equal(ori_mem_find(a, PAGE, &mem, &offset), ORIEL_OK);
	ori_mem_ref(mem);
	oriel_memory_free(a);
	strcpy(a, "still here");
	expect_lost(a, PAGE, ORIEL_ERR_UNSUPPORTED, "private memory");

	same = ori_mem_find_id((uintptr_t)a, mem->id);
	assert_ptr_equal(same, mem);
	assert_null(ori_mem_find_id((uintptr_t)a, mem->id + 1));
	assert_null(ori_mem_find_id((uintptr_t)a + 1, mem->id));
	ori_mem_unref(same);
	ori_mem_unref(mem);
	assert_string_equal(a, "still here");
	assert_int_equal(ori_mem_count(), 1);
	ori_mem_unref(mem);
	assert_int_equal(ori_mem_count(), 0);
	ori_mem_unref(NULL);
}

static void expect_free_reported(enum oriel_status (*end)(void *), void *address)
{
	ori_error_clear();
	assert_int_equal(end(address), ORIEL_ERR_INVALID);
	assert_non_null(strstr(oriel_last_error(), "not the start of a live allocation"));
}

static void test_freeing_an_unknown_address_is_reported(void **state)
{
	char *a = alloc(PAGE), on_stack = 0;
	struct ori_mem *mem;
	uint64_t offset;

	(void)state;
	oriel_memory_free(NULL);
	expect_free_reported(oriel_memory_free, a + 1);
	expect_free_reported(oriel_memory_free, &on_stack);
	expect_free_reported(oriel_memory_release, a);
	assert_int_equal(ori_mem_find(a, 1, &mem, &offset), ORIEL_OK);
	oriel_memory_free(a);
	expect_free_reported(oriel_memory_free, a); /* a reference keeps it alive */
	ori_mem_unref(mem);
	expect_free_reported(oriel_memory_free, a);

	assert_int_equal(ori_mem_alloc(1, 0, &mem), ORIEL_OK);
	expect_free_reported(oriel_memory_free,
			     mem->address); /* allocated by the library for itself */
	ori_mem_unref(mem);
	assert_int_equal(ori_mem_count(), 0);
}

static void test_bad_requests_are_rejected(void **state)
{
	void *address = NULL;

	(void)state;
	assert_int_equal(oriel_memory_alloc(0, 0, &address), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_memory_alloc(1, 4, &address), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_memory_alloc(1, ORIEL_MEMORY_DEVICE | ORIEL_MEMORY_HUGE, &address),
			 ORIEL_ERR_INVALID);
	assert_non_null(strstr(oriel_last_error(), "ORIEL_MEMORY_HUGE"));
	assert_int_equal(oriel_memory_alloc(1, 0, NULL), ORIEL_ERR_INVALID);
	assert_true(oriel_memory_alloc(SIZE_MAX, 0, &address) < 0);
	assert_null(address);
}

/* No test makes a CUDA context current. */
static void test_memory_of_a_gpu_needs_a_gpu(void **state)
{
	void *address = NULL;
	enum oriel_status status = oriel_memory_alloc(4096, ORIEL_MEMORY_DEVICE, &address);

	(void)state;
	assert_true(status == ORIEL_ERR_UNSUPPORTED || status == ORIEL_ERR_STATE);
	assert_null(address);
	assert_int_equal(ori_mem_count(), 0);
}

static void test_huge_memory_is_allocated_or_its_lack_is_explained(void **state)
{
	void *address = NULL;
	enum oriel_status status = oriel_memory_alloc(1, ORIEL_MEMORY_HUGE, &address);

	(void)state;
	if (status == ORIEL_OK) {
		memset(address, 1, PAGE + 1);
		oriel_memory_free(address);
	} else {
		assert_int_equal(status, ORIEL_ERR_UNSUPPORTED);
		assert_non_null(strstr(oriel_last_error(), "no huge pages"));
	}
}

static void test_a_file_is_taken_and_closed_but_its_mapping_stays(void **state)
{
	unsigned before = count_fds();
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ori_mem *mem;
	uint64_t offset;
	char *a;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)(4 * PAGE)), 0);
	a = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)PAGE);
	assert_int_equal(oriel_memory_take_fd(a, 2 * PAGE, fd, PAGE), ORIEL_OK);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ori_mem_find(a + 5, PAGE, &mem, &offset), ORIEL_OK);
	assert_int_equal(offset, 5);
	assert_int_equal(mem->fd_offset, PAGE);
	assert_int_equal(oriel_memory_take_fd(a + PAGE, PAGE, fd, 2 * PAGE), ORIEL_ERR_INVALID);
	assert_non_null(strstr(oriel_last_error(), "overlaps"));
	oriel_memory_release(a);
	expect_lost(a, PAGE, ORIEL_ERR_UNSUPPORTED, "private memory");
	ori_mem_unref(mem);
	assert_int_equal(count_fds(), before);
	a[0] = 1;
	munmap(a, 2 * PAGE);
}

static void test_a_file_that_does_not_fit_stays_the_callers(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *a, *private_memory = malloc(64);

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	a = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(oriel_memory_take_fd(a, 2 * PAGE, fd, 0), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_memory_take_fd(private_memory, 64, fd, 0), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_memory_take_fd(NULL, PAGE, fd, 0), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_memory_take_fd(a, 0, fd, 0), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_memory_take_fd(a, SIZE_MAX, fd, 0), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_memory_take_fd(a, PAGE, fd, UINT64_MAX), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_memory_take_fd(a, PAGE, -1, 0), ORIEL_ERR_INVALID);
	assert_int_equal(ori_mem_count(), 0);
	assert_int_equal(close(fd), 0);
	munmap(a, 2 * PAGE);
	free(private_memory);
}

static void *alloc_find_free(void *failed)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ori_mem *mem;
		uint64_t offset;
		void *address;

		if (oriel_memory_alloc(2 * PAGE, 0, &address) != ORIEL_OK)
			return failed;
		if (ori_mem_find((char *)address + i, PAGE, &mem, &offset) != ORIEL_OK ||
		    offset != i || mem->address != address)
			return failed;
		oriel_memory_free(address);
		*(char *)address = 1;
		ori_mem_unref(mem);
	}
	return NULL;
}

static void test_a_hundred_threads_do_not_disturb_each_other(void **state)
{
	unsigned before = count_fds();
	pthread_t threads[THREADS];
	char failed;
	void *result;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, alloc_find_free, &failed), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	assert_int_equal(ori_mem_count(), 0);
	assert_int_equal(count_fds(), before);
}

static enum oriel_status pin_answer;
static int pins_held;

static enum oriel_status books_pin(const struct ori_gpu *gpu, void *address, size_t length)
{
	(void)gpu;
	memset(address, 1, length);
	pins_held += pin_answer == ORIEL_OK;
	return pin_answer;
}

static void books_unpin(const struct ori_gpu *gpu, void *address)
{
	(void)gpu;
	/* The mapping still exists. */
	assert_int_equal(*(char *)address, 1);
	pins_held--;
}

static void test_pinned_memory_is_allocated_whole_or_not_at_all(void **state)
{
	const struct ori_gpu_ops ops = {.pin = books_pin, .unpin = books_unpin};
	const struct ori_gpu gpu = {.ops = &ops};
	unsigned before = count_fds();
	struct ori_mem *mem = NULL;

	(void)state;
	pin_answer = ORIEL_ERR_NOMEM;
	assert_int_equal(ori_mem_alloc_pinned(&gpu, PAGE, &mem), ORIEL_ERR_NOMEM);
	assert_null(mem);
	assert_int_equal(ori_mem_count(), 0);
	assert_int_equal(ori_mem_alloc_pinned(&gpu, 0, &mem), ORIEL_ERR_INVALID);
	pin_answer = ORIEL_OK;
	assert_int_equal(ori_mem_alloc_pinned(&gpu, PAGE, &mem), ORIEL_OK);
	assert_int_equal(pins_held, 1);
	ori_mem_unref_pinned(&gpu, mem);
	assert_int_equal(pins_held, 0);
	assert_int_equal(ori_mem_alloc_pinned(NULL, PAGE, &mem), ORIEL_OK);
	ori_mem_unref_pinned(NULL, mem);
	ori_mem_unref_pinned(&gpu, NULL);
	assert_int_equal(pins_held, 0);
	assert_int_equal(ori_mem_count(), 0);
	assert_int_equal(count_fds(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_range_is_found_with_its_offset),
		cmocka_unit_test(test_try_find_finds_the_same_without_an_error_text),
		cmocka_unit_test(test_a_range_that_is_not_shareable_is_explained),
		cmocka_unit_test(test_a_range_over_two_allocations_is_rejected),
		cmocka_unit_test(test_references_keep_freed_memory),
		cmocka_unit_test(test_freeing_an_unknown_address_is_reported),
		cmocka_unit_test(test_bad_requests_are_rejected),
		cmocka_unit_test(test_memory_of_a_gpu_needs_a_gpu),
		cmocka_unit_test(test_huge_memory_is_allocated_or_its_lack_is_explained),
		cmocka_unit_test(test_a_file_is_taken_and_closed_but_its_mapping_stays),
		cmocka_unit_test(test_a_file_that_does_not_fit_stays_the_callers),
		cmocka_unit_test(test_pinned_memory_is_allocated_whole_or_not_at_all),
		cmocka_unit_test(test_a_hundred_threads_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
