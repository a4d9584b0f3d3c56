/* SPDX-License-Identifier: Apache-2.0 */
/* Cancelled requests: a request that the peer does not know of is as if it had never been. */
#include <oriel/p2p_mock.h>

#include "p2p/pair_of_endpoints_test.h"

#define SOME 5u

static char from[SOME][LONG], to[SOME][LONG];
static struct oriel_p2p_request out[SOME], in[SOME];

static void fill_all(void)
{
	for (unsigned i = 0; i < SOME; i++)
		endpoints_fill(from[i], LONG, i);
	memset(to, 0, sizeof(to));
}

/* Lengths differ, so that a wrong pair is noticed. */
static size_t length_of(unsigned i)
{
	return LONG - i * 100;
}

static void begin(struct oriel_p2p *p2p, unsigned i, bool is_send)
{
	struct oriel_p2p_buffer b = buffer(is_send ? from[i] : to[i], length_of(i), NULL);

	if (is_send)
		assert_int_equal(oriel_p2p_send(p2p, 0, &b, &out[i]), ORIEL_OK);
	else
		assert_int_equal(oriel_p2p_recv(p2p, 0, &b, &in[i]), ORIEL_OK);
}

static void cancel_one(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	assert_int_equal(oriel_p2p_cancel(p2p, r), ORIEL_OK);
	assert_int_equal(r->status, ORIEL_ERR_ABORTED);
	assert_int_equal(oriel_p2p_test(p2p, r), ORIEL_ERR_ABORTED);
	assert_non_null(strstr(oriel_last_error(), "cancelled"));
	assert_int_equal(oriel_p2p_cancel(p2p, r), ORIEL_ERR_STATE);
}

static void keep(struct oriel_p2p *p2p, struct oriel_p2p_request *r)
{
	assert_int_equal(oriel_p2p_cancel(p2p, r), ORIEL_ERR_STATE);
	assert_int_equal(r->status, ORIEL_AGAIN);
}

/* Any of five sends and receives, the first and the last included, on both sides. */
static void cancel_before_the_join(enum endpoints_route route, enum oriel_p2p_mode mode,
				   unsigned cancelled)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode};
	struct oriel_p2p_request said[2], heard[2];
	char word[2][8];
	struct endpoints e;

	endpoints_create(&e, route, &small, &attr);
	fill_all();
	for (unsigned i = 0; i < SOME; i++) {
		begin(e.a, i, true);
		begin(e.b, i, false);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(oriel_p2p_send_control(e.a, i, i ? "kept" : "lost", 5, &said[i]),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_recv_control(e.b, i, word[i], 8, &heard[i]), ORIEL_OK);
	}
	cancel_one(e.a, &said[0]);
	cancel_one(e.b, &heard[0]);
	for (unsigned i = 0; i < SOME; i++) {
		if (!(cancelled >> i & 1))
			continue;
		cancel_one(e.a, &out[i]);
		cancel_one(e.b, &in[i]);
	}
	endpoints_join(&e);
	for (unsigned i = 0; i < SOME; i++) {
		if (cancelled >> i & 1) {
			assert_int_equal(in[i].status, ORIEL_ERR_ABORTED);
			assert_int_equal(to[i][0], 0);
			continue;
		}
		assert_int_equal(endpoints_wait(&e, &in[i]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&e, &out[i]), ORIEL_OK);
		assert_memory_equal(to[i], from[i], length_of(i));
	}
	assert_int_equal(endpoints_wait(&e, &heard[1]), ORIEL_OK);
	assert_string_equal(word[1], "kept");
	/* Nothing is left of the cancelled requests. */
	assert_int_equal(oriel_p2p_drain(e.a, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
	assert_int_equal(oriel_p2p_drain(e.b, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
	begin(e.a, 0, true);
	begin(e.b, 0, false);
	assert_int_equal(endpoints_wait(&e, &in[0]), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &out[0]), ORIEL_OK);
	endpoints_close(&e);
}

static void test_any_request_can_be_cancelled_before_the_join(void **state)
{
	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned cancelled = 1; cancelled < 1u << SOME;
			     cancelled = cancelled * 2 + 1) {
				cancel_before_the_join(routes[i], modes[k], cancelled);
				cancel_before_the_join(routes[i], modes[k],
						       cancelled ^ ((1u << SOME) - 1));
			}
}

/*
 * In zero_copy the sender may cancel a send until it knows the offer, else while another
 * send waits.
 */
static void test_a_send_that_the_peer_knows_cannot_be_cancelled(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++) {
		for (unsigned k = 0; k < MODES; k++) {
			const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = modes[k]};
			struct endpoints e;

			endpoints_open(&e, routes[i], &small, &attr);
			fill_all();
			begin(e.a, 0, true);
			begin(e.a, 1, true);
			endpoints_turn(&e);
			if (modes[k] == ORIEL_P2P_ZERO_COPY) {
				cancel_one(e.a, &out[0]);
				begin(e.b, 1, false);
			} else {
				/*
				 * The peer knows the first send that waits, and may have
				 * slots for it.
				 */
				keep(e.a, &out[0]);
				cancel_one(e.a, &out[1]);
				begin(e.a, 1, true);
				endpoints_turn(&e);
				begin(e.b, 0, false);
				begin(e.b, 1, false);
				assert_int_equal(endpoints_wait(&e, &out[0]), ORIEL_OK);
				assert_int_equal(endpoints_wait(&e, &in[0]), ORIEL_OK);
				assert_memory_equal(to[0], from[0], length_of(0));
			}
			assert_int_equal(endpoints_wait(&e, &in[1]), ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &out[1]), ORIEL_OK);
			assert_memory_equal(to[1], from[1], length_of(1));
			assert_int_equal(oriel_p2p_cancel(e.a, &out[1]), ORIEL_ERR_STATE);
			assert_int_equal(oriel_p2p_cancel(e.b, &in[1]), ORIEL_ERR_STATE);
			endpoints_close(&e);
		}
	}
}

/*
 * The receiver grants receives up to the depth of a channel; the peer knows of none behind
 * them.
 */
static void test_receives_behind_the_depth_can_be_cancelled(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++) {
		for (unsigned k = 0; k < MODES; k++) {
			const struct oriel_p2p_attr attr = {.size = sizeof(attr),
							    .mode = modes[k],
							    .depth = 2};
			struct endpoints e;

			endpoints_open(&e, routes[i], &small, &attr);
			fill_all();
			for (unsigned n = 0; n < SOME; n++)
				begin(e.b, n, false);
			endpoints_turn(&e);
			keep(e.b, &in[0]);
			cancel_one(e.b, &in[3]);
			cancel_one(e.b, &in[2]);
			for (unsigned n = 0; n < SOME; n++)
				if (n < 2 || n > 3)
					begin(e.a, n, true);
			for (unsigned n = 0; n < SOME; n++) {
				if (n == 2 || n == 3)
					continue;
				assert_int_equal(endpoints_wait(&e, &in[n]), ORIEL_OK);
				assert_int_equal(endpoints_wait(&e, &out[n]), ORIEL_OK);
				assert_memory_equal(to[n], from[n], length_of(n));
			}
			assert_int_equal(to[2][0], 0);
			endpoints_close(&e);
		}
	}
}

#define WORDS 200u

/*
 * A message that finds no room stays; a receive for which nothing has arrived can be
 * cancelled.
 */
static void test_messages_that_wait_can_be_cancelled(void **state)
{
	static struct oriel_p2p_request said[WORDS], heard[WORDS];
	static char words[WORDS], got[WORDS];

	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++) {
		unsigned remaining = 0;
		struct endpoints e;

		endpoints_open(&e, routes[i], &small, NULL);
		for (unsigned n = 0; n < WORDS; n++) {
			words[n] = (char)n;
			assert_int_equal(oriel_p2p_send_control(e.a, 3, &words[n], 1, &said[n]),
					 ORIEL_OK);
		}
		for (unsigned n = 0; n < 50; n++)
			endpoints_turn(&e);
		assert_int_equal(said[0].status, ORIEL_OK);
		assert_int_equal(oriel_p2p_cancel(e.a, &said[0]), ORIEL_ERR_STATE);
		for (unsigned n = WORDS / 2; n < WORDS; n += 2)
			cancel_one(e.a, &said[n]);
		assert_int_equal(oriel_p2p_recv_control(e.b, 4, got, 1, &heard[0]), ORIEL_OK);
		endpoints_turn(&e);
		cancel_one(e.b, &heard[0]);
		for (unsigned n = 0; n < WORDS; n++) {
			if (said[n].status == ORIEL_ERR_ABORTED)
				continue;
			assert_int_equal(oriel_p2p_recv_control(e.b, 3, &got[remaining], 1,
								&heard[remaining]),
					 ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &heard[remaining]), ORIEL_OK);
			assert_int_equal(got[remaining], words[n]);
			remaining++;
		}
		endpoints_close(&e);
	}
}

/* A message of three cells, of which one has arrived: into the buffer, or into blocks. */
static void test_a_receive_of_half_a_message_can_be_cancelled(void **state)
{
	static char long_word[5000], room[5000];

	(void)state;
	for (unsigned is_late = 0; is_late < 2; is_late++) {
		const struct oriel_p2p_mock_attr attr = {.size = sizeof(attr),
							 .order = ORIEL_P2P_MOCK_MANUAL};
		struct oriel_p2p_request said, heard;
		struct oriel_p2p_mock *mock;
		struct oriel_p2p *a, *b;

		assert_int_equal(oriel_p2p_mock_create(&attr, &mock), ORIEL_OK);
		a = oriel_p2p_mock_endpoint(mock, 0);
		b = oriel_p2p_mock_endpoint(mock, 1);
		endpoints_fill(long_word, sizeof(long_word), is_late);
		if (!is_late)
			assert_int_equal(oriel_p2p_recv_control(b, 1, room, 5000, &heard),
					 ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(a, 1, long_word, 5000, &said), ORIEL_OK);
		assert_int_equal(oriel_p2p_mock_deliver(mock, 0), ORIEL_OK);
		assert_int_equal(oriel_p2p_progress(b), ORIEL_OK);
		if (is_late) {
			assert_int_equal(oriel_p2p_recv_control(b, 1, room, 5000, &heard),
					 ORIEL_OK);
			cancel_one(b, &heard);
			assert_int_equal(oriel_p2p_recv_control(b, 1, room, 5000, &heard),
					 ORIEL_OK);
		} else {
			keep(b, &heard);
		}
		while (oriel_p2p_mock_count(mock))
			assert_int_equal(oriel_p2p_mock_deliver(mock, 0), ORIEL_OK);
		assert_int_equal(oriel_p2p_test(b, &heard), ORIEL_OK);
		assert_memory_equal(room, long_word, 5000);
		oriel_p2p_mock_destroy(mock);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_request_can_be_cancelled_before_the_join),
		cmocka_unit_test(test_a_send_that_the_peer_knows_cannot_be_cancelled),
		cmocka_unit_test(test_receives_behind_the_depth_can_be_cancelled),
		cmocka_unit_test(test_messages_that_wait_can_be_cancelled),
		cmocka_unit_test(test_a_receive_of_half_a_message_can_be_cancelled),
	};

	endpoints_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
