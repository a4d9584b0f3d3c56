/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The knowledge of a handle about ranks, and the communicator's own handle: regions of peers are
 * reached by it as buffers of a window are, and its numbers are of regions alone.
 */
#include "harness.h"

#define PART 509u

CASE uint64_t pair_seed(unsigned from, unsigned to)
{
	return 1 + from * 16u + to;
}

/* Every member of the domain has one index, in rank order; another rank has none. */
CASE void domain_numbers_round_trip(struct rank *r)
{
	uint32_t size = oriel_dev_domain_size(&r->dev), index = 0, member = 0, rank = 0, found = 0;

	for (rank = 0; rank < r->size; rank++) {
		if (!rank_is_in_domain(r, rank)) {
			CHECK_STATUS(r, oriel_dev_domain_find(&r->dev, rank, &found),
				     ORIEL_ERR_NO_PATH);
			continue;
		}
		CHECK_OK(r, oriel_dev_domain_rank(&r->dev, index, &member));
		CHECK_EQ(r, member, rank);
		CHECK_OK(r, oriel_dev_domain_find(&r->dev, rank, &found));
		CHECK_EQ(r, found, index);
		if (rank == r->rank)
			CHECK_EQ(r, oriel_dev_domain_index(&r->dev), index);
		index++;
	}
	CHECK_EQ(r, size, index);
}

/* PeerIterationHelpers, PeerIndexConversionRoundtrip; on the device. */
CASE void device_peer_numbers_round_trip(struct rank *r)
{
	uint32_t index = 0, rank = 0, peer = 0, found = 0;

	for (rank = 0; rank < r->size; rank++) {
		if (rank == r->rank)
			continue;
		CHECK_OK(r, oriel_dev_peer_rank(&r->dev, index, &peer));
		CHECK_EQ(r, peer, rank);
		CHECK_OK(r, oriel_dev_peer_index(&r->dev, rank, &found));
		CHECK_EQ(r, found, index);
		index++;
	}
	CHECK_EQ(r, index, r->size - 1);
}

CASE void check_query(struct rank *r, enum oriel_status got, enum oriel_status expected,
		      uint32_t what, uint64_t seen, uint64_t limit, const char *text)
{
	struct oriel_dev_fault fault;

	CHECK_STATUS(r, got, expected);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.status, (uint64_t)expected);
	CHECK_EQ(r, fault.what, what);
	CHECK_EQ(r, fault.seen, seen);
	CHECK_EQ(r, fault.expected, limit);
	CHECK_LAST(r, text);
}

CASE void queries_of_numbers_beyond_are_rejected(struct rank *r)
{
	uint32_t size = oriel_dev_domain_size(&r->dev), untouched = 77;

	check_query(r, oriel_dev_domain_rank(&r->dev, size, &untouched), ORIEL_ERR_RANGE,
		    ORIEL_DEV_DOMAIN_RANK, size, size, "domain_rank: index ");
	check_query(r, oriel_dev_domain_find(&r->dev, r->size, &untouched), ORIEL_ERR_RANGE,
		    ORIEL_DEV_DOMAIN_FIND, r->size, r->size, "domain_find: rank ");
	check_query(r, oriel_dev_peer_rank(&r->dev, r->size - 1, &untouched), ORIEL_ERR_RANGE,
		    ORIEL_DEV_PEER_RANK, r->size - 1, r->size - 1, "peer_rank: index ");
	check_query(r, oriel_dev_peer_index(&r->dev, r->size, &untouched), ORIEL_ERR_RANGE,
		    ORIEL_DEV_PEER_INDEX, r->size, r->size, "peer_index: rank ");
	check_query(r, oriel_dev_peer_index(&r->dev, r->rank, &untouched), ORIEL_ERR_INVALID,
		    ORIEL_DEV_PEER_INDEX, r->rank, r->rank, "is the rank itself");
	CHECK_EQ(r, untouched, 77);
}

CASE void queries_of_foreign_handles_are_rejected(struct rank *r)
{
	struct oriel_dev_window w = r->dev;
	uint32_t untouched = 77;

	w.version++;
	CHECK_EQ(r, oriel_dev_domain_size(&w), 0);
	CHECK_EQ(r, oriel_dev_domain_index(&w), ORIEL_DEV_NO_INDEX);
	CHECK_STATUS(r, oriel_dev_domain_rank(&w, 0, &untouched), ORIEL_ERR_VERSION);
	CHECK_STATUS(r, oriel_dev_domain_find(&w, r->rank, &untouched), ORIEL_ERR_VERSION);
	CHECK_STATUS(r, oriel_dev_peer_rank(&w, 0, &untouched), ORIEL_ERR_VERSION);
	CHECK_STATUS(r, oriel_dev_peer_index(&w, r->rank, &untouched), ORIEL_ERR_VERSION);
	CHECK_EQ(r, untouched, 77);
}

CASE void put_signal_reaches_every_region(struct rank *r)
{
	RANK_ARRAY(r, char, block, PART);
	unsigned peer;

	for (peer = 0; peer < r->size; peer++) {
		group_fill(r->group, block, PART, pair_seed(r->rank, peer));
		CHECK_POSTED(r, oriel_dev_put_signal(&r->dev, r->group, peer,
						     oriel_at(REGION, r->rank * PART), block, PART,
						     0, 1, NULL));
		CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	}
	for (peer = 0; peer < r->size; peer++) {
		CHECK_OK(r, oriel_dev_wait_signal_next(&r->dev, r->group, peer, 0, 1, LONG_NS));
		CHECK_EQ(r, wrong(r->base + peer * PART, PART, pair_seed(peer, r->rank)), 0);
	}
	CHECK_EQ(r, not_all(r->base + r->size * PART, PART, 0), 0);
}

CASE void get_reads_every_region(struct rank *r)
{
	RANK_ARRAY(r, char, block, PART);
	unsigned peer;

	group_fill(r->group, r->base, r->length, pair_seed(r->rank, r->rank));
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		CHECK_POSTED(r, oriel_dev_get(&r->dev, r->group, peer, oriel_at(REGION, 0), block,
					      PART, NULL));
		CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
		CHECK_EQ(r, wrong(block, PART, pair_seed(peer, peer)), 0);
		oriel_dev_sync(r->group);
	}
	rank_flush_barrier(r);
}

/* Each rank has a word of its own at each peer, and a counter that says when the source is free. */
CASE void words_and_counters_of_regions_work(struct rank *r)
{
	RANK_ARRAY(r, uint64_t, value, 1);
	uint64_t old = 0, before = 0;
	unsigned peer;

	*value = r->rank + 1;
	oriel_dev_sync(r->group);
	for (peer = 0; peer < r->size; peer++) {
		CHECK_OK(r, oriel_dev_read_counter(&r->dev, peer, 1, &before));
		oriel_dev_sync(r->group);
		CHECK_POSTED(r, oriel_dev_put_counter(&r->dev, r->group, peer,
						      oriel_at(REGION, 8 * (size_t)r->rank), value,
						      8, 1, NULL));
		CHECK_OK(r, oriel_dev_wait_counter(&r->dev, r->group, peer, 1, ORIEL_EQ, before + 1,
						   LONG_NS));
		/* Only a flush orders the put before the atomic. */
		CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
		CHECK_OK(r, ALONE(r, oriel_dev_fetch_add(&r->dev, peer,
							 oriel_at(REGION, 8 * (size_t)r->rank), 100,
							 &old)));
		CHECK_EQ(r, SHARED(r, old), r->rank + 1);
		CHECK_POSTED(r, ALONE(r, oriel_dev_put_value(&r->dev, peer,
							     oriel_at(REGION, 1024 + 8 * r->rank),
							     ~(uint64_t)r->rank, NULL)));
	}
	CHECK_OK(r, oriel_dev_barrier(&r->dev, r->group, 2, LONG_NS));
	for (peer = 0; peer < r->size; peer++) {
		const uint64_t *word = (const uint64_t *)(const void *)r->base + peer;

		CHECK_EQ(r, oriel_dev_load_relaxed(word), peer + 101);
		CHECK_EQ(r, oriel_dev_load_relaxed(word + 128), ~(uint64_t)peer);
	}
}

CASE void region_is_where_the_peer_sees_it(struct rank *r)
{
	unsigned peer;

	CHECK(r, oriel_dev_address(&r->dev, r->rank, oriel_at(REGION, 8)) == r->base + 8);
	for (peer = 0; peer < r->size; peer++)
		CHECK(r, !oriel_dev_address(&r->dev, peer, oriel_at(REGION, 0)) ==
				 !rank_is_mapped(r, r->rank, peer));
}

CASE void check_no_region(struct rank *r, uint64_t at, enum oriel_status expected, const char *text)
{
	RANK_ARRAY(r, uint64_t, word, 1);
	struct oriel_dev_fault fault;

	CHECK_STATUS(r,
		     oriel_dev_put_signal(&r->dev, r->group, rank_next(r), at, word, 8, 3, 1, NULL),
		     expected);
	CHECK_OK(r, rank_fault(r, &fault));
	CHECK_EQ(r, fault.status, (uint64_t)expected);
	CHECK_EQ(r, fault.window, r->dev.number);
	CHECK_LAST(r, text);
}

CASE void numbers_without_a_region_are_rejected(struct rank *r)
{
	check_no_region(r, 0, ORIEL_ERR_RANGE, "is beyond the 0 bytes of buffer 0");
	check_no_region(r, oriel_at(REGION + 1, 0), ORIEL_ERR_STATE, "buffer 2 of rank");
	check_no_region(r, oriel_at(r->dev.buffers, 0), ORIEL_ERR_RANGE, "is in buffer");
	check_no_region(r, oriel_at(REGION, r->length - 7), ORIEL_ERR_RANGE, "is beyond the");
	CHECK_STATUS(r,
		     oriel_dev_wait_signal_from(&r->dev, r->group, rank_prev(r), 3, ORIEL_NE, 0, 1),
		     ORIEL_ERR_TIMEOUT);
}

/* The queries of a window, asked of the communicator's own handle. */
CASE void own_handles_know_the_same_numbers(struct rank *r)
{
	domain_numbers_round_trip(r);
	device_peer_numbers_round_trip(r);
	queries_of_numbers_beyond_are_rejected(r);
}

#define HANDLE_CASES(ROW)                                              \
	ROW(domain_numbers_round_trip, NULL, 1, 0)                     \
	ROW(device_peer_numbers_round_trip, NULL, 1, 0)                \
	ROW(queries_of_numbers_beyond_are_rejected, NULL, 1, 0)        \
	ROW(queries_of_foreign_handles_are_rejected, NULL, 1, 0)       \
	ROW(put_signal_reaches_every_region, NULL, 1, ON_REGION)       \
	ROW(get_reads_every_region, NULL, 1, ON_REGION)                \
	ROW(words_and_counters_of_regions_work, NULL, 1, ON_REGION)    \
	ROW(region_is_where_the_peer_sees_it, NULL, 1, ON_REGION)      \
	ROW(numbers_without_a_region_are_rejected, NULL, 2, ON_REGION) \
	ROW(own_handles_know_the_same_numbers, NULL, 1, ON_REGION)

DEVICE_SUITE(handle, HANDLE_CASES, NO_FORKS, NULL);
