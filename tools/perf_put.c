/* SPDX-License-Identifier: Apache-2.0 */
/* Moving bytes without a signal: put, get, and how much a put moves. */
#include "perf.h"
#include "perf_pass.h"

/*
 * A put changes the last word of the payload to round + 1; the receiver polls
 * that word. It is no promise of the rest, so --check waits for a signal too.
 */
static enum oriel_status put_send(struct perf_shot *s, struct oriel_dev_group g, uint64_t round)
{
	enum oriel_status status;

	if (s->bytes == 8) {
		status = ORIEL_OK;
		if (oriel_dev_is_leader(g))
			status = perf_posted(oriel_dev_put_value(&s->w, s->peer, 0, round + 1));
	} else {
		if (oriel_dev_is_leader(g))
			*(uint64_t *)(void *)(s->source + s->bytes - 8) = round + 1;
		oriel_dev_sync(g);
		status = perf_posted(oriel_dev_put(&s->w, g, s->peer, 0, s->source, s->bytes));
	}
	if (s->is_checked && status == ORIEL_OK)
		status = perf_tell(s, g, PERF_READY);
	oriel_dev_sync(g);
	return status;
}

static enum oriel_status put_await(struct perf_shot *s, struct oriel_dev_group g, uint64_t round)
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
	status = perf_hear(s, g, PERF_READY);
	if (oriel_dev_is_leader(g)) {
		perf_compare(s, s->target, s->bytes - 8, round, s->peer);
		perf_compare_word(s, "the last word", *aim.word, round + 1, round);
	}
	return status;
}

enum oriel_status perf_put_lat(struct perf_shot *s, struct oriel_dev_group g, uint64_t begin,
			       uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		perf_prepare(s, g, round);
		if (s->is_origin)
			status = put_send(s, g, round);
		if (status == ORIEL_OK)
			status = put_await(s, g, round);
		if (status == ORIEL_OK && !s->is_origin)
			status = put_send(s, g, round);
	}
	return status;
}

/*
 * --check of an operation that only the origin knows of: the peer compares what
 * has come, and the next round waits for that.
 */
static enum oriel_status put_verify(struct perf_shot *s, struct oriel_dev_group g, uint64_t round)
{
	enum oriel_status status;

	if (s->is_origin) {
		status = perf_tell(s, g, PERF_READY);
		return status == ORIEL_OK ? perf_hear(s, g, PERF_DONE) : status;
	}
	status = perf_hear(s, g, PERF_READY);
	if (status != ORIEL_OK)
		return status;
	perf_received(s, g, s->target, round);
	return perf_tell(s, g, PERF_DONE);
}

enum oriel_status perf_put_flush(struct perf_shot *s, struct oriel_dev_group g, uint64_t begin,
				 uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_origin) {
			perf_prepare(s, g, round);
			status = perf_posted(
				oriel_dev_put(&s->w, g, s->peer, 0, s->source, s->bytes));
			if (status == ORIEL_OK)
				status = oriel_dev_flush(&s->w, g, 0);
		}
		if (s->is_checked && status == ORIEL_OK)
			status = put_verify(s, g, round);
	}
	return status;
}

/* All puts of a burst go to the same place: its pages and lines are warm. */
static enum oriel_status put_burst(struct perf_shot *s, struct oriel_dev_group g)
{
	uint64_t i, burst = perf_burst(s->bytes);
	enum oriel_status status = ORIEL_OK;

	for (i = 0; i < burst && status == ORIEL_OK; i++)
		status = perf_posted(oriel_dev_put(&s->w, g, s->peer, 0, s->source, s->bytes));
	return status == ORIEL_OK ? oriel_dev_flush(&s->w, g, 0) : status;
}

enum oriel_status perf_put_bw(struct perf_shot *s, struct oriel_dev_group g, uint64_t begin,
			      uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		if (s->is_origin) {
			perf_prepare(s, g, round);
			status = put_burst(s, g);
		}
		if (s->is_checked && status == ORIEL_OK)
			status = put_verify(s, g, round);
	}
	return status;
}

/* The peer of a get, while data is checked: it lays out what is fetched. */
static enum oriel_status get_serve(struct perf_shot *s, struct oriel_dev_group g, uint64_t round)
{
	enum oriel_status status;

	if (oriel_dev_is_leader(g))
		perf_fill(s->target, s->bytes, round, s->job->rank);
	status = perf_tell(s, g, PERF_READY);
	return status == ORIEL_OK ? perf_hear(s, g, PERF_DONE) : status;
}

static enum oriel_status get_once(struct perf_shot *s, struct oriel_dev_group g)
{
	int64_t ticket = oriel_dev_get(&s->w, g, s->peer, 0, s->sink, s->bytes);

	return oriel_dev_wait_local(&s->w, g, s->peer, ticket, 0);
}

static enum oriel_status get_verified(struct perf_shot *s, struct oriel_dev_group g, uint64_t round)
{
	enum oriel_status status = perf_hear(s, g, PERF_READY);

	if (status == ORIEL_OK)
		status = get_once(s, g);
	if (status != ORIEL_OK)
		return status;
	perf_received(s, g, s->sink, round);
	return perf_tell(s, g, PERF_DONE);
}

enum oriel_status perf_get_lat(struct perf_shot *s, struct oriel_dev_group g, uint64_t begin,
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
