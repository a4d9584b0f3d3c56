/* SPDX-License-Identifier: Apache-2.0 */
/* What the host itself does with links: small writes of its own, and a look for failures. */
#include "transport/rdma_kernel.h"
#include "transport/transport.h"

#define WATCH_PIECES 4u /* of one post; the queue takes twice as many */

static_assert(ORI_RDMA_PIECE <= ORIEL_MLX5_INLINE_MAX, "a piece travels inside its request");

enum oriel_status ori_rdma_pulse_post(const struct ori_rdma_link *link,
				      const struct oriel_dev_keys *rkeys,
				      const struct ori_rdma_piece *pieces, unsigned count)
{
	uint32_t rkey = rkeys->rail[ori_rdma_link_device(link)->rail];
	struct oriel_mlx5_queue *q = ori_rdma_link_pulse(link);
	/* Nobody is in the middle of a post when one is reserved: there is nothing to wait for. */
	struct oriel_mlx5_limits limits = {NULL, ORIEL_FOREVER, 1, 0};
	enum oriel_status status;
	uint64_t base;
	unsigned i;

	assert(count <= WATCH_PIECES);
	status = oriel_mlx5_try_reserve(q, count, &base);
	if (status != ORIEL_OK)
		return status;
	for (i = 0; i < count; i++) {
		struct oriel_mlx5_place place = {pieces[i].at, rkey};

		oriel_mlx5_wqe_write_inline(oriel_mlx5_slot(q, base + i),
					    oriel_mlx5_head_of(q, base + i, ORIEL_MLX5_FENCE_NONE),
					    place, pieces[i].data, pieces[i].length);
	}
	return oriel_mlx5_post(q, base, count, &limits);
}

enum oriel_status ori_rdma_pulse_poll(const struct ori_rdma_link *link)
{
	struct oriel_mlx5_queue *q = ori_rdma_link_pulse(link);
	uint64_t ready = oriel_mlx5_ready(q);

	return ready ? oriel_mlx5_poll(q, ready - 1) : ORIEL_OK;
}

static struct oriel_dev_fault watch_fault(const struct ori_rdma_link *link,
					  const struct oriel_mlx5_queue *q, uint32_t what)
{
	uint64_t err = oriel_dev_load_acquire(&q->err);

	return oriel_link_fault(ori_rdma_link_device(link), q, what, oriel_mlx5_err_status(err));
}

void ori_rdma_pulse_fault(const struct ori_rdma_link *link, struct oriel_dev_fault *record)
{
	*record = watch_fault(link, ori_rdma_link_pulse(link), ORIEL_DEV_LINK);
	/* What the host writes for itself is no operation of a user. */
	record->what = record->status == ORIEL_ERR_PEER ? ORIEL_DEV_LOST : ORIEL_DEV_LINK;
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
	struct oriel_mlx5_queue *queues[] = {q, q ? dev->companion : NULL,
					     q ? ori_rdma_link_pulse(link) : NULL};
	unsigned i;

	if (event->rail != dev->rail)
		return NULL;
	for (i = 0; i < sizeof(queues) / sizeof(queues[0]); i++)
		if (queues[i] && queues[i]->qpn == event->of.qpn)
			return queues[i];
	return q && watch_find_kernel(link, event->of.qpn, copy) ? copy : NULL;
}

bool ori_rdma_link_explain(const struct ori_rdma_link *link, const struct ori_rdma_event *event,
			   struct oriel_dev_fault *record)
{
	const struct ori_hca_event *told = &event->of;
	struct oriel_mlx5_queue copy;
	struct oriel_mlx5_queue *q = watch_find(link, event, &copy);

	if (!q)
		return false;
	oriel_mlx5_progress(q);
	*record = watch_fault(link, q, ORIEL_DEV_LINK);
	/* Requests of this end were flushed, or there are none: the event knows more. */
	if (told->syndrome && oriel_mlx5_err_syndrome(record->seen) != told->syndrome) {
		record->what = ORIEL_DEV_LINK;
		record->id = q->qpn;
		record->seen = oriel_mlx5_err(ORIEL_MLX5_ERROR_CQE, told->syndrome, told->vendor,
					      oriel_dev_load_relaxed(&q->done));
		record->status = oriel_mlx5_err_status(record->seen);
	}
	if (record->status == ORIEL_OK)
		record->status = told->status;
	if (q == ori_rdma_link_pulse(link))
		record->what = record->status == ORIEL_ERR_PEER ? ORIEL_DEV_LOST : ORIEL_DEV_LINK;
	return true;
}
