/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/gather_leaders.h"

#include <stdlib.h>

#include "base/error.h"

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

static enum oriel_status leaders_own_gpu(const struct oriel_comm *comm, uint32_t *leader)
{
	uint32_t own = oriel_comm_rank(comm), rank;
	enum oriel_status status;
	struct oriel_peer peer;

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

enum oriel_status ori_leaders_find(struct oriel_comm *comm, bool is_gpu, uint32_t **leaders)
{
	uint32_t size = oriel_comm_size(comm), own = 0, rank;
	uint32_t *of = calloc(size, sizeof(*of));
	enum oriel_status status = ORIEL_OK;

	if (!of)
		status = ori_fail(ORIEL_ERR_NOMEM, "no memory for the nodes of %u ranks", size);
	for (rank = 0; rank < size && !is_gpu && status == ORIEL_OK; rank++)
		status = leaders_host(comm, rank, &of[rank]);
	if (is_gpu && status == ORIEL_OK)
		status = leaders_own_gpu(comm, &own);
	if (is_gpu)
		status = oriel_comm_agree(comm, status);
	if (is_gpu && status == ORIEL_OK)
		status = oriel_comm_all_gather(comm, &own, of, sizeof(own));
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
