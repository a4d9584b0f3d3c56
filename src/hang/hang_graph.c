/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of waits of a communicator, and a cycle in it. hang_read.c fills it. */
#include "hang/hang.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/wait_text.h"
#include "comm/wait_report.h"

/* Operations that each rank takes part in, and that end when all have. */
static bool graph_is_collective(const struct ori_wait_note *note)
{
	return note->what == ORIEL_DEV_EXCHANGE || note->what == ORIEL_DEV_BARRIER ||
	       note->what == ORIEL_DEV_BARRIER_FLAT || ori_collective_noun(note->window);
}

/* Is @peer in the operation of @note, or beyond it? */
static bool graph_has_arrived(const struct ori_hang_comm *comm, unsigned peer,
			      const struct ori_wait_note *note)
{
	const struct ori_hang_rank *r = &comm->ranks[peer];
	unsigned i;

	for (i = 0; i < r->wait_count; i++) {
		const struct ori_wait_note *other = &r->waits[i].note;

		if (other->what == note->what && other->window == note->window &&
		    (note->what == ORIEL_DEV_EXCHANGE || other->id == note->id) &&
		    (int64_t)(other->expected - note->expected) >= 0)
			return true;
	}
	return false;
}

bool ori_hang_wait_is_for(const struct ori_hang_comm *comm, unsigned rank,
			  const struct ori_hang_wait *wait, unsigned peer)
{
	/* The peer need not do anything for the latter. */
	if (peer == rank || ori_wait_outside(&wait->note))
		return false;
	if (wait->note.peer != ORIEL_DEV_NO_RANK)
		return wait->note.peer == peer;
	return !graph_is_collective(&wait->note) || !graph_has_arrived(comm, peer, &wait->note);
}

bool ori_hang_awaits(const struct ori_hang_comm *comm, unsigned rank, unsigned peer, bool is_strict)
{
	const struct ori_hang_rank *r = &comm->ranks[rank];
	unsigned i;

	for (i = 0; i < r->wait_count; i++)
		if ((r->waits[i].is_strict || !is_strict) &&
		    ori_hang_wait_is_for(comm, rank, &r->waits[i], peer))
			return true;
	return false;
}

bool ori_hang_is_root(const struct ori_hang_comm *comm, unsigned rank)
{
	unsigned other;
	bool is_awaited = false;

	for (other = 0; other < comm->size; other++) {
		if (ori_hang_awaits(comm, rank, other, false))
			return false;
		is_awaited |= ori_hang_awaits(comm, other, rank, true);
	}
	return is_awaited;
}

/*
 * Depth first, without recursion: jobs are large. @next is the peer at which the search of a rank
 * goes on; comm->cycle is the way to the rank that is searched.
 */
static void graph_search(struct ori_hang_comm *comm, unsigned start, unsigned *next,
			 unsigned char *is_done)
{
	unsigned depth = 1, at, peer, i;

	comm->cycle[0] = start;
	while (depth) {
		at = comm->cycle[depth - 1];
		peer = next[at];
		if (peer == comm->size) {
			is_done[at] = 1;
			depth--;
			continue;
		}
		next[at]++;
		if (is_done[peer] || !ori_hang_awaits(comm, at, peer, true))
			continue;
		for (i = 0; i < depth && comm->cycle[i] != peer; i++)
			;
		if (i < depth) {
			comm->cycle_length = depth - i;
			for (depth = 0; depth < comm->cycle_length; depth++)
				comm->cycle[depth] = comm->cycle[i + depth];
			return;
		}
		comm->cycle[depth++] = peer;
	}
}

enum oriel_status ori_hang_judge(struct ori_hang_comm *comm)
{
	unsigned *next = calloc(comm->size, sizeof(*next)), rank, i;
	unsigned char *is_done = calloc(comm->size, 1);
	enum oriel_status status = ORIEL_OK;

	comm->cycle_length = 0;
	for (rank = 0; rank < comm->size; rank++)
		for (i = 0; i < comm->ranks[rank].wait_count; i++) {
			struct ori_hang_wait *wait = &comm->ranks[rank].waits[i];

			wait->is_strict = wait->note.peer != ORIEL_DEV_NO_RANK ||
					  graph_is_collective(&wait->note) || comm->size == 2;
		}
	if (!next || !is_done)
		status = ori_fail_nomem(comm->size * (sizeof(*next) + 1), "a graph of %u ranks",
					comm->size);
	for (rank = 0; status == ORIEL_OK && rank < comm->size && !comm->cycle_length; rank++)
		if (!is_done[rank])
			graph_search(comm, rank, next, is_done);
	free(is_done);
	free(next);
	return status;
}

void ori_hang_wait_text(const struct ori_hang_wait *wait, char *text, size_t length)
{
	ori_wait_note_text(&wait->note, text, length);
}
