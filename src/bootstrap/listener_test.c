/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the bootstrap's listener: a rejected connector gets the reason. */
#include "bootstrap/listener.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/dial.h"

#define LONG 100000000000ull /* ns; a deadline that passes only when a test fails */

struct scene {
	struct ori_credentials own;
	struct ori_traffic traffic;
	struct ori_listener listener;
};

static void scene_open(struct scene *s)
{
	int fd;

	memset(s, 0, sizeof(*s));
	s->own.process = 1;
	ori_listener_init(&s->listener, &s->own, 2, &s->traffic);
	s->listener.address = (struct ori_address){.family = 4, .ip = {127, 0, 0, 1}};
	s->listener.accepts_joins = true;
	assert_int_equal(ori_endpoint_listen(&s->listener.address, &fd), ORIEL_OK);
	assert_int_equal(ori_net_listener_open(&s->listener.net, fd), ORIEL_OK);
}

static void scene_close(struct scene *s)
{
	ori_listener_close(&s->listener);
}

struct caller {
	const struct ori_address *address;
	struct ori_credentials own;
	struct ori_hello hello;
	enum oriel_status status;
	char text[400];
	atomic_bool is_done;
	struct ori_net_conn link;
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
	assert_int_equal(s->listener.net.pending_count, 0);
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
	assert_non_null(
		strstr(s.listener.net.refused_text, "is rejected: it belongs to another job"));
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
	caller.hello.to = 5;
	check_rejected(&s, &caller, ORIEL_ERR_PROTOCOL,
		       "rank 2 connects to rank 5, but this is rank 0");
	caller.hello.to = 0;
	check_rejected(&s, &caller, ORIEL_ERR_PROTOCOL, "connects to a job that has no such rank");
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_rejected_connector_gets_the_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
