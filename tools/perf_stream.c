/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of send/recv over a staged channel: ping-pong, and streams one way and both ways. */
#include "perf.h"
#include "perf_pass.h"

/* Half the staging, so that both ranks can send one before either receives. */
#define STREAM_PIECE 32768u

static enum oriel_status stream_send(struct perf_rep *s, struct oriel_dev_group g, uint64_t bytes)
{
	return oriel_dev_send(&s->w, g, s->peer, 0, s->source, bytes, 0);
}

static enum oriel_status stream_recv(struct perf_rep *s, struct oriel_dev_group g, uint64_t bytes)
{
	return oriel_dev_recv(&s->w, g, s->peer, 0, s->sink, bytes, 0);
}

enum oriel_status perf_send_recv_lat(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				     uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++) {
		status = perf_prepare(s, g, round);
		if (s->is_origin && status == ORIEL_OK)
			status = stream_send(s, g, s->bytes);
		if (status == ORIEL_OK)
			status = stream_recv(s, g, s->bytes);
		perf_received(s, g, s->sink, s->bytes, round);
		if (status == ORIEL_OK && !s->is_origin)
			status = stream_send(s, g, s->bytes);
	}
	return status;
}

/* A burst of messages, then eight bytes back. */
static enum oriel_status stream_burst(struct perf_rep *s, struct oriel_dev_group g, uint64_t round)
{
	uint64_t i, burst = perf_burst(s->bytes);
	enum oriel_status status = ORIEL_OK;

	for (i = 0; i < burst && status == ORIEL_OK; i++) {
		if (s->is_origin) {
			status = perf_prepare(s, g, round * burst + i);
			if (status == ORIEL_OK)
				status = stream_send(s, g, s->bytes);
		} else {
			status = stream_recv(s, g, s->bytes);
			perf_received(s, g, s->sink, s->bytes, round * burst + i);
		}
	}
	if (status != ORIEL_OK)
		return status;
	return s->is_origin ? stream_recv(s, g, 8) : stream_send(s, g, 8);
}

enum oriel_status perf_send_recv_bw(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				    uint64_t end)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t round;

	for (round = begin; round < end && status == ORIEL_OK; round++)
		status = stream_burst(s, g, round);
	return status;
}

/*
 * One message each way. A send blocks while the staging is full, so a thread that does both
 * alternates between pieces of the two messages.
 */
static enum oriel_status stream_exchange(struct perf_rep *s, struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t at, piece;

	for (at = 0; at < s->bytes && status == ORIEL_OK; at += piece) {
		piece = s->bytes - at < STREAM_PIECE ? s->bytes - at : STREAM_PIECE;
		status = oriel_dev_send(&s->w, g, s->peer, 0, s->source + at, piece, 0);
		if (status == ORIEL_OK)
			status = oriel_dev_recv(&s->w, g, s->peer, 0, s->sink + at, piece, 0);
	}
	return status;
}

enum oriel_status perf_send_recv_both(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin,
				      uint64_t end)
{
	uint64_t i, last = perf_burst(s->bytes) * end;
	enum oriel_status status = ORIEL_OK;

	for (i = perf_burst(s->bytes) * begin; i < last && status == ORIEL_OK; i++) {
		status = perf_prepare(s, g, i);
		if (status == ORIEL_OK)
			status = stream_exchange(s, g);
		perf_received(s, g, s->sink, s->bytes, i);
	}
	return status;
}
