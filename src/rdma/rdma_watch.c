/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds failures of links that no thread may be waiting for, and explains events of NICs.
 * The watcher of src/comm calls it.
 */
#include "hca/syndrome.h"
#include "rdma/rdma_heartbeat.h"
#include "rdma/rdma_kernel.h"
#include "rdma/rdma_proxied.h"

static struct oriel_dev_fault watch_fault(const struct ori_rdma_link *link,
					  struct ori_dev_link_queue q)
{
	struct oriel_dev_fault record = {0};

	ori_dev_link_fault(ori_rdma_link_device(link), q, ORIEL_DEV_LINK,
			   ori_dev_queue_err_status(ori_dev_link_err(q)), &record);
	return record;
}

/*
 * The ring that a proxy serves for the CPU (@which 0) or for kernels (1); empty if there
 * is none.
 */
static struct ori_dev_link_queue watch_proxied(const struct ori_rdma_link *link, unsigned which)
{
	const struct ori_proxied *p = ori_rdma_link_proxied(link, which);

	return (struct ori_dev_link_queue){NULL, p->ring};
}

bool ori_rdma_link_poll(const struct ori_rdma_link *link, struct oriel_dev_fault *record)
{
	const struct oriel_dev_link *dev = ori_rdma_link_device(link);
	struct ori_dev_link_queue queues[3] = {ori_dev_link_main(dev)};
	unsigned i;

	if (!ori_dev_link_has(queues[0]))
		return false;
	/* Both were set before the main queue, whose pointer was acquired above. */
	queues[1].ring = dev->companion;
	queues[2] = watch_proxied(link, 1);
	for (i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
		if (!ori_dev_link_has(queues[i]))
			continue;
		ori_dev_link_progress(queues[i]);
		if (!ori_dev_link_err(queues[i]))
			continue;
		*record = watch_fault(link, queues[i]);
		return true;
	}
	return false;
}

static enum oriel_status watch_poll_proxied(const struct ori_rdma_link *link)
{
	struct ori_dev_proxy_ring r;
	enum oriel_status status = ori_rdma_link_read_proxied(link, &r);

	if (status == ORIEL_OK && ori_dev_proxy_reserved(&r))
		status = ori_dev_proxy_poll(&r, ori_dev_proxy_reserved(&r) - 1);
	return status;
}

enum oriel_status ori_rdma_link_poll_kernels(const struct ori_rdma_link *link)
{
	enum oriel_status status = watch_poll_proxied(link);
	struct ori_dev_mlx5_queue q;
	unsigned which;

	if (status != ORIEL_ERR_NO_PATH)
		return status;
	for (which = 0; which < 2; which++) {
		status = ori_rdma_link_read_kernel(link, which, &q);
		if (status == ORIEL_ERR_NO_PATH)
			continue;
		if (status == ORIEL_OK && ori_dev_mlx5_ready(&q) != q.done)
			status = ori_dev_mlx5_poll(&q, ori_dev_mlx5_ready(&q) - 1);
		if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

/* The queue of kernels with number @qpn as it is now, in @copy; false if there is none. */
static bool watch_find_kernel(const struct ori_rdma_link *link, uint32_t qpn,
			      struct ori_dev_mlx5_queue *copy)
{
	unsigned which;

	for (which = 0; which < 2; which++)
		if (ori_rdma_link_read_kernel(link, which, copy) != ORIEL_ERR_NO_PATH &&
		    copy->qpn == qpn)
			return true;
	return false;
}

static struct ori_dev_mlx5_queue *watch_find_ring(const struct ori_rdma_link *link, uint32_t qpn,
						  struct ori_dev_mlx5_queue *copy)
{
	const struct oriel_dev_link *dev = ori_rdma_link_device(link);
	struct ori_dev_mlx5_queue *main = ori_dev_link_main(dev).ring;

	if (main && main->qpn == qpn)
		return main;
	if (dev->companion && dev->companion->qpn == qpn)
		return dev->companion;
	return watch_find_kernel(link, qpn, copy) ? copy : NULL;
}

/* The queue with number @qpn, after all completions of the NIC have been taken. */
static struct ori_dev_link_queue watch_find(const struct ori_rdma_link *link, uint32_t qpn,
					    struct ori_dev_mlx5_queue *copy)
{
	struct ori_dev_link_queue q;
	unsigned which;

	for (which = 0; which < 2; which++) {
		q = watch_proxied(link, which);
		if (q.proxy && q.proxy->number == qpn &&
		    ori_proxied_poll(ori_rdma_link_proxied(link, which)))
			return q;
	}
	q = (struct ori_dev_link_queue){watch_find_ring(link, qpn, copy), NULL};
	if (q.ring)
		ori_dev_mlx5_progress(q.ring);
	return q;
}

static uint64_t watch_done(struct ori_dev_link_queue q)
{
	return oriel_dev_load_relaxed(ori_dev_link_is_proxied(q) ? &q.proxy->done : &q.ring->done);
}

/* Requests of this end were flushed, or there are none: the event has the cause. */
static void watch_amend(struct oriel_dev_fault *record, const struct ori_hca_event *hca_event,
			uint64_t done)
{
	if (hca_event->syndrome &&
	    ori_dev_queue_err_syndrome(record->seen) != hca_event->syndrome) {
		record->what = ORIEL_DEV_LINK;
		record->seen = ori_dev_queue_err(ORIEL_QUEUE_ERROR_CQE, hca_event->syndrome,
						 hca_event->vendor, done);
		record->status = ori_dev_queue_err_status(record->seen);
	}
	if (record->status == ORIEL_OK)
		record->status = hca_event->status;
}

static void watch_explain_heartbeat(const struct ori_rdma_link *link,
				    const struct ori_hca_event *hca_event,
				    struct oriel_dev_fault *record)
{
	struct ori_rdma_heartbeat *p = ori_rdma_link_heartbeat(link);

	(void)ori_host_progress(p->link);
	ori_rdma_heartbeat_fault(p, record);
	watch_amend(record, hca_event, ori_host_done(p->link));
	record->what = ori_rdma_heartbeat_what((enum oriel_status)record->status);
}

bool ori_rdma_link_explain(const struct ori_rdma_link *link, const struct ori_rdma_event *event,
			   struct oriel_dev_fault *record)
{
	const struct ori_hca_event *hca_event = &event->of;
	struct ori_dev_mlx5_queue copy;
	struct ori_dev_link_queue q;

	if (event->rail != ori_rdma_link_device(link)->rail || !ori_rdma_link_is_ready(link))
		return false;
	if (ori_rdma_link_heartbeat(link)->end.of[0].qpn == hca_event->qpn) {
		watch_explain_heartbeat(link, hca_event, record);
		return true;
	}
	q = watch_find(link, hca_event->qpn, &copy);
	if (!ori_dev_link_has(q))
		return false;
	*record = watch_fault(link, q);
	watch_amend(record, hca_event, watch_done(q));
	ori_dev_link_own_access(q, record);
	return true;
}

const char *ori_rdma_error_text(uint64_t err)
{
	switch (ori_dev_queue_err_state(err)) {
	case ORIEL_QUEUE_OK:
		return "";
	case ORIEL_QUEUE_ERROR_CQE:
		return ori_syndrome_text((uint8_t)ori_dev_queue_err_syndrome(err));
	case ORIEL_QUEUE_STRAY_CQE:
		return "the completion of another request";
	case ORIEL_QUEUE_ABANDONED:
		return "a thread gave up in the middle of a post";
	case ORIEL_QUEUE_CONDEMNED:
		return "given up by the host";
	}
	return "for an unknown reason";
}
