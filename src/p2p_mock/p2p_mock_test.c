/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints under a script: puts arrive in any order, or not at all, and links fail. */
#include <oriel/p2p_mock.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "p2p/p2p.h"
#include "p2p_mock/p2p_mock_peer.h"

#define CHUNK 4096u
#define CHANNELS 3u
#define ROUNDS 3u
#define LONG (CHUNK * 21 + 77)
#define PIECES (5u << 19) /* more than one chunk without staging */
#define SEEDS 60u
#define TURNS 200000u

static const struct oriel_p2p_context_attr small = {.size = sizeof(small),
						    .chunk = CHUNK,
						    .slots = 24};

struct mock {
	struct oriel_p2p_mock *mock;
	struct oriel_p2p *a, *b;
};

static void mock_open(struct mock *m, unsigned order, uint64_t seed,
		      const struct oriel_p2p_attr *endpoints)
{
	struct oriel_p2p_mock_attr attr = {.size = sizeof(attr),
					   .order = order,
					   .seed = seed,
					   .context = &small,
					   .endpoints = endpoints};

	assert_int_equal(oriel_p2p_mock_create(&attr, &m->mock), ORIEL_OK);
	m->a = oriel_p2p_mock_endpoint(m->mock, 0);
	m->b = oriel_p2p_mock_endpoint(m->mock, 1);
	assert_null(oriel_p2p_mock_endpoint(m->mock, 2));
}

/* It has nothing to report, and leaves the last error as it was. */
static void mock_destroy(struct mock *m)
{
	struct ori_error before;

	ori_error_save(&before);
	oriel_p2p_mock_destroy(m->mock);
	assert_string_equal(oriel_last_error(), before.text);
}

static void mock_turn(struct mock *m)
{
	(void)oriel_p2p_progress(m->a);
	(void)oriel_p2p_progress(m->b);
}

static enum oriel_status mock_wait(struct mock *m, const struct oriel_p2p_request *r)
{
	for (unsigned i = 0; r->status == ORIEL_AGAIN; i++) {
		assert_true(i < TURNS);
		mock_turn(m);
	}
	return r->status;
}

static void fill(char *at, size_t length, unsigned seed)
{
	for (size_t i = 0; i < length; i++)
		at[i] = (char)(i * 31 + i / 251 + seed * 7 + 1);
}

static struct oriel_p2p_buffer buffer(void *at, size_t length, struct oriel_p2p_memory *memory)
{
	struct oriel_p2p_buffer b = {at, length, memory};

	return b;
}

static char from[2][CHANNELS][ROUNDS][LONG], to[2][CHANNELS][ROUNDS][LONG];

/* All kinds of requests at once, both ways; memory registered by halves in auto mode. */
static void all_of_it_arrives(unsigned mode, uint64_t seed)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = CHANNELS,
					    .depth = 1 + seed % 4};
	struct oriel_p2p_request out[2][CHANNELS][ROUNDS], in[2][CHANNELS][ROUNDS];
	struct oriel_p2p_request said[2][40], heard[2][40];
	struct oriel_p2p_memory *memory;
	static char words[2][40][3000];
	struct oriel_p2p *endpoint[2];
	struct mock m;

	mock_open(&m, ORIEL_P2P_MOCK_SHUFFLED, seed, &attr);
	assert_int_equal(oriel_p2p_register(oriel_p2p_mock_context(m.mock), to[0], sizeof(to[0]), 0,
					    &memory),
			 ORIEL_OK);
	endpoint[0] = m.a;
	endpoint[1] = m.b;
	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < 40; i++) {
			fill(words[k][i], 1 + i * 70, i);
			assert_int_equal(oriel_p2p_send_control(endpoint[k], i % 3, words[k][i],
								1 + i * 70, &said[k][i]),
					 ORIEL_OK);
		}
		for (unsigned n = 0; n < ROUNDS; n++) {
			for (unsigned c = 0; c < CHANNELS; c++) {
				size_t length = LONG - n * 5000 - c;
				struct oriel_p2p_buffer f = buffer(from[k][c][n], length, NULL);
				struct oriel_p2p_buffer t =
					buffer(to[k][c][n], length, k ? NULL : memory);

				fill(f.address, length, (unsigned)seed + n + c * 4 + k * 16);
				memset(t.address, 0, length);
				assert_int_equal(oriel_p2p_recv(endpoint[!k], c, &t, &in[k][c][n]),
						 ORIEL_OK);
				assert_int_equal(oriel_p2p_send(endpoint[k], c, &f, &out[k][c][n]),
						 ORIEL_OK);
			}
		}
	}
	for (unsigned i = 0; i < 80; i++) {
		unsigned k = i & 1, n = i / 2;
		static char word[3000];

		assert_int_equal(oriel_p2p_recv_control(endpoint[!k], n % 3, word, 1 + n * 70,
							&heard[k][n]),
				 ORIEL_OK);
		assert_int_equal(mock_wait(&m, &heard[k][n]), ORIEL_OK);
		assert_memory_equal(word, words[k][n], 1 + n * 70);
	}
	for (unsigned k = 0; k < 2; k++)
		for (unsigned n = 0; n < ROUNDS; n++)
			for (unsigned c = 0; c < CHANNELS; c++) {
				assert_int_equal(mock_wait(&m, &in[k][c][n]), ORIEL_OK);
				assert_int_equal(mock_wait(&m, &out[k][c][n]), ORIEL_OK);
				assert_memory_equal(to[k][c][n], from[k][c][n],
						    LONG - n * 5000 - c);
			}
	assert_int_equal(oriel_p2p_drain(m.a, 0), ORIEL_OK);
	oriel_p2p_unregister(memory);
	mock_destroy(&m);
}

static void test_all_requests_end_in_any_order_of_arrival(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_COPY_BASED; mode++)
			all_of_it_arrives(mode, seed);
}

/* Delivers the last event of @endpoint that may arrive. */
static bool deliver_last_of(struct mock *m, unsigned endpoint)
{
	struct oriel_p2p_mock_event event;

	for (unsigned i = oriel_p2p_mock_count(m->mock); i-- > 0;) {
		assert_int_equal(oriel_p2p_mock_peek(m->mock, i, &event), ORIEL_OK);
		if (event.from != endpoint || !event.may_arrive)
			continue;
		assert_int_equal(oriel_p2p_mock_deliver(m->mock, i), ORIEL_OK);
		return true;
	}
	return false;
}

/* The receiver's credits arrive last first, and so do the sender's chunks. */
static void test_credits_may_arrive_out_of_order(void **state)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = ORIEL_P2P_COPY_BASED,
					    .depth = 4,
					    .channels = CHANNELS};
	struct oriel_p2p_buffer f = buffer(from[0][0], LONG, NULL),
				t = buffer(to[0][0], LONG, NULL);
	struct oriel_p2p_request out, in;
	struct mock m;

	(void)state;
	mock_open(&m, ORIEL_P2P_MOCK_MANUAL, 0, &attr);
	fill(f.address, LONG, 1);
	memset(t.address, 0, LONG);
	assert_int_equal(oriel_p2p_send(m.a, 1, &f, &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(m.b, 1, &t, &in), ORIEL_OK);
	for (unsigned i = 0; out.status == ORIEL_AGAIN || in.status == ORIEL_AGAIN; i++) {
		assert_true(i < TURNS);
		/* One event, so that each arrival is handled before the next. */
		if (!deliver_last_of(&m, i & 1))
			(void)deliver_last_of(&m, ~i & 1);
		mock_turn(&m);
	}
	assert_memory_equal(t.address, f.address, LONG);
	oriel_p2p_mock_destroy(m.mock);
}

#define WORDS 100u /* more than three times the cells there are */

/* Delivers the first event of @endpoint behind @some of them. */
static bool deliver_behind(struct mock *m, unsigned endpoint, unsigned some)
{
	struct oriel_p2p_mock_event event;

	for (unsigned i = 0; oriel_p2p_mock_peek(m->mock, i, &event) == ORIEL_OK; i++)
		if (event.from == endpoint && some-- == 0)
			return oriel_p2p_mock_deliver(m->mock, i) == ORIEL_OK;
	return false;
}

/* The receiver's first count arrives when the sender knows of a lap more. */
static void test_an_earlier_count_does_not_arrive_last(void **state)
{
	static struct oriel_p2p_request out[WORDS], in[WORDS];
	static char words[WORDS], heard[WORDS];
	struct mock m;

	(void)state;
	mock_open(&m, ORIEL_P2P_MOCK_MANUAL, 0, NULL);
	for (unsigned i = 0; i < WORDS; i++) {
		words[i] = (char)i;
		assert_int_equal(oriel_p2p_send_control(m.a, 0, &words[i], 1, &out[i]), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv_control(m.b, 0, &heard[i], 1, &in[i]), ORIEL_OK);
	}
	for (unsigned i = 0; in[WORDS - 1].status == ORIEL_AGAIN; i++) {
		assert_true(i < TURNS);
		while (deliver_behind(&m, 0, 0))
			assert_int_equal(oriel_p2p_progress(m.b), ORIEL_OK);
		while (deliver_behind(&m, 1, 1))
			;
		if (i > 0)
			(void)deliver_behind(&m, 1, 0);
		mock_turn(&m);
	}
	assert_memory_equal(heard, words, WORDS);
	oriel_p2p_mock_destroy(m.mock);
}

/* Either side stops for long, in the middle of a lap: data that arrives later still fits. */
static void paused(unsigned mode, unsigned endpoint, unsigned when)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = 2,
					    .depth = 4};
	struct oriel_p2p_request out[2][2], in[2][2];
	struct oriel_p2p *running;
	struct mock m;

	mock_open(&m, ORIEL_P2P_MOCK_IN_ORDER, 0, &attr);
	running = endpoint ? m.a : m.b;
	for (unsigned n = 0; n < 2; n++) {
		for (unsigned c = 0; c < 2; c++) {
			struct oriel_p2p_buffer f = buffer(from[0][c][n], LONG, NULL);
			struct oriel_p2p_buffer t = buffer(to[0][c][n], LONG, NULL);

			fill(f.address, LONG, when + c * 2 + n);
			memset(t.address, 0, LONG);
			assert_int_equal(oriel_p2p_recv(m.b, c, &t, &in[c][n]), ORIEL_OK);
			assert_int_equal(oriel_p2p_send(m.a, c, &f, &out[c][n]), ORIEL_OK);
		}
	}
	for (unsigned i = 0; i < when; i++)
		mock_turn(&m);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(oriel_p2p_progress(running), ORIEL_OK);
	for (unsigned n = 0; n < 2; n++) {
		for (unsigned c = 0; c < 2; c++) {
			assert_int_equal(mock_wait(&m, &in[c][n]), ORIEL_OK);
			assert_int_equal(mock_wait(&m, &out[c][n]), ORIEL_OK);
			assert_memory_equal(to[0][c][n], from[0][c][n], LONG);
		}
	}
	oriel_p2p_mock_destroy(m.mock);
}

static void test_either_side_may_pause(void **state)
{
	(void)state;
	for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_COPY_BASED; mode++)
		for (unsigned when = 0; when < 16; when++)
			for (unsigned endpoint = 0; endpoint < 2; endpoint++)
				paused(mode, endpoint, when);
}

#ifndef NDEBUG
/* A second thread in an endpoint, as it looks to the endpoint. */
static void test_a_second_thread_in_an_endpoint_is_reported(void **state)
{
	int status;
	pid_t child = fork();
	struct mock m;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		const struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		/* The message is for the log of a user, not of this test. */
		if (!freopen("/dev/null", "w", stderr))
			_exit(2);
		signal(SIGABRT, SIG_DFL);
		mock_open(&m, ORIEL_P2P_MOCK_IN_ORDER, 0, NULL);
		atomic_store(&m.a->is_inside, true);
		(void)oriel_p2p_progress(m.a);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#endif

static void test_a_send_is_done_when_the_link_says_so(void **state)
{
	struct oriel_p2p_buffer f = buffer(from[0][0], 100, NULL), t = buffer(to[0][0], 100, NULL);
	struct oriel_p2p_request out, in;
	struct mock m;

	(void)state;
	for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_COPY_BASED; mode++) {
		const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode};

		mock_open(&m, ORIEL_P2P_MOCK_IN_ORDER, 0, &attr);
		oriel_p2p_mock_hold_completions(m.mock, 0, true);
		assert_int_equal(oriel_p2p_recv(m.b, 0, &t, &in), ORIEL_OK);
		assert_int_equal(oriel_p2p_send(m.a, 0, &f, &out), ORIEL_OK);
		assert_int_equal(mock_wait(&m, &in), ORIEL_OK);
		for (unsigned i = 0; i < 100; i++)
			mock_turn(&m);
		assert_int_equal(out.status, ORIEL_AGAIN);
		assert_int_equal(oriel_p2p_drain(m.a, 1000000), ORIEL_ERR_TIMEOUT);
		oriel_p2p_mock_hold_completions(m.mock, 0, false);
		assert_int_equal(mock_wait(&m, &out), ORIEL_OK);
		oriel_p2p_mock_destroy(m.mock);
	}
}

/* No put finds room for long: nothing is lost, nothing arrives twice. */
static void test_a_put_without_room_is_repeated(void **state)
{
	static char source[PIECES], target[PIECES];

	(void)state;
	for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_COPY_BASED; mode++) {
		const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = mode, .depth = 2};
		struct oriel_p2p_buffer f = buffer(source, PIECES, NULL),
					t = buffer(target, PIECES, NULL);
		struct oriel_p2p_request out, in, said, heard;
		struct mock m;
		char word[8] = "";

		mock_open(&m, ORIEL_P2P_MOCK_IN_ORDER, 0, &attr);
		fill(f.address, PIECES, mode);
		memset(t.address, 0, PIECES);
		oriel_p2p_mock_fill_queue(m.mock, 0, 3);
		oriel_p2p_mock_fill_queue(m.mock, 1, 3);
		assert_int_equal(oriel_p2p_recv(m.b, 0, &t, &in), ORIEL_OK);
		assert_int_equal(oriel_p2p_send(m.a, 0, &f, &out), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv_control(m.b, 0, word, 8, &heard), ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(m.a, 0, "word", 5, &said), ORIEL_OK);
		for (unsigned i = 0; in.status == ORIEL_AGAIN || out.status == ORIEL_AGAIN; i++) {
			assert_true(i < TURNS);
			mock_turn(&m);
			/* Then all of it has arrived, whether the sender knows or not. */
			if (in.status == ORIEL_OK)
				assert_memory_equal(t.address, f.address, PIECES);
			oriel_p2p_mock_fill_queue(m.mock, 0, 1);
			oriel_p2p_mock_fill_queue(m.mock, 1, i % 3);
		}
		assert_memory_equal(t.address, f.address, PIECES);
		assert_int_equal(mock_wait(&m, &heard), ORIEL_OK);
		assert_string_equal(word, "word");
		assert_int_equal(mock_wait(&m, &said), ORIEL_OK);
		oriel_p2p_mock_destroy(m.mock);
	}
}

/* The last piece of a transfer has the immediate: it waits for a piece that found no room. */
static void test_the_last_piece_arrives_last(void **state)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr), .mode = ORIEL_P2P_ZERO_COPY};
	static char source[PIECES], target[PIECES];
	struct oriel_p2p_buffer f = buffer(source, PIECES, NULL), t = buffer(target, PIECES, NULL);
	struct oriel_p2p_request out, in;
	struct oriel_p2p_mock_event event;
	struct mock m;

	(void)state;
	mock_open(&m, ORIEL_P2P_MOCK_MANUAL, 0, &attr);
	assert_int_equal(oriel_p2p_recv(m.b, 0, &t, &in), ORIEL_OK);
	assert_int_equal(oriel_p2p_mock_deliver(m.mock, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(m.a, 0, &f, &out), ORIEL_OK);
	oriel_p2p_mock_fill_queue(m.mock, 0, 1);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(oriel_p2p_progress(m.a), ORIEL_OK);
	assert_int_equal(oriel_p2p_mock_count(m.mock), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(oriel_p2p_mock_peek(m.mock, i, &event), ORIEL_OK);
		assert_int_equal(event.has_immediate, i == 2);
	}
	oriel_p2p_mock_destroy(m.mock);
}

/* After each number of deliveries: the link of one endpoint fails, and then both are broken. */
static void test_a_link_may_fail_at_any_time(void **state)
{
	static const struct oriel_p2p_buffer none;

	(void)state;
	for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_COPY_BASED; mode++) {
		for (unsigned when = 0; when < 40; when++) {
			const struct oriel_p2p_attr attr = {.size = sizeof(attr),
							    .mode = mode,
							    .depth = 3};
			struct oriel_p2p_buffer f = buffer(from[0][0], LONG, NULL),
						t = buffer(to[0][0], LONG, NULL);
			struct oriel_p2p_request r[4], late;
			struct mock m;
			char word[8];

			mock_open(&m, ORIEL_P2P_MOCK_MANUAL, when, &attr);
			assert_int_equal(oriel_p2p_send(m.a, 0, &f, &r[0]), ORIEL_OK);
			assert_int_equal(oriel_p2p_recv(m.b, 0, &t, &r[1]), ORIEL_OK);
			assert_int_equal(oriel_p2p_recv_control(m.a, 0, word, 8, &r[2]), ORIEL_OK);
			assert_int_equal(oriel_p2p_recv(m.a, 0, &t, &r[3]), ORIEL_OK);
			for (unsigned i = 0; i < when; i++) {
				(void)deliver_last_of(&m, i & 1);
				mock_turn(&m);
			}
			oriel_p2p_mock_fail(m.mock, when & 1, ORIEL_ERR_ACCESS);
			for (unsigned k = 0; k < 4; k++)
				(void)mock_wait(&m, &r[k]);
			assert_int_equal(r[2].status, when & 1 ? ORIEL_ERR_PEER : ORIEL_ERR_ACCESS);
			assert_int_equal(r[3].status, r[2].status);
			assert_int_equal(oriel_p2p_check(m.a), r[2].status);
			assert_true(oriel_p2p_check(m.b) < 0);
			assert_true(oriel_p2p_send(m.a, 0, &none, &late) < 0);
			mock_destroy(&m);
		}
	}
}

/* Immediates carry 16 bits of a lap: here they wrap, with a message in each lap. */
static void test_laps_wrap(void **state)
{
	static const unsigned modes[] = {ORIEL_P2P_ZERO_COPY, ORIEL_P2P_COPY_BASED};

	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		const struct oriel_p2p_attr attr = {.size = sizeof(attr),
						    .mode = modes[k],
						    .depth = 1};
		uint32_t sent = 0, got = 0;
		struct oriel_p2p_buffer f = buffer(&sent, sizeof(sent), NULL),
					t = buffer(&got, sizeof(got), NULL);
		struct mock m;

		mock_open(&m, ORIEL_P2P_MOCK_IN_ORDER, 0, &attr);
		for (sent = 1; sent < 66000; sent++) {
			struct oriel_p2p_request out, in;

			assert_int_equal(oriel_p2p_send(m.a, 0, &f, &out), ORIEL_OK);
			assert_int_equal(oriel_p2p_recv(m.b, 0, &t, &in), ORIEL_OK);
			assert_int_equal(mock_wait(&m, &in), ORIEL_OK);
			assert_int_equal(mock_wait(&m, &out), ORIEL_OK);
			assert_int_equal(got, sent);
		}
		oriel_p2p_mock_destroy(m.mock);
	}
}

/* Hooks that take three turns for each chunk, and invert all bits. */
struct slow {
	unsigned calls, limit;
};

static enum oriel_status slow_copy(struct slow *s, char *target, const char *source, size_t length)
{
	if (++s->calls == s->limit)
		return ORIEL_ERR_SYSTEM;
	if (s->calls % 3)
		return ORIEL_AGAIN;
	for (size_t i = 0; i < length; i++)
		target[i] = (char)~source[i];
	return ORIEL_OK;
}

static enum oriel_status slow_pack(void *context, const struct oriel_p2p_chunk *chunk)
{
	assert_int_equal(chunk->offset, (uint64_t)chunk->index * CHUNK * 4);
	assert_ptr_equal(chunk->user, context);
	return slow_copy(context, chunk->slot, chunk->buffer, chunk->length);
}

static enum oriel_status slow_unpack(void *context, const struct oriel_p2p_chunk *chunk)
{
	return slow_copy(context, chunk->buffer, chunk->slot, chunk->length);
}

static const struct oriel_p2p_hooks slow_hooks = {sizeof(slow_hooks), slow_pack, slow_unpack, NULL};
static const struct oriel_p2p_hooks slow_half = {sizeof(slow_half), slow_pack, NULL, NULL};

static const struct oriel_p2p_hooks slow_turned = {sizeof(slow_turned), NULL, slow_unpack, NULL};

static void hooks_are_called(const struct oriel_p2p_hooks *hooks, bool is_turned, unsigned limit)
{
	struct slow slow = {.limit = limit};
	const struct oriel_p2p_attr endpoints = {.size = sizeof(endpoints),
						 .mode = ORIEL_P2P_COPY_BASED,
						 .hooks = hooks,
						 .context = &slow};
	const struct oriel_p2p_context_attr context = {.size = sizeof(context), .chunk = 4 * CHUNK};
	const struct oriel_p2p_mock_attr attr = {.size = sizeof(attr),
						 .context = &context,
						 .endpoints = &endpoints};
	struct oriel_p2p_buffer f = buffer(from[0][0], LONG, NULL),
				t = buffer(to[0][0], LONG, NULL);
	struct oriel_p2p_request out = {.user = &slow}, in;
	struct mock m;

	assert_int_equal(oriel_p2p_mock_create(&attr, &m.mock), ORIEL_OK);
	m.a = oriel_p2p_mock_endpoint(m.mock, 0);
	m.b = oriel_p2p_mock_endpoint(m.mock, 1);
	fill(f.address, LONG, 3);
	(void)oriel_p2p_recv(m.b, 0, &t, &in);
	(void)oriel_p2p_send(m.a, 0, &f, &out);
	if (limit) {
		assert_int_equal(mock_wait(&m, &out), ORIEL_ERR_SYSTEM);
		assert_true(mock_wait(&m, &in) < 0);
	} else {
		assert_int_equal(mock_wait(&m, &out), ORIEL_OK);
		assert_int_equal(mock_wait(&m, &in), ORIEL_OK);
		for (unsigned i = 0; i < LONG; i++)
			assert_int_equal((uint8_t)to[0][0][0][i],
					 (uint8_t)(is_turned ? ~from[0][0][0][i]
							     : from[0][0][0][i]));
	}
	oriel_p2p_mock_destroy(m.mock);
}

static void test_hooks_pack_and_unpack(void **state)
{
	(void)state;
	hooks_are_called(&slow_hooks, false, 0);
	hooks_are_called(&slow_half, true, 0);
	hooks_are_called(&slow_half, true, 7);
}

/* Data that has arrived is taken out of its slots before the endpoint breaks. */
static void test_data_that_arrived_survives_the_link(void **state)
{
	struct slow slow = {0};
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = ORIEL_P2P_COPY_BASED,
					    .hooks = &slow_turned,
					    .context = &slow};
	struct oriel_p2p_buffer f = buffer(from[0][0], 3000, NULL),
				t = buffer(to[0][0], 3000, NULL);
	struct oriel_p2p_request out, in[2];
	struct mock m;

	(void)state;
	mock_open(&m, ORIEL_P2P_MOCK_MANUAL, 0, &attr);
	fill(f.address, 3000, 5);
	assert_int_equal(oriel_p2p_recv(m.b, 0, &t, &in[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(m.b, 0, &t, &in[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(m.a, 0, &f, &out), ORIEL_OK);
	for (unsigned i = 0; i < 10; i++) {
		(void)oriel_p2p_progress(m.a);
		while (oriel_p2p_mock_count(m.mock))
			assert_int_equal(oriel_p2p_mock_deliver(m.mock, 0), ORIEL_OK);
	}
	oriel_p2p_mock_fail(m.mock, 1, ORIEL_ERR_PEER);
	for (unsigned i = 0; i < 10; i++)
		(void)oriel_p2p_progress(m.b);
	assert_int_equal(in[0].status, ORIEL_OK);
	for (unsigned i = 0; i < 3000; i++)
		assert_int_equal((uint8_t)to[0][0][0][i], (uint8_t)~from[0][0][0][i]);
	assert_int_equal(in[1].status, ORIEL_ERR_PEER);
	assert_int_equal(oriel_p2p_check(m.b), ORIEL_ERR_PEER);
	oriel_p2p_mock_destroy(m.mock);
}

/* An endpoint gets an immediate or a word that no peer may write: it breaks, with @text. */
static void peer_writes(uint32_t immediate, unsigned word, uint64_t value, const char *text)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = ORIEL_P2P_COPY_BASED,
					    .channels = 2,
					    .depth = 2};
	struct oriel_p2p_buffer f = buffer(from[0][0], 100, NULL), t = buffer(to[0][0], 100, NULL);
	struct oriel_p2p_request r[3];
	struct mock m;

	mock_open(&m, ORIEL_P2P_MOCK_MANUAL, 0, &attr);
	assert_int_equal(oriel_p2p_send(m.a, 0, &f, &r[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(m.a, 1, &t, &r[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_send_control(m.a, 0, "x", 1, &r[2]), ORIEL_OK);
	assert_int_equal(oriel_p2p_send_control(m.a, 0, "y", 1, &r[2]), ORIEL_OK);
	m.a->segment->remote_control.words[word] = value;
	if (immediate)
		ori_p2p_mock_write_imm(m.mock, 0, immediate);
	/* Cells are counted only where something is to be sent. */
	(void)oriel_p2p_send_control(m.a, 0, "z", 1, &r[2]);
	assert_int_equal(oriel_p2p_progress(m.a), ORIEL_ERR_PROTOCOL);
	assert_non_null(strstr(oriel_last_error(), text));
	assert_int_equal(r[0].status, ORIEL_ERR_PROTOCOL);
	assert_int_equal(r[1].status, ORIEL_ERR_PROTOCOL);
	oriel_p2p_mock_destroy(m.mock);
}

static void test_an_invalid_immediate_breaks_the_endpoint(void **state)
{
	const unsigned quiet = P2P_WORD_SENDS + 1, credit = P2P_WORD_CREDIT;

	(void)state;
	peer_writes(p2p_immediate(P2P_IMM_UNIT, 1, 0, 2), quiet, 0, "lap 2");
	peer_writes(p2p_immediate(P2P_IMM_UNIT, 1, 1, 1), quiet, 0, "slot 1");
	peer_writes(p2p_immediate(P2P_IMM_UNIT, 0, 0, 1), quiet, 0, "channel 0");
	peer_writes(p2p_immediate(P2P_IMM_UNIT, 2, 0, 1), quiet, 0, "channel 2");
	peer_writes(p2p_immediate(P2P_IMM_UNIT, 1, 2, 1), quiet, 0, "slot 2");
	peer_writes(p2p_immediate(P2P_IMM_OFFER, 0, 0, 1), quiet, 0, "offers");
	peer_writes(p2p_immediate(P2P_IMM_OFFER, 2, 0, 1), quiet, 0, "channel 2");
	peer_writes(p2p_immediate(P2P_IMM_CELL, 0, P2P_CELLS, 1), quiet, 0, "cell 32");
	peer_writes(p2p_immediate(P2P_IMM_CELL, 1, 0, 1), quiet, 0, "cell 0");
	peer_writes(p2p_immediate(P2P_IMM_CELL, 0, 1, 2), quiet, 0, "lap 2");
	peer_writes(3u << 30, quiet, 0, "0xc0000000");
	peer_writes(0, credit, p2p_credit(1, P2P_STAGED, 24), "credit");
	peer_writes(0, credit, p2p_credit(1, P2P_DIRECT, 0), "credit");
	peer_writes(0, P2P_WORD_CELLS, 100, "more cells than were sent");
}

static void test_invalid_scripts_are_rejected(void **state)
{
	struct oriel_p2p_mock_attr attr = {.size = sizeof(attr), .order = 3};
	const struct oriel_p2p_attr endpoints = {.size = sizeof(endpoints),
						 .mode = ORIEL_P2P_COPY_BASED};
	struct oriel_p2p_buffer f = buffer(from[0][0], LONG, NULL);
	struct oriel_p2p_mock_event event;
	struct oriel_p2p_request r[2];
	struct mock m;

	(void)state;
	assert_int_equal(oriel_p2p_mock_create(&attr, &m.mock), ORIEL_ERR_INVALID);
	mock_open(&m, ORIEL_P2P_MOCK_MANUAL, 0, &endpoints);
	assert_int_equal(oriel_p2p_send(m.a, 0, &f, &r[0]), ORIEL_OK);
	assert_int_equal(oriel_p2p_send_control(m.a, 0, "x", 1, &r[1]), ORIEL_OK);
	assert_int_equal(oriel_p2p_mock_count(m.mock), 2);
	assert_int_equal(oriel_p2p_mock_peek(m.mock, 1, &event), ORIEL_OK);
	assert_true(event.has_immediate && !event.may_arrive);
	assert_int_equal(oriel_p2p_mock_deliver(m.mock, 1), ORIEL_ERR_STATE);
	assert_int_equal(oriel_p2p_mock_deliver(m.mock, 2), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_p2p_mock_peek(m.mock, 2, &event), ORIEL_ERR_RANGE);
	assert_int_equal(oriel_p2p_mock_deliver(m.mock, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_mock_deliver(m.mock, 0), ORIEL_OK);
	oriel_p2p_mock_destroy(m.mock);
	assert_int_equal(r[0].status, ORIEL_ERR_ABORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_requests_end_in_any_order_of_arrival),
		cmocka_unit_test(test_credits_may_arrive_out_of_order),
		cmocka_unit_test(test_an_earlier_count_does_not_arrive_last),
		cmocka_unit_test(test_either_side_may_pause),
#ifndef NDEBUG
		cmocka_unit_test(test_a_second_thread_in_an_endpoint_is_reported),
#endif
		cmocka_unit_test(test_a_send_is_done_when_the_link_says_so),
		cmocka_unit_test(test_a_put_without_room_is_repeated),
		cmocka_unit_test(test_the_last_piece_arrives_last),
		cmocka_unit_test(test_a_link_may_fail_at_any_time),
		cmocka_unit_test(test_laps_wrap),
		cmocka_unit_test(test_hooks_pack_and_unpack),
		cmocka_unit_test(test_data_that_arrived_survives_the_link),
		cmocka_unit_test(test_an_invalid_immediate_breaks_the_endpoint),
		cmocka_unit_test(test_invalid_scripts_are_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
