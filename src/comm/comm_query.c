/* SPDX-License-Identifier: Apache-2.0 */
/* Shows users the ranks, paths and domain of a communicator. Public functions of oriel/comm.h. */
#include <string.h>

#include "base/attr.h"
#include "base/error.h"
#include "bootstrap/tcp.h"
#include "comm/links.h"
#include "comm/paths.h"
#include "topo/classify.h"

unsigned oriel_comm_rank(const struct oriel_comm *comm)
{
	return ori_handle_use(comm, ORI_HANDLE_COMM, __func__) ? comm->rank : ORIEL_NO_RANK;
}

unsigned oriel_comm_size(const struct oriel_comm *comm)
{
	return ori_handle_use(comm, ORI_HANDLE_COMM, __func__) ? comm->size : 0;
}

uint64_t oriel_comm_timeout(const struct oriel_comm *comm)
{
	return ori_handle_use(comm, ORI_HANDLE_COMM, __func__) ? comm->timeout_ns : 0;
}

uint64_t oriel_comm_epoch(const struct oriel_comm *comm)
{
	return ori_handle_use(comm, ORI_HANDLE_COMM, __func__) ? comm->epoch : 0;
}

static enum oriel_status comm_check_rank(const struct oriel_comm *comm, unsigned rank,
					 const char *call)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, call);

	if (status != ORIEL_OK)
		return status;
	if (rank < comm->size)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_RANGE, "%s: rank %u is out of range, the job has %u", call, rank,
			comm->size);
}

enum oriel_status oriel_comm_path(const struct oriel_comm *comm, unsigned peer,
				  enum oriel_path *path)
{
	enum oriel_status status = comm_check_rank(comm, peer, __func__);

	if (status == ORIEL_OK && !path)
		status = ori_fail_null(__func__, "path");
	if (status == ORIEL_OK)
		*path = (enum oriel_path)comm->host_paths.of[peer].path;
	return status;
}

enum oriel_status oriel_comm_origin(const struct oriel_comm *comm, unsigned rank, unsigned *origin)
{
	enum oriel_status status = comm_check_rank(comm, rank, __func__);

	if (status != ORIEL_OK)
		return status;
	if (!origin)
		return ori_fail_null(__func__, "origin");
	*origin = comm->origin ? comm->origin[rank] : rank;
	return ORIEL_OK;
}

static void peer_query(const struct oriel_comm *comm, unsigned rank, struct oriel_peer *peer)
{
	peer->rank = rank;
	peer->path = (enum oriel_path)comm->host_paths.of[rank].path;
	peer->reason = comm->host_paths.reasons[rank];
	peer->host = comm->hosts[rank].hostname;
	peer->node = comm->hosts[rank].node;
	peer->pid = comm->hosts[rank].pid;
	peer->is_same_process = comm->hosts[rank].token == comm->hosts[comm->rank].token;
	peer->is_connected = ori_links_is_connected(comm, rank);
	peer->rail = ori_comm_needs_link(comm, rank) ? ori_links_rail(comm, rank) : 0;
	peer->gpu_path = peer->path;
	peer->gpu_reason = peer->reason;
	peer->is_same_gpu = false;
	peer->has_gpu_atomics = ori_comm_bus(comm, rank) != ORI_BUS_STORES;
	peer->has_gpu_lines = ori_comm_bus(comm, rank) == ORI_BUS_WHOLE;
	if (comm->gpu) {
		peer->is_same_gpu =
			memcmp(comm->hosts[rank].gpu.uuid, comm->hosts[comm->rank].gpu.uuid,
			       sizeof(comm->hosts[rank].gpu.uuid)) == 0;
		peer->gpu_path = (enum oriel_path)comm->gpu_paths.of[rank].path;
		peer->gpu_reason = comm->gpu_paths.reasons[rank];
	}
}

enum oriel_status oriel_comm_peer(const struct oriel_comm *comm, unsigned rank,
				  struct oriel_peer *peer)
{
	enum oriel_status status = comm_check_rank(comm, rank, __func__);
	struct oriel_peer found = {0};

	if (status == ORIEL_OK)
		status = ori_info_check("oriel_peer", peer);
	if (status != ORIEL_OK)
		return status;
	peer_query(comm, rank, &found);
	ori_info_write(peer, &found, sizeof(found));
	return ORIEL_OK;
}

static const char *comm_source(const struct ori_host_gpu *gpu, uint32_t flag)
{
	if (!(gpu->given & flag))
		return "machine";
	return gpu->given & ORI_GIVEN_BY_CALLER ? "attribute" : "environment";
}

enum oriel_status oriel_comm_peer_gpu(const struct oriel_comm *comm, unsigned rank,
				      struct oriel_peer_gpu *gpu)
{
	enum oriel_status status = comm_check_rank(comm, rank, __func__);
	const struct ori_host_gpu *g;
	struct oriel_peer_gpu found;

	if (status == ORIEL_OK)
		status = ori_info_check("oriel_peer_gpu", gpu);
	if (status != ORIEL_OK)
		return status;
	g = &comm->hosts[rank].gpu;
	found = (struct oriel_peer_gpu){
		.pci = g->pci,
		.domain = g->domain,
		.fabric = ori_fabric_text(g->fabric.state),
		.clique = g->fabric.clique,
		.is_peer_access_off = g->given & ORI_GIVEN_NO_PEERS,
		.is_gpudirect_off = g->given & ORI_GIVEN_NO_RDMA,
		.cluster_source = comm_source(g, ORI_GIVEN_CLUSTER),
		.clique_source = comm_source(g, ORI_GIVEN_CLIQUE),
		.peer_access_source = comm_source(g, ORI_GIVEN_NO_PEERS),
		.gpudirect_source = comm_source(g, ORI_GIVEN_NO_RDMA),
	};
	memcpy(found.cluster, g->fabric.cluster, sizeof(found.cluster));
	ori_info_write(gpu, &found, sizeof(found));
	return ORIEL_OK;
}

enum oriel_status oriel_comm_path_between(const struct oriel_comm *comm, unsigned from, unsigned to,
					  enum oriel_path *path)
{
	enum oriel_status status = comm_check_rank(comm, from, __func__);

	if (status == ORIEL_OK)
		status = comm_check_rank(comm, to, __func__);
	if (status == ORIEL_OK && !path)
		status = ori_fail_null(__func__, "path");
	if (status == ORIEL_OK)
		*path = ori_classify(&comm->hosts[from], from, &comm->hosts[to], to, NULL, 0);
	return status;
}

unsigned oriel_comm_domain_size(const struct oriel_comm *comm)
{
	return ori_handle_use(comm, ORI_HANDLE_COMM, __func__) ? comm->host_paths.domain_size : 0;
}

unsigned oriel_comm_domain_index(const struct oriel_comm *comm)
{
	return ori_handle_use(comm, ORI_HANDLE_COMM, __func__) ? comm->host_paths.domain_index
							       : ORIEL_NO_RANK;
}

enum oriel_status oriel_comm_domain_rank(const struct oriel_comm *comm, unsigned index,
					 unsigned *rank)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	if (status == ORIEL_OK && !rank)
		status = ori_fail_null(__func__, "rank");
	if (status != ORIEL_OK)
		return status;
	if (index >= comm->host_paths.domain_size)
		return ori_fail(ORIEL_ERR_RANGE,
				"oriel_comm_domain_rank: index %u is out of range, the domain of "
				"rank %u has %u",
				index, comm->rank, comm->host_paths.domain_size);
	*rank = comm->host_paths.domain[index];
	return ORIEL_OK;
}

enum oriel_status oriel_comm_domain_find(const struct oriel_comm *comm, unsigned rank,
					 unsigned *index)
{
	enum oriel_status status = comm_check_rank(comm, rank, __func__);

	if (status == ORIEL_OK && !index)
		status = ori_fail_null(__func__, "index");
	if (status != ORIEL_OK)
		return status;
	if (comm->host_paths.of[rank].domain_index == ORIEL_DEV_NO_INDEX)
		return ori_fail(ORIEL_ERR_NO_PATH, "rank %u is not mapped by rank %u", rank,
				comm->rank);
	*index = comm->host_paths.of[rank].domain_index;
	return ORIEL_OK;
}

enum oriel_status oriel_comm_peer_rank(const struct oriel_comm *comm, unsigned index,
				       unsigned *rank)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);

	if (status == ORIEL_OK && !rank)
		status = ori_fail_null(__func__, "rank");
	if (status != ORIEL_OK)
		return status;
	if (index + 1 >= comm->size || index + 1 == 0)
		return ori_fail(
			ORIEL_ERR_RANGE,
			"oriel_comm_peer_rank: index %u is out of range, rank %u has %u peers",
			index, comm->rank, comm->size - 1);
	*rank = index < comm->rank ? index : index + 1;
	return ORIEL_OK;
}

enum oriel_status oriel_comm_peer_index(const struct oriel_comm *comm, unsigned rank,
					unsigned *index)
{
	enum oriel_status status = comm_check_rank(comm, rank, __func__);

	if (status == ORIEL_OK && !index)
		status = ori_fail_null(__func__, "index");
	if (status != ORIEL_OK)
		return status;
	if (rank == comm->rank)
		return ori_fail(ORIEL_ERR_INVALID, "rank %u is no peer of itself", rank);
	*index = comm->host_paths.of[rank].peer_index;
	return ORIEL_OK;
}

const struct ori_key *ori_comm_key(const struct oriel_comm *comm)
{
	const struct ori_key *key = NULL;

	if (ori_tcp_is_own(&comm->bootstrap))
		key = ori_tcp_key(&comm->bootstrap);
	return key && key->length ? key : NULL;
}

enum oriel_status ori_comm_read_key(const struct oriel_comm *comm, struct ori_key *key)
{
	if (!ori_tcp_is_own(&comm->bootstrap))
		return ori_key_read(key);
	*key = *ori_tcp_key(&comm->bootstrap);
	return ORIEL_OK;
}
