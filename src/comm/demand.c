/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects links at their first use. A thread that posts makes its queues, dials the peer and asks:
 *
 *     ask, with its queues  ->  the peer's watcher makes queues, connects them
 *                           <-  answer, with these
 *     connects its own
 *     ready                 ->  the peer's threads may post from now on
 *
 * Where two ranks ask each other at once the ask of the lower rank counts: the higher rank answers
 * it with the queues that it has made for its own.
 */
#include "comm/demand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/ask.h"
#include "comm/comm_nics.h"
#include "comm/demand_link.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/links.h"
#include "comm/paths.h"

#define DEMAND_PATIENCE_NS UINT64_C(3000000000) /* with an address of TCP */
#define DEMAND_REPORT_NS 1000000000u            /* for the report of a peer that exited */
#define DEMAND_ADDRESSES (ORI_HOSTS + 1)        /* and loopback */

/* The link of this rank to itself, for atomics of its NIC. */
static enum oriel_status demand_loop_locked(struct oriel_comm *comm)
{
	struct ori_rdma_link *link = comm->links[comm->rank];
	struct ori_rdma_qps qps;
	enum oriel_status status = ori_rdma_link_open(link, &qps);

	if (status == ORIEL_OK)
		status = ori_rdma_link_connect(link, ori_links_hca(comm, link), &qps);
	if (status == ORIEL_OK)
		ori_demand_begin_locked(comm, comm->rank);
	else
		ori_rdma_link_close(link);
	return status;
}

/* Clears @is_refused unless the address refuses at once. */
static enum oriel_status demand_dial_one(struct ori_ask *ask, const struct ori_address *address,
					 bool *is_refused)
{
	uint64_t until = ori_deadline(DEMAND_PATIENCE_NS);
	enum oriel_status status = ORIEL_AGAIN, may;

	if (!ori_net_dial(&ask->conn, address, ask->comm->demand->tls, NULL)) {
		*is_refused &= errno == ECONNREFUSED;
		return ORIEL_AGAIN;
	}
	while ((status = ori_net_step(&ask->conn)) == ORIEL_AGAIN && !ori_deadline_passed(until)) {
		may = ori_ask_poll(ask);
		if (may != ORIEL_OK)
			return may;
	}
	if (status == ORIEL_ERR_PEER && ask->conn.state == ORI_NET_CONNECTING)
		*is_refused &= errno == ECONNREFUSED;
	else
		*is_refused = false;
	ori_ask_doubt(ask, status);
	return status == ORIEL_OK ? status : ORIEL_AGAIN;
}

static enum oriel_status demand_dial_tcp(struct ori_ask *ask)
{
	const struct ori_host *a = &ask->comm->hosts[ask->comm->rank],
			      *b = &ask->comm->hosts[ask->peer];
	const struct ori_listen_address *to = &ask->comm->ranks[ask->peer].listen;
	struct ori_address addresses[DEMAND_ADDRESSES];
	enum oriel_status status = ORIEL_AGAIN;
	bool is_refused = true; /* each address refused */
	unsigned i, count;

	count = ori_endpoint_of_hosts(&to->hosts, (uint16_t)to->port, addresses);
	if (ori_hosts_share_network(a, b))
		addresses[count++] = (struct ori_address){.family = 4,
							  .port = (uint16_t)to->port,
							  .ip = {127, 0, 0, 1}};
	for (i = 0; i < count && status == ORIEL_AGAIN; i++) {
		status = demand_dial_one(ask, &addresses[i], &is_refused);
		if (status != ORIEL_OK)
			ori_net_close(&ask->conn);
	}
	if (status == ORIEL_AGAIN && count && is_refused)
		return ori_fail(ORIEL_ERR_PEER, "no process listens where rank %u did", ask->peer);
	return status;
}

/* Asks until the peer has answered, and keeps the connection then. */
static enum oriel_status demand_ask(struct ori_ask *ask, const struct ori_rdma_qps *qps,
				    struct demand_answer *answer)
{
	const struct ori_host *hosts = ask->comm->hosts;
	unsigned rank = ask->comm->rank, peer = ask->peer;
	const struct ori_listen_address *to = &ask->comm->ranks[peer].listen;
	bool is_local = ori_hosts_share_sockets(&hosts[rank], &hosts[peer]);
	struct demand_ask question = {.version = ORI_COMM_WIRE,
				      .from = rank,
				      .to = peer,
				      .qps = *qps};
	const struct ori_ask_frames frames = {DEMAND_ASK,       DEMAND_ANSWER, &question,
					      sizeof(question), answer,        sizeof(*answer)};
	enum oriel_status status;

	memcpy(question.name, to->name, sizeof(question.name));
	for (;;) {
		status = is_local ? ori_ask_dial(ask, to->name, 0) : demand_dial_tcp(ask);
		/* Bytes that were altered: without its ready the peer drops its end of the link. */
		if (status == ORIEL_OK)
			status = ori_ask_once(ask, &frames);
		if (status == ORIEL_OK)
			return status;
		ori_net_close(&ask->conn);
		if (status == ORIEL_AGAIN)
			status = ori_ask_may_retry(ask);
		if (status != ORIEL_OK)
			return status;
	}
}

/* The end of an ask: @status of it, and the answer. The peer's own ask may have come first. */
static enum oriel_status demand_end_locked(struct ori_ask *ask, enum oriel_status status,
					   const struct demand_answer *answer)
{
	struct oriel_comm *comm = ask->comm;
	struct demand_peer *p = &comm->demand->peers[ask->peer];

	if (status == ORIEL_OK && answer->status == ORIEL_AGAIN)
		status = ORIEL_AGAIN;
	else if (status == ORIEL_OK && answer->status != ORIEL_OK)
		status = ori_fail(ori_status_is_failure(answer->status)
					  ? (enum oriel_status)answer->status
					  : ORIEL_ERR_PROTOCOL,
				  "rank %u failed to connect to rank %u: %s", ask->peer, comm->rank,
				  oriel_status_text((enum oriel_status)answer->status));
	/* The watcher has taken the queues for the ask of the peer, which ends this one. */
	if (p->state != DEMAND_ASKING)
		return ORIEL_AGAIN;
	if (status == ORIEL_AGAIN)
		return status;
	/* Without its ready the peer does not use the link, which would fail without a cause. */
	if (status == ORIEL_OK && comm->are_links_sealed)
		status = ori_comm_check(comm);
	if (status == ORIEL_OK)
		status = ori_rdma_link_connect(comm->links[ask->peer],
					       ori_links_hca(comm, comm->links[ask->peer]),
					       &answer->qps);
	if (status == ORIEL_OK && ori_net_send(&ask->conn, DEMAND_READY, NULL, 0) != ORIEL_OK)
		status = ori_fail(ORIEL_ERR_PEER, "rank %u has closed its socket", ask->peer);
	if (status == ORIEL_OK)
		ori_demand_begin_locked(comm, ask->peer);
	else
		ori_demand_drop_locked(comm, ask->peer);
	return status;
}

static enum oriel_status demand_ask_locked(struct ori_ask *ask)
{
	struct oriel_comm *comm = ask->comm;
	struct demand_answer answer = {0};
	struct ori_rdma_qps qps;
	enum oriel_status status = ori_rdma_link_open(comm->links[ask->peer], &qps);

	if (status != ORIEL_OK)
		return status;
	ori_demand_set_locked(comm, ask->peer, DEMAND_ASKING);
	comm->demand->peers[ask->peer].asked = &qps;
	pthread_mutex_unlock(&comm->links_lock);
	status = demand_ask(ask, &qps, &answer);
	pthread_mutex_lock(&comm->links_lock);
	status = demand_end_locked(ask, status, &answer);
	/* The ask of the peer is on its way, and will be answered with these queues. */
	while (comm->demand->peers[ask->peer].asked == &qps) {
		enum oriel_status may = ori_ask_may_wait(ask);

		if (may != ORIEL_OK) {
			ori_demand_drop_locked(comm, ask->peer);
			return may;
		}
		ori_demand_wait_locked(comm);
	}
	return status;
}

/*
 * A failure of this rank breaks the job: a peer may wait for what could not be posted. The report
 * that a peer sent before it exited says more than that it exited, and may be on its way.
 */
static void demand_fail(struct ori_ask *ask, enum oriel_status status)
{
	const struct timespec pause = {0, ORI_ASK_TICK_MS * 1000000};
	uint64_t until = ori_deadline(DEMAND_REPORT_NS);

	while (status == ORIEL_ERR_PEER && ori_comm_is_well(ask->comm) &&
	       !ori_deadline_passed(until))
		nanosleep(&pause, NULL);
	if (!ori_comm_is_well(ask->comm))
		return;
	ori_log_rank(ORIEL_LOG_WARN, ask->comm->rank, "no link to rank %u: %s", ask->peer,
		     oriel_last_error());
	if (status == ORIEL_ERR_PEER)
		ori_comm_break(ask->comm, status, ORIEL_DEV_LOST, ask->peer, 0);
	else
		ori_comm_break_all(ask->comm, status, ORIEL_DEV_LINK, ask->peer, 0);
}

/*
 * Asks the peer, or, without @is_asking, waits until it has asked; not for long, since a peer that
 * exited is found by asking.
 */
static void demand_connect(struct oriel_comm *comm, unsigned peer, bool is_asking)
{
	struct ori_ask ask;
	uint64_t ask_at = ori_deadline(DEMAND_REPORT_NS);
	enum oriel_status status = ORIEL_OK;

	ori_ask_begin(&ask, comm, peer, "connects to it");
	pthread_mutex_lock(&comm->links_lock);
	while (!ori_rdma_link_is_ready(comm->links[peer])) {
		status = ori_ask_may_wait(&ask);
		if (status == ORIEL_OK && peer == comm->rank)
			status = demand_loop_locked(comm);
		else if (status == ORIEL_OK && (is_asking || ori_deadline_passed(ask_at)) &&
			 comm->demand->peers[peer].state == DEMAND_IDLE)
			status = demand_ask_locked(&ask);
		else if (status == ORIEL_OK)
			ori_demand_wait_locked(comm);
		if (status != ORIEL_OK && status != ORIEL_AGAIN)
			break;
		status = ORIEL_OK;
	}
	pthread_mutex_unlock(&comm->links_lock);
	ori_ask_end(&ask);
	if (status != ORIEL_OK && ori_comm_is_well(comm))
		demand_fail(&ask, status);
}

void ori_demand_connect(void *context, unsigned peer)
{
	demand_connect(context, peer, true);
}

/*
 * The number of a domain is that of its first rank among the first ranks. @of has room for all of
 * them; returns their number.
 */
static unsigned demand_leaders(const struct oriel_comm *comm, unsigned *of)
{
	unsigned rank, i, count = 0;

	for (rank = 0; rank < comm->size; rank++) {
		for (i = 0; i < count; i++)
			if (ori_hosts_are_mapped(comm->hosts, of[i], rank))
				break;
		if (i == count)
			of[count++] = rank;
	}
	return count;
}

enum oriel_status ori_demand_join(struct oriel_comm *comm)
{
	unsigned *leaders, count, own, bit;

	if (comm->host_paths.domain[0] != comm->rank)
		return ORIEL_OK;
	leaders = calloc(comm->size, sizeof(*leaders));
	if (!leaders)
		return ori_fail_nomem(comm->size * sizeof(*leaders), "the domains of %u ranks",
				      comm->size);
	count = demand_leaders(comm, leaders);
	for (own = 0; leaders[own] != comm->rank; own++)
		;
	/* The lower rank of each pair asks. */
	for (bit = 1; bit < count; bit *= 2)
		if (!(own & bit) && (own | bit) < count)
			ori_demand_connect(comm, leaders[own | bit]);
	for (bit = 1; bit < count; bit *= 2)
		if (own & bit)
			demand_connect(comm, leaders[own ^ bit], false);
	free(leaders);
	return ori_comm_check(comm);
}
