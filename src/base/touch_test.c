/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_there_is_read),
		cmocka_unit_test(test_what_may_be_written_is_written),
	};

	return cmocka_run_group_tests_name("touch", tests, NULL, NULL);
}
