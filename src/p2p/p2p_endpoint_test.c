/* SPDX-License-Identifier: Apache-2.0 */
/* How endpoints begin and end: attributes that differ, destroyed peers, threads. */
#include <unistd.h>

#include "p2p/p2p.h"
#include "p2p/pair_of_endpoints_test.h"

static void endpoints_that_differ(const struct oriel_p2p_attr *a, const struct oriel_p2p_attr *b,
				  enum endpoints_route route, const char *text)
{
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
	char address[2][ORIEL_P2P_ADDRESS];
	struct oriel_p2p_request r;
	char data[8];
	struct endpoints e;

	endpoints_create(&e, route, &small, a);
	oriel_p2p_destroy(e.b);
	assert_int_equal(oriel_p2p_create(e.contexts[1], b, &e.b), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e.a, address[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e.b, address[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.a, address[1], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.b, address[0], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_control(e.a, 0, data, 8, &r), ORIEL_OK);
	while (oriel_p2p_check(e.a) >= 0 || oriel_p2p_check(e.b) >= 0) {
		assert_false(ori_deadline_passed(deadline));
		endpoints_turn(&e);
	}
	assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), text));
	assert_int_equal(oriel_p2p_check(e.b), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), text));
	assert_int_equal(r.status, ORIEL_ERR_MISMATCH);
	endpoints_close(&e);
}

static void test_both_endpoints_report_attributes_that_differ(void **state)
{
	const struct oriel_p2p_attr zero = {.size = sizeof(zero), .mode = ORIEL_P2P_ZERO_COPY};
	const struct oriel_p2p_attr copy = {.size = sizeof(copy), .mode = ORIEL_P2P_COPY_BASED};
	const struct oriel_p2p_attr two = {.size = sizeof(two),
					   .mode = ORIEL_P2P_COPY_BASED,
					   .channels = 2};

	const struct oriel_p2p_attr four = {.size = sizeof(four),
					    .mode = ORIEL_P2P_ZERO_COPY,
					    .queues = 4};

	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++) {
		endpoints_that_differ(&zero, &copy, routes[i], "zero_copy");
		endpoints_that_differ(&copy, &two, routes[i], "channels");
	}
	endpoints_that_differ(&zero, &four, ENDPOINTS_RDMA, "queues");
}

/*
 * The endpoint that is left gets the data that had arrived, and then reports that the peer
 * left.
 */
static void destroyed_ends_are_noticed(enum endpoints_route route, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = 2};
	struct oriel_p2p_request out, sent, in[4];
	static char from[LONG], to[LONG];
	struct oriel_p2p_buffer f = buffer(from, LONG, NULL), t = buffer(to, LONG, NULL);
	char word[8];
	struct endpoints e;
	char who[60];

	endpoints_open(&e, route, &small, &attr);
	endpoints_fill(from, LONG, 3);
	assert_int_equal(oriel_p2p_recv(e.b, 0, &t, &in[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(e.b, 0, &t, &in[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_control(e.b, 5, word, 8, &in[2]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_control(e.b, 6, word, 8, &in[3]), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(e.a, 0, &f, &out), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_send_control(e.a, 5, "last", 5, &sent), ORIEL_OK);
	while (sent.status == ORIEL_AGAIN)
		endpoints_turn(&e);
	assert_int_equal(oriel_p2p_drain(e.a, 0), ORIEL_OK);
	/* The peer receives none of it. */
	assert_int_equal(oriel_p2p_send(e.a, 1, &f, &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_drain(e.a, 10000000), ORIEL_ERR_TIMEOUT);
	oriel_p2p_destroy(e.a);
	assert_int_equal(out.status, ORIEL_ERR_ABORTED);
	e.a = e.b;
	assert_int_equal(endpoints_wait(&e, &in[3]), ORIEL_ERR_PEER);
	assert_int_equal(in[0].status, ORIEL_OK);
	assert_memory_equal(from, to, LONG);
	assert_int_equal(in[2].status, ORIEL_OK);
	assert_int_equal(in[1].status, ORIEL_ERR_PEER);
	assert_string_equal(word, "last");
	assert_int_equal(oriel_p2p_send(e.b, 0, &f, &out), ORIEL_ERR_PEER);
	snprintf(who, sizeof(who), "the peer, process %d%s", (int)getpid(),
		 route == ENDPOINTS_INTERNODE ? " at 127.0.0.1:" : ", ");
	assert_non_null(strstr(oriel_last_error(), who));
	assert_non_null(strstr(oriel_last_error(), ", has destroyed its endpoint"));
	endpoints_close(&e);
}

static void test_destroyed_endpoints_are_noticed(void **state)
{
	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			destroyed_ends_are_noticed(routes[i], modes[k]);
}

#define WORDS 40u

/* All kinds of requests, in both directions. */
struct bustle {
	struct oriel_p2p_request out[2], in[2], said[WORDS], heard[WORDS];
	char from[2][LONG], to[2][LONG], words[WORDS][3000], room[WORDS][3000];
};

static void bustle_begin(struct oriel_p2p *p2p, struct bustle *b)
{
	for (unsigned c = 0; c < 2; c++) {
		struct oriel_p2p_buffer f = buffer(b->from[c], LONG, NULL),
					t = buffer(b->to[c], LONG, NULL);

		endpoints_fill(b->from[c], LONG, c);
		assert_int_equal(oriel_p2p_send(p2p, c, &f, &b->out[c]), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv(p2p, c, &t, &b->in[c]), ORIEL_OK);
	}
	for (unsigned i = 0; i < WORDS; i++) {
		endpoints_fill(b->words[i], 3000, i);
		assert_int_equal(oriel_p2p_send_control(p2p, i, b->words[i], 3000, &b->said[i]),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_recv_control(p2p, i, b->room[i], 3000, &b->heard[i]),
				 ORIEL_OK);
	}
}

/*
 * Each request has ended, well, with @expected, or because of the limit of 0.1 s, which an endpoint
 * on a slow machine may pass before anything else and report to its peer. Data that was received is
 * right.
 */
static void bustle_check(struct endpoints *e, const struct bustle *b, enum oriel_status expected)
{
	const struct oriel_p2p_request *all[] = {b->out, b->in, b->said, b->heard};
	const LargestIntegralType ends[] = {(LargestIntegralType)ORIEL_OK,
					    (LargestIntegralType)expected,
					    (LargestIntegralType)ORIEL_ERR_TIMEOUT,
					    (LargestIntegralType)ORIEL_ERR_PEER};

	for (unsigned k = 0; k < 4; k++)
		for (unsigned i = 0; i < (k < 2 ? 2 : WORDS); i++)
			assert_in_set((LargestIntegralType)endpoints_wait(e, &all[k][i]), ends, 4);
	for (unsigned c = 0; c < 2; c++)
		if (b->in[c].status == ORIEL_OK)
			assert_memory_equal(b->to[c], b->from[c], LONG);
	for (unsigned i = 0; i < WORDS; i++)
		if (b->heard[i].status == ORIEL_OK)
			assert_memory_equal(b->room[i], b->words[i], 3000);
}

/* Before they are joined, too: then the other endpoint waits until its timeout. */
static void destroyed_after(enum endpoints_route route, enum oriel_p2p_mode mode, unsigned steps)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = 2,
					    .depth = 3};
	struct oriel_p2p_context_attr context = small;
	struct bustle *bustle = calloc(2, sizeof(*bustle));
	char address[2][ORIEL_P2P_ADDRESS];
	struct endpoints e;

	assert_non_null(bustle);
	context.timeout_ns = 100000000;
	endpoints_create(&e, route, &context, &attr);
	assert_int_equal(oriel_p2p_address(e.a, address[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e.b, address[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.a, address[1], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.b, address[0], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	bustle_begin(e.a, &bustle[0]);
	bustle_begin(e.b, &bustle[1]);
	for (unsigned i = 0; i < steps; i++)
		endpoints_turn(&e);
	oriel_p2p_destroy(e.a);
	e.a = e.b;
	bustle_check(&e, &bustle[0], ORIEL_ERR_ABORTED);
	bustle_check(&e, &bustle[1], ORIEL_ERR_PEER);
	endpoints_close(&e);
	free(bustle);
}

static void test_endpoints_may_be_destroyed_after_any_step(void **state)
{
	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned steps = 0; steps < 24; steps += 1 + steps / 8)
				destroyed_after(routes[i], modes[k], steps);
}

static void test_a_missing_peer_is_a_timeout(void **state)
{
	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++) {
		char address[ORIEL_P2P_ADDRESS], data[8];
		struct oriel_p2p_request r;
		struct endpoints e;

		for (unsigned k = 0; k < 2; k++) {
			struct oriel_p2p *mine;

			endpoints_create(&e, routes[i], &small, NULL);
			mine = k ? e.a : e.b;
			assert_int_equal(oriel_p2p_address(k ? e.b : e.a, address), ORIEL_OK);
			assert_int_equal(oriel_p2p_connect(mine, address, sizeof(address), 1000000),
					 ORIEL_OK);
			assert_int_equal(oriel_p2p_connect(mine, address, sizeof(address), 1000000),
					 ORIEL_ERR_STATE);
			assert_int_equal(oriel_p2p_recv_control(mine, 0, data, 8, &r), ORIEL_OK);
			assert_int_equal(oriel_p2p_wait(mine, &r, 0), ORIEL_ERR_TIMEOUT);
			assert_non_null(strstr(oriel_last_error(),
					       "has not connected its endpoint within 0.001 s"));
			assert_int_equal(r.status, ORIEL_ERR_TIMEOUT);
			endpoints_close(&e);
		}
	}
}

static void test_invalid_arguments_are_rejected(void **state)
{
	struct oriel_p2p_context_attr bad = {.size = sizeof(bad), .chunk = 100};
	struct oriel_p2p_attr attr = {.size = sizeof(attr), .channels = 65};
	struct oriel_p2p_request r;
	struct oriel_p2p_context *ctx;
	struct oriel_p2p_memory *memory;
	struct oriel_p2p_buffer b;
	struct oriel_p2p *p2p;
	char data[64];
	struct endpoints e;

	(void)state;
	assert_int_equal(oriel_p2p_context_create(&bad, &ctx), ORIEL_ERR_RANGE);
	bad = (struct oriel_p2p_context_attr){.size = sizeof(bad), .slots = 8};
	assert_int_equal(oriel_p2p_context_create(&bad, &ctx), ORIEL_ERR_RANGE);
	endpoints_open(&e, ENDPOINTS_MAPPED, &small, NULL);
	assert_int_equal(oriel_p2p_create(e.contexts[0], &attr, &p2p), ORIEL_ERR_RANGE);
	attr = (struct oriel_p2p_attr){.size = sizeof(attr), .mode = 3};
	assert_int_equal(oriel_p2p_create(e.contexts[0], &attr, &p2p), ORIEL_ERR_INVALID);
	attr = (struct oriel_p2p_attr){.size = sizeof(attr), .channels = 64, .depth = 5};
	assert_int_equal(oriel_p2p_create(e.contexts[0], &attr, &p2p), ORIEL_ERR_RANGE);
	attr = (struct oriel_p2p_attr){.size = sizeof(attr), .queues = 9};
	assert_int_equal(oriel_p2p_create(e.contexts[0], &attr, &p2p), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_p2p_register(e.contexts[0], data + 1, 62, 0, &memory), ORIEL_OK);
	b = buffer(data, 62, memory);
	assert_int_equal(oriel_p2p_send(e.a, 0, &b, &r), ORIEL_ERR_RANGE);
	b = buffer(data + 1, 63, memory);
	assert_int_equal(oriel_p2p_send(e.a, 0, &b, &r), ORIEL_ERR_RANGE);
	b = buffer(data + 1, 62, memory);
	/* A wait for a request that no call took has the failure of the call. */
	r.status = ORIEL_OK;
	assert_int_equal(oriel_p2p_send(e.a, 1, &b, &r), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_p2p_wait(e.a, &r, ENDPOINTS_PATIENCE_NS), ORIEL_ERR_RANGE);
	r.status = ORIEL_OK;
	assert_int_equal(oriel_p2p_recv(e.b, 0, &b, &r), ORIEL_ERR_INVALID);
	assert_int_equal(oriel_p2p_test(e.b, &r), ORIEL_ERR_INVALID);
	oriel_p2p_context_destroy(e.contexts[0]);
	assert_int_equal(oriel_last_status(), ORIEL_ERR_STATE);
	oriel_p2p_unregister(memory);
	endpoints_close(&e);
}

/*
 * Memory that a request under way names stays registered, whatever moves its bytes and however the
 * request ends: cancelled, done, or with its endpoint.
 */
static void keep_registered(enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode};
	static char data[2][LONG];
	struct oriel_p2p_memory *memory[2];
	struct oriel_p2p_request out, in, last;
	struct oriel_p2p_buffer b[2];
	struct endpoints e;

	endpoints_open(&e, ENDPOINTS_MAPPED, &small, &attr);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(oriel_p2p_register(e.contexts[i], data[i], LONG, 0, &memory[i]),
				 ORIEL_OK);
		b[i] = buffer(data[i], LONG, memory[i]);
	}
	assert_int_equal(oriel_p2p_recv(e.b, 0, &b[1], &in), ORIEL_OK);
	assert_int_equal(oriel_p2p_unregister(memory[1]), ORIEL_ERR_STATE);
	assert_non_null(strstr(oriel_last_error(), "1 requests under way use these"));
	assert_int_equal(oriel_p2p_send(e.a, 0, &b[0], &out), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &out), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &in), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(e.a, 0, &b[0], &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(e.a, 0, &b[0], &last), ORIEL_OK);
	assert_int_equal(oriel_p2p_unregister(memory[0]), ORIEL_ERR_STATE);
	assert_non_null(strstr(oriel_last_error(), "2 requests under way use these"));
	assert_int_equal(oriel_p2p_cancel(e.a, &last), ORIEL_OK);
	assert_int_equal(oriel_p2p_unregister(memory[0]), ORIEL_ERR_STATE);
	assert_non_null(strstr(oriel_last_error(), "1 requests under way use these"));
	assert_int_equal(oriel_p2p_destroy(e.a), ORIEL_OK);
	e.a = NULL;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(oriel_p2p_unregister(memory[i]), ORIEL_OK);
	endpoints_close(&e);
}

static void test_memory_of_a_request_stays_registered(void **state)
{
	(void)state;
	keep_registered(ORIEL_P2P_AUTO);
	keep_registered(ORIEL_P2P_ZERO_COPY);
	keep_registered(ORIEL_P2P_COPY_BASED);
}

/* One endpoint in a thread of its own: it returns what it receives on another channel. */
static void *thread_echo(void *argument)
{
	struct oriel_p2p *p2p = argument;
	static char data[2][LONG];

	for (unsigned i = 0; i < 40; i++) {
		struct oriel_p2p_buffer b = buffer(data[i % 2], LONG - i, NULL);
		struct oriel_p2p_request in, out, said, heard;
		char word[100];

		/*
		 * cmocka's checks are for its own thread: the other endpoint sees what is
		 * wrong.
		 */
		if (oriel_p2p_recv(p2p, 0, &b, &in) != ORIEL_OK ||
		    oriel_p2p_wait(p2p, &in, ENDPOINTS_PATIENCE_NS) != ORIEL_OK ||
		    oriel_p2p_send(p2p, 1, &b, &out) != ORIEL_OK ||
		    oriel_p2p_recv_control(p2p, 1, word, sizeof(word), &heard) != ORIEL_OK ||
		    oriel_p2p_wait(p2p, &heard, ENDPOINTS_PATIENCE_NS) != ORIEL_OK ||
		    oriel_p2p_send_control(p2p, 2, word, heard.length, &said) != ORIEL_OK ||
		    oriel_p2p_wait(p2p, &said, ENDPOINTS_PATIENCE_NS) != ORIEL_OK ||
		    oriel_p2p_wait(p2p, &out, ENDPOINTS_PATIENCE_NS) != ORIEL_OK)
			break;
	}
	(void)oriel_p2p_drain(p2p, ENDPOINTS_PATIENCE_NS);
	return NULL;
}

static void threads_talk(enum endpoints_route route, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = 2};
	static char from[LONG], to[LONG];
	pthread_t thread;
	struct endpoints e;

	endpoints_open(&e, route, &small, &attr);
	assert_int_equal(pthread_create(&thread, NULL, thread_echo, e.b), 0);
	for (unsigned i = 0; i < 40; i++) {
		struct oriel_p2p_buffer f = buffer(from, LONG - i, NULL),
					t = buffer(to, LONG - i, NULL);
		struct oriel_p2p_request in, out, said, heard;
		char word[100], back[100];

		endpoints_fill(from, LONG, i);
		endpoints_fill(word, 100, i);
		assert_int_equal(oriel_p2p_send_control(e.a, 1, word, i, &said), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv_control(e.a, 2, back, i, &heard), ORIEL_OK);
		assert_int_equal(oriel_p2p_send(e.a, 0, &f, &out), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv(e.a, 1, &t, &in), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(e.a, &in, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(e.a, &out, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(e.a, &said, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(e.a, &heard, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
		assert_memory_equal(from, to, LONG - i);
		assert_memory_equal(word, back, i);
	}
	/* This endpoint is destroyed while the other one may still be working. */
	oriel_p2p_destroy(e.a);
	assert_int_equal(pthread_join(thread, NULL), 0);
	e.a = e.b;
	endpoints_close(&e);
}

static void test_threads_exchange_requests(void **state)
{
	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			threads_talk(routes[i], modes[k]);
}

/* Endpoints that may receive in staging slots keep a slot each, and so are bounded. */
static void test_slots_bound_the_number_of_endpoints(void **state)
{
	struct oriel_p2p_context_attr attr = {.size = sizeof(attr), .chunk = CHUNK, .slots = 12};
	struct oriel_p2p *endpoints[5];
	struct oriel_p2p_context *ctx;

	(void)state;
	assert_int_equal(oriel_p2p_context_create(&attr, &ctx), ORIEL_OK);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(oriel_p2p_create(ctx, NULL, &endpoints[i]), ORIEL_OK);
	assert_int_equal(oriel_p2p_create(ctx, NULL, &endpoints[4]), ORIEL_ERR_NOMEM);
	oriel_p2p_destroy(endpoints[2]);
	assert_int_equal(oriel_p2p_create(ctx, NULL, &endpoints[2]), ORIEL_OK);
	for (unsigned i = 0; i < 4; i++)
		oriel_p2p_destroy(endpoints[i]);
	assert_int_equal(oriel_last_status(), ORIEL_ERR_NOMEM);
	endpoints_destroy_context(ctx);
}

/* The slots are not too few, but in use: the endpoint can be created once transfers are done. */
static void test_transfers_may_hold_all_slots(void **state)
{
	const struct oriel_p2p_context_attr few = {.size = sizeof(few),
						   .chunk = CHUNK,
						   .slots = 12};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = ORIEL_P2P_COPY_BASED,
					    .channels = 2};
	static char from[LONG], to[2][LONG];
	struct oriel_p2p_request out[2], in[2];
	struct oriel_p2p *late = NULL;
	struct endpoints e;

	(void)state;
	endpoints_open(&e, ENDPOINTS_MAPPED, &few, &attr);
	endpoints_fill(from, LONG, 1);
	for (unsigned c = 0; c < 2; c++) {
		struct oriel_p2p_buffer f = buffer(from, LONG, NULL);

		assert_int_equal(oriel_p2p_send(e.a, c, &f, &out[c]), ORIEL_OK);
	}
	for (unsigned c = 0; c < 2; c++) {
		struct oriel_p2p_buffer t = buffer(to[c], LONG, NULL);

		assert_int_equal(oriel_p2p_recv(e.b, c, &t, &in[c]), ORIEL_OK);
	}
	assert_int_equal(oriel_p2p_create(e.contexts[1], NULL, &late), ORIEL_ERR_NOMEM);
	assert_non_null(strstr(oriel_last_error(), "transfers hold all 12 staging slots"));
	for (unsigned c = 0; c < 2; c++) {
		assert_int_equal(endpoints_wait(&e, &in[c]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&e, &out[c]), ORIEL_OK);
		assert_memory_equal(from, to[c], LONG);
	}
	assert_int_equal(oriel_p2p_create(e.contexts[1], NULL, &late), ORIEL_OK);
	oriel_p2p_destroy(late);
	endpoints_close(&e);
}

#define LONG_BYTES ((1u << 20) + 13) /* spread over all rails */

/*
 * Two contexts, of 2 rails and of @rails: their endpoints take those of both in turn for what is
 * short, and a queue on each for what is long.
 */
static void endpoints_take_rails_in_turn(const char *rails, unsigned most)
{
	char *sent = malloc(LONG_BYTES), *got = calloc(1, LONG_BYTES), word = 0;
	const struct oriel_p2p_buffer from = {.address = sent, .length = LONG_BYTES};
	const struct oriel_p2p_buffer to = {.address = got, .length = LONG_BYTES};
	struct endpoints e, pairs[6];
	unsigned used[ORIEL_DEV_RAILS] = {0};
	struct oriel_p2p_info info = {.size = sizeof(info)};

	assert_true(sent && got);
	for (size_t i = 0; i < LONG_BYTES; i++)
		sent[i] = (char)(i * 7 + i / 251);

	memset(&e, 0, sizeof(e));
	for (unsigned i = 0; i < 2; i++) {
		struct oriel_p2p_context_attr attr = {.size = sizeof(attr),
						      .paths = 1u << ORIEL_PATH_RDMA};

		setenv("ORIEL_RAILS", i ? rails : "2", 1);
		assert_int_equal(oriel_p2p_context_create(&attr, &e.contexts[i]), ORIEL_OK);
	}
	unsetenv("ORIEL_RAILS");
	for (unsigned i = 0; i < 6; i++) {
		struct oriel_p2p_request r[2];

		assert_int_equal(oriel_p2p_create(e.contexts[0], NULL, &pairs[i].a), ORIEL_OK);
		assert_int_equal(oriel_p2p_create(e.contexts[1], NULL, &pairs[i].b), ORIEL_OK);
		endpoints_join(&pairs[i]);
		assert_int_equal(pairs[i].a->rail, pairs[i].b->rail);
		used[pairs[i].a->rail]++;
		assert_int_equal(oriel_p2p_describe(pairs[i].a, &info), ORIEL_OK);
		assert_int_equal(info.queues, most);
		assert_int_equal(oriel_p2p_recv(pairs[i].a, 0, &to, &r[0]), ORIEL_OK);
		assert_int_equal(oriel_p2p_send(pairs[i].b, 0, &from, &r[1]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&pairs[i], &r[0]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&pairs[i], &r[1]), ORIEL_OK);
		assert_memory_equal(got, sent, LONG_BYTES);
		memset(got, 0, LONG_BYTES);
		assert_int_equal(oriel_p2p_recv_control(pairs[i].a, 0, &word, 1, &r[0]), ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(pairs[i].b, 0, "x", 1, &r[1]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&pairs[i], &r[0]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&pairs[i], &r[1]), ORIEL_OK);
	}
	for (unsigned rail = 0; rail < ORIEL_DEV_RAILS; rail++)
		assert_int_equal(used[rail], rail < most ? 6 / most : 0);
	for (unsigned i = 0; i < 6; i++) {
		oriel_p2p_destroy(pairs[i].a);
		oriel_p2p_destroy(pairs[i].b);
	}
	endpoints_close_contexts(&e);
	free(sent);
	free(got);
}

static void test_endpoints_take_the_rails_in_turn(void **state)
{
	struct p2p_address a = {.rails = 4}, b = {.rails = 4};

	(void)state;
	endpoints_take_rails_in_turn("2", 2);
	endpoints_take_rails_in_turn("1", 1);
	/* Those that ranks 1 and 2 of a communicator keep for each other. */
	for (unsigned mode = 0; mode < P2P_MODES; mode++) {
		a.token.number = p2p_cached_number(2, (enum oriel_p2p_mode)mode);
		b.token.number = p2p_cached_number(1, (enum oriel_p2p_mode)mode);
		assert_int_equal(ori_p2p_address_rail(&a, &b), (3 + mode) % 4);
		assert_int_equal(ori_p2p_address_rail(&b, &a), (3 + mode) % 4);
	}
	/* The caller, whose token is less, counts, and the fewer rails. */
	b.token.context[0] = 1;
	a.rails = 3;
	for (unsigned i = 0; i < 9; i++) {
		a.token.number = P2P_UNCACHED + i;
		b.token.number = P2P_UNCACHED;
		assert_int_equal(ori_p2p_address_rail(&a, &b), a.token.number % 3);
		assert_int_equal(ori_p2p_address_rail(&b, &a), a.token.number % 3);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_endpoints_report_attributes_that_differ),
		cmocka_unit_test(test_destroyed_endpoints_are_noticed),
		cmocka_unit_test(test_endpoints_may_be_destroyed_after_any_step),
		cmocka_unit_test(test_a_missing_peer_is_a_timeout),
		cmocka_unit_test(test_invalid_arguments_are_rejected),
		cmocka_unit_test(test_memory_of_a_request_stays_registered),
		cmocka_unit_test(test_threads_exchange_requests),
		cmocka_unit_test(test_slots_bound_the_number_of_endpoints),
		cmocka_unit_test(test_transfers_may_hold_all_slots),
		cmocka_unit_test(test_endpoints_take_the_rails_in_turn),
	};

	endpoints_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
