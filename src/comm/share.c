/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/share.h"

#include <string.h>

#include "base/error.h"
#include "comm/mesh.h"
#include "transport/transport.h"

static bool share_has_foreign(const struct oriel_comm *comm)
{
	unsigned peer;

	for (peer = 0; peer < comm->size; peer++)
		if (ori_comm_is_foreign(comm, peer))
			return true;
	return false;
}

enum oriel_status ori_share_register(struct oriel_comm *comm, void *address, size_t length,
				     struct ori_hca_mr **mr, uint32_t *rkey)
{
	struct ori_hca_keys keys;
	enum oriel_status status;

	status = ori_rdma_register(comm->rdma, address, length, mr, &keys);
	if (status == ORIEL_OK)
		*rkey = keys.rkey;
	return status;
}

static enum oriel_status share_offer_piece(struct oriel_comm *comm, const struct ori_piece *piece,
					   struct ori_offering *offering, unsigned i)
{
	struct ori_mem_blob *blob = &offering->offer.blob[i];
	enum oriel_status status;
	uint64_t offset;

	if (!piece->length)
		return ORIEL_OK;
	if (piece->address && comm->rdma) {
		status = ori_share_register(comm, piece->address, piece->length, &offering->mr[i],
					    &offering->offer.rkey[i]);
		if (status != ORIEL_OK)
			return status;
	}
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

void ori_share_unregister(struct oriel_comm *comm, struct ori_hca_mr *mr)
{
	if (!mr)
		return;
	/* A peer that found its key gone would take that for the cause. */
	ori_pulse_settle(comm);
	ori_rdma_unregister(comm->rdma, mr);
}

/* One import: who offered what, and where it goes. */
struct share_import {
	struct oriel_comm *comm;
	unsigned count; /* pieces of each rank */
	const void *offers;
	size_t stride;
	struct ori_mapping *maps;
};

static const struct ori_offer *share_offer_of(const struct share_import *s, unsigned peer)
{
	return (const void *)((const char *)s->offers + peer * s->stride);
}

/* Map what @peer offered; @fds NULL: it is a thread of this process. */
static enum oriel_status share_take(void *context, unsigned peer, const int *fds)
{
	const struct share_import *s = context;
	const struct ori_offer *offer = share_offer_of(s, peer);
	enum oriel_status status = ORIEL_OK;
	unsigned i, at = 0;

	for (i = 0; i < s->count && status == ORIEL_OK; i++)
		if (offer->blob[i].length)
			status = ori_mem_import(&offer->blob[i], fds ? fds[at++] : -1,
						&s->maps[(size_t)i * s->comm->size + peer]);
	return status;
}

/* What every rank offers: lengths, and how many descriptors will come. */
static void share_expect(struct share_import *s, unsigned *expected)
{
	unsigned peer, i;

	for (peer = 0; peer < s->comm->size; peer++) {
		const struct ori_offer *offer = share_offer_of(s, peer);

		expected[peer] = 0;
		for (i = 0; i < s->count; i++) {
			expected[peer] += offer->blob[i].length > 0;
			s->maps[(size_t)i * s->comm->size + peer].length = offer->blob[i].length;
		}
	}
}

static enum oriel_status share_take_all(struct share_import *s, const int *fds, unsigned files)
{
	struct oriel_comm *comm = s->comm;
	enum oriel_status status = ORIEL_OK, exchanged;
	unsigned peer;

	share_expect(s, comm->expected);
	for (peer = 0; peer < comm->size && status == ORIEL_OK; peer++)
		if (comm->of[peer].domain_index != ORIEL_DEV_NO_INDEX &&
		    !ori_comm_is_foreign(comm, peer))
			status = share_take(s, peer, NULL);
	exchanged = ori_mesh_exchange(comm, fds, files, comm->expected, share_take, s);
	return status == ORIEL_OK ? exchanged : status;
}

enum oriel_status ori_share_import(struct oriel_comm *comm, const struct ori_offering *offering,
				   const void *offers, size_t stride, struct ori_mapping *maps)
{
	struct share_import s = {comm, offering->count, offers, stride, maps};
	int fds[ORI_SHARE_PIECES];
	enum oriel_status status;
	unsigned i, files = 0;

	for (i = 0; i < offering->count; i++)
		if (offering->mem[i])
			fds[files++] = offering->mem[i]->fd;
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

enum oriel_status ori_share_one(struct oriel_comm *comm, enum ori_call call,
				enum oriel_status status, const struct ori_piece *piece,
				struct ori_mapping *maps, uint32_t *rkeys, struct ori_hca_mr **mr)
{
	struct ori_offering offering;
	const struct ori_offer *offers = comm->records;
	unsigned peer;

	ori_share_offer(comm, call, status, piece, 1, &offering);
	status =
		ori_comm_gather(comm, call, &offering.offer, comm->records, sizeof(offering.offer));
	if (status == ORIEL_OK)
		status = ori_verdict_judge(comm->records, sizeof(offering.offer), comm->size,
					   comm->rank);
	if (status == ORIEL_OK) {
		for (peer = 0; peer < comm->size; peer++)
			rkeys[peer] = offers[peer].rkey[0];
		status = ori_share_import(comm, &offering, comm->records, sizeof(offering.offer),
					  maps);
		status = ori_comm_agree(comm, call, status);
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
