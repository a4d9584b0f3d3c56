/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the user: the caller registers it with the NICs, or a thread of the context
 * does. oriel_p2p_register() and mr_refs use it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "mem/external.h"
#include "p2p/p2p.h"

/* A transport of the caller takes the place of NICs. */
static enum oriel_status memory_expose(struct oriel_p2p_context *ctx, struct oriel_p2p_memory *m)
{
	struct oriel_p2p_target target;
	enum oriel_status status = ori_transport_register(ctx, m->address, m->length, &target);

	if (status != ORIEL_OK)
		return status;
	m->iova = target.address;
	memcpy(&m->rkeys, target.keys, sizeof(m->rkeys));
	m->is_exposed = true;
	return ORIEL_OK;
}

static void memory_hide(struct oriel_p2p_context *ctx, const struct oriel_p2p_memory *m)
{
	struct oriel_p2p_target target = {.address = m->iova};

	memcpy(target.keys, &m->rkeys, sizeof(target.keys));
	ori_transport_unregister(ctx, &target);
}

static bool memory_has_registrar(const struct oriel_p2p_context *ctx)
{
	return ctx->rdma || p2p_has_transport(ctx);
}

/*
 * Registering may take long, so the thread of the context does it without the lock: the region
 * that is @working is in no list, and no other thread writes its keys. Other callers hold the lock.
 */
static enum oriel_status memory_register(struct oriel_p2p_context *ctx, struct oriel_p2p_memory *m)
{
	enum oriel_status status = m->is_gpu ? ori_p2p_context_check_flush(ctx) : ORIEL_OK;

	if (p2p_has_transport(ctx))
		return memory_expose(ctx, m);
	if (status == ORIEL_OK)
		status = ori_rdma_register(ctx->rdma, m->address, m->length, m->use, &m->mr,
					   &m->rkeys);
	if (status == ORIEL_OK)
		ori_rdma_mr_local(m->mr, &m->iova, &m->lkeys);
	return status;
}

/* Release: a reader that sees the status sees the keys. */
static void memory_set_status(struct oriel_p2p_memory *m, enum oriel_status status)
{
	atomic_store_explicit(&m->status, (int)status, memory_order_release);
}

static bool memory_has(const struct oriel_p2p_memory *list, const struct ori_mem *mem)
{
	while (list && list->mem != mem)
		list = list->next;
	return list;
}

bool ori_memory_is_registered(struct oriel_p2p_context *ctx, const struct ori_mem *mem)
{
	bool is_registered;

	pthread_mutex_lock(&ctx->lock);
	is_registered = memory_has(ctx->memories, mem) || memory_has(ctx->waiting, mem) ||
			(ctx->working && ctx->working->mem == mem);
	pthread_mutex_unlock(&ctx->lock);
	return is_registered;
}

void ori_memory_register_all_locked(struct oriel_p2p_context *ctx)
{
	for (struct oriel_p2p_memory *m = ctx->memories; m; m = m->next) {
		enum oriel_status status;

		/* A region that has failed keeps its failure. */
		if (m->mr || atomic_load(&m->status) != ORIEL_OK)
			continue;
		status = memory_register(ctx, m);
		if (status != ORIEL_OK)
			memory_set_status(m, status);
	}
}

static void *memory_work(void *argument)
{
	struct oriel_p2p_context *ctx = argument;

	pthread_mutex_lock(&ctx->lock);
	for (;;) {
		struct oriel_p2p_memory *m = ctx->waiting;
		enum oriel_status status = ORIEL_OK;

		if (ctx->is_closing)
			break;
		if (!m) {
			pthread_cond_wait(&ctx->wake, &ctx->lock);
			continue;
		}
		ctx->waiting = m->next;
		if (!ctx->waiting)
			ctx->waiting_last = &ctx->waiting;
		/*
		 * The region is in no list while the lock is released: oriel_p2p_unregister() waits
		 * until it is in one again.
		 */
		ctx->working = m;
		if (memory_has_registrar(ctx)) {
			pthread_mutex_unlock(&ctx->lock);
			status = memory_register(ctx, m);
			pthread_mutex_lock(&ctx->lock);
		}
		ctx->working = NULL;
		m->next = ctx->memories;
		ctx->memories = m;
		/* An HCA that was opened meanwhile has not registered it. */
		if (status == ORIEL_OK && ctx->rdma && !m->mr)
			status = memory_register(ctx, m);
		memory_set_status(m, status);
		pthread_cond_broadcast(&ctx->wake);
	}
	pthread_mutex_unlock(&ctx->lock);
	return NULL;
}

static enum oriel_status memory_start_locked(struct oriel_p2p_context *ctx)
{
	int error;

	if (ctx->has_thread)
		return ORIEL_OK;
	error = ori_thread_start(&ctx->thread, memory_work, ctx);
	if (error) {
		errno = error;
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot start a thread");
	}
	ctx->has_thread = true;
	return ORIEL_OK;
}

void ori_memory_stop(struct oriel_p2p_context *ctx)
{
	if (!ctx->has_thread)
		return;
	pthread_mutex_lock(&ctx->lock);
	ctx->is_closing = true;
	pthread_cond_broadcast(&ctx->wake);
	pthread_mutex_unlock(&ctx->lock);
	pthread_join(ctx->thread, NULL);
	ctx->has_thread = false;
}

static enum oriel_status memory_queue_locked(struct oriel_p2p_context *ctx,
					     struct oriel_p2p_memory *m)
{
	enum oriel_status status = memory_start_locked(ctx);

	if (status != ORIEL_OK)
		return status;
	*ctx->waiting_last = m;
	ctx->waiting_last = &m->next;
	pthread_cond_broadcast(&ctx->wake);
	return ORIEL_OK;
}

/*
 * The lock is held for as long as that takes: NICs that another thread opens meanwhile then find
 * the region in the list.
 */
static enum oriel_status memory_add_locked(struct oriel_p2p_context *ctx,
					   struct oriel_p2p_memory *m)
{
	enum oriel_status status = memory_has_registrar(ctx) ? memory_register(ctx, m) : ORIEL_OK;

	if (status != ORIEL_OK)
		return status;
	m->next = ctx->memories;
	ctx->memories = m;
	memory_set_status(m, ORIEL_OK);
	return ORIEL_OK;
}

/*
 * It matters that no other process can map it only where one would have to, and that call
 * reports it.
 */
static void memory_adopt(const struct oriel_p2p_context *ctx, struct oriel_p2p_memory *m)
{
	struct ori_error before;

	ori_error_save(&before);
	(void)ori_mem_open_external(&ctx->gpu, m->address, m->length, &m->mem, &m->offset);
	ori_error_restore(&before);
}

/* Find out what @m is, and how it can be exported. */
static enum oriel_status memory_describe(struct oriel_p2p_context *ctx, struct oriel_p2p_memory *m)
{
	enum oriel_status status = ori_p2p_context_query(ctx, m->address, &m->is_gpu);

	if (status != ORIEL_OK)
		return status;
	m->mem = ori_mem_try_find(m->address, m->length, &m->offset);
	if (m->mem && m->mem->gpu && !m->is_gpu) {
		ori_mem_unref(m->mem);
		return ori_fail(ORIEL_ERR_INVALID,
				"%p is memory of a GPU: the context needs ORIEL_P2P_GPU",
				(void *)m->address);
	}
	if (!m->mem && m->is_gpu)
		memory_adopt(ctx, m);
	return ORIEL_OK;
}

enum oriel_status ori_memory_make(struct oriel_p2p_context *ctx, void *address, size_t length,
				  unsigned flags, enum ori_rdma_use use,
				  struct oriel_p2p_memory **memory)
{
	struct oriel_p2p_memory *m = ori_handle_alloc(ORI_HANDLE_P2P_MEMORY, sizeof(*m));
	enum oriel_status status;

	if (!m)
		return ori_fail_nomem(sizeof(*m), "a registration");
	m->ctx = ctx;
	m->address = address;
	m->length = length;
	m->use = use;
	atomic_init(&m->status, ORIEL_AGAIN);
	/* Without the lock: it asks the driver of the GPU. */
	status = memory_describe(ctx, m);
	if (status != ORIEL_OK) {
		ori_handle_free(m);
		return status;
	}
	pthread_mutex_lock(&ctx->lock);
	status = flags & ORIEL_P2P_BACKGROUND ? memory_queue_locked(ctx, m)
					      : memory_add_locked(ctx, m);
	pthread_mutex_unlock(&ctx->lock);
	if (status != ORIEL_OK) {
		ori_mem_unref(m->mem);
		ori_handle_free(m);
		return status;
	}
	ori_handle_open(m, NULL);
	*memory = m;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_register(struct oriel_p2p_context *ctx, void *address, size_t length,
				     unsigned flags, struct oriel_p2p_memory **memory)
{
	enum oriel_status status = ori_handle_check(ctx, ORI_HANDLE_P2P_CONTEXT, __func__);
	uintptr_t end;

	if (status != ORIEL_OK)
		return status;
	if (!memory)
		return ori_fail_null(__func__, "memory");
	if (!address || !length || flags & ~(unsigned)ORIEL_P2P_BACKGROUND ||
	    __builtin_add_overflow((uintptr_t)address, length, &end))
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_p2p_register: %zu bytes at %p, flags 0x%x", length, address,
				flags);
	return ori_memory_make(ctx, address, length, flags, ORI_RDMA_TARGET, memory);
}

enum oriel_status oriel_p2p_memory_check(const struct oriel_p2p_memory *memory)
{
	enum oriel_status status = ori_handle_check(memory, ORI_HANDLE_P2P_MEMORY, __func__);

	if (status != ORIEL_OK)
		return status;
	status = (enum oriel_status)atomic_load_explicit(&memory->status, memory_order_acquire);
	if (status < 0)
		return ori_fail(status, "%zu bytes at %p could not be registered: %s",
				memory->length, (void *)memory->address, oriel_status_text(status));
	return status;
}

static bool memory_take_out(struct oriel_p2p_memory **list, const struct oriel_p2p_memory *m)
{
	for (; *list; list = &(*list)->next) {
		if (*list != m)
			continue;
		*list = m->next;
		return true;
	}
	return false;
}

enum oriel_status oriel_p2p_unregister(struct oriel_p2p_memory *m)
{
	struct oriel_p2p_context *ctx;
	uint64_t users;

	if (!ori_handle_may_end(m, ORI_HANDLE_P2P_MEMORY, __func__))
		return ori_handle_refused(m);
	users = atomic_load_explicit(&m->users, memory_order_acquire);
	if (users)
		return ori_misuse("oriel_p2p_unregister: %llu requests under way use these %zu "
				  "bytes at %p: they end, or are cancelled, before",
				  (unsigned long long)users, m->length, (void *)m->address);
	if (!ori_handle_shut(m, ORI_HANDLE_P2P_MEMORY, __func__))
		return ori_handle_refused(m);
	ctx = m->ctx;
	pthread_mutex_lock(&ctx->lock);
	/* The thread registers it without the lock. */
	while (ctx->working == m)
		pthread_cond_wait(&ctx->wake, &ctx->lock);
	if (!memory_take_out(&ctx->memories, m)) {
		(void)memory_take_out(&ctx->waiting, m);
		/* The region may have been the last one of the queue. */
		for (ctx->waiting_last = &ctx->waiting; *ctx->waiting_last;)
			ctx->waiting_last = &(*ctx->waiting_last)->next;
	}
	pthread_mutex_unlock(&ctx->lock);
	/* The region is in no list any more, so that no other thread finds it. */
	if (m->mr)
		ori_rdma_unregister(ctx->rdma, m->mr);
	if (m->is_exposed)
		memory_hide(ctx, m);
	ori_mem_unref(m->mem);
	ori_handle_free(m);
	return ORIEL_OK;
}
