/* SPDX-License-Identifier: Apache-2.0 */
/* The wire of an HCA seen by a peer that the test plays by hand. */
#include "hca/soft/soft_bench_test.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "hca/soft/soft_greet.h"
#include "hca/soft/soft_wire.h"
#include "net/socket_test.h"

#define QPN 5u
#define MEMORY 4096u

struct stage {
	struct ori_hca *hca;
	struct side side;
	struct soft_address hca_address; /* the side's HCA */
	struct soft_address mine;
	int listener;
	int from, to; /* sockets from and to the HCA */
};

static void say(const struct stage *s, const struct soft_header *h)
{
	assert_true(socket_send(s->to, h, sizeof(*h), NULL, 0));
}

/* The next header from the HCA; the payload is skipped. */
static struct soft_header hear(const struct stage *s)
{
	struct soft_header h;
	char payload[256];
	struct ori_fds none = {.count = 0};

	assert_int_equal(socket_recv(s->from, &h, sizeof(h), &none), ORIEL_OK);
	assert_true(h.length <= sizeof(payload));
	assert_int_equal(socket_recv(s->from, payload, h.length, &none), ORIEL_OK);
	assert_int_equal(none.count, 0);
	return h;
}

static struct soft_header hear_type(const struct stage *s, uint8_t type)
{
	struct soft_header h;

	do
		h = hear(s);
	while (h.type != type);
	return h;
}

/* The stream ends, after whatever else it carries. */
static void expect_end(int fd)
{
	uint64_t deadline = ori_deadline(PATIENCE_NS);
	char bytes[256];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) != 0) {
		assert_false(ori_deadline_passed(deadline));
		if (n < 0)
			usleep(1000);
	}
}

/* A frame of the greeting, whose body is @hello or absent. */
static void greet(int fd, unsigned type, const struct soft_header *hello)
{
	const struct ori_frame frame = {type, 0, hello ? sizeof(*hello) : 0};
	unsigned char bytes[ORI_FRAME_HEADER + sizeof(*hello)];

	ori_frame_encode(&frame, bytes);
	if (hello)
		memcpy(bytes + ORI_FRAME_HEADER, hello, sizeof(*hello));
	assert_true(socket_send(fd, bytes, ORI_FRAME_HEADER + frame.length, NULL, 0));
}

/* The type of the next frame of the greeting, whose body goes to @hello if it is not NULL. */
static unsigned greeting(int fd, struct soft_header *hello)
{
	unsigned char bytes[ORI_FRAME_HEADER];
	struct ori_fds none = {.count = 0};
	struct ori_frame frame;

	assert_int_equal(socket_recv(fd, bytes, sizeof(bytes), &none), ORIEL_OK);
	assert_int_equal(ori_frame_parse(bytes, &frame), ORIEL_OK);
	assert_int_equal(frame.length, hello ? sizeof(*hello) : 0);
	if (hello)
		assert_int_equal(socket_recv(fd, hello, sizeof(*hello), &none), ORIEL_OK);
	assert_int_equal(none.count, 0);
	return frame.type;
}

static void say_hello(const struct stage *s, uint64_t cookie)
{
	const struct soft_header hello = ori_soft_hello(s->mine.cookie, cookie);

	greet(s->to, SOFT_GREETING_HELLO, &hello);
}

static void enter(const struct stage *s)
{
	say_hello(s, s->hca_address.cookie);
	assert_int_equal(greeting(s->to, NULL), SOFT_GREETING_WELCOME);
}

static void stage_meet(struct stage *s)
{
	struct ori_hca_qp_address peer = s->side.address;
	struct soft_header hello;

	s->mine = s->hca_address;
	s->mine.cookie++;
	assert_int_equal(ori_fdsock_listen(s->mine.socket, &s->listener), ORIEL_OK);
	memcpy(peer.hca_address, &s->mine, sizeof(s->mine));
	peer.qpn = QPN;
	assert_int_equal(HCA.connect_qp(s->side.qp, &peer), ORIEL_OK);
	s->from = socket_accept(s->listener);
	assert_true(s->from >= 0);
	assert_int_equal(greeting(s->from, &hello), SOFT_GREETING_HELLO);
	assert_int_equal(hello.type, SOFT_HELLO);
	assert_true(hello.operand == s->hca_address.cookie && hello.compare == s->mine.cookie);
	greet(s->from, SOFT_GREETING_WELCOME, NULL);
	assert_int_equal(ori_fdsock_connect(s->hca_address.socket, geteuid(), 0,
					    ori_deadline(PATIENCE_NS), &s->to),
			 ORIEL_OK);
}

static int open_stage(void **state)
{
	struct stage *s = calloc(1, sizeof(*s));

	assert_int_equal(HCA.open("ack=2ms,retry=3", 0, &s->hca), ORIEL_OK);
	side_open(&s->side, &(struct side_attr){.hca = s->hca, .depth = 16, .length = MEMORY});
	memcpy(&s->hca_address, s->side.address.hca_address, sizeof(s->hca_address));
	stage_meet(s);
	*state = s;
	return 0;
}

static int close_stage(void **state)
{
	struct stage *s = *state;

	side_close(&s->side);
	HCA.close(s->hca);
	close(s->listener);
	if (s->from >= 0)
		close(s->from);
	if (s->to >= 0)
		close(s->to);
	free(s);
	return 0;
}

static struct soft_counters counters_of(const struct stage *s)
{
	struct soft_counters c;

	ori_soft_counters(s->hca, &c);
	return c;
}

/* A connection that does not know the cookie of 64 bits is refused. */
static void test_an_unproven_connection_is_closed(void **state)
{
	struct stage *s = *state;

	say_hello(s, s->hca_address.cookie ^ UINT64_C(1) << 63);
	assert_int_equal(greeting(s->to, NULL), SOFT_GREETING_REFUSED);
	expect_end(s->to);
}

static void test_a_question_is_asked_until_it_is_answered(void **state)
{
	struct stage *s = *state;
	struct soft_header h, answer;
	uint64_t index;

	enter(s);
	index = side_signal(&s->side, &s->side, 0);
	assert_int_equal(hear(s).type, SOFT_ADD);
	for (unsigned i = 0; i < 20; i++) {
		h = hear(s);
		assert_int_equal(h.type, SOFT_ASK);
		assert_int_equal(h.operand, 1);
	}
	assert_int_equal(counters_of(s).lost, 0);
	answer = (struct soft_header){.magic = SOFT_WIRE_MAGIC,
				      .type = SOFT_ANSWER,
				      .packets = 1,
				      .node = h.source_node,
				      .qpn = h.source_qpn,
				      .source_node = h.node,
				      .source_qpn = h.qpn,
				      .operand = 2};
	say(s, &answer);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(hear(s).type, SOFT_ASK);
	answer.operand = 1;
	say(s, &answer);
	hear_type(s, SOFT_ADD);
	assert_int_equal(counters_of(s).lost, 1);
	/* An answer to the first question does not answer the second. */
	say(s, &answer);
	for (unsigned i = 0; i < 20; i++) {
		h = hear_type(s, SOFT_ASK);
		answer.operand = h.operand;
	}
	assert_int_equal(counters_of(s).lost, 1);
	for (unsigned i = 1; i <= 3; i++) {
		say(s, &answer);
		answer.operand++;
		if (i < 3)
			hear_type(s, SOFT_ADD);
		while (i < 3 && hear(s).operand != answer.operand)
			;
	}
	assert_int_not_equal(side_wait(&s->side, index), ORIEL_OK);
	assert_int_equal(side_syndrome(&s->side), ORIEL_SYNDROME_RETRY_EXCEEDED);
}

/* A WRITE of one packet arrives; the QP fails between its halves. */
static void test_a_failed_qp_takes_no_rest_of_a_payload(void **state)
{
	struct stage *s = *state;
	struct soft_header h = {.magic = SOFT_WIRE_MAGIC,
				.type = SOFT_WRITE,
				.packets = 1,
				.node = s->hca_address.node,
				.qpn = s->side.address.qpn,
				.source_node = s->mine.node,
				.source_qpn = QPN,
				.psn = s->side.address.psn,
				.length = s->side.address.mtu,
				.rkey = s->side.keys.rkey,
				.total = s->side.address.mtu};
	uint64_t deadline = ori_deadline(PATIENCE_NS);
	char *memory = s->side.memory;
	size_t half = h.length / 2;
	char *payload = malloc(half);
	int left;

	assert_non_null(payload);
	assert_true(h.length > SOFT_SMALL && h.length <= MEMORY);
	memset(payload, 0x5a, half);
	enter(s);
	say(s, &h);
	assert_true(socket_send(s->to, payload, half, NULL, 0));
	do
		assert_int_equal(ioctl(s->to, SIOCOUTQ, &left), 0);
	while (left > 0 && !ori_deadline_passed(deadline));
	HCA.fail_qp(s->side.qp);
	assert_int_equal(memory[half - 1], 0x5a);
	assert_true(socket_send(s->to, payload, half, NULL, 0));
	/* The engine answers for a QP that does not exist, after all that came before. */
	h = (struct soft_header){.magic = SOFT_WIRE_MAGIC,
				 .type = SOFT_ASK,
				 .packets = 1,
				 .node = s->hca_address.node,
				 .source_node = s->mine.node,
				 .source_qpn = QPN,
				 .operand = 1};
	say(s, &h);
	hear_type(s, SOFT_ANSWER);
	for (size_t i = half; i < 2 * half; i++)
		assert_int_equal(memory[i], 0);
	free(payload);
}

static void cut(struct stage *s, int *fd, int other)
{
	uint64_t index;

	/* The connection is the peer's once it has sent a frame; this one is for no queue. */
	enter(s);
	say(s, &(struct soft_header){.magic = SOFT_WIRE_MAGIC, .type = SOFT_ACK, .packets = 1});
	index = side_signal(&s->side, &s->side, 0);
	hear_type(s, SOFT_ASK);
	close(*fd);
	*fd = -1;
	assert_int_not_equal(side_wait(&s->side, index), ORIEL_OK);
	assert_int_equal(side_syndrome(&s->side), ORIEL_SYNDROME_RETRY_EXCEEDED);
	expect_end(other);
}

static void test_a_lost_receive_connection_closes_the_send_connection(void **state)
{
	struct stage *s = *state;

	cut(s, &s->to, s->from);
}

static void test_a_lost_send_connection_closes_the_receive_connection(void **state)
{
	struct stage *s = *state;

	cut(s, &s->from, s->to);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_stage, close_stage)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_an_unproven_connection_is_closed),
		TEST(test_a_question_is_asked_until_it_is_answered),
		TEST(test_a_failed_qp_takes_no_rest_of_a_payload),
		TEST(test_a_lost_receive_connection_closes_the_send_connection),
		TEST(test_a_lost_send_connection_closes_the_receive_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
