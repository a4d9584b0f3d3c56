/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares memory with all ranks: exports it, registers it with the NICs, and imports that
 * of the peers. Windows and regions call it.
 */
#include "comm/share.h"

#include <string.h>

#include "base/error.h"
#include "comm/heartbeat.h"
#include "comm/mesh.h"
#include "comm/paths.h"
#include "comm/unsafe.h"
#include "mem/external.h"
#include "mem/gpu_mapping.h"
#include "rdma/rdma.h"

static_assert(ORI_SHARE_PIECES * ORI_MEM_FDS <= ORI_MESH_FDS, "all fit one exchange");

static bool share_has_foreign(const struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (ori_comm_is_foreign(comm, peer))
			return true;
	return false;
}

enum oriel_status ori_share_register(struct oriel_comm *comm, void *address, size_t length,
				     struct ori_rdma_mr **mr, struct oriel_dev_keys *rkeys)
{
	return ori_rdma_register(comm->rdma, address, length, ORI_RDMA_SHARED, mr, rkeys);
}

/*
 * Finds memory that the application allocated itself, which the table does not know.
 * ORIEL_AGAIN: host memory.
 */
static enum oriel_status share_adopt(struct oriel_comm *comm, const struct ori_piece *piece,
				     struct ori_mem **mem, uint64_t *offset)
{
	struct ori_gpu_memory_info info = {.kind = ORI_GPU_PAGEABLE};
	enum oriel_status status = ORIEL_OK;

	if (comm->gpu)
		status = comm->gpu->ops->query(comm->gpu, piece->address, &info);
	if (status != ORIEL_OK)
		return status;
	if (info.kind == ORI_GPU_PAGEABLE && piece->use == ORI_USE_GPU)
		return ori_fail(ORIEL_ERR_INVALID,
				"%p is host memory, which kernels do not reach: a window in GPU "
				"memory takes memory of a GPU, of oriel_memory_alloc(), or pinned",
				piece->address);
	if (info.kind == ORI_GPU_PAGEABLE || info.kind == ORI_GPU_PINNED)
		return ORIEL_AGAIN;
	return ori_mem_open_external(comm->gpu, piece->address, piece->length, mem, offset);
}

/* May @piece, memory of a GPU, be shared? */
static enum oriel_status share_check_gpu(const struct oriel_comm *comm,
					 const struct ori_piece *piece)
{
	if (!comm->gpu)
		return ori_fail(ORIEL_ERR_INVALID,
				"%p is memory of a GPU: the communicator needs ORIEL_COMM_GPU",
				piece->address);
	if (piece->use == ORI_USE_CPU)
		return ori_fail(ORIEL_ERR_INVALID,
				"%p is memory of a GPU: the window needs ORIEL_WINDOW_DEVICE",
				piece->address);
	return ORIEL_OK;
}

static enum oriel_status share_export(struct oriel_comm *comm, const struct ori_piece *piece,
				      struct ori_mem **mem, struct ori_mem_blob *blob)
{
	enum oriel_status status = ORIEL_OK;
	uint64_t offset;

	*mem = ori_mem_try_find(piece->address, piece->length, &offset);
	if (!*mem)
		status = share_adopt(comm, piece, mem, &offset);
	/*
	 * Threads of this process reach it without an export, NICs by its key; for other
	 * processes ori_mem_find() fails and says why.
	 */
	if (status == ORIEL_AGAIN && (piece->is_unmapped || !share_has_foreign(comm)))
		return ori_mem_export_private(piece->address, piece->length, blob);
	if (status == ORIEL_AGAIN)
		status = ori_mem_find(piece->address, piece->length, mem, &offset);
	if (status == ORIEL_OK && (*mem)->gpu)
		status = share_check_gpu(comm, piece);
	return status == ORIEL_OK ? ori_mem_export(*mem, offset, piece->length, blob) : status;
}

static enum oriel_status share_offer_piece(struct oriel_comm *comm, const struct ori_piece *piece,
					   struct ori_offering *offering, unsigned i)
{
	struct oriel_dev_keys lkeys;
	enum oriel_status status;

	offering->use[i] = piece->use;
	offering->is_unmapped[i] = piece->is_unmapped;
	if (!piece->length)
		return ORIEL_OK;
	if (!piece->address)
		return ori_fail(ORIEL_ERR_INVALID, "%zu bytes at NULL cannot be shared",
				piece->length);
	status = share_export(comm, piece, &offering->mem[i], &offering->offer.blob[i]);
	if (status == ORIEL_OK && offering->mem[i] && !piece->is_unmapped)
		status = ori_unsafe_note(comm, ORIEL_NO_RANK, offering->mem[i], piece->address,
					 piece->length);
	if (status != ORIEL_OK || !comm->rdma)
		return status;
	status = ori_share_register(comm, piece->address, piece->length, &offering->mr[i],
				    &offering->offer.rkeys[i]);
	if (status == ORIEL_OK)
		ori_rdma_mr_local(offering->mr[i], &offering->offer.addresses[i], &lkeys);
	return status;
}

enum oriel_status ori_share_offer(struct oriel_comm *comm, enum ori_call call,
				  enum oriel_status status, const struct ori_piece *pieces,
				  unsigned count, struct ori_offering *offering)
{
	unsigned i;

	memset(offering, 0, sizeof(*offering));
	offering->comm = comm;
	offering->count = count;
	for (i = 0; i < count && status == ORIEL_OK; i++)
		status = share_offer_piece(comm, &pieces[i], offering, i);
	ori_verdict_fill(&offering->offer.verdict, call, status);
	return status;
}

void ori_share_withdraw(struct ori_offering *offering)
{
	unsigned i;

	for (i = 0; i < offering->count; i++) {
		ori_mem_unref(offering->mem[i]);
		ori_share_unregister(offering->comm, offering->mr[i]);
		offering->mem[i] = NULL;
		offering->mr[i] = NULL;
	}
}

void ori_share_local(const struct ori_rdma_mr *mr, uint64_t *address, struct oriel_dev_keys *lkeys)
{
	ori_rdma_mr_local(mr, address, lkeys);
}

void ori_share_unregister(struct oriel_comm *comm, struct ori_rdma_mr *mr)
{
	if (!mr)
		return;
	/* A peer that finds a key unregistered would take that for the cause. */
	ori_heartbeat_await_reports(comm);
	ori_rdma_unregister(comm->rdma, mr);
}

/* One import: the offers of all ranks, and the mappings that they become. */
struct share_import {
	struct oriel_comm *comm;
	unsigned count;          /* pieces of each rank */
	const enum ori_use *use; /* of each piece */
	const bool *is_unmapped; /* the same */
	bool is_late;
	const void *offers;
	size_t stride;
	struct ori_mapping *maps;
};

static const struct ori_offer *share_offer_of(const struct share_import *s, unsigned peer)
{
	return (const void *)((const char *)s->offers + peer * s->stride);
}

static enum oriel_status share_take_piece(const struct share_import *s, unsigned piece,
					  const struct ori_mem_blob *blob, const int *fds,
					  struct ori_mapping *map)
{
	const struct ori_gpu *gpu = s->comm->gpu;

	if (gpu && (s->use[piece] == ORI_USE_GPU || ori_mem_blob_is_gpu(blob)))
		return ori_mem_import_gpu(gpu, blob, fds, map);
	return ori_mem_import(blob, fds ? fds[0] : -1, map);
}

/*
 * Is a piece not to be mapped, or for a GPU, or of one, that GPUs here and there do not reach?
 * Links do.
 */
static bool share_is_out_of_reach(const struct share_import *s, unsigned peer, unsigned piece,
				  const struct ori_mem_blob *blob)
{
	if (s->is_unmapped[piece])
		return peer != s->comm->rank;
	return s->comm->gpu && s->comm->gpu_paths.of[peer].path == ORIEL_PATH_RDMA &&
	       (s->use[piece] == ORI_USE_GPU || ori_mem_blob_is_gpu(blob));
}

/* The descriptors that travel with a piece. */
static unsigned share_piece_fds(const struct share_import *s, const struct ori_offer *offer,
				unsigned piece)
{
	return s->is_unmapped[piece] ? 0 : ori_mem_blob_fds(&offer->blob[piece]);
}

/*
 * Maps the pieces that @peer offered; @fds NULL: it is a thread of this process. There
 * are as many descriptors as share_count() has counted; a blob that misstates its own is
 * rejected before the next is read.
 */
static enum oriel_status share_take(void *context, unsigned peer, const int *fds)
{
	const struct share_import *s = context;
	const struct ori_offer *offer = share_offer_of(s, peer);
	enum oriel_status status = ORIEL_OK;
	unsigned i, at = 0;

	for (i = 0; i < s->count && status == ORIEL_OK; i++) {
		if (!offer->blob[i].length)
			continue;
		if (!share_is_out_of_reach(s, peer, i, &offer->blob[i]))
			status = share_take_piece(s, i, &offer->blob[i], fds ? fds + at : NULL,
						  &s->maps[(size_t)i * s->comm->size + peer]);
		at += share_piece_fds(s, offer, i);
	}
	return status;
}

/*
 * Maps the pieces of a rank on another node of the fabric. NICs reach its host memory, kernels
 * do not.
 */
static enum oriel_status share_take_fabric(const struct share_import *s, unsigned peer)
{
	const struct ori_offer *offer = share_offer_of(s, peer);
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	for (i = 0; i < s->count && status == ORIEL_OK; i++) {
		if (!offer->blob[i].length || s->is_unmapped[i] ||
		    (s->use[i] != ORI_USE_GPU && !ori_mem_blob_is_gpu(&offer->blob[i])))
			continue;
		status = ori_mem_import_fabric(s->comm->gpu, &offer->blob[i],
					       &s->maps[(size_t)i * s->comm->size + peer]);
	}
	if (status == ORIEL_OK)
		return status;
	return ori_fail(status, "rank %u on another node: %s", peer, oriel_last_error());
}

static unsigned share_count(const void *context, unsigned peer)
{
	const struct share_import *s = context;
	const struct ori_offer *offer = share_offer_of(s, peer);
	unsigned i, count = 0;

	for (i = 0; i < s->count; i++)
		if (offer->blob[i].length)
			count += share_piece_fds(s, offer, i);
	return count;
}

static void share_set_lengths(struct share_import *s)
{
	unsigned peer, i;

	for (peer = 0; peer < s->comm->size; peer++)
		for (i = 0; i < s->count; i++)
			s->maps[(size_t)i * s->comm->size + peer].length =
				share_offer_of(s, peer)->blob[i].length;
}

static enum oriel_status share_take_all(struct share_import *s, const int *fds, unsigned files)
{
	struct ori_mesh_taker taker = {share_count, share_take, s};
	struct oriel_comm *comm = s->comm;
	enum oriel_status status = ORIEL_OK, exchanged = ORIEL_OK;
	unsigned peer;

	share_set_lengths(s);
	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++)
		if (comm->host_paths.of[peer].domain_index != ORIEL_DEV_NO_INDEX &&
		    !ori_comm_is_foreign(comm, peer))
			status = share_take(s, peer, NULL);
	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++)
		if (ori_comm_is_fabric_peer(comm, peer))
			status = share_take_fabric(s, peer);
	if (!s->is_late)
		exchanged = ori_mesh_exchange(comm, fds, files, &taker);
	return status == ORIEL_OK ? exchanged : status;
}

enum oriel_status ori_share_import(struct oriel_comm *comm, const struct ori_offering *offering,
				   const void *offers, size_t stride, struct ori_mapping *maps)
{
	struct share_import s = {.comm = comm,
				 .count = offering->count,
				 .use = offering->use,
				 .is_unmapped = offering->is_unmapped,
				 .is_late = offering->is_late,
				 .offers = offers,
				 .stride = stride,
				 .maps = maps};
	int fds[ORI_SHARE_PIECES * ORI_MEM_FDS];
	enum oriel_status status;
	unsigned i, files = 0;

	for (i = 0; i < offering->count; i++)
		if (offering->mem[i] && !offering->is_unmapped[i])
			files += ori_mem_fds(offering->mem[i], fds + files);
	status = share_take_all(&s, fds, files);
	if (status != ORIEL_OK)
		ori_share_close(maps, (size_t)offering->count * comm->size);
	return status;
}

void ori_share_close(struct ori_mapping *maps, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		ori_mapping_close(&maps[i]);
}

struct ori_remote ori_share_remote(const struct ori_offer *offer, unsigned i)
{
	return (struct ori_remote){offer->addresses[i], offer->rkeys[i]};
}

enum oriel_status ori_share_one(struct oriel_comm *comm, enum ori_call call,
				enum oriel_status status, const struct ori_piece *piece,
				struct ori_mapping *maps, struct ori_remote *remotes,
				struct ori_rdma_mr **mr)
{
	struct ori_offering offering;
	struct ori_offer *offers;
	unsigned peer;

	ori_share_offer(comm, call, status, piece, 1, &offering);
	offers = ori_comm_scratch(comm, sizeof(*offers));
	status = ori_verdict_gather(comm, call, &offering.offer, offers, sizeof(*offers));
	if (status == ORIEL_OK) {
		for (peer = 0; peer < comm->size; peer++)
			remotes[peer] = ori_share_remote(&offers[peer], 0);
		status = ori_share_import(comm, &offering, offers, sizeof(*offers), maps);
		status = ori_comm_agree_after(comm, call, status);
		if (status != ORIEL_OK)
			ori_share_close(maps, comm->size);
	}
	if (status == ORIEL_OK) {
		*mr = offering.mr[0];
		offering.mr[0] = NULL;
	}
	ori_share_withdraw(&offering);
	return status;
}
