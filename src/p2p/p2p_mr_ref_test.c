/* SPDX-License-Identifier: Apache-2.0 */
/* Zero-copy transfers from and to memory that the user has not registered. */
#include "mem/cache.h"
#include "p2p/p2p_context.h"
#include "p2p/pair_of_endpoints_test.h"

#define LENGTH (1u << 20)
#define CHANNELS 4u

static const struct oriel_p2p_attr zero_copy = {.size = sizeof(zero_copy),
						.mode = ORIEL_P2P_ZERO_COPY,
						.channels = CHANNELS};

static unsigned refs_of(const struct oriel_p2p_context *ctx)
{
	return ori_cache_count(ctx->mr_refs);
}

/* Many transfers of one buffer, and of parts of it: one registration serves all of them. */
static void test_one_registration_serves_many_transfers(void **state)
{
	static char from[LENGTH] __attribute__((aligned(4096)));
	static char to[LENGTH] __attribute__((aligned(4096)));

	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++) {
		struct oriel_p2p_request out[CHANNELS], in[CHANNELS];
		struct endpoints e;

		endpoints_open(&e, routes[i], NULL, &zero_copy);
		endpoints_fill(from, LENGTH, i);
		memset(to, 0, sizeof(to));
		for (unsigned c = 0; c < CHANNELS; c++) {
			/* The first receive covers all of it. */
			struct oriel_p2p_buffer t = buffer(to + c, LENGTH - 2 * c, NULL);

			assert_int_equal(oriel_p2p_recv(e.b, c, &t, &in[c]), ORIEL_OK);
		}
		assert_int_equal(refs_of(e.contexts[1]), 1);
		for (unsigned c = 0; c < CHANNELS; c++) {
			struct oriel_p2p_buffer f = buffer(from + c, LENGTH - 2 * c, NULL);

			assert_int_equal(oriel_p2p_send(e.a, c, &f, &out[c]), ORIEL_OK);
			assert_true(refs_of(e.contexts[0]) <= 1);
		}
		for (unsigned c = 0; c < CHANNELS; c++) {
			assert_int_equal(endpoints_wait(&e, &in[c]), ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &out[c]), ORIEL_OK);
		}
		assert_memory_equal(to, from, LENGTH);
		assert_int_equal(refs_of(e.contexts[0]), 0);
		assert_int_equal(refs_of(e.contexts[1]), 0);
		endpoints_close(&e);
	}
}

/*
 * The same with memory that another process could map, to its last byte, and with memory
 * that it could not.
 */
static void test_pieces_are_registered_to_their_last_byte(void **state)
{
	enum { ODD = 3 * 4096 + 100 };

	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++) {
		void *from, *to;
		struct oriel_p2p_buffer f, t;
		struct oriel_p2p_request out, in;
		struct endpoints e;

		assert_int_equal(oriel_memory_alloc(ODD, 0, &from), ORIEL_OK);
		assert_int_equal(oriel_memory_alloc(ODD, 0, &to), ORIEL_OK);
		endpoints_open(&e, routes[i], NULL, &zero_copy);
		for (unsigned begin = 0; begin < ODD; begin += 4097) {
			endpoints_fill(from, ODD, begin);
			f = buffer((char *)from + begin, ODD - begin, NULL);
			t = buffer((char *)to + begin, ODD - begin, NULL);
			assert_int_equal(oriel_p2p_recv(e.b, 1, &t, &in), ORIEL_OK);
			assert_int_equal(oriel_p2p_send(e.a, 1, &f, &out), ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &in), ORIEL_OK);
			assert_int_equal(endpoints_wait(&e, &out), ORIEL_OK);
			assert_memory_equal(t.address, f.address, ODD - begin);
		}
		endpoints_close(&e);
		oriel_memory_free(from);
		oriel_memory_free(to);
	}
}

/* Endpoints that are destroyed drop the references of their requests. */
static void test_destroyed_endpoints_drop_their_references(void **state)
{
	static char data[2][LENGTH];

	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++) {
		struct oriel_p2p_buffer b = buffer(data[0], LENGTH, NULL);
		struct oriel_p2p_request r[2];
		struct endpoints e;

		endpoints_open(&e, routes[i], NULL, &zero_copy);
		assert_int_equal(oriel_p2p_recv(e.a, 0, &b, &r[0]), ORIEL_OK);
		b.address = data[1];
		assert_int_equal(oriel_p2p_recv(e.a, 1, &b, &r[1]), ORIEL_OK);
		assert_int_equal(refs_of(e.contexts[0]), 2);
		oriel_p2p_destroy(e.a);
		assert_int_equal(r[0].status, ORIEL_ERR_ABORTED);
		assert_int_equal(refs_of(e.contexts[0]), 0);
		e.a = e.b;
		endpoints_close(&e);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_registration_serves_many_transfers),
		cmocka_unit_test(test_pieces_are_registered_to_their_last_byte),
		cmocka_unit_test(test_destroyed_endpoints_drop_their_references),
	};

	endpoints_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
