/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that several cases share; the whole group calls them. */
#ifndef ORIEL_PERF_PASS_H
#define ORIEL_PERF_PASS_H

#include "perf.h"

/* A call by value would store the group and load it at once, which takes as long as a put. */
#define PERF_TIMED static inline __attribute__((always_inline))

static inline enum oriel_status perf_notify(struct perf_rep *s, struct oriel_dev_group g,
					    uint32_t id)
{
	return oriel_dev_signal(&s->w, g, s->peer, id, ORIEL_SIGNAL_ADD, 1, NULL);
}

static inline enum oriel_status perf_wait_notify(struct perf_rep *s, struct oriel_dev_group g,
						 uint32_t id)
{
	return oriel_dev_wait_signal_next(&s->w, g, s->peer, id, 1, 0);
}

/* Write new data into the source once no transfer reads the old data. */
static __attribute__((noinline, unused)) enum oriel_status
perf_prepare_data(struct perf_rep *s, struct oriel_dev_group g, uint64_t round)
{
	enum oriel_status status = oriel_dev_drain(&s->w, g, 0);

	if (status == ORIEL_OK && oriel_dev_is_leader(g))
		perf_fill(s->source, s->bytes, round, s->job->rank);
	oriel_dev_sync(g);
	return status;
}

/* With --check: new data. Without, a timed round has no call of this, whatever gcc finds large. */
PERF_TIMED enum oriel_status perf_prepare(struct perf_rep *s, struct oriel_dev_group g,
					  uint64_t round)
{
	return s->is_checked ? perf_prepare_data(s, g, round) : ORIEL_OK;
}

/* With --check: @data must begin with the @bytes that the peer prepared for @round. */
static inline void perf_received(struct perf_rep *s, struct oriel_dev_group g, const char *data,
				 uint64_t bytes, uint64_t round)
{
	if (!s->is_checked)
		return;
	if (oriel_dev_is_leader(g))
		perf_compare(s, data, bytes, round, s->peer);
	oriel_dev_sync(g);
}

/*
 * --check of an operation that only the initiator knows of: the peer compares each of the @copies
 * of the data that it received, and the next round waits for that.
 */
static inline enum oriel_status perf_verify(struct perf_rep *s, struct oriel_dev_group g,
					    uint32_t copies, uint64_t round)
{
	enum oriel_status status;
	uint32_t i;

	if (s->is_origin) {
		status = perf_notify(s, g, PERF_READY);
		return status == ORIEL_OK ? perf_wait_notify(s, g, PERF_DONE) : status;
	}
	status = perf_wait_notify(s, g, PERF_READY);
	if (status != ORIEL_OK)
		return status;
	for (i = 0; i < copies; i++)
		perf_received(s, g, s->target + i * perf_copy_stride(s->bytes), s->bytes, round);
	return perf_notify(s, g, PERF_DONE);
}

#endif
