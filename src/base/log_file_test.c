/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of log_file.c: names of files, and where lines go. */
#include "base/log_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/log.h"

static char folder[64];

/* @name in the folder of this test. */
static const char *in_folder(const char *name)
{
	static char path[2][256];
	static unsigned turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
	return path[turn];
}

static void read_file(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");

	assert_non_null(f);
	text[fread(text, 1, size - 1, f)] = '\0';
	fclose(f);
}

static void test_letters_become_host_and_process(void **state)
{
	char name[ORI_LOG_FILE_NAME], host[256] = "", expected[600];

	(void)state;
	gethostname(host, sizeof(host) - 1);
	snprintf(expected, sizeof(expected), "/a/%s.%d.100%%", host, (int)getpid());
	assert_true(ori_log_file_name("/a/%h.%p.100%%", name));
	assert_string_equal(name, expected);
	assert_true(ori_log_file_name("", name));
	assert_string_equal(name, "");
}

static void test_other_letters_are_errors(void **state)
{
	static const char *const invalid[] = {"%r", "a.%", "%%%d", "%H", "x%%%"};
	char name[ORI_LOG_FILE_NAME], long_pattern[ORI_LOG_FILE_NAME + 1];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
		assert_false(ori_log_file_name(invalid[i], name));
	memset(long_pattern, 'x', ORI_LOG_FILE_NAME);
	long_pattern[ORI_LOG_FILE_NAME] = '\0';
	assert_false(ori_log_file_name(long_pattern, name));
	assert_true(ori_log_file_name(long_pattern + 1, name));
}

static void test_lines_are_appended_for_the_owner_alone(void **state)
{
	char why[ORI_LOG_FILE_WHY], text[100];
	const char *path = in_folder("append");
	struct stat st;

	(void)state;
	assert_true(ori_log_file_write(path, NULL, 0, why));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_true(ori_log_file_write(path, "one\n", 4, why));
	assert_true(ori_log_file_write(in_folder("other"), "else\n", 5, why));
	assert_true(ori_log_file_write(path, "two\n", 4, why));
	read_file(path, text, sizeof(text));
	assert_string_equal(text, "one\ntwo\n");
}

static int descriptor_of(const char *path)
{
	struct stat st, open_file;
	int fd = 0;

	assert_int_equal(stat(path, &st), 0);
	while (fstat(fd, &open_file) != 0 || open_file.st_ino != st.st_ino)
		assert_true(++fd < 1024);
	return fd;
}

static void test_a_descriptor_that_the_program_took_is_not_written(void **state)
{
	char why[ORI_LOG_FILE_WHY], text[100];
	const char *path = in_folder("taken");
	FILE *program;
	int fd;

	(void)state;
	assert_true(ori_log_file_write(path, "one\n", 4, why));
	fd = descriptor_of(path);
	close(fd);
	program = fopen(in_folder("program"), "we");
	assert_int_equal(fileno(program), fd);
	assert_true(ori_log_file_write(path, "two\n", 4, why));
	assert_true(fd != descriptor_of(path));
	fclose(program);
	read_file(path, text, sizeof(text));
	assert_string_equal(text, "one\ntwo\n");
	read_file(in_folder("program"), text, sizeof(text));
	assert_string_equal(text, "");
}

static void test_files_that_are_no_plain_ones_are_refused(void **state)
{
	char why[ORI_LOG_FILE_WHY];

	(void)state;
	assert_int_equal(symlink("append", in_folder("link")), 0);
	assert_false(ori_log_file_write(in_folder("link"), "x\n", 2, why));
	assert_string_equal(why, "it is a symbolic link");
	assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
	assert_false(ori_log_file_write(in_folder("fifo"), "x\n", 2, why));
	assert_string_equal(why, "No such device or address");
	assert_false(ori_log_file_write("/dev/null", "x\n", 2, why));
	assert_string_equal(why, "it is not a regular file");
	assert_false(ori_log_file_write(in_folder("none/log"), "x\n", 2, why));
	assert_string_equal(why, "No such file or directory");
}

/* A line of the log in @path: that of ORIEL_LOG_FILE for process @pid. */
static void assert_has_line(pid_t pid, const char *line)
{
	char text[200], path[100];

	snprintf(path, sizeof(path), "log.%d", (int)pid);
	read_file(in_folder(path), text, sizeof(text));
	assert_string_equal(text, line);
}

static void test_a_forked_child_has_a_file_of_its_own(void **state)
{
	pid_t child;
	int status;

	(void)state;
	setenv("ORIEL_LOG_FILE", in_folder("log.%p"), 1);
	ori_log(ORIEL_LOG_WARN, "parent");
	child = fork();
	if (child == 0) {
		ori_log(ORIEL_LOG_WARN, "child");
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	unsetenv("ORIEL_LOG_FILE");
	assert_has_line(getpid(), "oriel: warn: parent\n");
	assert_has_line(child, "oriel: warn: child\n");
}

static void test_a_file_that_cannot_be_opened_is_an_error_that_names_it(void **state)
{
	char expected[200];

	(void)state;
	setenv("ORIEL_LOG_FILE", in_folder("none/%%"), 1);
	assert_int_equal(oriel_settings_check(), ORIEL_OK);
	assert_int_equal(ori_setting_open_log(), ORIEL_ERR_CONFIG);
	snprintf(expected, sizeof(expected),
		 "ORIEL_LOG_FILE: cannot open '%s': No such file or directory",
		 in_folder("none/%"));
	assert_string_equal(oriel_last_error(), expected);
	setenv("ORIEL_LOG_FILE", in_folder("opened"), 1);
	assert_int_equal(ori_setting_open_log(), ORIEL_OK);
	assert_int_equal(access(in_folder("opened"), F_OK), 0);
	unsetenv("ORIEL_LOG_FILE");
	assert_int_equal(ori_setting_open_log(), ORIEL_OK);
}

static int open_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/oriel-log-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[100];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_letters_become_host_and_process),
		cmocka_unit_test(test_other_letters_are_errors),
		cmocka_unit_test(test_lines_are_appended_for_the_owner_alone),
		cmocka_unit_test(test_a_descriptor_that_the_program_took_is_not_written),
		cmocka_unit_test(test_files_that_are_no_plain_ones_are_refused),
		cmocka_unit_test(test_a_forked_child_has_a_file_of_its_own),
		cmocka_unit_test(test_a_file_that_cannot_be_opened_is_an_error_that_names_it),
	};

	return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
