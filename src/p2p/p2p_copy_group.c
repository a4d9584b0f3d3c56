/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the caller's as hooks of an end: it puts chunks into a ring and looks
 * whether all workers have come past them. See oriel/dev/copy_group.h for their half.
 */
#include <stdlib.h>

#include <oriel/dev/copy_group.h>
#include <sched.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "p2p/p2p_context.h"

#define CREW_DEPTH 64u
#define CREW_DEPTH_MAX 256u

static_assert(sizeof(struct oriel_dev_job) == 128 && sizeof(struct oriel_dev_worker) == 128,
	      "lines of their own");

/* Jobs [oldest, posted) are in the ring; those that the end knows to be done have no slot. */
struct crew_side {
	uint64_t oldest, posted;
	const void *slots[CREW_DEPTH_MAX];
};

struct oriel_p2p_copy_group {
	struct oriel_p2p_context *hub;
	struct p2p_area area;
	struct oriel_dev_copy_group device;
	uint64_t *ended;
	struct crew_side sides[2];
};

/* Jobs that all workers are past. */
static uint64_t crew_done(const struct oriel_p2p_copy_group *crew, enum oriel_dev_side side)
{
	const struct oriel_dev_worker *records = crew->device.records[side];
	uint64_t done = UINT64_MAX;

	for (uint32_t i = 0; i < crew->device.workers; i++) {
		/* Acquire: with oriel_dev_copy_group_done(), for what the worker wrote. */
		uint64_t his = oriel_dev_load_acquire(&records[i].done);

		if (his < done)
			done = his;
	}
	return done;
}

static void crew_post(struct oriel_p2p_copy_group *crew, enum oriel_dev_side side,
		      const struct oriel_p2p_chunk *chunk)
{
	struct crew_side *s = &crew->sides[side];
	struct oriel_dev_job *job = &crew->device.jobs[side][s->posted % crew->device.depth];

	s->slots[s->posted % crew->device.depth] = chunk->slot;
	job->chunk = (struct oriel_dev_chunk){.slot = chunk->slot,
					      .buffer = chunk->buffer,
					      .offset = chunk->offset,
					      .length = chunk->length,
					      .user = (uintptr_t)chunk->user,
					      .number = s->posted,
					      .channel = chunk->channel,
					      .index = chunk->index};
	s->posted++;
	/* Release: with oriel_copy_group_wait(). */
	oriel_dev_store_release(&job->posted, s->posted);
}

static enum oriel_status crew_ask(struct oriel_p2p_copy_group *crew, enum oriel_dev_side side,
				  const struct oriel_p2p_chunk *chunk)
{
	struct crew_side *s = &crew->sides[side];
	uint32_t depth = crew->device.depth;

	for (uint64_t i = s->oldest; i < s->posted; i++) {
		if (s->slots[i % depth] != chunk->slot)
			continue;
		if (i >= crew_done(crew, side))
			return ORIEL_AGAIN;
		s->slots[i % depth] = NULL;
		while (s->oldest < s->posted && !s->slots[s->oldest % depth])
			s->oldest++;
		return ORIEL_OK;
	}
	if (s->posted - s->oldest < depth)
		crew_post(crew, side, chunk);
	return ORIEL_AGAIN;
}

static enum oriel_status crew_pack(void *context, const struct oriel_p2p_chunk *chunk)
{
	return crew_ask(context, ORIEL_DEV_PACK, chunk);
}

static enum oriel_status crew_unpack(void *context, const struct oriel_p2p_chunk *chunk)
{
	return crew_ask(context, ORIEL_DEV_UNPACK, chunk);
}

static bool crew_is_inside(const struct oriel_p2p_copy_group *crew)
{
	for (unsigned side = 0; side < 2; side++)
		for (uint32_t i = 0; i < crew->device.workers; i++)
			if (oriel_dev_load_acquire(&crew->device.records[side][i].inside))
				return true;
	return false;
}

static void crew_cancel(void *context, enum oriel_status status)
{
	struct oriel_p2p_copy_group *crew = context;
	uint64_t deadline = ori_deadline(crew->hub->timeout_ns);

	oriel_dev_store_release(crew->ended, (uint64_t)(int64_t)status);
	/* A worker says that it enters, does the same, and looks whether it may. */
	oriel_dev_fence_full();
	while (crew_is_inside(crew)) {
		if (ori_deadline_passed(deadline)) {
			ori_log(ORIEL_LOG_WARN, "workers of a crew have not left in time");
			return;
		}
		sched_yield();
	}
}

const struct oriel_p2p_hooks *oriel_p2p_copy_group_hooks(void)
{
	static const struct oriel_p2p_hooks hooks = {.size = sizeof(hooks),
						     .pack = crew_pack,
						     .unpack = crew_unpack,
						     .cancel = crew_cancel};

	return &hooks;
}

/* Both rings, what both sides' workers say, and the word that it is over. */
static enum oriel_status crew_fill(struct oriel_p2p_copy_group *crew)
{
	struct oriel_dev_copy_group *d = &crew->device;
	size_t jobs = d->depth * sizeof(*d->jobs[0]), records = d->workers * sizeof(*d->records[0]);
	enum oriel_status st;

	st = ori_area_open(&crew->area, 2 * (jobs + records) + ORIEL_DEV_LINE);
	if (st == ORIEL_OK)
		st = ori_p2p_context_pin(crew->hub, &crew->area);
	if (st != ORIEL_OK)
		return st;
	for (unsigned side = 0; side < 2; side++) {
		char *at = crew->area.base + side * (jobs + records);

		d->jobs[side] = (struct oriel_dev_job *)(void *)at;
		d->records[side] = (struct oriel_dev_worker *)(void *)(at + jobs);
	}
	crew->ended = (uint64_t *)(void *)(crew->area.base + 2 * (jobs + records));
	d->ended = crew->ended;
	return ORIEL_OK;
}

static void crew_close(struct oriel_p2p_copy_group *crew)
{
	/* Who has never entered may still be about to. */
	if (crew->ended && !oriel_dev_load_acquire(crew->ended))
		crew_cancel(crew, ORIEL_ERR_ABORTED);
	ori_p2p_context_unpin(crew->hub, &crew->area);
	if (crew->area.mem)
		ori_area_close(&crew->area);
	ori_handle_free(crew);
}

/* The area is private by now: workers in the child see that it is over. */
static void crew_fork_one(void *object)
{
	const struct oriel_p2p_copy_group *crew = object;

	oriel_dev_store_release(crew->ended, (uint64_t)(int64_t)ORIEL_ERR_FORKED);
}

static void crew_fork_child(void)
{
	ori_handle_each(ORI_HANDLE_P2P_CREW, crew_fork_one);
}

enum oriel_status oriel_p2p_copy_group_create(struct oriel_p2p_context *hub,
					      const struct oriel_p2p_copy_group_attr *caller,
					      struct oriel_p2p_copy_group **out)
{
	static const struct ori_fork_hook hook = {.child = crew_fork_child};
	struct oriel_p2p_copy_group_attr attr;
	struct oriel_p2p_copy_group *crew;
	enum oriel_status st = ori_handle_check(hub, ORI_HANDLE_P2P_CONTEXT, __func__);

	if (st == ORIEL_OK)
		st = ori_attr_read("oriel_p2p_copy_group_attr", caller, &attr, sizeof(attr));
	if (st != ORIEL_OK)
		return st;
	if (!out)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_copy_group_create: crew is NULL");
	if (attr.workers > ORIEL_DEV_COPY_GROUP || attr.depth > CREW_DEPTH_MAX)
		return ori_fail(ORIEL_ERR_RANGE,
				"a crew of %u workers and %u chunks, not %u and %u", attr.workers,
				attr.depth, ORIEL_DEV_COPY_GROUP, CREW_DEPTH_MAX);
	crew = ori_handle_alloc(ORI_HANDLE_P2P_CREW, sizeof(*crew));
	if (!crew)
		return ori_fail(ORIEL_ERR_NOMEM, "no memory for a crew");
	crew->hub = hub;
	crew->device = (struct oriel_dev_copy_group){
		.magic = ORIEL_DEV_MAGIC,
		.version = ORIEL_DEV_VERSION,
		.workers = attr.workers ? attr.workers : 1,
		.depth = attr.depth ? attr.depth : CREW_DEPTH,
		.timeout_ns = attr.timeout_ns ? attr.timeout_ns : hub->timeout_ns,
	};
	st = crew_fill(crew);
	if (st != ORIEL_OK) {
		crew_close(crew);
		return st;
	}
	ori_fork_add(ORI_FORK_CREW, &hook);
	ori_handle_open(crew, NULL);
	*out = crew;
	return ORIEL_OK;
}

void oriel_p2p_copy_group_destroy(struct oriel_p2p_copy_group *crew)
{
	if (ori_handle_shut(crew, ORI_HANDLE_P2P_CREW, __func__))
		crew_close(crew);
}

enum oriel_status oriel_p2p_copy_group_device(const struct oriel_p2p_copy_group *crew,
					      struct oriel_dev_copy_group *device)
{
	enum oriel_status st = ori_handle_check(crew, ORI_HANDLE_P2P_CREW, __func__);

	if (st != ORIEL_OK)
		return st;
	if (!device)
		return ori_fail(ORIEL_ERR_INVALID, "oriel_p2p_copy_group_device: device is NULL");
	*device = crew->device;
	return ORIEL_OK;
}
