/* SPDX-License-Identifier: Apache-2.0 */
/* Puts and gets move the right bytes to the right offset, and change no others. */
#include "harness.h"

#define GUARD 0xa5

CASE uint64_t pair_seed(unsigned from, unsigned to)
{
	return 1 + from * 16u + to;
}

#define PAIR 509u

/* The row was once computed with the index of the wrong side; so every pair puts unique values. */
CASE void put_reaches_every_pair(struct rank *r)
{
	RANK_ARRAY(r, char, block, PAIR);
	unsigned peer;

	for (peer = 0; peer < r->size; peer++) {
		group_fill(r->group, block, PAIR, pair_seed(r->rank, peer));
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer, r->rank * PAIR, block, PAIR,
					      NULL));
		CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	}
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++)
		CHECK_EQ(r, wrong(r->base + peer * PAIR, PAIR, pair_seed(peer, r->rank)), 0);
}

CASE void get_reads_every_pair(struct rank *r)
{
	static const size_t lengths[] = {0, 1, 3, 8, 64, 1000, 4096, 30001};
	char *block = (char *)rank_alloc(r, 30001 + 2);
	unsigned peer;
	size_t i;

	group_fill(r->group, r->base, r->length, pair_seed(r->rank, r->rank));
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			group_flood(r->group, block, 30001 + 2, GUARD);
			CHECK_POSTED(r, oriel_dev_get(&r->dev, r->group, peer, 0, block + 1,
						      lengths[i], NULL));
			CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
			CHECK_EQ(r, wrong(block + 1, lengths[i], pair_seed(peer, peer)), 0);
			CHECK_EQ(r, (unsigned char)block[0], GUARD);
			CHECK_EQ(r, not_all(block + 1 + lengths[i], 30001 + 1 - lengths[i], GUARD),
				 0);
		}
	}
	rank_flush_barrier(r);
	rank_free(r, block);
}

/* Put @length bytes for each combination of skews, one slot each, then check all slots. */
CASE void check_guards(struct rank *r, size_t length)
{
	static const size_t skews[] = {0, 1, 4, 8, 15};
	const size_t count = sizeof(skews) / sizeof(skews[0]);
	size_t slot = (length + 2 * 64 + 63) / 64 * 64;
	char *block = (char *)rank_alloc(r, length + 64);
	size_t i, to;

	group_flood(r->group, r->base, count * count * slot, GUARD);
	rank_flush_barrier(r);
	for (i = 0; i < count * count; i++) {
		to = i * slot + 64 + skews[i % count];
		group_fill(r->group, block + skews[i / count], length, r->rank + i);
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, rank_next(r), to,
					      block + skews[i / count], length, NULL));
		CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	}
	rank_flush_barrier(r);
	for (i = 0; i < count * count; i++) {
		size_t before = 64 + skews[i % count];
		const char *at = r->base + i * slot;

		CHECK_EQ(r, not_all(at, before, GUARD), 0);
		CHECK_EQ(r, wrong(at + before, length, rank_prev(r) + i), 0);
		CHECK_EQ(r, not_all(at + before + length, slot - before - length, GUARD), 0);
	}
	rank_flush_barrier(r);
	rank_free(r, block);
}

CASE void put_leaves_adjacent_bytes(struct rank *r)
{
	static const size_t lengths[] = {0,   1,   2,    3,    4,    7,    8,    9,
					 15,  16,  17,   31,   63,   64,   65,   127,
					 128, 255, 1000, 4095, 4096, 4097, 16384};
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		check_guards(r, lengths[i]);
}

CASE void zero_bytes_are_legal_everywhere(struct rank *r)
{
	unsigned peer;
	uint64_t value = 0;

	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer, 0, NULL, 0, NULL));
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer, r->length, NULL, 0, NULL));
		CHECK_POSTED(r, oriel_dev_get(&r->dev, r->group, peer, r->length, NULL, 0, NULL));
		CHECK_POSTED(r, oriel_dev_put_signal(&r->dev, r->group, peer, r->length, NULL, 0, 3,
						     peer + 1, NULL));
		CHECK_POSTED(r, oriel_dev_put_counter(&r->dev, r->group, peer, r->length, NULL, 0,
						      2, NULL));
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

/* The target polls its own memory, which put_value promises to change as a whole. */
CASE void put_value_can_be_polled(struct rank *r)
{
	uint64_t *words = (uint64_t *)(void *)r->base;
	unsigned peer;

	for (peer = 0; peer < r->size; peer++)
		CHECK_POSTED(r, ALONE(r, oriel_dev_put_value(&r->dev, peer, 8 * (size_t)r->rank,
							     ~pair_seed(r->rank, peer), NULL)));
	for (peer = 0; peer < r->size; peer++) {
		struct oriel_dev_aim aim = {&words[peer],        0,    ORIEL_NE,
					    ORIEL_DEV_PUT_VALUE, peer, 0};

		CHECK_OK(r, ori_dev_wait_led(&r->dev, r->group, &aim, LONG_NS));
		CHECK_EQ(r, oriel_dev_load_relaxed(&words[peer]), ~pair_seed(peer, r->rank));
	}
	rank_flush_barrier(r);
	CHECK_EQ(r, not_all(r->base + 8 * (size_t)r->size, 256, 0), 0);
}

#define ADDS 200u

/*
 * One word and one row of marks for ranks whose processors add, and one of each for every rail:
 * atomics of different HCAs and CPUs are not atomic with each other. In a window with one agent
 * there is one row.
 */
CASE unsigned adds_row(const struct rank *r, unsigned peer)
{
	return atomics_are_mapped(r, peer) ? 0 : 1 + rank_rail(r, peer);
}

CASE size_t adds_word(const struct rank *r, unsigned peer)
{
	return 8 + 16 * (size_t)adds_row(r, peer);
}

CASE size_t adds_marks(const struct rank *r, unsigned peer)
{
	return 128 + (size_t)ADDS * r->size * adds_row(r, peer);
}

CASE size_t count_marks(const struct rank *r, size_t at, unsigned source)
{
	return ADDS * r->size - not_all(r->base + at, ADDS * r->size, (unsigned char)(source + 1));
}

/* Add @value to the word at @at of @peer; return what the word held before. */
CASE uint64_t take(struct rank *r, unsigned peer, uint64_t at, uint64_t value)
{
	uint64_t old = 0;

	CHECK_OK(r, ALONE(r, oriel_dev_fetch_add(&r->dev, peer, at, value, &old)));
	return SHARED(r, old);
}

/* @is_ordered makes no difference to the numbers. */
CASE uint64_t take_number(struct rank *r, unsigned peer, uint64_t at, bool is_ordered)
{
	uint64_t old = 0;

	if (is_ordered)
		return take(r, peer, at, 1);
	CHECK_OK(r, ALONE(r, oriel_dev_fetch_add_relaxed(&r->dev, peer, at, 1, &old)));
	return SHARED(r, old);
}

/*
 * Each add gets a number of its own: the rank marks the byte of that number, which no other add
 * marks.
 */
CASE void every_fetch_add_returns_its_own_number(struct rank *r)
{
	RANK_ARRAY(r, char, mark, 1);
	uint64_t old = 0, added[1 + ORIEL_DEV_RAILS] = {0};
	uint64_t *words = (uint64_t *)(void *)r->base;
	unsigned i, peer;

	mark[0] = (char)(r->rank + 1);
	for (i = 0; i < ADDS; i++) {
		for (peer = 0; peer < r->size; peer++) {
			old = take_number(r, peer, adds_word(r, peer), i % 2);
			if (CHECK(r, old < ADDS * r->size))
				CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer,
							      adds_marks(r, peer) + old, mark, 1,
							      NULL));
		}
	}
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++) {
		added[adds_row(r, peer)] += ADDS;
		CHECK_EQ(r, count_marks(r, adds_marks(r, peer), peer), ADDS);
	}
	for (i = 0; i <= ORIEL_DEV_RAILS; i++) {
		CHECK_EQ(r, words[2 * i], 0);
		CHECK_EQ(r, words[2 * i + 1], added[i]);
	}
}

CASE void fetch_add_is_modulo_2_to_64(struct rank *r)
{
	CHECK_POSTED(r,
		     ALONE(r, oriel_dev_put_value(&r->dev, rank_next(r), 0, UINT64_MAX - 1, NULL)));
	CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
	CHECK_EQ(r, take(r, rank_next(r), 0, 5), UINT64_MAX - 1);
	CHECK_EQ(r, take(r, rank_next(r), 0, UINT64_MAX), 3);
	CHECK_EQ(r, take(r, rank_next(r), 0, 0), 2);
	rank_flush_barrier(r);
}

/* Check that the host function gives the address @seen for @peer; 0: it gives none. */
static void data_host(struct rank *r, unsigned peer, uint64_t seen)
{
	void *asked = NULL;

	CHECK_STATUS(r, oriel_window_peer_address(r->window, peer, 100 + r->rank, &asked),
		     seen ? ORIEL_OK : ORIEL_ERR_NO_PATH);
	CHECK_EQ(r, (uintptr_t)asked, seen);
	if (seen)
		CHECK_STATUS(r, oriel_window_peer_address(r->window, peer, r->length, &asked),
			     ORIEL_ERR_RANGE);
}

CASE void write_at_address(struct rank *r, unsigned peer)
{
	char *at = (char *)oriel_dev_address(&r->dev, peer, 100 + r->rank);

	CHECK(r, at != NULL);
	host_do(r, data_host, peer, (uintptr_t)at);
	*at = (char)pair_seed(r->rank, peer);
	CHECK(r, oriel_dev_address(&r->dev, peer, r->length - 1) != NULL);
	CHECK(r, oriel_dev_address(&r->dev, peer, r->length) == NULL);
}

/* GetNvlinkAddress, MiddleRank. A peer that is not mapped has no address. */
CASE void address_is_where_the_peer_sees_it(struct rank *r)
{
	unsigned peer;

	for (peer = 0; peer < r->size; peer++) {
		if (rank_is_mapped(r, r->rank, peer)) {
			write_at_address(r, peer);
			continue;
		}
		CHECK(r, oriel_dev_address(&r->dev, peer, 100) == NULL);
		host_do(r, data_host, peer, 0);
	}
	CHECK(r, oriel_dev_address(&r->dev, r->rank, 0) == r->base);
	CHECK(r, oriel_dev_address(&r->dev, r->size, 0) == NULL);
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++)
		CHECK_EQ(r, (unsigned char)r->base[100 + peer],
			 rank_is_mapped(r, peer, r->rank) ? (unsigned char)pair_seed(peer, r->rank)
							  : 0);
}

#define PAGE 4096u

/* A second copy, made late by another thread, would undo the writes after the first one. */
CASE void put_happens_once(struct rank *r)
{
	RANK_ARRAY(r, char, block, PAGE);
	struct oriel_dev_ticket ticket = {0, 0, 0};

	group_fill(r->group, block, PAGE, 7);
	CHECK_OK(r, oriel_dev_put(&r->dev, r->group, r->rank, 0, block, PAGE, &ticket));
	CHECK_OK(r, oriel_dev_wait_local(&r->dev, r->group, ticket, LONG_NS));
	CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
	CHECK_EQ(r, wrong(r->base, PAGE, 7), 0);
	group_flood(r->group, r->base, PAGE, GUARD);
	rank_flush_barrier(r);
	CHECK_EQ(r, not_all(r->base, PAGE, GUARD), 0);
	CHECK_EQ(r, not_all(r->base + PAGE, PAGE, 0), 0);
}

#define PART 2048u

CASE void source_may_be_reused_after_wait_local(struct rank *r)
{
	RANK_ARRAY(r, char, block, PART);
	struct oriel_dev_ticket ticket = {0, 0, 0};
	unsigned i;

	for (i = 0; i < 16; i++) {
		group_fill(r->group, block, PART, r->rank + i);
		CHECK_OK(r, oriel_dev_put(&r->dev, r->group, rank_next(r), i * PART, block, PART,
					  &ticket));
		CHECK_OK(r, oriel_dev_wait_local(&r->dev, r->group, ticket, LONG_NS));
	}
	group_flood(r->group, block, PART, 0);
	rank_flush_barrier(r);
	for (i = 0; i < 16; i++)
		CHECK_EQ(r, wrong(r->base + i * PART, PART, rank_prev(r) + i), 0);
}

#define TILE 1536u
#define GROUPS 6u

CASE void put_tile(struct rank *r, unsigned index, void *context)
{
	size_t at = (r->rank * GROUPS + index) * (size_t)TILE;
	RANK_ARRAY(r, char, tile, TILE);
	unsigned peer;

	(void)context;
	for (peer = 0; peer < r->size; peer++) {
		group_fill(r->group, tile, TILE, pair_seed(r->rank, peer) + 1000 * index);
		CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, peer, at, tile, TILE, NULL));
		CHECK_OK(r, oriel_dev_flush(&r->dev, r->group, LONG_NS));
	}
}

/* A put belongs to the group that calls it, not to all groups of the launch. */
CASE void each_group_puts_a_tile_of_its_own(struct rank *r)
{
	unsigned peer, index;

	rank_fork(r, GROUPS, put_tile, NULL);
	rank_flush_barrier(r);
	for (peer = 0; peer < r->size; peer++)
		for (index = 0; index < GROUPS; index++)
			CHECK_EQ(r,
				 wrong(r->base + (peer * GROUPS + index) * (size_t)TILE, TILE,
				       pair_seed(peer, r->rank) + 1000 * index),
				 0);
}

#define LARGE (3u << 20)

/* As many groups as there are parts could put them at once; the order is unspecified. */
CASE_DATA const uint32_t part_lengths[] = {0, 1, 63, 64 * 5 + 1, 65536, 65537, 3 * 65536 + 4093};
CASE_DATA const uint32_t part_counts[] = {1, 2, 3, 7};

CASE void put_by_parts_is_one_put(struct rank *r)
{
	size_t longest = part_lengths[6], length, i;
	char *block = (char *)rank_alloc(r, longest);
	uint32_t k, count, part;

	for (i = 0; i < sizeof(part_lengths) / sizeof(part_lengths[0]); i++) {
		length = part_lengths[i];
		for (k = 0; k < sizeof(part_counts) / sizeof(part_counts[0]); k++) {
			count = part_counts[k];
			group_flood(r->group, r->base, longest + 128, GUARD);
			group_fill(r->group, block, length, r->rank + 10 * i + k);
			rank_flush_barrier(r);
			for (part = count; part-- > 0;)
				CHECK_POSTED(r, oriel_dev_put_part(&r->dev, r->group, part, count,
								   rank_next(r), 61, block, length,
								   NULL));
			CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
			rank_flush_barrier(r);
			CHECK_EQ(r, not_all(r->base, 61, GUARD), 0);
			CHECK_EQ(r, wrong(r->base + 61, length, rank_prev(r) + 10 * i + k), 0);
			CHECK_EQ(r, not_all(r->base + 61 + length, longest + 67 - length, GUARD),
				 0);
			rank_flush_barrier(r);
		}
	}
	rank_free(r, block);
}

CASE void large_blocks_arrive_whole(struct rank *r)
{
	char *block = (char *)rank_alloc(r, LARGE);

	group_fill(r->group, block, LARGE, r->rank);
	CHECK_POSTED(r, oriel_dev_put(&r->dev, r->group, rank_next(r), 5, block, LARGE - 11, NULL));
	rank_flush_barrier(r);
	CHECK_EQ(r, wrong(r->base + 5, LARGE - 11, rank_prev(r)), 0);
	group_flood(r->group, block, LARGE, 0);
	CHECK_POSTED(r, oriel_dev_get(&r->dev, r->group, rank_next(r), 5, block, LARGE - 11, NULL));
	CHECK_OK(r, oriel_dev_drain(&r->dev, r->group, LONG_NS));
	CHECK_EQ(r, wrong(block, LARGE - 11, r->rank), 0);
	rank_flush_barrier(r);
	rank_free(r, block);
}

static const struct oriel_window_attr wide_window = {.size = sizeof(wide_window),
						     .length = 25 * (16384 + 256)};
static const struct oriel_window_attr tile_window = {.size = sizeof(tile_window),
						     .length = 16 * GROUPS * TILE};
static const struct oriel_window_attr large_window = {.size = sizeof(large_window),
						      .length = LARGE};

#define DATA_CASES(ROW)                                            \
	ROW(put_reaches_every_pair, NULL, 1, 0)                    \
	ROW(get_reads_every_pair, NULL, 1, 0)                      \
	ROW(put_leaves_adjacent_bytes, &wide_window, 1, 0)         \
	ROW(zero_bytes_are_legal_everywhere, NULL, 1, 0)           \
	ROW(put_value_can_be_polled, NULL, 1, 0)                   \
	ROW(every_fetch_add_returns_its_own_number, NULL, 1, 0)    \
	ROW(fetch_add_is_modulo_2_to_64, NULL, 1, 0)               \
	ROW(address_is_where_the_peer_sees_it, NULL, 1, 0)         \
	ROW(put_happens_once, NULL, 1, 0)                          \
	ROW(source_may_be_reused_after_wait_local, NULL, 1, 0)     \
	ROW(each_group_puts_a_tile_of_its_own, &tile_window, 1, 0) \
	ROW(put_by_parts_is_one_put, &large_window, 1, 0)          \
	ROW(large_blocks_arrive_whole, &large_window, 1, 0)

#define DATA_FORKS(ROW) ROW(put_tile)

DEVICE_SUITE(data, DATA_CASES, DATA_FORKS, data_host);
