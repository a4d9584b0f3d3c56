/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of memory blobs: the description of a peer's memory and a byte of choices. The
 * blob is parsed and imported, with a real descriptor or none, by the CPU or for a GPU that only
 * checks its arguments.
 */
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "mem/gpu_mapping.h"
#include "sys/process.h"

#define MAPPING_LENGTH 65536u

enum mapping_choice {
	MAPPING_MINE = 1,        /* the exporter is this process */
	MAPPING_LIVE = 2,        /* the memory is mapping_live */
	MAPPING_NO_FD = 4,       /* no descriptor came with it */
	MAPPING_EXPORT = 8,      /* offset and length are for export */
	MAPPING_GPU = 16,        /* the importer has a GPU */
	MAPPING_WRONG = 32,      /* the lengths behind the first descriptor do not add up */
	MAPPING_OTHER_NODE = 64, /* the exporter is on another node */
};

static struct ori_mem *mapping_live; /* it exists as long as the program runs */

static void mapping_open_live(void)
{
	if (!mapping_live)
		FUZZ_CHECK(ori_mem_alloc(MAPPING_LENGTH, 0, &mapping_live) == ORIEL_OK);
}

static void mapping_refuses_other_versions(const struct ori_mem_blob *blob)
{
	struct ori_mem_blob other = *blob, out;
	unsigned bit;

	for (bit = 0; bit < 32; bit++) {
		other.version = blob->version ^ 1u << bit;
		FUZZ_CHECK(ori_mem_blob_parse(&other, sizeof(other), &out) == ORIEL_ERR_VERSION);
	}
}

static bool mapping_parse(const uint8_t *bytes, size_t length, struct ori_mem_blob *blob)
{
	struct ori_mem_blob out, before;
	enum oriel_status status;
	uint64_t end;

	memset(&out, 0xa5, sizeof(out));
	before = out;
	status = ori_mem_blob_parse(bytes, length, &out);
	if (status != ORIEL_OK) {
		FUZZ_CHECK(status == ORIEL_ERR_PROTOCOL || status == ORIEL_ERR_VERSION);
		FUZZ_CHECK(memcmp(&out, &before, sizeof(out)) == 0);
		return false;
	}
	FUZZ_CHECK(length == sizeof(out) && memcmp(&out, bytes, length) == 0);
	FUZZ_CHECK(out.length > 0 && out.token != 0);
	FUZZ_CHECK(!__builtin_add_overflow(out.address, out.length, &end));
	FUZZ_CHECK(!__builtin_add_overflow(out.mem_offset, out.length, &end));
	FUZZ_CHECK(!__builtin_add_overflow(out.fd_offset, out.length, &end) && end <= INT64_MAX);
	FUZZ_CHECK(out.mem_offset < out.address);
	mapping_refuses_other_versions(&out);
	*blob = out;
	return true;
}

static void mapping_touch(const struct ori_mapping *m)
{
	const volatile char *bytes = m->address;

	(void)bytes[0];
	(void)bytes[m->length - 1];
}

static void mapping_import_file(const struct ori_mem_blob *blob)
{
	struct ori_mapping m = {0};
	struct stat st;

	FUZZ_CHECK(fstat(mapping_live->fd, &st) == 0);
	if (ori_mem_import(blob, mapping_live->fd, &m) != ORIEL_OK) {
		FUZZ_CHECK(!m.address && !m.base && !m.mem);
		return;
	}
	FUZZ_CHECK(blob->kind == ORI_MEM_BLOB_FILE && m.length == blob->length);
	FUZZ_CHECK(blob->fd_offset + blob->length <= (uint64_t)st.st_size);
	mapping_touch(&m);
	ori_mapping_close(&m);
}

static void mapping_import_here(const struct ori_mem_blob *blob)
{
	struct ori_mapping m = {0};
	char *address;

	if (ori_mem_import(blob, -1, &m) != ORIEL_OK) {
		FUZZ_CHECK(!m.address && !m.base && !m.mem && mapping_live->refs == 1);
		return;
	}
	FUZZ_CHECK(ori_mem_blob_is_local(blob) && m.length == blob->length);
	FUZZ_CHECK((uintptr_t)m.address == blob->address);
	if (blob->kind == ORI_MEM_BLOB_FILE) {
		address = m.address;
		FUZZ_CHECK(address >= mapping_live->address);
		FUZZ_CHECK(address + m.length <= mapping_live->address + mapping_live->length);
		mapping_touch(&m);
	}
	ori_mapping_close(&m);
	FUZZ_CHECK(mapping_live->refs == 1);
}

#define GPU_BASE ((char *)0x100000000000) /* no memory is there, and no code reads it */

/* The last arguments of the GPU's functions. */
static struct {
	struct ori_mem_blob blob;
	unsigned opened, closed;
} mapping_asked;

static enum oriel_status mapping_gpu_import(const struct ori_gpu *gpu, const int *fds,
					    const uint64_t *lengths, unsigned count, void **address)
{
	uint64_t sum = 0;
	unsigned i;

	(void)gpu;
	FUZZ_CHECK(count > 0 && count <= ORI_MEM_SEGMENTS && count == mapping_asked.blob.segments);
	for (i = 0; i < count; i++) {
		FUZZ_CHECK(lengths[i] > 0 && fds[i] == (int)i);
		FUZZ_CHECK(!__builtin_add_overflow(sum, lengths[i], &sum));
	}
	FUZZ_CHECK(sum == mapping_asked.blob.alloc_length);
	mapping_asked.opened++;
	*address = GPU_BASE;
	return ORIEL_OK;
}

static enum oriel_status mapping_gpu_fabric(const struct ori_gpu *gpu,
					    const uint8_t handle[ORI_GPU_HANDLE], uint64_t length,
					    void **address)
{
	const struct ori_mem_blob *b = &mapping_asked.blob;

	(void)gpu;
	FUZZ_CHECK(b->kind == ORI_MEM_BLOB_GPU_FABRIC || b->flags == ORI_MEM_BLOB_FABRIC);
	FUZZ_CHECK(memcmp(handle, b->handle, ORI_GPU_HANDLE) == 0 && length == b->alloc_length);
	mapping_asked.opened++;
	*address = GPU_BASE;
	return ORIEL_OK;
}

static enum oriel_status mapping_gpu_open(const struct ori_gpu *gpu,
					  const uint8_t handle[ORI_GPU_HANDLE], void **address)
{
	(void)gpu;
	FUZZ_CHECK(memcmp(handle, mapping_asked.blob.handle, ORI_GPU_HANDLE) == 0);
	mapping_asked.opened++;
	*address = GPU_BASE;
	return ORIEL_OK;
}

static enum oriel_status mapping_gpu_query(const struct ori_gpu *gpu, const void *address,
					   struct ori_gpu_memory_info *place)
{
	(void)gpu;
	FUZZ_CHECK(address == GPU_BASE);
	*place = (struct ori_gpu_memory_info){ORI_GPU_LEGACY, GPU_BASE, MAPPING_LENGTH, 0, 1};
	return ORIEL_OK;
}

static enum oriel_status mapping_gpu_enable_access(const struct ori_gpu *gpu,
						   enum ori_gpu_kind kind, const void *address,
						   size_t length)
{
	const struct ori_mem_blob *b = &mapping_asked.blob;

	(void)gpu;
	FUZZ_CHECK(kind == ORI_GPU_MAPPED || kind == ORI_GPU_LEGACY);
	FUZZ_CHECK(length == b->alloc_length && (uintptr_t)address <= b->address);
	FUZZ_CHECK(b->address + b->length - (uintptr_t)address <= length);
	return ORIEL_OK;
}

static void mapping_gpu_unmap(void *address, size_t length)
{
	FUZZ_CHECK(address == GPU_BASE && length == mapping_asked.blob.alloc_length);
	mapping_asked.closed++;
}

static void mapping_gpu_close(const struct ori_gpu *gpu, void *address)
{
	(void)gpu;
	FUZZ_CHECK(address == GPU_BASE);
	mapping_asked.closed++;
}

static enum oriel_status mapping_gpu_pin(const struct ori_gpu *gpu, void *address, size_t length)
{
	(void)gpu;
	FUZZ_CHECK(address && length);
	mapping_asked.opened++;
	return ORIEL_OK;
}

static void mapping_gpu_unpin(const struct ori_gpu *gpu, void *address)
{
	(void)gpu;
	FUZZ_CHECK(address);
	mapping_asked.closed++;
}

static const struct ori_gpu mapping_gpu = {.ops = &(const struct ori_gpu_ops){
						   .import = mapping_gpu_import,
						   .import_fabric = mapping_gpu_fabric,
						   .open_handle = mapping_gpu_open,
						   .query = mapping_gpu_query,
						   .enable_access = mapping_gpu_enable_access,
						   .unmap = mapping_gpu_unmap,
						   .close_handle = mapping_gpu_close,
						   .pin = mapping_gpu_pin,
						   .unpin = mapping_gpu_unpin,
					   }};

/* Lengths as a peer would send them, or wrong ones. */
static void mapping_write_lengths(const struct ori_mem_blob *blob, bool is_wrong)
{
	uint64_t lengths[ORI_MEM_SEGMENTS], each;
	unsigned i, count = blob->segments;

	if (count == 0 || count > ORI_MEM_SEGMENTS)
		return;
	each = blob->alloc_length / count;
	for (i = 0; i < count; i++)
		lengths[i] = each;
	lengths[0] += blob->alloc_length % count + (is_wrong ? 1 : 0);
	memcpy(mapping_live->address, lengths, count * sizeof(lengths[0]));
}

static void mapping_import_gpu(const struct ori_mem_blob *blob, unsigned choices)
{
	int fds[ORI_MEM_FDS], i, count = 0;
	struct ori_mapping m = {0};
	enum oriel_status status;

	mapping_write_lengths(blob, choices & MAPPING_WRONG);
	mapping_asked.blob = *blob;
	mapping_asked.opened = mapping_asked.closed = 0;
	if (blob->kind == ORI_MEM_BLOB_FILE || blob->segments > 1)
		fds[count++] = mapping_live->fd;
	for (i = 0; count < (int)ORI_MEM_FDS; i++)
		fds[count++] = i;
	if (choices & MAPPING_OTHER_NODE)
		status = ori_mem_import_fabric(&mapping_gpu, blob, &m);
	else
		status = ori_mem_import_gpu(&mapping_gpu, blob,
					    choices & MAPPING_NO_FD ? NULL : fds, &m);
	if (status != ORIEL_OK) {
		FUZZ_CHECK(!m.address && !m.base && !m.mem);
	} else {
		FUZZ_CHECK(m.length == blob->length && m.kind == blob->kind);
		if (m.base == GPU_BASE)
			FUZZ_CHECK((char *)m.address == GPU_BASE + blob->mem_offset);
		ori_mapping_close(&m);
	}
	FUZZ_CHECK(mapping_asked.opened == mapping_asked.closed && mapping_live->refs == 1);
}

/* Export with the offset and the length of an input that may be no valid blob. */
static void mapping_export(const struct fuzz_input *input)
{
	struct ori_mem_blob blob = {0}, out;
	enum oriel_status status;
	uint64_t offset, length;

	memcpy(&blob, input->at, input->left < sizeof(blob) ? input->left : sizeof(blob));
	offset = blob.mem_offset;
	length = blob.length;
	status = ori_mem_export(mapping_live, offset, length, &blob);

	FUZZ_CHECK((status == ORIEL_OK) == (length > 0 && offset < mapping_live->length &&
					    length <= mapping_live->length - offset));
	if (status != ORIEL_OK)
		return;
	FUZZ_CHECK(ori_mem_blob_parse(&blob, sizeof(blob), &out) == ORIEL_OK);
	FUZZ_CHECK(memcmp(&blob, &out, sizeof(blob)) == 0);
	mapping_import_here(&blob);
	mapping_import_file(&blob);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size ? size - 1 : 0};
	unsigned choices = size ? data[size - 1] : 0;
	struct ori_mem_blob blob;

	mapping_open_live();
	if (choices & MAPPING_EXPORT)
		mapping_export(&input);
	if (!mapping_parse(input.at, input.left, &blob))
		return 0;
	if (choices & MAPPING_MINE)
		FUZZ_CHECK(ori_process_token(&blob.token) == ORIEL_OK);
	if (choices & MAPPING_LIVE) {
		blob.id = mapping_live->id;
		blob.address = (uintptr_t)mapping_live->address + blob.mem_offset;
	}
	if (choices & MAPPING_GPU)
		mapping_import_gpu(&blob, choices);
	else if (choices & MAPPING_NO_FD)
		mapping_import_here(&blob);
	else
		mapping_import_file(&blob);
	return 0;
}

size_t fuzz_seed(unsigned n, uint8_t bytes[FUZZ_SEED_MAX])
{
	struct ori_mem_blob blob = {
		.version = ORI_MEM_BLOB_VERSION,
		.blob_length = sizeof(blob),
		.kind = n & MAPPING_LIVE || !(n & 1) ? ORI_MEM_BLOB_FILE : ORI_MEM_BLOB_PRIVATE,
		.token = 1,
		.address = 0x7f0000001000,
		.length = 4096,
	};

	if (n > 127)
		return 0;
	if (n & MAPPING_GPU && n % 4 < 3) {
		blob.kind = n % 2 ? ORI_MEM_BLOB_GPU_HANDLE : ORI_MEM_BLOB_GPU_FILES;
		blob.alloc_length = MAPPING_LENGTH;
		blob.mem_offset = 4096;
		blob.segments = n % 2 ? 0 : 1 + n % 4 * 2;
		blob.id = n % 2 ? 0 : 3;
		blob.handle[0] = n % 2;
		if (n & MAPPING_OTHER_NODE && n % 4 == 1)
			blob.kind = ORI_MEM_BLOB_GPU_FABRIC;
		if (n & MAPPING_OTHER_NODE && n % 4 == 0) {
			blob.flags = ORI_MEM_BLOB_FABRIC;
			blob.handle[5] = 1;
		}
	}
	if (blob.kind == ORI_MEM_BLOB_FILE) {
		blob.id = 2;
		blob.mem_offset = blob.fd_offset = n * 4096;
	}
	FUZZ_CHECK(ori_mem_blob_parse(&blob, sizeof(blob), &blob) == ORIEL_OK);
	memcpy(bytes, &blob, sizeof(blob));
	bytes[sizeof(blob)] = (uint8_t)n;
	return sizeof(blob) + 1;
}
