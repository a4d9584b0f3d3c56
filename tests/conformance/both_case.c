/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both paths to one peer: two windows over the same memory, one by mapped memory and one by the
 * NIC, and what orders the one behind the other. Where ranks are not mapped both go by the NIC.
 */
#include "harness.h"

#define LENGTH 65536u
#define HALF (LENGTH / 2)
#define ROUNDS 200u

/* [0]: as the communicator reaches its peers, [1]: by rdma. */
struct ways {
	struct oriel_window *window[2];
	struct oriel_dev_window dev[2];
	char *memory;
};

static void ways_open(struct rank *r, struct ways *ways)
{
	struct oriel_window_attr attr = small_window;
	unsigned i;

	if (rank_join_with(r, ORIEL_COMM_BOTH_PATHS) != ORIEL_OK)
		give_up(r, "cannot join with both paths");
	if (oriel_memory_alloc(LENGTH, 0, (void **)&ways->memory) != ORIEL_OK)
		give_up(r, "no memory");
	for (i = 0; i < 2; i++) {
		attr.buffer = ways->memory;
		attr.length = LENGTH;
		attr.flags = i ? ORIEL_WINDOW_RDMA : 0;
		if (oriel_window_create(r->comm, &attr, &ways->window[i]) != ORIEL_OK ||
		    oriel_window_device(ways->window[i], &ways->dev[i]) != ORIEL_OK)
			give_up(r, "cannot make a window");
	}
}

static void ways_close(struct rank *r, struct ways *ways)
{
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_QUIET(r, oriel_window_destroy(ways->window[1]));
	CHECK_QUIET(r, oriel_window_destroy(ways->window[0]));
	oriel_memory_free(ways->memory);
	CHECK_QUIET(r, oriel_comm_destroy(r->comm));
	r->comm = NULL;
}

static void signal_to(struct rank *r, const struct ways *ways, unsigned i, unsigned peer,
		      uint32_t id)
{
	CHECK_POSTED(r, oriel_dev_signal(&ways->dev[i], oriel_dev_thread(), peer, id,
					 ORIEL_SIGNAL_ADD, 1, NULL));
}

static void wait_for(struct rank *r, const struct ways *ways, unsigned i, unsigned peer,
		     uint32_t id)
{
	CHECK_OK(r, oriel_dev_wait_signal_next(&ways->dev[i], oriel_dev_thread(), peer, id, 1,
					       LONG_NS));
}

/* The bytes of the previous rank are read, and those of this rank may be overwritten. */
static void end_round(struct rank *r, const struct ways *ways, unsigned i)
{
	signal_to(r, ways, i, rank_prev(r), 1);
	wait_for(r, ways, i, rank_next(r), 1);
}

static void both_paths_reach_every_peer(struct rank *r)
{
	char *blocks = rank_alloc(r, 2 * HALF);
	struct ways ways;
	unsigned peer, i;
	size_t part;

	ways_open(r, &ways);
	part = HALF / r->size;
	for (peer = 0; peer < r->size; peer++) {
		CHECK_EQ(r, oriel_dev_path(&ways.dev[1], peer),
			 peer == r->rank ? ORIEL_PATH_SELF : ORIEL_PATH_RDMA);
		CHECK_EQ(r, oriel_dev_path(&ways.dev[0], peer) != ORIEL_PATH_RDMA,
			 rank_is_mapped(r, r->rank, peer));
		for (i = 0; i < 2; i++) {
			char *from = blocks + (size_t)i * HALF + peer * part;

			fill(from, part, 100u * r->rank + 10 * peer + i);
			CHECK_POSTED(r, oriel_dev_put_signal(&ways.dev[i], oriel_dev_thread(), peer,
							     (uint64_t)i * HALF + r->rank * part,
							     from, part, 0, 1, NULL));
		}
	}
	for (i = 0; i < 2; i++)
		for (peer = 0; peer < r->size; peer++) {
			CHECK_OK(r, oriel_dev_wait_signal_from(&ways.dev[i], oriel_dev_thread(),
							       peer, 0, ORIEL_EQ, 1, LONG_NS));
			CHECK_EQ(r,
				 wrong(ways.memory + (size_t)i * HALF + peer * part, part,
				       100u * peer + 10 * r->rank + i),
				 0);
		}
	CHECK_OK(r, oriel_dev_drain(&ways.dev[1], oriel_dev_thread(), LONG_NS));
	ways_close(r, &ways);
	rank_free(r, blocks);
}

/* The NIC copies one half while this thread copies the other, in small pieces. */
static void a_copy_is_left_to_the_nic(struct rank *r)
{
	char *block = rank_alloc(r, LENGTH);
	struct ways ways;
	uint64_t round;
	size_t at;

	ways_open(r, &ways);
	for (round = 1; round <= ROUNDS && !r->failures; round++) {
		fill(block, HALF, r->rank + round);
		fill(block + HALF, HALF, r->rank + round + 7);
		CHECK_POSTED(r, oriel_dev_put_signal_counter(&ways.dev[1], oriel_dev_thread(),
							     rank_next(r), HALF, block + HALF, HALF,
							     0, 1, 0, NULL));
		for (at = 0; at < HALF; at += 4096)
			CHECK_POSTED(r, oriel_dev_put(&ways.dev[0], oriel_dev_thread(),
						      rank_next(r), at, block + at, 4096, NULL));
		signal_to(r, &ways, 0, rank_next(r), 0);
		wait_for(r, &ways, 0, rank_prev(r), 0);
		CHECK_EQ(r, wrong(ways.memory, HALF, rank_prev(r) + round), 0);
		wait_for(r, &ways, 1, rank_prev(r), 0);
		CHECK_EQ(r, wrong(ways.memory + HALF, HALF, rank_prev(r) + round + 7), 0);
		CHECK_OK(r, oriel_dev_wait_counter(&ways.dev[1], oriel_dev_thread(), rank_next(r),
						   0, ORIEL_GE, round, LONG_NS));
		CHECK_OK(r, oriel_dev_drain(&ways.dev[0], oriel_dev_thread(), LONG_NS));
		end_round(r, &ways, round & 1);
	}
	ways_close(r, &ways);
	rank_free(r, block);
}

/*
 * Puts by way @by, and signals by the other: with a flush in between, or, if it @is_lie, only with
 * what makes the source reusable. Returns the rounds in which the signal came first.
 */
static unsigned announce(struct rank *r, unsigned by, bool is_lie)
{
	char *block = rank_alloc(r, LENGTH);
	unsigned early = 0;
	struct ways ways;
	uint64_t round;

	ways_open(r, &ways);
	for (round = 1; round <= ROUNDS && !r->failures; round++) {
		fill(block, LENGTH, r->rank + round);
		CHECK_POSTED(r, oriel_dev_put(&ways.dev[by], oriel_dev_thread(), rank_next(r), 0,
					      block, LENGTH, NULL));
		if (is_lie)
			CHECK_OK(r, oriel_dev_drain(&ways.dev[by], oriel_dev_thread(), LONG_NS));
		else
			CHECK_OK(r, oriel_dev_flush(&ways.dev[by], oriel_dev_thread(), LONG_NS));
		signal_to(r, &ways, !by, rank_next(r), 0);
		wait_for(r, &ways, !by, rank_prev(r), 0);
		early += wrong(ways.memory, LENGTH, rank_prev(r) + round) != 0;
		/* Bytes that come late are there before the next round begins. */
		CHECK_OK(r, oriel_dev_flush(&ways.dev[by], oriel_dev_thread(), LONG_NS));
		CHECK_OK(r, oriel_dev_barrier(&ways.dev[1], oriel_dev_thread(), 0, LONG_NS));
	}
	ways_close(r, &ways);
	rank_free(r, block);
	return early;
}

static void a_flush_orders_the_nic_before_a_store(struct rank *r)
{
	CHECK_EQ(r, announce(r, 1, false), 0);
}

static void a_flush_orders_stores_before_the_nic(struct rank *r)
{
	CHECK_EQ(r, announce(r, 0, false), 0);
}

static void a_drain_orders_the_nic_before_a_store(struct rank *r)
{
	CHECK_EQ(r, announce(r, 1, true), 0);
}

static void a_barrier_covers_the_puts_of_its_way(struct rank *r)
{
	char *blocks = rank_alloc(r, (size_t)r->size * 64);
	struct ways ways;
	unsigned peer, i;
	uint64_t round;

	ways_open(r, &ways);
	for (round = 1; round <= ROUNDS && !r->failures; round++) {
		for (i = 0; i < 2; i++) {
			for (peer = 0; peer < r->size; peer++) {
				fill(blocks + peer * 64, 64, r->rank + round + i);
				CHECK_POSTED(r, oriel_dev_put(&ways.dev[i], oriel_dev_thread(),
							      peer, r->rank * 64u,
							      blocks + peer * 64, 64, NULL));
			}
			CHECK_OK(r,
				 oriel_dev_barrier(&ways.dev[i], oriel_dev_thread(), 3, LONG_NS));
			for (peer = 0; peer < r->size; peer++)
				CHECK_EQ(r, wrong(ways.memory + peer * 64, 64, peer + round + i),
					 0);
			CHECK_OK(r, oriel_dev_drain(&ways.dev[i], oriel_dev_thread(), LONG_NS));
			CHECK_OK(r,
				 oriel_dev_barrier(&ways.dev[i], oriel_dev_thread(), 4, LONG_NS));
		}
	}
	ways_close(r, &ways);
	rank_free(r, blocks);
}

/* No peer maps it, so no peer needs a descriptor of it. */
static void the_nic_reaches_private_memory(struct rank *r)
{
	char *block = rank_alloc(r, LENGTH), *more = rank_alloc(r, LENGTH);
	struct oriel_window_attr attr = small_window;
	struct oriel_dev_window dev;
	struct oriel_window *window;
	uint32_t number;
	void *address;

	if (rank_join_with(r, ORIEL_COMM_BOTH_PATHS) != ORIEL_OK)
		give_up(r, "cannot join with both paths");
	attr.buffer = block;
	attr.length = HALF;
	attr.flags = ORIEL_WINDOW_RDMA;
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &window));
	CHECK_OK(r, oriel_window_share(window, more, HALF, &number));
	CHECK_OK(r, oriel_window_device(window, &dev));
	fill(block + HALF, HALF, r->rank);
	CHECK_POSTED(r, oriel_dev_put(&dev, oriel_dev_thread(), rank_next(r), 0, block + HALF, HALF,
				      NULL));
	CHECK_POSTED(r, oriel_dev_put(&dev, oriel_dev_thread(), rank_next(r), oriel_at(number, 0),
				      block + HALF, HALF, NULL));
	CHECK_OK(r, oriel_dev_flush(&dev, oriel_dev_thread(), LONG_NS));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_EQ(r, wrong(block, HALF, rank_prev(r)), 0);
	CHECK_EQ(r, wrong(more, HALF, rank_prev(r)), 0);
	CHECK_STATUS(r, oriel_window_peer_address(window, rank_next(r), 0, &address),
		     ORIEL_ERR_NO_PATH);
	CHECK(r, !oriel_dev_address(&dev, rank_next(r), 0));
	CHECK_QUIET(r, oriel_window_destroy(window));
	CHECK_QUIET(r, oriel_comm_destroy(r->comm));
	r->comm = NULL;
	rank_free(r, more);
	rank_free(r, block);
}

/* One table has the addresses and the keys of all ranks. */
static void a_region_serves_both_ways(struct rank *r)
{
	struct oriel_dev_buffer *table = rank_alloc(r, r->size * sizeof(*table));
	char *memory, *block = rank_alloc(r, LENGTH);
	struct oriel_region *region;
	uint32_t number[2];
	struct ways ways;
	unsigned i;

	ways_open(r, &ways);
	if (oriel_memory_alloc(LENGTH, 0, (void **)&memory) != ORIEL_OK)
		give_up(r, "no memory");
	CHECK_OK(r, oriel_region_register(r->comm, memory, LENGTH, &region));
	CHECK_OK(r, oriel_region_share(region));
	CHECK_OK(r, oriel_region_table(region, table));
	fill(block, LENGTH, r->rank);
	for (i = 0; i < 2; i++) {
		CHECK_OK(r, oriel_window_share_table(ways.window[i], table, &number[i]));
		CHECK_OK(r, oriel_window_device(ways.window[i], &ways.dev[i]));
		CHECK_POSTED(r, oriel_dev_put_signal(&ways.dev[i], oriel_dev_thread(), rank_next(r),
						     oriel_at(number[i], (uint64_t)i * HALF),
						     block + (size_t)i * HALF, HALF, 0, 1, NULL));
	}
	for (i = 0; i < 2; i++)
		wait_for(r, &ways, i, rank_prev(r), 0);
	CHECK_EQ(r, wrong(memory, LENGTH, rank_prev(r)), 0);
	CHECK_OK(r, oriel_dev_drain(&ways.dev[1], oriel_dev_thread(), LONG_NS));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_QUIET(r, oriel_region_unregister(region));
	oriel_memory_free(memory);
	ways_close(r, &ways);
	rank_free(r, block);
	rank_free(r, table);
}

static void no_view_lies_in_a_window_by_rdma(struct rank *r)
{
	struct oriel_view view = {.size = sizeof(view),
				  .kind = ORIEL_VIEW_WINDOW,
				  .length = LENGTH};
	struct oriel_allgather *gather;
	struct ways ways;
	unsigned i;

	ways_open(r, &ways);
	for (i = 0; i < 2; i++) {
		view.window = ways.window[i];
		if (oriel_comm_domain_size(r->comm) == 1 || !i) {
			CHECK_OK(r, oriel_allgather_create(r->comm, &view, NULL, &gather));
			CHECK_QUIET(r, oriel_allgather_destroy(gather));
			continue;
		}
		CHECK_STATUS(r, oriel_allgather_create(r->comm, &view, NULL, &gather),
			     ORIEL_ERR_UNSUPPORTED);
		CHECK_LAST(r, "ORIEL_WINDOW_RDMA");
	}
	ways_close(r, &ways);
}

static void flags_that_differ_are_rejected_on_all_ranks(struct rank *r)
{
	struct oriel_window_attr attr = small_window;
	struct oriel_window *window;

	CHECK_STATUS(r, rank_join_with(r, r->rank == 1 ? ORIEL_COMM_BOTH_PATHS : 0),
		     ORIEL_ERR_MISMATCH);
	CHECK_LAST(r, "ORIEL_COMM_BOTH_PATHS is set on rank 1 and not on rank 0");
	if (rank_join_with(r, ORIEL_COMM_BOTH_PATHS) != ORIEL_OK)
		give_up(r, "cannot join with both paths");
	attr.flags = r->rank == 1 ? ORIEL_WINDOW_RDMA : 0;
	CHECK_STATUS(r, oriel_window_create(r->comm, &attr, &window), ORIEL_ERR_MISMATCH);
	CHECK_LAST(r, "ORIEL_WINDOW_RDMA on rank 1 and not on rank 0");
	CHECK_QUIET(r, oriel_comm_destroy(r->comm));
	r->comm = NULL;
}

static void a_window_by_rdma_needs_links(struct rank *r)
{
	struct oriel_window_attr attr = small_window;
	struct oriel_window *window = NULL;
	unsigned peer;
	bool is_mapped = false;

	if (rank_join_with(r, 0) != ORIEL_OK)
		give_up(r, "cannot join");
	for (peer = 1; peer < r->size; peer++)
		is_mapped |= rank_is_mapped(r, 0, peer);
	attr.flags = ORIEL_WINDOW_RDMA;
	CHECK_STATUS(r, oriel_window_create(r->comm, &attr, &window),
		     is_mapped ? ORIEL_ERR_INVALID : ORIEL_OK);
	if (is_mapped)
		CHECK_LAST(r, "create the communicator with ORIEL_COMM_BOTH_PATHS");
	else
		CHECK_QUIET(r, oriel_window_destroy(window));
	CHECK_QUIET(r, oriel_comm_destroy(r->comm));
	r->comm = NULL;
}

static void ranks_without_a_nic_are_named(struct rank *r)
{
	CHECK_STATUS(r, rank_join_with(r, ORIEL_COMM_BOTH_PATHS), ORIEL_ERR_NO_PATH);
	CHECK_LAST(r, "ORIEL_COMM_BOTH_PATHS: no rdma path between rank 0 on");
}

#define NIC (OWN_COMM | NEEDS_HCA)

static const struct test_case both_cases[] = {
	{"both_paths_reach_every_peer", both_paths_reach_every_peer, NULL, 1, NIC},
	{"a_copy_is_left_to_the_nic", a_copy_is_left_to_the_nic, NULL, 2, NIC},
	{"a_flush_orders_the_nic_before_a_store", a_flush_orders_the_nic_before_a_store, NULL, 2,
	 NIC},
	{"a_flush_orders_stores_before_the_nic", a_flush_orders_stores_before_the_nic, NULL, 2,
	 NIC},
	{"a_barrier_covers_the_puts_of_its_way", a_barrier_covers_the_puts_of_its_way, NULL, 1,
	 NIC},
	{"the_nic_reaches_private_memory", the_nic_reaches_private_memory, NULL, 2, NIC},
	{"a_region_serves_both_ways", a_region_serves_both_ways, NULL, 2, NIC},
	{"no_view_lies_in_a_window_by_rdma", no_view_lies_in_a_window_by_rdma, NULL, 2, NIC},
	{"flags_that_differ_are_rejected_on_all_ranks", flags_that_differ_are_rejected_on_all_ranks,
	 NULL, 2, NIC},
	{"a_window_by_rdma_needs_links", a_window_by_rdma_needs_links, NULL, 2, NIC},
	{"ranks_without_a_nic_are_named", ranks_without_a_nic_are_named, NULL, 2,
	 OWN_COMM | NEEDS_NO_HCA | NEEDS_ONE_MACHINE},
};

const struct suite both_suite = SUITE(both);

/* Holds on some NICs; a twin that needs one on which it does not. */
static const struct test_case both_lie_cases[] = {
	{"a_drain_orders_the_nic_before_a_store", a_drain_orders_the_nic_before_a_store, NULL, 2,
	 NIC | REPORTS(1)},
};

const struct suite both_lie_suite = SUITE(both_lie);
