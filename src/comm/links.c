/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link to each peer that a NIC reaches: what device functions get of it, and its failures,
 * which the watcher polls for. connect.c, heartbeat.c and window call it.
 */
#include "comm/links.h"

#include <oriel/dev/detail/order.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/comm_nics.h"
#include "comm/health.h"
#include "comm/paths.h"
#include "rdma/rdma.h"

/* Both ends compute the same rail, and links to successive ranks use the rails in turn. */
unsigned ori_links_rail(const struct oriel_comm *comm, unsigned peer)
{
	return (comm->rank + peer) % comm->rails;
}

const struct ori_hca_qp_address *ori_links_hca(const struct oriel_comm *comm,
					       const struct ori_rdma_link *link)
{
	const struct oriel_dev_link *dev = ori_rdma_link_device(link);

	return &comm->ranks[dev->peer].hcas[dev->rail];
}

static const struct ori_rdma_link *links_choose(const struct oriel_comm *comm, unsigned peer,
						bool for_atomics)
{
	const struct ori_rdma_link *other = comm->links[comm->size + peer];

	return for_atomics && other ? other : comm->links[peer];
}

static unsigned links_count(const struct oriel_comm *comm)
{
	return ORI_LINK_ROWS * comm->size;
}

bool ori_links_is_connected(const struct oriel_comm *comm, unsigned peer)
{
	/* Without a link @comm has let go of all peers. */
	return !ori_comm_needs_link(comm, peer) ||
	       (comm->links[peer] && ori_rdma_link_is_ready(comm->links[peer]));
}

/*
 * The peer of the link that @event is of, and its record; ORIEL_DEV_NO_RANK if it is about
 * a NIC. False: it is about a queue of p2p, whose endpoint reports it.
 */
static bool links_explain(const struct oriel_comm *comm, const struct ori_rdma_event *event,
			  struct oriel_dev_fault *record, unsigned *peer)
{
	unsigned i;

	for (i = 0; i < links_count(comm); i++) {
		*peer = i % comm->size;
		if (comm->links[i] && ori_rdma_link_explain(comm->links[i], event, record))
			return true;
	}
	*peer = ORIEL_DEV_NO_RANK;
	*record = (struct oriel_dev_fault){.status = event->of.status,
					   .what = ORIEL_DEV_LINK,
					   .peer = ORIEL_DEV_NO_RANK};
	return event->of.qpn == 0;
}

/*
 * Up to the first event that is about a NIC, or a link to a peer that is not @is_known, which goes
 * to *@found: the failure may yet be in doubt, so that the next one must not be lost. Once @comm is
 * broken no event matters.
 */
static void links_poll_events(struct oriel_comm *comm,
			      bool (*is_known)(const struct oriel_comm *comm, unsigned peer),
			      struct oriel_dev_fault *found)
{
	struct oriel_dev_fault record;
	struct ori_rdma_event event;
	bool is_news;
	unsigned peer;

	while (ori_rdma_poll_event(comm->rdma, &event) == ORIEL_OK) {
		if (!links_explain(comm, &event, &record, &peer)) {
			ori_log_rank(ORIEL_LOG_DEBUG, comm->rank, "a queue that is no link's: %s",
				     event.of.text);
			continue;
		}
		is_news = ori_comm_is_well(comm);
		ori_log_rank(is_news ? ORIEL_LOG_WARN : ORIEL_LOG_DEBUG, comm->rank,
			     "link to rank %d: %s", (int)peer, event.of.text);
		if (!is_news || (peer < comm->size && is_known(comm, peer)))
			continue;
		*found = record;
		return;
	}
}

bool ori_links_poll(struct oriel_comm *comm,
		    bool (*is_known)(const struct oriel_comm *comm, unsigned peer),
		    struct oriel_dev_fault *found)
{
	struct oriel_dev_fault record;
	unsigned i;

	*found = (struct oriel_dev_fault){.status = ORIEL_OK};
	if (!comm->rdma)
		return false;
	for (i = 0; i < links_count(comm); i++)
		if (comm->links[i] && ori_rdma_link_poll(comm->links[i], &record) &&
		    found->status == ORIEL_OK && !is_known(comm, i % comm->size))
			*found = record;
	/* The event of the NIC came before the failed poll, and says more than "flushed". */
	links_poll_events(comm, is_known, found);
	return found->status != ORIEL_OK;
}

void ori_links_seal(struct oriel_comm *comm)
{
	pthread_mutex_lock(&comm->links_lock);
	comm->are_links_sealed = true;
	pthread_mutex_unlock(&comm->links_lock);
}

void ori_links_fail(struct oriel_comm *comm)
{
	unsigned i;

	pthread_mutex_lock(&comm->links_lock);
	for (i = 0; i < links_count(comm); i++)
		if (comm->links[i])
			ori_rdma_link_fail(comm->links[i]);
	pthread_mutex_unlock(&comm->links_lock);
}

const struct oriel_dev_link *ori_links_device(const struct oriel_comm *comm, unsigned peer,
					      bool for_atomics)
{
	const struct ori_rdma_link *link = links_choose(comm, peer, for_atomics);

	return link ? ori_rdma_link_device(link) : NULL;
}

const struct oriel_dev_link *ori_links_kernel(const struct oriel_comm *comm, unsigned peer,
					      bool for_atomics)
{
	const struct ori_rdma_link *link = links_choose(comm, peer, for_atomics);

	return link ? ori_rdma_link_kernel(link) : NULL;
}

/* The NIC uses no memory for a link that failed, so that ORIEL_AGAIN alone counts. */
static bool links_are_busy(const struct oriel_comm *comm)
{
	unsigned i;

	for (i = 0; i < links_count(comm); i++)
		if (comm->links[i] && ori_rdma_link_poll_kernels(comm->links[i]) == ORIEL_AGAIN)
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
