/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of this process that other processes can map, counted by references
 * and found again by address. Any thread may call anything here at any time.
 */
#ifndef ORI_MEM_MEMORY_H
#define ORI_MEM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/region.h>
#include <oriel/status.h>

#include "sys/gpu.h"

enum ori_mem_kind {
	ORI_MEM_OWN,      /* file and mapping are the library's */
	ORI_MEM_TAKEN,    /* the mapping is the caller's, the file was given */
	ORI_MEM_EXTERNAL, /* of a GPU and the caller's; known to one owner, not to the table */
};

/* Who may end the life of a piece, apart from the references. */
enum ori_mem_owner {
	ORI_MEM_LIBRARY,  /* nobody */
	ORI_MEM_USER,     /* oriel_memory_free() or _release(), which drops a reference */
	ORI_MEM_RELEASED, /* the user has done so, other references remain */
};

/* One live piece. All but the last two stay as they were made. */
struct ori_mem {
	char *address;
	size_t length;
	int fd;             /* lives as long as this struct */
	uint64_t fd_offset; /* of @address in the file */
	unsigned flags;     /* enum oriel_memory_flags */
	enum ori_mem_kind kind;
	uint64_t id; /* random, never 0 but for the external */

	const struct ori_gpu_ops *gpu; /* whose memory it is, NULL: of the host */
	struct ori_external *external; /* how ORI_MEM_EXTERNAL leaves; @fd is -1 then */
	bool has_fabric;               /* it leaves the node too */
	uint8_t fabric[ORI_GPU_HANDLE];

	unsigned refs; /* guarded by the lock of the table */
	enum ori_mem_owner owner;
	unsigned pins;  /* guarded by the lock of the pins */
	bool is_pinned; /* by the library, while @pins > 0 */
};

/*
 * What oriel_memory_alloc() does, for the library's own use: the reference
 * belongs to the caller, who gives it up with ori_mem_unref().
 */
enum oriel_status ori_mem_alloc(size_t length, unsigned flags, struct ori_mem **mem);
/* The same of @gpu. */
enum oriel_status ori_mem_alloc_gpu(const struct ori_gpu *gpu, size_t length, struct ori_mem **mem);

/*
 * The live piece that all of [@address, @address + @length) lies in, referenced
 * for the caller, and where in it. ORIEL_ERR_UNSUPPORTED says why there is none.
 */
enum oriel_status ori_mem_find(const void *address, size_t length, struct ori_mem **mem,
			       uint64_t *offset);

/* The same where it may well be none: NULL, which is no failure and leaves no text. */
struct ori_mem *ori_mem_try_find(const void *address, size_t length, uint64_t *offset);

/* The piece at @address with this @id, referenced; NULL if there is none. */
struct ori_mem *ori_mem_find_id(uint64_t address, uint64_t id);

void ori_mem_ref(struct ori_mem *mem);
/* The memory goes with the last reference. NULL is allowed. */
void ori_mem_unref(struct ori_mem *mem);

/*
 * Let GPUs reach a piece of host memory, at its own address, until as many
 * unpins have come. Every caller passes a GPU of this process.
 */
enum oriel_status ori_mem_pin(const struct ori_gpu *gpu, struct ori_mem *mem);
void ori_mem_unpin(const struct ori_gpu *gpu, struct ori_mem *mem);

/* Both at once, of memory of the host; @gpu NULL: nothing is pinned. */
enum oriel_status ori_mem_alloc_pinned(const struct ori_gpu *gpu, size_t length,
				       struct ori_mem **mem);
/* NULL is allowed for @mem. */
void ori_mem_unref_pinned(const struct ori_gpu *gpu, struct ori_mem *mem);

/* Live pieces of this process, those included that only references hold. */
unsigned ori_mem_count(void);

#endif
