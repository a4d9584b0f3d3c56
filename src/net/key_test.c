/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of key.c: what a process that has read the job key has of it in memory. */
#include "net/key.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 32
#define TEXT (2 * BYTES)
#define SEARCHED_MAX (1ul << 30) /* the memory of sanitizers is larger than any with a key */

/* How often a process has something. */
struct copies {
	unsigned left_out; /* of core dumps: VmFlags have dd, proc_pid_smaps(5) */
	unsigned dumped;
};

static void to_text(const unsigned char bytes[BYTES], char text[TEXT + 1])
{
	unsigned i;

	for (i = 0; i < TEXT; i++)
		text[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
	text[TEXT] = '\0';
}

static void give_by_environment(const char *text)
{
	setenv("ORIEL_JOB_KEY", text, 1);
}

static void give_by_descriptor(const char *text)
{
	int fd = memfd_create("key", MFD_CLOEXEC);
	char name[32];

	snprintf(name, sizeof(name), "fd:%d", fd);
	if (write(fd, text, TEXT) == TEXT)
		setenv("ORIEL_JOB_KEY_FILE", name, 1);
}

/* The child: it makes a key, which @report gets, reads it, and waits for the end of @end. */
static void read_a_key(void (*give)(const char *text), int report, int end)
{
	unsigned char bytes[BYTES];
	struct ori_key key = {0};
	char text[TEXT + 1], is_right;

	if (getrandom(bytes, BYTES, 0) != BYTES || write(report, bytes, BYTES) != BYTES)
		_exit(1);
	to_text(bytes, text);
	give(text);
	explicit_bzero(text, sizeof(text));
	is_right = ori_key_read(&key) == ORIEL_OK && key.length == BYTES &&
		   memcmp(key.bytes, bytes, BYTES) == 0;
	explicit_bzero(&key, sizeof(key));
	explicit_bzero(bytes, sizeof(bytes));
	is_right = write(report, &is_right, 1) == 1 && read(end, &is_right, 1) == 0 && is_right;
	_exit(is_right ? 0 : 1);
}

static unsigned count_between(int memory, unsigned long start, unsigned long end,
			      const void *wanted, size_t length)
{
	char *all = malloc(end - start), *at = all;
	ssize_t n = pread(memory, all, end - start, (off_t)start);
	unsigned count = 0;

	/* Pages of the kernel cannot be read. */
	while (n > 0 && (at = memmem(at, (size_t)(all + n - at), wanted, length))) {
		count++;
		at++;
	}
	free(all);
	return count;
}

static struct copies find(pid_t child, const void *wanted, size_t length)
{
	unsigned long start = 0, end = 0, resident = 0;
	struct copies copies = {0};
	char name[64], line[512];
	FILE *maps;
	int memory;

	snprintf(name, sizeof(name), "/proc/%d/smaps", (int)child);
	maps = fopen(name, "r");
	snprintf(name, sizeof(name), "/proc/%d/mem", (int)child);
	memory = open(name, O_RDONLY | O_CLOEXEC);
	assert_non_null(maps);
	assert_true(memory >= 0);
	while (fgets(line, sizeof(line), maps)) {
		if (strchr(line, '-') && sscanf(line, "%lx-%lx ", &start, &end) == 2)
			continue;
		(void)sscanf(line, "Rss: %lu", &resident);
		if (strncmp(line, "VmFlags:", 8) == 0 && resident && end - start < SEARCHED_MAX)
			*(strstr(line, " dd") ? &copies.left_out : &copies.dumped) +=
				count_between(memory, start, end, wanted, length);
	}
	fclose(maps);
	close(memory);
	return copies;
}

static void check_copies(void (*give)(const char *text))
{
	int report[2], end[2], code;
	struct copies of_text, of_bytes;
	unsigned char bytes[BYTES];
	char text[TEXT + 1], is_right;
	pid_t child;

	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	assert_int_equal(pipe2(end, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		close(end[1]);
		read_a_key(give, report[1], end[0]);
	}
	close(report[1]);
	close(end[0]);
	assert_int_equal(read(report[0], bytes, BYTES), BYTES);
	assert_int_equal(read(report[0], &is_right, 1), 1);
	to_text(bytes, text);
	/* A part of a copy is as bad. */
	of_text = find(child, text + TEXT / 2, TEXT / 4);
	of_bytes = find(child, bytes + BYTES / 2, BYTES / 4);
	close(end[1]);
	close(report[0]);
	assert_int_equal(waitpid(child, &code, 0), child);
	assert_int_equal(code, 0);
	assert_int_equal(of_text.left_out, 1);
	assert_int_equal(of_text.dumped, 0);
	assert_int_equal(of_bytes.left_out, 0);
	assert_int_equal(of_bytes.dumped, 0);
}

static void test_a_reader_leaves_one_copy_of_the_key(void **state)
{
	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip(); /* it keeps memory that was freed, and frames whose functions have returned */
#endif
	check_copies(give_by_environment);
	check_copies(give_by_descriptor);
}

/* A child that has adopted a key reads one with @name=@value; its status, and whose key it got. */
static void check_choice(const char *name, const char *value, enum oriel_status expected,
			 unsigned char first)
{
	struct ori_key key = {.length = BYTES, .bytes = {0xad}}, read = {0};
	int code;
	pid_t child = fork();

	if (child == 0) {
		if (name)
			setenv(name, value, 1);
		_exit(ori_key_adopt(&key) != ORIEL_OK || ori_key_read(&read) != expected ||
		      (expected == ORIEL_OK && (read.length != BYTES || read.bytes[0] != first)));
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &code, 0), child);
	assert_int_equal(code, 0);
}

static void test_an_adopted_key_is_for_processes_without_one(void **state)
{
	static const char given[] =
		"5e00000000000000000000000000000000000000000000000000000000000001";

	(void)state;
	check_choice(NULL, NULL, ORIEL_OK, 0xad);
	check_choice("ORIEL_JOB_KEY", given, ORIEL_OK, 0x5e);
	check_choice("ORIEL_JOB_KEY", "no key", ORIEL_ERR_CONFIG, 0);
	check_choice("ORIEL_JOB_KEY_FILE", "/nowhere", ORIEL_ERR_CONFIG, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_reader_leaves_one_copy_of_the_key),
		cmocka_unit_test(test_an_adopted_key_is_for_processes_without_one),
	};

	unsetenv("ORIEL_JOB_KEY");
	unsetenv("ORIEL_JOB_KEY_FILE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
