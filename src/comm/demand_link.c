/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the listeners of links on demand, and keeps the state of each link. demand.c and
 * demand_serve.c call it.
 */
#include "comm/demand_link.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "comm/ask.h"
#include "comm/comm_nics.h"
#include "comm/demand.h"
#include "comm/health.h"
#include "comm/heartbeat.h"
#include "comm/links.h"
#include "comm/paths.h"

enum oriel_status ori_demand_watch(struct ori_demand *d, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot watch a connection (epoll_ctl)");
	return ORIEL_OK;
}

static enum oriel_status demand_listen(struct ori_demand *d, struct ori_net_listener *listener,
				       int fd)
{
	enum oriel_status status = ori_net_listener_open(listener, fd);

	return status == ORIEL_OK ? ori_demand_watch(d, listener->epoll) : status;
}

static enum oriel_status demand_listen_tcp(struct oriel_comm *comm, struct ori_demand *d)
{
	const struct ori_key *key = ori_comm_key(comm);
	enum oriel_status status = ORIEL_OK;
	uint16_t port = 0;
	int fd;

	if (key)
		status = ori_tls_context_create(key, &d->tls);
	if (status == ORIEL_OK)
		status = ori_endpoint_listen_all(&d->address.hosts, &port, &fd);
	if (status != ORIEL_OK)
		return status;
	d->address.port = port;
	d->tcp.context = d->tls;
	return demand_listen(d, &d->tcp, fd);
}

enum oriel_status ori_demand_open(struct oriel_comm *comm, bool is_remote)
{
	size_t length = sizeof(struct ori_demand) + comm->size * sizeof(struct demand_peer);
	struct ori_demand *d = calloc(1, length);
	enum oriel_status status;
	int fd;

	if (!d)
		return ori_fail_nomem(length, "links to %u ranks", comm->size);
	pthread_cond_init(&d->changed, NULL);
	ori_net_listener_init(&d->local, NULL, comm->size, NULL);
	ori_net_listener_init(&d->tcp, NULL, comm->size, NULL);
	comm->demand = d; /* ori_demand_close() undoes what follows */
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll < 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "epoll_create1");
	status = ori_fdsock_listen(d->address.name, &fd);
	if (status == ORIEL_OK)
		status = demand_listen(d, &d->local, fd);
	return status == ORIEL_OK && is_remote ? demand_listen_tcp(comm, d) : status;
}

const struct ori_listen_address *ori_demand_address(const struct oriel_comm *comm)
{
	return &comm->demand->address;
}

void ori_links_begin(struct oriel_comm *comm, struct ori_rdma_link *link)
{
	const struct oriel_dev_link *dev = ori_rdma_link_device(link);
	unsigned peer = dev->peer;

	ori_log_rank(ORIEL_LOG_DEBUG, comm->rank, "link to rank %u, of rail %u, is connected", peer,
		     dev->rail);
	ori_rdma_link_begin(link);
	/*
	 * Sockets and memory show whether mapped peers are alive, and the beats of the link of the
	 * path whether others are.
	 */
	if (link == comm->links[peer] && ori_comm_needs_link(comm, peer))
		ori_heartbeat_join(comm, peer, &comm->ranks[peer].table_rkeys);
}

void ori_demand_set_locked(struct oriel_comm *comm, unsigned peer, enum demand_state state)
{
	comm->demand->peers[peer].state = state;
	comm->demand->peers[peer].asked = NULL;
	pthread_cond_broadcast(&comm->demand->changed);
}

/*
 * The peer may use the link already: it begins in a broken @comm, too, so that it brings the peer
 * the report. One that began after ori_links_fail() would use memory of the program for ever.
 */
void ori_demand_begin_locked(struct oriel_comm *comm, unsigned peer)
{
	if (comm->are_links_sealed)
		ori_rdma_link_close(comm->links[peer]);
	else
		ori_links_begin(comm, comm->links[peer]);
	ori_demand_set_locked(comm, peer, DEMAND_IDLE);
}

void ori_demand_drop_locked(struct oriel_comm *comm, unsigned peer)
{
	ori_rdma_link_close(comm->links[peer]);
	ori_demand_set_locked(comm, peer, DEMAND_IDLE);
}

void ori_demand_wait_locked(struct oriel_comm *comm)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += ORI_ASK_TICK_MS * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&comm->demand->changed, &comm->links_lock, &until);
}

void ori_demand_free(struct demand_served *served)
{
	ori_net_close(&served->conn);
	free(served);
}

int ori_demand_fd(const struct oriel_comm *comm)
{
	return comm->demand ? comm->demand->epoll : -1;
}

void ori_demand_close(struct oriel_comm *comm)
{
	struct ori_demand *d = comm->demand;
	struct demand_served *served, *next;

	if (!d)
		return;
	for (served = d->served; served; served = next) {
		next = served->next;
		ori_demand_free(served);
	}
	ori_net_listener_close(&d->local);
	ori_net_listener_close(&d->tcp);
	ori_tls_context_destroy(d->tls);
	if (d->epoll >= 0)
		close(d->epoll);
	pthread_cond_destroy(&d->changed);
	free(d);
	comm->demand = NULL;
}
