/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the NICs of a communicator with rdma peers, and a link without queues to each of
 * those and to the ranks that NICs reach beside memory; exchanges the addresses of the NICs.
 * comm.c calls it.
 */
#include "comm/comm_nics.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/connect.h"
#include "comm/demand.h"
#include "comm/heartbeat.h"
#include "comm/links.h"
#include "comm/paths.h"
#include "comm/report.h"
#include "rdma/rdma.h"
#include "rdma/rdma_choose.h"

/* The record in which ranks exchange the addresses of their NICs. Goes over the wire as it is. */
struct nics_record {
	struct ori_verdict verdict;
	struct ori_links_rank rank;
};

static_assert(sizeof(struct nics_record) == 836, "struct nics_record goes over the wire");
static_assert(sizeof(struct nics_record) <= ORI_RECORD_BYTES, "fits the records");

static_assert((int)ORIEL_NET_ORDER_AUTO == (int)ORI_RDMA_ORDER_AUTO &&
		      (int)ORIEL_NET_ORDER_ORDERED == (int)ORI_RDMA_ORDERED &&
		      (int)ORIEL_NET_ORDER_RELAXED == (int)ORI_RDMA_RELAXED,
	      "both have the same values");

static bool nics_are_needed(const struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (ori_comm_needs_link(comm, peer))
			return true;
	return false;
}

/* Is there an rdma peer that no socket of this machine reaches? */
static bool nics_are_remote(const struct oriel_comm *comm)
{
	const struct ori_host *mine = &comm->hosts[comm->rank];
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		const struct ori_host *host = &comm->hosts[peer];

		if (comm->host_paths.of[peer].path == ORIEL_PATH_RDMA &&
		    !ori_hosts_share_network(host, mine))
			return true;
	}
	return false;
}

/* oriel_settings_check() has checked the text. */
static enum ori_rdma_post nics_post(void)
{
	const char *text = ori_setting_text(ORI_SETTING_POST);

	if (strcmp(text, "rings") == 0)
		return ORI_RDMA_POST_RINGS;
	return strcmp(text, "proxy") == 0 ? ORI_RDMA_POST_PROXY : ORI_RDMA_POST_AUTO;
}

/*
 * A software HCA polls beside its rank, and so does a proxy that serves kernels. A proxy
 * that serves only the CPU sleeps while ranks wait and do its work: they keep their
 * cores.
 */
static unsigned nics_pollers(const struct oriel_comm *comm)
{
	return ori_rdma_kind(comm->rdma) == ORI_HCA_KIND_SOFT || comm->gpu ? 2 : 1;
}

/*
 * NICs may execute all atomics of a window (ORIEL_ATOMICS_HCA): those of rail 0, by links that
 * paths do not need. They exist from the beginning, since the watcher reads the table without a
 * lock.
 */
static enum oriel_status nics_create_links(struct oriel_comm *comm, unsigned peer)
{
	bool is_needed = ori_comm_needs_link(comm, peer);
	unsigned rail = ori_links_rail(comm, peer);
	enum oriel_status status = ORIEL_OK;

	if (is_needed || comm->rails == 1)
		status = ori_rdma_link_create(comm->rdma, peer, rail, &comm->links[peer]);
	if (status == ORIEL_OK && (!comm->links[peer] || rail))
		status = ori_rdma_link_create(comm->rdma, peer, 0, &comm->links[comm->size + peer]);
	return status;
}

/* @link is of the paths, or for atomics alone: their initiators wait for them. */
static void nics_describe_link(struct oriel_comm *comm, unsigned peer, struct ori_rdma_link *link)
{
	uint32_t unordered = comm->ranks[peer].unordered;

	if (!link)
		return;
	ori_rdma_link_set_unordered(link, unordered & ORI_LINKS_UNORDERED,
				    unordered & ORI_LINKS_REORDERED);
	if (ori_comm_has_both(comm, peer) || !ori_comm_needs_link(comm, peer))
		ori_rdma_link_set_mapped(link);
	if (link != comm->links[peer] || !ori_comm_needs_link(comm, peer))
		ori_rdma_link_set_shallow(link);
	/* Peers tell links by their rank, so that none could ask for a second one. */
	if (link != comm->links[peer])
		ori_rdma_link_set_eager(link);
}

/* Local: the NICs, the heartbeat, and links without queues. */
static enum oriel_status nics_create(struct oriel_comm *comm)
{
	const struct ori_rdma_attr attr = {.rails = comm->rails,
					   .gpu = comm->gpu,
					   .order = (enum ori_rdma_order)comm->net_order};
	struct ori_rdma_links_attr links = {.depth = comm->queue_depth,
					    .blocks = comm->post_blocks};
	enum oriel_status status;
	unsigned peer;

	if (!nics_are_needed(comm))
		return ORIEL_OK;
	comm->ranks = calloc(comm->size, sizeof(*comm->ranks));
	if (!comm->ranks)
		return ori_fail_nomem(comm->size * sizeof(*comm->ranks), "links to %u ranks",
				      comm->size);
	status = ori_rdma_open(&attr, &comm->rdma);
	if (status == ORIEL_OK && nics_are_remote(comm))
		status = ori_rdma_check_remote(comm->rdma);
	if (status != ORIEL_OK)
		return status;
	ori_comm_count(comm, nics_pollers(comm));
	links.health = &comm->control->health;
	links.timeout_ns = comm->timeout_ns;
	links.spin = ori_comm_spin(comm);
	links.blame = &comm->control->blame;
	links.post = nics_post();
	links.is_remote = nics_are_remote(comm);
	links.is_watched = true;
	if (comm->is_on_demand) {
		links.connect = ori_demand_connect;
		links.context = comm;
		status = ori_demand_open(comm, links.is_remote);
		if (status != ORIEL_OK)
			return status;
	}
	status = ori_rdma_open_links(comm->rdma, &links);
	if (status != ORIEL_OK)
		return status;
	status = ori_heartbeat_open(comm);
	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++)
		status = nics_create_links(comm, peer);
	return status;
}

/*
 * Warns, once in a process, that ranks of one machine have the software HCA without having
 * asked for it. Rank 0 does for all: they have the NICs of one machine.
 */
static void nics_warn(const struct oriel_comm *comm)
{
	static atomic_flag is_warned = ATOMIC_FLAG_INIT;

	if (comm->rank != 0 || !comm->rdma || !*ori_rdma_lack(comm->rdma) ||
	    atomic_flag_test_and_set_explicit(&is_warned, memory_order_relaxed))
		return;
	ori_log(ORIEL_LOG_WARN,
		"no NIC of host %s is usable: %s; ranks that do not map each other's memory have "
		"the software HCA, for development (ORIEL_HCA=soft asks for it)",
		comm->hosts[0].hostname, ori_rdma_lack(comm->rdma));
}

static void nics_query(const struct oriel_comm *comm, struct oriel_nic *nic)
{
	struct ori_hca_caps caps;

	ori_rdma_caps(comm->rdma, 0, &caps);
	*nic = (struct oriel_nic){
		.kind = caps.kind,
		.name = caps.name,
		.mtu = caps.mtu,
		.depth_max = caps.depth_max,
		.depth = ori_rdma_depth(comm->rdma),
		.outstanding_max = caps.max_rd_atomic,
		.has_wait = caps.has_wait,
		.is_software = caps.is_software,
		.is_sink = caps.is_sink,
		.rails = ori_rdma_rails(comm->rdma),
		.is_proxied = ori_rdma_is_proxied(comm->rdma),
		.tier = caps.tier,
		.is_reordered = ori_rdma_is_reordered(comm->rdma),
		.port = caps.port ? caps.port : "",
	};
}

/*
 * Collective: exchanges the addresses of the NICs; @status is the result of this rank's
 * step before.
 */
static enum oriel_status nics_introduce(struct oriel_comm *comm, enum oriel_status status)
{
	struct nics_record *records = ori_comm_scratch(comm, sizeof(*records));
	struct nics_record mine = {.rank.kind = ORI_HCA_KIND_NONE};
	struct oriel_nic nic;
	unsigned peer, rail;

	ori_verdict_fill(&mine.verdict, ORI_CALL_COMM_CREATE, status);
	if (status == ORIEL_OK && comm->rdma) {
		mine.rank.kind = ori_rdma_kind(comm->rdma);
		for (rail = 0; rail < comm->rails; rail++)
			ori_rdma_describe(comm->rdma, rail, &mine.rank.hcas[rail]);
		mine.rank.table_rkeys = *ori_heartbeat_rkeys(comm);
		if (comm->is_on_demand)
			mine.rank.listen = *ori_demand_address(comm);
		mine.rank.unordered =
			(ori_rdma_is_unordered(comm->rdma) ? ORI_LINKS_UNORDERED : 0) |
			(ori_rdma_is_reordered(comm->rdma) ? ORI_LINKS_REORDERED : 0);
		nics_query(comm, &nic);
		mine.rank.report = ori_report_nics_digest(comm, &nic);
	}
	status = ori_verdict_gather(comm, ORI_CALL_COMM_CREATE, &mine, records, sizeof(mine));
	/* All ranks come to the same answer. */
	if (status == ORIEL_OK)
		status = ori_choices_agree(&records->rank.kind, sizeof(*records), comm->size);
	if (status == ORIEL_OK && comm->ranks)
		ori_comm_name_kinds(comm, &records->rank.kind, sizeof(*records));
	/* After a failure the paths show which peers need a NIC. */
	ori_report_paths(comm);
	if (status == ORIEL_OK)
		nics_warn(comm);
	if (status == ORIEL_OK && comm->rdma)
		ori_report_nics(comm, &nic, records->rank.report);
	for (peer = 0; peer < comm->size && status == ORIEL_OK && comm->ranks; peer++) {
		comm->ranks[peer] = records[peer].rank;
		nics_describe_link(comm, peer, comm->links[peer]);
		nics_describe_link(comm, peer, comm->links[comm->size + peer]);
	}
	return status;
}

enum oriel_status ori_nics_open(struct oriel_comm *comm)
{
	enum oriel_status status;

	if (!comm->has_links) {
		ori_report_paths(comm);
		return ORIEL_OK;
	}
	status = nics_create(comm);
	status = nics_introduce(comm, status);
	if (status == ORIEL_OK && !comm->is_lazy && !comm->is_on_demand)
		status = ori_links_connect_all(comm, ORI_CALL_COMM_CREATE);
	return status;
}

void ori_nics_close(struct oriel_comm *comm)
{
	unsigned i;

	ori_demand_close(comm);
	for (i = 0; comm->links && i < ORI_LINK_ROWS * comm->size; i++) {
		ori_rdma_link_destroy(comm->links[i]);
		comm->links[i] = NULL;
	}
	ori_heartbeat_close(comm);
	ori_rdma_close(comm->rdma);
	comm->rdma = NULL;
}

enum oriel_status oriel_comm_nic(const struct oriel_comm *comm, struct oriel_nic *nic)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	struct oriel_nic found;

	if (status == ORIEL_OK)
		status = ori_info_check("oriel_nic", nic);
	if (status != ORIEL_OK)
		return status;
	if (!comm->rdma)
		return ori_fail(ORIEL_ERR_NO_PATH,
				"rank %u has no NIC open: no peer is reached by RDMA", comm->rank);
	nics_query(comm, &found);
	ori_info_write(nic, &found, sizeof(found));
	return ORIEL_OK;
}
