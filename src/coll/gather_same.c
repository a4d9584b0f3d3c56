/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do all ranks mean the same execution? A barrier that carries a number, before each of
 * them, in debug builds. The numbers lie in one word and then in another: who writes the
 * one for the execution after the next has those of the next, so all have read this one's.
 */
#include "base/error.h"
#include "coll/gather.h"

#ifndef NDEBUG

static enum oriel_status same_tell(struct oriel_allgather *g, uint32_t id, uint64_t value)
{
	const struct oriel_dev_window *w = &g->device;
	int64_t posted = 0;
	uint32_t i, peer;

	for (i = 1; i < w->ranks && posted >= 0; i++) {
		peer = oriel_dev_rank_after(w, i);
		posted = oriel_dev_signal(w, oriel_dev_thread(), peer, id, ORIEL_SIGNAL_SET, value);
		if (posted >= 0)
			posted = oriel_dev_signal(w, oriel_dev_thread(), peer, ORI_GATHER_SAME,
						  ORIEL_SIGNAL_ADD, 1);
	}
	return posted < 0 ? (enum oriel_status)posted : ORIEL_OK;
}

enum oriel_status ori_gather_same(struct oriel_allgather *g, const char *what, uint64_t value)
{
	const struct oriel_dev_window *w = &g->device;
	uint32_t id = ORI_GATHER_NUMBER + (uint32_t)(g->told++ % 2), i, peer, other = w->rank;
	uint64_t seen = 0, differs = 0;
	enum oriel_status status = same_tell(g, id, value);

	/* All of them, so that the next one begins where it should. */
	for (i = 1; i < w->ranks && status == ORIEL_OK; i++) {
		peer = oriel_dev_rank_after(w, i);
		status = oriel_dev_wait_signal_next(w, oriel_dev_thread(), peer, ORI_GATHER_SAME, 1,
						    0);
		if (status == ORIEL_OK)
			status = oriel_dev_read_signal_from(w, peer, id, &seen);
		if (status == ORIEL_OK && seen != value) {
			other = peer;
			differs = seen;
		}
	}
	if (status != ORIEL_OK)
		return ori_gather_end(g, status);
	if (other != w->rank)
		return ori_fail(ORIEL_ERR_MISMATCH,
				"%s: %s %llu here, on rank %u, and %llu on rank "
				"%u",
				g->kind->name, what, (unsigned long long)value, w->rank,
				(unsigned long long)differs, other);
	return ORIEL_OK;
}

#else

enum oriel_status ori_gather_same(struct oriel_allgather *g, const char *what, uint64_t value)
{
	(void)g;
	(void)what;
	(void)value;
	return ORIEL_OK;
}

#endif
