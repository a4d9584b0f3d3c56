/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For unit tests that wait for a limit nearly all of their time: each runs in a child, so that
 * they wait at once, and beside the other tests of their program.
 */
#ifndef ORI_BASE_AT_ONCE_TEST_H
#define ORI_BASE_AT_ONCE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define AT_ONCE_MAX 8

static pid_t at_once_children[AT_ONCE_MAX];

/* Before the program starts a thread. */
static void at_once_begin(const struct CMUnitTest *tests, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		at_once_children[i] = fork();
		if (at_once_children[i] == 0)
			exit(_cmocka_run_group_tests(tests[i].name, &tests[i], 1, NULL, NULL));
		if (at_once_children[i] < 0)
			abort();
	}
}

/* How many of them have failed. */
static int at_once_end(size_t count)
{
	int failed = 0, how;

	for (size_t i = 0; i < count; i++)
		failed += waitpid(at_once_children[i], &how, 0) < 0 || how != 0;
	return failed;
}

#endif
