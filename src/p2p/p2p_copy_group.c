/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads or kernels of the caller as hooks of an endpoint: the endpoint posts chunks into
 * a ring and polls whether all workers are past them. oriel/dev/copy_group.h is the
 * workers' half.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <oriel/dev/copy_group.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/yield.h"
#include "p2p/p2p_context.h"

#define GROUP_DEPTH 64u
#define GROUP_DEPTH_MAX 256u

static_assert(sizeof(struct oriel_dev_job) == 128 && sizeof(struct oriel_dev_worker) == 128,
	      "lines of their own");

/*
 * Jobs [oldest, posted) are in the ring; a job that the endpoint knows to be done has no
 * slot.
 */
struct group_side {
	uint64_t oldest, posted;
	const void *slots[GROUP_DEPTH_MAX];
};

struct oriel_p2p_copy_group {
	struct oriel_p2p_context *ctx;
	atomic_bool is_taken; /* by an endpoint */
	struct p2p_area area;
	struct oriel_dev_copy_group device;
	uint64_t *ended;
	struct group_side sides[2];
};

/* Jobs that all workers are past. */
static uint64_t group_done(const struct oriel_p2p_copy_group *group, enum oriel_dev_side side)
{
	const struct oriel_dev_worker *records = group->device.records[side];
	uint64_t done = UINT64_MAX;

	for (uint32_t i = 0; i < group->device.workers; i++) {
		/*
		 * Acquire: with oriel_dev_copy_group_done(), for the bytes that the worker
		 * wrote.
		 */
		uint64_t own = oriel_dev_load_acquire(&records[i].done);

		if (own < done)
			done = own;
	}
	return done;
}

static void group_post(struct oriel_p2p_copy_group *group, enum oriel_dev_side side,
		       const struct oriel_p2p_chunk *chunk)
{
	struct group_side *s = &group->sides[side];
	struct oriel_dev_job *job = &group->device.jobs[side][s->posted % group->device.depth];

	s->slots[s->posted % group->device.depth] = chunk->slot;
	job->chunk = (struct oriel_dev_chunk){.slot = chunk->slot,
					      .buffer = chunk->buffer,
					      .offset = chunk->offset,
					      .length = chunk->length,
					      .user = (uintptr_t)chunk->user,
					      .number = s->posted,
					      .channel = chunk->channel,
					      .index = chunk->index};
	s->posted++;
	/* Release: with ori_dev_copy_group_wait(). */
	oriel_dev_store_release(&job->posted, s->posted);
}

static enum oriel_status group_ask(struct oriel_p2p_copy_group *group, enum oriel_dev_side side,
				   const struct oriel_p2p_chunk *chunk)
{
	struct group_side *s = &group->sides[side];
	uint32_t depth = group->device.depth;

	for (uint64_t i = s->oldest; i < s->posted; i++) {
		/*
		 * The slot identifies the chunk: it is not reused before the hook returns
		 * ORIEL_OK.
		 */
		if (s->slots[i % depth] != chunk->slot)
			continue;
		if (i >= group_done(group, side))
			return ORIEL_AGAIN;
		s->slots[i % depth] = NULL;
		while (s->oldest < s->posted && !s->slots[s->oldest % depth])
			s->oldest++;
		return ORIEL_OK;
	}
	if (s->posted - s->oldest < depth)
		group_post(group, side, chunk);
	return ORIEL_AGAIN;
}

static enum oriel_status group_pack(void *context, const struct oriel_p2p_chunk *chunk)
{
	return group_ask(context, ORIEL_DEV_PACK, chunk);
}

static enum oriel_status group_unpack(void *context, const struct oriel_p2p_chunk *chunk)
{
	return group_ask(context, ORIEL_DEV_UNPACK, chunk);
}

static bool group_is_inside(const struct oriel_p2p_copy_group *group)
{
	for (unsigned side = 0; side < 2; side++)
		for (uint32_t i = 0; i < group->device.workers; i++)
			if (oriel_dev_load_acquire(&group->device.records[side][i].inside))
				return true;
	return false;
}

static void group_cancel(void *context, enum oriel_status status)
{
	struct oriel_p2p_copy_group *group = context;
	uint64_t deadline = ori_deadline(group->ctx->timeout_ns);

	oriel_dev_store_release(group->ended, (uint64_t)(int64_t)status);
	/* A worker publishes that it enters, fences as well, and then checks whether it may. */
	ori_dev_fence_full();
	while (group_is_inside(group)) {
		if (ori_deadline_passed(deadline)) {
			ori_log(ORIEL_LOG_WARN, "workers of a copy group have not left in time");
			return;
		}
		ori_yield();
	}
}

const struct oriel_p2p_hooks *oriel_p2p_copy_group_hooks(void)
{
	static const struct oriel_p2p_hooks hooks = {.size = sizeof(hooks),
						     .pack = group_pack,
						     .unpack = group_unpack,
						     .cancel = group_cancel};

	return &hooks;
}

/* Lay out both rings, the records of both sides' workers, and the word that ends them. */
static enum oriel_status group_fill(struct oriel_p2p_copy_group *group)
{
	struct oriel_dev_copy_group *d = &group->device;
	size_t jobs = d->depth * sizeof(*d->jobs[0]), records = d->workers * sizeof(*d->records[0]);
	enum oriel_status status;

	status = ori_area_open(&group->area, 2 * (jobs + records) + ORIEL_DEV_LINE);
	if (status == ORIEL_OK)
		status = ori_p2p_context_pin(group->ctx, &group->area);
	if (status != ORIEL_OK)
		return status;
	for (unsigned side = 0; side < 2; side++) {
		char *at = group->area.base + side * (jobs + records);

		d->jobs[side] = (struct oriel_dev_job *)(void *)at;
		d->records[side] = (struct oriel_dev_worker *)(void *)(at + jobs);
	}
	group->ended = (uint64_t *)(void *)(group->area.base + 2 * (jobs + records));
	d->ended = group->ended;
	return ORIEL_OK;
}

static void group_close(struct oriel_p2p_copy_group *group)
{
	/* A worker that has never entered may still be about to. */
	if (group->ended && !oriel_dev_load_acquire(group->ended))
		group_cancel(group, ORIEL_ERR_ABORTED);
	ori_p2p_context_unpin(group->ctx, &group->area);
	if (group->area.mem)
		ori_area_close(&group->area);
	ori_handle_free(group);
}

/* The area is private by now: workers in the child see that it has ended. */
static void group_fork_one(void *object)
{
	const struct oriel_p2p_copy_group *group = object;

	oriel_dev_store_release(group->ended, (uint64_t)(int64_t)ORIEL_ERR_FORKED);
}

static void group_fork_child(void)
{
	ori_handle_each(ORI_HANDLE_P2P_COPY_GROUP, group_fork_one);
}

enum oriel_status oriel_p2p_copy_group_create(struct oriel_p2p_context *ctx,
					      const struct oriel_p2p_copy_group_attr *caller,
					      struct oriel_p2p_copy_group **out)
{
	static const struct ori_fork_hook hook = {.child = group_fork_child};
	struct oriel_p2p_copy_group_attr attr;
	struct oriel_p2p_copy_group *group;
	enum oriel_status status = ori_handle_check(ctx, ORI_HANDLE_P2P_CONTEXT, __func__);

	if (status == ORIEL_OK)
		status = ori_attr_read("oriel_p2p_copy_group_attr", caller, &attr, sizeof(attr));
	if (status != ORIEL_OK)
		return status;
	if (!out)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_copy_group_create: group is NULL");
	if (attr.workers > ORIEL_DEV_COPY_GROUP || attr.depth > GROUP_DEPTH_MAX)
		return ori_fail(ORIEL_ERR_RANGE,
				"a copy group of %u workers and %u chunks, not %u and %u at most",
				attr.workers, attr.depth, ORIEL_DEV_COPY_GROUP, GROUP_DEPTH_MAX);
	group = ori_handle_alloc(ORI_HANDLE_P2P_COPY_GROUP, sizeof(*group));
	if (!group)
		return ori_fail_nomem(sizeof(*group), "a copy group");
	group->ctx = ctx;
	group->device = (struct oriel_dev_copy_group){
		.magic = ORIEL_DEV_MAGIC,
		.version = ORIEL_DEV_VERSION,
		.workers = attr.workers ? attr.workers : 1,
		.depth = attr.depth ? attr.depth : GROUP_DEPTH,
		.timeout_ns = attr.timeout_ns ? attr.timeout_ns : ctx->timeout_ns,
	};
	status = group_fill(group);
	if (status != ORIEL_OK) {
		group_close(group);
		return status;
	}
	ori_fork_add(ORI_FORK_COPY_GROUP, &hook);
	ori_handle_open(group, ctx);
	*out = group;
	return ORIEL_OK;
}

enum oriel_status ori_copy_group_of(const struct oriel_p2p_context *ctx,
				    const struct oriel_p2p_hooks *hooks, void *context,
				    struct oriel_p2p_copy_group **group)
{
	struct oriel_p2p_copy_group *g = context;
	enum oriel_status status;

	*group = NULL;
	if (hooks->pack != group_pack)
		return ORIEL_OK;
	status = ori_handle_check(g, ORI_HANDLE_P2P_COPY_GROUP, "oriel_p2p_create");
	if (status != ORIEL_OK)
		return status;
	if (g->ctx != ctx)
		return ori_fail(ORIEL_ERR_INVALID,
				"oriel_p2p_create: a copy group of another context");
	/* The workers of an endpoint that has ended were sent away for good. */
	if (atomic_exchange(&g->is_taken, true))
		return ori_fail(ORIEL_ERR_STATE,
				"oriel_p2p_create: the copy group serves another endpoint, or did: "
				"it is for one");
	*group = g;
	return ORIEL_OK;
}

void ori_copy_group_give_back(struct oriel_p2p_copy_group *group)
{
	if (group)
		atomic_store(&group->is_taken, false);
}

enum oriel_status oriel_p2p_copy_group_destroy(struct oriel_p2p_copy_group *group)
{
	const char *child;

	if (!ori_handle_may_end(group, ORI_HANDLE_P2P_COPY_GROUP, __func__))
		return ori_handle_refused(group);
	child = ori_handle_child(group);
	if (child)
		return ori_misuse("oriel_p2p_copy_group_destroy: the copy group still has its %s",
				  child);
	if (!ori_handle_shut(group, ORI_HANDLE_P2P_COPY_GROUP, __func__))
		return ori_handle_refused(group);
	group_close(group);
	return ORIEL_OK;
}

enum oriel_status oriel_p2p_copy_group_device_as(const struct oriel_p2p_copy_group *group,
						 uint32_t version, size_t size,
						 struct oriel_dev_copy_group *device)
{
	enum oriel_status status = ori_handle_check(group, ORI_HANDLE_P2P_COPY_GROUP, __func__);

	if (status == ORIEL_OK)
		status = ori_device_check(__func__, device, version, size, sizeof(*device));
	if (status == ORIEL_OK)
		*device = group->device;
	return status;
}
