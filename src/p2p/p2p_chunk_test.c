/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks by slot and round, beside whole transfers, over every path. */
#include "p2p/pair_of_endpoints_test.h"

#define SLOTS 6u
#define ROUNDS 5u
#define CHUNKS (SLOTS * ROUNDS)

static const struct oriel_p2p_attr two = {.size = sizeof(two), .channels = 2, .chunk_slots = SLOTS};

static uint64_t chunk_random(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *seed >> 33;
}

static size_t chunk_length(unsigned chunk)
{
	const size_t lengths[] = {CHUNK, 1, 0, 100, CHUNK - 1, 513};

	return lengths[(chunk + chunk / SLOTS) % 6];
}

struct stream {
	char from[CHUNKS][CHUNK], to[CHUNKS][CHUNK];
	struct oriel_p2p_request out[SLOTS], in[SLOTS];
	unsigned sent[SLOTS], received[SLOTS]; /* rounds begun */
};

static void stream_start(struct stream *s, unsigned seed)
{
	memset(s, 0, sizeof(*s));
	for (unsigned i = 0; i < CHUNKS; i++)
		endpoints_fill(s->from[i], CHUNK, seed + i);
}

/* Begin the next round of a slot that a seed chooses, if the last one is done. */
static void stream_step(struct stream *s, struct oriel_p2p *p2p, unsigned channel, bool is_out,
			uint64_t *seed)
{
	unsigned slot = (unsigned)(chunk_random(seed) % SLOTS);
	unsigned *round = is_out ? &s->sent[slot] : &s->received[slot];
	unsigned chunk = *round * SLOTS + slot;
	struct oriel_p2p_buffer b;
	enum oriel_status status;

	if (*round == ROUNDS)
		return;
	b = buffer(is_out ? s->from[chunk] : s->to[chunk], chunk_length(chunk), NULL);
	status = is_out ? oriel_p2p_send_chunk(p2p, channel, slot, *round, &b, &s->out[slot])
			: oriel_p2p_recv_chunk(p2p, channel, slot, *round, &b, &s->in[slot]);
	assert_true(status == ORIEL_OK || status == ORIEL_AGAIN);
	*round += status == ORIEL_OK;
}

static bool stream_is_begun(const struct stream *s)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (s->sent[i] < ROUNDS || s->received[i] < ROUNDS)
			return false;
	return true;
}

static void stream_end(struct endpoints *e, struct stream *s)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		assert_int_equal(endpoints_wait(e, &s->out[i]), ORIEL_OK);
		assert_int_equal(endpoints_wait(e, &s->in[i]), ORIEL_OK);
	}
	for (unsigned i = 0; i < CHUNKS; i++) {
		static const char none[CHUNK];

		assert_memory_equal(s->to[i], s->from[i], chunk_length(i));
		assert_memory_equal(s->to[i] + chunk_length(i), none, CHUNK - chunk_length(i));
	}
}

/* Two streams, on two channels and in two directions, in orders of their own, and a transfer. */
static void chunks_arrive(enum endpoints_route route, enum oriel_p2p_mode mode, uint64_t seed)
{
	static struct stream streams[2];
	static char from[LONG], to[LONG];
	struct oriel_p2p_buffer f = buffer(from, LONG, NULL), t = buffer(to, LONG, NULL);
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
	struct oriel_p2p_attr attr = two;
	struct oriel_p2p_request out, in;
	struct oriel_p2p_info info = {.size = sizeof(info)};
	struct endpoints e;

	attr.mode = mode;
	endpoints_open(&e, route, &small, &attr);
	assert_int_equal(oriel_p2p_describe(e.a, &info), ORIEL_OK);
	assert_int_equal(info.channels, 2);
	assert_int_equal(info.chunk_slots, SLOTS);
	for (unsigned k = 0; k < 2; k++)
		stream_start(&streams[k], k * 100);
	endpoints_fill(from, LONG, 7);
	memset(to, 0, LONG);
	assert_int_equal(oriel_p2p_send(e.a, 0, &f, &out), ORIEL_OK);
	while (!stream_is_begun(&streams[0]) || !stream_is_begun(&streams[1])) {
		assert_false(ori_deadline_passed(deadline));
		stream_step(&streams[0], e.a, 0, true, &seed);
		stream_step(&streams[0], e.b, 0, false, &seed);
		stream_step(&streams[1], e.b, 1, true, &seed);
		stream_step(&streams[1], e.a, 1, false, &seed);
		if (chunk_random(&seed) % 3 == 0)
			endpoints_turn(&e);
	}
	stream_end(&e, &streams[0]);
	stream_end(&e, &streams[1]);
	/* The whole transfer of channel 0 waited for no chunk, and none for it. */
	assert_int_equal(oriel_p2p_recv(e.b, 0, &t, &in), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &in), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &out), ORIEL_OK);
	assert_memory_equal(to, from, LONG);
	endpoints_close(&e);
}

static void test_chunks_arrive_in_any_order(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (uint64_t seed = 1; seed <= 3; seed++)
				chunks_arrive(routes[i], modes[k], seed);
}

/* The last slot alone is received, and then the first: no slot waits for another. */
static void test_slots_do_not_wait_for_each_other(void **state)
{
	static char from[SLOTS][CHUNK], to[CHUNK];
	struct oriel_p2p_request out[SLOTS], in;

	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++) {
		struct endpoints e;

		endpoints_open(&e, routes[i], &small, &two);
		for (unsigned slot = 0; slot < SLOTS; slot++) {
			struct oriel_p2p_buffer f = buffer(from[slot], CHUNK, NULL);

			endpoints_fill(from[slot], CHUNK, slot);
			assert_int_equal(oriel_p2p_send_chunk(e.a, 1, slot, 0, &f, &out[slot]),
					 ORIEL_OK);
		}
		for (unsigned slot = SLOTS; slot-- > 0;) {
			struct oriel_p2p_buffer t = buffer(to, CHUNK, NULL);

			memset(to, 0, CHUNK);
			assert_int_equal(oriel_p2p_recv_chunk(e.b, 1, slot, 0, &t, &in), ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &in), ORIEL_OK);
			assert_memory_equal(to, from[slot], CHUNK);
			assert_int_equal(endpoints_wait(&e, &out[slot]), ORIEL_OK);
		}
		endpoints_close(&e);
	}
}

static void chunk_fails(enum oriel_status got, enum oriel_status want, const char *text)
{
	assert_int_equal(got, want);
	assert_non_null(strstr(oriel_last_error(), text));
}

static void test_calls_of_chunks_are_checked(void **state)
{
	const struct oriel_p2p_attr many = {.size = sizeof(many), .channels = 4, .chunk_slots = 16};
	static char data[2 * CHUNK];
	struct oriel_p2p_buffer b = buffer(data, CHUNK, NULL), longer;
	struct oriel_p2p_request r, in;
	struct oriel_p2p *none;
	struct endpoints e;

	(void)state;
	longer = buffer(data, CHUNK + 1, NULL);
	endpoints_create(&e, routes[peers_first], &small, &two);
	chunk_fails(oriel_p2p_send_chunk(e.a, 0, 0, 0, &b, &r), ORIEL_ERR_STATE, "not joined yet");
	chunk_fails(oriel_p2p_create(e.contexts[0], &many, &none), ORIEL_ERR_RANGE,
		    "4 channels of 16 slots");
	endpoints_join(&e);
	chunk_fails(oriel_p2p_send_chunk(e.a, 2, 0, 0, &b, &r), ORIEL_ERR_RANGE, "channel 2 of 2");
	/* Slots are no channels of whole transfers. */
	chunk_fails(oriel_p2p_send(e.a, 2, &b, &r), ORIEL_ERR_RANGE, "channel 2 of 2");
	chunk_fails(oriel_p2p_send_chunk(e.a, 0, SLOTS, 0, &b, &r), ORIEL_ERR_RANGE, "slot 6 of 6");
	chunk_fails(oriel_p2p_send_chunk(e.a, 0, 0, 0, &longer, &r), ORIEL_ERR_RANGE,
		    "a chunk of 4097 bytes, not 4096 at most");
	chunk_fails(oriel_p2p_send_chunk(e.a, 0, 3, 1, &b, &r), ORIEL_ERR_STATE,
		    "round 1 in slot 3 of channel 0: round 0 is next");
	assert_int_equal(oriel_p2p_send_chunk(e.a, 0, 3, 0, &b, &r), ORIEL_OK);
	/* A slot holds one chunk, and the peer has not asked for it. */
	assert_int_equal(oriel_p2p_send_chunk(e.a, 0, 3, 1, &b, &in), ORIEL_AGAIN);
	chunk_fails(oriel_p2p_send_chunk(e.a, 0, 3, 0, &b, &in), ORIEL_ERR_STATE,
		    "round 1 is next");
	assert_int_equal(oriel_p2p_recv_chunk(e.b, 0, 3, 0, &b, &in), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &in), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &r), ORIEL_OK);
	/* A chunk that is given up leaves its round to the next one. */
	assert_int_equal(oriel_p2p_send_chunk(e.a, 0, 3, 1, &b, &r), ORIEL_OK);
	if (oriel_p2p_cancel(e.a, &r) == ORIEL_OK)
		assert_int_equal(oriel_p2p_send_chunk(e.a, 0, 3, 1, &b, &r), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_chunk(e.b, 0, 3, 1, &b, &in), ORIEL_OK);
	assert_int_equal(endpoints_wait(&e, &in), ORIEL_OK);
	endpoints_close(&e);
}

static void test_chunks_of_two_lengths_break_both_endpoints(void **state)
{
	static char data[CHUNK];
	struct oriel_p2p_buffer f = buffer(data, CHUNK, NULL), t = buffer(data, CHUNK - 1, NULL);
	struct oriel_p2p_request out, in;

	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++) {
			uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
			struct oriel_p2p_attr attr = two;
			struct endpoints e;

			attr.mode = modes[k];
			endpoints_open(&e, routes[i], &small, &attr);
			assert_int_equal(oriel_p2p_send_chunk(e.a, 1, 4, 0, &f, &out), ORIEL_OK);
			assert_int_equal(oriel_p2p_recv_chunk(e.b, 1, 4, 0, &t, &in), ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &in), ORIEL_ERR_MISMATCH);
			chunk_fails(oriel_p2p_check(e.b), ORIEL_ERR_MISMATCH,
				    "slot 4 of channel 1");
			/* The send may have been done before, where the bytes are staged. */
			while (oriel_p2p_check(e.a) == ORIEL_OK) {
				assert_false(ori_deadline_passed(deadline));
				endpoints_turn(&e);
			}
			chunk_fails(oriel_p2p_check(e.a), ORIEL_ERR_MISMATCH,
				    "slot 4 of channel 1");
			endpoints_close(&e);
		}
}

/* As many channels of the protocol, of other slots. */
static void test_endpoints_of_two_numbers_of_slots_do_not_join(void **state)
{
	const struct oriel_p2p_attr a = {.size = sizeof(a),
					 .channels = 2,
					 .chunk_slots = 3,
					 .depth = 4};
	const struct oriel_p2p_attr b = {.size = sizeof(b),
					 .channels = 4,
					 .chunk_slots = 1,
					 .depth = 4};
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
	char address[2][ORIEL_P2P_ADDRESS];
	struct endpoints e;

	(void)state;
	endpoints_create(&e, routes[peers_first], &small, &a);
	oriel_p2p_destroy(e.b);
	assert_int_equal(oriel_p2p_create(e.contexts[1], &b, &e.b), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e.a, address[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e.b, address[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.a, address[1], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.b, address[0], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	while (oriel_p2p_check(e.a) >= 0 || oriel_p2p_check(e.b) >= 0) {
		assert_false(ori_deadline_passed(deadline));
		endpoints_turn(&e);
	}
	chunk_fails(oriel_p2p_check(e.a), ORIEL_ERR_MISMATCH, "slots");
	chunk_fails(oriel_p2p_check(e.b), ORIEL_ERR_MISMATCH, "slots");
	endpoints_close(&e);
}

/* Hooks see each chunk once, uncut, by its number. */
static enum oriel_status hook_unpack(void *context, const struct oriel_p2p_chunk *chunk)
{
	unsigned *seen = context;

	assert_int_equal(chunk->channel, 1);
	assert_int_equal(chunk->length, 65536);
	assert_int_equal(chunk->offset, 0);
	seen[chunk->index]++;
	memcpy(chunk->buffer, chunk->slot, chunk->length);
	return ORIEL_OK;
}

static void test_hooks_see_whole_chunks(void **state)
{
	static const struct oriel_p2p_hooks hooks = {.size = sizeof(hooks), .unpack = hook_unpack};
	static char from[65536], to[65536];
	struct oriel_p2p_buffer f = buffer(from, sizeof(from), NULL);
	struct oriel_p2p_buffer t = buffer(to, sizeof(to), NULL);
	struct oriel_p2p_request out, in;

	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++) {
		unsigned seen[2 * SLOTS] = {0};
		struct oriel_p2p_attr attr = two;
		struct endpoints e;

		attr.mode = ORIEL_P2P_COPY_BASED;
		attr.hooks = &hooks;
		attr.context = seen;
		endpoints_open(&e, routes[i], NULL, &attr);
		for (unsigned chunk = 0; chunk < 2 * SLOTS; chunk++) {
			assert_int_equal(oriel_p2p_send_chunk(e.a, 1, chunk % SLOTS, chunk / SLOTS,
							      &f, &out),
					 ORIEL_OK);
			assert_int_equal(oriel_p2p_recv_chunk(e.b, 1, chunk % SLOTS, chunk / SLOTS,
							      &t, &in),
					 ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &in), ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &out), ORIEL_OK);
		}
		for (unsigned chunk = 0; chunk < 2 * SLOTS; chunk++)
			assert_int_equal(seen[chunk], 1);
		endpoints_close(&e);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunks_arrive_in_any_order),
		cmocka_unit_test(test_slots_do_not_wait_for_each_other),
		cmocka_unit_test(test_calls_of_chunks_are_checked),
		cmocka_unit_test(test_chunks_of_two_lengths_break_both_endpoints),
		cmocka_unit_test(test_endpoints_of_two_numbers_of_slots_do_not_join),
		cmocka_unit_test(test_hooks_see_whole_chunks),
	};

	endpoints_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
