/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers which memory of the user mapped ranks may write to, so that it can be told after a
 * shrink that a suspect has prevented. A public function of oriel/comm.h.
 */
#include "comm/unsafe.h"

#include <stdlib.h>

#include "base/error.h"
#include "comm/survive.h"

/* The memory is still that which was shared; only memory of a GPU that the user owns has no id. */
static bool unsafe_is_live(const struct ori_unsafe_piece *p)
{
	return !p->id || ori_mem_id(p->address, p->length) == p->id;
}

static bool unsafe_is_same(const struct ori_unsafe_piece *p, const struct ori_unsafe_piece *q)
{
	return p->rank == q->rank && p->address == q->address && p->length == q->length &&
	       p->id == q->id;
}

static enum oriel_status unsafe_add_locked(struct ori_survive *s,
					   const struct ori_unsafe_piece *piece)
{
	struct ori_unsafe_piece *pieces;
	unsigned i, count = 0;

	for (i = 0; i < s->piece_count; i++)
		if (unsafe_is_live(&s->pieces[i]) && !unsafe_is_same(&s->pieces[i], piece))
			s->pieces[count++] = s->pieces[i];
	s->piece_count = count;
	pieces = realloc(s->pieces, (count + 1) * sizeof(*pieces));
	if (!pieces)
		return ori_fail_nomem((count + 1) * sizeof(*pieces), "ORIEL_COMM_SHRINK");
	s->pieces = pieces;
	s->pieces[s->piece_count++] = *piece;
	return ORIEL_OK;
}

enum oriel_status ori_unsafe_note(struct oriel_comm *comm, unsigned rank, const struct ori_mem *mem,
				  const void *address, size_t length)
{
	struct ori_unsafe_piece piece = {rank, address, length, mem->id};
	struct ori_survive *s = comm->survive;
	enum oriel_status status;

	/* Memory of the library is freed with the window, and fresh memory takes its place. */
	if (!s || mem->owner == ORI_MEM_LIBRARY)
		return ORIEL_OK;
	pthread_mutex_lock(&s->pieces_lock);
	status = unsafe_add_locked(s, &piece);
	pthread_mutex_unlock(&s->pieces_lock);
	return status;
}

static bool unsafe_overlaps(const struct ori_unsafe_piece *p, const void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, begin = (uintptr_t)p->address;

	return at < begin + p->length && begin < at + length && unsafe_is_live(p);
}

/* May @suspect, which is mapped, write to a part of the range? */
static bool unsafe_is_reached(struct ori_survive *s, unsigned suspect, const void *address,
			      size_t length)
{
	bool is_reached = false;
	unsigned i;

	pthread_mutex_lock(&s->pieces_lock);
	for (i = 0; i < s->piece_count && !is_reached; i++)
		is_reached = (s->pieces[i].rank == ORIEL_NO_RANK || s->pieces[i].rank == suspect) &&
			     unsafe_overlaps(&s->pieces[i], address, length);
	pthread_mutex_unlock(&s->pieces_lock);
	return is_reached;
}

enum oriel_status oriel_comm_unsafe(const struct oriel_comm *comm, const void *address,
				    size_t length, unsigned *rank)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct ori_survive *s;
	unsigned suspect;

	if (status != ORIEL_OK)
		return status;
	if (!rank)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_unsafe: rank is NULL");
	*rank = ORIEL_NO_RANK;
	s = comm->survive;
	for (suspect = 0; s && suspect < comm->size; suspect++) {
		if (!ori_vote_has(s->suspects, suspect) ||
		    !ori_survive_maps(comm, comm->rank, suspect) ||
		    !unsafe_is_reached(s, suspect, address, length))
			continue;
		*rank = suspect;
		break;
	}
	return ORIEL_OK;
}
