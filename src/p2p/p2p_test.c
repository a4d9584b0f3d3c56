/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers over every path, in every mode. */
#include "p2p/pair_of_ends_test.h"

#define STREAMS 8u

static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 8 * CHUNK, LONG};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* A transfer of each size in both directions, received before it is sent or after. */
static void both_ways(struct ends *e, unsigned channel, struct oriel_p2p_memory *memory[2],
		      char *data[2])
{
	for (unsigned i = 0; i < SIZES; i++) {
		struct oriel_p2p_request r[4];
		struct oriel_p2p_buffer out[2], in[2];

		for (unsigned k = 0; k < 2; k++) {
			ends_fill(data[k], LONG, i + k + channel);
			memset(data[k] + LONG, 0x77, LONG + 1);
			out[k] = buffer(data[k], sizes[i], memory[k]);
			in[k] = buffer(data[k] + LONG, sizes[i], memory[k]);
		}
		if (i % 2)
			assert_int_equal(oriel_p2p_send(e->a, channel, &out[0], &r[0]), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv(e->b, channel, &in[1], &r[1]), ORIEL_OK);
		if (i % 2 == 0)
			assert_int_equal(oriel_p2p_send(e->a, channel, &out[0], &r[0]), ORIEL_OK);
		assert_int_equal(oriel_p2p_send(e->b, channel, &out[1], &r[2]), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv(e->a, channel, &in[0], &r[3]), ORIEL_OK);
		for (unsigned k = 0; k < 4; k++)
			assert_int_equal(ends_wait(e, &r[k]), ORIEL_OK);
		assert_memory_equal(data[1] + LONG, data[0], sizes[i]);
		assert_memory_equal(data[0] + LONG, data[1], sizes[i]);
		assert_int_equal(data[0][LONG + sizes[i]], 0x77);
		assert_int_equal(data[1][LONG + sizes[i]], 0x77);
	}
}

static void transfers_arrive(enum ends_way way, enum oriel_p2p_mode mode, unsigned channels,
			     bool is_registered)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = channels};
	struct oriel_p2p_memory *memory[2] = {0};
	char *data[2];
	struct ends e;

	ends_open(&e, way, &small, &attr);
	for (unsigned k = 0; k < 2; k++) {
		data[k] = malloc(2 * LONG + 1);
		assert_non_null(data[k]);
		if (is_registered)
			assert_int_equal(oriel_p2p_register(e.hubs[way == ENDS_SELF ? 0 : k],
							    data[k], 2 * LONG + 1, 0, &memory[k]),
					 ORIEL_OK);
	}
	/* An end that is its own peer receives what it sends first. */
	for (unsigned channel = 0; channel < channels; channel++)
		both_ways(&e, channel, memory, data);
	for (unsigned k = 0; k < 2; k++) {
		oriel_p2p_unregister(memory[k]);
		free(data[k]);
	}
	ends_close(&e);
}

static void test_transfers_of_any_size_arrive(void **state)
{
	(void)state;
	for (unsigned i = ways_first; i < WAYS; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned channels = 1; channels <= 8; channels *= 2)
				for (unsigned registered = 0; registered < 2; registered++)
					transfers_arrive(ways[i], modes[k], channels, registered);
}

/* Transfers on all channels at once, more than there are slots, in both directions. */
static void channels_do_not_mix(enum ends_way way, enum oriel_p2p_mode mode, unsigned channels)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = channels,
					    .depth = 2};
	static struct oriel_p2p_request out[2][STREAMS][4], in[2][STREAMS][4];
	static char from[2][STREAMS][4][LONG], to[2][STREAMS][4][LONG];
	struct oriel_p2p *end[2];
	struct ends e;

	ends_open(&e, way, &small, &attr);
	end[0] = e.a;
	end[1] = e.b;
	for (unsigned n = 0; n < 4; n++) {
		for (unsigned c = 0; c < channels; c++) {
			for (unsigned k = 0; k < 2; k++) {
				size_t length = LONG - c * 100 - n;
				struct oriel_p2p_buffer f = buffer(from[k][c][n], length, NULL);
				struct oriel_p2p_buffer t = buffer(to[k][c][n], length, NULL);

				/* Its own peer: the second stream of a channel is k = 1. */
				ends_fill(from[k][c][n], length, c * 8 + n * 2 + k);
				memset(to[k][c][n], 0, length);
				assert_int_equal(oriel_p2p_send(end[k], c, &f, &out[k][c][n]),
						 ORIEL_OK);
				assert_int_equal(oriel_p2p_recv(end[e.a == e.b ? k : !k], c, &t,
								&in[k][c][n]),
						 ORIEL_OK);
			}
		}
	}
	for (unsigned n = 0; n < 4; n++)
		for (unsigned c = 0; c < channels; c++)
			for (unsigned k = 0; k < 2; k++) {
				assert_int_equal(ends_wait(&e, &out[k][c][n]), ORIEL_OK);
				assert_int_equal(ends_wait(&e, &in[k][c][n]), ORIEL_OK);
				assert_memory_equal(to[k][c][n], from[k][c][n], LONG - c * 100 - n);
			}
	ends_close(&e);
}

static void test_channels_do_not_mix(void **state)
{
	(void)state;
	for (unsigned i = ways_first; i < WAYS; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned channels = 1; channels <= STREAMS; channels *= 2)
				channels_do_not_mix(ways[i], modes[k], channels);
}

/*
 * What is long goes over several queues, which all channels share, in pieces; what
 * tells of it goes by the first of them. The last bytes of a piece are there when it
 * is told of, and words that are put meanwhile keep their meaning.
 */
static void queues_are_shared(enum ends_way way, enum oriel_p2p_mode mode, unsigned channels,
			      unsigned queues)
{
	enum { LENGTH = (5 << 18) + 12345, BESIDE = 70000, TRANSFERS = 4 };
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = channels,
					    .queues = queues};
	static char from[STREAMS][LENGTH], to[STREAMS][LENGTH];
	static struct oriel_p2p_request out[TRANSFERS][STREAMS], in[TRANSFERS][STREAMS];
	static struct oriel_p2p_request said[TRANSFERS * 20], heard[TRANSFERS * 20];
	struct oriel_p2p_memory *memory[2];
	struct oriel_p2p_info info;
	struct ends e;
	char word[8];

	ends_open(&e, way, NULL, &attr);
	assert_int_equal(oriel_p2p_describe(e.a, &info), ORIEL_OK);
	assert_int_equal(info.queues, queues);
	assert_int_equal(oriel_p2p_register(e.hubs[0], from, sizeof(from), 0, &memory[0]),
			 ORIEL_OK);
	assert_int_equal(oriel_p2p_register(e.hubs[1], to, sizeof(to), 0, &memory[1]), ORIEL_OK);
	for (unsigned n = 0; n < TRANSFERS; n++) {
		/* Short ones are not cut, and so overtake long ones where they may. */
		size_t length = n % 2 ? BESIDE : LENGTH;

		for (unsigned c = 0; c < channels; c++) {
			struct oriel_p2p_buffer f = buffer(from[c], length, memory[0]),
						t = buffer(to[c], length, memory[1]);

			ends_fill(from[c], length, n * STREAMS + c);
			memset(to[c], 0, length);
			assert_int_equal(oriel_p2p_recv(e.b, c, &t, &in[n][c]), ORIEL_OK);
			assert_int_equal(oriel_p2p_send(e.a, c, &f, &out[n][c]), ORIEL_OK);
		}
		for (unsigned i = 0; i < 20; i++) {
			assert_int_equal(oriel_p2p_recv_control(e.b, 3, word, sizeof(word),
								&heard[n * 20 + i]),
					 ORIEL_OK);
			assert_int_equal(oriel_p2p_send_control(e.a, 3, "by the by", 8,
								&said[n * 20 + i]),
					 ORIEL_OK);
		}
		for (unsigned c = 0; c < channels; c++) {
			assert_int_equal(ends_wait(&e, &in[n][c]), ORIEL_OK);
			assert_memory_equal(to[c], from[c], length);
			assert_int_equal(ends_wait(&e, &out[n][c]), ORIEL_OK);
		}
		for (unsigned i = 0; i < 20; i++)
			assert_int_equal(ends_wait(&e, &heard[n * 20 + i]), ORIEL_OK);
	}
	assert_int_equal(oriel_p2p_drain(e.a, 0), ORIEL_OK);
	for (unsigned k = 0; k < 2; k++)
		oriel_p2p_unregister(memory[k]);
	ends_close(&e);
}

static void test_queues_are_shared_by_channels(void **state)
{
	(void)state;
	for (unsigned k = 0; k < MODES; k++)
		for (unsigned queues = 2; queues <= 8; queues *= 4)
			for (unsigned channels = 1; channels <= STREAMS; channels *= 8)
				queues_are_shared(k % 2 ? ENDS_FAR : ENDS_RDMA, modes[k], channels,
						  queues);
}

/* No transfer of channel 0 is received before all those of the others are. */
static void channels_do_not_wait(enum ends_way way, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = STREAMS};
	static struct oriel_p2p_request out[STREAMS], in[STREAMS];
	static char from[STREAMS][LONG], to[STREAMS][LONG];
	struct ends e;

	ends_open(&e, way, &small, &attr);
	for (unsigned c = 0; c < STREAMS; c++) {
		struct oriel_p2p_buffer f = buffer(from[c], LONG, NULL);

		ends_fill(from[c], LONG, c);
		/* Received, but never sent so far: it must not keep what others need. */
		if (c % 2)
			f = buffer(to[c - 1], LONG, NULL);
		if (c % 2)
			assert_int_equal(oriel_p2p_recv(e.b, c - 1, &f, &in[c - 1]), ORIEL_OK);
		f = buffer(from[c], LONG, NULL);
		if (c % 2)
			assert_int_equal(oriel_p2p_send(e.a, c, &f, &out[c]), ORIEL_OK);
	}
	for (unsigned c = STREAMS - 1; c < STREAMS; c -= 2) {
		struct oriel_p2p_buffer t = buffer(to[c], LONG, NULL);

		assert_int_equal(oriel_p2p_recv(e.b, c, &t, &in[c]), ORIEL_OK);
		assert_int_equal(ends_wait(&e, &in[c]), ORIEL_OK);
		assert_int_equal(ends_wait(&e, &out[c]), ORIEL_OK);
		assert_memory_equal(to[c], from[c], LONG);
		assert_int_equal(in[c - 1].status, ORIEL_AGAIN);
	}
	for (unsigned c = 0; c < STREAMS; c += 2) {
		struct oriel_p2p_buffer f = buffer(from[c], LONG, NULL);

		assert_int_equal(oriel_p2p_send(e.a, c, &f, &out[c]), ORIEL_OK);
		assert_int_equal(ends_wait(&e, &in[c]), ORIEL_OK);
		assert_memory_equal(to[c], from[c], LONG);
		assert_int_equal(ends_wait(&e, &out[c]), ORIEL_OK);
	}
	ends_close(&e);
}

static void test_channels_do_not_wait_for_each_other(void **state)
{
	(void)state;
	for (unsigned i = ways_first; i < WAYS; i++)
		for (unsigned k = 0; k < MODES; k++)
			channels_do_not_wait(ways[i], modes[k]);
}

/* Memory that is being registered is staged, and is not any more when that is done. */
static void test_auto_goes_straight_once_both_are_registered(void **state)
{
	static char from[LONG], to[LONG];

	(void)state;
	for (unsigned i = ways_first; i < WAYS; i++) {
		const struct oriel_p2p_attr attr = {.size = sizeof(attr)};
		uint64_t deadline = ori_deadline(ENDS_PATIENCE_NS);
		struct oriel_p2p_memory *here, *there;
		struct ends e;

		ends_open(&e, ways[i], &small, &attr);
		assert_int_equal(oriel_p2p_register(e.hubs[0], from, LONG, ORIEL_P2P_BACKGROUND,
						    &here),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_register(e.hubs[!!e.hubs[1]], to, LONG,
						    ORIEL_P2P_BACKGROUND, &there),
				 ORIEL_OK);
		for (unsigned n = 0; n < 20; n++) {
			struct oriel_p2p_buffer f = buffer(from, LONG, here),
						t = buffer(to, LONG, there);
			struct oriel_p2p_request out, in;

			ends_fill(from, LONG, n);
			assert_int_equal(oriel_p2p_send(e.a, 0, &f, &out), ORIEL_OK);
			assert_int_equal(oriel_p2p_recv(e.b, 0, &t, &in), ORIEL_OK);
			assert_int_equal(ends_wait(&e, &in), ORIEL_OK);
			assert_memory_equal(to, from, LONG);
			assert_int_equal(ends_wait(&e, &out), ORIEL_OK);
		}
		while (oriel_p2p_memory_check(here) == ORIEL_AGAIN ||
		       oriel_p2p_memory_check(there) == ORIEL_AGAIN)
			assert_false(ori_deadline_passed(deadline));
		assert_int_equal(oriel_p2p_memory_check(here), ORIEL_OK);
		assert_int_equal(oriel_p2p_memory_check(there), ORIEL_OK);
		oriel_p2p_unregister(here);
		oriel_p2p_unregister(there);
		ends_close(&e);
	}
}

static void test_lengths_that_differ_break_both_ends(void **state)
{
	static char data[LONG];

	(void)state;
	for (unsigned i = peers_first; i < WAYS; i++) {
		for (unsigned k = 0; k < MODES; k++) {
			const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = modes[k]};
			struct oriel_p2p_buffer f = buffer(data, LONG, NULL),
						t = buffer(data, LONG - 1, NULL);
			struct oriel_p2p_request out, in;
			struct ends e;

			ends_open(&e, ways[i], &small, &attr);
			(void)oriel_p2p_send(e.a, 0, &f, &out);
			(void)oriel_p2p_recv(e.b, 0, &t, &in);
			assert_int_equal(ends_wait(&e, &out), ORIEL_ERR_MISMATCH);
			assert_int_equal(ends_wait(&e, &in), ORIEL_ERR_MISMATCH);
			assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_MISMATCH);
			assert_non_null(strstr(oriel_last_error(), "channel 0"));
			assert_int_equal(oriel_p2p_check(e.b), ORIEL_ERR_MISMATCH);
			ends_close(&e);
		}
	}
}

/* Hubs that may use any, on one machine. */
static void test_an_end_keeps_to_its_paths(void **state)
{
	static const unsigned masks[] = {0, 1u << ORIEL_PATH_RDMA,
					 1u << ORIEL_PATH_RDMA | 1u << ORIEL_PATH_MAPPED};
	static const enum oriel_path expected[] = {ORIEL_PATH_MAPPED, ORIEL_PATH_RDMA,
						   ORIEL_PATH_MAPPED};
	struct oriel_p2p_attr attr = {.size = sizeof(attr)};
	struct oriel_p2p_info info;
	struct ends e = {0};

	(void)state;
	for (unsigned i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		attr.paths = masks[i];
		for (unsigned k = 0; k < 2; k++)
			assert_int_equal(oriel_p2p_hub_create(NULL, &e.hubs[k]), ORIEL_OK);
		assert_int_equal(oriel_p2p_create(e.hubs[0], &attr, &e.a), ORIEL_OK);
		assert_int_equal(oriel_p2p_create(e.hubs[1], NULL, &e.b), ORIEL_OK);
		ends_join(&e);
		assert_int_equal(oriel_p2p_describe(e.b, &info), ORIEL_OK);
		assert_int_equal(info.path, expected[i]);
		ends_close(&e);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transfers_of_any_size_arrive),
		cmocka_unit_test(test_channels_do_not_mix),
		cmocka_unit_test(test_queues_are_shared_by_channels),
		cmocka_unit_test(test_channels_do_not_wait_for_each_other),
		cmocka_unit_test(test_auto_goes_straight_once_both_are_registered),
		cmocka_unit_test(test_lengths_that_differ_break_both_ends),
		cmocka_unit_test(test_an_end_keeps_to_its_paths),
	};

	ends_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
