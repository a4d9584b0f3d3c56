/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are put and got: the right ones, in the right place, and no others. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 0xa5

static uint64_t pair_seed(unsigned from, unsigned to)
{
	return 1 + from * 16u + to;
}

/* The row was once computed with the wrong end's index: every pair, unique values. */
static void put_reaches_every_pair(struct rank *r)
{
	char block[509];
	unsigned peer;

	for (peer = 0; peer < r->size; peer++) {
		fill(block, sizeof(block), pair_seed(r->rank, peer));
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer, r->rank * sizeof(block),
					      block, sizeof(block)));
		CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	}
	rank_settle(r);
	for (peer = 0; peer < r->size; peer++)
		CHECK_EQ(r,
			 wrong(r->base + peer * sizeof(block), sizeof(block),
			       pair_seed(peer, r->rank)),
			 0);
}

static void get_reads_every_pair(struct rank *r)
{
	static const size_t lengths[] = {0, 1, 3, 8, 64, 1000, 4096, 30001};
	char *block = malloc(30001 + 2);
	unsigned peer;
	size_t i;

	fill(r->base, r->length, pair_seed(r->rank, r->rank));
	rank_settle(r);
	for (peer = 0; peer < r->size; peer++) {
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			memset(block, GUARD, 30001 + 2);
			CHECK_POSTED(r, oriel_dev_get(&r->dev, r->group, peer, 0, block + 1,
						      lengths[i]));
			CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
			CHECK_EQ(r, wrong(block + 1, lengths[i], pair_seed(peer, peer)), 0);
			CHECK_EQ(r, (unsigned char)block[0], GUARD);
			CHECK_EQ(r, not_all(block + 1 + lengths[i], 30001 + 1 - lengths[i], GUARD),
				 0);
		}
	}
	rank_settle(r);
	free(block);
}

/* Put @length bytes for each combination of skews, one slot each, then look at all. */
static void check_guards(struct rank *r, size_t length)
{
	static const size_t skews[] = {0, 1, 4, 8, 15};
	const size_t count = sizeof(skews) / sizeof(skews[0]);
	size_t slot = (length + 2 * 64 + 63) / 64 * 64;
	char *block = malloc(length + 64);
	size_t i, to;

	memset(r->base, GUARD, count * count * slot);
	rank_settle(r);
	for (i = 0; i < count * count; i++) {
		to = i * slot + 64 + skews[i % count];
		fill(block + skews[i / count], length, r->rank + i);
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, rank_next(r), to,
					      block + skews[i / count], length));
		CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	}
	rank_settle(r);
	for (i = 0; i < count * count; i++) {
		size_t before = 64 + skews[i % count];
		const char *at = r->base + i * slot;

		CHECK_EQ(r, not_all(at, before, GUARD), 0);
		CHECK_EQ(r, wrong(at + before, length, rank_prev(r) + i), 0);
		CHECK_EQ(r, not_all(at + before + length, slot - before - length, GUARD), 0);
	}
	rank_settle(r);
	free(block);
}

static void put_leaves_what_is_around_it(struct rank *r)
{
	static const size_t lengths[] = {0,   1,   2,    3,    4,    7,    8,    9,
					 15,  16,  17,   31,   63,   64,   65,   127,
					 128, 255, 1000, 4095, 4096, 4097, 16384};
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		check_guards(r, lengths[i]);
}

static void zero_bytes_are_legal_everywhere(struct rank *r)
{
	unsigned peer;
	uint64_t value = 0;

	rank_settle(r);
	for (peer = 0; peer < r->size; peer++) {
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer, 0, NULL, 0));
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer, r->length, NULL, 0));
		CHECK_POSTED(r, oriel_dev_get(&r->dev, r->group, peer, r->length, NULL, 0));
		CHECK_POSTED(r, oriel_dev_put_signal(&r->dev, r->group, peer, r->length, NULL, 0, 3,
						     peer + 1));
		CHECK_POSTED(r,
			     oriel_dev_put_counter(&r->dev, r->group, peer, r->length, NULL, 0, 2));
		CHECK_OK(r,
			 oriel_dev_wait_counter(&r->dev, r->group, peer, 2, ORIEL_EQ, 1, LONG_NS));
	}
	for (peer = 0; peer < r->size; peer++)
		CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, r->group, peer, 3, ORIEL_EQ,
						       r->rank + 1, LONG_NS));
	CHECK_OK(r, oriel_dev_read_signal(&r->dev, 3, &value));
	CHECK_EQ(r, value, (uint64_t)r->size * (r->rank + 1));
	CHECK_EQ(r, not_all(r->base, r->length, 0), 0);
}

/* Polls its own memory, which put_value promises to change as a whole. */
static void put_value_can_be_polled(struct rank *r)
{
	uint64_t *words = (void *)r->base;
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		CHECK_POSTED(r, oriel_dev_put_value(&r->dev, peer, 8 * (size_t)r->rank,
						    ~pair_seed(r->rank, peer)));
	for (peer = 0; peer < r->size; peer++) {
		struct oriel_dev_aim aim = {&words[peer],        0,    ORIEL_NE,
					    ORIEL_DEV_PUT_VALUE, peer, 0};

		CHECK_OK(r, oriel_dev_wait_word(&r->dev, oriel_dev_thread(), &aim, LONG_NS));
		CHECK_EQ(r, oriel_dev_load_relaxed(&words[peer]), ~pair_seed(peer, r->rank));
	}
	rank_settle(r);
	CHECK_EQ(r, not_all(r->base + 8 * (size_t)r->size, 256, 0), 0);
}

#define ADDS 200u

/*
 * One word, and one row of marks, for those that reach it by memory and one for
 * those that come by each rail: their atomics do not know of each other.
 */
static unsigned adds_row(const struct rank *r, unsigned peer)
{
	return rank_is_mapped(r, r->rank, peer) ? 0 : 1 + rank_rail(r, peer);
}

static size_t adds_word(const struct rank *r, unsigned peer)
{
	return 8 + 16 * (size_t)adds_row(r, peer);
}

static size_t adds_marks(const struct rank *r, unsigned peer)
{
	return 128 + (size_t)ADDS * r->size * adds_row(r, peer);
}

static size_t count_marks(const struct rank *r, size_t at, unsigned source)
{
	return ADDS * r->size - not_all(r->base + at, ADDS * r->size, (unsigned char)(source + 1));
}

/* Each add must get a number of its own: with it, it marks a byte that nobody else marks. */
static void fetch_add_gives_each_a_number(struct rank *r)
{
	char mark = (char)(r->rank + 1);
	uint64_t old = 0, added[1 + ORIEL_DEV_RAILS] = {0}, *words = (void *)r->base;
	unsigned i, peer;

	for (i = 0; i < ADDS; i++) {
		for (peer = 0; peer < r->size; peer++) {
			CHECK_OK(r,
				 oriel_dev_fetch_add(&r->dev, peer, adds_word(r, peer), 1, &old));
			if (CHECK(r, old < ADDS * r->size))
				CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer,
							      adds_marks(r, peer) + old, &mark, 1));
		}
	}
	rank_settle(r);
	for (peer = 0; peer < r->size; peer++) {
		added[adds_row(r, peer)] += ADDS;
		CHECK_EQ(r, count_marks(r, adds_marks(r, peer), peer), ADDS);
	}
	for (i = 0; i <= ORIEL_DEV_RAILS; i++) {
		CHECK_EQ(r, words[2 * i], 0);
		CHECK_EQ(r, words[2 * i + 1], added[i]);
	}
}

static void fetch_add_is_modulo_2_to_64(struct rank *r)
{
	uint64_t old = 0;

	CHECK_POSTED(r, oriel_dev_put_value(&r->dev, rank_next(r), 0, UINT64_MAX - 1));
	CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
	CHECK_OK(r, oriel_dev_fetch_add(&r->dev, rank_next(r), 0, 5, &old));
	CHECK_EQ(r, old, UINT64_MAX - 1);
	CHECK_OK(r, oriel_dev_fetch_add(&r->dev, rank_next(r), 0, UINT64_MAX, &old));
	CHECK_EQ(r, old, 3);
	CHECK_OK(r, oriel_dev_fetch_add(&r->dev, rank_next(r), 0, 0, &old));
	CHECK_EQ(r, old, 2);
	rank_settle(r);
}

static void write_at_address(struct rank *r, unsigned peer)
{
	char *at = oriel_dev_address(&r->dev, peer, 100 + r->rank);
	void *asked = NULL;

	CHECK_OK(r, oriel_window_peer_address(r->window, peer, 100 + r->rank, &asked));
	CHECK(r, at && at == asked);
	*at = (char)pair_seed(r->rank, peer);
	CHECK(r, oriel_dev_address(&r->dev, peer, r->length - 1) != NULL);
	CHECK(r, oriel_dev_address(&r->dev, peer, r->length) == NULL);
	CHECK_STATUS(r, oriel_window_peer_address(r->window, peer, r->length, &asked),
		     ORIEL_ERR_RANGE);
}

/* GetNvlinkAddress, MiddleRank. A peer that is not mapped has none. */
static void address_is_where_the_peer_sees_it(struct rank *r)
{
	unsigned peer;
	void *asked;

	for (peer = 0; peer < r->size; peer++) {
		if (rank_is_mapped(r, r->rank, peer)) {
			write_at_address(r, peer);
			continue;
		}
		CHECK(r, oriel_dev_address(&r->dev, peer, 100) == NULL);
		CHECK_STATUS(r, oriel_window_peer_address(r->window, peer, 100, &asked),
			     ORIEL_ERR_NO_PATH);
	}
	CHECK(r, oriel_dev_address(&r->dev, r->rank, 0) == r->base);
	CHECK(r, oriel_dev_address(&r->dev, r->size, 0) == NULL);
	rank_settle(r);
	for (peer = 0; peer < r->size; peer++)
		CHECK_EQ(r, (unsigned char)r->base[100 + peer],
			 rank_is_mapped(r, peer, r->rank) ? (unsigned char)pair_seed(peer, r->rank)
							  : 0);
}

/* A second copy, done late by somebody else, would undo what came after the first. */
static void put_happens_once(struct rank *r)
{
	char block[4096];
	int64_t ticket;

	fill(block, sizeof(block), 7);
	ticket = oriel_dev_put(&r->dev, r->group, r->rank, 0, block, sizeof(block));
	CHECK_POSTED(r, ticket);
	CHECK_OK(r, oriel_dev_wait_local(&r->dev, r->group, r->rank, ticket, LONG_NS));
	CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
	CHECK_EQ(r, wrong(r->base, sizeof(block), 7), 0);
	memset(r->base, GUARD, sizeof(block));
	rank_settle(r);
	CHECK_EQ(r, not_all(r->base, sizeof(block), GUARD), 0);
	CHECK_EQ(r, not_all(r->base + sizeof(block), 4096, 0), 0);
}

static void source_may_be_reused_after_wait_local(struct rank *r)
{
	char block[2048];
	int64_t ticket;
	unsigned i;

	for (i = 0; i < 16; i++) {
		fill(block, sizeof(block), r->rank + i);
		ticket = oriel_dev_put(&r->dev, r->group, rank_next(r), i * sizeof(block), block,
				       sizeof(block));
		CHECK_POSTED(r, ticket);
		CHECK_OK(r, oriel_dev_wait_local(&r->dev, r->group, rank_next(r), ticket, LONG_NS));
	}
	memset(block, 0, sizeof(block));
	rank_settle(r);
	for (i = 0; i < 16; i++)
		CHECK_EQ(r, wrong(r->base + i * sizeof(block), sizeof(block), rank_prev(r) + i), 0);
}

#define TILE 1536u
#define GROUPS 6u

static void put_tile(struct rank *r, unsigned index, void *context)
{
	size_t at = (r->rank * GROUPS + index) * (size_t)TILE;
	char tile[TILE];
	unsigned peer;

	(void)context;
	for (peer = 0; peer < r->size; peer++) {
		fill(tile, sizeof(tile), pair_seed(r->rank, peer) + 1000 * index);
		CHECK_POSTED(r, oriel_dev_put(&r->dev, oriel_dev_thread(), peer, at, tile, TILE));
		CHECK_OK(r, oriel_dev_flush(&r->dev, oriel_dev_thread(), LONG_NS));
	}
}

/* A put belongs to the group that calls it, not to all groups of the launch. */
static void each_group_puts_a_tile_of_its_own(struct rank *r)
{
	unsigned peer, index;

	rank_fork(r, GROUPS, put_tile, NULL);
	rank_settle(r);
	for (peer = 0; peer < r->size; peer++)
		for (index = 0; index < GROUPS; index++)
			CHECK_EQ(r,
				 wrong(r->base + (peer * GROUPS + index) * (size_t)TILE, TILE,
				       pair_seed(peer, r->rank) + 1000 * index),
				 0);
}

#define LARGE (3u << 20)

/* As many groups as there are parts would do it at once; the order is nobody's. */
static void put_by_parts_is_one_put(struct rank *r)
{
	static const size_t lengths[] = {0, 1, 63, 64 * 5 + 1, 65536, 65537, 3 * 65536 + 4093};
	static const uint32_t counts[] = {1, 2, 3, 7};
	size_t longest = lengths[6], i;
	char *block = malloc(longest);
	uint32_t k, part;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
			memset(r->base, GUARD, longest + 128);
			fill(block, lengths[i], r->rank + 10 * i + k);
			rank_settle(r);
			for (part = counts[k]; part-- > 0;)
				CHECK_POSTED(r, oriel_dev_put_part(&r->dev, r->group, part,
								   counts[k], rank_next(r), 61,
								   block, lengths[i]));
			CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
			rank_settle(r);
			CHECK_EQ(r, not_all(r->base, 61, GUARD), 0);
			CHECK_EQ(r, wrong(r->base + 61, lengths[i], rank_prev(r) + 10 * i + k), 0);
			CHECK_EQ(r,
				 not_all(r->base + 61 + lengths[i], longest + 67 - lengths[i],
					 GUARD),
				 0);
			rank_settle(r);
		}
	}
	free(block);
}

static void large_blocks_arrive_whole(struct rank *r)
{
	char *block = malloc(LARGE);

	fill(block, LARGE, r->rank);
	CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, rank_next(r), 5, block, LARGE - 11));
	rank_settle(r);
	CHECK_EQ(r, wrong(r->base + 5, LARGE - 11, rank_prev(r)), 0);
	memset(block, 0, LARGE);
	CHECK_POSTED(r, oriel_dev_get(&r->dev, r->group, rank_next(r), 5, block, LARGE - 11));
	CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	CHECK_EQ(r, wrong(block, LARGE - 11, r->rank), 0);
	rank_settle(r);
	free(block);
}

static const struct oriel_window_attr wide_window = {.size = sizeof(wide_window),
						     .length = 25 * (16384 + 256),
						     .channels = ORIEL_NONE};
static const struct oriel_window_attr tile_window = {.size = sizeof(tile_window),
						     .length = 16 * GROUPS * TILE,
						     .channels = ORIEL_NONE};
static const struct oriel_window_attr large_window = {.size = sizeof(large_window),
						      .length = LARGE,
						      .channels = ORIEL_NONE};

static const struct test_case data_cases[] = {
	{"put_reaches_every_pair", put_reaches_every_pair, NULL, 1, 0},
	{"get_reads_every_pair", get_reads_every_pair, NULL, 1, 0},
	{"put_leaves_what_is_around_it", put_leaves_what_is_around_it, &wide_window, 1, 0},
	{"zero_bytes_are_legal_everywhere", zero_bytes_are_legal_everywhere, NULL, 1, 0},
	{"put_value_can_be_polled", put_value_can_be_polled, NULL, 1, 0},
	{"fetch_add_gives_each_a_number", fetch_add_gives_each_a_number, NULL, 1, 0},
	{"fetch_add_is_modulo_2_to_64", fetch_add_is_modulo_2_to_64, NULL, 1, 0},
	{"address_is_where_the_peer_sees_it", address_is_where_the_peer_sees_it, NULL, 1, 0},
	{"put_happens_once", put_happens_once, NULL, 1, 0},
	{"source_may_be_reused_after_wait_local", source_may_be_reused_after_wait_local, NULL, 1,
	 0},
	{"each_group_puts_a_tile_of_its_own", each_group_puts_a_tile_of_its_own, &tile_window, 1,
	 0},
	{"put_by_parts_is_one_put", put_by_parts_is_one_put, &large_window, 1, 0},
	{"large_blocks_arrive_whole", large_blocks_arrive_whole, &large_window, 1, 0},
};

const struct suite data_suite = SUITE(data);
