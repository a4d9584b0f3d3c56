/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/share.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/mesh.h"

static bool share_has_foreign(const struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (ori_comm_is_foreign(comm, peer))
			return true;
	return false;
}

static enum oriel_status share_offer_piece(struct oriel_comm *comm, const struct ori_piece *piece,
					   struct ori_offering *offering, unsigned i)
{
	struct ori_mem_blob *blob = &offering->offer.blob[i];
	enum oriel_status status;
	uint64_t offset;

	if (!piece->length)
		return ORIEL_OK;
	if (!piece->address)
		return ori_fail(ORIEL_ERR_INVALID, "%zu bytes at NULL cannot be shared",
				piece->length);
	status = ori_mem_find(piece->address, piece->length, &offering->mem[i], &offset);
	if (status == ORIEL_OK)
		return ori_mem_export(offering->mem[i], offset, piece->length, blob);
	/* Threads of one process need no file to reach each other's memory. */
	if (!share_has_foreign(comm)) {
		ori_error_clear();
		return ori_mem_export_private(piece->address, piece->length, blob);
	}
	return status;
}

enum oriel_status ori_share_offer(struct oriel_comm *comm, enum ori_call call,
				  const struct ori_piece *pieces, unsigned count,
				  struct ori_offering *offering)
{
	enum oriel_status status = ORIEL_OK;
	unsigned i;

	memset(offering, 0, sizeof(*offering));
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
		offering->mem[i] = NULL;
	}
}

static const struct ori_offer *share_offer_of(const void *offers, size_t stride, unsigned peer)
{
	return (const void *)((const char *)offers + peer * stride);
}

/* How many descriptors travel with @offer: one per piece that has bytes. */
static unsigned share_files(const struct ori_offer *offer, unsigned count)
{
	unsigned i, files = 0;

	for (i = 0; i < count; i++)
		files += offer->blob[i].length > 0;
	return files;
}

static enum oriel_status share_send(struct oriel_comm *comm, const struct ori_offering *offering,
				    uint64_t deadline)
{
	int fds[ORI_SHARE_PIECES];
	enum oriel_status status;
	unsigned i, peer, files = 0;

	for (i = 0; i < offering->count; i++)
		if (offering->mem[i])
			fds[files++] = offering->mem[i]->fd;
	for (peer = 0; files && peer < comm->size; peer++) {
		if (!ori_comm_is_foreign(comm, peer))
			continue;
		status = ori_mesh_send_fds(comm, peer, fds, files, deadline);
		if (status != ORIEL_OK)
			return status;
	}
	return ORIEL_OK;
}

static enum oriel_status share_import_peer(struct oriel_comm *comm, unsigned peer,
					   const struct ori_offer *offer, unsigned count,
					   uint64_t deadline, struct ori_mapping *maps)
{
	bool is_foreign = ori_comm_is_foreign(comm, peer);
	unsigned i, at = 0, files = share_files(offer, count);
	int fds[ORI_SHARE_PIECES];
	enum oriel_status status = ORIEL_OK;

	if (is_foreign && files) {
		status = ori_mesh_recv_fds(comm, peer, fds, files, deadline);
		if (status != ORIEL_OK)
			return status;
	}
	for (i = 0; i < count; i++) {
		if (!offer->blob[i].length)
			continue;
		if (status == ORIEL_OK)
			status = ori_mem_import(&offer->blob[i], is_foreign ? fds[at] : -1,
						&maps[(size_t)i * comm->size + peer]);
		if (is_foreign)
			close(fds[at++]);
	}
	return status;
}

enum oriel_status ori_share_import(struct oriel_comm *comm, const struct ori_offering *offering,
				   const void *offers, size_t stride, struct ori_mapping *maps)
{
	uint64_t deadline = ori_deadline(comm->timeout_ns);
	enum oriel_status status, imported;
	unsigned peer;

	/*
	 * All send before they receive; one message of a few descriptors fits
	 * any socket, so no send waits for its receiver. After a failure the
	 * rest is still received, so that the next share finds empty sockets.
	 */
	status = share_send(comm, offering, deadline);
	for (peer = 0; peer < comm->size; peer++) {
		if (comm->of[peer].path == ORIEL_PATH_RDMA)
			continue;
		imported = share_import_peer(comm, peer, share_offer_of(offers, stride, peer),
					     offering->count, deadline, maps);
		if (status == ORIEL_OK)
			status = imported;
	}
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

enum oriel_status ori_share_one(struct oriel_comm *comm, enum ori_call call,
				const struct ori_piece *piece, struct ori_mapping *maps)
{
	struct ori_offering offering;
	enum oriel_status status;

	ori_share_offer(comm, call, piece, 1, &offering);
	status =
		ori_comm_gather(comm, call, &offering.offer, comm->records, sizeof(offering.offer));
	if (status == ORIEL_OK)
		status = ori_verdict_judge(comm->records, sizeof(offering.offer), comm->size,
					   comm->rank);
	if (status == ORIEL_OK) {
		status = ori_share_import(comm, &offering, comm->records, sizeof(offering.offer),
					  maps);
		status = ori_comm_agree(comm, call, status);
		if (status != ORIEL_OK)
			ori_share_close(maps, comm->size);
	}
	ori_share_withdraw(&offering);
	return status;
}
