/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent that executes the atomics of a window: which one, for which words, and what is lost
 * without one.
 */
#include "harness.h"

#define ROUNDS 60u

/* Ranks use words of one row, or of several if the window has no single agent. */
static uint64_t agent_row(const struct rank *r, unsigned peer)
{
	return atomics_are_mapped(r, peer) ? 0 : 1 + rank_rail(r, peer);
}

/* The window of @atomics: all ranks get the same, @expected. */
static void check_agent(struct rank *r, uint32_t atomics, enum oriel_status expected,
			enum oriel_atomics agent)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = 4096,
					 .flags = r->is_by_rdma ? ORIEL_WINDOW_RDMA : 0,
					 .atomics = atomics};
	struct oriel_window *window = NULL;
	enum oriel_atomics seen = ORIEL_ATOMICS_OWNER;
	uint64_t old = 0;

	CHECK_STATUS(r, oriel_window_create(r->comm, &attr, &window), expected);
	if (expected != ORIEL_OK)
		return;
	CHECK_STATUS(r, oriel_window_atomics(window, NULL), ORIEL_ERR_INVALID);
	CHECK_OK(r, oriel_window_atomics(window, &seen));
	CHECK_EQ(r, seen, agent);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	if (r->size > 1) {
		CHECK_OK(r, oriel_window_fetch_add(window, rank_next(r), 8, 3, &old));
		CHECK_EQ(r, old, 0);
	}
	CHECK_OK(r, oriel_window_swap(window, r->rank, 16, 1, &old));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_window_destroy(window));
}

/* All ranks are refused an agent that does not reach all of them. The first of several NICs does.
 */
static void one_agent_or_a_refusal(struct rank *r)
{
	enum oriel_status by_nic = r->dev.rails ? ORIEL_OK : ORIEL_ERR_UNSUPPORTED;
	enum oriel_atomics agent = ORIEL_ATOMICS_MAPPED;
	unsigned from, to;

	for (from = 0; from < r->size; from++)
		for (to = 0; to < r->size; to++)
			if (!rank_is_mapped(r, from, to))
				agent = r->dev.rails == 1 ? ORIEL_ATOMICS_HCA
							  : ORIEL_ATOMICS_DEFAULT;
	check_agent(r, ORIEL_ATOMICS_DEFAULT, ORIEL_OK, agent);
	check_agent(r, ORIEL_ATOMICS_MAPPED,
		    agent == ORIEL_ATOMICS_MAPPED ? ORIEL_OK : ORIEL_ERR_UNSUPPORTED,
		    ORIEL_ATOMICS_MAPPED);
	check_agent(r, ORIEL_ATOMICS_HCA, by_nic, ORIEL_ATOMICS_HCA);
	if (by_nic != ORIEL_OK)
		CHECK_LAST(r, "ORIEL_COMM_BOTH_PATHS");
	check_agent(r, ORIEL_ATOMICS_OWNER, ORIEL_ERR_UNSUPPORTED, ORIEL_ATOMICS_OWNER);
	CHECK_LAST(r, "ORIEL_ATOMICS_OWNER");
	check_agent(r, ORIEL_ATOMICS_OWNER + 1, ORIEL_ERR_RANGE, ORIEL_ATOMICS_OWNER);
	if (r->size > 1 && agent == ORIEL_ATOMICS_MAPPED)
		check_agent(r, r->rank ? ORIEL_ATOMICS_MAPPED : ORIEL_ATOMICS_DEFAULT,
			    ORIEL_ERR_MISMATCH, ORIEL_ATOMICS_MAPPED);
}

#define BUFFERS 3u
#define BUFFER_BYTES 4096u

/* Memory that a region shares becomes a buffer of @window: without keys only of mapped ranks. */
static void share_region(struct rank *r, struct oriel_window *window, struct oriel_region *region,
			 uint32_t *number)
{
	struct oriel_dev_buffer *table = rank_alloc(r, r->size * sizeof(*table));
	enum oriel_atomics agent = ORIEL_ATOMICS_DEFAULT;

	CHECK_OK(r, oriel_window_atomics(window, &agent));
	CHECK_OK(r, oriel_region_table(region, table));
	if (r->size > 1 && agent == ORIEL_ATOMICS_HCA) {
		struct oriel_dev_keys keys = table[rank_next(r)].rkeys;

		table[rank_next(r)].rkeys.rail[0] = 0;
		CHECK_STATUS(r, oriel_window_share_table(window, table, number), ORIEL_ERR_INVALID);
		CHECK_LAST(r, "the table has no key of rank");
		table[rank_next(r)].rkeys = keys;
	}
	CHECK_OK(r, oriel_window_share_table(window, table, number));
	rank_free(r, table);
}

/*
 * A rank adds to the words of all, its own among them, in buffers of each kind. One agent executes
 * that also if ranks drive several NICs, since the window asks for it.
 */
static void every_rank_counts_in_every_buffer(struct rank *r)
{
	bool asks = r->dev.rails > 1;
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = BUFFER_BYTES,
					 .flags = r->is_by_rdma ? ORIEL_WINDOW_RDMA : 0,
					 .atomics = asks ? ORIEL_ATOMICS_HCA : 0};
	struct oriel_window *window = NULL;
	struct oriel_region *region = NULL;
	uint32_t number[BUFFERS] = {0};
	char *memory = NULL, *base[BUFFERS] = {NULL};
	unsigned i, peer, row;
	uint64_t old, sum;
	size_t length = 0;

	CHECK_OK(r, oriel_memory_alloc(2 * (size_t)BUFFER_BYTES, 0, (void **)&memory));
	CHECK_OK(r, oriel_region_register(r->comm, memory + BUFFER_BYTES, BUFFER_BYTES, &region));
	CHECK_OK(r, oriel_region_share(region));
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &window));
	CHECK_OK(r, oriel_window_share(window, memory, BUFFER_BYTES, &number[1]));
	share_region(r, window, region, &number[2]);
	CHECK_OK(r, oriel_window_buffer(window, 0, (void **)&base[0], &length));
	base[1] = memory;
	base[2] = memory + BUFFER_BYTES;
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	for (i = 0; i < ROUNDS * BUFFERS * r->size; i++) {
		peer = i / BUFFERS % r->size;
		CHECK_OK(r, oriel_window_fetch_add(window, peer,
						   oriel_at(number[i % BUFFERS],
							    asks ? 0 : 8 * agent_row(r, peer)),
						   1, &old));
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	for (i = 0; i < BUFFERS; i++) {
		for (sum = 0, row = 0; row <= ORIEL_DEV_RAILS; row++)
			sum += ((const uint64_t *)(const void *)base[i])[row];
		CHECK_EQ(r, sum, ROUNDS * r->size);
	}
	CHECK_OK(r, oriel_window_destroy(window));
	CHECK_OK(r, oriel_region_unregister(region));
	oriel_memory_free(memory);
}

/* The puts and the atomic may take different NICs of the owner. */
static void an_atomic_behind_a_flush_announces_puts(struct rank *r)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = BUFFER_BYTES + 8,
					 .flags = r->is_by_rdma ? ORIEL_WINDOW_RDMA : 0,
					 .atomics = r->dev.rails ? ORIEL_ATOMICS_HCA : 0};
	unsigned next = rank_next(r), round;
	struct oriel_window *window = NULL;
	char *own = NULL, *data;
	size_t length = 0;
	uint64_t seen;

	CHECK_OK(r, oriel_memory_alloc(BUFFER_BYTES, 0, (void **)&data));
	CHECK_OK(r, oriel_window_create(r->comm, &attr, &window));
	CHECK_OK(r, oriel_window_buffer(window, 0, (void **)&own, &length));
	for (round = 1; round <= ROUNDS; round++) {
		fill(data, BUFFER_BYTES, round * r->size + r->rank);
		CHECK_OK(r, oriel_window_put(window, next, 0, data, BUFFER_BYTES));
		CHECK_OK(r, oriel_window_flush(window, ORIEL_TIMEOUT_DEFAULT));
		CHECK_OK(r, oriel_window_fetch_add(window, next, BUFFER_BYTES, 1, &seen));
		while (CHECK_OK(r, oriel_window_fetch(window, r->rank, BUFFER_BYTES, &seen)) &&
		       seen < round)
			;
		CHECK_EQ(r,
			 wrong(own, BUFFER_BYTES,
			       round * r->size + (r->rank + r->size - 1) % r->size),
			 0);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
	CHECK_OK(r, oriel_window_destroy(window));
	oriel_memory_free(data);
}

#define THREADS 80u /* more than the requests that a link for atomics alone holds */

static void add_at_all(struct rank *r, unsigned index, void *context)
{
	uint64_t old;
	unsigned i;

	(void)index;
	(void)context;
	for (i = 0; i < 4 * r->size; i++)
		CHECK_OK(r, oriel_dev_fetch_add(&r->dev, i % r->size, 8 * agent_row(r, i % r->size),
						1, &old));
}

static void threads_wait_for_room(struct rank *r)
{
	const uint64_t *words = (const uint64_t *)(const void *)r->base;
	uint64_t sum = 0;
	unsigned row;

	rank_fork(r, THREADS, add_at_all, NULL);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	for (row = 0; row <= ORIEL_DEV_RAILS; row++)
		sum += words[row];
	CHECK_EQ(r, sum, 4 * THREADS * r->size);
}

/* All ranks add to one word of each rank in a sparse window of @atomics: no update is lost. */
static void count_in_sparse_window(struct rank *r, uint32_t atomics)
{
	struct oriel_window_attr attr = {.size = sizeof(attr),
					 .length = 64,
					 .flags = ORIEL_WINDOW_SPARSE |
						  (r->is_by_rdma ? ORIEL_WINDOW_RDMA : 0),
					 .atomics = atomics};
	enum oriel_atomics agent = ORIEL_ATOMICS_OWNER;
	struct oriel_window *window = NULL;
	uint64_t old, *word = NULL;
	size_t length = 0;
	unsigned i;

	CHECK_OK(r, oriel_window_create(r->comm, &attr, &window));
	CHECK_OK(r, oriel_window_atomics(window, &agent));
	CHECK_EQ(r, agent, atomics);
	CHECK_OK(r, oriel_window_buffer(window, 0, (void **)&word, &length));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	for (i = 0; i < 4 * ROUNDS * r->size; i++)
		CHECK_OK(r, oriel_window_fetch_add(window, i % r->size, 0, 1, &old));
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_EQ(r, *word, 4 * ROUNDS * r->size);
	CHECK_OK(r, oriel_window_destroy(window));
}

static void a_sparse_window_has_the_agent_that_it_asks_for(struct rank *r)
{
	if (r->dev.rails)
		count_in_sparse_window(r, ORIEL_ATOMICS_HCA);
}

/*
 * A sparse window of mapped and rdma ranks has two agents: processors and NICs, of which each
 * undoes what the other changes while it is between its load and its store. If ranks drive several
 * NICs, these are agents of their own.
 */
static void two_agents_lose_no_update(struct rank *r)
{
	count_in_sparse_window(r, ORIEL_ATOMICS_DEFAULT);
}

static const struct test_case agent_cases[] = {
	{"one_agent_or_a_refusal", one_agent_or_a_refusal, NULL, 1, 0},
	{"every_rank_counts_in_every_buffer", every_rank_counts_in_every_buffer, NULL, 1, 0},
	{"an_atomic_behind_a_flush_announces_puts", an_atomic_behind_a_flush_announces_puts, NULL,
	 1, 0},
	{"threads_wait_for_room", threads_wait_for_room, NULL, 1, 0},
	{"a_sparse_window_has_the_agent_that_it_asks_for",
	 a_sparse_window_has_the_agent_that_it_asks_for, NULL, 1, 0},
};

const struct suite agent_suite = SUITE(agent);

/* Holds on no machine; the HCA lingers between load and store, so that the case sees it. */
static const struct test_case agent_lie_cases[] = {
	{"two_agents_lose_no_update", two_agents_lose_no_update, NULL, 2, NEEDS_HCA | REPORTS(1)},
};

const struct suite agent_lie_suite = SUITE(agent_lie);
