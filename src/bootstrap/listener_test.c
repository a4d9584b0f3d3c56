/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of the bootstrap's listener under a flood of unproven connections: the process
 * retains descriptors, a rank is admitted, and a rejected connector gets the reason.
 */
#include "bootstrap/listener.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/dial.h"

#define UNPROVEN 300
#define LONG 100000000000ull /* ns; a deadline that passes only when a test fails */

struct scene {
	struct ori_credentials own;
	struct ori_traffic traffic;
	struct ori_listener listener;
	int unproven[UNPROVEN];
	struct rlimit files; /* the limit before the test */
	atomic_uint warnings;
	char warning[300]; /* the first one */
};

static void keep_warning(void *context, enum oriel_log_level level, const char *message)
{
	struct scene *s = context;

	if (level == ORIEL_LOG_WARN && atomic_fetch_add(&s->warnings, 1) == 0)
		snprintf(s->warning, sizeof(s->warning), "%s", message);
}

static void scene_open(struct scene *s)
{
	int fd;

	memset(s, 0, sizeof(*s));
	memset(s->unproven, -1, sizeof(s->unproven));
	s->own.process = 1;
	ori_listener_init(&s->listener, &s->own, 2, &s->traffic);
	s->listener.address = (struct ori_address){.family = 4, .ip = {127, 0, 0, 1}};
	s->listener.accepts_joins = true;
	assert_int_equal(ori_endpoint_listen(&s->listener.address, &fd), ORIEL_OK);
	assert_int_equal(ori_listener_open(&s->listener, fd), ORIEL_OK);
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
	ori_listener_close(&s->listener);
	oriel_log_set_sink(NULL, NULL);
}

static void scene_flood(struct scene *s)
{
	unsigned i;

	for (i = 0; i < UNPROVEN; i++) {
		s->unproven[i] = ori_endpoint_connect(&s->listener.address, ori_deadline(LONG));
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
		assert_int_equal(ori_listener_poll(&s->listener, NULL, 0, ori_deadline(LONG)),
				 ORIEL_OK);
}

static void test_one_call_accepts_a_few_connections(void **state)
{
	struct scene s;

	(void)state;
	scene_open(&s);
	scene_flood(&s);
	ori_listener_serve(&s.listener);
	assert_in_range(s.listener.pending_count, 1, 64);
	serve_all(&s);
	assert_in_range(s.listener.pending_count, 1, 2 + 128);
	assert_non_null(strstr(s.warning, "too many silent connections"));
	/* The warnings are limited in rate, not one for each connection. */
	assert_in_range(atomic_load(&s.warnings), 1, 50);
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

/* With no connection to drop the listener pauses: poll() does not return in a busy loop. */
static void test_a_listener_without_descriptors_pauses(void **state)
{
	uint64_t start, turns = 0;
	struct scene s;

	(void)state;
	scene_open(&s);
	s.unproven[0] = ori_endpoint_connect(&s.listener.address, ori_deadline(LONG));
	scene_limit(&s, 0);
	assert_false(has_free_descriptor());
	start = ori_clock_ns();
	while (ori_clock_ns() - start < 300000000u) {
		assert_int_equal(ori_listener_poll(&s.listener, NULL, 0, start + 300000000u),
				 ORIEL_OK);
		turns++;
	}
	/* poll() returns twice each 10 ms: for the connection, and at the end of the pause. */
	assert_in_range(turns, 1, 100);
	assert_int_equal(s.listener.pending_count, 0);
	assert_string_equal(s.warning, "cannot accept a connection: Too many open files");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &s.files), 0);
	while (s.listener.pending_count == 0)
		assert_int_equal(ori_listener_poll(&s.listener, NULL, 0, ori_deadline(LONG)),
				 ORIEL_OK);
	scene_close(&s);
}

struct caller {
	const struct ori_address *address;
	struct ori_credentials own;
	struct ori_hello hello;
	enum oriel_status status;
	char text[400];
	atomic_bool is_done;
	struct ori_link link;
};

static void *call(void *arg)
{
	struct caller *caller = arg;
	struct ori_traffic traffic;
	struct ori_listener listener;

	ori_listener_init(&listener, &caller->own, 2, &traffic);
	caller->status = ori_dial(caller->address, &listener, &caller->hello, ori_deadline(LONG),
				  &caller->link);
	if (caller->status != ORIEL_OK)
		snprintf(caller->text, sizeof(caller->text), "%s", oriel_last_error());
	atomic_store(&caller->is_done, true);
	ori_listener_close(&listener);
	return NULL;
}

/* Each unproven connection that is dropped is replaced at once; the rank is admitted anyhow. */
static void test_a_rank_is_admitted_during_a_flood(void **state)
{
	struct caller caller = {.link.fd = -1};
	struct ori_pending *pending = NULL;
	struct scene s;
	pthread_t thread;
	unsigned i = 0;

	(void)state;
	scene_open(&s);
	scene_flood(&s);
	scene_limit(&s, 12);
	caller.address = &s.listener.address;
	caller.own.process = 2;
	caller.hello = (struct ori_hello){.purpose = ORI_PURPOSE_MESSAGE, .rank = 1, .size = 2};
	assert_int_equal(pthread_create(&thread, NULL, call, &caller), 0);
	while (!atomic_load(&caller.is_done)) {
		int fd = ori_endpoint_begin(&s.listener.address);

		if (fd >= 0) {
			close(s.unproven[i]);
			s.unproven[i] = fd;
			i = (i + 1) % UNPROVEN;
		}
		ori_listener_serve(&s.listener);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (caller.status != ORIEL_OK)
		print_error("%s\n", caller.text);
	assert_int_equal(caller.status, ORIEL_OK);
	pending = ori_listener_next(&s.listener, ORI_PURPOSE_MESSAGE);
	assert_non_null(pending);
	assert_int_equal(pending->hello.pid, getpid());
	ori_pending_free(pending);
	ori_link_close(&caller.link);
	scene_close(&s);
}

/* The connection of @caller is rejected with @status, and a text with @part in it. */
static void check_rejected(struct scene *s, struct caller *caller, enum oriel_status status,
			   const char *part)
{
	pthread_t thread;

	caller->address = &s->listener.address;
	caller->link.fd = -1;
	atomic_store(&caller->is_done, false);
	assert_int_equal(pthread_create(&thread, NULL, call, caller), 0);
	while (!atomic_load(&caller->is_done))
		ori_listener_serve(&s->listener);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (caller->status != status || !strstr(caller->text, part))
		print_error("%s: %s\n", oriel_status_name(caller->status), caller->text);
	assert_int_equal(caller->status, status);
	assert_non_null(strstr(caller->text, part));
	assert_non_null(strstr(caller->text, "is rejected at 127.0.0.1:"));
	assert_int_equal(s->listener.pending_count, 0);
	assert_null(s->listener.admitted);
}

static void test_a_rejected_connector_gets_the_reason(void **state)
{
	struct caller caller = {.own.process = 2, .hello = {.rank = 1, .size = 2}};
	struct ori_rank_owner *rank_owners = calloc(2, sizeof(*rank_owners));
	struct scene s;

	(void)state;
	scene_open(&s);
	caller.own.tag.kind = ORI_JOB_TAG_TORCH;
	check_rejected(&s, &caller, ORIEL_ERR_AUTH,
		       "it belongs to another job: its job is named by TORCHELASTIC_RUN_ID, this "
		       "one by nothing");
	assert_non_null(strstr(s.listener.rejected_text, "is rejected: it belongs to another job"));
	caller.own.tag.kind = ORI_JOB_TAG_NONE;
	s.listener.accepts_joins = false;
	check_rejected(&s, &caller, ORIEL_ERR_CONFIG, "the job of 2 ranks here has all of them");
	s.listener.rank_owners = rank_owners;
	rank_owners[1] = (struct ori_rank_owner){.process = 3, .pid = 4711, .from = "10.0.0.1:80"};
	check_rejected(&s, &caller, ORIEL_ERR_CONFIG,
		       "rank 1 of the job here is process 4711 at 10.0.0.1:80 already");
	caller.hello.rank = 2;
	check_rejected(&s, &caller, ORIEL_ERR_CONFIG, "the job of 2 ranks here has all of them");
	caller.hello.purpose = ORI_PURPOSE_TREE;
	check_rejected(&s, &caller, ORIEL_ERR_PROTOCOL, "connects to a job that has no such rank");
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_call_accepts_a_few_connections),
		cmocka_unit_test(test_unproven_connections_leave_descriptors_to_the_process),
		cmocka_unit_test(test_a_listener_without_descriptors_pauses),
		cmocka_unit_test(test_a_rank_is_admitted_during_a_flood),
		cmocka_unit_test(test_a_rejected_connector_gets_the_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
