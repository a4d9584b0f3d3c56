/* SPDX-License-Identifier: Apache-2.0 */
/* A look for failures of links that nobody may be waiting for. */
#include "transport/rdma_kernel.h"
#include "transport/rdma_pulse.h"

static struct oriel_dev_fault watch_fault(const struct ori_rdma_link *link,
					  const struct oriel_mlx5_queue *q, uint32_t what)
{
	uint64_t err = oriel_dev_load_acquire(&q->err);

	return oriel_link_fault(ori_rdma_link_device(link), q, what, oriel_mlx5_err_status(err));
}

bool ori_rdma_link_look(const struct ori_rdma_link *link, struct oriel_dev_fault *record)
{
	const struct oriel_dev_link *dev = ori_rdma_link_device(link);
	/* What follows it was there before it. */
	struct oriel_mlx5_queue *q = oriel_link_main(dev);
	struct oriel_mlx5_queue *queues[] = {q, q ? dev->companion : NULL};
	unsigned i;

	for (i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
		if (!queues[i])
			continue;
		oriel_mlx5_progress(queues[i]);
		if (!oriel_dev_load_relaxed(&queues[i]->err))
			continue;
		*record = watch_fault(link, queues[i], ORIEL_DEV_LINK);
		return true;
	}
	return false;
}

enum oriel_status ori_rdma_link_poll_kernels(const struct ori_rdma_link *link)
{
	struct oriel_mlx5_queue q;
	enum oriel_status status;
	unsigned which;

	for (which = 0; which < 2; which++) {
		status = ori_rdma_link_read_kernel(link, which, &q);
		if (status == ORIEL_ERR_NO_PATH)
			continue;
		if (status == ORIEL_OK && oriel_mlx5_ready(&q) != q.done)
			status = oriel_mlx5_poll(&q, oriel_mlx5_ready(&q) - 1);
		if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

/* The queue of kernels with number @qpn as it is now, in @copy; false if there is none. */
static bool watch_find_kernel(const struct ori_rdma_link *link, uint32_t qpn,
			      struct oriel_mlx5_queue *copy)
{
	unsigned which;

	for (which = 0; which < 2; which++)
		if (ori_rdma_link_read_kernel(link, which, copy) != ORIEL_ERR_NO_PATH &&
		    copy->qpn == qpn)
			return true;
	return false;
}

static struct oriel_mlx5_queue *watch_find(const struct ori_rdma_link *link,
					   const struct ori_rdma_event *event,
					   struct oriel_mlx5_queue *copy)
{
	const struct oriel_dev_link *dev = ori_rdma_link_device(link);
	struct oriel_mlx5_queue *q = oriel_link_main(dev);
	struct oriel_mlx5_queue *queues[] = {q, q ? dev->companion : NULL};
	unsigned i;

	for (i = 0; i < sizeof(queues) / sizeof(queues[0]); i++)
		if (queues[i] && queues[i]->qpn == event->of.qpn)
			return queues[i];
	return q && watch_find_kernel(link, event->of.qpn, copy) ? copy : NULL;
}

/* Requests of this end were flushed, or there are none: the event knows more. */
static void watch_amend(struct oriel_dev_fault *record, const struct ori_hca_event *told,
			uint64_t done)
{
	if (told->syndrome && oriel_mlx5_err_syndrome(record->seen) != told->syndrome) {
		record->what = ORIEL_DEV_LINK;
		record->seen =
			oriel_mlx5_err(ORIEL_MLX5_ERROR_CQE, told->syndrome, told->vendor, done);
		record->status = oriel_mlx5_err_status(record->seen);
	}
	if (record->status == ORIEL_OK)
		record->status = told->status;
}

static void watch_explain_pulse(const struct ori_rdma_link *link, const struct ori_hca_event *told,
				struct oriel_dev_fault *record)
{
	struct ori_rdma_pulse *p = ori_rdma_link_pulse(link);

	ori_rdma_pulse_progress(p);
	ori_rdma_pulse_fault(link, record);
	watch_amend(record, told, p->done);
	record->what = ori_rdma_pulse_what((enum oriel_status)record->status);
}

bool ori_rdma_link_explain(const struct ori_rdma_link *link, const struct ori_rdma_event *event,
			   struct oriel_dev_fault *record)
{
	const struct ori_hca_event *told = &event->of;
	struct oriel_mlx5_queue copy, *q;

	if (event->rail != ori_rdma_link_device(link)->rail || !ori_rdma_link_is_ready(link))
		return false;
	if (ori_rdma_link_pulse(link)->address.qpn == told->qpn) {
		watch_explain_pulse(link, told, record);
		return true;
	}
	q = watch_find(link, event, &copy);
	if (!q)
		return false;
	oriel_mlx5_progress(q);
	*record = watch_fault(link, q, ORIEL_DEV_LINK);
	watch_amend(record, told, oriel_dev_load_relaxed(&q->done));
	return true;
}
