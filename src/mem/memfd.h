/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous files for shared memory: made, sealed, mapped, checked. */
#ifndef ORI_MEM_MEMFD_H
#define ORI_MEM_MEMFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <oriel/status.h>

/* A shared mapping of part of a file. */
struct ori_memfd_map {
	char *base; /* what munmap() takes */
	size_t length;
	size_t lead; /* bytes between @base and what was asked for */
};

/*
 * A sealed file of at least *@length zero bytes, which becomes its true length,
 * mapped from its start. ORIEL_ERR_UNSUPPORTED names what is missing for huge pages.
 */
enum oriel_status ori_memfd_open(bool is_huge, size_t *length, int *fd, struct ori_memfd_map *map);

/* The caller still closes the file. */
void ori_memfd_unmap(const struct ori_memfd_map *map);

/*
 * Map [@offset, @offset + @length) of @fd, which stays the caller's. @offset
 * need not be aligned. @is_huge asks for huge pages but does not insist.
 */
enum oriel_status ori_memfd_map(int fd, uint64_t offset, size_t length, bool is_huge,
				struct ori_memfd_map *map);

/*
 * Make @fd fit to be mapped by peers: writable, never shrinking.
 * ORIEL_ERR_UNSUPPORTED says why it cannot be.
 */
enum oriel_status ori_memfd_seal(int fd);

/*
 * Is [@address, @address + @length) a shared mapping of @fd from @offset on?
 * ORIEL_ERR_INVALID if not, ORIEL_ERR_RANGE if the file is too short for it.
 */
enum oriel_status ori_memfd_check_mapped(int fd, uint64_t offset, const void *address,
					 size_t length);

/*
 * May [@offset, @offset + @length) of a peer's file be mapped without fear of
 * SIGBUS? ORIEL_ERR_PROTOCOL if it is shorter or could be shortened.
 */
enum oriel_status ori_memfd_check(int fd, uint64_t offset, uint64_t length);

#endif
