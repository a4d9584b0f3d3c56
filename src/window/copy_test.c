/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the copy that GPU groups make (oriel/dev/detail/copy.h), on the CPU: each thread of a
 * group in turn, at all offsets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <oriel/dev/signal.h>

#define EDGE 40u
#define GUARD 0xa5

static unsigned char byte_of(size_t i)
{
	return (unsigned char)(i * 7 + (i >> 8) * 13 + 3);
}

/* Every thread of a group of @size does its part, to byte @to from byte @from of a block. */
static void check_copy(uint32_t size, size_t to, size_t from, size_t length)
{
	/* Blocks of just these lengths, so that sanitizers see reads beyond. */
	unsigned char *source = malloc(from + length + !length);
	unsigned char *target = malloc(to + length + EDGE);
	struct oriel_dev_group g = {0, size, ORIEL_DEV_BLOCK, 0, NULL};
	size_t i;

	assert_non_null(source);
	assert_non_null(target);
	for (i = 0; i < length; i++)
		source[from + i] = byte_of(i);
	memset(target, GUARD, to + length + EDGE);
	for (g.rank = 0; g.rank < size; g.rank++)
		ori_dev_copy_wide(g, target + to, source + from, length);
	for (i = 0; i < to; i++)
		assert_int_equal(target[i], GUARD);
	assert_memory_equal(target + to, source + from, length);
	for (i = 0; i < EDGE; i++)
		assert_int_equal(target[to + length + i], GUARD);
	free(target);
	free(source);
}

static void check_places(uint32_t size, size_t length)
{
	size_t to, from;

	for (to = 0; to < 16; to++)
		for (from = 0; from < 16; from++)
			check_copy(size, to, from, length);
}

static void test_short_copies_are_right_at_all_offsets(void **state)
{
	size_t length;

	(void)state;
	for (length = 0; length < 160; length++) {
		check_places(1, length);
		check_places(3, length);
		check_places(32, length);
	}
}

static void test_long_copies_are_right_at_all_offsets(void **state)
{
	static const size_t lengths[] = {511, 512, 513, 1000, 2048, 4095, 4096, 8191, 8200, 20001};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		check_places(1, lengths[i]);
		check_places(32, lengths[i]);
		check_places(96, lengths[i]);
	}
}

/*
 * The threads of a block that are copiers by their own answer are the first, as many as
 * counted.
 */
static void test_all_threads_agree_on_the_copiers_of_a_message(void **state)
{
	struct oriel_dev_group g = {0, 0, ORIEL_DEV_BLOCK, 0, NULL};
	uint32_t length, size, copiers;

	(void)state;
	for (length = 0; length <= ORIEL_DEV_MESSAGE; length += length < 40 ? 1 : 127) {
		for (size = 1; size <= 1024; size += size < 32 ? 31 : 32) {
			g.size = size;
			copiers = ori_dev_copiers(g, length);
			assert_in_range(copiers, size < 32 ? size : 32, size);
			for (g.rank = 0; g.rank < size; g.rank++)
				assert_int_equal(ori_dev_is_copier(g.rank, length),
						 g.rank < copiers);
		}
	}
}

/* Pages that cannot be written lie on both sides, and the bytes stay as they are. */
static void test_owned_lines_hold_no_byte_of_neighbours(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *memory, *middle;
	size_t begin, end, i;

	(void)state;
	memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	middle = memory + page;
	for (i = 0; i < 3 * page; i++)
		memory[i] = byte_of(i);
	assert_int_equal(mprotect(memory, page, PROT_READ), 0);
	assert_int_equal(mprotect(middle + page, page, PROT_READ), 0);
	for (begin = 0; begin < 130; begin++)
		for (end = 0; end < 130; end++)
			ori_dev_mapped_own(middle + begin, page - begin - end);
	for (end = 1; end <= ORIEL_MAPPED_OWN_MIN; end++)
		ori_dev_mapped_own(middle + page - end, end);
	ori_dev_mapped_own(middle + page, ORIEL_MAPPED_OWN_MIN - 1);
	for (i = 0; i < 3 * page; i++)
		assert_int_equal(memory[i], byte_of(i));
	assert_int_equal(munmap(memory, 3 * page), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_copies_are_right_at_all_offsets),
		cmocka_unit_test(test_long_copies_are_right_at_all_offsets),
		cmocka_unit_test(test_owned_lines_hold_no_byte_of_neighbours),
		cmocka_unit_test(test_all_threads_agree_on_the_copiers_of_a_message),
	};

	return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
