/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports memory for kernels: GPU memory of other processes and of this one, and host memory that
 * is pinned. comm/ and p2p/ call it; mapping.c closes what it imported.
 */
#include "mem/gpu_mapping.h"

#include <unistd.h>

#include "base/error.h"
#include "mem/memfd.h"

/* Read the lengths of several allocations from the file @fd that precedes their descriptors. */
static enum oriel_status mapping_read_lengths(const struct ori_mem_blob *b, int fd,
					      uint64_t lengths[ORI_MEM_SEGMENTS])
{
	size_t bytes = b->segments * sizeof(lengths[0]);
	uint64_t sum = 0;
	enum oriel_status status;
	unsigned i;

	status = ori_memfd_check(fd, 0, bytes);
	if (status != ORIEL_OK)
		return status;
	if (pread(fd, lengths, bytes, 0) != (ssize_t)bytes)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "lengths of a peer's GPU memory");
	for (i = 0; i < b->segments; i++)
		if (lengths[i] == 0 || __builtin_add_overflow(sum, lengths[i], &sum))
			return ori_fail(
				ORIEL_ERR_PROTOCOL,
				"a peer's GPU memory has an allocation of impossible length");
	if (sum != b->alloc_length)
		return ori_fail(
			ORIEL_ERR_PROTOCOL,
			"the allocations of a peer's GPU memory do not add up to its length");
	return ORIEL_OK;
}

static enum oriel_status mapping_open_files(const struct ori_gpu *gpu, const struct ori_mem_blob *b,
					    const int *fds, struct ori_mapping *m)
{
	uint64_t lengths[ORI_MEM_SEGMENTS] = {b->alloc_length};
	enum oriel_status status = ORIEL_OK;
	void *base;

	if (b->segments > 1)
		status = mapping_read_lengths(b, *fds++, lengths);
	if (status == ORIEL_OK)
		status = gpu->ops->import(gpu, fds, lengths, b->segments, &base);
	if (status != ORIEL_OK)
		return status;
	m->base = base;
	m->base_length = (size_t)b->alloc_length;
	m->address = (char *)base + b->mem_offset;
	return ORIEL_OK;
}

/*
 * cudaIpcOpenMemHandle() maps whole allocations, whose true length is queried to check the peer's.
 */
static enum oriel_status mapping_open_handle(const struct ori_gpu *gpu,
					     const struct ori_mem_blob *b, struct ori_mapping *m)
{
	struct ori_gpu_memory_info info;
	enum oriel_status status;
	void *base;

	status = gpu->ops->open_handle(gpu, b->handle, &base);
	if (status != ORIEL_OK)
		return status;
	status = gpu->ops->query(gpu, base, &info);
	if (status == ORIEL_OK && b->alloc_length > info.length)
		status = ori_fail(ORIEL_ERR_PROTOCOL, "a peer's GPU memory has %zu bytes, not %zu",
				  info.length, (size_t)b->alloc_length);
	if (status != ORIEL_OK) {
		gpu->ops->close_handle(gpu, base);
		return status;
	}
	m->base = base;
	m->base_length = info.length;
	m->address = (char *)base + b->mem_offset;
	return ORIEL_OK;
}

static enum oriel_status mapping_open_fabric(const struct ori_gpu *gpu,
					     const struct ori_mem_blob *b, struct ori_mapping *m)
{
	enum oriel_status status;
	void *base;

	status = gpu->ops->import_fabric(gpu, b->handle, b->alloc_length, &base);
	if (status != ORIEL_OK)
		return status;
	m->base = base;
	m->base_length = (size_t)b->alloc_length;
	m->address = (char *)base + b->mem_offset;
	return ORIEL_OK;
}

/* Let kernels reach the host memory that @m maps for the CPU. */
static enum oriel_status mapping_pin(const struct ori_gpu *gpu, struct ori_mapping *m)
{
	enum oriel_status status;

	/* The owner of private memory pins it. */
	if (!m->mem && !m->base)
		return ORIEL_OK;
	status = m->mem ? ori_mem_pin(gpu, m->mem) : gpu->ops->pin(gpu, m->base, m->base_length);
	m->is_pinned = status == ORIEL_OK;
	return status;
}

/* Let @gpu access the whole allocation, which a thread of this process has exported. */
static enum oriel_status mapping_enable_access(const struct ori_gpu *gpu,
					       const struct ori_mem_blob *b)
{
	return gpu->ops->enable_access(gpu,
				       b->kind == ORI_MEM_BLOB_GPU_HANDLE ? ORI_GPU_LEGACY
									  : ORI_GPU_MAPPED,
				       (const void *)(uintptr_t)(b->address - b->mem_offset),
				       (size_t)b->alloc_length);
}

static enum oriel_status mapping_open_gpu(const struct ori_gpu *gpu, const struct ori_mem_blob *b,
					  const int *fds, struct ori_mapping *m)
{
	enum oriel_status status;

	if (!fds) {
		status = ori_mapping_open_local(b, m);
		return status == ORIEL_OK ? mapping_enable_access(gpu, b) : status;
	}
	if (b->kind == ORI_MEM_BLOB_GPU_FILES)
		return mapping_open_files(gpu, b, fds, m);
	if (b->kind == ORI_MEM_BLOB_GPU_FABRIC)
		return mapping_open_fabric(gpu, b, m);
	return mapping_open_handle(gpu, b, m);
}

/* A mapping with nothing mapped yet, described as @b says. */
static struct ori_mapping mapping_of(const struct ori_gpu *gpu, const struct ori_mem_blob *b)
{
	return (struct ori_mapping){.address = (void *)(uintptr_t)b->address,
				    .length = (size_t)b->length,
				    .kind = b->kind,
				    .gpu = gpu};
}

enum oriel_status ori_mem_import_gpu(const struct ori_gpu *gpu, const struct ori_mem_blob *blob,
				     const int *fds, struct ori_mapping *mapping)
{
	struct ori_mapping m = {0};
	struct ori_mem_blob b;
	enum oriel_status status;

	status = ori_mem_blob_parse(blob, sizeof(*blob), &b);
	if (status != ORIEL_OK)
		return status;
	if (ori_mem_blob_is_gpu(&b)) {
		m = mapping_of(gpu, &b);
		status = mapping_open_gpu(gpu, &b, fds, &m);
	} else {
		status = ori_mem_import(&b, fds ? fds[0] : -1, &m);
		m.gpu = gpu;
		if (status == ORIEL_OK)
			status = mapping_pin(gpu, &m);
	}
	if (status == ORIEL_OK)
		*mapping = m;
	else
		ori_mapping_close(&m);
	return status;
}

/* Fail with the reason why @b cannot be imported on another node. */
static enum oriel_status mapping_reject_fabric(const struct ori_mem_blob *b)
{
	if (!ori_mem_blob_is_gpu(b))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"host memory of another node: an NVLink fabric reaches memory on "
				"GPUs only");
	if (b->kind == ORI_MEM_BLOB_GPU_HANDLE)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"cudaMalloc() memory cannot be reached from other nodes: use "
				"oriel_memory_alloc() or CU_MEM_HANDLE_TYPE_FABRIC");
	if (b->segments > 1)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"GPU memory mapped from %u allocations cannot be reached from "
				"other nodes, only from one",
				b->segments);
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"GPU memory cannot be reached from other nodes: it was allocated without "
			"CU_MEM_HANDLE_TYPE_FABRIC");
}

enum oriel_status ori_mem_import_fabric(const struct ori_gpu *gpu, const struct ori_mem_blob *blob,
					struct ori_mapping *mapping)
{
	struct ori_mem_blob b;
	struct ori_mapping m;
	enum oriel_status status;

	status = ori_mem_blob_parse(blob, sizeof(*blob), &b);
	if (status != ORIEL_OK)
		return status;
	if (b.kind != ORI_MEM_BLOB_GPU_FABRIC && !(b.flags & ORI_MEM_BLOB_FABRIC))
		return mapping_reject_fabric(&b);
	m = mapping_of(gpu, &b);
	status = mapping_open_fabric(gpu, &b, &m);
	if (status == ORIEL_OK)
		*mapping = m;
	return status;
}
