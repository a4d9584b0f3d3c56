/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and closes the ring, the queue pair and the lane of a link's end whose requests a
 * proxy posts. rdma_link.c and rdma_watch.c call it.
 */
#include "rdma/rdma_proxied.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define PROXIED_PAGE 4096u

static size_t proxied_length(uint32_t depth)
{
	size_t length =
		depth * sizeof(struct ori_dev_proxy_entry) + sizeof(struct ori_dev_proxy_words);

	return (length + PROXIED_PAGE - 1) / PROXIED_PAGE * PROXIED_PAGE;
}

/*
 * Memory that posters and the proxy share; pinned for kernels, since the CPU reads their
 * entries.
 */
static enum oriel_status proxied_alloc(struct ori_proxied *p, size_t length)
{
	enum oriel_status status;

	if (!p->attr.gpu) {
		p->shared = aligned_alloc(PROXIED_PAGE, length);
		return p->shared ? ORIEL_OK
				 : ori_fail_nomem(length, "a ring of %u entries", p->attr.depth);
	}
	status = ori_mem_alloc_pinned(p->attr.gpu, length, &p->pinned);
	if (status == ORIEL_OK)
		p->shared = p->pinned->address;
	return status;
}

static enum oriel_status proxied_open_ring(struct ori_proxied *p)
{
	size_t length = proxied_length(p->attr.depth);
	enum oriel_status status = proxied_alloc(p, length);

	if (status != ORIEL_OK)
		return status;
	memset(p->shared, 0, length);
	p->ring = aligned_alloc(ORIEL_DEV_LINE, sizeof(*p->ring));
	if (!p->ring)
		return ori_fail_nomem(sizeof(*p->ring), "a ring of %u entries", p->attr.depth);
	memset(p->ring, 0, sizeof(*p->ring));
	p->ring->entries = p->shared;
	p->ring->words = (struct ori_dev_proxy_words *)(void *)(p->ring->entries + p->attr.depth);
	p->ring->log_depth = 31 - (uint32_t)__builtin_clz(p->attr.depth);
	return ORIEL_OK;
}

static enum oriel_status proxied_open_queue(struct ori_proxied *p)
{
	struct ori_hca_cq_attr cq = {.depth = p->attr.depth};
	struct ori_hca_qp_attr qp = {.depth = p->attr.depth};
	enum oriel_status status;
	uint32_t cqn;

	status = p->attr.ops->create_cq(p->attr.hca, &cq, &p->cq, &cqn);
	if (status != ORIEL_OK)
		return status;
	qp.send_cq = qp.receive_cq = p->cq;
	status = p->attr.ops->create_qp(p->attr.hca, &qp, &p->qp, &p->address);
	if (status == ORIEL_OK)
		p->ring->number = p->address.qpn;
	return status;
}

static enum oriel_status proxied_open_lane(struct ori_proxied *p, const struct ori_hca_caps *caps)
{
	const struct ori_proxy_lane_attr attr = {
		.ops = p->attr.ops,
		.qp = p->qp,
		.cq = p->cq,
		.depth = p->attr.depth,
		.length_max = caps->length_max,
		.sink_lkey = p->attr.sink_lkey,
		.entries = p->ring->entries,
		.words = p->ring->words,
		.log_depth = p->ring->log_depth,
		.memory = p->attr.memory,
		.loopback = p->attr.loopback,
		.flush_word = p->attr.flush_word,
	};
	enum oriel_status status = ori_proxy_lane_open(&attr, &p->lane);
	void *seat;

	if (status == ORIEL_OK)
		status = ori_proxy_thread_add(p->attr.thread, p->lane, !p->attr.gpu, &seat);
	p->is_stepped = status == ORIEL_OK;
	if (status != ORIEL_OK || p->attr.gpu)
		return status;
	p->ring->asleep = ori_proxy_thread_asleep(p->attr.thread);
	p->ring->seat = seat;
	return ORIEL_OK;
}

enum oriel_status ori_proxied_open(struct ori_proxied *p, const struct ori_proxied_attr *attr)
{
	struct ori_hca_caps caps;
	enum oriel_status status;

	memset(p, 0, sizeof(*p));
	p->attr = *attr;
	attr->ops->caps(attr->hca, &caps);
	status = proxied_open_ring(p);
	if (status != ORIEL_OK)
		return status;
	if (!caps.is_atomic_host_endian)
		p->ring->flags |= ORIEL_PROXY_ATOMICS_SWAPPED;
	status = proxied_open_queue(p);
	return status == ORIEL_OK ? proxied_open_lane(p, &caps) : status;
}

/* The thread forgets the lane first: it must not step a lane whose queue is destroyed. */
void ori_proxied_close(struct ori_proxied *p)
{
	if (p->is_stepped)
		ori_proxy_thread_remove(p->attr.thread, p->lane);
	ori_proxy_lane_close(p->lane);
	if (p->qp)
		p->attr.ops->destroy_qp(p->qp);
	if (p->cq)
		p->attr.ops->destroy_cq(p->cq);
	if (p->pinned)
		ori_mem_unref_pinned(p->attr.gpu, p->pinned);
	else
		free(p->shared);
	free(p->ring);
	memset(p, 0, sizeof(*p));
}

void ori_proxied_fail(const struct ori_proxied *p)
{
	if (p->is_stepped)
		ori_proxy_thread_fail(p->attr.thread, p->lane);
}

bool ori_proxied_poll(const struct ori_proxied *p)
{
	if (!p->is_stepped)
		return false;
	ori_proxy_thread_poll(p->attr.thread, p->lane);
	ori_dev_proxy_progress(p->ring);
	return true;
}
