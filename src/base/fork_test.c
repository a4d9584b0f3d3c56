/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of fork.c: mappings, sockets, locks and handles of the library in a child. */
#include "base/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/handle.h"
#include "base/help.h"

#define LENGTH 8192u
#define DEADLINE 60 /* seconds; it only ends what hangs */

/* The result of @run in a child, which returns it as its exit status. */
static int in_child(int (*run)(void *context), void *context)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		alarm(DEADLINE);
		_exit(run(context));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static char *shared_map(int fd)
{
	char *base = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(base, MAP_FAILED);
	return base;
}

struct mappings {
	char *own, *peer, *left;
};

static int change(void *context)
{
	struct mappings *m = context;
	bool is_right = m->own[0] == 'o' && m->own[LENGTH - 1] == 'w' && m->peer[0] == 0;

	memset(m->own, 'c', LENGTH);
	memset(m->peer, 'c', LENGTH);
	m->left[0] = 'c';
	return is_right ? 0 : 1;
}

static int change_twice(void *context)
{
	struct mappings *m = context;
	int result = change(context);

	/* The mapping is private already, so a grandchild reads the bytes that this child wrote. */
	m->own[0] = 'o';
	m->own[LENGTH - 1] = 'w';
	m->peer[0] = 0;
	return result ? result : in_child(change, context);
}

static void test_mappings_are_private_in_the_child(void **state)
{
	int fd = memfd_create("fork_test", MFD_CLOEXEC);
	struct mappings m;

	(void)state;
	assert_true(fd >= 0 && ftruncate(fd, LENGTH) == 0);
	m.own = shared_map(fd);
	m.peer = shared_map(fd);
	m.left = shared_map(fd);
	assert_true(ori_fork_share(m.own, LENGTH, fd));
	assert_true(ori_fork_share(m.peer, LENGTH, -1));
	m.own[0] = 'o';
	m.own[LENGTH - 1] = 'w';
	assert_int_equal(in_child(change_twice, &m), 0);
	assert_int_equal(m.own[1], 0);
	/* The child wrote it through the mapping that the library does not know. */
	assert_int_equal(m.own[0], 'c');
	assert_int_equal(m.own[LENGTH - 1], 'w');

	ori_fork_unshare(m.own);
	ori_fork_unshare(m.peer);
	munmap(m.own, LENGTH);
	munmap(m.peer, LENGTH);
	munmap(m.left, LENGTH);
	close(fd);
}

/* The descriptor of the library's socket is no socket any more; the program's file is open. */
static int look_at_descriptors(void *context)
{
	const int *fds = context;
	struct stat st;
	char byte;

	if (send(fds[0], "x", 1, MSG_NOSIGNAL) >= 0 || shutdown(fds[0], SHUT_RDWR) == 0)
		return 1;
	if (fcntl(fds[0], F_GETFD) != FD_CLOEXEC)
		return 2;
	return fstat(fds[2], &st) == 0 && read(fds[2], &byte, 1) == 1 && byte == 'p' ? 0 : 3;
}

static void test_sockets_of_the_library_are_not_inherited(void **state)
{
	int pair[2], program[2], fds[3];
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	ori_fork_socket(pair[0]);
	/* The library's socket is closed, and the program opens another file under its number. */
	fds[2] = socket(AF_UNIX, SOCK_STREAM, 0);
	ori_fork_socket(fds[2]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, program), 0);
	assert_int_equal(dup2(program[0], fds[2]), fds[2]);
	assert_int_equal(write(program[1], "p", 1), 1);

	fds[0] = pair[0];
	fds[1] = pair[1];
	assert_int_equal(in_child(look_at_descriptors, fds), 0);
	/* The peer socket has received no byte and no end of file. */
	assert_int_equal(recv(pair[1], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(write(pair[0], "y", 1), 1);
	assert_int_equal(read(pair[1], &byte, 1), 1);
	close(pair[0]);
	close(pair[1]);
	close(program[0]);
	close(program[1]);
	close(fds[2]);
}

static atomic_bool is_over;

static void help(struct ori_helper *helper)
{
	(void)helper;
	ori_fail(ORIEL_ERR_STATE, "help");
}

static void sink(void *context, enum oriel_log_level level, const char *message)
{
	(void)context, (void)level, (void)message;
}

/* Calls that take every lock of src/base. */
static void use_locks(unsigned turn)
{
	struct ori_helper helper = {.help = help};
	void *object = ori_handle_alloc(ORI_HANDLE_REGION, 64);

	if (object) {
		ori_handle_open(object, NULL);
		(void)ori_handle_child(object);
		(void)ori_handle_shut(object, ORI_HANDLE_REGION, "end");
		ori_handle_free(object);
	}
	ori_help_add(&helper);
	ori_help();
	ori_help_remove(&helper);
	oriel_log_set_sink(sink, turn % 2 ? &is_over : NULL);
	ori_misuse("turn %u", turn);
}

static void *use_locks_all_the_time(void *context)
{
	unsigned turn = 0;

	(void)context;
	while (!atomic_load(&is_over))
		use_locks(++turn);
	return NULL;
}

static int use_locks_once(void *context)
{
	(void)context;
	use_locks(1);
	use_locks(2);
	return oriel_last_status() == ORIEL_ERR_STATE ? 0 : 1;
}

static void test_a_child_finds_no_lock_taken(void **state)
{
	pthread_t threads[2];
	unsigned i;

	(void)state;
	alarm(2 * DEADLINE);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_locks_all_the_time, NULL),
				 0);
	for (i = 0; i < 100; i++)
		assert_int_equal(in_child(use_locks_once, NULL), 0);
	atomic_store(&is_over, true);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static int use_forked(void *object)
{
	void *own;

	if (ori_handle_check(object, ORI_HANDLE_REGION, "call") != ORIEL_ERR_FORKED ||
	    !strstr(oriel_last_error(), "call: this process was forked after the region was"))
		return 1;
	if (ori_handle_shut(object, ORI_HANDLE_REGION, "end"))
		return 2;
	own = ori_handle_alloc(ORI_HANDLE_REGION, 64);
	if (!own || own == object)
		return 3;
	ori_handle_open(own, object);
	if (ori_handle_check(own, ORI_HANDLE_REGION, "call") != ORIEL_OK ||
	    !ori_handle_child(object))
		return 4;
	return ori_handle_shut(own, ORI_HANDLE_REGION, "end") && !ori_handle_child(object) ? 0 : 5;
}

static void test_handles_of_the_parent_are_not_live_in_the_child(void **state)
{
	void *object = ori_handle_alloc(ORI_HANDLE_REGION, 64);

	(void)state;
	ori_handle_open(object, NULL);
	assert_int_equal(in_child(use_forked, object), 0);
	assert_int_equal(ori_handle_check(object, ORI_HANDLE_REGION, "call"), ORIEL_OK);
	assert_true(ori_handle_shut(object, ORI_HANDLE_REGION, "end"));
	ori_handle_free(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mappings_are_private_in_the_child),
		cmocka_unit_test(test_sockets_of_the_library_are_not_inherited),
		cmocka_unit_test(test_handles_of_the_parent_are_not_live_in_the_child),
		cmocka_unit_test(test_a_child_finds_no_lock_taken),
	};

	setenv("ORIEL_LOG", "info", 1);
	oriel_log_set_sink(sink, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
