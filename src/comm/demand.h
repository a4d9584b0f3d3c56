/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links that connect at their first use: the thread that posts asks the peer, whose watcher
 * answers. comm.c, comm_nics.c, connect.c and the watcher call it, and threads that post, by
 * oriel_cpu_connect().
 */
#ifndef ORI_COMM_DEMAND_H
#define ORI_COMM_DEMAND_H

#include "comm/comm.h"

/* Listens, over TCP as well if @is_remote: some peers are out of reach of unix sockets. Local. */
enum oriel_status ori_demand_open(struct oriel_comm *comm, bool is_remote);
/* Where this rank listens, for the peers. */
const struct ori_listen_address *ori_demand_address(const struct oriel_comm *comm);

/*
 * The watchers of all ranks run: connects the few links by which failures reach all domains. The
 * first rank of each domain has links to the first ranks of the domains whose numbers differ from
 * its own in one bit: as many as the number of domains has bits. Local, but all ranks do it.
 */
enum oriel_status ori_demand_join(struct oriel_comm *comm);

/*
 * Any thread but the watcher: connects the link to @peer, which is not @context's, a struct
 * oriel_comm, unless it is connected. On failure that is broken.
 */
void ori_demand_connect(void *context, unsigned peer);

/* The link to @peer is connected at both ends. Local. */
void ori_links_begin(struct oriel_comm *comm, struct ori_rdma_link *link);

/* The descriptor that is readable when ori_demand_serve() has work; -1 without @comm->demand. */
int ori_demand_fd(const struct oriel_comm *comm);
/*
 * The watcher: answers peers that ask. Never waits. True: a peer that was answered may use its link
 * before this rank knows.
 */
bool ori_demand_serve(struct oriel_comm *comm);

/* Neither a watcher nor a thread that posts is left. */
void ori_demand_close(struct oriel_comm *comm);

#endif
