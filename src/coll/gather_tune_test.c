/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of tables: rows of this machine, digests, and the errors of invalid lines. */
#include "coll/gather_tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"

static const struct ori_tune_key this_machine = {.machine = "Some CPU @ 2.0GHz",
						 .ranks = 4,
						 .nodes = 1};

static enum oriel_status parse(const char *rows, struct ori_tune *tune)
{
	char text[4096];

	snprintf(text, sizeof(text), ORIEL_TUNE_HEAD "\n%s", rows);
	return ori_tune_parse(text, strlen(text), "table", &this_machine, tune);
}

static void test_only_rows_of_this_machine_are_read(void **state)
{
	struct ori_tune tune;

	(void)state;
	assert_int_equal(parse("# of two machines\n\n"
			       "all-gather host 4 1 512 ll Some CPU @ 2.0GHz\n"
			       "all-gather host 4 1 any direct Some CPU @ 2.0GHz\n"
			       "all-gather host 4 1 any ring Some CPU @ 2.0GHz or more\n"
			       "all-gather host 8 1 any ring Some CPU @ 2.0GHz\n"
			       "all-gather host 4 2 any ring Some CPU @ 2.0GHz\n"
			       "all-gather gpu 4 1 any ce Some CPU @ 2.0GHz\n"
			       "broadcast host 4 1 any ring Some CPU @ 2.0GHz",
			       &tune),
			 ORIEL_OK);
	assert_int_equal(tune.count, 3);
	assert_int_equal(ori_tune_row(&tune, ORI_ALLGATHER, 512)->algorithm, ORIEL_ALGORITHM_LL);
	assert_int_equal(ori_tune_row(&tune, ORI_ALLGATHER, 513)->algorithm,
			 ORIEL_ALGORITHM_DIRECT);
	assert_int_equal(ori_tune_row(&tune, ORI_BCAST, 1)->line, 10);
	assert_null(ori_tune_row(&tune, ORI_ALLTOALL, 1));
}

static void test_different_rows_have_different_digests(void **state)
{
	struct ori_tune one, other;

	(void)state;
	assert_int_equal(parse("", &one), ORIEL_OK);
	assert_int_equal(one.digest, 0);
	parse("all-gather host 4 1 any ring Some CPU @ 2.0GHz\n", &one);
	parse("all-gather host 4 1 any direct Some CPU @ 2.0GHz\n", &other);
	assert_int_not_equal(one.digest, 0);
	assert_int_not_equal(one.digest, other.digest);
	parse("#\nall-gather host 4 1 any  ring  Some CPU @ 2.0GHz\n", &other);
	assert_int_equal(one.digest, other.digest);
}

static void test_an_invalid_line_is_reported_with_its_number(void **state)
{
	static const char *const wrong[][2] = {
		{"barrier host 4 1 any ring X\n", "table:2: unknown collective 'barrier'"},
		{"all-gather nic 4 1 any ring X\n",
		 "table:2: memory is neither host nor gpu: 'nic'"},
		{"\nall-gather host 0 1 any ring X\n", "table:3: invalid number of ranks '0'"},
		{"all-gather host 4 1x any ring X\n", "table:2: invalid number of nodes '1x'"},
		{"all-gather host 4 1 18446744073709551615 ring X\n",
		 "table:2: invalid number of bytes"},
		{"all-gather host 4 1 18446744073709551616 ring X\n",
		 "table:2: invalid number of bytes"},
		{"all-gather host 4 1 any auto X\n", "table:2: unknown algorithm 'auto'"},
		{"all-gather host 4 1 any\n", "table:2: unknown algorithm ''"},
		{"all-gather host 4 1 any ring \n", "table:2: missing name of a machine: ''"},
		{"all-gather host 4 1 8 ll Some CPU @ 2.0GHz\n", "table:2: the last line"},
		{"all-gather host 4 1 any ll Some CPU @ 2.0GHz\n"
		 "all-gather host 4 1 any ring Some CPU @ 2.0GHz\n",
		 "table:3: its bytes are not more than those of line 2"},
	};
	struct ori_tune tune;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(parse(wrong[i][0], &tune), ORIEL_ERR_CONFIG);
		if (!strstr(oriel_last_error(), wrong[i][1]))
			fail_msg("%s: not in: %s", wrong[i][1], oriel_last_error());
	}
	assert_int_equal(ori_tune_parse("oriel-tune 2\n", 13, "table", &this_machine, &tune),
			 ORIEL_ERR_CONFIG);
	assert_non_null(strstr(oriel_last_error(), "table:1: expected 'oriel-tune 1', found"));
	assert_int_equal(ori_tune_parse("", 0, "table", &this_machine, &tune), ORIEL_ERR_CONFIG);
}

static unsigned warnings;

static void count_warnings(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	(void)message;
	warnings += level == ORIEL_LOG_WARN;
}

/* The file at @path is an error where it is requested; elsewhere it has no rows and no error. */
static void check_faulty(const char *path, const char *why)
{
	struct ori_tune tune;

	assert_int_equal(ori_tune_read(path, true, &this_machine, &tune), ORIEL_ERR_CONFIG);
	if (!strstr(oriel_last_error(), path) || !strstr(oriel_last_error(), why))
		print_error("%s\n", oriel_last_error());
	assert_non_null(strstr(oriel_last_error(), path));
	assert_non_null(strstr(oriel_last_error(), why));
	ori_error_clear();
	tune.count = 7;
	assert_int_equal(ori_tune_read(path, false, &this_machine, &tune), ORIEL_OK);
	assert_int_equal(tune.count, 0);
	assert_int_equal(tune.digest, 0);
	assert_int_equal(oriel_last_status(), ORIEL_OK);
}

static void write_table(const char *path, const char *text, size_t times)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	while (times--)
		fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void test_only_a_file_that_a_setting_names_can_fail(void **state)
{
	char folder[] = "/tmp/oriel-tune-XXXXXX", path[64], under[80];
	struct ori_tune tune;

	(void)state;
	warnings = 0;
	oriel_log_set_sink(count_warnings, NULL);
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/tune", folder);
	snprintf(under, sizeof(under), "%s/tune", path);

	assert_int_equal(ori_tune_read(path, true, &this_machine, &tune), ORIEL_ERR_CONFIG);
	assert_int_equal(ori_tune_read(path, false, &this_machine, &tune), ORIEL_OK);
	assert_int_equal(warnings, 0);

	/* The FIFO has no writer: an open() that blocks is ended by the alarm, and the test fails.
	 */
	alarm(60);
	assert_int_equal(mkfifo(path, 0600), 0);
	check_faulty(path, "is not a regular file");
	assert_int_equal(unlink(path), 0);
	alarm(0);
	assert_int_equal(warnings, 1);

	assert_int_equal(symlink("/dev/zero", path), 0);
	check_faulty(path, "is not a regular file");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(path, path), 0);
	check_faulty(path, "Too many levels of symbolic links");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	check_faulty(path, "is not a regular file");
	assert_int_equal(rmdir(path), 0);
	write_table(path, "all-gather", 1);
	check_faulty(path, ":1: expected '" ORIEL_TUNE_HEAD "', found 'all-gather'");
	check_faulty(under, "Not a directory");
	write_table(path, ORIEL_TUNE_HEAD "\nall-gather host 4 1 9 ll Some CPU @ 2.0GHz\n", 1);
	check_faulty(path, "is not for 'any' bytes");
	write_table(path, "0123456789abcde\n", 1 << 16);
	check_faulty(path, "the file is longer than 1048575 bytes");
	if (geteuid() != 0) {
		assert_int_equal(chmod(path, 0), 0);
		check_faulty(path, "Permission denied");
	}
	assert_int_equal(warnings, 1);

	write_table(path, ORIEL_TUNE_HEAD "\nall-gather host 4 1 any ll Some CPU @ 2.0GHz\n", 1);
	assert_int_equal(ori_tune_read(path, false, &this_machine, &tune), ORIEL_OK);
	assert_int_equal(tune.count, 1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	oriel_log_set_sink(NULL, NULL);
}

/* Numbers of these may come from a peer. */
static void test_what_is_unknown_has_a_name(void **state)
{
	(void)state;
	assert_string_equal(ori_collective_name((enum ori_collective)(ORI_COLLECTIVES - 1)),
			    "scatter");
	assert_string_equal(ori_collective_name((enum ori_collective)ORI_COLLECTIVES),
			    "an unknown one");
	assert_string_equal(ori_collective_name((enum ori_collective) - 1), "an unknown one");
	assert_string_equal(oriel_algorithm_name((enum oriel_algorithm)(ORI_ALGORITHMS - 1)),
			    "recursive");
	assert_string_equal(oriel_algorithm_name((enum oriel_algorithm)ORI_ALGORITHMS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_rows_of_this_machine_are_read),
		cmocka_unit_test(test_different_rows_have_different_digests),
		cmocka_unit_test(test_an_invalid_line_is_reported_with_its_number),
		cmocka_unit_test(test_only_a_file_that_a_setting_names_can_fail),
		cmocka_unit_test(test_what_is_unknown_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
