/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p2p_round_trip_test [rdma | nodes NETNS HCA NETNS HCA]: there and back, and both ways at once,
 * between two processes, on 1, 2 and 4 channels; the same chunk by chunk, by slot and round.
 */
#include "p2p/pair_of_processes_test.h"

#include <assert.h>

#include "base/clock.h"

#define CHANNELS 4u
#define TRIPS 3u /* of each kind */
#define SLOTS 3u
#define ROUNDS 4u
#define CHUNKS (SLOTS * ROUNDS) /* of a channel */

static_assert(CHANNELS * CHUNKS * CHUNK <= LENGTH, "chunks have memory of their own");

enum { IN, OUT }; /* of the memory of a party */

/* A byte of a trip as the process that began it wrote it. */
static char byte_of(uint64_t k, unsigned trip, bool is_childs)
{
	return (char)(k * 31 + k / 251 + trip * 7 + (is_childs ? 101 : 0));
}

static void fill(const struct party *t, unsigned trip)
{
	for (uint64_t k = 0; k < LENGTH; k++)
		t->memory[LENGTH + k] = byte_of(k, trip, t->child == 0);
}

/* @is_back: bytes of this process, which the other has inverted. */
static void arrived(const struct party *t, size_t length, unsigned trip, bool is_back)
{
	bool is_childs = (t->child == 0) == is_back;

	for (uint64_t k = 0; k < length; k++) {
		char byte = byte_of(k, trip, is_childs);

		if (t->memory[k] != (is_back ? (char)~byte : byte))
			fail_msg("byte %llu of trip %u, %u channels, mode %u",
				 (unsigned long long)k, trip, t->job.channels, t->job.mode);
	}
}

/* A part of the memory on each channel. */
static void slices_begin(const struct party *t, unsigned side, struct oriel_p2p_request *r)
{
	size_t length = LENGTH / t->job.channels;

	for (unsigned c = 0; c < t->job.channels; c++) {
		struct oriel_p2p_buffer b = part(t, side, length);

		b.address = (char *)b.address + c * length;
		assert_int_equal(side == OUT ? oriel_p2p_send(t->p2p, c, &b, &r[c])
					     : oriel_p2p_recv(t->p2p, c, &b, &r[c]),
				 ORIEL_OK);
	}
}

static void slices_wait(const struct party *t, const struct oriel_p2p_request *r)
{
	for (unsigned c = 0; c < t->job.channels; c++)
		if (oriel_p2p_wait(t->p2p, &r[c], 0) != ORIEL_OK)
			fail_msg("channel %u: %s", c, oriel_last_error());
}

/* The parent sends, and gets all of it back. */
static void there_and_back(const struct party *t, unsigned trip)
{
	struct oriel_p2p_request in[CHANNELS], out[CHANNELS];

	slices_begin(t, IN, in);
	if (t->child) {
		fill(t, trip);
		slices_begin(t, OUT, out);
	}
	slices_wait(t, in);
	if (!t->child) {
		for (uint64_t k = 0; k < LENGTH; k++)
			t->memory[LENGTH + k] = (char)~t->memory[k];
		slices_begin(t, OUT, out);
	}
	slices_wait(t, out);
	if (t->child)
		arrived(t, LENGTH, trip, true);
}

static void both_at_once(const struct party *t, unsigned trip)
{
	struct oriel_p2p_request in[CHANNELS], out[CHANNELS];

	fill(t, trip);
	slices_begin(t, OUT, out);
	slices_begin(t, IN, in);
	slices_wait(t, in);
	slices_wait(t, out);
	arrived(t, LENGTH, trip, false);
}

/* The chunks of one direction. */
struct chunks {
	unsigned side;
	unsigned begun[CHANNELS][SLOTS]; /* rounds */
	struct oriel_p2p_request requests[CHANNELS][SLOTS];
};

/* Begin the next round of each slot whose last one is done. Is there any left? */
static bool chunks_step(const struct party *t, struct chunks *x)
{
	bool is_left = false;

	for (unsigned i = 0; i < t->job.channels * SLOTS; i++) {
		unsigned c = i / SLOTS, s = i % SLOTS, *round = &x->begun[c][s];
		struct oriel_p2p_buffer b = part(t, x->side, CHUNK);
		enum oriel_status status;

		if (*round == ROUNDS)
			continue;
		is_left = true;
		b.address = (char *)b.address + (c * CHUNKS + *round * SLOTS + s) * (size_t)CHUNK;
		status = x->side == OUT ? oriel_p2p_send_chunk(t->p2p, c, s, *round, &b,
							       &x->requests[c][s])
					: oriel_p2p_recv_chunk(t->p2p, c, s, *round, &b,
							       &x->requests[c][s]);
		if (status != ORIEL_OK && status != ORIEL_AGAIN)
			fail_msg("channel %u, slot %u, round %u: %s", c, s, *round,
				 oriel_last_error());
		*round += status == ORIEL_OK;
	}
	return is_left;
}

static void chunks_wait(const struct party *t, const struct chunks *x)
{
	for (unsigned i = 0; i < t->job.channels * SLOTS; i++)
		if (oriel_p2p_wait(t->p2p, &x->requests[i / SLOTS][i % SLOTS], 0) != ORIEL_OK)
			fail_msg("slot %u of channel %u: %s", i % SLOTS, i / SLOTS,
				 oriel_last_error());
}

/* In both directions at once, until all of @x is begun. */
static void chunks_run(const struct party *t, struct chunks *x, unsigned count)
{
	uint64_t deadline = ori_deadline(TIMEOUT_NS);
	bool is_left = true;

	while (is_left) {
		is_left = false;
		for (unsigned i = 0; i < count; i++)
			is_left |= chunks_step(t, &x[i]);
		assert_int_equal(oriel_p2p_progress(t->p2p), ORIEL_OK);
		assert_false(ori_deadline_passed(deadline));
		sched_yield();
	}
	for (unsigned i = 0; i < count; i++)
		chunks_wait(t, &x[i]);
}

/* Chunks of both directions cross each other. */
static void chunks_cross(const struct party *t)
{
	struct chunks x[2] = {{.side = IN}, {.side = OUT}};

	fill(t, 9);
	chunks_run(t, x, 2);
	arrived(t, (size_t)t->job.channels * CHUNKS * CHUNK, 9, false);
}

/* Both processes, each its part. */
static void trips(const struct party *t)
{
	uint64_t deadline = ori_deadline(TIMEOUT_NS);

	for (unsigned trip = 0; trip < TRIPS; trip++) {
		there_and_back(t, trip);
		both_at_once(t, trip + TRIPS);
	}
	/* Transfers may begin before the endpoints are joined, and have been; chunks may not. */
	while (oriel_p2p_check(t->p2p) == ORIEL_AGAIN) {
		assert_int_equal(oriel_p2p_progress(t->p2p), ORIEL_OK);
		assert_false(ori_deadline_passed(deadline));
	}
	chunks_cross(t);
	assert_int_equal(oriel_p2p_drain(t->p2p, 0), ORIEL_OK);
}

static void trips_between_processes(unsigned channels)
{
	for (unsigned route = first_route; route < ROUTES; route++)
		for (unsigned mode = ORIEL_P2P_AUTO; mode <= ORIEL_P2P_COPY_BASED; mode++) {
			struct party t;
			char byte;

			party_start(&t, &(struct job){route, mode, 0, channels, SLOTS, 0});
			trips(&t);
			/* The child needs this endpoint until it says so, and then waits for its
			 * end. */
			assert_int_equal(recv(t.fd, &byte, 1, 0), 1);
			party_close(&t);
			party_join(&t, false);
		}
}

static void test_trips_on_one_channel(void **state)
{
	(void)state;
	trips_between_processes(1);
}

static void test_trips_on_two_channels(void **state)
{
	(void)state;
	trips_between_processes(2);
}

static void test_trips_on_four_channels(void **state)
{
	(void)state;
	trips_between_processes(4);
}

static int child_main(char **argv)
{
	struct oriel_p2p_request end;
	struct party t;
	char byte = 0;

	party_of_child(&t, argv);
	party_open(&t);
	trips(&t);
	assert_int_equal(send(t.fd, &byte, 1, MSG_NOSIGNAL), 1);
	assert_int_equal(oriel_p2p_recv_control(t.p2p, 0, &byte, 1, &end), ORIEL_OK);
	assert_int_equal(oriel_p2p_wait(t.p2p, &end, 0), ORIEL_ERR_PEER);
	party_close(&t);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trips_on_one_channel),
		cmocka_unit_test(test_trips_on_two_channels),
		cmocka_unit_test(test_trips_on_four_channels),
	};

	if (is_child(argc, argv))
		return child_main(argv);
	routes_choose(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
