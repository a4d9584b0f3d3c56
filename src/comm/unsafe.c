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
	return p->address == q->address && p->length == q->length && p->id == q->id;
}

enum oriel_status ori_unsafe_note(struct oriel_comm *comm, const struct ori_mem *mem,
				  const void *address, size_t length)
{
	struct ori_unsafe_piece piece = {address, length, mem->id}, *pieces;
	struct ori_survive *s = comm->survive;
	unsigned i, count = 0;

	/* Memory of the library is freed with the window, and fresh memory takes its place. */
	if (!s || mem->owner == ORI_MEM_LIBRARY)
		return ORIEL_OK;
	for (i = 0; i < s->piece_count; i++)
		if (unsafe_is_live(&s->pieces[i]) && !unsafe_is_same(&s->pieces[i], &piece))
			s->pieces[count++] = s->pieces[i];
	s->piece_count = count;
	pieces = realloc(s->pieces, (count + 1) * sizeof(*pieces));
	if (!pieces)
		return ori_fail_nomem((count + 1) * sizeof(*pieces), "ORIEL_COMM_SHRINK");
	s->pieces = pieces;
	s->pieces[s->piece_count++] = piece;
	return ORIEL_OK;
}

static bool unsafe_overlaps(const struct ori_unsafe_piece *p, const void *address, size_t length)
{
	uintptr_t at = (uintptr_t)address, begin = (uintptr_t)p->address;

	return at < begin + p->length && begin < at + length && unsafe_is_live(p);
}

enum oriel_status oriel_comm_unsafe(const struct oriel_comm *comm, const void *address,
				    size_t length, unsigned *rank)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	const struct ori_survive *s;
	unsigned i, suspect;

	if (status != ORIEL_OK)
		return status;
	if (!rank)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_unsafe: rank is NULL");
	*rank = ORIEL_NO_RANK;
	s = comm->survive;
	for (i = 0; s && i < s->piece_count; i++)
		if (unsafe_overlaps(&s->pieces[i], address, length))
			break;
	if (!s || i == s->piece_count)
		return ORIEL_OK;
	for (suspect = 0; suspect < comm->size; suspect++)
		if (ori_vote_has(s->suspects, suspect) &&
		    ori_survive_maps(comm, comm->rank, suspect))
			break;
	if (suspect < comm->size)
		*rank = suspect;
	return ORIEL_OK;
}
