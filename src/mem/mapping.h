/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one process as bytes (export), and those bytes as memory of another (import). File
 * descriptors travel beside the bytes; the caller transfers both.
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
#define ORI_MEM_SEGMENTS \
	60u /* most adjacent allocations that one exported range may be mapped from */

enum ori_mem_blob_kind {
	ORI_MEM_BLOB_FILE = 1,    /* host memory; every process with the descriptor can import it */
	ORI_MEM_BLOB_PRIVATE = 2, /* only threads of the exporting process can import it */
	ORI_MEM_BLOB_GPU_FILES =
		3, /* GPU memory; every process with the descriptors can import it */
	ORI_MEM_BLOB_GPU_HANDLE = 4, /* GPU memory, by an IPC handle for processes of its node */
	ORI_MEM_BLOB_GPU_FABRIC = 5, /* GPU memory, by a handle for GPUs of its NVLink fabric */
};

enum ori_mem_blob_flags {
	ORI_MEM_BLOB_HUGE = 1,   /* in huge pages */
	ORI_MEM_BLOB_FABRIC = 2, /* with GPU_FILES: a fabric handle is included */
};

/* Sent over the wire as is: no hidden padding, little-endian. */
struct ori_mem_blob {
	uint32_t version;
	uint32_t blob_length; /* of this struct */
	uint32_t kind;        /* enum ori_mem_blob_kind */
	uint32_t flags;
	uint64_t token;      /* of the process that exported it */
	uint64_t id;         /* of the allocation; 0 if private or external */
	uint64_t address;    /* of the first byte, in that process */
	uint64_t mem_offset; /* of the first byte in the allocation; 0 if private */
	uint64_t fd_offset;  /* of the first byte in the file; 0 without a file */
	uint64_t length;     /* in bytes, > 0 */

	uint64_t alloc_length; /* of the allocation on a GPU; otherwise 0 */
	uint32_t segments;     /* allocations of a GPU that have descriptors; otherwise 0 */
	uint32_t reserved;     /* 0 */
	uint8_t handle[ORI_GPU_HANDLE]; /* by kind and flags; otherwise 0 */
};

static_assert(sizeof(struct ori_mem_blob) == 144, "struct ori_mem_blob goes over the wire");

/*
 * Describe [@offset, @offset + @length) of @mem. A peer in another process also needs copies of
 * the descriptors of ori_mem_fds(). @mem must live until all peers have imported it.
 */
enum oriel_status ori_mem_export(const struct ori_mem *mem, uint64_t offset, size_t length,
				 struct ori_mem_blob *blob);

/*
 * The descriptors that must be sent with the blob, at most ORI_MEM_FDS; @mem keeps owning them.
 * Returns how many.
 */
#define ORI_MEM_FDS (ORI_MEM_SEGMENTS + 1u)

unsigned ori_mem_fds(const struct ori_mem *mem, int fds[ORI_MEM_FDS]);

/* The number of descriptors that come with @blob, which has been parsed. */
unsigned ori_mem_blob_fds(const struct ori_mem_blob *blob);

bool ori_mem_blob_is_gpu(const struct ori_mem_blob *blob);

/* Describe any memory of this process; only this process can import it. */
enum oriel_status ori_mem_export_private(const void *address, size_t length,
					 struct ori_mem_blob *blob);

/* Pure. ORIEL_ERR_VERSION or ORIEL_ERR_PROTOCOL if @bytes is not a valid blob. */
enum oriel_status ori_mem_blob_parse(const void *bytes, size_t length, struct ori_mem_blob *blob);

/* Did this process export @blob, so that its import needs no descriptor? */
bool ori_mem_blob_is_local(const struct ori_mem_blob *blob);

/* Imported memory. Zeroed storage is a closed mapping. */
struct ori_mapping {
	void *address; /* the first byte */
	size_t length; /* as it was exported */

	void *base; /* mapped by this import; NULL if nothing was mapped */
	size_t base_length;
	struct ori_mem *mem; /* reference taken instead of a mapping, or NULL */

	const struct ori_gpu *gpu; /* borrowed: the GPU that imported it; NULL: for the CPU only */
	uint32_t kind;             /* enum ori_mem_blob_kind */
	bool is_pinned;            /* this import has pinned @base or @mem */
};

bool ori_mapping_is_gpu(const struct ori_mapping *mapping);

/*
 * Import the memory behind @blob, which is parsed again here. @fd is the peer's descriptor,
 * borrowed for the call. -1: the peer is a thread of this process, whose addresses are trusted, so
 * nothing is mapped. ORIEL_ERR_PROTOCOL if the file is too short or not sealed, or @blob does not
 * match @fd; ORIEL_ERR_UNSUPPORTED for GPU memory.
 */
enum oriel_status ori_mem_import(const struct ori_mem_blob *blob, int fd,
				 struct ori_mapping *mapping);

/* Memory of this process behind @blob: references its allocation, if that is in the table. */
enum oriel_status ori_mapping_open_local(const struct ori_mem_blob *blob,
					 struct ori_mapping *mapping);

/* Closing twice is fine. */
void ori_mapping_close(struct ori_mapping *mapping);

#endif
