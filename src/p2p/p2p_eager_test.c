/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eager sends travel with their immediate, without a credit: one may arrive before its
 * receive, and keeps its order among the others of its channel.
 */
#include "p2p/p2p.h"
#include "p2p/pair_of_endpoints_test.h"

#define MANY 200u
#define WITHIN 48u /* bytes that fit the line of the immediate */
#define DEPTH 4u

static const enum endpoints_route intranode_routes[] = {ENDPOINTS_SELF, ENDPOINTS_MAPPED};
static struct oriel_p2p_request out[MANY], in[MANY];
static char from[MANY][LONG + 1], to[MANY][LONG + 1];

/* Bytes of an eager send, at most. */
static size_t eager_max(enum oriel_p2p_mode mode)
{
	return mode == ORIEL_P2P_COPY_BASED ? 4096 : 512;
}

/* Lengths in the line, in the buffer, and the limits of both. */
static size_t length_of(enum oriel_p2p_mode mode, unsigned i)
{
	switch (i % 5) {
	case 0:
		return eager_max(mode) - i % 3;
	case 1:
		return i * 13 % (eager_max(mode) - WITHIN) + WITHIN + 1;
	case 2:
		return WITHIN + i % 2;
	}
	return i * 7 % WITHIN + 1;
}

static void begin(struct oriel_p2p *p2p, unsigned i, size_t length, bool is_send)
{
	struct oriel_p2p_buffer b = buffer(is_send ? from[i] : to[i], length, NULL);

	if (is_send)
		endpoints_fill(from[i], length, i);
	else
		memset(to[i], 0x77, length + 1);
	assert_int_equal(is_send ? oriel_p2p_send(p2p, 0, &b, &out[i])
				 : oriel_p2p_recv(p2p, 0, &b, &in[i]),
			 ORIEL_OK);
}

static void arrives(struct endpoints *e, unsigned i, size_t length)
{
	assert_int_equal(endpoints_wait(e, &in[i]), ORIEL_OK);
	assert_int_equal(endpoints_wait(e, &out[i]), ORIEL_OK);
	assert_memory_equal(to[i], from[i], length);
	assert_int_equal(to[i][length], 0x77);
}

static void open_endpoints(struct endpoints *e, enum endpoints_route route,
			   enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .depth = DEPTH};

	endpoints_open(e, route, &small, &attr);
}

/*
 * An eager send is done at once, without the receiver; no more of them than the channel is
 * deep.
 */
static void test_eager_sends_leave_up_to_the_depth_of_the_channel(void **state)
{
	(void)state;
	for (unsigned w = 0; w < 2; w++) {
		for (unsigned k = 0; k < MODES; k++) {
			struct endpoints e;

			open_endpoints(&e, intranode_routes[w], modes[k]);
			for (unsigned i = 0; i < MANY; i++) {
				begin(e.a, i, length_of(modes[k], i), true);
				assert_int_equal(out[i].status, i < DEPTH ? ORIEL_OK : ORIEL_AGAIN);
			}
			for (unsigned i = 0; i < 100; i++)
				endpoints_turn(&e);
			assert_int_equal(out[DEPTH].status, ORIEL_AGAIN);
			for (unsigned i = 0; i < MANY; i++) {
				begin(e.b, i, length_of(modes[k], i), false);
				/*
				 * An eager send that has arrived completes its receive at
				 * once.
				 */
				if (i < DEPTH)
					assert_int_equal(in[i].status, ORIEL_OK);
				arrives(&e, i, length_of(modes[k], i));
			}
			endpoints_close(&e);
		}
	}
}

/* All receives first, more than the channel is deep. */
static void test_receives_may_wait_for_eager_sends(void **state)
{
	(void)state;
	for (unsigned w = 0; w < 2; w++) {
		for (unsigned k = 0; k < MODES; k++) {
			struct endpoints e;

			open_endpoints(&e, intranode_routes[w], modes[k]);
			for (unsigned i = 0; i < MANY; i++)
				begin(e.b, i, length_of(modes[k], i), false);
			for (unsigned i = 0; i < MANY; i++) {
				begin(e.a, i, length_of(modes[k], i), true);
				arrives(&e, i, length_of(modes[k], i));
			}
			endpoints_close(&e);
		}
	}
}

/* Any size beside any other, also zero; @ahead sends before the first receive. */
static void sizes_mix(enum endpoints_route route, enum oriel_p2p_mode mode, unsigned seed,
		      unsigned ahead)
{
	static const size_t sizes[] = {1,   WITHIN,    WITHIN + 1, 8, CHUNK, 512,
				       513, CHUNK + 1, CHUNK,      0, 3,     LONG};
	uint32_t random = seed * 7919 + 1;
	size_t lengths[MANY];
	struct endpoints e;

	open_endpoints(&e, route, mode);
	for (unsigned i = 0; i < MANY; i++) {
		random = random * 1664525 + 1013904223;
		lengths[i] = sizes[(random >> 16) % (seed % 2 ? 12 : 11)];
	}
	for (unsigned i = 0; i < MANY + ahead; i++) {
		if (i < MANY)
			begin(e.a, i, lengths[i], true);
		if (i >= ahead)
			begin(e.b, i - ahead, lengths[i - ahead], false);
		if (i % 3 == 0)
			endpoints_turn(&e);
	}
	for (unsigned i = 0; i < MANY; i++)
		arrives(&e, i, lengths[i]);
	assert_int_equal(oriel_p2p_drain(e.a, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
	assert_int_equal(oriel_p2p_drain(e.b, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
	endpoints_close(&e);
}

static void test_eager_and_other_sizes_mix(void **state)
{
	static const unsigned ahead[] = {0, 1, 3, 40};

	(void)state;
	for (unsigned w = 0; w < 2; w++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned seed = 0; seed < 4; seed++)
				sizes_mix(intranode_routes[w], modes[k], seed, ahead[seed]);
}

/* Either side may be shorter, eager or first: both endpoints report it. */
static void lengths_differ(enum oriel_p2p_mode mode, size_t sent, size_t received, bool is_early)
{
	static char data[2][LONG];
	struct oriel_p2p_buffer f = buffer(data[0], sent, NULL),
				t = buffer(data[1], received, NULL);
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS / 6);
	struct oriel_p2p_request r[2];
	struct endpoints e;

	open_endpoints(&e, ENDPOINTS_MAPPED, mode);
	for (unsigned i = 0; i < 2; i++) {
		if (is_early == (i == 0))
			(void)oriel_p2p_send(e.a, 0, &f, &r[0]);
		else if (received)
			(void)oriel_p2p_recv(e.b, 0, &t, &r[1]);
		else
			(void)oriel_p2p_expect(e.b, 0, &r[1]);
		for (unsigned k = 0; k < 3; k++)
			endpoints_turn(&e);
	}
	while (oriel_p2p_check(e.a) == ORIEL_OK || oriel_p2p_check(e.b) == ORIEL_OK) {
		assert_false(ori_deadline_passed(deadline));
		endpoints_turn(&e);
	}
	assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_MISMATCH);
	assert_int_equal(oriel_p2p_check(e.b), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), "channel 0"));
	assert_int_equal(r[1].status, ORIEL_ERR_MISMATCH);
	endpoints_close(&e);
}

static void test_lengths_that_differ_are_reported(void **state)
{
	static const size_t pairs[][2] = {{8, 9},     {8, LONG},    {LONG, 8},    {48, 49},
					  {49, 48},   {8, 0},       {300, 301},   {511, 513},
					  {513, 511}, {4096, 4097}, {4097, 4096}, {200, 0}};

	(void)state;
	for (unsigned k = 0; k < MODES; k++)
		for (unsigned i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
			for (unsigned is_early = 0; is_early < 2; is_early++)
				lengths_differ(modes[k], pairs[i][0], pairs[i][1], is_early);
}

/* A put, which waits until it is expected, meets a receive of few bytes. */
static void test_a_put_that_meets_a_receive_is_reported(void **state)
{
	struct oriel_p2p_memory *memory;
	struct oriel_p2p_remote remote;
	struct oriel_p2p_request r[2];
	char bytes[ORIEL_P2P_EXPORT];
	struct oriel_p2p_buffer b;
	struct endpoints e;

	(void)state;
	open_endpoints(&e, ENDPOINTS_MAPPED, ORIEL_P2P_ZERO_COPY);
	assert_int_equal(oriel_p2p_register(e.contexts[1], to[0], LONG, 0, &memory), ORIEL_OK);
	b = buffer(to[0], LONG, memory);
	assert_int_equal(oriel_p2p_export(e.b, &b, bytes), ORIEL_OK);
	assert_int_equal(oriel_p2p_import(e.a, bytes, sizeof(bytes), &remote), ORIEL_OK);
	b = buffer(from[0], 8, NULL);
	assert_int_equal(oriel_p2p_put(e.a, 0, &b, &remote, 0, &r[0]), ORIEL_OK);
	begin(e.b, 1, 8, false);
	assert_int_equal(endpoints_wait(&e, &r[0]), ORIEL_ERR_MISMATCH);
	assert_int_equal(endpoints_wait(&e, &in[1]), ORIEL_ERR_MISMATCH);
	oriel_p2p_unregister(memory);
	endpoints_close(&e);
}

/* Sends that arrived before the peer left serve receives that begin afterwards, and no more. */
static void test_eager_sends_outlive_the_peer(void **state)
{
	(void)state;
	for (unsigned is_seen = 0; is_seen < 2; is_seen++) {
		struct endpoints e;

		open_endpoints(&e, ENDPOINTS_MAPPED, ORIEL_P2P_AUTO);
		for (unsigned i = 0; i < 3; i++)
			begin(e.a, i, length_of(ORIEL_P2P_AUTO, i), true);
		assert_int_equal(oriel_p2p_drain(e.a, ENDPOINTS_PATIENCE_NS), ORIEL_OK);
		oriel_p2p_destroy(e.a);
		e.a = e.b;
		while (is_seen && oriel_p2p_check(e.b) == ORIEL_OK)
			endpoints_turn(&e);
		for (unsigned i = 0; i < 3; i++) {
			begin(e.b, i, length_of(ORIEL_P2P_AUTO, i), false);
			arrives(&e, i, length_of(ORIEL_P2P_AUTO, i));
		}
		if (is_seen) {
			struct oriel_p2p_buffer b = buffer(to[3], 8, NULL);

			assert_int_equal(oriel_p2p_recv(e.b, 0, &b, &in[3]), ORIEL_ERR_PEER);
		} else {
			begin(e.b, 3, 8, false);
			assert_int_equal(endpoints_wait(&e, &in[3]), ORIEL_ERR_PEER);
		}
		endpoints_close(&e);
	}
}

/* A cancelled receive leaves the message that has arrived to the next one. */
static void test_a_cancelled_receive_leaves_its_message(void **state)
{
	struct endpoints e;

	(void)state;
	open_endpoints(&e, ENDPOINTS_MAPPED, ORIEL_P2P_COPY_BASED);
	/* The peer knows of no receive behind the depth of the channel. */
	for (unsigned i = 0; i < DEPTH + 2; i++)
		begin(e.b, i, 8, false);
	assert_int_equal(oriel_p2p_cancel(e.b, &in[0]), ORIEL_ERR_STATE);
	assert_int_equal(oriel_p2p_cancel(e.b, &in[DEPTH]), ORIEL_OK);
	for (unsigned i = 0; i < DEPTH + 2; i++)
		if (i != DEPTH)
			begin(e.a, i, 8, true);
	for (unsigned i = 0; i < DEPTH + 2; i++)
		if (i != DEPTH)
			arrives(&e, i, 8);
	assert_int_equal(in[DEPTH].status, ORIEL_ERR_ABORTED);
	endpoints_close(&e);
}

/* The endpoint rejects @immediate with @along bytes. */
static void is_rejected(struct endpoints *e, uint32_t immediate, uint32_t length, size_t along)
{
	const struct p2p_eager what = {.length = length};
	const struct p2p_arrival arrival = {immediate, (uint32_t)along, (const char *)&what};
	uint32_t taken;

	assert_int_equal(ori_recv_eager_arrived(e->b, &arrival, &taken), ORIEL_ERR_PROTOCOL);
	assert_non_null(strstr(oriel_last_error(), "not due"));
}

/* An eager buffer holds as many bytes as both endpoints know, and not few. */
static void test_an_eager_buffer_has_limits(void **state)
{
	(void)state;
	for (unsigned k = 0; k < MODES; k++) {
		uint32_t limit = (uint32_t)eager_max(modes[k]);
		uint32_t immediate;
		struct endpoints e;

		open_endpoints(&e, ENDPOINTS_MAPPED, modes[k]);
		immediate = p2p_immediate(P2P_IMM_EAGER, 0, 0, p2p_lap(e.b, 0)) | P2P_IMM_BUFFERED;
		is_rejected(&e, immediate, limit + 1, P2P_EAGER_BUFFERED);
		is_rejected(&e, immediate, UINT32_MAX, P2P_EAGER_BUFFERED);
		is_rejected(&e, immediate, WITHIN, P2P_EAGER_BUFFERED);
		is_rejected(&e, immediate, 0, P2P_EAGER_BUFFERED);
		is_rejected(&e, immediate, limit, P2P_EAGER_BUFFERED + 1);
		is_rejected(&e, immediate, limit, 0);
		is_rejected(&e, immediate + (DEPTH << 16), limit, P2P_EAGER_BUFFERED);
		is_rejected(&e, immediate + (1u << 24), limit, P2P_EAGER_BUFFERED);
		begin(e.a, 0, limit, true);
		begin(e.b, 0, limit, false);
		arrives(&e, 0, limit);
		endpoints_close(&e);
	}
}

/* A slot holds one unit: a peer that sends the same unit once more breaks the rules. */
static void test_a_unit_arrives_once(void **state)
{
	(void)state;
	for (unsigned w = 0; w < 2; w++) {
		struct p2p_eager again = {.bytes = "other"};
		struct p2p_arrival arrival = {.length = P2P_EAGER_HEAD + 5,
					      .bytes = (const char *)&again};
		uint32_t taken;
		struct endpoints e;

		open_endpoints(&e, intranode_routes[w], ORIEL_P2P_COPY_BASED);
		arrival.immediate = p2p_immediate(P2P_IMM_EAGER, 0, 0, p2p_lap(e.b, 0));
		begin(e.a, 0, 5, true);
		endpoints_turn(&e);
		assert_int_equal(ori_recv_eager_arrived(e.b, &arrival, &taken), ORIEL_ERR_PROTOCOL);
		assert_non_null(strstr(oriel_last_error(), "not due"));
		begin(e.b, 0, 5, false);
		arrives(&e, 0, 5);
		endpoints_close(&e);
	}
}

static void *thread_echo(void *argument)
{
	struct oriel_p2p *p2p = argument;

	for (unsigned i = 0; i < 20 * MANY; i++) {
		size_t length = i % 50 == 0 ? LONG : length_of(p2p->mode, i);
		static char data[LONG];
		struct oriel_p2p_buffer b = buffer(data, length, NULL);
		struct oriel_p2p_request r[2];

		if (oriel_p2p_recv(p2p, 0, &b, &r[0]) != ORIEL_OK ||
		    oriel_p2p_wait(p2p, &r[0], ENDPOINTS_PATIENCE_NS) != ORIEL_OK ||
		    oriel_p2p_send(p2p, 0, &b, &r[1]) != ORIEL_OK ||
		    oriel_p2p_wait(p2p, &r[1], ENDPOINTS_PATIENCE_NS) != ORIEL_OK)
			break;
	}
	(void)oriel_p2p_drain(p2p, ENDPOINTS_PATIENCE_NS);
	return NULL;
}

/* Two threads send back and forth, with the receive posted before or after. */
static void test_threads_echo_eager_sends(void **state)
{
	(void)state;
	for (unsigned k = 0; k < MODES; k++) {
		pthread_t thread;
		struct endpoints e;

		open_endpoints(&e, ENDPOINTS_MAPPED, modes[k]);
		assert_int_equal(pthread_create(&thread, NULL, thread_echo, e.b), 0);
		for (unsigned i = 0; i < 20 * MANY; i++) {
			size_t length = i % 50 == 0 ? LONG : length_of(modes[k], i);
			unsigned at = i % MANY;

			begin(e.a, at, length, true);
			begin(e.a, at, length, false);
			assert_int_equal(oriel_p2p_wait(e.a, &in[at], ENDPOINTS_PATIENCE_NS),
					 ORIEL_OK);
			assert_int_equal(oriel_p2p_wait(e.a, &out[at], ENDPOINTS_PATIENCE_NS),
					 ORIEL_OK);
			assert_memory_equal(to[at], from[at], length);
		}
		assert_int_equal(pthread_join(thread, NULL), 0);
		endpoints_close(&e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eager_sends_leave_up_to_the_depth_of_the_channel),
		cmocka_unit_test(test_receives_may_wait_for_eager_sends),
		cmocka_unit_test(test_eager_and_other_sizes_mix),
		cmocka_unit_test(test_lengths_that_differ_are_reported),
		cmocka_unit_test(test_a_put_that_meets_a_receive_is_reported),
		cmocka_unit_test(test_eager_sends_outlive_the_peer),
		cmocka_unit_test(test_a_cancelled_receive_leaves_its_message),
		cmocka_unit_test(test_an_eager_buffer_has_limits),
		cmocka_unit_test(test_a_unit_arrives_once),
		cmocka_unit_test(test_threads_echo_eager_sends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
