/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that carry their flags, in either form: they arrive whole, and never with bytes that
 * were there before. The including file has lengths[], and defines how a message is put and
 * received.
 */
#ifndef CONFORMANCE_LINES_H
#define CONFORMANCE_LINES_H

#include "harness.h"

#define SOURCE_BYTES 8192u /* bytes of the window for one source rank */
#define GUARD 0xa5
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* Put the message of @round to the next rank; get it from the previous one. */
CASE int64_t line_put(struct rank *r, struct oriel_dev_group g, const char *out, uint64_t round,
		      size_t length);
CASE enum oriel_status line_wait(struct rank *r, struct oriel_dev_group g, char *in, uint64_t round,
				 size_t length);

CASE uint64_t message_seed(unsigned from, unsigned to, uint64_t round)
{
	return 1 + from * 4096 + to * 64 + round;
}

/* Two areas for each source, used in turn; a barrier ends each round. */
CASE uint64_t offset_of(unsigned source, uint64_t round)
{
	return (source * 2 + round % 2) * (uint64_t)SOURCE_BYTES;
}

CASE void exchange(struct rank *r, struct oriel_dev_group g, char *out, char *in, uint64_t round,
		   size_t length)
{
	group_fill(g, out, length, message_seed(r->rank, rank_next(r), round));
	CHECK_POSTED(r, line_put(r, g, out, round, length));
	CHECK_OK(r, line_wait(r, g, in, round, length));
	if (oriel_dev_is_leader(g))
		CHECK_EQ(r, wrong(in, length, message_seed(rank_prev(r), r->rank, round)), 0);
	/* No rank may write the round after the next before all have taken this one. */
	CHECK_OK(r, oriel_dev_barrier(&r->dev, g, 0, LONG_NS));
}

CASE void messages_arrive_whole(struct rank *r)
{
	char *out = (char *)rank_alloc(r, SOURCE_BYTES + 8),
	     *in = (char *)rank_alloc(r, SOURCE_BYTES + 8);
	uint64_t round;

	for (round = 0; round < 8 * LENGTHS; round++) {
		group_flood(r->group, in, SOURCE_BYTES + 8, GUARD);
		exchange(r, r->group, out + round % 8, in + round % 3, round,
			 lengths[round % LENGTHS]);
		CHECK_EQ(r, (unsigned char)in[round % 3 + lengths[round % LENGTHS]], GUARD);
	}
	rank_free(r, out);
	rank_free(r, in);
}

struct both {
	char *out;
	char *in;
};

CASE void team_exchanges(struct rank *r, struct oriel_dev_group g, void *context)
{
	const struct both *both = (const struct both *)context;
	uint64_t round;

	for (round = 0; round < LENGTHS; round++)
		exchange(r, g, both->out, both->in, round, lengths[round]);
}

CASE void teams_share_a_message(struct rank *r)
{
	RANK_ARRAY(r, struct both, both, 1);

	both->out = (char *)rank_alloc(r, SOURCE_BYTES);
	both->in = (char *)rank_alloc(r, SOURCE_BYTES);
	rank_team(r, 3, team_exchanges, both);
	rank_free(r, both->out);
	rank_free(r, both->in);
}

#endif
