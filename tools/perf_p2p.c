/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases over p2p endpoints between ranks 0 and 1, in each mode, separate from the communicator's
 * own endpoints.
 */
#include "perf_p2p.h"

#include <stdlib.h>
#include <string.h>

#include "perf.h"
#include "perf_pass.h"

#define P2P_MODES 3u
#define P2P_CHANNELS 4u /* so that they take a whole burst */
#define P2P_DEPTH (PERF_BURST / P2P_CHANNELS)

/* State of the job, created by the first row that needs it. */
struct perf_p2p {
	struct oriel_p2p_context *context;
	struct oriel_p2p *ends[P2P_MODES];
	void *source, *sink; /* in memory that the peer's process can map */
	struct oriel_p2p_memory *from, *to;
	struct oriel_p2p_remote remote; /* the peer's sink */
	bool is_imported;
	uint64_t bytes;
	struct oriel_p2p_request out[PERF_BURST], in[PERF_BURST];
};

static enum oriel_status p2p_register(struct perf_p2p *p, void **memory,
				      struct oriel_p2p_memory **handle)
{
	enum oriel_status status = oriel_memory_alloc(p->bytes, 0, memory);

	if (status == ORIEL_OK)
		status = oriel_p2p_register(p->context, *memory, p->bytes, 0, handle);
	if (status == ORIEL_OK)
		memset(*memory, 1, p->bytes);
	return status;
}

static enum oriel_status p2p_open(struct perf_job *job, uint64_t bytes, struct perf_p2p *p)
{
	/* The context is the communicator's, so its endpoints reach ranks on other machines too. */
	enum oriel_status status = oriel_comm_p2p_context(job->comm, &p->context);

	p->bytes = bytes;
	if (status == ORIEL_OK)
		status = p2p_register(p, &p->source, &p->from);
	if (status == ORIEL_OK)
		status = p2p_register(p, &p->sink, &p->to);
	return status;
}

void perf_p2p_close(struct perf_job *job)
{
	struct perf_p2p *p = job->p2p;
	unsigned mode;

	if (!p)
		return;
	for (mode = 0; mode < P2P_MODES; mode++)
		oriel_p2p_destroy(p->ends[mode]);
	oriel_p2p_unregister(p->from);
	oriel_p2p_unregister(p->to);
	oriel_memory_free(p->source);
	oriel_memory_free(p->sink);
	free(p);
	job->p2p = NULL;
}

/* Exchange @mine with the peer through the window, behind its payload. */
static enum oriel_status p2p_swap(struct perf_rep *s, const void *mine, size_t length)
{
	struct oriel_dev_group me = oriel_dev_thread();
	enum oriel_status status;

	status = oriel_dev_put_signal(&s->w, me, s->peer, s->words_offset, mine, length, PERF_READY,
				      1, NULL);
	if (status == ORIEL_OK)
		status = perf_wait_notify(s, me, PERF_READY);
	return status == ORIEL_OK ? oriel_dev_drain(&s->w, me, 0) : status;
}

static enum oriel_status p2p_join(struct perf_rep *s, struct oriel_p2p *end)
{
	char address[ORIEL_P2P_ADDRESS];
	enum oriel_status status = oriel_p2p_address(end, address);

	if (status == ORIEL_OK)
		status = p2p_swap(s, address, sizeof(address));
	return status == ORIEL_OK
		       ? oriel_p2p_connect(end, s->target + s->words_offset, ORIEL_P2P_ADDRESS, 0)
		       : status;
}

static enum oriel_status p2p_end(struct perf_rep *s, enum oriel_p2p_mode mode,
				 struct oriel_p2p **end)
{
	const struct oriel_p2p_attr attr = {.size = sizeof(attr),
					    .mode = mode,
					    .channels = P2P_CHANNELS,
					    .depth = P2P_DEPTH};
	enum oriel_status status = ORIEL_OK;
	struct perf_p2p *p = s->job->p2p;

	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return ORIEL_ERR_NOMEM;
		s->job->p2p = p;
		status = p2p_open(s->job, s->job->bytes, p);
	}
	if (status == ORIEL_OK && !p->ends[mode]) {
		status = oriel_p2p_create(p->context, &attr, &p->ends[mode]);
		if (status == ORIEL_OK)
			status = p2p_join(s, p->ends[mode]);
	}
	*end = p->ends[mode];
	return status;
}

static struct oriel_p2p_buffer p2p_source(const struct perf_rep *s)
{
	struct oriel_p2p_buffer b = {s->job->p2p->source, s->bytes, s->job->p2p->from};

	return b;
}

static struct oriel_p2p_buffer p2p_sink(const struct perf_rep *s)
{
	struct oriel_p2p_buffer b = {s->job->p2p->sink, s->bytes, s->job->p2p->to};

	return b;
}

static enum oriel_status p2p_send(struct perf_rep *s, struct oriel_p2p *end, uint64_t round)
{
	struct oriel_p2p_buffer from = p2p_source(s);
	struct oriel_p2p_request *r = &s->job->p2p->out[0];
	enum oriel_status status;

	if (s->is_checked)
		perf_fill(from.address, s->bytes, round, s->job->rank);
	status = oriel_p2p_send(end, 0, &from, r);
	return status == ORIEL_OK ? oriel_p2p_wait(end, r, 0) : status;
}

static enum oriel_status p2p_recv(struct perf_rep *s, struct oriel_p2p *end, uint64_t round,
				  struct oriel_p2p_request *r)
{
	enum oriel_status status = oriel_p2p_wait(end, r, 0);

	if (status == ORIEL_OK && s->is_checked)
		perf_compare(s, s->job->p2p->sink, s->bytes, round, s->peer);
	return status;
}

/* The next receive is posted before the message that the peer answers is sent. */
static enum oriel_status p2p_lat(struct perf_rep *s, uint64_t begin, uint64_t end_round,
				 enum oriel_p2p_mode mode)
{
	struct oriel_p2p *end;
	enum oriel_status status = p2p_end(s, mode, &end);
	struct oriel_p2p_request *r;
	struct oriel_p2p_buffer to;
	uint64_t round;

	if (status != ORIEL_OK)
		return status;
	to = p2p_sink(s);
	r = &s->job->p2p->in[0];
	for (round = begin; round < end_round && status == ORIEL_OK; round++) {
		status = oriel_p2p_recv(end, 0, &to, r);
		if (status == ORIEL_OK && s->is_origin)
			status = p2p_send(s, end, round);
		if (status == ORIEL_OK)
			status = p2p_recv(s, end, round, r);
		if (status == ORIEL_OK && !s->is_origin)
			status = p2p_send(s, end, round);
	}
	return status;
}

/* Requires connected endpoints. */
static enum oriel_status p2p_import(struct perf_rep *s, struct oriel_p2p *end)
{
	struct perf_p2p *p = s->job->p2p;
	const struct oriel_p2p_buffer all = {p->sink, p->bytes, p->to};
	enum oriel_status status = oriel_p2p_drain(end, 0);
	char bytes[ORIEL_P2P_EXPORT];

	while (status == ORIEL_OK && (status = oriel_p2p_check(end)) == ORIEL_AGAIN)
		status = oriel_p2p_progress(end);
	if (status == ORIEL_OK)
		status = oriel_p2p_export(end, &all, bytes);
	if (status == ORIEL_OK)
		status = p2p_swap(s, bytes, sizeof(bytes));
	if (status == ORIEL_OK)
		status = oriel_p2p_import(end, s->target + s->words_offset, sizeof(bytes),
					  &p->remote);
	p->is_imported = status == ORIEL_OK;
	return status;
}

static enum oriel_status p2p_put(struct perf_rep *s, struct oriel_p2p *end, uint64_t round)
{
	struct oriel_p2p_buffer from = p2p_source(s);
	struct oriel_p2p_request *r = &s->job->p2p->out[0];
	enum oriel_status status;

	if (s->is_checked)
		perf_fill(from.address, s->bytes, round, s->job->rank);
	status = oriel_p2p_put(end, 0, &from, &s->job->p2p->remote, 0, r);
	return status == ORIEL_OK ? oriel_p2p_wait(end, r, 0) : status;
}

/* As p2p_lat(): the next put is expected before the one that the peer answers is sent. */
static enum oriel_status p2p_put_lat(struct perf_rep *s, uint64_t begin, uint64_t end_round)
{
	struct oriel_p2p *end;
	enum oriel_status status = p2p_end(s, ORIEL_P2P_ZERO_COPY, &end);
	struct oriel_p2p_request *r;
	uint64_t round;

	if (status == ORIEL_OK && !s->job->p2p->is_imported)
		status = p2p_import(s, end);
	if (status != ORIEL_OK)
		return status;
	r = &s->job->p2p->in[0];
	for (round = begin; round < end_round && status == ORIEL_OK; round++) {
		status = oriel_p2p_expect(end, 0, r);
		if (status == ORIEL_OK && s->is_origin)
			status = p2p_put(s, end, round);
		if (status == ORIEL_OK)
			status = p2p_recv(s, end, round, r);
		if (status == ORIEL_OK && !s->is_origin)
			status = p2p_put(s, end, round);
	}
	return status;
}

static enum oriel_status p2p_wait_all(struct oriel_p2p *end, struct oriel_p2p_request *r,
				      uint64_t count)
{
	enum oriel_status status = ORIEL_OK;

	for (uint64_t i = 0; i < count && status == ORIEL_OK; i++)
		status = oriel_p2p_wait(end, &r[i], 0);
	return status;
}

/*
 * A burst in one direction or in both, then a word back, without which the sender would be a round
 * ahead.
 */
static enum oriel_status p2p_burst(struct perf_rep *s, struct oriel_p2p *end, bool sends,
				   bool receives)
{
	struct oriel_p2p_buffer from = p2p_source(s), to = p2p_sink(s);
	struct perf_p2p *p = s->job->p2p;
	uint64_t count = perf_burst(s->bytes);
	enum oriel_status status = ORIEL_OK;

	for (uint64_t i = 0; i < count && receives && status == ORIEL_OK; i++)
		status = oriel_p2p_recv(end, i % P2P_CHANNELS, &to, &p->in[i]);
	for (uint64_t i = 0; i < count && sends && status == ORIEL_OK; i++)
		status = oriel_p2p_send(end, i % P2P_CHANNELS, &from, &p->out[i]);
	if (receives && status == ORIEL_OK)
		status = p2p_wait_all(end, p->in, count);
	if (sends && status == ORIEL_OK)
		status = p2p_wait_all(end, p->out, count);
	return status;
}

static enum oriel_status p2p_bw(struct perf_rep *s, uint64_t begin, uint64_t end_round,
				enum oriel_p2p_mode mode, bool is_both)
{
	struct oriel_p2p *end;
	enum oriel_status status = p2p_end(s, mode, &end);
	uint64_t round;

	for (round = begin; round < end_round && status == ORIEL_OK; round++) {
		if (s->is_checked)
			perf_fill(s->job->p2p->source, s->bytes, round, s->job->rank);
		status = p2p_burst(s, end, s->is_origin || is_both, !s->is_origin || is_both);
		if (s->is_checked && status == ORIEL_OK && (!s->is_origin || is_both))
			perf_compare(s, s->job->p2p->sink, s->bytes, round, s->peer);
		/* The data must not change before it has been compared. */
		if (s->is_checked && status == ORIEL_OK)
			status = oriel_dev_barrier_peer(&s->w, oriel_dev_thread(), s->peer, 0, 0);
	}
	return status;
}

/* An endpoint belongs to one thread: the leader. */
#define P2P_PASS(name, call)                                                                 \
	enum oriel_status name(struct perf_rep *s, struct oriel_dev_group g, uint64_t begin, \
			       uint64_t end)                                                 \
	{                                                                                    \
		return oriel_dev_vote(g, oriel_dev_is_leader(g) ? (call) : ORIEL_OK);        \
	}

P2P_PASS(perf_p2p_lat_zero, p2p_lat(s, begin, end, ORIEL_P2P_ZERO_COPY))
P2P_PASS(perf_p2p_lat_copy, p2p_lat(s, begin, end, ORIEL_P2P_COPY_BASED))
P2P_PASS(perf_p2p_put_lat, p2p_put_lat(s, begin, end))
P2P_PASS(perf_p2p_bw_zero, p2p_bw(s, begin, end, ORIEL_P2P_ZERO_COPY, false))
P2P_PASS(perf_p2p_bw_copy, p2p_bw(s, begin, end, ORIEL_P2P_COPY_BASED, false))
P2P_PASS(perf_p2p_both_zero, p2p_bw(s, begin, end, ORIEL_P2P_ZERO_COPY, true))
P2P_PASS(perf_p2p_both_copy, p2p_bw(s, begin, end, ORIEL_P2P_COPY_BASED, true))
