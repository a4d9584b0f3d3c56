/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues with rings, and the doorbells that posters ring. rdma_link.c calls it for links
 * whose callers post themselves.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rdma/rdma_rail.h"

#define RDMA_DOORBELL_AT 0x800u /* of the first slot in a doorbell page */
#define RDMA_SLOTS ((RDMA_PAGE - RDMA_DOORBELL_AT) / sizeof(uint64_t))

/* Kernels ring doorbells in the page, too. */
static enum oriel_status rdma_pin_page(struct rdma_rail *r, void *page)
{
	void **more = realloc(r->pages, (r->page_count + 1) * sizeof(*more));
	enum oriel_status status;

	if (!more)
		return ori_fail_nomem((r->page_count + 1) * sizeof(*more), "doorbells");
	r->pages = more;
	status = r->gpu->ops->pin(r->gpu, page, RDMA_PAGE);
	if (status == ORIEL_OK)
		more[r->page_count++] = page;
	return status;
}

static enum oriel_status rdma_add_page(struct rdma_rail *r)
{
	size_t room = r->free_room + RDMA_SLOTS, i;
	struct rdma_doorbell *more = realloc(r->free, room * sizeof(*more));
	enum oriel_status status;
	char *page;

	if (!more)
		return ori_fail_nomem(room * sizeof(*more), "doorbells");
	r->free = more;
	status = r->caps.rings->doorbell_page(r->hca, (void **)&page);
	if (status == ORIEL_OK && r->gpu)
		status = rdma_pin_page(r, page);
	if (status != ORIEL_OK)
		return status;
	r->free_room = room;
	for (i = 0; i < RDMA_SLOTS; i++) {
		more[r->free_count].word = (uint64_t *)(void *)(page + RDMA_DOORBELL_AT) + i;
		more[r->free_count++].asleep = (uint32_t *)(void *)page;
	}
	return ORIEL_OK;
}

/* Each queue gets a doorbell of its own; the pages are freed with the NIC. */
static enum oriel_status rdma_take_doorbell(struct rdma_rail *r, struct ori_dev_mlx5_queue *q)
{
	struct rdma_doorbell *taken;
	enum oriel_status status;

	if (!r->free_count) {
		status = rdma_add_page(r);
		if (status != ORIEL_OK)
			return status;
	}
	taken = &r->free[--r->free_count];
	*taken->word = 0; /* the queue that used it before is destroyed */
	q->doorbell = taken->word;
	q->asleep = taken->asleep;
	return ORIEL_OK;
}

static void rdma_give_doorbell(struct rdma_rail *r, const struct ori_dev_mlx5_queue *q)
{
	struct rdma_doorbell *given = &r->free[r->free_count++];

	given->word = q->doorbell;
	given->asleep = q->asleep;
}

static unsigned rdma_log2(uint32_t depth)
{
	return 31 - (unsigned)__builtin_clz(depth);
}

void ori_rdma_queue_close(struct rdma_rail *r, struct rdma_queue *q)
{
	if (q->qp)
		r->ops->destroy_qp(q->qp);
	if (q->cq)
		r->ops->destroy_cq(q->cq);
	if (q->dev && q->dev->doorbell && !r->caps.rings->place)
		rdma_give_doorbell(r, q->dev);
	if (q->pinned)
		ori_mem_unref_pinned(r->gpu, q->pinned);
	else
		free(q->rings);
	free(q->dev);
	memset(q, 0, sizeof(*q));
}

/*
 * The software HCA reads and writes rings as the CPU does, so that its rings of kernels are
 * pinned host memory. HCAs that place their rings do not come here.
 */
static enum oriel_status rdma_alloc_rings(const struct ori_gpu *gpu, struct rdma_queue *q,
					  size_t length)
{
	enum oriel_status status;

	if (!gpu) {
		q->rings = aligned_alloc(RDMA_PAGE, length);
		return q->rings ? ORIEL_OK : ORIEL_ERR_NOMEM;
	}
	status = ori_mem_alloc_pinned(gpu, length, &q->pinned);
	if (status == ORIEL_OK)
		q->rings = q->pinned->address;
	return status;
}

static enum oriel_status rdma_open_words(struct rdma_queue *q, uint32_t depth)
{
	q->dev = aligned_alloc(ORIEL_DEV_LINE, sizeof(*q->dev));
	if (!q->dev)
		return ori_fail_nomem(sizeof(*q->dev), "rings of %u WQEs", depth);
	memset(q->dev, 0, sizeof(*q->dev));
	q->dev->log_depth = rdma_log2(depth);
	return ORIEL_OK;
}

/* @gpu NULL: the CPU posts. */
static enum oriel_status rdma_open_rings(const struct ori_gpu *gpu, struct rdma_queue *q,
					 uint32_t depth)
{
	size_t ring = (size_t)depth * ORIEL_MLX5_BLOCK;
	size_t length = (2 * ring + 2 * RDMA_PAGE - 1) / RDMA_PAGE * RDMA_PAGE;
	enum oriel_status status = rdma_alloc_rings(gpu, q, length);

	if (status == ORIEL_ERR_NOMEM)
		return ori_fail_nomem(length, "rings of %u WQEs", depth);
	if (status != ORIEL_OK)
		return status;
	memset(q->rings, 0, 2 * ring + RDMA_PAGE);
	q->dev->sq = q->rings;
	q->dev->cq = (char *)q->rings + ring;
	q->dev->record = (uint32_t *)(void *)((char *)q->rings + 2 * ring);
	return ORIEL_OK;
}

/*
 * A NIC that makes the rings itself says by place() where they are; else it uses the
 * rings of rdma_open_rings().
 */
static enum oriel_status rdma_make_queue(struct rdma_rail *r, struct rdma_queue *q,
					 const struct ori_hca_cq_attr *cq,
					 struct ori_hca_qp_attr *qp)
{
	enum oriel_status status = r->ops->create_cq(r->hca, cq, &q->cq, &q->dev->cqn);
	struct ori_hca_queue_memory memory;

	if (status != ORIEL_OK)
		return status;
	qp->send_cq = q->cq;
	status = r->ops->create_qp(r->hca, qp, &q->qp, &q->address);
	if (status != ORIEL_OK || !r->caps.rings->place)
		return status;
	r->caps.rings->place(q->qp, &memory);
	q->dev->sq = memory.sq;
	q->dev->cq = memory.cq;
	q->dev->record = memory.record;
	q->dev->doorbell = memory.doorbell;
	q->dev->asleep = memory.asleep;
	return ORIEL_OK;
}

static enum oriel_status rdma_open_queue(struct rdma_rail *r, const struct ori_gpu *gpu,
					 struct rdma_queue *q, uint32_t depth, bool is_companion)
{
	struct ori_hca_cq_attr cq = {.depth = depth, .first = r->caps.first};
	struct ori_hca_qp_attr qp = {.depth = depth,
				     .first = r->caps.first,
				     .is_companion = is_companion};
	enum oriel_status status;

	cq.has_own_ring = qp.has_own_ring = r->caps.rings->place != NULL;
	cq.is_for_gpu = qp.is_for_gpu = gpu && r->caps.rings->place;
	status = rdma_open_words(q, depth);
	if (status == ORIEL_OK && !r->caps.rings->place)
		status = rdma_open_rings(gpu, q, depth);
	if (status == ORIEL_OK && !r->caps.rings->place)
		status = rdma_take_doorbell(r, q->dev);
	if (status != ORIEL_OK)
		return status;
	if (!r->caps.rings->place) {
		cq.ring = (char *)q->rings + (size_t)depth * ORIEL_MLX5_BLOCK;
		qp.ring = q->rings;
		qp.record = q->dev->record;
		qp.doorbell = q->dev->doorbell;
		q->dev->record[1] = ori_dev_mlx5_record_value(qp.first);
	}
	status = rdma_make_queue(r, q, &cq, &qp);
	if (status != ORIEL_OK)
		return status;
	q->dev->qpn = q->address.qpn;
	q->dev->sink_lkey = r->sink_lkey;
	if (!r->caps.is_atomic_host_endian)
		q->dev->flags |= ORIEL_MLX5_ATOMICS_SWAPPED;
	ori_dev_mlx5_queue_begin(q->dev, qp.first);
	return ORIEL_OK;
}

enum oriel_status ori_rdma_queues_open(struct rdma_rail *r, const struct ori_gpu *gpu,
				       uint32_t depth, struct rdma_queue *q,
				       struct rdma_queue *companion)
{
	enum oriel_status status;

	status = rdma_open_queue(r, gpu, q, depth, false);
	if (status != ORIEL_OK || !r->caps.has_wait)
		return status;
	/* The companion posts two WQEs, a WAIT and an atomic, for each WQE of the main queue. */
	if (2 * depth <= r->caps.depth_max)
		depth *= 2;
	status = rdma_open_queue(r, gpu, companion, depth, true);
	if (status == ORIEL_OK)
		status = r->ops->connect_qp(companion->qp, &companion->address);
	return status;
}
