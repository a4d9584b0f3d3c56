/* SPDX-License-Identifier: Apache-2.0 */
#include "mem/adopt.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "mem/memfd.h"

struct ori_adopted {
	uint32_t kind; /* enum ori_mem_blob_kind */
	uint32_t segments;
	int lengths; /* file of @segments lengths, -1 unless there are several */
	int fds[ORI_MEM_SEGMENTS];
	bool has_fabric;
	uint8_t handle[ORI_GPU_HANDLE];
};

void ori_adopted_export(const struct ori_adopted *a, struct ori_mem_blob *blob)
{
	blob->kind = a->kind;
	blob->segments = a->segments;
	blob->flags = a->has_fabric ? ORI_MEM_BLOB_FABRIC : 0;
	memcpy(blob->handle, a->handle, sizeof(blob->handle));
}

unsigned ori_adopted_fds(const struct ori_adopted *a, int fds[ORI_MEM_FDS])
{
	unsigned count = 0, i;

	if (a->lengths >= 0)
		fds[count++] = a->lengths;
	for (i = 0; i < a->segments; i++)
		fds[count++] = a->fds[i];
	return count;
}

void ori_adopted_close(struct ori_adopted *a)
{
	unsigned i;

	if (!a)
		return;
	for (i = 0; i < a->segments; i++)
		close(a->fds[i]);
	if (a->lengths >= 0)
		close(a->lengths);
	free(a);
}

/* The first @count of @lengths in a file of their own. */
static enum oriel_status adopt_write_lengths(struct ori_adopted *a, const uint64_t *lengths)
{
	size_t bytes = a->segments * sizeof(*lengths), whole = bytes;
	struct ori_memfd_map map;
	enum oriel_status st;

	st = ori_memfd_open(false, &whole, &a->lengths, &map);
	if (st != ORIEL_OK)
		return st;
	memcpy(map.base, lengths, bytes);
	ori_memfd_unmap(&map);
	return ORIEL_OK;
}

static enum oriel_status adopt_refuse(const struct ori_gpu_place *place, const void *at)
{
	static const char *const what[] = {
		[ORI_GPU_PAGEABLE] = "host memory",
		[ORI_GPU_PINNED] = "host memory",
		[ORI_GPU_OTHER] = "managed memory, or of a memory pool, which no other process "
				  "can open: use cudaMalloc() or oriel_memory_alloc()",
	};

	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%p is %s", at,
			place->kind < sizeof(what) / sizeof(what[0]) && what[place->kind]
				? what[place->kind]
				: "no mapped memory of a GPU");
}

/* One allocation that leaves as @handles say. */
static void adopt_one(struct ori_adopted *a, const struct ori_gpu_handles *handles)
{
	a->kind = handles->fd < 0 ? ORI_MEM_BLOB_GPU_FABRIC : ORI_MEM_BLOB_GPU_FILES;
	a->has_fabric = handles->fd >= 0 && handles->has_fabric;
	memcpy(a->handle, handles->fabric, sizeof(a->handle));
}

/* Several side by side leave by descriptors alone. */
static enum oriel_status adopt_several(struct ori_adopted *a, const uint64_t *lengths)
{
	a->has_fabric = false;
	memset(a->handle, 0, sizeof(a->handle));
	return adopt_write_lengths(a, lengths);
}

/* What lies behind @end of the memory that begins at @first. */
static enum oriel_status adopt_find_next(const struct ori_gpu *gpu, const char *end,
					 struct ori_gpu_place *place)
{
	enum oriel_status st = gpu->ops->find(gpu, end, place);

	if (st != ORIEL_OK || place->kind == ORI_GPU_MAPPED)
		return st;
	return adopt_refuse(place, end);
}

/* Each mapping from @first on until @end. */
static enum oriel_status adopt_mapped(const struct ori_gpu *gpu, struct ori_adopted *a,
				      const struct ori_gpu_place *first, const char *end,
				      size_t *length)
{
	uint64_t lengths[ORI_MEM_SEGMENTS];
	struct ori_gpu_place place = *first;
	struct ori_gpu_handles handles;
	enum oriel_status st;

	for (;;) {
		if (a->segments == ORI_MEM_SEGMENTS)
			return ori_fail(ORIEL_ERR_UNSUPPORTED,
					"the memory at %p is mapped from more than %u allocations",
					(void *)first->base, ORI_MEM_SEGMENTS);
		st = gpu->ops->export_mapped(gpu, &place, &handles);
		if (st != ORIEL_OK)
			return st;
		*length += place.length;
		if (*length == place.length)
			adopt_one(a, &handles);
		if (handles.fd < 0)
			break;
		lengths[a->segments] = place.length;
		a->fds[a->segments++] = handles.fd;
		if (place.base + place.length >= end)
			return a->segments > 1 ? adopt_several(a, lengths) : ORIEL_OK;
		st = adopt_find_next(gpu, place.base + place.length, &place);
		if (st != ORIEL_OK)
			return st;
	}
	if (a->segments || place.base + place.length < end)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"the memory at %p is mapped from several allocations, of which "
				"that at %p gives no descriptor",
				(void *)first->base, (void *)place.base);
	return ORIEL_OK;
}

/* How the memory that begins with @place leaves; *@length is all of it. */
static enum oriel_status adopt_export(const struct ori_gpu *gpu, struct ori_adopted *a,
				      const struct ori_gpu_place *place, const char *address,
				      const char *end, size_t *length)
{
	if (place->kind == ORI_GPU_MAPPED)
		return adopt_mapped(gpu, a, place, end, length);
	if (place->kind != ORI_GPU_LEGACY)
		return adopt_refuse(place, address);
	if (place->base + place->length < end)
		return ori_fail(ORIEL_ERR_RANGE, "the allocation at %p ends before %p",
				(void *)place->base, (const void *)end);
	a->kind = ORI_MEM_BLOB_GPU_HANDLE;
	*length = place->length;
	return gpu->ops->export_handle(gpu, place, a->handle);
}

enum oriel_status ori_mem_adopt(const struct ori_gpu *gpu, void *address, size_t length,
				struct ori_mem **mem, uint64_t *offset)
{
	struct ori_mem *m = calloc(1, sizeof(*m));
	struct ori_adopted *a = calloc(1, sizeof(*a));
	struct ori_gpu_place place;
	enum oriel_status st;

	if (!m || !a) {
		st = ori_fail(ORIEL_ERR_NOMEM, "no memory for a handle");
		goto err_free;
	}
	a->lengths = -1;
	st = gpu->ops->find(gpu, address, &place);
	if (st == ORIEL_OK && place.device >= 0 && place.device != gpu->device)
		st = ori_fail(ORIEL_ERR_INVALID,
			      "%p is memory of GPU %d, the communicator is for GPU %d (%s)",
			      address, place.device, gpu->device, gpu->pci);
	if (st == ORIEL_OK)
		st = adopt_export(gpu, a, &place, address, (char *)address + length, &m->length);
	if (st != ORIEL_OK)
		goto err_free;
	m->address = place.base;
	m->fd = -1;
	m->flags = ORIEL_MEMORY_DEVICE;
	m->kind = ORI_MEM_ADOPTED;
	m->gpu = gpu->ops;
	m->adopted = a;
	m->refs = 1;
	*mem = m;
	*offset = (uint64_t)((char *)address - place.base);
	return ORIEL_OK;

err_free:
	ori_adopted_close(a);
	free(m);
	return st;
}
