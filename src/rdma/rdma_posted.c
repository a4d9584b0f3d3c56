/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations for requests of CPU threads that post to rings. Posters call posted_find()
 * through the table of their link, for memory that is not in their window.
 */
#include "rdma/rdma_posted.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define POSTED_PAGE 4096u

/* A registration for a request that may be under way. */
struct ori_posted_ref {
	struct ori_posted_ref *next;
	struct ori_mr_ref cached;
	const struct ori_dev_mlx5_queue *queue;
	pthread_t poster;
	bool is_posted;
	uint64_t until; /* if is_posted: the queue has done the request when it has done these */
};

/* The links of a rail point to it. */
struct posted_rail {
	struct ori_dev_link_answers answers; /* comes first */
	struct ori_posted *posted;
	_Alignas(ORIEL_DEV_LINE) char reserved[ORIEL_DEV_LINE];
};

struct ori_posted {
	struct ori_memory *memory;
	struct posted_rail *rails; /* in pages of its own, which all NICs know */
	struct ori_rdma_mr *mr;
	pthread_mutex_t lock;
	struct ori_posted_ref *refs; /* guarded by lock */
};

void ori_posted_drop(struct ori_posted *p, struct ori_posted_ref *refs)
{
	struct ori_posted_ref *next;

	for (; refs; refs = next) {
		next = refs->next;
		ori_memory_unref(p->memory, &refs->cached);
		free(refs);
	}
}

/* A thread that comes back has posted what it asked for before. */
static void posted_mark(struct ori_posted_ref *ref)
{
	if (ref->is_posted || !pthread_equal(ref->poster, pthread_self()))
		return;
	ref->is_posted = true;
	ref->until = ori_dev_load_relaxed_gpu(&ref->queue->resv);
}

/* The caller holds the lock. */
static void posted_sweep(struct ori_posted *p)
{
	struct ori_posted_ref **at = &p->refs, *ref;

	while ((ref = *at)) {
		posted_mark(ref);
		if (!ref->is_posted || ori_dev_load_relaxed_gpu(&ref->queue->done) < ref->until) {
			at = &ref->next;
			continue;
		}
		*at = ref->next;
		ref->next = NULL;
		ori_posted_drop(p, ref);
	}
}

static bool posted_register(struct ori_posted *p, struct ori_posted_ref *ref, unsigned rail,
			    const void *memory, uint64_t length, bool is_target,
			    struct ori_dev_rdma_address *found)
{
	enum oriel_status status;

	pthread_mutex_lock(&p->lock);
	posted_sweep(p);
	status = ori_memory_ref(p->memory, rail, memory, length, is_target, found, &ref->cached);
	if (status == ORIEL_OK) {
		ref->next = p->refs;
		p->refs = ref;
	}
	pthread_mutex_unlock(&p->lock);
	return status == ORIEL_OK;
}

static bool posted_find(const struct oriel_dev_link *l, const void *memory, uint64_t length,
			bool is_target, struct ori_dev_rdma_address *found)
{
	struct ori_posted *p = ((const struct posted_rail *)(const void *)l->answers)->posted;
	struct ori_dev_link_queue q = ori_dev_link_take(l);
	struct ori_posted_ref *ref;

	if (ori_memory_find(p->memory, l->rail, memory, length, is_target, found))
		return true;
	ref = q.ring && length ? calloc(1, sizeof(*ref)) : NULL;
	if (!ref)
		return false;
	ref->queue = q.ring;
	ref->poster = pthread_self();
	/* Registrations for requests without a waiter end, too. */
	ori_dev_link_progress(q);
	if (posted_register(p, ref, l->rail, memory, length, is_target, found))
		return true;
	free(ref);
	return false;
}

enum oriel_status ori_posted_open(struct ori_memory *memory, struct ori_posted **out)
{
	size_t length = (ORIEL_DEV_RAILS * sizeof(struct posted_rail) + POSTED_PAGE - 1) /
			POSTED_PAGE * POSTED_PAGE;
	struct ori_posted *p = calloc(1, sizeof(*p));
	struct oriel_dev_keys rkeys, lkeys;
	enum oriel_status status;
	uint64_t address;
	unsigned rail;

	if (p)
		p->rails = aligned_alloc(POSTED_PAGE, length);
	if (!p || !p->rails) {
		free(p);
		return ori_fail_nomem(length, "results of atomics");
	}
	p->memory = memory;
	pthread_mutex_init(&p->lock, NULL);
	memset(p->rails, 0, length);
	status = ori_memory_register(memory, p->rails, length, ORI_RDMA_OWN, &p->mr, &rkeys);
	if (status != ORIEL_OK) {
		p->mr = NULL;
		ori_posted_close(p);
		return status;
	}
	ori_rdma_mr_local(p->mr, &address, &lkeys);
	for (rail = 0; rail < ORIEL_DEV_RAILS; rail++) {
		struct ori_dev_link_answers *answers = &p->rails[rail].answers;

		answers->address = address + (uint64_t)((char *)answers->words - (char *)p->rails);
		answers->key = lkeys.rail[rail];
		answers->find = posted_find;
		p->rails[rail].posted = p;
	}
	*out = p;
	return ORIEL_OK;
}

void ori_posted_close(struct ori_posted *p)
{
	if (!p)
		return;
	ori_posted_drop(p, p->refs);
	if (p->mr)
		ori_memory_unregister(p->memory, p->mr);
	pthread_mutex_destroy(&p->lock);
	free(p->rails);
	free(p);
}

struct ori_dev_link_answers *ori_posted_answers(const struct ori_posted *p, unsigned rail)
{
	return &p->rails[rail].answers;
}

struct ori_posted_ref *ori_posted_take(struct ori_posted *p, const struct ori_dev_mlx5_queue *queue)
{
	struct ori_posted_ref **at, *ref, *taken = NULL;

	if (!p)
		return NULL;
	pthread_mutex_lock(&p->lock);
	for (at = &p->refs; (ref = *at);) {
		if (ref->queue != queue) {
			at = &ref->next;
			continue;
		}
		*at = ref->next;
		ref->next = taken;
		taken = ref;
	}
	pthread_mutex_unlock(&p->lock);
	return taken;
}
