/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of grow_frame.c: each field of a frame that makes no sense is refused. */
#include "comm/grow_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/tcp.h"

#define COUNT 3u /* ranks of the group */

static const struct ori_frame hello_frame = {.type = ORI_GROW_HELLO,
					     .length = sizeof(struct ori_grow_hello)};
static const struct ori_frame welcome_frame = {.type = ORI_GROW_WELCOME,
					       .length = sizeof(struct ori_grow_welcome)};

static const struct ori_grow_hello hello = {.version = ORI_COMM_WIRE,
					    .count = ORI_TCP_RANKS_MAX,
					    .extent = ORI_PART_NETWORK,
					    .hostname = "node7"};

/* The last of the largest communicator there is. */
static const struct ori_grow_welcome welcome = {.version = ORI_COMM_WIRE,
						.first = ORI_TCP_RANKS_MAX - COUNT,
						.size = ORI_TCP_RANKS_MAX,
						.extent = ORI_PART_MACHINE,
						.epoch = 1,
						.timeout_ns = 1,
						.key_length = ORI_KEY_MAX};

static void test_a_hello_is_checked(void **state)
{
	struct ori_grow_hello wrong[] = {hello, hello, hello, hello, hello, hello, hello};
	struct ori_frame frame = hello_frame;
	size_t i;

	(void)state;
	assert_null(ori_grow_hello_doubt(&hello_frame, &hello));
	frame.type = ORI_GROW_WAIT;
	assert_non_null(ori_grow_hello_doubt(&frame, &hello));
	frame = hello_frame;
	frame.length--;
	assert_non_null(ori_grow_hello_doubt(&frame, &hello));
	wrong[0].version++;
	wrong[1].count = 0;
	wrong[2].count = ORI_TCP_RANKS_MAX + 1;
	wrong[3].reserved = 1;
	wrong[4].extent = ORI_PART_NETWORK + 1;
	memset(wrong[5].hostname, 'n', sizeof(wrong[5].hostname));
	wrong[6].hostname[1] = '\n';
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_non_null(ori_grow_hello_doubt(&hello_frame, &wrong[i]));
}

static void test_a_welcome_is_checked(void **state)
{
	struct ori_grow_welcome wrong[] = {welcome, welcome, welcome, welcome, welcome,
					   welcome, welcome, welcome, welcome, welcome};
	struct ori_grow_welcome network = welcome;
	struct ori_frame frame = welcome_frame;
	size_t i;

	(void)state;
	assert_true(ori_grow_welcome_is_valid(&welcome_frame, &welcome, COUNT));
	network.extent = ORI_PART_NETWORK;
	assert_true(ori_grow_welcome_is_valid(&welcome_frame, &network, COUNT));
	/* There is no room for another rank. */
	assert_false(ori_grow_welcome_is_valid(&welcome_frame, &welcome, COUNT + 1));
	frame.type = ORI_GROW_DONE;
	assert_false(ori_grow_welcome_is_valid(&frame, &welcome, COUNT));
	frame = welcome_frame;
	frame.length--;
	assert_false(ori_grow_welcome_is_valid(&frame, &welcome, COUNT));
	wrong[0].version++;
	wrong[1].size = ORI_TCP_RANKS_MAX + 1;
	wrong[2].first = 0;
	wrong[3].first = ORI_TCP_RANKS_MAX + 1;
	wrong[4].first = ORI_TCP_RANKS_MAX - COUNT + 1;
	wrong[5].extent = ORI_PART_PROCESS;
	wrong[6].epoch = 0;
	wrong[7].timeout_ns = 0;
	wrong[8].key_length = ORI_KEY_MAX + 1;
	wrong[9].key_length = ORI_KEY_MAX - 1;
	wrong[9].key[ORI_KEY_MAX - 1] = 1;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(ori_grow_welcome_is_valid(&welcome_frame, &wrong[i], COUNT));
}

static void test_an_end_is_checked(void **state)
{
	struct ori_frame frame = {.type = ORI_GROW_DONE, .length = sizeof(struct ori_grow_done)};
	struct ori_grow_done body;

	(void)state;
	ori_grow_done_fill(&body, ORIEL_OK);
	assert_true(ori_grow_done_parse(&frame, ORI_GROW_DONE, &body));
	body.status = ORIEL_ERR_PEER;
	memset(body.text, '\033', sizeof(body.text));
	assert_true(ori_grow_done_parse(&frame, ORI_GROW_DONE, &body));
	assert_non_null(memchr(body.text, '\0', sizeof(body.text)));
	assert_null(strchr(body.text, '\033'));
	assert_false(ori_grow_done_parse(&frame, ORI_GROW_RESULT, &body));
	frame.length--;
	assert_false(ori_grow_done_parse(&frame, ORI_GROW_DONE, &body));
	frame.length++;
	body.status = ORIEL_AGAIN;
	assert_false(ori_grow_done_parse(&frame, ORI_GROW_DONE, &body));
	body.status = 1000;
	assert_false(ori_grow_done_parse(&frame, ORI_GROW_DONE, &body));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_hello_is_checked),
		cmocka_unit_test(test_a_welcome_is_checked),
		cmocka_unit_test(test_an_end_is_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
