/* SPDX-License-Identifier: Apache-2.0 */
/* Puts into exported memory. */
#include "p2p/pair_of_endpoints_test.h"

static void puts_complete_expects(enum endpoints_route route, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .depth = 2};
	struct oriel_p2p_memory *local_memory, *remote_memory;
	struct oriel_p2p_request put[6], expect[6];
	static char from[LONG], to[3 * LONG];
	char bytes[ORIEL_P2P_EXPORT];
	struct oriel_p2p_buffer all;
	struct oriel_p2p_remote remote;
	struct endpoints e;

	endpoints_open(&e, route, &small, &attr);
	assert_int_equal(oriel_p2p_register(e.contexts[0], from, LONG, 0, &local_memory), ORIEL_OK);
	assert_int_equal(oriel_p2p_register(e.contexts[!!e.contexts[1]], to, sizeof(to), 0,
					    &remote_memory),
			 ORIEL_OK);
	all = buffer(to + 5, sizeof(to) - 5, remote_memory);
	assert_int_equal(oriel_p2p_export(e.b, &all, bytes), ORIEL_OK);
	assert_int_equal(oriel_p2p_import(e.a, bytes, sizeof(bytes), &remote), ORIEL_OK);
	endpoints_fill(from, LONG, route);
	for (unsigned i = 0; i < 6; i++) {
		struct oriel_p2p_buffer f = buffer(from + i, LONG - i, i % 2 ? local_memory : NULL);
		uint64_t at = i * 100;

		memset(to, 0, sizeof(to));
		if (i % 2)
			assert_int_equal(oriel_p2p_expect(e.b, 0, &expect[i]), ORIEL_OK);
		assert_int_equal(oriel_p2p_put(e.a, 0, &f, &remote, at, &put[i]), ORIEL_OK);
		endpoints_turn(&e);
		if (i % 2 == 0) {
			assert_int_equal(to[5 + at], 0);
			assert_int_equal(oriel_p2p_expect(e.b, 0, &expect[i]), ORIEL_OK);
		}
		assert_int_equal(endpoints_wait(&e, &expect[i]), ORIEL_OK);
		assert_memory_equal(to + 5 + at, from + i, LONG - i);
		assert_int_equal(to[5 + at + LONG - i], 0);
		assert_int_equal(endpoints_wait(&e, &put[i]), ORIEL_OK);
	}
	all = buffer(from, LONG, local_memory);
	assert_int_equal(oriel_p2p_put(e.a, 0, &all, &remote, remote.length - LONG + 1, &put[0]),
			 ORIEL_ERR_RANGE);
	all.length = 0;
	assert_int_equal(oriel_p2p_put(e.a, 0, &all, &remote, 0, &put[0]), ORIEL_ERR_INVALID);
	bytes[3]++;
	assert_int_equal(oriel_p2p_import(e.a, bytes, sizeof(bytes), &remote), ORIEL_ERR_PROTOCOL);
	endpoints_turn(&e);
	oriel_p2p_unregister(local_memory);
	oriel_p2p_unregister(remote_memory);
	endpoints_close(&e);
}

static void test_puts_complete_expects(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++)
		for (unsigned k = 0; k < 2; k++)
			puts_complete_expects(routes[i], modes[k]);
}

struct writer {
	struct oriel_p2p *p2p;
	struct oriel_p2p_remote remote;
	char data[256 << 10];
};

/* Put until the peer expects no more. */
static void *thread_put(void *argument)
{
	struct writer *w = argument;
	struct oriel_p2p_buffer b = buffer(w->data, sizeof(w->data), NULL);
	struct oriel_p2p_request r;

	while (oriel_p2p_put(w->p2p, 0, &b, &w->remote, 0, &r) == ORIEL_OK &&
	       oriel_p2p_wait(w->p2p, &r, ENDPOINTS_PATIENCE_NS) == ORIEL_OK)
		;
	return NULL;
}

/* The peer is a thread that may be in a copy: nothing is written after destroy() returns. */
static void nothing_is_written_after_destroy(enum endpoints_route route)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = ORIEL_P2P_ZERO_COPY};
	static struct writer writer;
	struct oriel_p2p_request expected[50];
	struct oriel_p2p_memory *memory;
	char bytes[ORIEL_P2P_EXPORT];
	struct oriel_p2p_buffer b;
	pthread_t thread;
	struct endpoints e;
	char *data;

	endpoints_open(&e, route, &small, &attr);
	data = malloc(sizeof(writer.data));
	assert_non_null(data);
	assert_int_equal(oriel_p2p_register(e.contexts[0], data, sizeof(writer.data), 0, &memory),
			 ORIEL_OK);
	b = buffer(data, sizeof(writer.data), memory);
	assert_int_equal(oriel_p2p_export(e.a, &b, bytes), ORIEL_OK);
	assert_int_equal(oriel_p2p_import(e.b, bytes, sizeof(bytes), &writer.remote), ORIEL_OK);
	writer.p2p = e.b;
	memset(writer.data, 1, sizeof(writer.data));
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(oriel_p2p_expect(e.a, 0, &expected[i]), ORIEL_OK);
	assert_int_equal(pthread_create(&thread, NULL, thread_put, &writer), 0);
	assert_int_equal(oriel_p2p_wait(e.a, &expected[3], ENDPOINTS_PATIENCE_NS), ORIEL_OK);
	oriel_p2p_destroy(e.a);
	memset(data, 2, sizeof(writer.data));
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (size_t i = 0; i < sizeof(writer.data); i++)
		assert_int_equal(data[i], 2);
	oriel_p2p_unregister(memory);
	free(data);
	e.a = e.b;
	endpoints_close(&e);
}

static void test_a_peer_writes_nothing_after_destroy(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		nothing_is_written_after_destroy(routes[peers_first + i % (ROUTES - peers_first)]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_puts_complete_expects),
		cmocka_unit_test(test_a_peer_writes_nothing_after_destroy),
	};

	endpoints_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
