/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of the listener under a flood of unproven connections, with and without a key: the
 * process retains descriptors, and a peer is handed over.
 */
#include "net/listen.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/socket_test.h"

#define UNPROVEN 300
#define LONG 100000000000ull /* ns; a deadline that passes only when a test fails */

static const struct ori_key key = {16, "a key for a test"};

struct scene {
	struct ori_tls_context *context;
	struct ori_traffic traffic;
	struct ori_net_listener listener;
	struct ori_address address;
	int unproven[UNPROVEN];
	struct rlimit files; /* the limit before the test */
	atomic_uint warnings;
	atomic_uint counts;     /* those that only count connections */
	atomic_uint suppressed; /* connections that they stand for */
	char warning[300];      /* the first one */
};

/* The connections that a line stands for beside its own. */
static unsigned suppressed_in(const char *line)
{
	const char *so = strstr(line, "; so were ");
	unsigned count = 0;

	if (so)
		return sscanf(so, "; so were %u before it", &count) == 1 ? count : 0;
	return sscanf(line, "%u more connections ended as those", &count) == 1 ? count : 0;
}

static void keep_warning(void *context, enum oriel_log_level level, const char *message)
{
	struct scene *s = context;

	if (level != ORIEL_LOG_WARN)
		return;
	if (atomic_fetch_add(&s->warnings, 1) == 0)
		snprintf(s->warning, sizeof(s->warning), "%s", message);
	atomic_fetch_add(&s->suppressed, suppressed_in(message));
	atomic_fetch_add(&s->counts, message[0] >= '0' && message[0] <= '9');
}

static void scene_open(struct scene *s)
{
	int fd;

	memset(s, 0, sizeof(*s));
	memset(s->unproven, -1, sizeof(s->unproven));
	assert_int_equal(ori_tls_context_create(&key, &s->context), ORIEL_OK);
	ori_net_listener_init(&s->listener, s->context, 2, &s->traffic);
	s->address = (struct ori_address){.family = 4, .ip = {127, 0, 0, 1}};
	assert_int_equal(ori_endpoint_listen(&s->address, &fd), ORIEL_OK);
	assert_int_equal(ori_net_listener_open(&s->listener, fd), ORIEL_OK);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &s->files), 0);
	oriel_log_set_sink(keep_warning, s);
}

/* From here on the process can open @more descriptors. */
static void scene_limit(struct scene *s, unsigned more)
{
	struct rlimit few = s->files;
	int next = dup(STDERR_FILENO);

	assert_true(next >= 0);
	close(next);
	few.rlim_cur = (rlim_t)next + more;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static void scene_close(struct scene *s)
{
	unsigned i;

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &s->files), 0);
	for (i = 0; i < UNPROVEN; i++)
		if (s->unproven[i] >= 0)
			close(s->unproven[i]);
	ori_net_listener_close(&s->listener);
	ori_tls_context_destroy(s->context);
	oriel_log_set_sink(NULL, NULL);
}

static void scene_flood(struct scene *s)
{
	unsigned i;

	for (i = 0; i < UNPROVEN; i++) {
		s->unproven[i] = socket_connect(&s->address);
		assert_true(s->unproven[i] >= 0);
	}
}

static bool has_free_descriptor(void)
{
	int fd = dup(STDERR_FILENO);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Serve until the listener has no connection to accept. */
static void serve_all(struct scene *s)
{
	struct pollfd polled = {.fd = s->listener.fd, .events = POLLIN};

	while (poll(&polled, 1, 0) > 0)
		ori_net_listener_serve(&s->listener);
}

static void test_one_call_accepts_a_few_connections(void **state)
{
	struct scene s;

	(void)state;
	scene_open(&s);
	scene_flood(&s);
	ori_net_listener_serve(&s.listener);
	assert_in_range(s.listener.pending_count, 1, 64);
	serve_all(&s);
	assert_in_range(s.listener.pending_count, 1, 2 + 128);
	assert_non_null(strstr(s.warning, "too many silent connections"));
	scene_close(&s);
}

/* Each connection has a line, or is counted in one, whatever the reason. */
static void test_a_flood_is_counted_in_few_lines(void **state)
{
	unsigned long refused = 0, logged;
	uint64_t start, end;
	struct scene s;

	(void)state;
	scene_open(&s);
	start = ori_clock_ns();
	for (end = start; end - start < 1200000000u; end = ori_clock_ns()) {
		if (refused++ % 2)
			ori_net_listener_warn(&s.listener, "a process", "it is a test");
		else
			ori_net_listener_refuse(&s.listener, "a process", ORIEL_ERR_AUTH, "test");
		ori_net_listener_serve(&s.listener);
	}
	assert_true(refused > 100);
	/* One a second of each kind: a warning and a rejection. */
	assert_in_range(atomic_load(&s.warnings), 2, 2 * ((end - start) / 1000000000u + 1));
	assert_true(ori_net_listener_due(&s.listener) <= end + 1000000000u);
	ori_net_listener_close(&s.listener);
	logged = atomic_load(&s.warnings) - atomic_load(&s.counts) + atomic_load(&s.suppressed);
	assert_int_equal(logged, refused);
	scene_close(&s);
}

/* A rank that has another key is named even while probes are only counted. */
static void test_a_flood_of_probes_hides_no_rejected_rank(void **state)
{
	struct scene s;

	(void)state;
	scene_open(&s);
	ori_net_listener_warn(&s.listener, "a probe", "it is a test");
	ori_net_listener_warn(&s.listener, "a probe", "it is a test");
	assert_int_equal(atomic_load(&s.warnings), 1);
	ori_net_listener_refuse(&s.listener, "rank 3", ORIEL_ERR_AUTH, "it has another key");
	assert_int_equal(atomic_load(&s.warnings), 2);
	scene_close(&s);
}

static void test_unproven_connections_leave_descriptors_to_the_process(void **state)
{
	static const unsigned more[] = {200, 100, 20, 2, 1};
	struct scene s;
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		scene_open(&s);
		scene_flood(&s);
		scene_limit(&s, more[i]);
		serve_all(&s);
		assert_int_equal(has_free_descriptor(), more[i] > 1);
		assert_true(s.listener.pending_count >= 1);
		assert_non_null(strstr(s.warning, "too many silent connections"));
		scene_close(&s);
	}
}

/* Wait as the owner of a listener does. */
static void scene_wait(struct scene *s, uint64_t deadline)
{
	struct pollfd polled = {.fd = s->listener.epoll, .events = POLLIN};

	if (s->listener.paused_until && s->listener.paused_until < deadline)
		deadline = s->listener.paused_until;
	poll(&polled, 1, ori_deadline_poll_ms(deadline));
	ori_net_listener_serve(&s->listener);
}

/* With no connection to drop the listener pauses: poll() does not return in a busy loop. */
static void test_a_listener_without_descriptors_pauses(void **state)
{
	uint64_t start, turns = 0;
	struct scene s;

	(void)state;
	scene_open(&s);
	s.unproven[0] = socket_connect(&s.address);
	scene_limit(&s, 0);
	assert_false(has_free_descriptor());
	start = ori_clock_ns();
	while (ori_clock_ns() - start < 300000000u) {
		scene_wait(&s, start + 300000000u);
		turns++;
	}
	/* poll() returns twice each 10 ms: for the connection, and at the end of the pause. */
	assert_in_range(turns, 1, 100);
	assert_int_equal(s.listener.pending_count, 0);
	assert_string_equal(s.warning, "cannot accept a connection: Too many open files");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &s.files), 0);
	while (s.listener.pending_count == 0)
		ori_net_listener_serve(&s.listener);
	scene_close(&s);
}

/* A connector dials again whenever its connection is dropped, as the bootstrap's does. */
struct caller {
	const struct ori_address *address;
	enum oriel_status status;
	atomic_bool is_done;
	struct ori_net_conn conn;
};

static enum oriel_status call_once(struct caller *caller, struct ori_tls_context *context,
				   struct ori_traffic *traffic)
{
	struct pollfd polled = {.events = 0};
	enum oriel_status status;

	if (!ori_net_dial(&caller->conn, caller->address, context, traffic))
		return ORIEL_ERR_PEER;
	while ((status = ori_net_step(&caller->conn)) == ORIEL_AGAIN) {
		polled.fd = caller->conn.fd;
		polled.events = ori_net_events(&caller->conn);
		poll(&polled, 1, 100);
	}
	return status == ORIEL_OK ? ori_net_send(&caller->conn, 1, "hello", 5) : status;
}

static void *call(void *arg)
{
	struct ori_tls_context *context = NULL;
	static struct ori_traffic traffic;
	struct caller *caller = arg;
	unsigned left;

	caller->status = ori_tls_context_create(&key, &context);
	for (left = 1000; left && caller->status == ORIEL_OK; left--) {
		caller->status = call_once(caller, context, &traffic);
		if (caller->status == ORIEL_OK)
			break;
		ori_net_close(&caller->conn);
		if (caller->status == ORIEL_ERR_PEER)
			caller->status = ORIEL_OK;
		usleep(2000);
	}
	atomic_store(&caller->is_done, true);
	while (atomic_load(&caller->is_done))
		usleep(1000);
	ori_net_close(&caller->conn);
	ori_tls_context_destroy(context);
	return NULL;
}

/* Each unproven connection that is dropped is replaced at once; the peer gets in anyhow. */
static void test_a_peer_gets_in_during_a_flood(void **state)
{
	static struct caller caller = {.conn.fd = -1};
	struct ori_net_pending *pending = NULL;
	struct ori_frame frame;
	unsigned char body[5];
	struct scene s;
	pthread_t thread;
	unsigned i = 0;

	(void)state;
	scene_open(&s);
	scene_flood(&s);
	scene_limit(&s, 12);
	caller.address = &s.address;
	assert_int_equal(pthread_create(&thread, NULL, call, &caller), 0);
	while (!pending) {
		int fd = ori_endpoint_begin(&s.address);

		if (fd >= 0) {
			close(s.unproven[i]);
			s.unproven[i] = fd;
			i = (i + 1) % UNPROVEN;
		}
		ori_net_listener_serve(&s.listener);
		pending = ori_net_listener_next(&s.listener);
	}
	while (!atomic_load(&caller.is_done))
		usleep(1000);
	assert_int_equal(caller.status, ORIEL_OK);
	assert_int_equal(ori_net_take(&pending->conn, &frame, body, sizeof(body)), ORIEL_OK);
	assert_int_equal(frame.type, 1);
	assert_memory_equal(body, "hello", 5);
	ori_net_pending_free(pending);
	atomic_store(&caller.is_done, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	scene_close(&s);
}

/* Connect to @name and send a hello; as another user if @uid is not 0. */
static int call_local(const uint8_t *name, uid_t uid)
{
	static struct ori_net_conn conn;
	int fd;

	if ((uid && setuid(uid) != 0) ||
	    ori_fdsock_connect(name, uid ? 0 : geteuid(), 0, ori_deadline(LONG), &fd) != ORIEL_OK)
		return 1;
	ori_net_open(&conn, fd, NULL);
	return ori_net_send(&conn, 1, "hello", 5) == ORIEL_OK ? 0 : 1;
}

static void test_a_unix_listener_takes_processes_of_its_user(void **state)
{
	struct ori_net_pending *pending;
	uint8_t name[ORI_FDSOCK_NAME];
	pid_t pids[2] = {0};
	struct scene s;
	int fd, result, k;

	(void)state;
	scene_open(&s);
	ori_net_listener_close(&s.listener);
	ori_net_listener_init(&s.listener, NULL, 2, NULL);
	assert_int_equal(ori_fdsock_listen(name, &fd), ORIEL_OK);
	assert_int_equal(ori_net_listener_open(&s.listener, fd), ORIEL_OK);
	/* Only root can try to connect as another user. */
	for (k = 0; k < (geteuid() == 0 ? 2 : 1); k++) {
		pids[k] = fork();
		if (pids[k] == 0)
			_exit(call_local(name, k ? 65534 : 0));
		assert_int_equal(waitpid(pids[k], &result, 0), pids[k]);
		assert_int_equal(result, 0);
	}
	serve_all(&s);
	pending = ori_net_listener_next(&s.listener);
	assert_non_null(pending);
	assert_int_equal(pending->pid, pids[0]);
	assert_null(ori_net_listener_next(&s.listener));
	assert_int_equal(s.listener.pending_count, 0);
	if (pids[1])
		assert_non_null(
			strstr(s.warning, "of user 65534 is dropped: it is of another user"));
	ori_net_pending_free(pending);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_call_accepts_a_few_connections),
		cmocka_unit_test(test_a_flood_is_counted_in_few_lines),
		cmocka_unit_test(test_a_flood_of_probes_hides_no_rejected_rank),
		cmocka_unit_test(test_unproven_connections_leave_descriptors_to_the_process),
		cmocka_unit_test(test_a_listener_without_descriptors_pauses),
		cmocka_unit_test(test_a_peer_gets_in_during_a_flood),
		cmocka_unit_test(test_a_unix_listener_takes_processes_of_its_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
