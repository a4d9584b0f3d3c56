/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects links: all that are left in one collective, or by oriel_comm_connect() one by
 * one. For that two ranks send each other their queues, then that they are ready.
 */
#include "comm/connect.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/comm_nics.h"
#include "comm/demand.h"
#include "comm/health.h"
#include "comm/links.h"
#include "comm/paths.h"
#include "rdma/rdma.h"

#define CONNECT_TAG 0x6b6e696cu /* "link" */

/*
 * The message of one rank to another: its queues, then once more without queues. Goes
 * over the wire as it is.
 */
struct connect_word {
	uint32_t version; /* ORI_COMM_WIRE */
	int32_t status;   /* enum oriel_status */
	struct ori_rdma_qps qps;
};

static_assert(sizeof(struct connect_word) == 32, "struct connect_word goes over the wire");

/*
 * The link to @peer, unless it is connected: of those that paths need, or, @for_atomics, of the
 * others. NULL: there is none.
 */
static struct ori_rdma_link *connect_missing(const struct oriel_comm *comm, bool for_atomics,
					     unsigned peer)
{
	unsigned row = for_atomics && comm->rails > 1;
	struct ori_rdma_link *link = comm->links[row * comm->size + peer];

	if (!link || ori_rdma_link_is_ready(link))
		return NULL;
	return row || ori_comm_needs_link(comm, peer) != for_atomics ? link : NULL;
}

/* Opens this rank's queues of the links that are not connected. */
static enum oriel_status connect_open_qps(struct oriel_comm *comm, bool for_atomics,
					  struct ori_rdma_qps *qps)
{
	enum oriel_status status = ORIEL_OK;
	struct ori_rdma_link *link;
	unsigned peer;

	pthread_mutex_lock(&comm->links_lock);
	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++) {
		link = connect_missing(comm, for_atomics, peer);
		if (link)
			status = ori_rdma_link_open(link, &qps[peer]);
	}
	pthread_mutex_unlock(&comm->links_lock);
	return status;
}

/* Row @peer of @all has the queues of that rank's links to all ranks. */
static enum oriel_status connect_join_qps(struct oriel_comm *comm, bool for_atomics,
					  const struct ori_rdma_qps *all)
{
	enum oriel_status status = ORIEL_OK;
	struct ori_rdma_link *link;
	unsigned peer;

	pthread_mutex_lock(&comm->links_lock);
	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++) {
		link = connect_missing(comm, for_atomics, peer);
		if (link)
			status =
				ori_rdma_link_connect(link, ori_links_hca(comm, link),
						      &all[(size_t)peer * comm->size + comm->rank]);
	}
	pthread_mutex_unlock(&comm->links_lock);
	return status;
}

/*
 * Where links are made on demand other threads make some meanwhile, and a broken @comm has given up
 * all of them.
 */
static void connect_begin_each(struct oriel_comm *comm, bool for_atomics, bool is_connected)
{
	struct ori_rdma_link *link;
	unsigned peer;

	pthread_mutex_lock(&comm->links_lock);
	for (peer = 0; peer < comm->size; peer++) {
		link = connect_missing(comm, for_atomics, peer);
		if (link && is_connected && !comm->are_links_sealed)
			ori_links_begin(comm, link);
		else if (link)
			ori_rdma_link_close(link);
	}
	pthread_mutex_unlock(&comm->links_lock);
}

static enum oriel_status connect_exchange_qps(struct oriel_comm *comm, enum ori_call call,
					      bool for_atomics, struct ori_rdma_qps *mine,
					      struct ori_rdma_qps *all)
{
	size_t row = comm->size * sizeof(*mine);
	enum oriel_status status = ORIEL_OK;

	if (!mine || !all)
		status = ori_fail_nomem((comm->size + 1u) * row, "links to %u ranks", comm->size);
	else
		status = connect_open_qps(comm, for_atomics, mine);
	status = ori_comm_agree(comm, call, status);
	if (status == ORIEL_OK)
		status = ori_comm_gather(comm, call, mine, all, row);
	if (status == ORIEL_OK)
		status = ori_comm_agree(comm, call, connect_join_qps(comm, for_atomics, all));
	return status;
}

/* @is_done: a flag of @comm, the same on all ranks, as has_links is. */
static enum oriel_status connect_each_missing(struct oriel_comm *comm, enum ori_call call,
					      bool for_atomics, bool *is_done)
{
	struct ori_rdma_qps *mine, *all;
	enum oriel_status status;

	if (*is_done || !comm->has_links)
		return ORIEL_OK;
	if (comm->is_on_demand && !(for_atomics && comm->rails > 1))
		return ORIEL_OK;
	mine = calloc(comm->size, sizeof(*mine));
	all = calloc((size_t)comm->size * comm->size, sizeof(*all));
	status = connect_exchange_qps(comm, call, for_atomics, mine, all);
	connect_begin_each(comm, for_atomics, status == ORIEL_OK);
	*is_done = status == ORIEL_OK;
	free(all);
	free(mine);
	return status;
}

enum oriel_status ori_links_connect_all(struct oriel_comm *comm, enum ori_call call)
{
	return connect_each_missing(comm, call, false, &comm->is_linked_whole);
}

enum oriel_status ori_links_connect_atomics(struct oriel_comm *comm, enum ori_call call)
{
	return connect_each_missing(comm, call, true, &comm->is_linked_for_atomics);
}

struct connect_call {
	struct oriel_comm *comm;
	bool *is_wanted; /* [size], is the link to that peer to be made? */
	uint64_t deadline;
	enum oriel_status status; /* the first failure of this rank */
	unsigned failed;          /* the peer that it failed with */
	char text[192];
};

/* Records the first failure, with this thread's last error; it is with @peer. */
static void connect_fail(struct connect_call *c, unsigned peer, enum oriel_status status)
{
	if (c->status != ORIEL_OK)
		return;
	c->status = status;
	c->failed = peer;
	snprintf(c->text, sizeof(c->text), "%s", oriel_last_error());
	ori_comm_break_all(c->comm, status, ORIEL_DEV_LINK, peer, 0);
}

/*
 * A rank that breaks the communicator ends the call of all. The rank that broke it stays
 * out of the interrupt, since it has more to report.
 */
static void connect_enter(const struct connect_call *c)
{
	atomic_store(&c->comm->is_in_bootstrap, c->status == ORIEL_OK);
}

static void connect_leave(const struct connect_call *c)
{
	atomic_store(&c->comm->is_in_bootstrap, false);
}

static uint64_t connect_left(const struct connect_call *c)
{
	uint64_t now = ori_clock_ns();

	if (c->deadline == ORIEL_TIMEOUT_INFINITE)
		return ORIEL_TIMEOUT_INFINITE;
	return now < c->deadline ? c->deadline - now : 1;
}

/* Sends @peer the status of this rank, a failure too: the peer waits for it. */
static void connect_send(struct connect_call *c, unsigned peer, const struct ori_rdma_qps *qps)
{
	const struct oriel_bootstrap *b = &c->comm->bootstrap;
	struct connect_word word = {ORI_COMM_WIRE, c->status, *qps};
	enum oriel_status status;

	connect_enter(c);
	status = b->ops->send(b->context, peer, CONNECT_TAG, &word, sizeof(word), connect_left(c));
	connect_leave(c);
	if (status != ORIEL_OK)
		connect_fail(c, peer, status);
}

static enum oriel_status connect_check(const struct connect_word *word, unsigned peer)
{
	if (word->version != ORI_COMM_WIRE)
		return ori_fail(ORIEL_ERR_VERSION, "it speaks version %u, not %u", word->version,
				ORI_COMM_WIRE);
	if (word->status == ORIEL_OK)
		return ORIEL_OK;
	if (!ori_status_is_failure(word->status))
		return ori_fail(ORIEL_ERR_PROTOCOL, "it reports status %d, which is no failure",
				(int)word->status);
	return ori_fail((enum oriel_status)word->status, "rank %u failed: %s", peer,
			oriel_status_text((enum oriel_status)word->status));
}

static void connect_receive(struct connect_call *c, unsigned peer, struct ori_rdma_qps *qps)
{
	const struct oriel_bootstrap *b = &c->comm->bootstrap;
	struct connect_word word;
	enum oriel_status status;

	connect_enter(c);
	status = b->ops->recv(b->context, peer, CONNECT_TAG, &word, sizeof(word), connect_left(c));
	connect_leave(c);
	if (status == ORIEL_OK)
		status = connect_check(&word, peer);
	if (status == ORIEL_OK)
		*qps = word.qps;
	else
		connect_fail(c, peer, status);
}

static void connect_open(struct connect_call *c, unsigned peer)
{
	struct ori_rdma_qps qps = {0};
	enum oriel_status status;

	if (c->status == ORIEL_OK) {
		status = ori_rdma_link_open(c->comm->links[peer], &qps);
		if (status != ORIEL_OK)
			connect_fail(c, peer, status);
	}
	connect_send(c, peer, &qps);
}

static void connect_join(struct connect_call *c, unsigned peer)
{
	struct ori_rdma_qps qps;
	enum oriel_status status;

	connect_receive(c, peer, &qps);
	if (c->status != ORIEL_OK)
		return;
	status = ori_rdma_link_connect(c->comm->links[peer],
				       ori_links_hca(c->comm, c->comm->links[peer]), &qps);
	if (status != ORIEL_OK)
		connect_fail(c, peer, status);
}

static void connect_greet(struct connect_call *c, unsigned peer)
{
	struct ori_rdma_qps none = {0};

	connect_send(c, peer, &none);
}

/*
 * A queue that is not connected drops requests, so that this rank posts only once the
 * peer is ready.
 */
static void connect_begin(struct connect_call *c, unsigned peer)
{
	struct ori_rdma_qps none;

	connect_receive(c, peer, &none);
	if (c->status == ORIEL_OK)
		ori_links_begin(c->comm, c->comm->links[peer]);
	else
		ori_rdma_link_close(c->comm->links[peer]);
}

static void connect_each(struct connect_call *c,
			 void (*step)(struct connect_call *c, unsigned peer))
{
	unsigned peer;

	for (peer = 0; peer < c->comm->size; peer++)
		if (c->is_wanted[peer])
			step(c, peer);
}

/*
 * Every rank sends all its messages before it receives, so that lists in any order do not
 * wait for each other in a circle. A rank that failed sends and receives as many messages
 * as the others: none is left in the bootstrap for a later communicator.
 */
static enum oriel_status connect_all(struct connect_call *c)
{
	connect_each(c, connect_open);
	connect_each(c, connect_join);
	connect_each(c, connect_greet);
	connect_each(c, connect_begin);
	if (c->status == ORIEL_OK)
		return ORIEL_OK;
	return ori_fail(c->status, "oriel_comm_connect: rank %u with rank %u: %s", c->comm->rank,
			c->failed, c->text);
}

static enum oriel_status connect_check_peers(const struct oriel_comm *comm, const unsigned *peers,
					     unsigned count)
{
	unsigned i;

	if (count && !peers)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_comm_connect: %u peers at NULL", count);
	for (i = 0; i < count; i++)
		if (peers[i] >= comm->size)
			return ori_fail(ORIEL_ERR_RANGE, "oriel_comm_connect: rank %u of %u",
					peers[i], comm->size);
	return ori_comm_check(comm);
}

/* The other end need not take part, and posts of other threads may connect the same links. */
static enum oriel_status connect_on_demand(struct oriel_comm *comm, const unsigned *peers,
					   unsigned count)
{
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	for (i = 0; i < count && status == ORIEL_OK; i++) {
		if (ori_links_is_connected(comm, peers[i]))
			continue;
		ori_demand_connect(comm, peers[i]);
		status = ori_comm_check(comm);
		if (status != ORIEL_OK)
			return ori_fail(status, "oriel_comm_connect: rank %u with rank %u: %s",
					comm->rank, peers[i], oriel_last_error());
	}
	return status;
}

enum oriel_status oriel_comm_connect(struct oriel_comm *comm, const unsigned *peers, unsigned count)
{
	struct connect_call c = {.comm = comm};
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	unsigned i;

	if (status == ORIEL_OK)
		status = connect_check_peers(comm, peers, count);
	if (status != ORIEL_OK)
		return status;
	if (comm->is_on_demand)
		return connect_on_demand(comm, peers, count);
	c.is_wanted = ori_comm_scratch(comm, sizeof(*c.is_wanted));
	c.deadline = ori_deadline(comm->timeout_ns);
	/* Both ends come to the same answer: a link is ready at both or at none. */
	for (i = 0; i < count; i++)
		c.is_wanted[peers[i]] = !ori_links_is_connected(comm, peers[i]);
	return connect_all(&c);
}
