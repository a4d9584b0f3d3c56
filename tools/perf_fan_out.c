/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of rank 0 that puts to every other rank, then flushes once: how the time of a put depends
 * on the number of links. A round counts as many operations as there are peers.
 */
#include "perf.h"
#include "perf_pass.h"

static enum oriel_status fan_out_put(struct perf_rep *s, struct oriel_dev_group g, bool has_signal)
{
	int64_t ticket = 0;
	uint32_t peer;

	for (peer = 1; peer < s->w.ranks && ticket >= 0; peer++)
		ticket = has_signal ? oriel_dev_put_signal(&s->w, g, peer, 0, s->source, s->bytes,
							   PERF_SIGNAL, 1)
				    : oriel_dev_put(&s->w, g, peer, 0, s->source, s->bytes);
	if (oriel_dev_is_leader(g))
		s->parts = s->w.ranks - 1;
	return ticket < 0 ? (enum oriel_status)ticket : oriel_dev_flush(&s->w, g, 0);
}

/* --check: every peer compares, and the next round waits for all of them. */
static enum oriel_status fan_out_verify(struct perf_rep *s, struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t peer;

	for (peer = 1; peer < s->w.ranks && status == ORIEL_OK; peer++)
		status = perf_posted(
			oriel_dev_signal(&s->w, g, peer, PERF_READY, ORIEL_SIGNAL_ADD, 1));
	for (peer = 1; peer < s->w.ranks && status == ORIEL_OK; peer++)
		status = oriel_dev_wait_signal_next(&s->w, g, peer, PERF_DONE, 1, 0);
	return status;
}

static inline enum oriel_status fan_out_rounds(struct perf_rep *s, struct oriel_dev_group g,
					       uint64_t begin, uint64_t end, bool has_signal)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (!s->is_origin) {
			status = s->is_checked ? perf_verify(s, g, s->bytes, round) : ORIEL_OK;
			continue;
		}
		status = perf_prepare(s, g, round);
		if (status == ORIEL_OK)
			status = fan_out_put(s, g, has_signal);
		if (status == ORIEL_OK && s->is_checked)
			status = fan_out_verify(s, g);
	}
	return status;
}

enum oriel_status perf_fan_out_put(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				   uint64_t end)
{
	return fan_out_rounds(s, g, begin, end, false);
}

enum oriel_status perf_fan_out_signal(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				      uint64_t end)
{
	return fan_out_rounds(s, g, begin, end, true);
}
