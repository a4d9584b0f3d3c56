/* SPDX-License-Identifier: Apache-2.0 */
/* Links that are made at their first use, and windows over links that exist. */
#include "harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ROUNDS 200u

#define PART 1024u /* bytes of each source in buffer 0 */

/* Collective: @per_node ranks of a node, no link to any other. */
static bool join(struct rank *r, unsigned per_node, enum oriel_connect connect)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .connect = connect};
	char node[16];

	snprintf(node, sizeof(node), "lazy%u", r->rank / per_node);
	attr.node = node;
	return CHECK_OK(r, oriel_comm_create(&r->bootstrap, &attr, &r->comm));
}

static struct oriel_window *open_window(struct rank *r, unsigned flags,
					struct oriel_dev_window *dev)
{
	struct oriel_window_attr attr = small_window;
	struct oriel_window *window = NULL;

	attr.flags = flags;
	attr.length = PART * r->size;
	if (CHECK_OK(r, oriel_window_create(r->comm, &attr, &window)))
		CHECK_OK(r, oriel_window_device(window, dev));
	return window;
}

static bool is_connected(struct rank *r, unsigned peer)
{
	struct oriel_peer found = {.size = sizeof(found)};

	CHECK_OK(r, oriel_comm_peer(r->comm, peer, &found));
	return found.is_connected;
}

static bool is_well(struct rank *r)
{
	struct oriel_health health = {.size = sizeof(health)};

	CHECK_OK(r, oriel_comm_health(r->comm, &health));
	return CHECK(r, health.status == ORIEL_OK);
}

/* Leave after a barrier: an abort might find others in the last collective of the case. */
static void leave(struct rank *r)
{
	is_well(r);
	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
	r->window = NULL;
	r->comm = NULL;
}

static bool has_own_process(const struct rank *r)
{
	struct oriel_peer peer = {.size = sizeof(peer)};

	return oriel_comm_peer(r->comm, rank_next(r), &peer) == ORIEL_OK && !peer.is_same_process;
}

/* The HCA has sockets of its own, and a scenario can make it unlike others. */
static bool has_soft_hca(const struct rank *r)
{
	struct oriel_nic nic = {.size = sizeof(nic)};

	return oriel_comm_nic(r->comm, &nic) == ORIEL_OK && nic.is_software;
}

static bool is_neighbour(const struct rank *r, unsigned peer)
{
	return peer == r->rank || peer == rank_next(r) || peer == rank_prev(r);
}

/* Connect both neighbours, in an order that differs between ranks, and ranks that need no link. */
static void connect_ring(struct rank *r)
{
	unsigned next = rank_next(r), prev = rank_prev(r);
	unsigned odd[] = {next, r->rank, prev, next}, even[] = {prev, next};

	CHECK_OK(r, oriel_comm_connect(r->comm, r->rank % 2 ? odd : even, r->rank % 2 ? 4 : 2));
}

static void connect_rest(struct rank *r)
{
	unsigned *peers = calloc(r->size, sizeof(*peers)), i;

	for (i = 0; i < r->size; i++)
		peers[i] = (r->rank + i) % r->size;
	CHECK_OK(r, oriel_comm_connect(r->comm, peers, r->size));
	for (i = 0; i < r->size; i++)
		CHECK(r, is_connected(r, i));
	free(peers);
}

/*
 * Run every operation between both ends: bytes of round @seed go to @next, and those of @prev
 * arrive.
 */
static void exchange(struct rank *r, const struct oriel_dev_window *w, unsigned next, unsigned prev,
		     uint64_t seed)
{
	unsigned char from[PART], to[PART];
	uint64_t old, place = PART * (uint64_t)r->rank;
	struct oriel_dev_group g = r->group;
	struct oriel_dev_ticket ticket = {0, 0, 0};

	fill(from, sizeof(from), r->rank + seed);
	CHECK_POSTED(r, oriel_dev_put_signal_counter(w, g, next, place, from, PART, 0, 1, 0, NULL));
	CHECK_OK(r, oriel_dev_wait_signal_next(w, g, prev, 0, 1, LONG_NS));
	CHECK_OK(r, oriel_dev_wait_counter(w, g, next, 0, ORIEL_GE, 1, LONG_NS));
	CHECK_OK(r, oriel_dev_get(w, g, next, place, to, PART, &ticket));
	CHECK_OK(r, oriel_dev_wait_local(w, g, ticket, LONG_NS));
	CHECK_EQ(r, wrong(to, sizeof(to), r->rank + seed), 0);
	CHECK_OK(r, oriel_dev_fetch_add(w, next, place, 1, &old));
	CHECK_EQ(r, memcmp(&old, from, 8), 0);
	CHECK_OK(r, oriel_dev_send(w, g, next, 1, from, PART, LONG_NS));
	CHECK_OK(r, oriel_dev_recv(w, g, prev, 1, to, PART, LONG_NS));
	CHECK_EQ(r, wrong(to, sizeof(to), prev + seed), 0);
	CHECK_OK(r, oriel_dev_flush(w, g, LONG_NS));
}

static void all_calls_are_rejected(struct rank *r, const struct oriel_dev_window *w, unsigned peer)
{
	uint64_t word = 7, old = 9;
	struct oriel_dev_group g = r->group;

	CHECK_STATUS(r, oriel_dev_put(w, g, peer, 0, &word, 8, NULL), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_put(w, g, peer, 0, &word, 0, NULL), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_put_value(w, peer, 0, 1, NULL), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_get(w, g, peer, 0, &word, 8, NULL), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_fetch_add(w, peer, 0, 1, &old), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_signal(w, g, peer, 0, ORIEL_SIGNAL_ADD, 1, NULL),
		     ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_signal(w, g, peer, 0, ORIEL_SIGNAL_SET, 1, NULL),
		     ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_put_signal(w, g, peer, 0, &word, 8, 0, 1, NULL),
		     ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_put_counter(w, g, peer, 0, &word, 8, 0, NULL), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_signal_counter(w, g, peer, 0, 1, 0, NULL), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_send(w, g, peer, 1, &word, 8, LONG_NS), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_send(w, g, peer, 1, &word, 0, LONG_NS), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_recv(w, g, peer, 1, &word, 8, LONG_NS), ORIEL_ERR_NO_PATH);
	CHECK_STATUS(r, oriel_dev_barrier_peer(w, g, peer, 0, LONG_NS), ORIEL_ERR_NO_PATH);
	CHECK_EQ(r, word, 7);
	CHECK_EQ(r, old, 9);
	CHECK_OK(r, oriel_dev_read_counter(w, peer, 0, &word));
	CHECK_EQ(r, word, 0);
}

/*
 * Enter a barrier of all ranks. A rank that lacks a link gets NO_PATH, and the other ranks do
 * not wait for it.
 */
static void meet(struct rank *r, const struct oriel_dev_window *w)
{
	bool is_whole = true;
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		is_whole = is_whole && is_connected(r, peer);
	CHECK_STATUS(r, oriel_dev_barrier(w, r->group, 0, LONG_NS),
		     is_whole ? ORIEL_OK : ORIEL_ERR_NO_PATH);
}

static void neighbours_need_only_their_links(struct rank *r)
{
	struct oriel_dev_window w;
	unsigned peer;

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		return;
	r->window = open_window(r, ORIEL_WINDOW_SPARSE, &w);
	for (peer = 0; peer < r->size; peer++)
		CHECK(r, is_connected(r, peer) == (peer == r->rank));
	connect_ring(r);
	for (peer = 0; peer < r->size; peer++)
		CHECK(r, is_connected(r, peer) == is_neighbour(r, peer));
	exchange(r, &w, rank_next(r), rank_prev(r), 1);
	for (peer = 0; peer < r->size; peer++)
		if (!is_neighbour(r, peer))
			all_calls_are_rejected(r, &w, peer);
	peer = r->rank % 2 ? rank_prev(r) : rank_next(r);
	/* Ranks meet in pairs; the last of an odd number is alone. */
	if (r->size % 2 == 0 || r->rank + 1 < r->size)
		CHECK_OK(r, oriel_dev_barrier_peer(&w, r->group, peer, 0, LONG_NS));
	meet(r, &w);
	exchange(r, &w, rank_next(r), rank_prev(r), 2);
	CHECK_OK(r, oriel_dev_drain(&w, r->group, LONG_NS));
	leave(r);
}

/* One rank of three has all links: it must not wait for ranks that cannot wait for each other. */
static void a_rank_with_all_links_passes_the_barrier(struct rank *r)
{
	unsigned *peers = calloc(r->size, sizeof(*peers)), i;
	struct oriel_dev_window w;

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		goto out;
	r->window = open_window(r, ORIEL_WINDOW_SPARSE, &w);
	for (i = 0; i < r->size; i++)
		peers[i] = i;
	CHECK_OK(r, oriel_comm_connect(r->comm, peers, r->rank == 0 ? r->size : 1));
	meet(r, &w);
	meet(r, &w);
	/*
	 * The barrier comes last, since a rank whose call is rejected does not wait for the
	 * others.
	 */
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	connect_rest(r);
	meet(r, &w);
	leave(r);
out:
	free(peers);
}

static void a_rejected_call_leaves_no_trace(struct rank *r)
{
	struct oriel_dev_window w;
	unsigned peer;

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		return;
	r->window = open_window(r, ORIEL_WINDOW_SPARSE, &w);
	for (peer = 0; peer < r->size; peer++)
		if (peer != r->rank)
			all_calls_are_rejected(r, &w, peer);
	/* Repeat the call at one end of each pair. */
	for (peer = 0; peer < r->rank; peer++)
		CHECK_STATUS(r, oriel_dev_barrier_peer(&w, r->group, peer, 0, LONG_NS),
			     ORIEL_ERR_NO_PATH);
	meet(r, &w);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	connect_rest(r);
	/* Streams, pairwise and full barriers work where only rejected calls came before. */
	exchange(r, &w, rank_next(r), rank_prev(r), 3);
	for (peer = 1; peer < r->size; peer++)
		if ((peer ^ r->rank) < r->size && (peer ^ r->rank) != r->rank)
			CHECK_OK(r,
				 oriel_dev_barrier_peer(&w, r->group, peer ^ r->rank, 0, LONG_NS));
	meet(r, &w);
	leave(r);
}

static void a_window_connects_all(struct rank *r)
{
	struct oriel_dev_window sparse, whole;
	struct oriel_window *other;
	unsigned peer;

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		return;
	r->window = open_window(r, ORIEL_WINDOW_SPARSE, &sparse);
	if (r->size > 2)
		connect_ring(r);
	other = open_window(r, 0, &whole);
	for (peer = 0; peer < r->size; peer++)
		CHECK(r, is_connected(r, peer));
	for (peer = 1; peer < r->size; peer++) {
		unsigned next = (r->rank + peer) % r->size;
		unsigned prev = (r->rank + r->size - peer) % r->size;

		exchange(r, &whole, next, prev, peer);
		exchange(r, &sparse, next, prev, peer);
	}
	meet(r, &whole);
	meet(r, &sparse);
	oriel_window_destroy(other);
	leave(r);
}

/* Mapped peers are connected from the start; of each other node one peer is connected later. */
static void nodes_are_joined_by_single_links(struct rank *r)
{
	unsigned across = r->rank ^ 2, peer;
	struct oriel_dev_window w;

	if (!join(r, 2, ORIEL_CONNECT_LAZY))
		return;
	r->window = open_window(r, ORIEL_WINDOW_SPARSE, &w);
	if (across < r->size) {
		unsigned peers[] = {r->rank ^ 1, across};

		peers[0] = peers[0] < r->size ? peers[0] : r->rank;
		CHECK_OK(r, oriel_comm_connect(r->comm, peers, 2));
		exchange(r, &w, across, across, 1);
	}
	for (peer = 0; peer < r->size; peer++) {
		bool is_same_node = peer / 2 == r->rank / 2;

		CHECK(r, is_connected(r, peer) == (is_same_node || peer == across));
		if (is_same_node)
			CHECK_POSTED(r, oriel_dev_put_value(&w, peer, PART * (uint64_t)r->rank, 5,
							    NULL));
		else if (peer != across)
			all_calls_are_rejected(r, &w, peer);
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	connect_rest(r);
	exchange(r, &w, rank_next(r), rank_prev(r), 2);
	meet(r, &w);
	leave(r);
}

struct busy {
	struct oriel_dev_window ring;  /* of the thread that signals */
	struct oriel_dev_window other; /* of the thread that waits for links */
};

/* One thread keeps the ring busy, one waits for links to appear, the third makes them. */
static void busy_thread(struct rank *r, unsigned index, void *context)
{
	struct busy *busy = context;
	unsigned across = (r->rank + r->size / 2) % r->size, i;
	unsigned back = (r->rank + r->size - r->size / 2) % r->size;
	uint64_t deadline = oriel_cpu_clock_ns() + LONG_NS;
	enum oriel_status posted = ORIEL_ERR_NO_PATH;

	switch (index) {
	case 0:
		for (i = 0; i < ROUNDS; i++) {
			CHECK_POSTED(r, oriel_dev_signal(&busy->ring, r->group, rank_next(r), 1,
							 ORIEL_SIGNAL_ADD, 1, NULL));
			CHECK_OK(r, oriel_dev_wait_signal_next(&busy->ring, r->group, rank_prev(r),
							       1, 1, LONG_NS));
		}
		break;
	case 1:
		while (posted == ORIEL_ERR_NO_PATH && CHECK(r, oriel_cpu_clock_ns() < deadline))
			posted = oriel_dev_signal(&busy->other, r->group, across, 2,
						  ORIEL_SIGNAL_ADD, 1, NULL);
		CHECK_OK(r, posted);
		CHECK_OK(r, oriel_dev_wait_signal_from(&busy->other, r->group, back, 2, ORIEL_EQ, 1,
						       LONG_NS));
		break;
	default:
		connect_rest(r);
	}
}

static void links_are_made_while_other_threads_post(struct rank *r)
{
	struct oriel_window *other;
	struct busy busy;

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		return;
	r->window = open_window(r, ORIEL_WINDOW_SPARSE, &busy.ring);
	other = open_window(r, ORIEL_WINDOW_SPARSE, &busy.other);
	connect_ring(r);
	rank_fork(r, 3, busy_thread, &busy);
	meet(r, &busy.other);
	oriel_window_destroy(other);
	leave(r);
}

static void connected_peers_need_no_other_rank(struct rank *r)
{
	unsigned *peers = calloc(r->size, sizeof(*peers)), i;

	if (join(r, 1, ORIEL_CONNECT_EAGER)) {
		for (i = 0; i < r->size; i++) {
			CHECK(r, is_connected(r, i));
			peers[i] = i;
		}
		/* The other ranks never call it. */
		if (r->rank == 0)
			CHECK_OK(r, oriel_comm_connect(r->comm, peers, r->size));
		leave(r);
	}
	free(peers);
}

static void invalid_arguments_of_connect_are_rejected(struct rank *r)
{
	unsigned peers[] = {r->rank, r->size, UINT32_MAX};

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		return;
	CHECK_OK(r, oriel_comm_connect(r->comm, NULL, 0));
	CHECK_OK(r, oriel_comm_connect(r->comm, peers, 0));
	CHECK_OK(r, oriel_comm_connect(r->comm, peers, 1));
	CHECK_STATUS(r, oriel_comm_connect(r->comm, peers, 2), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_comm_connect(r->comm, peers + 2, 1), ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_comm_connect(r->comm, NULL, 1), ORIEL_ERR_INVALID);
	is_well(r);
	connect_rest(r);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	leave(r);
}

static void a_rank_that_connects_otherwise_is_named(struct rank *r)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr), .timeout_ns = LONG_NS};

	attr.connect = r->rank == 1 ? ORIEL_CONNECT_LAZY : ORIEL_CONNECT_EAGER;
	CHECK_STATUS(r, oriel_comm_create(&r->bootstrap, &attr, &r->comm), ORIEL_ERR_MISMATCH);
	CHECK_TEXT(r, oriel_last_error(), "lazy on rank 1");
	attr.connect = r->rank == 1 ? ORIEL_CONNECT_DEMAND + 1 : ORIEL_CONNECT_LAZY;
	CHECK_STATUS(r, oriel_comm_create(&r->bootstrap, &attr, &r->comm), ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "connect is 4");
}

static bool join_with_blocks(struct rank *r, unsigned depth, unsigned blocks,
			     enum oriel_status expected)
{
	struct oriel_comm_attr attr = {.size = sizeof(attr),
				       .timeout_ns = LONG_NS,
				       .node = r->node,
				       .queue_depth = depth,
				       .post_blocks = blocks};

	CHECK_STATUS(r, oriel_comm_create(&r->bootstrap, &attr, &r->comm), expected);
	return r->comm != NULL;
}

static bool join_with_depth(struct rank *r, unsigned depth, enum oriel_status expected)
{
	return join_with_blocks(r, depth, 0, expected);
}

/* The depth that @blocks get: @wanted, or as much of it as the NIC holds. */
static void blocks_get_depth(struct rank *r, unsigned depth, unsigned blocks, unsigned wanted)
{
	struct oriel_nic nic = {.size = sizeof(nic)};

	if (!join_with_blocks(r, depth, blocks, ORIEL_OK))
		return;
	if (oriel_comm_nic(r->comm, &nic) == ORIEL_OK) {
		while (wanted > nic.depth_max)
			wanted /= 2;
		CHECK_EQ(r, nic.depth, wanted);
	}
	leave(r);
}

static void the_depth_is_chosen_by_blocks(struct rank *r)
{
	blocks_get_depth(r, 0, 0, 1024);
	blocks_get_depth(r, 0, 1, ORIEL_QUEUE_DEPTH_MIN);
	blocks_get_depth(r, 0, 132, 1024);
	blocks_get_depth(r, 0, 33, 256);
	blocks_get_depth(r, 0, UINT32_MAX, ORIEL_QUEUE_DEPTH_MAX);
	blocks_get_depth(r, 128, 132, 128);
}

/* More requests than the queue holds, and then those of all kinds. */
static void short_queues_carry_everything(struct rank *r)
{
	struct oriel_dev_window dev;

	if (!join_with_depth(r, ORIEL_QUEUE_DEPTH_MIN, ORIEL_OK))
		return;
	r->window = open_window(r, 0, &dev);
	for (unsigned i = 0; i < 5 * ORIEL_QUEUE_DEPTH_MIN; i++)
		CHECK_POSTED(r, oriel_dev_put_value(&dev, rank_next(r), PART * r->rank, i, NULL));
	exchange(r, &dev, rank_next(r), rank_prev(r), 1);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	leave(r);
}

static void the_depth_of_queues_is_checked(struct rank *r)
{
	struct oriel_nic nic = {.size = sizeof(nic)};
	unsigned most;

	join_with_depth(r, ORIEL_QUEUE_DEPTH_MIN / 2, ORIEL_ERR_INVALID);
	CHECK_TEXT(r, oriel_last_error(), "queue_depth is 32");
	join_with_depth(r, 100, ORIEL_ERR_INVALID);
	join_with_depth(r, 2 * ORIEL_QUEUE_DEPTH_MAX, ORIEL_ERR_INVALID);
	if (!join_with_depth(r, 0, ORIEL_OK))
		return;
	most = oriel_comm_nic(r->comm, &nic) == ORIEL_OK ? nic.depth_max : ORIEL_QUEUE_DEPTH_MAX;
	leave(r);
	if (most >= ORIEL_QUEUE_DEPTH_MAX)
		return;
	join_with_depth(r, ORIEL_QUEUE_DEPTH_MAX, ORIEL_ERR_RANGE);
	CHECK_TEXT(r, oriel_last_error(), "queue_depth");
}

static void sparse_windows_are_sparse_on_all_ranks(struct rank *r)
{
	struct oriel_window_attr attr = small_window;
	struct oriel_window *window;

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		return;
	attr.flags = r->rank == 1 ? ORIEL_WINDOW_SPARSE : 0;
	CHECK_STATUS(r, oriel_window_create(r->comm, &attr, &window), ORIEL_ERR_MISMATCH);
	CHECK_TEXT(r, oriel_last_error(), "sparse on rank 1");
	CHECK(r, is_connected(r, rank_next(r)) == (r->size == 1));
	leave(r);
}

static void a_window_connects_the_peers_that_it_names(struct rank *r)
{
	const enum oriel_connect modes[] = {ORIEL_CONNECT_LAZY, ORIEL_CONNECT_DEMAND};
	/* The same rank twice, and itself, change nothing. */
	const uint32_t peers[] = {rank_next(r), r->rank, rank_prev(r), rank_next(r)};
	struct oriel_window_attr attr = small_window;
	struct oriel_dev_window w;
	unsigned i, peer;

	attr.length = PART * r->size;
	attr.peers = peers;
	attr.peer_count = 4;
	for (i = 0; i < 2; i++) {
		if (!join(r, 1, modes[i]) ||
		    !CHECK_OK(r, oriel_window_create(r->comm, &attr, &r->window)) ||
		    !CHECK_OK(r, oriel_window_device(r->window, &w)))
			return;
		/* The links by which failures travel are made on demand, too. */
		for (peer = 0; peer < r->size; peer++)
			if (is_neighbour(r, peer) || modes[i] == ORIEL_CONNECT_LAZY)
				CHECK(r, is_connected(r, peer) == is_neighbour(r, peer));
		exchange(r, &w, rank_next(r), rank_prev(r), 1);
		for (peer = 0; peer < r->size; peer++)
			if (modes[i] == ORIEL_CONNECT_LAZY && !is_neighbour(r, peer))
				all_calls_are_rejected(r, &w, peer);
		leave(r);
	}
}

/* The HCA of rank 0 fits no other one: check the errors of calls that find this late. */
static void connect_a_mismatched_hca(struct rank *r)
{
	unsigned peers[] = {rank_next(r), rank_prev(r)};
	struct oriel_dev_window w;
	struct oriel_window *none;

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		return;
	r->window = open_window(r, ORIEL_WINDOW_SPARSE, &w);
	/* All ranks find it together, so it breaks nothing. */
	CHECK_STATUS(r, oriel_window_create(r->comm, NULL, &none), ORIEL_ERR_MISMATCH);
	CHECK_TEXT(r, oriel_last_error(), "MTU");
	all_calls_are_rejected(r, &w, rank_next(r));
	is_well(r);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	/*
	 * All ranks have rank 0 as a neighbour. Among more ranks some calls would succeed, and
	 * wait.
	 */
	if (r->size <= 3) {
		CHECK_STATUS(r, oriel_comm_connect(r->comm, peers, 2), ORIEL_ERR_MISMATCH);
		CHECK_TEXT(r, oriel_last_error(), r->rank ? "with rank 0: " : "with rank ");
		CHECK_TEXT(r, oriel_last_error(), "MTU");
		CHECK_STATUS(r, oriel_comm_barrier(r->comm), ORIEL_ERR_MISMATCH);
	}
	oriel_window_destroy(r->window);
	oriel_comm_destroy(r->comm);
	r->window = NULL;
	r->comm = NULL;
}

static void a_peer_that_cannot_be_connected_is_named(struct rank *r)
{
	char *before = getenv("ORIEL_SOFT_HCA");

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		return;
	/* Threads have one environment. */
	if (has_own_process(r) && has_soft_hca(r)) {
		leave(r);
		before = before ? strdup(before) : NULL;
		if (r->rank == 0)
			setenv("ORIEL_SOFT_HCA", "mtu=512", 1);
		connect_a_mismatched_hca(r);
		if (before)
			setenv("ORIEL_SOFT_HCA", before, 1);
		else
			unsetenv("ORIEL_SOFT_HCA");
		free(before);
		/* Messages of the failed connection must not reach this communicator. */
		if (!join(r, 1, ORIEL_CONNECT_LAZY))
			return;
		connect_ring(r);
	}
	leave(r);
}

/* Count sockets of this process with a local peer; those of the bootstrap use TCP. */
static unsigned count_sockets(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct sockaddr_storage address;
	const struct dirent *entry;
	unsigned count = 0;

	while (dir && (entry = readdir(dir))) {
		socklen_t length = sizeof(address);

		count += getpeername(atoi(entry->d_name), (void *)&address, &length) == 0 &&
			 address.ss_family == AF_UNIX;
	}
	if (dir)
		closedir(dir);
	return count;
}

/* Threads of one process have no sockets between them. */
static void lazy_links_open_no_socket(struct rank *r)
{
	const char *hca = getenv("ORIEL_SOFT_HCA");
	unsigned before = count_sockets(), lazy, ring;
	struct oriel_dev_window w;

	bool has_own_sockets;

	if (!join(r, 1, ORIEL_CONNECT_LAZY))
		return;
	/* Over TCP they look like those of the bootstrap. */
	has_own_sockets = has_own_process(r) && has_soft_hca(r) && !(hca && strstr(hca, "tcp=1"));
	r->window = open_window(r, ORIEL_WINDOW_SPARSE, &w);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	lazy = count_sockets();
	if (has_own_sockets)
		CHECK(r, lazy <= before);
	connect_ring(r);
	exchange(r, &w, rank_next(r), rank_prev(r), 1);
	ring = count_sockets();
	oriel_window_destroy(r->window);
	r->window = open_window(r, 0, &w);
	meet(r, &w);
	/* Each peer has at least one connection, where the ring had two in all. */
	if (has_own_sockets) {
		CHECK(r, ring > lazy);
		CHECK(r, count_sockets() >= before + r->size - 1);
		CHECK(r, r->size < 8 || count_sockets() > ring);
	}
	leave(r);
}

static const struct test_case connect_cases[] = {
	{"neighbours_need_only_their_links", neighbours_need_only_their_links, NULL, 2,
	 OWN_COMM | NEEDS_HCA},
	{"a_rank_with_all_links_passes_the_barrier", a_rank_with_all_links_passes_the_barrier, NULL,
	 2, OWN_COMM | NEEDS_HCA},
	{"a_rejected_call_leaves_no_trace", a_rejected_call_leaves_no_trace, NULL, 2,
	 OWN_COMM | NEEDS_HCA},
	{"a_window_connects_all", a_window_connects_all, NULL, 2, OWN_COMM | NEEDS_HCA},
	{"nodes_are_joined_by_single_links", nodes_are_joined_by_single_links, NULL, 3,
	 OWN_COMM | NEEDS_HCA},
	{"links_are_made_while_other_threads_post", links_are_made_while_other_threads_post, NULL,
	 2, OWN_COMM | NEEDS_HCA},
	{"connected_peers_need_no_other_rank", connected_peers_need_no_other_rank, NULL, 2,
	 OWN_COMM | NEEDS_HCA},
	{"invalid_arguments_of_connect_are_rejected", invalid_arguments_of_connect_are_rejected,
	 NULL, 1, OWN_COMM | NEEDS_HCA},
	{"a_rank_that_connects_otherwise_is_named", a_rank_that_connects_otherwise_is_named, NULL,
	 2, OWN_COMM},
	{"short_queues_carry_everything", short_queues_carry_everything, NULL, 2,
	 OWN_COMM | NEEDS_HCA},
	{"the_depth_of_queues_is_checked", the_depth_of_queues_is_checked, NULL, 1, OWN_COMM},
	{"the_depth_is_chosen_by_blocks", the_depth_is_chosen_by_blocks, NULL, 1, OWN_COMM},
	{"sparse_windows_are_sparse_on_all_ranks", sparse_windows_are_sparse_on_all_ranks, NULL, 2,
	 OWN_COMM | NEEDS_HCA},
	{"a_window_connects_the_peers_that_it_names", a_window_connects_the_peers_that_it_names,
	 NULL, 2, OWN_COMM | NEEDS_HCA},
	{"a_peer_that_cannot_be_connected_is_named", a_peer_that_cannot_be_connected_is_named, NULL,
	 2, OWN_COMM | NEEDS_HCA},
	{"lazy_links_open_no_socket", lazy_links_open_no_socket, NULL, 2, OWN_COMM | NEEDS_HCA},
};

const struct suite connect_suite = SUITE(connect);
