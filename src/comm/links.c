/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NICs of a communicator, and a link to each peer that is not mapped. comm.c opens
 * them; the watcher polls them.
 */
#include "comm/links.h"

#include <stdlib.h>
#include <string.h>

#include <oriel/dev/order.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/exchange.h"
#include "comm/health.h"
#include "comm/heartbeat.h"
#include "comm/paths.h"
#include "rdma/rdma.h"
#include "rdma/rdma_choose.h"

/* The addresses that links to a rank connect to. Goes over the wire as it is. */
struct ori_links_rank {
	struct ori_hca_qp_address hcas[ORIEL_DEV_RAILS]; /* without the number of any queue */
	struct oriel_dev_keys table_rkeys; /* of the rows where peers report failures */
	uint32_t kind;                     /* enum ori_hca_kind */
	uint32_t is_unordered;             /* 1: see ori_rdma_is_unordered() */
};

/* The record in which ranks exchange the addresses of their NICs. Goes over the wire as it is. */
struct links_record {
	struct ori_verdict verdict;
	struct ori_links_rank rank;
};

static_assert(sizeof(struct links_record) == 792, "struct links_record goes over the wire");
static_assert(sizeof(struct links_record) <= ORI_RECORD_BYTES, "fits the records");

static bool links_are_needed(const struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (comm->host_paths.of[peer].path == ORIEL_PATH_RDMA)
			return true;
	return false;
}

/* Is there an rdma peer that no socket of this machine reaches? */
static bool links_are_remote(const struct oriel_comm *comm)
{
	const struct ori_host *mine = &comm->hosts[comm->rank];
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++) {
		const struct ori_host *host = &comm->hosts[peer];

		if (comm->host_paths.of[peer].path == ORIEL_PATH_RDMA &&
		    (memcmp(host->boot_id, mine->boot_id, sizeof(host->boot_id)) != 0 ||
		     host->net_ns != mine->net_ns))
			return true;
	}
	return false;
}

/* Both ends compute the same rail, and links to successive ranks use the rails in turn. */
unsigned ori_links_rail(const struct oriel_comm *comm, unsigned peer)
{
	return (comm->rank + peer) % comm->rails;
}

/* oriel_settings_check() has checked the text. */
static enum ori_rdma_post links_post(void)
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
static unsigned links_pollers(const struct oriel_comm *comm, enum ori_hca_kind kind)
{
	return kind == ORI_HCA_KIND_SOFT || comm->gpu ? 2 : 1;
}

/* Local: the NICs, the heartbeat, and a link without queues for each rdma peer. */
static enum oriel_status links_create(struct oriel_comm *comm, struct ori_hca_choice *choice)
{
	struct ori_rdma_attr attr = {0};
	enum oriel_status status;
	unsigned peer;

	if (!links_are_needed(comm))
		return ORIEL_OK;
	comm->ranks = calloc(comm->size, sizeof(*comm->ranks));
	if (!comm->ranks)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for links to %u ranks", comm->size);
	status = ori_choose(comm->gpu, comm->rails, choice);
	if (status != ORIEL_OK)
		return status;
	ori_comm_count(comm, links_pollers(comm, choice->kind));
	attr.hca = choice->ops;
	attr.config = choice->config;
	attr.health = &comm->control->health;
	attr.timeout_ns = comm->timeout_ns;
	attr.spin = ori_comm_spin(comm);
	attr.rails = comm->rails;
	attr.gpu = comm->gpu;
	attr.blame = &comm->control->blame;
	attr.post = links_post();
	attr.is_remote = links_are_remote(comm);
	status = ori_rdma_open(&attr, &comm->rdma);
	if (status != ORIEL_OK)
		return status;
	ori_log(ORIEL_LOG_INFO, "rank %u: RDMA by %u rails, each %s; %s", comm->rank, comm->rails,
		choice->kind == ORI_HCA_KIND_SOFT ? "a software HCA, for development"
						  : "a NIC of libibverbs",
		ori_rdma_is_proxied(comm->rdma) ? "a proxy posts" : "callers post");
	if (ori_rdma_is_unordered(comm->rdma))
		ori_log(ORIEL_LOG_INFO,
			"rank %u: DMA writes to %s are not visible in order; peers read "
			"them back before they signal",
			comm->rank, comm->gpu ? "its GPU" : "its memory");
	status = ori_heartbeat_open(comm);
	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++)
		if (comm->host_paths.of[peer].path == ORIEL_PATH_RDMA)
			status = ori_rdma_link_create(comm->rdma, peer, ori_links_rail(comm, peer),
						      &comm->links[peer]);
	return status;
}

/*
 * Collective: exchanges the addresses of the NICs; @status is the result of this rank's
 * step before.
 */
static enum oriel_status links_introduce(struct oriel_comm *comm, enum ori_hca_kind kind,
					 enum oriel_status status)
{
	struct links_record *records = ori_comm_scratch(comm, sizeof(*records));
	struct links_record mine = {.rank.kind = kind};
	unsigned peer, rail;

	ori_verdict_fill(&mine.verdict, ORI_CALL_COMM_CREATE, status);
	if (status == ORIEL_OK && comm->rdma) {
		for (rail = 0; rail < comm->rails; rail++)
			ori_rdma_describe(comm->rdma, rail, &mine.rank.hcas[rail]);
		mine.rank.table_rkeys = *ori_heartbeat_rkeys(comm);
		mine.rank.is_unordered = ori_rdma_is_unordered(comm->rdma);
	}
	status = ori_verdict_gather(comm, ORI_CALL_COMM_CREATE, &mine, records, sizeof(mine));
	/* All ranks come to the same answer. */
	if (status == ORIEL_OK)
		status = ori_choices_agree(&records->rank.kind, sizeof(*records), comm->size);
	for (peer = 0; peer < comm->size && status == ORIEL_OK && comm->ranks; peer++) {
		comm->ranks[peer] = records[peer].rank;
		if (comm->links[peer] && records[peer].rank.is_unordered)
			ori_rdma_link_set_unordered(comm->links[peer]);
	}
	return status;
}

static bool links_is_missing(const struct oriel_comm *comm, unsigned peer)
{
	return comm->links[peer] && !ori_rdma_link_is_ready(comm->links[peer]);
}

/* Opens this rank's queues of the links that are not connected. */
static enum oriel_status links_open_qps(struct oriel_comm *comm, struct ori_rdma_qps *qps)
{
	enum oriel_status status = ORIEL_OK;
	unsigned peer;

	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++)
		if (links_is_missing(comm, peer))
			status = ori_rdma_link_open(comm->links[peer], &qps[peer]);
	return status;
}

/* Row @peer of @all has the queues of that rank's links to all ranks. */
static enum oriel_status links_connect_qps(struct oriel_comm *comm, const struct ori_rdma_qps *all)
{
	enum oriel_status status = ORIEL_OK;
	unsigned peer;

	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++)
		if (links_is_missing(comm, peer))
			status =
				ori_rdma_link_connect(comm->links[peer],
						      ori_links_peer_hca(comm, peer),
						      &all[(size_t)peer * comm->size + comm->rank]);
	return status;
}

static enum oriel_status links_exchange_qps(struct oriel_comm *comm, enum ori_call call,
					    struct ori_rdma_qps *mine, struct ori_rdma_qps *all)
{
	size_t row = comm->size * sizeof(*mine);
	enum oriel_status status = ORIEL_OK;

	if (!mine || !all)
		status = ori_fail(ORIEL_ERR_NOMEM, "no memory for links to %u ranks", comm->size);
	else
		status = links_open_qps(comm, mine);
	status = ori_comm_agree(comm, call, status);
	if (status == ORIEL_OK)
		status = ori_comm_gather(comm, call, mine, all, row);
	if (status == ORIEL_OK)
		status = ori_comm_agree(comm, call, links_connect_qps(comm, all));
	return status;
}

enum oriel_status ori_links_connect_all(struct oriel_comm *comm, enum ori_call call)
{
	struct ori_rdma_qps *mine, *all;
	enum oriel_status status;
	unsigned peer;

	/* Both are the same on all ranks: if the domain of one is the job, that of each is. */
	if (comm->is_linked_whole || comm->host_paths.domain_size == comm->size)
		return ORIEL_OK;
	mine = calloc(comm->size, sizeof(*mine));
	all = calloc((size_t)comm->size * comm->size, sizeof(*all));
	status = links_exchange_qps(comm, call, mine, all);
	for (peer = 0; peer < comm->size; peer++) {
		if (!links_is_missing(comm, peer))
			continue;
		if (status == ORIEL_OK)
			ori_links_begin(comm, peer);
		else
			ori_rdma_link_close(comm->links[peer]);
	}
	comm->is_linked_whole = status == ORIEL_OK;
	free(all);
	free(mine);
	return status;
}

enum oriel_status ori_links_open(struct oriel_comm *comm)
{
	struct ori_hca_choice choice = {.kind = ORI_HCA_KIND_NONE};
	enum oriel_status status;

	/* The same on all ranks: see ori_links_connect_all(). */
	if (comm->host_paths.domain_size == comm->size)
		return ORIEL_OK;
	status = links_create(comm, &choice);
	status = links_introduce(comm, choice.kind, status);
	if (status == ORIEL_OK && !comm->is_lazy)
		status = ori_links_connect_all(comm, ORI_CALL_COMM_CREATE);
	return status;
}

void ori_links_begin(struct oriel_comm *comm, unsigned peer)
{
	ori_rdma_link_begin(comm->links[peer]);
	ori_heartbeat_join(comm, peer, &comm->ranks[peer].table_rkeys);
}

bool ori_links_is_connected(const struct oriel_comm *comm, unsigned peer)
{
	return comm->host_paths.of[peer].path != ORIEL_PATH_RDMA ||
	       ori_rdma_link_is_ready(comm->links[peer]);
}

const struct ori_hca_qp_address *ori_links_peer_hca(const struct oriel_comm *comm, unsigned peer)
{
	return &comm->ranks[peer].hcas[ori_links_rail(comm, peer)];
}

/*
 * The peer of the link that @event is of, and its record; ORIEL_DEV_NO_RANK if there is
 * no such link.
 */
static unsigned links_explain(const struct oriel_comm *comm, const struct ori_rdma_event *event,
			      struct oriel_dev_fault *record)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (comm->links[peer] && ori_rdma_link_explain(comm->links[peer], event, record))
			return peer;
	*record = (struct oriel_dev_fault){.status = event->of.status,
					   .what = ORIEL_DEV_LINK,
					   .peer = ORIEL_DEV_NO_RANK};
	return ORIEL_DEV_NO_RANK;
}

static void links_poll_events(struct oriel_comm *comm)
{
	struct oriel_dev_fault record;
	struct ori_rdma_event event;
	bool is_news;
	unsigned peer;

	while (ori_rdma_poll_event(comm->rdma, &event) == ORIEL_OK) {
		peer = links_explain(comm, &event, &record);
		is_news = ori_comm_is_well(comm);
		ori_log(is_news ? ORIEL_LOG_WARN : ORIEL_LOG_DEBUG, "rank %u: link to rank %d: %s",
			comm->rank, (int)peer, event.of.text);
		ori_comm_break_for(comm, &record);
	}
}

void ori_links_watch(struct oriel_comm *comm)
{
	struct oriel_dev_fault record, found = {.status = ORIEL_OK};
	unsigned peer;

	if (!comm->rdma)
		return;
	for (peer = 0; peer < comm->size; peer++)
		if (comm->links[peer] && ori_rdma_link_poll(comm->links[peer], &record) &&
		    found.status == ORIEL_OK)
			found = record;
	/* The event of the NIC came before the failed poll, and says more than "flushed". */
	links_poll_events(comm);
	if (found.status != ORIEL_OK)
		ori_comm_break_for(comm, &found);
}

void ori_links_fail(struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (comm->links[peer])
			ori_rdma_link_fail(comm->links[peer]);
}

const struct oriel_dev_link *ori_links_device(const struct oriel_comm *comm, unsigned peer)
{
	return comm->links[peer] ? ori_rdma_link_device(comm->links[peer]) : NULL;
}

const struct oriel_dev_link *ori_links_kernel(const struct oriel_comm *comm, unsigned peer)
{
	return comm->links[peer] ? ori_rdma_link_kernel(comm->links[peer]) : NULL;
}

/* The NIC uses no memory for a link that failed, so that ORIEL_AGAIN alone counts. */
static bool links_are_busy(const struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (comm->links[peer] &&
		    ori_rdma_link_poll_kernels(comm->links[peer]) == ORIEL_AGAIN)
			return true;
	return false;
}

void ori_links_drain_kernels(struct oriel_comm *comm)
{
	uint64_t start = ori_clock_ns(), deadline = ori_deadline(comm->timeout_ns);

	while (links_are_busy(comm) && ori_comm_is_well(comm) && !ori_deadline_passed(deadline))
		oriel_cpu_back_off(ori_clock_ns() - start);
}

const struct oriel_dev_keys *ori_links_whole_lkeys(const struct oriel_comm *comm)
{
	return ori_rdma_whole_lkeys(comm->rdma);
}

bool ori_links_find_own(const struct oriel_comm *comm)
{
	return ori_rdma_finds_own(comm->rdma);
}

enum oriel_status ori_links_reach(const struct oriel_comm *comm, const void *address)
{
	return comm->rdma ? ori_rdma_reach(comm->rdma, address) : ORIEL_OK;
}

void ori_links_close(struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; comm->links && peer < comm->size; peer++)
		ori_rdma_link_destroy(comm->links[peer]);
	ori_heartbeat_close(comm);
	ori_rdma_close(comm->rdma);
}
