/* SPDX-License-Identifier: Apache-2.0 */
/* A path to every peer, from what all ranks said of themselves. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"
#include "topo/classify.h"

typedef enum oriel_path select_classify(const struct ori_host *a, unsigned rank_a,
					const struct ori_host *b, unsigned rank_b, char *reason,
					size_t length);

static enum oriel_status select_path(const struct oriel_comm *comm, struct ori_ways *ways,
				     select_classify *classify, unsigned peer)
{
	struct oriel_dev_rank *rank = &ways->of[peer];
	char reason[ORI_REASON_LENGTH];

	rank->path = classify(&comm->hosts[comm->rank], comm->rank, &comm->hosts[peer], peer,
			      reason, sizeof(reason));
	rank->peer_index = peer < comm->rank ? peer : peer - 1;
	rank->domain_index = ORIEL_DEV_NO_INDEX;
	if (peer == comm->rank)
		rank->peer_index = ORIEL_DEV_NO_INDEX;
	ways->reasons[peer] = strdup(reason);
	if (!ways->reasons[peer])
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for %u paths", comm->size);
	if (rank->path == ORIEL_PATH_NONE)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"no path between rank %u on %s and rank %u on %s: %s", comm->rank,
				comm->hosts[comm->rank].hostname, peer, comm->hosts[peer].hostname,
				reason);
	return ORIEL_OK;
}

static void select_domain(const struct oriel_comm *comm, struct ori_ways *ways)
{
	unsigned peer, count = 0;

	for (peer = 0; peer < comm->size; peer++) {
		if (ways->of[peer].path != ORIEL_PATH_MAPPED && peer != comm->rank)
			continue;
		ways->of[peer].domain_index = count;
		ways->domain[count++] = peer;
	}
	ways->domain_size = count;
	ways->domain_index = ways->of[comm->rank].domain_index;
}

static enum oriel_status select_ways(const struct oriel_comm *comm, struct ori_ways *ways,
				     select_classify *classify, ori_is_mapped *is_mapped)
{
	enum oriel_status status;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		status = select_path(comm, ways, classify, peer);
		if (status != ORIEL_OK)
			return status;
	}
	select_domain(comm, ways);
	return ori_domain_check(comm->rank, ways->domain, ways->domain_size, is_mapped,
				comm->hosts);
}

/* Of host memory, which everything else stands on. */
static enum oriel_status select_host_ways(struct oriel_comm *comm)
{
	struct ori_ways ways = {.of = comm->of, .domain = comm->domain, .reasons = comm->reasons};
	enum oriel_status status;

	status = select_ways(comm, &ways, ori_classify, ori_hosts_are_mapped);
	comm->domain_size = ways.domain_size;
	comm->domain_index = ways.domain_index;
	return status;
}

static enum oriel_status select_gpu_ways(struct oriel_comm *comm)
{
	struct ori_ways *ways = &comm->gpu_ways;

	ways->of = calloc(comm->size, sizeof(*ways->of));
	ways->domain = calloc(comm->size, sizeof(*ways->domain));
	ways->reasons = calloc(comm->size, sizeof(*ways->reasons));
	if (!ways->of || !ways->domain || !ways->reasons)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for %u paths", comm->size);
	return select_ways(comm, ways, ori_classify_gpus, ori_gpus_are_mapped);
}

void ori_ways_close(struct ori_ways *ways, unsigned size)
{
	unsigned peer;

	for (peer = 0; ways->reasons && peer < size; peer++)
		free(ways->reasons[peer]);
	free(ways->reasons);
	free(ways->domain);
	free(ways->of);
}

enum oriel_status ori_comm_select(struct oriel_comm *comm)
{
	enum oriel_status status;

	ori_hosts_join_fabrics(comm->hosts, comm->size);
	status = select_host_ways(comm);
	if (status == ORIEL_OK && comm->gpu)
		status = select_gpu_ways(comm);
	if (status == ORIEL_OK)
		ori_comm_count(comm, 1);
	return status;
}

void ori_comm_count(struct oriel_comm *comm, unsigned threads)
{
	struct ori_machine_load load = ori_machine_load_of(comm->hosts, comm->size, comm->rank);

	comm->is_oversubscribed = threads * load.ranks > load.cpus;
}

uint32_t ori_comm_spin(const struct oriel_comm *comm)
{
	/* A poll with its pause takes some 10 ns: a few tens of us, or none. */
	return comm->is_oversubscribed ? 1 : 4000;
}

bool ori_comm_is_foreign(const struct oriel_comm *comm, unsigned peer)
{
	return comm->of[peer].path == ORIEL_PATH_MAPPED &&
	       comm->hosts[peer].token != comm->hosts[comm->rank].token;
}

enum oriel_path ori_comm_gpu_path(const struct oriel_comm *comm, unsigned peer)
{
	return (enum oriel_path)comm->gpu_ways.of[peer].path;
}

bool ori_comm_is_far(const struct oriel_comm *comm, unsigned peer)
{
	return comm->gpu && comm->of[peer].path != ORIEL_PATH_MAPPED &&
	       ori_comm_gpu_path(comm, peer) == ORIEL_PATH_MAPPED;
}
