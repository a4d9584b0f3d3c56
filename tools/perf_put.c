/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that move bytes without a signal: latency and bandwidth of put and get. */
#include <string.h>

#include "perf.h"
#include "perf_pass.h"

/*
 * The last word of the payload is a value put, which becomes round + 1 atomically: the receiver
 * polls it. It does not guarantee the rest of the payload, so --check waits for a signal too.
 */
static enum oriel_status put_send(struct perf_rep *s, struct oriel_dev_group g, uint64_t round)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t body = s->bytes - 8;

	if (body)
		status = oriel_dev_put(&s->w, g, s->peer, 0, s->source, body, NULL);
	oriel_dev_sync(g);
	if (status == ORIEL_OK && oriel_dev_is_leader(g))
		status = oriel_dev_put_value(&s->w, s->peer, body, round + 1, NULL);
	status = oriel_dev_vote(g, status);
	return s->is_checked && status == ORIEL_OK ? perf_notify(s, g, PERF_READY) : status;
}

static enum oriel_status put_await(struct perf_rep *s, struct oriel_dev_group g, uint64_t round)
{
	struct oriel_dev_aim aim = {(uint64_t *)(void *)(s->target + s->bytes - 8),
				    round + 1,
				    ORIEL_EQ,
				    ORIEL_DEV_PUT,
				    s->peer,
				    0};
	enum oriel_status status = ORIEL_OK;

	if (oriel_dev_is_leader(g))
		status = oriel_dev_wait_word(&s->w, oriel_dev_thread(), &aim, 0);
	status = oriel_dev_vote(g, status);
	if (!s->is_checked || status != ORIEL_OK)
		return status;
	status = perf_wait_notify(s, g, PERF_READY);
	if (oriel_dev_is_leader(g)) {
		perf_compare(s, s->target, s->bytes - 8, round, s->peer);
		perf_compare_word(s, "the last word", *aim.word, round + 1, round);
	}
	return status;
}

/* A round trip, each way by @send. */
static inline enum oriel_status
put_rounds(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin, uint64_t end,
	   enum oriel_status (*send)(struct perf_rep *s, struct oriel_dev_group g, uint64_t round))
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		status = perf_prepare(s, g, round);
		if (s->is_origin && status == ORIEL_OK)
			status = send(s, g, round);
		if (status == ORIEL_OK)
			status = put_await(s, g, round);
		if (status == ORIEL_OK && !s->is_origin)
			status = send(s, g, round);
	}
	return status;
}

enum oriel_status perf_put_lat(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			       uint64_t end)
{
	return put_rounds(s, g, begin, end, put_send);
}

/*
 * A single put: the last word of the source becomes round + 1, which the receiver polls as above.
 * The source is rewritten after the previous put has completed.
 */
static enum oriel_status poll_send(struct perf_rep *s, struct oriel_dev_group g, uint64_t round)
{
	uint64_t last = round + 1;
	enum oriel_status status;
	struct oriel_dev_ticket ticket;

	if (oriel_dev_is_leader(g))
		memcpy(s->source + s->bytes - 8, &last, 8);
	oriel_dev_sync(g);
	status = oriel_dev_put(&s->w, g, s->peer, 0, s->source, s->bytes, &ticket);
	if (status == ORIEL_OK)
		status = oriel_dev_wait_local(&s->w, g, ticket, 0);
	return s->is_checked && status == ORIEL_OK ? perf_notify(s, g, PERF_READY) : status;
}

enum oriel_status perf_put_poll_lat(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				    uint64_t end)
{
	return put_rounds(s, g, begin, end, poll_send);
}

enum oriel_status perf_put_flush(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				 uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_origin) {
			status = perf_prepare(s, g, round);
			if (status == ORIEL_OK)
				status = oriel_dev_put(&s->w, g, s->peer, 0, s->source, s->bytes,
						       NULL);
			if (status == ORIEL_OK)
				status = oriel_dev_flush(&s->w, g, 0);
		}
		if (s->is_checked && status == ORIEL_OK)
			status = perf_verify(s, g, 1, round);
	}
	return status;
}

/* Each thread by itself: the same bytes to a place of its own, and a wait for them. */
static enum oriel_status flush_each(struct perf_rep *s, struct oriel_dev_group g)
{
	struct oriel_dev_group own = oriel_dev_thread();
	enum oriel_status status =
		oriel_dev_put(&s->w, own, s->peer, g.rank * perf_copy_stride(s->bytes), s->source,
			      s->bytes, NULL);

	if (status == ORIEL_OK)
		status = oriel_dev_flush(&s->w, own, 0);
	if (oriel_dev_is_leader(g))
		s->parts = g.size;
	return oriel_dev_vote(g, status);
}

enum oriel_status perf_put_flush_each(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				      uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_origin) {
			status = perf_prepare(s, g, round);
			if (status == ORIEL_OK)
				status = flush_each(s, g);
		}
		if (s->is_checked && status == ORIEL_OK)
			status = perf_verify(s, g, g.size, round);
	}
	return status;
}

/* All puts of a burst go to the same offset, so its pages and cache lines are warm. */
static enum oriel_status put_burst(struct perf_rep *s, struct oriel_dev_group g)
{
	uint64_t i, burst = perf_burst(s->bytes);
	enum oriel_status status = ORIEL_OK;

	for (i = 0; i < burst && status == ORIEL_OK; i++)
		status = oriel_dev_put(&s->w, g, s->peer, 0, s->source, s->bytes, NULL);
	return status == ORIEL_OK ? oriel_dev_flush(&s->w, g, 0) : status;
}

enum oriel_status perf_put_bw(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			      uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_origin) {
			status = perf_prepare(s, g, round);
			if (status == ORIEL_OK)
				status = put_burst(s, g);
		}
		if (s->is_checked && status == ORIEL_OK)
			status = perf_verify(s, g, 1, round);
	}
	return status;
}

/* The target of a get, with --check: writes the data to be fetched. */
static enum oriel_status get_serve(struct perf_rep *s, struct oriel_dev_group g, uint64_t round)
{
	enum oriel_status status;

	if (oriel_dev_is_leader(g))
		perf_fill(s->target, s->bytes, round, s->job->rank);
	status = perf_notify(s, g, PERF_READY);
	return status == ORIEL_OK ? perf_wait_notify(s, g, PERF_DONE) : status;
}

static enum oriel_status get_once(struct perf_rep *s, struct oriel_dev_group g)
{
	struct oriel_dev_ticket ticket;
	enum oriel_status status = oriel_dev_get(&s->w, g, s->peer, 0, s->sink, s->bytes, &ticket);

	return status == ORIEL_OK ? oriel_dev_wait_local(&s->w, g, ticket, 0) : status;
}

static enum oriel_status get_verified(struct perf_rep *s, struct oriel_dev_group g, uint64_t round)
{
	enum oriel_status status = perf_wait_notify(s, g, PERF_READY);

	if (status == ORIEL_OK)
		status = get_once(s, g);
	if (status != ORIEL_OK)
		return status;
	perf_received(s, g, s->sink, s->bytes, round);
	return perf_notify(s, g, PERF_DONE);
}

enum oriel_status perf_get_lat(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
			       uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (!s->is_origin)
			status = get_serve(s, g, round);
		else if (s->is_checked)
			status = get_verified(s, g, round);
		else
			status = get_once(s, g);
	}
	return status;
}
