/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements mem/memfd.h. mem/memory.c allocates host memory by it, mapping.c maps that of peers.
 */
#include "mem/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_limit.h"
#include "base/fork.h"
#include "sys/hugepages.h"

#define HUGETLBFS_TYPE 0x958458f6 /* f_type of statfs(2) */

static size_t memfd_page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* @granule is a power of two. False if the result overflows size_t. */
static bool memfd_round_up(size_t length, size_t granule, size_t *rounded)
{
	if (__builtin_add_overflow(length, granule - 1, rounded))
		return false;
	*rounded &= ~(granule - 1);
	return true;
}

/* 0 if @fd lies in ordinary pages. */
static size_t memfd_hugetlb_size(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0 || (unsigned long)fs.f_type != HUGETLBFS_TYPE)
		return 0;
	return (size_t)fs.f_bsize;
}

static size_t memfd_thp_size(void)
{
	struct ori_hugepages pages;

	ori_hugepages_read(&pages);
	return (size_t)pages.thp_size;
}

/* Offset and length of a mapping of @fd must be multiples of this. */
static size_t memfd_granule(int fd, bool is_huge)
{
	size_t size = memfd_hugetlb_size(fd);

	if (size == 0 && is_huge)
		size = memfd_thp_size();
	return size > 0 ? size : memfd_page();
}

static enum oriel_status memfd_map_failed(size_t length)
{
	return ori_fail_errno(errno == ENOMEM ? ORIEL_ERR_NOMEM : ORIEL_ERR_SYSTEM,
			      "cannot map %zu bytes of shared memory", length);
}

/* Reserve addresses that begin at a multiple of @granule; NULL if none are left. */
static char *memfd_reserve(size_t length, size_t granule)
{
	size_t span, lead;
	char *room;

	if (__builtin_add_overflow(length, granule, &span))
		return NULL;
	room = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	lead = -(uintptr_t)room & (granule - 1);
	if (lead > 0)
		munmap(room, lead);
	munmap(room + lead + length, granule - lead);
	return room + lead;
}

/*
 * The kernel chooses a fitting address by itself, except for transparent huge pages. If the
 * mapping into the reserved range fails, the range is not unmapped: it may already be unmapped and
 * belong to another thread.
 */
static char *memfd_mmap(int fd, uint64_t start, size_t length, size_t granule)
{
	char *room = NULL;
	int fixed = 0;

	if (granule > memfd_page() && memfd_hugetlb_size(fd) == 0) {
		room = memfd_reserve(length, granule);
		fixed = room ? MAP_FIXED : 0;
	}
	return mmap(room, length, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, fd, (off_t)start);
}

/*
 * @is_owner: @offset is 0, and @fd stays open as long as the mapping, so that a forked child can
 * map a private copy of the file.
 */
static enum oriel_status memfd_map(int fd, uint64_t offset, size_t length, bool is_huge,
				   bool is_owner, struct ori_memfd_map *map)
{
	size_t granule = memfd_granule(fd, is_huge);
	size_t lead = offset & (granule - 1);
	size_t whole;
	char *base;

	if (__builtin_add_overflow(length, lead, &whole) ||
	    !memfd_round_up(whole, granule, &whole) || offset > INT64_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "no file has %zu bytes from offset %" PRIu64,
				length, offset);
	base = memfd_mmap(fd, offset - lead, whole, granule);
	if (base == MAP_FAILED)
		return memfd_map_failed(length);
	if (!ori_fork_share(base, whole, is_owner ? fd : -1)) {
		munmap(base, whole);
		return ori_fail(ORIEL_ERR_NOMEM, "no memory to record a mapping of %zu bytes",
				length);
	}
	/* Advice only: hugetlb does not accept it, and it changes only the speed. */
	if (is_huge)
		madvise(base, whole, MADV_HUGEPAGE);
	*map = (struct ori_memfd_map){.base = base, .length = whole, .lead = lead};
	return ORIEL_OK;
}

enum oriel_status ori_memfd_map(int fd, uint64_t offset, size_t length, bool is_huge,
				struct ori_memfd_map *map)
{
	return memfd_map(fd, offset, length, is_huge, false, map);
}

void ori_memfd_unmap(const struct ori_memfd_map *map)
{
	ori_fork_unshare(map->base);
	munmap(map->base, map->length);
}

static enum oriel_status memfd_size(int fd, size_t length)
{
	if (length > INT64_MAX)
		return ori_fail(ORIEL_ERR_RANGE, "%zu bytes exceed the address space", length);
	if (length > ori_file_limit()) {
		errno = EFBIG;
		return ori_fail_errno(ORIEL_ERR_NOMEM,
				      "cannot make an anonymous file of %zu bytes: the limit of "
				      "this process is %llu bytes; raise ulimit -f",
				      length, (unsigned long long)ori_file_limit());
	}
	if (ftruncate(fd, (off_t)length) != 0)
		return ori_fail_errno(errno == EFBIG || errno == EINVAL ? ORIEL_ERR_NOMEM
									: ORIEL_ERR_SYSTEM,
				      "cannot make an anonymous file of %zu bytes", length);
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		return ori_fail_errno(ORIEL_ERR_UNSUPPORTED, "cannot seal an anonymous file");
	return ORIEL_OK;
}

/* Create @length bytes in pages of the kind that @create selects (MFD_HUGETLB or 0). */
static enum oriel_status memfd_make(unsigned create, bool is_huge, size_t *length, int *fd,
				    struct ori_memfd_map *map)
{
	enum oriel_status status;
	size_t whole;
	int file;

	file = memfd_create("oriel", MFD_CLOEXEC | MFD_ALLOW_SEALING | create);
	if (file < 0)
		return ori_fail_errno(errno == EMFILE || errno == ENFILE || errno == ENOMEM
					      ? ORIEL_ERR_NOMEM
					      : ORIEL_ERR_UNSUPPORTED,
				      "cannot make an anonymous file");
	if (!memfd_round_up(*length, memfd_granule(file, is_huge), &whole)) {
		status = ori_fail(ORIEL_ERR_RANGE, "%zu bytes exceed the address space", *length);
		goto err_close;
	}
	status = memfd_size(file, whole);
	if (status == ORIEL_OK)
		status = memfd_map(file, 0, whole, is_huge, true, map);
	if (status != ORIEL_OK)
		goto err_close;
	*length = whole;
	*fd = file;
	return ORIEL_OK;

err_close:
	close(file);
	return status;
}

/* Succeeds only if the kernel accepts the advice to use transparent huge pages. */
static enum oriel_status memfd_make_transparent(size_t *length, int *fd, struct ori_memfd_map *map)
{
	enum oriel_status status;

	status = memfd_make(0, true, length, fd, map);
	if (status != ORIEL_OK)
		return status;
	if (madvise(map->base, map->length, MADV_HUGEPAGE) == 0)
		return ORIEL_OK;
	status = ori_fail_errno(ORIEL_ERR_UNSUPPORTED, "no transparent huge pages");
	ori_memfd_unmap(map);
	close(*fd);
	return status;
}

static enum oriel_status memfd_open_huge(size_t *length, int *fd, struct ori_memfd_map *map)
{
	struct ori_hugepages pages;
	enum oriel_status status;

	ori_hugepages_read(&pages);
	if (pages.hugetlb_free > 0) {
		status = memfd_make(MFD_HUGETLB, true, length, fd, map);
		if (status == ORIEL_OK)
			return status;
	}
	if (pages.is_thp_usable) {
		status = memfd_make_transparent(length, fd, map);
		if (status != ORIEL_ERR_UNSUPPORTED)
			return status;
	}
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"no huge pages for %zu bytes: %" PRIu64 " of %" PRIu64
			" hugetlb pages of %" PRIu64 " KiB are free (vm.nr_hugepages), "
			"transparent_hugepage/shmem_enabled is %s",
			*length, pages.hugetlb_free, pages.hugetlb_total, pages.hugetlb_size >> 10,
			pages.shmem_mode);
}

enum oriel_status ori_memfd_open(bool is_huge, size_t *length, int *fd, struct ori_memfd_map *map)
{
	return is_huge ? memfd_open_huge(length, fd, map) : memfd_make(0, false, length, fd, map);
}

enum oriel_status ori_memfd_seal(int fd)
{
	int mode = fcntl(fd, F_GETFL);
	int seals;

	if (mode < 0)
		return ori_fail_errno(ORIEL_ERR_INVALID, "descriptor %d", fd);
	if ((mode & O_ACCMODE) != O_RDWR)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"descriptor %d is not open for reading and writing", fd);
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return ori_fail_errno(ORIEL_ERR_UNSUPPORTED,
				      "file of descriptor %d cannot be sealed", fd);
	if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"file of descriptor %d is sealed against writing", fd);
	if (!(seals & F_SEAL_SHRINK) && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		return ori_fail_errno(ORIEL_ERR_UNSUPPORTED,
				      "file of descriptor %d cannot be sealed against shrinking",
				      fd);
	return ORIEL_OK;
}

enum oriel_status ori_memfd_check(int fd, uint64_t offset, uint64_t length)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	uint64_t end;

	if (seals < 0)
		return ori_fail_errno(ORIEL_ERR_PROTOCOL, "a peer's memory is no sealed file");
	if (!(seals & F_SEAL_SHRINK))
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"a peer's memory file is not sealed against shrinking");
	if (fstat(fd, &st) != 0)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot stat a peer's memory file");
	if (__builtin_add_overflow(offset, length, &end) || end > (uint64_t)st.st_size)
		return ori_fail(ORIEL_ERR_PROTOCOL,
				"a peer's memory file has %" PRIu64 " bytes, not %" PRIu64
				" from offset %" PRIu64,
				(uint64_t)st.st_size, length, offset);
	return ORIEL_OK;
}

/* One line of /proc/self/maps. */
struct memfd_area {
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	char mode[5];
};

static bool memfd_read_area(FILE *maps, char **line, size_t *room, struct memfd_area *area)
{
	return getline(line, room, maps) > 0 &&
	       sscanf(*line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &area->start,
		      &area->end, area->mode, &area->offset, &area->major, &area->minor,
		      &area->inode) == 7;
}

/*
 * Do the areas of @maps cover @at to @end with a shared mapping of @file, where @at is byte
 * @offset of the file?
 */
static bool memfd_covers(FILE *maps, const struct stat *file, uint64_t at, uint64_t end,
			 uint64_t offset)
{
	struct memfd_area area;
	char *line = NULL;
	size_t room = 0;

	while (at < end && memfd_read_area(maps, &line, &room, &area)) {
		if (area.end <= at)
			continue;
		if (area.start > at || area.mode[3] != 's' || area.inode != file->st_ino ||
		    area.major != major(file->st_dev) || area.minor != minor(file->st_dev) ||
		    area.offset + (at - area.start) != offset)
			break;
		offset += area.end - at;
		at = area.end;
	}
	free(line);
	return at >= end;
}

enum oriel_status ori_memfd_check_mapped(int fd, uint64_t offset, const void *address,
					 size_t length)
{
	uint64_t at = (uintptr_t)address;
	bool is_covered;
	struct stat st;
	FILE *maps;

	if (fstat(fd, &st) != 0)
		return ori_fail_errno(ORIEL_ERR_INVALID, "descriptor %d", fd);
	if (offset > (uint64_t)st.st_size || length > (uint64_t)st.st_size - offset)
		return ori_fail(ORIEL_ERR_RANGE,
				"file of descriptor %d has %" PRIu64
				" bytes, not %zu from offset %" PRIu64,
				fd, (uint64_t)st.st_size, length, offset);
	maps = fopen("/proc/self/maps", "re");
	if (!maps)
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot open /proc/self/maps");
	is_covered = memfd_covers(maps, &st, at, at + length, offset);
	fclose(maps);
	if (!is_covered)
		return ori_fail(ORIEL_ERR_INVALID,
				"%p (%zu bytes) is no shared mapping of descriptor %d from offset "
				"%" PRIu64,
				address, length, fd, offset);
	return ORIEL_OK;
}
