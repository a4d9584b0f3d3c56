/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and bytes between two sockets of one process, and each failure. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
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

#define LONG ori_deadline(UINT64_C(60000000000))
#define SHORT ori_deadline(UINT64_C(20000000))

struct pair {
	int listener, client, server;
	struct ucred peer; /* credentials as the server sees them */
};

static int open_pair(void **state)
{
	static struct pair p;
	uint8_t name[ORI_FDSOCK_NAME];

	assert_int_equal(ori_fdsock_listen(name, &p.listener), ORIEL_OK);
	assert_int_equal(ori_fdsock_connect(name, geteuid(), getpid(), LONG, &p.client), ORIEL_OK);
	assert_int_equal(ori_fdsock_accept(p.listener, LONG, &p.server, &p.peer), ORIEL_OK);
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
	unsigned before = count_fds(), nfds = 9;
	int ends[2], got[2];
	char text[8];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(ori_fdsock_send(p->client, "hello", 6, ends, 2, LONG), ORIEL_OK);
	assert_int_equal(ori_fdsock_recv(p->server, text, 6, got, 2, &nfds, LONG), ORIEL_OK);
	assert_string_equal(text, "hello");
	assert_int_equal(nfds, 2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fcntl(got[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);

	assert_int_equal(write(got[1], "x", 1), 1);
	assert_int_equal(read(ends[0], text, 1), 1);
	assert_int_equal(text[0], 'x');
	for (unsigned i = 0; i < 2; i++) {
		close(ends[i]);
		close(got[i]);
	}
	assert_int_equal(count_fds(), before);
}

static void test_each_message_keeps_its_own_descriptors(void **state)
{
	struct pair *p = *state;
	unsigned before = count_fds(), nfds;
	int ends[2], got = -1;
	char c;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(ori_fdsock_send(p->client, "a", 1, NULL, 0, LONG), ORIEL_OK);
	assert_int_equal(ori_fdsock_send(p->client, "b", 1, ends, 1, LONG), ORIEL_OK);
	assert_int_equal(ori_fdsock_recv(p->server, &c, 1, NULL, 0, &nfds, LONG), ORIEL_OK);
	assert_int_equal(nfds, 0);
	assert_int_equal(ori_fdsock_recv(p->server, &c, 1, &got, 1, &nfds, LONG), ORIEL_OK);
	assert_int_equal(nfds, 1);
	assert_int_equal(c, 'b');
	close(got);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(count_fds(), before);
}

static void test_as_many_descriptors_as_the_kernel_passes(void **state)
{
	struct pair *p = *state;
	unsigned before = count_fds(), nfds = 0;
	int sent[ORI_FDSOCK_FDS], got[ORI_FDSOCK_FDS];
	char c;

	for (unsigned i = 0; i < ORI_FDSOCK_FDS; i++)
		sent[i] = p->listener;
	assert_int_equal(ori_fdsock_send(p->client, "m", 1, sent, ORI_FDSOCK_FDS, LONG), ORIEL_OK);
	assert_int_equal(ori_fdsock_recv(p->server, &c, 1, got, ORI_FDSOCK_FDS, &nfds, LONG),
			 ORIEL_OK);
	assert_int_equal(nfds, ORI_FDSOCK_FDS);
	for (unsigned i = 0; i < nfds; i++)
		close(got[i]);
	assert_int_equal(ori_fdsock_send(p->client, "m", 1, sent, ORI_FDSOCK_FDS + 1, LONG),
			 ORIEL_ERR_INVALID);
	assert_int_equal(count_fds(), before);
}

static void test_excess_descriptors_are_closed_and_rejected(void **state)
{
	struct pair *p = *state;
	int sent[3] = {p->listener, p->listener, p->listener}, got[3] = {-1, -1, -1};
	unsigned before = count_fds(), nfds = 7;
	char c;

	assert_int_equal(ori_fdsock_send(p->client, "a", 1, sent, 3, LONG), ORIEL_OK);
	assert_int_equal(ori_fdsock_recv(p->server, &c, 1, got, 2, &nfds, LONG),
			 ORIEL_ERR_PROTOCOL);
	assert_non_null(strstr(oriel_last_error(), "more than 2 descriptors"));
	assert_int_equal(nfds, 7);
	assert_int_equal(got[0], -1);
	assert_int_equal(ori_fdsock_send(p->client, "b", 1, sent, 1, LONG), ORIEL_OK);
	assert_int_equal(ori_fdsock_recv(p->server, &c, 1, NULL, 0, &nfds, LONG),
			 ORIEL_ERR_PROTOCOL);
	assert_int_equal(count_fds(), before);
}

static void test_descriptors_without_a_free_number_are_an_error(void **state)
{
	struct pair *p = *state;
	int sent[2] = {p->listener, p->listener}, got[2];
	unsigned before = count_fds(), nfds;
	struct rlimit normal, tight;
	enum oriel_status status;
	int next;
	char c;

	assert_int_equal(ori_fdsock_send(p->client, "a", 1, sent, 2, LONG), ORIEL_OK);
	next = dup(p->listener); /* the lowest free descriptor */
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &normal), 0);
	tight = normal;
	tight.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	status = ori_fdsock_recv(p->server, &c, 1, got, 2, &nfds, LONG);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &normal), 0);
	assert_int_equal(status, ORIEL_ERR_NOMEM);
	assert_int_equal(count_fds(), before);
}

static void test_a_receive_without_data_times_out(void **state)
{
	struct pair *p = *state;
	unsigned nfds;
	int fd;
	char c;

	assert_int_equal(ori_fdsock_recv(p->server, &c, 1, NULL, 0, &nfds, SHORT),
			 ORIEL_ERR_TIMEOUT);
	assert_int_equal(ori_fdsock_accept(p->listener, SHORT, &fd, &p->peer), ORIEL_ERR_TIMEOUT);
	assert_int_equal(ori_fdsock_send(p->client, "ab", 2, NULL, 0, LONG), ORIEL_OK);
	assert_int_equal(ori_fdsock_recv(p->server, (char[3]){0}, 3, NULL, 0, &nfds, SHORT),
			 ORIEL_ERR_TIMEOUT);
}

static void test_a_send_to_a_closed_or_slow_reader_fails(void **state)
{
	struct pair *p = *state;
	size_t length = 64u << 20;
	char *much = calloc(1, length), c;
	unsigned nfds;

	assert_int_equal(ori_fdsock_send(p->client, much, length, NULL, 0, SHORT),
			 ORIEL_ERR_TIMEOUT);
	close(p->server);
	assert_int_equal(ori_fdsock_send(p->client, "a", 1, NULL, 0, LONG), ORIEL_ERR_PEER);
	assert_int_equal(ori_fdsock_recv(p->client, &c, 1, NULL, 0, &nfds, LONG), ORIEL_ERR_PEER);
	p->server = dup(p->client);
	free(much);
}

static void test_a_close_in_mid_message_closes_received_descriptors(void **state)
{
	struct pair *p = *state;
	unsigned before = count_fds(), nfds;
	char text[4];
	int got;

	assert_int_equal(ori_fdsock_send(p->client, "ab", 2, &p->listener, 1, LONG), ORIEL_OK);
	shutdown(p->client, SHUT_WR);
	assert_int_equal(ori_fdsock_recv(p->server, text, 4, &got, 1, &nfds, LONG), ORIEL_ERR_PEER);
	assert_int_equal(count_fds(), before);
}

static void test_empty_messages_are_rejected(void **state)
{
	struct pair *p = *state;
	unsigned nfds;

	assert_int_equal(ori_fdsock_send(p->client, "", 0, NULL, 0, LONG), ORIEL_ERR_INVALID);
	assert_int_equal(ori_fdsock_recv(p->server, NULL, 0, NULL, 0, &nfds, LONG),
			 ORIEL_ERR_INVALID);
}

struct bulk {
	int fd;
	const uint8_t *data;
	size_t length;
	enum oriel_status status;
};

static void *send_bulk(void *context)
{
	struct bulk *b = context;

	b->status = ori_fdsock_send(b->fd, b->data, b->length, &b->fd, 1, LONG);
	return NULL;
}

static void test_a_long_message_arrives_whole(void **state)
{
	struct pair *p = *state;
	struct bulk b = {.fd = p->client, .length = (4u << 20) + 3};
	uint8_t *sent = malloc(b.length), *received = malloc(b.length);
	pthread_t thread;
	unsigned nfds;
	int got;

	for (size_t i = 0; i < b.length; i++)
		sent[i] = (uint8_t)(i * 7 + i / 251);
	b.data = sent;
	assert_int_equal(pthread_create(&thread, NULL, send_bulk, &b), 0);
	assert_int_equal(ori_fdsock_recv(p->server, received, b.length, &got, 1, &nfds, LONG),
			 ORIEL_OK);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(b.status, ORIEL_OK);
	assert_memory_equal(sent, received, b.length);
	assert_int_equal(nfds, 1);
	close(got);
	free(sent);
	free(received);
}

static void test_both_sides_get_the_peers_credentials(void **state)
{
	struct pair *p = *state;
	uint8_t name[ORI_FDSOCK_NAME];
	int listener, fd, server, status;
	struct ucred peer;
	pid_t pid;

	assert_int_equal(p->peer.pid, getpid());
	assert_int_equal(p->peer.uid, geteuid());
	assert_int_equal(ori_fdsock_listen(name, &listener), ORIEL_OK);
	pid = fork();
	if (pid == 0)
		_exit(ori_fdsock_connect(name, geteuid(), getppid(), LONG, &fd) == ORIEL_OK ? 0
											    : 1);
	assert_int_equal(ori_fdsock_accept(listener, LONG, &server, &peer), ORIEL_OK);
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

/* Connect as another user, which only root can try. */
static void test_a_connection_of_another_user_is_closed(void **state)
{
	uint8_t name[ORI_FDSOCK_NAME];
	struct ucred peer;
	int listener, fd, status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(ori_fdsock_listen(name, &listener), ORIEL_OK);
	pid = fork();
	if (pid == 0)
		_exit(setuid(65534) == 0 && ori_fdsock_connect(name, 0, 0, LONG, &fd) == ORIEL_OK
			      ? 0
			      : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ori_fdsock_accept(listener, SHORT, &fd, &peer), ORIEL_ERR_TIMEOUT);
	close(listener);
}

static void *free_descriptors(void *context)
{
	const struct rlimit *normal = context;
	const struct timespec later = {.tv_nsec = 50000000};

	nanosleep(&later, NULL);
	return setrlimit(RLIMIT_NOFILE, normal) == 0 ? NULL : context;
}

/* The pending connection stays in the backlog meanwhile. */
static void test_accept_waits_for_a_free_descriptor(void **state)
{
	struct rlimit normal, tight;
	uint8_t name[ORI_FDSOCK_NAME];
	int listener, client, server, next;
	pthread_t thread;
	struct ucred peer;
	void *result;

	(void)state;
	assert_int_equal(ori_fdsock_listen(name, &listener), ORIEL_OK);
	assert_int_equal(ori_fdsock_connect(name, geteuid(), getpid(), LONG, &client), ORIEL_OK);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &normal), 0);
	tight = normal;
	next = dup(STDERR_FILENO);
	close(next);
	tight.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
	assert_int_equal(ori_fdsock_accept(listener, SHORT, &server, &peer), ORIEL_ERR_NOMEM);
	assert_int_equal(pthread_create(&thread, NULL, free_descriptors, &normal), 0);
	assert_int_equal(ori_fdsock_accept(listener, LONG, &server, &peer), ORIEL_OK);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	close(server);
	close(client);
	close(listener);
}

struct crowd {
	int listener;
	unsigned count;
};

static void *accept_crowd(void *context)
{
	struct crowd *c = context;
	struct ucred peer;
	int fd;

	for (unsigned i = 0; i < c->count; i++) {
		if (ori_fdsock_accept(c->listener, LONG, &fd, &peer) != ORIEL_OK)
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
		PAIR_TEST(test_each_message_keeps_its_own_descriptors),
		PAIR_TEST(test_as_many_descriptors_as_the_kernel_passes),
		PAIR_TEST(test_excess_descriptors_are_closed_and_rejected),
		PAIR_TEST(test_descriptors_without_a_free_number_are_an_error),
		PAIR_TEST(test_a_receive_without_data_times_out),
		PAIR_TEST(test_a_send_to_a_closed_or_slow_reader_fails),
		PAIR_TEST(test_a_close_in_mid_message_closes_received_descriptors),
		PAIR_TEST(test_empty_messages_are_rejected),
		PAIR_TEST(test_a_long_message_arrives_whole),
		PAIR_TEST(test_both_sides_get_the_peers_credentials),
		cmocka_unit_test(test_a_listener_of_another_process_is_rejected),
		cmocka_unit_test(test_a_connection_of_another_user_is_closed),
		cmocka_unit_test(test_accept_waits_for_a_free_descriptor),
		cmocka_unit_test(test_a_full_backlog_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
