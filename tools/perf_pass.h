/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the cases have in common; the whole group calls them. */
#ifndef ORIEL_PERF_PASS_H
#define ORIEL_PERF_PASS_H

#include "perf.h"

static inline enum oriel_status perf_tell(struct perf_shot *s, struct oriel_dev_group g,
					  uint32_t id)
{
	return perf_posted(oriel_dev_signal(&s->w, g, s->peer, id, ORIEL_SIGNAL_ADD, 1));
}

static inline enum oriel_status perf_hear(struct perf_shot *s, struct oriel_dev_group g,
					  uint32_t id)
{
	return oriel_dev_wait_signal_next(&s->w, g, s->peer, id, 1, 0);
}

/* With --check: new data in the source. */
static inline void perf_prepare(struct perf_shot *s, struct oriel_dev_group g, uint64_t round)
{
	if (!s->is_checked)
		return;
	if (oriel_dev_is_leader(g))
		perf_fill(s->source, s->bytes, round, s->job->rank);
	oriel_dev_sync(g);
}

/* With --check: @data must be what the peer prepared for @round. */
static inline void perf_received(struct perf_shot *s, struct oriel_dev_group g, const char *data,
				 uint64_t round)
{
	if (!s->is_checked)
		return;
	if (oriel_dev_is_leader(g))
		perf_compare(s, data, s->bytes, round, s->peer);
	oriel_dev_sync(g);
}

#endif
