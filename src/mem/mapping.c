/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports memory as a blob of bytes, checks the blobs of peers, and imports host memory. comm/ and
 * p2p/ exchange the blobs.
 */
#include "mem/mapping.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "mem/external.h"
#include "mem/memfd.h"
#include "sys/process.h"

/* Set the fields of @b that only GPU memory has. */
static void export_gpu(const struct ori_mem *mem, struct ori_mem_blob *b)
{
	b->kind = ORI_MEM_BLOB_GPU_FILES;
	b->flags = 0;
	b->fd_offset = 0;
	b->alloc_length = mem->length;
	b->segments = 1;
	if (mem->has_fabric) {
		b->flags = ORI_MEM_BLOB_FABRIC;
		memcpy(b->handle, mem->fabric, sizeof(b->handle));
	}
	if (mem->external)
		ori_external_export(mem->external, b);
}

enum oriel_status ori_mem_export(const struct ori_mem *mem, uint64_t offset, size_t length,
				 struct ori_mem_blob *blob)
{
	struct ori_mem_blob b = {
		.version = ORI_MEM_BLOB_VERSION,
		.blob_length = sizeof(b),
		.kind = ORI_MEM_BLOB_FILE,
		.flags = mem->flags & ORIEL_MEMORY_HUGE ? ORI_MEM_BLOB_HUGE : 0,
		.id = mem->id,
		.address = (uintptr_t)mem->address + offset,
		.mem_offset = offset,
		.fd_offset = mem->fd_offset + offset,
		.length = length,
	};
	enum oriel_status status;

	if (length == 0 || offset > mem->length || length > mem->length - offset)
		return ori_fail(ORIEL_ERR_RANGE,
				"%zu bytes from offset %" PRIu64 " of memory of %zu bytes", length,
				offset, mem->length);
	if (mem->gpu)
		export_gpu(mem, &b);
	status = ori_process_token(&b.token);
	if (status == ORIEL_OK)
		*blob = b;
	return status;
}

unsigned ori_mem_fds(const struct ori_mem *mem, int fds[ORI_MEM_FDS])
{
	if (mem->external)
		return ori_external_fds(mem->external, fds);
	fds[0] = mem->fd;
	return 1;
}

/* Computed from the blob, so that the receiver knows how many descriptors to expect. */
unsigned ori_mem_blob_fds(const struct ori_mem_blob *blob)
{
	if (blob->kind == ORI_MEM_BLOB_FILE)
		return 1;
	/* Several descriptors follow a file with their lengths. */
	return blob->segments > 1 ? blob->segments + 1 : blob->segments;
}

static bool kind_is_gpu(uint32_t kind)
{
	return kind >= ORI_MEM_BLOB_GPU_FILES && kind <= ORI_MEM_BLOB_GPU_FABRIC;
}

bool ori_mem_blob_is_gpu(const struct ori_mem_blob *blob)
{
	return kind_is_gpu(blob->kind);
}

bool ori_mapping_is_gpu(const struct ori_mapping *mapping)
{
	return kind_is_gpu(mapping->kind);
}

enum oriel_status ori_mem_export_private(const void *address, size_t length,
					 struct ori_mem_blob *blob)
{
	struct ori_mem_blob b = {
		.version = ORI_MEM_BLOB_VERSION,
		.blob_length = sizeof(b),
		.kind = ORI_MEM_BLOB_PRIVATE,
		.address = (uintptr_t)address,
		.length = length,
	};
	enum oriel_status status;
	uintptr_t end;

	if (!address || length == 0 || __builtin_add_overflow((uintptr_t)address, length, &end))
		return ori_fail(ORIEL_ERR_INVALID, "memory of %zu bytes at %p", length, address);
	status = ori_process_token(&b.token);
	if (status == ORIEL_OK)
		*blob = b;
	return status;
}

static bool blob_has_handle(const struct ori_mem_blob *b)
{
	static const uint8_t none[ORI_GPU_HANDLE];

	return memcmp(b->handle, none, sizeof(none)) != 0;
}

/* Returns the error in the fields that only GPU memory has, or NULL. */
static const char *blob_gpu_flaw(const struct ori_mem_blob *b)
{
	bool is_files = b->kind == ORI_MEM_BLOB_GPU_FILES;

	if (is_files ? b->segments == 0 || b->segments > ORI_MEM_SEGMENTS : b->segments != 0)
		return "impossible number of allocations";
	if (b->flags & ~(uint32_t)ORI_MEM_BLOB_FABRIC || b->fd_offset)
		return "GPU memory with fields of a file";
	if (b->flags && b->segments != 1)
		return "a fabric handle for more than one allocation";
	if (is_files && blob_has_handle(b) != (b->flags != 0))
		return "its handle does not go with its flags";
	if (b->length > b->alloc_length || b->mem_offset > b->alloc_length - b->length)
		return "it exceeds its GPU memory";
	return b->alloc_length > PTRDIFF_MAX ? "impossible length" : NULL;
}

/* Returns the error in @b, or NULL. */
static const char *blob_flaw(const struct ori_mem_blob *b)
{
	uint64_t end;

	if (b->kind < ORI_MEM_BLOB_FILE || b->kind > ORI_MEM_BLOB_GPU_FABRIC)
		return "unknown kind";
	if (b->flags & ~(uint32_t)(ORI_MEM_BLOB_HUGE | ORI_MEM_BLOB_FABRIC))
		return "unknown flags";
	if (b->reserved)
		return "unknown field";
	if (b->token == 0)
		return "no process token";
	if (b->length == 0 || b->length > PTRDIFF_MAX)
		return "impossible length";
	if (b->address == 0 || __builtin_add_overflow(b->address, b->length, &end))
		return "impossible address";
	if (b->mem_offset >= b->address)
		return "impossible offset in its memory";
	if (__builtin_add_overflow(b->fd_offset, b->length, &end) || end > INT64_MAX)
		return "impossible offset in its file";
	if (ori_mem_blob_is_gpu(b))
		return blob_gpu_flaw(b);
	if (b->alloc_length || b->segments || b->flags & ORI_MEM_BLOB_FABRIC || blob_has_handle(b))
		return "host memory with fields of GPU memory";
	if ((b->kind == ORI_MEM_BLOB_FILE) != (b->id != 0))
		return "its id does not go with its kind";
	if (b->kind == ORI_MEM_BLOB_PRIVATE && (b->flags || b->mem_offset || b->fd_offset))
		return "private memory with fields of a file";
	return NULL;
}

/* The bytes come from a peer, so every field is checked before its first use. */
enum oriel_status ori_mem_blob_parse(const void *bytes, size_t length, struct ori_mem_blob *blob)
{
	struct ori_mem_blob b;
	const char *flaw;

	if (length != sizeof(b))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"description of memory has %zu bytes instead of %zu", length,
				sizeof(b));
	memcpy(&b, bytes, sizeof(b));
	if (b.version != ORI_MEM_BLOB_VERSION || b.blob_length != sizeof(b))
		return ori_fail(ORIEL_ERR_VERSION,
				"description of memory has version %u (%u bytes), not %u (%zu)",
				b.version, b.blob_length, ORI_MEM_BLOB_VERSION, sizeof(b));
	flaw = blob_flaw(&b);
	if (flaw)
		return ori_fail(ORIEL_ERR_PROTOCOL, "description of memory: %s", flaw);
	*blob = b;
	return ORIEL_OK;
}

bool ori_mem_blob_is_local(const struct ori_mem_blob *blob)
{
	uint64_t token;

	return ori_process_token(&token) == ORIEL_OK && blob->token == token;
}

/* The peer is a thread of this process, so a reference replaces the mapping. */
enum oriel_status ori_mapping_open_local(const struct ori_mem_blob *b, struct ori_mapping *m)
{
	if (!ori_mem_blob_is_local(b))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"memory of another process arrived without a descriptor");
	if (b->id == 0)
		return ORIEL_OK;
	m->mem = ori_mem_find_id(b->address - b->mem_offset, b->id);
	if (!m->mem)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"memory at 0x%" PRIx64 " (%" PRIu64 " bytes) is not allocated",
				b->address, b->length);
	if (b->mem_offset > m->mem->length || b->length > m->mem->length - b->mem_offset) {
		ori_mapping_close(m);
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"memory at 0x%" PRIx64 " (%" PRIu64
				" bytes) exceeds its allocation",
				b->address, b->length);
	}
	return ORIEL_OK;
}

/* The seal and the size are checked first: a file that shrinks would raise SIGBUS at an access. */
static enum oriel_status mapping_open_file(const struct ori_mem_blob *b, int fd,
					   struct ori_mapping *m)
{
	struct ori_memfd_map map;
	enum oriel_status status;

	if (b->kind != ORI_MEM_BLOB_FILE)
		return ori_fail(ORIEL_ERR_PROTOCOL, "private memory arrived with a descriptor");
	status = ori_memfd_check(fd, b->fd_offset, b->length);
	if (status == ORIEL_OK)
		status = ori_memfd_map(fd, b->fd_offset, (size_t)b->length,
				       b->flags & ORI_MEM_BLOB_HUGE, &map);
	if (status != ORIEL_OK)
		return status;
	m->base = map.base;
	m->base_length = map.length;
	m->address = map.base + map.lead;
	return ORIEL_OK;
}

enum oriel_status ori_mem_import(const struct ori_mem_blob *blob, int fd,
				 struct ori_mapping *mapping)
{
	struct ori_mapping m = {0};
	struct ori_mem_blob b;
	enum oriel_status status;

	status = ori_mem_blob_parse(blob, sizeof(*blob), &b);
	if (status != ORIEL_OK)
		return status;
	if (ori_mem_blob_is_gpu(&b))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"a rank without ORIEL_COMM_GPU cannot import GPU memory");
	m.address = (void *)(uintptr_t)b.address;
	m.length = (size_t)b.length;
	m.kind = b.kind;
	status = fd < 0 ? ori_mapping_open_local(&b, &m) : mapping_open_file(&b, fd, &m);
	if (status == ORIEL_OK)
		*mapping = m;
	return status;
}

static void mapping_close_gpu(struct ori_mapping *m)
{
	if (m->is_pinned && m->mem)
		ori_mem_unpin(m->gpu, m->mem);
	else if (m->is_pinned)
		m->gpu->ops->unpin(m->gpu, m->base);
	if (!m->base || m->kind == ORI_MEM_BLOB_FILE)
		return;
	if (m->kind == ORI_MEM_BLOB_GPU_HANDLE)
		m->gpu->ops->close_handle(m->gpu, m->base);
	else
		m->gpu->ops->unmap(m->base, m->base_length);
	/* munmap() must not see it. */
	m->base = NULL;
}

void ori_mapping_close(struct ori_mapping *mapping)
{
	if (mapping->gpu)
		mapping_close_gpu(mapping);
	if (mapping->base)
		ori_memfd_unmap(&(struct ori_memfd_map){.base = mapping->base,
							.length = mapping->base_length});
	ori_mem_unref(mapping->mem);
	*mapping = (struct ori_mapping){0};
}
