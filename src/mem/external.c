/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements mem/external.h: exports cudaMalloc() memory by IPC handle, and mapped memory by
 * descriptors or a fabric handle.
 */
#include "mem/external.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "mem/memfd.h"

struct ori_external {
	uint32_t kind; /* enum ori_mem_blob_kind */
	uint32_t segments;
	int lengths; /* file with @segments lengths, -1 for a single allocation */
	int fds[ORI_MEM_SEGMENTS];
	bool has_fabric;
	uint8_t handle[ORI_GPU_HANDLE];
};

void ori_external_export(const struct ori_external *a, struct ori_mem_blob *blob)
{
	blob->kind = a->kind;
	blob->segments = a->segments;
	blob->flags = a->has_fabric ? ORI_MEM_BLOB_FABRIC : 0;
	memcpy(blob->handle, a->handle, sizeof(blob->handle));
}

unsigned ori_external_fds(const struct ori_external *a, int fds[ORI_MEM_FDS])
{
	unsigned count = 0, i;

	if (a->lengths >= 0)
		fds[count++] = a->lengths;
	for (i = 0; i < a->segments; i++)
		fds[count++] = a->fds[i];
	return count;
}

void ori_external_close(struct ori_external *a)
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

/* Write the first @count of @lengths into a file of their own. */
static enum oriel_status external_write_lengths(struct ori_external *a, const uint64_t *lengths)
{
	size_t bytes = a->segments * sizeof(*lengths), whole = bytes;
	struct ori_memfd_map map;
	enum oriel_status status;

	status = ori_memfd_open(false, &whole, &a->lengths, &map);
	if (status != ORIEL_OK)
		return status;
	memcpy(map.base, lengths, bytes);
	ori_memfd_unmap(&map);
	return ORIEL_OK;
}

static enum oriel_status external_reject(const struct ori_gpu_memory_info *info, const void *at)
{
	static const char *const what[] = {
		[ORI_GPU_PAGEABLE] = "host memory",
		[ORI_GPU_PINNED] = "host memory",
		/* One text: NOLINTNEXTLINE(bugprone-suspicious-missing-comma) */
		[ORI_GPU_OTHER] = "managed memory, or of a memory pool, which no other process "
				  "can open: use cudaMalloc() or oriel_memory_alloc()",
	};

	return ori_fail(ORIEL_ERR_UNSUPPORTED, "%p is %s", at,
			info->kind < sizeof(what) / sizeof(what[0]) && what[info->kind]
				? what[info->kind]
				: "not mapped GPU memory");
}

/* A single allocation, exported as @handles. */
static void external_set_one(struct ori_external *a, const struct ori_gpu_handles *handles)
{
	a->kind = handles->fd < 0 ? ORI_MEM_BLOB_GPU_FABRIC : ORI_MEM_BLOB_GPU_FILES;
	a->has_fabric = handles->fd >= 0 && handles->has_fabric;
	memcpy(a->handle, handles->fabric, sizeof(a->handle));
}

/* Several allocations side by side are exported by descriptors only. */
static enum oriel_status external_set_several(struct ori_external *a, const uint64_t *lengths)
{
	a->has_fabric = false;
	memset(a->handle, 0, sizeof(a->handle));
	return external_write_lengths(a, lengths);
}

/* Describe the memory behind @end, which must be a mapping too. */
static enum oriel_status external_query_next(const struct ori_gpu *gpu, const char *end,
					     struct ori_gpu_memory_info *info)
{
	enum oriel_status status = gpu->ops->query(gpu, end, info);

	if (status != ORIEL_OK || info->kind == ORI_GPU_MAPPED)
		return status;
	return external_reject(info, end);
}

/* Export each mapping from @first to @end. */
static enum oriel_status external_export_mapped(const struct ori_gpu *gpu, struct ori_external *a,
						const struct ori_gpu_memory_info *first,
						const char *end, size_t *length)
{
	uint64_t lengths[ORI_MEM_SEGMENTS];
	struct ori_gpu_memory_info info = *first;
	struct ori_gpu_handles handles;
	enum oriel_status status;

	for (;;) {
		if (a->segments == ORI_MEM_SEGMENTS)
			return ori_fail(ORIEL_ERR_UNSUPPORTED,
					"the memory at %p is mapped from more than %u allocations",
					(void *)first->base, ORI_MEM_SEGMENTS);
		status = gpu->ops->export_mapped(gpu, &info, &handles);
		if (status != ORIEL_OK)
			return status;
		*length += info.length;
		if (*length == info.length)
			external_set_one(a, &handles);
		if (handles.fd < 0)
			break;
		lengths[a->segments] = info.length;
		a->fds[a->segments++] = handles.fd;
		if (info.base + info.length >= end)
			return a->segments > 1 ? external_set_several(a, lengths) : ORIEL_OK;
		status = external_query_next(gpu, info.base + info.length, &info);
		if (status != ORIEL_OK)
			return status;
	}
	if (a->segments || info.base + info.length < end)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"the memory at %p is mapped from several allocations, of which "
				"that at %p gives no descriptor",
				(void *)first->base, (void *)info.base);
	return ORIEL_OK;
}

/*
 * Export the memory that begins with @info by the handles of its kind; *@length becomes its
 * length.
 */
static enum oriel_status external_export_any(const struct ori_gpu *gpu, struct ori_external *a,
					     const struct ori_gpu_memory_info *info,
					     const char *address, const char *end, size_t *length)
{
	if (info->kind == ORI_GPU_MAPPED)
		return external_export_mapped(gpu, a, info, end, length);
	if (info->kind != ORI_GPU_LEGACY)
		return external_reject(info, address);
	if (info->base + info->length < end)
		return ori_fail(ORIEL_ERR_RANGE, "the allocation at %p ends before %p",
				(void *)info->base, (const void *)end);
	a->kind = ORI_MEM_BLOB_GPU_HANDLE;
	*length = info->length;
	return gpu->ops->export_handle(gpu, info, a->handle);
}

enum oriel_status ori_mem_open_external(const struct ori_gpu *gpu, void *address, size_t length,
					struct ori_mem **mem, uint64_t *offset)
{
	struct ori_mem *m = calloc(1, sizeof(*m));
	struct ori_external *a = calloc(1, sizeof(*a));
	struct ori_gpu_memory_info info;
	enum oriel_status status;

	if (!m || !a) {
		status = ori_fail_nomem(sizeof(*m) + sizeof(*a), "a handle");
		goto err_free;
	}
	a->lengths = -1;
	status = gpu->ops->query(gpu, address, &info);
	if (status == ORIEL_OK && info.device >= 0 && info.device != gpu->device)
		status = ori_fail(ORIEL_ERR_INVALID,
				  "%p is memory of GPU %d, the communicator is for GPU %d (%s)",
				  address, info.device, gpu->device, gpu->pci);
	if (status == ORIEL_OK)
		status = external_export_any(gpu, a, &info, address, (char *)address + length,
					     &m->length);
	if (status != ORIEL_OK)
		goto err_free;
	m->address = info.base;
	m->fd = -1;
	m->flags = ORIEL_MEMORY_DEVICE;
	m->kind = ORI_MEM_EXTERNAL;
	m->gpu = gpu->ops;
	m->external = a;
	m->refs = 1;
	*mem = m;
	*offset = (uint64_t)((char *)address - info.base);
	return ORIEL_OK;

err_free:
	ori_external_close(a);
	free(m);
	return status;
}
