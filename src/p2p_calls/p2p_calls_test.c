/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts of calls: what they answer, and each way not to follow them. */
#include <oriel/p2p_calls.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <oriel/dev/copy_group.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define ANY ORIEL_P2P_CALL_ANY

static char said[512]; /* by the last script that failed */
static unsigned failures;
static jmp_buf *way_out; /* of a test that a failure ends */

static void note(void *context, const char *text)
{
	(void)context;
	failures++;
	snprintf(said, sizeof(said), "%s", text);
	if (way_out)
		longjmp(*way_out, 1);
}

static enum oriel_status begin(const struct oriel_p2p_call *steps, size_t count)
{
	const struct oriel_p2p_calls_attr attr = {.size = sizeof(attr),
						  .steps = steps,
						  .count = (unsigned)count,
						  .fail = note};

	failures = 0;
	said[0] = 0;
	return oriel_p2p_calls_begin(&attr);
}

static void is_followed(void)
{
	assert_string_equal(said, "");
	assert_int_equal(oriel_p2p_calls_end(), ORIEL_OK);
	assert_string_equal(said, "");
	assert_int_equal(failures, 0);
}

/* The last call returned @status, of a script that has failed there, and reports it once. */
static void has_failed(enum oriel_status status, const char *text)
{
	assert_string_equal(said, text);
	assert_int_equal(status, ORIEL_ERR_STATE);
	assert_int_equal(oriel_p2p_progress(NULL), ORIEL_ERR_STATE);
	assert_int_equal(oriel_p2p_calls_end(), ORIEL_ERR_STATE);
	assert_int_equal(failures, 1);
}

/* A program to be tested: asks a peer, and polls for the answer. */
static enum oriel_status ask(struct oriel_p2p *p2p, unsigned channel, const char *question,
			     char *answer, size_t room)
{
	struct oriel_p2p_buffer from = {(void *)(uintptr_t)question, strlen(question), NULL},
				to = {answer, room, NULL};
	struct oriel_p2p_request out, in;
	enum oriel_status status = oriel_p2p_recv(p2p, channel, &to, &in);

	if (status == ORIEL_OK)
		status = oriel_p2p_send(p2p, channel, &from, &out);
	if (status == ORIEL_OK)
		status = oriel_p2p_wait(p2p, &out, 0);
	while (status == ORIEL_OK && in.status == ORIEL_AGAIN) {
		status = oriel_p2p_test(p2p, &in);
		if (status == ORIEL_AGAIN)
			status = ORIEL_OK;
	}
	return status;
}

static const struct oriel_p2p_call dialogue[] = {
	{.call = ORIEL_P2P_CALL_RECV, .p2p = 1, .channel = 2, .length = 4, .request = 1},
	{.call = ORIEL_P2P_CALL_SEND,
	 .p2p = 1,
	 .channel = 2,
	 .length = 8,
	 .data = "question",
	 .request = 2},
	{.call = ORIEL_P2P_CALL_WAIT, .p2p = 1, .request = 2},
	{.call = ORIEL_P2P_CALL_TEST, .p2p = 1, .request = 1, .status = ORIEL_AGAIN, .times = 3},
	{.call = ORIEL_P2P_CALL_TEST, .p2p = 1, .request = 1, .data = "yes!", .length = 4},
};

static void test_a_script_answers_in_its_order(void **state)
{
	char answer[4];

	(void)state;
	assert_int_equal(begin(dialogue, COUNT(dialogue)), ORIEL_OK);
	assert_int_equal(ask(oriel_p2p_calls_endpoint(1), 2, "question", answer, 4), ORIEL_OK);
	assert_memory_equal(answer, "yes!", 4);
	is_followed();
}

/* The program gets the failures of a peer as the script has them. */
static void test_failures_are_answers_as_well(void **state)
{
	const struct oriel_p2p_call peer[] = {
		{.call = ORIEL_P2P_CALL_RECV, .channel = ANY, .length = 4},
		{.call = ORIEL_P2P_CALL_SEND, .length = 2, .status = ORIEL_ERR_PEER},
		{.call = ORIEL_P2P_CALL_DESTROY},
	};
	const struct oriel_p2p_call late[] = {
		{.call = ORIEL_P2P_CALL_RECV, .length = 4, .request = 1},
		{.call = ORIEL_P2P_CALL_SEND, .length = 2, .request = 2},
		{.call = ORIEL_P2P_CALL_WAIT, .request = 2, .status = ORIEL_ERR_TIMEOUT},
	};
	const struct oriel_p2p_call patient[] = {
		{.call = ORIEL_P2P_CALL_EXPECT, .request = 1},
		{.call = ORIEL_P2P_CALL_WAIT, .timeout_ns = 1, .status = ORIEL_ERR_TIMEOUT},
		{.call = ORIEL_P2P_CALL_WAIT, .request = 1},
	};
	struct oriel_p2p_request r;
	char answer[4];

	(void)state;
	assert_int_equal(begin(peer, COUNT(peer)), ORIEL_OK);
	assert_int_equal(ask(oriel_p2p_calls_endpoint(7), 0, "no", answer, 4), ORIEL_ERR_PEER);
	oriel_p2p_destroy(oriel_p2p_calls_endpoint(7));
	is_followed();
	assert_int_equal(begin(late, COUNT(late)), ORIEL_OK);
	assert_int_equal(ask(oriel_p2p_calls_endpoint(7), 0, "no", answer, 4), ORIEL_ERR_TIMEOUT);
	is_followed();
	/* A request outlives the timeout of a wait. */
	assert_int_equal(begin(patient, COUNT(patient)), ORIEL_OK);
	assert_int_equal(oriel_p2p_expect(oriel_p2p_calls_endpoint(7), 0, &r), ORIEL_OK);
	assert_int_equal(oriel_p2p_wait(oriel_p2p_calls_endpoint(7), &r, 1), ORIEL_ERR_TIMEOUT);
	assert_int_equal(r.status, ORIEL_AGAIN);
	assert_int_equal(oriel_p2p_wait(oriel_p2p_calls_endpoint(7), &r, 0), ORIEL_OK);
	assert_int_equal(r.status, ORIEL_OK);
	is_followed();
}

/* All calls, each with all of its arguments, and what they write. */
static void calls_of_a_context(struct oriel_p2p_context **ctx, struct oriel_p2p **p2p)
{
	const struct oriel_p2p_context_attr context = {.size = sizeof(context), .chunk = 8192};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .channels = 4, .chunk_slots = 2};
	char bytes[ORIEL_P2P_ADDRESS];
	struct oriel_p2p_info info = {.size = sizeof(info)};

	assert_int_equal(oriel_p2p_context_create(&context, ctx), ORIEL_OK);
	assert_int_equal(oriel_p2p_create(*ctx, &attr, p2p), ORIEL_OK);
	memset(bytes, 1, sizeof(bytes));
	assert_int_equal(oriel_p2p_address(*p2p, bytes), ORIEL_OK);
	assert_int_equal(bytes[0] | bytes[ORIEL_P2P_ADDRESS - 1], 0);
	assert_int_equal(oriel_p2p_connect(*p2p, "far away", 8, 77), ORIEL_OK);
	assert_int_equal(oriel_p2p_check(*p2p), ORIEL_AGAIN);
	assert_int_equal(oriel_p2p_check(*p2p), ORIEL_OK);
	assert_int_equal(oriel_p2p_describe(*p2p, &info), ORIEL_OK);
	assert_int_equal(info.channels, 4);
}

static void calls_of_transfers(struct oriel_p2p_context *ctx, struct oriel_p2p *p2p)
{
	static char data[100];
	struct oriel_p2p_request r[7], control;
	struct oriel_p2p_buffer b = {data, 100, NULL};
	struct oriel_p2p_memory *memory;
	struct oriel_p2p_remote remote;
	char exported[ORIEL_P2P_EXPORT], text[8] = "";

	assert_int_equal(oriel_p2p_register(ctx, data, 100, ORIEL_P2P_BACKGROUND, &memory),
			 ORIEL_OK);
	assert_int_equal(oriel_p2p_memory_check(memory), ORIEL_OK);
	b.memory = memory;
	assert_int_equal(oriel_p2p_export(p2p, &b, exported), ORIEL_OK);
	assert_int_equal(exported[63], 'E');
	assert_int_equal(oriel_p2p_import(p2p, "far", 3, &remote), ORIEL_OK);
	assert_int_equal(remote.length, 4096);
	assert_int_equal(oriel_p2p_send_chunk(p2p, 3, 1, 5, &b, &r[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_chunk(p2p, 3, 0, 6, &b, &r[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_put(p2p, 1, &b, &remote, 64, &r[2]), ORIEL_OK);
	assert_int_equal(oriel_p2p_expect(p2p, 1, &r[3]), ORIEL_OK);
	assert_int_equal(oriel_p2p_cancel(p2p, &r[3]), ORIEL_OK);
	assert_int_equal(r[3].status, ORIEL_ERR_ABORTED);
	assert_int_equal(oriel_p2p_send_control(p2p, 9, "hello", 5, &r[4]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_control(p2p, 9, text, 8, &control), ORIEL_OK);
	assert_int_equal(control.status, ORIEL_AGAIN);
	/* Four of them end with this call. */
	assert_int_equal(oriel_p2p_progress(p2p), ORIEL_OK);
	assert_int_equal(r[0].status, ORIEL_OK);
	assert_int_equal(r[1].status, ORIEL_ERR_PEER);
	assert_int_equal(r[4].status, ORIEL_OK);
	assert_int_equal(control.status, ORIEL_OK);
	assert_int_equal(control.length, 3);
	assert_string_equal(text, "bye");
	assert_int_equal(r[2].status, ORIEL_AGAIN);
	assert_int_equal(oriel_p2p_drain(p2p, 5), ORIEL_OK);
	assert_int_equal(r[2].status, ORIEL_OK);
	oriel_p2p_unregister(memory);
}

static void calls_of_others(struct oriel_p2p_context *ctx)
{
	struct oriel_p2p_copy_group *group;
	struct oriel_dev_copy_group device;
	struct oriel_comm *comm = (struct oriel_comm *)(void *)&device;
	struct oriel_p2p_context *its;
	struct oriel_p2p *p2p, *again;

	assert_int_equal(oriel_p2p_copy_group_create(ctx, NULL, &group), ORIEL_OK);
	assert_int_equal(oriel_p2p_copy_group_device(group, &device), ORIEL_OK);
	assert_int_equal(device.workers, 3);
	assert_int_equal(oriel_p2p_copy_group_device_as(group, ORIEL_DEV_VERSION + 1,
							sizeof(device), &device),
			 ORIEL_ERR_VERSION);
	oriel_p2p_copy_group_destroy(group);
	assert_int_equal(oriel_comm_p2p(comm, 3, NULL, &p2p), ORIEL_OK);
	assert_int_equal(oriel_comm_p2p(comm, 3, NULL, &again), ORIEL_OK);
	assert_ptr_equal(p2p, again);
	assert_int_equal(oriel_comm_p2p_context(comm, &its), ORIEL_OK);
	assert_true(its && its != ctx);
}

static void test_every_call_is_a_step(void **state)
{
	static const char exported[ORIEL_P2P_EXPORT] = {[63] = 'E'};
	const struct oriel_p2p_context_attr context = {.size = sizeof(context), .chunk = 8192};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .channels = 4, .chunk_slots = 2};
	const struct oriel_p2p_info info = {.channels = 4};
	const struct oriel_p2p_remote remote = {.address = 1, .length = 4096};
	const struct oriel_dev_copy_group device = {.workers = 3};
	const struct oriel_p2p_call steps[] = {
		{.call = ORIEL_P2P_CALL_CONTEXT_CREATE, .ctx = 1, .context_attr = &context},
		{.call = ORIEL_P2P_CALL_CREATE, .ctx = 1, .p2p = 1, .attr = &attr},
		{.call = ORIEL_P2P_CALL_ADDRESS, .p2p = 1},
		{.call = ORIEL_P2P_CALL_CONNECT,
		 .p2p = 1,
		 .data = "far away",
		 .length = 8,
		 .timeout_ns = 77},
		{.call = ORIEL_P2P_CALL_CHECK, .p2p = 1, .status = ORIEL_AGAIN},
		{.call = ORIEL_P2P_CALL_CHECK, .p2p = 1},
		{.call = ORIEL_P2P_CALL_DESCRIBE, .p2p = 1, .info = &info},
		{.call = ORIEL_P2P_CALL_REGISTER,
		 .ctx = 1,
		 .memory = 5,
		 .length = 100,
		 .flags = ORIEL_P2P_BACKGROUND},
		{.call = ORIEL_P2P_CALL_MEMORY_CHECK, .memory = 5},
		{.call = ORIEL_P2P_CALL_EXPORT, .memory = 5, .length = 100, .data = exported},
		{.call = ORIEL_P2P_CALL_IMPORT, .data = "far", .length = 3, .remote = &remote},
		{.call = ORIEL_P2P_CALL_SEND_CHUNK,
		 .channel = 3,
		 .slot = 1,
		 .round = 5,
		 .length = 100,
		 .request = 1},
		{.call = ORIEL_P2P_CALL_RECV_CHUNK,
		 .channel = 3,
		 .round = 6,
		 .length = 100,
		 .request = 2},
		{.call = ORIEL_P2P_CALL_PUT,
		 .channel = 1,
		 .memory = 5,
		 .remote = &remote,
		 .offset = 64,
		 .length = 100,
		 .request = 3},
		{.call = ORIEL_P2P_CALL_EXPECT, .channel = 1, .request = 4},
		{.call = ORIEL_P2P_CALL_CANCEL, .request = 4},
		{.call = ORIEL_P2P_CALL_SEND_CONTROL,
		 .tag = 9,
		 .data = "hello",
		 .length = 5,
		 .request = 5},
		{.call = ORIEL_P2P_CALL_RECV_CONTROL, .tag = 9, .length = 8, .request = 6},
		{.call = ORIEL_P2P_CALL_PROGRESS, .p2p = 1},
		{.call = ORIEL_P2P_CALL_REQUEST_DONE, .request = 1},
		{.call = ORIEL_P2P_CALL_REQUEST_DONE, .request = 2, .status = ORIEL_ERR_PEER},
		{.call = ORIEL_P2P_CALL_REQUEST_DONE, .request = 5},
		{.call = ORIEL_P2P_CALL_REQUEST_DONE, .request = 6, .data = "bye", .length = 3},
		{.call = ORIEL_P2P_CALL_DRAIN, .p2p = 1, .timeout_ns = 5},
		{.call = ORIEL_P2P_CALL_REQUEST_DONE, .request = 3},
		{.call = ORIEL_P2P_CALL_UNREGISTER, .memory = 5},
		{.call = ORIEL_P2P_CALL_COPY_GROUP_CREATE, .ctx = 1, .group = 1},
		{.call = ORIEL_P2P_CALL_COPY_GROUP_DEVICE, .group = 1, .device = &device},
		{.call = ORIEL_P2P_CALL_COPY_GROUP_DESTROY, .group = 1},
		{.call = ORIEL_P2P_CALL_COMM, .peer = 3, .p2p = 2, .times = 2},
		{.call = ORIEL_P2P_CALL_COMM_CONTEXT, .ctx = 2},
		{.call = ORIEL_P2P_CALL_DESTROY, .p2p = 1},
		{.call = ORIEL_P2P_CALL_CONTEXT_DESTROY, .ctx = 1},
	};
	struct oriel_p2p_context *ctx;
	struct oriel_p2p *p2p;

	(void)state;
	assert_int_equal(begin(steps, COUNT(steps)), ORIEL_OK);
	calls_of_a_context(&ctx, &p2p);
	calls_of_transfers(ctx, p2p);
	calls_of_others(ctx);
	oriel_p2p_destroy(p2p);
	oriel_p2p_context_destroy(ctx);
	/* These do nothing, and are no steps. */
	oriel_p2p_destroy(NULL);
	oriel_p2p_unregister(NULL);
	oriel_p2p_copy_group_destroy(NULL);
	oriel_p2p_context_destroy(NULL);
	assert_string_equal(oriel_p2p_mode_name(ORIEL_P2P_AUTO), "auto");
	is_followed();
}

/* Calls whose number depends on time, between those that the test is about. */
static void test_steps_may_come_as_often_as_they_do(void **state)
{
	const struct oriel_p2p_call steps[] = {
		{.call = ORIEL_P2P_CALL_PROGRESS, .times = ORIEL_P2P_CALL_EVERY},
		{.call = ORIEL_P2P_CALL_DRAIN},
		{.call = ORIEL_P2P_CALL_PROGRESS, .times = ORIEL_P2P_CALL_EVERY},
	};

	(void)state;
	for (unsigned times = 0; times < 3; times++) {
		struct oriel_p2p *p2p;

		assert_int_equal(begin(steps, COUNT(steps)), ORIEL_OK);
		p2p = oriel_p2p_calls_endpoint(1);
		for (unsigned i = 0; i < times; i++)
			assert_int_equal(oriel_p2p_progress(p2p), ORIEL_OK);
		assert_int_equal(oriel_p2p_drain(p2p, 0), ORIEL_OK);
		for (unsigned i = 0; i < times; i++)
			assert_int_equal(oriel_p2p_progress(p2p), ORIEL_OK);
		is_followed();
	}
}

/* The dialogue with one word changed. */
static void test_other_arguments_fail(void **state)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .channels = 4},
				    other = {.size = sizeof(other), .channels = 3},
				    later = {.size = sizeof(later), .channels = 4, .reserved2 = 7};
	const struct oriel_p2p_call create[] = {
		{.call = ORIEL_P2P_CALL_CREATE, .p2p = 1, .attr = &attr},
	};
	struct oriel_p2p *p2p;
	char answer[5];

	(void)state;
	assert_int_equal(begin(dialogue, COUNT(dialogue)), ORIEL_OK);
	has_failed(ask(oriel_p2p_calls_endpoint(1), 1, "question", answer, 4),
		   "step 1 of 5 is oriel_p2p_recv(), but channel is 1, not 2");
	assert_int_equal(begin(dialogue, COUNT(dialogue)), ORIEL_OK);
	has_failed(ask(oriel_p2p_calls_endpoint(1), 2, "question", answer, 5),
		   "step 1 of 5 is oriel_p2p_recv(), but length is 5, not 4");
	assert_int_equal(begin(dialogue, COUNT(dialogue)), ORIEL_OK);
	has_failed(ask(oriel_p2p_calls_endpoint(1), 2, "quesTion", answer, 4),
		   "step 2 of 5 is oriel_p2p_send(), but byte 4 of 8 is 0x54, not 0x74");
	assert_int_equal(begin(dialogue, COUNT(dialogue)), ORIEL_OK);
	has_failed(ask(oriel_p2p_calls_endpoint(2), 2, "question", answer, 4),
		   "step 1 of 5 is oriel_p2p_recv(), but p2p is endpoint 2, not endpoint 1");
	assert_int_equal(begin(create, 1), ORIEL_OK);
	has_failed(oriel_p2p_create(oriel_p2p_calls_context(1), &other, &p2p),
		   "step 1 of 1 is oriel_p2p_create(), but attr.channels is 3, not 4");
	assert_int_equal(begin(create, 1), ORIEL_OK);
	has_failed(oriel_p2p_create(oriel_p2p_calls_context(1), &later, &p2p),
		   "step 1 of 1 is oriel_p2p_create(), but attr.reserved2 is 7, not 0");
}

static void test_another_order_or_number_fails(void **state)
{
	const struct oriel_p2p_call steps[] = {
		{.call = ORIEL_P2P_CALL_PROGRESS, .times = 2},
		{.call = ORIEL_P2P_CALL_DRAIN},
	};
	struct oriel_p2p *p2p;

	(void)state;
	assert_int_equal(begin(steps, COUNT(steps)), ORIEL_OK);
	p2p = oriel_p2p_calls_endpoint(1);
	assert_int_equal(oriel_p2p_progress(p2p), ORIEL_OK);
	has_failed(oriel_p2p_drain(p2p, 0),
		   "step 1 of 2 is oriel_p2p_progress(), but oriel_p2p_drain() was called");
	assert_int_equal(begin(steps, COUNT(steps)), ORIEL_OK);
	p2p = oriel_p2p_calls_endpoint(1);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(oriel_p2p_progress(p2p), ORIEL_OK);
	has_failed(oriel_p2p_progress(p2p),
		   "step 2 of 2 is oriel_p2p_drain(), but oriel_p2p_progress() was called");
	assert_int_equal(begin(&steps[1], 1), ORIEL_OK);
	p2p = oriel_p2p_calls_endpoint(1);
	assert_int_equal(oriel_p2p_drain(p2p, 0), ORIEL_OK);
	has_failed(oriel_p2p_drain(p2p, 0),
		   "oriel_p2p_drain() was called after the last of 1 steps");
	assert_int_equal(begin(steps, COUNT(steps)), ORIEL_OK);
	assert_int_equal(oriel_p2p_progress(oriel_p2p_calls_endpoint(1)), ORIEL_OK);
	assert_int_equal(oriel_p2p_calls_end(), ORIEL_ERR_STATE);
	assert_string_equal(said, "step 1 of 2, oriel_p2p_progress(), was called 1 times, not 2");
	assert_int_equal(failures, 1);
}

/* Rules of the calls, which a program breaks whatever the script says. */
static void test_requests_have_rules(void **state)
{
	const struct oriel_p2p_call steps[] = {
		{.call = ORIEL_P2P_CALL_EXPECT, .request = 1},
		{.call = ORIEL_P2P_CALL_EXPECT},
	};
	const struct oriel_p2p_call test = {.call = ORIEL_P2P_CALL_TEST};
	const struct oriel_p2p_call others[] = {
		{.call = ORIEL_P2P_CALL_EXPECT, .request = 1},
		{.call = ORIEL_P2P_CALL_TEST, .request = 2, .status = ORIEL_AGAIN},
	};
	struct oriel_p2p_request r, other;
	struct oriel_p2p *p2p;

	(void)state;
	assert_int_equal(begin(steps, COUNT(steps)), ORIEL_OK);
	p2p = oriel_p2p_calls_endpoint(1);
	assert_int_equal(oriel_p2p_expect(p2p, 0, &r), ORIEL_OK);
	has_failed(oriel_p2p_expect(p2p, 0, &r),
		   "step 2 of 2: oriel_p2p_expect() was given a request that is under way");
	assert_int_equal(begin(&test, 1), ORIEL_OK);
	has_failed(oriel_p2p_test(oriel_p2p_calls_endpoint(1), &other),
		   "step 1 of 1: oriel_p2p_test() was given a request that was not begun");
	assert_int_equal(begin(others, COUNT(others)), ORIEL_OK);
	p2p = oriel_p2p_calls_endpoint(1);
	assert_int_equal(oriel_p2p_expect(p2p, 0, &r), ORIEL_OK);
	has_failed(oriel_p2p_test(p2p, &r),
		   "step 2 of 2 is oriel_p2p_test(), but that is not request 2");
	assert_int_equal(begin((const struct oriel_p2p_call[]){others[0], test}, 2), ORIEL_OK);
	assert_int_equal(oriel_p2p_expect(oriel_p2p_calls_endpoint(1), 0, &r), ORIEL_OK);
	has_failed(oriel_p2p_test(oriel_p2p_calls_endpoint(2), &r),
		   "step 2 of 2: oriel_p2p_test() was given a request of another endpoint");
}

static void test_objects_have_rules(void **state)
{
	const struct oriel_p2p_call destroy[] = {
		{.call = ORIEL_P2P_CALL_DESTROY},
		{.call = ORIEL_P2P_CALL_PROGRESS},
	};
	const struct oriel_p2p_call contexts[] = {
		{.call = ORIEL_P2P_CALL_CREATE, .p2p = 1},
		{.call = ORIEL_P2P_CALL_CONTEXT_DESTROY},
	};
	const struct oriel_p2p_call memory[] = {
		{.call = ORIEL_P2P_CALL_RECV, .memory = 4, .length = 4},
		{.call = ORIEL_P2P_CALL_UNREGISTER},
	};
	const struct oriel_p2p_call comm[] = {
		{.call = ORIEL_P2P_CALL_COMM, .p2p = 1},
		{.call = ORIEL_P2P_CALL_DESTROY},
	};
	struct oriel_p2p_context *ctx;
	struct oriel_p2p_request r;
	struct oriel_p2p *p2p;
	struct oriel_p2p_buffer b = {&r, 4, NULL};

	(void)state;
	assert_int_equal(begin(destroy, COUNT(destroy)), ORIEL_OK);
	p2p = oriel_p2p_calls_endpoint(3);
	oriel_p2p_destroy(p2p);
	has_failed(oriel_p2p_progress(p2p),
		   "oriel_p2p_progress() was given endpoint 3, which is destroyed");
	assert_int_equal(begin(destroy, COUNT(destroy)), ORIEL_OK);
	has_failed(oriel_p2p_progress((struct oriel_p2p *)(void *)&r),
		   "oriel_p2p_progress() was given no endpoint of the script");
	assert_int_equal(begin(contexts, COUNT(contexts)), ORIEL_OK);
	ctx = oriel_p2p_calls_context(1);
	assert_int_equal(oriel_p2p_create(ctx, NULL, &p2p), ORIEL_OK);
	oriel_p2p_context_destroy(ctx);
	has_failed(oriel_p2p_progress(p2p), "step 2 of 2: oriel_p2p_context_destroy() destroys the "
					    "context of endpoint 1, which exists");
	assert_int_equal(begin(memory, COUNT(memory)), ORIEL_OK);
	b.memory = oriel_p2p_calls_memory(4);
	assert_int_equal(oriel_p2p_recv(oriel_p2p_calls_endpoint(1), 0, &b, &r), ORIEL_OK);
	oriel_p2p_unregister(b.memory);
	has_failed(oriel_p2p_progress(p2p),
		   "step 2 of 2: oriel_p2p_unregister() ends memory 4, which a request uses");
	assert_int_equal(begin(comm, COUNT(comm)), ORIEL_OK);
	assert_int_equal(oriel_comm_p2p(NULL, 0, NULL, &p2p), ORIEL_OK);
	oriel_p2p_destroy(p2p);
	has_failed(oriel_p2p_progress(p2p),
		   "step 2 of 2: oriel_p2p_destroy() destroys the endpoint of a communicator");
}

/* A destroyed endpoint ends its requests, and a transfer of no bytes ends at once. */
static void test_requests_end_without_a_step(void **state)
{
	const struct oriel_p2p_call steps[] = {
		{.call = ORIEL_P2P_CALL_SEND, .request = 1},
		{.call = ORIEL_P2P_CALL_RECV, .length = 4, .request = 1},
		{.call = ORIEL_P2P_CALL_DESTROY, .p2p = 1},
	};
	struct oriel_p2p_request r, in;
	char data[4];
	struct oriel_p2p_buffer none = {NULL, 0, NULL}, b = {data, 4, NULL};
	struct oriel_p2p *p2p;

	(void)state;
	assert_int_equal(begin(steps, COUNT(steps)), ORIEL_OK);
	p2p = oriel_p2p_calls_endpoint(1);
	assert_int_equal(oriel_p2p_send(p2p, 0, &none, &r), ORIEL_OK);
	assert_int_equal(r.status, ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(p2p, 0, &b, &in), ORIEL_OK);
	assert_int_equal(in.status, ORIEL_AGAIN);
	oriel_p2p_destroy(p2p);
	assert_int_equal(in.status, ORIEL_ERR_ABORTED);
	is_followed();
}

static void refused(const struct oriel_p2p_call *steps, unsigned count, const char *text)
{
	assert_int_equal(begin(steps, count), ORIEL_ERR_STATE);
	has_failed(ORIEL_ERR_STATE, text);
}

static void test_scripts_that_make_no_sense_are_refused(void **state)
{
	const struct oriel_p2p_call nothing = {0};
	const struct oriel_p2p_call tag = {.call = ORIEL_P2P_CALL_SEND, .tag = 3};
	const struct oriel_p2p_call status = {.call = ORIEL_P2P_CALL_DESTROY,
					      .status = ORIEL_ERR_PEER};
	const struct oriel_p2p_call number = {.call = ORIEL_P2P_CALL_CREATE};
	const struct oriel_p2p_call large = {.call = ORIEL_P2P_CALL_PROGRESS, .p2p = 64};
	const struct oriel_p2p_call bytes = {.call = ORIEL_P2P_CALL_SEND,
					     .data = "x",
					     .length = ANY};
	const struct oriel_p2p_call ends[] = {
		{.call = ORIEL_P2P_CALL_PROGRESS, .times = ORIEL_P2P_CALL_EVERY},
		{.call = ORIEL_P2P_CALL_REQUEST_DONE, .request = 1},
	};
	const struct oriel_p2p_call longer[] = {
		{.call = ORIEL_P2P_CALL_RECV, .length = 2, .request = 1},
		{.call = ORIEL_P2P_CALL_REQUEST_DONE, .request = 1, .data = "yes", .length = 3},
	};
	struct oriel_p2p_request r;
	struct oriel_p2p_buffer b = {&r, 2, NULL};

	(void)state;
	refused(&nothing, 1, "oriel_p2p_calls_begin(): step 1 of 1: 0 is no call");
	refused(&tag, 1, "oriel_p2p_calls_begin(): step 1 of 1: oriel_p2p_send has no tag");
	refused(&status, 1,
		"oriel_p2p_calls_begin(): step 1 of 1: oriel_p2p_destroy has no status");
	refused(&number, 1,
		"oriel_p2p_calls_begin(): step 1 of 1: p2p needs the number of what it "
		"creates");
	refused(&large, 1, "oriel_p2p_calls_begin(): step 1 of 1: p2p 64 is not in 1 to 63");
	refused(&bytes, 1,
		"oriel_p2p_calls_begin(): step 1 of 1: oriel_p2p_send has data of no "
		"length");
	refused(ends, 2,
		"oriel_p2p_calls_begin(): step 2 of 2: a request ends with a call that "
		"comes: the one before may not");
	refused(&ends[1], 1,
		"oriel_p2p_calls_begin(): step 1 of 1: a request ends with a call that "
		"comes: there is none before");
	refused(NULL, 2, "oriel_p2p_calls_begin(): the attributes have no steps");
	assert_int_equal(begin(longer, 2), ORIEL_OK);
	has_failed(oriel_p2p_recv(oriel_p2p_calls_endpoint(1), 0, &b, &r),
		   "step 2 of 2: the end of a request() has 3 bytes for a request with room for 2");
}

static void test_attributes_of_a_later_version_are_refused(void **state)
{
	const struct oriel_p2p_calls_attr attr = {.size = sizeof(attr),
						  .steps = dialogue,
						  .count = COUNT(dialogue),
						  .reserved = 7,
						  .fail = note};

	(void)state;
	failures = 0;
	has_failed(oriel_p2p_calls_begin(&attr),
		   "oriel_p2p_calls_begin(): oriel_p2p_calls_attr.reserved is 7, but it has no "
		   "meaning in this version: set it to 0");
}

/* As cmocka's fail(): the test is left at the call, and the next one begins anew. */
static void test_a_failure_may_leave_by_longjmp(void **state)
{
	jmp_buf here;
	char answer[4];

	(void)state;
	assert_int_equal(begin(dialogue, COUNT(dialogue)), ORIEL_OK);
	way_out = &here;
	if (!setjmp(here)) {
		(void)ask(oriel_p2p_calls_endpoint(1), 5, "question", answer, 4);
		way_out = NULL;
		fail_msg("the call returned");
	}
	way_out = NULL;
	assert_string_equal(said, "step 1 of 5 is oriel_p2p_recv(), but channel is 5, not 2");
	test_a_script_answers_in_its_order(state);
}

static void test_scripts_do_not_overlap(void **state)
{
	(void)state;
	assert_int_equal(begin(dialogue, COUNT(dialogue)), ORIEL_OK);
	assert_int_equal(begin(dialogue, COUNT(dialogue)), ORIEL_ERR_STATE);
	has_failed(ORIEL_ERR_STATE, "oriel_p2p_calls_begin(): the script before has not ended");
}

/* A child prints this text and aborts. */
static void aborts(void (*run)(void), const char *text)
{
	char read_text[256] = "";
	int ends[2], status;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		run();
		_exit(0);
	}
	close(ends[1]);
	assert_true(read(ends[0], read_text, sizeof(read_text) - 1) > 0);
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_string_equal(read_text, text);
}

static void call_without_a_script(void)
{
	(void)oriel_p2p_progress(NULL);
}

static void call_another(void)
{
	const struct oriel_p2p_calls_attr attr = {.size = sizeof(attr),
						  .steps = dialogue,
						  .count = COUNT(dialogue)};

	(void)oriel_p2p_calls_begin(&attr);
	(void)oriel_p2p_progress(oriel_p2p_calls_endpoint(1));
}

static void end_nothing(void)
{
	(void)oriel_p2p_calls_end();
}

static void test_without_a_function_for_it_a_failure_aborts(void **state)
{
	(void)state;
	aborts(call_without_a_script, "oriel_p2p_progress() was called while no script runs\n");
	aborts(call_another, "step 1 of 5 is oriel_p2p_recv(), but oriel_p2p_progress() was "
			     "called\n");
	aborts(end_nothing, "oriel_p2p_calls_end(): no script runs\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_script_answers_in_its_order),
		cmocka_unit_test(test_failures_are_answers_as_well),
		cmocka_unit_test(test_every_call_is_a_step),
		cmocka_unit_test(test_steps_may_come_as_often_as_they_do),
		cmocka_unit_test(test_other_arguments_fail),
		cmocka_unit_test(test_another_order_or_number_fails),
		cmocka_unit_test(test_requests_have_rules),
		cmocka_unit_test(test_objects_have_rules),
		cmocka_unit_test(test_requests_end_without_a_step),
		cmocka_unit_test(test_scripts_that_make_no_sense_are_refused),
		cmocka_unit_test(test_attributes_of_a_later_version_are_refused),
		cmocka_unit_test(test_a_failure_may_leave_by_longjmp),
		cmocka_unit_test(test_scripts_do_not_overlap),
		cmocka_unit_test(test_without_a_function_for_it_a_failure_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
