/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of processes and random bytes: the same in all threads, another in each child. The end of
 * a process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/process.h"

#define THREADS 16

static void *read_token(void *token)
{
	return ori_process_token(token) == ORIEL_OK ? token : NULL;
}

/* Runs first, so that the threads also race to create the token. */
static void test_all_threads_see_one_token(void **state)
{
	pthread_t threads[THREADS];
	uint64_t tokens[THREADS] = {0};
	void *result;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_token, &tokens[i]), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_non_null(result);
		assert_true(tokens[i] != 0 && tokens[i] == tokens[0]);
	}
}

static void test_each_child_has_its_own_token(void **state)
{
	uint64_t mine, seen;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(ori_process_token(&mine), ORIEL_OK);
	pid = fork();
	if (pid == 0)
		_exit(ori_process_token(&seen) == ORIEL_OK && seen != mine && seen != 0 ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ori_process_token(&seen), ORIEL_OK);
	assert_true(seen == mine);
}

static void test_random_bytes_differ(void **state)
{
	uint8_t a[1000] = {0}, b[1000] = {0};

	(void)state;
	assert_int_equal(ori_random(a, sizeof(a)), ORIEL_OK);
	assert_int_equal(ori_random(b, sizeof(b)), ORIEL_OK);
	assert_true(memcmp(a, b, sizeof(a)) != 0);
	assert_true(memcmp(a + 980, (uint8_t[20]){0}, 20) != 0);
}

/* Whether its parent has waited for it or not, and if another process has its number by now. */
static void test_a_process_has_ended_once_it_exits(void **state)
{
	unsigned self = (unsigned)getpid();
	uint64_t birth = ori_process_birth(self), childs;
	siginfo_t info;
	pid_t pid;

	(void)state;
	assert_true(birth > 0);
	assert_false(ori_process_has_ended(self, birth));
	assert_true(ori_process_has_ended(self, birth - 1));
	assert_false(ori_process_has_ended(self, 0));
	pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	childs = ori_process_birth((unsigned)pid);
	assert_true(childs >= birth);
	assert_false(ori_process_has_ended((unsigned)pid, childs));
	kill(pid, SIGSTOP);
	assert_false(ori_process_has_ended((unsigned)pid, childs));
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(ori_process_has_ended((unsigned)pid, childs));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(ori_process_has_ended((unsigned)pid, childs));
	assert_int_equal(ori_process_birth((unsigned)pid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_threads_see_one_token),
		cmocka_unit_test(test_each_child_has_its_own_token),
		cmocka_unit_test(test_random_bytes_differ),
		cmocka_unit_test(test_a_process_has_ended_once_it_exits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
