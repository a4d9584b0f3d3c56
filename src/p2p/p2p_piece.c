/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of memory that a process maps of its peer, each of which travels once, with its
 * descriptors. The mapped backend gives and finds them; the meeting takes those that arrive.
 */
#include "base/error.h"
#include "comm/unsafe.h"
#include "mem/gpu_mapping.h"
#include "p2p/p2p.h"

enum oriel_status ori_piece_import(struct oriel_p2p *p2p, const struct ori_mem_blob *blob,
				   const int *fds, unsigned nfds, struct ori_mapping *mapping)
{
	const struct ori_gpu *gpu = p2p->ctx->gpu.ops ? &p2p->ctx->gpu : NULL;
	bool is_same_process = p2p_is_same_process(p2p);
	struct ori_mem_blob b;
	enum oriel_status status = ori_mem_blob_parse(blob, sizeof(*blob), &b);

	if (status != ORIEL_OK)
		return status;
	if (!is_same_process && nfds != ori_mem_blob_fds(&b))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"memory of the peer came with %u descriptors instead of %u", nfds,
				ori_mem_blob_fds(&b));
	/* Memory of the host is pinned, so that engines copy to it beside the CPU. */
	if (gpu)
		return ori_mem_import_gpu(gpu, &b, is_same_process ? NULL : fds, mapping);
	return ori_mem_import(&b, is_same_process ? -1 : fds[0], mapping);
}

/*
 * The slot where @mem is sent to the peer, or can be: a free one, or one whose memory is
 * not registered any more.
 */
static struct p2p_given *piece_find_given(struct oriel_p2p *p2p, const struct ori_mem *mem)
{
	struct p2p_given *free = NULL;

	for (unsigned i = P2P_PIECES; i-- > 0;) {
		if (p2p->given[i].mem == mem)
			return &p2p->given[i];
		if (!p2p->given[i].mem)
			free = &p2p->given[i];
	}
	if (free)
		return free;
	ori_mr_refs_drop_idle(p2p->ctx);
	for (unsigned i = 0; i < P2P_PIECES; i++)
		if (p2p->given[i].is_sent && !ori_memory_is_registered(p2p->ctx, p2p->given[i].mem))
			return &p2p->given[i];
	return NULL;
}

enum oriel_status ori_piece_give(struct oriel_p2p *p2p, struct ori_mem *mem, uint32_t *number)
{
	struct p2p_given *given = piece_find_given(p2p, mem);
	struct p2p_frame frame = {.kind = P2P_PIECE};
	int fds[ORI_MEM_FDS];
	enum oriel_status status;
	unsigned nfds;

	if (!given)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"a peer maps %u pieces of memory at most, and all of them are "
				"registered: unregister some",
				P2P_PIECES);
	if (given->mem != mem) {
		if (given->mem)
			given->number = p2p_piece_after(given->number);
		/* The reference keeps the memory until another piece takes its slot. */
		ori_mem_unref(given->mem);
		ori_mem_ref(mem);
		given->mem = mem;
		given->is_sent = false;
	}
	*number = given->number;
	if (given->is_sent)
		return ORIEL_OK;
	frame.piece.number = given->number;
	status = ori_mem_export(mem, 0, mem->length, &frame.piece.blob);
	/* The peer may write to all of it, also once the endpoint has ended. */
	if (status == ORIEL_OK && p2p->comm)
		status = ori_unsafe_note(p2p->comm, p2p->peer_rank, mem, mem->address, mem->length);
	nfds = p2p_is_same_process(p2p) ? 0 : ori_mem_fds(mem, fds);
	if (status == ORIEL_OK)
		status = ori_control_socket_send(p2p, &frame, fds, nfds);
	given->is_sent = status == ORIEL_OK;
	return status;
}

enum oriel_status ori_piece_take(struct oriel_p2p *p2p, const struct p2p_piece *piece)
{
	struct p2p_taken *taken = &p2p->taken[p2p_piece_slot(piece->number)];
	struct ori_fds *fds = &p2p->control_socket.conn.fds;
	enum oriel_status status = ORIEL_ERR_PROTOCOL;

	if (p2p->backend->path == ORIEL_PATH_MAPPED && piece->number == taken->next) {
		/*
		 * The owner reuses a slot only for memory that it has unregistered, so no put
		 * needs the old one.
		 */
		ori_mapping_close(&taken->map);
		status = ori_piece_import(p2p, &piece->blob, fds->of, fds->count, &taken->map);
		taken->next = p2p_piece_after(piece->number);
	} else {
		status = ori_fail(status, "the peer sends memory that is not due");
	}
	ori_fds_close(fds);
	return status;
}

enum oriel_status ori_piece_find(struct oriel_p2p *p2p, uint32_t number,
				 const struct ori_mapping **piece)
{
	const struct p2p_taken *taken = &p2p->taken[p2p_piece_slot(number)];

	if (number > INT32_MAX || (number < taken->next && p2p_piece_after(number) != taken->next))
		return ori_fail(ORIEL_ERR_PROTOCOL, "the peer offers piece %u", number);
	*piece = &taken->map;
	if (p2p_piece_after(number) == taken->next)
		return ORIEL_OK;
	p2p->is_piece_due = true;
	return ORIEL_AGAIN;
}

void ori_pieces_unmap(struct oriel_p2p *p2p)
{
	for (unsigned i = 0; i < P2P_PIECES; i++)
		ori_mapping_close(&p2p->taken[i].map);
}

void ori_pieces_close(struct oriel_p2p *p2p)
{
	for (unsigned i = 0; i < P2P_PIECES; i++)
		ori_mem_unref(p2p->given[i].mem);
}
