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
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/late.h"
#include "base/log.h"
#include "comm/comm_nics.h"
#include "comm/demand_link.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/links.h"
#include "comm/paths.h"

#define DEMAND_PATIENCE_NS UINT64_C(3000000000) /* with an address of TCP */
#define DEMAND_REPORT_NS 1000000000u            /* for the report of a peer that exited */
#define DEMAND_PAUSE_NS 10000000u               /* before a rank asks again */
#define DEMAND_ADDRESSES (ORI_HOSTS + 1)        /* and loopback */

/* The link of this rank to itself, for atomics of its NIC. */
static enum oriel_status demand_loop_locked(struct oriel_comm *comm)
{
	struct ori_rdma_link *link = comm->links[comm->rank];
	struct ori_rdma_qps qps;
	enum oriel_status status = ori_rdma_link_open(link, &qps);

	if (status == ORIEL_OK)
		status = ori_rdma_link_connect(link, ori_links_hca(comm, comm->rank), &qps);
	if (status == ORIEL_OK)
		ori_demand_begin_locked(comm, comm->rank);
	else
		ori_rdma_link_close(link);
	return status;
}

/* A thread that asks. */
struct demand_call {
	struct oriel_comm *comm;
	unsigned peer;
	uint64_t limit_ns; /* see demand_limit() */
	uint64_t deadline;
	struct ori_late late;
	struct ori_net_conn conn;
	bool is_refused;   /* each address of the last round refused */
	const char *doubt; /* of the last connection, or NULL; it is in the log */
};

/* ORIEL_OK: try on. Ends when the link is made by the ask of the peer, too. */
static enum oriel_status demand_may_wait(struct demand_call *c)
{
	if (!ori_comm_is_well(c->comm))
		return ori_comm_check(c->comm);
	if (ori_deadline_passed(c->deadline))
		return ori_fail(ORIEL_ERR_TIMEOUT,
				"rank %u did not answer rank %u, which connects to it, within %g "
				"s: half of ORIEL_TIMEOUT, or ORIEL_HEARTBEAT%s%s",
				c->peer, c->comm->rank, (double)c->limit_ns / 1e9,
				c->doubt ? "; the process there, or the connection, " : "",
				c->doubt ? c->doubt : "");
	if (ori_late_is_due(&c->late))
		ori_late_warn(&c->late, c->limit_ns,
			      "rank %u does not answer rank %u, which connects to it", c->peer,
			      c->comm->rank);
	return ORIEL_OK;
}

/* Waits until the connection has work, but not for long. */
static enum oriel_status demand_poll(struct demand_call *c)
{
	struct pollfd polled = {.fd = c->conn.fd, .events = ori_net_events(&c->conn)};

	if (poll(&polled, 1, DEMAND_TICK_MS) < 0 && errno != EINTR)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "poll");
	return demand_may_wait(c);
}

/* ORIEL_ERR_PEER: the rank exited. ORIEL_AGAIN: not yet. */
static enum oriel_status demand_dial_local(struct demand_call *c)
{
	const struct ori_listen_address *to = &c->comm->ranks[c->peer].listen;
	uint64_t until = ori_deadline(DEMAND_TICK_MS * UINT64_C(1000000));
	struct ori_error before;
	enum oriel_status status;
	int fd;

	ori_error_save(&before);
	status = ori_fdsock_connect(to->name, c->comm->hosts[c->peer].uid, 0, until, &fd);
	if (status == ORIEL_ERR_TIMEOUT)
		status = ORIEL_AGAIN;
	if (status == ORIEL_OK)
		ori_net_open(&c->conn, fd, NULL);
	if (status == ORIEL_OK || status == ORIEL_AGAIN)
		ori_error_restore(&before);
	return status;
}

/* The connection ends with @status, and the ask is made again: a line for each new reason. */
static void demand_doubt(struct demand_call *c, enum oriel_status status)
{
	const char *doubt = "has sent malformed bytes";

	if (status == ORIEL_ERR_AUTH)
		doubt = ori_net_doubt(&c->conn);
	else if (status != ORIEL_ERR_PROTOCOL)
		return;
	if (!c->doubt || strcmp(c->doubt, doubt) != 0)
		ori_log_rank(ORIEL_LOG_WARN, c->comm->rank,
			     "connects to rank %u again: the process there, or the connection, %s",
			     c->peer, doubt);
	c->doubt = doubt;
}

static enum oriel_status demand_dial_one(struct demand_call *c, const struct ori_address *address)
{
	uint64_t until = ori_deadline(DEMAND_PATIENCE_NS);
	enum oriel_status status = ORIEL_AGAIN, may;

	if (!ori_net_dial(&c->conn, address, c->comm->demand->tls, NULL)) {
		c->is_refused &= errno == ECONNREFUSED;
		return ORIEL_AGAIN;
	}
	while ((status = ori_net_step(&c->conn)) == ORIEL_AGAIN && !ori_deadline_passed(until)) {
		may = demand_poll(c);
		if (may != ORIEL_OK)
			return may;
	}
	if (status == ORIEL_ERR_PEER && c->conn.state == ORI_NET_CONNECTING)
		c->is_refused &= errno == ECONNREFUSED;
	else
		c->is_refused = false;
	demand_doubt(c, status);
	return status == ORIEL_OK ? status : ORIEL_AGAIN;
}

static enum oriel_status demand_dial_tcp(struct demand_call *c)
{
	const struct ori_host *a = &c->comm->hosts[c->comm->rank], *b = &c->comm->hosts[c->peer];
	const struct ori_listen_address *to = &c->comm->ranks[c->peer].listen;
	struct ori_address addresses[DEMAND_ADDRESSES];
	enum oriel_status status = ORIEL_AGAIN;
	unsigned i, count;

	count = ori_endpoint_of_hosts(&to->hosts, (uint16_t)to->port, addresses);
	if (ori_hosts_share_network(a, b))
		addresses[count++] = (struct ori_address){.family = 4,
							  .port = (uint16_t)to->port,
							  .ip = {127, 0, 0, 1}};
	c->is_refused = count > 0;
	for (i = 0; i < count && status == ORIEL_AGAIN; i++) {
		status = demand_dial_one(c, &addresses[i]);
		if (status != ORIEL_OK)
			ori_net_close(&c->conn);
	}
	if (status == ORIEL_AGAIN && c->is_refused)
		return ori_fail(ORIEL_ERR_PEER, "no process listens where rank %u did", c->peer);
	return status;
}

/* Asks once, over an open connection. ORIEL_AGAIN: the connection ended without an answer. */
static enum oriel_status demand_ask_once(struct demand_call *c, const struct ori_rdma_qps *qps,
					 struct demand_answer *answer)
{
	struct demand_ask ask = {.version = ORI_COMM_WIRE,
				 .from = c->comm->rank,
				 .to = c->peer,
				 .qps = *qps};
	struct ori_frame frame;
	enum oriel_status status, may;

	memcpy(ask.name, c->comm->ranks[c->peer].listen.name, sizeof(ask.name));
	if (ori_net_send(&c->conn, DEMAND_ASK, &ask, sizeof(ask)) != ORIEL_OK)
		return ORIEL_AGAIN;
	while ((status = ori_net_take(&c->conn, &frame, answer, sizeof(*answer))) == ORIEL_AGAIN) {
		may = demand_poll(c);
		if (may != ORIEL_OK)
			return may;
	}
	/* Bytes that were altered: without its ready the peer drops its end of the link. */
	demand_doubt(c, status);
	if (status == ORIEL_ERR_PEER || status == ORIEL_ERR_AUTH)
		return ORIEL_AGAIN;
	if (status != ORIEL_OK || frame.type != DEMAND_ANSWER || frame.length != sizeof(*answer))
		return ori_fail(ORIEL_ERR_PROTOCOL, "rank %u sent no answer to rank %u", c->peer,
				c->comm->rank);
	return ORIEL_OK;
}

/* Asks until the peer has answered, and keeps the connection then. */
static enum oriel_status demand_ask(struct demand_call *c, const struct ori_rdma_qps *qps,
				    struct demand_answer *answer)
{
	const struct ori_host *hosts = c->comm->hosts;
	bool is_local = ori_hosts_share_sockets(&hosts[c->comm->rank], &hosts[c->peer]);
	const struct timespec pause = {0, DEMAND_PAUSE_NS};
	enum oriel_status status;

	for (;;) {
		status = is_local ? demand_dial_local(c) : demand_dial_tcp(c);
		if (status == ORIEL_OK)
			status = demand_ask_once(c, qps, answer);
		if (status == ORIEL_OK)
			return status;
		ori_net_close(&c->conn);
		if (status == ORIEL_AGAIN)
			status = demand_may_wait(c);
		if (status != ORIEL_OK)
			return status;
		nanosleep(&pause, NULL);
	}
}

/* The end of an ask: @status of it, and the answer. The peer's own ask may have come first. */
static enum oriel_status demand_end_locked(struct demand_call *c, enum oriel_status status,
					   const struct demand_answer *answer)
{
	struct oriel_comm *comm = c->comm;
	struct demand_peer *p = &comm->demand->peers[c->peer];

	if (status == ORIEL_OK && answer->status == ORIEL_AGAIN)
		status = ORIEL_AGAIN;
	else if (status == ORIEL_OK && answer->status != ORIEL_OK)
		status = ori_fail(ori_status_is_failure(answer->status)
					  ? (enum oriel_status)answer->status
					  : ORIEL_ERR_PROTOCOL,
				  "rank %u failed to connect to rank %u: %s", c->peer, comm->rank,
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
		status = ori_rdma_link_connect(comm->links[c->peer], ori_links_hca(comm, c->peer),
					       &answer->qps);
	if (status == ORIEL_OK && ori_net_send(&c->conn, DEMAND_READY, NULL, 0) != ORIEL_OK)
		status = ori_fail(ORIEL_ERR_PEER, "rank %u has closed its socket", c->peer);
	if (status == ORIEL_OK)
		ori_demand_begin_locked(comm, c->peer);
	else
		ori_demand_drop_locked(comm, c->peer);
	return status;
}

static enum oriel_status demand_ask_locked(struct demand_call *c)
{
	struct oriel_comm *comm = c->comm;
	struct demand_answer answer = {0};
	struct ori_rdma_qps qps;
	enum oriel_status status = ori_rdma_link_open(comm->links[c->peer], &qps);

	if (status != ORIEL_OK)
		return status;
	ori_demand_set_locked(comm, c->peer, DEMAND_ASKING);
	comm->demand->peers[c->peer].asked = &qps;
	pthread_mutex_unlock(&comm->links_lock);
	status = demand_ask(c, &qps, &answer);
	pthread_mutex_lock(&comm->links_lock);
	status = demand_end_locked(c, status, &answer);
	/* The ask of the peer is on its way, and will be answered with these queues. */
	while (comm->demand->peers[c->peer].asked == &qps) {
		enum oriel_status may = demand_may_wait(c);

		if (may != ORIEL_OK) {
			ori_demand_drop_locked(comm, c->peer);
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
static void demand_fail(struct demand_call *c, enum oriel_status status)
{
	const struct timespec pause = {0, DEMAND_PAUSE_NS};
	uint64_t until = ori_deadline(DEMAND_REPORT_NS);

	while (status == ORIEL_ERR_PEER && ori_comm_is_well(c->comm) && !ori_deadline_passed(until))
		nanosleep(&pause, NULL);
	if (!ori_comm_is_well(c->comm))
		return;
	ori_log_rank(ORIEL_LOG_WARN, c->comm->rank, "no link to rank %u: %s", c->peer,
		     oriel_last_error());
	if (status == ORIEL_ERR_PEER)
		ori_comm_break(c->comm, status, ORIEL_DEV_LOST, c->peer, 0);
	else
		ori_comm_break_all(c->comm, status, ORIEL_DEV_LINK, c->peer, 0);
}

/*
 * Half of the timeout: ranks that wait for this one get its cause. A watcher answers at once
 * whatever its rank does, so that one which does not is as silent as one without beats, which no
 * link has brought yet.
 */
static uint64_t demand_limit(const struct oriel_comm *comm)
{
	uint64_t half = ori_comm_half_timeout(comm), boot = ori_comm_boot_limit(comm);

	return boot < half ? boot : half;
}

/*
 * Asks the peer, or, without @is_asking, waits until it has asked; not for long, since a peer that
 * exited is found by asking.
 */
static void demand_connect(struct oriel_comm *comm, unsigned peer, bool is_asking)
{
	struct demand_call c = {.comm = comm, .peer = peer, .limit_ns = demand_limit(comm)};
	enum oriel_status status = ORIEL_OK;
	uint64_t ask_at;

	c.deadline = ori_deadline(c.limit_ns);
	ask_at = ori_deadline(DEMAND_REPORT_NS);
	ori_net_open(&c.conn, -1, NULL);
	ori_late_begin(&c.late);
	pthread_mutex_lock(&comm->links_lock);
	while (!ori_rdma_link_is_ready(comm->links[peer])) {
		status = demand_may_wait(&c);
		if (status == ORIEL_OK && peer == comm->rank)
			status = demand_loop_locked(comm);
		else if (status == ORIEL_OK && (is_asking || ori_deadline_passed(ask_at)) &&
			 comm->demand->peers[peer].state == DEMAND_IDLE)
			status = demand_ask_locked(&c);
		else if (status == ORIEL_OK)
			ori_demand_wait_locked(comm);
		if (status != ORIEL_OK && status != ORIEL_AGAIN)
			break;
		status = ORIEL_OK;
	}
	pthread_mutex_unlock(&comm->links_lock);
	ori_net_close(&c.conn);
	if (status != ORIEL_OK && ori_comm_is_well(comm))
		demand_fail(&c, status);
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
