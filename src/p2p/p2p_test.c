/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages and transfers over every path, in every mode. */
#include "p2p/pair_of_ends_test.h"

#define CHUNK 4096u
#define LONG (CHUNK * 40 + 5)
#define STREAMS 8u

static const enum oriel_path paths[] = {ORIEL_PATH_SELF, ORIEL_PATH_MAPPED, ORIEL_PATH_RDMA};
static const enum oriel_p2p_mode modes[] = {ORIEL_P2P_AUTO, ORIEL_P2P_ZERO_COPY,
					    ORIEL_P2P_COPY_BASED};
static const struct oriel_p2p_hub_attr small = {.size = sizeof(small), .chunk = CHUNK, .slots = 24};

#define PATHS (sizeof(paths) / sizeof(paths[0]))
#define MODES (sizeof(modes) / sizeof(modes[0]))

static struct oriel_p2p_buffer buffer(char *at, size_t length, struct oriel_p2p_memory *memory)
{
	struct oriel_p2p_buffer b = {at, length, memory};

	return b;
}

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

static void transfers_arrive(enum oriel_path path, enum oriel_p2p_mode mode, unsigned channels,
			     bool is_registered)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = channels};
	struct oriel_p2p_memory *memory[2] = {0};
	char *data[2];
	struct ends e;

	ends_open(&e, path, &small, &attr);
	for (unsigned k = 0; k < 2; k++) {
		data[k] = malloc(2 * LONG + 1);
		assert_non_null(data[k]);
		if (is_registered)
			assert_int_equal(oriel_p2p_register(e.hubs[path == ORIEL_PATH_SELF ? 0 : k],
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
	for (unsigned i = 0; i < PATHS; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned channels = 1; channels <= 8; channels *= 2)
				for (unsigned registered = 0; registered < 2; registered++)
					transfers_arrive(paths[i], modes[k], channels, registered);
}

/* Transfers on all channels at once, more than there are slots, in both directions. */
static void channels_do_not_mix(enum oriel_path path, enum oriel_p2p_mode mode, unsigned channels)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = channels,
					    .depth = 2};
	static struct oriel_p2p_request out[2][STREAMS][4], in[2][STREAMS][4];
	static char from[2][STREAMS][4][LONG], to[2][STREAMS][4][LONG];
	struct oriel_p2p *end[2];
	struct ends e;

	ends_open(&e, path, &small, &attr);
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
	for (unsigned i = 0; i < PATHS; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned channels = 1; channels <= STREAMS; channels *= 2)
				channels_do_not_mix(paths[i], modes[k], channels);
}

/* No transfer of channel 0 is received before all those of the others are. */
static void channels_do_not_wait(enum oriel_path path, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = STREAMS};
	static struct oriel_p2p_request out[STREAMS], in[STREAMS];
	static char from[STREAMS][LONG], to[STREAMS][LONG];
	struct ends e;

	ends_open(&e, path, &small, &attr);
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
	for (unsigned i = 0; i < PATHS; i++)
		for (unsigned k = 0; k < MODES; k++)
			channels_do_not_wait(paths[i], modes[k]);
}

static void puts_end_what_is_expected(enum oriel_path path, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .depth = 2};
	struct oriel_p2p_memory *here, *there;
	struct oriel_p2p_request put[6], expect[6];
	static char from[LONG], to[3 * LONG];
	char bytes[ORIEL_P2P_EXPORT];
	struct oriel_p2p_buffer all;
	struct oriel_p2p_remote remote;
	struct ends e;

	ends_open(&e, path, &small, &attr);
	assert_int_equal(oriel_p2p_register(e.hubs[0], from, LONG, 0, &here), ORIEL_OK);
	assert_int_equal(oriel_p2p_register(e.hubs[!!e.hubs[1]], to, sizeof(to), 0, &there),
			 ORIEL_OK);
	all = buffer(to + 5, sizeof(to) - 5, there);
	assert_int_equal(oriel_p2p_export(e.b, &all, bytes), ORIEL_OK);
	assert_int_equal(oriel_p2p_import(e.a, bytes, sizeof(bytes), &remote), ORIEL_OK);
	ends_fill(from, LONG, path);
	for (unsigned i = 0; i < 6; i++) {
		struct oriel_p2p_buffer f = buffer(from + i, LONG - i, i % 2 ? here : NULL);
		uint64_t at = i * 100;

		memset(to, 0, sizeof(to));
		if (i % 2)
			assert_int_equal(oriel_p2p_expect(e.b, 0, &expect[i]), ORIEL_OK);
		assert_int_equal(oriel_p2p_put(e.a, 0, &f, &remote, at, &put[i]), ORIEL_OK);
		ends_turn(&e);
		if (i % 2 == 0) {
			assert_int_equal(to[5 + at], 0);
			assert_int_equal(oriel_p2p_expect(e.b, 0, &expect[i]), ORIEL_OK);
		}
		assert_int_equal(ends_wait(&e, &expect[i]), ORIEL_OK);
		assert_memory_equal(to + 5 + at, from + i, LONG - i);
		assert_int_equal(to[5 + at + LONG - i], 0);
		assert_int_equal(ends_wait(&e, &put[i]), ORIEL_OK);
	}
	all = buffer(from, LONG, here);
	assert_int_equal(oriel_p2p_put(e.a, 0, &all, &remote, remote.length - LONG + 1, &put[0]),
			 ORIEL_ERR_RANGE);
	all.length = 0;
	assert_int_equal(oriel_p2p_put(e.a, 0, &all, &remote, 0, &put[0]), ORIEL_ERR_INVALID);
	bytes[3]++;
	assert_int_equal(oriel_p2p_import(e.a, bytes, sizeof(bytes), &remote), ORIEL_ERR_PROTOCOL);
	ends_turn(&e);
	oriel_p2p_unregister(here);
	oriel_p2p_unregister(there);
	ends_close(&e);
}

static void test_puts_end_what_is_expected(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PATHS; i++)
		for (unsigned k = 0; k < 2; k++)
			puts_end_what_is_expected(paths[i], modes[k]);
}

/* Memory that is being registered is staged, and is not any more when that is done. */
static void test_auto_goes_straight_once_both_are_registered(void **state)
{
	static char from[LONG], to[LONG];

	(void)state;
	for (unsigned i = 0; i < PATHS; i++) {
		const struct oriel_p2p_attr attr = {.size = sizeof(attr)};
		uint64_t deadline = ori_deadline(ENDS_PATIENCE_NS);
		struct oriel_p2p_memory *here, *there;
		struct ends e;

		ends_open(&e, paths[i], &small, &attr);
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

#define FLOOD 300u

/* Far more messages than there are cells, received backwards by pairs and late. */
static void control_messages_keep_their_order(enum oriel_path path)
{
	static struct oriel_p2p_request out[FLOOD], in[FLOOD];
	static char from[FLOOD][64], to[FLOOD][64];
	struct ends e;

	ends_open(&e, path, &small, NULL);
	for (unsigned i = 0; i < FLOOD; i++) {
		ends_fill(from[i], 64, i);
		assert_int_equal(oriel_p2p_send_control(e.a, i % 2, from[i], i % 65, &out[i]),
				 ORIEL_OK);
	}
	for (unsigned i = 0; i < 50; i++)
		ends_turn(&e);
	/* What nobody asks for is kept up to a bound, and then waits. */
	assert_int_equal(out[0].status, ORIEL_OK);
	assert_int_equal(out[FLOOD - 1].status, ORIEL_AGAIN);
	for (unsigned i = 0; i < FLOOD; i += 2) {
		assert_int_equal(oriel_p2p_recv_control(e.b, 1, to[i + 1], 64, &in[i + 1]),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_recv_control(e.b, 0, to[i], 64, &in[i]), ORIEL_OK);
	}
	for (unsigned i = 0; i < FLOOD; i++) {
		assert_int_equal(ends_wait(&e, &in[i]), ORIEL_OK);
		assert_int_equal(ends_wait(&e, &out[i]), ORIEL_OK);
		assert_int_equal(in[i].length, i % 65);
		assert_memory_equal(to[i], from[i], i % 65);
	}
	ends_close(&e);
}

static void test_control_messages_keep_their_order(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PATHS; i++)
		control_messages_keep_their_order(paths[i]);
}

/* Expected and not, of any size; a request is used again at once. */
static void control_messages_of_any_size(enum oriel_path path)
{
	static const uint32_t lengths[] = {0,    1,    2023,  2024,  2025,
					   4048, 4049, 60000, 65535, ORIEL_P2P_CONTROL};
	static char from[ORIEL_P2P_CONTROL], to[ORIEL_P2P_CONTROL + 1];
	struct oriel_p2p_request out, in;
	struct ends e;

	ends_open(&e, path, &small, NULL);
	for (unsigned i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t length = lengths[i / 2];

		ends_fill(from, length, i);
		memset(to, 0x77, sizeof(to));
		if (i % 2)
			assert_int_equal(oriel_p2p_recv_control(e.b, 9, to, length, &in), ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(e.a, 9, from, length, &out), ORIEL_OK);
		for (unsigned k = 0; k < 5; k++)
			ends_turn(&e);
		if (i % 2 == 0)
			assert_int_equal(oriel_p2p_recv_control(e.b, 9, to, length, &in), ORIEL_OK);
		assert_int_equal(ends_wait(&e, &in), ORIEL_OK);
		assert_int_equal(ends_wait(&e, &out), ORIEL_OK);
		assert_int_equal(in.length, length);
		assert_memory_equal(to, from, length);
		assert_int_equal(to[length], 0x77);
	}
	assert_int_equal(oriel_p2p_send_control(e.a, 1, from, ORIEL_P2P_CONTROL + 1, &out),
			 ORIEL_ERR_RANGE);
	ends_close(&e);
}

static void test_control_messages_of_any_size(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PATHS; i++)
		control_messages_of_any_size(paths[i]);
}

static void test_a_message_that_does_not_fit_is_a_status(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * PATHS; i++) {
		struct oriel_p2p_request out[2], in[2];
		static char from[5000], to[5000];
		bool is_expected = i >= PATHS;
		struct ends e;

		ends_open(&e, paths[i % PATHS], &small, NULL);
		memset(to, 0x77, sizeof(to));
		if (is_expected)
			assert_int_equal(oriel_p2p_recv_control(e.b, 4, to, 4999, &in[0]),
					 ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(e.a, 4, from, 5000, &out[0]), ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(e.a, 4, "next", 5, &out[1]), ORIEL_OK);
		for (unsigned k = 0; k < 20; k++)
			ends_turn(&e);
		if (!is_expected)
			assert_int_equal(oriel_p2p_recv_control(e.b, 4, to, 4999, &in[0]),
					 ORIEL_OK);
		assert_int_equal(ends_wait(&e, &in[0]), ORIEL_ERR_MISMATCH);
		assert_int_equal(oriel_p2p_test(e.b, &in[0]), ORIEL_ERR_MISMATCH);
		assert_non_null(strstr(oriel_last_error(), "5000"));
		assert_int_equal(in[0].length, 5000);
		assert_int_equal(to[0], 0x77);
		assert_int_equal(oriel_p2p_recv_control(e.b, 4, to, 4999, &in[1]), ORIEL_OK);
		assert_int_equal(ends_wait(&e, &in[1]), ORIEL_OK);
		assert_string_equal(to, "next");
		assert_int_equal(oriel_p2p_check(e.a), ORIEL_OK);
		ends_close(&e);
	}
}

static void test_lengths_that_differ_break_both_ends(void **state)
{
	static char data[LONG];

	(void)state;
	for (unsigned i = 1; i < PATHS; i++) {
		for (unsigned k = 0; k < MODES; k++) {
			const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = modes[k]};
			struct oriel_p2p_buffer f = buffer(data, LONG, NULL),
						t = buffer(data, LONG - 1, NULL);
			struct oriel_p2p_request out, in;
			struct ends e;

			ends_open(&e, paths[i], &small, &attr);
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

static void ends_that_differ(const struct oriel_p2p_attr *a, const struct oriel_p2p_attr *b,
			     enum oriel_path path, const char *text)
{
	uint64_t deadline = ori_deadline(ENDS_PATIENCE_NS);
	char address[2][ORIEL_P2P_ADDRESS];
	struct oriel_p2p_request r;
	char data[8];
	struct ends e;

	ends_create(&e, path, &small, a);
	oriel_p2p_destroy(e.b);
	assert_int_equal(oriel_p2p_create(e.hubs[1], b, &e.b), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e.a, address[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_address(e.b, address[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.a, address[1], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_connect(e.b, address[0], ORIEL_P2P_ADDRESS, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_control(e.a, 0, data, 8, &r), ORIEL_OK);
	while (oriel_p2p_check(e.a) >= 0 || oriel_p2p_check(e.b) >= 0) {
		assert_false(ori_deadline_passed(deadline));
		ends_turn(&e);
	}
	assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), text));
	assert_int_equal(oriel_p2p_check(e.b), ORIEL_ERR_MISMATCH);
	assert_non_null(strstr(oriel_last_error(), text));
	assert_int_equal(r.status, ORIEL_ERR_MISMATCH);
	ends_close(&e);
}

static void test_ends_that_differ_are_told_so_both(void **state)
{
	const struct oriel_p2p_attr zero = {.size = sizeof(zero), .mode = ORIEL_P2P_ZERO_COPY};
	const struct oriel_p2p_attr copy = {.size = sizeof(copy), .mode = ORIEL_P2P_COPY_BASED};
	const struct oriel_p2p_attr two = {.size = sizeof(two),
					   .mode = ORIEL_P2P_COPY_BASED,
					   .channels = 2};

	(void)state;
	for (unsigned i = 1; i < PATHS; i++) {
		ends_that_differ(&zero, &copy, paths[i], "zero_copy");
		ends_that_differ(&copy, &two, paths[i], "channels");
	}
}

/* The one that is left sees what had come, and then that the other has gone. */
static void destroyed_ends_are_noticed(enum oriel_path path, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = 2};
	struct oriel_p2p_request out, sent, in[4];
	static char from[LONG], to[LONG];
	struct oriel_p2p_buffer f = buffer(from, LONG, NULL), t = buffer(to, LONG, NULL);
	char word[8];
	struct ends e;

	ends_open(&e, path, &small, &attr);
	ends_fill(from, LONG, 3);
	assert_int_equal(oriel_p2p_recv(e.b, 0, &t, &in[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(e.b, 0, &t, &in[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_control(e.b, 5, word, 8, &in[2]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv_control(e.b, 6, word, 8, &in[3]), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(e.a, 0, &f, &out), ORIEL_OK);
	assert_int_equal(ends_wait(&e, &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_send_control(e.a, 5, "last", 5, &sent), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(e.a, 1, &f, &out), ORIEL_OK);
	while (sent.status == ORIEL_AGAIN)
		ends_turn(&e);
	assert_int_equal(oriel_p2p_drain(e.a, 10000000), ORIEL_ERR_TIMEOUT);
	oriel_p2p_destroy(e.a);
	assert_int_equal(out.status, ORIEL_ERR_ABORTED);
	e.a = e.b;
	assert_int_equal(ends_wait(&e, &in[3]), ORIEL_ERR_PEER);
	assert_int_equal(in[0].status, ORIEL_OK);
	assert_memory_equal(from, to, LONG);
	assert_int_equal(in[2].status, ORIEL_OK);
	assert_int_equal(in[1].status, ORIEL_ERR_PEER);
	assert_string_equal(word, "last");
	assert_int_equal(oriel_p2p_send(e.b, 0, &f, &out), ORIEL_ERR_PEER);
	assert_non_null(strstr(oriel_last_error(), "destroyed"));
	ends_close(&e);
}

static void test_destroyed_ends_are_noticed(void **state)
{
	(void)state;
	for (unsigned i = 1; i < PATHS; i++)
		for (unsigned k = 0; k < MODES; k++)
			destroyed_ends_are_noticed(paths[i], modes[k]);
}

static void test_a_peer_that_does_not_come_is_a_timeout(void **state)
{
	(void)state;
	for (unsigned i = 1; i < PATHS; i++) {
		char address[ORIEL_P2P_ADDRESS], data[8];
		struct oriel_p2p_request r;
		struct ends e;

		for (unsigned k = 0; k < 2; k++) {
			struct oriel_p2p *mine;

			ends_create(&e, paths[i], &small, NULL);
			mine = k ? e.a : e.b;
			assert_int_equal(oriel_p2p_address(k ? e.b : e.a, address), ORIEL_OK);
			assert_int_equal(oriel_p2p_connect(mine, address, sizeof(address), 1000000),
					 ORIEL_OK);
			assert_int_equal(oriel_p2p_connect(mine, address, sizeof(address), 1000000),
					 ORIEL_ERR_STATE);
			assert_int_equal(oriel_p2p_recv_control(mine, 0, data, 8, &r), ORIEL_OK);
			assert_int_equal(oriel_p2p_wait(mine, &r, 0), ORIEL_ERR_TIMEOUT);
			assert_non_null(strstr(oriel_last_error(), "has not connected"));
			assert_int_equal(r.status, ORIEL_ERR_TIMEOUT);
			ends_close(&e);
		}
	}
}

static void test_wrong_arguments_are_refused(void **state)
{
	struct oriel_p2p_hub_attr bad = {.size = sizeof(bad), .chunk = 100};
	struct oriel_p2p_attr attr = {.size = sizeof(attr), .channels = 65};
	struct oriel_p2p_request r;
	struct oriel_p2p_hub *hub;
	struct oriel_p2p_memory *memory;
	struct oriel_p2p_buffer b;
	struct oriel_p2p *p;
	char data[64];
	struct ends e;

	(void)state;
	assert_int_equal(oriel_p2p_hub_create(&bad, &hub), ORIEL_ERR_RANGE);
	bad = (struct oriel_p2p_hub_attr){.size = sizeof(bad), .slots = 8};
	assert_int_equal(oriel_p2p_hub_create(&bad, &hub), ORIEL_ERR_RANGE);
	ends_open(&e, ORIEL_PATH_MAPPED, &small, NULL);
	assert_int_equal(oriel_p2p_create(e.hubs[0], &attr, &p), ORIEL_ERR_RANGE);
	attr = (struct oriel_p2p_attr){.size = sizeof(attr), .mode = 3};
	assert_int_equal(oriel_p2p_create(e.hubs[0], &attr, &p), ORIEL_ERR_INVALID);
	attr = (struct oriel_p2p_attr){.size = sizeof(attr), .channels = 64, .depth = 5};
	assert_int_equal(oriel_p2p_create(e.hubs[0], &attr, &p), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_p2p_register(e.hubs[0], data + 1, 62, 0, &memory), ORIEL_OK);
	b = buffer(data, 62, memory);
	assert_int_equal(oriel_p2p_send(e.a, 0, &b, &r), ORIEL_ERR_RANGE);
	b = buffer(data + 1, 63, memory);
	assert_int_equal(oriel_p2p_send(e.a, 0, &b, &r), ORIEL_ERR_RANGE);
	b = buffer(data + 1, 62, memory);
	assert_int_equal(oriel_p2p_send(e.a, 1, &b, &r), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_p2p_recv(e.b, 0, &b, &r), ORIEL_ERR_INVALID);
	oriel_p2p_hub_destroy(e.hubs[0]);
	assert_int_equal(oriel_last_status(), ORIEL_ERR_STATE);
	oriel_p2p_unregister(memory);
	ends_close(&e);
}

/* One end in a thread of its own: what it sends comes back from the other, by another channel. */
static void *thread_echo(void *argument)
{
	struct oriel_p2p *p = argument;
	static char data[2][LONG];

	for (unsigned i = 0; i < 40; i++) {
		struct oriel_p2p_buffer b = buffer(data[i % 2], LONG - i, NULL);
		struct oriel_p2p_request in, out, said, heard;
		char word[100];

		/* cmocka's checks are for its own thread: the other end sees what is wrong. */
		if (oriel_p2p_recv(p, 0, &b, &in) != ORIEL_OK ||
		    oriel_p2p_wait(p, &in, ENDS_PATIENCE_NS) != ORIEL_OK ||
		    oriel_p2p_send(p, 1, &b, &out) != ORIEL_OK ||
		    oriel_p2p_recv_control(p, 1, word, sizeof(word), &heard) != ORIEL_OK ||
		    oriel_p2p_wait(p, &heard, ENDS_PATIENCE_NS) != ORIEL_OK ||
		    oriel_p2p_send_control(p, 2, word, heard.length, &said) != ORIEL_OK ||
		    oriel_p2p_wait(p, &said, ENDS_PATIENCE_NS) != ORIEL_OK ||
		    oriel_p2p_wait(p, &out, ENDS_PATIENCE_NS) != ORIEL_OK)
			break;
	}
	(void)oriel_p2p_drain(p, ENDS_PATIENCE_NS);
	return NULL;
}

static void threads_talk(enum oriel_path path, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = 2};
	static char from[LONG], to[LONG];
	pthread_t thread;
	struct ends e;

	ends_open(&e, path, &small, &attr);
	assert_int_equal(pthread_create(&thread, NULL, thread_echo, e.b), 0);
	for (unsigned i = 0; i < 40; i++) {
		struct oriel_p2p_buffer f = buffer(from, LONG - i, NULL),
					t = buffer(to, LONG - i, NULL);
		struct oriel_p2p_request in, out, said, heard;
		char word[100], back[100];

		ends_fill(from, LONG, i);
		ends_fill(word, 100, i);
		assert_int_equal(oriel_p2p_send_control(e.a, 1, word, i, &said), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv_control(e.a, 2, back, i, &heard), ORIEL_OK);
		assert_int_equal(oriel_p2p_send(e.a, 0, &f, &out), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv(e.a, 1, &t, &in), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(e.a, &in, ENDS_PATIENCE_NS), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(e.a, &out, ENDS_PATIENCE_NS), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(e.a, &said, ENDS_PATIENCE_NS), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(e.a, &heard, ENDS_PATIENCE_NS), ORIEL_OK);
		assert_memory_equal(from, to, LONG - i);
		assert_memory_equal(word, back, i);
	}
	/* This end is destroyed while the other one may still be at work. */
	oriel_p2p_destroy(e.a);
	assert_int_equal(pthread_join(thread, NULL), 0);
	e.a = e.b;
	ends_close(&e);
}

static void test_threads_talk(void **state)
{
	(void)state;
	for (unsigned i = 1; i < PATHS; i++)
		for (unsigned k = 0; k < MODES; k++)
			threads_talk(paths[i], modes[k]);
}

struct writer {
	struct oriel_p2p *p;
	struct oriel_p2p_remote remote;
	char data[256 << 10];
};

/* Puts until nobody expects any more. */
static void *thread_put(void *argument)
{
	struct writer *w = argument;
	struct oriel_p2p_buffer b = buffer(w->data, sizeof(w->data), NULL);
	struct oriel_p2p_request r;

	while (oriel_p2p_put(w->p, 0, &b, &w->remote, 0, &r) == ORIEL_OK &&
	       oriel_p2p_wait(w->p, &r, ENDS_PATIENCE_NS) == ORIEL_OK)
		;
	return NULL;
}

/* The peer is a thread that may just be copying: nothing is written once destroy() is back. */
static void nobody_writes_after_destroy(enum oriel_path path)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = ORIEL_P2P_ZERO_COPY};
	static struct writer writer;
	struct oriel_p2p_request expected[50];
	struct oriel_p2p_memory *memory;
	char bytes[ORIEL_P2P_EXPORT];
	struct oriel_p2p_buffer b;
	pthread_t thread;
	struct ends e;
	char *data;

	ends_open(&e, path, &small, &attr);
	data = malloc(sizeof(writer.data));
	assert_non_null(data);
	assert_int_equal(oriel_p2p_register(e.hubs[0], data, sizeof(writer.data), 0, &memory),
			 ORIEL_OK);
	b = buffer(data, sizeof(writer.data), memory);
	assert_int_equal(oriel_p2p_export(e.a, &b, bytes), ORIEL_OK);
	assert_int_equal(oriel_p2p_import(e.b, bytes, sizeof(bytes), &writer.remote), ORIEL_OK);
	writer.p = e.b;
	memset(writer.data, 1, sizeof(writer.data));
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(oriel_p2p_expect(e.a, 0, &expected[i]), ORIEL_OK);
	assert_int_equal(pthread_create(&thread, NULL, thread_put, &writer), 0);
	assert_int_equal(oriel_p2p_wait(e.a, &expected[3], ENDS_PATIENCE_NS), ORIEL_OK);
	oriel_p2p_destroy(e.a);
	memset(data, 2, sizeof(writer.data));
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (size_t i = 0; i < sizeof(writer.data); i++)
		assert_int_equal(data[i], 2);
	oriel_p2p_unregister(memory);
	free(data);
	e.a = e.b;
	ends_close(&e);
}

static void test_nobody_writes_after_destroy(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		nobody_writes_after_destroy(paths[1 + i % 2]);
}

/* Ends that may be staged to keep a slot each, and so are bounded. */
static void test_ends_are_as_many_as_slots_allow(void **state)
{
	struct oriel_p2p_hub_attr attr = {.size = sizeof(attr), .chunk = CHUNK, .slots = 12};
	struct oriel_p2p *ends[5];
	struct oriel_p2p_hub *hub;

	(void)state;
	assert_int_equal(oriel_p2p_hub_create(&attr, &hub), ORIEL_OK);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(oriel_p2p_create(hub, NULL, &ends[i]), ORIEL_OK);
	assert_int_equal(oriel_p2p_create(hub, NULL, &ends[4]), ORIEL_ERR_NOMEM);
	oriel_p2p_destroy(ends[2]);
	assert_int_equal(oriel_p2p_create(hub, NULL, &ends[2]), ORIEL_OK);
	for (unsigned i = 0; i < 4; i++)
		oriel_p2p_destroy(ends[i]);
	oriel_p2p_hub_destroy(hub);
	assert_string_equal(oriel_last_error(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transfers_of_any_size_arrive),
		cmocka_unit_test(test_channels_do_not_mix),
		cmocka_unit_test(test_channels_do_not_wait_for_each_other),
		cmocka_unit_test(test_puts_end_what_is_expected),
		cmocka_unit_test(test_auto_goes_straight_once_both_are_registered),
		cmocka_unit_test(test_control_messages_keep_their_order),
		cmocka_unit_test(test_control_messages_of_any_size),
		cmocka_unit_test(test_a_message_that_does_not_fit_is_a_status),
		cmocka_unit_test(test_lengths_that_differ_break_both_ends),
		cmocka_unit_test(test_ends_that_differ_are_told_so_both),
		cmocka_unit_test(test_destroyed_ends_are_noticed),
		cmocka_unit_test(test_a_peer_that_does_not_come_is_a_timeout),
		cmocka_unit_test(test_wrong_arguments_are_refused),
		cmocka_unit_test(test_threads_talk),
		cmocka_unit_test(test_nobody_writes_after_destroy),
		cmocka_unit_test(test_ends_are_as_many_as_slots_allow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
