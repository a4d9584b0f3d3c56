/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers over every path, in every mode. */
#include "p2p/pair_of_endpoints_test.h"

#define STREAMS 8u

static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 8 * CHUNK, LONG};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* A transfer of each size in both directions, received before it is sent or after. */
static void both_ways(struct endpoints *e, unsigned channel, struct oriel_p2p_memory *memory[2],
		      char *data[2])
{
	for (unsigned i = 0; i < SIZES; i++) {
		struct oriel_p2p_request r[4];
		struct oriel_p2p_buffer out[2], in[2];

		for (unsigned k = 0; k < 2; k++) {
			endpoints_fill(data[k], LONG, i + k + channel);
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
			assert_int_equal(endpoints_wait(e, &r[k]), ORIEL_OK);
		assert_memory_equal(data[1] + LONG, data[0], sizes[i]);
		assert_memory_equal(data[0] + LONG, data[1], sizes[i]);
		assert_int_equal(data[0][LONG + sizes[i]], 0x77);
		assert_int_equal(data[1][LONG + sizes[i]], 0x77);
	}
}

static void transfers_arrive(enum endpoints_route route, enum oriel_p2p_mode mode,
			     unsigned channels, bool is_registered)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = channels};
	struct oriel_p2p_memory *memory[2] = {0};
	char *data[2];
	struct endpoints e;

	endpoints_open(&e, route, &small, &attr);
	for (unsigned k = 0; k < 2; k++) {
		data[k] = malloc(2 * LONG + 1);
		assert_non_null(data[k]);
		if (is_registered)
			assert_int_equal(
				oriel_p2p_register(e.contexts[route == ENDPOINTS_SELF ? 0 : k],
						   data[k], 2 * LONG + 1, 0, &memory[k]),
				ORIEL_OK);
	}
	/* An endpoint that is its own peer receives what it sends first. */
	for (unsigned channel = 0; channel < channels; channel++)
		both_ways(&e, channel, memory, data);
	for (unsigned k = 0; k < 2; k++) {
		oriel_p2p_unregister(memory[k]);
		free(data[k]);
	}
	endpoints_close(&e);
}

static void test_transfers_of_any_size_arrive(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned channels = 1; channels <= 8; channels *= 2)
				for (unsigned registered = 0; registered < 2; registered++)
					transfers_arrive(routes[i], modes[k], channels, registered);
}

/* Transfers on all channels at once, more than there are slots, in both directions. */
static void channels_do_not_mix(enum endpoints_route route, enum oriel_p2p_mode mode,
				unsigned channels)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = channels,
					    .depth = 2};
	static struct oriel_p2p_request out[2][STREAMS][4], in[2][STREAMS][4];
	static char from[2][STREAMS][4][LONG], to[2][STREAMS][4][LONG];
	struct oriel_p2p *endpoint[2];
	struct endpoints e;

	endpoints_open(&e, route, &small, &attr);
	endpoint[0] = e.a;
	endpoint[1] = e.b;
	for (unsigned n = 0; n < 4; n++) {
		for (unsigned c = 0; c < channels; c++) {
			for (unsigned k = 0; k < 2; k++) {
				size_t length = LONG - c * 100 - n;
				struct oriel_p2p_buffer f = buffer(from[k][c][n], length, NULL);
				struct oriel_p2p_buffer t = buffer(to[k][c][n], length, NULL);

				/* Its own peer: the second stream of a channel is k = 1. */
				endpoints_fill(from[k][c][n], length, c * 8 + n * 2 + k);
				memset(to[k][c][n], 0, length);
				assert_int_equal(oriel_p2p_send(endpoint[k], c, &f, &out[k][c][n]),
						 ORIEL_OK);
				assert_int_equal(oriel_p2p_recv(endpoint[e.a == e.b ? k : !k], c,
								&t, &in[k][c][n]),
						 ORIEL_OK);
			}
		}
	}
	for (unsigned n = 0; n < 4; n++)
		for (unsigned c = 0; c < channels; c++)
			for (unsigned k = 0; k < 2; k++) {
				assert_int_equal(endpoints_wait(&e, &out[k][c][n]), ORIEL_OK);
				assert_int_equal(endpoints_wait(&e, &in[k][c][n]), ORIEL_OK);
				assert_memory_equal(to[k][c][n], from[k][c][n], LONG - c * 100 - n);
			}
	endpoints_close(&e);
}

static void test_channels_do_not_mix(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			for (unsigned channels = 1; channels <= STREAMS; channels *= 2)
				channels_do_not_mix(routes[i], modes[k], channels);
}

/*
 * Long transfers are spread in pieces over several queues, which all channels share; their
 * immediate goes through the first. The last bytes of each piece have arrived before the
 * immediate, and words that are put meanwhile keep their meaning.
 */
static void queues_are_shared(enum endpoints_route route, enum oriel_p2p_mode mode,
			      unsigned channels, unsigned queues)
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
	struct oriel_p2p_info info = {.size = sizeof(info)};
	struct endpoints e;
	char word[8];

	endpoints_open(&e, route, NULL, &attr);
	assert_int_equal(oriel_p2p_describe(e.a, &info), ORIEL_OK);
	assert_int_equal(info.queues, queues);
	assert_int_equal(oriel_p2p_register(e.contexts[0], from, sizeof(from), 0, &memory[0]),
			 ORIEL_OK);
	assert_int_equal(oriel_p2p_register(e.contexts[1], to, sizeof(to), 0, &memory[1]),
			 ORIEL_OK);
	for (unsigned n = 0; n < TRANSFERS; n++) {
		/* Short ones are not cut, and so overtake long ones where they may. */
		size_t length = n % 2 ? BESIDE : LENGTH;

		for (unsigned c = 0; c < channels; c++) {
			struct oriel_p2p_buffer f = buffer(from[c], length, memory[0]),
						t = buffer(to[c], length, memory[1]);

			endpoints_fill(from[c], length, n * STREAMS + c);
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
			assert_int_equal(endpoints_wait(&e, &in[n][c]), ORIEL_OK);
			assert_memory_equal(to[c], from[c], length);
			assert_int_equal(endpoints_wait(&e, &out[n][c]), ORIEL_OK);
		}
		for (unsigned i = 0; i < 20; i++)
			assert_int_equal(endpoints_wait(&e, &heard[n * 20 + i]), ORIEL_OK);
	}
	assert_int_equal(oriel_p2p_drain(e.a, 0), ORIEL_OK);
	for (unsigned k = 0; k < 2; k++)
		oriel_p2p_unregister(memory[k]);
	endpoints_close(&e);
}

static void test_queues_are_shared_by_channels(void **state)
{
	(void)state;
	for (unsigned k = 0; k < MODES; k++)
		for (unsigned queues = 2; queues <= 8; queues *= 4)
			for (unsigned channels = 1; channels <= STREAMS; channels *= 8)
				queues_are_shared(k % 2 ? ENDPOINTS_INTERNODE : ENDPOINTS_RDMA,
						  modes[k], channels, queues);
}

/* No transfer of channel 0 is received before all those of the others are. */
static void channels_do_not_wait(enum endpoints_route route, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = STREAMS};
	static struct oriel_p2p_request out[STREAMS], in[STREAMS];
	static char from[STREAMS][LONG], to[STREAMS][LONG];
	struct endpoints e;

	endpoints_open(&e, route, &small, &attr);
	for (unsigned c = 0; c < STREAMS; c++) {
		struct oriel_p2p_buffer f = buffer(from[c], LONG, NULL);

		endpoints_fill(from[c], LONG, c);
		/* Received, but never sent so far: it must not keep slots that others need. */
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
		assert_int_equal(endpoints_wait(&e, &in[c]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&e, &out[c]), ORIEL_OK);
		assert_memory_equal(to[c], from[c], LONG);
		assert_int_equal(in[c - 1].status, ORIEL_AGAIN);
	}
	for (unsigned c = 0; c < STREAMS; c += 2) {
		struct oriel_p2p_buffer f = buffer(from[c], LONG, NULL);

		assert_int_equal(oriel_p2p_send(e.a, c, &f, &out[c]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&e, &in[c]), ORIEL_OK);
		assert_memory_equal(to[c], from[c], LONG);
		assert_int_equal(endpoints_wait(&e, &out[c]), ORIEL_OK);
	}
	endpoints_close(&e);
}

static void test_channels_do_not_wait_for_each_other(void **state)
{
	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			channels_do_not_wait(routes[i], modes[k]);
}

/* Hooks that copy, and count staged chunks. */
struct staged {
	unsigned packed, unpacked;
	size_t first; /* bytes of the first chunk of the last transfer */
};

static enum oriel_status staged_pack(void *context, const struct oriel_p2p_chunk *chunk)
{
	struct staged *s = context;

	memcpy(chunk->slot, chunk->buffer, chunk->length);
	s->packed++;
	if (chunk->index == 0)
		s->first = chunk->length;
	return ORIEL_OK;
}

static enum oriel_status staged_unpack(void *context, const struct oriel_p2p_chunk *chunk)
{
	struct staged *s = context;

	memcpy(chunk->buffer, chunk->slot, chunk->length);
	s->unpacked++;
	return ORIEL_OK;
}

static const struct oriel_p2p_hooks staged_hooks = {sizeof(staged_hooks), staged_pack,
						    staged_unpack, NULL};

static void move(struct endpoints *e, struct oriel_p2p_buffer f, struct oriel_p2p_buffer t,
		 unsigned seed)
{
	struct oriel_p2p_request out, in;

	endpoints_fill(f.address, f.length, seed);
	memset(t.address, 0, t.length);
	assert_int_equal(oriel_p2p_send(e->a, 0, &f, &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(e->b, 0, &t, &in), ORIEL_OK);
	assert_int_equal(endpoints_wait(e, &in), ORIEL_OK);
	assert_memory_equal(t.address, f.address, f.length);
	assert_int_equal(endpoints_wait(e, &out), ORIEL_OK);
}

/*
 * Memory that is not registered is staged, memory that is being registered may be, and no
 * other.
 */
static void test_auto_mode_is_zero_copy_once_both_are_registered(void **state)
{
	static char from[LONG], to[LONG];

	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++) {
		struct staged staged = {0};
		const struct oriel_p2p_attr attr = {.size = sizeof(attr),
						    .hooks = &staged_hooks,
						    .context = &staged};
		uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
		struct oriel_p2p_memory *local, *remote;
		struct endpoints e;

		endpoints_open(&e, routes[i], &small, &attr);
		move(&e, buffer(from, LONG, NULL), buffer(to, LONG, NULL), 1);
		assert_int_equal(staged.packed, (LONG + CHUNK - 1) / CHUNK);
		assert_int_equal(staged.unpacked, (LONG + CHUNK - 1) / CHUNK);
		assert_int_equal(oriel_p2p_register(e.contexts[0], from, LONG, ORIEL_P2P_BACKGROUND,
						    &local),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_register(e.contexts[!!e.contexts[1]], to, LONG,
						    ORIEL_P2P_BACKGROUND, &remote),
				 ORIEL_OK);
		for (unsigned n = 0; n < 20; n++)
			move(&e, buffer(from, LONG, local), buffer(to, LONG, remote), n);
		while (oriel_p2p_memory_check(local) == ORIEL_AGAIN ||
		       oriel_p2p_memory_check(remote) == ORIEL_AGAIN)
			assert_false(ori_deadline_passed(deadline));
		assert_int_equal(oriel_p2p_memory_check(local), ORIEL_OK);
		assert_int_equal(oriel_p2p_memory_check(remote), ORIEL_OK);
		staged = (struct staged){0};
		move(&e, buffer(from, LONG, local), buffer(to, LONG, remote), 21);
		assert_int_equal(staged.packed, 0);
		assert_int_equal(staged.unpacked, 0);
		oriel_p2p_unregister(local);
		oriel_p2p_unregister(remote);
		endpoints_close(&e);
	}
}

/* A medium transfer is cut into four, so that copies overlap; a short one is not cut. */
static void test_chunks_fit_the_transfer(void **state)
{
	static const struct {
		unsigned length, chunks, first;
	} cuts[] = {
		{1000, 1, 1000},    {16384, 1, 16384},   {16385, 2, 16384},   {65536, 4, 16384},
		{100000, 4, 28672}, {524288, 4, 131072}, {524289, 5, 131072}, {1 << 20, 8, 131072},
	};
	static char from[1 << 20], to[1 << 20];

	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++) {
		struct staged staged = {0};
		const struct oriel_p2p_attr attr = {.size = sizeof(attr),
						    .mode = ORIEL_P2P_COPY_BASED,
						    .hooks = &staged_hooks,
						    .context = &staged};
		struct oriel_p2p_info info = {.size = sizeof(info)};
		struct endpoints e;

		endpoints_open(&e, routes[i], NULL, &attr);
		assert_int_equal(oriel_p2p_describe(e.a, &info), ORIEL_OK);
		assert_int_equal(info.chunk, 131072);
		for (unsigned k = 0; k < sizeof(cuts) / sizeof(cuts[0]); k++) {
			staged = (struct staged){0};
			move(&e, buffer(from, cuts[k].length, NULL),
			     buffer(to, cuts[k].length, NULL), k);
			assert_int_equal(staged.packed, cuts[k].chunks);
			assert_int_equal(staged.unpacked, cuts[k].chunks);
			assert_int_equal(staged.first, cuts[k].first);
		}
		endpoints_close(&e);
	}
}

#define MOST 16u /* endpoints of a context with so few slots */

static struct endpoints most[MOST];

static void most_open(enum endpoints_route route, enum oriel_p2p_mode mode)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .channels = 2};

	endpoints_open(&most[0], route, &small, &attr);
	for (unsigned i = 1; i < MOST; i++) {
		most[i] = most[0];
		assert_int_equal(oriel_p2p_create(most[0].contexts[0], &attr, &most[i].a),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_create(most[0].contexts[1], &attr, &most[i].b),
				 ORIEL_OK);
		endpoints_join(&most[i]);
	}
}

static void most_close(void)
{
	for (unsigned i = 1; i < MOST; i++) {
		oriel_p2p_destroy(most[i].a);
		oriel_p2p_destroy(most[i].b);
	}
	endpoints_close(&most[0]);
}

#define FAIR (CHUNK * 5 + 5)

/* All at once, with many more under way than there are slots: all of it arrives. */
static void endpoints_share_slots(enum endpoints_route route, enum oriel_p2p_mode mode)
{
	static char from[2][MOST][2][FAIR], to[2][MOST][2][FAIR];
	static struct oriel_p2p_request out[2][MOST][2], in[2][MOST][2];
	uint64_t deadline = ori_deadline(ENDPOINTS_PATIENCE_NS);
	unsigned left = 2 * MOST * 2;

	most_open(route, mode);
	for (unsigned n = 0; n < 2 * MOST * 2; n++) {
		/* Receives begin in another order than the sends. */
		unsigned i = n / 4, k = n / 2 % 2, c = n % 2, r = MOST - 1 - i;
		struct oriel_p2p_buffer f = buffer(from[k][i][c], FAIR, NULL),
					t = buffer(to[k][r][c], FAIR, NULL);

		endpoints_fill(from[k][i][c], FAIR, n);
		memset(to[k][r][c], 0, FAIR);
		assert_int_equal(oriel_p2p_send(k ? most[i].b : most[i].a, c, &f, &out[k][i][c]),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_recv(k ? most[r].a : most[r].b, c, &t, &in[k][r][c]),
				 ORIEL_OK);
	}
	while (left) {
		left = 0;
		assert_false(ori_deadline_passed(deadline));
		for (unsigned i = 0; i < MOST; i++)
			endpoints_turn(&most[i]);
		for (unsigned n = 0; n < 2 * MOST * 2; n++)
			left += in[n % 2][n / 4][n / 2 % 2].status == ORIEL_AGAIN ||
				out[n % 2][n / 4][n / 2 % 2].status == ORIEL_AGAIN;
	}
	assert_memory_equal(to, from, sizeof(to));
	most_close();
}

static void test_endpoints_share_slots(void **state)
{
	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			endpoints_share_slots(routes[i], modes[k]);
}

/*
 * Peers that have begun to send, and then stop, keep slots: not the slot of an endpoint
 * with another peer.
 */
static void peers_stop(enum endpoints_route route, enum oriel_p2p_mode mode)
{
	static struct oriel_p2p_request out[MOST][2], in[MOST][2];
	static char from[LONG], to[MOST][2][LONG];

	most_open(route, mode);
	endpoints_fill(from, LONG, 1);
	for (unsigned i = 0; i < MOST; i++) {
		for (unsigned c = 0; c < 2; c++) {
			struct oriel_p2p_buffer f = buffer(from, LONG, NULL),
						t = buffer(to[i][c], LONG, NULL);

			memset(to[i][c], 0, LONG);
			assert_int_equal(oriel_p2p_send(most[i].a, c, &f, &out[i][c]), ORIEL_OK);
			assert_int_equal(oriel_p2p_recv(most[i].b, c, &t, &in[i][c]), ORIEL_OK);
		}
		for (unsigned k = 0; k < 20 && i + 1 < MOST; k++) {
			assert_int_equal(oriel_p2p_progress(most[i].b), ORIEL_OK);
			sched_yield();
		}
	}
	for (unsigned c = 0; c < 2; c++) {
		assert_int_equal(endpoints_wait(&most[MOST - 1], &in[MOST - 1][c]), ORIEL_OK);
		assert_int_equal(endpoints_wait(&most[MOST - 1], &out[MOST - 1][c]), ORIEL_OK);
		assert_memory_equal(to[MOST - 1][c], from, LONG);
	}
	most_close();
}

static void test_peers_that_stop_keep_slots_of_their_own(void **state)
{
	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++)
		for (unsigned k = 0; k < MODES; k++)
			peers_stop(routes[i], modes[k]);
}

static void test_channels_are_bounded(void **state)
{
	static const unsigned some[] = {0, 31, 32, ORIEL_P2P_CHANNELS - 1};
	struct oriel_p2p_memory *none[2] = {NULL, NULL};
	static char space[2][2 * LONG + 1];
	char *data[2] = {space[0], space[1]};

	(void)state;
	for (unsigned i = routes_first; i < ROUTES; i++) {
		const struct oriel_p2p_attr attr = {.size = sizeof(attr),
						    .mode = modes[i % MODES],
						    .channels = ORIEL_P2P_CHANNELS};
		struct endpoints e;

		endpoints_open(&e, routes[i], &small, &attr);
		for (unsigned k = 0; k < sizeof(some) / sizeof(some[0]); k++)
			both_ways(&e, some[k], none, data);
		endpoints_close(&e);
	}
}

static void test_lengths_that_differ_break_both_endpoints(void **state)
{
	static char data[LONG];

	(void)state;
	for (unsigned i = peers_first; i < ROUTES; i++) {
		for (unsigned k = 0; k < MODES; k++) {
			const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = modes[k]};
			struct oriel_p2p_buffer f = buffer(data, LONG, NULL),
						t = buffer(data, LONG - 1, NULL);
			struct oriel_p2p_request out, in;
			struct endpoints e;

			endpoints_open(&e, routes[i], &small, &attr);
			(void)oriel_p2p_send(e.a, 0, &f, &out);
			(void)oriel_p2p_recv(e.b, 0, &t, &in);
			assert_int_equal(endpoints_wait(&e, &out), ORIEL_ERR_MISMATCH);
			assert_int_equal(endpoints_wait(&e, &in), ORIEL_ERR_MISMATCH);
			assert_int_equal(oriel_p2p_check(e.a), ORIEL_ERR_MISMATCH);
			assert_non_null(strstr(oriel_last_error(), "channel 0"));
			assert_int_equal(oriel_p2p_check(e.b), ORIEL_ERR_MISMATCH);
			/*
			 * Both endpoints get the text, also the one that did not notice it
			 * itself.
			 */
			assert_non_null(strstr(oriel_last_error(), "the send of transfer 0"));
			assert_non_null(strstr(oriel_last_error(), "the receive of transfer 0"));
			endpoints_close(&e);
		}
	}
}

/* Contexts that may use any path, on one machine. */
static void test_an_endpoint_uses_only_its_paths(void **state)
{
	static const unsigned masks[] = {0, 1u << ORIEL_PATH_RDMA,
					 1u << ORIEL_PATH_RDMA | 1u << ORIEL_PATH_MAPPED};
	static const enum oriel_path expected[] = {ORIEL_PATH_MAPPED, ORIEL_PATH_RDMA,
						   ORIEL_PATH_MAPPED};
	struct oriel_p2p_attr attr = {.size = sizeof(attr)};
	struct oriel_p2p_info info = {.size = sizeof(info)};
	struct endpoints e = {0};

	(void)state;
	for (unsigned i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		attr.paths = masks[i];
		for (unsigned k = 0; k < 2; k++)
			assert_int_equal(oriel_p2p_context_create(NULL, &e.contexts[k]), ORIEL_OK);
		assert_int_equal(oriel_p2p_create(e.contexts[0], &attr, &e.a), ORIEL_OK);
		assert_int_equal(oriel_p2p_create(e.contexts[1], NULL, &e.b), ORIEL_OK);
		endpoints_join(&e);
		assert_int_equal(oriel_p2p_describe(e.b, &info), ORIEL_OK);
		assert_int_equal(info.path, expected[i]);
		endpoints_close(&e);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transfers_of_any_size_arrive),
		cmocka_unit_test(test_channels_do_not_mix),
		cmocka_unit_test(test_queues_are_shared_by_channels),
		cmocka_unit_test(test_channels_do_not_wait_for_each_other),
		cmocka_unit_test(test_auto_mode_is_zero_copy_once_both_are_registered),
		cmocka_unit_test(test_chunks_fit_the_transfer),
		cmocka_unit_test(test_endpoints_share_slots),
		cmocka_unit_test(test_peers_that_stop_keep_slots_of_their_own),
		cmocka_unit_test(test_channels_are_bounded),
		cmocka_unit_test(test_lengths_that_differ_break_both_endpoints),
		cmocka_unit_test(test_an_endpoint_uses_only_its_paths),
	};

	endpoints_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
