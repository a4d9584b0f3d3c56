/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowest rank of each node, from paths between ranks, on the host and on GPUs.
 * gather_make.c and gather_tune.c call it.
 */
#include "coll/gather_leaders.h"

#include <stdlib.h>

#include "base/error.h"

/* The lowest rank of the domain that @rank is in. */
static enum oriel_status leaders_host(const struct oriel_comm *comm, unsigned rank,
				      uint32_t *leader)
{
	enum oriel_path path = ORIEL_PATH_NONE;
	enum oriel_status status;
	unsigned other;

	for (other = 0; other < rank; other++) {
		status = oriel_comm_path_between(comm, other, rank, &path);
		if (status != ORIEL_OK)
			return status;
		if (path == ORIEL_PATH_MAPPED)
			break;
	}
	*leader = other;
	return ORIEL_OK;
}

/* The lowest rank whose GPU is mapped into this process; at most the own rank. */
static enum oriel_status leaders_own_gpu(const struct oriel_comm *comm, uint32_t *leader)
{
	uint32_t own = oriel_comm_rank(comm), rank;
	enum oriel_status status;
	struct oriel_peer peer = {.size = sizeof(peer)};

	for (rank = 0; rank < own; rank++) {
		status = oriel_comm_peer(comm, rank, &peer);
		if (status != ORIEL_OK)
			return status;
		if (peer.gpu_path == ORIEL_PATH_MAPPED)
			break;
	}
	*leader = rank;
	return ORIEL_OK;
}

static enum oriel_status leaders_of_hosts(const struct oriel_comm *comm, uint32_t *of)
{
	uint32_t size = oriel_comm_size(comm), rank;
	enum oriel_status status = ORIEL_OK;

	for (rank = 0; rank < size && status == ORIEL_OK; rank++)
		status = leaders_host(comm, rank, &of[rank]);
	return status;
}

/* @status: the local status, on which all ranks agree first. */
static enum oriel_status leaders_of_gpus(struct oriel_comm *comm, enum oriel_status status,
					 uint32_t *of)
{
	uint32_t own = 0;

	if (status == ORIEL_OK)
		status = leaders_own_gpu(comm, &own);
	status = oriel_comm_agree(comm, status);
	return status == ORIEL_OK ? oriel_comm_all_gather(comm, &own, of, sizeof(own)) : status;
}

enum oriel_status ori_leaders_find(struct oriel_comm *comm, bool is_gpu, uint32_t **leaders)
{
	uint32_t size = oriel_comm_size(comm);
	uint32_t *of = calloc(size, sizeof(*of));
	enum oriel_status status = ORIEL_OK;

	if (!of)
		status = ori_fail_nomem(size * sizeof(*of), "the nodes of %u ranks", size);
	if (is_gpu)
		status = leaders_of_gpus(comm, status, of);
	else if (status == ORIEL_OK)
		status = leaders_of_hosts(comm, of);
	if (status != ORIEL_OK) {
		free(of);
		return status;
	}
	*leaders = of;
	return ORIEL_OK;
}

unsigned ori_leaders_count(const uint32_t *leaders, unsigned ranks)
{
	unsigned nodes = 0, rank;

	for (rank = 0; rank < ranks; rank++)
		nodes += leaders[rank] == rank;
	return nodes;
}
