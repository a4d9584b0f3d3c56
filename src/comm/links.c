/* SPDX-License-Identifier: Apache-2.0 */
/* A link to each peer that memory does not reach. */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/comm.h"
#include "transport/transport.h"

static bool links_are_needed(const struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (comm->of[peer].path == ORIEL_PATH_RDMA)
			return true;
	return false;
}

/* This rank's end of all its links; @addresses has one for each peer. */
static enum oriel_status links_create(struct oriel_comm *comm, struct ori_hca_qp_address *addresses)
{
	struct ori_rdma_attr attr = {0};
	enum oriel_status status;
	unsigned peer;

	if (!links_are_needed(comm))
		return ORIEL_OK;
	attr.hca = &ori_hca_soft_ops;
	attr.config = ori_setting_text(ORI_SETTING_SOFT_HCA);
	attr.health = &comm->control->health;
	attr.timeout_ns = comm->timeout_ns;
	attr.spin = ori_comm_spin(comm);
	status = ori_rdma_open(&attr, &comm->rdma);
	if (status != ORIEL_OK)
		return status;
	ori_log(ORIEL_LOG_INFO, "rank %u: RDMA by an adapter in software, for development",
		comm->rank);
	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++)
		if (comm->of[peer].path == ORIEL_PATH_RDMA)
			status = ori_rdma_link_create(comm->rdma, peer, &comm->links[peer],
						      &addresses[peer]);
	return status;
}

/* Row @peer of @all is what that rank's links to everybody are called. */
static enum oriel_status links_connect(struct oriel_comm *comm,
				       const struct ori_hca_qp_address *all)
{
	enum oriel_status status = ORIEL_OK;
	unsigned peer;

	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++)
		if (comm->links[peer])
			status =
				ori_rdma_link_connect(comm->links[peer],
						      &all[(size_t)peer * comm->size + comm->rank]);
	return status;
}

enum oriel_status ori_links_open(struct oriel_comm *comm)
{
	size_t row = comm->size * sizeof(struct ori_hca_qp_address);
	struct ori_hca_qp_address *mine, *all;
	enum oriel_status status;

	mine = calloc(1, row);
	all = calloc(comm->size, row);
	if (!mine || !all)
		status = ori_fail(ORIEL_ERR_NOMEM, "no memory for links to %u ranks", comm->size);
	else
		status = links_create(comm, mine);
	status = ori_comm_agree(comm, ORI_CALL_COMM_CREATE, status);
	if (status == ORIEL_OK)
		status = ori_comm_gather(comm, ORI_CALL_COMM_CREATE, mine, all, row);
	if (status == ORIEL_OK)
		status = ori_comm_agree(comm, ORI_CALL_COMM_CREATE, links_connect(comm, all));
	free(all);
	free(mine);
	return status;
}

static unsigned links_peer_of(const struct oriel_comm *comm, uint32_t qpn)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (comm->links[peer] && ori_rdma_link_device(comm->links[peer])->main->qpn == qpn)
			return peer;
	return ORIEL_DEV_NO_RANK;
}

void ori_links_watch(struct oriel_comm *comm)
{
	struct ori_hca_event event;
	unsigned peer;

	if (!comm->rdma || ori_rdma_poll_event(comm->rdma, &event) != ORIEL_OK)
		return;
	peer = links_peer_of(comm, event.qpn);
	ori_log(ORIEL_LOG_WARN, "rank %u: link to rank %d: %s", comm->rank, (int)peer, event.text);
	ori_comm_break(comm, event.status, ORIEL_DEV_LINK, peer);
}

const struct oriel_dev_link *ori_links_device(const struct oriel_comm *comm, unsigned peer)
{
	return comm->links[peer] ? ori_rdma_link_device(comm->links[peer]) : NULL;
}

uint32_t ori_links_whole_lkey(const struct oriel_comm *comm)
{
	return ori_rdma_whole_lkey(comm->rdma);
}

void ori_links_close(struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; comm->links && peer < comm->size; peer++)
		ori_rdma_link_destroy(comm->links[peer]);
	ori_rdma_close(comm->rdma);
}
