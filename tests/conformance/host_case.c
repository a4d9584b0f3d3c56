/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a host thread: they have the same results, and each failure has a text. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void host_moves_bytes(struct rank *r)
{
	char block[5000], got[5000];
	uint64_t old = 9;

	fill(block, sizeof(block), r->rank);
	CHECK_OK(r, oriel_window_put(r->window, rank_next(r), 3, block, sizeof(block)));
	CHECK_OK(r, oriel_window_put_value(r->window, rank_next(r), 8000, 77));
	CHECK_OK(r, oriel_window_drain(r->window, 0));
	CHECK_OK(r, oriel_window_flush(r->window, 0));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_EQ(r, wrong(r->base + 3, sizeof(block), rank_prev(r)), 0);
	CHECK_EQ(r, *(uint64_t *)(void *)(r->base + 8000), 77);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_window_get(r->window, rank_next(r), 3, got, sizeof(got)));
	CHECK_EQ(r, wrong(got, sizeof(got), r->rank), 0);
	CHECK_OK(r, oriel_window_fetch_add(r->window, rank_next(r), 8000, 3, &old));
	CHECK_EQ(r, old, 77);
	CHECK_OK(r, oriel_window_put(r->window, rank_next(r), r->length, NULL, 0));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_EQ(r, *(uint64_t *)(void *)(r->base + 8000), 80);
}

static void host_signals_and_waits(struct rank *r)
{
	struct oriel_window *w = r->window;
	char block[100];
	uint64_t value = 0;

	fill(block, sizeof(block), r->rank);
	CHECK_OK(r, oriel_window_put_signal(w, rank_next(r), 1, block, sizeof(block), 0, 5));
	CHECK_OK(r, oriel_window_wait_signal_from(w, rank_prev(r), 0, ORIEL_GE, 5, 0));
	CHECK_EQ(r, wrong(r->base + 1, sizeof(block), rank_prev(r)), 0);
	CHECK_OK(r, oriel_window_signal(w, rank_next(r), 0, ORIEL_SIGNAL_ADD, 2));
	CHECK_OK(r, oriel_window_wait_signal_next(w, rank_prev(r), 0, 7, 0));
	CHECK_OK(r, oriel_window_signal_all(w, 1, ORIEL_SIGNAL_SET, 4));
	CHECK_OK(r, oriel_window_wait_signal(w, 1, ORIEL_EQ, 4 * (uint64_t)(r->size - 1), 0));
	CHECK_OK(r, oriel_window_read_signal(w, 1, &value));
	CHECK_EQ(r, value, 4 * (r->size - 1));
	CHECK_OK(r, oriel_window_read_signal_from(w, rank_prev(r), 0, &value));
	CHECK_EQ(r, value, 7);
}

static void host_counts_completed_puts(struct rank *r)
{
	struct oriel_window *w = r->window;
	unsigned next = rank_next(r);
	char block[100];
	uint64_t value = 0;

	fill(block, sizeof(block), r->rank);
	CHECK_OK(r, oriel_window_put_counter(w, next, 1, block, sizeof(block), 2));
	CHECK_OK(r, oriel_window_wait_counter(w, next, 2, ORIEL_EQ, 1, 0));
	CHECK_OK(r, oriel_window_put_signal_counter(w, next, 101, block, sizeof(block), 0, 3, 2));
	CHECK_OK(r, oriel_window_signal_counter(w, next, 0, 4, 2));
	CHECK_OK(r, oriel_window_wait_counter(w, next, 2, ORIEL_GE, 3, 0));
	CHECK_OK(r, oriel_window_wait_signal_from(w, rank_prev(r), 0, ORIEL_EQ, 7, 0));
	CHECK_EQ(r, wrong(r->base + 101, sizeof(block), rank_prev(r)), 0);
	CHECK_OK(r, oriel_window_read_counter(w, next, 2, &value));
	CHECK_EQ(r, value, 3);
	CHECK_OK(r, oriel_window_reset_counter(w, next, 2));
	CHECK_OK(r, oriel_window_read_counter(w, next, 2, &value));
	CHECK_EQ(r, value, 0);
	CHECK_STATUS(r, oriel_window_wait_counter(w, next, 2, ORIEL_NE, 0, 1), ORIEL_ERR_TIMEOUT);
	CHECK_STATUS(r, oriel_window_read_counter(w, next, 99, &value), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_window_put_counter(w, r->size, 0, block, 1, 2), ORIEL_ERR_RANGE);
}

static void host_drains_and_flushes_counters(struct rank *r)
{
	struct oriel_window *w = r->window;
	unsigned next = rank_next(r), i;
	uint64_t value;
	char byte = 1;

	for (i = 0; i < 12; i++) {
		CHECK_OK(r, oriel_window_put_counter(w, next, 0, &byte, 1, 2));
		CHECK_OK(r, oriel_window_put_signal_counter(w, next, 0, &byte, 1, 0, 1, 2));
		CHECK_OK(r, oriel_window_signal_counter(w, next, 0, 1, 2));
		CHECK_OK(r, i % 2 ? oriel_window_drain(w, 0) : oriel_window_flush(w, 0));
		CHECK_OK(r, oriel_window_read_counter(w, next, 2, &value));
		CHECK_EQ(r, value, 3);
		CHECK_OK(r, oriel_window_reset_counter(w, next, 2));
		CHECK_STATUS(r, oriel_window_wait_counter(w, next, 2, ORIEL_NE, 0, MOMENT_NS),
			     ORIEL_ERR_TIMEOUT);
	}
}

/* Twice the same phase: without the reset the second would fall through. */
static void host_resets_all_signals_and_bases(struct rank *r)
{
	uint64_t value = 1;
	int phase;

	for (phase = 0; phase < 3; phase++) {
		CHECK_STATUS(r, oriel_window_wait_signal_next(r->window, rank_prev(r), 63, 1, 1),
			     ORIEL_ERR_TIMEOUT);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		CHECK_OK(r, oriel_window_signal(r->window, rank_next(r), 63, ORIEL_SIGNAL_ADD, 8));
		CHECK_OK(r, oriel_window_wait_signal_next(r->window, rank_prev(r), 63, 8, 0));
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		CHECK_OK(r, oriel_window_reset_signals(r->window));
		CHECK_OK(r, oriel_window_read_signal(r->window, 63, &value));
		CHECK_EQ(r, value, 0);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
}

static void host_meets_at_barriers(struct rank *r)
{
	uint64_t round, seen;
	unsigned peer;

	for (round = 1; round <= 100; round++) {
		for (peer = 0; peer < r->size; peer++)
			CHECK_OK(r, oriel_window_put_value(r->window, peer, 8 * (size_t)r->rank,
							   round));
		/* Host and device barriers share the epochs. */
		CHECK_OK(r, round % 2 ? oriel_window_barrier(r->window, 1, 0)
				      : oriel_dev_barrier(&r->dev, r->group, 1, LONG_NS));
		for (peer = 0; peer < r->size; peer++) {
			seen = oriel_dev_load_relaxed((void *)(r->base + 8 * (size_t)peer));
			CHECK(r, seen == round || seen == round + 1);
		}
	}
}

#define PEER_SLOT 5u

/* Host and device halves share the epochs of a pair. */
static void host_meets_peers_by_halves(struct rank *r)
{
	unsigned peers[2] = {rank_next(r), rank_prev(r)};
	/* Two ranks are one pair. */
	unsigned count = r->size > 2 ? 2 : r->size - 1, i;
	uint64_t round, seen;

	for (round = 1; round <= 100; round++) {
		for (i = 0; i < count; i++) {
			CHECK_OK(r, oriel_window_put_value(r->window, peers[i], 8 * (size_t)r->rank,
							   round));
			CHECK_OK(r, round % 3
					    ? oriel_window_barrier_peer_arrive(r->window, peers[i],
									       PEER_SLOT)
					    : oriel_dev_barrier_peer_arrive(&r->dev, r->group,
									    peers[i], PEER_SLOT));
		}
		for (i = count; i-- > 0;) {
			CHECK_OK(r, round % 2 ? oriel_window_barrier_peer_wait(r->window, peers[i],
									       PEER_SLOT, 0)
					      : oriel_dev_barrier_peer_wait(&r->dev, r->group,
									    peers[i], PEER_SLOT,
									    LONG_NS));
			seen = oriel_dev_load_relaxed((void *)(r->base + 8 * (size_t)peers[i]));
			CHECK(r, seen == round || seen == round + 1);
		}
	}
}

#define LATE_SLOT 2u
#define LATE_TRIES 30000u

static enum oriel_status host_continue_pair(struct rank *r, bool waits)
{
	return waits ? oriel_window_barrier_peer_wait(r->window, 0, LATE_SLOT, MOMENT_NS)
		     : oriel_window_barrier_peer(r->window, 0, LATE_SLOT, MOMENT_NS);
}

/* Rank 0 arrives for rank 1 after that has timed out, by a call or by its second half. */
static void host_meets_a_late_peer(struct rank *r)
{
	enum oriel_status status;
	unsigned round, tries;

	for (round = 1; round <= 4 && r->rank < 2 && !r->failures; round++) {
		if (r->rank == 0) {
			CHECK_OK(r, oriel_window_wait_signal_from(r->window, 1, 0, ORIEL_GE, round,
								  0));
			CHECK_OK(r, oriel_window_put_value(r->window, 1, 0, round));
			CHECK_OK(r, oriel_window_barrier_peer(r->window, 1, LATE_SLOT, 0));
			continue;
		}
		if (round <= 2)
			CHECK_OK(r, oriel_window_barrier_peer_arrive(r->window, 0, LATE_SLOT));
		CHECK_STATUS(r, host_continue_pair(r, round <= 2), ORIEL_ERR_TIMEOUT);
		CHECK_TEXT(r, oriel_last_error(), "barrier_peer: window");
		CHECK_TEXT(r, oriel_last_error(), "rank 0 did not arrive at barrier slot 2");
		CHECK_STATUS(r, oriel_window_barrier_peer_arrive(r->window, 0, LATE_SLOT),
			     ORIEL_ERR_STATE);
		CHECK_TEXT(r, oriel_last_error(), "slot 2: the last arrival is still pending");
		CHECK_OK(r, oriel_window_signal(r->window, 0, 0, ORIEL_SIGNAL_ADD, 1));
		tries = 0;
		do
			status = host_continue_pair(r, round % 2);
		while (status == ORIEL_ERR_TIMEOUT && ++tries < LATE_TRIES);
		CHECK_OK(r, status);
		CHECK_EQ(r, oriel_dev_load_relaxed((void *)r->base), round);
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

static enum oriel_status host_continue(struct rank *r, bool waits)
{
	return waits ? oriel_window_barrier_wait(r->window, LATE_SLOT, MOMENT_NS)
		     : oriel_window_barrier(r->window, LATE_SLOT, MOMENT_NS);
}

/* Rank 0 enters @round after the timeouts of all others have passed twice. */
static void host_meets_a_late_rank(struct rank *r, uint64_t round, bool waits)
{
	enum oriel_status status;
	unsigned tries = 0;

	if (r->rank == 0) {
		CHECK_OK(r, oriel_window_wait_signal(r->window, 0, ORIEL_GE, round * (r->size - 1),
						     0));
		CHECK_OK(r, oriel_window_put_value(r->window, rank_next(r), 0, round));
		CHECK_OK(r, oriel_window_barrier(r->window, LATE_SLOT, 0));
		return;
	}
	CHECK_STATUS(r, oriel_window_barrier(r->window, LATE_SLOT, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CHECK_TEXT(r, oriel_last_error(), "barrier: window");
	CHECK_STATUS(r, oriel_window_barrier_arrive(r->window, LATE_SLOT), ORIEL_ERR_STATE);
	CHECK_TEXT(r, oriel_last_error(), "slot 2: the last arrival is still pending");
	CHECK_STATUS(r, host_continue(r, waits), ORIEL_ERR_TIMEOUT);
	CHECK_OK(r, oriel_window_signal(r->window, 0, 0, ORIEL_SIGNAL_ADD, 1));
	do
		status = host_continue(r, waits);
	while (status == ORIEL_ERR_TIMEOUT && ++tries < LATE_TRIES);
	CHECK_OK(r, status);
	if (r->rank == 1)
		CHECK_EQ(r, oriel_dev_load_relaxed((void *)r->base), round);
}

static void host_continues_after_its_timeout(struct rank *r)
{
	uint64_t round, seen;
	unsigned peer, i;

	for (round = 1; round <= 4 && !r->failures; round++) {
		host_meets_a_late_rank(r, round, round % 2);
		for (i = 0; i < 10; i++) {
			for (peer = 0; peer < r->size; peer++)
				CHECK_OK(r, oriel_window_put_value(r->window, peer,
								   8 + 8 * (size_t)r->rank,
								   10 * round + i));
			CHECK_OK(r, oriel_window_barrier_arrive(r->window, LATE_SLOT));
			CHECK_OK(r, oriel_window_barrier_wait(r->window, LATE_SLOT, 0));
			for (peer = 0; peer < r->size; peer++) {
				seen = oriel_dev_load_relaxed(
					(void *)(r->base + 8 + 8 * (size_t)peer));
				CHECK(r, seen == 10 * round + i || seen == 10 * round + i + 1);
			}
		}
	}
}

static void host_sends_and_receives(struct rank *r)
{
	char block[3000], got[3000];
	int i;

	for (i = 0; i < 20; i++) {
		fill(block, sizeof(block), r->rank + i);
		CHECK_OK(r, oriel_window_send(r->window, rank_next(r), 3, block, sizeof(block), 0));
		CHECK_OK(r, oriel_window_recv(r->window, rank_prev(r), 3, got, sizeof(got), 0));
		CHECK_EQ(r, wrong(got, sizeof(got), rank_prev(r) + i), 0);
	}
}

/* Each rank writes to 64 bytes of its own at every rank of its domain, and to no other. */
static void host_puts_to_the_domain(struct rank *r)
{
	size_t row = 1000 + 64 * (size_t)r->rank;
	unsigned form, peer;
	void *table[64];
	char *send;

	CHECK(r, r->size <= 64);
	send = malloc(64 * (size_t)r->size);
	for (form = 0; form < 3; form++) {
		memset(r->base + 1000, 0, 64 * (size_t)r->size);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		for (peer = 0; peer < r->size; peer++) {
			fill(send + 64 * (size_t)peer, 64, 100 * form + r->rank + peer);
			table[peer] = NULL;
			if (rank_is_mapped(r, r->rank, peer))
				CHECK_OK(r, oriel_window_peer_address(r->window, peer, row,
								      &table[peer]));
		}
		if (form == 0)
			CHECK_OK(r, oriel_window_put_all_domain(r->window, row, send, 64));
		else if (form == 1)
			CHECK_OK(r, oriel_window_put_each_domain(r->window, row, send, 64, 64));
		else
			CHECK_OK(r, oriel_window_put_table(r->window, table, send, 64, 64));
		CHECK_OK(r, oriel_window_barrier(r->window, 1, 0));
		for (peer = 0; peer < r->size; peer++) {
			const char *got = r->base + 1000 + 64 * (size_t)peer;

			if (rank_is_mapped(r, peer, r->rank))
				CHECK_EQ(r,
					 wrong(got, 64, 100 * form + peer + (form ? r->rank : 0)),
					 0);
			else
				CHECK(r, got[0] == 0 && memcmp(got, got + 1, 63) == 0);
		}
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
	CHECK_STATUS(r, oriel_window_put_table(r->window, NULL, send, 64, 64), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_put_all_domain(r->window, r->length, send, 64),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r,
		     oriel_window_put_table_on_stream(r->window, table, send, 64, 64, (void *)send),
		     ORIEL_ERR_INVALID);
	free(send);
}

static void host_failures_have_texts(struct rank *r)
{
	struct oriel_window *w = r->window;
	uint64_t value = 0;
	void *address;

	CHECK_STATUS(r, oriel_window_put(w, r->size, 0, "", 1), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "put: rank");
	CHECK_STATUS(r, oriel_window_put(w, 0, r->length, "", 1), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "65537");
	CHECK_TEXT(r, oriel_last_error(), "rank 0");
	CHECK_STATUS(r, oriel_window_put_value(w, 0, 4, 1), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "not aligned to 8 bytes");
	CHECK_STATUS(r, oriel_window_get(w, 0, oriel_at(3, 0), &value, 8), ORIEL_ERR_STATE);
	CHECK_TEXT(r, oriel_last_error(), "not shared");
	CHECK_STATUS(r, oriel_window_get(w, 0, oriel_at(99, 0), &value, 8), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "buffer 99");
	CHECK_STATUS(r, oriel_window_signal(w, 0, 64, ORIEL_SIGNAL_ADD, 1), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "signal 64 of 64");
	CHECK_STATUS(r, oriel_window_barrier(w, 16, 0), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "slot 16 of 16");
	CHECK_STATUS(r, oriel_window_barrier_arrive(w, 16), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "barrier: barrier slot 16 of 16");
	CHECK_STATUS(r, oriel_window_barrier_wait(w, 16, 0), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_window_barrier_peer(w, r->rank, 0, 0), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "barrier_peer: rank");
	CHECK_TEXT(r, oriel_last_error(), "itself");
	CHECK_STATUS(r, oriel_window_barrier_peer_arrive(w, r->size, 0), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "barrier_peer: rank");
	CHECK_STATUS(r, oriel_window_barrier_peer_wait(w, rank_next(r), 16, 0), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "barrier_peer: barrier slot 16 of 16");
	CHECK_STATUS(r,
		     oriel_window_barrier_peer_arrive_on_stream(w, rank_next(r), 0, (void *)&value),
		     ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "call oriel_window_barrier_peer_arrive()");
	CHECK_STATUS(r, oriel_window_send(w, r->rank, 0, "", 1, 0), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "itself");
	CHECK_STATUS(r, oriel_window_recv(w, rank_next(r), 4, &value, 1, 0), ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "channel 4 of 4");
	CHECK_STATUS(r, oriel_window_put_on_stream(w, 0, 0, "", 1, NULL), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "lies in host memory: call oriel_window_put()");
	CHECK_STATUS(r, oriel_window_wait_signal(w, 0, ORIEL_NE, 0, MOMENT_NS), ORIEL_ERR_TIMEOUT);
	CHECK_EQ(r, oriel_last_status(), ORIEL_ERR_TIMEOUT);
	CHECK_TEXT(r, oriel_last_error(), "wait_signal: window");
	CHECK_STATUS(r, oriel_window_peer_address(w, r->size, 0, &address), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_window_peer_address(w, 0, oriel_at(1, 0), &address), ORIEL_ERR_RANGE);
}

static void check_unreached(struct rank *r, enum oriel_status status, const char *text)
{
	CHECK_EQ(r, status, ORIEL_ERR_NO_PATH);
	CHECK_LAST(r, text);
}

static void host_texts_name_the_rank(struct rank *r, struct oriel_window *w, unsigned peer)
{
	const char *all = "a rank is not connected that this must reach: call oriel_comm_connect()";
	uint64_t word = 7;
	char pair[64];

	snprintf(pair, sizeof(pair), ": rank %u is not connected to rank %u", peer, r->rank);
	check_unreached(r, oriel_window_put(w, peer, 0, &word, 8), pair);
	check_unreached(r, oriel_window_get(w, peer, 0, &word, 8), pair);
	check_unreached(r, oriel_window_fetch_add(w, peer, 0, 1, &word), pair);
	check_unreached(r, oriel_window_signal(w, peer, 0, ORIEL_SIGNAL_ADD, 1), pair);
	check_unreached(r, oriel_window_barrier_peer(w, peer, 0, 0), pair);
	check_unreached(r, oriel_window_barrier(w, 1, 0), all);
	check_unreached(r, oriel_window_barrier_arrive(w, 1), all);
	check_unreached(r, oriel_window_signal_all(w, 5, ORIEL_SIGNAL_ADD, 1), all);
	CHECK_EQ(r, word, 7);
}

/* Each rank is on a node of its own, and no operation makes a link. */
static void host_reaches_connected_ranks_alone(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .connect = ORIEL_CONNECT_LAZY};
	struct oriel_window_attr sparse = small_window;
	struct oriel_window *w = NULL;
	unsigned peers[64], peer;
	char node[16];

	CHECK(r, r->size <= 64);
	snprintf(node, sizeof(node), "host%u", r->rank);
	attr.node = node;
	sparse.flags = ORIEL_WINDOW_SPARSE;
	CHECK_OK(r, oriel_comm_create(&r->bootstrap, &attr, &r->comm));
	if (!CHECK_OK(r, oriel_window_create(r->comm, &sparse, &w)))
		return;
	host_texts_name_the_rank(r, w, rank_next(r));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	/* The rejected calls have left nothing behind. */
	for (peer = 0; peer < r->size; peer++)
		peers[peer] = peer;
	CHECK_OK(r, oriel_comm_connect(r->comm, peers, r->size));
	CHECK_OK(r, oriel_window_barrier(w, 1, 0));
	CHECK_OK(r, oriel_window_signal_all(w, 5, ORIEL_SIGNAL_ADD, 1));
	CHECK_OK(r, oriel_window_wait_signal(w, 5, ORIEL_EQ, r->size - 1, 0));
	oriel_window_destroy(w);
	oriel_comm_destroy(r->comm);
	r->comm = NULL;
}

static void host_rejects_invalid_arguments(struct rank *r)
{
	struct oriel_window *w = r->window;
	struct oriel_dev_window device;
	uint64_t value;
	size_t length;

	CHECK_STATUS(r, oriel_window_put(NULL, 0, 0, "", 1), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "put: the window is NULL");
	CHECK_STATUS(r, oriel_window_barrier(NULL, 0, 0), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "barrier: the window is NULL");
	CHECK_STATUS(r, oriel_window_put(w, 0, 0, NULL, 1), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "put: window");
	CHECK_TEXT(r, oriel_last_error(), "memory is NULL");
	CHECK_STATUS(r, oriel_window_get(w, 0, 0, NULL, 8), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_put_signal(w, 0, 0, NULL, 1, 0, 1), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_send(w, rank_next(r), 0, NULL, 1, 0), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_recv(w, rank_next(r), 0, NULL, 1, 0), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_fetch_add(w, 0, 0, 1, NULL), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "fetch_add: window");
	CHECK_STATUS(r, oriel_window_read_signal(w, 0, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_read_signal_from(w, 0, 0, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_read_counter(w, 0, 0, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_device(NULL, &device), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_device(w, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_fault(w, NULL), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "oriel_window_fault: fault is NULL");
	CHECK_STATUS(r, oriel_window_buffer(w, 0, NULL, &length), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "oriel_window_buffer: address is NULL");
	CHECK_STATUS(r, oriel_window_peer_length(w, 0, 0, NULL), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "oriel_window_peer_length: length is NULL");
	CHECK_STATUS(r, oriel_window_peer_address(w, r->rank, 0, NULL), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "oriel_window_peer_address: address is NULL");
	CHECK_STATUS(r, oriel_comm_barrier(NULL), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "oriel_comm_barrier: the communicator is NULL");
	CHECK_STATUS(r, oriel_comm_agree(NULL, ORIEL_OK), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_comm_all_gather(NULL, &value, &value, 8), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_comm_create(NULL, NULL, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_create(r->comm, NULL, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_window_create(NULL, NULL, &w), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_region_register(r->comm, &value, 8, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_stream_barrier_create(r->comm, 0, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_allgather_create(r->comm, NULL, NULL, NULL), ORIEL_ERR_INVALID);
	CHECK_STATUS(r, oriel_alltoall_create(r->comm, NULL, NULL, NULL), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "oriel_alltoall_create: the output pointer is NULL");
	CHECK_STATUS(r, oriel_bcast_create(r->comm, NULL, NULL, NULL), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "oriel_bcast_create: the output pointer is NULL");
	/* A length of zero needs no address. */
	CHECK_OK(r, oriel_window_put(r->window, 0, 0, NULL, 0));
}

/* The number of a window that a collective uses has bits of the collective, too. */
static void host_failures_name_the_window(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = 8,
					 .flags = ORIEL_WINDOW_BCAST};
	struct oriel_dev_window device = {0};
	struct oriel_window *w = NULL;
	char text[64];

	CHECK_OK(r, oriel_window_create(r->comm, &attr, &w));
	CHECK_OK(r, oriel_window_device(w, &device));
	CHECK(r, device.number != ORIEL_DEV_WINDOW_NUMBER(device.number));
	snprintf(text, sizeof(text), "put: window %u: ", ORIEL_DEV_WINDOW_NUMBER(device.number));
	CHECK_STATUS(r, oriel_window_put(w, 0, 0, NULL, 1), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), text);
	snprintf(text, sizeof(text), "window %u lies", ORIEL_DEV_WINDOW_NUMBER(device.number));
	CHECK_STATUS(r, oriel_window_put_on_stream(w, 0, 0, text, 1, (void *)text),
		     ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), text);
	oriel_window_destroy(w);
}

/* The record of device functions is not taken by host calls, nor the other way round. */
static void host_failures_leave_device_records_alone(struct rank *r)
{
	struct oriel_dev_fault fault;

	CHECK_STATUS(r, oriel_dev_put(&r->dev, r->group, r->size, 0, "", 1, NULL), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_window_put(r->window, 0, 0, "", r->length + 1), ORIEL_ERR_RANGE);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.peer, r->size);
	CHECK_STATUS(r, rank_fault(r, &fault), ORIEL_AGAIN);
}

static const struct test_case host_cases[] = {
	{"host_moves_bytes", host_moves_bytes, NULL, 1, 0},
	{"host_signals_and_waits", host_signals_and_waits, NULL, 1, 0},
	{"host_counts_completed_puts", host_counts_completed_puts, NULL, 1, 0},
	{"host_drains_and_flushes_counters", host_drains_and_flushes_counters, NULL, 1, 0},
	{"host_resets_all_signals_and_bases", host_resets_all_signals_and_bases, NULL, 1, 0},
	{"host_meets_at_barriers", host_meets_at_barriers, NULL, 1, 0},
	{"host_continues_after_its_timeout", host_continues_after_its_timeout, NULL, 2, 0},
	{"host_meets_peers_by_halves", host_meets_peers_by_halves, NULL, 1, 0},
	{"host_meets_a_late_peer", host_meets_a_late_peer, NULL, 2, 0},
	{"host_sends_and_receives", host_sends_and_receives, NULL, 2, 0},
	{"host_puts_to_the_domain", host_puts_to_the_domain, NULL, 1, 0},
	{"host_failures_have_texts", host_failures_have_texts, NULL, 2, 0},
	{"host_reaches_connected_ranks_alone", host_reaches_connected_ranks_alone, NULL, 2,
	 OWN_COMM | NEEDS_HCA},
	{"host_rejects_invalid_arguments", host_rejects_invalid_arguments, NULL, 2, 0},
	{"host_failures_name_the_window", host_failures_name_the_window, NULL, 2, 0},
	{"host_failures_leave_device_records_alone", host_failures_leave_device_records_alone, NULL,
	 1, 0},
};

const struct suite host_suite = SUITE(host);
