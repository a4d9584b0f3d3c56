/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages over every path. */
#include "p2p/pair_of_endpoints_test.h"

#define FLOOD 300u

/* Many more messages than there are cells, received in reverse by pairs and late. */
static void control_messages_keep_their_order(enum endpoints_route route)
{
	static struct oriel_p2p_request out[FLOOD], in[FLOOD];
	static char from[FLOOD][64], to[FLOOD][64];
	struct endpoints e;

	endpoints_open(&e, route, &small, NULL);
	for (unsigned i = 0; i < FLOOD; i++) {
		endpoints_fill(from[i], 64, i);
		assert_int_equal(oriel_p2p_send_control(e.a, i % 2, from[i], i % 65, &out[i]),
				 ORIEL_OK);
	}
	for (unsigned i = 0; i < 50; i++)
		endpoints_turn(&e);
	/* Unexpected messages are kept up to a bound, and then wait. */
	assert_int_equal(out[0].status, ORIEL_OK);
	assert_int_equal(out[FLOOD - 1].status, ORIEL_AGAIN);
	for (unsigned i = 0; i < FLOOD; i += 2) {
		assert_int_equal(oriel_p2p_recv_control(e.b, 1, to[i + 1], 64, &in[i + 1]),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_recv_control(e.b, 0, to[i], 64, &in[i]), ORIEL_OK);
	}
	for (unsigned i = 0; i < FLOOD; i++) {
		assert_int_equal(endpoints_wait(&e, &in[i]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&e, &out[i]), ORIEL_OK);
		assert_int_equal(in[i].length, i % 65);
		assert_memory_equal(to[i], from[i], i % 65);
	}
	endpoints_close(&e);
}

static void test_control_messages_keep_their_order(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++)
		control_messages_keep_their_order(routes[i]);
}

/* Expected and unexpected ones, of any size; a request is used again at once. */
static void control_messages_of_any_size(enum endpoints_route route)
{
	static const uint32_t lengths[] = {0,    1,    2023,  2024,  2025,
					   4048, 4049, 60000, 65535, ORIEL_P2P_CONTROL};
	static char from[ORIEL_P2P_CONTROL], to[ORIEL_P2P_CONTROL + 1];
	struct oriel_p2p_request out, in;
	struct endpoints e;

	endpoints_open(&e, route, &small, NULL);
	for (unsigned i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t length = lengths[i / 2];

		endpoints_fill(from, length, i);
		memset(to, 0x77, sizeof(to));
		if (i % 2)
			assert_int_equal(oriel_p2p_recv_control(e.b, 9, to, length, &in), ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(e.a, 9, from, length, &out), ORIEL_OK);
		for (unsigned k = 0; k < 5; k++)
			endpoints_turn(&e);
		if (i % 2 == 0)
			assert_int_equal(oriel_p2p_recv_control(e.b, 9, to, length, &in), ORIEL_OK);
		assert_int_equal(endpoints_wait(&e, &in), ORIEL_OK);
		assert_int_equal(endpoints_wait(&e, &out), ORIEL_OK);
		assert_int_equal(in.length, length);
		assert_memory_equal(to, from, length);
		assert_int_equal(to[length], 0x77);
	}
	assert_int_equal(oriel_p2p_send_control(e.a, 1, from, ORIEL_P2P_CONTROL + 1, &out),
			 ORIEL_ERR_RANGE);
	endpoints_close(&e);
}

static void test_control_messages_of_any_size_arrive(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++)
		control_messages_of_any_size(routes[i]);
}

static void test_a_message_that_does_not_fit_ends_its_receive(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * ROUTES; i++) {
		if (i % ROUTES < routes_first)
			continue;
		struct oriel_p2p_request out[2], in[2];
		static char from[5000], to[5000];
		bool is_expected = i >= ROUTES;
		struct endpoints e;

		endpoints_open(&e, routes[i % ROUTES], &small, NULL);
		memset(to, 0x77, sizeof(to));
		if (is_expected)
			assert_int_equal(oriel_p2p_recv_control(e.b, 4, to, 4999, &in[0]),
					 ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(e.a, 4, from, 5000, &out[0]), ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(e.a, 4, "next", 5, &out[1]), ORIEL_OK);
		for (unsigned k = 0; k < 20; k++)
			endpoints_turn(&e);
		if (!is_expected)
			assert_int_equal(oriel_p2p_recv_control(e.b, 4, to, 4999, &in[0]),
					 ORIEL_OK);
		assert_int_equal(endpoints_wait(&e, &in[0]), ORIEL_ERR_MISMATCH);
		assert_int_equal(oriel_p2p_test(e.b, &in[0]), ORIEL_ERR_MISMATCH);
		assert_non_null(strstr(oriel_last_error(), "5000"));
		assert_int_equal(in[0].length, 5000);
		assert_int_equal(to[0], 0x77);
		assert_int_equal(oriel_p2p_recv_control(e.b, 4, to, 4999, &in[1]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&e, &in[1]), ORIEL_OK);
		assert_string_equal(to, "next");
		assert_int_equal(oriel_p2p_check(e.a), ORIEL_OK);
		endpoints_close(&e);
	}
}

/* Messages without a receive stop one another, and nothing else. */
static void transfers_pass(enum endpoints_route route, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode};
	static struct oriel_p2p_request out[2][FLOOD];
	static char words[3000], from[2][LONG], to[2][LONG];
	struct oriel_p2p *endpoint[2];
	struct endpoints e;

	endpoints_open(&e, route, &small, &attr);
	endpoint[0] = e.a;
	endpoint[1] = e.b;
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < FLOOD; i++)
			assert_int_equal(oriel_p2p_send_control(endpoint[k], 5, words,
								sizeof(words), &out[k][i]),
					 ORIEL_OK);
	for (unsigned i = 0; i < 200; i++)
		endpoints_turn(&e);
	for (unsigned i = 0; i < 10; i++) {
		struct oriel_p2p_request sent[2], got[2];
		size_t length = i % 2 ? LONG : 20;

		for (unsigned k = 0; k < 2; k++) {
			struct oriel_p2p_buffer f = buffer(from[k], length, NULL),
						t = buffer(to[k], length, NULL);

			endpoints_fill(from[k], length, i + k);
			memset(to[k], 0, length);
			assert_int_equal(oriel_p2p_send(endpoint[k], 0, &f, &sent[k]), ORIEL_OK);
			assert_int_equal(oriel_p2p_recv(endpoint[e.a == e.b ? k : !k], 0, &t,
							&got[k]),
					 ORIEL_OK);
		}
		for (unsigned k = 0; k < 2; k++) {
			assert_int_equal(endpoints_wait(&e, &got[k]), ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &sent[k]), ORIEL_OK);
			assert_memory_equal(to[k], from[k], length);
		}
	}
	assert_int_equal(out[0][FLOOD - 1].status, ORIEL_AGAIN);
	assert_int_equal(out[1][FLOOD - 1].status, ORIEL_AGAIN);
	endpoints_close(&e);
	assert_int_equal(out[0][FLOOD - 1].status, ORIEL_ERR_ABORTED);
}

static void test_a_flood_stops_no_channel(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			transfers_pass(routes[i], modes[k]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_control_messages_keep_their_order),
		cmocka_unit_test(test_control_messages_of_any_size_arrive),
		cmocka_unit_test(test_a_message_that_does_not_fit_ends_its_receive),
		cmocka_unit_test(test_a_flood_stops_no_channel),
	};

	endpoints_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
