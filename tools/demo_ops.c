/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases that transfer bytes: each is an operation that posts, and one that waits for the data.
 * demo_data.c runs them.
 */
#include <string.h>
#include <time.h>

#include "demo.h"

static void op_overwrite(struct oriel_dev_group g, const struct demo_transfer *transfer)
{
	if (oriel_dev_is_leader(g))
		memset(transfer->from, 0x5a, transfer->length);
}

static enum oriel_status op_put(struct demo *d, struct oriel_dev_group g,
				const struct demo_transfer *transfer)
{
	return oriel_dev_put(&d->w, g, transfer->peer, transfer->to, transfer->from,
			     transfer->length, NULL);
}

/* A rank that is late, by a time that depends on the data. */
static enum oriel_status op_put_delayed(struct demo *d, struct oriel_dev_group g,
					const struct demo_transfer *transfer)
{
	struct timespec pause = {0, (long)(transfer->length % 1024 * 500)};

	nanosleep(&pause, NULL);
	return op_put(d, g, transfer);
}

static enum oriel_status op_put_local(struct demo *d, struct oriel_dev_group g,
				      const struct demo_transfer *transfer)
{
	char *local = demo_block(d->local, transfer->peer);

	memcpy(local, transfer->from, transfer->length);
	return oriel_dev_put(&d->w, g, transfer->peer, transfer->to, local, transfer->length, NULL);
}

static enum oriel_status op_put_wait_local(struct demo *d, struct oriel_dev_group g,
					   const struct demo_transfer *transfer)
{
	struct oriel_dev_ticket done;
	enum oriel_status status = oriel_dev_put(&d->w, g, transfer->peer, transfer->to,
						 transfer->from, transfer->length, &done);

	if (status == ORIEL_OK)
		status = oriel_dev_wait_local(&d->w, g, done, 0);
	if (status == ORIEL_OK)
		op_overwrite(g, transfer);
	return status;
}

static enum oriel_status op_put_values(struct demo *d, struct oriel_dev_group g,
				       const struct demo_transfer *transfer)
{
	enum oriel_status posted = ORIEL_OK;
	uint64_t i, value;

	(void)g;
	for (i = 0; i < transfer->length && posted == ORIEL_OK; i += sizeof(value)) {
		memcpy(&value, transfer->from + i, sizeof(value));
		posted = oriel_dev_put_value(&d->w, transfer->peer, transfer->to + i, value, NULL);
	}
	return posted;
}

static enum oriel_status op_put_signal(struct demo *d, struct oriel_dev_group g,
				       const struct demo_transfer *transfer)
{
	return oriel_dev_put_signal(&d->w, g, transfer->peer, transfer->to, transfer->from,
				    transfer->length, DEMO_SIGNAL_DATA, 1, NULL);
}

/* Wait for the one put in flight to @peer, reset the counter, and overwrite the source. */
static enum oriel_status op_count(struct demo *d, struct oriel_dev_group g,
				  const struct demo_transfer *transfer)
{
	enum oriel_status status =
		oriel_dev_wait_counter(&d->w, g, transfer->peer, DEMO_COUNTER_DATA, ORIEL_EQ, 1, 0);

	if (status == ORIEL_OK)
		status = oriel_dev_reset_counter(&d->w, transfer->peer, DEMO_COUNTER_DATA);
	if (status == ORIEL_OK)
		op_overwrite(g, transfer);
	return status;
}

static enum oriel_status op_put_counter(struct demo *d, struct oriel_dev_group g,
					const struct demo_transfer *transfer)
{
	enum oriel_status posted =
		oriel_dev_put_counter(&d->w, g, transfer->peer, transfer->to, transfer->from,
				      transfer->length, DEMO_COUNTER_DATA, NULL);

	return posted != ORIEL_OK ? posted : op_count(d, g, transfer);
}

static enum oriel_status op_put_signal_counter(struct demo *d, struct oriel_dev_group g,
					       const struct demo_transfer *transfer)
{
	enum oriel_status posted =
		oriel_dev_put_signal_counter(&d->w, g, transfer->peer, transfer->to, transfer->from,
					     transfer->length, DEMO_SIGNAL_DATA, 1,
					     DEMO_COUNTER_DATA, NULL);

	return posted != ORIEL_OK ? posted : op_count(d, g, transfer);
}

static enum oriel_status op_host_put_signal(struct demo *d, struct oriel_dev_group g,
					    const struct demo_transfer *transfer)
{
	(void)g;
	return oriel_window_put_signal(d->window, transfer->peer, transfer->to, transfer->from,
				       transfer->length, DEMO_SIGNAL_DATA, 1);
}

/* For cases in which the receiver, or both peers together, move the bytes. */
static enum oriel_status op_post_nothing(struct demo *d, struct oriel_dev_group g,
					 const struct demo_transfer *transfer)
{
	(void)d;
	(void)g;
	(void)transfer;
	return 0;
}

static enum oriel_status op_barrier(struct demo *d, struct oriel_dev_group g)
{
	return oriel_dev_barrier(&d->w, g, DEMO_SLOT_CASE, 0);
}

static enum oriel_status op_flush(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = oriel_dev_flush(&d->w, g, 0);

	/* The host's barrier orders threads, and guarantees nothing about windows. */
	return status == ORIEL_OK ? oriel_comm_barrier(d->comm) : status;
}

static enum oriel_status op_drain(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = oriel_dev_drain(&d->w, g, 0);

	if (status == ORIEL_OK)
		memset(d->outbox, 0x5a, (size_t)d->w.ranks * DEMO_BLOCK);
	return status == ORIEL_OK ? op_barrier(d, g) : status;
}

static enum oriel_status op_signals(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	for (i = 1; i < d->w.ranks && status == ORIEL_OK; i++)
		status = oriel_dev_wait_signal_next(&d->w, g, (d->w.rank + i) % d->w.ranks,
						    DEMO_SIGNAL_DATA, 1, 0);
	return status;
}

static enum oriel_status op_host_signals(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	(void)g;
	for (i = 1; i < d->w.ranks && status == ORIEL_OK; i++)
		status = oriel_window_wait_signal_next(d->window, (d->w.rank + i) % d->w.ranks,
						       DEMO_SIGNAL_DATA, 1, 0);
	return status;
}

static enum oriel_status op_barrier_flat(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = oriel_dev_flush(&d->w, g, 0);

	/* The flat barrier alone does not guarantee that the puts are visible. */
	return status == ORIEL_OK ? oriel_dev_barrier_flat(&d->w, g, DEMO_SLOT_CASE, 0) : status;
}

static enum oriel_status op_barrier_split(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = oriel_dev_barrier_arrive(&d->w, g, DEMO_SLOT_CASE);
	struct timespec pause = {0, 100000};

	nanosleep(&pause, NULL);
	return status == ORIEL_OK ? oriel_dev_barrier_wait(&d->w, g, DEMO_SLOT_CASE, 0) : status;
}

/*
 * In step s of the round robin, the numbers of two partners add up to s modulo the ranks; no cycle
 * of waiting ranks can form.
 */
static uint32_t op_partner(const struct demo *d, uint32_t step)
{
	return (step + d->w.ranks - d->w.rank) % d->w.ranks;
}

static enum oriel_status op_barrier_pairs(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t step;

	for (step = 0; step < d->w.ranks && status == ORIEL_OK; step++)
		if (op_partner(d, step) != d->w.rank)
			status = oriel_dev_barrier_peer(&d->w, g, op_partner(d, step),
							DEMO_SLOT_CASE, 0);
	return status;
}

static enum oriel_status op_get(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	for (i = 1; i < d->w.ranks && status == ORIEL_OK; i++) {
		uint32_t source = (d->w.rank + i) % d->w.ranks;
		const struct demo_range *range = &d->incoming[source];
		struct oriel_dev_ticket done;

		status = oriel_dev_get(&d->w, g, source,
				       demo_outbox_at(d, d->w.rank) + range->offset,
				       demo_block(d->inbox[0], source) + range->offset,
				       range->length, &done);
		if (status == ORIEL_OK)
			status = oriel_dev_wait_local(&d->w, g, done, 0);
	}
	/* The outboxes change as soon as all ranks have passed the barrier. */
	return status == ORIEL_OK ? op_barrier(d, g) : status;
}

static enum oriel_status op_host_get(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t i;

	(void)g;
	for (i = 1; i < d->w.ranks && status == ORIEL_OK; i++) {
		uint32_t source = (d->w.rank + i) % d->w.ranks;
		const struct demo_range *range = &d->incoming[source];

		status = oriel_window_get(d->window, source,
					  demo_outbox_at(d, d->w.rank) + range->offset,
					  demo_block(d->inbox[0], source) + range->offset,
					  range->length);
	}
	return status == ORIEL_OK ? oriel_window_barrier(d->window, DEMO_SLOT_CASE, 0) : status;
}

static enum oriel_status op_send(struct demo *d, struct oriel_dev_group g, uint32_t peer)
{
	const struct demo_range *range = &d->outgoing[peer];

	return oriel_dev_send(&d->w, g, peer, 0, demo_block(d->outbox, peer) + range->offset,
			      range->length, 0);
}

/* The sender sent one message, this receives it in two parts. */
static enum oriel_status op_recv(struct demo *d, struct oriel_dev_group g, uint32_t peer)
{
	const struct demo_range *range = &d->incoming[peer];
	char *to = demo_block(d->inbox[0], peer) + range->offset;
	enum oriel_status status;

	status = oriel_dev_recv(&d->w, g, peer, 0, to, range->length / 3, 0);
	if (status != ORIEL_OK)
		return status;
	return oriel_dev_recv(&d->w, g, peer, 0, to + range->length / 3,
			      range->length - range->length / 3, 0);
}

/* A message exceeds the channel's capacity, so one of two partners sends first. */
static enum oriel_status op_send_recv(struct demo *d, struct oriel_dev_group g)
{
	enum oriel_status status = ORIEL_OK;
	uint32_t step, peer;

	for (step = 0; step < d->w.ranks && status == ORIEL_OK; step++) {
		peer = op_partner(d, step);
		if (peer == d->w.rank)
			continue;
		status = peer < d->w.rank ? op_send(d, g, peer) : op_recv(d, g, peer);
		if (status == ORIEL_OK)
			status = peer < d->w.rank ? op_recv(d, g, peer) : op_send(d, g, peer);
	}
	return status;
}

const struct demo_case demo_cases[] = {
	{"put", 1, 0, 1, op_put, op_barrier},
	{"put, registered memory", 1, 0, 1, op_put_local, op_barrier},
	{"put, wait_local", 1, 0, 1, op_put_wait_local, op_barrier},
	{"put, drain", 1, 0, 1, op_put, op_drain},
	{"put, flush", 1, 0, 1, op_put, op_flush},
	{"put, second buffer", 1, 1, 1, op_put, op_barrier},
	{"put, third buffer", 1, 2, 1, op_put, op_barrier},
	{"put_value", 1, 0, 8, op_put_values, op_barrier},
	{"get", 1, 0, 1, op_post_nothing, op_get},
	{"put_signal", 1, 0, 1, op_put_signal, op_signals},
	{"put_counter", 1, 0, 1, op_put_counter, op_barrier},
	{"put_signal_counter", 1, 0, 1, op_put_signal_counter, op_signals},
	{"barrier, late ranks", 1, 0, 1, op_put_delayed, op_barrier},
	{"barrier, arrive and wait", 1, 0, 1, op_put_delayed, op_barrier_split},
	{"barrier_flat after flush", 1, 0, 1, op_put_delayed, op_barrier_flat},
	{"barrier_peer", 1, 0, 1, op_put, op_barrier_pairs},
	{"send, recv", 1, 0, 1, op_post_nothing, op_send_recv},
	{"team of 3: put_signal", DEMO_TEAM, 0, 1, op_put_signal, op_signals},
	{"team of 3: put, barrier", DEMO_TEAM, 0, 1, op_put, op_barrier},
	{"team of 3: get", DEMO_TEAM, 0, 1, op_post_nothing, op_get},
	{"team of 3: send, recv", DEMO_TEAM, 0, 1, op_post_nothing, op_send_recv},
	{"host: put_signal", 1, 0, 1, op_host_put_signal, op_host_signals},
	{"host: get", 1, 0, 1, op_post_nothing, op_host_get},
};

const size_t demo_case_count = sizeof(demo_cases) / sizeof(demo_cases[0]);
