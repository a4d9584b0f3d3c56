/* SPDX-License-Identifier: Apache-2.0 */
/* A path to every peer, from what all ranks said of themselves. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"
#include "topo/classify.h"

static enum oriel_status select_path(struct oriel_comm *comm, unsigned peer)
{
	struct oriel_dev_rank *rank = &comm->of[peer];
	char reason[ORI_REASON_LENGTH];

	rank->path = ori_classify(&comm->hosts[comm->rank], comm->rank, &comm->hosts[peer], peer,
				  reason, sizeof(reason));
	rank->peer_index = peer < comm->rank ? peer : peer - 1;
	rank->domain_index = ORIEL_DEV_NO_INDEX;
	if (peer == comm->rank)
		rank->peer_index = ORIEL_DEV_NO_INDEX;
	comm->reasons[peer] = strdup(reason);
	if (!comm->reasons[peer])
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for %u paths", comm->size);
	if (rank->path == ORIEL_PATH_NONE)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"no path between rank %u on %s and rank %u on %s: %s", comm->rank,
				comm->hosts[comm->rank].hostname, peer, comm->hosts[peer].hostname,
				reason);
	return ORIEL_OK;
}

static void select_domain(struct oriel_comm *comm)
{
	unsigned peer, count = 0;

	for (peer = 0; peer < comm->size; peer++) {
		if (comm->of[peer].path != ORIEL_PATH_MAPPED && peer != comm->rank)
			continue;
		comm->of[peer].domain_index = count;
		comm->domain[count++] = peer;
	}
	comm->domain_size = count;
	comm->domain_index = comm->of[comm->rank].domain_index;
}

static bool select_is_crowded(const struct oriel_comm *comm)
{
	struct ori_host_load load = ori_cpus_of_host(comm->hosts, comm->size, comm->rank);
	/* An adapter in software is one more thread of each rank that polls. */
	unsigned threads = comm->domain_size < comm->size ? 2 : 1;

	return threads * load.ranks > load.cpus;
}

enum oriel_status ori_comm_select(struct oriel_comm *comm)
{
	enum oriel_status status;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		status = select_path(comm, peer);
		if (status != ORIEL_OK)
			return status;
	}
	select_domain(comm);
	comm->is_crowded = select_is_crowded(comm);
	return ori_domain_check(comm->rank, comm->domain, comm->domain_size, ori_hosts_are_mapped,
				comm->hosts);
}

uint32_t ori_comm_spin(const struct oriel_comm *comm)
{
	/* A poll with its pause takes some 10 ns: a few tens of us, or none. */
	return comm->is_crowded ? 1 : 4000;
}

bool ori_comm_is_foreign(const struct oriel_comm *comm, unsigned peer)
{
	return comm->of[peer].path == ORIEL_PATH_MAPPED &&
	       comm->hosts[peer].token != comm->hosts[comm->rank].token;
}
