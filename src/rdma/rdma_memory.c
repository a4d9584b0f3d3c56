/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys for the memory that requests name: a list of registered memory, blocks for short
 * requests, and a cache of registrations. rdma.c registers memory; lanes of the proxy
 * find keys by it.
 */
#include "rdma/rdma_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "mem/memory.h"
#include "rdma/rdma_blocks.h"

#define MEMORY_IDLE 64u /* registrations of GPU allocations that no request uses now */

/* Rights of a registration are accesses, and the rails that have it. */
#define MEMORY_RAIL(rail) (0x100u << (rail))
#define MEMORY_RAILS (MEMORY_RAIL(ORIEL_DEV_RAILS) - MEMORY_RAIL(0))

/* A key that a peer holds allows what the protocol does with it, and no more. */
static const unsigned memory_rights[] = {
	[ORI_RDMA_OWN] = ORI_HCA_LOCAL_WRITE | MEMORY_RAILS,
	[ORI_RDMA_SHARED] = ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | ORI_HCA_REMOTE_READ |
			    ORI_HCA_REMOTE_ATOMIC | MEMORY_RAILS,
	[ORI_RDMA_TARGET] = ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | MEMORY_RAILS,
	[ORI_RDMA_PASSING_TARGET] = ORI_HCA_LOCAL_WRITE | ORI_HCA_REMOTE_WRITE | MEMORY_RAILS,
	[ORI_RDMA_PASSING_SOURCE] = MEMORY_RAILS,
};

/*
 * A registration in the cache. NICs know its first byte by the offset in its page, as the
 * kernel requires it of the offset.
 */
struct memory_entry {
	uint64_t base, iova;
	struct ori_hca_mr *of[ORIEL_DEV_RAILS];
	struct ori_hca_keys keys[ORIEL_DEV_RAILS];
};

/* Memory that its owner registered. */
struct ori_rdma_mr {
	uint64_t address, length;
	uint64_t iova;         /* of the first byte */
	struct ori_mr_ref ref; /* entry NULL: a NIC that reaches all memory needs none */
	struct ori_hca_keys keys[ORIEL_DEV_RAILS];
	bool is_fixed;  /* a source only */
	bool is_host;   /* a CPU reads it */
	bool is_listed; /* requests find it */
};

/* A registration for one request, until it is done. Its block has no bytes. */
struct memory_ref {
	struct ori_block block; /* comes first */
	struct ori_mr_ref cached;
};

/* The registered memory that the last request named, valid while changes equals the list's. */
struct memory_last {
	uint64_t changes; /* 0: nothing */
	uint64_t address, length, iova;
	uint32_t lkey;
	bool is_fixed, is_host;
};

struct memory_rail {
	struct ori_memory *memory;
	unsigned rail;
	struct memory_last last; /* of the thread that calls find() */
	struct ori_blocks blocks;
};

/*
 * The list has registered memory, sorted by address; of entries that overlap, the last
 * one that covers a request is used.
 */
struct ori_memory {
	struct ori_memory_attr attr;
	struct ori_cache *cache;
	uint64_t page_mask;
	bool rejects_gpu;
	bool has_whole_lkeys;
	uint32_t whole_lkeys[ORIEL_DEV_RAILS];
	pthread_rwlock_t lock;     /* guards all up to rails */
	struct ori_rdma_mr **list; /* [count] */
	unsigned count, room;
	uint64_t longest;         /* of all entries ever listed */
	_Atomic uint64_t changes; /* of the list, plus 1; it may be read unlocked */
	struct memory_rail rails[ORIEL_DEV_RAILS]; /* the first attr.rails */
};

/* Is @address memory of the GPU of @m, or of any other GPU? */
static enum oriel_status memory_query(const struct ori_memory *m, const void *address,
				      struct ori_gpu_memory_info *info, bool *is_gpu)
{
	enum oriel_status status = ORIEL_OK;

	*is_gpu = false;
	if (m->attr.gpu)
		status = m->attr.gpu->ops->query(m->attr.gpu, address, info);
	if (m->attr.gpu && status == ORIEL_OK)
		*is_gpu = info->kind != ORI_GPU_PAGEABLE && info->kind != ORI_GPU_PINNED;
	return status;
}

static uint64_t memory_iova(const struct memory_entry *entry, uint64_t address)
{
	return entry->iova + (address - entry->base);
}

/* Registers @range with @rail. */
static enum oriel_status memory_enter(const struct ori_memory *m, unsigned rail,
				      const struct ori_cache_range *range, bool is_gpu,
				      struct memory_entry *entry)
{
	char *address = (char *)(uintptr_t)range->base;
	uint64_t before = range->base & m->page_mask;
	unsigned access = range->rights & ~MEMORY_RAILS;
	size_t length = (before + range->length + m->page_mask) & ~m->page_mask;

	if (!is_gpu)
		return m->attr.ops->register_memory(m->attr.hcas[rail], address, range->length,
						    entry->iova, access, &entry->of[rail],
						    &entry->keys[rail]);
	if (m->rejects_gpu)
		return ori_fail(ORIEL_ERR_ACCESS,
				"%llu bytes of GPU memory at %p: no NIC reached memory of that GPU "
				"when the communicator was created",
				(unsigned long long)range->length, (void *)address);
	return ori_hca_register_gpu(m->attr.ops, m->attr.hcas[rail], m->attr.gpu, address - before,
				    length, entry->iova - before, access, &entry->of[rail],
				    &entry->keys[rail]);
}

static void memory_cache_leave(void *context, void *registration)
{
	const struct ori_memory *m = context;
	struct memory_entry *entry = registration;
	unsigned rail;

	for (rail = 0; rail < m->attr.rails; rail++)
		if (entry->of[rail])
			m->attr.ops->unregister_memory(entry->of[rail]);
	free(entry);
}

static enum oriel_status memory_cache_enter(void *context, const struct ori_cache_range *range,
					    void **registration)
{
	const struct ori_memory *m = context;
	struct memory_entry *entry = calloc(1, sizeof(*entry));
	struct ori_gpu_memory_info info;
	enum oriel_status status = ORIEL_OK;
	bool is_gpu = false;
	unsigned rail;

	if (!entry)
		return ori_fail_nomem(sizeof(*entry), "a registration");
	entry->base = range->base;
	entry->iova = range->base & m->page_mask;
	/* A NIC that reaches all memory knows by itself what it is. */
	if (!m->attr.is_whole)
		status = memory_query(m, (void *)(uintptr_t)range->base, &info, &is_gpu);
	for (rail = 0; rail < m->attr.rails && status == ORIEL_OK; rail++)
		if (range->rights & MEMORY_RAIL(rail))
			status = memory_enter(m, rail, range, is_gpu, entry);
	if (status != ORIEL_OK)
		memory_cache_leave(context, entry);
	else
		*registration = entry;
	return status;
}

static bool memory_is_inside(const struct ori_gpu_memory_info *info, uint64_t address,
			     uint64_t length)
{
	uint64_t offset = address - (uintptr_t)info->base;

	return offset <= info->length && length <= info->length - offset;
}

/*
 * References what registers these bytes for a request: what their owner has registered, else
 * whole pages, or the allocation of the GPU.
 */
static enum oriel_status memory_ref_passing(struct ori_memory *m, uint64_t address, uint64_t length,
					    unsigned rights, struct ori_mr_ref *ref)
{
	const void *at = (const void *)(uintptr_t)address;
	struct ori_cache_range range = {address, length, 0, rights};
	struct ori_gpu_memory_info info;
	enum oriel_status status = ORIEL_OK;
	bool is_gpu = false;

	if (ori_cache_find(m->cache, &range, ref))
		return ORIEL_OK;
	if (!m->attr.is_whole)
		status = memory_query(m, at, &info, &is_gpu);
	if (status == ORIEL_OK && !is_gpu)
		status = ori_cache_pages(address, length, &range);
	if (status != ORIEL_OK)
		return status;
	/* The driver does not know the range of an allocation of another GPU. */
	if (is_gpu && !memory_is_inside(&info, address, length))
		return ori_fail(ORIEL_ERR_ACCESS,
				"%llu bytes at %p are not inside one allocation of this GPU",
				(unsigned long long)length, at);
	if (is_gpu)
		range = (struct ori_cache_range){(uintptr_t)info.base, info.length, info.id, 0};
	range.rights = rights;
	return ori_cache_ref(m->cache, &range, ref);
}

enum oriel_status ori_memory_open_blocks(struct ori_memory *m)
{
	enum oriel_status status = ORIEL_OK;
	unsigned rail;

	assert(!m->attr.is_whole);
	for (rail = 0; rail < m->attr.rails && status == ORIEL_OK; rail++)
		status = ori_blocks_open(&m->rails[rail].blocks, m->attr.ops, m->attr.hcas[rail]);
	return status;
}

enum oriel_status ori_memory_open(const struct ori_memory_attr *attr, struct ori_memory **out)
{
	struct ori_memory *m = calloc(1, sizeof(*m));
	const struct ori_cache_attr cache = {m, memory_cache_enter, memory_cache_leave,
					     MEMORY_IDLE};
	enum oriel_status status;
	unsigned rail;

	if (!m)
		return ori_fail_nomem(sizeof(*m), "a table of registrations");
	m->attr = *attr;
	m->changes = 1;
	m->page_mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	pthread_rwlock_init(&m->lock, NULL);
	for (rail = 0; rail < ORIEL_DEV_RAILS; rail++) {
		m->rails[rail].memory = m;
		m->rails[rail].rail = rail;
	}
	status = ori_cache_create(&cache, &m->cache);
	if (status != ORIEL_OK) {
		ori_memory_close(m);
		return status;
	}
	*out = m;
	return ORIEL_OK;
}

void ori_memory_close(struct ori_memory *m)
{
	unsigned rail;

	if (!m)
		return;
	assert(m->count == 0);
	for (rail = 0; rail < m->attr.rails; rail++)
		ori_blocks_close(&m->rails[rail].blocks, m->attr.ops);
	ori_cache_destroy(m->cache);
	pthread_rwlock_destroy(&m->lock);
	free(m->list);
	free(m);
}

/* The count of entries that begin at @address or before. The caller holds the lock. */
static unsigned memory_upto(const struct ori_memory *m, uint64_t address)
{
	unsigned low = 0, high = m->count;

	while (low < high) {
		unsigned middle = low + (high - low) / 2;

		if (m->list[middle]->address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static enum oriel_status memory_list(struct ori_memory *m, struct ori_rdma_mr *mr)
{
	struct ori_rdma_mr **more;
	unsigned room, i;

	pthread_rwlock_wrlock(&m->lock);
	more = m->list;
	room = m->room;
	if (m->count == room) {
		room = room ? 2 * room : 16;
		more = realloc(m->list, room * sizeof(struct ori_rdma_mr *));
	}
	if (more) {
		m->list = more;
		m->room = room;
		i = memory_upto(m, mr->address);
		memmove(&more[i + 1], &more[i], (m->count++ - i) * sizeof(struct ori_rdma_mr *));
		more[i] = mr;
		mr->is_listed = true;
		if (mr->length > m->longest)
			m->longest = mr->length;
		atomic_fetch_add_explicit(&m->changes, 1, memory_order_release);
	}
	pthread_rwlock_unlock(&m->lock);
	return more ? ORIEL_OK
		    : ori_fail_nomem(room * sizeof(struct ori_rdma_mr *), "a registration");
}

static void memory_unlist(struct ori_memory *m, const struct ori_rdma_mr *mr)
{
	unsigned i;

	pthread_rwlock_wrlock(&m->lock);
	for (i = memory_upto(m, mr->address); m->list[i - 1] != mr; i--)
		;
	memmove(&m->list[i - 1], &m->list[i], (m->count-- - i) * sizeof(struct ori_rdma_mr *));
	atomic_fetch_add_explicit(&m->changes, 1, memory_order_release);
	pthread_rwlock_unlock(&m->lock);
}

static enum oriel_status memory_ref(struct ori_memory *m, struct ori_rdma_mr *mr, unsigned rights)
{
	const struct ori_cache_range range = {mr->address, mr->length, 0, rights};

	return ori_cache_ref(m->cache, &range, &mr->ref);
}

/*
 * NICs pin memory that they may write for writing, which the kernel rejects for read-only
 * memory.
 */
static enum oriel_status memory_ref_own(struct ori_memory *m, struct ori_rdma_mr *mr)
{
	if (memory_ref(m, mr, memory_rights[ORI_RDMA_OWN]) == ORIEL_OK)
		return ORIEL_OK;
	mr->is_fixed = true;
	return memory_ref(m, mr, MEMORY_RAILS);
}

/* @is_part: of pages, or of an allocation, that are registered as a whole. */
static enum oriel_status memory_ref_for(struct ori_memory *m, struct ori_rdma_mr *mr,
					enum ori_rdma_use use, bool is_part)
{
	if (is_part)
		return memory_ref_passing(m, mr->address, mr->length, memory_rights[use], &mr->ref);
	return use == ORI_RDMA_OWN ? memory_ref_own(m, mr) : memory_ref(m, mr, memory_rights[use]);
}

/* May a request for @length bytes at @address use this entry of the list? */
static bool memory_covers(const struct memory_last *of, uint64_t address, uint64_t length,
			  bool is_target)
{
	uint64_t offset = address - of->address;

	return offset <= of->length && length <= of->length - offset &&
	       !(is_target && of->is_fixed);
}

static bool memory_look_up(struct ori_memory *m, unsigned rail, uint64_t address, uint64_t length,
			   bool is_target, struct memory_last *last)
{
	bool is_found = false;
	unsigned i;

	pthread_rwlock_rdlock(&m->lock);
	for (i = memory_upto(m, address); i > 0 && !is_found; i--) {
		const struct ori_rdma_mr *mr = m->list[i - 1];

		if (address - mr->address >= m->longest)
			break;
		*last = (struct memory_last){
			.changes = atomic_load_explicit(&m->changes, memory_order_relaxed),
			.address = mr->address,
			.length = mr->length,
			.iova = mr->iova,
			.lkey = mr->keys[rail].lkey,
			.is_fixed = mr->is_fixed,
			.is_host = mr->is_host,
		};
		is_found = memory_covers(last, address, length, is_target);
	}
	pthread_rwlock_unlock(&m->lock);
	return is_found;
}

static void memory_take_keys(const struct ori_memory *m, struct ori_rdma_mr *mr)
{
	const struct memory_entry *entry = mr->ref.registration;
	unsigned rail;

	mr->iova = entry ? memory_iova(entry, mr->address) : mr->address;
	for (rail = 0; rail < m->attr.rails; rail++)
		mr->keys[rail] = entry ? entry->keys[rail]
				       : (struct ori_hca_keys){.lkey = m->whole_lkeys[rail]};
}

/*
 * May requests name it by the key of all memory? For the source of a transfer only if its owner
 * has registered it: other memory is pinned meanwhile, so that the NIC takes no page faults.
 */
static bool memory_needs_no_key(struct ori_memory *m, const struct ori_rdma_mr *mr,
				enum ori_rdma_use use)
{
	struct memory_last last;

	return (use == ORI_RDMA_OWN && m->attr.is_whole) ||
	       (use == ORI_RDMA_PASSING_SOURCE && m->has_whole_lkeys &&
		memory_look_up(m, 0, mr->address, mr->length, false, &last));
}

enum oriel_status ori_memory_register(struct ori_memory *m, void *address, size_t length,
				      enum ori_rdma_use use, struct ori_rdma_mr **out,
				      struct oriel_dev_keys *rkeys)
{
	struct ori_rdma_mr *mr = calloc(1, sizeof(*mr));
	struct ori_gpu_memory_info info;
	bool is_passing = use == ORI_RDMA_PASSING_TARGET || use == ORI_RDMA_PASSING_SOURCE;
	bool is_gpu = false, is_part;
	enum oriel_status status;
	unsigned rail;

	if (!mr)
		return ori_fail_nomem(sizeof(*mr), "a registration");
	mr->address = (uintptr_t)address;
	mr->length = length;
	/* A NIC that reaches all memory knows by itself what it is. */
	status = m->attr.is_whole ? ORIEL_OK : memory_query(m, address, &info, &is_gpu);
	mr->is_host = !m->attr.is_whole && !is_gpu;
	/* Memory of another GPU, or over several allocations, is registered for itself. */
	is_part = is_passing && (!is_gpu || memory_is_inside(&info, mr->address, length));
	if (status == ORIEL_OK && !memory_needs_no_key(m, mr, use))
		status = memory_ref_for(m, mr, use, is_part);
	memory_take_keys(m, mr);
	if (status == ORIEL_OK && !is_passing)
		status = memory_list(m, mr);
	if (status != ORIEL_OK) {
		ori_memory_unregister(m, mr);
		return status;
	}
	for (rail = 0; rail < ORIEL_DEV_RAILS; rail++)
		rkeys->rail[rail] = mr->keys[rail].rkey;
	*out = mr;
	return ORIEL_OK;
}

bool ori_memory_serves(struct ori_memory *m, const void *address, size_t length,
		       enum ori_rdma_use use)
{
	const struct ori_rdma_mr mr = {.address = (uintptr_t)address, .length = length};
	const struct ori_cache_range range = {mr.address, length, 0, memory_rights[use]};
	struct ori_mr_ref ref;

	if (!ori_cache_find(m->cache, &range, &ref))
		return memory_needs_no_key(m, &mr, use);
	ori_cache_unref(m->cache, &ref);
	return true;
}

void ori_memory_set_whole_lkey(struct ori_memory *m, unsigned rail, uint32_t lkey)
{
	m->has_whole_lkeys = true;
	m->whole_lkeys[rail] = lkey;
}

void ori_memory_reject_gpu(struct ori_memory *m)
{
	m->rejects_gpu = true;
}

void ori_memory_unregister(struct ori_memory *m, struct ori_rdma_mr *mr)
{
	if (mr->is_listed)
		memory_unlist(m, mr);
	if (mr->ref.entry)
		ori_cache_unref(m->cache, &mr->ref);
	free(mr);
}

void ori_rdma_mr_local(const struct ori_rdma_mr *mr, uint64_t *address,
		       struct oriel_dev_keys *lkeys)
{
	unsigned rail;

	*address = mr->iova;
	for (rail = 0; rail < ORIEL_DEV_RAILS; rail++)
		lkeys->rail[rail] = mr->keys[rail].lkey;
}

/*
 * Requests mostly name the memory that the one before them named. Memory that its owner
 * unregisters at the same time has no request in flight, whether it is found with the
 * lock or not.
 */
static bool memory_find_listed(struct memory_rail *r, uint64_t address, uint64_t length,
			       bool is_target, struct ori_proxy_sge *sge)
{
	struct memory_last *last = &r->last;

	if ((last->changes != atomic_load_explicit(&r->memory->changes, memory_order_acquire) ||
	     !memory_covers(last, address, length, is_target)) &&
	    !memory_look_up(r->memory, r->rail, address, length, is_target, last))
		return false;
	*sge = (struct ori_proxy_sge){
		.address = last->iova + (address - last->address),
		.key = last->lkey,
		.data = last->is_host ? (void *)(uintptr_t)address : NULL,
	};
	return true;
}

bool ori_memory_find(struct ori_memory *m, unsigned rail, const void *address, uint64_t length,
		     bool is_target, struct ori_dev_rdma_address *found)
{
	uint64_t at = (uintptr_t)address;
	struct memory_last last;

	if (!memory_look_up(m, rail, at, length, is_target, &last))
		return false;
	*found = (struct ori_dev_rdma_address){last.iova + (at - last.address), last.lkey};
	return true;
}

/* Memory that may not be written is registered as a source alone. */
enum oriel_status ori_memory_ref(struct ori_memory *m, unsigned rail, const void *address,
				 uint64_t length, bool is_target,
				 struct ori_dev_rdma_address *found, struct ori_mr_ref *ref)
{
	uint64_t at = (uintptr_t)address;
	const struct memory_entry *entry;
	enum oriel_status status;

	status = memory_ref_passing(m, at, length, ORI_HCA_LOCAL_WRITE | MEMORY_RAIL(rail), ref);
	if (status != ORIEL_OK && !is_target)
		status = memory_ref_passing(m, at, length, MEMORY_RAIL(rail), ref);
	if (status != ORIEL_OK)
		return status;
	ori_cache_unshare(ref);
	entry = ref->registration;
	*found = (struct ori_dev_rdma_address){memory_iova(entry, at), entry->keys[rail].lkey};
	return ORIEL_OK;
}

void ori_memory_unref(struct ori_memory *m, const struct ori_mr_ref *ref)
{
	ori_cache_unref(m->cache, ref);
}

static enum oriel_status memory_find_block(struct memory_rail *r, struct ori_block *block,
					   uint64_t address, uint64_t length, bool is_target,
					   struct ori_proxy_sge *sge)
{
	void *at = (void *)(uintptr_t)address;

	if (!ori_block_fill(&r->blocks, block, at, length, is_target)) {
		ori_block_give(&r->blocks, block);
		return ori_fail(ORIEL_ERR_ACCESS, "%llu bytes at %p may not be %s",
				(unsigned long long)length, at, is_target ? "written" : "read");
	}
	*sge = (struct ori_proxy_sge){(uintptr_t)block->data, r->blocks.lkey, block, block->data};
	return ORIEL_OK;
}

static enum oriel_status memory_find_cached(struct memory_rail *r, uint64_t address,
					    uint64_t length, struct ori_proxy_sge *sge)
{
	struct memory_ref *ref = calloc(1, sizeof(*ref));
	const struct memory_entry *entry;
	enum oriel_status status;

	if (!ref)
		return ori_fail_nomem(sizeof(*ref), "a registration");
	status = memory_ref_passing(r->memory, address, length,
				    ORI_HCA_LOCAL_WRITE | MEMORY_RAIL(r->rail), &ref->cached);
	if (status != ORIEL_OK) {
		free(ref);
		return status;
	}
	entry = ref->cached.registration;
	*sge = (struct ori_proxy_sge){.address = memory_iova(entry, address),
				      .key = entry->keys[r->rail].lkey,
				      .ref = ref};
	return ORIEL_OK;
}

static enum oriel_status memory_find(void *context, uint64_t address, uint64_t length,
				     bool is_target, struct ori_proxy_sge *sge)
{
	struct memory_rail *r = context;
	struct ori_gpu_memory_info of_gpu;
	struct ori_block *block;
	enum oriel_status status;
	bool is_gpu;

	if (memory_find_listed(r, address, length, is_target, sge))
		return ORIEL_OK;
	if (length > ORI_MEMORY_BLOCK)
		return memory_find_cached(r, address, length, sge);
	status = memory_query(r->memory, (void *)(uintptr_t)address, &of_gpu, &is_gpu);
	if (status != ORIEL_OK)
		return status;
	block = is_gpu ? NULL : ori_block_take(&r->blocks);
	/*
	 * Without a free block it is registered: no request waits for others to peers
	 * that may have exited.
	 */
	if (!block)
		return memory_find_cached(r, address, length, sge);
	return memory_find_block(r, block, address, length, is_target, sge);
}

static void memory_release(void *context, const struct ori_proxy_sge *sge, bool is_done)
{
	struct ori_block *block = sge->ref;
	struct memory_rail *r = context;

	if (!block->data) {
		struct memory_ref *ref = sge->ref;

		ori_cache_unref(r->memory->cache, &ref->cached);
		free(ref);
		return;
	}
	if (is_done && !ori_block_copy_result(&r->blocks, block))
		ori_log(ORIEL_LOG_ERROR,
			"%zu bytes at %p were unmapped before a request wrote them", block->length,
			block->result);
	ori_block_give(&r->blocks, block);
}

struct ori_proxy_memory ori_memory_of_rail(struct ori_memory *m, unsigned rail)
{
	struct ori_proxy_memory memory = {&m->rails[rail], memory_find, memory_release};

	assert(!m->attr.is_whole);
	return memory;
}
