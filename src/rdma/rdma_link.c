/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: the queues of this end, or the lanes of the proxy that post for it. src/comm
 * (links.c, connect.c) creates, connects and destroys them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rdma/rdma_heartbeat.h"
#include "rdma/rdma_rail.h"

#define LINK_SHALLOW 64u /* requests */

/*
 * A companion is connected to itself, as NCCL's queues for flushes are (ncclIbGdrFlush of
 * net_ib): the counters that it increments are memory of this process.
 */
struct ori_rdma_link {
	struct ori_rdma *rdma;
	struct rdma_rail *rail;
	uint32_t depth; /* of its main queues */
	struct rdma_queue main;
	struct rdma_queue companion;
	struct ori_rdma_heartbeat heartbeat;
	struct rdma_queue kernel;
	struct rdma_queue kernel_companion;
	struct ori_proxied proxied[2]; /* of the CPU and of kernels; instead of the queues */
	bool has_kernel;               /* at both ends */
	struct rdma_handle handle;
	struct ori_rdma_cell *cell; /* of the GPU; NULL without one */
};

/* Resets the handle for kernels to one without queues. */
static enum oriel_status rdma_reset_cell(const struct ori_rdma_link *link)
{
	const struct ori_gpu *gpu = link->rdma->gpu;
	struct oriel_dev_link dev = link->handle.dev;

	dev.main = dev.companion = NULL;
	dev.blame = link->rdma->links.blame;
	dev.answers = &link->cell->answers;
	return gpu->ops->copy(gpu, &link->cell->link, &dev, sizeof(dev));
}

/* Copies all words of the cell but the pointer that lets kernels post. */
static enum oriel_status rdma_fill_cell(const struct ori_rdma_link *link)
{
	struct ori_dev_mlx5_queue *companion = &link->cell->companion;
	const struct ori_gpu *gpu = link->rdma->gpu;
	struct ori_dev_link_answers answers = {0};
	enum oriel_status status;

	ori_rdma_cell_answers(&link->rdma->cells, link->cell, link->handle.dev.rail, &answers);
	if (link->rdma->reach)
		answers.reach = ori_reach_table(link->rdma->reach);
	status = gpu->ops->copy(gpu, &link->cell->answers, &answers, sizeof(answers));
	if (status == ORIEL_OK)
		status = gpu->ops->copy(gpu, &link->cell->link.unordered,
					&link->handle.dev.unordered,
					sizeof(link->handle.dev.unordered));
	if (status == ORIEL_OK && link->rdma->proxy)
		return gpu->ops->copy(gpu, &link->cell->proxy, link->proxied[1].ring,
				      sizeof(link->cell->proxy));
	if (status == ORIEL_OK)
		status = gpu->ops->copy(gpu, &link->cell->main, link->kernel.dev,
					sizeof(link->cell->main));
	if (status != ORIEL_OK || !link->kernel_companion.dev)
		return status;
	status = gpu->ops->copy(gpu, companion, link->kernel_companion.dev, sizeof(*companion));
	if (status != ORIEL_OK)
		return status;
	return gpu->ops->copy(gpu, &link->cell->link.companion, &companion, sizeof(companion));
}

enum oriel_status ori_rdma_link_create(struct ori_rdma *r, unsigned peer, unsigned rail,
				       struct ori_rdma_link **out)
{
	struct ori_rdma_link *link = calloc(1, sizeof(*link));
	enum oriel_status status;

	if (!link)
		return ori_fail_nomem(sizeof(*link), "a link to rank %u", peer);
	assert(rail < r->count);
	link->rdma = r;
	link->rail = &r->rails[rail];
	link->depth = r->links.depth;
	link->handle.links = &r->links;
	link->handle.dev.health = r->links.health;
	link->handle.dev.blame = r->links.health;
	link->handle.dev.timeout_ns = r->links.timeout_ns;
	link->handle.dev.spin = r->links.spin;
	link->handle.dev.peer = peer;
	link->handle.dev.rail = rail;
	link->handle.dev.post_kind = r->proxy ? ORIEL_LINK_PROXY : ORIEL_LINK_RINGS;
	link->handle.dev.unordered = r->is_unordered ? ORIEL_LINK_UNORDERED_LOCAL : 0;
	if (r->is_reordered)
		link->handle.dev.unordered |= ORIEL_LINK_UNORDERED_NETWORK;
	if (r->links.connect)
		link->handle.dev.unordered |= ORIEL_LINK_DEMAND;
	if (r->links.is_watched)
		link->handle.dev.unordered |= ORIEL_LINK_WATCHED;
	link->handle.dev.answers = r->posted ? ori_posted_answers(r->posted, rail) : NULL;
	if (r->gpu) {
		status = ori_rdma_cell_take(&r->cells, r->gpu, &link->cell);
		if (status == ORIEL_OK)
			status = rdma_reset_cell(link);
		if (status != ORIEL_OK) {
			ori_rdma_link_destroy(link);
			return status;
		}
	}
	*out = link;
	return ORIEL_OK;
}

void ori_rdma_link_set_unordered(struct ori_rdma_link *link, bool is_unordered, bool is_reordered)
{
	if (is_unordered)
		link->handle.dev.unordered |= ORIEL_LINK_UNORDERED_REMOTE;
	if (is_reordered)
		link->handle.dev.unordered |= ORIEL_LINK_UNORDERED_NETWORK;
}

void ori_rdma_link_set_mapped(struct ori_rdma_link *link)
{
	link->handle.dev.unordered |= ORIEL_LINK_MAPPED_TOO;
}

void ori_rdma_link_set_eager(struct ori_rdma_link *link)
{
	link->handle.dev.unordered &= (uint16_t)~ORIEL_LINK_DEMAND;
}

void ori_rdma_link_set_shallow(struct ori_rdma_link *link)
{
	if (link->depth > LINK_SHALLOW)
		link->depth = LINK_SHALLOW;
}

/* The sge of any memory of this process, for a NIC that reaches all of it by one key. */
static enum oriel_status rdma_find_whole(void *context, uint64_t address, uint64_t length,
					 bool is_target, struct ori_proxy_sge *sge)
{
	const struct rdma_rail *r = context;

	(void)length, (void)is_target;
	*sge = (struct ori_proxy_sge){.address = address, .key = r->whole_lkey};
	return ORIEL_OK;
}

static enum oriel_status rdma_open_proxied(struct ori_rdma_link *link, const struct ori_gpu *gpu,
					   struct ori_proxied *p)
{
	struct rdma_rail *r = link->rail;
	struct ori_proxied_attr attr = {
		.ops = r->ops,
		.hca = r->hca,
		.gpu = gpu,
		.depth = link->depth,
		.sink_lkey = r->sink_lkey,
		.memory = {r, rdma_find_whole, NULL},
		.loopback = r->loopback,
		.flush_word = {0, link->rdma->flush_rkeys.rail[link->handle.dev.rail]},
		.thread = link->rdma->proxy,
	};

	if (!ori_rdma_is_whole(link->rdma))
		attr.memory = ori_memory_of_rail(link->rdma->memory, link->handle.dev.rail);
	return ori_proxied_open(p, &attr);
}

/* Opens the queues or the lane that callers post to; those of kernels if @gpu. */
static enum oriel_status rdma_open_post(struct ori_rdma_link *link, const struct ori_gpu *gpu)
{
	uint32_t depth = link->depth;

	if (link->rdma->proxy)
		return rdma_open_proxied(link, gpu, &link->proxied[!!gpu]);
	if (gpu)
		return ori_rdma_queues_open(link->rail, gpu, depth, &link->kernel,
					    &link->kernel_companion);
	return ori_rdma_queues_open(link->rail, NULL, depth, &link->main, &link->companion);
}

/*
 * The address of the queue that the CPU (0) or kernels (1) post to; its number is 0 if
 * there is none.
 */
static const struct ori_hca_qp_address *rdma_address_of(const struct ori_rdma_link *link,
							unsigned which)
{
	if (link->rdma->proxy)
		return &link->proxied[which].address;
	return which ? &link->kernel.address : &link->main.address;
}

enum oriel_status ori_rdma_link_open(struct ori_rdma_link *link, struct ori_rdma_qps *qps)
{
	struct rdma_rail *r = link->rail;
	enum oriel_status status;

	assert(!rdma_address_of(link, 0)->qpn);
	status = rdma_open_post(link, NULL);
	if (status == ORIEL_OK)
		status = ori_rdma_heartbeat_open(r->ops, r->hca, r->sink_lkey, &link->handle.dev,
						 &link->heartbeat);
	if (status == ORIEL_OK && link->cell)
		status = rdma_open_post(link, r->gpu);
	if (status != ORIEL_OK) {
		ori_rdma_link_close(link);
		return status;
	}
	*qps = (struct ori_rdma_qps){
		.main_qpn = rdma_address_of(link, 0)->qpn,
		.main_psn = rdma_address_of(link, 0)->psn,
		.heartbeat_qpn = link->heartbeat.end.of[0].qpn,
		.heartbeat_psn = link->heartbeat.end.of[0].psn,
		.kernel_qpn = rdma_address_of(link, 1)->qpn,
		.kernel_psn = rdma_address_of(link, 1)->psn,
	};
	return ORIEL_OK;
}

/* The queue with @qpn and @psn of @hca_address. */
static struct ori_hca_qp_address rdma_address(const struct ori_hca_qp_address *hca_address,
					      uint32_t qpn, uint32_t psn)
{
	struct ori_hca_qp_address address = *hca_address;

	address.qpn = qpn;
	address.psn = psn;
	return address;
}

static struct ori_hca_qp *rdma_qp_of(const struct ori_rdma_link *link, unsigned which)
{
	if (link->rdma->proxy)
		return link->proxied[which].qp;
	return which ? link->kernel.qp : link->main.qp;
}

/* The NIC of the peer executes what this one sends, so both must have masked atomics. */
static void rdma_note_masked(const struct ori_rdma_link *link,
			     const struct ori_hca_qp_address *hca_address)
{
	if (!link->rail->caps.has_masked || !(hca_address->flags & ORI_HCA_ADDRESS_MASKED))
		return;
	if (link->main.dev)
		link->main.dev->flags |= ORIEL_MLX5_ATOMICS_MASKED;
	if (link->kernel.dev)
		link->kernel.dev->flags |= ORIEL_MLX5_ATOMICS_MASKED;
}

enum oriel_status ori_rdma_link_connect(struct ori_rdma_link *link,
					const struct ori_hca_qp_address *hca_address,
					const struct ori_rdma_qps *qps)
{
	struct ori_hca_qp_address main = rdma_address(hca_address, qps->main_qpn, qps->main_psn);
	struct ori_hca_qp_address heartbeat =
		rdma_address(hca_address, qps->heartbeat_qpn, qps->heartbeat_psn);
	struct ori_hca_qp_address kernel =
		rdma_address(hca_address, qps->kernel_qpn, qps->kernel_psn);
	const struct ori_hca_ops *ops = link->rail->ops;
	enum oriel_status status;

	rdma_note_masked(link, hca_address);
	status = ops->connect_qp(rdma_qp_of(link, 0), &main);
	if (status == ORIEL_OK)
		status = ori_rdma_heartbeat_connect(&link->heartbeat, &heartbeat);
	if (status != ORIEL_OK || !link->cell || !qps->kernel_qpn)
		return status;
	status = ops->connect_qp(rdma_qp_of(link, 1), &kernel);
	if (status == ORIEL_OK)
		status = rdma_fill_cell(link);
	link->has_kernel = status == ORIEL_OK;
	return status;
}

void ori_rdma_link_begin(struct ori_rdma_link *link)
{
	const struct ori_gpu *gpu = link->rdma->gpu;
	void *kernel;

	if (link->has_kernel) {
		kernel = link->rdma->proxy ? (void *)&link->cell->proxy : &link->cell->main;
		/*
		 * No caller takes the status: if the copy fails, kernels find a link that
		 * is not connected.
		 */
		(void)gpu->ops->copy(gpu, &link->cell->link.main, &kernel, sizeof(kernel));
	}
	ori_dev_link_connected(&link->handle.dev,
			       link->rdma->proxy ? (void *)link->proxied[0].ring : link->main.dev,
			       link->companion.dev);
}

bool ori_rdma_link_is_ready(const struct ori_rdma_link *link)
{
	return ori_dev_link_is_connected(&link->handle.dev);
}

const struct oriel_dev_link *ori_rdma_link_device(const struct ori_rdma_link *link)
{
	return &link->handle.dev;
}

const struct oriel_dev_link *ori_rdma_link_kernel(const struct ori_rdma_link *link)
{
	return link->cell ? &link->cell->link : NULL;
}

enum oriel_status ori_rdma_link_read_kernel(const struct ori_rdma_link *link, unsigned which,
					    struct ori_dev_mlx5_queue *copy)
{
	const struct rdma_queue *q = which ? &link->kernel_companion : &link->kernel;
	const struct ori_gpu *gpu = link->rdma->gpu;

	if (!link->has_kernel || !q->dev)
		return ORIEL_ERR_NO_PATH;
	memcpy(copy, q->dev, sizeof(*copy));
	return gpu->ops->copy(gpu, copy, which ? &link->cell->companion : &link->cell->main,
			      sizeof(*copy));
}

const struct ori_proxied *ori_rdma_link_proxied(const struct ori_rdma_link *link, unsigned which)
{
	return &link->proxied[which];
}

enum oriel_status ori_rdma_link_read_proxied(const struct ori_rdma_link *link,
					     struct ori_dev_proxy_ring *copy)
{
	const struct ori_gpu *gpu = link->rdma->gpu;

	if (!link->has_kernel || !link->proxied[1].ring)
		return ORIEL_ERR_NO_PATH;
	memcpy(copy, link->proxied[1].ring, sizeof(*copy));
	return gpu->ops->copy(gpu, copy, &link->cell->proxy, sizeof(*copy));
}

struct ori_rdma_heartbeat *ori_rdma_link_heartbeat(const struct ori_rdma_link *link)
{
	/* The watcher owns its state, but has no more than a borrowed link. */
	return (struct ori_rdma_heartbeat *)&link->heartbeat;
}

void ori_rdma_link_close(struct ori_rdma_link *link)
{
	struct ori_posted *posted = link->rdma->posted;
	struct ori_posted_ref *refs = ori_posted_take(posted, link->main.dev);

	/* The companion first: it waits for completions of the main queue. */
	ori_rdma_queue_close(link->rail, &link->companion);
	ori_rdma_queue_close(link->rail, &link->main);
	ori_posted_drop(posted, refs);
	ori_proxied_close(&link->proxied[0]);
	ori_rdma_heartbeat_close(&link->heartbeat);
	if (!link->cell)
		return;
	if (link->has_kernel)
		(void)rdma_reset_cell(link);
	link->has_kernel = false;
	ori_rdma_queue_close(link->rail, &link->kernel_companion);
	ori_rdma_queue_close(link->rail, &link->kernel);
	ori_proxied_close(&link->proxied[1]);
}

static void rdma_fail_queue(const struct rdma_rail *r, const struct rdma_queue *q)
{
	if (q->qp)
		r->ops->fail_qp(q->qp);
}

void ori_rdma_link_fail(const struct ori_rdma_link *link)
{
	if (!ori_rdma_link_is_ready(link))
		return;
	/*
	 * The companions fail first: one that has failed sends nothing and receives nothing,
	 * while the flushed requests of a main queue may end its waits.
	 */
	rdma_fail_queue(link->rail, &link->companion);
	rdma_fail_queue(link->rail, &link->kernel_companion);
	rdma_fail_queue(link->rail, &link->main);
	rdma_fail_queue(link->rail, &link->kernel);
	ori_proxied_fail(&link->proxied[0]);
	ori_proxied_fail(&link->proxied[1]);
}

void ori_rdma_link_destroy(struct ori_rdma_link *link)
{
	if (!link)
		return;
	ori_rdma_link_close(link);
	if (link->cell)
		ori_rdma_cell_give(&link->rdma->cells, link->cell);
	free(link);
}
