/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases that time how long until the source of a put can be reused, as seen by a CPU that polls
 * for the ticket, and by a counter that the hardware increments.
 */
#include "perf.h"
#include "perf_pass.h"

PERF_TIMED enum oriel_status local_once(struct perf_rep *s, struct oriel_dev_group g,
					uint64_t round)
{
	struct oriel_dev_ticket ticket;
	enum oriel_status status =
		oriel_dev_put(&s->w, g, s->peer, 0, s->source, s->bytes, &ticket);

	(void)round;
	return status == ORIEL_OK ? oriel_dev_wait_local(&s->w, g, ticket, 0) : status;
}

PERF_TIMED enum oriel_status counter_once(struct perf_rep *s, struct oriel_dev_group g,
					  uint64_t round)
{
	enum oriel_status status = oriel_dev_put_counter(&s->w, g, s->peer, 0, s->source, s->bytes,
							 PERF_COUNTER, NULL);

	if (status != ORIEL_OK)
		return status;
	return oriel_dev_wait_counter(&s->w, g, s->peer, PERF_COUNTER, ORIEL_EQ, round + 1, 0);
}

PERF_TIMED enum oriel_status signal_once(struct perf_rep *s, struct oriel_dev_group g,
					 uint64_t round)
{
	enum oriel_status status =
		oriel_dev_put_signal_counter(&s->w, g, s->peer, 0, s->source, s->bytes, PERF_SIGNAL,
					     1, PERF_COUNTER, NULL);

	if (status != ORIEL_OK)
		return status;
	return oriel_dev_wait_counter(&s->w, g, s->peer, PERF_COUNTER, ORIEL_EQ, round + 1, 0);
}

PERF_TIMED enum oriel_status counter_rounds(
	struct perf_rep *s, struct oriel_dev_group g, uint64_t begin, uint64_t end,
	enum oriel_status (*once)(struct perf_rep *s, struct oriel_dev_group g, uint64_t round))
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_origin) {
			status = perf_prepare(s, g, round);
			if (status == ORIEL_OK)
				status = once(s, g, round);
		}
		if (s->is_checked && status == ORIEL_OK)
			status = perf_verify(s, g, 1, round);
	}
	return status;
}

enum oriel_status perf_put_local(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				 uint64_t end)
{
	return counter_rounds(s, g, begin, end, local_once);
}

enum oriel_status perf_put_counter(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				   uint64_t end)
{
	return counter_rounds(s, g, begin, end, counter_once);
}

enum oriel_status perf_put_signal_counter(struct perf_rep *s, struct oriel_dev_group g,
					  uint64_t begin, uint64_t end)
{
	return counter_rounds(s, g, begin, end, signal_once);
}
