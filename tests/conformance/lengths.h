/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of all-to-alls of which each has a length of its own. exchange_case.c and
 * started_case.c include it.
 */
#ifndef CONFORMANCE_LENGTHS_H
#define CONFORMANCE_LENGTHS_H

#include "harness.h"

#define SHARE 20000u /* the most bytes for each pair of ranks */

/* The seed of the message from @from to @to in @round. */
static inline uint64_t seed_of(uint64_t round, unsigned from, unsigned to)
{
	return round * 131 + from * 7 + to * 29 + 1;
}

/* Bytes from @from to @to in @round: some, none, or few, and not the same both ways. */
static inline size_t length_of(uint64_t round, unsigned from, unsigned to)
{
	unsigned draw = (unsigned)(round * 7 + from * 13 + to * 5) % 8;

	return draw < 3 ? 0 : draw == 3 ? 1 : (draw * 2477 + round * 31) % SHARE;
}

/* The messages lie in the view in another order than in the send buffer. */
static inline void layout_fill(const struct rank *r, uint64_t round,
			       struct oriel_dev_alltoallv *layout, char *send)
{
	size_t send_offset = 0, recv_offset = round % 3;
	unsigned i, rank;

	for (i = 0; i < r->size; i++) {
		rank = (r->rank * 3 + i) % r->size;
		layout[rank].recv_displacement = recv_offset;
		layout[rank].recv_length = length_of(round, rank, r->rank);
		recv_offset += layout[rank].recv_length;
		layout[i].send_displacement = send_offset;
		layout[i].send_length = length_of(round, r->rank, i);
		fill(send + send_offset, layout[i].send_length, seed_of(round, r->rank, i));
		send_offset += layout[i].send_length;
	}
}

#endif
