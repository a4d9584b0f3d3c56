/* SPDX-License-Identifier: Apache-2.0 */
/* Answers peers that connect a link on demand. The watcher calls it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/comm_nics.h"
#include "comm/demand.h"
#include "comm/demand_link.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/links.h"

static bool demand_parse(const struct oriel_comm *comm, struct ori_net_conn *conn,
			 struct demand_ask *ask)
{
	struct ori_frame frame;

	return ori_net_take(conn, &frame, ask, sizeof(*ask)) == ORIEL_OK &&
	       frame.type == DEMAND_ASK && frame.length == sizeof(*ask) &&
	       ask->version == ORI_COMM_WIRE && ask->to == comm->rank && ask->from < comm->size &&
	       ask->from != comm->rank && comm->links[ask->from] &&
	       memcmp(ask->name, comm->demand->address.name, sizeof(ask->name)) == 0;
}

static void demand_unserve_locked(struct oriel_comm *comm, unsigned peer)
{
	struct demand_served **at = &comm->demand->served, *served;

	while ((served = *at)) {
		if (served->peer != peer) {
			at = &served->next;
			continue;
		}
		*at = served->next;
		ori_demand_drop_locked(comm, peer);
		ori_demand_free(served);
	}
}

/* The status for the peer, and the queues of this end, which are connected if it is ORIEL_OK. */
static enum oriel_status demand_answer_locked(struct oriel_comm *comm, const struct demand_ask *ask,
					      struct ori_rdma_qps *qps)
{
	struct ori_rdma_link *link = comm->links[ask->from];
	struct demand_peer *p = &comm->demand->peers[ask->from];
	enum oriel_status status = ORIEL_OK;

	if (p->is_altered)
		return ori_fail(ORIEL_ERR_AUTH, "the connection of rank %u to rank %u was altered",
				ask->from, comm->rank);
	/* The ready of this rank's own ask is on its way, or this rank's ask counts. */
	if (ori_rdma_link_is_ready(link) || (p->state == DEMAND_ASKING && comm->rank < ask->from))
		return ORIEL_AGAIN;
	/* The peer has lost the connection over which it asked before. */
	if (p->state == DEMAND_ANSWERED)
		demand_unserve_locked(comm, ask->from);
	if (p->state == DEMAND_ASKING)
		*qps = *p->asked;
	else
		status = ori_rdma_link_open(link, qps);
	if (status == ORIEL_OK)
		status = ori_rdma_link_connect(link, ori_links_hca(comm, link), &ask->qps);
	if (status == ORIEL_OK)
		ori_demand_set_locked(comm, ask->from, DEMAND_ANSWERED);
	else
		ori_demand_drop_locked(comm, ask->from);
	return status;
}

/* Takes over the connection of @arrived, if the peer is to answer. */
static void demand_serve_locked(struct oriel_comm *comm, const struct demand_ask *ask,
				struct ori_net_pending *arrived)
{
	struct ori_demand *d = comm->demand;
	struct demand_served *served = calloc(1, sizeof(*served));
	struct demand_answer answer = {.status = ORIEL_ERR_NOMEM};

	if (served)
		answer.status = demand_answer_locked(comm, ask, &answer.qps);
	if (ori_status_is_failure(answer.status))
		ori_log_rank(ORIEL_LOG_WARN, comm->rank, "no link to rank %u: %s", ask->from,
			     oriel_last_error());
	if (answer.status != ORIEL_OK) {
		(void)ori_net_send_last(&arrived->conn, DEMAND_ANSWER, &answer, sizeof(answer));
		free(served);
		return;
	}
	ori_net_move(&served->conn, &arrived->conn);
	served->peer = ask->from;
	served->next = d->served;
	d->served = served;
	/* Its own ask ends if this fails, and it asks again. */
	if (ori_demand_watch(d, served->conn.fd) != ORIEL_OK ||
	    ori_net_send(&served->conn, DEMAND_ANSWER, &answer, sizeof(answer)) != ORIEL_OK)
		demand_unserve_locked(comm, ask->from);
}

static void demand_admit(struct oriel_comm *comm, struct ori_net_listener *listener)
{
	struct ori_net_pending *arrived;
	struct demand_ask ask;

	ori_net_listener_serve(listener);
	while ((arrived = ori_net_listener_next(listener))) {
		if (demand_parse(comm, &arrived->conn, &ask)) {
			pthread_mutex_lock(&comm->links_lock);
			/*
			 * Without an answer the peer asks again, until the failure has reached it,
			 * unless the failure is that of this link.
			 */
			if (ori_comm_is_well(comm) || comm->demand->peers[ask.from].is_altered)
				demand_serve_locked(comm, &ask, arrived);
			pthread_mutex_unlock(&comm->links_lock);
		} else {
			ori_net_listener_warn(listener, arrived->from,
					      "it is no rank of this job that connects a link");
		}
		ori_net_pending_free(arrived);
	}
}

/*
 * Bytes were altered on the way behind the ask. If they were those of the ready, the peer uses the
 * link from now on and does not ask again, so that this end cannot drop the link and go on.
 */
static void demand_doubt_locked(struct oriel_comm *comm, const struct demand_served *served)
{
	ori_log_rank(ORIEL_LOG_WARN, comm->rank,
		     "no link to rank %u: the connection of rank %u to rank %u %s", served->peer,
		     served->peer, comm->rank, ori_net_doubt(&served->conn));
	comm->demand->peers[served->peer].is_altered = true;
	ori_comm_break_all(comm, ORIEL_ERR_AUTH, ORIEL_DEV_LINK, served->peer, 0);
}

/* Takes what served peers have sent. */
static void demand_finish_locked(struct oriel_comm *comm)
{
	struct demand_served **at = &comm->demand->served, *served;
	struct ori_frame frame;
	enum oriel_status status;

	while ((served = *at)) {
		status = ori_net_take(&served->conn, &frame, NULL, 0);
		if (status == ORIEL_AGAIN) {
			at = &served->next;
			continue;
		}
		*at = served->next;
		/* A peer that exited is found by others; one that lost the connection asks again.
		 */
		if (status == ORIEL_OK && frame.type == DEMAND_READY)
			ori_demand_begin_locked(comm, served->peer);
		else
			ori_demand_drop_locked(comm, served->peer);
		if (status == ORIEL_ERR_AUTH)
			demand_doubt_locked(comm, served);
		ori_demand_free(served);
	}
}

bool ori_demand_serve(struct oriel_comm *comm)
{
	struct ori_demand *d = comm->demand;
	struct ori_error before;

	if (!d)
		return false;
	ori_error_save(&before);
	demand_admit(comm, &d->local);
	if (d->tcp.fd >= 0)
		demand_admit(comm, &d->tcp);
	if (d->served) {
		pthread_mutex_lock(&comm->links_lock);
		demand_finish_locked(comm);
		pthread_mutex_unlock(&comm->links_lock);
	}
	ori_error_restore(&before);
	return d->served != NULL;
}
