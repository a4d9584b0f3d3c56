/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and bytes between two sockets of one process, and each failure. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/count_fds.h"
#include "net/fdsock.h"
#include "net/socket_test.h"

#define LONG ori_deadline(UINT64_C(60000000000))
#define SHORT ori_deadline(UINT64_C(20000000))

struct pair {
	int listener, client, server;
};

static int open_pair(void **state)
{
	static struct pair p;
	uint8_t name[ORI_FDSOCK_NAME];

	assert_int_equal(ori_fdsock_listen(name, &p.listener), ORIEL_OK);
	assert_int_equal(ori_fdsock_connect(name, geteuid(), getpid(), LONG, &p.client), ORIEL_OK);
	p.server = socket_accept(p.listener);
	assert_true(p.server >= 0);
	*state = &p;
	return 0;
}

static int close_pair(void **state)
{
	struct pair *p = *state;

	close(p->listener);
	close(p->client);
	close(p->server);
	return 0;
}

static void test_a_descriptor_arrives_with_its_bytes(void **state)
{
	struct pair *p = *state;
	unsigned before = count_fds();
	struct ori_fds got = {.count = 0};
	int ends[2];
	char text[8];

	assert_int_equal(pipe(ends), 0);
	assert_true(socket_send(p->client, "hello", 6, ends, 2));
	assert_int_equal(socket_recv(p->server, text, 6, &got), ORIEL_OK);
	assert_string_equal(text, "hello");
	assert_int_equal(got.count, 2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fcntl(got.of[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);

	assert_int_equal(write(got.of[1], "x", 1), 1);
	assert_int_equal(read(ends[0], text, 1), 1);
	assert_int_equal(text[0], 'x');
	ori_fds_close(&got);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(count_fds(), before);
}

static void test_a_name_is_one_listeners_and_one_users(void **state)
{
	static const uint8_t name[ORI_FDSOCK_NAME] = "a name of 16 by",
			     other[ORI_FDSOCK_NAME] = "no";
	unsigned before = count_fds();
	int listener, second, client;

	(void)state;
	assert_int_equal(ori_fdsock_listen_at(name, &listener), ORIEL_OK);
	assert_int_equal(ori_fdsock_listen_at(name, &second), ORIEL_ERR_SYSTEM);
	assert_int_equal(errno, EADDRINUSE);
	client = ori_fdsock_begin(name, geteuid());
	assert_true(client >= 0);
	close(client);
	assert_int_equal(ori_fdsock_begin(name, geteuid() + 1), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(ori_fdsock_begin(other, geteuid()), -1);
	assert_int_equal(errno, ECONNREFUSED);
	close(listener);
	assert_int_equal(count_fds(), before);
}

static void test_each_message_keeps_its_own_descriptors(void **state)
{
	struct pair *p = *state;
	unsigned before = count_fds();
	struct ori_fds got = {.count = 0};
	char c;

	assert_true(socket_send(p->client, "a", 1, NULL, 0));
	assert_true(socket_send(p->client, "b", 1, &p->listener, 1));
	assert_int_equal(socket_recv(p->server, &c, 1, &got), ORIEL_OK);
	assert_int_equal(got.count, 0);
	assert_int_equal(socket_recv(p->server, &c, 1, &got), ORIEL_OK);
	assert_int_equal(got.count, 1);
	assert_int_equal(c, 'b');
	ori_fds_close(&got);
	assert_int_equal(count_fds(), before);
}

static void test_as_many_descriptors_as_the_kernel_passes(void **state)
{
	struct pair *p = *state;
	unsigned before = count_fds();
	struct ori_fds got = {.count = 0};
	int sent[ORI_FDSOCK_FDS];
	char c;

	for (unsigned i = 0; i < ORI_FDSOCK_FDS; i++)
		sent[i] = p->listener;
	assert_true(socket_send(p->client, "m", 1, sent, ORI_FDSOCK_FDS));
	assert_int_equal(socket_recv(p->server, &c, 1, &got), ORIEL_OK);
	assert_int_equal(got.count, ORI_FDSOCK_FDS);
	ori_fds_close(&got);
	assert_int_equal(count_fds(), before);
}

static void test_excess_descriptors_are_closed_and_rejected(void **state)
{
	struct pair *p = *state;
	int sent[3] = {p->listener, p->listener, p->listener};
	struct ori_fds got = {.count = ORI_FDSOCK_FDS - 2};
	unsigned before = count_fds();
	char c;

	for (unsigned i = 0; i < got.count; i++)
		got.of[i] = -1;
	assert_true(socket_send(p->client, "a", 1, sent, 3));
	assert_int_equal(socket_recv(p->server, &c, 1, &got), ORIEL_ERR_PROTOCOL);
	assert_int_equal(got.count, ORI_FDSOCK_FDS);
	assert_int_equal(count_fds(), before + 2);
	ori_fds_close(&got);
	assert_int_equal(count_fds(), before);
}

static void test_descriptors_without_a_free_number_are_an_error(void **state)
{
	struct pair *p = *state;
	int sent[2] = {p->listener, p->listener};
	struct ori_fds got = {.count = 0};
	unsigned before = count_fds();
	struct rlimit normal, tight;
	enum oriel_status status;
	int next;
	char c;

	assert_true(socket_send(p->client, "a", 1, sent, 2));
	next = dup(p->listener); /* the lowest free descriptor */
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &normal), 0);
	tight = normal;
	tight.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	status = socket_recv(p->server, &c, 1, &got);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &normal), 0);
	assert_int_equal(status, ORIEL_ERR_NOMEM);
	ori_fds_close(&got);
	assert_int_equal(count_fds(), before);
}

static void test_a_pull_does_not_wait(void **state)
{
	struct pair *p = *state;
	struct ori_fds fds = {.count = 0};
	size_t got;
	char c;

	assert_int_equal(ori_fdsock_pull(p->server, &c, 1, &fds, &got), ORIEL_AGAIN);
	shutdown(p->client, SHUT_WR);
	assert_int_equal(ori_fdsock_pull(p->server, &c, 1, &fds, &got), ORIEL_ERR_PEER);
}

static void test_a_socket_names_the_process_behind_it(void **state)
{
	struct pair *p = *state;
	uint8_t name[ORI_FDSOCK_NAME];
	int listener, fd, server, status;
	struct ucred peer;
	pid_t pid;

	assert_int_equal(ori_fdsock_peer(p->server, &peer), ORIEL_OK);
	assert_int_equal(peer.pid, getpid());
	assert_int_equal(peer.uid, geteuid());
	assert_int_equal(ori_fdsock_listen(name, &listener), ORIEL_OK);
	pid = fork();
	if (pid == 0)
		_exit(ori_fdsock_connect(name, geteuid(), getppid(), LONG, &fd) == ORIEL_OK ? 0
											    : 1);
	server = socket_accept(listener);
	assert_int_equal(ori_fdsock_peer(server, &peer), ORIEL_OK);
	assert_int_equal(peer.pid, pid);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(server);
	close(listener);
}

static void test_a_listener_of_another_process_is_rejected(void **state)
{
	uint8_t name[ORI_FDSOCK_NAME];
	unsigned before = count_fds();
	int listener, fd = -1;

	(void)state;
	assert_int_equal(ori_fdsock_listen(name, &listener), ORIEL_OK);
	assert_int_equal(ori_fdsock_connect(name, geteuid() + 1, 0, LONG, &fd), ORIEL_ERR_AUTH);
	assert_int_equal(ori_fdsock_connect(name, geteuid(), getpid() + 1, LONG, &fd),
			 ORIEL_ERR_AUTH);
	assert_int_equal(fd, -1);
	close(listener);
	assert_int_equal(ori_fdsock_connect(name, geteuid(), 0, LONG, &fd), ORIEL_ERR_PEER);
	assert_int_equal(count_fds(), before);
}

struct crowd {
	int listener;
	unsigned count;
};

static void *accept_crowd(void *context)
{
	struct crowd *c = context;

	for (unsigned i = 0; i < c->count; i++) {
		int fd = socket_accept(c->listener);

		if (fd < 0)
			return context;
		close(fd);
	}
	return NULL;
}

static void test_a_full_backlog_is_waited_for(void **state)
{
	uint8_t name[ORI_FDSOCK_NAME];
	unsigned before = count_fds();
	struct crowd c = {0};
	int fds[16], last;
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(ori_fdsock_listen(name, &c.listener), ORIEL_OK);
	assert_int_equal(listen(c.listener, 1), 0);
	while (c.count < 16 &&
	       ori_fdsock_connect(name, geteuid(), 0, SHORT, &fds[c.count]) == ORIEL_OK)
		c.count++;
	assert_in_range(c.count, 1, 15);
	c.count++;
	assert_int_equal(pthread_create(&thread, NULL, accept_crowd, &c), 0);
	assert_int_equal(ori_fdsock_connect(name, geteuid(), 0, LONG, &last), ORIEL_OK);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	for (unsigned i = 0; i + 1 < c.count; i++)
		close(fds[i]);
	close(last);
	close(c.listener);
	assert_int_equal(count_fds(), before);
}

#define PAIR_TEST(f) cmocka_unit_test_setup_teardown(f, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_a_descriptor_arrives_with_its_bytes),
		PAIR_TEST(test_a_name_is_one_listeners_and_one_users),
		PAIR_TEST(test_each_message_keeps_its_own_descriptors),
		PAIR_TEST(test_as_many_descriptors_as_the_kernel_passes),
		PAIR_TEST(test_excess_descriptors_are_closed_and_rejected),
		PAIR_TEST(test_descriptors_without_a_free_number_are_an_error),
		PAIR_TEST(test_a_pull_does_not_wait),
		PAIR_TEST(test_a_socket_names_the_process_behind_it),
		cmocka_unit_test(test_a_listener_of_another_process_is_rejected),
		cmocka_unit_test(test_a_full_backlog_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
