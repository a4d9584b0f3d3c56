/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of messages: the memory that a false length costs, and a message in pieces. */
#include "bootstrap/message.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_NS 30000000000u
#define LIE (1ull << 30)
#define LIE_COST (1u << 20)

/* The runtime of the sanitizers defines it; NULL without one. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
	struct mallinfo2 info;

	if (__sanitizer_get_current_allocated_bytes)
		return __sanitizer_get_current_allocated_bytes();
	info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

/* Rank 0 of two, and the socket on which the test sends as rank 1. */
struct receiver {
	struct ori_traffic traffic;
	struct ori_listener listener;
	struct ori_tree tree;
	struct ori_message_service service;
	int peer;
};

static void receiver_open(struct receiver *o)
{
	struct ori_pending *pending = calloc(1, sizeof(*pending));
	int ends[2];

	assert_non_null(pending);
	memset(o, 0, sizeof(*o));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	o->peer = ends[1];
	ori_listener_init(&o->listener, NULL, 2, &o->traffic);
	ori_tree_init(&o->tree, 0, 2, &o->listener);
	assert_int_equal(ori_message_open(&o->service, &o->tree, &o->listener, NULL), ORIEL_OK);
	ori_net_open(&pending->link, ends[0], &o->traffic);
	pending->link.peer = pending->hello.rank = 1;
	pending->hello.purpose = ORI_PURPOSE_MESSAGE;
	o->listener.admitted = pending;
}

static void receiver_close(struct receiver *o)
{
	close(o->peer);
	ori_message_close(&o->service);
	ori_tree_close(&o->tree);
	ori_listener_close(&o->listener);
}

static void send_header(const struct receiver *o, uint64_t length)
{
	struct ori_frame frame = {.type = ORI_FRAME_MESSAGE, .tag = 7, .length = length};
	unsigned char header[ORI_FRAME_HEADER];

	ori_frame_encode(&frame, header);
	assert_int_equal(write(o->peer, header, sizeof(header)), sizeof(header));
}

static void test_a_false_length_costs_little_memory(void **state)
{
	static struct receiver o;
	size_t before;
	char byte;

	(void)state;
	receiver_open(&o);
	before = allocated();
	send_header(&o, LIE);
	assert_int_equal(write(o.peer, "all of it", 9), 9);
	/* The memory is measured after the timeout, while the message is still incomplete. */
	assert_int_equal(ori_message_recv(&o.service, 1, 7, &byte, 1, 20000000), ORIEL_ERR_TIMEOUT);
	assert_in_range(allocated(), 0, before + LIE_COST);
	receiver_close(&o);
}

#define WHOLE 1000003u

static void *send_whole(void *argument)
{
	const struct receiver *o = argument;
	unsigned char piece[1009];
	size_t at, i, part;

	for (at = 0; at < WHOLE; at += part) {
		part = WHOLE - at < sizeof(piece) ? WHOLE - at : sizeof(piece);
		for (i = 0; i < part; i++)
			piece[i] = (unsigned char)((at + i) * 31 >> 3);
		if (write(o->peer, piece, part) != (ssize_t)part)
			break;
	}
	return NULL;
}

static void test_a_long_message_in_pieces_arrives_whole(void **state)
{
	unsigned char *bytes = malloc(WHOLE);
	static struct receiver o;
	pthread_t thread;
	size_t i;

	(void)state;
	assert_non_null(bytes);
	receiver_open(&o);
	send_header(&o, WHOLE);
	assert_int_equal(pthread_create(&thread, NULL, send_whole, &o), 0);
	assert_int_equal(ori_message_recv(&o.service, 1, 7, bytes, WHOLE, LONG_NS), ORIEL_OK);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (i = 0; i < WHOLE; i++)
		if (bytes[i] != (unsigned char)(i * 31 >> 3))
			fail_msg("byte %zu is wrong", i);
	receiver_close(&o);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_false_length_costs_little_memory),
		cmocka_unit_test(test_a_long_message_in_pieces_arrives_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
