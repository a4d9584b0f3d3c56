/* SPDX-License-Identifier: Apache-2.0 */
#include "mem/memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "mem/adopt.h"
#include "mem/memfd.h"
#include "sys/process.h"

/* All live pieces, ordered by address; no two overlap. */
static struct {
	pthread_mutex_t lock; /* guards the rest, and refs and holder of each piece */
	struct ori_mem **pieces;
	unsigned count, room;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool memory_contains(const struct ori_mem *m, uintptr_t at)
{
	return at - (uintptr_t)m->address < m->length;
}

/* Place of the first piece that ends behind @at; table.count if none does. */
static unsigned memory_place(uintptr_t at)
{
	unsigned low = 0, high = table.count;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;
		const struct ori_mem *m = table.pieces[middle];

		if (at >= (uintptr_t)m->address + m->length)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first piece that touches the range, or NULL. */
static struct ori_mem *memory_touching(uintptr_t at, size_t length)
{
	unsigned place = memory_place(at);

	if (place == table.count || (uintptr_t)table.pieces[place]->address >= at + length)
		return NULL;
	return table.pieces[place];
}

static bool memory_has_room(void)
{
	unsigned room = table.room ? 2 * table.room : 16;
	struct ori_mem **pieces;

	if (table.count < table.room)
		return true;
	pieces = realloc(table.pieces, room * sizeof(struct ori_mem *));
	if (!pieces)
		return false;
	table.pieces = pieces;
	table.room = room;
	return true;
}

/* False if memory ran out. The caller has seen that nothing overlaps. */
static bool memory_insert_locked(struct ori_mem *m)
{
	unsigned place = memory_place((uintptr_t)m->address);

	if (!memory_has_room())
		return false;
	memmove(&table.pieces[place + 1], &table.pieces[place],
		(table.count - place) * sizeof(table.pieces[0]));
	table.pieces[place] = m;
	table.count++;
	return true;
}

static void memory_remove_locked(const struct ori_mem *m)
{
	unsigned place = memory_place((uintptr_t)m->address);

	table.count--;
	memmove(&table.pieces[place], &table.pieces[place + 1],
		(table.count - place) * sizeof(table.pieces[0]));
}

static enum oriel_status memory_insert(struct ori_mem *m)
{
	const struct ori_mem *touching;
	struct ori_mem other = {0};
	bool is_in;

	pthread_mutex_lock(&table.lock);
	touching = memory_touching((uintptr_t)m->address, m->length);
	if (touching)
		other = *touching;
	is_in = !touching && memory_insert_locked(m);
	pthread_mutex_unlock(&table.lock);

	if (is_in)
		return ORIEL_OK;
	if (!other.address)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for the table of allocations");
	return ori_fail(ORIEL_ERR_INVALID,
			"%p (%zu bytes) overlaps the allocation at %p (%zu bytes)",
			(void *)m->address, m->length, (void *)other.address, other.length);
}

static void memory_fork_prepare(void)
{
	pthread_mutex_lock(&table.lock);
}

static void memory_fork_parent(void)
{
	pthread_mutex_unlock(&table.lock);
}

static void memory_fork_child(void)
{
	unsigned i;

	for (i = 0; i < table.count; i++)
		table.pieces[i]->is_forked = true;
	pthread_mutex_unlock(&table.lock);
}

/* A piece like @like, with one reference, in the table. */
static enum oriel_status memory_open(const struct ori_mem *like, struct ori_mem **mem)
{
	static const struct ori_fork_hook hook = {memory_fork_prepare, memory_fork_parent,
						  memory_fork_child};
	struct ori_mem *m = malloc(sizeof(*m));
	enum oriel_status st;

	ori_fork_add(ORI_FORK_MEMORY, &hook);
	if (!m)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a handle");
	*m = *like;
	m->refs = 1;
	m->id = 0;
	do {
		st = ori_random(&m->id, sizeof(m->id));
	} while (st == ORIEL_OK && m->id == 0);
	if (st == ORIEL_OK)
		st = memory_insert(m);
	if (st == ORIEL_OK)
		*mem = m;
	else
		free(m);
	return st;
}

static void memory_close(struct ori_mem *m)
{
	if (m->kind == ORI_MEM_OWN && m->gpu)
		m->gpu->unmap(m->address, m->length);
	else if (m->kind == ORI_MEM_OWN)
		ori_memfd_unmap(&(struct ori_memfd_map){.base = m->address, .length = m->length});
	if (m->fd >= 0)
		close(m->fd);
	ori_adopted_close(m->adopted);
	free(m);
}

static enum oriel_status memory_alloc_gpu(const struct ori_gpu *gpu, size_t length,
					  enum ori_mem_holder holder, struct ori_mem **mem)
{
	struct ori_mem m = {.length = length,
			    .flags = ORIEL_MEMORY_DEVICE,
			    .kind = ORI_MEM_OWN,
			    .gpu = gpu->ops,
			    .holder = holder};
	struct ori_gpu_handles handles;
	enum oriel_status st;
	void *address;

	st = gpu->ops->alloc(gpu, &m.length, &address, &handles);
	if (st != ORIEL_OK)
		return st;
	m.address = address;
	m.fd = handles.fd;
	m.has_fabric = handles.has_fabric;
	memcpy(m.fabric, handles.fabric, sizeof(m.fabric));
	st = memory_open(&m, mem);
	if (st != ORIEL_OK) {
		gpu->ops->unmap(address, m.length);
		close(m.fd);
	}
	return st;
}

/* Of the GPU that the calling thread is using. */
static enum oriel_status memory_alloc_current(size_t length, enum ori_mem_holder holder,
					      struct ori_mem **mem)
{
	struct ori_gpu gpu;
	enum oriel_status st = ori_gpu_open(&gpu);

	if (st != ORIEL_OK)
		return st;
	st = memory_alloc_gpu(&gpu, length, holder, mem);
	ori_gpu_close(&gpu);
	return st;
}

static enum oriel_status memory_alloc(size_t length, unsigned flags, enum ori_mem_holder holder,
				      struct ori_mem **mem)
{
	struct ori_mem m = {.length = length,
			    .flags = flags,
			    .kind = ORI_MEM_OWN,
			    .holder = holder};
	struct ori_memfd_map map;
	enum oriel_status st;

	if (length == 0)
		return ori_fail(ORIEL_ERR_INVALID, "memory of 0 bytes");
	if (flags & ~(unsigned)(ORIEL_MEMORY_HUGE | ORIEL_MEMORY_DEVICE))
		return ori_fail(ORIEL_ERR_INVALID, "unknown memory flags 0x%x", flags);
	if (flags == (ORIEL_MEMORY_HUGE | ORIEL_MEMORY_DEVICE))
		return ori_fail(ORIEL_ERR_INVALID, "huge pages are of host memory, not of a GPU's");
	if (flags & ORIEL_MEMORY_DEVICE)
		return memory_alloc_current(length, holder, mem);
	st = ori_memfd_open(flags & ORIEL_MEMORY_HUGE, &m.length, &m.fd, &map);
	if (st != ORIEL_OK)
		return st;
	m.address = map.base;
	st = memory_open(&m, mem);
	if (st != ORIEL_OK) {
		ori_memfd_unmap(&map);
		close(m.fd);
	}
	return st;
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
	enum oriel_status st;
	struct ori_mem *m;

	if (!address)
		return ori_fail(ORIEL_ERR_INVALID, "no place for the address");
	st = memory_alloc(length, flags, ORI_MEM_USER, &m);
	if (st == ORIEL_OK)
		*address = m->address;
	return st;
}

enum oriel_status oriel_memory_take_fd(void *address, size_t length, int fd, uint64_t offset)
{
	struct ori_mem m = {.address = address,
			    .length = length,
			    .fd = fd,
			    .fd_offset = offset,
			    .kind = ORI_MEM_TAKEN,
			    .holder = ORI_MEM_USER};
	struct ori_mem *known;
	enum oriel_status st;
	uint64_t end;

	if (!address || length == 0)
		return ori_fail(ORIEL_ERR_INVALID, "memory of %zu bytes at %p", length, address);
	if (__builtin_add_overflow((uintptr_t)address, length, &end) ||
	    __builtin_add_overflow(offset, length, &end) || end > INT64_MAX)
		return ori_fail(ORIEL_ERR_RANGE,
				"memory of %zu bytes at %p, offset %" PRIu64 ", passes the end",
				length, address, offset);
	st = ori_memfd_check_mapped(fd, offset, address, length);
	if (st == ORIEL_OK)
		st = ori_memfd_seal(fd);
	if (st == ORIEL_OK)
		st = memory_open(&m, &known);
	return st;
}

/* True if that was the last reference: the piece is the caller's to close. */
static bool memory_drop_locked(struct ori_mem *m)
{
	if (--m->refs > 0)
		return false;
	if (m->kind != ORI_MEM_ADOPTED)
		memory_remove_locked(m);
	return true;
}

static void memory_end(const char *call, void *address, enum ori_mem_kind kind)
{
	struct ori_mem *m;
	bool is_live, is_last, is_forked;

	if (!address)
		return;
	pthread_mutex_lock(&table.lock);
	m = memory_touching((uintptr_t)address, 1);
	is_live = m && m->address == address && m->kind == kind && m->holder == ORI_MEM_USER;
	/* A child cannot speak to the driver of its parent's GPU. */
	is_forked = is_live && m->is_forked && m->gpu;
	is_live = is_live && !is_forked;
	if (is_live)
		m->holder = ORI_MEM_GONE;
	is_last = is_live && memory_drop_locked(m);
	pthread_mutex_unlock(&table.lock);

	if (is_last)
		memory_close(m);
	if (is_forked)
		ori_fail(ORIEL_ERR_FORKED,
			 "%s(%p): this process was forked after the memory was allocated", call,
			 address);
	else if (!is_live)
		ori_fail(ORIEL_ERR_INVALID, "%s(%p): not the start of a live allocation", call,
			 address);
}

void oriel_memory_free(void *address)
{
	memory_end("oriel_memory_free", address, ORI_MEM_OWN);
}

void oriel_memory_release(void *address)
{
	memory_end("oriel_memory_release", address, ORI_MEM_TAKEN);
}

/* Why the range is not part of one live piece; @m is the first that it touches, if any. */
static enum oriel_status memory_explain(uintptr_t at, size_t length, const struct ori_mem *m)
{
	if (!m->address || m->holder == ORI_MEM_GONE)
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

/* The piece that [@at, @at + @length) lies in, or NULL; @seen, if not, what it touches. */
static struct ori_mem *memory_ref_around(uintptr_t at, size_t length, struct ori_mem *seen)
{
	struct ori_mem *m;

	pthread_mutex_lock(&table.lock);
	m = memory_touching(at, length);
	if (m && seen)
		*seen = *m;
	if (m && m->holder != ORI_MEM_GONE && !m->is_forked && memory_contains(m, at) &&
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
		return ori_fail(ORIEL_ERR_RANGE, "memory of %zu bytes at %p passes the end", length,
				address);
	m = memory_ref_around(at, length, &seen);
	if (!m)
		return memory_explain(at, length, &seen);
	*mem = m;
	*offset = at - (uintptr_t)m->address;
	return ORIEL_OK;
}

struct ori_mem *ori_mem_look(const void *address, size_t length, uint64_t *offset)
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

struct ori_mem *ori_mem_find_id(uint64_t address, uint64_t id)
{
	struct ori_mem *m;

	pthread_mutex_lock(&table.lock);
	m = memory_touching((uintptr_t)address, 1);
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

static pthread_mutex_t pin_lock = PTHREAD_MUTEX_INITIALIZER;

enum oriel_status ori_mem_pin(const struct ori_gpu *gpu, struct ori_mem *mem)
{
	enum oriel_status st = ORIEL_OK;

	pthread_mutex_lock(&pin_lock);
	if (mem->pins == 0) {
		st = gpu->ops->pin(gpu, mem->address, mem->length);
		mem->is_pinned = st == ORIEL_OK;
	}
	/* Pinned by its user, it stays so as long as he likes. */
	if (st == ORIEL_AGAIN)
		st = ORIEL_OK;
	if (st == ORIEL_OK)
		mem->pins++;
	pthread_mutex_unlock(&pin_lock);
	return st;
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
	enum oriel_status st = ori_mem_alloc(length, 0, &mem);

	if (st != ORIEL_OK)
		return st;
	if (gpu)
		st = ori_mem_pin(gpu, mem);
	if (st != ORIEL_OK) {
		ori_mem_unref(mem);
		return st;
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
