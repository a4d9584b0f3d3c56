/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in LL128 form: whole, and never what a place held before. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define PLACE 8192u /* bytes of the window for one source rank */
#define GUARD 0xa5

static uint64_t message_seed(unsigned from, unsigned to, uint64_t round)
{
	return 1 + from * 4096 + to * 64 + round;
}

/* Two for each source, used in turn; a barrier ends each round. */
static uint64_t place_of(unsigned source, uint64_t round)
{
	return (source * 2 + round % 2) * (uint64_t)PLACE;
}

static void exchange(struct rank *r, struct oriel_dev_group g, char *out, char *in, uint64_t round,
		     size_t length)
{
	unsigned next = rank_next(r), prev = rank_prev(r);

	if (oriel_dev_is_leader(g))
		fill(out, length, message_seed(r->rank, next, round));
	oriel_dev_sync(g);
	CHECK_POSTED(r, oriel_dev_put_ll128(&r->dev, g, next, place_of(r->rank, round), out, length,
					    round + 1));
	CHECK_OK(r, oriel_dev_wait_ll128(&r->dev, g, place_of(prev, round), in, length, round + 1,
					 LONG_NS));
	if (oriel_dev_is_leader(g))
		CHECK_EQ(r, wrong(in, length, message_seed(prev, r->rank, round)), 0);
	CHECK_OK(r, oriel_dev_barrier(&r->dev, g, 0, LONG_NS));
}

static const size_t lengths[] = {0,   1,   7,   8,   9,   64,  112, 119,  120,
				 121, 128, 240, 241, 360, 959, 960, 4001, 7680};

#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void messages_arrive_whole(struct rank *r)
{
	char *out = malloc(PLACE + 8), *in = malloc(PLACE + 8);
	uint64_t round;

	for (round = 0; round < 8 * LENGTHS; round++) {
		memset(in, GUARD, PLACE + 8);
		exchange(r, r->group, out + round % 8, in + round % 3, round,
			 lengths[round % LENGTHS]);
		CHECK_EQ(r, (unsigned char)in[round % 3 + lengths[round % LENGTHS]], GUARD);
	}
	free(out);
	free(in);
}

struct both {
	char *out;
	char *in;
};

static void team_exchanges(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct both *both = context;
	uint64_t round;

	for (round = 0; round < LENGTHS; round++)
		exchange(r, g, both->out, both->in, round, lengths[round]);
}

static void teams_share_a_message(struct rank *r)
{
	struct both both = {malloc(PLACE), malloc(PLACE)};

	rank_team(r, 3, team_exchanges, &both);
	free(both.out);
	free(both.in);
}

/* A fast sender writes while the receiver looks: half a message is none. */
static void the_flag_comes_with_the_data(struct rank *r)
{
	uint64_t round, sent[31], got[31];
	unsigned i;

	for (round = 0; round < 2000; round++) {
		for (i = 0; i < 31; i++)
			sent[i] = round * 0x100000001u + i;
		CHECK_POSTED(r, oriel_dev_put_ll128(&r->dev, r->group, rank_next(r),
						    place_of(r->rank, round), sent, sizeof(sent),
						    round + 1));
		if (!CHECK_OK(r,
			      oriel_dev_wait_ll128(&r->dev, r->group, place_of(rank_prev(r), round),
						   got, sizeof(got), round + 1, LONG_NS)))
			return;
		CHECK_EQ(r, memcmp(got, sent, sizeof(got)), 0);
		CHECK_OK(r, oriel_dev_barrier_flat(&r->dev, r->group, 1, LONG_NS));
	}
}

static void an_old_message_is_not_the_next(struct rank *r)
{
	char out[300], in[300];

	fill(out, sizeof(out), 1);
	CHECK_POSTED(r, oriel_dev_put_ll128(&r->dev, r->group, r->rank, 0, out, sizeof(out), 1));
	CHECK_OK(r, oriel_dev_wait_ll128(&r->dev, r->group, 0, in, sizeof(in), 1, LONG_NS));
	CHECK_STATUS(r, oriel_dev_wait_ll128(&r->dev, r->group, 0, in, sizeof(in), 2, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	/* Two lines of three are not the message. */
	CHECK_POSTED(r, oriel_dev_put_ll128(&r->dev, r->group, r->rank, 0, out, 240, 2));
	CHECK_STATUS(r, oriel_dev_wait_ll128(&r->dev, r->group, 0, in, sizeof(in), 2, MOMENT_NS),
		     ORIEL_ERR_TIMEOUT);
	CHECK_OK(r, oriel_dev_wait_ll128(&r->dev, r->group, 0, in, 240, 2, LONG_NS));
	CHECK_EQ(r, wrong(in, 240, 1), 0);
}

static void bad_places_are_refused(struct rank *r)
{
	struct oriel_dev_fault fault;
	char block[640] = {0};

	CHECK_STATUS(r,
		     (enum oriel_status)oriel_dev_put_ll128(&r->dev, r->group, r->rank, 16, block,
							    8, 1),
		     ORIEL_ERR_INVALID);
	CHECK_STATUS(r,
		     (enum oriel_status)oriel_dev_put_ll128(&r->dev, r->group, r->rank,
							    r->length - 640, block, 601, 1),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r, oriel_dev_wait_ll128(&r->dev, r->group, r->length, block, 1, 1, MOMENT_NS),
		     ORIEL_ERR_RANGE);
	CHECK_STATUS(r,
		     oriel_dev_wait_ll128(&r->dev, r->group, 0, block, UINT64_MAX - 6, 1,
					  MOMENT_NS),
		     ORIEL_ERR_RANGE);
	CHECK_OK(r, oriel_window_fault(r->window, &fault));
	CHECK_STATUS(r, fault.status, ORIEL_ERR_INVALID);
	CHECK_EQ(r, fault.what, ORIEL_DEV_PUT_LL);
}

/* Who is asked for and who is served are the same. */
static void it_is_known_who_takes_them(struct rank *r)
{
	uint64_t word = 1;
	unsigned peer;
	int64_t ticket;

	for (peer = 0; peer < r->size; peer++) {
		ticket = oriel_dev_put_ll128(&r->dev, r->group, peer, place_of(r->rank, 0), &word,
					     8, 1);
		CHECK_EQ(r, ticket >= 0, rank_is_mapped(r, r->rank, peer));
		CHECK_EQ(r, ticket >= 0, oriel_dev_has_ll128(&r->dev, peer));
		CHECK(r, ticket >= 0 || ticket == ORIEL_ERR_NO_PATH);
	}
	CHECK(r, !oriel_dev_has_ll128(&r->dev, r->size));
}

static const struct oriel_window_attr ll128_window = {
	.size = sizeof(struct oriel_window_attr),
	.length = 2 * 16 * PLACE,
};

static const struct test_case ll128_cases[] = {
	{"messages_arrive_whole", messages_arrive_whole, &ll128_window, 1, NEEDS_MAPPED},
	{"teams_share_a_message", teams_share_a_message, &ll128_window, 1, NEEDS_MAPPED},
	{"the_flag_comes_with_the_data", the_flag_comes_with_the_data, &ll128_window, 1,
	 NEEDS_MAPPED},
	{"an_old_message_is_not_the_next", an_old_message_is_not_the_next, &ll128_window, 1, 0},
	{"bad_places_are_refused", bad_places_are_refused, &ll128_window, 1, 0},
	{"it_is_known_who_takes_them", it_is_known_who_takes_them, &ll128_window, 1, 0},
};

const struct suite ll128_suite = SUITE(ll128);
