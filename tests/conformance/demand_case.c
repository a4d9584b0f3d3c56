/* SPDX-License-Identifier: Apache-2.0 */
/* Links that are made by the first operation on a peer (ORIEL_CONNECT_DEMAND). */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

#define POSTERS 4u
#define KINDS 8u /* of first operations */

/* Collective: @per_node ranks of a node. */
static bool join_alone(struct rank *r, unsigned per_node)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .connect = ORIEL_CONNECT_DEMAND};
	char node[16];

	snprintf(node, sizeof(node), "demand%u", r->rank / per_node);
	attr.node = node;
	return CHECK_OK(r, oriel_comm_create(&r->bootstrap, &attr, &r->comm));
}

/* The same with a window whose first word of each rank counts. */
static bool join(struct rank *r, unsigned per_node, struct oriel_dev_window *w)
{
	if (!join_alone(r, per_node))
		return false;
	if (!CHECK_OK(r, oriel_window_create(r->comm, &small_window, &r->window)))
		return false;
	return CHECK_OK(r, oriel_window_device(r->window, w));
}

static void leave(struct rank *r)
{
	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
	r->window = NULL;
	r->comm = NULL;
}

static bool is_connected(struct rank *r, unsigned peer)
{
	struct oriel_peer found = {.size = sizeof(found)};

	CHECK_OK(r, oriel_comm_peer(r->comm, peer, &found));
	return found.is_connected;
}

/* The links that a communicator has from the start, if each rank is a node of its own. */
static bool differs_in_one_bit(unsigned a, unsigned b)
{
	return ((a ^ b) & ((a ^ b) - 1)) == 0;
}

static uint64_t count_of(struct rank *r)
{
	void *word;

	CHECK_OK(r, oriel_window_buffer(r->window, 0, &word, NULL));
	return oriel_dev_load_acquire((const uint64_t *)word);
}

/* No rank touches a peer before all have looked. */
static void a_window_makes_no_links(struct rank *r)
{
	struct oriel_dev_window w;
	unsigned peer;

	if (!join(r, 1, &w))
		return;
	for (peer = 0; peer < r->size; peer++)
		CHECK(r, is_connected(r, peer) == differs_in_one_bit(r->rank, peer));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_dev_flush(&w, r->group, LONG_NS));
	peer = (r->rank + r->size / 2) % r->size;
	CHECK_POSTED(r, oriel_dev_put_value(&w, peer, 8, r->rank, NULL));
	CHECK(r, is_connected(r, peer));
	CHECK_OK(r, oriel_dev_flush(&w, r->group, LONG_NS));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	leave(r);
}

/* The first operation on @peer is of @kind. */
static void begin_with(struct rank *r, const struct oriel_dev_window *w, unsigned peer,
		       unsigned kind)
{
	struct oriel_dev_group g = r->group;
	struct oriel_dev_ticket ticket = {0, 0, 0};
	uint64_t word = 7, old = 0, to = 64 + 8 * (uint64_t)r->rank;

	switch (kind) {
	case 0:
		CHECK_POSTED(r, oriel_dev_put(w, g, peer, to, &word, 8, NULL));
		break;
	case 1:
		CHECK_POSTED(r, oriel_dev_put_value(w, peer, to, 7, NULL));
		break;
	case 2:
		CHECK_OK(r, oriel_dev_get(w, g, peer, to, &word, 8, &ticket));
		CHECK_OK(r, oriel_dev_wait_local(w, g, ticket, LONG_NS));
		CHECK_EQ(r, word, 0);
		break;
	case 3:
		CHECK_OK(r, oriel_dev_fetch_add(w, peer, to, 7, &old));
		break;
	case 4:
		CHECK_POSTED(r, oriel_dev_signal(w, g, peer, 0, ORIEL_SIGNAL_ADD, 1, NULL));
		break;
	case 5:
		CHECK_POSTED(r, oriel_dev_put_signal(w, g, peer, to, &word, 8, 0, 1, NULL));
		break;
	case 6:
		CHECK_POSTED(r, oriel_dev_put_counter(w, g, peer, to, &word, 8, 0, NULL));
		CHECK_OK(r, oriel_dev_wait_counter(w, g, peer, 0, ORIEL_GE, 1, LONG_NS));
		break;
	default:
		CHECK_OK(r, oriel_window_put(r->window, peer, to, &word, 8));
		break;
	}
	CHECK(r, is_connected(r, peer));
	CHECK_OK(r, oriel_dev_flush(w, g, LONG_NS));
	CHECK_POSTED(r, oriel_dev_put_value(w, peer, to, r->rank + 1, NULL));
	CHECK_OK(r, oriel_dev_flush(w, g, LONG_NS));
}

/* Rank r visits its peers in an order of its own: a step that has no divisor with the size. */
static unsigned visited(const struct rank *r, unsigned i, unsigned order)
{
	unsigned step = order % r->size;

	for (;; step = (step + 1) % r->size) {
		unsigned a = r->size, b = step;

		while (b) {
			unsigned rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1)
			break;
	}
	return (r->rank + i * step) % r->size;
}

static void every_operation_connects(struct rank *r)
{
	struct oriel_dev_window w;
	const uint64_t *words;
	unsigned i, peer;
	void *base;

	if (!join(r, 1, &w))
		return;
	for (i = 1; i < r->size; i++)
		begin_with(r, &w, visited(r, i, 3 * r->rank + 2), (r->rank + i) % KINDS);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_window_buffer(r->window, 0, &base, NULL));
	words = (const uint64_t *)base + 8;
	for (peer = 0; peer < r->size; peer++)
		CHECK_EQ(r, oriel_dev_load_acquire(&words[peer]), peer == r->rank ? 0 : peer + 1);
	CHECK_OK(r, oriel_dev_barrier(&w, r->group, 0, LONG_NS));
	leave(r);
}

/* A channel connects by its sender or its receiver, whichever comes first. */
static void channels_connect(struct rank *r)
{
	unsigned next = rank_next(r), prev = rank_prev(r), i;
	struct oriel_dev_window w;
	uint64_t word;

	if (!join(r, 1, &w))
		return;
	for (i = 0; i < 2; i++) {
		word = r->rank;
		if (r->rank % 2 == i)
			CHECK_OK(r, oriel_dev_send(&w, r->group, next, 0, &word, 8, LONG_NS));
		else
			CHECK_OK(r, oriel_dev_recv(&w, r->group, prev, 0, &word, 8, LONG_NS));
		if (r->rank % 2 != i)
			CHECK_EQ(r, word, prev);
		/* With an odd number the last rank sends to one that has sent. */
		if (r->size % 2)
			break;
	}
	CHECK_OK(r, oriel_dev_barrier(&w, r->group, 0, LONG_NS));
	leave(r);
}

static void visit_all(struct rank *r, unsigned index, void *context)
{
	const struct oriel_dev_window *w = context;
	uint64_t old;
	unsigned i;

	for (i = 1; i < r->size; i++)
		CHECK_OK(r, oriel_dev_fetch_add(w, visited(r, i, index + r->rank), 0, 1, &old));
}

/* Threads of one rank race for each link, and so do both of its ends. */
static void racing_threads_make_one_link(struct rank *r)
{
	struct oriel_dev_window w;
	unsigned round;

	for (round = 0; round < 3; round++) {
		if (!join(r, 1, &w))
			return;
		rank_fork(r, POSTERS, visit_all, &w);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
		CHECK_EQ(r, count_of(r), POSTERS * (r->size - 1));
		leave(r);
	}
}

/* Rank 0 is in a collective until all others have connected to it. */
static void a_busy_peer_answers(struct rank *r)
{
	struct oriel_dev_window w;
	uint64_t old;

	if (!join(r, 1, &w))
		return;
	if (r->rank)
		CHECK_OK(r, oriel_dev_fetch_add(&w, 0, 0, 1, &old));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	if (r->rank == 0)
		CHECK_EQ(r, count_of(r), r->size - 1);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	leave(r);
}

/* Where the NIC executes atomics, those of the rank itself and of its node, too. */
static void atomics_connect_inside_a_node(struct rank *r)
{
	unsigned i, mate = (r->rank ^ 1) < r->size ? r->rank ^ 1 : r->rank;
	struct oriel_dev_window w;
	uint64_t old;

	if (!join(r, 2, &w))
		return;
	for (i = 0; i < 10; i++) {
		CHECK_OK(r, oriel_dev_fetch_add(&w, r->rank, 0, 1, &old));
		CHECK_OK(r, oriel_dev_fetch_add(&w, mate, 0, 1, &old));
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_EQ(r, count_of(r), 20);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	leave(r);
}

/* Ahead of its use: the other end is in a collective, and does not call it. */
static void one_end_connects_alone(struct rank *r)
{
	unsigned last = r->size - 1;
	struct oriel_dev_window w;

	if (!join(r, 1, &w))
		return;
	if (r->rank == 0) {
		CHECK_OK(r, oriel_comm_connect(r->comm, &last, 1));
		CHECK(r, is_connected(r, last));
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	leave(r);
}

/* Does a window of which this rank names @count ranks at @peers end as all expect? */
static bool opens(struct rank *r, const uint32_t *peers, uint32_t count, enum oriel_status expected)
{
	struct oriel_window_attr attr = small_window;

	attr.peers = peers;
	attr.peer_count = count;
	return CHECK_STATUS(r, oriel_window_create(r->comm, &attr, &r->window), expected);
}

static void peers_of_a_window_name_each_other(struct rank *r)
{
	const uint32_t peers[] = {0, 1}, wrong[] = {0, r->size};
	char text[96];

	if (!join_alone(r, 1))
		return;
	snprintf(text, sizeof(text), "peer 1 is rank %u of %u", r->size, r->size);
	/* Rank 1 fails by itself, and the others by its verdict. */
	opens(r, r->rank == 1 ? wrong : peers, 2, ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), text);
	/* Rank 1 names no rank, and rank 0 names rank 1. */
	opens(r, peers, r->rank ? 0 : 2, ORIEL_ERR_MISMATCH);
	CHECK_TEXT(r, oriel_last_error(),
		   "rank 1 among the peers of rank 0, and not rank 0 among those of rank 1");
	/* Some ranks have a list, and others none. */
	opens(r, r->rank ? NULL : peers, 0, ORIEL_ERR_MISMATCH);
	CHECK_TEXT(r, oriel_last_error(), "sparse on rank 0 and not on rank 1");
	opens(r, NULL, 2, ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "2 peers at NULL");
	/* Nothing is broken. */
	opens(r, peers, 0, ORIEL_OK);
	leave(r);
}

static _Thread_local const struct oriel_bootstrap_ops *counted_ops;
static _Thread_local unsigned rounds; /* of the bootstrap, by this rank */

static enum oriel_status counted_all_gather(void *context, const void *mine, void *all,
					    size_t length, uint64_t timeout_ns)
{
	rounds++;
	return counted_ops->all_gather(context, mine, all, length, timeout_ns);
}

/* How often ranks wait for each other while a window is created and destroyed. */
static unsigned rounds_of_window(struct rank *r, const uint32_t *peers, uint32_t count)
{
	unsigned before = rounds;

	opens(r, peers, count, ORIEL_OK);
	oriel_window_destroy(r->window);
	r->window = NULL;
	return rounds - before;
}

/* One for what all name, and one for the links. */
static void named_peers_cost_two_rounds(struct rank *r)
{
	const uint32_t peers[] = {0, 1};
	struct oriel_bootstrap_ops ops = *r->bootstrap.ops;
	unsigned without, with, agreement;

	counted_ops = r->bootstrap.ops;
	ops.all_gather = counted_all_gather;
	r->bootstrap.ops = &ops;
	if (join_alone(r, 1)) {
		without = rounds_of_window(r, NULL, 0);
		with = rounds_of_window(r, peers, r->rank < 2 ? 2 : 0);
		agreement = rounds;
		CHECK_OK(r, oriel_comm_agree(r->comm, ORIEL_OK));
		agreement = rounds - agreement;
		CHECK(r, agreement > 0);
		CHECK_EQ(r, with, without + 1 + agreement);
		leave(r);
	}
	r->bootstrap.ops = counted_ops;
}

static const struct test_case demand_cases[] = {
	{"a_window_makes_no_links", a_window_makes_no_links, NULL, 2, OWN_COMM | NEEDS_HCA},
	{"every_operation_connects", every_operation_connects, NULL, 2, OWN_COMM | NEEDS_HCA},
	{"channels_connect", channels_connect, NULL, 2, OWN_COMM | NEEDS_HCA},
	{"racing_threads_make_one_link", racing_threads_make_one_link, NULL, 2,
	 OWN_COMM | NEEDS_HCA},
	{"a_busy_peer_answers", a_busy_peer_answers, NULL, 2, OWN_COMM | NEEDS_HCA},
	{"atomics_connect_inside_a_node", atomics_connect_inside_a_node, NULL, 3,
	 OWN_COMM | NEEDS_HCA},
	{"one_end_connects_alone", one_end_connects_alone, NULL, 2, OWN_COMM | NEEDS_HCA},
	{"peers_of_a_window_name_each_other", peers_of_a_window_name_each_other, NULL, 2,
	 OWN_COMM | NEEDS_HCA},
	{"named_peers_cost_two_rounds", named_peers_cost_two_rounds, NULL, 2, OWN_COMM | NEEDS_HCA},
};

const struct suite demand_suite = SUITE(demand);
