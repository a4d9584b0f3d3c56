/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of rank 0 that puts to every other rank, or signals to all of them, and then waits once:
 * how the time of a put depends on the number of links. A round of puts counts as many operations
 * as there are peers.
 */
#include "perf.h"
#include "perf_pass.h"

enum fan_out { FAN_OUT_PUT, FAN_OUT_SIGNAL, FAN_OUT_DRAIN, FAN_OUT_COUNTER };

static enum oriel_status fan_out_post(struct perf_rep *s, struct oriel_dev_group g, uint32_t peer,
				      enum fan_out kind)
{
	if (kind == FAN_OUT_SIGNAL)
		return oriel_dev_put_signal(&s->w, g, peer, 0, s->source, s->bytes, PERF_SIGNAL, 1,
					    NULL);
	if (kind == FAN_OUT_COUNTER)
		return oriel_dev_put_counter(&s->w, g, peer, 0, s->source, s->bytes, PERF_COUNTER,
					     NULL);
	return oriel_dev_put(&s->w, g, peer, 0, s->source, s->bytes, NULL);
}

/* Until the puts have arrived, or until their source may be reused: by a drain, by counters. */
static enum oriel_status fan_out_wait(struct perf_rep *s, struct oriel_dev_group g,
				      enum fan_out kind, uint64_t round)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t peer;

	if (kind == FAN_OUT_PUT || kind == FAN_OUT_SIGNAL)
		return oriel_dev_flush(&s->w, g, 0);
	if (kind == FAN_OUT_DRAIN)
		return oriel_dev_drain(&s->w, g, 0);
	for (peer = 1; peer < s->w.ranks && status == ORIEL_OK; peer++)
		status = oriel_dev_wait_counter(&s->w, g, peer, PERF_COUNTER, ORIEL_EQ, round + 1,
						0);
	return status;
}

static enum oriel_status fan_out_put(struct perf_rep *s, struct oriel_dev_group g,
				     enum fan_out kind, uint64_t round)
{
	enum oriel_status posted = ORIEL_OK;
	uint32_t peer;

	for (peer = 1; peer < s->w.ranks && posted == ORIEL_OK; peer++)
		posted = fan_out_post(s, g, peer, kind);
	if (oriel_dev_is_leader(g))
		s->parts = s->w.ranks - 1;
	return posted != ORIEL_OK ? posted : fan_out_wait(s, g, kind, round);
}

/* --check: every peer compares, and the next round waits for all of them. */
static enum oriel_status fan_out_verify(struct perf_rep *s, struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t peer;

	for (peer = 1; peer < s->w.ranks && status == ORIEL_OK; peer++)
		status = oriel_dev_signal(&s->w, g, peer, PERF_READY, ORIEL_SIGNAL_ADD, 1, NULL);
	for (peer = 1; peer < s->w.ranks && status == ORIEL_OK; peer++)
		status = oriel_dev_wait_signal_next(&s->w, g, peer, PERF_DONE, 1, 0);
	return status;
}

static inline enum oriel_status fan_out_rounds(struct perf_rep *s, struct oriel_dev_group g,
					       uint64_t begin, uint64_t end, enum fan_out kind)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (!s->is_origin) {
			status = s->is_checked ? perf_verify(s, g, 1, round) : ORIEL_OK;
			continue;
		}
		status = perf_prepare(s, g, round);
		if (status == ORIEL_OK)
			status = fan_out_put(s, g, kind, round);
		if (status == ORIEL_OK && s->is_checked)
			status = fan_out_verify(s, g);
	}
	return status;
}

enum oriel_status perf_fan_out_put(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				   uint64_t end)
{
	return fan_out_rounds(s, g, begin, end, FAN_OUT_PUT);
}

enum oriel_status perf_fan_out_signal(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				      uint64_t end)
{
	return fan_out_rounds(s, g, begin, end, FAN_OUT_SIGNAL);
}

enum oriel_status perf_fan_out_drain(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				     uint64_t end)
{
	return fan_out_rounds(s, g, begin, end, FAN_OUT_DRAIN);
}

enum oriel_status perf_fan_out_counter(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				       uint64_t end)
{
	return fan_out_rounds(s, g, begin, end, FAN_OUT_COUNTER);
}

static enum oriel_status signal_all(struct perf_rep *s, struct oriel_dev_group g)
{
	return oriel_dev_signal_all(&s->w, g, PERF_SIGNAL, ORIEL_SIGNAL_ADD, 1);
}

/* Until the signals have arrived everywhere. With --check each peer waits for its own. */
enum oriel_status perf_signal_all_flush(struct perf_rep *s, struct oriel_dev_group g,
					uint64_t begin, uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_origin)
			status = signal_all(s, g);
		if (s->is_origin && status == ORIEL_OK)
			status = oriel_dev_flush(&s->w, g, 0);
		if (!s->is_origin && s->is_checked)
			status = oriel_dev_wait_signal_from(&s->w, g, 0, PERF_SIGNAL, ORIEL_GE,
							    round + 1, 0);
	}
	return status;
}

/* Every peer answers, and rank 0 waits for the sum of the answers. */
enum oriel_status perf_signal_all_answered(struct perf_rep *s, struct oriel_dev_group g,
					   uint64_t begin, uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_origin) {
			status = signal_all(s, g);
			if (status == ORIEL_OK)
				status = oriel_dev_wait_signal(&s->w, g, PERF_SIGNAL, ORIEL_EQ,
							       (round + 1) * (s->w.ranks - 1), 0);
			continue;
		}
		status = oriel_dev_wait_signal_from(&s->w, g, 0, PERF_SIGNAL, ORIEL_EQ, round + 1,
						    0);
		if (status == ORIEL_OK)
			status = oriel_dev_signal(&s->w, g, 0, PERF_SIGNAL, ORIEL_SIGNAL_ADD, 1,
						  NULL);
	}
	return status;
}
