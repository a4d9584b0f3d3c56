/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames and the task of `oriel run --hosts`: what is encoded is parsed, and bytes that are cut
 * short or changed are refused without a read beyond their end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "run_task.h"

static char *program[] = {(char *)"./prog", (char *)"", (char *)"two words", NULL};
static char *variables[] = {(char *)"ORIEL_LOG=info", NULL};

static const struct run_task given = {
	.ranks = 2,
	.start = {.first = 3,
		  .size = 5,
		  .listener = -1,
		  .port = 65535,
		  .address = "fd00::1",
		  .key = "00ff",
		  .has_terminal = true,
		  .window = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 1, .ws_ypixel = 2}},
	.has_pty = true,
	.folder = "/a folder",
	.program = program,
	.variables = variables,
};

/* A copy without a byte behind it, so that sanitizers see a read there. */
static bool parses(const unsigned char *bytes, size_t length)
{
	unsigned char *copy = malloc(length ? length : 1);
	struct run_task task;
	bool is_good;

	assert_non_null(copy);
	memcpy(copy, bytes, length);
	is_good = run_task_parse(copy, length, &task);
	if (is_good)
		run_task_free(&task);
	free(copy);
	return is_good;
}

static void test_a_task_survives_the_way(void **state)
{
	struct run_bytes body = {0};
	struct run_task task;

	(void)state;
	run_task_encode(&given, &body);
	assert_false(body.is_broken);
	assert_true(run_task_parse(body.bytes, body.length, &task));
	assert_int_equal(task.ranks, 2);
	assert_int_equal(task.start.first, 3);
	assert_int_equal(task.start.size, 5);
	assert_int_equal(task.start.port, 65535);
	assert_int_equal(task.start.listener, -1);
	assert_true(task.start.has_terminal && task.has_pty);
	assert_memory_equal(&task.start.window, &given.start.window, sizeof(given.start.window));
	assert_string_equal(task.start.address, "fd00::1");
	assert_string_equal(task.start.key, "00ff");
	assert_string_equal(task.folder, "/a folder");
	assert_string_equal(task.program[0], "./prog");
	assert_string_equal(task.program[1], "");
	assert_string_equal(task.program[2], "two words");
	assert_null(task.program[3]);
	assert_string_equal(task.variables[0], "ORIEL_LOG=info");
	assert_null(task.variables[1]);
	run_task_free(&task);
	run_bytes_free(&body);
}

static void test_a_task_that_is_cut_or_longer_is_refused(void **state)
{
	struct run_bytes body = {0};
	size_t length;

	(void)state;
	run_task_encode(&given, &body);
	for (length = 0; length < body.length; length++)
		assert_false(parses(body.bytes, length));
	assert_true(parses(body.bytes, body.length));
	run_bytes_add(&body, "", 1);
	assert_false(parses(body.bytes, body.length));
	run_bytes_free(&body);
}

static void test_a_task_with_numbers_that_do_not_fit_is_refused(void **state)
{
	static const struct {
		unsigned at, value;
	} bad[] = {{0, 0},          {0, 3},          {1, 5},
		   {1, UINT32_MAX}, {2, 4},          {2, RUN_MAX_RANKS + 1},
		   {3, 0},          {3, 65536},      {9, 0},
		   {9, 5},          {9, UINT32_MAX}, {10, 0},
		   {10, UINT32_MAX}};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct run_bytes body = {0}, number = {0};

		run_task_encode(&given, &body);
		run_bytes_add_number(&number, bad[i].value);
		memcpy(body.bytes + 4 * bad[i].at, number.bytes, 4);
		assert_false(parses(body.bytes, body.length));
		run_bytes_free(&number);
		run_bytes_free(&body);
	}
}

static void test_frames_arrive_whole_whatever_the_pieces(void **state)
{
	struct run_wire to, from;
	struct run_frame frame;
	uint32_t number;
	int pipes[2];
	size_t i;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	run_wire_open(&to, -1, pipes[1]);
	run_wire_open(&from, pipes[0], -1);
	run_wire_send(&to, RUN_FRAME_OUTPUT, 7, "abc", 3);
	run_wire_send_number(&to, RUN_FRAME_SIGNAL, 0x01020304);
	assert_int_equal(to.waiting.length, 0);
	assert_true(run_wire_fill(&from) > 0);
	to.received = from.received; /* all bytes; @from gets them one by one */
	from.received = (struct run_bytes){0};
	for (i = 0; i < RUN_WIRE_HEADER + 3; i++) {
		assert_int_equal(run_wire_next(&from, &frame), RUN_WIRE_MORE);
		run_bytes_add(&from.received, to.received.bytes + i, 1);
	}
	assert_int_equal(run_wire_next(&from, &frame), RUN_WIRE_FRAME);
	assert_int_equal(frame.type, RUN_FRAME_OUTPUT);
	assert_int_equal(frame.rank, 7);
	assert_int_equal(frame.length, 3);
	assert_memory_equal(frame.body, "abc", 3);
	assert_int_equal(run_wire_next(&from, &frame), RUN_WIRE_MORE);
	run_bytes_add(&from.received, to.received.bytes + i, to.received.length - i);
	assert_int_equal(run_wire_next(&from, &frame), RUN_WIRE_FRAME);
	assert_int_equal(frame.type, RUN_FRAME_SIGNAL);
	assert_true(run_frame_numbers(&frame, &number, 1));
	assert_int_equal(number, 0x01020304);
	assert_false(run_frame_numbers(&frame, &number, 0));
	run_wire_close(&to);
	run_wire_close(&from);
	close(pipes[0]);
	close(pipes[1]);
}

static void test_a_malformed_header_is_refused(void **state)
{
	static const uint32_t headers[][3] = {{0, 0, 0},
					      {RUN_FRAME_TYPES, 0, 0},
					      {RUN_FRAME_PING, 0, RUN_WIRE_BODY + 1}};
	struct run_frame frame;
	struct run_wire wire;
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		run_wire_open(&wire, -1, -1);
		for (j = 0; j < 3; j++)
			run_bytes_add_number(&wire.received, headers[i][j]);
		assert_int_equal(run_wire_next(&wire, &frame), RUN_WIRE_MALFORMED);
		run_wire_close(&wire);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_task_survives_the_way),
		cmocka_unit_test(test_a_task_that_is_cut_or_longer_is_refused),
		cmocka_unit_test(test_a_task_with_numbers_that_do_not_fit_is_refused),
		cmocka_unit_test(test_frames_arrive_whole_whatever_the_pieces),
		cmocka_unit_test(test_a_malformed_header_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
