/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of allocations that other processes can map, and the public oriel_memory_ functions.
 * comm/ and p2p/ look up buffers in it.
 */
#include "mem/memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "mem/external.h"
#include "mem/memfd.h"
#include "sys/process.h"

/* All live allocations, sorted by address; no two overlap. */
static struct {
	pthread_mutex_t lock; /* guards the rest, and refs and owner of each allocation */
	struct ori_mem **allocations;
	unsigned count, room;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool memory_contains(const struct ori_mem *m, uintptr_t at)
{
	return at - (uintptr_t)m->address < m->length;
}

/* Index of the first allocation that ends behind @at; table.count if none does. */
static unsigned memory_index(uintptr_t at)
{
	unsigned low = 0, high = table.count;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;
		const struct ori_mem *m = table.allocations[middle];

		if (at >= (uintptr_t)m->address + m->length)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first allocation that overlaps the range, or NULL. */
static struct ori_mem *memory_overlapping(uintptr_t at, size_t length)
{
	unsigned index = memory_index(at);

	if (index == table.count || (uintptr_t)table.allocations[index]->address >= at + length)
		return NULL;
	return table.allocations[index];
}

/*
 * Grow the table before the insertion, so that it cannot fail half-way. Returns the bytes that
 * are missing for one more allocation, or 0.
 */
static size_t memory_make_room(void)
{
	unsigned room = table.room ? 2 * table.room : 16;
	struct ori_mem **allocations;

	if (table.count < table.room)
		return 0;
	allocations = realloc(table.allocations, room * sizeof(struct ori_mem *));
	if (!allocations)
		return room * sizeof(struct ori_mem *);
	table.allocations = allocations;
	table.room = room;
	return 0;
}

/* The same result. The caller has checked that no allocation overlaps. */
static size_t memory_insert_locked(struct ori_mem *m)
{
	unsigned index = memory_index((uintptr_t)m->address);
	size_t missing = memory_make_room();

	if (missing)
		return missing;
	memmove(&table.allocations[index + 1], &table.allocations[index],
		(table.count - index) * sizeof(table.allocations[0]));
	table.allocations[index] = m;
	table.count++;
	return 0;
}

static void memory_remove_locked(const struct ori_mem *m)
{
	unsigned index = memory_index((uintptr_t)m->address);

	table.count--;
	memmove(&table.allocations[index], &table.allocations[index + 1],
		(table.count - index) * sizeof(table.allocations[0]));
}

/*
 * The overlapping allocation is copied under the lock, since another thread may free it before the
 * error text is written.
 */
static enum oriel_status memory_insert(struct ori_mem *m)
{
	const struct ori_mem *overlapping;
	struct ori_mem other = {0};
	size_t missing = 0;

	pthread_mutex_lock(&table.lock);
	overlapping = memory_overlapping((uintptr_t)m->address, m->length);
	if (overlapping)
		other = *overlapping;
	else
		missing = memory_insert_locked(m);
	pthread_mutex_unlock(&table.lock);

	if (missing)
		return ori_fail_nomem(missing, "the table of allocations");
	if (!other.address)
		return ORIEL_OK;
	return ori_fail(ORIEL_ERR_INVALID,
			"%p (%zu bytes) overlaps the allocation at %p (%zu bytes)",
			(void *)m->address, m->length, (void *)other.address, other.length);
}

static void memory_fork_child(void)
{
	unsigned i;

	for (i = 0; i < table.count; i++)
		table.allocations[i]->is_forked = true;
}

/* Add an allocation like @like, with one reference, to the table. */
static enum oriel_status memory_open(const struct ori_mem *like, struct ori_mem **mem)
{
	static const struct ori_fork_hook hook = {.lock = &table.lock, .child = memory_fork_child};
	struct ori_mem *m = malloc(sizeof(*m));
	enum oriel_status status;

	ori_fork_add(ORI_FORK_MEMORY, &hook);
	if (!m)
		return ori_fail_nomem(sizeof(*m), "a handle");
	*m = *like;
	m->refs = 1;
	m->id = 0;
	do {
		status = ori_random(&m->id, sizeof(m->id));
	} while (status == ORIEL_OK && m->id == 0);
	if (status == ORIEL_OK)
		status = memory_insert(m);
	if (status == ORIEL_OK)
		*mem = m;
	else
		free(m);
	return status;
}

/* Without the lock: unmapping large memory takes long. */
static void memory_close(struct ori_mem *m)
{
	if (m->kind == ORI_MEM_OWN && m->gpu)
		m->gpu->unmap(m->address, m->length);
	else if (m->kind == ORI_MEM_OWN)
		ori_memfd_unmap(&(struct ori_memfd_map){.base = m->address, .length = m->length});
	if (m->fd >= 0)
		close(m->fd);
	ori_external_close(m->external);
	free(m);
}

static enum oriel_status memory_alloc_gpu(const struct ori_gpu *gpu, size_t length,
					  enum ori_mem_owner owner, struct ori_mem **mem)
{
	struct ori_mem m = {.length = length,
			    .flags = ORIEL_MEMORY_DEVICE,
			    .kind = ORI_MEM_OWN,
			    .gpu = gpu->ops,
			    .owner = owner};
	struct ori_gpu_handles handles;
	enum oriel_status status;
	void *address;

	status = gpu->ops->alloc(gpu, &m.length, &address, &handles);
	if (status != ORIEL_OK)
		return status;
	m.address = address;
	m.fd = handles.fd;
	m.has_fabric = handles.has_fabric;
	memcpy(m.fabric, handles.fabric, sizeof(m.fabric));
	status = memory_open(&m, mem);
	if (status != ORIEL_OK) {
		gpu->ops->unmap(address, m.length);
		close(m.fd);
	}
	return status;
}

/* On the GPU whose context is current in the calling thread. */
static enum oriel_status memory_alloc_current(size_t length, enum ori_mem_owner owner,
					      struct ori_mem **mem)
{
	struct ori_gpu gpu;
	enum oriel_status status = ori_gpu_open(&gpu);

	if (status != ORIEL_OK)
		return status;
	status = memory_alloc_gpu(&gpu, length, owner, mem);
	ori_gpu_close(&gpu);
	return status;
}

static enum oriel_status memory_alloc(size_t length, unsigned flags, enum ori_mem_owner owner,
				      struct ori_mem **mem)
{
	struct ori_mem m = {.length = length, .flags = flags, .kind = ORI_MEM_OWN, .owner = owner};
	struct ori_memfd_map map;
	enum oriel_status status;

	if (length == 0)
		return ori_fail(ORIEL_ERR_INVALID, "memory of 0 bytes");
	if (flags & ~(unsigned)(ORIEL_MEMORY_HUGE | ORIEL_MEMORY_DEVICE))
		return ori_fail(ORIEL_ERR_INVALID, "unknown memory flags 0x%x", flags);
	if (flags == (ORIEL_MEMORY_HUGE | ORIEL_MEMORY_DEVICE))
		return ori_fail(ORIEL_ERR_INVALID,
				"ORIEL_MEMORY_HUGE and ORIEL_MEMORY_DEVICE exclude each other");
	if (flags & ORIEL_MEMORY_DEVICE)
		return memory_alloc_current(length, owner, mem);
	status = ori_memfd_open(flags & ORIEL_MEMORY_HUGE, &m.length, &m.fd, &map);
	if (status != ORIEL_OK)
		return status;
	m.address = map.base;
	status = memory_open(&m, mem);
	if (status != ORIEL_OK) {
		ori_memfd_unmap(&map);
		close(m.fd);
	}
	return status;
}

enum oriel_status ori_mem_alloc(size_t length, unsigned flags, struct ori_mem **mem)
{
	return memory_alloc(length, flags, ORI_MEM_LIBRARY, mem);
}

enum oriel_status ori_mem_alloc_gpu(const struct ori_gpu *gpu, size_t length, struct ori_mem **mem)
{
	if (length == 0)
		return ori_fail(ORIEL_ERR_INVALID, "memory of 0 bytes");
	return memory_alloc_gpu(gpu, length, ORI_MEM_LIBRARY, mem);
}

enum oriel_status oriel_memory_alloc(size_t length, unsigned flags, void **address)
{
	enum oriel_status status;
	struct ori_mem *m;

	if (!address)
		return ori_fail_null(__func__, "address");
	status = memory_alloc(length, flags, ORI_MEM_USER, &m);
	if (status == ORIEL_OK)
		*address = m->address;
	return status;
}

enum oriel_status oriel_memory_take_fd(void *address, size_t length, int fd, uint64_t offset)
{
	struct ori_mem m = {.address = address,
			    .length = length,
			    .fd = fd,
			    .fd_offset = offset,
			    .kind = ORI_MEM_TAKEN,
			    .owner = ORI_MEM_USER};
	struct ori_mem *known;
	enum oriel_status status;
	uint64_t end;

	if (!address || length == 0)
		return ori_fail(ORIEL_ERR_INVALID, "memory of %zu bytes at %p", length, address);
	if (__builtin_add_overflow((uintptr_t)address, length, &end) ||
	    __builtin_add_overflow(offset, length, &end) || end > INT64_MAX)
		return ori_fail(ORIEL_ERR_RANGE,
				"memory of %zu bytes at %p, offset %" PRIu64
				", exceeds the address space",
				length, address, offset);
	status = ori_memfd_check_mapped(fd, offset, address, length);
	if (status == ORIEL_OK)
		status = ori_memfd_seal(fd);
	if (status == ORIEL_OK)
		status = memory_open(&m, &known);
	return status;
}

/* True if it was the last reference: the caller must close the allocation. */
static bool memory_drop_locked(struct ori_mem *m)
{
	if (--m->refs > 0)
		return false;
	if (m->kind != ORI_MEM_EXTERNAL)
		memory_remove_locked(m);
	return true;
}

/* Drop the user's reference to the allocation of @kind that begins at @address. */
static enum oriel_status memory_release_user(const char *call, void *address,
					     enum ori_mem_kind kind)
{
	struct ori_mem *m;
	bool is_live, is_last, is_forked;

	if (!address)
		return ORIEL_OK;
	pthread_mutex_lock(&table.lock);
	m = memory_overlapping((uintptr_t)address, 1);
	is_live = m && m->address == address && m->kind == kind && m->owner == ORI_MEM_USER;
	/* A child cannot call the driver of its parent's GPU. */
	is_forked = is_live && m->is_forked && m->gpu;
	is_live = is_live && !is_forked;
	if (is_live)
		m->owner = ORI_MEM_RELEASED;
	is_last = is_live && memory_drop_locked(m);
	pthread_mutex_unlock(&table.lock);

	if (is_last)
		memory_close(m);
	if (is_forked)
		return ori_fail(ORIEL_ERR_FORKED,
				"%s(%p): this process was forked after the memory was allocated",
				call, address);
	if (!is_live)
		return ori_fail(ORIEL_ERR_INVALID, "%s(%p): not the start of a live allocation",
				call, address);
	return ORIEL_OK;
}

enum oriel_status oriel_memory_free(void *address)
{
	return memory_release_user("oriel_memory_free", address, ORI_MEM_OWN);
}

enum oriel_status oriel_memory_release(void *address)
{
	return memory_release_user("oriel_memory_release", address, ORI_MEM_TAKEN);
}

/*
 * Fail with the reason why the range is not part of one allocation; @m is a copy of the first one
 * that it overlaps, or zeroed.
 */
static enum oriel_status memory_explain(uintptr_t at, size_t length, const struct ori_mem *m)
{
	if (!m->address || m->owner == ORI_MEM_RELEASED)
		return ori_fail(ORIEL_ERR_UNSUPPORTED,
				"0x%" PRIxPTR " (%zu bytes) is private memory of this process: "
				"allocate it with oriel_memory_alloc() or pass its file with "
				"oriel_memory_take_fd()",
				at, length);
	if (m->is_forked)
		return ori_fail(ORIEL_ERR_FORKED,
				"0x%" PRIxPTR " (%zu bytes) was allocated before this process was "
				"forked, which has a private copy: allocate memory of its own",
				at, length);
	return ori_fail(ORIEL_ERR_UNSUPPORTED,
			"0x%" PRIxPTR " (%zu bytes) %s the allocation at %p (%zu bytes): "
			"shared memory must lie in one allocation",
			at, length,
			memory_contains(m, at) ? "reaches past the end of" : "begins before",
			(void *)m->address, m->length);
}

/*
 * Reference the allocation that holds [@at, @at + @length); otherwise NULL, and @seen gets a copy
 * of the one that the range overlaps.
 */
static struct ori_mem *memory_ref_around(uintptr_t at, size_t length, struct ori_mem *seen)
{
	struct ori_mem *m;

	pthread_mutex_lock(&table.lock);
	m = memory_overlapping(at, length);
	if (m && seen)
		*seen = *m;
	if (m && m->owner != ORI_MEM_RELEASED && !m->is_forked && memory_contains(m, at) &&
	    memory_contains(m, at + length - 1))
		m->refs++;
	else
		m = NULL;
	pthread_mutex_unlock(&table.lock);
	return m;
}

enum oriel_status ori_mem_find(const void *address, size_t length, struct ori_mem **mem,
			       uint64_t *offset)
{
	uintptr_t at = (uintptr_t)address, end;
	struct ori_mem *m, seen = {0};

	if (!address || length == 0)
		return ori_fail(ORIEL_ERR_INVALID, "memory of %zu bytes at %p", length, address);
	if (__builtin_add_overflow(at, length, &end))
		return ori_fail(ORIEL_ERR_RANGE,
				"memory of %zu bytes at %p exceeds the address space", length,
				address);
	m = memory_ref_around(at, length, &seen);
	if (!m)
		return memory_explain(at, length, &seen);
	*mem = m;
	*offset = at - (uintptr_t)m->address;
	return ORIEL_OK;
}

uint64_t ori_mem_id(const void *address, size_t length)
{
	uint64_t offset, id = 0;
	struct ori_mem *m = ori_mem_try_find(address, length, &offset);

	if (m)
		id = m->id;
	ori_mem_unref(m);
	return id;
}

struct ori_mem *ori_mem_try_find(const void *address, size_t length, uint64_t *offset)
{
	uintptr_t at = (uintptr_t)address, end;
	struct ori_mem *m;

	if (length == 0 || __builtin_add_overflow(at, length, &end))
		return NULL;
	m = memory_ref_around(at, length, NULL);
	if (m)
		*offset = at - (uintptr_t)m->address;
	return m;
}

/* The id detects an allocation that was freed and replaced by another one at the same address. */
struct ori_mem *ori_mem_find_id(uint64_t address, uint64_t id)
{
	struct ori_mem *m;

	pthread_mutex_lock(&table.lock);
	m = memory_overlapping((uintptr_t)address, 1);
	if (m && (uintptr_t)m->address == address && m->id == id)
		m->refs++;
	else
		m = NULL;
	pthread_mutex_unlock(&table.lock);
	return m;
}

void ori_mem_ref(struct ori_mem *mem)
{
	pthread_mutex_lock(&table.lock);
	mem->refs++;
	pthread_mutex_unlock(&table.lock);
}

void ori_mem_unref(struct ori_mem *mem)
{
	bool is_last;

	if (!mem)
		return;
	pthread_mutex_lock(&table.lock);
	is_last = memory_drop_locked(mem);
	pthread_mutex_unlock(&table.lock);
	if (is_last)
		memory_close(mem);
}

/* A lock of its own: pinning takes long for large memory, and lookups must not wait for it. */
static pthread_mutex_t pin_lock = PTHREAD_MUTEX_INITIALIZER;

enum oriel_status ori_mem_pin(const struct ori_gpu *gpu, struct ori_mem *mem)
{
	enum oriel_status status = ORIEL_OK;

	pthread_mutex_lock(&pin_lock);
	if (mem->pins == 0) {
		status = gpu->ops->pin(gpu, mem->address, mem->length);
		mem->is_pinned = status == ORIEL_OK;
	}
	/* The user pinned it, and decides how long it stays pinned. */
	if (status == ORIEL_AGAIN)
		status = ORIEL_OK;
	if (status == ORIEL_OK)
		mem->pins++;
	pthread_mutex_unlock(&pin_lock);
	return status;
}

void ori_mem_unpin(const struct ori_gpu *gpu, struct ori_mem *mem)
{
	pthread_mutex_lock(&pin_lock);
	if (--mem->pins == 0 && mem->is_pinned)
		gpu->ops->unpin(gpu, mem->address);
	pthread_mutex_unlock(&pin_lock);
}

enum oriel_status ori_mem_alloc_pinned(const struct ori_gpu *gpu, size_t length,
				       struct ori_mem **out)
{
	struct ori_mem *mem;
	enum oriel_status status = ori_mem_alloc(length, 0, &mem);

	if (status != ORIEL_OK)
		return status;
	if (gpu)
		status = ori_mem_pin(gpu, mem);
	if (status != ORIEL_OK) {
		ori_mem_unref(mem);
		return status;
	}
	*out = mem;
	return ORIEL_OK;
}

void ori_mem_unref_pinned(const struct ori_gpu *gpu, struct ori_mem *mem)
{
	if (gpu && mem)
		ori_mem_unpin(gpu, mem);
	ori_mem_unref(mem);
}

unsigned ori_mem_count(void)
{
	unsigned count;

	pthread_mutex_lock(&table.lock);
	count = table.count;
	pthread_mutex_unlock(&table.lock);
	return count;
}
