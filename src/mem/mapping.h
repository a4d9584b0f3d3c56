/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one process as bytes (export), and those bytes as memory of
 * another (import). The file descriptor travels beside the bytes; how is not
 * decided here.
 */
#ifndef ORI_MEM_MAPPING_H
#define ORI_MEM_MAPPING_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem/memory.h"
#include "sys/gpu.h"

#define ORI_MEM_BLOB_VERSION 3u
#define ORI_MEM_SEGMENTS 60u /* most allocations side by side that one piece may be mapped from */

enum ori_mem_blob_kind {
	ORI_MEM_BLOB_FILE = 1,       /* for every process that gets the descriptor */
	ORI_MEM_BLOB_PRIVATE = 2,    /* for threads of the process only */
	ORI_MEM_BLOB_GPU_FILES = 3,  /* of a GPU, for who gets the descriptors */
	ORI_MEM_BLOB_GPU_HANDLE = 4, /* of a GPU, for who opens the handle on its node */
	ORI_MEM_BLOB_GPU_FABRIC = 5, /* the same within its NVLink fabric */
};

enum ori_mem_blob_flags {
	ORI_MEM_BLOB_HUGE = 1,   /* lies in huge pages */
	ORI_MEM_BLOB_FABRIC = 2, /* of descriptors: there is a handle of a fabric as well */
};

/* Goes over the wire as it is: no hidden padding, little-endian. */
struct ori_mem_blob {
	uint32_t version;
	uint32_t blob_length; /* of this struct */
	uint32_t kind;        /* enum ori_mem_blob_kind */
	uint32_t flags;
	uint64_t token;      /* of the process that exported it */
	uint64_t id;         /* of its piece of memory; 0 if private, or external */
	uint64_t address;    /* of the first byte, in that process */
	uint64_t mem_offset; /* of the first byte in the piece; 0 if private */
	uint64_t fd_offset;  /* of the first byte in the file; 0 if there is none */
	uint64_t length;     /* in bytes, > 0 */

	uint64_t alloc_length;          /* of a GPU; else 0 */
	uint32_t segments;              /* allocations of a GPU with descriptors; else 0 */
	uint32_t reserved;              /* 0 */
	uint8_t handle[ORI_GPU_HANDLE]; /* as kind and flags say; else 0 */
};

static_assert(sizeof(struct ori_mem_blob) == 144, "struct ori_mem_blob goes over the wire");

/*
 * Describe [@offset, @offset + @length) of @mem; a peer in another process also
 * needs copies of the descriptors of ori_mem_fds(). @mem must live until all
 * have imported it.
 */
enum oriel_status ori_mem_export(const struct ori_mem *mem, uint64_t offset, size_t length,
				 struct ori_mem_blob *blob);

/* What must travel beside a description, at most ORI_MEM_FDS; still @mem's. How many. */
#define ORI_MEM_FDS (ORI_MEM_SEGMENTS + 1u)

unsigned ori_mem_fds(const struct ori_mem *mem, int fds[ORI_MEM_FDS]);

/* How many come with @blob, which has been parsed. */
unsigned ori_mem_blob_fds(const struct ori_mem_blob *blob);

bool ori_mem_blob_is_gpu(const struct ori_mem_blob *blob);

/* The same for any memory, which then only this process can import. */
enum oriel_status ori_mem_export_private(const void *address, size_t length,
					 struct ori_mem_blob *blob);

/* Pure. ORIEL_ERR_VERSION or ORIEL_ERR_PROTOCOL if @bytes are no such description. */
enum oriel_status ori_mem_blob_parse(const void *bytes, size_t length, struct ori_mem_blob *blob);

/* Was @blob made by this process, so that import needs no descriptor? */
bool ori_mem_blob_is_local(const struct ori_mem_blob *blob);

/* Imported memory. Zeroed storage is a closed mapping. */
struct ori_mapping {
	void *address; /* the first byte */
	size_t length; /* as it was exported */

	void *base; /* mapped for this import; NULL if none was needed */
	size_t base_length;
	struct ori_mem *mem; /* reference held instead of a mapping, or NULL */

	const struct ori_gpu *gpu; /* borrowed: who imported it; NULL: the CPU alone */
	uint32_t kind;             /* enum ori_mem_blob_kind */
	bool is_pinned;            /* @base or @mem, for this import */
};

bool ori_mapping_is_gpu(const struct ori_mapping *mapping);

/*
 * Memory behind @blob, which is parsed again here. @fd is the peer's descriptor,
 * borrowed for the call. -1 says that the peer is a thread of this process, whose
 * addresses are trusted: then nothing is mapped. ORIEL_ERR_PROTOCOL if the file is
 * too short or not sealed, or @blob is not what @fd says; ORIEL_ERR_UNSUPPORTED
 * for memory of a GPU.
 */
enum oriel_status ori_mem_import(const struct ori_mem_blob *blob, int fd,
				 struct ori_mapping *mapping);

/*
 * The same for kernels on @gpu, which must outlive the mapping. Host memory is
 * pinned, unless it is private, and reached by the CPU as before. @fds are as
 * many as ori_mem_blob_fds() says; NULL for a thread of this process.
 */
enum oriel_status ori_mem_import_gpu(const struct ori_gpu *gpu, const struct ori_mem_blob *blob,
				     const int *fds, struct ori_mapping *mapping);

/*
 * The same from another node, by the handle of a fabric and nothing else.
 * ORIEL_ERR_UNSUPPORTED: the memory has none, or lies in no GPU.
 */
enum oriel_status ori_mem_import_fabric(const struct ori_gpu *gpu, const struct ori_mem_blob *blob,
					struct ori_mapping *mapping);

/* Closed twice is fine. */
void ori_mapping_close(struct ori_mapping *mapping);

#endif
