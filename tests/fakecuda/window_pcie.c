/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs with PCIe between them: puts and gets pass, atomics do not, so that words at a peer change
 * by stores alone. gpu_window calls its test; the GPU of rank 0 has PCIe to all others.
 */
#include <pthread.h>

#include "window_tests.h"

#define ADDERS 4
/* Fewer under ThreadSanitizer, which runs one thread at a time. */
#ifdef ORIEL_DEV_TSAN
#define ROUNDS 5000u
#else
#define ROUNDS 20000u
#endif
#define COUNTS 300u

struct adder {
	struct rank *rank;
	uint32_t peer;
	unsigned number, failures;
	uint64_t sum;
	pthread_barrier_t *start; /* so that all threads run at once */
	pthread_t id;
};

/* Several threads of a rank change one word of a peer. */
static void *add_rounds(void *argument)
{
	struct adder *a = argument;
	const struct oriel_dev_window *d = &a->rank->dev;
	struct oriel_dev_group me = oriel_dev_thread();
	uint64_t word = 1;
	unsigned i;

	pthread_barrier_wait(a->start);
	for (i = 0; i < ROUNDS; i++) {
		a->failures += oriel_dev_signal(d, me, a->peer, 5, ORIEL_SIGNAL_ADD, 2, NULL) < 0;
		a->failures += oriel_dev_put_signal(d, me, a->peer, 512 + 8 * a->number, &word, 8,
						    5, 1, NULL) < 0;
	}
	return NULL;
}

static void test_adders(struct rank *r)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size, i;
	struct adder adders[ADDERS];
	pthread_barrier_t start;
	uint64_t seen = 0;

	pthread_barrier_init(&start, NULL, ADDERS);
	for (i = 0; i < ADDERS; i++) {
		adders[i] = (struct adder){.rank = r, .peer = next, .number = i, .start = &start};
		if (pthread_create(&adders[i].id, NULL, add_rounds, &adders[i]))
			abort();
	}
	for (i = 0; i < ADDERS; i++) {
		pthread_join(adders[i].id, NULL);
		CHECK(r, adders[i].failures == 0);
	}
	/* The barrier comes after all signals: none is lost, and none is under way. */
	CHECK_OK(r, oriel_dev_barrier(&r->dev, oriel_dev_thread(), 0, 0));
	CHECK_OK(r, oriel_dev_read_signal_from(&r->dev, before, 5, &seen));
	CHECK(r, seen == 3 * ADDERS * ROUNDS);
	pthread_barrier_destroy(&start);
}

/* A word counts on from what its owner has set it to, as with atomics. */
static void test_reset(struct rank *r)
{
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	struct oriel_dev_group me = oriel_dev_thread();
	uint64_t seen = 0;

	CHECK_OK(r, oriel_dev_signal(&r->dev, me, next, 6, ORIEL_SIGNAL_ADD, 7, NULL));
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, me, before, 6, ORIEL_EQ, 7, 0));
	CHECK_OK(r, oriel_dev_reset_signal(&r->dev, before, 6));
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
	CHECK_OK(r, oriel_dev_signal_relaxed(&r->dev, me, next, 6, ORIEL_SIGNAL_ADD, 1, NULL));
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, me, before, 6, ORIEL_EQ, 1, 0));
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
	CHECK_OK(r, oriel_dev_signal(&r->dev, me, next, 6, ORIEL_SIGNAL_SET, 40, NULL));
	CHECK_OK(r, oriel_dev_signal_all(&r->dev, me, 6, ORIEL_SIGNAL_ADD, 2));
	CHECK_OK(r, oriel_dev_wait_signal_from(&r->dev, me, before, 6, ORIEL_EQ, 42, 0));
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 0, 0));
	CHECK_OK(r, oriel_dev_read_signal(&r->dev, 6, &seen));
	CHECK(r, seen == 42 + 2 * (r->size - 2));
}

static void test_barriers(struct rank *r)
{
	struct oriel_dev_group me = oriel_dev_thread();
	unsigned next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
	const uint64_t *word = oriel_dev_address(&r->dev, r->rank, 600 + 8 * before);
	unsigned i;

	for (i = 1; i <= 50; i++) {
		CHECK_OK(r, oriel_dev_put_value(&r->dev, next, 600 + 8 * r->rank, i, NULL));
		CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 1, 0));
		CHECK(r, *word == i);
		CHECK_OK(r, oriel_dev_barrier_flat(&r->dev, me, 2, 0));
		if (r->size == 2)
			CHECK_OK(r, oriel_dev_barrier_peer(&r->dev, me, next, 1, 0));
	}
	/* Limits of the caller's own: the arrival stays pending, and is not repeated. */
	if (r->rank)
		CHECK(r, oriel_dev_barrier(&r->dev, me, 3, 1000000) == ORIEL_ERR_TIMEOUT);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 3, 0));
	CHECK_OK(r, oriel_dev_barrier(&r->dev, me, 3, 0));
}

/* Several threads of each rank add to one word of each, and remember the sum of what was there. */
static void *count_rounds(void *argument)
{
	struct adder *a = argument;
	const struct oriel_dev_window *d = &a->rank->dev;
	uint64_t old;
	unsigned i;

	pthread_barrier_wait(a->start);
	for (i = 0; i < COUNTS; i++) {
		a->failures += oriel_dev_fetch_add(d, a->peer, 800, 1, &old) != ORIEL_OK;
		a->sum += old;
	}
	return NULL;
}

static void test_turns(struct rank *r)
{
	uint64_t all = (uint64_t)ADDERS * COUNTS * r->size, sums[16], mine, seen = 0;
	struct oriel_dev_group me = oriel_dev_thread();
	struct adder adders[ADDERS];
	pthread_barrier_t start;
	unsigned peer, i;

	pthread_barrier_init(&start, NULL, ADDERS);
	for (peer = 0; peer < r->size; peer++) {
		mine = 0;
		for (i = 0; i < ADDERS; i++) {
			adders[i] = (struct adder){.rank = r, .peer = peer, .start = &start};
			if (pthread_create(&adders[i].id, NULL, count_rounds, &adders[i]))
				abort();
		}
		for (i = 0; i < ADDERS; i++) {
			pthread_join(adders[i].id, NULL);
			CHECK(r, adders[i].failures == 0);
			mine += adders[i].sum;
		}
		CHECK_OK(r, oriel_comm_all_gather(r->comm, &mine, sums, sizeof(mine)));
		for (i = 1; i < r->size; i++)
			sums[0] += sums[i];
		/* Each value from 0 on was there for one add alone. */
		CHECK(r, sums[0] == all * (all - 1) / 2);
		CHECK_OK(r, oriel_dev_get(&r->dev, me, peer, 800, &seen, sizeof(seen), NULL));
		CHECK(r, seen == all);
		CHECK_OK(r, oriel_comm_barrier(r->comm));
	}
	pthread_barrier_destroy(&start);
}

/* Each rank changes words of all ranks by other operations, which its own turns keep whole. */
static void test_operations_in_turns(struct rank *r)
{
	uint32_t bit = 1u << r->rank, half = 0, toggles = 0;
	struct oriel_dev_group me = oriel_dev_thread();
	uint64_t old, seen[3] = {0};
	unsigned peer, i;

	for (i = 1; i <= COUNTS; i++) {
		for (peer = 0; peer < r->size; peer++) {
			CHECK_OK(r, oriel_dev_fetch_or(&r->dev, peer, 840, bit, &old));
			CHECK(r, !(old & bit));
			CHECK_OK(r, oriel_dev_fetch_and(&r->dev, peer, 840, ~(uint64_t)bit, &old));
			CHECK(r, old & bit);
			CHECK_OK(r, oriel_dev_fetch_xor_32(&r->dev, peer, 848 + 4 * (i % 2), i,
							   &half));
			do
				CHECK_OK(r, oriel_dev_fetch(&r->dev, peer, 856, &seen[0]));
			while (oriel_dev_compare_swap(&r->dev, peer, 856, seen[0], seen[0] + 1,
						      &old) == ORIEL_OK &&
			       old != seen[0]);
		}
		toggles ^= i % 2 ? i : 0;
	}
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	CHECK_OK(r, oriel_dev_get(&r->dev, me, r->rank, 840, seen, sizeof(seen), NULL));
	CHECK(r, seen[0] == 0);
	CHECK(r, seen[1] >> 32 == (r->size % 2 ? toggles : 0));
	CHECK(r, seen[2] == (uint64_t)COUNTS * r->size);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
}

/* A rank that never ends its turn is a timeout for others, and named. */
static void test_stuck_turn(struct rank *r)
{
	uint64_t *tickets, old = 77;
	struct oriel_health health = {.size = sizeof(health)};
	unsigned peer;

	rank_open(r, 2000000000);
	tickets = ori_dev_mapped_tickets(&r->dev, ori_dev_peer_of(&r->dev, 0).control);
	if (r->rank == 0)
		oriel_dev_store_release(&tickets[1], 1);
	CHECK_OK(r, oriel_comm_barrier(r->comm));
	if (r->rank == 0) {
		CHECK(r, oriel_dev_fetch_add(&r->dev, 0, 0, 1, &old) == ORIEL_ERR_TIMEOUT);
		CHECK_OK(r, oriel_comm_health(r->comm, &health));
		CHECK(r, health.status == ORIEL_ERR_TIMEOUT && health.rank == 1 && old == 77);
		CHECK(r, strcmp(health.what, "fetch_add") == 0);
		for (peer = 0; peer < r->size; peer++)
			CHECK(r, tickets[peer] == (peer == 1));
	}
	while (ori_dev_health(&r->dev) == ORIEL_OK)
		ori_dev_back_off(10000000);
	rank_close(r);
}

/* The flags of ranks and the lines that need to be whole. */
static void test_flags(struct rank *r)
{
	uint32_t peer;

	for (peer = 0; peer < r->size; peer++) {
		if (!is_serial(r, peer))
			continue;
		CHECK(r, oriel_dev_path(&r->dev, peer) == ORIEL_PATH_MAPPED);
		CHECK(r, !oriel_dev_has_ll128(&r->dev, peer));
	}
	CHECK(r, !is_serial(r, r->rank) && !is_serial(r, r->size));
	CHECK(r, is_serial(r, r->rank ? 0 : 1));
	/* Rank 0 has PCIe to each, so that words of all are added to in turns. */
	for (peer = 0; peer < r->size; peer++)
		CHECK(r, ori_dev_peer_of(&r->dev, peer).flags & ORIEL_DEV_PEER_TURNS);
}

void test_pcie(struct rank *r)
{
	rank_open(r, LONG_NS);
	CHECK(r, !r->dev.rails);
	test_flags(r);
	test_turns(r);
	test_operations_in_turns(r);
	test_adders(r);
	test_reset(r);
	test_barriers(r);
	rank_close(r);
	test_stuck_turn(r);
}
