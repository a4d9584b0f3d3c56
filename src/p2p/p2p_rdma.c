/* SPDX-License-Identifier: Apache-2.0 */
/* Through an adapter, by a link that the host drives. */
#include <string.h>

#include "base/error.h"
#include "p2p/p2p.h"
#include "rdma/rdma_host.h"

static_assert(sizeof(struct ori_host_end) == P2P_LINK_INFO, "an end of a link fits that of p2p");

static enum oriel_status rdma_open_link(struct oriel_p2p *p)
{
	struct oriel_p2p_context *hub = p->hub;
	struct ori_host_attr attr = {.immediates = P2P_IMMEDIATES, .queues = p->queues};
	struct ori_host_end end;
	enum oriel_status st = ori_p2p_context_need_hca(hub);

	if (st == ORIEL_OK && p->address.place != p->peer.place)
		st = hub->ops->listen(hub->hca);
	if (st == ORIEL_OK && !p->area.mr)
		st = ori_p2p_context_register(hub, &p->area);
	if (st != ORIEL_OK)
		return st;
	attr.ops = hub->ops;
	attr.hca = hub->hca;
	st = ori_host_create(&attr, &p->link.host, &end);
	if (st == ORIEL_OK)
		memcpy(p->link.host_end, &end, sizeof(end));
	return st;
}

static enum oriel_status rdma_open(struct oriel_p2p *p, struct p2p_endpoint_info *mine, int *fds,
				   unsigned *nfds)
{
	enum oriel_status st = ORIEL_OK;

	(void)fds;
	*nfds = 0;
	/* Told once more where the socket took nothing. */
	if (!p->link.host)
		st = rdma_open_link(p);
	if (st != ORIEL_OK)
		return st;
	p->hub->ops->describe(p->hub->hca, &mine->rdma.adapter);
	mine->adapters = p->hub->choice.kind;
	memcpy(mine->rdma.link, p->link.host_end, sizeof(mine->rdma.link));
	mine->rdma.segment_rkey = p->area.keys.rkey;
	mine->rdma.pool_rkey = p->hub->pool.area.keys.rkey;
	mine->flags = p->hub->pool.is_gpu ? P2P_ENDPOINT_GPU_SLOTS : 0;
	p->may_flush |= p->hub->pool.is_gpu && p->hub->needs_flush;
	return ORIEL_OK;
}

static enum oriel_status rdma_connect(struct oriel_p2p *p, const struct p2p_endpoint_info *theirs,
				      const int *fds, unsigned nfds)
{
	struct ori_host_end link;

	(void)fds;
	if (nfds)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer's end came with %u descriptors",
				nfds);
	if (theirs->adapters != (uint32_t)p->hub->choice.kind)
		return ori_fail(
			ORIEL_ERR_MISMATCH,
			"this end drives %s, the peer's does not: set ORIEL_HCA to the same "
			"for both",
			p->hub->ops->kind);
	p->board = (struct p2p_remote){.key = theirs->rdma.segment_rkey};
	p->pool = (struct p2p_remote){.key = theirs->rdma.pool_rkey,
				      .is_gpu = theirs->flags & P2P_ENDPOINT_GPU_SLOTS};
	memcpy(&link, theirs->rdma.link, sizeof(link));
	if (link.queues != p->queues)
		return ori_fail(ORIEL_ERR_MISMATCH, "this end has %u queues, the peer's %u",
				p->queues, link.queues);
	return ori_host_connect(p->link.host, &theirs->rdma.adapter, &link);
}

static void rdma_sever(struct oriel_p2p *p)
{
	ori_host_destroy(p->link.host);
	p->link.host = NULL;
}

static enum oriel_status rdma_enter(struct oriel_p2p *p)
{
	(void)p;
	return ORIEL_OK;
}

static void rdma_leave(struct oriel_p2p *p)
{
	(void)p;
}

static struct ori_host_move rdma_move(const struct p2p_local *from, const struct p2p_remote *to,
				      size_t length)
{
	struct ori_host_move move = {.here = {from->address, from->lkey},
				     .there = {to->address, to->key},
				     .length = length};

	return move;
}

/* A link that has failed says so when there is progress, after what has come is taken. */
static enum oriel_status rdma_begun(struct oriel_p2p *p, enum oriel_status status,
				    const uint64_t *op)
{
	if (status != ORIEL_OK)
		return ORIEL_AGAIN;
	p->begun = *op + 1;
	return ORIEL_OK;
}

static enum oriel_status rdma_put(struct oriel_p2p *p, const struct p2p_local *from,
				  const struct p2p_remote *to, size_t length, uint64_t *op)
{
	struct ori_host_move move = rdma_move(from, to, length);

	return rdma_begun(p, ori_host_put(p->link.host, &move, op), op);
}

static enum oriel_status rdma_tell(struct oriel_p2p *p, const struct p2p_local *from,
				   const struct p2p_remote *to, size_t length, uint32_t immediate,
				   uint64_t *op)
{
	struct ori_host_move move = rdma_move(from, to, length);

	return rdma_begun(p, ori_host_put_immediate(p->link.host, &move, immediate, op), op);
}

static enum oriel_status rdma_progress(struct oriel_p2p *p)
{
	enum oriel_status st = ori_host_progress(p->link.host);

	if (st != ORIEL_OK)
		return st;
	while (p->done < p->begun) {
		st = ori_host_test(p->link.host, p->done);
		if (st == ORIEL_AGAIN)
			break;
		if (st != ORIEL_OK)
			return st;
		p->done++;
	}
	return ORIEL_OK;
}

static enum oriel_status rdma_take(struct oriel_p2p *p, uint32_t *immediate)
{
	return ori_host_take(p->link.host, immediate) == ORIEL_OK ? ORIEL_OK : ORIEL_AGAIN;
}

static enum oriel_status rdma_show(struct oriel_p2p *p, const struct oriel_p2p_memory *memory,
				   const void *at, size_t length, struct p2p_offer *offer)
{
	if (!memory->has_mr)
		return ori_fail(ORIEL_ERR_UNSUPPORTED, "%zu bytes at %p are not registered", length,
				at);
	p->may_flush |= memory->is_gpu && p->hub->needs_flush;
	offer->address = memory->iova + (uint64_t)((const char *)at - memory->address);
	offer->key = memory->keys.rkey;
	offer->piece = P2P_NO_PIECE;
	return ORIEL_OK;
}

static enum oriel_status rdma_find(struct oriel_p2p *p, const struct p2p_offer *offer,
				   struct p2p_remote *far)
{
	(void)p;
	*far = (struct p2p_remote){.address = offer->address, .key = offer->key};
	return ORIEL_OK;
}

const struct p2p_backend ori_p2p_rdma = {
	.name = "rdma",
	.path = ORIEL_PATH_RDMA,
	.needs_keys = true,
	.open = rdma_open,
	.connect = rdma_connect,
	.sever = rdma_sever,
	.enter = rdma_enter,
	.leave = rdma_leave,
	.put = rdma_put,
	.tell = rdma_tell,
	.carry = ori_p2p_no_eager,
	.progress = rdma_progress,
	.take = rdma_take,
	.show = rdma_show,
	.find = rdma_find,
};
