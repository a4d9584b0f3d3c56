/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backend "rdma": through the NICs of all rails, by a link that the host drives
 * (rdma/rdma_host.h). p2p.c chooses it by the path to the peer.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "p2p/p2p.h"
#include "rdma/rdma_host.h"

#define RDMA_DOUBT_NS 5000000000u /* the kernel may need seconds to free what was pinned */

static_assert(sizeof(struct ori_host_qps) == P2P_LINK_INFO, "the endpoint of a link fits a frame");

/* Rail i joins the i-th NICs of both; the context with more of them leaves some to others. */
static unsigned rdma_rails(const struct oriel_p2p *p2p)
{
	return p2p->address.rails < p2p->peer.rails ? p2p->address.rails : p2p->peer.rails;
}

static enum oriel_status rdma_open_link(struct oriel_p2p *p2p)
{
	struct oriel_p2p_context *ctx = p2p->ctx;
	struct ori_host_attr attr = {.immediates = P2P_IMMEDIATES, .queues = p2p->queues};
	struct ori_host_qps end;
	enum oriel_status status = ori_p2p_context_need_rdma(ctx);
	unsigned rail;

	/* Another kernel is another machine, or a network namespace. */
	if (status == ORIEL_OK && p2p->address.kernel != p2p->peer.kernel)
		status = ori_rdma_check_remote(ctx->rdma);
	if (status == ORIEL_OK && p2p->address.kernel != p2p->peer.kernel)
		status = ori_rdma_listen(ctx->rdma);
	if (status == ORIEL_OK && !p2p->area.mr)
		status = ori_p2p_context_register(ctx, &p2p->area);
	if (status != ORIEL_OK)
		return status;
	attr.ops = ori_rdma_ops(ctx->rdma);
	attr.rails = rdma_rails(p2p);
	for (rail = 0; rail < attr.rails; rail++)
		attr.hcas[rail] = ori_rdma_hca(ctx->rdma, rail);
	attr.first_rail = p2p->rail;
	attr.is_reordered = ori_rdma_is_reordered(ctx->rdma);
	status = ori_host_create(&attr, &p2p->link.host, &end);
	if (status != ORIEL_OK)
		return status;
	memcpy(p2p->link.host_endpoint, &end, sizeof(end));
	p2p->link.queues = end.queues;
	return ORIEL_OK;
}

static enum oriel_status rdma_open(struct oriel_p2p *p2p, struct p2p_endpoint_info *mine, int *fds,
				   unsigned *nfds)
{
	enum oriel_status status = ORIEL_OK;
	unsigned rail;

	(void)fds;
	*nfds = 0;
	/* Called once more if the socket took nothing. */
	if (!p2p->link.host)
		status = rdma_open_link(p2p);
	if (status != ORIEL_OK)
		return status;
	for (rail = 0; rail < rdma_rails(p2p); rail++)
		ori_rdma_describe(p2p->ctx->rdma, rail, &mine->rdma.nics[rail]);
	mine->hca_kind = ori_rdma_kind(p2p->ctx->rdma);
	memcpy(mine->rdma.link, p2p->link.host_endpoint, sizeof(mine->rdma.link));
	mine->rdma.segment_rkeys = p2p->area.rkeys;
	mine->rdma.pool_rkeys = p2p->ctx->pool.area.rkeys;
	mine->flags = p2p->ctx->pool.is_gpu ? P2P_ENDPOINT_GPU_SLOTS : 0;
	p2p->may_flush |= p2p->ctx->pool.is_gpu && ori_rdma_needs_flush(p2p->ctx->rdma);
	return ORIEL_OK;
}

static enum oriel_status rdma_connect(struct oriel_p2p *p2p, const struct p2p_endpoint_info *theirs,
				      const int *fds, unsigned nfds)
{
	struct ori_host_qps link;

	(void)fds;
	if (nfds)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer's endpoint came with %u descriptors",
				nfds);
	if (theirs->hca_kind != (uint32_t)ori_rdma_kind(p2p->ctx->rdma))
		return ori_fail(
			ORIEL_ERR_MISMATCH,
			"this endpoint drives %s, the peer's does not: set ORIEL_HCA to the "
			"same for both",
			ori_rdma_ops(p2p->ctx->rdma)->kind);
	/*
	 * Addresses within both are offsets. A false key fails at the NIC of the peer, and reaches
	 * no memory here.
	 */
	p2p->remote_control = (struct p2p_remote){.keys = theirs->rdma.segment_rkeys};
	p2p->pool = (struct p2p_remote){.keys = theirs->rdma.pool_rkeys,
					.is_gpu = theirs->flags & P2P_ENDPOINT_GPU_SLOTS};
	memcpy(&link, theirs->rdma.link, sizeof(link));
	return ori_host_connect(p2p->link.host, theirs->rdma.nics, &link);
}

/* Queues that are destroyed end the writes of the peer through the NIC. */
static enum oriel_status rdma_close(struct oriel_p2p *p2p)
{
	(void)p2p;
	return ORIEL_OK;
}

/* The segment stays registered until the endpoint is freed: without queues no peer reaches it. */
static void rdma_sever(struct oriel_p2p *p2p)
{
	ori_host_destroy(p2p->link.host);
	p2p->link.host = NULL;
}

/* Nothing to claim. */
static enum oriel_status rdma_enter(struct oriel_p2p *p2p)
{
	(void)p2p;
	return ORIEL_OK;
}

static void rdma_leave(struct oriel_p2p *p2p)
{
	(void)p2p;
}

static struct ori_host_move rdma_move(const struct p2p_local *from, const struct p2p_remote *to,
				      size_t length)
{
	struct ori_host_move move = {.local = {from->address, from->lkeys},
				     .remote = {to->address, to->keys},
				     .length = length};

	return move;
}

/*
 * progress() reports a link that has failed, after the immediates that have arrived are
 * taken.
 */
static enum oriel_status rdma_begun(struct oriel_p2p *p2p, enum oriel_status status,
				    const uint64_t *op)
{
	if (status != ORIEL_OK)
		return ORIEL_AGAIN;
	p2p->begun = *op + 1;
	return ORIEL_OK;
}

static enum oriel_status rdma_put(struct oriel_p2p *p2p, const struct p2p_local *from,
				  const struct p2p_remote *to, size_t length, uint64_t *op)
{
	struct ori_host_move move = rdma_move(from, to, length);

	return rdma_begun(p2p, ori_host_put(p2p->link.host, &move, op), op);
}

static enum oriel_status rdma_write_imm(struct oriel_p2p *p2p, const struct p2p_local *from,
					const struct p2p_remote *to, size_t length,
					uint32_t immediate, uint64_t *op)
{
	struct ori_host_move move = rdma_move(from, to, length);

	return rdma_begun(p2p, ori_host_put_immediate(p2p->link.host, &move, immediate, op), op);
}

/* The mock has it from here. */
enum oriel_status ori_p2p_no_eager(struct oriel_p2p *p2p, const void *bytes, size_t length,
				   uint32_t immediate, uint64_t *op)
{
	(void)bytes, (void)length, (void)immediate, (void)op;
	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%s has no eager sends", p2p->backend->name);
}

/*
 * A rejected request may be the first sign that the process of the peer exits: the kernel destroys
 * what a process has of an HCA in the reverse order of its making, memory that was registered last
 * before the QPs that serve it (Linux 6.12, drivers/infiniband/core/rdma_core.c: the newest object
 * is the first in the list of __uverbs_cleanup_ufile()).
 */
static enum oriel_status rdma_failed(struct oriel_p2p *p2p, enum oriel_status status)
{
	uint64_t err = ori_host_failure(p2p->link.host)->err;

	if (status == ORIEL_ERR_ACCESS &&
	    ori_dev_queue_err_syndrome(err) == ORIEL_SYNDROME_REMOTE_ACCESS)
		p2p->doubt_until =
			ori_deadline(p2p->ctx->timeout_ns < RDMA_DOUBT_NS ? p2p->ctx->timeout_ns
									  : RDMA_DOUBT_NS);
	return status;
}

static enum oriel_status rdma_progress(struct oriel_p2p *p2p)
{
	enum oriel_status status = ori_host_progress(p2p->link.host);

	if (status != ORIEL_OK)
		return rdma_failed(p2p, status);
	while (p2p->done < p2p->begun) {
		status = ori_host_test(p2p->link.host, p2p->done);
		if (status == ORIEL_AGAIN)
			break;
		if (status != ORIEL_OK)
			return rdma_failed(p2p, status);
		/* Operations end in their order, so that one count stands for all of them. */
		p2p->done++;
	}
	return ORIEL_OK;
}

/* progress() reports a link that failed: here it has just no immediate any more. */
static enum oriel_status rdma_take(struct oriel_p2p *p2p, struct p2p_arrival *arrival)
{
	/* This pass has polled in progress(), and a second poll is a third of the pass. */
	if (!p2p->is_leaving && !ori_host_has_immediate(p2p->link.host))
		return ORIEL_AGAIN;
	arrival->length = 0;
	return ori_host_take(p2p->link.host, &arrival->immediate) == ORIEL_OK ? ORIEL_OK
									      : ORIEL_AGAIN;
}

static enum oriel_status rdma_export(struct oriel_p2p *p2p, const struct oriel_p2p_memory *memory,
				     const void *at, size_t length, struct p2p_offer *offer)
{
	if (!memory->mr)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%zu bytes at %p are not registered", length,
				at);
	/* From now on the peer may write to the GPU: units that arrive may need a flush first. */
	p2p->may_flush |= memory->is_gpu && ori_rdma_needs_flush(p2p->ctx->rdma);
	offer->address = memory->iova + (uint64_t)((const char *)at - memory->address);
	offer->keys = memory->rkeys;
	offer->piece = P2P_NO_PIECE;
	return ORIEL_OK;
}

static enum oriel_status rdma_import(struct oriel_p2p *p2p, const struct p2p_offer *offer,
				     struct p2p_remote *remote)
{
	(void)p2p;
	*remote = (struct p2p_remote){.address = offer->address, .keys = offer->keys};
	return ORIEL_OK;
}

const struct p2p_backend ori_p2p_rdma = {
	.name = "rdma",
	.path = ORIEL_PATH_RDMA,
	.needs_keys = true,
	.open = rdma_open,
	.connect = rdma_connect,
	.close = rdma_close,
	.sever = rdma_sever,
	.enter = rdma_enter,
	.leave = rdma_leave,
	.put = rdma_put,
	.write_imm = rdma_write_imm,
	.send_eager = ori_p2p_no_eager,
	.progress = rdma_progress,
	.take = rdma_take,
	.export = rdma_export,
	.import = rdma_import,
};
