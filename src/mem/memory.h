/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of this process that other processes can map, counted by references
 * and found again by address. Any thread may call anything here at any time.
 */
#ifndef ORI_MEM_MEMORY_H
#define ORI_MEM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <oriel/region.h>
#include <oriel/status.h>

enum ori_mem_kind {
	ORI_MEM_OWN,   /* file and mapping are the library's */
	ORI_MEM_TAKEN, /* the mapping is the caller's, the file was given */
};

/* Who may end the life of a piece, apart from the references. */
enum ori_mem_holder {
	ORI_MEM_LIBRARY, /* nobody */
	ORI_MEM_USER,    /* oriel_memory_free() or _release(), which drops a reference */
	ORI_MEM_GONE,    /* the user has done so, other references remain */
};

/* One live piece. All but the last two stay as they were made. */
struct ori_mem {
	char *address;
	size_t length;
	int fd;             /* lives as long as this struct */
	uint64_t fd_offset; /* of @address in the file */
	unsigned flags;     /* enum oriel_memory_flags */
	enum ori_mem_kind kind;
	uint64_t id; /* random, never 0 */

	unsigned refs; /* guarded by the lock of the table */
	enum ori_mem_holder holder;
};

/*
 * What oriel_memory_alloc() does, for the library's own use: the reference
 * belongs to the caller, who gives it up with ori_mem_unref().
 */
enum oriel_status ori_mem_alloc(size_t length, unsigned flags, struct ori_mem **mem);

/*
 * The live piece that all of [@address, @address + @length) lies in, referenced
 * for the caller, and where in it. ORIEL_ERR_UNSUPPORTED says why there is none.
 */
enum oriel_status ori_mem_find(const void *address, size_t length, struct ori_mem **mem,
			       uint64_t *offset);

/* The piece at @address with this @id, referenced; NULL if there is none. */
struct ori_mem *ori_mem_find_id(uint64_t address, uint64_t id);

void ori_mem_ref(struct ori_mem *mem);
/* The memory goes with the last reference. NULL is allowed. */
void ori_mem_unref(struct ori_mem *mem);

/* Live pieces of this process, those included that only references hold. */
unsigned ori_mem_count(void);

#endif
