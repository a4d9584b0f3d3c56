/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the path to every peer from the descriptions of all hosts, for host memory and
 * for GPU memory. comm.c calls it.
 */
#include "comm/paths.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rdma/rdma.h"
#include "topo/classify.h"

typedef enum oriel_path select_classify(const struct ori_host *a, unsigned rank_a,
					const struct ori_host *b, unsigned rank_b, char *reason,
					size_t length);

static enum oriel_status select_path(const struct oriel_comm *comm, struct ori_paths *paths,
				     select_classify *classify, unsigned peer)
{
	struct oriel_dev_rank *rank = &paths->of[peer];
	char reason[ORI_REASON_LENGTH];

	rank->path = classify(&comm->hosts[comm->rank], comm->rank, &comm->hosts[peer], peer,
			      reason, sizeof(reason));
	rank->peer_index = peer < comm->rank ? peer : peer - 1;
	rank->domain_index = ORIEL_DEV_NO_INDEX;
	if (peer == comm->rank)
		rank->peer_index = ORIEL_DEV_NO_INDEX;
	paths->reasons[peer] = strdup(reason);
	if (!paths->reasons[peer])
		return ori_fail_nomem(strlen(reason) + 1, "the path to rank %u", peer);
	if (rank->path == ORIEL_PATH_NONE)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"no path between rank %u on %s and rank %u on %s: %s", comm->rank,
				comm->hosts[comm->rank].hostname, peer, comm->hosts[peer].hostname,
				reason);
	return ORIEL_OK;
}

/* Peers in rank order, so that all ranks of a domain number it alike. */
static void select_domain(const struct oriel_comm *comm, struct ori_paths *paths)
{
	unsigned peer, count = 0;

	for (peer = 0; peer < comm->size; peer++) {
		if (paths->of[peer].path != ORIEL_PATH_MAPPED && peer != comm->rank)
			continue;
		paths->of[peer].domain_index = count;
		paths->domain[count++] = peer;
	}
	paths->domain_size = count;
	paths->domain_index = paths->of[comm->rank].domain_index;
}

static enum oriel_status select_paths(const struct oriel_comm *comm, struct ori_paths *paths,
				      select_classify *classify, ori_is_mapped *is_mapped)
{
	enum oriel_status status;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		status = select_path(comm, paths, classify, peer);
		if (status != ORIEL_OK)
			return status;
	}
	select_domain(comm, paths);
	return ori_domain_check(comm->rank, paths->domain, paths->domain_size, is_mapped,
				comm->hosts);
}

static enum oriel_status select_gpu_paths(struct oriel_comm *comm)
{
	enum oriel_status status = ori_paths_open(&comm->gpu_paths, comm->size);

	if (status != ORIEL_OK)
		return status;
	return select_paths(comm, &comm->gpu_paths, ori_classify_gpus, ori_gpus_are_mapped);
}

/* Without memory for the text the one that names no kind stays. */
static void rename_reasons(struct oriel_comm *comm, struct ori_paths *paths,
			   select_classify *classify)
{
	char reason[ORI_REASON_LENGTH], *text;
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		if (paths->of[peer].path != ORIEL_PATH_RDMA)
			continue;
		classify(&comm->hosts[comm->rank], comm->rank, &comm->hosts[peer], peer, reason,
			 sizeof(reason));
		text = strdup(reason);
		if (!text)
			continue;
		free(paths->reasons[peer]);
		paths->reasons[peer] = text;
	}
}

static_assert((int)ORI_HOST_HCA_UNKNOWN == (int)ORI_HCA_KIND_NONE &&
		      (int)ORI_HOST_HCA_SOFT == (int)ORI_HCA_KIND_SOFT &&
		      (int)ORI_HOST_HCA_NIC == (int)ORI_HCA_KIND_VERBS,
	      "both have the same values");

void ori_comm_name_kinds(struct oriel_comm *comm, const void *kinds, size_t stride)
{
	unsigned rank;
	uint32_t kind;

	for (rank = 0; rank < comm->size; rank++) {
		memcpy(&kind, (const char *)kinds + rank * stride, sizeof(kind));
		comm->hosts[rank].hca_kind = (uint16_t)kind;
	}
	rename_reasons(comm, &comm->host_paths, ori_classify);
	if (comm->gpu)
		rename_reasons(comm, &comm->gpu_paths, ori_classify_gpus);
}

/*
 * With ORIEL_COMM_BOTH_PATHS each pair of ranks has a link. All ranks compare all pairs, so that
 * they find the same one.
 */
static enum oriel_status select_both(const struct oriel_comm *comm)
{
	char reason[ORI_REASON_LENGTH];
	unsigned a, b;

	for (a = 0; a < comm->size; a++)
		for (b = a + 1; b < comm->size; b++)
			if (!ori_classify_has_rdma(&comm->hosts[a], a, &comm->hosts[b], b, reason,
						   sizeof(reason)))
				return ori_fail(ORIEL_ERR_NO_PATH,
						"ORIEL_COMM_BOTH_PATHS: no rdma path between rank "
						"%u on %s and rank %u on %s: %s",
						a, comm->hosts[a].hostname, b,
						comm->hosts[b].hostname, reason);
	return ORIEL_OK;
}

/*
 * Does any rank need a link? Both relations are transitive, so that one rank decides it for all:
 * all ranks come to the same answer.
 */
static bool select_has_links(const struct oriel_comm *comm)
{
	const struct ori_host *first = NULL, *host;
	unsigned rank;

	for (rank = 0; rank < comm->size; rank++) {
		host = &comm->hosts[rank];
		if (host->gpu.pci[0] && !first)
			first = host;
		if ((rank && !ori_hosts_are_mapped(comm->hosts, 0, rank)) ||
		    (host->gpu.pci[0] && host->gpu.domain != first->gpu.domain))
			return true;
	}
	return false;
}

bool ori_comm_needs_link(const struct oriel_comm *comm, unsigned peer)
{
	return (comm->has_both_paths && peer != comm->rank) ||
	       comm->host_paths.of[peer].path == ORIEL_PATH_RDMA ||
	       (comm->gpu && comm->gpu_paths.of[peer].path == ORIEL_PATH_RDMA);
}

enum oriel_status ori_paths_open(struct ori_paths *paths, unsigned size)
{
	paths->of = calloc(size, sizeof(*paths->of));
	paths->domain = calloc(size, sizeof(*paths->domain));
	paths->reasons = calloc(size, sizeof(*paths->reasons));
	if (paths->of && paths->domain && paths->reasons)
		return ORIEL_OK;
	return ori_fail_nomem(size * (sizeof(*paths->of) + sizeof(*paths->domain) +
				      sizeof(*paths->reasons)),
			      "paths to %u ranks", size);
}

void ori_paths_close(struct ori_paths *paths, unsigned size)
{
	unsigned peer;

	for (peer = 0; paths->reasons && peer < size; peer++)
		free(paths->reasons[peer]);
	free(paths->reasons);
	free(paths->domain);
	free(paths->of);
}

enum oriel_status ori_comm_select(struct oriel_comm *comm)
{
	enum oriel_status status;

	ori_hosts_join(comm->hosts, comm->size);
	status = select_paths(comm, &comm->host_paths, ori_classify, ori_hosts_are_mapped);
	if (status == ORIEL_OK && comm->gpu)
		status = select_gpu_paths(comm);
	if (status == ORIEL_OK && comm->has_both_paths)
		status = select_both(comm);
	if (status != ORIEL_OK)
		return status;
	comm->has_links = comm->has_both_paths ? comm->size > 1 : select_has_links(comm);
	ori_comm_count(comm, 1);
	return ORIEL_OK;
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

bool ori_comm_has_both(const struct oriel_comm *comm, unsigned peer)
{
	return comm->has_both_paths &&
	       (comm->host_paths.of[peer].path == ORIEL_PATH_MAPPED ||
		(comm->gpu && comm->gpu_paths.of[peer].path == ORIEL_PATH_MAPPED));
}

bool ori_comm_is_foreign(const struct oriel_comm *comm, unsigned peer)
{
	return comm->host_paths.of[peer].path == ORIEL_PATH_MAPPED &&
	       comm->hosts[peer].token != comm->hosts[comm->rank].token;
}

enum ori_bus ori_comm_bus(const struct oriel_comm *comm, unsigned peer)
{
	if (!comm->gpu || comm->gpu_paths.of[peer].path != ORIEL_PATH_MAPPED)
		return ORI_BUS_WHOLE;
	return ori_classify_bus(&comm->hosts[comm->rank], &comm->hosts[peer]);
}

bool ori_comm_has_slow_bus(const struct oriel_comm *comm, unsigned peer)
{
	const struct ori_paths *paths = &comm->gpu_paths;
	unsigned i;

	if (!comm->gpu || paths->of[peer].domain_index == ORIEL_DEV_NO_INDEX)
		return false;
	for (i = 0; i < paths->domain_size; i++)
		if (ori_classify_bus(&comm->hosts[peer], &comm->hosts[paths->domain[i]]) ==
		    ORI_BUS_STORES)
			return true;
	return false;
}

bool ori_comm_is_fabric_peer(const struct oriel_comm *comm, unsigned peer)
{
	return comm->gpu && comm->host_paths.of[peer].path != ORIEL_PATH_MAPPED &&
	       comm->gpu_paths.of[peer].path == ORIEL_PATH_MAPPED;
}

bool ori_comm_is_lending(const struct oriel_comm *comm)
{
	unsigned peer;

	if (comm->host_paths.domain_size <= ORI_LENDING_RANKS)
		return false;
	for (peer = 0; peer < comm->size; peer++)
		if (ori_comm_is_foreign(comm, peer))
			return true;
	return false;
}
