/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers before a gate, many of them: the process keeps its descriptors, a rank comes in. */
#include "bootstrap/gate.h"

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

#define STRANGERS 300
#define LONG 100000000000ull /* ns, after which a test has failed; it decides nothing else */

struct scene {
	struct ori_credentials own;
	struct ori_traffic traffic;
	struct ori_gate gate;
	int strangers[STRANGERS];
	struct rlimit files; /* as they were */
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
	int listener;

	memset(s, 0, sizeof(*s));
	memset(s->strangers, -1, sizeof(s->strangers));
	s->own.process = 1;
	ori_gate_init(&s->gate, &s->own, 2, &s->traffic);
	s->gate.address = (struct ori_address){.family = 4, .ip = {127, 0, 0, 1}};
	s->gate.takes_joins = true;
	assert_int_equal(ori_endpoint_listen(&s->gate.address, &listener), ORIEL_OK);
	assert_int_equal(ori_gate_open(&s->gate, listener), ORIEL_OK);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &s->files), 0);
	oriel_log_set_sink(keep_warning, s);
}

/* From here on the process has @more descriptors beyond those that it uses. */
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
	for (i = 0; i < STRANGERS; i++)
		if (s->strangers[i] >= 0)
			close(s->strangers[i]);
	ori_gate_close(&s->gate);
	oriel_log_set_sink(NULL, NULL);
}

static void scene_flood(struct scene *s)
{
	unsigned i;

	for (i = 0; i < STRANGERS; i++) {
		s->strangers[i] = ori_endpoint_connect(&s->gate.address, ori_deadline(LONG));
		assert_true(s->strangers[i] >= 0);
	}
}

static bool has_free_descriptor(void)
{
	int fd = dup(STDERR_FILENO);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Until nobody stands before the gate. */
static void serve_all(struct scene *s)
{
	struct pollfd polled = {.fd = s->gate.listener, .events = POLLIN};

	while (poll(&polled, 1, 0) > 0)
		assert_int_equal(ori_gate_poll(&s->gate, NULL, 0, ori_deadline(LONG)), ORIEL_OK);
}

static void test_a_call_accepts_a_few(void **state)
{
	struct scene s;

	(void)state;
	scene_open(&s);
	scene_flood(&s);
	ori_gate_serve(&s.gate);
	assert_in_range(s.gate.guests, 1, 64);
	serve_all(&s);
	assert_in_range(s.gate.guests, 1, 2 + 128);
	assert_non_null(strstr(s.warning, "too many silent ones"));
	/* Not one for each. */
	assert_in_range(atomic_load(&s.warnings), 1, 50);
	scene_close(&s);
}

static void test_strangers_leave_descriptors_to_the_process(void **state)
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
		assert_true(s.gate.guests >= 1);
		assert_non_null(strstr(s.warning, "too many silent ones"));
		scene_close(&s);
	}
}

/* Nobody can make room: the gate looks again later, and does not turn in the meantime. */
static void test_without_descriptors_a_gate_rests(void **state)
{
	uint64_t start, turns = 0;
	struct scene s;

	(void)state;
	scene_open(&s);
	s.strangers[0] = ori_endpoint_connect(&s.gate.address, ori_deadline(LONG));
	scene_limit(&s, 0);
	assert_false(has_free_descriptor());
	start = ori_clock_ns();
	while (ori_clock_ns() - start < 300000000u) {
		assert_int_equal(ori_gate_poll(&s.gate, NULL, 0, start + 300000000u), ORIEL_OK);
		turns++;
	}
	/* Twice each 10 ms: once to look, once for the end of the rest. */
	assert_in_range(turns, 1, 100);
	assert_int_equal(s.gate.guests, 0);
	assert_string_equal(s.warning, "no connection can be accepted: Too many open files");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &s.files), 0);
	while (s.gate.guests == 0)
		assert_int_equal(ori_gate_poll(&s.gate, NULL, 0, ori_deadline(LONG)), ORIEL_OK);
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
	struct ori_gate gate;

	ori_gate_init(&gate, &caller->own, 2, &traffic);
	caller->status =
		ori_dial(caller->address, &gate, &caller->hello, ori_deadline(LONG), &caller->link);
	if (caller->status != ORIEL_OK)
		snprintf(caller->text, sizeof(caller->text), "%s", oriel_last_error());
	atomic_store(&caller->is_done, true);
	ori_gate_close(&gate);
	return NULL;
}

/* The rank comes among strangers that are replaced as fast as they are shown out. */
static void test_a_rank_comes_in_through_a_flood(void **state)
{
	struct caller caller = {.link.fd = -1};
	struct ori_guest *guest = NULL;
	struct scene s;
	pthread_t thread;
	unsigned i = 0;

	(void)state;
	scene_open(&s);
	scene_flood(&s);
	scene_limit(&s, 12);
	caller.address = &s.gate.address;
	caller.own.process = 2;
	caller.hello = (struct ori_hello){.purpose = ORI_PURPOSE_MAIL, .rank = 1, .size = 2};
	assert_int_equal(pthread_create(&thread, NULL, call, &caller), 0);
	while (!atomic_load(&caller.is_done)) {
		int fd = ori_endpoint_begin(&s.gate.address);

		if (fd >= 0) {
			close(s.strangers[i]);
			s.strangers[i] = fd;
			i = (i + 1) % STRANGERS;
		}
		ori_gate_serve(&s.gate);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (caller.status != ORIEL_OK)
		print_error("%s\n", caller.text);
	assert_int_equal(caller.status, ORIEL_OK);
	guest = ori_gate_next(&s.gate, ORI_PURPOSE_MAIL);
	assert_non_null(guest);
	assert_int_equal(guest->hello.pid, getpid());
	ori_guest_free(guest);
	ori_link_close(&caller.link);
	scene_close(&s);
}

/* The call of @caller ends with @status, and a text with @part in it. */
static void check_refused(struct scene *s, struct caller *caller, enum oriel_status status,
			  const char *part)
{
	pthread_t thread;

	caller->address = &s->gate.address;
	caller->link.fd = -1;
	atomic_store(&caller->is_done, false);
	assert_int_equal(pthread_create(&thread, NULL, call, caller), 0);
	while (!atomic_load(&caller->is_done))
		ori_gate_serve(&s->gate);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (caller->status != status || !strstr(caller->text, part))
		print_error("%s: %s\n", oriel_status_name(caller->status), caller->text);
	assert_int_equal(caller->status, status);
	assert_non_null(strstr(caller->text, part));
	assert_non_null(strstr(caller->text, "is refused at 127.0.0.1:"));
	assert_int_equal(s->gate.guests, 0);
	assert_null(s->gate.in);
}

static void test_who_does_not_belong_here_is_told_why(void **state)
{
	struct caller caller = {.own.process = 2, .hello = {.rank = 1, .size = 2}};
	struct ori_holder *holders = calloc(2, sizeof(*holders));
	struct scene s;

	(void)state;
	scene_open(&s);
	caller.own.tag.kind = ORI_JOB_TAG_TORCH;
	check_refused(&s, &caller, ORIEL_ERR_AUTH,
		      "it belongs to another job: its job is named by TORCHELASTIC_RUN_ID, this "
		      "one by nothing");
	assert_non_null(strstr(s.gate.refused_text, "is refused: it belongs to another job"));
	caller.own.tag.kind = ORI_JOB_TAG_NONE;
	s.gate.takes_joins = false;
	check_refused(&s, &caller, ORIEL_ERR_CONFIG, "the job of 2 ranks here has all of them");
	s.gate.holders = holders;
	holders[1] = (struct ori_holder){.process = 3, .pid = 4711, .from = "10.0.0.1:80"};
	check_refused(&s, &caller, ORIEL_ERR_CONFIG,
		      "rank 1 of the job here is process 4711 at 10.0.0.1:80 already");
	caller.hello.rank = 2;
	check_refused(&s, &caller, ORIEL_ERR_CONFIG, "the job of 2 ranks here has all of them");
	caller.hello.purpose = ORI_PURPOSE_TREE;
	check_refused(&s, &caller, ORIEL_ERR_PROTOCOL, "connects to a job that has no such rank");
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_call_accepts_a_few),
		cmocka_unit_test(test_strangers_leave_descriptors_to_the_process),
		cmocka_unit_test(test_without_descriptors_a_gate_rests),
		cmocka_unit_test(test_a_rank_comes_in_through_a_flood),
		cmocka_unit_test(test_who_does_not_belong_here_is_told_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
