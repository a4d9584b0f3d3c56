/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of job_key.c and secret.c: where the key comes from, and where it is not afterwards.
 */
#include "base/job_key.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/error.h"
#include "base/secret.h"

#define KEY "00112233445566778899aabbccddeeff"
#define OTHER "ffeeddccbbaa99887766554433221100"
#define INITIAL "0f1e2d3c4b5a69788796a5b4c3d2e1f0" /* of the environment of the whole program */

static char path[] = "/tmp/oriel_job_key_XXXXXX";
static char text[ORI_JOB_KEY_TEXT];

static int forget_all(void **state)
{
	(void)state;
	unsetenv("ORIEL_JOB_KEY");
	unsetenv("ORIEL_JOB_KEY_FILE");
	assert_int_equal(ori_job_key_text(text), ORIEL_OK);
	assert_string_equal(text, "");
	return 0;
}

static void write_file(const char *content, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), strlen(content));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void expect_key(const char *expected)
{
	enum oriel_status status = ori_job_key_text(text);

	if (status != ORIEL_OK)
		print_error("%s\n", oriel_last_error());
	assert_int_equal(status, ORIEL_OK);
	assert_string_equal(text, expected);
	assert_int_equal(ori_job_key_is_set(), *expected != '\0');
}

static void expect_error(const char *part)
{
	assert_int_equal(ori_job_key_text(text), ORIEL_ERR_CONFIG);
	assert_string_equal(text, "");
	if (!strstr(oriel_last_error(), part))
		print_error("no '%s' in: %s\n", part, oriel_last_error());
	assert_non_null(strstr(oriel_last_error(), part));
}

/* How often @wanted is in /proc/self/environ. */
static unsigned count_in_environ(const char *wanted)
{
	static char all[1 << 20];
	size_t used = 0, length = strlen(wanted), i;
	unsigned count = 0;
	ssize_t n;
	int fd = open("/proc/self/environ", O_RDONLY);

	assert_true(fd >= 0);
	while ((n = read(fd, all + used, sizeof(all) - used)) > 0)
		used += (size_t)n;
	close(fd);
	for (i = 0; i + length <= used; i++)
		count += memcmp(all + i, wanted, length) == 0;
	return count;
}

/* main() has executed the program with this key. */
static void test_the_initial_environment_loses_the_key(void **state)
{
	(void)state;
	assert_int_equal(count_in_environ(INITIAL), 1);
	expect_key(INITIAL);
	assert_int_equal(count_in_environ(INITIAL), 0);
	assert_string_equal(getenv("ORIEL_JOB_KEY"), "");
	/* A second job of the process, and a program that the process starts. */
	expect_key(INITIAL);
	assert_int_equal(system("test -z \"$ORIEL_JOB_KEY\""), 0);
}

/* The process that test_a_key_that_was_replaced() executes: 0 if it is right. */
static int replace_the_initial_key(void)
{
	unsigned before = count_in_environ(INITIAL);

	setenv("ORIEL_JOB_KEY", KEY, 1);
	return ori_job_key_text(text) == ORIEL_OK && strcmp(text, KEY) == 0 && before == 1 &&
			       count_in_environ(INITIAL) == 0
		       ? 0
		       : 1;
}

/* Where the program has replaced the variable, its first string is in no pointer of environ. */
static void test_a_key_that_was_replaced_leaves_nothing(void **state)
{
	pid_t child = fork();
	int code;

	(void)state;
	if (child == 0) {
		setenv("ORIEL_JOB_KEY", INITIAL, 1);
		execl("/proc/self/exe", "job_key_test", "replace", NULL);
		_exit(2);
	}
	assert_int_equal(waitpid(child, &code, 0), child);
	assert_int_equal(code, 0);
}

static void test_a_key_that_is_set_later_is_another_one(void **state)
{
	(void)state;
	setenv("ORIEL_JOB_KEY", KEY, 1);
	expect_key(KEY);
	assert_string_equal(getenv("ORIEL_JOB_KEY"), "");
	setenv("ORIEL_JOB_KEY", OTHER, 1);
	expect_key(OTHER);
	expect_key(OTHER);
	unsetenv("ORIEL_JOB_KEY");
	expect_key("");
	/* Forgotten: empty is unset now. */
	setenv("ORIEL_JOB_KEY", "", 1);
	expect_key("");
}

static void test_a_constant_string_of_putenv_is_replaced(void **state)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(page != MAP_FAILED);
	strcpy(page, "ORIEL_JOB_KEY=" KEY);
	assert_int_equal(mprotect(page, 4096, PROT_READ), 0);
	putenv(page);
	expect_key(KEY);
	assert_string_equal(getenv("ORIEL_JOB_KEY"), "");
	expect_key(KEY);
	unsetenv("ORIEL_JOB_KEY");
	munmap(page, 4096);
}

static void test_the_key_comes_from_a_file(void **state)
{
	(void)state;
	write_file(KEY "\n", 0600);
	setenv("ORIEL_JOB_KEY_FILE", path, 1);
	expect_key(KEY);
	/* A second job needs no file. */
	unlink(path);
	expect_key(KEY);
	write_file(OTHER, 0400);
	expect_key(KEY);
	forget_all(NULL);
	setenv("ORIEL_JOB_KEY_FILE", path, 1);
	expect_key(OTHER);
	unlink(path);
}

static void test_a_bad_file_is_an_error_that_names_it(void **state)
{
	char link[sizeof(path) + 2];

	(void)state;
	setenv("ORIEL_JOB_KEY_FILE", path, 1);
	expect_error("cannot open '/tmp/oriel_job_key_");
	write_file(KEY, 0640);
	expect_error("has mode 0640, which gives rights to the group or to others");
	write_file(KEY, 0604);
	expect_error("has mode 0604");
	write_file("secretsecretsecretsecretsecretse", 0600);
	expect_error("may have an even number of hex digits, 32 to 254, but has other text");
	assert_null(strstr(oriel_last_error(), "secret"));
	write_file("", 0600);
	expect_error("or none");
	write_file("required", 0600);
	expect_error("has other text");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_error("is no regular file");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	expect_error("is no regular file");
	rmdir(path);
	if (geteuid() == 0) {
		write_file(KEY, 0600);
		assert_int_equal(chown(path, 12345, 0), 0);
		expect_error("belongs to user 12345, but this process is of user 0");
		unlink(path);
	}
	/* A link is as good as the file that it names. */
	write_file(KEY, 0600);
	snprintf(link, sizeof(link), "%s.l", path);
	assert_int_equal(symlink(path, link), 0);
	setenv("ORIEL_JOB_KEY_FILE", link, 1);
	expect_key(KEY);
	unlink(link);
	unlink(path);
}

static void set_descriptor(int fd)
{
	char name[32];

	snprintf(name, sizeof(name), "fd:%d", fd);
	setenv("ORIEL_JOB_KEY_FILE", name, 1);
}

static void test_the_key_comes_from_a_descriptor(void **state)
{
	int ends[2], file;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	set_descriptor(ends[0]);
	/* The writer may stay open behind a newline. */
	assert_int_equal(write(ends[1], KEY "\n", sizeof(KEY)), sizeof(KEY));
	expect_key(KEY);
	assert_int_equal(fcntl(ends[0], F_GETFD), -1);
	assert_string_equal(getenv("ORIEL_JOB_KEY_FILE"), "");
	expect_key(KEY);
	close(ends[1]);
	forget_all(NULL);
	file = memfd_create("key", MFD_CLOEXEC);
	assert_int_equal(write(file, OTHER, strlen(OTHER)), strlen(OTHER));
	set_descriptor(file); /* its offset is behind the key */
	expect_key(OTHER);
	forget_all(NULL);
	set_descriptor(file);
	expect_error("cannot read the key of ORIEL_JOB_KEY_FILE 'fd:");
	assert_int_equal(pipe(ends), 0);
	setenv("ORIEL_TIMEOUT", "0.2", 1);
	set_descriptor(ends[0]);
	expect_error("Connection timed out");
	unsetenv("ORIEL_TIMEOUT");
	close(ends[0]);
	close(ends[1]);
}

static void test_two_sources_are_an_error(void **state)
{
	(void)state;
	setenv("ORIEL_JOB_KEY", KEY, 1);
	setenv("ORIEL_JOB_KEY_FILE", path, 1);
	expect_error("ORIEL_JOB_KEY and ORIEL_JOB_KEY_FILE are both set");
	assert_int_equal(oriel_settings_check(), ORIEL_ERR_CONFIG);
	/* It stays where it was, for whoever corrects that. */
	assert_string_equal(getenv("ORIEL_JOB_KEY"), KEY);
	setenv("ORIEL_JOB_KEY", "required", 1);
	write_file(OTHER, 0600);
	assert_int_equal(oriel_settings_check(), ORIEL_OK);
	expect_key(OTHER);
	assert_true(ori_job_key_is_required());
	setenv("ORIEL_JOB_KEY", "none", 1);
	expect_key(OTHER);
	assert_true(ori_job_key_is_none() && !ori_job_key_is_required());
	unlink(path);
}

static void test_a_child_of_fork_has_the_key(void **state)
{
	int code;
	pid_t child;

	(void)state;
	setenv("ORIEL_JOB_KEY", KEY, 1);
	expect_key(KEY);
	child = fork();
	if (child == 0) {
		bool is_right = ori_job_key_text(text) == ORIEL_OK && strcmp(text, KEY) == 0;

		setenv("ORIEL_JOB_KEY", OTHER, 1);
		is_right =
			is_right && ori_job_key_text(text) == ORIEL_OK && strcmp(text, OTHER) == 0;
		_exit(is_right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &code, 0), child);
	assert_int_equal(code, 0);
	expect_key(KEY);
}

/* Does smaps say that the page of @address is left out of core dumps? */
static bool is_secret_page(const void *address)
{
	unsigned long start, end, at = (unsigned long)(uintptr_t)address;
	bool is_here = false, is_secret = false;
	char line[512];
	FILE *maps = fopen("/proc/self/smaps", "r");

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			is_here = at >= start && at < end;
		else if (is_here && strncmp(line, "VmFlags:", 8) == 0)
			is_secret = strstr(line, " dd") != NULL;
	}
	fclose(maps);
	return is_secret;
}

static void test_secret_memory_is_not_dumped(void **state)
{
	char *secret = ori_secret_alloc(100);

	(void)state;
	assert_non_null(secret);
	assert_true(is_secret_page(secret));
	ori_secret_free(secret, 100);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_the_initial_environment_loses_the_key, forget_all),
		cmocka_unit_test(test_a_key_that_was_replaced_leaves_nothing),
		cmocka_unit_test_teardown(test_a_key_that_is_set_later_is_another_one, forget_all),
		cmocka_unit_test_teardown(test_a_constant_string_of_putenv_is_replaced, forget_all),
		cmocka_unit_test_teardown(test_the_key_comes_from_a_file, forget_all),
		cmocka_unit_test_teardown(test_a_bad_file_is_an_error_that_names_it, forget_all),
		cmocka_unit_test_teardown(test_the_key_comes_from_a_descriptor, forget_all),
		cmocka_unit_test_teardown(test_two_sources_are_an_error, forget_all),
		cmocka_unit_test_teardown(test_a_child_of_fork_has_the_key, forget_all),
		cmocka_unit_test(test_secret_memory_is_not_dumped),
	};

	if (argc > 1)
		return replace_the_initial_key();
	if (!getenv("ORIEL_JOB_KEY")) {
		setenv("ORIEL_JOB_KEY", INITIAL, 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	close(mkstemp(path));
	unlink(path);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
