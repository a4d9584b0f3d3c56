/* SPDX-License-Identifier: Apache-2.0 */
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

static const struct ori_tune_key here = {.machine = "Some CPU @ 2.0GHz", .ranks = 4, .nodes = 1};

static enum oriel_status parse(const char *rows, struct ori_tune *tune)
{
	char text[4096];

	snprintf(text, sizeof(text), ORIEL_TUNE_HEAD "\n%s", rows);
	return ori_tune_parse(text, strlen(text), "table", &here, tune);
}

static void only_rows_of_this_machine_count(void **state)
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

static void what_differs_has_another_digest(void **state)
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

static void wrong_lines_are_named(void **state)
{
	static const char *const wrong[][2] = {
		{"scatter host 4 1 any ring X\n", "table:2: no collective: 'scatter'"},
		{"all-gather nic 4 1 any ring X\n", "table:2: neither host nor gpu: 'nic'"},
		{"\nall-gather host 0 1 any ring X\n", "table:3: no number of ranks: '0'"},
		{"all-gather host 4 1x any ring X\n", "table:2: no number of nodes: '1x'"},
		{"all-gather host 4 1 18446744073709551615 ring X\n",
		 "table:2: no number of bytes"},
		{"all-gather host 4 1 18446744073709551616 ring X\n",
		 "table:2: no number of bytes"},
		{"all-gather host 4 1 any auto X\n", "table:2: no algorithm: 'auto'"},
		{"all-gather host 4 1 any\n", "table:2: no algorithm: ''"},
		{"all-gather host 4 1 any ring \n", "table:2: no name of a machine: ''"},
		{"all-gather host 4 1 8 ll Some CPU @ 2.0GHz\n", "table:2: the last line"},
		{"all-gather host 4 1 any ll Some CPU @ 2.0GHz\n"
		 "all-gather host 4 1 any ring Some CPU @ 2.0GHz\n",
		 "table:3: its bytes are not beyond those of line 2"},
	};
	struct ori_tune tune;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(parse(wrong[i][0], &tune), ORIEL_ERR_CONFIG);
		if (!strstr(oriel_last_error(), wrong[i][1]))
			fail_msg("%s: not in: %s", wrong[i][1], oriel_last_error());
	}
	assert_int_equal(ori_tune_parse("oriel-tune 2\n", 13, "table", &here, &tune),
			 ORIEL_ERR_CONFIG);
	assert_non_null(strstr(oriel_last_error(), "table:1: not 'oriel-tune 1' but"));
	assert_int_equal(ori_tune_parse("", 0, "table", &here, &tune), ORIEL_ERR_CONFIG);
}

static unsigned warnings;

static void count_warnings(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	(void)message;
	warnings += level == ORIEL_LOG_WARN;
}

/* Faulty where it is asked for; where it is not, no rows and no failure. */
static void check_faulty(const char *path, const char *why)
{
	struct ori_tune tune;

	assert_int_equal(ori_tune_read(path, true, &here, &tune), ORIEL_ERR_CONFIG);
	if (!strstr(oriel_last_error(), path) || !strstr(oriel_last_error(), why))
		print_error("%s\n", oriel_last_error());
	assert_non_null(strstr(oriel_last_error(), path));
	assert_non_null(strstr(oriel_last_error(), why));
	ori_error_clear();
	tune.count = 7;
	assert_int_equal(ori_tune_read(path, false, &here, &tune), ORIEL_OK);
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

static void only_a_file_that_is_asked_for_can_fail(void **state)
{
	char folder[] = "/tmp/oriel-tune-XXXXXX", path[64], under[80];
	struct ori_tune tune;

	(void)state;
	warnings = 0;
	oriel_log_set_sink(count_warnings, NULL);
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/tune", folder);
	snprintf(under, sizeof(under), "%s/tune", path);

	assert_int_equal(ori_tune_read(path, true, &here, &tune), ORIEL_ERR_CONFIG);
	assert_int_equal(ori_tune_read(path, false, &here, &tune), ORIEL_OK);
	assert_int_equal(warnings, 0);

	/* A writer that never comes: the alarm of a test that waits for it is the failure. */
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
	check_faulty(path, ":1: not '" ORIEL_TUNE_HEAD "' but 'all-gather'");
	check_faulty(under, "Not a directory");
	write_table(path, ORIEL_TUNE_HEAD "\nall-gather host 4 1 9 ll Some CPU @ 2.0GHz\n", 1);
	check_faulty(path, "is not for 'any' bytes");
	write_table(path, "0123456789abcde\n", 1 << 16);
	check_faulty(path, "it is longer than 1048575 bytes");
	if (geteuid() != 0) {
		assert_int_equal(chmod(path, 0), 0);
		check_faulty(path, "Permission denied");
	}
	assert_int_equal(warnings, 1);

	write_table(path, ORIEL_TUNE_HEAD "\nall-gather host 4 1 any ll Some CPU @ 2.0GHz\n", 1);
	assert_int_equal(ori_tune_read(path, false, &here, &tune), ORIEL_OK);
	assert_int_equal(tune.count, 1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	oriel_log_set_sink(NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_rows_of_this_machine_count),
		cmocka_unit_test(what_differs_has_another_digest),
		cmocka_unit_test(wrong_lines_are_named),
		cmocka_unit_test(only_a_file_that_is_asked_for_can_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
