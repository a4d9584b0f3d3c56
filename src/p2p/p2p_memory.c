/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the user, made known to the adapter here or by a thread of its own. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "mem/external.h"
#include "p2p/p2p.h"

/* Whole pages: where in the first one it begins the adapter is told as well. */
static enum oriel_status memory_register_gpu(struct oriel_p2p_context *hub,
					     struct oriel_p2p_memory *m)
{
	uint64_t mask = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	return ori_p2p_context_register_gpu(hub, m->address - m->iova,
					    (m->iova + m->length + mask) & ~mask, 0, &m->mr,
					    &m->keys);
}

/* Without the lock, which a registration may take long for. */
static enum oriel_status memory_register(struct oriel_p2p_context *hub, struct oriel_p2p_memory *m)
{
	enum oriel_status st;

	if (m->is_gpu && !hub->reaches_all)
		st = memory_register_gpu(hub, m);
	else
		st = hub->ops->register_memory(hub->hca, m->address, m->length, m->iova, P2P_ACCESS,
					       &m->mr, &m->keys);
	if (st == ORIEL_OK)
		m->has_mr = true;
	return st;
}

/* Release: who sees the status sees the keys. */
static void memory_settle(struct oriel_p2p_memory *m, enum oriel_status status)
{
	atomic_store_explicit(&m->status, (int)status, memory_order_release);
}

static bool memory_has(const struct oriel_p2p_memory *list, const struct ori_mem *mem)
{
	while (list && list->mem != mem)
		list = list->next;
	return list;
}

bool ori_memory_is_registered(struct oriel_p2p_context *hub, const struct ori_mem *mem)
{
	bool is_registered;

	pthread_mutex_lock(&hub->lock);
	is_registered = memory_has(hub->memories, mem) || memory_has(hub->waiting, mem) ||
			(hub->working && hub->working->mem == mem);
	pthread_mutex_unlock(&hub->lock);
	return is_registered;
}

void ori_memory_register_all_locked(struct oriel_p2p_context *hub)
{
	for (struct oriel_p2p_memory *m = hub->memories; m; m = m->next) {
		enum oriel_status st;

		if (m->has_mr || atomic_load(&m->status) != ORIEL_OK)
			continue;
		st = memory_register(hub, m);
		if (st != ORIEL_OK)
			memory_settle(m, st);
	}
}

static void *memory_work(void *argument)
{
	struct oriel_p2p_context *hub = argument;

	pthread_mutex_lock(&hub->lock);
	for (;;) {
		struct oriel_p2p_memory *m = hub->waiting;
		enum oriel_status st = ORIEL_OK;

		if (hub->is_closing)
			break;
		if (!m) {
			pthread_cond_wait(&hub->wake, &hub->lock);
			continue;
		}
		hub->waiting = m->next;
		if (!hub->waiting)
			hub->waiting_last = &hub->waiting;
		hub->working = m;
		if (hub->hca) {
			pthread_mutex_unlock(&hub->lock);
			st = memory_register(hub, m);
			pthread_mutex_lock(&hub->lock);
		}
		hub->working = NULL;
		m->next = hub->memories;
		hub->memories = m;
		/* An adapter that was opened meanwhile has not seen it. */
		if (st == ORIEL_OK && hub->hca && !m->has_mr)
			st = memory_register(hub, m);
		memory_settle(m, st);
		pthread_cond_broadcast(&hub->wake);
	}
	pthread_mutex_unlock(&hub->lock);
	return NULL;
}

static enum oriel_status memory_start_locked(struct oriel_p2p_context *hub)
{
	int error;

	if (hub->has_thread)
		return ORIEL_OK;
	error = ori_thread_start(&hub->thread, memory_work, hub);
	if (error) {
		errno = error;
		return ori_fail_errno(ORIEL_ERR_SYSTEM, "cannot start a thread");
	}
	hub->has_thread = true;
	return ORIEL_OK;
}

void ori_memory_stop(struct oriel_p2p_context *hub)
{
	if (!hub->has_thread)
		return;
	pthread_mutex_lock(&hub->lock);
	hub->is_closing = true;
	pthread_cond_broadcast(&hub->wake);
	pthread_mutex_unlock(&hub->lock);
	pthread_join(hub->thread, NULL);
	hub->has_thread = false;
}

static enum oriel_status memory_queue_locked(struct oriel_p2p_context *hub,
					     struct oriel_p2p_memory *m)
{
	enum oriel_status st = memory_start_locked(hub);

	if (st != ORIEL_OK)
		return st;
	*hub->waiting_last = m;
	hub->waiting_last = &m->next;
	pthread_cond_broadcast(&hub->wake);
	return ORIEL_OK;
}

static enum oriel_status memory_add_locked(struct oriel_p2p_context *hub,
					   struct oriel_p2p_memory *m)
{
	enum oriel_status st = hub->hca ? memory_register(hub, m) : ORIEL_OK;

	if (st != ORIEL_OK)
		return st;
	m->next = hub->memories;
	hub->memories = m;
	memory_settle(m, ORIEL_OK);
	return ORIEL_OK;
}

/* That nobody else can map it matters, and is told, where somebody would have to. */
static void memory_adopt(const struct oriel_p2p_context *hub, struct oriel_p2p_memory *m)
{
	struct ori_error before;

	ori_error_save(&before);
	if (ori_mem_open_external(&hub->gpu, m->address, m->length, &m->mem, &m->offset) !=
	    ORIEL_OK)
		ori_error_restore(&before);
}

/* What @m is, and how it leaves the process. */
static enum oriel_status memory_look(struct oriel_p2p_context *hub, struct oriel_p2p_memory *m)
{
	enum oriel_status st = ori_p2p_context_query(hub, m->address, &m->is_gpu);

	if (st != ORIEL_OK)
		return st;
	m->mem = ori_mem_try_find(m->address, m->length, &m->offset);
	if (m->mem && m->mem->gpu && !m->is_gpu) {
		ori_mem_unref(m->mem);
		return ori_fail(ORIEL_ERR_INVALID,
				"%p is memory of a GPU: the hub needs ORIEL_P2P_GPU",
				(void *)m->address);
	}
	if (!m->mem && m->is_gpu)
		memory_adopt(hub, m);
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_register(struct oriel_p2p_context *hub, void *address, size_t length,
				     unsigned flags, struct oriel_p2p_memory **memory)
{
	struct oriel_p2p_memory *m;
	enum oriel_status st = ori_handle_check(hub, ORI_HANDLE_P2P_CONTEXT, __func__);
	uintptr_t end;

	if (st != ORIEL_OK)
		return st;
	if (!memory || !address || !length || flags & ~(unsigned)ORIEL_P2P_BACKGROUND ||
	    __builtin_add_overflow((uintptr_t)address, length, &end))
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_p2p_register: %zu bytes at %p, flags 0x%x", length, address,
				flags);
	m = ori_handle_alloc(ORI_HANDLE_P2P_MEMORY, sizeof(*m));
	if (!m)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a registration");
	m->hub = hub;
	m->address = address;
	m->length = length;
	m->iova = (uintptr_t)address & ((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	atomic_init(&m->status, ORIEL_AGAIN);
	st = memory_look(hub, m);
	if (st != ORIEL_OK) {
		ori_handle_free(m);
		return st;
	}
	pthread_mutex_lock(&hub->lock);
	st = flags & ORIEL_P2P_BACKGROUND ? memory_queue_locked(hub, m) : memory_add_locked(hub, m);
	pthread_mutex_unlock(&hub->lock);
	if (st != ORIEL_OK) {
		ori_mem_unref(m->mem);
		ori_handle_free(m);
		return st;
	}
	ori_handle_open(m, NULL);
	*memory = m;
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_memory_check(const struct oriel_p2p_memory *memory)
{
	enum oriel_status st = ori_handle_check(memory, ORI_HANDLE_P2P_MEMORY, __func__);

	if (st != ORIEL_OK)
		return st;
	st = (enum oriel_status)atomic_load_explicit(&memory->status, memory_order_acquire);
	if (st < 0)
		return ori_fail(st, "%zu bytes at %p could not be registered: %s", memory->length,
				(void *)memory->address, oriel_status_text(st));
	return st;
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

void oriel_p2p_unregister(struct oriel_p2p_memory *m)
{
	struct oriel_p2p_context *hub;

	if (!ori_handle_shut(m, ORI_HANDLE_P2P_MEMORY, __func__))
		return;
	hub = m->hub;
	pthread_mutex_lock(&hub->lock);
	while (hub->working == m)
		pthread_cond_wait(&hub->wake, &hub->lock);
	if (!memory_take_out(&hub->memories, m)) {
		(void)memory_take_out(&hub->waiting, m);
		for (hub->waiting_last = &hub->waiting; *hub->waiting_last;)
			hub->waiting_last = &(*hub->waiting_last)->next;
	}
	pthread_mutex_unlock(&hub->lock);
	if (m->has_mr)
		hub->ops->unregister_memory(m->mr);
	ori_mem_unref(m->mem);
	ori_handle_free(m);
}
