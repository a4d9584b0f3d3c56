/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: memory that an application registers, and may share with all ranks. Public
 * functions of oriel/region.h.
 */
#include "comm/region.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/handle.h"
#include "base/log.h"
#include "comm/health.h"
#include "rdma/rdma.h"

/* A range of GPU memory may be mapped from several allocations: a digest of all their ids. */
static enum oriel_status region_gpu_identity(const struct ori_gpu *gpu, const char *at,
					     size_t length, uint64_t *identity)
{
	const char *end = at + length;
	struct ori_gpu_memory_info info;
	enum oriel_status status;
	uint64_t digest = 0;

	while (at < end) {
		status = gpu->ops->query(gpu, at, &info);
		if (status != ORIEL_OK)
			return status;
		if (!info.id || !info.length) {
			digest = 0;
			break;
		}
		digest = (digest ^ info.id) * UINT64_C(0x9e3779b97f4a7c15);
		digest ^= digest >> 32;
		at = info.base + info.length;
	}
	*identity = digest;
	return ORIEL_OK;
}

enum oriel_status oriel_memory_identity(struct oriel_comm *comm, const void *address, size_t length,
					uint64_t *identity)
{
	enum oriel_status status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	uint64_t id;

	if (status == ORIEL_OK && !identity)
		status = ori_fail_null(__func__, "identity");
	if (status != ORIEL_OK)
		return status;
	if (!address || !length || (uintptr_t)address + length < length)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_memory_identity: %zu bytes at %p", length,
				address);
	id = ori_mem_id(address, length);
	if (!id && comm->gpu)
		return region_gpu_identity(comm->gpu, address, length, identity);
	*identity = id;
	return ORIEL_OK;
}

static void region_free(struct oriel_region *region)
{
	free(region->maps);
	free(region->remotes);
	ori_handle_free(region);
}

enum oriel_status oriel_region_register(struct oriel_comm *comm, void *address, size_t length,
					struct oriel_region **out)
{
	struct oriel_region *region;
	struct oriel_dev_keys none;
	enum oriel_status status;

	if (!out)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_region_register: region is NULL");
	status = ori_handle_check(comm, ORI_HANDLE_COMM, __func__);
	if (status == ORIEL_OK)
		status = ori_comm_check(comm);
	if (status != ORIEL_OK)
		return status;
	if (!address || !length || (uintptr_t)address + length < length)
		return ori_fail(ORIEL_ERR_INVALID, "a region of %zu bytes at %p", length, address);
	region = ori_handle_alloc(ORI_HANDLE_REGION, sizeof(*region));
	if (!region)
		return ori_fail_nomem(sizeof(*region), "a region of %u ranks", comm->size);
	region->remotes = calloc(comm->size, sizeof(*region->remotes));
	region->maps = calloc(comm->size, sizeof(*region->maps));
	if (!region->remotes || !region->maps)
		status = ori_fail_nomem(comm->size *
						(sizeof(*region->remotes) + sizeof(*region->maps)),
					"a region of %u ranks", comm->size);
	else if (comm->rdma)
		status = ori_rdma_register(comm->rdma, address, length, ORI_RDMA_OWN,
					   &region->own_mr, &none);
	if (status != ORIEL_OK) {
		region_free(region);
		return status;
	}
	region->comm = comm;
	region->piece.address = address;
	region->piece.length = length;
	region->piece.use = ORI_USE_ANY;
	ori_handle_open(region, comm);
	ori_log_rank(ORIEL_LOG_DEBUG, comm->rank, "region of %zu bytes at %p is registered", length,
		     address);
	*out = region;
	return ORIEL_OK;
}

enum oriel_status oriel_region_share(struct oriel_region *region)
{
	enum oriel_status status = ori_handle_check(region, ORI_HANDLE_REGION, __func__);

	if (status != ORIEL_OK)
		return status;
	if (region->is_shared)
		status = ori_fail(ORIEL_ERR_STATE, "the region at %p is shared already",
				  region->piece.address);
	status = ori_share_one(region->comm, ORI_CALL_REGION_SHARE, status, &region->piece,
			       region->maps, region->remotes, &region->mr);
	if (status == ORIEL_OK)
		region->is_shared = true;
	return status;
}

enum oriel_status oriel_region_unregister(struct oriel_region *region)
{
	if (!ori_handle_shut(region, ORI_HANDLE_REGION, __func__))
		return ori_handle_refused(region);
	if (region->unpublish)
		region->unpublish(region);
	/*
	 * No peer may still write to memory that is unregistered; broken communicators do
	 * not wait.
	 */
	if (region->is_shared) {
		if (ori_comm_is_well(region->comm))
			ori_comm_gather(region->comm, ORI_CALL_REGION_UNREGISTER, NULL, NULL, 0);
		ori_share_close(region->maps, region->comm->size);
		ori_share_unregister(region->comm, region->mr);
	}
	if (region->own_mr)
		ori_rdma_unregister(region->comm->rdma, region->own_mr);
	region_free(region);
	return ORIEL_OK;
}

static enum oriel_status region_check(const struct oriel_region *region, unsigned peer,
				      const char *call)
{
	enum oriel_status status = ori_handle_check(region, ORI_HANDLE_REGION, call);

	if (status != ORIEL_OK)
		return status;
	if (peer >= region->comm->size)
		return ori_fail(ORIEL_ERR_RANGE, "rank %u of %u", peer, region->comm->size);
	if (!region->is_shared)
		return ori_fail(ORIEL_ERR_STATE, "the region at %p is not shared yet",
				region->piece.address);
	return ORIEL_OK;
}

enum oriel_status oriel_region_peer_length(const struct oriel_region *region, unsigned peer,
					   size_t *length)
{
	enum oriel_status status = region_check(region, peer, __func__);

	if (status == ORIEL_OK && !length)
		status = ori_fail_null(__func__, "length");
	if (status == ORIEL_OK)
		*length = region->maps[peer].length;
	return status;
}

enum oriel_status oriel_region_peer_address(const struct oriel_region *region, unsigned peer,
					    size_t offset, void **address)
{
	enum oriel_status status = region_check(region, peer, __func__);

	if (status == ORIEL_OK && !address)
		status = ori_fail_null(__func__, "address");
	if (status != ORIEL_OK)
		return status;
	if (!region->maps[peer].address)
		return ori_fail(ORIEL_ERR_NO_PATH, "rank %u is not mapped by rank %u", peer,
				region->comm->rank);
	if (offset >= region->maps[peer].length)
		return ori_fail(ORIEL_ERR_RANGE, "offset %zu in a region of %zu bytes of rank %u",
				offset, region->maps[peer].length, peer);
	*address = (char *)region->maps[peer].address + offset;
	return ORIEL_OK;
}

enum oriel_status oriel_region_table(const struct oriel_region *region,
				     struct oriel_dev_buffer *table)
{
	enum oriel_status status = region_check(region, 0, __func__);
	unsigned own, peer;

	if (status == ORIEL_OK && !table)
		status = ori_fail_null(__func__, "table");
	if (status != ORIEL_OK)
		return status;
	own = region->comm->rank;
	for (peer = 0; peer < region->comm->size; peer++) {
		table[peer] = (struct oriel_dev_buffer){.base = region->maps[peer].address,
							.length = region->maps[peer].length,
							.address = region->remotes[peer].address,
							.rkeys = region->remotes[peer].rkeys};
		/* Not mapped: an address outside its own memory, never used. */
		if (!table[peer].base)
			table[peer].base = region->piece.address;
	}
	if (region->mr)
		ori_share_local(region->mr, &table[own].address, &table[own].rkeys);
	return ORIEL_OK;
}
