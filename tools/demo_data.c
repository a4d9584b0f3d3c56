/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds of the cases that transfer bytes: every rank sends to all others at once. demo.c calls
 * demo_verify_data().
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

static enum oriel_status data_act(struct demo *d, const struct demo_case *c,
				  struct oriel_dev_group g)
{
	enum oriel_status status;
	enum oriel_status posted = ORIEL_OK;
	uint32_t i;

	for (i = 1; i < d->w.ranks && posted == ORIEL_OK; i++) {
		uint32_t peer = (d->w.rank + i) % d->w.ranks;
		const struct demo_range *range = &d->outgoing[peer];
		struct demo_transfer transfer = {
			peer,
			oriel_at(c->buffer, (uint64_t)d->w.rank * DEMO_BLOCK + range->offset),
			demo_block(d->outbox, peer) + range->offset,
			range->length,
		};

		posted = c->post(d, g, &transfer);
	}
	status = posted != ORIEL_OK ? posted : c->wait(d, g);
	/* The next round overwrites the outboxes. */
	return status == ORIEL_OK ? oriel_dev_drain(&d->w, g, 0) : status;
}

struct data_member {
	struct demo *d;
	const struct demo_case *c;
	struct oriel_dev_group group;
	enum oriel_status status;
};

static void *data_member_run(void *argument)
{
	struct data_member *member = argument;

	member->status = data_act(member->d, member->c, member->group);
	return NULL;
}

/* If a thread is missing the others of its team would wait for ever. */
static void data_thread_start(pthread_t *thread, struct data_member *member)
{
	if (pthread_create(thread, NULL, data_member_run, member) != 0) {
		oriel_comm_abort(member->d->comm, "the demo cannot start a thread");
		exit(1);
	}
}

static enum oriel_status data_act_together(struct demo *d, const struct demo_case *c)
{
	struct data_member members[DEMO_TEAM];
	pthread_t threads[DEMO_TEAM];
	struct oriel_team team;
	enum oriel_status status;
	unsigned i;

	status = oriel_team_open(&team, c->threads, true);
	if (status != ORIEL_OK)
		return status;
	for (i = 0; i < c->threads; i++) {
		members[i] = (struct data_member){d, c, oriel_dev_team(&team, i), ORIEL_OK};
		data_thread_start(&threads[i], &members[i]);
	}
	for (i = 0; i < c->threads; i++)
		pthread_join(threads[i], NULL);
	return members[0].status;
}

/*
 * Reset the target buffers and fill the sources; the barrier keeps every rank from sending before
 * all ranks have.
 */
static enum oriel_status data_prepare(struct demo *d, const struct demo_case *c,
				      struct demo_results *r)
{
	unsigned peer;

	memset(d->inbox[c->buffer], DEMO_FILL, (size_t)d->w.ranks * DEMO_BLOCK);
	for (peer = 0; peer < d->w.ranks; peer++) {
		char *out = demo_block(d->outbox, peer);

		if (peer == d->w.rank)
			continue;
		d->outgoing[peer] = demo_image(r, d->w.rank, peer, c->unit, out);
		demo_results_sent(r, peer, out, DEMO_BLOCK);
	}
	return oriel_dev_barrier(&d->w, oriel_dev_thread(), DEMO_SLOT_ROUND, 0);
}

static enum oriel_status data_round(struct demo *d, const struct demo_case *c,
				    struct demo_results *r, char *expected)
{
	enum oriel_status status;
	unsigned peer;

	for (peer = 0; peer < d->w.ranks; peer++)
		d->incoming[peer] = demo_image(r, peer, d->w.rank, c->unit, NULL);
	status = data_prepare(d, c, r);
	if (status == ORIEL_OK)
		status = c->threads > 1 ? data_act_together(d, c)
					: data_act(d, c, oriel_dev_thread());
	if (status != ORIEL_OK)
		return status;
	for (peer = 0; peer < d->w.ranks; peer++) {
		if (peer == d->w.rank)
			continue;
		demo_image(r, peer, d->w.rank, c->unit, expected);
		demo_results_received(r, peer, expected, demo_block(d->inbox[c->buffer], peer),
				      DEMO_BLOCK);
		r->record.transfers++;
		r->record.bytes += d->incoming[peer].length;
	}
	return ORIEL_OK;
}

enum oriel_status demo_verify_data(struct demo *d)
{
	char *expected = malloc(DEMO_BLOCK);
	enum oriel_status status;
	struct demo_results r;
	size_t i;

	status = oriel_comm_agree(d->comm, expected ? ORIEL_OK : ORIEL_ERR_NOMEM);
	for (i = 0; i < demo_case_count && status == ORIEL_OK; i++) {
		demo_results_open(&r, d, demo_cases[i].name);
		for (; r.round < DEMO_ROUNDS && status == ORIEL_OK; r.round++)
			status = data_round(d, &demo_cases[i], &r, expected);
		status = demo_results_close(&r, status);
	}
	free(expected);
	return status;
}
