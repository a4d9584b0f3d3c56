/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anonymous files for shared memory: create, seal, map, check. Allocations, mappings and the
 * blocks of src/rdma are made of them.
 */
#ifndef ORI_MEM_MEMFD_H
#define ORI_MEM_MEMFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

/* A shared mapping of part of a file. */
struct ori_memfd_map {
	char *base; /* the address for munmap() */
	size_t length;
	size_t lead; /* bytes between @base and the requested offset */
};

/*
 * Create a sealed file of at least *@length zeroed bytes and map all of it; *@length becomes the
 * true length. The text of ORIEL_ERR_UNSUPPORTED says what is missing for huge pages.
 */
enum oriel_status ori_memfd_open(bool is_huge, size_t *length, int *fd, struct ori_memfd_map *map);

/* Does not close the file. */
void ori_memfd_unmap(const struct ori_memfd_map *map);

/*
 * Map [@offset, @offset + @length) of @fd, which stays the caller's. @offset need not be aligned.
 * @is_huge asks for huge pages, but their lack is no error.
 */
enum oriel_status ori_memfd_map(int fd, uint64_t offset, size_t length, bool is_huge,
				struct ori_memfd_map *map);

/*
 * Check that peers can map @fd: writable, and sealed against shrinking, which this call does. The
 * text of ORIEL_ERR_UNSUPPORTED gives the reason.
 */
enum oriel_status ori_memfd_seal(int fd);

/*
 * Is [@address, @address + @length) a shared mapping of @fd from @offset on? ORIEL_ERR_INVALID if
 * not, ORIEL_ERR_RANGE if the file is too short.
 */
enum oriel_status ori_memfd_check_mapped(int fd, uint64_t offset, const void *address,
					 size_t length);

/*
 * Can [@offset, @offset + @length) of a peer's file be mapped without risk of SIGBUS?
 * ORIEL_ERR_PROTOCOL if the file is shorter, or not sealed against shrinking.
 */
enum oriel_status ori_memfd_check(int fd, uint64_t offset, uint64_t length);

#endif
