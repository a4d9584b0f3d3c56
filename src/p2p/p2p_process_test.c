/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p2p_process_test [rdma
 * nodes NETNS HCA NETNS HCA [lossy
 * cut COMMAND]]: endpoints of two processes, the transfers between them, and what happens
 * when one of them is killed. rdma: not through memory. nodes: over libibverbs, and each
 * in a network namespace of its own. lossy: no process is killed. cut: only what happens
 * when COMMAND cuts the cable between the HCAs.
 */
#include "p2p/pair_of_processes_test.h"

#include "p2p/p2p_context.h"
#include "rdma/rdma.h"

#include <stdatomic.h>

#define ROUNDS 20u
#define WORDS 40u

static const char *cut_command;

/*
 * Steps that the child makes before it stops; -1: it echoes; INSIDE and below: it exits within its
 * hook, after so many more calls; but for STOPS_INSIDE it only stops there.
 */
#define INSIDE (-2)
#define STOPS_INSIDE (-1000)
/* The child loses the memory of a receive, and exits later, or lives on. */
#define LOSES_MEMORY 1000000
#define LIVES_ON 1000001

static unsigned calls_left; /* of hooks of the child */
static int last_signal = SIGKILL;

static enum oriel_status dying_pack(void *context, const struct oriel_p2p_chunk *chunk)
{
	(void)context;
	memcpy(chunk->slot, chunk->buffer, chunk->length / 2);
	if (calls_left-- == 0)
		raise(last_signal);
	memcpy(chunk->slot, chunk->buffer, chunk->length);
	return ORIEL_OK;
}

static enum oriel_status dying_unpack(void *context, const struct oriel_p2p_chunk *chunk)
{
	(void)context;
	if (calls_left-- == 0)
		raise(last_signal);
	memcpy(chunk->buffer, chunk->slot, chunk->length);
	return ORIEL_OK;
}

static const struct oriel_p2p_hooks dying_hooks = {sizeof(dying_hooks), dying_pack, dying_unpack,
						   NULL};

/* Send back what arrives, inverted, until the parent has left. */
static void child_echo(struct party *t)
{
	struct oriel_p2p_request in, out, word;
	char length[8];

	for (;;) {
		struct oriel_p2p_buffer b;
		uint64_t n;

		if (oriel_p2p_recv_control(t->p2p, 7, length, 8, &word) != ORIEL_OK ||
		    oriel_p2p_wait(t->p2p, &word, 0) != ORIEL_OK)
			return;
		memcpy(&n, length, sizeof(n));
		b = part(t, 0, n);
		/* The cable may be cut. */
		if (oriel_p2p_recv(t->p2p, 1, &b, &in) != ORIEL_OK ||
		    oriel_p2p_wait(t->p2p, &in, 0) != ORIEL_OK)
			return;
		for (uint64_t i = 0; i < n; i++)
			t->memory[LENGTH + i] = (char)~t->memory[i];
		b = part(t, 1, n);
		if (oriel_p2p_send(t->p2p, 0, &b, &out) != ORIEL_OK)
			return;
		/*
		 * The parent may have exited once it has all bytes, before its last report
		 * arrives.
		 */
		(void)oriel_p2p_wait(t->p2p, &out, 0);
	}
}

/* All kinds of requests, under way in both directions. */
struct bustle {
	struct oriel_p2p_request in[2], out[2], said[WORDS], heard[WORDS];
};

static void bustle_begin(struct party *t, struct bustle *b)
{
	static char words[WORDS][4096];

	for (unsigned c = 0; c < 2; c++) {
		struct oriel_p2p_buffer out = part(t, 1, LENGTH), in = part(t, 0, LENGTH);

		assert_int_equal(oriel_p2p_send(t->p2p, c, &out, &b->out[c]), ORIEL_OK);
		assert_int_equal(oriel_p2p_recv(t->p2p, c, &in, &b->in[c]), ORIEL_OK);
	}
	for (unsigned i = 0; i < WORDS; i++) {
		assert_int_equal(oriel_p2p_send_control(t->p2p, i, words[i], 4096, &b->said[i]),
				 ORIEL_OK);
		assert_int_equal(oriel_p2p_recv_control(t->p2p, WORDS - i, words[i], 4096,
							&b->heard[i]),
				 ORIEL_OK);
	}
}

/* The child stops here: its peer then sees a process that exists and does nothing. */
static void child_stop(struct party *t)
{
	struct bustle bustle;
	char byte = 0;

	if (t->job.steps > 0)
		bustle_begin(t, &bustle);
	for (int i = 1; i < t->job.steps; i++) {
		(void)oriel_p2p_progress(t->p2p);
		sched_yield();
	}
	(void)!send(t->fd, &byte, 1, MSG_NOSIGNAL);
	for (;;)
		pause();
}

/* The child exits within a call, while it may write to memory of the parent. */
static void child_exit_inside(struct party *t)
{
	struct bustle bustle;

	calls_left = (unsigned)(INSIDE - t->job.steps);
	if (t->job.steps == STOPS_INSIDE) {
		calls_left = 3;
		last_signal = SIGSTOP;
	}
	bustle_begin(t, &bustle);
	for (;;)
		(void)oriel_p2p_progress(t->p2p);
}

/*
 * The memory of a receive is registered no more, so that a NIC rejects what the peer writes: so the
 * kernel leaves, for a while, a process that it has killed.
 */
static void child_lose_memory(struct party *t)
{
	struct oriel_p2p_buffer b = part(t, 0, LENGTH);
	struct oriel_p2p_request in;
	char byte = 0;

	assert_int_equal(oriel_p2p_register(t->ctx, b.address, LENGTH, 0, &b.memory), ORIEL_OK);
	assert_int_equal(oriel_p2p_recv(t->p2p, 0, &b, &in), ORIEL_OK);
	while (oriel_p2p_check(t->p2p) == ORIEL_AGAIN)
		assert_int_equal(oriel_p2p_progress(t->p2p), ORIEL_OK);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(oriel_p2p_progress(t->p2p), ORIEL_OK);
	/* Beneath the public call, which refuses that while the receive is under way. */
	ori_rdma_unregister(t->ctx->rdma, b.memory->mr);
	(void)!send(t->fd, &byte, 1, MSG_NOSIGNAL);
	(void)!recv(t->fd, &byte, 1, 0);
	usleep(200000);
	if (t->job.steps == LOSES_MEMORY)
		raise(SIGKILL);
	(void)!recv(t->fd, &byte, 1, 0);
	_exit(0);
}

static int child_main(char **argv)
{
	struct party t;

	party_of_child(&t, argv);
	if (t.job.steps <= INSIDE)
		t.hooks = &dying_hooks;
	party_open(&t);
	if (t.job.steps >= LOSES_MEMORY)
		child_lose_memory(&t);
	if (t.job.steps >= 0)
		child_stop(&t);
	if (t.job.steps <= INSIDE)
		child_exit_inside(&t);
	child_echo(&t);
	party_close(&t);
	return 0;
}

static void echoes_come_back(enum route route, unsigned mode)
{
	static const uint64_t few[] = {1, 48, 49, 512, 513, 4096, 4097};
	const unsigned fews = sizeof(few) / sizeof(few[0]);
	struct oriel_p2p_request in, out, word;
	struct party t;

	party_start(&t, &(struct job){route, mode, -1, 2, 0, 0});
	for (unsigned i = 0; i < ROUNDS + 3 * fews; i++) {
		uint64_t n =
			i < ROUNDS ? 1 + (uint64_t)(LENGTH - 1) / ROUNDS * (i + 1) : few[i % fews];
		struct oriel_p2p_buffer to = part(&t, 0, n), from = part(&t, 1, n);

		for (uint64_t k = 0; k < n; k++)
			t.memory[LENGTH + k] = (char)(k * 31 + k / 251 + i);
		assert_int_equal(oriel_p2p_recv(t.p2p, 0, &to, &in), ORIEL_OK);
		assert_int_equal(oriel_p2p_send(t.p2p, 1, &from, &out), ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(t.p2p, 7, &n, sizeof(n), &word), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(t.p2p, &in, 0), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(t.p2p, &out, 0), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(t.p2p, &word, 0), ORIEL_OK);
		for (uint64_t k = 0; k < n; k++)
			if (t.memory[k] != (char)~t.memory[LENGTH + k])
				fail_msg("byte %llu of %llu", (unsigned long long)k,
					 (unsigned long long)n);
	}
	assert_int_equal(oriel_p2p_drain(t.p2p, 0), ORIEL_OK);
	party_close(&t);
	party_join(&t, false);
}

static void test_echoes_come_back(void **state)
{
	(void)state;
	for (unsigned i = first_route; i < ROUTES; i++)
		for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_COPY_BASED; mode++)
			echoes_come_back(i, mode);
}

static atomic_uint waits_timed_out;

/* The text of a peer whose wait lasted to the end of its timeout. */
static void listen_for_waits(void *context, enum oriel_log_level level, const char *message)
{
	(void)context;
	(void)level;
	if (strstr(message, "in time") || strstr(message, "within") ||
	    strstr(message, "not done after"))
		atomic_fetch_add(&waits_timed_out, 1);
}

static void listen_begin(void)
{
	atomic_store(&waits_timed_out, 0);
	oriel_log_set_sink(listen_for_waits, NULL);
}

static void listen_end(void)
{
	oriel_log_set_sink(NULL, NULL);
	assert_int_equal(atomic_load(&waits_timed_out), 0);
}

/* A request that was under way with a killed peer: done, or its end by the peer; true for that. */
static bool ended_by_peer(struct party *t, struct oriel_p2p_request *request, const char *what)
{
	enum oriel_status status = oriel_p2p_wait(t->p2p, request, 0);

	if (status != ORIEL_OK && status != ORIEL_ERR_PEER)
		fail_msg("%s, mode %u, %d steps: %s: %s", what, t->job.mode, t->job.steps,
			 oriel_status_name(status), oriel_last_error());
	return status == ORIEL_ERR_PEER;
}

/* At whichever step the child was killed, all requests here end, and none by its timeout. */
static void killed_peers_are_noticed(enum route route, unsigned mode, int steps)
{
	struct bustle bustle;
	struct party t;
	unsigned lost = 0;
	char byte;

	party_start(&t, &(struct job){route, mode, steps, 2, 0, 0});
	bustle_begin(&t, &bustle);
	/* The child needs progress of this endpoint for its steps to advance. */
	while (recv(t.fd, &byte, 1, MSG_DONTWAIT) != 1) {
		if (oriel_p2p_progress(t.p2p) != ORIEL_OK)
			fail_msg("way %d, mode %u, %d steps: %s", route, mode, steps,
				 oriel_last_error());
		sched_yield();
	}
	for (int i = 0; i < steps; i++)
		if (oriel_p2p_progress(t.p2p) != ORIEL_OK)
			fail_msg("way %d, mode %u, %d steps: %s", route, mode, steps,
				 oriel_last_error());
	listen_begin();
	assert_int_equal(kill(t.child, SIGKILL), 0);
	party_join(&t, true);
	for (unsigned i = 0; i < 2; i++) {
		lost += ended_by_peer(&t, &bustle.out[i], "send");
		lost += ended_by_peer(&t, &bustle.in[i], "recv");
	}
	for (unsigned i = 0; i < WORDS; i++) {
		(void)ended_by_peer(&t, &bustle.said[i], "send_control");
		lost += ended_by_peer(&t, &bustle.heard[i], "recv_control");
	}
	/* heard[0] has a tag that is never sent. */
	assert_true(lost > 0);
	assert_int_equal(oriel_p2p_check(t.p2p), ORIEL_ERR_PEER);
	party_close(&t);
	listen_end();
}

static void test_a_killed_peer_ends_every_request(void **state)
{
	static const int steps[] = {1, 2, 3, 4, 6, 10, 20, 50, 200, 1000};

	(void)state;
	for (unsigned i = first_route; i < ROUTES; i++)
		for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_COPY_BASED; mode++)
			for (unsigned k = 0; k < sizeof(steps) / sizeof(steps[0]); k++)
				killed_peers_are_noticed(i, mode, steps[k]);
}

/* A killed peer that has set busy never clears it: no wait depends on that. */
static void peer_exits_inside(enum route route, int calls)
{
	struct bustle bustle;
	struct party t;

	party_start(&t, &(struct job){route, ORIEL_P2P_COPY_BASED, INSIDE - calls, 2, 0, 0});
	listen_begin();
	bustle_begin(&t, &bustle);
	while (oriel_p2p_progress(t.p2p) == ORIEL_OK)
		sched_yield();
	assert_int_equal(oriel_p2p_check(t.p2p), ORIEL_ERR_PEER);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(bustle.out[i].status == ORIEL_OK ||
			    bustle.out[i].status == ORIEL_ERR_PEER);
		assert_true(bustle.in[i].status == ORIEL_OK ||
			    bustle.in[i].status == ORIEL_ERR_PEER);
	}
	assert_int_equal(bustle.heard[0].status, ORIEL_ERR_PEER);
	party_close(&t);
	listen_end();
	party_join(&t, true);
}

static void test_a_peer_that_exits_inside_a_hook_is_noticed(void **state)
{
	/* 128 chunks of each transfer are packed, and as many unpacked. */
	static const int calls[] = {0, 3, 17, 150};

	(void)state;
	for (unsigned i = first_route; i < ROUTES; i++)
		for (unsigned k = 0; k < sizeof(calls) / sizeof(calls[0]); k++)
			peer_exits_inside(i, calls[k]);
}

/*
 * A peer that stands still within a write may go on with it: its memory is not given back before,
 * and the endpoint is there until then.
 */
static void test_no_endpoint_ends_under_a_write(void **state)
{
	struct bustle bustle;
	struct party t;
	int status;

	(void)state;
	if (first_route != ROUTE_MAPPED)
		return;
	party_start(&t, &(struct job){ROUTE_MAPPED, ORIEL_P2P_COPY_BASED, STOPS_INSIDE, 2, 0,
				      100000000});
	bustle_begin(&t, &bustle);
	while (waitpid(t.child, &status, WUNTRACED | WNOHANG) == 0) {
		assert_int_equal(oriel_p2p_progress(t.p2p), ORIEL_OK);
		sched_yield();
	}
	assert_true(WIFSTOPPED(status));
	assert_int_equal(oriel_p2p_destroy(t.p2p), ORIEL_ERR_TIMEOUT);
	assert_non_null(strstr(oriel_last_error(), "is within a write to memory here"));
	assert_int_equal(bustle.heard[0].status, ORIEL_AGAIN);
	assert_int_equal(oriel_p2p_wait(t.p2p, &bustle.heard[0], 1000000), ORIEL_ERR_TIMEOUT);
	assert_int_equal(oriel_p2p_check(t.p2p), ORIEL_ERR_ABORTED);
	assert_int_equal(kill(t.child, SIGCONT), 0);
	assert_int_equal(oriel_p2p_wait(t.p2p, &bustle.heard[0], TIMEOUT_NS), ORIEL_ERR_ABORTED);
	assert_int_equal(oriel_p2p_destroy(t.p2p), ORIEL_OK);
	t.p2p = NULL;
	party_close(&t);
	assert_int_equal(kill(t.child, SIGKILL), 0);
	party_join(&t, true);
}

static void request_is_rejected(enum route route, int steps, enum oriel_status expected)
{
	struct oriel_p2p_buffer from;
	struct oriel_p2p_request out;
	struct party t;
	char byte = 0;

	party_start(&t, &(struct job){.route = route,
				      .mode = ORIEL_P2P_ZERO_COPY,
				      .steps = steps,
				      .channels = 2,
				      .timeout_ns = steps == LIVES_ON ? 1000000000u : 0});
	while (recv(t.fd, &byte, 1, MSG_DONTWAIT) != 1)
		assert_int_equal(oriel_p2p_progress(t.p2p), ORIEL_OK);
	assert_int_equal(send(t.fd, &byte, 1, MSG_NOSIGNAL), 1);
	from = part(&t, 1, LENGTH);
	assert_int_equal(oriel_p2p_send(t.p2p, 0, &from, &out), ORIEL_OK);
	if (oriel_p2p_wait(t.p2p, &out, TIMEOUT_NS) != expected)
		fail_msg("way %d: %s: %s", route, oriel_status_name(out.status),
			 oriel_last_error());
	assert_non_null(strstr(oriel_last_error(),
			       expected == ORIEL_ERR_PEER ? "exited" : "remote access error"));
	party_close(&t);
	party_join(&t, steps == LOSES_MEMORY);
}

/*
 * A NIC rejects a request to memory that is not registered: so begins the exit of a process, which
 * then is the reason, or it is all that happened.
 */
static void test_a_rejected_request_may_be_an_exit(void **state)
{
	(void)state;
	/* Pinned memory stays: there test_a_killed_peer_ends_every_request meets it. */
	if (first_route == ROUTE_INTERNODE)
		skip();
	for (unsigned i = ROUTE_RDMA; i < ROUTES; i++) {
		request_is_rejected(i, LOSES_MEMORY, ORIEL_ERR_PEER);
		request_is_rejected(i, LIVES_ON, ORIEL_ERR_ACCESS);
	}
}

/* The peer has an address and exits before it has used the address of this endpoint. */
static void test_a_peer_that_exits_before_it_joins_is_noticed(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		struct oriel_p2p_request r;
		struct party t;
		char byte;

		party_start(&t, &(struct job){first_route + i % (ROUTES - first_route),
					      ORIEL_P2P_AUTO, 0, 2, 0, 0});
		assert_int_equal(recv(t.fd, &byte, 1, 0), 1);
		assert_int_equal(oriel_p2p_recv_control(t.p2p, 0, &byte, 1, &r), ORIEL_OK);
		for (unsigned k = 0; k < i; k++)
			assert_int_equal(oriel_p2p_progress(t.p2p), ORIEL_OK);
		assert_int_equal(kill(t.child, SIGKILL), 0);
		party_join(&t, true);
		assert_int_equal(oriel_p2p_wait(t.p2p, &r, 0), ORIEL_ERR_PEER);
		party_close(&t);
	}
}

/* Memory that the peer's process cannot map is named in the error, and works in auto mode. */
static void test_memory_that_cannot_be_mapped_is_named(void **state)
{
	static char data[LENGTH];
	struct oriel_p2p_buffer b = {data, LENGTH, NULL};
	struct oriel_p2p_request in, word;
	uint64_t n = LENGTH;
	struct party t;

	(void)state;
	if (first_route != ROUTE_MAPPED)
		skip();
	for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_ZERO_COPY; mode++) {
		struct oriel_p2p_buffer from;
		struct oriel_p2p_request out;
		struct oriel_p2p_memory *memory;

		party_start(&t, &(struct job){ROUTE_MAPPED, mode, -1, 2, 0, 0});
		assert_int_equal(oriel_p2p_register(t.ctx, data, LENGTH, 0, &memory), ORIEL_OK);
		b.memory = memory;
		from = part(&t, 1, LENGTH);
		assert_int_equal(oriel_p2p_recv(t.p2p, 0, &b, &in), ORIEL_OK);
		if (mode == ORIEL_P2P_AUTO) {
			assert_int_equal(oriel_p2p_send(t.p2p, 1, &from, &out), ORIEL_OK);
			assert_int_equal(oriel_p2p_send_control(t.p2p, 7, &n, sizeof(n), &word),
					 ORIEL_OK);
			assert_int_equal(oriel_p2p_wait(t.p2p, &in, 0), ORIEL_OK);
			assert_int_equal(oriel_p2p_wait(t.p2p, &out, 0), ORIEL_OK);
			assert_int_equal(data[LENGTH - 1], (char)~t.memory[2 * LENGTH - 1]);
		} else {
			assert_int_equal(oriel_p2p_wait(t.p2p, &in, 0), ORIEL_ERR_UNSUPPORTED);
			assert_non_null(strstr(oriel_last_error(), "oriel_memory_alloc"));
		}
		oriel_p2p_unregister(memory);
		party_close(&t);
		party_join(&t, false);
	}
}

#define PIECES 70u /* more than a peer has mapped at once */

/* Receive into @piece, of memory @m if it is registered. */
static void echo_into(struct party *t, char *piece, struct oriel_p2p_memory *m, unsigned seed)
{
	enum { SHORT = 50000 };
	struct oriel_p2p_buffer to = {piece, SHORT, m}, from = part(t, 1, SHORT);
	struct oriel_p2p_request in, out, word;
	uint64_t n = SHORT;

	memset(from.address, (int)seed, SHORT);
	memset(piece, (int)seed, SHORT);
	assert_int_equal(oriel_p2p_recv(t->p2p, 0, &to, &in), ORIEL_OK);
	assert_int_equal(oriel_p2p_send(t->p2p, 1, &from, &out), ORIEL_OK);
	assert_int_equal(oriel_p2p_send_control(t->p2p, 7, &n, sizeof(n), &word), ORIEL_OK);
	assert_int_equal(oriel_p2p_wait(t->p2p, &in, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_wait(t->p2p, &out, 0), ORIEL_OK);
	assert_int_equal(oriel_p2p_wait(t->p2p, &word, 0), ORIEL_OK);
	for (unsigned k = 0; k < SHORT; k++)
		assert_int_equal((uint8_t)piece[k], (uint8_t)~seed);
}

/*
 * Pieces that are not registered any more make room for others, also for memory at the
 * same address, which must not be taken for them. Without room auto mode stages.
 */
static void test_pieces_make_room_for_others(void **state)
{
	static struct oriel_p2p_memory *memory[PIECES];
	static void *pieces[PIECES];
	struct party t;

	(void)state;
	if (first_route != ROUTE_MAPPED)
		skip();
	for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_ZERO_COPY; mode++) {
		party_start(&t, &(struct job){ROUTE_MAPPED, mode, -1, 2, 0, 0});
		for (unsigned i = 0; i < 3 * PIECES; i++) {
			/* Every third is registered for its transfer alone, or staged. */
			assert_int_equal(oriel_memory_alloc(65536, 0, &pieces[0]), ORIEL_OK);
			if (i % 3)
				assert_int_equal(oriel_p2p_register(t.ctx, pieces[0], 65536, 0,
								    &memory[0]),
						 ORIEL_OK);
			echo_into(&t, pieces[0], i % 3 ? memory[0] : NULL, i);
			if (i % 3)
				oriel_p2p_unregister(memory[0]);
			oriel_memory_free(pieces[0]);
		}
		for (unsigned i = 0; i < PIECES && mode == ORIEL_P2P_AUTO; i++) {
			assert_int_equal(oriel_memory_alloc(65536, 0, &pieces[i]), ORIEL_OK);
			assert_int_equal(oriel_p2p_register(t.ctx, pieces[i], 65536, 0, &memory[i]),
					 ORIEL_OK);
		}
		for (unsigned i = 0; i < 2 * PIECES && mode == ORIEL_P2P_AUTO; i++)
			echo_into(&t, pieces[i % PIECES], memory[i % PIECES], i);
		for (unsigned i = 0; i < PIECES && mode == ORIEL_P2P_AUTO; i++) {
			oriel_p2p_unregister(memory[i]);
			oriel_memory_free(pieces[i]);
		}
		party_close(&t);
		party_join(&t, false);
	}
}

/* No frame arrives, also none that reports the cut: the links notice by themselves. */
static void links_that_are_cut(unsigned mode)
{
	struct oriel_p2p_request in, out;
	struct party t;

	party_start(&t, &(struct job){ROUTE_INTERNODE, mode, -1, 2, 0, 0});
	for (unsigned i = 0; i < 4; i++) {
		struct oriel_p2p_buffer to = part(&t, 0, LENGTH), from = part(&t, 1, LENGTH);
		uint64_t n = LENGTH;
		struct oriel_p2p_request word;

		assert_int_equal(oriel_p2p_recv(t.p2p, 0, &to, &in), ORIEL_OK);
		assert_int_equal(oriel_p2p_send(t.p2p, 1, &from, &out), ORIEL_OK);
		assert_int_equal(oriel_p2p_send_control(t.p2p, 7, &n, sizeof(n), &word), ORIEL_OK);
		if (i == 3)
			break;
		assert_int_equal(oriel_p2p_wait(t.p2p, &in, 0), ORIEL_OK);
		assert_int_equal(oriel_p2p_wait(t.p2p, &out, 0), ORIEL_OK);
	}
	assert_int_equal(setns(home, CLONE_NEWNET), 0);
	assert_int_equal(system(cut_command), 0);
	assert_int_equal(oriel_p2p_wait(t.p2p, &in, 0), ORIEL_ERR_PEER);
	assert_int_equal(oriel_p2p_check(t.p2p), ORIEL_ERR_PEER);
	assert_string_not_equal(oriel_last_error(), "");
	party_close(&t);
	/* The child learns it from its own link or from the parent, and exits in order. */
	party_join(&t, false);
}

static void test_a_cut_link_is_noticed(void **state)
{
	(void)state;
	links_that_are_cut(ORIEL_P2P_ZERO_COPY);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest cut[] = {cmocka_unit_test(test_a_cut_link_is_noticed)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_echoes_come_back),
		cmocka_unit_test(test_a_killed_peer_ends_every_request),
		cmocka_unit_test(test_a_peer_that_exits_inside_a_hook_is_noticed),
		cmocka_unit_test(test_no_endpoint_ends_under_a_write),
		cmocka_unit_test(test_a_rejected_request_may_be_an_exit),
		cmocka_unit_test(test_a_peer_that_exits_before_it_joins_is_noticed),
		cmocka_unit_test(test_memory_that_cannot_be_mapped_is_named),
		cmocka_unit_test(test_pieces_make_room_for_others),
	};

	if (is_child(argc, argv))
		return child_main(argv);
	routes_choose(argc, argv);
	if (argc == 7)
		cmocka_set_test_filter("test_echoes_*");
	if (argc == 8) {
		cut_command = argv[7];
		return cmocka_run_group_tests(cut, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
