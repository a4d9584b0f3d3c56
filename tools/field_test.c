/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The archive of `oriel field-report` holds no name and no address: each kind goes in, beside
 * words that must stay, and none is in the bytes that come out. A command gets both outputs and no
 * descriptor beside them; it is this program with an argument.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "field.h"

static const struct {
	const char *text, *secret, *expected;
} cases[] = {
	{"on node7: ready", "node7", "on host0: ready"},
	{"node7.lab.example.org:29500", "example", "host0:29500"},
	{"by jdoe@NODE7", "NODE7", "by user0@host0"},
	{"nodes7 and xnode7 stay", "", "nodes7 and xnode7 stay"},
	{"nic rocep23s0f0:1 down", "rocep23s0f0", "nic nic0:1 down"},
	{"mlx5_0:1 down", "", "mlx5_0:1 down"},
	{"net ens1f0np0, up", "ens1f0np0", "net net0, up"},
	{"0000:c1:00.1 and 0000:c1:00.0", "c1:00", "pci0 and pci1"},
	{"again 0000:c1:00.1", "c1:00", "again pci0"},
	{"mac b8:ce:f6:01:02:03.", "b8:ce", "mac address0."},
	{"ip 10.17.3.44:29500", "10.17", "ip address1:29500"},
	{"ip fe80::bace:f6ff:fe01:203", "bace", "ip address2"},
	{"gid fe80:0000:0000:0000:b8ce:f603:0001:0203 x", "b8ce", "gid address3 x"},
	{"gid ::ffff:10.17.3.45 x", "17.3", "gid address4 x"},
	{"guid b8ce:f603:0001:0203;", "f603", "guid address5;"},
	{"guid 0xb8cef60300010203", "b8cef603", "guid guid0"},
	{"LID 17, \"lid\": 0x2b", "0x2b", "LID lid0, \"lid\": lid1"},
	{"GPU-01234567-89ab-cdef-0123-456789abcdef", "cdef", "GPU-uuid0"},
	{"in /home/someone/x.log: no", "someone", "in path0: no"},
	{"\"/sys/class/net/ens1f0np0/mtu\"", "ens1f0np0", "\"/sys/class/net/net0/mtu\""},
	{"~/.oriel/plan", "plan", "path1"},
	{"no NIC of host other9 is up", "other9", "no NIC of host host1 is up"},
	{"12:30:59 took 1.25 s, version 28.39.1002", "",
	 "12:30:59 took 1.25 s, version 28.39.1002"},
	{"0a0b0c0d 00000001 ORIEL_OK", "", "0a0b0c0d 00000001 ORIEL_OK"},
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

static struct field_redactor *redactor(void)
{
	struct field_redactor *r = field_redactor_create();

	assert_non_null(r);
	assert_true(field_redactor_learn(r, "host", "node7"));
	assert_true(field_redactor_learn(r, "user", "jdoe"));
	assert_true(field_redactor_learn(r, "net", "ens1f0np0"));
	assert_true(field_redactor_learn(r, "nic", "rocep23s0f0"));
	return r;
}

static void test_each_kind_gets_a_placeholder(void **state)
{
	struct field_redactor *r = redactor();

	(void)state;
	for (size_t i = 0; i < CASES; i++) {
		char *text = field_redact(r, cases[i].text);

		assert_non_null(text);
		assert_string_equal(text, cases[i].expected);
		free(text);
	}
	field_redactor_destroy(r);
}

static void test_no_byte_of_the_archive_holds_one(void **state)
{
	struct field_redactor *r = redactor();
	size_t length = 0;
	char *bytes = NULL;
	FILE *to = open_memstream(&bytes, &length);

	(void)state;
	assert_non_null(to);
	for (size_t i = 0; i < CASES; i++) {
		char *text = field_redact(r, cases[i].text);
		char name[32];

		assert_non_null(text);
		snprintf(name, sizeof(name), "case/%zu", i);
		/* Text that stays may hold a part of a secret. */
		if (*cases[i].secret)
			assert_true(field_tar_add(to, name, text, strlen(text)));
		free(text);
	}
	assert_true(field_tar_end(to));
	fclose(to);
	assert_int_equal(length % 512, 0);
	for (size_t i = 0; i < CASES; i++)
		if (*cases[i].secret)
			assert_null(
				memmem(bytes, length, cases[i].secret, strlen(cases[i].secret)));
	/* Beside the text there are blocks of fixed form, which name no host and no user. */
	assert_memory_equal(bytes + 257, "ustar\00000", 8);
	assert_int_equal(bytes[265], 0);
	free(bytes);
	field_redactor_destroy(r);
}

/* The kernel assigns the lowest numbers that are free, to this pipe and to the next. */
static void test_a_command_gets_no_end_of_its_pipe(void **state)
{
	char first[16], second[16], self[] = "field_test";
	char *arguments[] = {self, first, second, NULL};
	const char *const settings[] = {NULL};
	struct field_run run;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	snprintf(first, sizeof(first), "%d", ends[0]);
	snprintf(second, sizeof(second), "%d", ends[1]);
	close(ends[0]);
	close(ends[1]);
	assert_true(field_run(arguments, settings, 600, &run));
	assert_string_equal(run.text, "closed closed ");
	assert_int_equal(run.code, 3);
	assert_false(run.is_late);
	free(run.text);
}

static int say_which_are_open(char **numbers)
{
	for (; *numbers; numbers++)
		printf("%s ", fcntl(atoi(*numbers), F_GETFD) < 0 ? "closed" : "open");
	return 3;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_kind_gets_a_placeholder),
		cmocka_unit_test(test_no_byte_of_the_archive_holds_one),
		cmocka_unit_test(test_a_command_gets_no_end_of_its_pipe),
	};

	if (argc > 1)
		return say_which_are_open(argv + 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
