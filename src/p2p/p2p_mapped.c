/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends "mapped" and "self": the peer's memory is mapped here, a put is a copy, and an
 * immediate goes into a ring of the peer's segment. A writer asks for no permission, so an
 * endpoint that leaves waits until the peer is outside of the code that may write. The run
 * of an endpoint calls the operations.
 */
#include <string.h>

#include <oriel/dev/detail/order.h>

#include "base/error.h"
#include "p2p/p2p.h"

static enum oriel_status mapped_open(struct oriel_p2p *p2p, struct p2p_endpoint_info *mine,
				     int *fds, unsigned *nfds)
{
	const struct p2p_area *pool = &p2p->ctx->pool.area;
	enum oriel_status status;

	status = ori_mem_export(p2p->area.mem, 0, p2p->area.length, &mine->mapped.segment);
	if (status == ORIEL_OK)
		status = ori_mem_export(pool->mem, 0, pool->length, &mine->mapped.pool);
	mine->flags = p2p->ctx->pool.is_gpu ? P2P_ENDPOINT_GPU_SLOTS : 0;
	fds[0] = p2p->area.mem->fd;
	fds[1] = pool->mem->fd;
	*nfds = 2;
	return status;
}

static void mapped_reach(struct oriel_p2p *p2p, struct p2p_segment *peer, char *pool, bool is_gpu)
{
	unsigned entries = 2 * p2p->channels * p2p->depth + P2P_CELLS;

	p2p->link.peer = peer;
	/*
	 * The smallest ring stays in the caches. It holds as many immediates as can be
	 * under way at once.
	 */
	for (p2p->link.last = P2P_CELLS; p2p->link.last < entries; p2p->link.last *= 2)
		;
	p2p->link.last--;
	p2p->remote_control = (struct p2p_remote){.at = (char *)&peer->remote_control};
	p2p->pool = (struct p2p_remote){.at = pool, .is_gpu = is_gpu};
}

static enum oriel_status mapped_connect(struct oriel_p2p *p2p,
					const struct p2p_endpoint_info *theirs, const int *fds,
					unsigned nfds)
{
	bool is_gpu = theirs->flags & P2P_ENDPOINT_GPU_SLOTS;
	enum oriel_status status;

	if (nfds != 2)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer's endpoint came with %u descriptors",
				nfds);
	if (is_gpu && !ori_p2p_context_reaches(p2p->ctx, theirs->gpu))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"staging slots of process %u are of a GPU (ORIEL_P2P_GPU_SLOTS) "
				"that process %u does not reach, whose context has %s",
				p2p->peer.pid, p2p->address.pid,
				p2p->ctx->gpu.ops ? "another GPU" : "none");
	status = ori_piece_import(p2p, &theirs->mapped.segment, &fds[0], 1, &p2p->link.segment);
	if (status == ORIEL_OK)
		status = ori_piece_import(p2p, &theirs->mapped.pool, &fds[1], 1, &p2p->link.pool);
	if (status != ORIEL_OK)
		return status;
	if (ori_mapping_is_gpu(&p2p->link.segment) || ori_mapping_is_gpu(&p2p->link.pool) != is_gpu)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"the peer's endpoint is not in the memory that it describes");
	/*
	 * A store beyond the end of a mapping kills this process, so the mapped lengths count
	 * here, and not those that the peer reports.
	 */
	if (p2p->link.segment.length <
		    (p2p->eager_max ? p2p_segment_length(p2p) : sizeof(struct p2p_segment)) ||
	    p2p->link.pool.length < theirs->stride * theirs->slots)
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer's endpoint is shorter than it says");
	mapped_reach(p2p, p2p->link.segment.address, p2p->link.pool.address, is_gpu);
	return ORIEL_OK;
}

/*
 * Sequentially consistent on both sides, or each could miss the store of the other: this
 * endpoint stores busy and then loads closing, the peer stores closing and then loads
 * busy.
 */
static enum oriel_status mapped_enter(struct oriel_p2p *p2p)
{
	struct p2p_segment *peer = p2p->link.peer;

	if (!peer)
		return ORIEL_OK;
	__atomic_store_n(&peer->busy, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&peer->closing, __ATOMIC_SEQ_CST))
		return ORIEL_OK;
	__atomic_store_n(&peer->busy, 0, __ATOMIC_RELEASE);
	return ORIEL_ERR_PEER;
}

static void mapped_leave(struct oriel_p2p *p2p)
{
	/* Release: a peer that sees busy cleared sees the writes before it. */
	if (p2p->link.peer)
		__atomic_store_n(&p2p->link.peer->busy, 0, __ATOMIC_RELEASE);
}

/* Does the peer, or a copy that it has begun, write to memory here? */
static bool mapped_is_written(const struct oriel_p2p *p2p)
{
	const struct p2p_segment *peer = p2p->link.peer;

	if (__atomic_load_n(&p2p->segment->busy, __ATOMIC_SEQ_CST))
		return true;
	/* The peer is outside, so that it begins no more copies. */
	return peer && oriel_dev_load_acquire(&peer->flown[P2P_COPY_OUT].count) <
			       oriel_dev_load_acquire(&peer->flying);
}

static enum oriel_status mapped_close(struct oriel_p2p *p2p)
{
	mapped_leave(p2p);
	__atomic_store_n(&p2p->segment->closing, 1, __ATOMIC_SEQ_CST);
	return mapped_is_written(p2p) ? ORIEL_AGAIN : ORIEL_OK;
}

static void mapped_sever(struct oriel_p2p *p2p)
{
	p2p->link.peer = NULL;
	p2p->remote_control = p2p->pool = (struct p2p_remote){0};
	ori_mapping_close(&p2p->link.segment);
	ori_mapping_close(&p2p->link.pool);
	ori_pieces_unmap(p2p);
}

static bool mapped_has_room(const struct oriel_p2p *p2p)
{
	return p2p->link.wait_count < P2P_WAITS;
}

/* Operations complete in their order: up to the first that waits for a copy. */
static void mapped_complete(struct oriel_p2p *p2p)
{
	const struct p2p_link *link = &p2p->link;

	p2p->done = link->wait_count ? link->waits[link->first_wait].op : p2p->begun;
}

/* *@copy is the number of a copy by the GPU, else it is unchanged. */
static enum oriel_status mapped_copy(struct oriel_p2p *p2p, const struct p2p_local *from,
				     const struct p2p_remote *to, size_t length, uint64_t *copy)
{
	if (from->is_gpu || to->is_gpu)
		return ori_copy_stream_copy(p2p, P2P_COPY_OUT, to->at, from->at, length, copy);
	if (length == sizeof(uint64_t) && ((uintptr_t)from->at | (uintptr_t)to->at) % 8 == 0)
		/* Release: with ori_p2p_word() of the peer. */
		oriel_dev_store_release((uint64_t *)(void *)to->at,
					oriel_dev_load_acquire((uint64_t *)(void *)from->at));
	else if (length)
		memcpy(to->at, from->at, length);
	return ORIEL_OK;
}

static void mapped_add_wait(struct oriel_p2p *p2p, const struct p2p_wait *wait)
{
	struct p2p_link *link = &p2p->link;

	link->waits[(link->first_wait + link->wait_count++) % P2P_WAITS] = *wait;
	link->imm_count += wait->has_immediate;
}

static enum oriel_status mapped_put(struct oriel_p2p *p2p, const struct p2p_local *from,
				    const struct p2p_remote *to, size_t length, uint64_t *op)
{
	struct p2p_wait wait = {.op = p2p->begun};
	bool is_gpu = from->is_gpu || to->is_gpu;
	enum oriel_status status;

	if (is_gpu && !mapped_has_room(p2p))
		return ORIEL_AGAIN;
	status = mapped_copy(p2p, from, to, length, &wait.copy);
	if (status != ORIEL_OK)
		return status;
	if (is_gpu)
		mapped_add_wait(p2p, &wait);
	*op = p2p->begun++;
	mapped_complete(p2p);
	return ORIEL_OK;
}

/*
 * The reader loads one line: it is full with this number, or with that of an earlier lap. 24 bits
 * of the number tell the two apart, since a ring is far shorter.
 */
static void mapped_publish(struct oriel_p2p *p2p, uint32_t immediate, const void *bytes,
			   size_t length)
{
	struct p2p_link *link = &p2p->link;
	struct p2p_imm_entry *entry = &link->peer->ring[link->written++ & link->last];

	if (length)
		memcpy(entry->bytes, bytes, length);
	/* Release: with mapped_take() of the peer, for all that was put before. */
	oriel_dev_store_release(&entry->what,
				link->written << 40 | (uint64_t)length << 32 | immediate);
}

/*
 * The peer's count is read once a lap; a false one spoils no ring but the peer's own. Immediates
 * that wait for copies count as written: mapped_progress() does not check for room again.
 */
static bool mapped_may_write_imm(struct oriel_p2p *p2p)
{
	struct p2p_link *link = &p2p->link;

	if (link->written + link->imm_count - link->seen > link->last)
		link->seen = oriel_dev_load_acquire(&link->peer->taken);
	return link->written + link->imm_count - link->seen <= link->last;
}

/* Behind copies that are under way, or with a copy of its own. */
static enum oriel_status mapped_write_imm_later(struct oriel_p2p *p2p, const struct p2p_local *from,
						const struct p2p_remote *to, size_t length,
						uint32_t immediate, uint64_t *op)
{
	struct p2p_link *link = &p2p->link;
	struct p2p_wait wait = {.op = p2p->begun, .immediate = immediate, .has_immediate = true};
	enum oriel_status status;

	if (!mapped_has_room(p2p))
		return ORIEL_AGAIN;
	/* Without a copy of its own it waits for the last one before it. */
	if (link->wait_count)
		wait.copy = link->waits[(link->first_wait + link->wait_count - 1) % P2P_WAITS].copy;
	status = mapped_copy(p2p, from, to, length, &wait.copy);
	if (status != ORIEL_OK)
		return status;
	mapped_add_wait(p2p, &wait);
	*op = p2p->begun++;
	mapped_complete(p2p);
	return ORIEL_OK;
}

static enum oriel_status mapped_write_imm(struct oriel_p2p *p2p, const struct p2p_local *from,
					  const struct p2p_remote *to, size_t length,
					  uint32_t immediate, uint64_t *op)
{
	if (!mapped_may_write_imm(p2p))
		return ORIEL_AGAIN;
	if (p2p->link.wait_count || from->is_gpu || to->is_gpu)
		return mapped_write_imm_later(p2p, from, to, length, immediate, op);
	(void)mapped_put(p2p, from, to, length, op);
	mapped_publish(p2p, immediate, NULL, 0);
	return ORIEL_OK;
}

static enum oriel_status mapped_send_eager(struct oriel_p2p *p2p, const void *bytes, size_t length,
					   uint32_t immediate, uint64_t *op)
{
	/* Behind copies the bytes would have to be stored. */
	if (!mapped_may_write_imm(p2p) || p2p->link.wait_count)
		return ORIEL_AGAIN;
	mapped_publish(p2p, immediate, bytes, length);
	*op = p2p->begun++;
	mapped_complete(p2p);
	return ORIEL_OK;
}

static enum oriel_status mapped_progress(struct oriel_p2p *p2p)
{
	struct p2p_link *link = &p2p->link;
	enum oriel_status status = ORIEL_OK;

	if (!link->wait_count)
		return ORIEL_OK;
	while (link->wait_count && status == ORIEL_OK) {
		const struct p2p_wait *w = &link->waits[link->first_wait];

		status = ori_copy_stream_test(p2p, P2P_COPY_OUT, w->copy);
		if (status != ORIEL_OK)
			break;
		if (w->has_immediate)
			mapped_publish(p2p, w->immediate, NULL, 0);
		link->imm_count -= w->has_immediate;
		link->first_wait = (link->first_wait + 1) % P2P_WAITS;
		link->wait_count--;
	}
	mapped_complete(p2p);
	return status < 0 ? status : ORIEL_OK;
}

static enum oriel_status mapped_take(struct oriel_p2p *p2p, struct p2p_arrival *arrival)
{
	struct p2p_segment *mine = p2p->segment;
	struct p2p_link *link = &p2p->link;
	const struct p2p_imm_entry *entry = &mine->ring[link->taken & link->last];
	uint64_t what = oriel_dev_load_acquire(&entry->what);

	/*
	 * Release: with mapped_may_write_imm() of the peer, which overwrites what was
	 * taken before then.
	 */
	if (link->reported != link->taken) {
		link->reported = link->taken;
		oriel_dev_store_release(&mine->taken, link->reported);
	}
	if (what >> 40 != ((link->taken + 1) & 0xffffff))
		return ORIEL_AGAIN;
	link->taken++;
	*arrival = (struct p2p_arrival){(uint32_t)what, what >> 32 & 0xff, entry->bytes};
	return ORIEL_OK;
}

static bool mapped_is_same_gpu(const struct oriel_p2p *p2p)
{
	return p2p->backend->path == ORIEL_PATH_SELF ||
	       memcmp(p2p->peer_gpu, p2p->ctx->gpu.uuid, sizeof(p2p->peer_gpu)) == 0;
}

/* Memory of a GPU has to be opened to another GPU even within this process. */
static enum oriel_status mapped_export_gpu(struct oriel_p2p *p2p,
					   const struct oriel_p2p_memory *memory, const void *at,
					   size_t length, struct p2p_offer *offer)
{
	if (p2p_is_same_process(p2p) && mapped_is_same_gpu(p2p)) {
		offer->address = (uintptr_t)at;
		offer->piece = P2P_NO_PIECE;
		offer->keys.rail[0] = P2P_KEY_GPU;
		return ORIEL_OK;
	}
	if (!p2p->is_gpu_reached)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"%zu bytes at %p of GPU %s are out of reach of the peer, whose "
				"context has %s",
				length, at, p2p->ctx->gpu.pci,
				p2p->peer_gpu[0] ? "another GPU" : "none");
	if (!memory->mem)
		return ori_fail(
			ORIEL_ERR_UNSUPPORTED,
			"%zu bytes at %p of GPU %s are managed, of a memory pool, or of "
			"another GPU, and cannot be opened to the peer: use cudaMalloc() or "
			"oriel_memory_alloc()",
			length, at, p2p->ctx->gpu.pci);
	offer->address = memory->offset + (uint64_t)((const char *)at - memory->address);
	return ori_piece_give(p2p, memory->mem, &offer->piece);
}

static enum oriel_status mapped_export(struct oriel_p2p *p2p, const struct oriel_p2p_memory *memory,
				       const void *at, size_t length, struct p2p_offer *offer)
{
	if (memory->is_gpu)
		return mapped_export_gpu(p2p, memory, at, length, offer);
	if (p2p_is_same_process(p2p)) {
		offer->address = (uintptr_t)at;
		offer->piece = P2P_NO_PIECE;
		return ORIEL_OK;
	}
	if (!memory->mem)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"the target, %zu bytes at %p, cannot be mapped by the process that "
				"sends: memory from oriel_memory_alloc() can, and ORIEL_P2P_AUTO "
				"stages any other",
				length, at);
	offer->address = memory->offset + (uint64_t)((const char *)at - memory->address);
	return ori_piece_give(p2p, memory->mem, &offer->piece);
}

static enum oriel_status mapped_import(struct oriel_p2p *p2p, const struct p2p_offer *offer,
				       struct p2p_remote *remote)
{
	const struct ori_mapping *piece;
	enum oriel_status status;

	if (offer->piece == P2P_NO_PIECE && p2p_is_same_process(p2p)) {
		*remote = (struct p2p_remote){.at = (char *)(uintptr_t)offer->address,
					      .is_gpu = offer->keys.rail[0] & P2P_KEY_GPU};
		return ORIEL_OK;
	}
	status = ori_piece_find(p2p, offer->piece, &piece);
	if (status != ORIEL_OK)
		return status;
	if (offer->address > piece->length || offer->length > piece->length - offer->address)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"%llu bytes at %llu of memory of %zu bytes that the peer sent",
				(unsigned long long)offer->length,
				(unsigned long long)offer->address, piece->length);
	*remote = (struct p2p_remote){.at = (char *)piece->address + offer->address,
				      .is_gpu = ori_mapping_is_gpu(piece)};
	return ORIEL_OK;
}

const struct p2p_backend ori_p2p_mapped = {
	.name = "mapped",
	.path = ORIEL_PATH_MAPPED,
	.is_mapped = true,
	.has_eager = true,
	.open = mapped_open,
	.connect = mapped_connect,
	.close = mapped_close,
	.sever = mapped_sever,
	.enter = mapped_enter,
	.leave = mapped_leave,
	.put = mapped_put,
	.write_imm = mapped_write_imm,
	.send_eager = mapped_send_eager,
	.progress = mapped_progress,
	.take = mapped_take,
	.export = mapped_export,
	.import = mapped_import,
};

static enum oriel_status self_open(struct oriel_p2p *p2p, struct p2p_endpoint_info *mine, int *fds,
				   unsigned *nfds)
{
	(void)p2p, (void)mine, (void)fds, (void)nfds;
	return ori_fail(ORIEL_ERR_STATE, "an endpoint exchanges no frames with itself");
}

static enum oriel_status self_connect(struct oriel_p2p *p2p, const struct p2p_endpoint_info *theirs,
				      const int *fds, unsigned nfds)
{
	(void)theirs, (void)fds, (void)nfds;
	/* No frame of a peer brings these numbers. */
	p2p->pool_stride = p2p->ctx->pool.stride;
	p2p->pool_slots = p2p->ctx->pool.receive;
	p2p->chunk = p2p->ctx->pool.chunk;
	p2p->eager_max = p2p_takes_eager(p2p) ? p2p_eager_limit(p2p) : 0;
	mapped_reach(p2p, p2p->segment, p2p->ctx->pool.area.base, p2p->ctx->pool.is_gpu);
	return ORIEL_OK;
}

static enum oriel_status self_enter(struct oriel_p2p *p2p)
{
	(void)p2p;
	return ORIEL_OK;
}

static void self_leave(struct oriel_p2p *p2p)
{
	(void)p2p;
}

const struct p2p_backend ori_p2p_self = {
	.name = "self",
	.path = ORIEL_PATH_SELF,
	.is_mapped = true,
	.has_eager = true,
	.open = self_open,
	.connect = self_connect,
	.close = self_enter, /* this thread is the only writer */
	.sever = mapped_sever,
	.enter = self_enter,
	.leave = self_leave,
	.put = mapped_put,
	.write_imm = mapped_write_imm,
	.send_eager = mapped_send_eager,
	.progress = mapped_progress,
	.take = mapped_take,
	.export = mapped_export,
	.import = mapped_import,
};
