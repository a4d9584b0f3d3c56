/* SPDX-License-Identifier: Apache-2.0 */
#include "mem/mapping.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "mem/memfd.h"
#include "sys/process.h"

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
	enum oriel_status st;

	if (length == 0 || offset > mem->length || length > mem->length - offset)
		return ori_fail(ORIEL_ERR_RANGE,
				"%zu bytes from offset %" PRIu64 " of memory of %zu bytes", length,
				offset, mem->length);
	st = ori_process_token(&b.token);
	if (st == ORIEL_OK)
		*blob = b;
	return st;
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
	enum oriel_status st;
	uintptr_t end;

	if (!address || length == 0 || __builtin_add_overflow((uintptr_t)address, length, &end))
		return ori_fail(ORIEL_ERR_INVALID, "memory of %zu bytes at %p", length, address);
	st = ori_process_token(&b.token);
	if (st == ORIEL_OK)
		*blob = b;
	return st;
}

/* What is wrong with @b, or NULL. */
static const char *blob_flaw(const struct ori_mem_blob *b)
{
	uint64_t end;

	if (b->kind != ORI_MEM_BLOB_FILE && b->kind != ORI_MEM_BLOB_PRIVATE)
		return "unknown kind";
	if (b->flags & ~ORI_MEM_BLOB_HUGE)
		return "unknown flags";
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
	if ((b->kind == ORI_MEM_BLOB_FILE) != (b->id != 0))
		return "its id does not go with its kind";
	if (b->kind == ORI_MEM_BLOB_PRIVATE && (b->flags || b->mem_offset || b->fd_offset))
		return "private memory with a file";
	return NULL;
}

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

bool ori_mem_blob_is_mine(const struct ori_mem_blob *blob)
{
	uint64_t token;

	return ori_process_token(&token) == ORIEL_OK && blob->token == token;
}

static enum oriel_status mapping_open_here(const struct ori_mem_blob *b, struct ori_mapping *m)
{
	if (!ori_mem_blob_is_mine(b))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"memory of another process came without a descriptor");
	if (b->kind == ORI_MEM_BLOB_PRIVATE)
		return ORIEL_OK;
	m->mem = ori_mem_find_id(b->address - b->mem_offset, b->id);
	if (!m->mem)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"memory at 0x%" PRIx64 " (%" PRIu64 " bytes) is not alive",
				b->address, b->length);
	if (b->mem_offset > m->mem->length || b->length > m->mem->length - b->mem_offset) {
		ori_mapping_close(m);
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"memory at 0x%" PRIx64 " (%" PRIu64 " bytes) passes its end",
				b->address, b->length);
	}
	return ORIEL_OK;
}

static enum oriel_status mapping_open_file(const struct ori_mem_blob *b, int fd,
					   struct ori_mapping *m)
{
	struct ori_memfd_map map;
	enum oriel_status st;

	if (b->kind != ORI_MEM_BLOB_FILE)
		return ori_fail(ORIEL_ERR_PROTOCOL, "private memory came with a descriptor");
	st = ori_memfd_check(fd, b->fd_offset, b->length);
	if (st == ORIEL_OK)
		st = ori_memfd_map(fd, b->fd_offset, (size_t)b->length,
				   b->flags & ORI_MEM_BLOB_HUGE, &map);
	if (st != ORIEL_OK)
		return st;
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
	enum oriel_status st;

	st = ori_mem_blob_parse(blob, sizeof(*blob), &b);
	if (st != ORIEL_OK)
		return st;
	m.address = (void *)(uintptr_t)b.address;
	m.length = (size_t)b.length;
	st = fd < 0 ? mapping_open_here(&b, &m) : mapping_open_file(&b, fd, &m);
	if (st == ORIEL_OK)
		*mapping = m;
	return st;
}

void ori_mapping_close(struct ori_mapping *mapping)
{
	if (mapping->base)
		ori_memfd_unmap(&(struct ori_memfd_map){.base = mapping->base,
							.length = mapping->base_length});
	ori_mem_unref(mapping->mem);
	*mapping = (struct ori_mapping){0};
}
