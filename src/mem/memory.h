/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of this process that other processes can map: reference-counted, and found by address.
 * Any thread may call any function at any time.
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
	ORI_MEM_OWN,   /* the library owns file and mapping */
	ORI_MEM_TAKEN, /* the caller owns the mapping and passed the file (oriel_memory_take_fd())
			*/
	ORI_MEM_EXTERNAL, /* GPU memory that the caller owns; referenced by one user, not in the
			     table */
};

/* Does the user own a reference? */
enum ori_mem_owner {
	ORI_MEM_LIBRARY,  /* never: the library allocated it for itself */
	ORI_MEM_USER,     /* yes, until oriel_memory_free() or _release() */
	ORI_MEM_RELEASED, /* no longer, but other references remain */
};

/* One live allocation. All fields but those with a lock are constant. */
struct ori_mem {
	char *address;
	size_t length;
	int fd;             /* closed together with this struct */
	uint64_t fd_offset; /* of @address in the file */
	unsigned flags;     /* enum oriel_memory_flags */
	enum ori_mem_kind kind;
	uint64_t id; /* random; 0 only for ORI_MEM_EXTERNAL */

	const struct ori_gpu_ops *gpu; /* operations of the GPU it is on; NULL: host memory */
	struct ori_external *external; /* export handles of ORI_MEM_EXTERNAL; @fd is -1 then */
	bool has_fabric;               /* GPUs of other nodes can import it */
	uint8_t fabric[ORI_GPU_HANDLE];

	bool is_forked; /* allocated before fork(): the child has a private copy */
	unsigned refs;  /* guarded by the lock of the table */
	enum ori_mem_owner owner;
	unsigned pins;  /* guarded by the lock of the pins */
	bool is_pinned; /* pinned by the library, while @pins > 0 */
};

/*
 * As oriel_memory_alloc(), for the library's own use: the caller owns the reference, and drops it
 * by ori_mem_unref().
 */
enum oriel_status ori_mem_alloc(size_t length, unsigned flags, struct ori_mem **mem);
/* The same on @gpu. */
enum oriel_status ori_mem_alloc_gpu(const struct ori_gpu *gpu, size_t length, struct ori_mem **mem);

/*
 * Reference the live allocation that holds all of [@address, @address + @length); @offset is the
 * offset in it. The text of ORIEL_ERR_UNSUPPORTED says why there is none.
 */
enum oriel_status ori_mem_find(const void *address, size_t length, struct ori_mem **mem,
			       uint64_t *offset);

/*
 * As ori_mem_find(), for ranges that may well be private memory: returns NULL then, which is no
 * failure and sets no error text.
 */
struct ori_mem *ori_mem_try_find(const void *address, size_t length, uint64_t *offset);

/* The id of the live allocation that holds the range; 0 if there is none. */
uint64_t ori_mem_id(const void *address, size_t length);

/* Reference the allocation at @address with this @id; NULL if there is none. */
struct ori_mem *ori_mem_find_id(uint64_t address, uint64_t id);

void ori_mem_ref(struct ori_mem *mem);
/* The last reference frees the memory. NULL is allowed. */
void ori_mem_unref(struct ori_mem *mem);

/*
 * Let GPUs access an allocation of host memory, at its own address, until each pin has had its
 * unpin. Every caller passes a GPU of this process.
 */
enum oriel_status ori_mem_pin(const struct ori_gpu *gpu, struct ori_mem *mem);
void ori_mem_unpin(const struct ori_gpu *gpu, struct ori_mem *mem);

/* Allocate host memory and pin it; with @gpu NULL it is not pinned. */
enum oriel_status ori_mem_alloc_pinned(const struct ori_gpu *gpu, size_t length,
				       struct ori_mem **mem);
/* @mem may be NULL. */
void ori_mem_unref_pinned(const struct ori_gpu *gpu, struct ori_mem *mem);

/*
 * Live allocations of this process, including those that only the library references; the unit
 * tests ask for their number.
 */
unsigned ori_mem_count(void);

#endif
