/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An all-to-all of any lengths in host memory, by the thread of the communicator. The protocol, its
 * signals and its epochs are those of oriel_dev_exchange(), which waits in the calling thread, so
 * executions of both forms may follow each other. alltoall.c calls it.
 */
#include <stdlib.h>
#include <string.h>

#include <oriel/dev/exchange.h>

#include "base/error.h"
#include "coll/gather_job.h"

enum exchange_phase { EXCHANGE_NOTES, EXCHANGE_SEND, EXCHANGE_REST, EXCHANGE_DRAIN };

struct exchange_run {
	struct ori_gather_job job;
	const char *send;
	uint64_t epoch;
	enum oriel_status sent; /* ORIEL_ERR_MISMATCH: lengths of a pair differ */

	/* The position, from which the next step continues. */
	enum exchange_phase phase;
	uint32_t index; /* of the next peer */

	struct oriel_dev_alltoallv layout[]; /* [ranks] */
};

static enum oriel_status exchange_notes(struct exchange_run *r)
{
	struct ori_gather *g = r->job.g;
	const struct oriel_dev_alltoallv *own = &r->layout[g->device.rank];
	enum oriel_status status;

	r->epoch = oriel_dev_load_relaxed(ori_dev_gather_count(&g->device, &g->notes, 0)) + 1;
	status = ori_dev_exchange_send_notes(&g->device, oriel_dev_thread(), &g->notes, 0, r->epoch,
					     r->layout);
	if (status != ORIEL_OK)
		return status;
	ori_dev_mapped_copy(oriel_dev_thread(), g->result + own->recv_displacement,
			    r->send + own->send_displacement, own->send_length);
	r->job.has_moved = true;
	return ORIEL_OK;
}

/* The note of a peer is its credit. */
static enum oriel_status exchange_send(struct exchange_run *r)
{
	struct ori_gather *g = r->job.g;
	enum oriel_status status;
	uint32_t peer;

	for (; r->index < g->device.ranks; r->index++) {
		peer = ori_dev_rank_after(&g->device, r->index);
		status = ori_gather_take(&r->job, peer, g->notes.id, 1);
		if (status != ORIEL_OK)
			return status;
		status = ori_dev_exchange_send(&g->device, oriel_dev_thread(), &g->notes, 0, 1,
					       r->epoch, peer, r->send, &r->layout[peer]);
		if (status == ORIEL_ERR_MISMATCH)
			r->sent = status;
		else if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

static enum oriel_status exchange_rest(struct exchange_run *r)
{
	struct ori_gather *g = r->job.g;
	struct oriel_dev_note note;
	enum oriel_status status;
	uint32_t peer;

	for (; r->index < g->device.ranks; r->index++) {
		peer = ori_dev_rank_after(&g->device, g->device.ranks - r->index);
		note = ori_dev_exchange_note(&g->device, &g->notes, 0, r->epoch, peer);
		if (!note.send_length || !ori_dev_exchange_lengths_match(&note, &r->layout[peer]))
			continue;
		status = ori_gather_take(&r->job, peer, g->notes.id + 1, 1);
		if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

static enum oriel_status exchange_step(struct exchange_run *r)
{
	switch (r->phase) {
	case EXCHANGE_NOTES:
		return exchange_notes(r);
	case EXCHANGE_SEND:
		return exchange_send(r);
	case EXCHANGE_REST:
		return exchange_rest(r);
	case EXCHANGE_DRAIN:
		break;
	}
	return ori_gather_drain(&r->job);
}

static enum oriel_status exchange_go_on(struct ori_gather_job *job)
{
	struct exchange_run *r = (struct exchange_run *)job;
	struct ori_gather *g = job->g;
	enum oriel_status status = exchange_step(r);

	while (status == ORIEL_OK && r->phase != EXCHANGE_DRAIN) {
		r->phase++;
		r->index = 1;
		status = exchange_step(r);
	}
	if (status != ORIEL_AGAIN)
		oriel_dev_store_relaxed(ori_dev_gather_count(&g->device, &g->notes, 0), r->epoch);
	return status == ORIEL_OK ? r->sent : status;
}

enum oriel_status ori_exchange_start(struct ori_gather *g, const void *send,
				     const struct oriel_dev_alltoallv *layout)
{
	size_t length = g->device.ranks * sizeof(*layout);
	struct exchange_run *r;
	enum oriel_status status = ori_dev_exchange_check(&g->device, &g->notes, layout);

	if (status != ORIEL_OK)
		return ori_gather_end(g, status);
	r = calloc(1, sizeof(*r) + length);
	if (!r)
		return ori_fail_nomem(sizeof(*r) + length, "an execution of an all-to-all");
	r->job = (struct ori_gather_job){.g = g, .go_on = exchange_go_on};
	r->send = send;
	memcpy(r->layout, layout, length);
	status = ori_gather_post(&r->job);
	if (status != ORIEL_OK)
		free(r);
	return status;
}
